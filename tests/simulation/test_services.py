"""OpenRouter and Redis of a simulated world: each fault strikes as it says, and a dead worker has no effect."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from random import Random
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from redis.exceptions import ConnectionError as RedisLost

from scripts.simulation.clock import Chance, Clock, VirtualLoop, installed
from scripts.simulation.faults import KINDS, MOMENTS, Faults, draw, recorded_errors
from scripts.simulation.services import BASE_URL, CALL, Call, RedisServer, Upstream
from scripts.standin.catalogue import BY_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

MODEL = "openai/gpt-5.2"
HEADERS = {"authorization": "Bearer sk-or-v1-test"}
SILENCE_SECONDS = 50.0
CALLER = Call("ada", "chat-1", "message-1")


class Small:
    """A provider, Redis and their faults, and a client of worker w0."""

    def __init__(self, clock: Clock) -> None:
        self.said: list[str] = []
        self.faults = Faults(clock.true, self.said.append)
        self.upstream = Upstream(self.faults, clock.true, Random(1))
        self.redis = RedisServer(self.faults, clock.true, Random(1))
        self.transport = self.upstream.transport("w0")
        self.http = httpx.AsyncClient(transport=self.transport)

    async def ask(self, *, text: str = "Good morning") -> tuple[int, bytes]:
        """Status and content of an answer; raises what httpx does."""
        async with self.open(text) as got:
            return got.status_code, await got.aread()

    def open(self, text: str = "Good morning") -> AbstractAsyncContextManager[httpx.Response]:
        """An answer that begins."""
        body = {"model": MODEL, "input": text, "stream": True}
        limits = httpx.Timeout(10, read=SILENCE_SECONDS)
        return self.http.stream("POST", f"{BASE_URL}/responses", json=body, headers=HEADERS, timeout=limits)


def within(work: Callable[[Small], Awaitable[Any]]) -> Any:
    """Run something in a small world of its own."""

    async def run() -> Any:
        clock, chance = Clock(asyncio.get_running_loop(), lambda: 0.0), Chance(1)
        CALL.set(CALLER)
        with installed(clock, chance):
            small = Small(clock)
            try:
                return await work(small)
            finally:
                small.upstream.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def test_time_passes_after_years() -> None:
    """A timer is not missed by what the steps of a large number leave over."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        for number in range(8):
            loop.after_turns(10_000, loop.stop)
            for seconds in (2.0**23 * (number + 1), 0.1, 1 / 3, 1e-7):
                runner.run(asyncio.sleep(seconds))
            loop.forget_calls()


def test_an_answer_comes_and_is_billed_once() -> None:
    """It is of the call in whose context it was asked for."""

    async def work(small: Small) -> None:
        status, content = await small.ask()
        assert (status, content.endswith(b"data: [DONE]\n\n")) == (200, True)
        (exchange,) = small.upstream.exchanges
        assert (exchange.call, exchange.worker) == (CALLER, "w0")
        assert [*small.upstream.service.bills] == [exchange.generation]

    within(work)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("drop", httpx.RemoteProtocolError),
        ("half", httpx.RemoteProtocolError),
        ("reset", httpx.ReadError),
        ("silence", httpx.ReadTimeout),
    ],
)
def test_an_answer_is_cut_at_a_byte(how: str, error: type[Exception]) -> None:
    """What came before that byte is read, and nothing behind it; the next answer is whole."""

    async def work(small: Small) -> None:
        small.faults.arm({"kind": "cut", "how": how, "after_bytes": 1000, "noise": ""})
        read, raised = 0, None
        try:
            async with small.open() as got:
                async for portion in got.aiter_bytes():
                    read += len(portion)
        except httpx.HTTPError as failed:
            raised = type(failed)
        assert raised is error
        assert (read > 1000) if how == "half" else (read == 1000)
        (exchange,) = small.upstream.exchanges
        assert exchange.is_broken
        assert small.faults.struck == {"cut": 1}
        assert (await small.ask())[0] == 200

    within(work)


def test_noise_is_within_an_answer() -> None:
    """All bytes come, and some more."""

    async def work(small: Small) -> None:
        whole = (await small.ask())[1]
        small.faults.arm({"kind": "cut", "how": "noise", "after_bytes": 1000, "noise": "fffefd"})
        content = (await small.ask())[1]
        assert (content[1000:1003], len(content)) == (b"\xff\xfe\xfd", len(whole) + 3)

    within(work)


def test_a_refusal_strikes_as_often_as_it_says_after_those_that_it_skips() -> None:
    """A gateway's page, here the second and the third request."""

    async def work(small: Small) -> None:
        order = "error=502 family=html"
        small.faults.arm({"kind": "refusal", "orders": order, "skip": 1, "times": 2})
        answers = [await small.ask() for _ in range(4)]
        assert [status for status, _ in answers] == [200, 502, 502, 200]
        assert answers[1][1].startswith(b"<!DOCTYPE html>")
        struck = [[fault["kind"] for fault in each.faults] for each in small.upstream.exchanges]
        assert struck == [[], ["refusal"], ["refusal"], []]
        small.faults.arm({"kind": "refusal", "orders": order})
        small.faults.disarm()
        assert (await small.ask())[0] == 200

    within(work)


def test_a_refusal_may_be_cut_too() -> None:
    """The stand-in takes it as it takes any client that is gone."""

    async def work(small: Small) -> None:
        small.faults.arm({"kind": "cut", "how": "reset", "after_bytes": 0, "noise": ""})
        small.faults.arm({"kind": "refusal", "orders": "error=429"})
        with pytest.raises(httpx.ReadError):
            await small.ask()
        assert small.upstream.failures == []

    within(work)


def test_every_recorded_refusal_can_strike() -> None:
    """With its own status, or within a stream."""

    async def work(small: Small) -> None:
        for at, row in enumerate(recorded_errors()):
            small.faults.arm({"kind": "recorded", "row": at})
            status, content = await small.ask()
            assert status == (200 if row["shape"] == "sse event" else row["status"]), row
            assert b"response.completed" not in content

    within(work)


def test_no_connection() -> None:
    """Refused before anything is asked, or reset afterwards; neither is billed."""

    async def work(small: Small) -> None:
        small.faults.arm({"kind": "connect", "how": "refused"})
        with pytest.raises(httpx.ConnectError):
            await small.ask()
        small.faults.arm({"kind": "connect", "how": "reset"})
        with pytest.raises(httpx.RemoteProtocolError):
            await small.ask()
        assert small.upstream.service.bills == {}

    within(work)


def test_who_leaves_is_noticed() -> None:
    """A client that goes in the middle, and a worker that dies; both are billed for what was written."""

    async def work(small: Small) -> None:
        for end in ("close", "kill"):
            task = asyncio.ensure_future(small.ask(text="[[standin: slow=30]]"))
            await asyncio.sleep(5)
            if end == "kill":
                small.transport.kill()
            else:
                task.cancel()
            await asyncio.wait({task}, timeout=1)
            record = small.upstream.exchanges[-1].record
            assert record
            assert (record.disconnected, bool(record.billed)) == (True, True)
        with pytest.raises(asyncio.CancelledError):
            await small.ask()
        assert small.upstream.requests == 2

    within(work)


def test_prices_change_and_come_back() -> None:
    """A bill is by those of its time; the catalogue is as it was when the world ends."""
    before = dict(BY_ID[MODEL].rates)

    async def work(small: Small) -> list[float]:
        costs = []
        for factor in (1.0, 10.0, 2.0):
            small.upstream.multiply_prices(MODEL, factor)
            await small.ask()
            costs.append([*small.upstream.service.bills.values()][-1]["total_cost"])
        return costs

    costs = within(work)
    assert [round(each / costs[0], 6) for each in costs] == [1.0, 10.0, 2.0]
    assert BY_ID[MODEL].rates == before


def test_redis_keeps_loses_and_is_away() -> None:
    """Values last for their time; a lost command has no effect, one whose answer is lost has."""

    async def work(small: Small) -> None:
        client = small.redis.client("w0")

        async def put(value: bytes, *, nx: bool = False) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            pipeline.set("a", value, ex=60, nx=nx)
            return await pipeline.execute()

        assert (await put(b"1"), await put(b"2", nx=True), await client.mget(["a", "b"])) == (
            [True],
            [None],
            [b"1", None],
        )
        for how, kept in (("lost", b"1"), ("unheard", b"3")):
            small.faults.arm({"kind": "redis", "how": how})
            with pytest.raises(RedisLost):
                await put(b"3")
            assert await client.mget(["a"]) == [kept]
        small.faults.arm({"kind": "redis_away", "seconds": 5.0})
        with pytest.raises(RedisLost):
            await client.mget(["a"])
        await asyncio.sleep(5)
        assert await client.mget(["a"]) == [b"3"]
        await asyncio.sleep(60)
        assert await client.mget(["a"]) == [None]
        client.kill()
        with pytest.raises(asyncio.CancelledError):
            await put(b"4")
        assert small.redis.get("a") is None

    within(work)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_database_fails_at_its_moment(moment: str) -> None:
    """Once, with what SQLite's driver says there, and only there."""

    async def work(small: Small) -> list[str]:
        steps = [("connect", ""), ("execute", "SELECT 1"), ("execute", "INSERT INTO a"), ("commit", "")]
        steps += [("committed", ""), ("connect", ""), ("rollback", "")]
        small.faults.arm({"kind": "database", "moment": moment})
        failed = []
        for kind, statement in [*steps, *steps]:
            try:
                await small.faults.database("w0", kind, statement)
            except sqlite3.OperationalError as error:
                failed.append(f"{kind} {statement} {error}")
        return failed

    assert within(work) == [
        {
            "connect": "connect  unable to open database file",
            "execute": "execute SELECT 1 disk I/O error",
            "before": "commit  database is locked",
            "inside": "committed  database is locked",
            "after": "connect  unable to open database file",
            "full": "execute INSERT INTO a database or disk is full",
        }[moment]
    ]


def test_faults_are_plain_records_drawn_by_the_seed() -> None:
    """All kinds come; each can be written as JSON and armed."""
    drawn = [draw(Random(seed), ["w0", "w1"], [MODEL]) for seed in range(600)]
    assert {each["kind"] for each in drawn} == {*KINDS}
    assert drawn == [draw(Random(seed), ["w0", "w1"], [MODEL]) for seed in range(600)]
    faults = Faults(lambda: 0.0, lambda _: None)
    for each in json.loads(json.dumps(drawn)):
        faults.arm(each)
