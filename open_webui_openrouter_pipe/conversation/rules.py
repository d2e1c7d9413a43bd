"""Rules that the user set, kept word for word in a note when their turn is dropped.

Only user and system messages can hold a rule: what a tool or the model wrote never becomes one.
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

_RULE = re.compile(r"\b(?:must|never|always)\b", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")

NoteWriter: TypeAlias = Callable[[int, Sequence[str]], InputMessage | None]
"""Writes the message for a number of dropped turns and their rules; None when nothing needs to be said."""


def user_rules(turn: Turn) -> tuple[str, ...]:
    """Return the rules that a turn sets, in their order."""
    return tuple(rule for entry in turn.entries for rule in _rules_of(entry.item))


def select_rules(
    newest_first: Iterable[Sequence[str]], cost: Callable[[str], int], max_tokens: int
) -> tuple[str, ...]:
    """Select from the rules of several turns, each once, the newest that fit; return them oldest first."""
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
    """Return the message that stands in for dropped turns: how many they are, and their rules."""
    plural = "" if turns == 1 else "s"
    lines = [f"[{turns} earlier turn{plural} omitted to fit the model's context window.]"]
    if rules:
        lines += ["Rules that were set in them and still apply:", *(f"- {rule}" for rule in rules)]
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "\n".join(lines)}]}


def rules_note(turns: int, rules: Sequence[str]) -> InputMessage | None:
    """Return the same where dropping turns is what the user chose: only when there are rules to carry."""
    return omission_note(turns, rules) if rules else None


def _rules_of(item: Item) -> Iterator[str]:
    """A short line is a rule as a whole; of a long one, its sentences that are."""
    if not is_message(item) or item["role"] == "assistant":
        return
    for part in item["content"]:
        if part["type"] != "input_text" or not _RULE.search(part["text"]):
            continue
        for line in map(str.strip, _FENCE.sub("", part["text"]).splitlines()):
            candidates = [line]
            if len(line) > RULE_CHARACTERS:
                candidates = [sentence[0].strip() for sentence in _SENTENCE.finditer(line)]
            yield from (text for text in candidates if _RULE.search(text) and len(text) <= RULE_CHARACTERS)
