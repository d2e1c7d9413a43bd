"""The native writer: outputs become the events that Open WebUI reduces, with markers where nobody sees them."""

from __future__ import annotations

import base64
import copy
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.markers import PHASE_TYPE, REFERENCE_TYPE
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.ports import Embed, Failed, Notice, Output, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import (
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
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.items import (
    AssistantMessage,
    FunctionCall,
    Item,
    OpaqueItem,
    OutputText,
    Reasoning,
)
from tests.support.files import PICTURES

ULID = "0000000000000000000A"
ULID_2 = "0000000000000000000B"

PNG = base64.b64encode(PICTURES["image/png"]).decode()

THOUGHT_BEGUN = Reasoning(type="reasoning", id="rs_1", summary=[])
THOUGHT = Reasoning(
    type="reasoning",
    id="rs_1",
    summary=[{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}],
    encrypted_content="SECRET",
    signature=None,
)
TEXT_BEGUN = AssistantMessage(type="message", role="assistant", id="msg_1", status="in_progress", content=[])
CITATION = {
    "type": "url_citation",
    "url": "https://a.example",
    "title": "A",
    "start_index": 0,
    "end_index": 2,
}
TEXT = AssistantMessage(
    type="message",
    role="assistant",
    id="msg_1",
    status="completed",
    content=[{"type": "output_text", "text": "Hi", "annotations": [CITATION]}],
)
CALL_BEGUN = FunctionCall(type="function_call", call_id="call_1", name="f", arguments="")
CALL = FunctionCall(
    type="function_call", call_id="call_1", name="f", arguments='{"a": 1}', status="completed"
)
USAGE = Usage(input_tokens=10, cached_tokens=4, output_tokens=5, reasoning_tokens=2, cost=0.25)


def finished(*items: Item) -> ResponseFinished:
    return ResponseFinished("completed", None, "gen-1", "openai/gpt-5", items, USAGE)


REASONED_ANSWER: list[Output] = [
    ItemStarted(0, THOUGHT_BEGUN),
    ReasoningDelta(0, 0, "summary", "First."),
    ReasoningDelta(0, 1, "summary", "Sec"),
    ReasoningDelta(0, 1, "summary", "ond."),
    ItemFinished(0, THOUGHT),
    StoredMarkers((ULID,), before=1),
    ItemStarted(1, TEXT_BEGUN),
    TextDelta(1, 0, "H"),
    TextDelta(1, 0, "i"),
    CitationAdded(1, 0, CITATION),
    ItemFinished(1, TEXT),
    finished(THOUGHT, TEXT),
]

CALLS: list[Output] = [
    ItemStarted(0, THOUGHT_BEGUN),
    ItemFinished(0, THOUGHT),
    ItemStarted(1, CALL_BEGUN),
    ArgumentsDelta(1, '{"a": 1}'),
    ItemFinished(1, CALL),
    StoredMarkers((ULID, ULID_2)),
    finished(THOUGHT, CALL),
]


def writer() -> NativeWriter:
    ids, seconds = count(1), count(0, 3)
    return NativeWriter(new_id=lambda: f"N{next(ids)}", clock=lambda: float(next(seconds)))


def rendered(outputs: list[Output]) -> list[dict[str, Any]]:
    native = writer()
    return [copy.deepcopy(event) for output in outputs for event in native.render(output)]


HOST_THOUGHT = {
    "type": "reasoning",
    "id": "rs_N1",
    "status": "completed",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "\n\nSecond."}],
    "duration": 3,
}
HOST_USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 2},
    "cost": 0.25,
}


def test_an_answer_with_reasoning_event_by_event() -> None:
    """Thinking and the reference to it, then text, then the whole output with the usage; nothing sealed is shown."""
    referring = {**HOST_THOUGHT, "reasoning_details": [{"type": REFERENCE_TYPE, "id": ULID}]}
    text = {
        "type": "message",
        "id": "msg_N2",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi", "annotations": [CITATION]}],
    }
    part = {"type": "output_text", "text": "", "annotations": []}
    thinking = {"item_id": "rs_N1", "output_index": 0, "content_index": 0}
    writing = {"item_id": "msg_N2", "output_index": 1, "content_index": 0}
    thought_delta = {"type": "response.reasoning_summary_text.delta", **thinking}
    text_delta = {"type": "response.output_text.delta", **writing}
    assert rendered(REASONED_ANSWER) == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_N1", "status": "in_progress", "summary": []},
        },
        {**thought_delta, "summary_index": 0, "delta": "First."},
        {**thought_delta, "summary_index": 1, "delta": "\n\nSec"},
        {**thought_delta, "summary_index": 1, "delta": "ond."},
        {"type": "response.output_item.done", "output_index": 0, "item": HOST_THOUGHT},
        {"type": "response.output_item.done", "output_index": 0, "item": referring},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {
                "type": "message",
                "id": "msg_N2",
                "status": "in_progress",
                "role": "assistant",
                "content": [part],
            },
        },
        {**text_delta, "delta": "H"},
        {**text_delta, "delta": "i"},
        {"type": "response.output_item.done", "output_index": 1, "item": text},
        {
            "type": "response.completed",
            "response": {
                "id": "gen-1",
                "status": "completed",
                "output": [referring, text],
                "usage": HOST_USAGE,
            },
        },
    ]


def test_without_reasoning_markers_stand_in_the_text() -> None:
    """Before the text of a message, whose citations move; or in a message of their own, with a blank line before."""
    marker = f"[{ULID}]: #\n\n"
    moved = {**CITATION, "start_index": len(marker), "end_index": len(marker) + 2}
    led = rendered([*REASONED_ANSWER[5:-1], finished(TEXT)])[-1]["response"]["output"]
    assert led[0]["content"] == [{"type": "output_text", "text": f"{marker}Hi", "annotations": [moved]}]
    alone = rendered([*CALLS[2:-1], finished(CALL)])[-1]["response"]["output"]
    text = f"\n[{ULID}]: #\n[{ULID_2}]: #\n"
    assert [item["type"] for item in alone] == ["function_call", "message"]
    assert alone[1]["content"] == [{"type": "output_text", "text": text, "annotations": []}]


def test_references_stand_beside_the_reasoning() -> None:
    """They ride on the reasoning item, in a field that the host hands back, and the text stays the model's."""
    output = rendered(CALLS)[-1]["response"]["output"]
    references = [{"type": REFERENCE_TYPE, "id": ULID}, {"type": REFERENCE_TYPE, "id": ULID_2}]
    assert [item["type"] for item in output] == ["reasoning", "function_call"]
    assert output[0]["reasoning_details"] == references


def test_a_call_without_reasoning_is_named_by_its_id() -> None:
    """What the id of a call names needs no marker; what a hosted tool did has no other place than the text."""
    outputs: list[Output] = [
        ItemStarted(0, CALL_BEGUN),
        ItemFinished(0, CALL),
        StoredMarkers((ULID,), of_calls=frozenset({ULID})),
    ]
    named = rendered([*outputs, finished(CALL)])[-1]["response"]["output"]
    marked = rendered([*outputs, StoredMarkers((ULID_2,)), finished(CALL)])
    assert [item["type"] for item in named] == ["function_call"]
    assert marked[-1]["response"]["output"][1]["content"][0]["text"] == f"\n[{ULID_2}]: #\n"


def said(text: str, phase: str, index: int) -> list[Output]:
    """A whole message of this phase."""
    begun = AssistantMessage({**TEXT_BEGUN, "phase": phase})
    part = OutputText(type="output_text", text=text, annotations=[])
    return [ItemStarted(index, begun), ItemFinished(index, AssistantMessage({**TEXT, "content": [part]}))]


def test_references_say_how_much_text_stands_before_them() -> None:
    """In visible characters, since the host joins texts and strips blanks; so do phases, each where it begins."""
    outputs: list[Output] = [
        *REASONED_ANSWER[:5],
        StoredMarkers((ULID,), before=1),
        *said("One two.\n", "commentary", 1),
        *said("Three.", "commentary", 2),
        StoredMarkers((ULID_2,), before=3),
        *said("Four.", "final_answer", 3),
    ]
    output = rendered([*outputs, finished(THOUGHT)])[-1]["response"]["output"]
    assert output[0]["reasoning_details"] == [
        {"type": REFERENCE_TYPE, "id": ULID},
        {"type": PHASE_TYPE, "phase": "commentary"},
        {"type": REFERENCE_TYPE, "id": ULID_2, "after": 13},
        {"type": PHASE_TYPE, "phase": "final_answer", "after": 13},
    ]
    assert [item["content"][0]["text"] for item in output[1:]] == ["One two.\n", "Three.", "Four."]


def test_a_continued_answer_counts_the_text_that_it_goes_on_with() -> None:
    """The host joins both halves into one message."""
    native = NativeWriter(new_id=lambda: "N", clock=lambda: 0.0, continued_text="One\n two.")
    for output in REASONED_ANSWER[:6]:
        native.render(output)
    assert native.items[0]["reasoning_details"] == [{"type": REFERENCE_TYPE, "id": ULID, "after": 7}]


def test_a_failed_answer_leaves_no_call_to_run() -> None:
    """The host runs every call that it has, so a failed round removes its calls; the text stays."""
    failure = ResponseFailed(Failure("unavailable"), "gen-1", (TEXT, CALL), None)
    outputs: list[Output] = [
        ItemStarted(0, TEXT_BEGUN),
        TextDelta(0, 0, "Hi"),
        ItemFinished(0, TEXT),
        ItemStarted(1, CALL_BEGUN),
        ItemFinished(1, CALL),
        failure,
        Failed("The connection was lost."),
    ]
    *_, completed, error = rendered(outputs)
    assert [item["type"] for item in completed["response"]["output"]] == ["message"]
    assert error == {"error": {"message": "The connection was lost."}}


def test_refusals_are_shown_as_text() -> None:
    """The host draws nothing for refusal parts."""
    refusal = AssistantMessage(
        type="message",
        role="assistant",
        id="msg_1",
        status="completed",
        content=[{"type": "refusal", "refusal": "No."}],
    )
    outputs: list[Output] = [ItemStarted(0, TEXT_BEGUN), RefusalDelta(0, 0, "No."), ItemFinished(0, refusal)]
    *_, delta, done = rendered(outputs)
    shown = (delta["delta"], done["item"]["content"][0]["text"])
    assert (delta["type"], shown) == ("response.output_text.delta", ("No.", "No."))


def test_items_that_the_host_cannot_draw_are_omitted() -> None:
    """Hosted items live on as artifacts; a web search is drawn as the host's own kind."""
    image = OpaqueItem(type="image_generation_call", id="ig", status="completed")
    search = OpaqueItem(type="openrouter:web_search", id="ws", status="completed")
    outputs: list[Output] = [
        ItemStarted(0, image),
        ItemFinished(0, image),
        ItemStarted(1, search),
        ItemFinished(1, search),
    ]
    events = rendered([*outputs, finished(image, search)])
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["web_search_call"]
    assert [event.get("output_index") for event in events] == [0, 0, None]


def test_an_amendment_without_news_sends_nothing() -> None:
    """A late signature concerns the stored artifact, not the page."""
    outputs: list[Output] = [ItemStarted(0, THOUGHT_BEGUN), ItemFinished(0, THOUGHT)]
    late = ItemAmended(0, Reasoning({**THOUGHT, "signature": "late"}))
    assert rendered([*outputs, late]) == rendered(outputs)


def test_a_notice_is_a_status_line() -> None:
    """Statuses travel inside the stream, in order with the text."""
    status = {"type": "status", "data": {"description": "Wait.", "done": True}}
    assert rendered([Notice("Wait.")]) == [{"event": status}]


@pytest.mark.live
@pytest.mark.parametrize("outputs", [REASONED_ANSWER, CALLS])
def test_the_host_reduces_the_events_to_what_the_writer_holds(
    outputs: list[Output], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Open WebUI's own reducer arrives at the same items, before and after the terminal event."""
    monkeypatch.setenv("WEBUI_SECRET_KEY", "a key for tests")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    from open_webui.utils.response import handle_responses_streaming_event

    native = writer()
    reduced: list[dict[str, Any]] = []
    for output in outputs:
        for event in native.render(output):
            reduced, _ = handle_responses_streaming_event(copy.deepcopy(event), reduced)
            if event["type"] != "response.completed" and not event["type"].endswith(".delta"):
                assert reduced[event["output_index"]] == native.items[event["output_index"]]
    assert reduced == native.items


def test_a_late_call_id_is_set() -> None:
    """The host pairs the output by this id, and so does the stored call."""
    unnamed = FunctionCall({"type": "function_call", "name": "", "arguments": ""})  # type: ignore[typeddict-item]
    *_, done = rendered([ItemStarted(0, unnamed), ItemFinished(0, CALL)])
    assert (done["item"]["call_id"], done["item"]["name"]) == ("call_1", "f")


def test_an_error_alone_leaves_no_call_to_run_either() -> None:
    """Whatever went wrong, the host must not go on with the calls of an answer that broke off."""
    completed, error = rendered([ItemStarted(0, CALL_BEGUN), ItemFinished(0, CALL), Failed("No.")])[-2:]
    assert [item["type"] for item in completed["response"]["output"]] == ["message"]
    assert error == {"error": {"message": "No."}}


@pytest.mark.parametrize("content", ["Hm.", [{"type": "reasoning_text", "text": "Hm."}, {"text": 5}, "x"]])
def test_reasoning_of_any_form_becomes_clean_parts(content: object) -> None:
    """The stored item stays as the provider sent it; the host gets lists of texts alone."""
    thought = Reasoning({"type": "reasoning", "id": "rs", "summary": None, "content": content})  # type: ignore[typeddict-item]
    *_, done = rendered([ItemStarted(0, THOUGHT_BEGUN), ItemFinished(0, thought)])
    texts = [part["text"] for part in done["item"]["content"]]
    assert (done["item"]["summary"], "".join(texts)) == ([], "Hm.")


def test_a_stored_search_has_no_nulls() -> None:
    """It reads the action's fields without checking for them."""
    search = OpaqueItem({"type": "web_search_call", "id": "ws", "action": {"query": "x", "sources": None}})  # type: ignore[typeddict-unknown-key]
    *_, done = rendered([ItemStarted(0, search), ItemFinished(0, search)])
    assert done["item"]["action"] == {"query": "x"}


def test_a_page_becomes_an_embed_of_the_message() -> None:
    """The host keeps it beside the text."""
    assert rendered([Embed("<p>x</p>")]) == [{"event": {"type": "embeds", "data": {"embeds": ["<p>x</p>"]}}}]


def test_images_become_files_of_the_message() -> None:
    """All of a round in one event, because the page keeps the files of the last one only."""
    images = [
        OpaqueItem({"type": "image_generation_call", "id": "1", "status": "completed", "result": PNG}),  # type: ignore[typeddict-unknown-key]
        OpaqueItem({"type": "openrouter:image_generation", "id": "2", "imageUrl": "https://a.example/b.png"}),  # type: ignore[typeddict-unknown-key]
        OpaqueItem({"type": "image_generation_call", "id": "3", "status": "failed"}),
        OpaqueItem({"type": "image_generation_call", "id": "4", "result": "/api/v1/files/7f/content"}),  # type: ignore[typeddict-unknown-key]
    ]
    outputs: list[Output] = [ItemFinished(index, image) for index, image in enumerate(images)]
    files, completed = rendered([*outputs, finished(*images)])
    urls = [f"data:image/png;base64,{PNG}", "https://a.example/b.png", "/api/v1/files/7f/content"]
    data = {"files": [{"type": "image", "url": url} for url in urls]}
    assert files == {"event": {"type": "files", "data": data}}
    assert completed["type"] == "response.completed"


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "/api/v1/files/x/../y/content", "data:image/svg+xml;base64,PHN2Zz4="),
        *("data:text/html,x", "DATA:text/html;base64,QUJD", "//a.example", "file:/x", ""),
    ],
)
def test_only_web_addresses_and_images_reach_the_page(address: str) -> None:
    """A citation or picture of another kind is omitted: the host makes links of what it gets."""
    part = OutputText(type="output_text", text="Hi", annotations=[{**CITATION, "url": address}, CITATION])
    cited = AssistantMessage({**TEXT, "content": [part]})
    image = OpaqueItem({"type": "image_generation_call", "id": "1", "result": address})  # type: ignore[typeddict-unknown-key]
    action = {"query": "x", "url": address, "sources": [{"url": address}, {"url": "https://a.example"}]}
    search = OpaqueItem({"type": "web_search_call", "id": "ws", "action": action})  # type: ignore[typeddict-unknown-key]
    outputs: list[Output] = [ItemStarted(0, TEXT_BEGUN), ItemFinished(0, cited), ItemFinished(1, image)]
    outputs += [ItemStarted(2, search), ItemFinished(2, search)]
    *_, completed = events = rendered([*outputs, finished(cited, image, search)])
    message, searched = completed["response"]["output"]
    assert message["content"][0]["annotations"] == [CITATION]
    assert searched["action"] == {"query": "x", "url": "", "sources": [{"url": "https://a.example"}]}
    assert not [event for event in events if "event" in event]


@pytest.mark.parametrize("address", ["HTTPS://a.example/b.png", f"Data:image/webp;base64,{PNG}"])
def test_the_case_of_a_scheme_does_not_matter(address: str) -> None:
    """A picture's address reaches the page as it is."""
    image = OpaqueItem({"type": "image_generation_call", "id": "1", "result": address})  # type: ignore[typeddict-unknown-key]
    files, _ = rendered([ItemFinished(0, image), finished(image)])
    assert files["event"]["data"]["files"] == [{"type": "image", "url": address}]


def test_what_was_parsed_of_a_document_stays_out_of_the_chat() -> None:
    """OpenRouter's parser puts the whole document into an annotation; citations alone are the host's."""
    parsed = {
        "type": "file",
        "file": {"hash": "1", "name": "a.pdf", "content": [{"type": "text", "text": "x"}]},
    }
    part = OutputText(type="output_text", text="Hi", annotations=[parsed, CITATION, {"type": "novel"}])
    done = ItemFinished(0, AssistantMessage({**TEXT, "content": [part]}))
    *_, event = rendered([ItemStarted(0, TEXT_BEGUN), CitationAdded(0, 0, parsed), done])
    assert event["item"]["content"][0]["annotations"] == [CITATION]


def test_a_late_citation_is_sent_once() -> None:
    """The host makes a source of each citation in each finished message."""
    late = {**CITATION, "url": "https://b.example"}
    part = OutputText(type="output_text", text="Hi", annotations=[CITATION, late])
    amended = AssistantMessage({**TEXT, "content": [part]})
    outputs: list[Output] = [ItemStarted(0, TEXT_BEGUN), ItemFinished(0, TEXT), ItemAmended(0, amended)]
    *_, first, second, completed = rendered([*outputs, finished(amended)])
    cited = [event["item"]["content"][0]["annotations"] for event in (first, second)]
    assert cited == [[CITATION], [late]]
    assert completed["response"]["output"][0]["content"][0]["annotations"] == [CITATION, late]
