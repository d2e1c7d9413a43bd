"""What the streams of every behaviour look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from openrouter.components.openresponsesresult import OpenResponsesResult

from scripts.standin import sdk_schema
from scripts.standin.summaries import FIELDS, KINDS
from tests.standin.client import CLOCK, WEATHER, Client, output, user

if TYPE_CHECKING:
    from scripts.standin.sdk_schema import Issue

BEHAVIOURS = {
    "default": "Hello",
    "several words": '[[standin: text="a b  c\\n\\nd "]]',
    "empty text": '[[standin: text=""]]',
    "summary": "[[standin: reasoning=summary parts=2 items=2]]",
    "raw": "[[standin: reasoning=raw]]",
    "encrypted": "[[standin: reasoning=encrypted]]",
    "call": '[[standin: reasoning=summary]] [[standin: call=get_weather args={"city":"Rome"}]]',
    "parallel": '[[standin: say="Wait"]] [[standin: call=get_weather times=2]] [[standin: call=get_time]]',
    "citation": '[[standin: text="See https://a.example now"]] [[standin: cite=https://a.example title=A]]',
    "server search": "[[standin: search=news kind=server]]",
    "native search": "[[standin: search=news kind=native]]",
    "image": "[[standin: image=cat]]",
    "refusal": "[[standin: refusal]]",
    "length": "[[standin: incomplete=max_output_tokens]]",
    "filter": "[[standin: incomplete=content_filter]]",
    "failed": "[[standin: fail=failed code=rate_limit_exceeded type=rate_limit_exceeded]]",
    "failed at once": "[[standin: error=429 family=C]]",
    "flat error": "[[standin: fail=flat]]",
    "eof": "[[standin: fail=eof]]",
    "late": "[[standin: late]] [[standin: reasoning=summary]] [[standin: call=get_weather]]",
    "big": "[[standin: big=100000]]",
}
MODELS = ("standin/script", "anthropic/claude-sonnet-4.5", "google/gemini-3-flash", "deepseek/deepseek-v3.2")


def issues_of(event: dict[str, Any]) -> list[Issue]:
    """What the SDK finds wrong with an event, its response and its items."""
    response, item = event.get("response"), event.get("item")
    inner = sdk_schema.against(OpenResponsesResult, response, ()) if response else []
    items = [item] if item else (response or {}).get("output", [])
    return [
        *sdk_schema.event_issues(event),
        *inner,
        *(bad for one in items for bad in sdk_schema.output_item_issues(one)),
    ]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_all_regular_events_are_valid(client: Client, name: str, model: str) -> None:
    """The SDK's strict classes accept every event of every behaviour, numbered without a gap."""
    events = client.stream(BEHAVIOURS[name], model=model, tools=[WEATHER, CLOCK])
    assert [issue for event in events for issue in issues_of(event)] == []
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"hang", "slow"}))
def test_all_events_of_a_summary_are_valid(client: Client, kind: str) -> None:
    """Of each kind, and the same response comes without a stream."""
    client.standin.summarizer = kind
    ask = [user("Put 12 kg of tea on the ship"), user(", ".join(FIELDS))]
    events = client.stream(ask, model="openai/gpt-5.2", tools=[CLOCK])
    whole = client.done(ask, model="openai/gpt-5.2", tools=[CLOCK])
    assert [issue for event in events for issue in issues_of(event)] == []
    assert sdk_schema.against(OpenResponsesResult, whole, ()) == []
    ends = [
        (end["status"], [(item["type"], item.get("content")) for item in end["output"]])
        for end in (events[-1]["response"], whole)
    ]
    assert ends[0] == ends[1]
    assert [record.is_summary for record in client.standin.responses] == [True, True]


def types(events: list[dict[str, Any]]) -> list[str]:
    """The types, repeated deltas as one, without their common prefix."""
    names = [str(event["type"]).removeprefix("response.") for event in events]
    return [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]


TEXT = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]
SUMMARY_PART = [
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
]
RAW = [
    "output_item.added",
    "content_part.added",
    "reasoning_text.delta",
    "reasoning_text.done",
    "content_part.done",
    "output_item.done",
]
CALL = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
]
IMAGE = "image_generation_call."


@pytest.mark.parametrize(
    ("name", "middle", "end"),
    [
        ("default", TEXT, ["completed"]),
        (
            "summary",
            ["output_item.added", *SUMMARY_PART, *SUMMARY_PART, "output_item.done"] * 2 + TEXT,
            ["completed"],
        ),
        ("raw", [*RAW, *TEXT], ["completed"]),
        ("encrypted", ["output_item.added", "output_item.done", *TEXT], ["completed"]),
        ("parallel", [*TEXT, *CALL, *CALL, *CALL], ["completed"]),
        ("citation", [*TEXT[:3], "output_text.annotation.added", *TEXT[3:]], ["completed"]),
        ("server search", ["output_item.added", "output_item.done", *TEXT], ["completed"]),
        (
            "native search",
            [
                "output_item.added",
                *(f"web_search_call.{stage}" for stage in ("in_progress", "searching", "completed")),
                "output_item.done",
                *TEXT,
            ],
            ["completed"],
        ),
        (
            "image",
            [
                "output_item.added",
                *(IMAGE + stage for stage in ("in_progress", "generating", "partial_image", "completed")),
                "output_item.done",
                *TEXT,
            ],
            ["completed"],
        ),
        (
            "refusal",
            ["output_item.added", "content_part.added", "refusal.delta", "refusal.done", *TEXT[-2:]],
            ["completed"],
        ),
        ("length", TEXT, ["incomplete"]),
        ("failed", TEXT[:3], ["failed"]),
        ("failed at once", [], ["failed"]),
        ("flat error", TEXT[:3], ["error"]),
        ("eof", TEXT[:3], []),
        (
            "late",
            [
                "output_item.added",
                *SUMMARY_PART,
                "output_item.done",
                "output_item.added",
                "function_call_arguments.done",
                "output_item.done",
            ],
            ["completed"],
        ),
    ],
)
def test_each_behaviour_has_its_sequence(
    client: Client, name: str, middle: list[str], end: list[str]
) -> None:
    """The order of the service's own streams."""
    events = client.stream(BEHAVIOURS[name], tools=[WEATHER, CLOCK])
    assert types(events) == ["created", "in_progress", *middle, *end]


def test_deltas_add_up_to_the_text(client: Client) -> None:
    """Whatever its blanks, the text is the sum of its deltas."""
    events = client.stream(BEHAVIOURS["several words"])
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "a b  c\n\nd "
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a b  c\n\nd "


def test_done_items_are_those_of_the_terminal_event(client: Client) -> None:
    """Nothing differs between an item's own event and the final output."""
    events = client.stream(BEHAVIOURS["parallel"] + BEHAVIOURS["summary"], tools=[WEATHER, CLOCK])
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    assert len(done) == 6


def test_late_values_come_in_the_terminal_event_alone(client: Client) -> None:
    """Seal and arguments are missing from the items' events, and accepted when they come back."""
    ask = (
        '[[standin: late]] [[standin: reasoning=summary]] [[standin: call=get_weather args={"city": "Rome"}]]'
    )
    events = client.stream(ask, tools=[WEATHER])
    early = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    final = events[-1]["response"]["output"]
    assert ("encrypted_content" in early[0], early[1]["arguments"]) == (False, "")
    assert ("encrypted_content" in final[0], final[1]["arguments"]) == (True, '{"city": "Rome"}')
    assert client.post([user(ask), *final, output(final[1])], tools=[WEATHER]).status_code == 200
    assert client.post([user(ask), early[0], final[1], output(final[1])], tools=[WEATHER]).status_code == 400


def test_unknown_types_are_sent_on_demand(client: Client) -> None:
    """An event and an item that no client can know."""
    events = client.stream("[[standin: unknown]]")
    assert types(events)[2] == "standin_novelty.delta"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["standin_novelty", "message"]


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("nested", {"type": "error", "error": {"code": "server_error", "message": "Gone"}}),
        ("response.error", {"type": "response.error", "error": {"code": "server_error", "message": "Gone"}}),
        (
            "flat",
            {"type": "error", "code": "server_error", "message": "Gone", "param": None, "sequence_number": 7},
        ),
    ],
)
def test_errors_in_mid_stream_have_three_shapes(client: Client, kind: str, event: dict[str, Any]) -> None:
    """After the ordered number of deltas."""
    events = client.stream(f"[[standin: fail={kind} after=3 message=Gone]]")
    assert events[-1] == event
    assert sum(event["type"].endswith(".delta") for event in events) == 3


def test_a_failed_response_names_its_error(client: Client) -> None:
    """Streamed or not, the error stands in the response object."""
    ask = "[[standin: fail=failed code=rate_limit_exceeded message=Slow type=rate_limit_exceeded]]"
    streamed, whole = client.stream(ask)[-1]["response"], client.done(ask)
    for response in (streamed, whole):
        assert response["status"] == "failed"
        assert response["error"] == {"code": "rate_limit_exceeded", "message": "Slow"}
        assert response["error_type"] == "rate_limit_exceeded"


def test_an_output_limit_cuts_the_answer(client: Client) -> None:
    """max_output_tokens is counted over all items; the item that it hits is incomplete."""
    response = client.done('[[standin: text="one two three four five six seven"]]', max_output_tokens=4)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] <= 4
    assert response["output"][0]["status"] == "incomplete"
    assert "one two three four five six seven".startswith(response["output"][0]["content"][0]["text"])


def test_an_output_limit_counts_all_items(client: Client) -> None:
    """Reasoning and text of two tokens each share a limit of three."""
    ask = '[[standin: reasoning=summary text=abcdefgh]] [[standin: text="abcdefgh"]]'
    response = client.done(ask, max_output_tokens=3)
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert response["output"][1]["content"][0]["text"] == "abcd"


def test_an_output_limit_can_leave_reasoning_alone(client: Client) -> None:
    """A limit within the reasoning leaves a dangling item, and no message."""
    response = client.done('[[standin: reasoning=summary text="so many thoughts here"]]', max_output_tokens=3)
    assert [(item["type"], item["status"]) for item in response["output"]] == [("reasoning", "incomplete")]


def test_citations_point_into_the_text(client: Client) -> None:
    """The named address is the cited span."""
    part = client.done(BEHAVIOURS["citation"])["output"][0]["content"][0]
    (annotation,) = part["annotations"]
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == "https://a.example"


def test_the_whole_response_is_the_streamed_one(client: Client) -> None:
    """Streaming changes ids and times, nothing else."""
    streamed = client.stream(BEHAVIOURS["default"])[-1]["response"]
    whole = client.done(BEHAVIOURS["default"])
    fixed = {"id", "created_at", "completed_at", "output"}
    assert {k: v for k, v in streamed.items() if k not in fixed} == {
        k: v for k, v in whole.items() if k not in fixed
    }
    assert sdk_schema.against(OpenResponsesResult, whole, ()) == []
