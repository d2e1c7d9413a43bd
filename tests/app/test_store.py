"""The app over its store: outages, changed keys, sweeps, and an app that the host dropped."""

from __future__ import annotations

import asyncio
import gc
import secrets
import threading
import weakref
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords
from tests.app.chat import Chat, NewChat, app_on, received_reasoning_ids, sent_reasoning_ids, settings, url_in
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from scripts.harness.servers import PostgresServer, RedisServer
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

UNAVAILABLE = "Stored items that could not be reloaded: 1. The database is unavailable."
KEPT = 1
"""What an answer of the stand-in leaves in the store: its reasoning."""
UNREADABLE = "Stored items that could not be reloaded: 1 (1 encrypted with another key, or damaged)."
NO_KEY = (
    "Reasoning and tool results are not kept, because there is no key to encrypt them with. An administrator can set "
    "the function's valve ARTIFACT_ENCRYPTION_KEY."
)
DAY_SECONDS = 24 * 60 * 60


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[GuardedRedis]:
    """Redis, without a pause after failures, so that a test need not wait for it."""
    client = Redis.from_url(redis_server.url)
    yield GuardedRedis(cast("Any", client), prefix=f"app-{secrets.token_hex(6)}", pause_seconds=0)
    await client.aclose()


@pytest.fixture
async def served(
    postgres_server: PostgresServer, postgres_schema: str, link: GuardedRedis
) -> AsyncIterator[App]:
    """An app on PostgreSQL and Redis."""
    database = open_database(postgres_server.url, schema=postgres_schema)
    async with aclosing(App(Host(database, FakeRecords(), "secret", redis=link))) as app:
        yield app


def stored(url: str, schema: str) -> list[str]:
    """The ids in the table."""
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(f'SELECT id FROM "{schema}".openrouter_pipe_artifact')]


@pytest.mark.servers
async def test_without_any_store_the_answer_goes_on(
    served: App, standin: StandIn, postgres_server: PostgresServer, redis_server: RedisServer
) -> None:
    """No marker, and one line about the outage; later all works again."""
    chat = Chat(served, settings(standin))
    first = await chat.ask("one")
    await asyncio.to_thread(postgres_server.stop)
    redis_server.stop()
    outage = [await chat.ask("two"), await chat.ask("three")]
    postgres_server.start()
    redis_server.start()
    last = await chat.ask("four")
    assert (len(first.marked), first.notices) == (KEPT, ())
    assert [(answer.marked, answer.notices, answer.error) for answer in outage] == [
        ((), (UNAVAILABLE,), None),
        ((), (), None),
    ]
    assert all(answer.text.startswith("You said") for answer in outage)
    assert (len(last.marked), last.notices) == (KEPT, ())
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:1]
    assert {request.status for request in standin.responses} == {200}


@pytest.mark.servers
async def test_without_a_database_nothing_is_kept(
    served: App, standin: StandIn, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """Redis alone still serves what was used before, and no marker is shown."""
    chat = Chat(served, settings(standin))
    first = await chat.ask("one")
    await asyncio.to_thread(postgres_server.stop)
    outage = [await chat.ask("two"), await chat.ask("three")]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:1]
    postgres_server.start()
    last = await chat.ask("four")
    assert [(answer.marked, answer.notices, answer.error) for answer in outage] == [
        ((), ("Parts of this answer could not be saved; later turns continue without its reasoning.",), None),
        ((), (), None),
    ]
    assert (len(last.marked), last.notices) == (KEPT, ())
    assert sorted(stored(postgres_server.url, postgres_schema)) == sorted([*first.marked, *last.marked])


async def change_keys(folder: Path, standin: StandIn, *keys: str) -> list[tuple[str, ...]]:
    """Ask one question with each value of the valve, in one chat; the status lines of each answer."""
    async with app_on(folder) as app:
        chat = Chat(app, settings(standin))
        notices = []
        for number, key in enumerate(keys):
            chat.settings = settings(standin, ARTIFACT_ENCRYPTION_KEY=key)
            notices.append((await chat.ask(f"question {number}")).notices)
    return notices


@pytest.mark.parametrize("keys", [["", ""], ["", "a", "b,a"], ["a", "a"], ["a", "b,a", "c\nb, a", "d,c,a,b"]])
async def test_keys_are_replaced_without_losing_what_is_stored(
    tmp_path: Path, standin: StandIn, keys: list[str]
) -> None:
    """Every key that is still listed opens what it sealed, and the host's secret always does."""
    assert await change_keys(tmp_path, standin, *keys) == [()] * len(keys)
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:-1]


@pytest.mark.parametrize("other", ["b", ""])
async def test_a_missing_key_is_reported_once_until_it_is_back(
    tmp_path: Path, standin: StandIn, other: str
) -> None:
    """The chat goes on without what the key sealed; listed again, it opens everything."""
    notices = await change_keys(tmp_path, standin, "a", other, other, f"{other},a")
    assert notices == [(), (UNREADABLE,), (), ()]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:3]


async def test_the_first_passphrase_seals(tmp_path: Path, standin: StandIn) -> None:
    """A new one before the old one is the key of the next row; spaces belong to it."""
    await change_keys(tmp_path, standin, "the old passphrase", "the new passphrase, the old passphrase")
    async with aclosing(open_database(url_in(tmp_path))) as database:
        found = await database.fetch(sa.select(database.tables.artifact.c.key_id).distinct())
    expected = [Keyring([], passphrases=[f"the {age} passphrase"]).first_id for age in ("new", "old")]
    assert sorted(key_id for (key_id,) in found) == sorted(expected)


async def test_keys_are_derived_once_and_in_a_thread(
    new_chat: NewChat, caplog: pytest.LogCaptureFixture
) -> None:
    """Questions that arrive together wait for the same derivation, and the event loop is free meanwhile."""
    chats = [new_chat(ARTIFACT_ENCRYPTION_KEY="short") for _ in range(3)]
    answers = await asyncio.gather(*(chat.ask("question") for chat in chats))
    assert [(len(answer.marked), answer.error) for answer in answers] == [(KEPT, None)] * 3
    [warning] = caplog.records
    assert warning.thread != threading.get_ident()


@pytest.mark.parametrize(
    ("secret", "passphrase", "kept", "notices"),
    [
        ("", "", 0, (NO_KEY,)),
        ("", "a passphrase", KEPT, ()),
        ("\udcff\udcfe", "", KEPT, ()),
    ],
)
async def test_a_host_with_an_odd_secret_answers(
    tmp_path: Path, standin: StandIn, secret: str, passphrase: str, kept: int, notices: tuple[str, ...]
) -> None:
    """Without any key nothing is kept, which is said once; bytes that are no text are a key as any other."""
    async with app_on(tmp_path, secret=secret) as app:
        chat = NewChat(app, standin)(ARTIFACT_ENCRYPTION_KEY=passphrase)
        answers = [await chat.ask("one"), await chat.ask("two")]
    assert [(len(answer.marked), answer.notices, answer.error) for answer in answers] == [
        (kept, notices, None),
        (kept, (), None),
    ]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[: bool(kept)]


async def age(app: App, days: float) -> None:
    """Make all rows older, and the next sweep due."""
    database = app.worker.host.database
    table = database.tables.artifact
    await database.change(sa.update(table).values(last_used=table.c.last_used - int(days * DAY_SECONDS)))
    await database.change(sa.delete(database.tables.lease))


@pytest.mark.parametrize(("days", "kept"), [(30, 0), (0, 1)])
async def test_a_request_starts_the_sweep_with_its_settings(
    tmp_path: Path, standin: StandIn, days: int, kept: int
) -> None:
    """Rows that were unused for longer than the valve says are gone, unless it says for ever."""
    async with app_on(tmp_path) as one, app_on(tmp_path) as two:
        chat = NewChat(one, standin)(ARTIFACT_CLEANUP_DAYS=days)
        await chat.ask("one")
        await one.idle()
        await age(one, 31)
        await Chat(two, chat.settings).ask("elsewhere")
        await two.idle()
        await chat.ask("two")
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:kept]


async def test_workers_sweep_once_a_day_together(tmp_path: Path, standin: StandIn) -> None:
    """Of three workers with two questions each, one looks through the rows."""
    async with app_on(tmp_path) as app:
        await Chat(app, settings(standin)).ask("zero")
        await app.idle()
        await age(app, 0)
    records = FakeRecords()
    for _ in range(3):
        async with app_on(tmp_path, records=records) as app:
            chat = Chat(app, settings(standin))
            for text in ("one", "two"):
                await chat.ask(text)
                await app.idle()
    assert records.lookups == 3  # of the users in artifacts, audit and ledger


class UnreachableRecords(FakeRecords):
    """A host that cannot say who exists."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        raise ConnectionError("unreachable")


async def test_a_sweep_that_fails_harms_no_answer(
    tmp_path: Path, standin: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """It is written to the log, and the chat goes on."""
    async with app_on(tmp_path) as app:
        chat = Chat(app, settings(standin))
        await chat.ask("one")
        await app.idle()
        await age(app, 0)
    async with app_on(tmp_path, records=UnreachableRecords()) as chat.app:
        answer = await chat.ask("two")
    assert (answer.error, answer.notices) == (None, ())
    assert [record.message for record in caplog.records] == ["the sweep of stored items ended early"]


@pytest.mark.servers
async def test_a_dropped_app_ends_all_that_it_started(
    tmp_path: Path, standin: StandIn, link: GuardedRedis
) -> None:
    """Nobody closes it; once nobody holds it, its tasks end and its connections are closed."""
    before = asyncio.all_tasks()
    app = App(Host(open_database(url_in(tmp_path)), FakeRecords(), "secret", redis=link))
    await app.models(settings(standin))
    await Chat(app, settings(standin)).ask("one")
    reference, http = weakref.ref(app), app.worker.own.http
    assert asyncio.all_tasks() > before
    del app
    gc.collect()
    assert reference() is None
    await eventually(lambda: http.is_closed and asyncio.all_tasks() == before)
