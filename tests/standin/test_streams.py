"""What the answers of every behaviour look like, judged by the official SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openrouter import components, operations
from openrouter.components.openresponsesresult import OpenResponsesResult

from scripts.standin import sdk_schema
from scripts.standin.plan import SERVER_CALLS
from tests.standin.client import CLOCK, WEATHER, Client, events_of, output, user
from tests.support.rows import rows

RECORDED = sorted((Path(__file__).parents[1] / "data" / "sse").glob("[!4]*.sse"))
TABLE = Path(__file__).with_name("streams.txt")
PARTS = {
    "text": "content_part.added output_text.delta output_text.done content_part.done",
    "summary": " ".join(
        f"reasoning_summary_{stage}" for stage in ("part.added", "text.delta", "text.done", "part.done")
    ),
    "arguments": "function_call_arguments.delta function_call_arguments.done",
}
"""What the words of a sequence in the table stand for."""


def issues_of(event: dict[str, Any]) -> list[sdk_schema.Issue]:
    """What the SDK finds wrong with an event, its response and its items."""
    response, item = event.get("response"), event.get("item")
    items = [item] if item else (response or {}).get("output", [])
    return [
        *sdk_schema.event_issues(event),
        *(sdk_schema.against(OpenResponsesResult, response, ()) if response else []),
        *(bad for one in items for bad in sdk_schema.output_item_issues(one)),
    ]


def types(events: list[dict[str, Any]]) -> str:
    """The types behind the two opening ones, repeated deltas as one."""
    short = {"output_item.added": "(", "output_item.done": ")"}
    names = [str(event["type"]).removeprefix("response.") for event in events[2:]]
    kept = (name for at, name in enumerate(names) if at == 0 or name != names[at - 1])
    return " ".join(short.get(name, name) for name in kept)


def sequence_of(words: str) -> str:
    """The types that a sequence of the table stands for."""
    return " ".join(PARTS.get(word, word) for word in words.split())


@pytest.mark.parametrize("model", ["standin/script", "anthropic/claude-sonnet-4.5", "deepseek/deepseek-v3.2"])
@pytest.mark.parametrize(("name", "ask", "sequence"), rows(TABLE, "behaviours"))
def test_all_regular_events_are_valid(
    client: Client, name: str, ask: str, sequence: str | None, model: str
) -> None:
    """The SDK's strict classes accept every event of every behaviour, numbered, in the service's own order."""
    events = client.stream(ask, model=model, tools=[WEATHER, CLOCK])
    assert [issue for event in events for issue in issues_of(event)] == []
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    if model == "standin/script" and sequence:
        assert types(events) == sequence_of(sequence), name


@pytest.mark.parametrize("name", SERVER_CALLS)
def test_tools_of_the_router_run_where_they_are_offered(client: Client, name: str) -> None:
    """Their events and items are those of the SDK, which takes them back in the next request."""
    ask, tool = f"[[standin: tool={name}]]", {"type": f"openrouter:{name}"}
    events = client.stream(ask, tools=[tool])
    assert [issue for event in events for issue in issues_of(event)] == []
    assert types(events) == sequence_of("( ) ( text ) completed")
    made = events[-1]["response"]["output"][0]
    assert client.post([user(ask), made, user("Thank you.")]).status_code == 200
    assert types(client.stream(ask)) == sequence_of("( text ) completed")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK warns of a field of /key
@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models", components.ModelsListResponse),
        ("/models?offset=3&limit=2&supported_parameters=tools", components.ModelsListResponse),
        ("/endpoints/zdr", operations.ListEndpointsZdrResponse),
        ("/key", operations.GetCurrentKeyResponse),
    ],
)
def test_lists_are_valid(client: Client, path: str, model: Any) -> None:
    """The SDK accepts each, strictly."""
    assert sdk_schema.against(model, client.http.get(path).json(), ()) == []


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_recorded_streams_are_accepted(recorded: Path) -> None:
    """Every event of a known good stream passes the same judge."""
    events = events_of(recorded.read_text())
    assert [issue for event in events for issue in sdk_schema.event_issues(event)] == []
    assert len(events) > 3


DELTA = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "item_id": "m",
    "content_index": 0,
    "delta": "Yes",
    "logprobs": [],
    "sequence_number": 4,
}
DONE = {"type": "response.output_item.done", "output_index": 0, "sequence_number": 1}


@pytest.mark.parametrize(
    "event",
    [
        {name: value for name, value in DELTA.items() if name != "logprobs"},
        *({**DELTA, **change} for (change,) in (case.values for case in rows(TABLE, "bad events"))),
        {**DONE, "item": {"type": "x"}},
        {**DONE, "item": {"id": "f", "type": "function_call", "call_id": "c", "name": "n", "arguments": {}}},
        "no object",
    ],
)
def test_bad_events_are_refused(event: Any) -> None:
    """What the SDK's open unions would let pass in silence is an issue here."""
    assert sdk_schema.event_issues(DELTA) == []
    assert sdk_schema.event_issues(event) != []


def test_deltas_and_done_items_make_the_final_output(client: Client) -> None:
    """Blanks and all; and an unstreamed answer is the same, but for ids and times."""
    ask = '[[standin: text="a b  c\\n\\nd "]] [[standin: reasoning=summary parts=2 items=2]]'
    events, whole = client.stream(ask), client.done(ask)
    response = events[-1]["response"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == response["output"][-1]["content"][0]["text"] == "a b  c\n\nd "
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == response["output"]
    own = dict.fromkeys(("id", "created_at", "completed_at", "output"))
    assert {**response, **own} == {**whole, **own}
    assert sdk_schema.against(OpenResponsesResult, whole, ()) == []


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


@pytest.mark.parametrize(("kind", "event"), rows(TABLE, "errors in mid-stream"))
def test_errors_in_mid_stream_have_three_shapes(client: Client, kind: str, event: dict[str, Any]) -> None:
    """After the ordered number of deltas."""
    events = client.stream(f"[[standin: fail={kind} after=3 message=Gone]]")
    assert events[-1] == event
    assert sum(event["type"].endswith(".delta") for event in events) == 3


@pytest.mark.parametrize(("ask", "limit", "ends"), rows(TABLE, "cut answers"))
def test_an_output_limit_cuts_the_answer(client: Client, ask: str, limit: int, ends: Any) -> None:
    """It counts over all items, and what it hits is incomplete, or omitted where it cannot be cut."""
    response = client.done(ask, model="standin/raw", max_output_tokens=limit, reasoning={"effort": "none"})
    assert [[item["type"], item["status"]] for item in response["output"]] == ends
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert response["usage"]["output_tokens"] <= limit
