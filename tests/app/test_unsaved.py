"""Reasoning in chats that the host does not save: while the worker lives, and never in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.host.call import read_call
from tests.app.chat import Chat, app_on, received_reasoning_ids, sent_reasoning_ids, settings

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


async def stored_rows(app: App) -> int:
    """How many artifacts the database has."""
    database = app.worker.host.database
    rows = await database.fetch(sa.select(sa.func.count()).select_from(database.tables.artifact))
    return int(rows[0][0])


@pytest.mark.parametrize("chat_id", ["temporary:1", "local:1", "channel:1"])
async def test_it_comes_back_and_is_not_stored(tmp_path: Path, standin: StandIn, chat_id: str) -> None:
    """As the provider sent it, on each later turn."""
    async with app_on(tmp_path) as app:
        chat = Chat(app, settings(standin), chat_id=chat_id)
        answers = [await chat.ask(text) for text in ("one", "two", "three")]
        assert await stored_rows(app) == 0
    assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:2]
    assert [answer.notices for answer in answers] == [()] * 3


async def test_another_worker_goes_on_without_it(tmp_path: Path, standin: StandIn) -> None:
    """And without a word; only of a chat that was saved meanwhile, a line says so."""
    async with app_on(tmp_path) as one, app_on(tmp_path) as other:
        chat = Chat(one, settings(standin), chat_id="temporary:1")
        await chat.ask("one")
        chat.app = other
        assert (await chat.ask("two")).notices == ()
        assert sent_reasoning_ids(standin) == []
        chat.chat_id = "saved"
        chat.app = one
        assert (await chat.ask("three")).notices != ()
        assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:1]
        assert await stored_rows(one) == 2  # that of the first answer, and that of the third


async def test_a_task_makes_nothing_durable(tmp_path: Path, standin: StandIn) -> None:
    """Open WebUI has temporary chats summarized too, and sends them with all that refers to their reasoning."""
    async with app_on(tmp_path) as app:
        chat = Chat(app, settings(standin), chat_id="temporary:1")
        await chat.ask("one")
        for task in ("context_compaction", None):  # a bare call has no task
            body = {"model": f"openrouter.{chat.model}", "messages": [*chat.messages, chat.messages[0]]}
            user = {"id": chat.user_id, "role": chat.role}
            call = read_call(body, user=user, metadata={"chat_id": chat.chat_id if task else ""}, task=task)
            assert [output async for output in app.answer(call, chat.settings)]
            assert await stored_rows(app) == 0


async def test_what_is_switched_off_is_not_kept_in_memory_either(tmp_path: Path, standin: StandIn) -> None:
    """By the valve for reasoning."""
    async with app_on(tmp_path) as app:
        given = settings(standin, PERSIST_REASONING_TOKENS="disabled")
        chat = Chat(app, given, chat_id="temporary:1")
        assert [(await chat.ask(text)).marked for text in ("one", "two")] == [(), ()]
        assert sent_reasoning_ids(standin) == []
