"""What of an exchange is compared: what it is made of, and not what was said.

Two answers of one shape have the same status, kind of failure, types of events in the order in which each first came,
types of items, and fields; what they cost is compared with the list of prices on each side, not with each other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.responses.effects import read_usage
from open_webui_openrouter_pipe.responses.values import as_list, as_object, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from open_webui_openrouter_pipe.openrouter.recorder import AnswerRead, Exchange
    from open_webui_openrouter_pipe.ports import Model

Json = dict[str, Any]

TOLERANCE = 0.01
NOT_LISTED = "not as listed"
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
UNFORESEEABLE = frozenset({"response.output_text.annotation.added"})
"""Events that come or not by what the model says."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One exchange; `bill` says whether its price is that of the list, `cost` is in dollars and not compared."""

    status: int | None = None
    kind: str | None = None
    events: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    bill: str = ""
    cost: float = field(default=0.0, compare=False)


def of_exchange(exchange: Exchange, model: Model | None) -> Shape:
    """Return the shape of an answer by this model."""
    answer = exchange.answer()
    types = [str(as_object(event).get("type")) for event in answer.events or ()]
    response = response_of(answer)
    output = [as_object(item) for item in as_list(response.get("output"))]
    usage = as_object(response.get("usage"))
    request = as_object(read_json(exchange.content))
    is_long = as_object(request.get("cache_control")).get("ttl") == "1h"
    bill, cost = _bill(usage, output, model, is_long=is_long)
    return Shape(
        exchange.status,
        answer.kind,
        tuple(dict.fromkeys(each for each in types if each not in UNFORESEEABLE)),
        tuple(dict.fromkeys(str(item.get("type")) for item in output)),
        frozenset({*_response_fields(response), *_item_fields(output), *_usage_fields(usage)}),
        bill,
        cost,
    )


def response_of(answer: AnswerRead) -> Json:
    """Return the response object of an answer, streamed or not; an empty one where there is none."""
    if answer.events is None:
        return as_object(answer.body)
    events = [as_object(event) for event in reversed(answer.events)]
    return as_object(next((each.get("response") for each in events if each.get("type") in TERMINAL), None))


def of_list(status: int, body: Any) -> Shape:
    """Return the shape of a list, or of one object: the fields that all of its rows have."""
    data = as_object(body).get("data")
    rows = [as_object(row) for row in (data if isinstance(data, list) else [data])]
    fields = set.intersection(*(set(_paths(row)) for row in rows)) if rows else set[str]()
    if status >= 400:
        fields = {f"error.{name}" for name in as_object(as_object(body).get("error"))}
    return Shape(status, fields=frozenset(fields))


def of_left_stream(stream: Shape, record: Shape) -> Shape:
    """Return one shape of a stream up to its first delta, where it was left, and of what the service keeps of it."""
    deltas = [index for index, each in enumerate(stream.events) if each.endswith(".delta")]
    events = stream.events[: deltas[0] + 1] if deltas else stream.events
    fields = frozenset(
        {f"record.{name}" for name in record.fields} | {f"status of the record: {record.status}"}
    )
    return Shape(stream.status, stream.kind, events, fields=fields, cost=stream.cost)


def differences(real: Shape, standin: Shape) -> Iterator[str]:
    """Say in which parts the two differ, one line each; how often an item came is not one.

    A bill that is not the list's is always said: there, the prices are not understood.
    """
    for name in ("status", "kind", "events", "items", "bill"):
        ours, theirs = getattr(standin, name), getattr(real, name)
        if ours != theirs:
            yield f"{name}: {_shown(theirs)} there, {_shown(ours)} here"
    if real.bill == standin.bill == NOT_LISTED:
        yield f"bill: {NOT_LISTED} on either side"
    for where, names in (("there", real.fields - standin.fields), ("here", standin.fields - real.fields)):
        if names:
            yield f"fields only {where}: {', '.join(sorted(names))}"


def _shown(value: Any) -> str:
    return (
        ", ".join(value) or "none"
        if isinstance(value, tuple)
        else str(value if value is not None else "none")
    )


def _bill(
    usage: Mapping[str, Any], output: list[dict[str, Any]], model: Model | None, *, is_long: bool
) -> tuple[str, float]:
    """Whether the bill is what the list says within a hundredth, and what it is."""
    read = read_usage(usage)
    if read is None or "cost" not in usage:
        return ("no bill" if output else ""), 0.0
    if usage.get("is_byok"):
        return "by a key of the provider", read.cost
    if model is None or not model.prices.are_known:
        return "no list", read.cost
    if read.searches and model.prices.search is None:
        return "with searches", read.cost
    listed = model.prices.cost(read, seconds=time.time(), long=is_long).total
    # the list has the price of a search, and of no other tool
    listed += 0.0 if read.searches else read.tool_cost
    return ("as listed" if abs(listed - read.cost) <= TOLERANCE * read.cost else NOT_LISTED), read.cost


def _response_fields(response: Mapping[str, Any]) -> Iterator[str]:
    """The names at the top, and of an error also the types of its code and the names of its metadata."""
    yield from response
    error = as_object(response.get("error"))
    for name, value in error.items():
        yield f"error.{name}" if name != "code" else f"error.code: {type(value).__name__}"
    yield from (f"error.metadata.{name}" for name in as_object(error.get("metadata")))


def _item_fields(output: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The names in each type of item that say something there; formats with their values."""
    for item in output:
        for name, value in item.items():
            if value not in (None, "", [], {}):
                yield f"{item.get('type')}.{name}" + (f" = {value}" if name == "format" else "")


def _usage_fields(usage: Mapping[str, Any]) -> Iterator[str]:
    """The names in a bill; of the cache whether anything was written and read."""
    for name in _paths(usage):
        if name.rpartition(".")[2] not in {"cached_tokens", "cache_write_tokens"}:
            yield f"usage.{name}"
    read = read_usage(usage)
    if read and read.cached_tokens:
        yield "read from the cache"
    if read and read.cache_write_tokens:
        yield "written to the cache"


def _paths(value: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, each in value.items():
        yield f"{path}{name}"
        if isinstance(each, dict):
            yield from _paths(each, f"{path}{name}.")
