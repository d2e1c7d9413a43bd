"""The icons of models, read back as PNG files."""

from __future__ import annotations

import base64
import string
import struct
import zlib

import pytest

from open_webui_openrouter_pipe.host.model_rows import SIZE_PIXELS, icon

PREFIX = "data:image/png;base64,"
WHITE = (255, 255, 255)


def pixels_of(url: str) -> list[list[tuple[int, ...]]]:
    """The colours of an icon, row by row; every chunk's checksum is verified."""
    png = base64.b64decode(url.removeprefix(PREFIX), validate=True)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        content = png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (SIZE_PIXELS, SIZE_PIXELS, 4, 3, 0, 0, 0)
    palette = [tuple(chunks[b"PLTE"][start : start + 3]) for start in range(0, 48, 3)]
    raw, width = zlib.decompress(chunks[b"IDAT"]), 1 + SIZE_PIXELS // 2
    assert len(raw) == width * SIZE_PIXELS
    rows = [raw[start : start + width] for start in range(0, len(raw), width)]
    assert {row[0] for row in rows} == {0}
    return [[palette[shade] for byte in row[1:] for shade in (byte >> 4, byte & 15)] for row in rows]


@pytest.mark.parametrize(
    ("provider", "name", "colour"),
    [("anthropic", "Anthropic", (0xD0, 0x72, 0x50)), ("z-ai", "Z.AI", (0x2D, 0x5B, 0xFF))],
)
def test_a_known_provider_has_its_colour(provider: str, name: str, colour: tuple[int, int, int]) -> None:
    """The letter is white, in the middle, and leaves the edges to the colour."""
    rows = pixels_of(icon(provider, name))
    edges = [*rows[0], *rows[-1], *(row[0] for row in rows), *(row[-1] for row in rows)]
    assert set(edges) == {colour}
    white = [(x, y) for y, row in enumerate(rows) for x, seen in enumerate(row) if seen == WHITE]
    assert 60 < len(white) < 400
    assert {min(y for _, y in white), max(y for _, y in white)} <= set(range(8, 40))


def test_each_letter_has_its_shape() -> None:
    """Every letter and digit is another one, and a name without any has a dot."""
    names = [*string.ascii_uppercase, *string.digits, "…"]
    shapes = {icon("someone", name) for name in names}
    assert len(shapes) == len(names)
    assert icon("someone", "(m)") == icon("someone", "Mistral")


def test_other_providers_get_a_colour_of_their_name() -> None:
    """The same one each time, dark enough for white, and another one for another name."""
    assert icon("thedrummer", "TheDrummer") == icon("thedrummer", "TheDrummer")
    backgrounds = {pixels_of(icon(f"provider-{number}", "P"))[0][0] for number in range(40)}
    assert len(backgrounds) > 30
    assert max(sum(colour) for colour in backgrounds) < 480


def test_an_icon_is_small() -> None:
    """Seven hundred of them take less than half a megabyte."""
    assert max(len(icon("someone", letter)) for letter in string.ascii_uppercase) < 600
