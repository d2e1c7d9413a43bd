"""Draws the icons of models: the first letter of who made it, white on that provider's colour.

Pure: the same name gives the same bytes. Nothing is fetched, and the data URLs are of the kind that Open WebUI accepts
(it refuses SVG). Of one letter all icons share their pixels, which hold shades; only the palette differs.
Source of the format: the PNG specification (W3C), colour type 3.
"""

from __future__ import annotations

import base64
import colorsys
import hashlib
import math
import struct
import zlib
from functools import cache
from itertools import pairwise
from typing import Final

SIZE_PIXELS: Final = 48

_LETTER_HEIGHT_PIXELS: Final = 22.0
_STROKE_PIXELS: Final = 4.4
_SHADES: Final = 16
"""As many as four bits can number, from the colour alone to white."""

_STROKES: Final = {
    "A": "06 20 46,14 34",
    "B": "00 06 36 45 44 33 03,33 42 41 30 00",
    "C": "41 30 10 01 05 16 36 45",
    "D": "00 06 26 44 42 20 00",
    "E": "40 00 06 46,03 33",
    "F": "40 00 06,03 33",
    "G": "41 30 10 01 05 16 36 45 43 23",
    "H": "00 06,40 46,03 43",
    "I": "20 26,10 30,16 36",
    "J": "40 45 36 16 05",
    "K": "00 06,40 03 46",
    "L": "00 06 46",
    "M": "06 00 23 40 46",
    "N": "06 00 46 40",
    "O": "10 01 05 16 36 45 41 30 10",
    "P": "06 00 30 41 42 33 03",
    "Q": "10 01 05 16 36 45 41 30 10,24 46",
    "R": "06 00 30 41 42 33 03,23 46",
    "S": "41 30 10 01 02 13 33 44 45 36 16 05",
    "T": "00 40,20 26",
    "U": "00 05 16 36 45 40",
    "V": "00 26 40",
    "W": "00 16 22 36 40",
    "X": "00 46,40 06",
    "Y": "00 23 40,23 26",
    "Z": "00 40 06 46",
    "0": "10 01 05 16 36 45 41 30 10,32 14",
    "1": "11 20 26,16 36",
    "2": "01 10 30 41 42 06 46",
    "3": "01 10 30 41 42 33 23,33 44 45 36 16 05",
    "4": "36 30 04 44",
    "5": "40 00 03 33 44 45 36 16 05",
    "6": "41 30 10 01 05 16 36 45 44 33 03",
    "7": "00 40 16",
    "8": "13 02 01 10 30 41 42 33 13 04 05 16 36 45 44 33",
    "9": "05 16 36 45 41 30 10 01 02 13 43",
}
"""Lines through points, column (0 to 4) and row (0 to 6) each; the pen is lifted at a comma."""
_UNKNOWN: Final = "23 23"
"""A dot."""

_COLOURS: Final = {
    "amazon": "e68a00",
    "anthropic": "d07250",
    "cohere": "3e6b58",
    "deepseek": "4d6bfe",
    "google": "3b7ded",
    "meta-llama": "0a6ae8",
    "microsoft": "0078d4",
    "minimax": "e0384a",
    "mistralai": "f4660f",
    "moonshotai": "2b3350",
    "nvidia": "6a9f10",
    "openai": "0f8a6d",
    "openrouter": "6467f2",
    "perplexity": "20808d",
    "qwen": "615ced",
    "x-ai": "3a3a3c",
    "z-ai": "2d5bff",
}
"""Near the colour by which a provider is known; others get one of their name."""


def icon(provider: str, name: str) -> str:
    """Return a data URL of the icon of a provider, by its part of model ids and its displayed name."""
    letter = next((character for character in name.upper() if character in _STROKES), "")
    colour = bytes.fromhex(_COLOURS[provider]) if provider in _COLOURS else _colour_of(provider)
    palette = bytes(
        channel + (255 - channel) * shade // (_SHADES - 1) for shade in range(_SHADES) for channel in colour
    )
    header = struct.pack(">IIBBBBB", SIZE_PIXELS, SIZE_PIXELS, 4, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", _pixels(letter)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _colour_of(provider: str) -> bytes:
    """A hue of the name, always dark enough for white letters."""
    hue = int.from_bytes(hashlib.sha256(provider.encode("utf-8", "surrogatepass")).digest()[:2], "big")
    return bytes(round(channel * 255) for channel in colorsys.hls_to_rgb(hue / 65536, 0.4, 0.5))


@cache
def _pixels(letter: str) -> bytes:
    """The compressed rows of a letter, two pixels a byte: the nearer to a stroke, the lighter the shade."""
    unit = _LETTER_HEIGHT_PIXELS / 6
    left, top = SIZE_PIXELS / 2 - 2 * unit, SIZE_PIXELS / 2 - 3 * unit
    lines = [
        ((left + unit * int(a[0]), top + unit * int(a[1])), (left + unit * int(b[0]), top + unit * int(b[1])))
        for stroke in _STROKES.get(letter, _UNKNOWN).split(",")
        for a, b in pairwise(stroke.split())
    ]
    middle, reach_x, reach_y = SIZE_PIXELS / 2, 2 * unit + _STROKE_PIXELS, 3 * unit + _STROKE_PIXELS
    rows = bytearray()
    for y in range(SIZE_PIXELS):
        shades = [0] * SIZE_PIXELS
        for x in range(SIZE_PIXELS):
            if abs(x - middle) < reach_x and abs(y - middle) < reach_y:
                distance = min(_distance((x + 0.5, y + 0.5), *line) for line in lines)
                lightness = min(1.0, max(0.0, _STROKE_PIXELS / 2 + 0.5 - distance))
                shades[x] = round((_SHADES - 1) * lightness)
        rows.append(0)  # no filter
        rows += bytes(high << 4 | low for high, low in zip(shades[::2], shades[1::2], strict=True))
    return zlib.compress(bytes(rows), 9)


def _distance(point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]) -> float:
    """From a point to a line between two others, in pixels."""
    (x, y), (x1, y1), (x2, y2) = point, start, end
    length_squared = (x2 - x1) ** 2 + (y2 - y1) ** 2
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length_squared if length_squared else 0.0
    along = min(1.0, max(0.0, along))
    return math.hypot(x - x1 - along * (x2 - x1), y - y1 - along * (y2 - y1))
