"""The app: what it takes care of for every request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.settings import has_proxy
from open_webui_openrouter_pipe.words.lines import notice
from tests.app.chat import Chat, NewChat, WithoutCatalogue, app_on, settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from open_webui_openrouter_pipe.host.call import Call
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "standin/small"
"""A model with a window of 16,384 tokens."""


async def test_a_worker_that_never_listed_models_knows_them(new_chat: NewChat, standin: StandIn) -> None:
    """The first question already asks for sealed reasoning, which only models that reason may be asked for."""
    await new_chat().ask("one")
    assert standin.responses[0].body["include"] == ["reasoning.encrypted_content"]


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
    line = "Omitted from your requests, since the administrator does not allow users to set it: models, provider."
    permitted = {"provider": {"zdr": True}, "models": ["openai/gpt-4o"], "service_tier": "flex"}
    as_admin = {name: wanted[name] for name in names}
    assert bodies == [permitted, permitted, {"provider": {"zdr": True}}, as_admin]
    assert notices == [(line,), ()]
    assert asked == [("openrouter.openai/gpt-5.2", {})] * 3


async def test_a_chat_is_not_shortened_on_a_guess(tmp_path: Path, standin: StandIn) -> None:
    """Without a catalogue the chat is sent whole; from the provider's refusal on its window is known."""
    async with app_on(tmp_path, WithoutCatalogue()) as app:
        chat = Chat(app, settings(standin, CONTEXT_STRATEGY="prune"), model=SMALL)
        small = [await chat.ask("word " * 3_000) for _ in range(3)]
        large = [await chat.ask("word " * 3_000) for _ in range(4)]
    assert [answer.error for answer in (*small, *large)] == [None] * 7
    statuses = [response.status for response in standin.responses]
    assert statuses.count(400) == 1
    whole = statuses.index(400)
    lengths = [len(response.body["input"]) for response in standin.responses]
    assert lengths[: whole + 1] == [1 + 2 * turn for turn in range(whole + 1)]
    sizes = [len(str(response.body["input"])) for response in standin.responses]
    assert max(sizes[whole + 1 :]) < sizes[whole]


async def test_a_chat_that_no_one_refused_is_never_refused_by_the_pipe(
    tmp_path: Path, standin: StandIn
) -> None:
    """A single message larger than any assumed window reaches a model that nobody has listed."""
    async with app_on(tmp_path, WithoutCatalogue()) as app:
        answer = await Chat(app, settings(standin), model="openai/gpt-4o").ask("word " * 20_000)
    assert (answer.error, [response.status for response in standin.responses]) == (None, [200])


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (httpx.ConnectError("refused"), notice("unreachable")),
        (
            httpx.Response(503),
            "The provider is overloaded at the moment. Please wait a little and try again, or choose another model.",
        ),
    ],
)
async def test_a_lost_connection_is_reported_as_one(
    tmp_path: Path, standin: StandIn, answer: httpx.Response | httpx.ConnectError, line: str
) -> None:
    """Whatever the size of a chat whose model is unknown."""

    def reply(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, httpx.ConnectError):
            raise answer
        return answer

    async with app_on(tmp_path, httpx.MockTransport(reply)) as app:
        said = await NewChat(app, standin)(RETRY_SECONDS=0).ask("word " * 20_000)
    assert said.error == line


async def test_an_assumed_window_holds_where_none_is_known(tmp_path: Path, standin: StandIn) -> None:
    """It limits a model that the catalogue does not name, and no other."""
    assuming = settings(standin, ASSUMED_CONTEXT_TOKENS=8_192)
    async with app_on(tmp_path, WithoutCatalogue()) as app:
        unlisted = await Chat(app, assuming).ask("word " * 10_000)
    async with app_on(tmp_path) as app:
        listed = await Chat(app, assuming).ask("word " * 10_000)
    assert ("window of 8,192" in (unlisted.error or ""), listed.error) == (True, None)


async def test_a_window_that_a_refusal_has_named_holds_for_its_user_alone(
    tmp_path: Path, standin: StandIn
) -> None:
    """An error may quote what a user wrote, and must not close the model to the others."""

    class Echo(WithoutCatalogue):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            body = {} if request.method == "GET" else json.loads(await request.aread())
            if "trace" in body:
                said = f"Invalid value for trace.name: {body['trace']['name']!r}"
                return httpx.Response(400, json={"error": {"code": 400, "message": said}})
            return await super().handle_async_request(request)

    async with app_on(tmp_path, Echo()) as app:
        quoting = Chat(app, settings(standin), user_id="eve")
        refused = await quoting.ask("one", trace={"name": "maximum context length is 100"})
        answer = await Chat(app, settings(standin)).ask("one")
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
    tables = [each.split("openrouter_pipe_")[1].split()[0] for each in statements]
    assert (len(answer.marked), tables.count("artifact")) == (1, 1)
    assert {*tables} == {"artifact", "audit", "calibration", "ledger", "spending"}


def test_a_proxy_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Httpx finds its way there by itself; without one, connections are our own."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert not has_proxy()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert has_proxy()
