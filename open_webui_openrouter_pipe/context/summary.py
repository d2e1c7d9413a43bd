"""What stands in for a segment: the summary as a value.

Owns what a model said of a segment, what is added to it without a model, the form in which both are kept, and
how large a summary may be. It must not ask a model, count tokens or render.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ROOM_SHARE = 0.15
LEAST_ROOM_TOKENS = 500
MOST_ROOM_TOKENS = 2_500

TOLD_LISTS = ("key_facts", "open_questions", "decisions", "action_items")
TOLD_FIELDS = ("summary_text", *TOLD_LISTS)
"""The five fields of a model's answer."""
ADDED_LISTS = ("constraints", "tool_facts", "mentioned", "details", "lost", "unfounded")
LATER_LISTS = ("unfounded",)
"""Lists that summaries of earlier versions do not have."""

RefusalReason: TypeAlias = Literal[
    "empty",
    "malformed",
    "longer than its source",
    "repeats its prompt",
    "cut off",
    "calls a tool",
    "reasoning only",
    "refused",
    "not founded in its source",
]


class SummaryRefused(ValueError):
    """A model's answer is no summary; `reason` says why, fit for a log and an audit."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(reason)
        self.reason: RefusalReason = reason


@dataclass(frozen=True, slots=True)
class Told:
    """What a model said of a segment."""

    summary_text: str
    key_facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    action_items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands in for a segment: a model's words, and what the segment itself says, word for word.

    `constraints` are the user's rules, all of them. `tool_facts` has one line for each tool call, `mentioned`
    names files and links. `details` are exact details that the model's words miss; `lost` is what had no
    room, and `unfounded` is what a model said with figures that stand nowhere in the segment: both are
    counted and not shown.
    """

    told: Told
    constraints: tuple[str, ...] = ()
    tool_facts: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unfounded: tuple[str, ...] = ()

    def state(self) -> dict[str, Any]:
        """The summary as a JSON value."""
        told = {"summary_text": self.told.summary_text, **_lists(self.told, TOLD_LISTS)}
        return {"told": told, **_lists(self, ADDED_LISTS)}

    @classmethod
    def of_state(cls, value: Any) -> Summary:
        """The summary of a value that `state` gave; raises ValueError when it is no such value."""
        if isinstance(value, dict):
            value = {name: [] for name in LATER_LISTS} | value
        told = _object(_object(value, ("told", *ADDED_LISTS))["told"], TOLD_FIELDS)
        text = told["summary_text"]
        if not isinstance(text, str):
            raise ValueError("the text of a summary is no text")  # noqa: TRY004 - stored data is malformed in one way
        return cls(Told(text, *_texts(told, TOLD_LISTS)), *_texts(value, ADDED_LISTS))


def room_tokens(source_tokens: int) -> int:
    """How large the rendering of a segment may be, in tokens."""
    return max(LEAST_ROOM_TOKENS, min(MOST_ROOM_TOKENS, int(source_tokens * ROOM_SHARE)))


def joined(told: Sequence[Told]) -> Told:
    """What was said of the parts of a segment, as one: texts in their order, each entry of a list once."""
    text = "\n\n".join(part.summary_text for part in told)
    lists = (dict.fromkeys(entry for part in told for entry in getattr(part, name)) for name in TOLD_LISTS)
    return Told(text, *map(tuple, lists))


def _lists(value: Told | Summary, names: Sequence[str]) -> dict[str, list[str]]:
    return {name: list(getattr(value, name)) for name in names}


def _object(value: Any, names: Collection[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != set(names):
        raise ValueError(f"a summary has exactly these fields: {', '.join(names)}")
    return value


def _texts(value: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for name in names:
        entries = value[name]
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise ValueError(f"{name} of a summary is no list of texts")
        yield tuple(entries)
