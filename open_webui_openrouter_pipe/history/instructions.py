"""Instructions and what the host mixes into them.

A prompt cache holds a request as far as its bytes stay the same. The host writes retrieved sources and its
own summary into the system prompt, and a template around the user's latest words; the metadata's
`base_system_prompt` and `base_user_prompt` tell what was there before. Owns taking the two apart again, so
that what changes stands near the end, and summaries stand nowhere among them. It adds no words of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ..responses.items import InputMessage, InputPart, InputText
from ..responses.text import clean_text
from .entries import Instruction
from .external_summaries import split_summaries
from .parts import text_part


@dataclass(frozen=True, slots=True)
class Prompt:
    """A system prompt taken apart: what stays, the summaries in it, and what changes with each question."""

    stable: str
    summaries: tuple[str, ...]
    volatile: str


@dataclass(frozen=True, slots=True)
class Instructed:
    """An instruction taken apart: messages for its own place, and for that before the latest user message."""

    here: tuple[InputMessage, ...]
    volatile: tuple[InputMessage, ...]
    summaries: tuple[str, ...]


def instruct(instruction: Instruction, base_prompt: str | None) -> Instructed:
    """Take an instruction apart; `base_prompt` is that of its first text, see `split_prompt`."""
    first = split_prompt(instruction.texts[0], base_prompt)
    others = [split_prompt(text, None) for text in instruction.texts[1:]]
    stable = "\n\n".join(filter(None, (prompt.stable for prompt in (first, *others))))
    return Instructed(
        _messages(instruction, stable),
        _messages(instruction, first.volatile),
        tuple(summary for prompt in (first, *others) for summary in prompt.summaries),
    )


def split_prompt(text: str, base_prompt: str | None) -> Prompt:
    """Take a system prompt apart. `base_prompt` is the host's: "" for none, None when that is unknown."""
    before, behind = _cut_after(text, clean_text(base_prompt) if base_prompt is not None else None)
    stable, early = split_summaries(before)
    volatile, late = split_summaries(behind)
    return Prompt(_unless_blank(stable), (*early, *late), _unless_blank(volatile))


def split_user_parts(parts: Sequence[InputPart], base_prompt: str | None) -> list[InputPart]:
    """Put the user's own words first and what the host wrote around them last.

    The host writes the same text before each text part; it is kept once.
    """
    base = clean_text(base_prompt) if base_prompt else ""
    place = next((index for index, part in enumerate(parts) if part["type"] == "input_text"), None)
    if place is None or not base.strip():
        return list(parts)
    around = _around(cast("InputText", parts[place])["text"], base)
    if around is None:
        return list(parts)
    before, after = around
    others = [_without_prefix(part, before) for part in parts[place + 1 :]]
    injected = "\n".join(filter(None, (_unless_blank(before), _unless_blank(after))))
    return [*parts[:place], text_part(base), *others, *([text_part(injected)] if injected else [])]


def _cut_after(text: str, base: str | None) -> tuple[str, str]:
    if base is None:
        return text, ""
    place = text.find(base)
    if place < 0:
        return text, ""
    end = place + len(base)
    return text[:end], text[end:].lstrip("\n")


def _around(text: str, base: str) -> tuple[str, str] | None:
    """What stands before and after the base, if it stands on lines of its own."""
    if text == base:
        return None
    place = text.rfind(base)
    if place < 0:
        return None
    before, after = text[:place], text[place + len(base) :]
    on_own_lines = (not before or before.endswith("\n")) and (not after or after.startswith("\n"))
    return (before.rstrip("\n"), after.lstrip("\n")) if on_own_lines else None


def _without_prefix(part: InputPart, prefix: str) -> InputPart:
    if part["type"] != "input_text" or not prefix:
        return part
    return text_part(part["text"].removeprefix(f"{prefix}\n"))


def _unless_blank(text: str) -> str:
    return text if text.strip() else ""


def _messages(instruction: Instruction, text: str) -> tuple[InputMessage, ...]:
    message: InputMessage = {"type": "message", "role": instruction.role, "content": [text_part(text)]}
    return (message,) if text else ()
