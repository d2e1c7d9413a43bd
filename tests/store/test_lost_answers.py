"""A connection that is cut before, inside and after each COMMIT: whatever is written is there, and counts once.

Each transaction of `live` is cut in its turn, whatever it writes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import AccountLimit, Limit
from open_webui_openrouter_pipe.ports import KeptPrompt, RequestOrigin
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.beside import Leases
from open_webui_openrouter_pipe.store.kept import SealedPrompts, SealedSummaries
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations
from scripts.harness.database import open_database
from tests.store.contract import KEYRING, NOW, artifact, sql_rows
from tests.store.summary_contract import segment, stored
from tests.store.test_sweep import FakeHost, sweep
from tests.store.workers import PATIENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from open_webui_openrouter_pipe.store.database import Database
    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio

Moment = Literal["never", "before", "inside", "after"]
"""Before COMMIT arrives; it is executed, and its answer is lost; or directly after that."""

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
BILL = Bill(user_id="ada", chat_id="c", accounts=("user:ada", "all"), cost=0.5, input_tokens=10, created=NOW)
UNDER = (
    AccountLimit(Limit("user", "", "day", 10), "user:ada"),
    AccountLimit(Limit("all", "", "day", 10), "all"),
)
ORIGIN = RequestOrigin("ada", "c", "m", "vendor/model")
DIFFER = {"payload", "key_id", "created", "last_used", "updated", "until", "holder"}
"""Columns with seals and times."""


class Cuts:
    """Cuts the connection at one COMMIT, the `chosen`, and counts them all."""

    def __init__(self) -> None:
        self.moment: Moment = "never"
        self.chosen = self.seen = 0

    def at(self, moment: Moment, chosen: int) -> None:
        self.moment, self.chosen, self.seen = moment, chosen, 0

    def next(self) -> Moment:
        """When the connection is cut at this COMMIT."""
        self.seen += 1
        return self.moment if self.seen == self.chosen else "never"

    def wrap(self, database: Database) -> None:
        """Cut SQLite's driver, which has no connection to lose: it says that it could not commit."""
        dialect: Any = database._engine.sync_engine.dialect
        commit = dialect.do_commit

        def do_commit(connection: Any) -> None:
            moment = self.next()
            if moment != "before":
                commit(connection)
            if moment in {"before", "inside"}:
                raise sqlite3.OperationalError("database is locked")

        dialect.do_commit = do_commit

    async def pass_on(self, near: Stream, far: Stream) -> None:
        """Carry a connection of PostgreSQL's between both, until it is cut."""
        moments = list[Moment]()

        async def ask() -> None:
            while "before" not in moments and (data := await near[0].read(65536)):
                moments.extend(self.next() for _ in range(b"COMMIT" in data))
                if "before" not in moments:
                    far[1].write(data)

        async def answer() -> None:
            while "after" not in moments and (data := await far[0].read(65536)):
                if "inside" in moments:
                    return
                near[1].write(data)
                await near[1].drain()

        pumps = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            near[1].close()
            far[1].close()

    @asynccontextmanager
    async def proxy(self, host: str, port: int) -> AsyncIterator[int]:
        """A port through which PostgreSQL is reached."""
        tasks = list[asyncio.Task[None]]()

        async def serve(*near: Any) -> None:
            far = await asyncio.open_connection(host, port)
            tasks.append(asyncio.create_task(self.pass_on(near, far)))

        server = await asyncio.start_server(serve, "127.0.0.1")
        yield server.sockets[0].getsockname()[1]
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def cuts() -> Cuts:
    return Cuts()


@pytest.fixture
async def cut_sqlite(sqlite_database: Database, cuts: Cuts) -> Database:
    """A file whose driver may fail."""
    cuts.wrap(sqlite_database)
    return sqlite_database


@pytest.fixture
async def cut_postgres(
    postgres_server: PostgresServer, postgres_schema: str, cuts: Cuts
) -> AsyncIterator[Database]:
    """PostgreSQL behind a connection that may be cut."""
    url = make_url(postgres_server.url)
    async with cuts.proxy(url.host or "127.0.0.1", url.port or 5432) as port:
        through = url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        through = through.replace("postgresql+psycopg", "postgresql")
        async with aclosing(
            open_database(through, schema=postgres_schema, read_seconds=PATIENT_SECONDS)
        ) as found:
            yield found


@pytest.fixture
def cut_database(request: pytest.FixtureRequest) -> Database:
    """The database of the test's own choice."""
    found: Database = request.getfixturevalue(f"cut_{request.param}")
    return found


async def live(database: Database) -> list[Any]:
    """Whatever a worker writes; return what it was told."""
    ledger, hold = SpendingLedger(database, clock=lambda: NOW), database.tables.hold
    told: list[Any] = [await ledger.hold(replace(BILL, id=name), 2, UNDER) for name in ("h1", "h2", "h3")]
    ledger.write(replace(BILL, id="h1", cost=0.75))
    ledger.release(replace(BILL, id="h2"))
    await ledger.idle()
    await database.change(sa.update(hold).values(until=NOW).where(hold.c.id == "h3"))
    await ledger.settle()
    for bill in (
        replace(BILL, id="b1", cost=2.0, estimated=True),
        replace(BILL, id="b1"),
        replace(BILL, id="h3"),
    ):
        ledger.write(bill)
        await ledger.idle()
    await ledger.aclose()
    artifacts = SealedArtifacts(sql_rows(database), KEYRING)
    await artifacts.put([artifact(1), artifact(2)])
    await artifacts.delete("ada", [artifact(1).id])
    summaries = SealedSummaries(database, KEYRING)
    told.append(await summaries.claim("ada", segment(0, 5), seconds=60))
    told.append(await summaries.claim("ada", segment(0, 5), seconds=60))
    await summaries.keep(stored(0, 5))
    await summaries.keep(stored(0, 5, "another"))
    await summaries.release("ada", segment(0, 5))
    prompts, kept = SealedPrompts(database, KEYRING), KeptPrompt("You are kind.", "")
    told.append(await prompts.keep(ORIGIN, kept, instead_of=None) == kept)
    told.append(await prompts.keep(ORIGIN, replace(kept, text="other"), instead_of=kept))
    leases = Leases(database)
    told += [await leases.take("sweep", 60), await leases.extend("sweep", 60)]
    await leases.release("sweep")
    calibrations = StoredCalibrations(database)
    await calibrations.find("a/model")
    for _ in range(2):
        calibrations.learn("a/model", TokenCounts(1000), 3000)
    await calibrations.aclose()
    told.append(await StoredCalibrations(database).find("a/model"))
    told.append(await everything(database))
    await sweep(database, FakeHost(), now=NOW + 200 * DAY_SECONDS)
    told.append(await everything(database))
    return told


async def everything(database: Database) -> dict[str, list[Any]]:
    """All rows of all tables, without what differs from run to run."""
    found = dict[str, list[Any]]()
    for table in database.tables.version.metadata.sorted_tables:
        columns = [column for column in table.c if column.name not in DIFFER]
        found[table.name] = sorted(map(repr, await database.fetch(sa.select(*columns))))
    return found


@pytest.mark.parametrize(
    ("cut_database", "moment"),
    [
        ("sqlite", "before"),
        ("sqlite", "inside"),
        pytest.param("postgres", "before", marks=pytest.mark.servers),
        pytest.param("postgres", "inside", marks=pytest.mark.servers),
        pytest.param("postgres", "after", marks=pytest.mark.servers),
    ],
    indirect=["cut_database"],
)
async def test_whatever_is_cut_all_is_written_once(
    cut_database: Database, cuts: Cuts, moment: Moment
) -> None:
    """The same rows, the same sums and the same answers, whichever transaction it is."""
    expected = await live(cut_database)
    assert expected[:3] == [True] * 3
    transactions, chosen = cuts.seen, 0
    while chosen < transactions:
        chosen += 1
        cuts.at("never", 0)
        for table in cut_database.tables.version.metadata.sorted_tables:
            if table is not cut_database.tables.version:
                await cut_database.change(sa.delete(table))
        cuts.at(moment, chosen)
        assert await live(cut_database) == expected, f"cut {moment} the {chosen}th of {transactions}"
