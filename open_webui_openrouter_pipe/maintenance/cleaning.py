"""Messages without our markers: in the text, in the items, and beside the reasoning. Pure.

The ids of calls stay: they pair calls with their results, whoever has given them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from ..history.markers import (
    PHASE_TYPE,
    REFERENCE_TYPE,
    MarkedText,
    code_ulids,
    iter_marker_spans,
    split_text_by_markers,
)

Message: TypeAlias = Mapping[str, Any]


def marker_ids(message: Message) -> Iterator[str]:
    """Every ULID that the message's texts and items name."""
    for text in _texts(message):
        yield from (span.ulid for span in iter_marker_spans(text))
        yield from code_ulids(text)
    for item in _items(message):
        yield from (str(detail.get("id")) for detail in _details(item) if _is_reference(detail))


def without_markers(message: Message, held: Collection[str], *, is_our_answer: bool) -> dict[str, Any] | None:
    """The message without our markers: those whose artifact is held, and in answers of our models all others too.

    What stands in code is an example where its artifact is not held. None where the message has none of ours.
    """
    quoted = {ulid for text in _texts(message) for ulid in code_ulids(text)}
    ours = {ulid for ulid in marker_ids(message) if ulid in held or (is_our_answer and ulid not in quoted)}
    if not ours and not any(_is_of_ours(each, ours) for item in _items(message) for each in _details(item)):
        return None
    cleaned = dict(message)
    if isinstance(content := message.get("content"), str):
        cleaned["content"] = clean_text(content, ours)
    if isinstance(output := message.get("output"), list):
        items = [_clean_item(item, ours) if isinstance(item, dict) else item for item in output]
        cleaned["output"] = [item for item in items if item is not None]
    return cleaned


def clean_text(text: str, ulids: set[str]) -> str:
    """The text without these markers; what stood on two sides of one keeps the larger of the two gaps."""
    kept: list[str] = []
    gap = 0
    for segment in split_text_by_markers(text, ulids):
        if segment.ulids:
            gap = _gap(segment)
        else:
            kept += ["\n" * gap if kept else "", segment.raw]
            gap = 0
    return "".join(kept)


def _gap(markers: MarkedText) -> int:
    raw = markers.raw
    return max(len(raw) - len(raw.lstrip("\n")), len(raw) - len(raw.rstrip("\n")))


def _clean_item(item: dict[str, Any], ulids: set[str]) -> dict[str, Any] | None:
    """The item without the markers; None for one that held nothing else."""
    if "reasoning_details" in item:
        kept = [each for each in _details(item) if not _is_of_ours(each, ulids)]
        return {key: value for key, value in item.items() if key != "reasoning_details"} | (
            {"reasoning_details": kept} if kept else {}
        )
    if not any(_is_marked(part, ulids) for part in _parts(item)):
        return item
    parts = [
        {**part, "text": clean_text(part["text"], ulids)} if _is_marked(part, ulids) else part
        for part in _parts(item)
    ]
    return {**item, "content": parts} if any(part.get("text") for part in parts) else None


def _is_marked(part: Mapping[str, Any], ulids: set[str]) -> bool:
    text = part.get("text")
    return isinstance(text, str) and any(segment.ulids for segment in split_text_by_markers(text, ulids))


def _texts(message: Message) -> Iterator[str]:
    if isinstance(content := message.get("content"), str):
        yield content
    for item in _items(message):
        yield from (part["text"] for part in _parts(item) if isinstance(part.get("text"), str))


def _items(message: Message) -> list[dict[str, Any]]:
    output = message.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content") if item.get("type") == "message" else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _details(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = item.get("reasoning_details")
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _is_reference(detail: Mapping[str, Any]) -> bool:
    return detail.get("type") == REFERENCE_TYPE


def _is_of_ours(detail: Mapping[str, Any], ulids: set[str]) -> bool:
    """Whether it names one of our artifacts, or the phase of a text, which only we note."""
    if _is_reference(detail):
        return str(detail.get("id")) in ulids
    return detail.get("type") == PHASE_TYPE
