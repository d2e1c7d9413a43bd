"""A stored answer's `output` list, unfolded into the messages that the host makes of it for a model.

The host shows an answer folded, as one message with its `output` items, to whoever reads a chat, and
unfolded to a pipe. Owns the same unfolding, so that both views of a chat give the same input. It follows
`convert_output_to_messages` of Open WebUI 0.12 (raw, with tool images moved to a user message) and
tolerates what that one does not: unknown, missing and wrongly typed fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

TOOL_IMAGES_TEXT = "Here are the images from the tool results above. Please analyze them."
"""The text of the user message in which the host hands over images of tool results."""

_FINISHED = frozenset({"completed", "failed", "rejected"})
"""States of a call that the host replays."""

Wire = Mapping[str, Any]
Message = dict[str, Any]


def unfold_output(output: Iterable[Any]) -> list[Message]:
    """Give the assistant, tool and user messages that the host would send in place of the answer."""
    items = [item for item in output if isinstance(item, dict)]
    unfolding = _Unfolding(_replayed_calls(items))
    for item in items:
        unfolding.add(item)
    return _without_strays(unfolding.finish())


def _replayed_calls(items: list[Message]) -> set[str]:
    finished = {
        _id(item) for item in items if item.get("type") == "function_call" and item.get("status") in _FINISHED
    }
    answered = {_id(item) for item in items if item.get("type") == "function_call_output"}
    return (finished & answered) - {""}


class _Unfolding:
    """The messages so far, and the assistant message and tool outputs still open."""

    def __init__(self, replayed: set[str]) -> None:
        self._replayed = replayed
        self._messages: list[Message] = []
        self._texts: list[str] = []
        self._calls: list[Message] = []
        self._details: list[Any] = []
        self._outputs: list[Message] = []

    def add(self, item: Message) -> None:
        kind = item.get("type")
        if kind != "function_call_output":
            self._close_outputs()
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler:
            handler(self, item)

    def finish(self) -> list[Message]:
        self._close_outputs()
        self._close_assistant()
        return self._messages

    def message(self, item: Wire) -> None:
        text = "".join(
            part["text"]
            for part in _list(item.get("content"))
            if isinstance(part, dict)
            and part.get("type") == "output_text"
            and isinstance(part.get("text"), str)
        )
        if text:
            self._texts.append(text)

    def call(self, item: Wire) -> None:
        if _id(item) not in self._replayed:
            return
        provided = item.get("provider_function")
        function = provided if isinstance(provided, dict) else item
        arguments = function.get("arguments", "{}")
        told = {"name": function.get("name", ""), "arguments": arguments}
        self._calls.append({"id": _id(item), "type": "function", "function": told})

    def output(self, item: Message) -> None:
        if _id(item) in self._replayed:
            self._outputs.append(item)

    def reasoning(self, item: Wire) -> None:
        details = item.get("reasoning_details")
        self._details.extend(details if isinstance(details, list) else [details] if details else [])

    def code(self, item: Wire) -> None:
        code, printed = item.get("code"), item.get("output")
        if isinstance(printed, dict):
            printed = printed.get("stdout") or printed.get("result")
        if code:
            self._texts.append(f"<code_interpreter>\n{code}\n</code_interpreter>")
        if printed:
            self._texts.append(f"<code_interpreter_output>\n{printed}\n</code_interpreter_output>")

    def _close_assistant(self) -> None:
        if self._texts or self._calls or self._details:
            message: Message = {"role": "assistant", "content": "\n".join(self._texts)}
            message |= {"tool_calls": self._calls} if self._calls else {}
            message |= {"reasoning_details": self._details} if self._details else {}
            self._messages.append(message)
        self._texts, self._calls, self._details = [], [], []

    def _close_outputs(self) -> None:
        if not self._outputs:
            return
        self._close_assistant()
        images: list[str] = []
        for item in self._outputs:
            text, urls = _text_and_images(item.get("output"))
            self._messages.append({"role": "tool", "tool_call_id": _id(item), "content": text})
            images.extend(urls)
        if images:
            shown = [{"type": "image_url", "image_url": {"url": url}} for url in images]
            self._messages.append(
                {"role": "user", "content": [{"type": "text", "text": TOOL_IMAGES_TEXT}, *shown]}
            )
        self._outputs = []


_HANDLERS: dict[str, Callable[[_Unfolding, Message], None]] = {
    "message": _Unfolding.message,
    "function_call": _Unfolding.call,
    "function_call_output": _Unfolding.output,
    "reasoning": _Unfolding.reasoning,
    "open_webui:code_interpreter": _Unfolding.code,
}


def _without_strays(messages: list[Message]) -> list[Message]:
    """Keep a call only if it is answered directly after its message, an answer only if it was asked there."""
    kept: list[Message] = []
    paired: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            kept.extend([message] if message["tool_call_id"] in paired else [])
            continue
        paired = _answered_next(messages, index) & {call["id"] for call in message.get("tool_calls", [])}
        kept.extend(_with_calls(message, paired))
    return kept


def _answered_next(messages: list[Message], index: int) -> set[str]:
    answered: set[str] = set()
    for message in messages[index + 1 :]:
        if message["role"] != "tool":
            break
        answered.add(message["tool_call_id"])
    return answered


def _with_calls(message: Message, paired: set[str]) -> list[Message]:
    if "tool_calls" not in message:
        return [message]
    calls = [call for call in message["tool_calls"] if call["id"] in paired]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    if calls:
        return [{**rest, "tool_calls": calls}]
    return [rest] if message["content"].strip() else []


def _text_and_images(output: Any) -> tuple[str, list[str]]:
    if isinstance(output, str):
        return output, []
    parts = [part for part in _list(output) if isinstance(part, dict)]
    texts = [part.get("text", "") for part in parts if part.get("type") == "input_text"]
    urls = [part.get("image_url") for part in parts if part.get("type") == "input_image"]
    return "".join(text if isinstance(text, str) else json.dumps(text) for text in texts), [
        url for url in urls if isinstance(url, str) and url
    ]


def _id(item: Wire) -> str:
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
