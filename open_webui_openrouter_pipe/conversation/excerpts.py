"""Head and tail of items that are too long to be sent whole.

Says what of an item is text that may be cut, and puts the cut text in its place; how much of it stays is for others to
say. An item keeps its kind, its ids and its place; pictures and other media give way to a line that names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..responses.items import (
    InputPart,
    Item,
    Message,
    is_function_call,
    is_function_call_output,
    is_message,
)
from .media import embedded_text
from .tool_facts import output_text


def excerpt_text(item: Item, cut: Callable[[str], str]) -> str | None:
    """Return what replaces the text of an item, cut by `cut`; None for an item that has no such text.

    The text of a message is all that its parts say, that of a call its arguments.
    """
    if is_message(item):
        return _message_text(item, cut)
    if is_function_call_output(item):
        return output_text(item["output"], cut)
    return _arguments(item["arguments"], cut) if is_function_call(item) else None


def with_text(item: Item, text: str) -> Item:
    """Return the item with the text that `excerpt_text` has returned for it."""
    if is_function_call_output(item):
        return {**item, "output": text}
    if is_function_call(item):
        return {**item, "arguments": text}
    if not is_message(item):
        return item
    if item["role"] == "assistant":
        return {**item, "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {**item, "content": [{"type": "input_text", "text": text}]}


def _message_text(message: Message, cut: Callable[[str], str]) -> str:
    if message["role"] == "assistant":
        texts = [
            part["text"] if part["type"] == "output_text" else part["refusal"] for part in message["content"]
        ]
        return cut("\n".join(texts))
    return output_text([_as_text(part) for part in message["content"]], cut)


def _as_text(part: InputPart) -> InputPart:
    """Return an attached text file as text; any other part as it is."""
    text = embedded_text(part.get("file_data") or "") if part["type"] == "input_file" else None
    return part if text is None else {"type": "input_text", "text": text}


def _arguments(arguments: str, cut: Callable[[str], str]) -> str:
    """Return the same JSON with its texts cut; what is not JSON stays, since a provider may read it."""
    try:
        return json.dumps(_cut_texts(json.loads(arguments), cut), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return arguments


def _cut_texts(value: Any, cut: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _cut_texts(inner, cut) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_texts(inner, cut) for inner in value]
    return cut(value) if isinstance(value, str) else value
