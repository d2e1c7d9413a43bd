"""Summaries in SQLite, PostgreSQL and memory: the contract, seals, stamps of use, and claims of several workers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreError
from open_webui_openrouter_pipe.ports import Summaries
from open_webui_openrouter_pipe.store import kept
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import MAX_SUMMARY_BYTES, MemorySummaries, SealedSummaries
from open_webui_openrouter_pipe.store.schema import SummaryRow
from open_webui_openrouter_pipe.store.sealing import (
    COMPRESSED,
    SEALED,
    ItemTooLarge,
    Keyring,
    encode_item,
    pack,
)
from open_webui_openrouter_pipe.store.table import STAMP_INTERVAL_SECONDS, SealedTable
from tests.store.contract import KEYRING, NOW, Clock
from tests.store.summary_contract import SummariesContract, chain, chains, segment, stored, summary

if TYPE_CHECKING:
    from collections.abc import Sequence


pytestmark = pytest.mark.anyio

KEY = ("ada", chain(0).hex(), chain(5).hex())
FOUND = {segment(0, 5): summary("what was said")}


class TestStored(SummariesContract):
    @pytest.fixture
    def rows(self, database: Database, clock: Clock) -> SealedTable[SummaryRow]:
        return SealedTable(database, SummaryRow, clock=clock)

    @pytest.fixture
    def store(self, database: Database, clock: Clock) -> SealedSummaries:
        return SealedSummaries(database, KEYRING, clock=clock)

    async def test_a_claim_of_another_worker_is_left_alone(self, database: Database, clock: Clock) -> None:
        """A worker releases only its own claims, also when one has ended and is another's by now."""
        one, other = (SealedSummaries(database, KEYRING, clock=clock) for _ in range(2))
        assert await one.claim("ada", segment(0, 5), seconds=60)
        await other.release("ada", segment(0, 5))
        assert not await other.claim("ada", segment(0, 5), seconds=60)
        clock.now += 60
        assert await other.claim("ada", segment(0, 5), seconds=60)
        await one.release("ada", segment(0, 5))
        assert not await one.claim("ada", segment(0, 5), seconds=60)

    async def test_a_summary_belongs_to_the_chat_that_uses_it(
        self, store: SealedSummaries, database: Database, rows: SealedTable[SummaryRow], clock: Clock
    ) -> None:
        """From the stamp of its use on, once a day; a use without a chat moves none."""
        await store.keep(stored(0, 5))
        found, day = [], STAMP_INTERVAL_SECONDS
        for seconds, chat_id in ((day - 1, "early"), (1, "clone"), (1, "late"), (day, "")):
            clock.now += seconds
            await store.find("ada", chains(*range(7)), chat_id=chat_id)
            await database.aclose()
            found += [(row.chat_id, row.last_used - NOW) for row in [await rows.get(KEY)] if row]
        assert found == [("chat-1", 0), ("clone", day), ("clone", day), ("clone", 2 * day + 1)]

    async def test_a_summary_that_does_not_open_is_replaced(
        self, store: SealedSummaries, database: Database
    ) -> None:
        """When its key is lost, the next summary of the segment is kept; with the old key listed, the first one is."""
        await store.keep(stored(0, 5))
        both = SealedSummaries(database, Keyring(["new", "a passphrase"]))
        await both.keep(stored(0, 5, "not needed"))
        assert await both.find("ada", chains(0, 5), chat_id="chat-1") == FOUND
        new = SealedSummaries(database, Keyring(["new"]))
        assert await new.find("ada", chains(0, 5), chat_id="chat-1") == {}
        await new.keep(stored(0, 5, "again"))
        await new.keep(stored(0, 5, "and again"))
        assert await new.find("ada", chains(0, 5), chat_id="chat-1") == {segment(0, 5): summary("again")}

    @pytest.mark.parametrize("text", ["\0", "\ud800"])
    async def test_names_that_databases_refuse(self, store: SealedSummaries, text: str) -> None:
        """Keeping raises, and finding returns nothing."""
        with pytest.raises(StoreError):
            await store.keep(stored(0, 5, chat_id=text))
        assert await store.find(text, chains(0, 5), chat_id="chat-1") == {}


class TestMemorySummaries(SummariesContract):
    @pytest.fixture
    def store(self, clock: Clock) -> Summaries:
        return MemorySummaries(clock=clock)


async def test_the_summaries_unused_for_longest_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summaries of temporary chats cannot fill the memory; those in use stay."""
    monkeypatch.setattr(kept, "MAX_SUMMARIES_IN_MEMORY", 3)
    store = MemorySummaries()
    for start in (0, 1, 2):
        await store.keep(stored(start, start + 1))
    await store.find("ada", chains(0, 1), chat_id="")
    for start in (3, 4):
        await store.keep(stored(start, start + 1))
    found = await store.find("ada", chains(*range(9)), chat_id="")
    assert found.keys() == {segment(0, 1), segment(3, 4), segment(4, 5)}


class FakeRows(SealedTable[SummaryRow]):
    """Finds the rows that a test names."""

    def __init__(self, database: Database, *rows: SummaryRow) -> None:
        super().__init__(database, SummaryRow, clock=lambda: NOW)
        self.rows = list(rows)

    async def find(self, user_id: str, ids: Sequence[str]) -> list[SummaryRow]:
        return self.rows


class FakeSummaries(SealedSummaries):
    """Over such rows."""

    def __init__(self, database: Database, *rows: SummaryRow) -> None:
        super().__init__(database, KEYRING)
        self._rows = FakeRows(database, *rows)


async def test_a_row_shows_nothing_of_the_chat(sqlite_database: Database) -> None:
    """It is sealed with the first key; owner, segment and sizes are in columns, as nothing is in a claim's name."""
    rows = SealedTable(sqlite_database, SummaryRow, clock=lambda: NOW)
    store = SealedSummaries(sqlite_database, KEYRING, clock=lambda: NOW)
    await store.keep(stored(0, 5))
    row = await rows.get(KEY)
    assert row is not None
    assert b"said" not in row.payload
    where = (*KEY, 5, "chat-1", "openai/gpt-5")
    assert row._replace(payload=b"") == SummaryRow(*where, KEYRING.first_id, SEALED, b"", 9000, NOW, NOW)
    await store.claim("ada", segment(0, 5), seconds=9)
    [(name,)] = await sqlite_database.fetch(sa.select(sqlite_database.tables.lease.c.name))
    assert (name[:8], len(name), KEY[1] in name) == ("summary:", 40, False)


PLAIN = encode_item(summary("what was said").as_json())


def columns(state: Any) -> dict[str, Any]:
    """The columns of something that was sealed for the row."""
    return pack(encode_item(state), ("summary", *KEY, "5", "openai/gpt-5"), KEYRING)._asdict()


@pytest.mark.parametrize(
    ("moved", "opens"),
    [
        ({"chat_id": "clone", "source_tokens": 1, "created": 0, "last_used": 0}, True),
        (columns(summary("what was said").as_json()), True),
        ({"user_id": "eve"}, False),
        ({"start_chain": chain(1).hex()}, False),
        ({"end_chain": chain(6).hex()}, False),
        ({"start_chain": chain(5).hex(), "end_chain": chain(0).hex()}, False),
        ({"turns": 6}, False),
        ({"model": "openai/gpt-4"}, False),
        ({"packing": SEALED | COMPRESSED}, False),
        ({"packing": 0}, False),
        ({"key_id": "0" * 16}, False),
        ({"payload": b""}, False),
        ({"packing": 0, "payload": PLAIN}, False),
        ({"packing": 0, "key_id": "", "payload": PLAIN}, False),
        (columns({}), False),
        (columns({"told": None}), False),
        (columns(summary("text").as_json() | {"constraints": "one"}), False),
        (columns(summary("text").as_json() | {"by_model": {"summary_text": 5}}), False),
        (columns(summary("what was said").as_json() | {"added": []}), True),
    ],
)
async def test_a_payload_belongs_to_its_row(
    sqlite_database: Database, moved: dict[str, Any], caplog: pytest.LogCaptureFixture, *, opens: bool
) -> None:
    """What does not open, or is no summary, is skipped and logged once each; other rows are found all the same."""
    await SealedSummaries(sqlite_database, KEYRING, clock=lambda: NOW).keep(stored(0, 5))
    kept = await SealedTable(sqlite_database, SummaryRow).get(KEY)
    assert kept is not None
    row = kept._replace(**moved)
    found = FakeSummaries(sqlite_database, row, row._replace(end_chain=chain(7).hex()))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await found.find("ada", chains(0, 5), chat_id="") == (FOUND if opens else {})
    assert (len(caplog.records), "said" in caplog.text) == (1 if opens else 2, False)
    both = FakeSummaries(sqlite_database, row, kept)
    assert await both.find("ada", chains(0, 5), chat_id="") == FOUND


async def test_a_summary_may_be_large_but_not_too_large(sqlite_database: Database) -> None:
    """The user's rules alone may be many."""
    store = SealedSummaries(sqlite_database, KEYRING)
    with pytest.raises(ItemTooLarge):
        await store.keep(stored(0, 5, "word " * (MAX_SUMMARY_BYTES // 5)))
    await store.keep(stored(0, 5, text := "word " * 100_000))
    assert await store.find("ada", chains(0, 5), chat_id="") == {segment(0, 5): summary(text)}


async def test_a_claim_that_cannot_be_released_ends_by_itself(unavailable_database: Database) -> None:
    """Whoever gives it back is not told that the database cannot be reached."""
    await SealedSummaries(unavailable_database, KEYRING).release("ada", segment(0, 5))
