"""The commands that a user types as messages of their own, read into values; what each of them does stands elsewhere.

Only a message that is nothing else is one: its first word, in upper or lower case. A command stands in the chat, and
holds for the turns after it, on this branch and on no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

MAX_COMMAND_CHARACTERS: Final = 1_000
"""A longer message was pasted, or is meant for the model."""
_MAX_RANGES: Final = 50
_TURNS: Final = re.compile(r"(\d{1,6})(?:[-\u2013](\d{1,6}))?", re.ASCII)
_SEPARATORS: Final = re.compile(r"[,;\s]+")

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
class Compact:
    """Summarize all but the newest turns now; `keep` says what must stand in the summary, "" for nothing special."""

    keep: str = ""


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


Command: TypeAlias = ShowContext | ShowCost | Compact | Restore | Discard | SetAim | Help | Misused


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
    read = _READERS.get(name.lower()) if text[1:2].strip() else None
    return (read(" ".join(argument.split())) or Misused(name.lower())) if read else None


def covers(turns: Iterable[range], turn: int) -> bool:
    """Return whether a command that names these turns is about the turn of this index; one that names none is."""
    named = tuple(turns)
    return not named or any(turn + 1 in each for each in named)


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
    "compact": Compact,
    "restore": partial(_of_turns, command=Restore),
    "discard": partial(_of_turns, command=Discard),
    "aim": lambda argument: SetAim(_AIMS[argument.lower()]) if argument.lower() in _AIMS else None,
    "help": lambda argument: None if argument else Help(),
}
