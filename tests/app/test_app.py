"""The app: what it takes care of for every request."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.openrouter.request import cache_key
from open_webui_openrouter_pipe.ports import Failed, Notice
from open_webui_openrouter_pipe.settings import has_proxy
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations
from tests.app.chat import MODEL, Broken, NewChat, app_on, audit_of, without_catalogue
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from open_webui_openrouter_pipe.host.call import Call
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


async def test_a_user_sets_no_parameter_that_the_administrator_does_not_allow(
    tmp_path: Path, standin: StandIn
) -> None:
    """What was omitted is said once; what the administrator set for the model is sent all the same."""
    asked: list[tuple[str, Mapping[str, Any]]] = []

    async def model_parameters(call: Call) -> Mapping[str, Any]:
        asked.append((call.model_row_id, call.model_controls))
        return {"provider": {"zdr": True}}

    wanted = {
        "provider": {"data_collection": "allow"},
        "models": ["openai/gpt-4o", "anthropic/claude-opus-4.5"],
        "service_tier": "flex",
        "temperature": 1,
    }
    async with app_on(tmp_path, model_parameters=model_parameters) as app:
        new_chat = NewChat(app, standin)
        valves = {"MODELS": "openai/*", "USER_PARAMETERS": "models, service_tier"}
        chat = new_chat(**valves)
        notices = [(await chat.ask(text, **wanted)).notices for text in ("one", "two")]
        await chat.ask("three", provider=None)
        await new_chat(**valves, role="admin").ask("four", **wanted)
    names = {"provider", "models", "service_tier"}
    bodies = [{name: each.body[name] for name in names & set(each.body)} for each in standin.responses]
    line = "Without effect, since only administrators may set it: models, provider."
    permitted = {"provider": {"zdr": True}, "models": ["openai/gpt-4o"], "service_tier": "flex"}
    as_admin = {name: wanted[name] for name in names}
    assert bodies == [permitted, permitted, {"provider": {"zdr": True}}, as_admin]
    assert notices == [(line,), ()]
    assert asked == [("openrouter.openai/gpt-5.2", {})] * 3


async def test_a_chat_is_not_shortened_on_a_guess(tmp_path: Path, standin: StandIn) -> None:
    """Without a catalogue the chat is sent whole; from the provider's refusal on its window is known."""
    async with app_on(tmp_path, without_catalogue()) as app:
        chat = NewChat(app, standin)(CONTEXT_STRATEGY="prune", model="standin/small")
        assert [(await chat.ask("word " * 3_000)).error for _ in range(7)] == [None] * 7
    statuses = [response.status for response in standin.responses]
    assert statuses.count(400) == 1
    whole = statuses.index(400)
    lengths = [len(response.body["input"]) for response in standin.responses]
    assert lengths[: whole + 1] == [1 + 2 * turn for turn in range(whole + 1)]
    sizes = [len(str(response.body["input"])) for response in standin.responses]
    assert max(sizes[whole + 1 :]) < sizes[whole]


@pytest.mark.parametrize(
    ("transport", "assumed", "said"),
    [
        (without_catalogue, 0, ""),
        (without_catalogue, 8_192, "window of 8,192"),
        (httpx.AsyncHTTPTransport, 8_192, ""),
        (partial(Broken, "/models", "/responses"), 0, "could not be reached"),
    ],
    ids=["nothing is known", "the window is assumed", "the window is known", "nothing can be reached"],
)
async def test_only_a_window_that_is_known_or_assumed_refuses_a_chat(
    tmp_path: Path, standin: StandIn, transport: Any, assumed: int, said: str
) -> None:
    """A large message reaches any other model; where it cannot, that is said and not the size."""
    async with app_on(tmp_path, transport()) as app:
        chat = NewChat(app, standin)(ASSUMED_CONTEXT_TOKENS=assumed, RETRY_SECONDS=0)
        error = (await chat.ask("word " * 10_000)).error
    assert (said in (error or ""), bool(error)) == (True, bool(said))
    assert [each.status for each in standin.responses] == [200] * (not said)


async def test_a_window_that_a_refusal_has_named_holds_for_its_user_alone(
    tmp_path: Path, standin: StandIn
) -> None:
    """An error may quote what a user wrote, and must not close the model to the others."""

    class Echo(Broken):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            body = {} if request.method == "GET" else json.loads(await request.aread())
            if "trace" in body:
                said = f"Invalid value for trace.name: {body['trace']['name']!r}"
                return httpx.Response(400, json={"error": {"code": 400, "message": said}})
            return await super().handle_async_request(request)

    async with app_on(tmp_path, Echo("/models", answer=httpx.Response(500))) as app:
        new_chat = NewChat(app, standin)
        named = {"name": "maximum context length is 100"}
        refused = await new_chat(user_id="eve").ask("one", trace=named)
        answer = await new_chat().ask("one")
    assert (refused.error is None, answer.error) == (False, None)


async def test_an_answer_writes_its_artifacts_once(tmp_path: Path, standin: StandIn) -> None:
    """Its reasoning is one statement in one transaction, and nothing is read for it."""
    statements: list[str] = []
    async with app_on(tmp_path) as app:
        new_chat = NewChat(app, standin)
        await new_chat().ask("one")
        await app.idle()

        def note(*details: Any) -> None:
            statements.append(details[2])

        sa.event.listen(app.worker.host.database._engine.sync_engine, "before_cursor_execute", note)
        answer = await new_chat().ask("two")
        await app.idle()  # what is cut off in the middle is written once more
    tables = [each.split("openrouter_pipe_")[1].split()[0] for each in statements]
    assert (len(answer.marked), tables.count("artifact")) == (1, 1)
    assert {*tables} == {"artifact", "audit", "calibration", "ledger", "usage"}


async def test_each_request_is_recorded_with_its_bill(tmp_path: Path, standin: StandIn) -> None:
    """Of an unsaved chat without its ids; a task, which is sent whatever its size, too. What bills teach is kept."""
    async with app_on(tmp_path) as app:
        new_chat = NewChat(app, standin)
        chat = new_chat()
        for text in ("word " * 6000, "two"):
            await chat.ask(text)
        await new_chat(chat_id="temporary:1").ask("one")
        await new_chat(model="standin/small").title("word " * 20_000)
    async with app_on(tmp_path) as app:
        found = await audit_of(app)
        known = await StoredCalibrations(app.worker.host.database).find(MODEL)
    billed = [("answer", (response.usage or {})["input_tokens"]) for response in standin.responses[:3]]
    refused = [("task", 0), ("failure", 0)]
    assert [(record.purpose, record.input_tokens) for record in found] == billed + refused
    assert len(standin.responses) == 4
    assert [(record.user_id, record.chat_id, record.message_id) for record in found[:3]] == [
        ("ada", chat.chat_id, "message-1"),
        ("ada", chat.chat_id, "message-3"),
        ("ada", "", ""),
    ]
    assert [(record.user_id, record.message_id) for record in found[3:]] == [("ada", ""), ("", "")]
    assert known != Calibration()
    assert known.bills > 0
    body, key = standin.responses[0].body, cache_key("secret", "ada", chat.chat_id)
    assert (body["session_id"], body["prompt_cache_key"]) == (key, key)


OMITTED = "Built-in tools left out for want of room: {}, about "


def functions(name: str, count: int, sentences: int) -> list[dict[str, Any]]:
    """Tools as the host describes them, each of some 14 tokens a sentence."""
    described = "Search the notes of the user by their words and return the best matches. " * sentences
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    spec = {"description": described, "parameters": parameters}
    return [{"name": f"{name}_{number}", **spec} for number in range(count)]


@pytest.mark.parametrize(
    ("builtin", "chosen", "offered", "line", "error"),
    [
        ((30, 5), (0, 0), 30, "", ""),
        ((30, 10), (0, 0), 12, OMITTED.format(18), ""),
        ((30, 20), (1, 3), 8, OMITTED.format(23), ""),
        ((30, 20), (0, 0), 7, OMITTED.format(23), ""),
        ((0, 0), (30, 20), 0, "", "Switch off tools"),
    ],
    ids=[
        "all fit",
        "down to half of the room",
        "what was chosen stays",
        "larger ones",
        "chosen ones do not fit",
    ],
)
async def test_built_in_tools_are_omitted_where_they_do_not_fit(
    new_chat: NewChat, standin: StandIn, builtin: Any, chosen: Any, *, offered: int, line: str, error: str
) -> None:
    """The user reads how many. What was chosen may be what the question is about: it stays, or nothing is sent.

    The others give way in their order until half of the room is free for the chat.
    """
    specs = {"notes": functions("notes", *builtin), "weather": functions("weather", *chosen)}
    kinds = {each["name"]: {"type": "builtin", "spec": each} for each in specs["notes"]}
    kinds |= {each["name"]: {"tool_id": "weather", "spec": each} for each in specs["weather"]}
    tools = [{"type": "function", "function": each} for listed in specs.values() for each in listed]
    chat = new_chat(model="mistralai/mistral-small-8k", metadata={"tools": kinds})
    answer = await chat.ask("Hello", tools=tools)
    assert (error in (answer.error or ""), bool(answer.error), bool(answer.text)) == (
        True,
        bool(error),
        not error,
    )
    assert [each.startswith(line) for each in answer.notices] == [True] * bool(line)
    bodies = [each.body for each in standin.responses]
    assert [len(body.get("tools", [])) for body in bodies] == [offered] * (not error)
    if chosen[0] and bodies:
        assert (bodies[0]["tools"][-1]["name"], "tool_choice" in bodies[0]) == ("weather_0", False)


async def test_a_busy_provider_is_waited_for_and_shown(new_chat: NewChat, standin: StandIn) -> None:
    """The wait is a status line, the answer comes, and no error is shown."""
    standin.script("error=429 retry_after=1")
    answer = await new_chat(model="standin/script").ask("one")
    assert (answer.error, [request.status for request in standin.responses]) == (None, [429, 200])
    assert answer.notices[0].startswith("The provider is busy; trying again in 2 s (2 of 3)")
    assert answer.notices[-1] == "Asked again (2 of 3)..."


async def test_a_refused_parameter_and_a_refused_effort_are_said(new_chat: NewChat, standin: StandIn) -> None:
    """The answer comes all the same."""
    order = "[[standin: refuse=temperature]] [[standin: refuse=reasoning.effort values=minimal,low]] one"
    answer = await new_chat(model="standin/script").ask(order, temperature=0.5, reasoning_effort="high")
    bodies = [request.body for request in standin.responses]
    sent = [(body.get("temperature"), body["reasoning"].get("effort")) for body in bodies]
    assert sent == [(0.5, "high"), (0.5, "low"), (None, "low")]
    assert (answer.error, len(answer.notices), answer.text != "") == (None, 2, True)


async def test_an_address_that_is_down_is_named_with_the_next_try(tmp_path: Path, standin: StandIn) -> None:
    """After some failures nothing is sent, and the user reads for how long."""
    network = Broken("/models", "/responses")
    async with app_on(tmp_path, network) as app:
        new_chat = NewChat(app, standin)
        lines = [str((await new_chat(RETRY_SECONDS=0).ask("one")).error) for _ in range(8)]
    assert "could not be reached" in lines[0]
    assert "The next try is in" in lines[-1]
    assert 0 < network.asked.count("/responses") < len(lines)


async def test_a_model_that_is_down_for_several_users_closes_no_other(
    new_chat: NewChat, standin: StandIn
) -> None:
    """A user alone closes it for nobody else; while it is closed, others answer, and so do its fallback models."""
    down = "[[standin: error=503]] one"

    async def ask(user: str, text: str = "one", **given: Any) -> str:
        given = {"model": "standin/script", "user_id": user, "RETRY_SECONDS": 0, **given}
        return str((await new_chat(**given).ask(text)).error)

    for _ in range(5):
        assert "overloaded" in await ask("ada", down)
    assert "was not available" in await ask("ada")
    assert await ask("eve") == "None"
    for user in ["cleo", "eve"] * 3:
        line = await ask(user, down)
    assert line.startswith("This model was not available to several requests. The next try is in 10 seconds")
    assert await ask("bob") == line
    assert await ask("bob", model=MODEL) == "None"
    assert await ask("bob", FALLBACK_MODELS=MODEL) == "None"
    assert len(standin.responses) == 5 + 1 + 5 + 2


async def test_requests_of_one_user_wait_for_each_other(new_chat: NewChat, standin: StandIn) -> None:
    """A second chat of the same user begins when the first has ended, and says that it waits."""
    first, second = (new_chat(model="standin/script", MAX_REQUESTS_PER_USER=1) for _ in range(2))
    running = asyncio.create_task(first.ask("[[standin: slow=30]]"))
    await eventually(lambda: standin.responses)
    second.messages.append({"role": "user", "content": "two"})
    outputs = second.app.answer(second.call(), second.settings)
    lines = [await anext(outputs)]
    assert len(standin.responses) == 1
    running.cancel()
    lines += [output async for output in outputs]
    assert [line.text for line in lines if isinstance(line, Notice)] == [
        "Many requests are running at the moment; this one waits for its turn...",
        "The wait is over.",
    ]
    assert [type(line) for line in lines if isinstance(line, Failed)] == []
    assert len(standin.responses) == 2


def test_a_proxy_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Httpx finds its way there by itself; without one, connections are our own."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert not has_proxy()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert has_proxy()


async def test_what_a_model_does_not_take_is_told_once_in_a_chat(tmp_path: Path, standin: StandIn) -> None:
    """Each request of an answer, and of later ones, is refused and asked again; a task's tells nobody."""
    refusal = 'error=400 message="max_tokens is too large."'
    async with app_on(tmp_path) as app:
        new_chat = NewChat(app, standin)
        chat = new_chat(role="admin")
        seen = []
        for each in (chat, chat, new_chat(role="admin")):
            standin.script(refusal)
            task = [{"role": "user", "content": "### Task: a title"}]
            call = each.call(task="title_generation", messages=task, max_tokens=9000)
            assert [output async for output in app.answer(call, each.settings)]
            standin.script(refusal)
            seen.append((await each.ask("Hello", max_tokens=9000)).notices)
    line = "The model does not take the parameter max_output_tokens; asked again without it."
    assert seen == [(line,), (), (line,)]


async def test_a_block_in_a_text_is_a_call_where_the_host_knows_its_answer(
    tmp_path: Path, standin: StandIn
) -> None:
    """It is asked only about chats that have such a block, and once in a request."""
    block = '<details type="tool_calls" id="c1" name="f" arguments="{}">\n&quot;out&quot;\n</details>'
    asked, sent = [], []

    async def folded_answers(call: Call) -> list[str]:
        asked.append(call.chat_id)
        return [block] if call.chat_id == "old" else []

    async with app_on(tmp_path, folded_answers=folded_answers) as app:
        for chat_id, text in (
            ("old", block),
            ("old", f"{block}!"),
            ("channel:1", block),
            ("old", "<b>Hi</b>"),
        ):
            messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": text}]
            await NewChat(app, standin)(chat_id=chat_id, messages=messages).ask("two")
            sent.append([item["type"] for item in standin.responses[-1].body["input"]])
    said = ["message"] * 3
    assert sent == [["message", "function_call", "function_call_output", "message"], said, said, said]
    assert asked == ["old", "old", "channel:1"]
