"""Events are reduced to effects."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.effects import (
    ArgumentsDelta,
    CitationAdded,
    Effect,
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
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.reducer import Reducer, reduce_response
from tests.support.wire import RECORDINGS, events_of, recording, reduce

Event = dict[str, Any]


def text_part(text: str, *annotations: Event) -> Event:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def message(text: str | None = None, *, item_id: str = "msg_1", status: str = "completed") -> Event:
    content = [] if text is None else [text_part(text)]
    return {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": content}


def call(arguments: str = "", *, item_id: str = "fc_tmp_1", call_id: str = "call_1") -> Event:
    head = {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": "look",
        "arguments": arguments,
    }
    return {**head, "status": "completed"}


def reasoning(**more: Any) -> Event:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **more}


def added(item: Event, output_index: int | None = 0) -> Event:
    return {
        "type": "response.output_item.added",
        "output_index": output_index,
        "item": {**item, "status": "in_progress"},
    }


def done(item: Event, output_index: int | None = 0) -> Event:
    return {"type": "response.output_item.done", "output_index": output_index, "item": item}


def text(delta: str, *, item_id: str | None = "msg_1", output_index: int | None = 0, part: int = 0) -> Event:
    where = {"item_id": item_id, "output_index": output_index, "content_index": part}
    return {"type": "response.output_text.delta", **where, "delta": delta}


def arguments(delta: str, *, item_id: str = "fc_tmp_1", output_index: int = 0) -> Event:
    event = {
        "type": "response.function_call_arguments.delta",
        "item_id": item_id,
        "output_index": output_index,
    }
    return {**event, "delta": delta}


def completed(*output: Event, **more: Any) -> Event:
    response = {"id": "gen-1", "model": "m", "status": "completed", "output": list(output), **more}
    return {"type": "response.completed", "response": response}


def started(item: Event, index: int = 0) -> ItemStarted:
    return ItemStarted(index, {**item, "status": "in_progress"})  # type: ignore[arg-type]


def finished(item: Event, index: int = 0) -> ItemFinished:
    return ItemFinished(index, item)  # type: ignore[arg-type]


def ended(*items: Event) -> ResponseFinished:
    return ResponseFinished("completed", None, "gen-1", "m", items, None)  # type: ignore[arg-type]


def broken(*items: Event) -> ResponseFailed:
    failure = Failure("the stream ended before the answer was complete", origin="stream")
    return ResponseFailed(failure, None, items, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.sse")))
def test_recordings(name: str) -> None:
    """Each recorded stream gives exactly the effects stored beside it."""
    effects = reduce(events_of(recording(name)))
    expected = (RECORDINGS / f"{name}.effects").read_text("utf-8")
    assert "".join(f"{effect!r}\n" for effect in effects) == expected


# --- items that are announced oddly, or not at all


def test_deltas_before_their_item_open_it() -> None:
    """Text for an item that was not announced yet starts it; the late announcement adds nothing."""
    guess = {"type": "message", "id": "msg_1", "content": []}
    whole = message("ab")
    assert reduce([text("a"), added(message()), text("b"), done(whole), completed(whole)]) == [
        started(guess),
        TextDelta(0, 0, "a"),
        TextDelta(0, 0, "b"),
        finished(whole),
        ended(whole),
    ]


def test_a_repeated_announcement_is_one_item() -> None:
    """The same item announced twice is started once."""
    whole = message("a")
    assert reduce([added(message()), added(message()), text("a"), done(whole), completed(whole)]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        finished(whole),
        ended(whole),
    ]


def test_a_repeated_end_is_one_end() -> None:
    """An item that is done twice is finished once, and its late text is ignored."""
    whole = message("a")
    events = [added(message()), text("a"), done(whole), done(whole), text("late"), completed(whole)]
    assert reduce(events) == [started(message()), TextDelta(0, 0, "a"), finished(whole), ended(whole)]


def test_an_item_without_its_end_is_finished_with_the_response() -> None:
    """Without its end an item is finished from its deltas when the response is complete."""
    whole = message("ab")
    assert reduce([added(message()), text("a"), text("b"), completed()]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        TextDelta(0, 0, "b"),
        finished(whole),
        ended(whole),
    ]


def test_text_that_was_not_streamed_is_one_delta() -> None:
    """Text that only the finished item carries is shown before the item ends."""
    whole = message("all at once")
    assert reduce([added(message()), done(whole), completed(whole)]) == [
        started(message()),
        TextDelta(0, 0, "all at once"),
        finished(whole),
        ended(whole),
    ]


@pytest.mark.parametrize(
    "rest",
    [
        {"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "text": "abc"},
        {
            "type": "response.content_part.done",
            "item_id": "msg_1",
            "output_index": 0,
            "part": text_part("abc"),
        },
        done(message("abc")),
    ],
)
def test_the_unstreamed_rest_of_a_text_is_a_delta(rest: Event) -> None:
    """Where an end has more text than was streamed, the missing rest is one more delta."""
    whole = message("abc")
    assert reduce([added(message()), text("a"), rest, completed(whole)]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        TextDelta(0, 0, "bc"),
        finished(whole),
        ended(whole),
    ]


def test_streamed_text_wins_over_a_different_end() -> None:
    """What the user read is what the message says, even if its end says something else."""
    events = [added(message()), text("read"), done(message("other")), completed(message("other"))]
    whole = message("read")
    assert reduce(events) == [started(message()), TextDelta(0, 0, "read"), finished(whole), ended(whole)]


def test_items_that_only_the_terminal_event_has() -> None:
    """An item that only the complete response knows is started, shown and finished."""
    thought = reasoning(summary=[{"type": "summary_text", "text": "hm"}], status="completed", signature="s")
    answer = message("yes")
    assert reduce([completed(thought, answer)]) == [
        ItemStarted(0, {"type": "reasoning", "id": "rs_1", "summary": [], "status": "in_progress"}),
        ReasoningDelta(0, 0, "summary", "hm"),
        started(message(), 1),
        TextDelta(1, 0, "yes"),
        finished(thought),
        finished(answer, 1),
        ended(thought, answer),
    ]


def test_indexes_are_contiguous() -> None:
    """Gaps in the provider's numbering do not show."""
    one, two = message("1", item_id="a"), message("2", item_id="b")
    effects = reduce([done(one, 3), done(two, 9), completed(one, two)])
    assert [effect.index for effect in effects if isinstance(effect, ItemFinished)] == [0, 1]


# --- identity


def test_two_items_with_one_id_stay_apart() -> None:
    """Two items that share an id are distinguished by their output index."""
    one, two = message("1"), message("2")
    events = [added(message(), 0), added(message(), 1), text("1", output_index=0), text("2", output_index=1)]
    assert reduce([*events, done(one, 0), done(two, 1), completed(one, two)]) == [
        started(message()),
        started(message(), 1),
        TextDelta(0, 0, "1"),
        TextDelta(1, 0, "2"),
        finished(one),
        finished(two, 1),
        ended(one, two),
    ]


def test_an_item_keeps_its_identity_when_its_id_changes() -> None:
    """An item whose end has another id at the same output index is the same item."""
    whole = message("a", item_id="msg_final")
    assert reduce([added(message()), text("a"), done(whole), completed(whole)]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        finished(whole),
        ended(whole),
    ]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], [message("ab", item_id="final")]),
        ([reasoning()], [message("ab", item_id="final"), {**reasoning(), "status": "completed"}]),
        ([None, {"type": 5}], [message("ab", item_id="final")]),
    ],
    ids=["at its index", "at another index", "behind what is no item"],
)
def test_the_terminal_output_may_give_an_item_another_id(before: list[Any], expected: list[Event]) -> None:
    """It is the same item when its text goes on from what was streamed."""
    streamed = [added(message(item_id="tmp")), text("a", item_id="tmp")]
    effects = reduce([*streamed, completed(*before, message("ab", item_id="final"))])
    assert (effects[-1], TextDelta(0, 0, "b") in effects) == (ended(*expected), True)


def test_the_terminal_output_may_have_another_item_at_the_index() -> None:
    """It is another item when its text contradicts what was streamed."""
    streamed = [added(message(item_id="tmp")), text("a", item_id="tmp")]
    final = message("b", item_id="final")
    assert reduce([*streamed, completed(final)])[-1] == ended(message("a", item_id="tmp"), final)


def test_an_item_that_the_terminal_output_lacks_takes_nothing_from_another() -> None:
    """What the output adds to a message belongs to the one that it names, though the other has no text yet."""
    begun, whole = message(item_id="msg_2"), message("Hello")
    events = [added(message()), text("He"), added(begun, 1), completed(whole)]
    assert [effect for effect in reduce(events) if isinstance(effect, TextDelta)] == [
        TextDelta(0, 0, "He"),
        TextDelta(0, 0, "llo"),
    ]


def test_a_part_far_beyond_all_others_is_the_first() -> None:
    """No provider has a thousand parts; its index must not make a list as long."""
    (*_, end) = reduce([text("a", part=1_000), text("b", part=5_000), completed()])
    assert isinstance(end, ResponseFinished)
    assert [item.get("content") for item in end.items] == [[text_part("ab")]]


def test_items_without_ids_follow_each_other() -> None:
    """An announcement after the end of an item is the next one, at the same index too."""
    bare = {"type": "message", "role": "assistant", "content": []}
    one, two = ({**bare, "content": [text_part(said)], "status": "completed"} for said in "ab")
    events = [added(bare), text("a", item_id=None), done(one), added(bare), text("b", item_id=None)]
    assert reduce([*events, completed()])[-1] == ended(one, two)


def test_items_with_one_output_index_stay_apart() -> None:
    """Items that all claim the first output index are distinguished by their ids."""
    one, two = call("{}", item_id="fc_a", call_id="a"), call("{}", item_id="fc_b", call_id="b")
    empty_one, empty_two = call(item_id="fc_a", call_id="a"), call(item_id="fc_b", call_id="b")
    assert reduce([added(empty_one), added(empty_two), done(one), done(two), completed(one, two)]) == [
        started(empty_one),
        started(empty_two, 1),
        ArgumentsDelta(0, "{}"),
        finished(one),
        ArgumentsDelta(1, "{}"),
        finished(two, 1),
        ended(one, two),
    ]


def test_a_call_is_one_call_under_several_ids() -> None:
    """The call id makes it one call, so that it is never run twice."""
    temporary, final = call('{"a":1}'), call('{"a":1}', item_id="fc_9")
    effects = reduce([added(call()), arguments('{"a":1}'), done(temporary), done(final, 7), completed(final)])
    assert Counter(type(effect) for effect in effects) == {
        ItemStarted: 1,
        ArgumentsDelta: 1,
        ItemFinished: 1,
        ItemAmended: 1,
        ResponseFinished: 1,
    }


PARIS, ROME = call('{"city":"Paris"}'), call('{"city":"Rome"}', item_id="fc_2")


@pytest.mark.parametrize(
    "events",
    [
        [added(call()), done(PARIS), added(call(item_id="fc_2"), 1), done(ROME, 1), completed()],
        [done(PARIS), done(ROME, 1), completed(PARIS, ROME)],
        [done(PARIS), done(ROME, 1), done(PARIS), done(ROME, 1), completed(PARIS, ROME)],
        [done(PARIS, 1), done(ROME, 0), completed(ROME, PARIS)],
        [done(PARIS), completed(PARIS, ROME)],
        [completed(PARIS, ROME)],
        [done(PARIS, None), done(ROME, 1), completed()],
    ],
    ids=["announced", "done", "repeated", "reordered", "one at the end", "at the end", "without an index"],
)
def test_two_calls_with_one_call_id_stay_two(events: list[Event]) -> None:
    """A provider's fault must not lose a call: their ids, indexes and arguments differ."""
    effects = reduce(events)
    finished_items = [effect.item for effect in effects if isinstance(effect, ItemFinished)]
    (*_, end) = effects
    assert isinstance(end, ResponseFinished)
    assert sorted(map(str, finished_items)) == sorted(map(str, end.items)) == sorted(map(str, (PARIS, ROME)))


def test_two_calls_with_one_call_id_and_no_ids_stay_two() -> None:
    """Their indexes and arguments tell them apart."""
    paris, rome = ({key: value for key, value in each.items() if key != "id"} for each in (PARIS, ROME))
    for events in ([done(paris), done(rome, 1), completed()], [completed(paris, rome)]):
        end = reduce(events)[-1]
        assert isinstance(end, ResponseFinished)
        assert [item["arguments"] for item in map(dict, end.items)] == [PARIS["arguments"], ROME["arguments"]]


@pytest.mark.parametrize(
    "events",
    [
        [done(call('{"a":1}')), done(call('{"a": 1}', item_id="fc_9"), 7), completed()],
        [done(call('{"a":1}')), completed(call('{"a":1}'), call('{"a":1}', item_id="fc_9"))],
        [done(call('{"a":1}')), completed(call('{"a":1}', item_id="fc_8"), call("", item_id="fc_9"))],
        [done(call('{"a":1}')), done(call('{"a":2}', item_id="fc_9"), 0), completed()],
    ],
    ids=["other form", "twice at the end", "empty at the end", "same index"],
)
def test_a_repeated_call_stays_one(events: list[Event]) -> None:
    """The same arguments, none, or the same index: another id alone makes no other call."""
    assert [type(effect) for effect in reduce(events)].count(ItemStarted) == 1


def test_two_messages_announced_at_one_index_stay_two() -> None:
    """Another id is another message, though the first is still open."""
    one, two = message("1", item_id="a"), message("2", item_id="b")
    events = [
        added(message(item_id="a")),
        added(message(item_id="b")),
        done(one),
        done(two),
        completed(),
    ]
    assert [effect.item for effect in reduce(events) if isinstance(effect, ItemFinished)] == [one, two]


def seconds_to_end(items: int, output_type: str) -> float:
    """The processor time of a terminal event in which so many items have other ids, the best of three."""
    best = float("inf")
    for _ in range(3):
        reducer = Reducer()
        for number in range(items):
            reducer.feed(done(message(str(number), item_id=f"a{number}"), number))
        output = [
            {**message(str(number), item_id=f"b{number}"), "type": output_type} for number in range(items)
        ]
        end = completed(*reversed(output))
        started_at = time.process_time()
        reducer.feed(end)
        best = min(best, time.process_time() - started_at)
    return best


@pytest.mark.parametrize("output_type", ["message", "novelty"])
def test_matching_many_items_takes_linear_time(output_type: str) -> None:
    """Eight times the items take about eight times as long, not the 64 times of comparing each with each."""
    assert seconds_to_end(1200, output_type) < 24 * seconds_to_end(150, output_type)


def test_deltas_without_any_identity_are_one_message() -> None:
    """Deltas with neither an item id nor an output index belong to one message."""
    whole = {**message("ab", item_id="msg_tmp_0")}
    effects = reduce(
        [text("a", item_id=None, output_index=None), text("b", item_id=None, output_index=None), completed()]
    )
    assert effects[-1] == ResponseFinished(
        "completed",
        None,
        "gen-1",
        "m",
        (
            {
                "type": "message",
                "id": "msg_tmp_0",
                "role": "assistant",
                "content": whole["content"],
                "status": "completed",
            },
        ),
        None,
    )


# --- function calls


def test_arguments_that_arrive_at_the_end() -> None:
    """A call whose arguments are still empty when it is done is finished with those of the terminal event."""
    whole = call('{"a":1}')
    assert reduce([added(call()), done(call("")), completed(whole)]) == [
        started(call()),
        ArgumentsDelta(0, '{"a":1}'),
        finished(whole),
        ended(whole),
    ]


def test_a_call_without_arguments() -> None:
    """A call that takes nothing ends with an empty object, which is valid JSON."""
    whole = call("{}")
    assert reduce([added(call()), done(call("")), completed(call(""))]) == [
        started(call()),
        ArgumentsDelta(0, "{}"),
        finished(whole),
        ended(whole),
    ]


def test_a_call_that_was_cut_off() -> None:
    """A call with half of its arguments is incomplete."""
    cut = {**call('{"a'), "status": "incomplete"}
    assert reduce([added(call()), arguments('{"a')]) == [
        started(call()),
        ArgumentsDelta(0, '{"a'),
        finished(cut),
        broken(cut),
    ]


def test_a_call_that_was_cut_off_before_its_arguments() -> None:
    """It gets none, as if the model had wanted none."""
    cut = {**call(), "status": "incomplete"}
    assert reduce([added(call())]) == [started(call()), finished(cut), broken(cut)]


def test_a_message_that_was_announced_as_completed_and_cut_off_is_incomplete() -> None:
    """Only its own end confirms that."""
    whole = message()
    announced = {"type": "response.output_item.added", "output_index": 0, "item": whole}
    effects = reduce([announced, text("a")])
    assert [effect.item.get("status") for effect in effects if isinstance(effect, ItemFinished)] == [
        "incomplete"
    ]


@pytest.mark.parametrize("ended_items", [[call('{"a')], []])
def test_a_call_that_the_limit_cut_off(ended_items: list[Event]) -> None:
    """Half of its arguments make a call incomplete, though its own item says that it is completed."""
    end = completed(*ended_items, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    effects = reduce(
        [added(call()), arguments('{"a'), done(call('{"a')), {**end, "type": "response.incomplete"}]
    )
    cut = {**call('{"a'), "status": "incomplete"}
    assert [effect.item for effect in effects if isinstance(effect, ItemFinished)] == [cut]


@pytest.mark.parametrize("name", [["look"], 7, {"a": 1}])
def test_a_call_whose_name_is_not_text_is_incomplete(name: Any) -> None:
    """It cannot be run, whatever else is known of it."""
    (*_, end) = reduce([completed({**call("{}"), "name": name})])
    assert isinstance(end, ResponseFinished)
    assert [item.get("status") for item in end.items] == ["incomplete"]


def test_a_call_that_nothing_identifies_is_incomplete() -> None:
    """Its output could not name it."""
    (end,) = [
        each
        for each in reduce([done({"type": "function_call", "name": "f"})])
        if isinstance(each, ItemFinished)
    ]
    assert end.item == {
        "type": "function_call",
        "name": "f",
        "arguments": "",
        "call_id": "",
        "status": "incomplete",
    }


def test_a_call_without_a_name_is_incomplete() -> None:
    """Deltas of a call that nobody ever named cannot be run."""
    (*_, end) = reduce([arguments("{}"), completed()])
    assert isinstance(end, ResponseFinished)
    assert [item.get("status") for item in end.items] == ["incomplete"]


# --- what the terminal event adds


@pytest.mark.parametrize(
    "late", [{"encrypted_content": "e"}, {"signature": "s"}, {"format": "openai-responses-v1"}]
)
def test_late_seals_amend(late: Event) -> None:
    """A seal that only the complete response carries amends the finished reasoning."""
    first, last = reasoning(status="completed"), reasoning(status="completed", **late)
    assert reduce([added(reasoning()), done(first), completed(last)]) == [
        started(reasoning()),
        finished(first),
        ItemAmended(0, last),  # type: ignore[arg-type]
        ended(last),
    ]


def test_late_citations_amend() -> None:
    """A citation that only the complete response carries amends the finished message."""
    cited = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1}
    last = {**message(), "content": [text_part("a", cited)]}
    assert reduce([done(message("a")), completed(last)])[-2:] == [
        ItemAmended(0, last),  # type: ignore[arg-type]
        ended(last),
    ]


def test_a_repetition_amends_nothing() -> None:
    """A complete response that repeats what is known, or knows less, amends nothing."""
    first = reasoning(status="completed", encrypted_content="e")
    less = reasoning(status="completed", encrypted_content=None, signature=None)
    assert reduce([done(first), completed(less)])[-1] == ended(first)


def test_an_incomplete_response() -> None:
    """A response cut off by a limit is finished, with its reason, its usage and its incomplete message."""
    cut = message("a", status="incomplete")
    end = completed(
        cut, status="incomplete", incomplete_details={"reason": "content_filter"}, usage={"input_tokens": 3}
    )
    assert reduce([added(message()), text("a"), {**end, "type": "response.incomplete"}])[
        -1
    ] == ResponseFinished(
        "incomplete",
        "content_filter",
        "gen-1",
        "m",
        (cut,),  # type: ignore[arg-type]
        Usage(input_tokens=3),
    )


# --- failures


@pytest.mark.parametrize(
    ("event", "failure"),
    [
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}},
            Failure("m", status=500, code="server_error"),
        ),
        ({"type": "response.error", "error": {"code": 502, "message": "m"}}, Failure("m", status=502)),
        ({"type": "error", "error": {"code": "429", "message": "m"}}, Failure("m", status=429)),
        ({"type": "error", "code": None, "message": "m", "param": None}, Failure("m")),
        ({"type": "error", "error": "m"}, Failure("m")),
        ({"type": "error", "error": [7]}, Failure("")),
        ({"type": "response.failed", "response": 7}, Failure("")),
        (
            {"type": "response.completed", "response": {"status": "failed", "error": {"message": "m"}}},
            Failure("m"),
        ),
    ],
)
def test_failures_keep_what_was_received(event: Event, failure: Failure) -> None:
    """Every shape of an error ends the round, and the text until then stays."""
    cut = message("a", status="incomplete")
    assert reduce([added(message()), text("a"), event, text("late")]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        finished(cut),
        ResponseFailed(failure, None, (cut,), None),  # type: ignore[arg-type]
    ]


def test_a_stream_without_its_end() -> None:
    """A stream that just stops fails as a stream, and the text until then stays."""
    cut = message("a", status="incomplete")
    assert reduce([added(message()), text("a")]) == [
        started(message()),
        TextDelta(0, 0, "a"),
        finished(cut),
        broken(cut),
    ]


def test_the_reason_of_an_end_is_the_failures_message() -> None:
    """Whoever ends the stream may know more about it."""
    (failed,) = Reducer().close("the connection was lost")
    assert isinstance(failed, ResponseFailed)
    assert failed.failure == Failure("the connection was lost", origin="stream")


def test_closing_twice() -> None:
    """The end is reported once."""
    reducer = Reducer()
    assert (len(reducer.close()), reducer.close(), reducer.finished) == (1, [], True)


# --- texts of other kinds


def test_reasoning_text_and_refusal() -> None:
    """Raw reasoning and refusals have their own deltas."""
    thought = reasoning(
        status="completed", content=[{"type": "reasoning_text", "text": "hm"}], format="unknown"
    )
    refused = {**message(), "content": [{"type": "refusal", "refusal": "no"}]}
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    events = [
        added(reasoning()),
        {"type": "response.reasoning_text.delta", **where, "delta": "hm"},
        done(thought),
        added(message(), 1),
        {"type": "response.refusal.delta", "item_id": "msg_1", "output_index": 1, "delta": "no"},
        done(refused, 1),
        completed(thought, refused),
    ]
    assert reduce(events) == [
        started(reasoning()),
        ReasoningDelta(0, 0, "text", "hm"),
        finished(thought),
        started(message(), 1),
        RefusalDelta(1, 0, "no"),
        finished(refused, 1),
        ended(thought, refused),
    ]


def test_unknown_items_and_events() -> None:
    """Items of an unknown type pass through as they are, unknown events mean nothing."""
    item = {"type": "openrouter:novelty", "id": "x", "status": "completed", "wonder": {"deep": [1]}}
    start = {"type": "openrouter:novelty", "id": "x"}
    events = [added(start), {"type": "response.novelty.delta", "item_id": "x", "delta": "?"}, done(item)]
    assert reduce([*events, {"type": ""}, completed(item)]) == [started(start), finished(item), ended(item)]


def test_an_unknown_item_has_a_status_only_if_its_end_has_one() -> None:
    """Which types have one is the provider's to say; what has no end is completed with the response."""
    item = {"type": "openrouter:novelty", "id": "x"}
    ends = [reduce(events)[-1] for events in ([done(item), completed(item)], [added(item), completed()])]
    assert ends == [ended(item), ended({**item, "status": "completed"})]


def test_citations_come_once_and_flat() -> None:
    """A citation is handed on when it arrives, in the flat form, and is once in the finished message."""
    flat = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1}
    nested = {"type": "url_citation", "url_citation": {key: flat[key] for key in flat if key != "type"}}
    event = {"type": "response.output_text.annotation.added", "item_id": "msg_1", "output_index": 0}
    whole = {**message(), "content": [text_part("a", flat)]}
    sent = {**message(), "content": [text_part("a", nested)]}
    events = [added(message()), text("a"), {**event, "annotation": nested}, done(sent), completed(sent)]
    assert reduce(events) == [
        started(message()),
        TextDelta(0, 0, "a"),
        CitationAdded(0, 0, flat),
        finished(whole),
        ended(whole),
    ]


def test_a_citation_of_nothing_is_omitted() -> None:
    """Without an address there is nothing to lead to; other annotations need none."""
    kept = {"type": "file_citation", "index": 0}
    sent = {**message(), "content": [text_part("a", {"type": "url_citation", "title": "A"}, kept)]}
    assert reduce([done(sent)])[-1] == broken({**message(), "content": [text_part("a", kept)]})


def test_split_characters_are_joined() -> None:
    """The halves of a character in two deltas are joined; a half without a partner is replaced."""
    whole = message("x😀\ufffd")
    assert reduce([added(message()), text("x\ud83d"), text("\ude00"), text("\ud83d"), completed()]) == [
        started(message()),
        TextDelta(0, 0, "x"),
        TextDelta(0, 0, "😀"),
        TextDelta(0, 0, "\ufffd"),
        finished(whole),
        ended(whole),
    ]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "//a.test", "file:///a"])
@pytest.mark.parametrize("kind", ["url_citation", "novel_citation"])
def test_only_web_addresses_are_cited(address: str, kind: str) -> None:
    """Others are neither handed on as they arrive nor left in the finished message."""
    annotation = {"type": kind, "url": address}
    event = {"type": "response.output_text.annotation.added", "item_id": "msg_1", "output_index": 0}
    sent = {**message(), "content": [text_part("a", annotation)]}
    effects = reduce([added(message()), {**event, "annotation": annotation}, done(sent), completed(sent)])
    assert effects == [started(message()), TextDelta(0, 0, "a"), finished(message("a")), ended(message("a"))]


@pytest.mark.parametrize(
    ("phase", "expected"), [("commentary", {"phase": "commentary"}), ("odd", {}), ([7], {})]
)
def test_only_known_phases_leave_a_message(phase: Any, expected: Event) -> None:
    """Others are in neither form of the message; the schema would refuse them on replay."""
    whole = {**message("a"), **expected}
    sent = {**message("a"), "phase": phase}
    assert reduce([added({**message(), "phase": phase}), done(sent), completed(sent)]) == [
        started({**message(), **expected}),
        TextDelta(0, 0, "a"),
        finished(whole),
        ended(whole),
    ]


def test_ids_can_be_written() -> None:
    """The ids of the response are mended as all text."""
    (end,) = reduce([{**completed(), "response": {"id": "a\ud83d", "model": "b\ud83d"}}])
    assert isinstance(end, ResponseFinished)
    assert (end.response_id, end.model) == ("a\ufffd", "b\ufffd")


# --- without a stream


def test_a_response_that_was_not_streamed() -> None:
    """A whole response has the same effects as its terminal event."""
    response = {**completed(message("a"))["response"], "object": "response"}
    assert reduce_response(response) == [
        started(message()),
        TextDelta(0, 0, "a"),
        finished(message("a")),
        ended(message("a")),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 502, "message": "m"}},
        {"object": "response", "status": "failed", "output": [], "error": {"code": 502, "message": "m"}},
    ],
)
def test_an_error_that_was_not_streamed(body: Event) -> None:
    """An error body instead of a response, or a failed response, is a failure."""
    assert reduce_response(body) == [ResponseFailed(Failure("m", status=502), None, (), None)]


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
    assert len(terminal.items) == len(starts)
    json.dumps([repr(effect) for effect in effects], ensure_ascii=False).encode()


def check_text(effect: ItemFinished, texts: dict[tuple[int, int], str]) -> None:
    item: Any = effect.item
    shown = {part: text for (index, part), text in texts.items() if index == effect.index}
    if item["type"] == "message":
        parts = {n: part["text"] for n, part in enumerate(item["content"]) if part["type"] == "output_text"}
        assert {part: text for part, text in parts.items() if text} == shown


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.sse")))
def test_any_truncation_ends_once(name: str) -> None:
    """Wherever a recorded stream is cut, the laws hold."""
    events = events_of(recording(name))
    for length in range(len(events) + 1):
        check_laws(reduce(events[:length]))


IDS = st.sampled_from(["a", "b", None])
OUTPUT_INDEXES = st.sampled_from([0, 1, None])
TEXTS = st.text(alphabet="xy\ud83d\ude00é", max_size=4)
ITEMS = st.one_of(
    st.builds(
        lambda item_id, said: {"type": "message", "id": item_id, "content": [text_part(t) for t in said]},
        IDS,
        st.lists(TEXTS, max_size=2),
    ),
    st.builds(
        lambda item_id, call_id, said: {
            "type": "function_call",
            "id": item_id,
            "call_id": call_id,
            "arguments": said,
        },
        IDS,
        IDS,
        st.sampled_from(["", "{}", '{"a":1}']),
    ),
    st.builds(
        lambda item_id, said: {
            "type": "reasoning",
            "id": item_id,
            "summary": [{"type": "summary_text", "text": said}],
        },
        IDS,
        TEXTS,
    ),
    st.builds(lambda item_id: {"type": "novelty", "id": item_id}, IDS),
)
EVENTS = st.one_of(
    st.builds(added, ITEMS, OUTPUT_INDEXES),
    st.builds(done, ITEMS, OUTPUT_INDEXES),
    st.builds(
        lambda d, i, p, n: text(d, item_id=i, output_index=p, part=n),
        TEXTS,
        IDS,
        OUTPUT_INDEXES,
        st.integers(0, 2),
    ),
    st.builds(
        lambda name, delta, item_id, output_index: {
            "type": f"response.{name}",
            "delta": delta,
            "text": delta,
            "arguments": delta,
            "item_id": item_id,
            "output_index": output_index,
        },
        st.sampled_from(
            [
                "output_text.done",
                "reasoning_summary_text.delta",
                "reasoning_text.delta",
                "function_call_arguments.delta",
                "function_call_arguments.done",
            ]
        ),
        TEXTS,
        IDS,
        OUTPUT_INDEXES,
    ),
    st.builds(lambda output: completed(*output), st.lists(ITEMS, max_size=3)),
)


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=12))
def test_any_events_keep_the_laws(events: list[Event]) -> None:
    """Whatever a provider repeats, omits, renames or reorders, items start and end once with their text."""
    check_laws(reduce(events))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "id", "content", "text", "error", "output", "url"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
FIELDS = [
    "item",
    "item_id",
    "output_index",
    "content_index",
    "delta",
    "text",
    "part",
    "annotation",
    "response",
    "error",
]


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda kind, fields: {**fields, "type": kind},
            st.sampled_from(
                [
                    "response.created",
                    "response.output_item.added",
                    "response.output_item.done",
                    "response.output_text.delta",
                    "response.output_text.done",
                    "response.content_part.done",
                    "response.output_text.annotation.added",
                    "response.completed",
                    "response.failed",
                    "error",
                ]
            ),
            st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=5),
        ),
        max_size=6,
    )
)
def test_fields_of_any_type_never_raise(events: list[Event]) -> None:
    """No type at any level makes the reducer raise, and it ends once."""
    terminals = [effect for effect in reduce(events) if isinstance(effect, ResponseFinished | ResponseFailed)]
    assert len(terminals) == 1
