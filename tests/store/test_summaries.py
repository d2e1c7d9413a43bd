"""Summaries in SQLite and PostgreSQL: the contract, seals, notes of use, claims of several workers, trouble."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreError, StoreUnavailable
from open_webui_openrouter_pipe.store.build import build_summaries, build_summary_rows
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.rows import COMPRESSED, PLAIN, SEALED, TOUCH_INTERVAL_SECONDS
from open_webui_openrouter_pipe.store.sealing import ItemTooLarge, Keyring, Sealing, encode_item, pack
from open_webui_openrouter_pipe.store.summaries import (
    MOST_BYTES,
    SealedSummaries,
    SummaryKey,
    SummaryRow,
    SummaryRows,
)
from tests.store.contract import NOW, SEALING
from tests.store.summary_contract import Clock, SummariesContract, chain, chains, segment, stored, summary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio

KEY = SummaryKey("ada", chain(0).hex(), chain(5).hex())
FOUND = {segment(0, 5): summary("what was said")}


class Contract(SummariesContract):
    @pytest.fixture
    async def rows(self, database: Database, clock: Clock) -> AsyncIterator[SummaryRows]:
        rows = build_summary_rows(database, clock=clock)
        yield rows
        await rows.aclose()

    @pytest.fixture
    def store(self, rows: SummaryRows, clock: Clock) -> SealedSummaries:
        return build_summaries(rows, SEALING, clock=clock)

    async def test_a_claim_of_another_worker_is_left_alone(self, database: Database, clock: Clock) -> None:
        """Only one's own is given back, also when it has ended and is another's by now."""
        one, other = (build_summaries(build_summary_rows(database, clock=clock), SEALING) for _ in range(2))
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
        """It is sealed with the first key; owner, place and figures stand in columns."""
        await store.keep(stored(0, 5))
        row = await rows.at(KEY)
        assert row is not None
        assert b"said" not in row.payload
        assert row._replace(payload=b"") == SummaryRow(
            *KEY,
            turns=5,
            chat_id="chat-1",
            model="openai/gpt-5",
            key_id=SEALING.keyring.first_id,
            packing=SEALED,
            payload=b"",
            source_tokens=9000,
            created=NOW,
            last_used=NOW,
        )

    async def test_a_use_is_noted_once_a_day_with_its_chat(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """The chat that uses a summary later takes it over; what is used elsewhere, or within a day, stays."""
        for each in (stored(0, 5), stored(0, 5, user_id="eve"), stored(5, 9)):
            await store.keep(each)
        clock.now += TOUCH_INTERVAL_SECONDS - 1
        await store.find("ada", chains(*range(7)), chat_id="early")
        await rows.idle()
        clock.now += 1
        await store.find("ada", chains(*range(7)), chat_id="clone")
        await rows.idle()
        clock.now += 1
        await store.find("ada", chains(*range(7)), chat_id="late")
        await rows.idle()
        keys = [KEY, KEY._replace(user_id="eve"), SummaryKey("ada", chain(5).hex(), chain(9).hex())]
        found = [row for key in keys if (row := await rows.at(key))]
        assert [(row.chat_id, row.last_used - NOW) for row in found] == [
            ("clone", TOUCH_INTERVAL_SECONDS),
            ("chat-1", 0),
            ("chat-1", 0),
        ]

    async def test_a_use_without_a_chat_moves_nothing(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """The summary is in use, and still belongs to its chat."""
        await store.keep(stored(0, 5))
        clock.now += TOUCH_INTERVAL_SECONDS
        await store.find("ada", chains(0, 5), chat_id="")
        await rows.idle()
        row = await rows.at(KEY)
        assert row is not None
        assert (row.chat_id, row.last_used) == ("chat-1", clock.now)

    async def test_a_summary_that_no_longer_opens_is_made_again(
        self, store: SealedSummaries, rows: SummaryRows, clock: Clock
    ) -> None:
        """After the key was lost the segment is summarised anew, once; with the old key listed, nothing is."""
        await store.keep(stored(0, 5))
        both = build_summaries(rows, Sealing(Keyring(["new", "a passphrase"])), clock=clock)
        await both.keep(stored(0, 5, "not needed"))
        assert await both.find("ada", chains(0, 5), chat_id="chat-1") == FOUND
        new = build_summaries(rows, Sealing(Keyring(["new"])), clock=clock)
        assert await new.find("ada", chains(0, 5), chat_id="chat-1") == {}
        await new.keep(stored(0, 5, "again"))
        await new.keep(stored(0, 5, "and again"))
        assert await new.find("ada", chains(0, 5), chat_id="chat-1") == {segment(0, 5): summary("again")}

    @pytest.mark.parametrize("text", ["\0", "\ud800"])
    async def test_names_that_databases_refuse(self, store: SealedSummaries, text: str) -> None:
        """Keeping says so, and finding gives nothing."""
        with pytest.raises(StoreError):
            await store.keep(stored(0, 5, chat_id=text))
        assert await store.find(text, chains(0, 5), chat_id="chat-1") == {}


class TestSqlite(Contract):
    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database


@pytest.mark.servers
class TestPostgres(Contract):
    @pytest.fixture
    def database(self, postgres_database: Database) -> Database:
        return postgres_database


class Fixed(SummaryRows):
    """Rows that are whatever a test says, or that never come."""

    def __init__(self, database: Database, *rows: SummaryRow, seconds: float = 0) -> None:
        super().__init__(database)
        self.rows = list(rows)
        self.seconds = seconds

    async def find(self, user_id: str, chains: Sequence[str], *, chat_id: str) -> list[SummaryRow]:
        await asyncio.sleep(self.seconds)
        return self.rows


@pytest.fixture
async def kept(sqlite_database: Database) -> SummaryRow:
    """A row as it is written."""
    rows = build_summary_rows(sqlite_database)
    await build_summaries(rows, SEALING, clock=lambda: NOW).keep(stored(0, 5))
    row = await rows.at(KEY)
    assert row is not None
    return row


async def found_in(database: Database, *rows: SummaryRow) -> Any:
    """What comes out when the database answers with these rows."""
    return await build_summaries(Fixed(database, *rows), SEALING).find("ada", chains(0, 5), chat_id="")


async def test_every_flipped_byte_is_noticed(sqlite_database: Database, kept: SummaryRow) -> None:
    """Not one of the payload's bytes can change; the other rows of the answer are found all the same."""
    assert await found_in(sqlite_database, kept) == FOUND
    flipped = []
    for place in range(len(kept.payload)):
        changed = bytearray(kept.payload)
        changed[place] ^= 0xFF
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
        {"packing": PLAIN},
        {"key_id": "0" * 16},
        {"payload": b""},
        {"packing": PLAIN, "payload": b'{"told":{}}'},
    ],
)
async def test_a_payload_belongs_to_its_row(
    sqlite_database: Database, kept: SummaryRow, moved: dict[str, Any]
) -> None:
    """Under another owner, segment, model, packing or key it does not open, and plain text is not accepted."""
    assert await found_in(sqlite_database, kept._replace(**moved)) == {}


async def test_chat_and_figures_may_change(sqlite_database: Database, kept: SummaryRow) -> None:
    """They take no part in finding."""
    moved = kept._replace(chat_id="clone", source_tokens=1, created=0, last_used=0)
    assert await found_in(sqlite_database, moved) == FOUND


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"told": None},
        summary("text").state() | {"constraints": "one"},
        summary("text").state() | {"told": {"summary_text": "text"}},
        summary("text").state() | {"added": []},
    ],
)
async def test_what_another_release_wrote_is_passed_over(
    sqlite_database: Database, kept: SummaryRow, state: dict[str, Any]
) -> None:
    """A form that this one does not know is no summary, though its seal is right."""
    names = ("summary", *KEY, "5", "openai/gpt-5")
    packed = pack(encode_item(state), names, SEALING.keyring)
    assert await found_in(sqlite_database, kept._replace(**packed._asdict())) == {}
    whole = pack(encode_item(summary("what was said").state()), names, SEALING.keyring)
    assert await found_in(sqlite_database, kept._replace(**whole._asdict())) == FOUND


async def test_a_row_that_does_not_open_is_told_once(
    sqlite_database: Database, kept: SummaryRow, caplog: pytest.LogCaptureFixture
) -> None:
    """A chat that goes on beside it does not fill the log."""
    rows = Fixed(sqlite_database, kept._replace(model="other"), kept._replace(user_id="eve"))
    store = build_summaries(rows, SEALING)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert await store.find("ada", chains(0, 5), chat_id="") == {}
    assert len(caplog.records) == 2
    assert "said" not in caplog.text


async def test_a_slow_store_gives_nothing_in_time(sqlite_database: Database, kept: SummaryRow) -> None:
    """The request goes on without its summaries."""
    slow = SealedSummaries(Fixed(sqlite_database, kept, seconds=60), SEALING.keyring, find_seconds=0.05)
    began = time.monotonic()
    assert await slow.find("ada", chains(0, 5), chat_id="") == {}
    assert time.monotonic() - began < 5


async def test_without_encrypt_all_summaries_are_sealed(sqlite_database: Database) -> None:
    """They retell what was said."""
    rows = build_summary_rows(sqlite_database)
    await build_summaries(rows, Sealing(SEALING.keyring, encrypt_all=False)).keep(stored(0, 5))
    row = await rows.at(KEY)
    assert row is not None
    assert (row.packing, row.key_id) == (SEALED, SEALING.keyring.first_id)


async def test_large_summaries_are_compressed_and_too_large_ones_refused(sqlite_database: Database) -> None:
    """The user's rules alone may be many."""
    rows = build_summary_rows(sqlite_database)
    store = build_summaries(rows, SEALING)
    with pytest.raises(ItemTooLarge):
        await store.keep(stored(0, 5, "word " * (MOST_BYTES // 5)))
    await store.keep(stored(0, 5, text := "word " * 100_000))
    row = await rows.at(KEY)
    assert row is not None
    assert (row.packing, len(row.payload) < 50_000) == (SEALED | COMPRESSED, True)
    assert await store.find("ada", chains(0, 5), chat_id="") == {segment(0, 5): summary(text)}


async def test_a_mended_row_is_not_replaced(sqlite_database: Database, kept: SummaryRow) -> None:
    """Of two workers that find a row unreadable the first one writes."""
    rows = build_summary_rows(sqlite_database)
    unreadable = kept._replace(payload=b"\x01unreadable")
    await rows.replace(kept, unreadable)
    first, second = kept._replace(model="first"), kept._replace(model="second")
    await rows.replace(unreadable, first)
    await rows.replace(unreadable, second)
    assert await rows.at(KEY) == first


async def test_a_find_goes_by_the_primary_key(sqlite_database: Database, kept: SummaryRow) -> None:
    """SQLite searches the index once for each start, and not for each pair of ends."""
    seen: list[str] = []
    engine = sqlite_database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    await build_summary_rows(sqlite_database).find("ada", [KEY.start_chain], chat_id="")
    explained = f"EXPLAIN QUERY PLAN {seen[0]}"
    plan = await sqlite_database.run(
        lambda connection: connection.exec_driver_sql(explained, ("ada", "[]", "[]"))
    )
    assert "(user_id=? AND start_chain=?)" in " / ".join(line[3] for line in plan)


async def test_claims_show_nobodys_id(sqlite_database: Database) -> None:
    """The table of leases holds neither users nor digests of what they said."""
    await build_summaries(build_summary_rows(sqlite_database), SEALING).claim("ada", segment(0, 5), seconds=9)
    chosen = sa.select(sqlite_database.tables.lease.c.name)
    found = await sqlite_database.run(lambda connection: connection.execute(chosen))
    [name] = found.scalars()
    assert (name[:8], len(name)) == ("summary:", 40)
    assert KEY.start_chain not in name


async def test_a_database_that_is_away(tmp_path: Path) -> None:
    """Finding and giving back do not fail; keeping and claiming say so."""
    away = build_summaries(
        build_summary_rows(Database.from_url(f"sqlite:///{tmp_path}/no/such/folder/rows.db")), SEALING
    )
    assert await away.find("ada", chains(0, 5), chat_id="chat-1") == {}
    await away.release("ada", segment(0, 5))
    for work in (away.keep(stored(0, 5)), away.claim("ada", segment(0, 5), seconds=60)):
        with pytest.raises(StoreUnavailable):
            await work
    # The driver's threads still report to the event loop for a moment.
    await asyncio.sleep(0.2)


@pytest.mark.servers
async def test_a_locked_table_gives_nothing_in_time(
    postgres_database: Database, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """Whatever the database waits for, the request does not wait with it."""
    rows = build_summary_rows(postgres_database)
    store = SealedSummaries(rows, SEALING.keyring, find_seconds=0.2)
    await store.keep(stored(0, 5))
    other = Database.from_url(postgres_server.url, schema=postgres_schema)
    locked, done = asyncio.Event(), asyncio.Event()

    async def lock(connection: Any) -> None:
        await connection.execute(sa.text(f'LOCK TABLE "{postgres_schema}".session_summaries'))
        locked.set()
        await done.wait()

    holding = asyncio.create_task(other.run(lock))
    await locked.wait()
    assert await store.find("ada", chains(0, 5), chat_id="") == {}
    done.set()
    await holding
    assert await store.find("ada", chains(0, 5), chat_id="") == FOUND
    await rows.aclose()
    await other.aclose()
