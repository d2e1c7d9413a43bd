"""Curves of what grows, both axes by powers of ten, one frame a subject. Owns the picture and nothing that is in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from pathlib import Path

_FRAME: Final = (620, 420)
_MARGINS: Final = (56, 36, 240, 40)
"""Left, top, right for the names, and bottom."""
_COLUMNS: Final = 3
_COLOURS: Final = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
    "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#393b79", "#b5651d",
)  # fmt: skip
_INK, _GRID = "#222222", "#dddddd"
_LEAST_MS: Final = 0.1


def draw_curves(found: dict[str, Any], path: Path) -> None:
    """Draw milliseconds by size, for each stage of each subject; a dashed line grows like its size."""
    rows = -(-len(found) // _COLUMNS)
    image = Image.new("RGB", (_FRAME[0] * min(_COLUMNS, len(found)), _FRAME[1] * rows), "white")
    for at, (subject, each) in enumerate(found.items()):
        corner = (at % _COLUMNS * _FRAME[0], at // _COLUMNS * _FRAME[1])
        _Frame(ImageDraw.Draw(image), corner, each).draw(f"{subject}: ms by {each['things']}")
    image.save(path)


class _Frame:
    def __init__(self, draw: ImageDraw.ImageDraw, corner: tuple[int, int], subject: dict[str, Any]) -> None:
        self._draw, self._corner = draw, corner
        self._font = ImageFont.load_default(12)
        self._sizes: list[int] = subject["sizes"]
        self._curves = {
            name: [max(_LEAST_MS, 1e3 * seconds) for seconds in stage["seconds"]]
            for name, stage in subject["stages"].items()
        }
        highest = max(max(curve) for curve in self._curves.values())
        self._decades = math.log10(_LEAST_MS), math.ceil(math.log10(highest))

    def draw(self, title: str) -> None:
        left, top, right, bottom = _MARGINS
        self._text((left, 10), title)
        low, high = self._decades
        for decade in range(round(low), round(high) + 1):
            ends = [self._at(size, 10.0**decade) for size in (self._sizes[0], self._sizes[-1])]
            self._draw.line(ends, fill=_GRID)
            self._text((4, ends[0][1] - self._corner[1] - 7), f"{10.0**decade:g}")
        for size in self._sizes:
            x = self._at(size, _LEAST_MS)[0] - self._corner[0]
            self._text((x - 14, _FRAME[1] - bottom + 6), f"{size:,}")
        middle = 10 ** (sum(self._decades) / 2 - 0.5)
        for start in range(0, 100, 4):
            ends = [self._linear(middle, share / 100) for share in (start, start + 2)]
            self._draw.line(ends, fill="#999999")
        for at, (name, curve) in enumerate(self._curves.items()):
            colour = _COLOURS[at % len(_COLOURS)]
            points = [self._at(size, taken) for size, taken in zip(self._sizes, curve, strict=True)]
            self._draw.line(points, fill=colour, width=2)
            self._text((_FRAME[0] - right + 10, top + 18 * at), name, colour)

    def _linear(self, milliseconds: float, share: float) -> tuple[float, float]:
        """Where what grows like its size is behind this share of all sizes."""
        grown = (self._sizes[-1] / self._sizes[0]) ** share
        return self._at(self._sizes[0] * grown, milliseconds * grown)

    def _at(self, size: float, milliseconds: float) -> tuple[float, float]:
        left, top, right, bottom = _MARGINS
        low, high = self._decades
        x = math.log(size / self._sizes[0]) / math.log(self._sizes[-1] / self._sizes[0])
        y = (math.log10(milliseconds) - low) / (high - low)
        width, height = _FRAME[0] - left - right, _FRAME[1] - top - bottom
        return self._corner[0] + left + x * width, self._corner[1] + top + (1 - y) * height

    def _text(self, at: tuple[float, float], text: str, colour: str = _INK) -> None:
        self._draw.text(
            (self._corner[0] + at[0], self._corner[1] + at[1]), text, fill=colour, font=self._font
        )
