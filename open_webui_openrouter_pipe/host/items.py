"""The items that Open WebUI stores and draws, made from the provider's.

Open WebUI stores items verbatim and chokes on later turns if one is not clean, so each is made anew: no encrypted
content, no nulls where lists are expected, ids of our own (providers reuse theirs), one text part to a message.
Items that it would store but never draw are left out; they live on as artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..responses.items import Item

HostItem = dict[str, Any]

_IMAGE_TYPES = frozenset({"image_generation_call", "openrouter:image_generation"})
_IMAGE_KEYS = ("imageUrl", "result", "imageB64")


def begin(item: Item, item_id: str) -> HostItem | None:
    """The first form of an item, or None for one that the host does not draw."""
    maker = _BEGINNINGS.get(item["type"])
    return None if maker is None else maker(cast("dict[str, Any]", item), item_id)


def finish(item: Item, begun: HostItem, *, duration_seconds: int, prefix: str = "") -> HostItem:
    """The final form of an item that was begun; `prefix` is what was written before a message's own text."""
    finisher = _FINISHES[begun["type"]]
    done = finisher(cast("dict[str, Any]", item), prefix)
    status = item.get("status")
    done["status"] = status if status in ("completed", "incomplete") else "completed"
    if begun["type"] == "reasoning":
        done["duration"] = duration_seconds
    return {**begun, **done}


def message(item_id: str, text: str, *, status: str) -> HostItem:
    """An assistant message of one text part."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": [part]}


def pictures(item: Item) -> list[str]:
    """The addresses of the images that an item holds: web addresses, or data URLs."""
    fields = cast("Mapping[str, Any]", item)
    if fields["type"] not in _IMAGE_TYPES:
        return []
    found = next((fields[key] for key in _IMAGE_KEYS if _is_text(fields.get(key))), None)
    if found is None:
        return []
    return [found if found.startswith(("data:", "https://", "http://")) else f"data:image/png;base64,{found}"]


def paragraphs(texts: list[str]) -> list[str]:
    """Texts as Open WebUI wants them, which joins parts without a space: later ones begin a new paragraph."""
    return [f"\n\n{text}" if index else text for index, text in enumerate(texts)]


def _begin_message(_item: Mapping[str, Any], item_id: str) -> HostItem:
    return message(f"msg_{item_id}", "", status="in_progress")


def _begin_reasoning(_item: Mapping[str, Any], item_id: str) -> HostItem:
    return {"type": "reasoning", "id": f"rs_{item_id}", "status": "in_progress", "summary": []}


def _begin_call(item: Mapping[str, Any], item_id: str) -> HostItem:
    return {
        "type": "function_call",
        "id": f"fc_{item_id}",
        "status": "in_progress",
        "call_id": item.get("call_id") or item_id,
        "name": item.get("name") or "",
        "arguments": "",
    }


def _begin_search(_item: Mapping[str, Any], item_id: str) -> HostItem:
    return {"type": "web_search_call", "id": f"ws_{item_id}", "status": "in_progress"}


def _finish_message(item: Mapping[str, Any], prefix: str) -> HostItem:
    text, annotations = prefix, list[dict[str, Any]]()
    for part in item.get("content") or []:
        annotations += [_shifted(annotation, len(text)) for annotation in part.get("annotations") or []]
        text += _text(part, "text", "refusal")
    return {"content": [{"type": "output_text", "text": text, "annotations": annotations}]}


def _shifted(annotation: Mapping[str, Any], offset: int) -> dict[str, Any]:
    """The annotation with its character range moved behind the text that stands before it."""
    ranges = {
        key: annotation[key] + offset for key in ("start_index", "end_index") if _is_int(annotation.get(key))
    }
    return {**_without_nulls(annotation), **ranges}


def _is_int(value: object) -> bool:
    return isinstance(value, int)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(part: Mapping[str, Any], *keys: str) -> str:
    """The first of the part's fields that is a text."""
    return next((part[key] for key in keys if _is_text(part.get(key))), "")


def _finish_reasoning(item: Mapping[str, Any], _prefix: str) -> HostItem:
    content = _thoughts(item.get("content"), "reasoning_text")
    summary = _thoughts(item.get("summary"), "summary_text")
    return {"summary": summary, **({"content": content} if content else {})}


def _thoughts(value: Any, kind: str) -> list[dict[str, Any]]:
    """Paragraphs of thinking. Its item is kept as the provider sent it, which may be a bare text."""
    parts = value if isinstance(value, list) else [{"text": value}] if _is_text(value) else []
    texts = [text for part in parts if isinstance(part, dict) and (text := _text(part, "text"))]
    return [{"type": kind, "text": text} for text in paragraphs(texts)]


def _finish_call(item: Mapping[str, Any], _prefix: str) -> HostItem:
    """Name and id too: they may have been unknown when the call began."""
    known = {key: item[key] for key in ("call_id", "name") if _is_text(item.get(key))}
    return {**known, "arguments": item.get("arguments") or "{}"}


def _finish_search(item: Mapping[str, Any], _prefix: str) -> HostItem:
    action = item.get("action")
    return {"action": _without_nulls(action)} if isinstance(action, dict) else {}


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


_BEGINNINGS: Mapping[str, Callable[[Mapping[str, Any], str], HostItem]] = {
    "message": _begin_message,
    "reasoning": _begin_reasoning,
    "function_call": _begin_call,
    "web_search_call": _begin_search,
    "openrouter:web_search": _begin_search,
}
_FINISHES: Mapping[str, Callable[[Mapping[str, Any], str], HostItem]] = {
    "message": _finish_message,
    "reasoning": _finish_reasoning,
    "function_call": _finish_call,
    "web_search_call": _finish_search,
}
