"""Renders outputs as the Responses events that Open WebUI reduces, relays and stores natively.

The web frontend draws thinking, tool cards, text, citations and usage from these by itself. Markers are handed to the
host as `reasoning_details`, or written into message text, where the rendered chat shows nothing of them.
Source: `utils/response.py: handle_responses_streaming_event` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from ..history.carriers import Reference, visible_chars, write_reference
from ..history.markers import leading_markers, standalone_markers
from ..ports import Embed, Failed, Notice, Output, RoundEnded, StoredMarkers, ToolAnswered
from ..responses.effects import (
    ArgumentsDelta,
    CitationAdded,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ReasoningDelta,
    RefusalDelta,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    Usage,
)
from ..responses.items import Item, is_message
from ..responses.pictures import picture_address
from ..responses.wire import as_text
from .items import HostItem, answered_call, begin, call_output, finish, host_usage, message

Carrier = Literal["auto", "text"]
HostEvent = dict[str, Any]


class NativeWriter:
    """Turns an answer's outputs into events, keeping the host's view of the output as it goes.

    Its rounds, of which there are several where the pipe runs tools itself, are one response for the host.
    """

    def __init__(
        self,
        *,
        carrier: Carrier,
        new_id: Callable[[], str],
        clock: Callable[[], float],
        continued_text: str = "",
    ) -> None:
        """`clock` returns seconds; it times the reasoning. `continued_text` is what the answer goes on with."""
        self._carrier = carrier
        self._continued_chars = visible_chars(continued_text)
        self._phase = ""
        self._new_id = new_id
        self._clock = clock
        self.items: list[HostItem] = []
        self._output_indexes: dict[int, int] = {}
        self._begun_at: dict[int, float] = {}
        self._prefixes: dict[int, str] = {}
        self._last_part: dict[int, int] = {}
        self._pictures: list[str] = []
        self._round_start = 0
        self._unreported = False
        self._last_usage: Usage | None = None
        self.usage: Usage | None = None
        self.failed: Failed | None = None

    @property
    def host_usage(self) -> dict[str, Any]:
        """The usage of all rounds so far, as the host keeps it."""
        return host_usage(self.usage or Usage(), self._last_usage)

    def render(self, output: Output) -> list[HostEvent]:
        """Return the events for this output, in order; often one, sometimes none."""
        if isinstance(output, CitationAdded):  # it reaches the host with its finished message
            return []
        return _RENDERERS[type(output)](self, output)

    def _start(self, effect: ItemStarted) -> list[HostEvent]:
        if (item := begin(effect.item, self._new_id())) is None:
            return []
        events = self._begin_phase(effect.item)
        self._output_indexes[effect.index] = len(self.items)
        self._begun_at[effect.index] = self._clock()
        events.append(self._add(item))
        prefix = self._prefixes.get(effect.index, "")
        return [*events, *self._delta(effect.index, "output_text", prefix)] if prefix else events

    def _text(self, effect: TextDelta | RefusalDelta) -> list[HostEvent]:
        return self._delta(effect.index, "output_text", effect.delta)

    def _arguments(self, effect: ArgumentsDelta) -> list[HostEvent]:
        return self._delta(effect.index, "function_call_arguments", effect.delta)

    def _reasoning(self, effect: ReasoningDelta) -> list[HostEvent]:
        first = self._last_part.get(effect.index, 0) >= effect.part
        self._last_part[effect.index] = effect.part
        delta = effect.delta if first else f"\n\n{effect.delta}"
        kind, key = _REASONING_KINDS[effect.source]
        return [{**event, key: effect.part} for event in self._delta(effect.index, kind, delta)]

    def _finish(self, effect: ItemFinished | ItemAmended) -> list[HostEvent]:
        output_index = self._output_indexes.get(effect.index)
        if output_index is None:
            self._pictures += filter(None, [picture_address(effect.item)])
            return []
        return self._replace(output_index, self._finished(effect, output_index))

    def _amend(self, effect: ItemAmended) -> list[HostEvent]:
        """The host makes sources of the citations in each finished message, so known ones are not sent again."""
        output_index = self._output_indexes.get(effect.index)
        if output_index is None or self.items[output_index]["type"] != "message":
            return self._finish(effect)
        known = self.items[output_index]["content"][0]["annotations"]
        self.items[output_index] = done = self._finished(effect, output_index)
        part = done["content"][0]
        fresh = [annotation for annotation in part["annotations"] if annotation not in known]
        shown = {**done, "content": [{**part, "annotations": fresh}]}
        return [self._done(output_index, shown)] if fresh else []

    def _finished(self, effect: ItemFinished | ItemAmended, output_index: int) -> HostItem:
        begun = self.items[output_index]
        duration = begun.get("duration", int(self._clock() - self._begun_at[effect.index]))
        prefix = self._prefixes.get(effect.index, "")
        return finish(effect.item, begun, duration_seconds=duration, prefix=prefix)

    def _files(self) -> list[HostEvent]:
        """Images become files of the message: all in one event, of which the page keeps the last."""
        files = [{"type": "image", "url": url} for url in dict.fromkeys(self._pictures)]
        return [{"event": {"type": "files", "data": {"files": files}}}] if files else []

    def _begin_phase(self, item: Item) -> list[HostEvent]:
        """Note a message's phase beside the reasoning; where there is none, the ids of the calls behind it say it."""
        if not is_message(item) or (phase := as_text(item.get("phase"))) == self._phase:
            return []
        events = self._refer([Reference(self._said_chars(), phase=phase)])
        self._phase = phase if events else self._phase
        return events

    def _mark(self, marked: StoredMarkers) -> list[HostEvent]:
        said_chars = self._said_chars()
        if events := self._refer([Reference(said_chars, ulid=ulid) for ulid in marked.ids]):
            return events
        ids = [ulid for ulid in marked.ids if ulid not in marked.of_calls]
        if marked.before is not None:
            self._prefixes[marked.before] = leading_markers(ids)
            return []
        text = standalone_markers(ids)
        return [self._add(message(f"msg_{self._new_id()}", text, status="completed"))] if text else []

    def _refer(self, references: Sequence[Reference]) -> list[HostEvent]:
        """Add references to the last reasoning of the round, if there is any and markers are not in the text."""
        reasoning = [index for index, item in self._round_items() if item["type"] == "reasoning"]
        if self._carrier == "text" or not reasoning:
            return []
        item = self.items[reasoning[-1]]
        details = [*item.get("reasoning_details", []), *map(write_reference, references)]
        return self._replace(reasoning[-1], {**item, "reasoning_details": details})

    def _said_chars(self) -> int:
        """How much text the round has so far, as references count it."""
        items = (item for _, item in self._round_items() if item["type"] == "message")
        said = sum(visible_chars(item["content"][0]["text"]) for item in items)
        return said + (0 if self._round_start else self._continued_chars)

    def _round_items(self) -> Iterator[tuple[int, HostItem]]:
        return islice(enumerate(self.items), self._round_start, None)

    def _answered(self, effect: ToolAnswered) -> list[HostEvent]:
        call_id = effect.call["call_id"]
        call = answered_call(effect.call, self._new_id())
        return [self._add(call), self._add(call_output(call_id, effect.output, self._new_id()))]

    def _next_round(self, effect: RoundEnded) -> list[HostEvent]:
        """The next round numbers its items anew."""
        self._bill(effect.usage)
        for by_index in (self._output_indexes, self._begun_at, self._prefixes, self._last_part):
            by_index.clear()
        self._round_start, self._phase = len(self.items), ""
        return []

    def _bill(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = self.usage.plus(usage) if self.usage else usage
            self._last_usage = usage
            self._unreported = True

    def _complete(self, effect: ResponseFinished) -> list[HostEvent]:
        self._bill(effect.usage)
        return [*self._files(), self._completed(effect.response_id)]

    def _fail(self, effect: ResponseFailed) -> list[HostEvent]:
        """Reports what the answer cost; its text and reasoning stay."""
        self._bill(effect.usage)
        had_calls = self._remove_calls()
        ended = [self._completed(effect.response_id)] if had_calls or self.usage is not None else []
        return [*self._files(), *ended]

    def _error(self, failed: Failed) -> list[HostEvent]:
        self.failed = failed
        completed = [self._completed(None)] if self._remove_calls() or self._unreported else []
        return [*completed, {"error": {"message": failed.message}}]

    def _remove_calls(self) -> bool:
        """The host would run the calls of an answer that broke off, whatever their status; not those with an output."""
        count = len(self.items)
        done = {item["call_id"] for item in self.items if item["type"] == "function_call_output"}
        self.items = [
            item for item in self.items if item["type"] != "function_call" or item["call_id"] in done
        ]
        return len(self.items) < count

    def _status(self, notice: Notice) -> list[HostEvent]:
        return [{"event": {"type": "status", "data": {"description": notice.text, "done": notice.done}}}]

    def _embed(self, embed: Embed) -> list[HostEvent]:
        return [{"event": {"type": "embeds", "data": {"embeds": [embed.html]}}}]

    def _completed(self, response_id: str | None) -> HostEvent:
        output = [
            item for item in self.items if item["type"] != "function_call" or item["status"] == "completed"
        ]
        output = output or [message(f"msg_{self._new_id()}", "", status="completed")]
        response: dict[str, Any] = {"id": response_id, "status": "completed", "output": output}
        if self.usage is not None:
            response["usage"] = self.host_usage
        self._unreported = False
        return {"type": "response.completed", "response": response}

    def _add(self, item: HostItem) -> HostEvent:
        self.items.append(item)
        return {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": item}

    def _replace(self, output_index: int, item: HostItem) -> list[HostEvent]:
        if item == self.items[output_index]:
            return []
        self.items[output_index] = item
        return [self._done(output_index, item)]

    def _done(self, output_index: int, item: HostItem) -> HostEvent:
        return {"type": "response.output_item.done", "output_index": output_index, "item": item}

    def _delta(self, index: int, kind: str, delta: str) -> list[HostEvent]:
        """The event of a delta; none for an item that the host does not draw."""
        if (output_index := self._output_indexes.get(index)) is None:
            return []
        event = {
            "type": f"response.{kind}.delta",
            "item_id": self.items[output_index]["id"],
            "output_index": output_index,
            "content_index": 0,
            "delta": delta,
        }
        return [event]


_REASONING_KINDS = {
    "summary": ("reasoning_summary_text", "summary_index"),
    "text": ("reasoning_text", "content_index"),
}

_RENDERERS: dict[type, Callable[[NativeWriter, Any], list[HostEvent]]] = {
    ItemStarted: NativeWriter._start,  # noqa: SLF001 - its own table
    TextDelta: NativeWriter._text,  # noqa: SLF001 - its own table
    RefusalDelta: NativeWriter._text,  # noqa: SLF001 - its own table
    ReasoningDelta: NativeWriter._reasoning,  # noqa: SLF001 - its own table
    ArgumentsDelta: NativeWriter._arguments,  # noqa: SLF001 - its own table
    ItemFinished: NativeWriter._finish,  # noqa: SLF001 - its own table
    ItemAmended: NativeWriter._amend,  # noqa: SLF001 - its own table
    ResponseFinished: NativeWriter._complete,  # noqa: SLF001 - its own table
    ResponseFailed: NativeWriter._fail,  # noqa: SLF001 - its own table
    StoredMarkers: NativeWriter._mark,  # noqa: SLF001 - its own table
    ToolAnswered: NativeWriter._answered,  # noqa: SLF001 - its own table
    RoundEnded: NativeWriter._next_round,  # noqa: SLF001 - its own table
    Notice: NativeWriter._status,  # noqa: SLF001 - its own table
    Embed: NativeWriter._embed,  # noqa: SLF001 - its own table
    Failed: NativeWriter._error,  # noqa: SLF001 - its own table
}
