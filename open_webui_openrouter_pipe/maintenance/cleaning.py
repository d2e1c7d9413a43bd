"""Messages without our marks: markers in text, in items and beside reasoning, and how our answers begin. Pure.

The ids of calls stay: they pair calls with their results, whoever has given them. So do the lines about an answer, of
which people have read the text: they are items of a type without our name, which Open WebUI draws just the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ..history.markers import (
    ANSWER_MARK,
    PHASE_TYPE,
    REFERENCE_TYPE,
    code_ulids,
    marker_ulids,
    split_text_by_markers,
)
from ..responses.values import as_list, as_text

Message: TypeAlias = Mapping[str, Any]

_OUR_TYPES: Final = "openrouter_pipe."
"""How the types of our own items begin."""


def marker_ids(message: Message) -> Iterator[str]:
    """Every ULID that the message's texts and items name."""
    for text in _texts(message):
        yield from marker_ulids(text)
        yield from code_ulids(text)
    for detail in _details(message):
        if detail.get("type") == REFERENCE_TYPE:
            yield str(detail.get("id"))


def without_markers(message: Message, held: Collection[str], *, is_our_answer: bool) -> dict[str, Any] | None:
    """The message without our marks; of markers those whose artifact is held, and in answers of our models all others.

    What stands in code is an example where its artifact is not held. None where the message has none of ours.
    """
    quoted = {ulid for text in _texts(message) for ulid in code_ulids(text)}
    ours = {ulid for ulid in marker_ids(message) if ulid in held or (is_our_answer and ulid not in quoted)}
    is_marked = any(ANSWER_MARK in text for text in _texts(message))
    has_lines = any(_has_our_type(item) for item in _objects(message.get("output")))
    if not (ours or is_marked or has_lines or any(_is_ours(detail, ours) for detail in _details(message))):
        return None
    cleaned = dict(message)
    if isinstance(content := message.get("content"), str):
        cleaned["content"] = clean_text(content, ours)
    if isinstance(output := message.get("output"), list):
        items = [_clean_item(item, ours) if isinstance(item, dict) else item for item in output]
        cleaned["output"] = [item for item in items if item is not None]
    return cleaned


def clean_text(text: str, ulids: set[str]) -> str:
    """The text without these markers and our mark; what stood on two sides of a marker keeps the larger of two gaps."""
    kept: list[str] = []
    gap = 0
    for segment in split_text_by_markers(text, ulids):
        if segment.ulids:
            raw = segment.raw
            gap = len(raw) - min(len(raw.lstrip("\n")), len(raw.rstrip("\n")))
        else:
            kept += ["\n" * gap if kept else "", segment.raw]
            gap = 0
    return "".join(kept).replace(ANSWER_MARK, "")


def _clean_item(item: dict[str, Any], ulids: set[str]) -> dict[str, Any] | None:
    """The item without the markers; None for one that held nothing else."""
    if _has_our_type(item):
        return {**item, "type": as_text(item["type"]).removeprefix(_OUR_TYPES)}
    if "reasoning_details" in item:
        kept = [each for each in _objects(item["reasoning_details"]) if not _is_ours(each, ulids)]
        others = {key: value for key, value in item.items() if key != "reasoning_details"}
        return others | ({"reasoning_details": kept} if kept else {})
    parts, changed = [], False
    for part in _parts(item):
        text = as_text(part.get("text"))
        cleaned = clean_text(text, ulids)
        parts.append({**part, "text": cleaned} if cleaned != text else part)
        changed = changed or cleaned != text
    if not changed:
        return item
    return {**item, "content": parts} if any(part.get("text") for part in parts) else None


def _texts(message: Message) -> Iterator[str]:
    yield as_text(message.get("content"))
    for item in _objects(message.get("output")):
        yield from (as_text(part.get("text")) for part in _parts(item))


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _objects(item.get("content")) if item.get("type") == "message" else []


def _details(message: Message) -> Iterator[dict[str, Any]]:
    """Every detail of the message's reasoning."""
    for item in _objects(message.get("output")):
        yield from _objects(item.get("reasoning_details"))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in as_list(value) if isinstance(each, dict)]


def _has_our_type(item: Mapping[str, Any]) -> bool:
    return as_text(item.get("type")).startswith(_OUR_TYPES)


def _is_ours(detail: Mapping[str, Any], ulids: set[str]) -> bool:
    """Whether it names one of our artifacts, or the phase of a text, which only we note."""
    if detail.get("type") == REFERENCE_TYPE:
        return str(detail.get("id")) in ulids
    return detail.get("type") == PHASE_TYPE
