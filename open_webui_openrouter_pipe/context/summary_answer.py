"""Reading a summariser's answer.

Owns what counts as a summary and what is refused. It must not ask again: whoever asked decides that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..responses.items import Item, is_message, is_reasoning
from .summary import TOLD_FIELDS, TOLD_LISTS, SummaryRefused, Told
from .transcript import wording

MOST_CANDIDATES = 16
ECHO_CHARACTERS = 60
MOST_ECHOES = 2
"""An answer with more sentences of its instruction than this repeats its prompt."""

_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[}\]])', re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.:])\s+")
_DECODER = json.JSONDecoder(strict=False)


def said(items: Sequence[Item], *, complete: bool) -> str:
    """The text of an answer's messages; `complete` says that the response ended by itself.

    Raises SummaryRefused when the answer was cut off, calls a tool, is a refusal, or has no text.
    """
    messages = [item for item in items if is_message(item)]
    if not complete or any(item.get("status") == "incomplete" for item in items):
        raise SummaryRefused("cut off")
    if any(item["type"].endswith("_call") for item in items):
        raise SummaryRefused("calls a tool")
    if any(part["type"] == "refusal" for message in messages for part in message["content"]):
        raise SummaryRefused("refused")
    text = "\n".join(map(wording, messages))
    if not text.strip():
        raise SummaryRefused("reasoning only" if any(map(is_reasoning, items)) else "empty")
    return text


def read_told(text: str, *, source_tokens: int, count: Callable[[str], int], instruction: str) -> Told:
    """The summary in an answer's text, which may stand in fences, among prose, or be slightly bad JSON.

    Raises SummaryRefused when it is empty, malformed, longer than its source, or repeats the instruction.
    """
    answer = _THINKING.sub("", text).strip()
    if not answer:
        raise SummaryRefused("reasoning only" if text.strip() else "empty")
    if _repeats(answer, instruction):
        raise SummaryRefused("repeats its prompt")
    found = next((value for value in _objects(answer) if TOLD_FIELDS[0] in value), None)
    if found is None:
        raise SummaryRefused("malformed")
    told = _told(found)
    if not told.summary_text:
        raise SummaryRefused("empty")
    if sum(map(count, _texts(told))) > source_tokens:
        raise SummaryRefused("longer than its source")
    return told


def _repeats(answer: str, instruction: str) -> bool:
    """Whether whole sentences of the instruction stand in the answer, also as text inside JSON."""
    spoken = " ".join(answer.replace("\\n", " ").replace('\\"', '"').split())
    sentences = [
        part for part in _SENTENCE_END.split(" ".join(instruction.split())) if len(part) >= ECHO_CHARACTERS
    ]
    return sum(sentence in spoken for sentence in sentences) > min(MOST_ECHOES, len(sentences) - 1) >= 0


def _objects(answer: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in a text, outer ones first; with superfluous commas left out if it needs that."""
    for text in (answer, _TRAILING_COMMA.sub(lambda found: found[1] or "", answer)):
        at = -1
        for _ in range(MOST_CANDIDATES):
            at = text.find("{", at + 1)
            if at < 0:
                break
            try:
                value, _end = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                continue
            yield value


def _told(value: Mapping[str, Any]) -> Told:
    text = value[TOLD_FIELDS[0]]
    if not isinstance(text, str):
        raise SummaryRefused("malformed")
    return Told(_clean(text), *(_entries(value.get(name)) for name in TOLD_LISTS))


def _entries(value: Any) -> tuple[str, ...]:
    """A list of texts; nothing for none, and a single text is a list of one."""
    entries = [value] if isinstance(value, str) else value or []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise SummaryRefused("malformed")
    return tuple(dict.fromkeys(filter(None, map(_clean, entries))))


def _texts(told: Told) -> Iterator[str]:
    yield told.summary_text
    for name in TOLD_LISTS:
        yield from getattr(told, name)


def _clean(text: str) -> str:
    """The text without space around it and without halves of characters, which nothing could store."""
    return text.strip().encode("utf-8", "replace").decode()
