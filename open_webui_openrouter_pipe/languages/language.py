"""What a language is: its lines by name, and its forms of numbers, days and plurals.

The forms follow the Unicode CLDR, version 46. It must not know which lines there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Language:
    """A language by its ISO 639 `code`. `lines` are templates of `str.format` by name.

    `decimal` and `thousands` are the separators of numbers, `one` the counts that take a singular. `day` is the
    template of a day without its year, with `{day}` and `{month}`; `months` are their names, without which the month
    is a number.
    """

    code: str
    lines: Mapping[str, str]
    decimal: str = "."
    thousands: str = ","
    one: frozenset[int] = frozenset({1})
    day: str = "{day} {month}"
    months: tuple[str, ...] = ()

    def number(self, value: float, form: str) -> str:
        """Write a number in this form of Python's `format`, with the separators of the language."""
        return format(value, form).translate({ord("."): self.decimal, ord(","): self.thousands})

    def day_of_year(self, value: date) -> str:
        """Write a day without its year."""
        month = self.months[value.month - 1] if self.months else value.month
        return self.day.format(day=value.day, month=month)
