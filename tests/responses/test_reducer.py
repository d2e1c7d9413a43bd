"""Events are reduced to effects: see `streams.txt`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.effects import (
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    Usage,
    join_deltas,
)
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.reducer import Reducer, reduce_response
from open_webui_openrouter_pipe.responses.values import flat_annotation
from tests.responses.streams import event, events, message, short
from tests.support.growth import MAX_GROWTH, growth
from tests.support.rows import rows
from tests.support.wire import RECORDINGS, events_of, recording, reduce

STREAMS: Final = Path(__file__).with_name("streams.txt")
Event = dict[str, Any]


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.sse")))
def test_recordings(name: str) -> None:
    """Each recorded stream gives exactly the effects stored beside it; wherever it is cut, the laws hold."""
    received = events_of(recording(name))
    expected = (RECORDINGS / f"{name}.effects").read_text("utf-8")
    assert "".join(f"{effect!r}\n" for effect in reduce(received)) == expected
    for length in range(len(received) + 1):
        check_laws(reduce(received[:length]))


@pytest.mark.parametrize(("title", "steps", "expected"), rows(STREAMS, "streams"))
def test_a_stream_has_its_effects(title: str, steps: str, expected: str) -> None:
    """Whatever a provider repeats, omits, renames or ends early: each item once, and its text once."""
    assert "; ".join(map(short, reduce(events(steps)))) == expected, title


FULL: Final = {"input_tokens": 9, "output_tokens": 2, "cost": 0.5}
ZEROS: Final = {"input_tokens": 0, "output_tokens": 0, "cost": 0}


@pytest.mark.parametrize(
    ("earlier", "last", "expected"),
    [
        (FULL, ZEROS, Usage(9, output_tokens=2, cost=0.5)),
        (FULL, None, Usage(9, output_tokens=2, cost=0.5)),
        (ZEROS, FULL, Usage(9, output_tokens=2, cost=0.5)),
        (FULL, {**FULL, "output_tokens": 7}, Usage(9, output_tokens=7, cost=0.5)),
        (None, ZEROS, Usage()),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("end", ["response.completed", "response.failed"])
def test_the_best_usage_counts(earlier: Any, last: Any, expected: Usage | None, end: str) -> None:
    """Some providers fill the last one with zeros; it may also come before the end."""
    failed = {"error": {"code": "server_error", "message": "m"}} if end == "response.failed" else {}
    *_, terminal = reduce(
        [
            {"type": "response.in_progress", "response": {"id": "gen-1", "usage": earlier}},
            {"type": end, "response": {"id": "gen-1", "output": [], "usage": last, **failed}},
        ]
    )
    assert isinstance(terminal, ResponseFinished | ResponseFailed)
    assert terminal.usage == expected


def test_pictures_of_an_answer_are_counted() -> None:
    """Some models have a price for each; without a usage there is nothing to count them in."""
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}
    for usage, expected in ((FULL, 2), (None, None)):
        output = [picture, {**picture, "id": "ig_2"}]
        *_, end = reduce([{"type": "response.completed", "response": {"output": output, "usage": usage}}])
        assert isinstance(end, ResponseFinished)
        assert (end.usage.pictures if end.usage else None) == expected


@pytest.mark.parametrize(("title", "steps"), rows(STREAMS, "two calls"))
def test_two_calls_with_one_call_id_stay_two(title: str, steps: str) -> None:
    """A provider's fault must not lose a call: their ids, indexes and arguments differ."""
    *before, end = reduce(events(steps))
    assert isinstance(end, ResponseFinished)
    done = [each.item for each in before if isinstance(each, ItemFinished)]
    for items in (done, end.items):
        cities = sorted(json.loads(str(item.get("arguments")))["city"] for item in items)
        assert cities == ["Paris", "Rome"], title
    assert sorted(map(str, done)) == sorted(map(str, end.items))


@pytest.mark.parametrize(("title", "steps"), rows(STREAMS, "one call"))
def test_a_repeated_call_stays_one(title: str, steps: str) -> None:
    """The same arguments, none, or the same index: another id alone makes no other call."""
    assert [type(each) for each in reduce(events(steps))].count(ItemStarted) == 1, title


@pytest.mark.parametrize("output_type", ["message", "novelty"])
def test_matching_many_items_takes_linear_time(output_type: str) -> None:
    """A terminal event may give other ids to all of them; each is not compared with each."""

    def end(text: str) -> None:
        reducer, numbers = Reducer(), range(len(text) // 32)
        for number in numbers:
            reducer.feed(event(f"done m#a{number}:{number}/{number}"))
        ended = event(f"completed {' '.join(f'm#b{number}:{number}' for number in reversed(numbers))}")
        for each in ended["response"]["output"]:
            each["type"] = output_type
        reducer.feed(ended)

    assert growth(end, "x".__mul__) < MAX_GROWTH


def test_a_text_that_ends_again_and_again_takes_linear_time() -> None:
    """The whole of it is compared with what was shown, but not put together anew each time."""

    def stream(text: str) -> None:
        reducer, place = Reducer(), {"output_index": 0, "content_index": 0, "item_id": "m"}
        for _ in range(len(text) // 8):
            reducer.feed({"type": "response.output_text.delta", **place, "delta": "w"})
            reducer.feed({"type": "response.output_text.done", **place, "text": "w"})

    assert growth(stream, "x".__mul__) < MAX_GROWTH


@pytest.mark.parametrize(("annotation", "flat"), rows(STREAMS.with_name("frames.txt"), "annotations"))
def test_annotations_are_brought_into_one_form(annotation: Any, flat: dict[str, Any] | None) -> None:
    """Nested and flat citations become flat ones with a title; what cannot be one is omitted."""
    assert flat_annotation(annotation) == flat


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//a.test", "file:///a"])
@pytest.mark.parametrize("kind", ["url_citation", "novel_citation"])
def test_only_web_addresses_are_cited(address: str, kind: str) -> None:
    """Others are neither handed on as they arrive nor left in the finished message."""
    annotation = {"type": kind, "url": address}
    arrives = {"type": "response.output_text.annotation.added", "item_id": "msg_1", "output_index": 0}
    sent = event("done m:a")
    sent["item"]["content"][0]["annotations"] = [annotation]
    effects = reduce([event("added m"), {**arrives, "annotation": annotation}, sent, event("completed")])
    assert [*map(short, effects)] == ["started m", "text a", "finished m:a", "ended m:a"]


def test_a_stream_is_closed_once() -> None:
    """Whoever ends it may know more about the reason, which is the failure's message."""
    reducer = Reducer()
    (failed,) = reducer.close("the connection was lost")
    assert isinstance(failed, ResponseFailed)
    assert failed.failure == Failure("the connection was lost", origin="stream")
    assert (reducer.close(), reducer.finished) == ([], True)


def test_a_response_that_was_not_streamed() -> None:
    """A whole response has the same effects as its terminal event; an error instead of one is a failure."""
    response = {**event("completed m:a")["response"], "object": "response"}
    assert [*map(short, reduce_response(response))] == ["started m", "text a", "finished m:a", "ended m:a"]
    for more in ({}, {"object": "response", "status": "failed", "output": []}):
        body = {**more, "error": {"code": 502, "message": "m"}}
        assert reduce_response(body) == [ResponseFailed(Failure("m", status=502))]


# --- laws


def check_laws(effects: list[Effect]) -> None:
    *before, terminal = effects
    assert isinstance(terminal, ResponseFinished | ResponseFailed)
    assert not any(isinstance(effect, ResponseFinished | ResponseFailed) for effect in before)
    starts = [effect.index for effect in before if isinstance(effect, ItemStarted)]
    assert starts == list(range(len(starts)))
    open_items: set[int] = set()
    texts: dict[tuple[int, int], str] = {}
    ends: list[int] = []
    for effect in before:
        if isinstance(effect, ItemStarted):
            open_items.add(effect.index)
        elif isinstance(effect, ItemFinished):
            open_items.remove(effect.index)
            ends.append(effect.index)
            check_text(effect, texts)
        elif isinstance(effect, ItemAmended):
            assert effect.index in ends
        elif not isinstance(effect, ResponseFinished | ResponseFailed):
            assert effect.index in open_items
            if isinstance(effect, TextDelta):
                key = (effect.index, effect.part)
                texts[key] = texts.get(key, "") + effect.delta
    assert sorted(ends) == starts
    assert isinstance(terminal, ResponseFailed) or len(terminal.items) == len(starts)
    json.dumps([repr(effect) for effect in effects], ensure_ascii=False).encode()


def check_text(effect: ItemFinished, texts: dict[tuple[int, int], str]) -> None:
    item: Any = effect.item
    shown = {part: text for (index, part), text in texts.items() if index == effect.index}
    if item["type"] == "message":
        parts = {n: part["text"] for n, part in enumerate(item["content"]) if part["type"] == "output_text"}
        assert {part: text for part, text in parts.items() if text} == shown


IDS = st.sampled_from(["a", "b", None])
OUTPUT_INDEXES = st.sampled_from([0, 1, None])
TEXTS = st.text(alphabet="xy\ud83d\ude00é", max_size=4)


def some(kind: str, **fields: Any) -> st.SearchStrategy[Event]:
    """An object of this type with fields of these strategies."""
    values = {
        name: each if isinstance(each, st.SearchStrategy) else st.just(each) for name, each in fields.items()
    }
    return st.fixed_dictionaries({"type": st.just(kind), **values})


ITEMS = st.one_of(
    some(
        "message", id=IDS, content=st.lists(TEXTS.map(lambda text: message(text)["content"][0]), max_size=2)
    ),
    some("function_call", id=IDS, call_id=IDS, arguments=st.sampled_from(["", "{}", '{"a":1}'])),
    some("reasoning", id=IDS, summary=TEXTS.map(lambda text: [{"type": "summary_text", "text": text}])),
    some("novelty", id=IDS),
)
TEXT_EVENTS = ["output_text.done", "reasoning_summary_text.delta", "reasoning_text.delta"]
CALL_EVENTS = ["function_call_arguments.delta", "function_call_arguments.done"]
PLACE = {"item_id": IDS, "output_index": OUTPUT_INDEXES}
PARTS = st.integers(0, 2)
OUTPUT = some("x", status="completed", id="gen-1", model="m", output=st.lists(ITEMS, max_size=3))
EVENTS = st.one_of(
    some(
        "response.output_item.added",
        output_index=OUTPUT_INDEXES,
        item=ITEMS.map(lambda item: {**item, "status": "in_progress"}),
    ),
    some("response.output_item.done", output_index=OUTPUT_INDEXES, item=ITEMS),
    some("response.output_text.delta", delta=TEXTS, content_index=PARTS, **PLACE),
    st.builds(
        lambda kind, said, place: {**place, "type": kind, "delta": said, "text": said, "arguments": said},
        st.sampled_from([f"response.{kind}" for kind in (*TEXT_EVENTS, *CALL_EVENTS)]),
        TEXTS,
        st.fixed_dictionaries(PLACE),
    ),
    some("response.completed", response=OUTPUT),
)


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=12))
def test_any_events_keep_the_laws(received: list[Event]) -> None:
    """Whatever a provider repeats, omits, renames or reorders, items start and end once with their text."""
    check_laws(reduce(received))


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=12))
def test_joined_deltas_say_the_same(received: list[Event]) -> None:
    """The same items with the same texts start and end."""
    repeated = [each for each in received for _ in range(2)]
    joined, each = reduce([*join_deltas(repeated)]), reduce(repeated)
    assert [effect for effect in joined if not isinstance(effect, TextDelta)] == [
        effect for effect in each if not isinstance(effect, TextDelta)
    ]
    assert texts(joined) == texts(each)


def texts(effects: list[Effect]) -> dict[tuple[Any, ...], str]:
    """What deltas say, by where it stands."""
    found: dict[tuple[Any, ...], str] = {}
    for effect in effects:
        if isinstance(effect, TextDelta):
            place = effect.index, effect.part, effect.kind
            found[place] = found.get(place, "") + effect.delta
    return found


def test_deltas_of_one_text_are_joined_and_no_others() -> None:
    """Those of another item, part or kind stay apart, as do those that something stands between."""
    first = {"type": "response.output_text.delta", "item_id": "a", "content_index": 0, "delta": "1"}
    others: list[Event] = [{**first, "item_id": "b"}, {**first, "content_index": 1}, {"type": "error"}, first]
    assert [*join_deltas([first, {**first, "delta": "2"}, *others])] == [{**first, "delta": "12"}, *others]


NAMES = ["type", "id", "content", "text", "error", "output", "url"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
PLACES = ["item", "item_id", "output_index", "content_index", "part"]
FIELDS = [*PLACES, "delta", "text", "annotation", "response", "error"]
ENDS = ["output_item.done", "output_text.done", "content_part.done", "completed", "failed"]
KINDS = ["created", "output_item.added", "output_text.delta", "output_text.annotation.added", *ENDS]
ODD_EVENTS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(["error", *(f"response.{kind}" for kind in KINDS)]),
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=5),
)


@settings(deadline=None)
@given(st.lists(ODD_EVENTS, max_size=6))
def test_fields_of_any_type_never_raise(received: list[Event]) -> None:
    """No type at any level makes the reducer raise, and it ends once."""
    ends = [each for each in reduce(received) if isinstance(each, ResponseFinished | ResponseFailed)]
    assert len(ends) == 1
