"""The commands that a user types as messages of their own, read into values; what each of them does stands elsewhere.

Only a message that is nothing else is one: its first word, in upper or lower case. A command stands in the chat, and
holds for the turns after it, on this branch and on no other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

MAX_COMMAND_CHARACTERS: Final = 1_000
"""A longer message was pasted, or is meant for the model."""
_MAX_RANGES: Final = 50
_TURNS: Final = re.compile(r"(\d{1,6})(?:[-\u2013](\d{1,6}))?", re.ASCII)
_PERIOD: Final = re.compile(r"(?:20\d\d-(?:0[1-9]|1[0-2])|[1-9]\d?|[12]\d\d|3[0-5]\d|36[0-6])?", re.ASCII)
"""A month, or up to 366 days."""
_SEPARATORS: Final = re.compile(r"[,;\s]+")
_NAME: Final = re.compile(r"/([a-z\u00df-\u024f]{1,30})")
"""One word of Latin letters: a path has more, and a sentence in Chinese has no blanks."""

Aim = Literal["faithful", "thrifty"]
"""How far a chat is shortened: not before it is large for its window, or to the size at which it costs least."""
_AIMS: Final[Mapping[str, Aim]] = {aim: aim for aim in get_args(Aim)}


@dataclass(frozen=True, slots=True)
class ShowContext:
    """Show what the next request is made of."""


@dataclass(frozen=True, slots=True)
class ShowCost:
    """Show what the chat has cost."""


@dataclass(frozen=True, slots=True)
class ShowSpending:
    """Show what was spent in a month such as "2026-10", or in so many days."""

    period: str


@dataclass(frozen=True, slots=True)
class Compact:
    """Summarize all but the newest turns now; `keep` says what must stand in the summary, "" for nothing special."""

    keep: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Send these turns verbatim again, counted from 1; all that fit where none are named."""

    turns: tuple[range, ...] = ()


@dataclass(frozen=True, slots=True)
class Discard:
    """Have the summaries of these turns made again, counted from 1; all of them where none are named."""

    turns: tuple[range, ...] = ()


@dataclass(frozen=True, slots=True)
class SetAim:
    """Go by another aim from now on."""

    aim: Aim


@dataclass(frozen=True, slots=True)
class Help:
    """Say what the commands are."""


@dataclass(frozen=True, slots=True)
class Misused:
    """A command whose arguments mean nothing; `name` is its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """One word that reads like a command and is none; `nearest` is the name of a similar one, or ""."""

    name: str
    nearest: str = ""


Command: TypeAlias = (
    ShowContext | ShowCost | ShowSpending | Compact | Restore | Discard | SetAim | Help | Misused | Unknown
)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command, and how many turns of the chat come before it: it holds from the turn of this index on."""

    turn: int
    command: Command


def read_command(text: str) -> Command | None:
    """Return the command that a message is, None where it is not one."""
    text = text.strip()
    if not text.startswith("/") or len(text) > MAX_COMMAND_CHARACTERS:
        return None
    name, argument = [*text[1:].split(maxsplit=1), "", ""][:2]
    name = _OLD_NAMES.get(name.lower(), name.lower())
    if text[1:2].strip() and name in _READERS:
        return _READERS[name](" ".join(argument.split())) or Misused(name)
    if not (found := _NAME.fullmatch(text.lower())):
        return None
    near = difflib.get_close_matches(found[1], [*_READERS, *_OLD_NAMES], n=1)
    return Unknown(found[1], _OLD_NAMES.get(near[0], near[0]) if near else "")


def covers(turns: Sequence[range], turn: int) -> bool:
    """Return whether a command that names these turns is about the turn of this index; one that names none is."""
    return not turns or any(turn + 1 in each for each in turns)


def commanded_aims(commands: Iterable[ChatCommand]) -> Iterator[tuple[int, Aim]]:
    """Yield each aim that the user has commanded, with the index of the turn that it holds from."""
    return ((each.turn, each.command.aim) for each in commands if isinstance(each.command, SetAim))


def _of_turns(argument: str, command: type[Restore | Discard]) -> Command | None:
    """Read "3", "3-8" and several of these; None where it is anything else."""
    words = [word for word in _SEPARATORS.split(argument) if word]
    found = [_TURNS.fullmatch(word) for word in words[:_MAX_RANGES]]
    ranges = tuple(range(int(each[1]), int(each[2] or each[1]) + 1) for each in found if each)
    is_read = len(ranges) == len(words) and all(each and each.start for each in ranges)
    return command(ranges) if is_read else None


_READERS: Final[Mapping[str, Callable[[str], Command | None]]] = {
    "context": lambda argument: None if argument else ShowContext(),
    "cost": lambda argument: None if argument else ShowCost(),
    "spending": lambda argument: ShowSpending(argument or "30") if _PERIOD.fullmatch(argument) else None,
    "summarize": Compact,
    "restore": partial(_of_turns, command=Restore),
    "discard": partial(_of_turns, command=Discard),
    "aim": lambda argument: SetAim(_AIMS[argument.lower()]) if argument.lower() in _AIMS else None,
    "help": lambda argument: None if argument else Help(),
}
"""What reads the words behind each command; its name is also that of the line `help_{name}` that explains it."""

_OLD_NAMES: Final = {"compact": "summarize"}
"""Alone, `/compact` never arrives: it is a command of Open WebUI's page."""

COMMANDS: Final = tuple(_READERS)
"""The names of the commands, as people learn them."""
