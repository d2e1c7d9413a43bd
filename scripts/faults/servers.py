"""The servers of a run: a real Open WebUI of two workers, PostgreSQL, Redis and the stand-in, and how they fail."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from scripts import build
from scripts.faults import probe
from scripts.faults.proxy import Proxy
from scripts.harness.openwebui import TOOL, WEATHER, OpenWebUI
from scripts.harness.servers import PostgresServer, RedisServer, unused_port
from scripts.launch import session
from scripts.launch.process import Program
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from random import Random

Fault = Literal[
    "cut",
    "commit",
    "database away",
    "database restarted",
    "redis cut",
    "redis away",
    "redis restarted",
    "kill",
    "stop",
    "provider",
]
OUTAGES = frozenset({"cut", "database away", "database restarted", "redis away", "redis restarted", "kill"})
"""What may cost the host an answer that it has got."""
PACE_SECONDS = 0.02
AWAY_SECONDS = (1.0, 2.0, 4.0, 8.0)
EVERYBODY = [
    {"principal_type": "user", "principal_id": "*", "permission": permission}
    for permission in ("read", "write")
]


@dataclass(frozen=True, slots=True)
class Servers:
    """What runs, and the proxies before the database and Redis."""

    host: OpenWebUI
    postgres: PostgresServer
    redis_server: RedisServer
    database: Proxy
    redis: Proxy
    standin: str
    """The stand-in's address."""
    log: Path
    """What the stand-in has written down of each request."""
    probes: Path
    """The folder of what the workers tell of themselves."""
    channel: str
    """The path of a channel's messages."""

    @property
    def redis_url(self) -> str:
        """Redis itself, without its proxy."""
        return self.redis_server.url

    def workers(self) -> list[int]:
        """The processes that serve."""
        return sorted(_children(self.host.pid))

    def strike(self, fault: Fault, chance: Random) -> None:
        """Let it happen, and return when it is over, as far as it takes time."""
        match fault:
            case "cut":
                self.database.cut()
            case "commit":
                self.database.lose_commit()
            case "database away":
                self.database.away(chance.choice(AWAY_SECONDS))
            case "redis cut":
                self.redis.cut()
            case "redis away":
                self.redis.away(chance.choice(AWAY_SECONDS))
            case "database restarted" | "redis restarted":
                server = self.postgres if fault == "database restarted" else self.redis_server
                server.stop()
                server.start()
            case "kill" if workers := self.workers():
                os.kill(chance.choice(workers), signal.SIGKILL)
            case _:
                pass


def start(folder: Path, stack: ExitStack, **valves: Any) -> Servers:
    """Start everything, install the release with these valves, and a tool; the stack stops it."""
    for name in ("postgres", "redis", "host", "release", "probes"):
        (folder / name).mkdir()
    folder.chmod(0o755)  # PostgreSQL runs as another account
    postgres = PostgresServer(folder / "postgres")
    stack.callback(postgres.stop)
    redis_server = RedisServer(folder / "redis")
    stack.callback(redis_server.stop)
    database_proxy = stack.enter_context(Proxy(urlsplit(postgres.url).port or 0))
    redis_proxy = stack.enter_context(Proxy(urlsplit(redis_server.url).port or 0))
    port, log = unused_port(), folder / "requests.jsonl"
    options = ["--port", str(port), "--pace", str(PACE_SECONDS), "--log", str(log)]
    command = [sys.executable, "-m", "scripts.faults.upstream", *options]
    said = folder / "standin.log"
    standin = stack.enter_context(Program(command, log=said, directory=ROOT, variables=os.environ))
    standin.wait_for_port(port, 120.0)
    site = Path(probe.__file__).read_text("utf-8") + "\n\ninstall()\n"
    (folder / "release" / "sitecustomize.py").write_text(site, "utf-8")
    redis_url = f"redis://127.0.0.1:{redis_proxy.port}/0"
    variables = {
        "DATABASE_URL": f"postgresql+psycopg://postgres@127.0.0.1:{database_proxy.port}/postgres",
        "ENABLE_API_KEYS": "true",
        "ENABLE_CHANNELS": "true",
        "PYTHONPATH": str(folder / "release"),
        "REDIS_URL": redis_url,
        "USER_PERMISSIONS_FEATURES_API_KEYS": "true",
        "UVICORN_WORKERS": "2",
        "WEBSOCKET_MANAGER": "redis",
        "WEBSOCKET_REDIS_URL": redis_url,
        probe.FOLDER: str(folder / "probes"),
    }
    host = OpenWebUI(folder / "host", variables)
    stack.callback(host.close)
    address, api = f"http://127.0.0.1:{port}", host.admin.api
    content = build.build(target=folder / "release").read_text("utf-8")
    session.install(api, content, API_KEY=session.STANDIN_KEY, BASE_URL=f"{address}/api/v1", **valves)
    host.add_tool(TOOL, WEATHER)
    channel = api.post("/api/v1/channels/create", {"name": "harbour", "access_grants": EVERYBODY})["id"]
    messages = f"/api/v1/channels/{channel}/messages"
    for _ in range(20):  # each worker has to know the models
        api.models()
    return Servers(
        host,
        postgres,
        redis_server,
        database_proxy,
        redis_proxy,
        address,
        log,
        folder / "probes",
        messages,
    )


def _children(pid: int) -> Iterator[int]:
    """The children of a process that serve: uvicorn spawns them."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text("ascii", "replace").rpartition(")")[2].split()[1])
            words = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"spawn_main" in words:
            yield int(stat.parent.name)
