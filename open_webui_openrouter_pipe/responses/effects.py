"""What one round's stream means: a frame as an event, the effects that the reducer makes of events, and the usage.

Indexes of effects are contiguous from 0 in the order in which items first appeared, whatever gaps or repetitions the
provider's `output_index` had. An event is a JSON object whose `type` is a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import groupby
from operator import add, attrgetter
from typing import Any, Final, Literal, TypeAlias

from ..errors import StreamBroken
from ..words.lines import notice
from .failure import Failure
from .items import AssistantMessage, Item
from .values import as_count, as_list, as_number, as_object, as_text, clean_text, read_json

_DONE = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SUCCESS: Final = 200
_NAME_CHARACTERS: Final = 200


@dataclass(slots=True, eq=False, repr=False)
class Decoder:
    """Turns portions of bytes into frames, wherever the bytes are cut.

    `done` becomes true with `[DONE]`; whatever follows it is ignored.
    """

    done: bool = False
    _partial: list[bytes] = field(default_factory=list)
    _data: list[bytes] = field(default_factory=list)
    _after_cr: bool = False
    _first_line: bool = True

    def feed(self, portion: bytes) -> list[str]:
        """Take more bytes and return the frames that they complete."""
        if not portion:
            return []
        if self._after_cr and portion.startswith(b"\n"):
            portion = portion[1:]
        self._after_cr = portion.endswith(b"\r")
        frames: list[str] = []
        for line in portion.splitlines(keepends=True):
            self._partial.append(line)
            if line.endswith((b"\n", b"\r")):
                frames += self._end_line()
        return frames

    def flush(self) -> list[str]:
        """Return the last frame at the end of the stream, though no blank line closed it."""
        return self.feed(b"\n\n")

    def _end_line(self) -> list[str]:
        """Take a whole line, and return the frame that it ends."""
        line = b"".join(self._partial).rstrip(b"\r\n")
        self._partial.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            data = b"\n".join(self._data)
            self._data.clear()
            return [data.decode("utf-8", "replace")] if data and not self.done else []
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data" and value == _DONE and not self._data:
            self.done = True  # at once: some servers keep the connection open without closing the frame
        elif name == b"data":
            self._data.append(value)
        return []


MOST_BILLED: Final = 1_000.0
"""Dollars: two million tokens of the dearest model cost less.

A bill of more is a mistake, and would close a limit for everybody.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one round, and its cost in US dollars, 0 where no bill says it.

    Tokens of thinking, audio and pictures are among those of input or output.
    `byok_requests` are those that were served with a provider's own key in the
    OpenRouter account: then `cost` is OpenRouter's fee, and `provider_cost`
    what the provider is paid besides. `searches` and `pictures` are what the
    answer has of them, `tool_cost` what of the cost is for OpenRouter's tools.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    provider_cost: float = 0.0
    byok_requests: int = 0
    audio_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    searches: int = 0
    pictures: int = 0
    tool_cost: float = 0.0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def is_billed(self) -> bool:
        """Whether somebody has paid."""
        return bool(self.cost or self.provider_cost)

    def plus(self, other: Usage) -> Usage:
        """Return the sums of two rounds."""
        return Usage(*map(add, _figures(self), _figures(other)))


_figures = attrgetter(*(each.name for each in fields(Usage)))


@dataclass(frozen=True, slots=True)
class Served:
    """Who answered, as far as OpenRouter says: "" where it does not.

    `model` is an OpenRouter id, `provider` a name such as "Google AI Studio". With `is_byok` the provider has billed a
    key of the account's own. `other_model` is the id of the model where it is not the one that was asked for; whoever
    knows the catalogue fills it in.
    """

    model: str = ""
    provider: str = ""
    is_byok: bool = False
    other_model: str = ""


UNKNOWN: Final = Served()


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """A new item begins at `index`; `item` is its first, mostly empty form."""

    index: int
    item: Item


@dataclass(frozen=True, slots=True)
class TextKind:
    """Where a kind of text stands: in which type of item, under which key of a part, in which events.

    `part_key` is the key of its part's index in events; arguments are a field of their own, without parts.
    """

    item_type: str
    text_key: str
    event: str
    part_key: str = ""


TextName = Literal["output_text", "refusal", "summary_text", "reasoning_text", "arguments"]
TEXT_KINDS: Final[Mapping[TextName, TextKind]] = {
    "output_text": TextKind("message", "text", "output_text", "content_index"),
    "refusal": TextKind("message", "refusal", "refusal", "content_index"),
    "summary_text": TextKind("reasoning", "text", "reasoning_summary_text", "summary_index"),
    "reasoning_text": TextKind("reasoning", "text", "reasoning_text", "content_index"),
    "arguments": TextKind("function_call", "arguments", "function_call_arguments"),
}
"""The kinds of text that come in deltas, by the types of their parts."""
_DELTAS: Final = frozenset(f"response.{kind.event}.delta" for kind in TEXT_KINDS.values())
_PLACE: Final = ("type", "item_id", "output_index", "content_index", "summary_index")


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of part `part` of item `index`: of an answer, of thinking, or of a call's arguments."""

    index: int
    part: int
    delta: str
    kind: TextName = "output_text"


@dataclass(frozen=True, slots=True)
class ItemFinished:
    """The item at `index` is whole. Sent exactly once for each item that was started."""

    index: int
    item: Item


@dataclass(frozen=True, slots=True)
class ItemAmended:
    """The terminal event brought more of a finished item, such as its signature or encrypted content."""

    index: int
    item: Item


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """The round ended well, or was cut off by a limit (`status` "incomplete" with its `reason`).

    `items` is the whole output in order, as finished or amended. Nothing follows it.
    """

    status: Literal["completed", "incomplete"] = "completed"
    reason: str | None = None
    response_id: str | None = None
    items: tuple[Item, ...] = ()
    usage: Usage | None = None
    served: Served = field(default=UNKNOWN, repr=False)


@dataclass(frozen=True, slots=True)
class ResponseFailed:
    """The round failed; what had arrived was closed as incomplete. Nothing follows it."""

    failure: Failure
    response_id: str | None = None
    usage: Usage | None = None
    served: Served = field(default=UNKNOWN, repr=False)


Effect: TypeAlias = ItemStarted | TextDelta | ItemFinished | ItemAmended | ResponseFinished | ResponseFailed


def parse_event(frame: str) -> dict[str, Any]:
    """Read a frame as an event; raises StreamBroken when it is not a JSON object.

    Without a type it is an "error" when it holds one, the end of a response when it is one, and otherwise of the empty
    type, which the reducer ignores.
    """
    event = read_json(frame)
    if not isinstance(event, dict):
        raise StreamBroken(notice("unreadable_event"), detail=f"unreadable event of {len(frame)} characters")
    if isinstance(event.get("type"), str):
        return event
    if event.get("error") or event.get("object") == "response":
        return terminal_event(event)
    return {**event, "type": ""}


def join_deltas(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events, of which neighbouring deltas of one text are one: they say the same, and cost less."""
    for _, (first, *others) in groupby(events, _place):
        yield {**first, "delta": "".join([each["delta"] for each in (first, *others)])} if others else first


def _place(event: Mapping[str, Any]) -> object:
    """Return which text a delta is of; something that is nothing else for any other event."""
    is_delta = event["type"] in _DELTAS and isinstance(event.get("delta"), str)
    return [*map(event.get, _PLACE)] if is_delta else object()


def terminal_event(response: dict[str, Any]) -> dict[str, Any]:
    """Return the terminal event of a whole response object, of whole pictures, or of an error body."""
    if response.get("object") == "response" or isinstance(response.get("output"), list):
        return {"type": "response.completed", "response": response}
    has_pictures = isinstance(response.get("data"), list)
    return {**response, "type": "image_generation.completed" if has_pictures else "error"}


def read_usage(wire: Any, *, is_byok: bool = False) -> Usage | None:
    """Read the wire's `usage` object; None when there is none.

    Values of a wrong type count as zero. What a provider is paid counts where
    its own key was used: without one, it is the same as the cost, or what
    OpenRouter pays. A usage that does not say whether one was, as with server
    tools, counts as `is_byok`. What these have cost is all that was not paid
    for tokens where it is not named, as in the recorded bills.
    """
    if not isinstance(wire, dict):
        return None
    given = as_object(wire.get("input_tokens_details"))
    made = as_object(wire.get("output_tokens_details"))
    tools = as_object(wire.get("server_tool_use_details") or wire.get("server_tool_use"))
    if (said := wire.get("is_byok")) is not None:
        is_byok = said is True
    paid = as_object(wire.get("cost_details"))
    cost = as_number(wire.get("cost")) or 0.0
    provider_cost = as_number(paid.get("upstream_inference_cost")) or 0.0
    tool_cost = as_number(paid.get("server_tool_cost"))
    if tools and tool_cost is None and not is_byok:
        parts = [as_number(paid.get(f"upstream_inference_{name}_cost")) for name in ("input", "output")]
        tool_cost = 0.0 if None in parts else round(cost - sum(filter(None, parts)), 9)
    return Usage(
        input_tokens=as_count(wire.get("input_tokens")) or 0,
        cached_tokens=as_count(given.get("cached_tokens")) or 0,
        cache_write_tokens=as_count(given.get("cache_write_tokens")) or 0,
        output_tokens=as_count(wire.get("output_tokens")) or 0,
        reasoning_tokens=as_count(made.get("reasoning_tokens")) or 0,
        cost=cost if 0 <= cost <= MOST_BILLED else 0.0,
        provider_cost=provider_cost if is_byok and 0 <= provider_cost <= MOST_BILLED else 0.0,
        byok_requests=int(is_byok),
        audio_tokens=as_count(given.get("audio_tokens")) or 0,
        audio_output_tokens=as_count(made.get("audio_tokens")) or 0,
        image_output_tokens=as_count(made.get("image_tokens")) or 0,
        searches=as_count(tools.get("web_search_requests")) or 0,
        tool_cost=min(max(0.0, tool_cost or 0.0), MOST_BILLED),
    )


def read_generation(wire: Mapping[str, Any]) -> Usage | None:
    """Read what a generation was billed, which is told some time after its end; None where no cost is named.

    Source of the form: `GET /generation` of OpenRouter's API; `upstream_inference_cost` is told with a provider's own
    key alone.
    """
    told = as_object(wire.get("data"))
    if as_number(told.get("total_cost")) is None:
        return None
    return read_usage(
        {
            "input_tokens": told.get("native_tokens_prompt"),
            "input_tokens_details": {"cached_tokens": told.get("native_tokens_cached")},
            "output_tokens": told.get("native_tokens_completion"),
            "output_tokens_details": {"reasoning_tokens": told.get("native_tokens_reasoning")},
            "cost": told["total_cost"],
            "cost_details": told,
            "is_byok": told.get("is_byok"),
        }
    )


def read_served(event: Mapping[str, Any]) -> Served:
    """Read who answered from a terminal event, or from the whole object of a response.

    Source of the form: `openrouter_metadata`, which the header `X-OpenRouter-Metadata` asks for; the attempt that
    succeeded counts more than the endpoint that was selected before it.
    """
    response = as_object(event.get("response")) or event
    metadata = as_object(response.get("openrouter_metadata") or event.get("openrouter_metadata"))
    endpoints = map(as_object, as_list(as_object(metadata.get("endpoints")).get("available")))
    tried = [*map(as_object, as_list(metadata.get("attempts")))]
    chosen = [each for each in reversed(tried) if each.get("status") == _SUCCESS]
    chosen += [each for each in endpoints if each.get("selected") is True]
    models = [each.get("model") for each in chosen] + [response.get("model")]
    return Served(
        model=next(filter(None, map(_name, models)), ""),
        provider=next(filter(None, (_name(each.get("provider")) for each in chosen)), ""),
        is_byok=metadata.get("is_byok") is True,
    )


def _name(value: Any) -> str:
    """A name off the wire, as it may be shown and stored."""
    return " ".join(clean_text(as_text(value)).split())[:_NAME_CHARACTERS]


def answer_of(text: str, item_id: str) -> tuple[ItemStarted, TextDelta, ItemFinished, ResponseFinished]:
    """Return a whole answer of this text, as if a model had written it, at no cost."""
    item: AssistantMessage = {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    begun: AssistantMessage = {**item, "status": "in_progress", "content": []}
    end = ResponseFinished(items=(item,))
    return ItemStarted(0, begun), TextDelta(0, 0, text), ItemFinished(0, item), end
