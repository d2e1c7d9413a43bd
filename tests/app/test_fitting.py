"""The context in the app: what is recorded and learned, and what keeps a chat on its provider."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.app import App, HostResources
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.planning.cache_marks import cache_key
from open_webui_openrouter_pipe.store.audit import AuditLog
from open_webui_openrouter_pipe.store.calibrations import StoredCalibrations
from open_webui_openrouter_pipe.store.database import Database, epoch_seconds
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS
from tests.app.chat import MODEL, Chat, Everything, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.ports import Audited
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


class House:
    """A database file in which apps are opened and closed, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/rows.db"

    @asynccontextmanager
    async def app(self) -> AsyncIterator[App]:
        async with aclosing(App(HostResources(Database.from_url(self.url), Everything(), "secret"))) as app:
            yield app

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        async with aclosing(Database.from_url(self.url)) as database:
            yield database

    async def records(self) -> list[Audited]:
        """The audit, the oldest first."""
        async with self.database() as database:
            return (await AuditLog(database).records())[::-1]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_each_request_is_recorded_with_its_bill(house: House, standin: StandIn) -> None:
    """Written by the time the app is closed."""
    async with house.app() as app:
        chat = Chat(app, settings(standin))
        await chat.ask("word " * 2000)
        await chat.ask("two")
    records = await house.records()
    billed = [response.usage["input_tokens"] for response in standin.responses if response.usage]
    assert [record.row.billed_tokens for record in records] == billed
    places = [(record.user_id, record.chat_id, record.message_id) for record in records]
    assert places == [("ada", chat.chat_id, "message-1"), ("ada", chat.chat_id, "message-3")]


async def test_what_was_learned_outlives_the_worker(house: House, standin: StandIn) -> None:
    """The next worker begins with the state that the first one wrote."""
    async with house.app() as app:
        await Chat(app, settings(standin)).ask("word " * 2000)
    async with house.database() as database:
        known = await StoredCalibrations(database).find(MODEL)
    assert known is not None
    assert known.seen == 1


async def test_a_temporary_chat_is_recorded_without_its_place(house: House, standin: StandIn) -> None:
    """It costs money as any other, but leaves no trace of what it was."""
    async with house.app() as app:
        await Chat(app, settings(standin), chat_id="temporary:1").ask("one")
    assert [(record.user_id, record.chat_id, record.message_id) for record in await house.records()] == [
        ("ada", "", "")
    ]


async def test_old_records_are_forgotten(house: House, standin: StandIn) -> None:
    """With the first answer of a worker, those as old as stored items must be to be deleted."""
    async with house.app() as app:
        await Chat(app, settings(standin)).ask("old")
    (old,) = await house.records()
    async with house.database() as database:
        table = database.tables.audit
        long_ago = table.update().values(created=epoch_seconds() - 91 * DAY_SECONDS)
        await database.run(lambda connection: connection.execute(long_ago))
    async with house.app() as app:
        await Chat(app, settings(standin)).ask("new")
        await app.idle()
    assert old.id not in [record.id for record in await house.records()]


async def test_a_task_is_never_refused(house: House, standin: StandIn) -> None:
    """A title for a chat that has outgrown its window is the provider's affair; it is no turn of a chat."""
    body = {
        "model": "openrouter.standin/small",
        "messages": [{"role": "user", "content": "word " * 20_000}],
        "stream": False,
    }
    call = read_call(body, user={"id": "ada"}, metadata={}, task="title_generation")
    async with house.app() as app:
        async for _ in app.answer(call, settings(standin)):
            pass
    assert (len(standin.responses), await house.records()) == (1, [])


async def test_the_provider_is_told_which_requests_belong_together(house: House, standin: StandIn) -> None:
    """By a name that only the secret can make of user and chat."""
    async with house.app() as app:
        chat = Chat(app, settings(standin))
        await chat.ask("one")
    body = standin.responses[0].body
    key = cache_key(b"secret", "ada", chat.chat_id)
    assert (body["session_id"], body["prompt_cache_key"]) == (key, key)
