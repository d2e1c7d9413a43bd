"""What is wrong with the value of a valve, as people read it: what of it, what was probably meant, an example. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..words.lines import notice
from .errors import redact

MOST_PROBLEMS: Final = 5
"""Of one valve; a line of more is not read."""
_READ_CHARACTERS: Final = 100
_SHOWN_CHARACTERS: Final = 40


class Problem(NamedTuple):
    """A valve by its name, what is wrong with it, and a line about what it takes, "" where that says nothing more."""

    valve: str
    what: str
    takes: str = ""

    @property
    def line(self) -> str:
        """The whole of it."""
        return notice("problem", valve=self.valve, what=self.what, takes=self.takes)


@dataclass(frozen=True, slots=True)
class NamedModels:
    """The ids of models in a valve, or patterns of them; `takes` is a line about what it takes."""

    valve: str
    names: tuple[str, ...]
    takes: str = ""
    are_patterns: bool = False


@dataclass(frozen=True, slots=True)
class Checks:
    """What is wrong with settings, and the names in them that others know: models, and groups by their valves."""

    problems: tuple[Problem, ...] = ()
    models: tuple[NamedModels, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NO_CHECKS: Final = Checks()


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that a word is closest to, in upper or lower case; "" where none is close."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:_READ_CHARACTERS].lower(), names, n=1)
    return names[found[0]] if found else ""


def unknown_word(
    valve: str,
    word: str,
    *,
    near: str = "",
    takes: str = "",
) -> Problem:
    """Return that a word of a valve means nothing, and which one was perhaps meant. A key is not shown."""
    shown = quoted(word)
    what = notice("problem_word_near", word=shown, near=near) if near else notice("problem_word", word=shown)
    return Problem(valve, what, takes)


def example(text: str) -> str:
    """Return the line that shows what a valve takes, "" without an example."""
    return notice("problem_example", example=text) if text else ""


def quoted(word: str) -> str:
    """Return the beginning of a word, as it can stand between backquotes."""
    plain = redact(word).replace("`", "'")
    return plain if len(plain) <= _SHOWN_CHARACTERS else f"{plain[:_SHOWN_CHARACTERS]}…"
