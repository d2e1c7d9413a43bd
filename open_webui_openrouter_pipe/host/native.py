"""Renders outputs as the Responses events that Open WebUI reduces, relays and stores natively.

The web frontend draws thinking, tool cards, text, citations and usage from these by itself. Markers are handed to the
host as `reasoning_details`, or written into message text, where the rendered chat shows nothing of them.
Source: `utils/response.py: handle_responses_streaming_event` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

from ..context.report import plain
from ..history.markers import Reference, leading_markers, standalone_markers, visible_chars, write_reference
from ..money.prices import dollars, tool_parts
from ..ports import (
    AnswerCost,
    Embed,
    Failed,
    Notice,
    Output,
    RoundEnded,
    Sketch,
    StoredMarkers,
    ToolAnswered,
    ToolsBegan,
)
from ..responses.effects import (
    TEXT_KINDS,
    UNKNOWN,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
    Served,
    TextDelta,
    Usage,
)
from ..responses.items import FunctionCall, Item, kind_of, picture_address
from ..responses.tools import PREFIX
from ..responses.values import as_list, as_object, as_text, is_web_address

HostItem = dict[str, Any]
HostEvent = dict[str, Any]

_CITATIONS: Final = frozenset({"url_citation", "file_citation", "file_path"})
"""The annotations that the host may keep: a parsed document is one too, whole, and would swell the chat's row."""
_RANGES: Final = ("start_index", "end_index")
NOTICE: Final = "openrouter_pipe.notice"
"""An item with lines about the answer.

The page draws the text of an item whose type it does not know, in its place (`structuredOutput.ts`). The host neither
copies it nor reads it aloud, and sends it to no model, for answers, titles and the rest (`utils/misc.py`).
"""

INTERRUPTED: Final = "Error: tool execution was interrupted; its outcome is unknown."
"""What a tool has answered that was stopped: the host's own words for it (`resume_tool_calls`)."""

FAILED: Final = "failed"
"""What such an item has besides, where it says why there is no whole answer."""
_ADDRESS: Final = re.compile(r"(https?://[\w.:/%?&=#~-]*[A-Za-z0-9/])", re.ASCII)

_BELOW_AN_ITEM: Final = (Notice, AnswerCost, TextDelta, ItemFinished, ItemAmended)
"""Outputs above which no line is written: they begin no item, and end nothing."""

_ASKED: Final = (
    "url",
    "timezone",
    "model",
    "prompt",
    "task_name",
    "task_description",
    "action",
    "command",
    "query",
)
"""What a tool of OpenRouter's was asked, by the fields of its item."""
_NO_RESULTS: Final = frozenset(
    {
        *(*_ASKED, "type", "id", "status", "call_id", "arguments", "name", "instance_name", "container_id"),
        *("imageUrl", "imageB64", "httpStatus"),
    }
)
"""What else is not its result; a picture is shown as one."""
_RESULT_CHARACTERS: Final = 4_000
"""How much of a result stands in the chat; the model has it whole."""

UsageShown: TypeAlias = Literal["all", "no_cost", "tokens"]
"""What usage says: everything; nothing of money; of an answer whose model is to be guessed, its tokens alone."""
_MONEY: Final = frozenset({"price", "provider_price", "tools", "cost", "total_cost", "is_byok"})
_TOKENS: Final = ("input_tokens", "output_tokens", "total_tokens", "prompt_tokens", "completion_tokens")


def host_usage(
    usage: Usage,
    last: Usage | None = None,
    served: Served = UNKNOWN,
    whole: AnswerCost | None = None,
) -> dict[str, Any]:
    """Return the usage of an answer in the form that Open WebUI stores, sums and shows, in this order.

    Over the rounds of an answer it sums token counts and flat costs; of all else it keeps what the last round says
    that has it. So the first lines are those of the `whole` answer, which the page would not sum where it goes on with
    an earlier one; and each round has `total_cost`, what OpenRouter and the provider are paid together, and names who
    has `served` it, where that is known; `is_byok` says of the whole answer that a provider's own key was used. By the
    last round's `prompt_tokens` and `completion_tokens` the host's compaction judges the length of the chat: `last` is
    the usage of that round, where several are reported at once.
    Source: `utils/response.py: merge_usage` of Open WebUI 0.12.
    """
    last = last or usage
    first = dict[str, Any]()
    if whole is not None:
        paid = whole.usage
        first = {
            "price": dollars(paid.cost),
            **({"provider_price": dollars(paid.provider_cost)} if paid.byok_requests else {}),
            "seconds": round(whole.seconds, 1),
            "requests": whole.requests,
            **({"tools": ", ".join(tool_parts(whole.tools))} if whole.tools else {}),
        }
    if served.model:
        first |= {"model": served.other_model or served.model, "provider": served.provider}
    return {
        **first,
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
        "total_cost": usage.cost + usage.provider_cost,
        **({"is_byok": True} if usage.byok_requests else {}),
    }


def _begin(item: Item, item_id: str) -> HostItem | None:
    """The first form of an item, or None for one that the host does not draw."""
    fields = cast("Mapping[str, Any]", item)
    if not (drawn_as := kind_of(fields["type"]).drawn_as):
        return None
    begun = {"type": drawn_as, "id": f"{kind_of(drawn_as).id_prefix}_{item_id}", "status": "in_progress"}
    match drawn_as:
        case "message":
            return _message(item_id, "", status="in_progress")
        case "reasoning":
            return {**begun, "summary": []}
        case "function_call":
            name = fields.get("name") if fields["type"] == drawn_as else fields["type"].removeprefix(PREFIX)
            named = {"call_id": fields.get("call_id") or item_id, "name": name or ""}
            return {**begun, **named, "arguments": ""}
    return begun


def _server_call(fields: Mapping[str, Any]) -> tuple[str, str]:
    """The arguments of a call of OpenRouter's tool, and its result, as texts."""
    asked = {name: fields[name] for name in _ASKED if fields.get(name) is not None}
    of_picture = {"result"} if kind_of(fields["type"]).is_picture else set[str]()
    results = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
        if value and name not in _NO_RESULTS | of_picture
    ]
    text = "\n".join(results)
    return json.dumps(asked, ensure_ascii=False), text[:_RESULT_CHARACTERS]


def _output_of(call: Mapping[str, Any], text: object, item_id: str) -> HostItem:
    """The output of a call; the host stops at outputs that are not a list of parts."""
    output = [{"type": "input_text", "text": text}]
    named = {"type": "function_call_output", "id": f"fco_{item_id}", "call_id": call["call_id"]}
    return {**named, "output": output, "status": "completed"}


def _message(item_id: str, text: str, *, status: str = "completed") -> HostItem:
    """An assistant message of one text part."""
    part = {"type": "output_text", "text": text, "annotations": []}
    head = {"type": "message", "id": f"msg_{item_id}", "status": status}
    return {**head, "role": "assistant", "content": [part]}


def _text_part(parts: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, Any]:
    """The texts of a message as one, with the character ranges of their annotations shifted accordingly."""
    text, annotations = prefix, list[dict[str, Any]]()
    for part in parts:
        for annotation in map(as_object, part.get("annotations") or []):
            if annotation.get("type") in _CITATIONS and _may_be_linked(annotation):
                known = {key: value for key, value in annotation.items() if value is not None}
                starts = {key: known[key] for key in _RANGES if isinstance(known.get(key), int)}
                annotations.append({**known, **{key: start + len(text) for key, start in starts.items()}})
        text += as_text(part.get("text")) or as_text(part.get("refusal"))
    return {"type": "output_text", "text": text, "annotations": annotations}


def _may_be_linked(fields: Any) -> bool:
    """Whether the host, which looks at no address, may link to this one, if there is one."""
    url = as_object(fields).get("url")
    return url is None or is_web_address(url)


def _reasoning_parts(value: Any, kind: str) -> list[dict[str, Any]]:
    """The paragraphs of reasoning, which Open WebUI joins without a space; the provider may send a bare text."""
    parts = value if isinstance(value, list) else [{"text": value}]
    texts = [text for part in parts if (text := as_text(as_object(part).get("text")))]
    return [{"type": kind, "text": f"\n\n{text}" if index else text} for index, text in enumerate(texts)]


class NativeWriter:
    """Turns an answer's outputs into events, keeping the host's view of the output as it goes.

    Its rounds, of which there are several where the pipe runs tools itself, are one response for the host.
    """

    def __init__(
        self,
        *,
        new_id: Callable[[], str],
        clock: Callable[[], float],
        continued_text: str = "",
        usage_shown: UsageShown = "all",
    ) -> None:
        """`clock` returns seconds; it times the reasoning. `continued_text` is what the answer goes on with."""
        self._usage_shown = usage_shown
        self._lines: list[Notice] = []
        """About the answer, for above its next item."""
        self._waits = False
        """Whether the last status line is a wait."""
        self._cost: AnswerCost | None = None
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
        self._has_sketch = False
        self._round_start = 0
        self._unreported = False
        self.running: dict[str, FunctionCall] = {}
        """The calls of tools that run here, by their ids."""
        self._last_usage: Usage | None = None
        self._served = UNKNOWN
        self.usage: Usage | None = None
        self.failed: Failed | None = None

    @property
    def host_usage(self) -> dict[str, Any]:
        """The usage of all rounds so far, as the host keeps it."""
        return self._shown(host_usage(self.usage or Usage(), self._last_usage, self._served, self._cost))

    def _shown(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        if self._usage_shown == "tokens":
            return {name: usage[name] for name in _TOKENS}
        hidden = _MONEY if self._usage_shown == "no_cost" else ()
        return {name: value for name, value in usage.items() if name not in hidden}

    def render(self, output: Output) -> list[HostEvent]:
        """Return the events for this output, in order; often one, sometimes none."""
        events: list[HostEvent] = []
        if self._lines and not isinstance(output, _BELOW_AN_ITEM):
            events = self._say()
        elif self._waits and not isinstance(output, Notice | AnswerCost | Sketch):
            events = self._end_wait()
        return [*events, *self._renderers[type(output)](self, output)]

    def _notice(self, line: Notice) -> list[HostEvent]:
        """What is to stand in the answer waits for the item that it stands above, or for the end."""
        if line.weight:
            self._lines.append(line)
            return []
        events = [] if line.text else self._end_wait()
        self._waits = not line.done
        return events if not line.text else [status_event(line.text, done=line.done)]

    def _end_wait(self) -> list[HostEvent]:
        """The page shows no status line where the last one is hidden."""
        events = [status_event("", done=True, hidden=True)] if self._waits else []
        self._waits = False
        return events

    def _say(self) -> list[HostEvent]:
        """End a wait, and write the lines that stand here, each a paragraph of one quotation."""
        events, lines = self._end_wait(), sorted(self._lines, key=lambda line: -line.weight)
        self._lines = []
        if texts := dict.fromkeys(_quoted(line.text) for line in lines):
            events.append(self._add(self._written("\n>\n".join(texts))))
        return events

    def _written(self, text: str) -> HostItem:
        """An item of lines about the answer."""
        item = {"type": NOTICE, "id": f"notice_{self._new_id()}", "status": "completed"}
        return {**item, "content": [{"type": "text", "text": text}]}

    def stop(self, line: str) -> list[HostEvent]:
        """Return the events for a user who has stopped the answer; the line for one without text, "" for none."""
        calls = [*self.running.values()]
        events = [event for call in calls for event in self._answered(ToolAnswered(call, INTERRUPTED))]
        if line and not any(item["type"] == "message" for item in self.items):
            self._lines.append(Notice(line, weight=1))
        return [*events, *self._end_sketch(), *self._say()]

    @property
    def open_calls(self) -> list[HostItem]:
        """The calls that the host or the caller is to run."""
        done = {item["call_id"] for item in self.items if item["type"] == "function_call_output"}
        calls = (
            item for item in self.items if item["type"] == "function_call" and item["status"] == "completed"
        )
        return [call for call in calls if call["call_id"] not in done]

    def stopped(self, cost: AnswerCost, line: str) -> list[HostEvent]:
        """Return the events for a user who has stopped the answer, with what it has cost by our own count.

        The host does not store its usage, but a line if there is one.
        """
        usage = {**host_usage(cost.last, whole=cost), "price": f"~{dollars(cost.usage.cost)}"}
        events = [status_event(line)] if line else self._end_wait()
        response: dict[str, Any] = {
            "id": None,
            "status": "incomplete",
            "output": [],
            "usage": self._shown(usage),
        }
        return [*events, {"type": "response.completed", "response": response}]

    def _note_cost(self, cost: AnswerCost) -> list[HostEvent]:
        self._cost = cost
        return []

    def _start(self, effect: ItemStarted) -> list[HostEvent]:
        if (item := _begin(effect.item, self._new_id())) is None:
            return []
        events: list[HostEvent] = []
        if item["type"] == "message" and (phase := as_text(effect.item.get("phase"))) != self._phase:
            # Where there is no reasoning to note the phase beside, the ids of the calls behind the message say it.
            events = self._refer([Reference(self._said_chars(), phase=phase)])
            self._phase = phase if events else self._phase
        self._output_indexes[effect.index] = len(self.items)
        self._begun_at[effect.index] = self._clock()
        events.append(self._add(item))
        if prefix := self._prefixes.get(effect.index):
            events += self._delta(TextDelta(effect.index, 0, prefix))
        return events

    def _delta(self, effect: TextDelta) -> list[HostEvent]:
        """The event of a delta; none for an item that the host does not draw. A refusal is text, too."""
        if (output_index := self._output_indexes.get(effect.index)) is None:
            return []
        kind, delta, part = TEXT_KINDS[effect.kind], effect.delta, dict[str, int]()
        if kind.item_type == "reasoning":
            part = {kind.part_key: effect.part}
            if self._last_part.get(effect.index, 0) < effect.part:
                delta = f"\n\n{delta}"
            self._last_part[effect.index] = effect.part
        event = {
            "type": f"response.{'output_text' if effect.kind == 'refusal' else kind.event}.delta",
            "item_id": self.items[output_index]["id"],
            "output_index": output_index,
            "content_index": 0,
            "delta": delta,
            **part,
        }
        return [event]

    def _finish(self, effect: ItemFinished | ItemAmended) -> list[HostEvent]:
        output_index, item = self._output_indexes.get(effect.index), effect.item
        if output_index is None:
            self._pictures += filter(None, [picture_address(item)])
            return []
        events = self._replace(output_index, self._finished(effect, output_index))
        call = self.items[output_index]
        if call["type"] == "function_call" != item["type"] and call in self.open_calls:
            self._pictures += filter(None, [picture_address(item)])
            _, result = _server_call(cast("Mapping[str, Any]", item))
            events.append(self._add(_output_of(call, result, self._new_id())))
        return events

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
        return [_done(output_index, shown)] if fresh else []

    def _finished(self, effect: ItemFinished | ItemAmended, output_index: int) -> HostItem:
        """The final form of an item that was begun."""
        begun, fields = self.items[output_index], cast("Mapping[str, Any]", effect.item)
        done = {**begun, "status": "incomplete" if fields.get("status") == "incomplete" else "completed"}
        match begun["type"]:
            case "message":
                prefix = self._prefixes.get(effect.index, "")  # it was written before the message's own text
                return {**done, "content": [_text_part(fields.get("content") or [], prefix)]}
            case "reasoning":
                content = _reasoning_parts(fields.get("content"), "reasoning_text")
                done |= {"summary": _reasoning_parts(fields.get("summary"), "summary_text")}
                seconds = begun.get("duration", int(self._clock() - self._begun_at[effect.index]))
                return {**done, **({"content": content} if content else {}), "duration": seconds}
            case "function_call" if fields["type"] != "function_call":
                return {**done, "arguments": _server_call(fields)[0]}
            case "function_call":  # name and id may have been unknown when the call began
                known = {key: text for key in ("call_id", "name") if (text := as_text(fields.get(key)))}
                return {**done, **known, "arguments": fields.get("arguments") or "{}"}
        if not isinstance(action := fields.get("action"), dict):
            return done
        action = {key: value for key, value in action.items() if value is not None}
        if "sources" in action:
            action["sources"] = [source for source in as_list(action["sources"]) if _may_be_linked(source)]
        return {**done, "action": action if _may_be_linked(action) else {**action, "url": ""}}

    def _mark(self, marked: StoredMarkers) -> list[HostEvent]:
        said_chars = self._said_chars()
        if events := self._refer([Reference(said_chars, ulid=ulid) for ulid in marked.ids]):
            return events
        ids = [ulid for ulid in marked.ids if ulid not in marked.of_calls]
        if marked.before is not None:
            self._prefixes[marked.before] = leading_markers(ids)
            return []
        text = standalone_markers(ids)
        return [self._add(_message(self._new_id(), text))] if text else []

    def _refer(self, references: Sequence[Reference]) -> list[HostEvent]:
        """Add references to the last reasoning of the round, if there is any."""
        round_indexes = range(self._round_start, len(self.items))
        reasoning = [index for index in round_indexes if self.items[index]["type"] == "reasoning"]
        if not reasoning:
            return []
        item = self.items[reasoning[-1]]
        details = [*item.get("reasoning_details", []), *map(write_reference, references)]
        return self._replace(reasoning[-1], {**item, "reasoning_details": details})

    def _said_chars(self) -> int:
        """How much text the round has so far, as references count it."""
        items = self.items[self._round_start :]
        said = sum(visible_chars(item["content"][0]["text"]) for item in items if item["type"] == "message")
        return said + (0 if self._round_start else self._continued_chars)

    def _run_tools(self, began: ToolsBegan) -> list[HostEvent]:
        self.running |= {call["call_id"]: call for call in began.calls}
        return []

    def _answered(self, effect: ToolAnswered) -> list[HostEvent]:
        """The output of a call, and that itself where it is not shown."""
        is_shown = self.running.pop(effect.call["call_id"], None)
        begun = {} if is_shown else _begin(effect.call, self._new_id()) or {}
        output = {**_output_of(effect.call, effect.output, self._new_id()), **effect.shown}
        if is_shown:
            items = enumerate(self.items)
            at = next(at for at, item in items if item.get("call_id") == output["call_id"])
            return [*self._replace(at, {**self.items[at], "status": output["status"]}), self._add(output)]
        call = {**begun, "status": "completed", "arguments": effect.call["arguments"] or "{}"}
        return [self._add(call), self._add(output)]

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

    def _end(self, effect: ResponseFinished | ResponseFailed) -> list[HostEvent]:
        """Images become files of the message: all in one event, of which the page keeps the last.

        A response that failed reports what it cost; its text and reasoning stay.
        """
        self._bill(effect.usage)
        self._served = effect.served
        files = [{"type": "image", "url": url} for url in dict.fromkeys(self._pictures)]
        events: list[HostEvent] = [{"event": {"type": "files", "data": {"files": files}}}] if files else []
        had_calls = isinstance(effect, ResponseFailed) and self._remove_calls()
        if had_calls or self.usage is not None or isinstance(effect, ResponseFinished):
            events.append(self._completed(effect.response_id))
        return events

    def _error(self, failed: Failed) -> list[HostEvent]:
        self.failed, sketch = failed, self._end_sketch()
        completed = [self._completed(None)] if self._remove_calls() or self._unreported else []
        return [*sketch, *completed, {"error": {"message": failed.message}}]

    def _sketch(self, sketch: Sketch) -> list[HostEvent]:
        """The page draws it, and the host does not store it: of these events it stores those called "files" alone.

        Source: `socket/main.py: get_event_emitter` of Open WebUI 0.12.
        """
        self._has_sketch = bool(sketch.url)
        files = [{"type": "image", "url": sketch.url}] if sketch.url else []
        return [{"event": {"type": "chat:message:files", "data": {"files": files}}}]

    def _end_sketch(self) -> list[HostEvent]:
        return self._sketch(Sketch()) if self._has_sketch else []

    def _remove_calls(self) -> bool:
        """The host would run the calls of an answer that broke off, whatever their status; not those with an output."""
        count = len(self.items)
        done = {item["call_id"] for item in self.items if item["type"] == "function_call_output"}
        self.items = [
            item for item in self.items if item["type"] != "function_call" or item["call_id"] in done
        ]
        return len(self.items) < count

    def _completed(self, response_id: str | None) -> HostEvent:
        output = [
            item
            for item in self.items
            if item["type"] != "function_call" or item["status"] in {"completed", FAILED}
        ]
        output = output or [_message(self._new_id(), "")]
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
        return [_done(output_index, item)]

    _renderers: ClassVar[Mapping[type, Callable[[NativeWriter, Any], list[HostEvent]]]] = {
        TextDelta: _delta,
        ItemStarted: _start,
        ItemFinished: _finish,
        ItemAmended: _amend,
        ResponseFinished: _end,
        ResponseFailed: _end,
        StoredMarkers: _mark,
        ToolsBegan: _run_tools,
        ToolAnswered: _answered,
        RoundEnded: _next_round,
        AnswerCost: _note_cost,
        Notice: _notice,
        Embed: lambda _, page: [{"event": {"type": "embeds", "data": {"embeds": [page.html]}}}],
        Sketch: _sketch,
        Failed: lambda self, failed: self._error(failed),  # a page and a channel have their own
    }


def status_event(text: str, *, done: bool = True, hidden: bool = False) -> HostEvent:
    """Return the event that shows a line above the answer."""
    data = {"description": text, "done": done, **({"hidden": True} if hidden else {})}
    return {"event": {"type": "status", "data": data}}


def _done(output_index: int, item: HostItem) -> HostEvent:
    return {"type": "response.output_item.done", "output_index": output_index, "item": item}


class PageWriter(NativeWriter):
    """Writes the line of an error into the answer as one about it, below what there is of it.

    The host's own box for errors is pale, and an address in it is no link.
    """

    def _error(self, failed: Failed) -> list[HostEvent]:
        self.failed, had_calls = failed, self._remove_calls()
        events = [*self._end_sketch(), self._add({**self._written(_quoted(failed.message)), FAILED: True})]
        return [*events, self._completed(None)] if had_calls or self._unreported else events


class ChannelWriter(NativeWriter):
    """Writes the line of an error into the answer as a quotation, below what there is of it."""

    def _error(self, failed: Failed) -> list[HostEvent]:
        self._remove_calls()
        return [self._add(_message(self._new_id(), _quoted(failed.message))), self._completed(None)]


def _quoted(line: str) -> str:
    """A line as a quotation in Markdown, in which its addresses are links."""
    pieces = _ADDRESS.split(" ".join(line.split()))
    written = [
        f"[{plain(piece.partition('://')[2])}]({piece})" if index % 2 else plain(piece)
        for index, piece in enumerate(pieces)
    ]
    return f"> {''.join(written)}"
