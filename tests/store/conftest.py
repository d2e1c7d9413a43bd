"""Databases and Redis for the store's tests, each with tables and keys of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import secrets
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import pytest
from redis.asyncio import Redis

from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.database import Database
from scripts.harness.database import open_database
from tests.store.workers import PATIENT_SECONDS, Servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.context import ForkServerContext
    from pathlib import Path

    from scripts.harness.servers import PostgresServer, RedisServer


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
