"""Reasoning in chats that the host does not save: while the worker lives, and never in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from tests.app.chat import NewChat, app_on, received_reasoning_ids, sent_reasoning_ids

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
async def test_it_comes_back_and_is_not_stored(new_chat: NewChat, standin: StandIn, chat_id: str) -> None:
    """As the provider sent it, on each later turn."""
    chat = new_chat(chat_id=chat_id)
    answers = [await chat.ask(text) for text in ("one", "two", "three")]
    assert await stored_rows(chat.app) == 0
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
    assert await stored_rows(chat.app) == 2  # that of the first answer, and that of the third


async def test_a_task_makes_nothing_durable(new_chat: NewChat) -> None:
    """Open WebUI has temporary chats summarized too, and sends them with all that refers to their reasoning."""
    chat = new_chat(chat_id="temporary:1")
    await chat.ask("one")
    chat.messages.append(chat.messages[0])
    for task, chat_id in (("context_compaction", chat.chat_id), (None, "")):  # a bare call has no task
        chat.chat_id = chat_id
        assert [output async for output in chat.app.answer(chat.call(task=task, stream=True), chat.settings)]
        assert await stored_rows(chat.app) == 0


async def test_what_is_switched_off_is_not_kept_in_memory_either(new_chat: NewChat, standin: StandIn) -> None:
    """By the valve for reasoning."""
    chat = new_chat(PERSIST_REASONING_TOKENS="disabled", chat_id="temporary:1")
    assert [(await chat.ask(text)).marked for text in ("one", "two")] == [(), ()]
    assert sent_reasoning_ids(standin) == []
