"""Summaries in SQLite, PostgreSQL and memory: the contract, seals, stamps of use, and claims of several workers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreError, StoreUnavailable
from open_webui_openrouter_pipe.ports import Summaries
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import (
    MAX_SUMMARY_BYTES,
    MemorySummaries,
    SealedSummaries,
    SummaryRow,
    SummaryRows,
)
from open_webui_openrouter_pipe.store.sealing import (
    COMPRESSED,
    SEALED,
    ItemTooLarge,
    Keyring,
    encode_item,
    pack,
)
from open_webui_openrouter_pipe.store.table import STAMP_INTERVAL_SECONDS
from tests.store.contract import KEYRING, NOW
from tests.store.summary_contract import Clock, SummariesContract, chain, chains, segment, stored, summary
from tests.store.waiting import driver_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio

KEY = ("ada", chain(0).hex(), chain(5).hex())
STATE = summary("text").as_json()
FOUND = {segment(0, 5): summary("what was said")}


class StoredContract(SummariesContract):
    @pytest.fixture
    async def rows(self, database: Database, clock: Clock) -> AsyncIterator[SummaryRows]:
        rows = SummaryRows(database, clock=clock)
        yield rows
        await rows.aclose()

    @pytest.fixture
    def store(self, rows: SummaryRows, clock: Clock) -> SealedSummaries:
        return SealedSummaries(rows, KEYRING, clock=clock)

    async def test_a_claim_of_another_worker_is_left_alone(self, database: Database, clock: Clock) -> None:
        """A worker releases only its own claims, also when one has ended and is another's by now."""
        one, other = (SealedSummaries(SummaryRows(database, clock=clock), KEYRING) for _ in range(2))
        assert await one.claim("ada", segment(0, 5), seconds=60)
        await other.release("ada", segment(0, 5))
        assert not await other.claim("ada", segment(0, 5), seconds=60)
        clock.now += 60
        assert await other.claim("ada", segment(0, 5), seconds=60)
        await one.release("ada", segment(0, 5))
        assert not await one.claim("ada", segment(0, 5), seconds=60)

    async def test_a_find_is_one_query(self, database: Database, store: SealedSummaries) -> None:
        """However long the conversation is."""
        await store.keep(stored(0, 5))
        seen: list[str] = []
        engine = database._engine.sync_engine
        sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
        assert await store.find("ada", chains(*range(5001)), chat_id="chat-1") == FOUND
        assert [statement.split()[0] for statement in seen] == ["SELECT"]

    async def test_a_row_shows_nothing_of_the_chat(self, store: SealedSummaries, rows: SummaryRows) -> None:
        """It is sealed with the first key; owner, segment and sizes are in columns."""
        await store.keep(stored(0, 5))
        row = await rows.get(KEY)
        assert row is not None
        assert b"said" not in row.payload
        assert row._replace(payload=b"") == SummaryRow(
            *KEY,
            turns=5,
            chat_id="chat-1",
            model="openai/gpt-5",
            key_id=KEYRING.first_id,
            packing=SEALED,
            payload=b"",
            source_tokens=9000,
            created=NOW,
            last_used=NOW,
        )

    async def test_a_use_is_stamped_once_a_day_with_its_chat(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """A summary moves to the chat that uses it after a day; other rows stay as they are."""
        for each in (stored(0, 5), stored(0, 5, user_id="eve"), stored(5, 9)):
            await store.keep(each)
        clock.now += STAMP_INTERVAL_SECONDS - 1
        await store.find("ada", chains(*range(7)), chat_id="early")
        await rows.idle()
        clock.now += 1
        await store.find("ada", chains(*range(7)), chat_id="clone")
        await rows.idle()
        clock.now += 1
        await store.find("ada", chains(*range(7)), chat_id="late")
        await rows.idle()
        keys = [KEY, ("eve", *KEY[1:]), ("ada", chain(5).hex(), chain(9).hex())]
        found = [row for key in keys if (row := await rows.get(key))]
        assert [(row.chat_id, row.last_used - NOW) for row in found] == [
            ("clone", STAMP_INTERVAL_SECONDS),
            ("chat-1", 0),
            ("chat-1", 0),
        ]

    async def test_a_use_without_a_chat_moves_nothing(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """The summary is stamped, and still belongs to its chat."""
        await store.keep(stored(0, 5))
        clock.now += STAMP_INTERVAL_SECONDS
        await store.find("ada", chains(0, 5), chat_id="")
        await rows.idle()
        row = await rows.get(KEY)
        assert row is not None
        assert (row.chat_id, row.last_used) == ("chat-1", clock.now)

    async def test_a_summary_that_does_not_open_is_replaced(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """When its key is lost, the next summary of the segment is kept; with the old key listed, the first one is."""
        await store.keep(stored(0, 5))
        both = SealedSummaries(rows, Keyring(["new", "a passphrase"]), clock=clock)
        await both.keep(stored(0, 5, "not needed"))
        assert await both.find("ada", chains(0, 5), chat_id="chat-1") == FOUND
        new = SealedSummaries(rows, Keyring(["new"]), clock=clock)
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


class TestSqlite(StoredContract):
    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database


@pytest.mark.servers
class TestPostgres(StoredContract):
    @pytest.fixture
    def database(self, postgres_database: Database) -> Database:
        return postgres_database


class TestMemorySummaries(SummariesContract):
    @pytest.fixture
    def store(self, clock: Clock) -> Summaries:
        return MemorySummaries(clock=clock)


async def test_the_summaries_unused_for_longest_are_deleted() -> None:
    """The summaries of temporary chats cannot fill the memory; those in use stay."""
    store = MemorySummaries(limit=3)
    for start in (0, 1, 2):
        await store.keep(stored(start, start + 1))
    await store.find("ada", chains(0, 1), chat_id="")
    for start in (3, 4):
        await store.keep(stored(start, start + 1))
    found = await store.find("ada", chains(*range(9)), chat_id="")
    assert found.keys() == {segment(0, 1), segment(3, 4), segment(4, 5)}


def sealed(rows: SummaryRows) -> SealedSummaries:
    """The engine's store over these rows."""
    return SealedSummaries(rows, KEYRING)


class FakeRows(SummaryRows):
    """Finds the rows that a test names."""

    def __init__(self, database: Database, *rows: SummaryRow) -> None:
        super().__init__(database)
        self.rows = list(rows)

    async def find(self, user_id: str, chains: Sequence[str], *, chat_id: str) -> list[SummaryRow]:
        return self.rows


@pytest.fixture
async def kept(sqlite_database: Database) -> SummaryRow:
    """A row as it is written."""
    rows = SummaryRows(sqlite_database)
    await SealedSummaries(rows, KEYRING, clock=lambda: NOW).keep(stored(0, 5))
    row = await rows.get(KEY)
    assert row is not None
    return row


async def found_in(database: Database, *rows: SummaryRow) -> Any:
    """What is found when the database returns these rows."""
    return await sealed(FakeRows(database, *rows)).find("ada", chains(0, 5), chat_id="")


async def test_every_flipped_byte_is_noticed(sqlite_database: Database, kept: SummaryRow) -> None:
    """Not one of the payload's bytes can change; the other rows of the answer are found all the same."""
    assert await found_in(sqlite_database, kept) == FOUND
    flipped = []
    for index in range(len(kept.payload)):
        changed = bytearray(kept.payload)
        changed[index] ^= 0xFF
        flipped.append(kept._replace(payload=bytes(changed)))
    assert await found_in(sqlite_database, *flipped) == {}
    assert await found_in(sqlite_database, flipped[0], kept, flipped[-1]) == FOUND


@pytest.mark.parametrize(
    "moved",
    [
        {"user_id": "eve"},
        {"start_chain": chain(1).hex()},
        {"end_chain": chain(6).hex()},
        {"start_chain": chain(5).hex(), "end_chain": chain(0).hex()},
        {"turns": 6},
        {"model": "openai/gpt-4"},
        {"packing": SEALED | COMPRESSED},
        {"packing": 0},
        {"key_id": "0" * 16},
        {"payload": b""},
        {"packing": 0, "payload": encode_item(summary("what was said").as_json())},
        {"packing": 0, "key_id": "", "payload": encode_item(summary("what was said").as_json())},
    ],
)
async def test_a_payload_belongs_to_its_row(
    sqlite_database: Database, kept: SummaryRow, moved: dict[str, Any]
) -> None:
    """Under another owner, segment, model, packing or key it does not open, and plain text is not accepted."""
    assert await found_in(sqlite_database, kept._replace(**moved)) == {}


async def test_chat_and_sizes_may_change(sqlite_database: Database, kept: SummaryRow) -> None:
    """They take no part in finding."""
    moved = kept._replace(chat_id="clone", source_tokens=1, created=0, last_used=0)
    assert await found_in(sqlite_database, moved) == FOUND


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"told": None},
        summary("text").as_json() | {"constraints": "one"},
        summary("text").as_json() | {"by_model": {"summary_text": 5}},
        summary("text").as_json() | {"added": []},
    ],
)
async def test_what_another_release_wrote_is_skipped(
    sqlite_database: Database, kept: SummaryRow, state: dict[str, Any]
) -> None:
    """A form that this one does not know is not a summary, though its seal is right."""
    names = ("summary", *KEY, "5", "openai/gpt-5")
    packed = pack(encode_item(state), names, KEYRING)
    assert await found_in(sqlite_database, kept._replace(**packed._asdict())) == {}
    whole = pack(encode_item(summary("what was said").as_json()), names, KEYRING)
    assert await found_in(sqlite_database, kept._replace(**whole._asdict())) == FOUND


async def test_a_row_that_does_not_open_is_logged_once(
    sqlite_database: Database, kept: SummaryRow, caplog: pytest.LogCaptureFixture
) -> None:
    """A chat that goes on does not fill the log."""
    rows = FakeRows(sqlite_database, kept._replace(model="other"), kept._replace(user_id="eve"))
    store = sealed(rows)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert await store.find("ada", chains(0, 5), chat_id="") == {}
    assert len(caplog.records) == 2
    assert "said" not in caplog.text


async def test_large_summaries_are_compressed_and_too_large_ones_rejected(sqlite_database: Database) -> None:
    """The user's rules alone may be many."""
    rows = SummaryRows(sqlite_database)
    store = sealed(rows)
    with pytest.raises(ItemTooLarge):
        await store.keep(stored(0, 5, "word " * (MAX_SUMMARY_BYTES // 5)))
    await store.keep(stored(0, 5, text := "word " * 100_000))
    row = await rows.get(KEY)
    assert row is not None
    assert (row.packing, len(row.payload) < 50_000) == (SEALED | COMPRESSED, True)
    assert await store.find("ada", chains(0, 5), chat_id="") == {segment(0, 5): summary(text)}


async def test_an_unreadable_row_is_replaced_once(sqlite_database: Database, kept: SummaryRow) -> None:
    """Of two workers that find a row unreadable the first one writes."""
    rows = SummaryRows(sqlite_database)
    unreadable = kept._replace(payload=b"\x01unreadable")
    await rows.add(unreadable, unreadable=kept)
    first, second = kept._replace(model="first"), kept._replace(model="second")
    await rows.add(first, unreadable=unreadable)
    await rows.add(second, unreadable=unreadable)
    assert await rows.get(KEY) == first


async def test_a_find_goes_by_the_primary_key(sqlite_database: Database, kept: SummaryRow) -> None:
    """SQLite searches the index once for each start, and not for each pair of ends."""
    seen: list[str] = []
    engine = sqlite_database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    await SummaryRows(sqlite_database).find("ada", [KEY[1]], chat_id="")
    explained = f"EXPLAIN QUERY PLAN {seen[0]}"
    plan = await sqlite_database.run(
        lambda connection: connection.exec_driver_sql(explained, ("ada", "[]", "[]"))
    )
    assert "(user_id=? AND start_chain=?)" in " / ".join(line[3] for line in plan)


async def test_claims_show_nobodys_id(sqlite_database: Database) -> None:
    """The table of leases holds neither users nor digests of what they said."""
    await sealed(SummaryRows(sqlite_database)).claim("ada", segment(0, 5), seconds=9)
    chosen = sa.select(sqlite_database.tables.lease.c.name)
    found = await sqlite_database.run(lambda connection: connection.execute(chosen))
    [name] = found.scalars()
    assert (name[:8], len(name)) == ("summary:", 40)
    assert KEY[1] not in name


async def test_an_unavailable_database(tmp_path: Path) -> None:
    """Finding and releasing do not fail; keeping and claiming raise."""
    database = Database.from_url(f"sqlite:///{tmp_path}/no/such/folder/rows.db")
    summaries = sealed(SummaryRows(database))
    assert await summaries.find("ada", chains(0, 5), chat_id="chat-1") == {}
    await summaries.release("ada", segment(0, 5))
    for work in (summaries.keep(stored(0, 5)), summaries.claim("ada", segment(0, 5), seconds=60)):
        with pytest.raises(StoreUnavailable):
            await work
    await driver_threads()


@pytest.mark.servers
async def test_a_locked_table_finds_nothing_in_time(
    postgres_database: Database, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """Whatever the database waits for, the request does not wait with it."""
    await sealed(SummaryRows(postgres_database)).keep(stored(0, 5))
    hasty = Database.from_url(postgres_server.url, schema=postgres_schema, read_seconds=0.2)
    other = Database.from_url(postgres_server.url, schema=postgres_schema)
    locked, done = asyncio.Event(), asyncio.Event()

    async def lock(connection: Any) -> None:
        await connection.execute(sa.text(f'LOCK TABLE "{postgres_schema}".openrouter_pipe_summary'))
        locked.set()
        await done.wait()

    holding = asyncio.create_task(other.run(lock))
    await locked.wait()
    assert await sealed(SummaryRows(hasty)).find("ada", chains(0, 5), chat_id="") == {}
    done.set()
    await holding
    assert await sealed(SummaryRows(postgres_database)).find("ada", chains(0, 5), chat_id="") == FOUND
    await hasty.aclose()
    await other.aclose()
