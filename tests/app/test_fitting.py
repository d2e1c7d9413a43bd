"""Context management in the app: what is recorded and learned, and what keeps a chat on its provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.openrouter.request import cache_key
from open_webui_openrouter_pipe.store.beside import StoredCalibrations
from open_webui_openrouter_pipe.store.database import epoch_seconds
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS
from tests.app.chat import MODEL, NewChat, app_on
from tests.support.audited import audited

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.money.audit import Bill
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


async def records(folder: Path) -> list[Bill]:
    """The audit, the oldest first; it is whole once the app that wrote it is closed."""
    async with app_on(folder) as app:
        return (await audited(app.worker.host.database))[::-1]


async def test_each_request_is_recorded_with_its_bill(tmp_path: Path, standin: StandIn) -> None:
    """The records are written by the time the app is closed."""
    async with app_on(tmp_path) as app:
        chat = NewChat(app, standin)()
        await chat.ask("word " * 2000)
        await chat.ask("two")
    found = await records(tmp_path)
    billed = [response.usage["input_tokens"] for response in standin.responses if response.usage]
    assert [record.input_tokens for record in found] == billed
    origins = [(record.user_id, record.chat_id, record.message_id) for record in found]
    assert origins == [("ada", chat.chat_id, "message-1"), ("ada", chat.chat_id, "message-3")]


async def test_a_calibration_outlives_the_worker(tmp_path: Path, standin: StandIn) -> None:
    """The next worker begins with the calibration that the first one stored."""
    async with app_on(tmp_path) as app:
        await NewChat(app, standin)().ask("word " * 6000)
    async with app_on(tmp_path) as app:
        known = await StoredCalibrations(app.worker.host.database).find(MODEL)
    assert known is not None
    assert known.bills == 1


async def test_a_temporary_chat_is_recorded_without_its_ids(tmp_path: Path, standin: StandIn) -> None:
    """It costs money like any other chat, but the record does not name it."""
    async with app_on(tmp_path) as app:
        await NewChat(app, standin)(chat_id="temporary:1").ask("one")
    (record,) = await records(tmp_path)
    assert (record.user_id, record.chat_id, record.message_id) == ("ada", "", "")


async def test_old_audit_records_are_deleted(tmp_path: Path, standin: StandIn) -> None:
    """The sweep deletes the records that are older than stored items may be."""
    async with app_on(tmp_path) as app:
        await NewChat(app, standin)().ask("old")
    (old,) = await records(tmp_path)
    async with app_on(tmp_path) as app:
        database = app.worker.host.database
        long_ago = database.tables.audit.update().values(created=epoch_seconds() - 91 * DAY_SECONDS)
        await database.change(long_ago)
        await database.change(database.tables.lease.delete())
        await NewChat(app, standin)().ask("new")
    assert old.id not in [record.id for record in await records(tmp_path)]


async def test_a_task_is_never_refused(tmp_path: Path, standin: StandIn) -> None:
    """A title request is not a turn of a chat, so it is sent whatever its size, and not recorded."""
    async with app_on(tmp_path) as app:
        await NewChat(app, standin)(model="standin/small").title("word " * 20_000)
    assert (len(standin.responses), await records(tmp_path)) == (1, [])


async def test_requests_of_one_chat_share_a_cache_key(new_chat: NewChat, standin: StandIn) -> None:
    """The key is derived from user and chat with the host's secret."""
    chat = new_chat()
    await chat.ask("one")
    body, key = standin.responses[0].body, cache_key(b"secret", "ada", chat.chat_id)
    assert (body["session_id"], body["prompt_cache_key"]) == (key, key)
