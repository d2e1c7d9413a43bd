"""What a round does with odd answers, through the whole pipe: the provider is a list of prepared streams."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers, serialize_marker
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Answer, Page, PipeInProcess
from tests.support.files import PICTURES
from tests.support.wire import frames

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

MODEL = "openai/gpt-5.2"
BASE_URL = "https://openrouter.test/api/v1"
EVENT_STREAM = {"content-type": "text/event-stream"}
PNG = base64.b64encode(PICTURES["image/png"]).decode()
TOOLS = {"look": lambda arguments: f"seen {arguments}"}


async def portions(body: bytes) -> AsyncIterator[bytes]:
    """A body as a connection delivers it."""
    yield body


class Router:
    """Answers each request with the next prepared body, and keeps what was sent."""

    def __init__(self, *bodies: bytes | AsyncIterator[bytes], window_tokens: int = 200_000) -> None:
        self.bodies = list(bodies)
        self.inputs: list[list[Json]] = []
        self.window_tokens = window_tokens

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            architecture = {"input_modalities": ["text", "image"], "output_modalities": ["text"]}
            model = {"id": MODEL, "name": MODEL, "context_length": self.window_tokens}
            parameters = {"supported_parameters": ["reasoning", "tools"]}
            return httpx.Response(
                200, json={"data": [{**model, **parameters, "architecture": architecture, "pricing": {}}]}
            )
        self.inputs.append(json.loads(request.content)["input"])
        body = self.bodies.pop(0)
        return httpx.Response(
            200, headers=EVENT_STREAM, content=portions(body) if isinstance(body, bytes) else body
        )

    def sent(self, kind: str) -> list[list[Json]]:
        """The items of a type in each request."""
        return [[item for item in sent if item["type"] == kind] for sent in self.inputs]


def open_pipe(folder: Path, router: Router, **valves: Any) -> PipeInProcess:
    """A pipe whose network is the router."""
    return PipeInProcess(folder, base_url=BASE_URL, transport=httpx.MockTransport(router), **valves)


async def ask(folder: Path, router: Router, *questions: str, **valves: Any) -> list[Answer]:
    """Ask in one chat, and return the answers."""
    async with open_pipe(folder, router, **valves) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        return [await page.ask(question) for question in questions]


def message(text: str, **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    head = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**head, "content": [part], **more}


def reasoning(item_id: str, **more: Any) -> Json:
    return {
        "type": "reasoning",
        "id": item_id,
        "summary": [],
        "encrypted_content": f"sealed {item_id}",
        **more,
    }


def call(
    arguments: str = "{}", *, call_id: str = "call_0", item_id: str = "fc_1", name: str = "look"
) -> Json:
    head = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name}
    return {**head, "arguments": arguments, "status": "completed"}


def opened(*items: Json) -> list[Json]:
    """Each item announced and done."""
    return [
        {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
        for index, item in enumerate(items)
        for kind in ("added", "done")
    ]


def completed(*output: Json, **more: Any) -> Json:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **more}}


def stream(*items: Json) -> bytes:
    """A whole answer of these items."""
    return frames(*opened(*items), completed(*items))


def delta(text: str) -> Json:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **where, "delta": text}


def failing(text: str, error: str) -> bytes:
    """An answer that fails after a part of its text."""
    failed = {"status": "failed", "error": {"code": 400, "message": error}, "output": []}
    return frames(
        delta(text),
        {"type": "response.failed", "response": failed},
    )


def calls_of(answer: Answer) -> list[tuple[str, str]]:
    """The ids and arguments of the calls that the host keeps."""
    return [(item["call_id"], item["arguments"]) for item in answer.output if item["type"] == "function_call"]


@pytest.mark.parametrize(
    "error",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "This endpoint's maximum context length is 9000 tokens. However, you requested about 9999 tokens.",
    ],
    ids=["reasoning rejected", "context too long"],
)
async def test_a_request_is_not_sent_again_after_a_part_of_its_answer(tmp_path: Path, error: str) -> None:
    """The user would read the beginning twice; without that part both failures are answered by another request."""
    first = stream(reasoning("rs_1"), message("word " * 2_000))
    router = Router(first, first, first, failing("one two", error))
    answers = await ask(tmp_path, router, "1", "2", "3", "4")
    assert (len(router.inputs), erase_markers(answers[-1].text)) == (4, "one two")
    assert answers[-1].error


async def test_a_rejected_request_is_sent_again_before_anything_was_shown(tmp_path: Path) -> None:
    """Once, without the reasoning that was replayed."""
    failed = {
        "status": "failed",
        "error": {"code": 400, "message": "Invalid `signature` in `thinking` block"},
    }
    router = Router(
        stream(reasoning("rs_1"), message("one")),
        frames({"type": "response.failed", "response": failed}),
        stream(message("two")),
    )
    answers = await ask(tmp_path, router, "1", "2")
    assert [len(sent) for sent in router.sent("reasoning")] == [0, 1, 0]
    assert (answers[1].text, answers[1].error) == ("two", None)


async def test_what_the_terminal_event_adds_is_stored(tmp_path: Path) -> None:
    """A seal that arrives with the end, after text was shown, is replayed in the next request."""
    bare, whole = reasoning("rs_1", encrypted_content=None), reasoning("rs_1", encrypted_content="late")
    router = Router(
        frames(*opened(bare, message("one")), completed(whole, message("one"))), stream(message("two"))
    )
    await ask(tmp_path, router, "1", "2")
    assert [item.get("encrypted_content") for item in router.sent("reasoning")[1]] == ["late"]


async def test_a_call_that_the_limit_cut_off_is_not_run(tmp_path: Path) -> None:
    """Its arguments are half, though the provider calls its item done."""
    cut = call('{"city": "Par')
    end = completed(cut, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    router = Router(frames(*opened(cut), {**end, "type": "response.incomplete"}))
    (answer,) = await ask(tmp_path, router, "1")
    assert (calls_of(answer), answer.notices, answer.error) == ([], [notice("answer_at_output_limit")], None)


async def test_reasoning_is_sent_once_however_often_it_is_marked(tmp_path: Path) -> None:
    """A marker may stand in the text as well as beside the reasoning."""
    router = Router(stream(reasoning("rs_1"), message("one")), stream(message("two")))
    async with open_pipe(tmp_path, router) as pipe:
        page = Page(pipe, MODEL)
        output = (await page.ask("1")).output
        (ulid,) = re.findall(r'"id": "(\w{20})"', json.dumps(output))
        part = output[-1]["content"][0]
        part["text"] = f"{serialize_marker(ulid)}\n{part['text']}"
        await page.ask("2")
    assert [item["id"] for item in router.sent("reasoning")[1]] == ["rs_1"]


async def test_a_repeated_call_id_is_compared_with_the_whole_chat(tmp_path: Path) -> None:
    """The host keeps a call that the request leaves out, and would take the new one for it."""
    text = stream(message("word"))
    router = Router(stream(call()), text, text, text, stream(call()), stream(message("end")))
    clip = {"CONTEXT_STRATEGY": "clip", "CLIP_LAST_MESSAGES": 2, "PERSIST_TOOL_RESULTS": False}
    answers = await ask(tmp_path, router, "1", "2", "3", "4", **clip)
    assert router.sent("function_call")[4] == []
    ids = [call_id for answer in answers for call_id, _ in calls_of(answer)]
    assert (ids[0], len(set(ids))) == ("call_0", 2)


async def test_next_reply_keeps_the_reasoning_of_the_latest_turn(tmp_path: Path) -> None:
    """The turn's own tool rounds serve the one reply after it; the turn before has had its reply."""
    router = Router(
        stream(reasoning("rs_1"), message("one")),
        stream(reasoning("rs_2"), call()),
        stream(message("two")),
        stream(message("three")),
    )
    await ask(tmp_path, router, "1", "2", "3", PERSIST_REASONING_TOKENS="next_reply")
    sent = [[item["id"] for item in items] for items in router.sent("reasoning")]
    assert sent == [[], ["rs_1"], ["rs_1", "rs_2"], ["rs_2"]]


WHOLE = ("completed", None)
UNREADABLE = ("incomplete", notice("unreadable_event"))


@pytest.mark.parametrize(
    ("levels", "outcomes"),
    [
        (50, {WHOLE}),
        (400, {WHOLE}),
        (700, {WHOLE, UNREADABLE}),
        (900, {WHOLE, UNREADABLE}),
        (100_000, {UNREADABLE}),
    ],
)
async def test_however_deep_an_item_is_nested_all_items_are_closed(
    tmp_path: Path, levels: int, outcomes: set[tuple[str, str | None]]
) -> None:
    """The text that was shown stays; how deep Python's parser reads depends on its version."""
    item = {"type": "openrouter:novelty", "id": "x", "status": "completed", "value": "DEEP"}
    begun, done = opened(message("one two"))[0], {**opened(item)[1], "output_index": 1}
    deep = frames(begun, delta("one two"), done, completed())
    body = deep.replace(b'"DEEP"', b"[" * levels + b"]" * levels)
    (answer,) = await ask(tmp_path, Router(body), "1")
    (said,) = answer.output
    assert (said["type"], answer.text) == ("message", "one two")
    assert (said["status"], answer.error) in outcomes


async def test_whatever_raises_the_items_are_closed(tmp_path: Path) -> None:
    """An error that nobody expects ends in one line, and the host keeps no open item."""

    async def broken() -> AsyncIterator[bytes]:
        yield frames(delta("one two")).removesuffix(b"data: [DONE]\n\n")
        raise RuntimeError("not an error of HTTP")

    (answer,) = await ask(tmp_path, Router(broken()), "1")
    assert [(item["type"], item["status"]) for item in answer.output] == [("message", "incomplete")]
    assert (answer.text, answer.error) == ("one two", notice("unexpected_error"))


@pytest.mark.parametrize(
    "items",
    [
        [reasoning("rs_1"), message("")],
        [message(" \n")],
        [message("", content=[])],
        [call(name="")],
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
        [{"type": "image_generation_call", "id": "ig_1", "status": "failed"}],
        [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None}],
        [],
    ],
    ids=[
        "reasoning",
        "blank",
        "no parts",
        "nameless call",
        "search",
        "failed picture",
        "no picture",
        "nothing",
    ],
)
async def test_an_empty_answer_says_so(tmp_path: Path, items: list[Json]) -> None:
    """The user is not left before an empty message."""
    (answer,) = await ask(tmp_path, Router(stream(*items)), "1")
    lines = [line for line in answer.notices if line not in {notice("searching"), notice("searched")}]
    assert (lines, answer.error) == ([notice("answer_empty")], None)


@pytest.mark.parametrize(
    "items",
    [
        [message("yes")],
        [message("", content=[{"type": "refusal", "refusal": "no"}])],
        [{"type": "image_generation_call", "id": "ig", "status": "completed", "result": PNG}],
    ],
    ids=["text", "refusal", "picture"],
)
async def test_an_answer_needs_no_notice(tmp_path: Path, items: list[Json]) -> None:
    """Text, a refusal and a picture are answers."""
    (answer,) = await ask(tmp_path, Router(stream(*items)), "1")
    assert (answer.notices, answer.error) == ([], None)


async def test_two_calls_of_one_id_are_both_run(tmp_path: Path) -> None:
    """Their arguments differ, so they are two; the second gets an id of its own, and both come back in pairs."""
    paris, rome = call('{"city":"Paris"}'), call('{"city":"Rome"}', item_id="fc_2")
    router = Router(frames(*opened(paris, rome), completed()), stream(message("done")))
    (answer,) = await ask(tmp_path, router, "1")
    assert [arguments for _, arguments in calls_of(answer)] == ['{"city":"Paris"}', '{"city":"Rome"}']
    called = [item["call_id"] for item in router.sent("function_call")[1]]
    assert len(set(called)) == 2
    assert called == [item["call_id"] for item in router.sent("function_call_output")[1]]


@pytest.mark.parametrize(
    ("phase", "sent"), [("final_answer", "final_answer"), ("thinking aloud", None), ([], None)]
)
async def test_only_known_phases_come_back(tmp_path: Path, phase: Any, sent: str | None) -> None:
    """A phase that the schema does not know would have each later request refused."""
    router = Router(stream(reasoning("rs_1"), message("one", phase=phase)), stream(message("two")))
    await ask(tmp_path, router, "1", "2")
    said = [item for item in router.inputs[1] if item.get("role") == "assistant"]
    assert [item.get("phase") for item in said] == [sent]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "local_shell_call", "action": {"type": "exec"}, "call_id": "call_1"},
        {"type": "computer_call", "call_id": "call_1", "pending_safety_checks": [], "action": {}},
        {"type": "mcp_approval_request", "arguments": "{}", "name": "n", "server_label": "s"},
    ],
    ids=lambda kind: kind["type"],
)
async def test_a_call_that_nobody_can_answer_is_not_sent_back(tmp_path: Path, kind: Json) -> None:
    """Alone no provider takes it."""
    item = {**kind, "id": "item_1", "status": "completed"}
    router = Router(stream(item, message("one")), stream(message("two")))
    await ask(tmp_path, router, "1", "2")
    assert [item["type"] for item in router.inputs[1]] == ["message"] * 3


async def test_only_web_addresses_become_citations(tmp_path: Path) -> None:
    """A page makes links of them."""
    urls = ["https://a.test", "javascript:alert(1)", "data:text/html,x", " https://b.test", "HTTP://c.test"]
    cited = [{"type": "url_citation", "url": url, "start_index": 0, "end_index": 1} for url in urls]
    part = {"type": "output_text", "text": "one", "annotations": cited}
    (answer,) = await ask(tmp_path, Router(stream(message("one", content=[part]))), "1")
    kept = [annotation["url"] for annotation in answer.output[0]["content"][0]["annotations"]]
    assert kept == ["https://a.test", "HTTP://c.test"]


@pytest.mark.parametrize(
    "body", ['{"error":{"code":402,"message":"no"}}', '\n\n {\n "error": {"code": 402}\n}\n']
)
async def test_an_error_that_is_labelled_a_stream_is_read(tmp_path: Path, body: str) -> None:
    """Some servers name no JSON where they send it."""
    (answer,) = await ask(tmp_path, Router(body.encode()), "1")
    assert answer.error == notice("no_credits")


async def test_numbers_that_json_lacks_are_not_sent_back(tmp_path: Path) -> None:
    """No provider reads NaN or an infinity; Python's JSON does."""
    items = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"a": "NAN"}},
        message("one"),
    ]
    body = stream(*items).replace(b'"NAN"', b"[NaN, 1e999, -Infinity, 1.5]")
    router = Router(body, stream(message("two")))
    await ask(tmp_path, router, "1", "2")
    assert [item["action"] for item in router.sent("web_search_call")[1]] == [{"a": [None, None, None, 1.5]}]
