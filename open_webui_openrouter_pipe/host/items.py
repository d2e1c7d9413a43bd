"""The items and the usage that Open WebUI stores and draws, built from the provider's.

Open WebUI stores items verbatim and fails on later turns if one is not clean, so each is built anew: no encrypted
content, no nulls where lists are expected, ids of our own (providers reuse theirs), one text part to a message.
Items that it would store but never draw are omitted; they are kept as artifacts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..responses.effects import Usage
from ..responses.items import FunctionCall, Item
from ..responses.wire import as_list, as_object, as_text, is_web_address

HostItem = dict[str, Any]

_CITATIONS = frozenset({"url_citation", "file_citation", "file_path"})
"""The annotations that the host may keep: a parsed document is one too, whole, and would swell the chat's row."""


def begin(item: Item, item_id: str) -> HostItem | None:
    """Return the first form of an item, or None for one that the host does not draw."""
    fields = cast("Mapping[str, Any]", item)
    match fields["type"]:
        case "message":
            return message(f"msg_{item_id}", "", status="in_progress")
        case "reasoning":
            return {"type": "reasoning", "id": f"rs_{item_id}", "status": "in_progress", "summary": []}
        case "function_call":
            return {
                "type": "function_call",
                "id": f"fc_{item_id}",
                "status": "in_progress",
                "call_id": fields.get("call_id") or item_id,
                "name": fields.get("name") or "",
                "arguments": "",
            }
        case "web_search_call" | "openrouter:web_search":
            return {"type": "web_search_call", "id": f"ws_{item_id}", "status": "in_progress"}
        case _:
            return None


def finish(item: Item, begun: HostItem, *, duration_seconds: int, prefix: str = "") -> HostItem:
    """Return the final form of an item that was begun; `prefix` was written before a message's own text."""
    fields = cast("Mapping[str, Any]", item)
    status = item.get("status")
    done = {**begun, "status": status if status in ("completed", "incomplete") else "completed"}
    match begun["type"]:
        case "message":
            return {**done, "content": [_text_part(fields.get("content") or [], prefix)]}
        case "reasoning":
            content = _reasoning_parts(fields.get("content"), "reasoning_text")
            done |= {"summary": _reasoning_parts(fields.get("summary"), "summary_text")}
            return {**done, **({"content": content} if content else {}), "duration": duration_seconds}
        case "function_call":  # name and id may have been unknown when the call began
            known = {key: text for key in ("call_id", "name") if (text := as_text(fields.get(key)))}
            return {**done, **known, "arguments": fields.get("arguments") or "{}"}
        case _:
            action = fields.get("action")
            return {**done, "action": _search_action(action)} if isinstance(action, dict) else done


def message(item_id: str, text: str, *, status: str) -> HostItem:
    """Return an assistant message of one text part."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": [part]}


def answered_call(item: FunctionCall, item_id: str) -> HostItem:
    """Return a call that is whole."""
    known = {"call_id": item["call_id"], "name": item["name"], "arguments": item["arguments"] or "{}"}
    return {"type": "function_call", "id": f"fc_{item_id}", "status": "completed", **known}


def call_output(call_id: str, text: str, item_id: str) -> HostItem:
    """Return what a call returned; the host stops at outputs that are not a list of parts."""
    parts = [{"type": "input_text", "text": text}]
    return {
        "type": "function_call_output",
        "id": f"fco_{item_id}",
        "call_id": call_id,
        "output": parts,
        "status": "completed",
    }


def host_usage(usage: Usage, last: Usage | None = None) -> dict[str, Any]:
    """Return the usage of an answer in the form that Open WebUI stores, sums and shows.

    It sums token counts and costs over the rounds of a turn, but keeps the last round's `prompt_tokens` and
    `completion_tokens`, by which its own compaction judges the length of the chat. `last` is that round's, where the
    answer had several.
    """
    last = last or usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens": last.input_tokens,
        "completion_tokens": last.output_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "cost": usage.cost,
    }


def _text_part(parts: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, Any]:
    """The texts of a message as one, with the character ranges of their annotations shifted accordingly."""
    text, annotations = prefix, list[dict[str, Any]]()
    for part in parts:
        for annotation in part.get("annotations") or []:
            if as_object(annotation).get("type") not in _CITATIONS or not _may_be_linked(annotation):
                continue
            ranges = {
                key: annotation[key] + len(text)
                for key in ("start_index", "end_index")
                if isinstance(annotation.get(key), int)
            }
            annotations.append({**_without_nulls(annotation), **ranges})
        text += _first_text(part, "text", "refusal")
    return {"type": "output_text", "text": text, "annotations": annotations}


def _search_action(action: Mapping[str, Any]) -> dict[str, Any]:
    known = _without_nulls(action)
    if "sources" in known:
        known["sources"] = [source for source in as_list(known["sources"]) if _may_be_linked(source)]
    return known if _may_be_linked(known) else {**known, "url": ""}


def _may_be_linked(fields: Any) -> bool:
    """Whether the host, which looks at no address, may link to this one, if there is one."""
    url = as_object(fields).get("url")
    return url is None or is_web_address(url)


def _first_text(fields: Mapping[str, Any], *keys: str) -> str:
    return next(filter(None, (as_text(fields.get(key)) for key in keys)), "")


def _reasoning_parts(value: Any, kind: str) -> list[dict[str, Any]]:
    """The paragraphs of reasoning, which Open WebUI joins without a space; the provider may send a bare text."""
    parts = value if isinstance(value, list) else [{"text": value}]
    texts = [text for part in parts if (text := as_text(as_object(part).get("text")))]
    return [{"type": kind, "text": f"\n\n{text}" if index else text} for index, text in enumerate(texts)]


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
