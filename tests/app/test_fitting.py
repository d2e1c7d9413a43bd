"""Context management in the app: what is recorded and learned, and what keeps a chat on its provider."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.openrouter.request import cache_key
from open_webui_openrouter_pipe.store.beside import StoredCalibrations
from open_webui_openrouter_pipe.store.database import Database, epoch_seconds
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords
from tests.app.chat import MODEL, Chat, settings
from tests.support.audited import audited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.money.audit import Bill
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


class AppDatabase:
    """A database file on which apps are opened and closed, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/rows.db"

    @asynccontextmanager
    async def app(self) -> AsyncIterator[App]:
        async with aclosing(App(Host(open_database(self.url), FakeRecords(), "secret"))) as app:
            yield app

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Database]:
        async with aclosing(open_database(self.url)) as database:
            yield database

    async def records(self) -> list[Bill]:
        """The audit, the oldest first."""
        async with self.connect() as database:
            return (await audited(database))[::-1]


@pytest.fixture
def database(tmp_path: Path) -> AppDatabase:
    return AppDatabase(tmp_path)


async def test_each_request_is_recorded_with_its_bill(database: AppDatabase, standin: StandIn) -> None:
    """The records are written by the time the app is closed."""
    async with database.app() as app:
        chat = Chat(app, settings(standin))
        await chat.ask("word " * 2000)
        await chat.ask("two")
    records = await database.records()
    billed = [response.usage["input_tokens"] for response in standin.responses if response.usage]
    assert [record.input_tokens for record in records] == billed
    origins = [(record.user_id, record.chat_id, record.message_id) for record in records]
    assert origins == [("ada", chat.chat_id, "message-1"), ("ada", chat.chat_id, "message-3")]


async def test_a_calibration_outlives_the_worker(database: AppDatabase, standin: StandIn) -> None:
    """The next worker begins with the calibration that the first one stored."""
    async with database.app() as app:
        await Chat(app, settings(standin)).ask("word " * 6000)
    async with database.connect() as connection:
        known = await StoredCalibrations(connection).find(MODEL)
    assert known is not None
    assert known.bills == 1


async def test_a_temporary_chat_is_recorded_without_its_ids(database: AppDatabase, standin: StandIn) -> None:
    """It costs money like any other chat, but the record does not name it."""
    async with database.app() as app:
        await Chat(app, settings(standin), chat_id="temporary:1").ask("one")
    assert [(record.user_id, record.chat_id, record.message_id) for record in await database.records()] == [
        ("ada", "", "")
    ]


async def test_old_audit_records_are_deleted(database: AppDatabase, standin: StandIn) -> None:
    """The sweep deletes the records that are older than stored items may be."""
    async with database.app() as app:
        await Chat(app, settings(standin)).ask("old")
    (old,) = await database.records()
    async with database.connect() as opened:
        long_ago = opened.tables.audit.update().values(created=epoch_seconds() - 91 * DAY_SECONDS)
        await opened.change(long_ago)
        await opened.change(opened.tables.lease.delete())
    async with database.app() as app:
        await Chat(app, settings(standin)).ask("new")
        await app.idle()
    assert old.id not in [record.id for record in await database.records()]


async def test_a_task_is_never_refused(database: AppDatabase, standin: StandIn) -> None:
    """A title request is not a turn of a chat, so it is sent whatever its size, and not recorded."""
    body = {
        "model": "openrouter.standin/small",
        "messages": [{"role": "user", "content": "word " * 20_000}],
        "stream": False,
    }
    call = read_call(body, user={"id": "ada"}, metadata={}, task="title_generation")
    async with database.app() as app:
        async for _ in app.answer(call, settings(standin)):
            pass
    assert (len(standin.responses), await database.records()) == (1, [])


async def test_requests_of_one_chat_share_a_cache_key(database: AppDatabase, standin: StandIn) -> None:
    """The key is derived from user and chat with the host's secret."""
    async with database.app() as app:
        chat = Chat(app, settings(standin))
        await chat.ask("one")
    body = standin.responses[0].body
    key = cache_key(b"secret", "ada", chat.chat_id)
    assert (body["session_id"], body["prompt_cache_key"]) == (key, key)
