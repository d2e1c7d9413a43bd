"""A chat that was refused goes on: the whole pipe before a provider that refuses what a recorded error is about.

The provider says what was recorded, again and again, as long as its cause is in the request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from PIL import Image

from open_webui_openrouter_pipe.errors import (
    ContextTooLong,
    ProviderError,
    ProviderUnavailable,
    RequestRejected,
    RequestTooLarge,
)
from open_webui_openrouter_pipe.turn.remedies import in_words, may_be_too_long
from scripts.harness.page import Page
from tests.openrouter.test_refusals import RECORDED
from tests.support.files import data_url
from tests.support.wire import frames
from tests.turn.pipe import MODEL, TOOLS, Json, Router, call, completed, message, open_pipe, opened, reasoning

pytestmark = pytest.mark.anyio

_WRITTEN = BytesIO()
Image.new("1", (1024, 1024)).save(_WRITTEN, "png")
IMAGE: Final = {"type": "image_url", "image_url": {"url": data_url("image/png", _WRITTEN.getvalue())}}
"""A picture of ordinary size."""
CREATED: Final = {"type": "response.created", "response": {"id": "gen-1"}}
UNEXPLAINED: Final = {
    "status": 400,
    "shape": "json body",
    "body": {"error": {"code": 400, "message": "Provider returned error"}},
}
OUTAGE: Final = next(row for row in RECORDED if '"code": "upstream_error"' in json.dumps(row))
"""A refusal of reasoning that looks like one."""
LONG: Final = "word " * 4000
LONGEST_INPUT: Final = 15_000
"""In characters: what the provider takes."""


def types(request: Json) -> set[str]:
    """The types of the items and of the parts that a request holds."""
    parts = (part for item in request["input"] for part in item.get("content") or [])
    return {item["type"] for item in request["input"]} | {part["type"] for part in parts}


def refused(remedy: Any, kind: type[ProviderError] = RequestRejected) -> ProviderError:
    error = kind("no")
    error.remedy = remedy
    return error


def thinks(request: Json) -> bool:
    return bool(request.get("reasoning", {}).get("effort") != "none")


CAUSES: Final[dict[str, Callable[[Json], bool]]] = {
    "reasoning": lambda request: "reasoning" in types(request),
    "thinking without reasoning": lambda request: "function_call" in types(request) and thinks(request),
    "size": lambda request: len(json.dumps(request["input"])) > LONGEST_INPUT,
    "attachment": lambda request: "input_image" in types(request),
    "tools": lambda request: "function_call" in types(request),
}
CAUSE_OF: Final = {
    "reasoning_refused": "reasoning",
    "reasoning_missing": "thinking without reasoning",
    "too_long": "size",
    "image_unsupported": "attachment",
    "file_unsupported": "attachment",
    "tool_pairing": "tools",
    "duplicate_item": "tools",
}
"""Of errors that the chat itself has caused; others end with what a person does about them."""


class Judge(Router):
    """Refuses what has the cause, with the recorded error, from when it `judges`; else it calls a tool, or answers."""

    def __init__(
        self, row: Json, cause: str, *, window_tokens: int = 200_000, answer: str = "It works."
    ) -> None:
        super().__init__(window_tokens=window_tokens)
        self.row, self.has_cause, self.answer = row, CAUSES[cause], answer
        self.judges = False
        self.refused = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return await super().__call__(request)
        asked = json.loads(request.content)
        if self.judges and self.has_cause(asked):
            self.requests.append(asked)
            self.refused += 1
            return self.refusal()
        items = self.items_for(asked)
        self.bodies = [frames(CREATED, *opened(*items), completed(*items))]
        return await super().__call__(request)

    def items_for(self, asked: Json) -> list[Json]:
        """What it answers."""
        if self.judges:
            return [message(self.answer)]
        if asked["input"][-1]["type"] == "message":
            return [reasoning("rs_1"), call("{}", call_id="call_1")]
        return [message(f"Seen. {self.answer}")]

    def refusal(self) -> httpx.Response:
        """The recorded error in the shape in which it came."""
        row = self.row
        body = row.get("body") or {"error": {"code": row["status"], "message": row.get("message")}}
        if row["status"] == 200 and "body" not in row:
            details = {"reason": row["message"]}
            usage = {"input_tokens": 9, "output_tokens": 0}
            end = {"status": "incomplete", "incomplete_details": details, "output": [], "usage": usage}
            return self._stream({"type": "response.incomplete", "response": end})
        if row["shape"] == "sse event":
            return self._stream({"type": "error", **body})
        return httpx.Response(row["status"], json=body)

    def _stream(self, event: Json) -> httpx.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=frames(CREATED, event))


SIGNED: Final = {
    "format": "anthropic-claude-v1",
    "signature": "s",
    "content": [{"type": "reasoning_text", "text": "t"}],
}
REFUSED_SIGNATURE: Final = next(row for row in RECORDED if "Invalid `signature`" in row.get("message", ""))


class OpenTurn(Judge):
    """Calls a tool twice before it answers; refuses reasoning, and if it is strict, to think on without."""

    def __init__(self, row: Json, model: str, *, is_strict: bool) -> None:
        super().__init__(row, "reasoning")
        self.model, self.judges, self.is_strict = model, True, is_strict
        self.has_cause = lambda asked: (
            "reasoning" in types(asked)
            or (is_strict and asked["input"][-1]["type"] == "function_call_output" and thinks(asked))
        )

    def items_for(self, asked: Json) -> list[Json]:
        if asked["input"][-1]["type"] == "message":
            signed = SIGNED if self.is_strict else {}
            first = [reasoning("rs_1", **signed), call("{}", call_id="call_0")]
            return [message("ok")] if asked["input"][1:] else first
        outputs = [item for item in asked["input"] if item["type"] == "function_call_output"]
        return [call("{}", call_id="call_1") if len(outputs) == 1 else message("It works.")]


@pytest.mark.parametrize("row", [REFUSED_SIGNATURE, UNEXPLAINED], ids=["said", "unexplained"])
@pytest.mark.parametrize(
    ("model", "thought"),
    [
        ("anthropic/claude-sonnet-4.5", [True, True, False, False, True]),
        ("openai/gpt-5.2", [True, True, True, True, True]),
    ],
)
async def test_an_open_tool_turn_goes_on_without_its_reasoning(
    tmp_path: Path, row: Json, model: str, thought: list[bool]
) -> None:
    """Where its provider would refuse that while it thinks, it does not think till the end of the turn."""
    judge = OpenTurn(row, model, is_strict=model.startswith("anthropic"))
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, model, tools=TOOLS)
        page.parameters = {"reasoning_effort": "high"}
        answers = [await page.ask(each) for each in ("one", "two")]
    assert [(answer.error, answer.text) for answer in answers] == [(None, "It works."), (None, "ok")]
    assert ([thinks(request) for request in judge.requests], judge.refused) == (thought, 1)
    assert ["reasoning" in types(request) for request in judge.requests] == [False, True, False, False, False]


def recorded() -> Iterator[Any]:
    """The errors whose cause may be in the chat, each with its cause; the first comes as an end at the length."""
    ended = {"kind": "too_long", "status": 200, "shape": "sse event", "message": "max_output_tokens"}
    yield pytest.param(ended, "size", id="an end")
    for number, row in enumerate(RECORDED):
        cause = CAUSE_OF.get(row["kind"])
        if row["kind"] == "other" and row["status"] == 400 and "tool_use_failed" not in json.dumps(row):
            cause = "tools"  # what else than words the provider stumbles over; that one is about the answer
        if cause:
            yield pytest.param(row, cause, id=f"{number}-{row['kind']}")


@pytest.mark.parametrize(("row", "cause"), [*recorded()])
async def test_after_each_refusal_of_the_chat_the_next_question_is_answered(
    tmp_path: Path, row: Json, cause: str
) -> None:
    """And this one too, since the cause stands in an earlier turn; said in a status line."""
    judge = Judge(row, cause, answer=LONG if cause == "size" else "It works.")
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        page.attached = [IMAGE]
        first = await page.ask("one")
        judge.judges, judge.answer = True, "It works."
        second, third = [await page.ask(each) for each in ("two", "three")]
    assert judge.refused >= 1
    assert [first.error, second.error, third.error] == [None] * 3
    assert [second.text, third.text] == ["It works."] * 2
    assert second.notices
    if cause in {"reasoning", "thinking without reasoning"}:  # what was refused is not sent again
        assert "reasoning" not in types(judge.requests[-1])
    if cause == "reasoning":  # an outage proves nothing: what is as one is tried in each turn
        assert judge.refused == (2 if row is OUTAGE else 1)


@pytest.mark.parametrize("cause", CAUSES)
async def test_without_a_word_no_chat_is_stuck(tmp_path: Path, cause: str) -> None:
    """Where the provider says nothing but that it has refused, what the chat holds is tried."""
    window = 7_000 if cause == "size" else 200_000
    judge = Judge(UNEXPLAINED, cause, window_tokens=window, answer=LONG if cause == "size" else "It works.")
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        page.attached = [IMAGE]
        await page.ask("one")
        judge.judges, judge.answer = True, "It works."
        answers = [await page.ask(each) for each in ("two", "three")]
    assert judge.refused >= 1
    assert [(answer.error, answer.text) for answer in answers] == [(None, "It works.")] * 2
    assert len(judge.requests) <= 12


@asynccontextmanager
async def judged(folder: Path, judge: Judge, *attached: Any) -> AsyncIterator[Page]:
    """A page with one answered question, which these are attached to, before a provider that refuses from now on."""
    async with open_pipe(folder, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        page.attached = attached
        await page.ask("one")
        judge.judges = True
        yield page


ONE_OF_EACH: Final = {(row["kind"], row["status"], row["shape"]): row for row in RECORDED}


@pytest.mark.parametrize("row", ONE_OF_EACH.values(), ids=["-".join(map(str, each)) for each in ONE_OF_EACH])
async def test_what_a_person_has_to_mend_leaves_nothing_behind(tmp_path: Path, row: Json) -> None:
    """Whatever was said and tried, the next question is answered once the refusal has ended."""
    judge = Judge(row, "reasoning")
    judge.has_cause = lambda _: True
    async with judged(tmp_path, judge) as page:
        refused = await page.ask("two")
        judge.has_cause = lambda _: False
        answered = await page.ask("three")
    assert (bool(refused.error), answered.error, answered.text) == (True, None, "It works.")
    assert "reasoning" in types(judge.requests[-1])  # nothing was proven
    assert judge.refused <= 4


class Passing(Judge):
    """Out of order once."""

    def refusal(self) -> httpx.Response:
        self.has_cause = lambda _: False
        return super().refusal()


async def test_after_an_outage_reasoning_is_sent_again(tmp_path: Path) -> None:
    """What passes without it would have passed with it."""
    judge = Passing(OUTAGE, "reasoning")
    async with judged(tmp_path, judge) as page:
        answers = [await page.ask(each) for each in ("two", "three")]
    assert [answer.text for answer in answers] == ["It works."] * 2
    assert ["reasoning" in types(request) for request in judge.requests[-3:]] == [True, False, True]


async def test_what_looks_like_an_outage_does_not_end_a_turn(tmp_path: Path) -> None:
    """Its reasoning is refused so in each round: the rest of the turn goes on without."""
    judge = OpenTurn(OUTAGE, "openai/gpt-5.2", is_strict=False)
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        answer = await Page(pipe, "openai/gpt-5.2", tools=TOOLS).ask("one")
    assert (answer.error, answer.text, judge.refused) == (None, "It works.", 1)


class Billing(Judge):
    """Refuses in a stream, with a bill each time; the last is that of all others."""

    bills: list[Json]

    def refusal(self) -> httpx.Response:
        error = {"code": 400, "message": "Provider returned error"}
        bill = self.bills[min(self.refused, len(self.bills)) - 1]
        usage = {"input_tokens": 9, "output_tokens": 0, **bill}
        end = {"status": "failed", "error": error, "output": [], "usage": usage}
        return self._stream({"type": "response.failed", "response": end})


@pytest.mark.parametrize(
    ("bills", "requests"),
    [
        ([{"cost": 0.01}], 1),
        ([{"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.01}}], 1),
        ([{"cost": 0}, {"cost": 0.01}], 2),
        ([{"cost": 0}], 3),
    ],
)
async def test_what_was_billed_is_not_asked_again(tmp_path: Path, bills: list[Json], requests: int) -> None:
    """Neither without its reasoning nor in words."""
    judge = Billing(UNEXPLAINED, "reasoning")
    judge.has_cause, judge.bills = (lambda _: True), bills
    async with judged(tmp_path, judge) as page:
        answer = await page.ask("two")
    assert (bool(answer.error), judge.refused) == (True, requests)


class Calling(Judge):
    """Calls a tool in each turn before it answers."""

    def items_for(self, asked: Json) -> list[Json]:
        if asked["input"][-1]["type"] == "message":
            return [call("{}", call_id=f"call_{len(asked['input'])}")]
        return [message("It works.")]


async def test_a_chat_without_reasoning_goes_on_where_a_thinking_model_wants_it(tmp_path: Path) -> None:
    """Another model has written it, or it is lost: then the answer comes without thinking."""
    (row, *_) = [row for row in RECORDED if row["kind"] == "reasoning_missing"]
    judge = Calling(row, "thinking without reasoning")
    async with judged(tmp_path, judge) as page:
        answer = await page.ask("two")
    assert (answer.error, answer.text, judge.refused) == (None, "It works.", 1)


NO_TOOLS: Final = {
    "status": 404,
    "shape": "json body",
    "body": {"error": {"code": 404, "message": "No endpoints found that support tool use."}},
}


@pytest.mark.parametrize(
    ("builtin", "refusals", "with_tools"),
    [(["look"], 1, [True, False, False]), ([], 2, [True, True])],
)
async def test_where_no_provider_calls_tools_the_builtin_ones_are_left_out(
    tmp_path: Path, builtin: list[str], refusals: int, with_tools: list[bool]
) -> None:
    """Said once; later messages of the chat come without at once. What somebody has chosen is not left out."""
    judge = Judge(NO_TOOLS, "tools")
    judge.has_cause, judge.judges = (lambda asked: bool({"tools", "tool_choice"} & asked.keys())), True
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        page.builtin_tools = builtin
        page.parameters = {"tool_choice": "auto"}
        answers = [await page.ask(each) for each in ("one", "two")]
    line = "No provider of this model calls tools: asking again without those of Open WebUI."
    assert [answer.text for answer in answers] == (["It works."] * 2 if builtin else [""] * 2)
    assert [line in answer.notices for answer in answers] == [bool(builtin), False]
    assert [bool(answer.error) for answer in answers] == [not builtin] * 2
    assert ([bool(asked.get("tools")) for asked in judge.requests], judge.refused) == (with_tools, refusals)


class Changing(Judge):
    """Says something else when it refuses once more."""

    def refusal(self) -> httpx.Response:
        if self.refused > 1:
            return httpx.Response(403, json={"error": {"code": 403, "message": "another"}})
        return super().refusal()


async def test_where_nothing_helps_the_first_refusal_is_read(tmp_path: Path) -> None:
    """What came of the tries is nothing that the user has asked for."""
    judge = Changing(UNEXPLAINED, "reasoning")
    judge.has_cause = lambda _: True
    async with judged(tmp_path, judge) as page:
        answer = await page.ask("two")
    assert (answer.error or "").startswith("The provider rejected the request; ")
    assert judge.refused == 3


async def test_what_has_helped_is_done_at_once_in_the_rest_of_the_turn(tmp_path: Path) -> None:
    """And tried again in the next turn, as another provider may serve it."""
    (row, *_) = [row for row in RECORDED if row["kind"] == "image_unsupported"]
    judge, counts = Calling(row, "attachment"), []
    async with judged(tmp_path, judge, IMAGE) as page:
        for question in ("two", "three"):
            answer = await page.ask(question)
            counts.append((answer.error, answer.text, judge.refused))
    assert counts == [(None, "It works.", 1), (None, "It works.", 2)]


async def test_what_nothing_explains_is_tried_once_a_turn(tmp_path: Path) -> None:
    """In the next rounds of the same turn each refusal is the last word; in the next turn all is tried again."""
    judge = Judge(UNEXPLAINED, "reasoning")
    judge.has_cause = lambda _: True
    async with open_pipe(tmp_path, judge, RETRY_SECONDS=0) as pipe:
        page = Page(pipe, MODEL, tools=TOOLS)
        page.attached = [IMAGE]
        await page.ask("one")
        judge.judges, counts = True, []
        for question in ("two", "", "three"):
            before = judge.refused
            if question:
                await page.ask(question)
            else:
                await page._round(page.turns[-1][1])
            counts.append(judge.refused - before)
    assert counts == [3, 1, 3]


@pytest.mark.parametrize(
    ("error", "tokens", "may_be"),
    [
        (RequestRejected("no"), 90, False),
        (refused("any"), 89, False),
        (refused("any"), 90, True),
        (refused("words"), 100, False),
        (ContextTooLong("no"), 1, True),
        (RequestTooLarge("no"), 1, True),
        (refused("any", ProviderUnavailable), 100, False),
    ],
)
def test_a_refusal_that_nothing_explains_is_too_long_above_nine_tenths(
    error: ProviderError, tokens: int, *, may_be: bool
) -> None:
    """Of the room of 100; what is explained is what it is."""
    assert may_be_too_long(error, tokens, 100) == may_be


def test_words_alone_are_left_of_earlier_turns() -> None:
    """With a note for a message that had none, and no mark of a cache anywhere."""
    marked = {"type": "input_text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "input_image", "image_url": "data:,"}
    text = {"type": "input_text", "text": "b"}
    items: list[Any] = [
        {"type": "message", "role": "system", "content": [marked]},
        {"type": "message", "role": "user", "content": [image, marked]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [image]},
        message("It works."),
        {"type": "message", "role": "user", "content": [image]},
        {"type": "message", "role": "user", "content": [image, marked]},
        {"type": "function_call_output", "call_id": "d", "output": "e"},
    ]
    note = {"type": "input_text", "text": "[An attachment that the provider did not accept.]"}
    assert in_words(items, 7) == [
        {"type": "message", "role": "system", "content": [text]},
        {"type": "message", "role": "user", "content": [text]},
        message("It works."),
        {"type": "message", "role": "user", "content": [note]},
        {"type": "message", "role": "user", "content": [image, text]},
        items[8],
    ]


def test_calls_can_be_told_in_words() -> None:
    """What the current turn's calls have returned is said by the user, with its pictures; the rest of it stays."""
    picture = {"type": "input_image", "image_url": "data:,"}
    text = {"type": "input_text", "text": "b"}
    items: list[Any] = [
        {"type": "message", "role": "user", "content": [picture, text]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        message("I look."),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "d", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "d", "output": [text, picture]},
        {"type": "function_call_output", "call_id": "c", "output": "4 boats"},
    ]

    def told(call: str, *parts: Json) -> Json:
        said = {"type": "input_text", "text": f"[{call} returned:]"}
        return {"type": "message", "role": "user", "content": [said, *parts]}

    boats = {"type": "input_text", "text": "4 boats"}
    assert in_words(items, 0, tells_calls=True) == [
        items[0],
        items[2],
        told("g({})", text, picture),
        told('f({"a": 1})', boats),
    ]
