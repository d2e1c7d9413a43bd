"""Renders outputs as the Responses events that Open WebUI reduces, relays and stores natively.

The web frontend draws thinking, tool cards, text, citations and usage from these by itself. Markers are handed to the
host as `reasoning_details`, or written into message text, where the rendered chat shows nothing of them.
Source: `utils/response.py: handle_responses_streaming_event` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, cast

from ..history.markers import Reference, leading_markers, standalone_markers, visible_chars, write_reference
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
from ..responses.items import FunctionCall, Item, is_message, kind_of, picture_address
from ..responses.values import as_list, as_object, as_text, is_web_address

HostItem = dict[str, Any]

_CITATIONS = frozenset({"url_citation", "file_citation", "file_path"})
"""The annotations that the host may keep: a parsed document is one too, whole, and would swell the chat's row."""


def begin(item: Item, item_id: str) -> HostItem | None:
    """Return the first form of an item, or None for one that the host does not draw."""
    fields = cast("Mapping[str, Any]", item)
    match kind_of(fields["type"]).drawn_as:
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
        case "web_search_call":
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


class ChannelWriter(NativeWriter):
    """Writes the line of an error into the answer as a quotation, below what there is of it."""

    def render(self, output: Output) -> list[HostEvent]:
        """Return the events for this output, in order."""
        if not isinstance(output, Failed):
            return super().render(output)
        self._remove_calls()
        line = self._add(message(f"msg_{self._new_id()}", f"> {output.message}", status="completed"))
        return [line, self._completed(None)]
