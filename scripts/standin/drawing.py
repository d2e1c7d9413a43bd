"""The pictures that the stand-in draws: small, real, and such that a test or an eye can tell what they follow from.

Owns the PNG and its colours: the middle has the colour that the prompt names (or one that follows from its text), the
frame the middle colour of the picture that was edited. It must not know requests.
"""

from __future__ import annotations

import hashlib
import zlib

SIDE_PIXELS = 64
FRAME_PIXELS = 8
Colour = tuple[int, int, int]
COLOURS: dict[str, Colour] = {
    "red": (214, 40, 40),
    "orange": (247, 127, 0),
    "yellow": (252, 191, 73),
    "green": (42, 157, 80),
    "blue": (29, 78, 216),
    "purple": (124, 58, 237),
    "black": (17, 17, 17),
    "white": (250, 250, 250),
}
SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUECOLOUR = bytes([8, 2, 0, 0, 0])


def draw(prompt: str, edited: bytes | None = None, aspect_ratio: str = "1:1") -> bytes:
    """A PNG whose longer side has SIDE_PIXELS, with a frame of FRAME_PIXELS."""
    middle = colour_of(prompt)
    frame = middle if edited is None else middle_colour(edited)
    width, height = size_of(aspect_ratio)
    edge = bytes(frame) * width
    side, inner = bytes(frame) * FRAME_PIXELS, bytes(middle) * (width - 2 * FRAME_PIXELS)
    rows = [edge] * FRAME_PIXELS + [side + inner + side] * (height - 2 * FRAME_PIXELS) + [edge] * FRAME_PIXELS
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + TRUECOLOUR
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def colour_of(prompt: str) -> Colour:
    """The last colour that the prompt names, or one that follows from its text."""
    words = [word.strip(".,;:!?\"'").lower() for word in prompt.split()]
    named = [COLOURS[word] for word in words if word in COLOURS]
    return named[-1] if named else _digested(prompt.encode())


def middle_colour(picture: bytes) -> Colour:
    """The colour in the middle of a picture of ours; of any other one, a colour that follows from its bytes."""
    return _pixel(picture, 0.5)


def frame_colour(picture: bytes) -> Colour:
    """The colour of the frame of a picture of ours."""
    return _pixel(picture, 0)


def size_of(aspect_ratio: str) -> tuple[int, int]:
    """Width and height in pixels for a ratio such as 16:9."""
    wide, high = (int(number) for number in aspect_ratio.split(":"))
    longer = max(wide, high)
    return SIDE_PIXELS * wide // longer, SIDE_PIXELS * high // longer


def _pixel(picture: bytes, share: float) -> Colour:
    """The pixel at a share of width and height."""
    if picture[:8] != SIGNATURE or picture[24:29] != TRUECOLOUR or picture[37:41] != b"IDAT":
        return _digested(picture)
    width, height = int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
    try:
        rows = zlib.decompress(picture[41 : 41 + int.from_bytes(picture[33:37], "big")])
    except zlib.error:
        return _digested(picture)
    row_bytes = 1 + 3 * width
    at = int(height * share) * row_bytes + 1 + 3 * int(width * share)
    red, green, blue = rows[at : at + 3] if len(rows) == height * row_bytes else _digested(picture)
    return red, green, blue


def _digested(content: bytes) -> Colour:
    red, green, blue = hashlib.sha256(content).digest()[:3]
    return red, green, blue


def _chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
