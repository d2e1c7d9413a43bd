"""The private servers that other tests use: they answer, and keep their data through a stop."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis

if TYPE_CHECKING:
    from scripts.harness.servers import PostgresServer, RedisServer

pytestmark = pytest.mark.servers


def test_redis_comes_back_with_its_data(redis_server: RedisServer) -> None:
    """A value outlives a stop; while the server is stopped nothing answers."""
    name = uuid.uuid4().hex
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(name, "kept")
        redis_server.stop()
        with pytest.raises(redis.ConnectionError):
            client.get(name)
        redis_server.start()
        assert client.get(name) == b"kept"


def test_postgres_comes_back_with_its_data(postgres_server: PostgresServer) -> None:
    """A committed row outlives a stop; while the server is stopped nothing answers."""
    table = f"kept_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute(f"CREATE TABLE {table} (word text)")
        connection.execute(f"INSERT INTO {table} VALUES ('kept')")
    postgres_server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_server.url)
    postgres_server.start()
    with psycopg.connect(postgres_server.url) as connection:
        assert connection.execute(f"SELECT word FROM {table}").fetchall() == [("kept",)]
