"""Renders outputs as the Responses events that Open WebUI reduces, relays and stores natively.

The web frontend draws thinking, tool cards, text, citations and usage from these by itself. Markers are written into
message text (or handed to the host as `reasoning_details`), where Open WebUI shows nothing of them.
Source: `utils/response.py: handle_responses_streaming_event` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ..history.markers import leading_markers, standalone_markers
from ..history.reading import REFERENCE_TYPE
from ..ports import Failed, Notice, Output, StoredMarkers
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
)
from ..responses.usage import Usage
from .items import HostItem, begin, finish, message, pictures
from .usage import host_usage

Carrier = Literal["text", "hidden"]
HostEvent = dict[str, Any]


class NativeWriter:
    """Turns one round's outputs into events, keeping the host's view of the output as it goes."""

    def __init__(self, *, carrier: Carrier, new_id: Callable[[], str], clock: Callable[[], float]) -> None:
        """`clock` gives seconds; it times the thinking."""
        self._carrier = carrier
        self._new_id = new_id
        self._clock = clock
        self.items: list[HostItem] = []
        self._places: dict[int, int] = {}
        self._begun_at: dict[int, float] = {}
        self._prefixes: dict[int, str] = {}
        self._last_part: dict[int, int] = {}
        self._pictures: list[str] = []
        self.usage: Usage | None = None
        self.error: str | None = None

    def render(self, output: Output) -> list[HostEvent]:
        """Give the events that this output means to the host, in order; often one, sometimes none."""
        renderer = _RENDERERS[type(output)]
        return renderer(self, output)

    def _start(self, effect: ItemStarted) -> list[HostEvent]:
        item = begin(effect.item, self._new_id())
        if item is None:
            return []
        self._places[effect.index] = len(self.items)
        self._begun_at[effect.index] = self._clock()
        events = [self._add(item)]
        prefix = self._prefixes.get(effect.index, "")
        return [*events, self._delta(effect.index, "output_text", prefix)] if prefix else events

    def _text(self, effect: TextDelta) -> list[HostEvent]:
        return self._delta_events(effect.index, "output_text", effect.delta)

    def _refusal(self, effect: RefusalDelta) -> list[HostEvent]:
        return self._delta_events(effect.index, "output_text", effect.delta)

    def _arguments(self, effect: ArgumentsDelta) -> list[HostEvent]:
        return self._delta_events(effect.index, "function_call_arguments", effect.delta)

    def _reasoning(self, effect: ReasoningDelta) -> list[HostEvent]:
        if effect.index not in self._places:
            return []
        first = self._last_part.get(effect.index, 0) >= effect.part
        self._last_part[effect.index] = effect.part
        delta = effect.delta if first else f"\n\n{effect.delta}"
        kind, key = _REASONING_KINDS[effect.source]
        return [{**self._delta(effect.index, kind, delta), key: effect.part}]

    def _finish(self, effect: ItemFinished | ItemAmended) -> list[HostEvent]:
        place = self._places.get(effect.index)
        if place is None:
            self._pictures += pictures(effect.item)
            return []
        return self._replace(place, self._finished(effect, place))

    def _amend(self, effect: ItemAmended) -> list[HostEvent]:
        """The host makes sources of the citations in each finished message, so known ones are not told again."""
        place = self._places.get(effect.index)
        if place is None or self.items[place]["type"] != "message":
            return self._finish(effect)
        known = self.items[place]["content"][0]["annotations"]
        self.items[place] = done = self._finished(effect, place)
        part = done["content"][0]
        fresh = [annotation for annotation in part["annotations"] if annotation not in known]
        told = {**done, "content": [{**part, "annotations": fresh}]}
        return [self._done(place, told)] if fresh else []

    def _finished(self, effect: ItemFinished | ItemAmended, place: int) -> HostItem:
        begun = self.items[place]
        duration = begun.get("duration", int(self._clock() - self._begun_at[effect.index]))
        prefix = self._prefixes.get(effect.index, "")
        return finish(effect.item, begun, duration_seconds=duration, prefix=prefix)

    def _files(self) -> list[HostEvent]:
        """Images become files of the message: all in one event, of which the page keeps the last."""
        files = [{"type": "image", "url": url} for url in dict.fromkeys(self._pictures)]
        return [{"event": {"type": "files", "data": {"files": files}}}] if files else []

    def _mark(self, marked: StoredMarkers) -> list[HostEvent]:
        if (place := self._hiding_place()) is not None:
            item = self.items[place]
            references = [{"type": REFERENCE_TYPE, "id": ulid} for ulid in marked.ids]
            details = [*item.get("reasoning_details", []), *references]
            return self._replace(place, {**item, "reasoning_details": details})
        if marked.before is not None:
            self._prefixes[marked.before] = leading_markers(marked.ids)
            return []
        return [
            self._add(message(f"msg_{self._new_id()}", standalone_markers(marked.ids), status="completed"))
        ]

    def _complete(self, effect: ResponseFinished) -> list[HostEvent]:
        self.usage = effect.usage
        return [*self._files(), self._completed(effect.response_id)]

    def _fail(self, effect: ResponseFailed) -> list[HostEvent]:
        """What the answer cost; the text and the thinking stay."""
        self.usage = effect.usage
        had_calls = self._take_calls_away()
        ended = [self._completed(effect.response_id)] if had_calls or self.usage is not None else []
        return [*self._files(), *ended]

    def _error(self, failed: Failed) -> list[HostEvent]:
        self.error = failed.message
        completed = [self._completed(None)] if self._take_calls_away() else []
        return [*completed, {"error": {"message": failed.message}}]

    def _take_calls_away(self) -> bool:
        """The host would run the calls of an answer that broke off, whatever their status."""
        kept = [item for item in self.items if item["type"] != "function_call"]
        had_calls = len(kept) < len(self.items)
        self.items = kept
        return had_calls

    def _status(self, notice: Notice) -> list[HostEvent]:
        return [{"event": {"type": "status", "data": {"description": notice.text, "done": notice.done}}}]

    def _ignore(self, _output: CitationAdded) -> list[HostEvent]:
        """Citations reach the host with their finished message."""
        return []

    def _completed(self, response_id: str | None) -> HostEvent:
        output = [
            item for item in self.items if item["type"] != "function_call" or item["status"] == "completed"
        ]
        output = output or [message(f"msg_{self._new_id()}", "", status="completed")]
        response: dict[str, Any] = {"id": response_id, "status": "completed", "output": output}
        if self.usage is not None:
            response["usage"] = host_usage(self.usage)
        return {"type": "response.completed", "response": response}

    def _add(self, item: HostItem) -> HostEvent:
        self.items.append(item)
        return {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": item}

    def _replace(self, place: int, item: HostItem) -> list[HostEvent]:
        if item == self.items[place]:
            return []
        self.items[place] = item
        return [self._done(place, item)]

    def _done(self, place: int, item: HostItem) -> HostEvent:
        return {"type": "response.output_item.done", "output_index": place, "item": item}

    def _delta_events(self, index: int, kind: str, delta: str) -> list[HostEvent]:
        return [self._delta(index, kind, delta)] if index in self._places else []

    def _delta(self, index: int, kind: str, delta: str) -> HostEvent:
        place = self._places[index]
        return {
            "type": f"response.{kind}.delta",
            "item_id": self.items[place]["id"],
            "output_index": place,
            "content_index": 0,
            "delta": delta,
        }

    def _hiding_place(self) -> int | None:
        """The last reasoning item, if references may ride on it: they stand before all text of their round."""
        kinds = [item["type"] for item in self.items]
        if self._carrier == "text" or "message" in kinds or "reasoning" not in kinds:
            return None
        return len(kinds) - 1 - kinds[::-1].index("reasoning")


_REASONING_KINDS = {
    "summary": ("reasoning_summary_text", "summary_index"),
    "text": ("reasoning_text", "content_index"),
}

_RENDERERS: dict[type, Callable[[NativeWriter, Any], list[HostEvent]]] = {
    ItemStarted: NativeWriter._start,  # noqa: SLF001 - its own table
    TextDelta: NativeWriter._text,  # noqa: SLF001 - its own table
    RefusalDelta: NativeWriter._refusal,  # noqa: SLF001 - its own table
    ReasoningDelta: NativeWriter._reasoning,  # noqa: SLF001 - its own table
    ArgumentsDelta: NativeWriter._arguments,  # noqa: SLF001 - its own table
    CitationAdded: NativeWriter._ignore,  # noqa: SLF001 - its own table
    ItemFinished: NativeWriter._finish,  # noqa: SLF001 - its own table
    ItemAmended: NativeWriter._amend,  # noqa: SLF001 - its own table
    ResponseFinished: NativeWriter._complete,  # noqa: SLF001 - its own table
    ResponseFailed: NativeWriter._fail,  # noqa: SLF001 - its own table
    StoredMarkers: NativeWriter._mark,  # noqa: SLF001 - its own table
    Notice: NativeWriter._status,  # noqa: SLF001 - its own table
    Failed: NativeWriter._error,  # noqa: SLF001 - its own table
}
