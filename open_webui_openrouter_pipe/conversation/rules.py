"""Rules that the user set, kept word for word when the turn they stand in is left out.

Owns finding them and the note that carries them. Only user and system messages can hold a rule: what a tool
or the model wrote never becomes one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from ..responses.items import InputMessage, Item, is_message
from .conversation import Turn

RULE_OVERHEAD_TOKENS = 3
NOTE_OVERHEAD_TOKENS = 40
"""What the note costs beside its rules, at most."""
RULE_CHARACTERS = 400

OMISSION_LINE = re.compile(r"\[\d+ earlier turns? left out here to fit the model's context window\.\]")
"""How the note begins, so that it can be told from a message."""

_RULE = re.compile(r"\b(?:must|never|always)\b", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


NoteWriter: TypeAlias = Callable[[int, Sequence[str]], InputMessage | None]
"""Writes the message for a number of turns that are left out, with their rules."""


def user_rules(turn: Turn) -> tuple[str, ...]:
    """The rules that a turn sets, in their order."""
    return tuple(rule for entry in turn.entries for rule in _rules(entry.item))


def select_rules(
    newest_first: Iterable[Sequence[str]], cost: Callable[[str], int], max_tokens: int
) -> tuple[str, ...]:
    """Choose of the rules of several turns, oldest first, each once; too many give way to the newest."""
    kept: list[str] = []
    for rules in newest_first:
        for rule in reversed(rules):
            tokens = 0 if rule in kept else cost(rule) + RULE_OVERHEAD_TOKENS
            if 0 < tokens <= max_tokens:
                kept.append(rule)
                max_tokens -= tokens
        if max_tokens <= RULE_OVERHEAD_TOKENS:
            break
    return tuple(reversed(kept))


def omission_note(turns: int, rules: Sequence[str]) -> InputMessage:
    """The message that stands in for turns that are left out: how many they are, and their rules."""
    lines = [
        f"[{turns} earlier turn{'' if turns == 1 else 's'} left out here to fit the model's context window.]"
    ]
    if rules:
        lines += ["Rules that were set there and still hold:", *(f"- {rule}" for rule in rules)]
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "\n".join(lines)}]}


def rules_note(turns: int, rules: Sequence[str]) -> InputMessage | None:
    """The same where leaving out is what the user chose: only when there are rules to carry."""
    return omission_note(turns, rules) if rules else None


def _rules(item: Item) -> Iterator[str]:
    if not is_message(item) or item["role"] == "assistant":
        return
    for part in item["content"]:
        if part["type"] == "input_text" and _RULE.search(part["text"]):
            for line in _FENCE.sub("", part["text"]).splitlines():
                yield from _in_line(line.strip())


def _in_line(line: str) -> Iterator[str]:
    """A short line is a rule as a whole; of a long one, its sentences that are."""
    if not _RULE.search(line):
        return
    if len(line) <= RULE_CHARACTERS:
        yield line
        return
    sentences = (found[0].strip() for found in _SENTENCE.finditer(line))
    yield from (text for text in sentences if _RULE.search(text) and len(text) <= RULE_CHARACTERS)
