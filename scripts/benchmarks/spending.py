"""How long `/spending` takes over a ledger of a million rows, on SQLite and PostgreSQL.

The rows are of 30 days, and as they are in the ledger: of a user, a model and a quarter of an hour each. Measured is an
administrator's whole report, with the limits of all users and its page; beside it, in turns, one `SELECT` of the same
rows that adds up their cost by the columns that the report is grouped by, and reads the result. `ratio` divides the
medians. Goal: at most 2. `longest_hold_ms` is the processor time that the event loop's thread has spent at most before
something else had its turn: what other programs take meanwhile does not count.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import aclosing, closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg
import sqlalchemy as sa
import uvloop

from open_webui_openrouter_pipe.context.spending import spending_page, spending_text
from open_webui_openrouter_pipe.money.limits import DAY_QUARTERS, QUARTER_SECONDS, Person, read_limits
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.turn.bill import SpendingServices
from open_webui_openrouter_pipe.turn.commands import SpendingReader
from open_webui_openrouter_pipe.turn.late_bills import LateBills
from scripts.harness.database import SQLITE_SETTINGS, open_database
from scripts.harness.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from open_webui_openrouter_pipe.store.database import Database
    from open_webui_openrouter_pipe.turn.fit import PlannerServices

ROWS: Final = 1_000_000
DAYS: Final = 30
NOON: Final = 1_795_867_200
SHAPES: Final = {"few_groups": (200, 5), "many_groups": (2_000, 8)}
"""How many users and models there are."""
ROUNDS: Final = 3
_WATCH_SECONDS: Final = 0.001
DAY_SECONDS: Final = 24 * 60 * 60


def run() -> dict[str, Any]:
    """Seconds, their ratio, milliseconds."""
    with tempfile.TemporaryDirectory(prefix="spending-") as folder:
        server_folder = Path(folder, "server")
        server_folder.mkdir()
        Path(folder).chmod(0o755)
        server = PostgresServer(server_folder)
        try:
            urls = {"sqlite": f"sqlite:///{folder}/rows.db", "postgresql": server.url}
            return {
                f"{name}_{shape}": uvloop.run(_measure(url, *SHAPES[shape]))
                for name, url in urls.items()
                for shape in SHAPES
            }
        finally:
            server.stop()


async def _measure(url: str, users: int, models: int) -> dict[str, Any]:
    async with aclosing(open_database(url)) as database:
        await _fill(database, users, models)
        plain, ours, holds = [], [], []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            groups = await asyncio.to_thread(_plain, database)
            plain.append(time.perf_counter() - began)
            watch = asyncio.create_task(_longest_hold())
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            await _report(database, users)
            ours.append(time.perf_counter() - began)
            watch.cancel()
            holds.append(await watch)
    return {
        "groups": groups,
        "select_seconds": round(median(plain), 2),
        "report_seconds": round(median(ours), 2),
        "ratio": round(median(ours) / median(plain), 2),
        "longest_hold_ms": round(max(holds) * 1000, 1),
    }


async def _fill(database: Database, users: int, models: int) -> None:
    """Make the rows, whatever was there before."""
    table = database.tables.usage
    await database.fetch(sa.select(database.tables.lease))  # creates the tables
    await database.change(sa.delete(table))
    first = (NOON // DAY_SECONDS - DAYS + 1) * DAY_QUARTERS
    step = (NOON // QUARTER_SECONDS - first) / (ROWS / users / models)
    numbers = "WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k < :last)"
    statement = sa.text(
        f"INSERT INTO {table.fullname} (account, quarter, model, failure, requests, input_tokens, cached_tokens,"  # noqa: S608
        " output_tokens, cost, input_cost, read_cost, saved, provider_cost)"
        f" {numbers} SELECT 'user:' || (k % :users), :first + CAST((k / (:users * :models)) * :step AS INTEGER),"
        " 'maker/model-' || ((k / :users) % :models), '', 3, 9000, 5400, 700, 0.01, 0.005, 0.001, 0.002, 0.0 FROM n"
    )
    values = {"last": ROWS - 1, "users": users, "models": models, "first": first, "step": step}
    types = {name: sa.Double if name == "step" else sa.BigInteger for name in values}
    typed = statement.bindparams(*(sa.bindparam(name, type_=kind) for name, kind in types.items()))
    async with database._engine.begin() as connection:  # noqa: SLF001 - no other way is without a time limit
        await connection.execute(typed, values)
    async with database._engine.connect() as connection:  # noqa: SLF001
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(sa.text("ANALYZE"))


def _plain(database: Database) -> int:
    """Add up the cost of all rows by what the report is grouped by, in a thread of its own."""
    table = database.tables.usage
    statement = (
        f"SELECT account, model, failure, quarter / 96, SUM(cost) FROM {table.fullname}"  # noqa: S608
        " GROUP BY account, model, failure, quarter / 96"
    )
    address = database._engine.url  # noqa: SLF001
    if database.dialect == "sqlite":
        with closing(sqlite3.connect(str(address.database))) as connection:
            for setting in SQLITE_SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            return len(connection.execute(statement).fetchall())
    with psycopg.connect(address.set(drivername="postgresql").render_as_string()) as found:
        return len(found.execute(statement.encode()).fetchall())


async def _report(database: Database, users: int) -> None:
    people = {str(user): Person(f"User {user}") for user in range(users)}

    async def everybody() -> Mapping[str, Person]:
        return people

    class _Planner:
        class memory:  # noqa: N801
            clock = staticmethod(lambda: float(NOON))

    ledger = SpendingLedger(database, clock=lambda: NOON)
    planner, late = cast("PlannerServices", _Planner()), LateBills(asyncio.ensure_future)
    services = SpendingServices(ledger, planner, lambda _: everybody(), late)  # type: ignore[arg-type,return-value]
    limits = read_limits("user: 5/day 90/month; all: 500/month")
    report = await SpendingReader(services, limits, everybody, "root", is_admin=True).read(str(DAYS))
    assert report.total.requests == 3 * ROWS, report.total

    def draw() -> int:
        return len(spending_page(report)) + len(spending_text(report))

    await asyncio.to_thread(draw)


async def _longest_hold() -> float:
    """Watch the event loop until cancelled; return for how many seconds of its thread it was held at most."""
    longest, last = 0.0, time.thread_time()
    try:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest


BENCHMARKS = {"spending": run}
