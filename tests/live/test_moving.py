"""Moving in, and removing everything, in a real Open WebUI on SQLite, and on PostgreSQL with Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from redis import Redis

from scripts import build
from scripts.harness.openwebui import OpenWebUI, Sent
from scripts.launch import pipe
from tests.live.chats import MODEL, kinds, saved_chat, wire
from tests.support.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.harness.servers import PostgresServer, RedisServer
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.servers]

OLD = "old_id.openai/gpt-5.2"
MAINTENANCE = "openrouter_maintenance"
SCHEMA = "moving"

OTHER_PIPE = '''"""
title: Another pipe
author: somebody else
"""


class Pipe:
    def pipes(self):
        return [{"id": "openai.gpt-5.2", "name": "GPT"}]

    async def pipe(self, body):
        yield "[01KXAAAAAA0123456789]: #\\n\\nThe answer of another pipe."
        yield "\\n\\n[01KXAAAAAB0123456789]: #\\n"
'''


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release."""
    return build.build(target=tmp_path_factory.mktemp("release")).parent


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def host(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    standin_session: StandIn,
    release: Path,
) -> Iterator[OpenWebUI]:
    """An Open WebUI in which our function was installed under another id, beside another pipe."""
    variables = {"BYPASS_MODEL_ACCESS_CONTROL": "false"}
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_session")
        redis: RedisServer = request.getfixturevalue("redis_session")
        postgres.start()
        redis.start()
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{SCHEMA}"')
        variables |= {
            "DATABASE_URL": postgres.url.replace("postgresql:", "postgresql+psycopg:"),
            "DATABASE_SCHEMA": SCHEMA,
            "REDIS_URL": redis.url,
            "REDIS_KEY_PREFIX": SCHEMA,
        }
    server = OpenWebUI(tmp_path_factory.mktemp("moving"), variables)
    api = server.admin.api
    try:
        api.install_function("old_id", "OpenRouter", (release / "openrouter.py").read_text("utf-8"))
        valves = {"API_KEY": pipe.STANDIN_KEY, "BASE_URL": standin_session.base_url, "COST_LINE": "off"}
        api.set_valves("old_id", {**valves, "NEW_MODEL_ACCESS": "public"})
        api.install_function("other", "Another pipe", OTHER_PIPE)
        api.install_function(
            MAINTENANCE, "OpenRouter maintenance", (release / f"{MAINTENANCE}.py").read_text("utf-8")
        )
        api.models()
        yield server
    finally:
        server.close()


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_time", "arguments": "{}"}
RESULT = {"type": "function_call_output", "id": "fo_1", "call_id": "call_1", "status": "completed"}
ROUND: list[dict[str, Any]] = [
    {**CALL, "status": "completed"},
    {**RESULT, "output": [{"type": "input_text", "text": "12:00"}]},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is noon."}],
    },
]
CHAT_COMPLETIONS: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": "r_1",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"}],
    },
    *ROUND,
]
RESPONSES: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    *ROUND,
]
"""What Open WebUI stores of an answer with a tool call, by the kind of its connection."""


def add_chat(host: OpenWebUI, output: list[dict[str, Any]]) -> Sent:
    """A saved chat whose one answer came over a connection of Open WebUI's own."""
    fields = {"content": "It is noon.", "output": output}
    return saved_chat(host.admin, "openai/gpt-5.2", [("What time is it?", fields)])


def toggle(host: OpenWebUI, function: str) -> None:
    """Switch a function on or off, and list the models."""
    host.admin.api.post(f"/api/v1/functions/id/{function}/toggle")
    host.admin.api.models()


def command(host: OpenWebUI, text: str) -> str:
    """What the function for maintenance answers in a chat."""
    return str(host.admin.ask(MAINTENANCE, text)[1]["content"])


def everything(host: OpenWebUI, sent: Sent) -> str:
    """A chat as Open WebUI hands it out."""
    return json.dumps(host.admin.api.get(f"/api/v1/chats/{sent.chat_id}"))


def test_moving_in_and_out(host: OpenWebUI, standin: StandIn, release: Path, tmp_path: Path) -> None:
    """Chats of another id and of another pipe go on without a word about it; then nothing of ours is left."""
    api = host.admin.api
    ours, _ = host.admin.ask(OLD, "one")
    theirs, _ = host.admin.ask("other.openai.gpt-5.2", "two")
    assert "[01KXAAAAAA0123456789]: #" in everything(host, theirs)
    api.post(
        "/api/v1/models/create",
        {"id": "mine", "base_model_id": OLD, "name": "Mine", "meta": {}, "params": {}},
    )
    assert "is switched on" in command(host, "move old_id")

    toggle(host, "old_id")
    toggle(host, "other")
    api.install_function("openrouter", "OpenRouter", (release / "openrouter.py").read_text("utf-8"))
    assert "offers no models" in command(host, "move other")
    asked = command(host, "move old_id")
    assert "Nothing has been changed yet" in asked
    assert api.get(f"/api/v1/chats/{ours.chat_id}")["chat"]["models"] == [OLD]
    command(host, "move old_id now")
    assert MODEL in api.models()
    command(host, "move other now")
    for sent in (ours, theirs):
        assert api.get(f"/api/v1/chats/{sent.chat_id}")["chat"]["models"] == [MODEL]
    assert api.get("/api/v1/models/model?id=mine")["base_model_id"] == MODEL

    go_on_with_connections(host, standin)

    standin.reset()
    later, answer = host.admin.ask(MODEL, "go on", after=ours)
    assert not answer.get("statusHistory")
    assert len(wire(standin.responses[-1].body["input"], "reasoning")) == 1
    after_theirs, answer = host.admin.ask(MODEL, "go on", after=theirs)
    assert not answer.get("statusHistory")
    assert not answer.get("error")
    sent_text = json.dumps(standin.responses[-1].body["input"])
    assert "The answer of another pipe." in sent_text
    assert "01KXAAAAAA" not in sent_text
    assert host.add_user("ada").ask(MODEL, "hello")[1]["content"]

    toggle(host, "openrouter")
    marked = everything(host, later) + everything(host, after_theirs)
    assert "]: #" in marked
    if host.log.parent.name.endswith("0"):
        look(host, tmp_path)
    assert "Done" in command(host, "uninstall now")
    assert "]: #" not in everything(host, later)
    assert everything(host, after_theirs).count("]: #") == everything(host, theirs).count("]: #") > 0
    assert "there is nothing to do" in command(host, "uninstall")


def go_on_with_connections(host: OpenWebUI, standin: StandIn) -> None:
    """Chats of both kinds of connection move, and go on with their tool call and nothing else of theirs."""
    of_connection = [add_chat(host, output) for output in (CHAT_COMPLETIONS, RESPONSES)]
    assert "| chats | 2 |" in command(host, "move connection now")
    for sent in of_connection:
        assert host.admin.api.get(f"/api/v1/chats/{sent.chat_id}")["chat"]["models"] == [MODEL]
        _, answer = host.admin.ask(MODEL, "go on", after=sent)
        assert not answer.get("statusHistory")
        assert not answer.get("error")
        items = standin.responses[-1].body["input"]
        assert kinds(items) == ["user", "function_call", "function_call_output", "assistant", "user"]


def look(host: OpenWebUI, tmp_path: Path) -> None:
    """Take a picture of what an administrator reads before it is done."""
    with Browser(host.url, tmp_path / "profile") as browser:
        browser.log_in(host.admin)
        browser.pick_model("OpenRouter maintenance")
        browser.send("help")
        browser.wait_for_answer()
        browser.screenshot("maintenance-help")
        browser.send("forget user " + str(host.admin.api.get("/api/v1/auths/")["id"]))
        browser.wait_for_answer()
        browser.screenshot("maintenance-forget")
        browser.send("uninstall")
        browser.wait_for_answer()
        browser.screenshot("maintenance-uninstall")


def test_nothing_of_ours_is_left(host: OpenWebUI, request: pytest.FixtureRequest) -> None:
    """Neither tables in the schema nor keys in Redis."""
    if "postgres" not in request.node.name:
        pytest.skip("PostgreSQL's alone")
    postgres: PostgresServer = request.getfixturevalue("postgres_session")
    redis: RedisServer = request.getfixturevalue("redis_session")
    assert host.admin.api.get("/api/v1/functions/")
    with psycopg.connect(postgres.url) as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        names = [name for (name,) in connection.execute(query, [SCHEMA])]
    assert [name for name in names if name.startswith("openrouter_pipe")] == []
    with Redis.from_url(redis.url) as client:
        assert list(client.scan_iter(match=f"{SCHEMA}:openrouter_pipe*")) == []
