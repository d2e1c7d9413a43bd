"""A stored answer's `output` list, unfolded into the messages that the host makes of it for a model.

The host shows an answer folded, as one message with its `output` items, to whoever reads a chat, and unfolded to a
pipe. Owns the same unfolding, so that both views of a chat become the same input: this is why stored Responses items
become Chat Completions messages here, and Responses items again afterwards. It follows `convert_output_to_messages` of
Open WebUI 0.12 (raw, with tool images moved to a user message) and tolerates what that one does not: unknown, missing
and wrongly typed fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from ..responses.wire import as_list, as_object, as_text

TOOL_IMAGES_TEXT = "Here are the images from the tool results above. Please analyze them."
"""The text of the user message in which the host sends images of tool results."""

_FINISHED = frozenset({"completed", "failed", "rejected"})
"""States of a call that the host replays."""

Message = dict[str, Any]


def unfold_output(output: Iterable[Any]) -> list[Message]:
    """Return the assistant, tool and user messages that the host would send for the answer."""
    items = [item for item in output if isinstance(item, dict)]
    unfolding = _Unfolding(_replayed_call_ids(items))
    for item in items:
        unfolding.add(item)
    return _without_unpaired(unfolding.finish())


def _replayed_call_ids(items: list[Message]) -> set[str]:
    finished = {
        as_text(item.get("call_id"))
        for item in items
        if item.get("type") == "function_call" and item.get("status") in _FINISHED
    }
    answered = {as_text(item.get("call_id")) for item in items if item.get("type") == "function_call_output"}
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
        kind = as_text(item.get("type"))
        if kind == "function_call_output":
            self._outputs += [item] if as_text(item.get("call_id")) in self._replayed else []
            return
        self._close_outputs()
        match kind:
            case "message":
                parts = [as_object(part) for part in as_list(item.get("content"))]
                texts = (as_text(part.get("text")) for part in parts if part.get("type") == "output_text")
                if text := "".join(texts):
                    self._texts.append(text)
            case "function_call" if (call_id := as_text(item.get("call_id"))) in self._replayed:
                provided = item.get("provider_function")
                source = provided if isinstance(provided, dict) else item
                function = {"name": source.get("name", ""), "arguments": source.get("arguments", "{}")}
                self._calls.append({"id": call_id, "type": "function", "function": function})
            case "reasoning":
                details = item.get("reasoning_details")
                self._details += details if isinstance(details, list) else [details] if details else []
            case "open_webui:code_interpreter":
                printed = item.get("output")
                if isinstance(printed, dict):
                    printed = printed.get("stdout") or printed.get("result")
                if code := item.get("code"):
                    self._texts.append(f"<code_interpreter>\n{code}\n</code_interpreter>")
                if printed:
                    self._texts.append(f"<code_interpreter_output>\n{printed}\n</code_interpreter_output>")

    def finish(self) -> list[Message]:
        self._close_outputs()
        self._close_assistant()
        return self._messages

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
            self._messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": text})
            images.extend(urls)
        if images:
            shown = [{"type": "image_url", "image_url": {"url": url}} for url in images]
            self._messages.append(
                {"role": "user", "content": [{"type": "text", "text": TOOL_IMAGES_TEXT}, *shown]}
            )
        self._outputs = []


def _without_unpaired(messages: list[Message]) -> list[Message]:
    """Keep a call only if its result follows its message directly, a result only if its call is there."""
    kept: list[Message] = []
    paired: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            kept += [message] if message["tool_call_id"] in paired else []
            continue
        calls = message.get("tool_calls")
        if not calls:
            paired = set()
            kept.append(message)
            continue
        results = takewhile(lambda later: later["role"] == "tool", messages[index + 1 :])
        paired = {call["id"] for call in calls} & {result["tool_call_id"] for result in results}
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        if paired:
            kept.append({**rest, "tool_calls": [call for call in calls if call["id"] in paired]})
        elif message["content"].strip():
            kept.append(rest)
    return kept


def _text_and_images(output: Any) -> tuple[str, list[str]]:
    if isinstance(output, str):
        return output, []
    parts = [part for part in as_list(output) if isinstance(part, dict)]
    texts = [part.get("text", "") for part in parts if part.get("type") == "input_text"]
    urls = [as_text(part.get("image_url")) for part in parts if part.get("type") == "input_image"]
    text = "".join(text if isinstance(text, str) else json.dumps(text) for text in texts)
    return text, list(filter(None, urls))
