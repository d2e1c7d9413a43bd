"""The system prompt that a chat keeps sending, and a note of what has changed in it since.

The host fills a prompt's variables at each send and writes into it what it has just found, so that the first lines of
a request change while nobody has edited them, and the provider reads the whole chat anew. The chat's first prompt is
therefore sent again; where a few lines now read otherwise, a note that stands before the current turn says so. Kept
prompt and note together always say what the present prompt says. Owns the comparison and the note's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal, TypeAlias

PromptChange: TypeAlias = Literal["none", "lines", "new"]
"""How the present prompt differs from the kept one: not at all, in a few lines, or so far that it replaces it."""

MAX_NOTE_CHARACTERS: Final = 4_000
"""A note costs its full price with each request, about 1,000 tokens; a new prompt costs the whole chat once."""

_MOST_CHANGES: Final = 40
_MOST_LINES: Final = 40
"""How many changes there may be, and in each of them how many lines may come and go together."""

_LONG_LINE_CHARACTERS: Final = 200
"""Of a longer line only the sentences that differ are quoted."""

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?;])(?=\s)|(?<=[\u3002\uff01\uff1f\uff1b])")
"""Where a sentence ends: before a blank, and behind the full-width marks of Chinese and Japanese."""

_HEADING: Final = (
    "Your instructions stand at the beginning of this conversation as they were when it began. These lines of them "
    "have changed since, and now hold as follows:"
)


@dataclass(frozen=True, slots=True)
class SteadyPrompt:
    """The prompt that is sent, and the note that is sent before the current turn, "" for none."""

    sent: str
    note: str = ""
    change: PromptChange = "none"


@dataclass(frozen=True, slots=True)
class Change:
    """What the lines `old` of the kept prompt now read. The first of them is `line`, or would be; lines count from 1.

    `within` says that both are a part of that line alone, and that the line has `old` only once.
    """

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    within: bool = False


def steady_prompt(kept: str, present: str) -> SteadyPrompt:
    """Return what is sent of a chat whose kept prompt is `kept`, and whose prompt now is `present`."""
    if kept == present:
        return SteadyPrompt(present)
    if kept.strip() and present.strip() and (changes := changed_lines(kept, present)) is not None:
        note = write_note(changes)
        if len(note) <= MAX_NOTE_CHARACTERS:
            return SteadyPrompt(kept, note, "lines")
    return SteadyPrompt(present, change="new")


def changed_lines(kept: str, present: str) -> list[Change] | None:
    """Return how the present prompt's lines differ, None where that is more than a few.

    Where lines differ, it goes on at the nearest lines that are the same again; so the time grows with the length.
    """
    old, new = kept.split("\n"), present.split("\n")
    at = now = 0
    changes: list[Change] = []
    while at < len(old) or now < len(new):
        if at < len(old) and now < len(new) and old[at] == new[now]:
            at, now = at + 1, now + 1
            continue
        skipped = _nearest_match(old[at : at + _MOST_LINES], new[now : now + _MOST_LINES])
        if skipped is None or len(changes) == _MOST_CHANGES:
            return None
        removed, added = skipped
        changes += _quoted(at + 1, old[at : at + removed], new[now : now + added])
        at, now = at + removed, now + added
    return changes


def write_note(changes: Sequence[Change]) -> str:
    """Return the note about changes; each quoted line stands behind a mark, so that none can pass for one of ours."""
    pieces = [_HEADING]
    for change in changes:
        old, new = ("\n".join(f"> {line}" for line in lines) for lines in (change.old, change.new))
        name, was, reads, holds = f"Line {change.line}", "was", "It now reads", "holds"
        if len(change.old) > 1:
            name, was = f"Lines {change.line} to {change.line + len(change.old) - 1}", "were"
            reads, holds = "They now read", "hold"
        if change.within:
            name = f"A part of line {change.line}"
        if not change.old:
            where = f"After line {change.line - 1}" if change.line > 1 else "Before line 1"
            pieces.append(f"{where}, there is now:\n{new}")
        elif not change.new:
            pieces.append(f"{name} no longer {holds}:\n{old}")
        else:
            pieces.append(f"{name} {was}:\n{old}\n{reads}:\n{new}")
    return "\n\n".join(pieces)


def _nearest_match(old: Sequence[str], new: Sequence[str]) -> tuple[int, int] | None:
    """How many lines to skip on either side until both go on alike, the fewest in all; None where they never do.

    The ends are alike where both texts end within these lines.
    """
    ends = len(old) < _MOST_LINES and len(new) < _MOST_LINES
    for skipped in range(1, len(old) + len(new) + 1):
        for removed in range(max(0, skipped - len(new)), min(skipped, len(old)) + 1):
            added = skipped - removed
            if removed < len(old) and added < len(new) and old[removed] == new[added]:
                return removed, added
            if ends and removed == len(old) and added == len(new):
                return removed, added
    return None


def _quoted(line: int, old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Yield the change of some lines; where as many came as went, each long one with the part that differs."""
    if len(old) != len(new) or max(map(len, (*old, *new))) <= _LONG_LINE_CHARACTERS:
        yield Change(line, tuple(old), tuple(new))
        return
    for number, (before, after) in enumerate(zip(old, new, strict=True), start=line):
        yield _narrowed(number, before, after)


def _narrowed(line: int, old: str, new: str) -> Change:
    """The change of one line: the sentences that differ, if the line holds them once, and otherwise all of it."""
    before, after = _SENTENCE_ENDS.split(old), _SENTENCE_ENDS.split(new)
    head = _count_equal(before, after)
    tail = _count_equal(before[head:][::-1], after[head:][::-1])
    if head and head + tail == len(before):
        head -= 1  # something came between two sentences: it is shown behind the first
    was, reads = ("".join(each[head : len(each) - tail]) for each in (before, after))
    offset = len("".join(before[:head]))
    if was and old.find(was) == offset and old.find(was, offset + 1) < 0:
        return Change(line, (was,), (reads,), within=was != old)
    return Change(line, (old,), (new,))


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
