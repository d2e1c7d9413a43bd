"""What the worker processes of `test_processes` do; importable, because each begins with a fresh memory."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.cache import CachedRows, GuardedRedis
from open_webui_openrouter_pipe.store.sweep import Schedule, Sweep
from scripts.harness.database import open_database
from tests.store.contract import KEYRING, artifact, sql_rows
from tests.store.fakes import SwitchedRows

ARTIFACTS_OF_A_TURN = 3
PATIENT_SECONDS = 60.0
"""How long a test waits for an answer of Redis or a database, so that a busy machine changes nothing."""


@dataclass(frozen=True)
class Servers:
    """Where a worker finds its servers."""

    database_url: str
    schema: str | None = None
    redis_url: str = ""
    redis_prefix: str = ""


async def run_workers(
    processes: ForkServerContext, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]
) -> None:
    """Let a process do the work with each of the arguments, all at once."""
    workers = [processes.Process(target=work, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines and wait until they are on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, "".join(line + "\n" for line in lines).encode())
    os.fsync(descriptor)
    os.close(descriptor)


def write_until_killed(servers: Servers, markers: Path, first: int) -> None:
    """Store turn after turn, and write each turn's markers after its artifacts."""

    async def work() -> None:
        database = open_database(servers.database_url, schema=servers.schema)
        store = SealedArtifacts(sql_rows(database), KEYRING)
        number = first
        while True:
            turn = [artifact(number + each) for each in range(ARTIFACTS_OF_A_TURN)]
            await store.put(turn)
            append(markers, [each.id for each in turn])
            number += ARTIFACTS_OF_A_TURN

    asyncio.run(work())


class EverythingExists:
    """A host in which every user and chat exists."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        return set(user_ids)

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        return set(chat_ids)

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        return {}


async def sweep_again_and_again(sweep: Sweep) -> None:
    """Sweep whenever it is due."""
    while True:
        await sweep.run()
        await asyncio.sleep(0.02)


def live_through_outages(servers: Servers, journal: Path, worker: int, turns: int) -> None:
    """Write, read, delete and sweep while the database comes and goes for this worker; record what succeeded."""

    async def work() -> None:
        chance = random.Random(worker)
        database = open_database(servers.database_url, schema=servers.schema)
        client = Redis.from_url(servers.redis_url)
        redis = GuardedRedis(
            cast("Any", client), prefix=servers.redis_prefix, timeout_seconds=PATIENT_SECONDS
        )
        real = sql_rows(database)
        switched = SwitchedRows(real)
        store = SealedArtifacts(CachedRows(switched, redis, asyncio.create_task), KEYRING)
        schedule = Schedule(interval_seconds=0, pause_seconds=0)
        sweep = asyncio.create_task(sweep_again_and_again(Sweep(database, EverythingExists(), schedule)))
        for turn in range(turns):
            switched.below = real if turn == 0 or chance.random() < 0.6 else None
            first = worker * 1_000_000 + turn * ARTIFACTS_OF_A_TURN
            batch = [artifact(first + each) for each in range(ARTIFACTS_OF_A_TURN)]
            try:
                await store.put(batch)
            except StoreUnavailable:
                assert switched.below is None
                assert batch[0] not in (await store.load("ada", [batch[0].id])).values()
                continue
            assert await store.load("ada", [batch[0].id]) == {batch[0].id: batch[0]}
            append(journal, [f"+{each.id}" for each in batch])
            if chance.random() < 0.5:
                await store.delete("ada", [batch[1].id])
                append(journal, [f"-{batch[1].id}"])
        switched.below = real
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)
        await client.aclose()

    asyncio.run(work())
