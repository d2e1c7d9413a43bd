"""Short ways to write chats, artifacts and expected items, and the judges that every built input must satisfy."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.markers import item_id, serialize_marker
from open_webui_openrouter_pipe.history.reading import answers_without_items, read_history
from open_webui_openrouter_pipe.media.choice import name_references
from scripts.standin import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from open_webui_openrouter_pipe.history.turn import BuiltHistory

OPENAI = "openai/gpt-5"
CLAUDE = "anthropic/claude-sonnet-4.5"
DEEP: list[Any] = []
"""Lists in lists, deeper than Python can follow."""
for _ in range(100_000):
    DEEP = [DEEP]


def ulid(number: int) -> str:
    """The ULID with this number."""
    return item_id(number, 0)


def mark(*numbers: int) -> str:
    """Marker lines, one for each number, each ended."""
    return "".join(f"{serialize_marker(ulid(number))}\n" for number in numbers)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def assistant(content: Any, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        **({"tool_calls": list(calls)} if calls else {}),
        **fields,
    }


def tool_call(call_id: Any, arguments: Any = "{}", name: Any = "search") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(call_id: Any, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def reasoning(name: str, **fields: Any) -> Any:
    """Reasoning as OpenAI seals it."""
    return {
        "type": "reasoning",
        "id": name,
        "summary": [],
        "encrypted_content": f"sealed-{name}",
        "format": "openai-responses-v1",
        "status": "completed",
        **fields,
    }


def thinking(name: str, signature: str | None = "signed") -> Any:
    """Reasoning as Anthropic signs it."""
    return {
        "type": "reasoning",
        "id": name,
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "format": "anthropic-claude-v1",
        "signature": signature,
    }


def call(call_id: str, arguments: Any = "{}", name: str = "search", **fields: Any) -> Any:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def output(call_id: str, text: Any, **fields: Any) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": text, **fields}


def text(value: str) -> dict[str, Any]:
    return {"type": "input_text", "text": value}


def as_parts(parts: Iterable[Any]) -> list[Any]:
    """Parts in which strings stand for text parts."""
    return [text(part) if isinstance(part, str) else part for part in parts]


def said(role: str, *parts: Any) -> dict[str, Any]:
    """An input message as it is expected; strings stand for text parts."""
    return {"type": "message", "role": role, "content": as_parts(parts)}


def build(
    messages: Sequence[Any], artifacts: Mapping[int, Any] | None = None, **options: Any
) -> BuiltHistory:
    """Build the input, with artifacts by the number of their marker."""
    loaded = {ulid(number): artifact for number, artifact in (artifacts or {}).items()}
    read = reading(messages, options)
    others = {name: value for name, value in options.items() if name not in read}
    return build_input(read_history(messages, **read), loaded, Options(**others))


def reading(messages: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that say how a chat is read."""
    given = {name: options[name] for name in ("prompt", "without_items", "keep") if name in options}
    return {"without_items": answers_without_items(messages), **given}


def plain(items: Iterable[Any]) -> list[Any]:
    """The items without the ids of assistant messages."""
    return [_without_message_id(item) for item in items]


def answered(value: str, **fields: Any) -> dict[str, Any]:
    """An assistant message as `items` shows it."""
    part = {"type": "output_text", "text": value, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part], **fields}


def compact(built: Iterable[Any]) -> str:
    """The bytes that a prompt cache compares."""
    return json.dumps(list(built), ensure_ascii=False, separators=(",", ":"))


def assert_valid(built: Sequence[Any]) -> None:
    """The strict validator accepts the input, and so does the openai package where its types apply."""
    compact(built).encode()
    built = name_references(built)
    validate.check({"model": OPENAI, "input": built})
    for item in built:
        if _is_known_to_openai(item):
            _openai_item().validate_python(item, strict=True)


def _is_known_to_openai(item: Any) -> bool:
    """The openai package has no audio or video parts, no server tools of OpenRouter, and wants a search's action."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return not (
        item["type"].startswith("openrouter:")
        or (item["type"] == "web_search_call" and "action" not in item)
        or any(part["type"] in {"input_audio", "input_video"} for part in parts)
    )


@cache
def _openai_item() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseInputItemParam)


def _without_message_id(item: Any) -> Any:
    if item["type"] == "message" and item["role"] == "assistant":
        return {key: value for key, value in item.items() if key != "id"}
    return item
