"""All statements of the store: each finds its rows by an index, and none needs a session of its own.

What a million rows would take is seen at none: the databases say how they go about each statement. Between a worker and
PostgreSQL may be pgbouncer, which gives each transaction another connection: nothing may outlive a transaction.
"""

from __future__ import annotations

import ast
import asyncio
import re
from dataclasses import replace
from datetime import UTC, date
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.ports import KeptPrompt, RequestOrigin
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.kept import SealedPrompts, SealedSummaries
from open_webui_openrouter_pipe.store.sweep import Sweep
from open_webui_openrouter_pipe.store.table import SqlRows
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations
from scripts.paths import PACKAGE
from tests.store.contract import KEYRING, NOW, Clock, artifact
from tests.store.summary_contract import chains, segment, stored, summary
from tests.store.test_bills import BILL, UNDER, estimate, ledger_at
from tests.store.test_calibrations import COUNTS
from tests.store.test_sweep import AGED, GENTLE, FakeHost, swept_tables, write
from tests.support.sql_plans import Issued, entered, issued, whole_reads

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.store.database import Database

pytestmark = pytest.mark.anyio

SMALL = {
    "openrouter_pipe_lease": "a row for each thing that one worker does for all",
    "openrouter_pipe_schema": "a row for each release",
    "openrouter_pipe_spending": "days of earlier releases, of which the sweep deletes the old ones once a day",
}
"""The tables that may be read whole, and why."""
ISSUING = {"fetch", "read", "change", "execute", "scalar", "scalars", "stream"}
NOT_OF_ROWS = {"cache", "schema"}
"""Modules of Redis, and of the tables themselves."""
OF_SESSIONS = re.compile(
    r"^\s*(SET(?! LOCAL)|LISTEN|NOTIFY|PREPARE|DISCARD)\b|\bTEMP(ORARY)?\b|\bpg_(try_)?advisory_lock"
)


async def store_everything(database: Database) -> None:
    """Do once, or more often, what the store can do."""
    clock = Clock()
    rows = SqlRows(database, clock=clock)
    artifacts = SealedArtifacts(rows, KEYRING)
    kept = [artifact(number) for number in range(3)]
    await artifacts.put(kept)
    clock.now += 2 * 24 * 60 * 60
    await artifacts.load("ada", [each.id for each in kept])
    await artifacts.delete("ada", [kept[0].id])
    summaries = SealedSummaries(database, KEYRING, clock=clock)
    await summaries.keep(stored(0, 5))
    await summaries.find("ada", chains(0, 5), chat_id="chat-2")
    await summaries.discard("ada", segment(0, 5), summary("what was said"))
    assert await summaries.claim("ada", segment(0, 5), seconds=60)
    await summaries.release("ada", segment(0, 5))
    prompts, origin = (
        SealedPrompts(database, KEYRING, clock=clock),
        RequestOrigin("ada", "chat-1", "message-1", "a/b"),
    )
    for text in ("old", "new"):
        known = await prompts.find(origin)
        await prompts.keep(origin, KeptPrompt(text), instead_of=known)
    calibrations = StoredCalibrations(database)
    await calibrations.find("vendor/model")
    for billed_tokens in (15_000, 16_000):
        calibrations.learn("vendor/model", COUNTS, billed_tokens)
    await calibrations.aclose()
    await spend(database)
    for table in swept_tables(database).values():
        await write(database, table, "01", "gone", "chat-1", AGED)
        await write(database, table, "02", "ada", "gone", AGED)
        await write(database, table, "03", "ada", "moved", AGED)
    assert await Sweep(database, FakeHost(names={("ada", "03"): "chat-1"}), GENTLE, clock=lambda: NOW).run()
    await database.aclose()


async def spend(database: Database) -> None:
    """Hold, settle, renew, bill and report."""
    dead, ledger, hold = ledger_at(database), ledger_at(database), database.tables.hold
    by_test = f"/* a test's */ UPDATE {hold.fullname} SET until = until - "
    assert await dead.hold(estimate("dead"), 0.1, UNDER)
    await dead.aclose()
    await database.change(sa.text(f"{by_test} 999"))
    assert await ledger.hold(estimate("1"), 0.1, UNDER)  # settles the other one
    until = sa.select(sa.func.max(hold.c.until))
    await database.change(sa.text(f"{by_test} 9"))
    begin = await database.fetch(until)
    async with asyncio.timeout(60):
        while await database.fetch(until) == begin:  # noqa: ASYNC110 - rows set no event
            await asyncio.sleep(0.01)
    estimated = replace(BILL, id="1", estimated=True)
    for bill in (estimated, replace(estimated, estimated=False), replace(BILL, purpose="failure", id="2")):
        ledger.write(bill)
        await ledger.idle()
    await ledger.lacking([BILL])
    await ledger.sums(["user:ada", "all"])
    await ledger.of_chat("ada", "chat-1")
    await ledger.breaks("ada", "chat-1", limit=9)
    await ledger.costs("ada", "chat-1", UTC)
    for account in ("", "user:ada"):
        await ledger.usage((date(2025, 6, 1), date(2025, 6, 15)), UTC, account)
    await ledger.aclose()


def issuing_functions() -> set[str]:
    """The innermost functions of the store that hand a statement on, as `module.function`."""
    found: set[str] = set()
    for path in (PACKAGE / "store").glob("*.py"):
        if path.stem not in NOT_OF_ROWS:
            for node in ast.parse(path.read_text("utf-8")).body:
                found |= {f"store/{path.stem}.{name}" for name in _issuing(node)}
    return found


def _issuing(node: ast.AST, function: str = "") -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    inner = set[str]().union(*(_issuing(each, function) for each in ast.iter_child_nodes(node)))
    match node:
        case ast.Call(ast.Attribute(_, name)) if name in ISSUING:
            inner.add(function)
    return inner


@pytest.fixture(autouse=True)
def renews_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is renewed without a pause."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.bills.RENEWING_SECONDS", 0.01)


async def gathered(database: Database) -> dict[str, Issued]:
    """All statements of the store, each with values."""
    with issued(database._engine) as statements, entered() as names:
        await store_everything(database)
    assert issuing_functions() - names == set()
    return statements


async def test_each_statement_has_its_index(database: Database) -> None:
    """No table that grows is read from end to end, whatever is done."""
    statements = await gathered(database)
    found: dict[str, list[str]] = {}
    for statement in statements.values():
        async with database._engine.connect() as connection:
            reads = await whole_reads(connection, statement)
        if large := [read for read in reads if not any(name in read for name in SMALL)]:
            found[statement.text] = large
    assert found == {}


async def test_no_statement_needs_a_session(database: Database) -> None:
    """Neither a setting, nor a lock, a table or a listener that lasts longer than a transaction."""
    texts: list[Any] = []
    sa.event.listen(
        database._engine.sync_engine, "before_cursor_execute", lambda *details: texts.append(details[2])
    )
    await store_everything(database)
    assert len(texts) > 50
    assert [text for text in texts if OF_SESSIONS.search(text)] == []
