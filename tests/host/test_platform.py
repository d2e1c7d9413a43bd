"""What the host shares: its database, its secret, and its Redis in each of the three kinds."""

from __future__ import annotations

import asyncio
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from open_webui_openrouter_pipe.host.platform import SharedRedis, platform, shared_redis
from open_webui_openrouter_pipe.store.cache import CachedRows, GuardedRedis
from scripts import machine
from scripts.harness.servers import unused_port
from tests.store.contract import row
from tests.store.fakes import MemoryRows
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from scripts.harness.servers import RedisServer

pytestmark = pytest.mark.live

NO_REDIS = {"REDIS_URL": "", "REDIS_CLUSTER": False, "REDIS_SENTINEL_HOSTS": "", "REDIS_SENTINEL_PORT": ""}


def visit_platform() -> dict[str, Any]:
    """Everything that is shared where nothing but the data directory was configured."""
    shared = platform()
    return {
        "database": str(shared.engine.url),
        "schema": shared.schema,
        "redis": shared.redis,
        "secret": shared.secret_key,
        "folder": str(shared.cache_folder),
    }


async def use(shared: SharedRedis) -> None:
    """Let the store's cache use the Redis for all that it uses one for."""
    one, memory = row(1), MemoryRows()
    cached = CachedRows(memory, GuardedRedis(shared.client, prefix=shared.prefix))
    await cached.put([one])
    await memory.delete("ada", [one.id])
    assert (await cached.load("ada", [one.id])).rows == {one.id: one}
    await cached.delete("ada", [one.id])
    assert (await cached.load("ada", [one.id])).rows == {}


def visit_redis(settings: list[Mapping[str, Any]]) -> list[str | None]:
    """Use the Redis of each setting; its prefix, or None where there is no Redis."""
    from open_webui import env

    async def look(setting: Mapping[str, Any]) -> str | None:
        for name, value in setting.items():
            setattr(env, name, value)
        shared, again = shared_redis(), shared_redis()
        if shared is None or again is None:
            return None
        assert again.client is shared.client
        await use(shared)
        return shared.prefix

    async def look_at_all() -> list[str | None]:
        return [await look({**NO_REDIS, **setting}) for setting in settings]

    return asyncio.run(look_at_all())


@contextmanager
def running(directory: Path, lines: list[str]) -> Iterator[int]:
    """A redis-server of another kind, on a loopback port, until the block ends."""
    directory.mkdir()
    port = unused_port()
    configuration = directory / "redis.conf"
    lines = [f"port {port}", "bind 127.0.0.1", f"dir {directory}", *lines]
    configuration.write_text("\n".join(lines), "utf-8")
    sentinel = ["--sentinel"] if any(line.startswith("sentinel") for line in lines) else []
    command = [str(machine.find("redis-server")), str(configuration), *sentinel]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with Redis(port=port) as client:
            wait_for(lambda: bool(client.ping()))
        yield port
    finally:
        process.terminate()
        process.wait(15)


@contextmanager
def cluster(directory: Path) -> Iterator[int]:
    """A cluster of one node that holds all slots."""
    lines = ["cluster-enabled yes", f"cluster-port {unused_port()}", 'save ""']
    with running(directory, lines) as port, Redis(port=port) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))
        yield port


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        try:
            if condition():
                return
        except RedisError:
            pass
        time.sleep(0.05)
    raise TimeoutError("the server did not start")


def test_without_configuration_there_is_only_a_database(tmp_path: Path) -> None:
    """SQLite in the data directory, no schema, no Redis."""
    assert inside_open_webui(tmp_path, {}, visit_platform) == {
        "database": f"sqlite+aiosqlite:///{tmp_path}/webui.db",
        "schema": None,
        "redis": None,
        "secret": "secret",
        "folder": f"{tmp_path}/cache",
    }


@pytest.mark.servers
def test_redis_of_each_kind_serves_the_store(tmp_path: Path, redis_server: RedisServer) -> None:
    """Plain, behind Sentinel, or a cluster; the client is created once, and a wrong address means no Redis."""
    port = redis_server.url.partition("127.0.0.1:")[2].partition("/")[0]
    monitor = [f"sentinel monitor mymaster 127.0.0.1 {port} 1"]
    with running(tmp_path / "sentinel", monitor) as sentinel, cluster(tmp_path / "cluster") as node:
        settings: list[dict[str, Any]] = [
            {"REDIS_URL": redis_server.url},
            {
                "REDIS_URL": "redis://mymaster:6379/0",
                "REDIS_SENTINEL_HOSTS": "127.0.0.1",
                "REDIS_SENTINEL_PORT": str(sentinel),
                "REDIS_KEY_PREFIX": "elsewhere",
            },
            {"REDIS_URL": f"redis://127.0.0.1:{node}/0", "REDIS_CLUSTER": True},
            {"REDIS_URL": "http://127.0.0.1"},
            {},
        ]
        found = inside_open_webui(tmp_path, {"REDIS_KEY_PREFIX": "here"}, visit_redis, settings)
    ours = "elsewhere:openrouter_pipe"
    assert found == ["here:openrouter_pipe", ours, ours, None, None]
