"""The whole pipe in process, against the stand-in for OpenRouter, with a page in front of it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.history.markers import erase_markers
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Answer, Json, Page, PipeInProcess, split_reference
from scripts.standin import StandIn
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPTED = "standin/script"
FAMILIES = ["openai/gpt-5.2", "anthropic/claude-sonnet-4.5", "google/gemini-3-pro", "deepseek/deepseek-v3.2"]
TOOLS = {"get_weather": lambda arguments: f"Weather in {arguments.get('city')}: 20 degrees"}
PARIS = '[[standin: call=get_weather args={"city": "Paris"}]]'


@pytest.fixture
async def pipe(standin: StandIn, tmp_path: Path) -> AsyncIterator[Pipe]:
    """A pipe on the stand-in, whose log begins with the first question."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        yield pipe


def types_of(items: list[Json]) -> list[str]:
    return [item["type"] for item in items]


def assert_clean(standin: StandIn) -> None:
    """The stand-in accepted every request to the letter."""
    verdicts = [(request.status, request.warnings, request.error) for request in standin.responses]
    assert verdicts == [(200, [], "")] * len(verdicts)


async def test_every_delta_arrives_once_and_in_order(pipe: Pipe) -> None:
    """Two thousand deltas make the text that the provider sent, live and stored alike."""
    page = Page(pipe, SCRIPTED)
    answer = await page.ask("[[standin: deltas=2000]]")
    deltas = [e["delta"] for e in answer.events if e.get("type") == "response.output_text.delta"]
    assert "".join(deltas) == answer.text
    assert len(erase_markers(answer.text).split()) == 2000
    assert len(deltas) < 1000


async def test_a_users_limits_follow_the_administrator(pipe: Pipe, standin: StandIn) -> None:
    """The host builds the form from the class on the instance; a status line says once what is not followed."""
    pipe.valves = pipe.valves.model_copy(update={"CONTEXT_STRATEGY": "clip"})
    assert "CLIP_LAST_MESSAGES" not in pipe.UserValves.model_json_schema()["properties"]
    page = LimitedPage(pipe, SCRIPTED)
    first, second = await page.ask("one"), await page.ask("two")
    (line,) = first.notices
    assert line.endswith(": CLIP_LAST_MESSAGES.")
    assert second.notices == []
    assert len(standin.responses[-1].body["input"]) == 3
    pipe.valves = pipe.valves.model_copy(update={"ENABLE_USER_OVERRIDE": True})
    assert "CLIP_LAST_MESSAGES" in pipe.UserValves.model_json_schema()["properties"]
    assert (await page.ask("three")).notices == ["Only the last message of this chat is sent to the model."]
    assert len(standin.responses[-1].body["input"]) == 1


class LimitedPage(Page):
    """A page whose user wants the last message alone to be sent."""

    async def _call(self, body: Json) -> Any:
        metadata = {"chat_id": self.chat_id, "message_id": f"message-{len(self.turns)}"}
        valves = self._pipe.UserValves(CLIP_LAST_MESSAGES=1)
        return await self._pipe.pipe(body, __user__={"id": "ada", "valves": valves}, __metadata__=metadata)


class StoredPage(Page):
    """A page of a host that makes its user's valves of what is stored."""

    stored: Json

    def valves(self) -> UserValves:
        """What the host hands on."""
        return self._pipe.UserValves(**self.stored)

    async def _call(self, body: Json) -> Any:
        metadata = {"chat_id": self.chat_id, "message_id": f"message-{len(self.turns)}"}
        settings = {"functions": {"valves": {"openrouter": self.stored}}}
        user = {"id": "ada", "valves": self.valves(), "settings": settings}
        body = {**body, "model": f"openrouter.{body['model']}"}
        return await self._pipe.pipe(body, __user__=user, __metadata__=metadata)


class LostPage(StoredPage):
    """A page of a host that cannot read what is stored, and hands on the defaults."""

    def valves(self) -> UserValves:
        """None of the stored ones."""
        return self._pipe.UserValves()


@pytest.mark.parametrize("kind", [StoredPage, LostPage])
async def test_valves_that_cannot_be_read_are_not_lost(
    pipe: Pipe, standin: StandIn, caplog: pytest.LogCaptureFixture, kind: type[StoredPage]
) -> None:
    """One that no longer fits leaves the others; where zero data retention itself is lost, nothing is sent."""
    page = kind(pipe, FAMILIES[1])
    page.stored = {"ZDR": True, "REASONING_EFFORT": "huge"}
    (line,) = (await page.ask("one")).notices
    assert "REASONING_EFFORT" in line
    assert standin.responses[-1].body["provider"] == {"zdr": True}
    page.stored = {"ZDR": "perhaps"}
    answer = await page.ask("two")
    assert (answer.error or "").startswith("Nothing was sent")
    assert len(standin.responses) == 1
    lines = [record.getMessage() for record in caplog.records if record.name == Pipe.__module__]
    assert lines == [f"a user's valves cannot be read: {name}" for name in ("REASONING_EFFORT", "ZDR")]


async def test_an_administrator_s_valves_that_cannot_be_read_are_logged_once(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    """By name and without values, as long as they are the same, though the host makes them anew for each call."""
    stored = pipe.valves.model_dump(exclude_unset=True)
    for strategy in ("shrink", "shrivel", "prune"):
        pipe.valves = pipe.Valves(**stored, CONTEXT_STRATEGY=strategy)
        await pipe.pipes()
    lines = [record.getMessage() for record in caplog.records if record.name == Pipe.__module__]
    assert lines == [
        f"valves cannot be read, and have no effect: {names}"
        for names in ("CONTEXT_STRATEGY", "none any more")
    ]
    assert "shri" not in caplog.text


async def test_a_message_keeps_its_phase(pipe: Pipe, standin: StandIn) -> None:
    """The host drops it; the next request carries it all the same."""
    page = Page(pipe, FAMILIES[0])
    await page.ask("one")
    await page.ask("two")
    answers = [item for item in standin.responses[-1].body["input"] if item.get("role") == "assistant"]
    assert [item.get("phase") for item in answers] == ["final_answer"]
    assert_clean(standin)


async def test_without_streaming_a_page_gets_text_items_and_usage(pipe: Pipe, standin: StandIn) -> None:
    """The same answer as one completion."""
    page = Page(pipe, FAMILIES[0])
    completion = await page.complete("one")
    assert types_of(completion["output"]) == ["reasoning", "message"]
    assert erase_markers(completion["choices"][0]["message"]["content"]).startswith("You said: one")
    assert completion["usage"]["output_tokens"] > 0
    assert_clean(standin)


async def _chunks(response: Any) -> list[Json]:
    """What a client reads of a streamed response, up to its end."""
    lines = "".join([line async for line in response.body_iterator]).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_bare_caller_gets_chat_completions_without_markers(pipe: Pipe, *, stream: bool) -> None:
    """Nothing is kept for a caller without a chat."""
    body = {
        "model": f"openrouter.{FAMILIES[0]}",
        "messages": [{"role": "user", "content": "one"}],
        "stream": stream,
    }
    given = await pipe.pipe(body, __user__={"id": "user"}, __metadata__={"chat_id": "", "message_id": None})
    if stream:
        chunks = await _chunks(given)
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    else:
        text = cast("Json", given)["choices"][0]["message"]["content"]
    assert text.startswith("You said: one")
    assert erase_markers(text) == text


@pytest.mark.parametrize("stream", [True, False])
async def test_a_bare_caller_gets_an_error_of_openais_api(
    pipe: Pipe, standin: StandIn, *, stream: bool
) -> None:
    """With its status when it does not stream; the host has begun a stream before it calls the pipe."""
    standin.script({"do": "error=402 family=A", "times": 3})
    messages = [{"role": "user", "content": "one"}]
    body = {"model": f"openrouter.{SCRIPTED}", "messages": messages, "stream": stream}
    given = await pipe.pipe(body, __user__={"id": "user"}, __metadata__={"chat_id": "", "message_id": None})
    if stream:
        (error,) = await _chunks(given)
    else:
        error = json.loads(given.body)
        assert given.status_code == 402
    line, reference = split_reference(error["error"].pop("message"))
    assert line.startswith("The OpenRouter account has too few credits")
    assert reference
    assert error == {"error": {"type": "insufficient_quota", "param": None, "code": "insufficient_quota"}}


async def test_a_task_gets_a_plain_completion(pipe: Pipe, standin: StandIn) -> None:
    """Its prompt shows the model no marker, and its answer holds none."""
    prompt = f"Name this chat: [{'0' * 19}A]: #\n\nHello"
    body = {
        "model": f"openrouter.{FAMILIES[0]}",
        "messages": [{"role": "user", "content": prompt}],
        "stream": False,
    }
    completion = cast(
        "Json",
        await pipe.pipe(
            body, __user__={"id": "user"}, __metadata__={"chat_id": "chat"}, __task__="title_generation"
        ),
    )
    assert "]: #" not in json.dumps(standin.responses[-1].body)
    assert completion["choices"][0]["message"]["content"].startswith("You said: Name this chat:")
    assert "output" not in completion


ERRORS = [
    f"error={status} family={family}"
    for status in (400, 401, 402, 403, 404, 413, 500, 502, 524)
    for family in "AB"
]


@pytest.mark.parametrize("directive", [*ERRORS, "error=500 family=C", "error=502 family=html", "error=529"])
async def test_every_refusal_is_one_clear_line(pipe: Pipe, standin: StandIn, directive: str) -> None:
    """No secret, no markup, no empty answer; the page gets nothing but the line."""
    pipe.valves = pipe.Valves(**pipe.valves.model_dump(exclude_unset=True), RETRY_SECONDS=0.0)
    standin.script({"do": directive, "times": 3})
    answer = await Page(pipe, SCRIPTED).ask("one")
    assert [list(event) for event in answer.events] == [["error"]]
    assert answer.error
    assert not re.search(r"sk-or|[\n<>{}]|Traceback", answer.error)


BREAKS = ["failed", "response.error", "nested", "flat", "eof"]


@pytest.mark.parametrize("kind", BREAKS)
async def test_a_break_in_the_middle_keeps_the_partial_text(pipe: Pipe, kind: str) -> None:
    """What was written stays, the last event is one line, and nothing is raised."""
    answer = await Page(pipe, SCRIPTED).ask(
        f'[[standin: text="one two three four"]] [[standin: fail={kind} after=2]]'
    )
    assert erase_markers(answer.text).split() == ["one", "two"]
    assert "error" in answer.events[-1]
    assert answer.error
    assert "\n" not in answer.error


@pytest.mark.parametrize(
    ("after", "state"),
    [
        (5, [("reasoning", "incomplete")]),
        (15, [("reasoning", "completed"), ("message", "incomplete")]),
        (18, [("reasoning", "completed"), ("message", "completed")]),
    ],
    ids=["thinking", "writing", "calling"],
)
@pytest.mark.parametrize("model", FAMILIES)
async def test_a_chat_goes_on_after_any_break(
    pipe: Pipe, standin: StandIn, model: str, after: int, state: list[tuple[str, str]]
) -> None:
    """Wherever thinking, text or calls broke off, the next request is valid."""
    page = Page(pipe, model, tools=TOOLS)
    standin.script(f'[[standin: say="Let me look."]] {PARIS} [[standin: fail=eof after={after}]]')
    broken = await page.ask("one")
    answer = await page.ask("and now?")
    assert broken.error
    assert answer.error is None
    assert_clean(standin)
    assert [(item["type"], item["status"]) for item in broken.output] == state


async def _ask_all(page: Page, texts: list[str]) -> list[Answer]:
    return [await page.ask(text) for text in texts]


def _input_bytes(raw: bytes) -> bytes:
    """The bytes of the input list, without its closing bracket and without cache breakpoints, which no model reads."""
    raw = raw.replace(b',"prompt_cache_breakpoint":{"mode":"explicit"}', b"")
    start = raw.index(b'"input":[') + len(b'"input":[')
    _, end = json.JSONDecoder().raw_decode(raw[start - 1 :].decode())
    return raw[start : start + len(raw[start - 1 :].decode()[: end - 1].encode()) - 1]


@pytest.mark.parametrize("model", FAMILIES)
async def test_each_request_begins_with_the_bytes_of_the_one_before(
    standin: StandIn, tmp_path: Path, model: str
) -> None:
    """Six turns with thinking and tools: all accepted, each input a prefix of the next, and the cache grows."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        page = Page(pipe, model, tools=TOOLS)
        answers = await _ask_all(
            page,
            [
                "word " * 2_000,
                f"{PARIS} two",
                "three",
                f'[[standin: say="Let me look."]] {PARIS} [[standin: rounds=2]]',
                f"{PARIS} {PARIS}",
                "six",
            ],
        )
    assert [answer.error for answer in answers] == [None] * 6
    assert_clean(standin)
    inputs = [_input_bytes(request.raw) for request in standin.responses]
    assert all(later.startswith(earlier) for earlier, later in pairwise(inputs))
    given = [
        item for request in standin.responses[:-1] for item in request.output if item["type"] == "reasoning"
    ]
    sent = [item for item in standin.responses[-1].body["input"] if item["type"] == "reasoning"]
    assert [json.dumps(item) for item in sent] == [json.dumps(item) for item in given]


async def test_what_the_provider_has_cached_grows_with_the_chat(pipe: Pipe, standin: StandIn) -> None:
    """Because nothing before the newest message changes."""
    await _ask_all(Page(pipe, FAMILIES[0]), ["word " * 2_000, "two", "three", "four"])
    cached = [(request.usage or {})["input_tokens_details"]["cached_tokens"] for request in standin.responses]
    assert cached[0] == 0
    assert cached == sorted(cached)
    assert cached[-1] > cached[1] > 0


BROKEN = "[[standin: slow=30]]"


def _strangers(before: set[asyncio.Task[Any]]) -> list[str]:
    """Tasks that were not there before."""
    return [repr(task.get_coro()) for task in asyncio.all_tasks() - before if not task.done()]


async def _stop_while_awaiting(events: AsyncIterator[Json], standin: StandIn) -> None:
    """Stop while the pipe waits for the provider: the host cancels the task that iterates."""
    answered = len(standin.responses)
    task = asyncio.create_task(_exhaust(events))
    await eventually(lambda: len(standin.responses) > answered)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _close_while_yielding(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """Stop while the pipe is suspended at `yield`: another task closes the generator."""
    for _ in range(3):
        await anext(events)
    await asyncio.create_task(cast("Any", events).aclose())


async def _drop(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """The host forgets the generator; the event loop's hook closes it."""
    for _ in range(3):
        await anext(events)
    del events


async def _leave_in_a_cancelled_scope(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """A client of the bare API goes away: each await in a `finally` is cancelled anew."""
    with anyio.CancelScope() as scope:
        async for _ in events:
            scope.cancel()


async def _exhaust(events: AsyncIterator[Json]) -> None:
    async for _ in events:
        pass


@pytest.mark.parametrize(
    "leave", [_stop_while_awaiting, _close_while_yielding, _drop, _leave_in_a_cancelled_scope]
)
async def test_leaving_the_stream_cancels_the_work(pipe: Pipe, standin: StandIn, leave: Any) -> None:
    """The stream to the provider is closed, no task is left behind, and the chat goes on."""
    await Page(pipe, SCRIPTED, chat_id="another").ask("warm up")
    before = asyncio.all_tasks()
    page = Page(pipe, SCRIPTED)
    await leave(page.stream(BROKEN), standin)
    await eventually(lambda: not _strangers(before))
    await eventually(lambda: standin.responses[-1].disconnected)
    answer = await page.ask("[[standin: slow=0.1]] go on")  # where nothing came, BROKEN stands beside it
    assert (answer.error, standin.responses[-1].status) == (None, 200)


async def test_leaving_while_the_provider_has_not_answered_ends_the_work(
    pipe: Pipe, standin: StandIn
) -> None:
    """Nothing was shown yet; the request is given up all the same."""
    await Page(pipe, SCRIPTED, chat_id="another").ask("warm up")
    before = asyncio.all_tasks()
    await _stop_while_awaiting(Page(pipe, SCRIPTED).stream("[[standin: delay=0 first=30]] one"), standin)
    await eventually(lambda: not _strangers(before))
    await eventually(lambda: standin.responses[-1].disconnected)


async def test_a_reader_that_pauses_loses_nothing(pipe: Pipe) -> None:
    """The engine waits for a page that does not read, and goes on where it was."""
    page = Page(pipe, SCRIPTED)
    count = 0
    async for _ in page.stream("[[standin: deltas=3000]] [[standin: unknown=both]]"):
        count += 1
        if count % 5 == 0:
            await asyncio.sleep(0.02)
    assert len(erase_markers(page.turns[-1][1].text).split()) == 3000


@pytest.mark.parametrize(
    ("plot", "types"),
    [
        ("[[standin: refusal=No.]]", ["message"]),
        ("[[standin: search=x]] [[standin: cite=https://a.example]]", ["web_search_call", "message"]),
        ("[[standin: reasoning=summary items=2]]", ["reasoning", "reasoning", "message"]),
        ("[[standin: reasoning=encrypted]] [[standin: unknown=event]]", ["reasoning", "message"]),
        ("[[standin: late=both]] [[standin: call=get_weather]]", ["function_call", "message"]),
        ("[[standin: incomplete=max_output_tokens]] [[standin: text=abcd]]", ["message"]),
        ('[[standin: image="a cat"]]', ["message"]),
    ],
)
async def test_every_kind_of_answer_is_stored_clean_and_goes_on(
    pipe: Pipe, standin: StandIn, plot: str, types: list[str]
) -> None:
    """What the page keeps has no null and nothing sealed, and the next turn is accepted."""
    page = Page(pipe, SCRIPTED, tools=TOOLS)
    answer = await page.ask(plot)
    stored = json.dumps(answer.output)
    kinds = [kind for kind in types_of(answer.output) if kind != "function_call_output"]
    assert answer.error is None
    assert [kind for at, kind in enumerate(kinds) if kind != "message" or at == len(kinds) - 1] == types
    assert not re.search(r"null|encrypted_content|signature", stored)
    assert (await page.ask("and now?")).error is None
    assert_clean(standin)


async def test_refused_reasoning_is_sent_once(pipe: Pipe, standin: StandIn) -> None:
    """It led to an item that nobody would take back; the chat goes on without it, and does not try again."""
    page = Page(pipe, SCRIPTED)
    answers = await _ask_all(
        page, ["[[standin: reasoning=encrypted]] [[standin: unknown=item]]", "two", "three"]
    )
    assert [(answer.error, bool(answer.text)) for answer in answers] == [(None, True)] * 3
    assert [len(answer.notices) for answer in answers] == [0, 1, 0]
    assert [request.status for request in standin.responses] == [200, 400, 200, 200]


async def test_an_app_that_cannot_be_built_is_one_clear_line() -> None:
    """Whatever breaks outside the engine is reported like any other error, streamed or not."""

    def build() -> App:
        raise ConfigurationError("Nothing to stand on.")

    page = Page(Pipe(build), SCRIPTED)
    answer = await page.ask("one")
    completion = await page.complete("one")
    assert (answer.events, completion) == (
        [{"error": {"message": "Nothing to stand on."}}],
        {"error": {"detail": "Nothing to stand on."}},
    )


@pytest.mark.parametrize("trouble", ["", "error=400", "fail=failed after=3", "fail=eof after=3"])
async def test_the_log_holds_neither_words_of_the_chat_nor_the_key(
    pipe: Pipe, standin: StandIn, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    """Not even at the finest level, whatever happens."""
    if trouble:
        standin.script({"do": trouble, "times": 3})
    with caplog.at_level(logging.DEBUG, logger="open_webui_openrouter_pipe"):
        await Page(pipe, FAMILIES[0]).ask("heronsong")
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("open_webui_openrouter_pipe")]
    assert ours
    assert not re.search(r"heronsong|sk-or|the last one matters", "\n".join(ours))
