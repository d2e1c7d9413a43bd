"""The prompts that chats keep sending, on both databases: the first of several wins, and only its owner finds it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import KeptPrompt, PromptOwner
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import MAX_PROMPT_BYTES, PromptRows, SealedPrompts
from open_webui_openrouter_pipe.store.sealing import ItemTooLarge, Keyring
from open_webui_openrouter_pipe.store.table import STAMP_INTERVAL_SECONDS
from tests.store.contract import KEYRING, NOW
from tests.store.summary_contract import Clock
from tests.store.waiting import driver_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

OWNER = PromptOwner("ada", "chat-1", "openrouter.openai/gpt-5")
FIRST = KeptPrompt("It is ten. äöü \U0001f600 half \ud83d", "a digest")
OTHER = KeptPrompt("It is noon.")


class PromptsContract:
    """What holds on every database."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    async def rows(self, database: Database, clock: Clock) -> AsyncIterator[PromptRows]:
        rows = PromptRows(database, clock=clock)
        yield rows
        await rows.aclose()

    @pytest.fixture
    def prompts(self, rows: PromptRows, clock: Clock) -> SealedPrompts:
        return SealedPrompts(rows, KEYRING, clock=clock)

    async def test_the_first_one_is_kept(self, prompts: SealedPrompts) -> None:
        """Whoever comes later gets what is kept."""
        assert await prompts.find(OWNER) is None
        assert await prompts.keep(OWNER, FIRST, instead_of=None) == FIRST
        assert await prompts.keep(OWNER, OTHER, instead_of=None) == FIRST
        assert await prompts.find(OWNER) == FIRST

    async def test_a_prompt_takes_the_place_of_the_one_that_was_known(self, prompts: SealedPrompts) -> None:
        """And of no other: who knew an older one gets what is kept now."""
        await prompts.keep(OWNER, FIRST, instead_of=None)
        assert await prompts.keep(OWNER, OTHER, instead_of=FIRST) == OTHER
        assert await prompts.keep(OWNER, KeptPrompt("third"), instead_of=FIRST) == OTHER
        assert await prompts.find(OWNER) == OTHER

    async def test_of_workers_that_keep_at_once_one_wins(self, database: Database) -> None:
        """All of them get the same."""
        workers = [SealedPrompts(PromptRows(database), KEYRING) for _ in range(8)]
        kept = await asyncio.gather(
            *(
                worker.keep(OWNER, KeptPrompt(str(number)), instead_of=None)
                for number, worker in enumerate(workers)
            )
        )
        assert len(set(kept)) == 1
        replaced = await asyncio.gather(
            *(
                worker.keep(OWNER, KeptPrompt(f"new {number}"), instead_of=kept[0])
                for number, worker in enumerate(workers)
            )
        )
        assert len(set(replaced)) == 1
        assert replaced[0].text.startswith("new")

    @pytest.mark.parametrize(
        "other",
        [
            PromptOwner("eve", OWNER.chat_id, OWNER.model),
            PromptOwner("ada", "chat-2", OWNER.model),
            PromptOwner("ada", OWNER.chat_id, "preset"),
        ],
    )
    async def test_only_its_owner_finds_it(
        self, prompts: SealedPrompts, rows: PromptRows, database: Database, other: PromptOwner
    ) -> None:
        """A row that was moved to another user, chat or model does not open there, and gives way."""
        await prompts.keep(OWNER, FIRST, instead_of=None)
        assert await prompts.find(other) is None
        row = await rows.get(OWNER)
        assert row is not None
        moved = row._replace(user_id=other.user_id, chat_id=other.chat_id, model=other.model)
        assert await rows.add(moved, instead_of=None)
        assert await prompts.find(other) is None
        assert await prompts.keep(other, OTHER, instead_of=None) == OTHER
        assert await prompts.find(other) == OTHER

    async def test_a_row_shows_nothing_of_the_prompt(self, prompts: SealedPrompts, rows: PromptRows) -> None:
        """And one of another key counts as none."""
        await prompts.keep(OWNER, FIRST, instead_of=None)
        row = await rows.get(OWNER)
        assert row is not None
        assert b"ten" not in row.payload
        assert row[:3] == ("ada", "chat-1", "openrouter.openai/gpt-5")
        assert await SealedPrompts(rows, Keyring(["another"])).find(OWNER) is None

    async def test_a_long_prompt_is_kept_whole(self, prompts: SealedPrompts) -> None:
        """Up to a megabyte; more is refused."""
        long = KeptPrompt("x\n" * 100_000)
        await prompts.keep(OWNER, long, instead_of=None)
        assert await prompts.find(OWNER) == long
        with pytest.raises(ItemTooLarge):
            await prompts.keep(OWNER, KeptPrompt("x" * MAX_PROMPT_BYTES), instead_of=long)

    async def test_a_find_is_one_query_and_the_first_keep_one_statement(
        self, database: Database, prompts: SealedPrompts
    ) -> None:
        """A request pays for no more."""
        await prompts.find(OWNER)
        seen: list[str] = []
        engine = database._engine.sync_engine
        sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
        await prompts.keep(OWNER, FIRST, instead_of=None)
        await prompts.find(OWNER)
        assert [statement.split()[0] for statement in seen] == ["INSERT", "SELECT"]

    async def test_a_use_is_stamped_once_a_day(
        self, prompts: SealedPrompts, rows: PromptRows, clock: Clock
    ) -> None:
        """So that a chat in use is not swept."""
        await prompts.keep(OWNER, FIRST, instead_of=None)
        stamps = []
        for seconds in (STAMP_INTERVAL_SECONDS - 1, 1, 1):
            clock.now += seconds
            await prompts.find(OWNER)
            await rows.idle()
            row = await rows.get(OWNER)
            stamps.append(row.last_used - NOW if row else None)
        assert stamps == [0, STAMP_INTERVAL_SECONDS, STAMP_INTERVAL_SECONDS]


class TestSqlite(PromptsContract):
    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database


@pytest.mark.servers
class TestPostgres(PromptsContract):
    @pytest.fixture
    def database(self, postgres_database: Database) -> Database:
        return postgres_database


async def test_an_unavailable_database_is_an_error(tmp_path: Path) -> None:
    """Whoever asks goes on without."""
    rows = PromptRows(Database.from_url(f"sqlite:///{tmp_path}/no/such/folder/rows.db"))
    prompts = SealedPrompts(rows, KEYRING)
    with pytest.raises(StoreUnavailable):
        await prompts.find(OWNER)
    with pytest.raises(StoreUnavailable):
        await prompts.keep(OWNER, FIRST, instead_of=None)
    await rows.aclose()
    await driver_threads()
