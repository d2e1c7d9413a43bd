"""What the answers of every behaviour look like, judged by the official SDK."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from openrouter import components, operations
from openrouter.components.openresponsesresult import OpenResponsesResult

from scripts.standin import sdk_schema
from scripts.standin.drawing import COLOURS, colour_of, draw, middle_colour
from scripts.standin.plan import Delivery
from scripts.standin.sending import Chunk, frames
from tests.standin.client import CLOCK, WEATHER, Client, events_of, output, user
from tests.support.files import data_url

RECORDED = sorted((Path(__file__).parents[1] / "data" / "sse").glob("[!4]*.sse"))
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
    "fetch": "[[standin: fetch=https://a.example]]",
    "image": "[[standin: image=cat]]",
    "refusal": "[[standin: refusal]]",
    "length": "[[standin: incomplete=max_output_tokens]]",
    "filter": "[[standin: incomplete=content_filter]]",
    "failed": "[[standin: fail=failed code=rate_limit_exceeded type=rate_limit_exceeded]]",
    "failed at once": "[[standin: error=429 family=C]]",
    "flat": "[[standin: fail=flat after=3 message=Gone]]",
    "eof": "[[standin: fail=eof]]",
    "late": "[[standin: late]] [[standin: reasoning=summary]] [[standin: call=get_weather]]",
    "big": "[[standin: big=100000]]",
}
TEXT = "content_part.added output_text.delta output_text.done content_part.done"
SUMMARY = " ".join(
    f"reasoning_summary_{stage}" for stage in ("part.added", "text.delta", "text.done", "part.done")
)
SEQUENCES = {
    "default": f"( {TEXT} ) completed",
    "summary": f"( {SUMMARY} {SUMMARY} ) ( {SUMMARY} {SUMMARY} ) ( {TEXT} ) completed",
    "raw": f"( {TEXT.replace('output', 'reasoning')} ) ( {TEXT} ) completed",
    "encrypted": f"( ) ( {TEXT} ) completed",
    "parallel": f"( {TEXT} ) {'( function_call_arguments.delta function_call_arguments.done ) ' * 3}completed",
    "citation": f"( {TEXT.replace('delta', 'delta output_text.annotation.added')} ) completed",
    "server search": f"( ) ( {TEXT} ) completed",
    "native search": "( web_search_call.in_progress web_search_call.searching web_search_call.completed ) "
    f"( {TEXT} ) completed",
    "image": "( image_generation_call.in_progress image_generation_call.generating "
    f"image_generation_call.partial_image image_generation_call.completed ) ( {TEXT} ) completed",
    "refusal": f"( {TEXT.replace('output_text', 'refusal')} ) completed",
    "length": f"( {TEXT} ) incomplete",
    "failed": "( content_part.added output_text.delta failed",
    "failed at once": "failed",
    "flat": "( content_part.added output_text.delta error",
    "eof": "( content_part.added output_text.delta",
    "late": f"( {SUMMARY} ) ( function_call_arguments.done ) completed",
}
"""The events behind created and in_progress; parentheses are the beginning and the end of an item."""


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


@pytest.mark.parametrize("model", ["standin/script", "anthropic/claude-sonnet-4.5", "deepseek/deepseek-v3.2"])
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_all_regular_events_are_valid(client: Client, name: str, model: str) -> None:
    """The SDK's strict classes accept every event of every behaviour, numbered, in the service's own order."""
    events = client.stream(BEHAVIOURS[name], model=model, tools=[WEATHER, CLOCK])
    assert [issue for event in events for issue in issues_of(event)] == []
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    if model == "standin/script" and name in SEQUENCES:
        assert types(events) == SEQUENCES[name]


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
def test_lists_are_valid_and_can_fail(client: Client, path: str, model: Any) -> None:
    """The SDK accepts each, strictly; a queued behaviour that names the path makes it fail once."""
    assert sdk_schema.against(model, client.http.get(path).json(), ()) == []
    client.standin.script({"do": "error=503", "path": path.partition("?")[0]})
    assert [client.http.get(path).status_code for _ in range(2)] == [503, 200]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_recorded_streams_are_accepted(recorded: Path) -> None:
    """Every event of a known good stream passes the same judge."""
    events = events_of(recorded.read_text())
    assert [issue for event in events for issue in sdk_schema.event_issues(event)] == []
    assert len(events) > 3


DELTA = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "item_id": "msg_1",
    "content_index": 0,
    "delta": "Yes",
}
WHOLE = {**DELTA, "logprobs": [], "sequence_number": 4}
DONE = {"type": "response.output_item.done", "output_index": 0, "sequence_number": 1}


@pytest.mark.parametrize(
    "event",
    [
        DELTA,
        {**WHOLE, "delta": 7},
        {**WHOLE, "novelty": True},
        {**WHOLE, "type": "response.never_heard_of"},
        {**DONE, "item": {"type": "x"}},
        {**DONE, "item": {"id": "f", "type": "function_call", "call_id": "c", "name": "n", "arguments": {}}},
        "no object",
    ],
)
def test_bad_events_are_refused(event: Any) -> None:
    """What the SDK's open unions would let pass in silence is an issue here."""
    assert sdk_schema.event_issues(event) != []


def test_deltas_and_done_items_make_the_final_output(client: Client) -> None:
    """Blanks and all; and an unstreamed answer is the same, but for ids and times."""
    ask = BEHAVIOURS["several words"] + BEHAVIOURS["summary"]
    events, whole = client.stream(ask), client.done(ask)
    response = events[-1]["response"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == response["output"][-1]["content"][0]["text"] == "a b  c\n\nd "
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == response["output"]
    own = {"id", "created_at", "completed_at", "output"}
    assert {k: v for k, v in response.items() if k not in own} == {
        k: v for k, v in whole.items() if k not in own
    }
    assert sdk_schema.against(OpenResponsesResult, whole, ()) == []


def test_late_values_come_in_the_terminal_event_alone(client: Client) -> None:
    """Seal and arguments are missing from the items' events, and accepted when they come back."""
    ask = BEHAVIOURS["late"].replace("weather]]", 'weather args={"city": "Rome"}]]')
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
    assert types(events) == f"standin_novelty.delta ( ) ( {TEXT} ) completed"
    assert events[-1]["response"]["output"][0]["type"] == "standin_novelty"


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
    ask = BEHAVIOURS["failed"].replace("type=", "message=Slow type=")
    for response in (client.stream(ask)[-1]["response"], client.done(ask)):
        assert (response["status"], response["error_type"]) == ("failed", "rate_limit_exceeded")
        assert response["error"] == {"code": "rate_limit_exceeded", "message": "Slow"}


@pytest.mark.parametrize(
    ("ask", "limit", "ends"),
    [
        ('[[standin: text="abcdefghijkl"]]', 2, [("message", "incomplete")]),
        (
            "[[standin: reasoning=summary text=abcdefgh]] [[standin: text=abcdefgh]]",
            3,
            [("reasoning", "completed"), ("message", "incomplete")],
        ),
        ("[[standin: reasoning=summary text=abcdefghijkl]]", 2, [("reasoning", "incomplete")]),
        ("[[standin: call=get_weather]]", 2, []),
    ],
)
def test_an_output_limit_cuts_the_answer(client: Client, ask: str, limit: int, ends: Any) -> None:
    """It counts over all items, and what it hits is incomplete, or omitted where it cannot be cut."""
    response = client.done(ask, max_output_tokens=limit)
    assert [(item["type"], item["status"]) for item in response["output"]] == ends
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert response["usage"]["output_tokens"] <= limit


def test_citations_point_into_the_text(client: Client) -> None:
    """The named address is the cited span."""
    part = client.done(BEHAVIOURS["citation"])["output"][0]["content"][0]
    (annotation,) = part["annotations"]
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == "https://a.example"


def test_what_the_parser_made_of_a_document_is_an_annotation(client: Client) -> None:
    """With name, hash and text of each PDF; the schema of the input knows no such annotation."""
    pdf = {"type": "input_file", "filename": "a.pdf", "file_data": data_url("application/pdf", b"%PDF-1.7")}
    content = [pdf, {"type": "input_text", "text": "[[standin: parsed]] Read."}]
    message = client.done([{"role": "user", "content": content}])["output"][-1]
    (annotation,) = message["content"][0]["annotations"]
    file = annotation["file"]
    assert (file["name"], file["hash"]) == ("a.pdf", hashlib.sha256(b"%PDF-1.7").hexdigest())
    assert [part["type"] for part in file["content"]] == ["text"] * 3
    assert client.post([user("Read."), message, user("And now?")]).status_code == 400


# --- pictures ---


def test_colours_follow_from_prompts_and_pictures() -> None:
    """From the last one that a prompt names, or from its text; of a picture not our own from its bytes."""
    assert colour_of("not red but Green.") == COLOURS["green"]
    assert colour_of("a cat") == colour_of("a cat") != colour_of("a dog")
    for picture in (b"", draw("red")[:60], b"\x89PNG\r\n\x1a\n" + b"x" * 90):
        assert middle_colour(picture) == middle_colour(picture) != middle_colour(picture + b"1")


# --- bytes ---

EVENTS = [{"type": "a.delta", "delta": "é"}, {"type": "a.delta", "delta": "é"}, {"type": "b.done"}]
LINE = 'data: {"type":"a.delta","delta":"é"}'
ODD = Delivery(2, 1, "\r\n", comments=1, bare_comments=True, comment_every=2, done=False)


def test_framing_decides_about_the_bytes() -> None:
    """Comments, either newline, pauses before deltas alone, and the end mark; an empty chunk may carry a pause."""
    comment, ending, done = ": OPENROUTER PROCESSING", 'data: {"type":"b.done"}', "data: [DONE]"
    assert list(frames(EVENTS, Delivery(comments=1))) == [
        Chunk(f"{line}\n\n".encode()) for line in (comment, LINE, LINE, ending, done)
    ]
    assert list(frames(EVENTS, ODD)) == [
        Chunk(f"{line}\r\n\r\n".encode(), pause)
        for line, pause in ((": ", 2), (LINE, 1), (": ", 0), (LINE, 1), (ending, 0))
    ]
    assert next(frames(EVENTS, Delivery(comments=0, first_delay_seconds=3))) == Chunk(b"", 3)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_split_bytes_are_the_same_bytes(size: int) -> None:
    """Pieces end anywhere, inside a character too, and lose nothing."""
    whole = b"".join(chunk.data for chunk in frames(EVENTS, Delivery()))
    chunks = [chunk.data for chunk in frames(EVENTS, Delivery(split_bytes=size))]
    assert (b"".join(chunks), max(map(len, chunks)) <= size) == (whole, True)
