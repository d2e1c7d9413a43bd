"""Code that a model writes between tags, for Open WebUI to run.

Where function calling is "legacy" and the code interpreter is on, the host asks the model in its prompt for
`<code_interpreter type="code">` around Python, and to stop there. It finds these tags in Chat Completions alone; in
native events it runs the code of an answer that ends with an item of its own kind. Then it calls the pipe once more,
and reduces the events of that call onto the items that are already there. So these events have no index, without which
each of them is about the last item or adds one, and the end of a call repeats no items, which would replace the others.
Source: `utils/middleware.py: process_chat_response` and `utils/response.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..ports import AnswerCost, Output
from ..responses.effects import ResponseFinished
from .native import NOTICE, HostEvent, NativeWriter

_OPENING: Final = re.compile(r'<code_interpreter\s(?=[^<>]*\btype="code")[^<>]*>')
_CLOSING: Final = "</code_interpreter>"


def find_code(text: str) -> tuple[str, str] | None:
    """Return the text before the first code between tags, and that code; None where there is none.

    What stands behind it was written without its result, which the host asks the model to wait for.
    """
    opening = _OPENING.search(text)
    end = text.find(_CLOSING, opening.end()) if opening else -1
    if opening is None or end < 0 or not (code := text[opening.end() : end].strip()):
        return None
    return text[: opening.start()].rstrip(), code


class TaggedCodeWriter:
    """Another native writer, of an answer whose code between tags the host is to run."""

    def __init__(self, writer: NativeWriter, *, new_id: Callable[[], str]) -> None:
        self._writer = writer
        self.running = writer.running
        self._new_id = new_id

    def render(self, output: Output) -> list[HostEvent]:
        """Return the events for this output, in order."""
        events = [self._without_index(event) for event in self._writer.render(output)]
        if not isinstance(output, ResponseFinished):
            return events
        return [*events[:-1], *self._code(), *events[-1:]]  # the last says that the answer is complete

    def stop(self, line: str) -> list[HostEvent]:
        """Return the events for a user who has stopped the answer."""
        return [self._without_index(event) for event in self._writer.stop(line)]

    def stopped(self, cost: AnswerCost, line: str) -> list[HostEvent]:
        """Return the events about what an answer that was stopped has cost."""
        return self._writer.stopped(cost, line)  # none of them has an index

    def _without_index(self, event: HostEvent) -> HostEvent:
        """The same event to a host that has other items before these; an item is known there by its id."""
        kind = event.get("type")
        if kind == "response.completed":
            return {**event, "response": {**event["response"], "output": []}}
        is_done = kind == "response.output_item.done"
        if is_done and event["item"]["id"] != self._writer.items[-1]["id"]:
            kind = "response.output_item.added"
        known = {name: value for name, value in event.items() if name != "output_index"}
        return {**known, "type": kind} if is_done else known

    def _code(self) -> list[HostEvent]:
        """The events that make code at the end of an answer an item of its own."""
        last = next((item for item in reversed(self._writer.items) if item["type"] != NOTICE), None)
        if last is None or last["type"] != "message":
            return []
        part = last["content"][0]
        if (found := find_code(part["text"])) is None:
            return []
        before, code = found
        item = {
            "type": "open_webui:code_interpreter",
            "id": f"ci_{self._new_id()}",
            "status": "in_progress",
            "attributes": {"type": "code", "lang": "python"},
            "lang": "python",
            "code": code,
            "output": None,
        }
        # An item that the host knows by its id is replaced, and its citations do not become sources again.
        items = ({**last, "content": [{**part, "text": before}]}, item)
        return [{"type": "response.output_item.added", "item": each} for each in items]
