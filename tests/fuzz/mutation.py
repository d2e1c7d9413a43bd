"""Damages inputs: bytes, texts and JSON, with what readers have tripped over. All dice are passed in."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKER: Final = "[00000000000000010000]: #"
DEEP: Final = 300
"""Levels: more than a value may have, and as few as every reader of JSON takes."""

SEEDS: Final[Mapping[str, Any]] = json.loads(
    (ROOT / "tests" / "data" / "fuzz" / "seeds.json").read_text("utf-8")
)
"""What is put into inputs, and some inputs."""
TEXTS: Final[tuple[str, ...]] = (
    *SEEDS["texts"],
    *("9" * 4400, f"&#{'9' * 4400};"),  # more digits than Python reads
    *("[" * DEEP, "{" * DEEP, '{"a":' * DEEP),
)
VALUES: Final[tuple[Any, ...]] = tuple(SEEDS["values"])


def _deep() -> Any:
    value: Any = "x"
    for level in range(DEEP):
        value = [value] if level % 2 else {"type": value}
    return value


_DEEP: Final = _deep()


def text(dice: Random, given: str, others: tuple[str, ...] = TEXTS) -> str:
    """A text with one thing put in, taken out, doubled or exchanged."""
    start, end = sorted(dice.randrange(len(given) + 1) for _ in range(2))
    end = min(end, start + dice.choice((1, 8, 64, 4096)))
    found = dice.choice((dice.choice(TEXTS), dice.choice(others)))
    match dice.randrange(5):
        case 0:
            return given[:start] + found + given[start:]
        case 1:
            return given[:start] + given[end:]
        case 2:
            return given[:end] + given[start:end] * dice.choice((1, 2, 40)) + given[end:]
        case 3:
            return given[:start] + found + given[end:]
    return given[:start]


def data(dice: Random, given: bytes) -> bytes:
    """Bytes with a bit turned, or changed as a text is."""
    if given and dice.random() < 0.4:
        at = dice.randrange(len(given))
        return given[:at] + bytes([given[at] ^ 1 << dice.randrange(8)]) + given[at + 1 :]
    changed = text(
        dice,
        given.decode("latin-1"),
        tuple(each.encode("utf-8", "replace").decode("latin-1") for each in TEXTS),
    )
    return changed.encode("latin-1", "replace")


def value(dice: Random, given: Any) -> Any:
    """A JSON value in which one to four members are others, gone, doubled, renamed, or texts that are changed."""
    whole = [copy.deepcopy(given)]
    for _ in range(dice.choice((1, 1, 2, 4))):
        places = [*_places(whole)]
        holder, key = dice.choice(places)
        other_holder, other_key = dice.choice(places)
        match dice.randrange(8):
            case 0 | 1:
                holder[key] = copy.deepcopy(dice.choice((*VALUES, dice.choice(TEXTS), _DEEP)))
            case 2 if holder is not whole:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 4 if isinstance(holder, dict):
                holder[text(dice, key)] = holder.pop(key)
            case 5:
                holder[key] = copy.deepcopy(other_holder[other_key])
            case _ if isinstance(holder[key], str):
                holder[key] = text(dice, holder[key])
            case _ if isinstance(holder[key], int | float):
                holder[key] = dice.choice((-holder[key], str(holder[key]), holder[key] + 0.5))
    return whole[0]


def _places(holder: Any) -> Any:
    """All members of a value with what holds them."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])
