"""What the pipe stores, in a real Open WebUI: sealed rows, changed keys, PostgreSQL with Redis, and the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from redis import Redis

from open_webui_openrouter_pipe.history.markers import iter_marker_spans
from scripts import build
from scripts.bundle import builder
from scripts.harness.openwebui import OpenWebUI, Sent
from scripts.paths import PACKAGE
from tests.live.chats import (
    MODEL,
    NO_TOOLS,
    REPLAYED,
    SMALL,
    answers,
    database_bytes,
    inputs,
    kinds,
    preset,
    statuses,
    stored_rows,
    wire,
)
from tests.live.test_long_chats import DAYS, SUMMARIZED, SUMMARY_VALVES, day, log, was_summarized
from tests.support.fixtures import SERVED_SCHEMA
from tests.support.long_chats import summary_blocks, summary_requests
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.harness.servers import PostgresServer, RedisServer
    from scripts.launch.api import Api
    from scripts.standin import StandIn

pytestmark = pytest.mark.live

STUB_KEY = "sk-or-v1-of-the-stub"
CALL = '[[standin: call=get_time args={"zone":"UTC"}]]'
CLOCK = '''
class Tools:
    def get_time(self, zone: str) -> str:
        """
        Tell the time.

        :param zone: The time zone.
        """
        return "12:00"
'''
TABLE = "openrouter_pipe_artifact"
DAY_SECONDS = 24 * 60 * 60


def sent_reasoning(standin: StandIn) -> list[str]:
    """The reasoning in the last request."""
    return wire(standin.responses[-1].body["input"], "reasoning")


def given_reasoning(standin: StandIn, *answers: int) -> list[str]:
    """The reasoning of these answers."""
    return [item for number in answers for item in wire(standin.responses[number].output, "reasoning")]


@pytest.mark.usefixtures("live_pipe")
def test_rows_are_sealed_in_the_database_file(open_webui: OpenWebUI, standin: StandIn) -> None:
    """What the provider sealed is nowhere in the file, neither bare nor within a payload."""
    sent, _ = open_webui.admin.ask(MODEL, "one")
    [reasoning] = [item for item in standin.responses[0].output if item["type"] == "reasoning"]
    query = f"SELECT kind, typeof(payload), packing, key_id, payload FROM {TABLE} WHERE chat_id = ?"
    [(kind, form, packing, key_id, payload)] = stored_rows(open_webui, query, sent.chat_id)
    everything = database_bytes(open_webui)
    assert (kind, form, packing & 1, len(key_id)) == ("reasoning", "blob", 1, 16)
    assert payload in everything
    assert reasoning["id"].encode() not in payload
    assert reasoning["encrypted_content"].encode() not in everything


@pytest.mark.usefixtures("live_pipe")
def test_a_changed_key_makes_artifacts_missing_until_it_is_back(
    open_webui: OpenWebUI, standin: StandIn, valves: Callable[..., None]
) -> None:
    """The chat goes on with a status line, once; with the old key listed again, nothing is missing."""
    ask = open_webui.admin.ask
    valves(ARTIFACT_ENCRYPTION_KEY="first")
    sent, _ = ask(MODEL, "one")
    valves(ARTIFACT_ENCRYPTION_KEY="second")
    sent, second = ask(MODEL, "two", after=sent)
    without = sent_reasoning(standin)
    sent, third = ask(MODEL, "three", after=sent)
    valves(ARTIFACT_ENCRYPTION_KEY="third, second, first")
    _, fourth = ask(MODEL, "four", after=sent)
    said = [statuses(answer) for answer in (second, third, fourth)]
    line = "Stored items that could not be reloaded: 1 (1 encrypted with another key, or damaged)."
    assert said == [[line], [], []]
    assert without == []
    assert sent_reasoning(standin) == given_reasoning(standin, 0, 1, 2)
    assert {request.status for request in standin.responses} == {200}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the function."""
    return build.build(target=tmp_path_factory.mktemp("dist")).read_text("utf-8")


class Rows:
    """The rows in PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ids(self, *chat_ids: str) -> list[str]:
        """The ids of the rows of these chats."""
        with psycopg.connect(self._url) as connection:
            chosen = f'SELECT id FROM "{SERVED_SCHEMA}".{TABLE} WHERE chat_id = ANY(%s) ORDER BY id'
            return [row[0] for row in connection.execute(chosen, [list(chat_ids)])]

    def found(self) -> bool:
        """Whether the table lies in the host's schema."""
        with psycopg.connect(self._url) as connection:
            return connection.execute("SELECT to_regclass(%s)", [f"{SERVED_SCHEMA}.{TABLE}"]).fetchone() != (
                None,
            )

    def age(self, days: int) -> None:
        """Make all rows older, and the next sweep due."""
        with psycopg.connect(self._url) as connection:
            connection.execute(
                f'UPDATE "{SERVED_SCHEMA}".{TABLE} SET last_used = last_used - %s', [days * DAY_SECONDS]
            )
            connection.execute(f'DELETE FROM "{SERVED_SCHEMA}".openrouter_pipe_lease')


@pytest.fixture
def rows(postgres_server: PostgresServer) -> Rows:
    """The rows of `served`."""
    return Rows(postgres_server.url)


def delete(api: Api, path: str) -> None:
    """Delete what the path names."""
    headers = {"Authorization": f"Bearer {api.token}"}
    httpx.delete(api.base_url + path, headers=headers, trust_env=False).raise_for_status()


@pytest.mark.servers
def test_postgresql_and_redis_replay_byte_for_byte(
    served: OpenWebUI, standin: StandIn, rows: Rows, redis_server: RedisServer
) -> None:
    """Reasoning and calls come back as they were; rows lie in the host's schema, copies under its prefix."""
    served.add_tool("clock", CLOCK)
    first, _ = served.admin.ask(MODEL, f"{CALL} time?", tool_ids=["clock"])
    _, answer = served.admin.ask(MODEL, "and now?", after=first, tool_ids=["clock"])
    sent = standin.responses[-1].body["input"]
    assert sent_reasoning(standin) == given_reasoning(standin, 0, 1)
    assert wire(sent, "function_call") == wire(list(standin.responses[0].output), "function_call")
    assert {request.status for request in standin.responses} == {200}
    assert "statusHistory" not in answer
    assert rows.found()
    ids = rows.ids(first.chat_id)
    with Redis.from_url(redis_server.url) as client:
        names = [name.decode() for name in client.scan_iter(f"{SERVED_SCHEMA}:openrouter_pipe:*")]
    assert len(ids) == 4
    assert {name.rpartition(":")[2] for name in names} >= set(ids)


@pytest.mark.servers
def test_the_sweep_removes_what_lost_its_user_or_chat(
    served: OpenWebUI, standin: StandIn, rows: Rows, content: str
) -> None:
    """The rows of a deleted chat and a deleted user go; those of a chat, and of a deleted chat's clone, stay."""
    api = served.admin.api
    leaver = served.add_user("leaver")
    left, _ = leaver.ask(MODEL, "one")
    chats = [served.admin.ask(MODEL, "one")[0] for _ in range(3)]
    kept, deleted, original = chats
    before = [rows.ids(sent.chat_id) for sent in (left, *chats)]
    clone = Sent(api.post(f"/api/v1/chats/{original.chat_id}/clone", {})["id"], original.message_id)
    delete(api, f"/api/v1/users/{leaver.api.get('/api/v1/auths/')['id']}")
    for sent in (deleted, original):
        delete(api, f"/api/v1/chats/{sent.chat_id}")
    rows.age(days=3)
    api.install_function("openrouter", "OpenRouter", content + "\n")  # a new app looks at once
    sent, _ = served.admin.ask(MODEL, "elsewhere")
    assert [len(ids) for ids in before] == [1, 1, 1, 1]
    wait_until(lambda: rows.ids(clone.chat_id) == before[3])
    wait_until(lambda: rows.ids(left.chat_id, deleted.chat_id, original.chat_id) == [])
    assert rows.ids(kept.chat_id) == before[1]
    standin.reset()
    served.admin.ask(MODEL, "two", after=clone)
    assert len(sent_reasoning(standin)) == 1


@pytest.mark.servers
def test_the_stub_and_sealed_valves_work(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer
) -> None:
    """The thin function finds the installed package; its key is sealed in the database, and used in the clear."""
    api = served.admin.api
    api.install_function("stub", "Stub", builder.stub(builder.read_package(PACKAGE)))
    api.set_valves("stub", {"API_KEY": STUB_KEY, "BASE_URL": standin.base_url})
    model = MODEL.replace("openrouter.", "stub.")
    assert model in api.models()
    first, _ = served.admin.ask(model, "one")
    _, answer = served.admin.ask(model, "two", after=first)
    assert not [*iter_marker_spans(answer["content"])]
    assert kinds(inputs(standin)[-1]) == REPLAYED
    with psycopg.connect(postgres_server.url) as connection:
        query = f'SELECT valves::text FROM "{SERVED_SCHEMA}".function WHERE id = %s'
        [[stored]] = connection.execute(query, ["stub"]).fetchall()
    assert stored
    assert STUB_KEY not in stored


@pytest.mark.servers
def test_a_summary_is_made_once_and_found_after_a_restart(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer
) -> None:
    """With PostgreSQL and Redis there are as many rows as requests, no claim remains, and a restart costs nothing."""
    admin = served.admin
    admin.api.set_valves("openrouter", SUMMARY_VALVES)
    with preset(served, SMALL, meta=NO_TOOLS, system="Be brief.") as name:
        sent, answer = admin.ask(name, day(DAYS), after=log(admin, name))
        assert was_summarized(answer)
        count = len(summary_requests(standin))
        served.stop()
        served.start()
        admin.api.models()
        again, answer = admin.ask(name, day(DAYS), after=log(admin, name))
    admin.api.set_valves("openrouter", dict.fromkeys(SUMMARY_VALVES))
    assert [bool(SUMMARIZED.fullmatch(line)) for line in statuses(answer)] == [True]
    assert (summary_blocks(answers(standin)[-1]), len(summary_requests(standin))) == ([1], count)
    with psycopg.connect(postgres_server.url) as connection:
        table = f'"{SERVED_SCHEMA}".openrouter_pipe_summary'
        found = connection.execute(
            f"SELECT DISTINCT user_id, count(*) FROM {table} GROUP BY user_id"
        ).fetchall()
        lease = f'"{SERVED_SCHEMA}".openrouter_pipe_lease'
        claims = connection.execute(f"SELECT name FROM {lease} WHERE name LIKE 'summary:%'").fetchall()
    assert again.chat_id != sent.chat_id
    assert found == [(admin.api.get("/api/v1/auths/")["id"], count)]
    assert claims == []
