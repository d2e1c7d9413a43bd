"""The audit of faults: what it finds wrong, how its faults are drawn, and the proxy before a server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from scripts.faults.audit import Report, compare_bills
from scripts.faults.proxy import Proxy
from scripts.faults.run import ACT_OF, FAULTS, Size, due_faults, plan_of
from scripts.faults.users import Turns

Json = dict[str, Any]

ROW: Json = {"id": "1", "user_id": "ada", "chat_id": "c", "model": "a/m", "purpose": "answer", "created": 1}
MONEY: Json = {"generation": "gen-1", "estimated": False, "cost": 0.25, "provider_cost": 0.0}
BILL: Json = {"id": "gen-1", "model": "a/m", "total_cost": 0.25, "upstream_inference_cost": 0, "user": "u1"}
TIMES: Json = {"began_at": 1.0, "told_at": 2.0, "is_named": True, "cancelled": False}
OTHER: Json = {**BILL, **TIMES, "id": "gen-2", "total_cost": 0.5}


def row(**fields: Any) -> Json:
    return {**ROW, **MONEY, **fields}


@pytest.mark.parametrize(
    ("rows", "bills", "violations"),
    [
        ([row()], [{**BILL, **TIMES}], []),
        ([row(estimated=True, cost=0.1)], [{**BILL, **TIMES}], []),
        ([row(cost=0.0, provider_cost=0.25)], [{**BILL, **TIMES}], []),
        ([row(), row(id="2")], [{**BILL, **TIMES}], ["gen-1 has 2 rows"]),
        ([row(cost=0.2)], [{**BILL, **TIMES}], ["gen-1: $0.200000 for $0.250000"]),
        ([row()], [], ["gen-1 has a row and was never billed"]),
        ([row()], [{**BILL, **TIMES}, OTHER], ["gen-2 of ada"]),
        ([row(), row(generation="", estimated=True)], [{**BILL, **TIMES}, OTHER], []),
        ([row(), row(generation="", estimated=False)], [{**BILL, **TIMES}, OTHER], ["gen-2 of ada"]),
        (
            [row(), row(generation="", estimated=True, user_id="eve")],
            [{**BILL, **TIMES}, OTHER],
            ["gen-2 of ada"],
        ),
        (
            [row(), row(generation="", estimated=True, model="b")],
            [{**BILL, **TIMES}, OTHER],
            ["gen-2 of ada"],
        ),
    ],
)
def test_each_bill_has_its_row(rows: list[Json], bills: list[Json], violations: list[str]) -> None:
    """One, of as much; an estimate without an id stands for one bill of its user and model."""
    report = Report()
    compare_bills(rows, {bill["id"]: bill for bill in bills}, report)
    assert len(report.violations) == len(violations)
    assert all(map(str.startswith, report.violations, violations))


def test_faults_are_drawn_by_their_shares_and_by_the_seed() -> None:
    """Those of turns change what a turn is, the others have their own turn; another seed draws others."""
    plan, faults = plan_of(Size())
    kinds = Counter(faults.values())
    of_turns = Counter(plan)
    assert {kind: kinds[kind] or of_turns[ACT_OF[kind]] for kind in FAULTS} == {
        kind: 3 * count for kind, count in FAULTS.items()
    }
    assert (plan, faults) == plan_of(Size())
    assert (plan, faults) != plan_of(Size(seed=1))


def test_a_server_fails_when_its_turn_begins_or_its_time_comes() -> None:
    """Not after the last turn, nor when no more turns begin."""
    turns = Turns(["ask"] * 9, begun=2, deadline=time.monotonic() + 20.0)
    size = Size(seconds=20.0, restarts=((0.0, "kill"), (9.0, "redis restarted")))
    due = due_faults(turns, {1: "commit"}, size)
    assert [next(due), next(due)] == ["commit", "kill"]
    turns.stop()
    assert ([*due], turns.take()) == ([], None)
    turns.begun = 9
    assert [*due_faults(turns, {9: "cut"}, Size())] == []


async def ask(port: int, *words: bytes) -> list[bytes]:
    """What a server says to each of the words; b"" once the connection is gone."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return [b"refused"]
    said = []
    for word in words:
        writer.write(word)
        try:
            said.append(await reader.read(100))
        except OSError:
            said.append(b"")
    writer.close()
    return said


@pytest.mark.anyio
async def test_a_commit_of_ours_is_executed_and_its_answer_lost() -> None:
    """Once, also of a statement that is named alone; others, and other clients, are answered."""
    heard = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await reader.read(100):
            heard.append(said)
            writer.write(b"done")
        writer.close()

    prepare = b"_pg3_1\x00INSERT INTO openrouter_pipe_audit\x00"
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with Proxy(server.sockets[0].getsockname()[1]) as proxy:
            proxy.lose_commit()
            assert await ask(proxy.port, b"INSERT INTO chat", b"COMMIT") == [b"done", b"done"]
            assert await ask(proxy.port, prepare, b"ROLLBACK", b"_pg3_1\x00", b"COMMIT") == [b"done"] * 3 + [
                b""
            ]
            assert (heard[-1], proxy.lost_commits) == (b"COMMIT", 1)
            assert await ask(proxy.port, prepare, b"COMMIT") == [b"done", b"done"]
            await asyncio.to_thread(proxy.away, 0.0)
            assert await ask(proxy.port, b"Hi") == [b"done"]
