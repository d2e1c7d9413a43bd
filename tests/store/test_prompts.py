"""The prompts that chats keep sending, on both databases: the first of several wins, and only its owner finds it."""

from __future__ import annotations

import asyncio

import pytest

from open_webui_openrouter_pipe.ports import KeptPrompt, RequestOrigin
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import MAX_PROMPT_BYTES, SealedPrompts
from open_webui_openrouter_pipe.store.schema import PromptRow
from open_webui_openrouter_pipe.store.sealing import ItemTooLarge, Keyring
from open_webui_openrouter_pipe.store.table import STAMP_INTERVAL_SECONDS, SealedTable
from tests.store.contract import KEYRING, NOW, Clock, statements_of

pytestmark = pytest.mark.anyio

KEY = ("ada", "chat-1", "openrouter.openai/gpt-5")
OWNER = RequestOrigin(*KEY[:2], "", "", KEY[2])
FIRST = KeptPrompt("It is ten. äöü \U0001f600 half \ud83d", "a digest")
OTHER = KeptPrompt("It is noon.")


@pytest.fixture
def rows(database: Database) -> SealedTable[PromptRow]:
    """The rows of both databases, at the same time."""
    return SealedTable(database, PromptRow, clock=Clock())


@pytest.fixture
def prompts(database: Database) -> SealedPrompts:
    """The engine's prompts over them."""
    return SealedPrompts(database, KEYRING, clock=Clock())


async def test_a_prompt_takes_the_place_of_the_one_that_was_known(
    database: Database, prompts: SealedPrompts
) -> None:
    """And of no other: whoever comes later, or knew an older one, gets what is kept; the first, in one statement."""
    assert await prompts.find(OWNER) is None
    seen = statements_of(database)
    for prompt, known, kept in (
        (FIRST, None, FIRST),
        (OTHER, None, FIRST),
        (OTHER, FIRST, OTHER),
        (KeptPrompt("third"), FIRST, OTHER),
    ):
        assert await prompts.keep(OWNER, prompt, instead_of=known) == kept
        assert await prompts.find(OWNER) == kept
    assert [statement.split()[0] for statement in seen[:2]] == ["INSERT", "SELECT"]


async def test_of_workers_that_keep_at_once_one_wins(database: Database) -> None:
    """All of them get the same."""
    workers = [SealedPrompts(database, KEYRING) for _ in range(8)]
    known = None
    for text in ("old", "new"):
        given = [KeptPrompt(f"{text} {number}") for number in range(8)]
        works = [
            worker.keep(OWNER, new, instead_of=known) for worker, new in zip(workers, given, strict=True)
        ]
        (known,) = set(await asyncio.gather(*works))
        assert known in given


@pytest.mark.parametrize("moved", [{"user_id": "eve"}, {"chat_id": "chat-2"}, {"model": "preset"}])
async def test_only_its_owner_finds_it(
    prompts: SealedPrompts, rows: SealedTable[PromptRow], moved: dict[str, str]
) -> None:
    """A row that was moved to another user, chat or model does not open there, and gives way."""
    await prompts.keep(OWNER, FIRST, instead_of=None)
    row = await rows.get(KEY)
    assert row is not None
    theirs = row._replace(**moved)  # type: ignore[arg-type]
    other = RequestOrigin(*theirs[:2], "", "", theirs[2])
    assert await prompts.find(other) is None
    assert await rows.add(theirs, instead_of=None)
    assert await prompts.find(other) is None
    assert await prompts.keep(other, OTHER, instead_of=None) == OTHER
    assert await prompts.find(other) == OTHER


async def test_a_row_shows_nothing_of_the_prompt_and_its_use_is_stamped(database: Database) -> None:
    """So that the prompt of a chat in use is not swept; one of another key counts as none."""
    rows = SealedTable(database, PromptRow, clock=(clock := Clock()))
    await SealedPrompts(database, KEYRING, clock=clock).keep(OWNER, FIRST, instead_of=None)
    row = await rows.get(KEY)
    assert row is not None
    assert (b"ten" in row.payload, row.key_id) == (False, KEYRING.first_id)
    assert (row.created, row.last_used) == (NOW, NOW)
    clock.now += STAMP_INTERVAL_SECONDS
    assert await SealedPrompts(database, Keyring(["another"]), clock=clock).find(OWNER) is None
    await database.aclose()
    assert (await rows.get(KEY) or row).last_used == clock.now


async def test_a_long_prompt_is_kept_whole(prompts: SealedPrompts) -> None:
    """Up to a megabyte; more is refused."""
    long = KeptPrompt("x\n" * 100_000)
    await prompts.keep(OWNER, long, instead_of=None)
    assert await prompts.find(OWNER) == long
    with pytest.raises(ItemTooLarge):
        await prompts.keep(OWNER, KeptPrompt("x" * MAX_PROMPT_BYTES), instead_of=long)
