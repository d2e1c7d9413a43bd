"""Databases and Redis for the store's tests, each with tables and keys of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import secrets
import threading
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import pytest
from redis import Redis as Client
from redis.asyncio import Redis

from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.database import Database
from scripts.harness.database import open_database
from scripts.harness.servers import RedisServer, unused_port
from tests.store.workers import PATIENT_SECONDS, Servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from multiprocessing.context import ForkServerContext
    from pathlib import Path

    from scripts.harness.servers import PostgresServer


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that start in milliseconds, because their parent has imported all they need.

    It starts once in a run of tests, so whoever starts it first has to say what.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.workers", "aiosqlite", "psycopg", "psycopg_binary"])
    return context


@pytest.fixture
async def sqlite_database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database in a file."""
    async with aclosing(
        open_database(f"sqlite:///{tmp_path}/rows.db", read_seconds=PATIENT_SECONDS)
    ) as found:
        yield found


@pytest.fixture
async def postgres_database(postgres_server: PostgresServer, postgres_schema: str) -> AsyncIterator[Database]:
    """A PostgreSQL database with its tables in a schema."""
    url, limit = postgres_server.url, PATIENT_SECONDS
    async with aclosing(open_database(url, schema=postgres_schema, read_seconds=limit)) as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database(request: pytest.FixtureRequest) -> Database:
    """Each test that asks for it runs on both databases."""
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Servers:
    """Where several workers find the same of both databases."""
    if request.param == "sqlite":
        return Servers(f"sqlite:///{tmp_path}/rows.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return Servers(server.url, request.getfixturevalue("postgres_schema"))


@pytest.fixture
async def unavailable_database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database that cannot be opened; its threads of aiosqlite, and no others, are waited for."""

    def running() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if "_connection_worker_thread" in each.name}

    earlier = running()
    yield open_database(f"sqlite:///{tmp_path}/no/such/folder/rows.db")
    while running() - earlier:  # noqa: ASYNC110 - threads set no event
        await asyncio.sleep(0.01)


@pytest.fixture
def redis_prefix() -> str:
    """A prefix of keys that nobody else uses."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
async def redis_client(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """A client in bytes mode."""
    client = Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


@pytest.fixture
def guarded_redis(redis_client: Redis, redis_prefix: str) -> GuardedRedis:
    """A connection with keys of its own."""
    return GuardedRedis(cast("Any", redis_client), prefix=redis_prefix, timeout_seconds=PATIENT_SECONDS)


class RedisNode(RedisServer):
    """The only node of a cluster."""

    def command(self) -> list[str]:
        """With a port for other nodes, of which there are none."""
        return [*super().command(), "--cluster-enabled", "yes", "--cluster-port", str(unused_port())]


@pytest.fixture(scope="session")
def redis_cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of a single node that holds all slots: enough to refuse what a cluster refuses."""
    server = RedisNode(tmp_path_factory.mktemp("cluster"))
    with Client.from_url(server.url) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            time.sleep(0.05)
    yield server.url
    server.stop()
