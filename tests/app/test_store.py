"""The app over its store: outages, changed keys, sweeps, and an app that the host dropped."""

from __future__ import annotations

import asyncio
import gc
import secrets
import threading
import weakref
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords
from tests.app.chat import Chat, NewChat, app_on, received_reasoning_ids, sent_reasoning_ids, settings, url_in
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scripts.harness.servers import PostgresServer, RedisServer
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

UNAVAILABLE = "Stored items not reloaded: 1 (the database is unavailable)."
KEPT = 1
"""What an answer of the stand-in leaves in the store: its reasoning."""
UNSAVED = "Parts of this answer were not saved; later turns lack its reasoning."
UNREADABLE = "Stored items not reloaded: 1 (1 encrypted with another key, or damaged)."
NO_KEY = "Reasoning is not kept: an administrator has to set ARTIFACT_ENCRYPTION_KEY."


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
    async with aclosing(App(Host(database, FakeRecords(), Secret("secret"), redis=link))) as app:
        yield app


async def stored_ids(app: App) -> list[str]:
    """The ids in the table of artifacts."""
    database = app.worker.host.database
    return [row[0] for row in await database.fetch(sa.select(database.tables.artifact.c.id))]


@pytest.mark.servers
@pytest.mark.parametrize(("is_redis_there", "notice"), [(False, UNAVAILABLE), (True, UNSAVED)])
async def test_without_a_database_the_answer_goes_on(
    served: App,
    standin: StandIn,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    *,
    is_redis_there: bool,
    notice: str,
) -> None:
    """With one line about the outage, and no marker; Redis still serves what was used. Later all works again."""
    chat = Chat(served, settings(standin))
    first = await chat.ask("one")
    await asyncio.to_thread(postgres_server.stop)
    if not is_redis_there:
        redis_server.stop()
    outage = [await chat.ask("two"), await chat.ask("three")]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:is_redis_there]
    postgres_server.start()
    redis_server.start()
    last = await chat.ask("four")
    assert [(len(answer.marked), answer.notices, answer.error) for answer in (first, *outage, last)] == [
        (KEPT, (), None),
        (0, (notice,), None),
        (0, (), None),
        (KEPT, (), None),
    ]
    assert all(answer.text.startswith("You said") for answer in outage)
    assert sorted(await stored_ids(served)) == sorted([*first.marked, *last.marked])
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:1]
    assert {request.status for request in standin.responses} == {200}


@pytest.mark.parametrize(
    ("keys", "missing", "replayed"),
    [
        (["", ""], [], 1),
        (["", "a", "b,a"], [], 2),
        (["a", "a"], [], 1),
        (["a", "b,a", "c\nb, a", "d,c,a,b"], [], 3),
        (["a", "b", "b", "b,a"], [1], 3),
        (["a", "", "", ",a"], [1], 3),
    ],
)
async def test_keys_are_replaced_without_losing_what_is_stored(
    new_chat: NewChat, standin: StandIn, keys: list[str], missing: list[int], replayed: int
) -> None:
    """Every key that is listed opens what it sealed, and the host's secret always does.

    One that is missing is reported once; the chat goes on without what it sealed, until it is listed again.
    """
    chat, notices = new_chat(), []
    for number, key in enumerate(keys):
        chat.settings = settings(standin, ARTIFACT_ENCRYPTION_KEY=key)
        notices.append((await chat.ask(f"question {number}")).notices)
    assert notices == [(UNREADABLE,) * (number in missing) for number in range(len(keys))]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:replayed]


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
        assert len(await stored_ids(app)) == 2 * kept
    assert [(answer.notices, answer.error) for answer in answers] == [(notices, None), ((), None)]
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[: bool(kept)]


@pytest.mark.parametrize(("days", "kept"), [(30, 0), (0, 1)])
async def test_a_request_starts_the_sweep_with_its_settings(
    tmp_path: Path, standin: StandIn, days: int, kept: int
) -> None:
    """Rows that were unused for longer than the valve says are gone, unless it says for ever."""
    async with app_on(tmp_path) as one, app_on(tmp_path) as two:
        chat = NewChat(one, standin)(ARTIFACT_CLEANUP_DAYS=days)
        await chat.ask("one")
        await one.idle()
        database = one.worker.host.database
        table, month = database.tables.artifact, 31 * 24 * 60 * 60
        await database.change(sa.update(table).values(last_used=table.c.last_used - month))
        await database.change(sa.delete(database.tables.lease))
        await Chat(two, chat.settings).ask("elsewhere")
        await two.idle()
        await chat.ask("two")
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:kept]


@pytest.mark.servers
async def test_a_dropped_app_ends_all_that_it_started(
    tmp_path: Path, standin: StandIn, link: GuardedRedis
) -> None:
    """Nobody closes it; once nobody holds it, its tasks end and its connections are closed."""
    before = asyncio.all_tasks()
    app = App(Host(open_database(url_in(tmp_path)), FakeRecords(), Secret("secret"), redis=link))
    await app.models(settings(standin))
    await Chat(app, settings(standin)).ask("one")
    reference, http = weakref.ref(app), app.worker.own.http
    assert asyncio.all_tasks() > before
    del app
    gc.collect()
    assert reference() is None
    await eventually(lambda: http.is_closed and asyncio.all_tasks() == before)


# --- chats that the host does not save: their reasoning is kept while the worker lives, and never in the database


@pytest.mark.parametrize("chat_id", ["temporary:1", "local:1", "channel:1"])
async def test_an_unsaved_chat_has_its_reasoning_back(
    new_chat: NewChat, standin: StandIn, chat_id: str
) -> None:
    """As the provider sent it, on each later turn."""
    chat = new_chat(chat_id=chat_id)
    answers = [await chat.ask(text) for text in ("one", "two", "three")]
    assert await stored_ids(chat.app) == []
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:2]
    assert [answer.notices for answer in answers] == [()] * 3


async def test_another_worker_goes_on_without_it(tmp_path: Path, new_chat: NewChat, standin: StandIn) -> None:
    """And without a word; only of a chat that was saved meanwhile, a line says so."""
    chat = new_chat(chat_id="temporary:1")
    await chat.ask("one")
    async with app_on(tmp_path) as other:
        chat.app = other
        assert (await chat.ask("two")).notices == ()
    assert sent_reasoning_ids(standin) == []
    chat.chat_id, chat.app = "saved", new_chat.app
    assert (await chat.ask("three")).notices != ()
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:1]
    assert len(await stored_ids(chat.app)) == 2  # that of the first answer, and that of the third


async def test_a_task_makes_nothing_durable(new_chat: NewChat) -> None:
    """Open WebUI has temporary chats summarized too, and sends them with all that refers to their reasoning."""
    chat = new_chat(chat_id="temporary:1")
    await chat.ask("one")
    chat.messages.append(chat.messages[0])
    for task, chat_id in (("context_compaction", chat.chat_id), (None, "")):  # a bare call has no task
        chat.chat_id = chat_id
        assert [output async for output in chat.app.answer(chat.call(task=task, stream=True), chat.settings)]
        assert await stored_ids(chat.app) == []


@pytest.mark.parametrize("chat_id", ["temporary:1", "saved"])
async def test_what_is_switched_off_is_kept_for_its_turn_alone(
    new_chat: NewChat, standin: StandIn, chat_id: str
) -> None:
    """By the valve for reasoning: nothing of it is durable, and after the turn it is in no memory either."""
    chat = new_chat(PERSIST_REASONING_TOKENS="disabled", PERSIST_TOOL_RESULTS=False, chat_id=chat_id)
    marked = [ulid for text in ("one", "two") for ulid in (await chat.ask(text)).marked]
    stores = await chat.app.worker.stores(chat.settings.store)
    kept = [
        await store.load(chat.user_id, marked) for store in (stores.running, stores.unsaved, stores.durable)
    ]
    missing = [each for found in kept for each in found.values() if isinstance(each, MissingArtifact)]
    assert (len(marked), len(missing)) == (2, 6)
    assert sent_reasoning_ids(standin) == []


async def test_nothing_of_a_call_without_a_page_stays_in_memory(new_chat: NewChat) -> None:
    """Its answer was cut off, so that nothing else deletes it; with a page, its next turn does."""
    held = []
    for chat_id in ("", "saved"):
        chat = new_chat(PERSIST_REASONING_TOKENS="disabled", chat_id=chat_id)
        await chat.ask("[[standin: incomplete=max_output_tokens]] one")
        held.append(len(chat.app.worker._running_rows._rows))
    await chat.ask("two")
    assert [*held, len(chat.app.worker._running_rows._rows)] == [0, 1, 0]


@pytest.mark.parametrize("later", ["conversation", "disabled", "next_reply"])
async def test_only_what_was_deleted_on_purpose_is_not_missed(new_chat: NewChat, later: str) -> None:
    """Whatever the valve says by then: reasoning that was kept for its turn, but not what a search has left."""
    chat = new_chat(PERSIST_REASONING_TOKENS="disabled")
    await chat.ask("one")
    chat.settings = new_chat(PERSIST_REASONING_TOKENS=later).settings
    assert (await chat.ask("two")).notices == ()
    chat.messages.append({"role": "assistant", "content": "[0000000000000000000A]: #\nfound"})
    lost = ("Stored items not reloaded: 1 (1 no longer stored).",)
    assert (await chat.ask("three")).notices == (() if later == "next_reply" else lost)
