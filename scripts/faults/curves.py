"""The curves of a run as one picture: a panel for each unit, over the minutes of the run, with a line at each fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scripts.faults.samples import Points

COLUMNS = 2
WIDE, HIGH = 900, 330
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 34, 30
"""The margins of a panel, in pixels; at the right stand the names of its lines."""
FINENESS = 2
"""So many times larger than that it is drawn, then made smaller, so that lines are smooth."""
MOST_NAMES = 14
INK, PALE, FAULT = (40, 40, 40), (225, 225, 225), (190, 60, 60)
COLOURS = (
    (31, 119, 180),
    (255, 127, 14),
    (44, 160, 44),
    (148, 103, 189),
    (140, 86, 75),
    (227, 119, 194),
    (90, 90, 90),
    (188, 189, 34),
    (23, 190, 207),
)


def draw(curves: Mapping[str, Mapping[str, Points]], marks: Sequence[tuple[float, str]], path: Path) -> None:
    """Write the picture (PNG): what was measured by panel and line, and what happened, all by seconds."""
    rows = -(-len(curves) // COLUMNS)
    size = (COLUMNS * WIDE * FINENESS, max(rows, 1) * HIGH * FINENESS)
    picture = Image.new("RGB", size, "white")
    end = max((at for lines in curves.values() for points in lines.values() for at, _ in points), default=1.0)
    for number, (title, lines) in enumerate(curves.items()):
        corner = (number % COLUMNS * WIDE, number // COLUMNS * HIGH)
        _Panel(ImageDraw.Draw(picture), corner, end, _ceiling(lines)).draw(title, lines, marks)
    picture.resize((size[0] // FINENESS, size[1] // FINENESS), Image.Resampling.BOX).save(path)


def _ceiling(lines: Mapping[str, Points]) -> float:
    """A round number that no point exceeds."""
    most = max((value for points in lines.values() for _, value in points), default=0.0)
    step = 1.0
    while step * 10 < most:
        step *= 10
    return next((step * each for each in (1, 2, 3, 4, 5, 6, 8, 10) if step * each >= most), most)


class _Panel:
    """One panel, by its upper left corner in pixels, the last second, and the largest value."""

    def __init__(self, to: ImageDraw.ImageDraw, corner: tuple[int, int], end: float, ceiling: float) -> None:
        self._to, self._corner, self._end, self._ceiling = to, corner, end, ceiling

    def draw(self, title: str, lines: Mapping[str, Points], marks: Sequence[tuple[float, str]]) -> None:
        """Axes, faults, lines and their names, the highest first."""
        self._text((LEFT, 8), title, 15)
        self._axes()
        for at, what in marks:
            x, _ = self._place(at, 0)
            self._line([(x, TOP), (x, HIGH - BOTTOM)], FAULT, 1)
            self._text((x + 3, TOP - 12), what, 10, FAULT)
        colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(sorted(lines))}
        named = sorted(lines.items(), key=lambda line: -line[1][-1][1])
        for number, (name, points) in enumerate(named):
            colour = colours[name]
            self._line([self._place(at, value) for at, value in points], colour, 2)
            if number < MOST_NAMES:
                where = (WIDE - RIGHT + 8, TOP + number * 18)
                self._text(where, f"{name}: {points[-1][1]:.0f}", 12, colour)

    def _axes(self) -> None:
        for part in range(5):
            value = self._ceiling * part / 4
            _, y = self._place(0, value)
            self._line([(LEFT, y), (WIDE - RIGHT, y)], PALE, 1)
            self._text((8, y - 7), f"{value:g}", 12)
            at = self._end * part / 4
            x, _ = self._place(at, 0)
            self._text((x - 12, HIGH - BOTTOM + 6), f"{at / 60:.1f} min", 12)

    def _place(self, at: float, value: float) -> tuple[float, float]:
        wide, high = WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM
        return LEFT + wide * at / self._end, HIGH - BOTTOM - high * value / self._ceiling

    def _line(self, points: Sequence[tuple[float, float]], colour: tuple[int, int, int], width: int) -> None:
        self._to.line([self._fine(point) for point in points], fill=colour, width=width * FINENESS)

    def _text(
        self, at: tuple[float, float], text: str, size: int, colour: tuple[int, int, int] = INK
    ) -> None:
        self._to.text(self._fine(at), text, fill=colour, font=ImageFont.load_default(size * FINENESS))

    def _fine(self, point: tuple[float, float]) -> tuple[float, float]:
        return (self._corner[0] + point[0]) * FINENESS, (self._corner[1] + point[1]) * FINENESS
