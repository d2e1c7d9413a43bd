"""Open WebUI on PostgreSQL with Redis: two servers that answer in turn, the package as a stub, and the sweep.

Then moving in from another function and from connections, and removing everything.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis

from scripts import build
from scripts.bundle import builder
from scripts.harness.openwebui import TOOL, WEATHER, OpenWebUI, Sent
from scripts.harness.servers import PostgresServer, RedisServer
from scripts.launch import session
from scripts.paths import PACKAGE
from scripts.standin import StandIn
from tests.live.chats import copy_of, preset, saved_chat, talk
from tests.live.items import each_continues, error_of, inputs, kinds, statuses, texts_of, wire
from tests.live.models import CALL, MODEL, REPLAYED
from tests.support.fixtures import SERVED_SCHEMA
from tests.support.long_chats import message, tool_round
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.servers]

STUB_KEY = "sk-or-v1-of-the-stub"
OLD = MODEL.replace("openrouter.", "old_id.")
MAINTENANCE = "openrouter_maintenance"
OF_CHATS = "SELECT id FROM openrouter_pipe_artifact WHERE chat_id = ANY(%s) ORDER BY id"
THREE_DAYS_SECONDS = 3 * 24 * 60 * 60


def rows(server: PostgresServer, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a query finds in the schema of `served`."""
    with psycopg.connect(server.url, options=f"-c search_path={SERVED_SCHEMA}") as connection:
        return connection.execute(query, values).fetchall()


def names_in(redis: RedisServer) -> set[str]:
    """The keys of the pipe in Redis."""
    with Redis.from_url(redis.url) as client:
        return {name.decode() for name in client.scan_iter(f"{SERVED_SCHEMA}:openrouter_pipe:*")}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release."""
    return build.build(target=tmp_path_factory.mktemp("release")).parent


@pytest.fixture(scope="module")
def second(served_session: OpenWebUI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWebUI]:
    """Another server beside the one of `served`, with the same login, keys, PostgreSQL and Redis."""
    served_session.add_tool(TOOL, WEATHER)
    directory = tmp_path_factory.mktemp("second")
    shutil.copy(served_session.data / "login.json", directory / "login.json")
    server = OpenWebUI(directory, served_session._variables)
    try:
        assert MODEL in server.admin.api.models()
        yield server
    finally:
        server.close()


# --- two servers ---


@pytest.mark.usefixtures("accepted")
def test_a_chat_is_answered_by_both_in_turn(
    served: OpenWebUI,
    second: OpenWebUI,
    standin: StandIn,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
) -> None:
    """Each request begins with the whole one before, reasoning and calls among it, and is read from the cache.

    Both send the chat's first prompt again, and a note of what it reads now before the question. Rows lie in the
    host's schema, and copies of them under its prefix.
    """
    sent = None
    with preset(served.admin, system="It is {{CURRENT_DATETIME}}.") as name:
        for turn in range(4):
            host = (served, second)[turn % 2]
            host.admin.api.models()
            text = f"{CALL} turn 0" if turn == 0 else f"turn {turn}"
            fields = {"tool_ids": [TOOL], "variables": {"{{CURRENT_DATETIME}}": f"10:0{turn}"}}
            sent, answer = host.admin.ask(name, text, after=sent, **fields)
            assert "statusHistory" not in answer
    assert sent is not None
    found = inputs(standin)
    notes = ["\n".join(text for text in texts_of(items[:-1]) if "It now reads" in text) for items in found]
    assert ["It is 10:00." in texts_of(items)[0] for items in found] == [True] * 5
    assert [note[-12:] for note in notes] == ["", "", *(f"It is 10:0{turn}." for turn in (1, 2, 3))]
    kept = [[item for item in items if "It now reads" not in str(item)] for items in found]
    assert each_continues(kept)
    made = [item for request in standin.responses[:-1] for item in request.output]
    of_rounds = ("reasoning", "function_call")
    assert wire(found[-1], *of_rounds) == wire(made, *of_rounds)
    usages = [request.usage or {} for request in standin.responses[1:]]
    assert all(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    ids = {name for (name,) in rows(postgres_server, OF_CHATS, [sent.chat_id])}
    assert len(ids) == 6
    assert {name.rpartition(":")[2] for name in names_in(redis_server)} >= ids


def test_stop_reaches_the_other_one(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """The answer ends, OpenRouter is left, and the chat goes on there."""
    with served.admin.session() as tab:
        answer = served.admin.send(MODEL, "[[standin: slow=600]] one", session_id=tab.id)
        tab.wait_for("response:completion", count=20)
        second.admin.stop(answer)
        served.admin.wait(answer)
    wait_until(lambda: standin.responses[0].disconnected)
    _, going_on = second.admin.ask(MODEL, "two", after=answer)
    assert "error" not in going_on
    assert inputs(standin)[1][0] == inputs(standin)[0][0]


def test_what_one_spends_counts_for_the_other(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """A limit that is set at one holds at both."""
    user = served.add_user("penny")
    elsewhere = second.sign_in("penny@localhost")
    served.admin.api.set_valves("openrouter", {"SPENDING_LIMITS": "user: 0.003/day"})
    user.ask(MODEL, "one")
    _, refused = elsewhere.ask(MODEL, "two")
    served.admin.api.set_valves("openrouter", {"SPENDING_LIMITS": None})
    assert "spending limit" in error_of(refused)
    assert len(standin.responses) == 1


# --- the package as a stub, and the sweep ---


def test_the_stub_and_sealed_valves_work(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer
) -> None:
    """The thin function finds the installed package; its key is sealed in the database, and used in the clear."""
    api = served.admin.api
    api.install_function("stub", "Stub", builder.stub(builder.read_package(PACKAGE)))
    api.set_valves("stub", {"API_KEY": STUB_KEY, "BASE_URL": standin.base_url})
    api.models()
    talk(served.admin, MODEL.replace("openrouter.", "stub."), "one", "two")
    assert kinds(inputs(standin)[-1]) == REPLAYED
    [(stored,)] = rows(postgres_server, "SELECT valves::text FROM function WHERE id = 'stub'")
    assert stored
    assert STUB_KEY not in stored
    api.delete("/api/v1/functions/id/stub/delete")


def test_the_sweep_removes_what_lost_its_user_or_chat(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer, release: Path
) -> None:
    """The rows of a deleted chat and a deleted user go; those of a chat, and of a deleted chat's clone, stay."""
    api, leaver = served.admin.api, served.add_user("leaver")
    chats = [account.ask(MODEL, "one")[0] for account in (leaver, *[served.admin] * 3)]
    kept, deleted, original = chats[1:]

    def ids(*sent: Sent) -> list[str]:
        found = rows(postgres_server, OF_CHATS, [each.chat_id for each in sent])
        return [name for (name,) in found]

    before = [ids(sent) for sent in chats]
    clone = copy_of(served.admin, original)
    api.delete(f"/api/v1/users/{leaver.api.get('/api/v1/auths/')['id']}")
    for sent in (deleted, original):
        api.delete(f"/api/v1/chats/{sent.chat_id}")
    older = "UPDATE openrouter_pipe_artifact SET last_used = last_used - %s RETURNING id"
    rows(postgres_server, older, THREE_DAYS_SECONDS)
    rows(postgres_server, "DELETE FROM openrouter_pipe_lease RETURNING name")
    content = (release / "openrouter.py").read_text("utf-8")
    api.install_function("openrouter", "OpenRouter", content + "\n")  # a new app looks at once
    served.admin.ask(MODEL, "elsewhere")
    assert [len(each) for each in before] == [1, 1, 1, 1]
    wait_until(lambda: ids(clone) == before[3])
    wait_until(lambda: ids(chats[0], deleted, original) == [])
    assert ids(kept) == before[1]
    served.admin.ask(MODEL, "two", after=clone)
    assert kinds(inputs(standin)[-1]) == REPLAYED


# --- moving in, and removing everything ---

OTHER_PIPE = '''"""
title: Another pipe
author: somebody else
"""


class Pipe:
    def pipes(self):
        return [{"id": "openai.gpt-5.2", "name": "GPT"}]

    async def pipe(self, body):
        yield "[01KXAAAAAA0123456789]: #\\n\\nTheirs.\\n\\n[01KXAAAAAB0123456789]: #\\n"
'''
OF_CONNECTION = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    *tool_round("call_1", "get_time", "{}", "12:00"),
    message("It is noon.", 1),
]
"""What Open WebUI stores of an answer with a tool call from a connection of its own."""


def test_moving_in_and_out(
    served: OpenWebUI,
    standin: StandIn,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    release: Path,
) -> None:
    """Chats of another id, another pipe and a connection go on with ours; then nothing of ours is left.

    Of a connection's answers the calls are sent; of another pipe's the text without its marks, which a line counts.
    """
    admin, api = served.admin, served.admin.api

    def command(text: str) -> str:
        return str(admin.ask(MAINTENANCE, text)[1]["content"])

    def everything(sent: Sent) -> str:
        return json.dumps(admin.chat(sent.chat_id))

    names = {"old_id": "openrouter", MAINTENANCE: MAINTENANCE}
    for name, file in names.items():
        api.install_function(name, name, (release / f"{file}.py").read_text("utf-8"))
    api.install_function("other", "Another pipe", OTHER_PIPE)
    api.set_valves(
        "old_id", {"API_KEY": session.STANDIN_KEY, "BASE_URL": standin.base_url, "COST_LINE": "off"}
    )
    api.models()
    ours, _ = admin.ask(OLD, "one")
    theirs, _ = admin.ask("other.openai.gpt-5.2", "two")
    fields = {"content": "It is noon.", "output": OF_CONNECTION}
    connected = saved_chat(admin, "openai/gpt-5.2", [("What time is it?", fields)])
    their_marks = everything(theirs).count("]: #")
    assert "is switched on" in command("move old_id")
    for name in ("old_id", "other"):
        api.post(f"/api/v1/functions/id/{name}/toggle")
    api.models()
    assert "Nothing has been changed yet" in command("move old_id")
    assert admin.chat(ours.chat_id)["models"] == [OLD]

    go_on = {"old_id": (ours, REPLAYED), "other": (theirs, ["user", "assistant", "user"])}
    of_calls = ["user", "function_call", "function_call_output", "assistant", "user"]
    ends = []
    for source, (sent, expected) in {**go_on, "connection": (connected, of_calls)}.items():
        command(f"move {source} now")
        assert admin.chat(sent.chat_id)["models"] == [MODEL]
        end, answer = admin.ask(MODEL, "go on", after=sent)
        ends.append(end)
        lost = ["Stored items not reloaded: 2 (2 no longer stored)."] * (source == "other")
        assert (statuses(answer), error_of(answer)) == (lost, "")
        assert kinds(inputs(standin)[-1]) == expected
        assert "01KXAAAAAA" not in json.dumps(inputs(standin)[-1])

    api.post("/api/v1/functions/id/openrouter/toggle")
    api.models()
    assert "Done" in command("uninstall now")
    marks = [everything(sent).count("]: #") for sent in ends]
    assert marks == [0, their_marks, 0]
    assert "there is nothing to do" in command("uninstall")
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
    left = [name for (name,) in rows(postgres_server, tables, SERVED_SCHEMA) if "openrouter_pipe" in name]
    assert (left, names_in(redis_server)) == ([], set())
