"""The pictures that the stand-in draws: small, real, and such that a test or an eye can tell what they follow from.

Owns the PNG and its colours: the middle has the colour that the prompt names (or one that follows from its text), the
frame the middle colour of the picture that was edited. It must not know requests.
"""

from __future__ import annotations

import hashlib
from io import BytesIO

from PIL import Image

SIDE_PIXELS = 64
FRAME_PIXELS = 8
Colour = tuple[int, ...]
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


def draw(prompt: str, edited: bytes | None = None, aspect_ratio: str = "1:1") -> bytes:
    """A PNG whose longer side has SIDE_PIXELS, with a frame of FRAME_PIXELS."""
    middle = colour_of(prompt)
    wide, high = map(int, aspect_ratio.split(":"))
    size = (SIDE_PIXELS * wide // max(wide, high), SIDE_PIXELS * high // max(wide, high))
    picture = Image.new("RGB", size, middle if edited is None else middle_colour(edited))
    picture.paste(middle, (FRAME_PIXELS, FRAME_PIXELS, size[0] - FRAME_PIXELS, size[1] - FRAME_PIXELS))
    content = BytesIO()
    picture.save(content, "png")
    return content.getvalue()


def colour_of(prompt: str) -> Colour:
    """The last colour that the prompt names, or one that follows from its text."""
    words = [word.strip(".,;:!?\"'").lower() for word in prompt.split()]
    named = [COLOURS[word] for word in words if word in COLOURS]
    return named[-1] if named else _digested(prompt.encode())


def middle_colour(picture: bytes) -> Colour:
    """The colour in the middle of a picture; where it is none, one that follows from its bytes."""
    return _pixel(picture, 0.5)


def frame_colour(picture: bytes) -> Colour:
    """The colour of the frame of a picture."""
    return _pixel(picture, 0)


def _pixel(picture: bytes, share: float) -> Colour:
    """The pixel at a share of width and height."""
    try:
        opened = Image.open(BytesIO(picture)).convert("RGB")
    except (OSError, SyntaxError):
        return _digested(picture)
    across, down = (int(side * share) for side in opened.size)
    return tuple(opened.crop((across, down, across + 1, down + 1)).tobytes())


def _digested(content: bytes) -> Colour:
    return tuple(hashlib.sha256(content).digest()[:3])
