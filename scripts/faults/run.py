"""One run: servers, users, faults in the order of a seed, and the audit."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import httpx
import redis

from scripts import build
from scripts.faults.audit import Report, audit, fetch
from scripts.faults.proxy import Proxy
from scripts.faults.users import ACTS, MODELS, Act, Turns, User, key_of
from scripts.harness.openwebui import TOOL, WEATHER, OpenWebUI
from scripts.harness.servers import PostgresServer, RedisServer, unused_port
from scripts.launch import session
from scripts.launch.process import Program, resident_kb
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Fault = Literal["cut", "commit", "database away", "redis cut", "redis away", "kill", "stop", "provider"]

FAULTS: dict[Fault, int] = {
    "cut": 24,
    "commit": 30,
    "database away": 3,
    "redis cut": 10,
    "redis away": 3,
    "kill": 2,
    "stop": 14,
    "provider": 14,
}
"""Of a hundred faults, how many are which."""
ACT_OF: dict[Fault, Act] = {"stop": "stop", "provider": "cut"}
"""Those that happen to one turn; the others happen to a server when a turn begins."""
PACE_SECONDS = 0.02
AWAY_SECONDS = (1.0, 2.0, 4.0, 8.0)
HOLDS_SECONDS = 150.0
"""Two minutes, and time to notice."""
LATE_SECONDS = 75.0
"""After the last answer: by then a stopped one's bill was asked for twice."""
LIMITS = "user: 50/day; all: 5000/month"
PATIENT = "import uvicorn\n\nuvicorn.run.__kwdefaults__['timeout_worker_healthcheck'] = 120\n"
"""Uvicorn kills a worker that says nothing for five seconds, as all do beside other work on a small machine."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens: turns, faults among them, users, and seconds after which no more turns begin."""

    turns: int = 3000
    faults: int = 300
    users: int = 20
    seconds: float = 20 * 60.0
    seed: int = 31
    limits: str = LIMITS


@dataclass(frozen=True, slots=True)
class Servers:
    """What runs, and the proxies before the database and Redis."""

    host: OpenWebUI
    postgres: PostgresServer
    database: Proxy
    redis: Proxy
    standin: str
    """The stand-in's address."""
    redis_url: str
    """Redis itself, without its proxy."""

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
            case "kill" if workers := self.workers():
                os.kill(chance.choice(workers), signal.SIGKILL)
            case _:
                pass


def run(size: Size) -> Report:
    """Start everything, let it fail, and audit it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        servers = _start(size, folder, stack)
        say(f"two workers serve: {servers.workers()}")
        plan, faults = plan_of(size)
        turns = Turns(plan, deadline=time.monotonic() + size.seconds)
        users = [*_users(servers, size, turns)]
        began, threads = time.monotonic(), [threading.Thread(target=user.run) for user in users]
        for thread in threads:
            thread.start()
        struck = _strike(servers, turns, faults, size)
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        begun = turns.begun
        say(f"{begun} turns in {seconds:.0f} s")
        turns.plan[begun:] = ["ask"] * len(users)  # whoever comes next finds the holds of killed workers
        turns.deadline = time.monotonic() + HOLDS_SECONDS
        time.sleep(max(0.0, HOLDS_SECONDS - LATE_SECONDS))
        for user in users[: len(users) // 2 + 1]:
            threading.Thread(target=user.run, daemon=True).start()
        time.sleep(LATE_SECONDS)
        report = Report({"turns": begun, "seconds of chatting": round(seconds)})
        report.figures |= {f"fault: {kind}": count for kind, count in sorted(struck.items())}
        report.figures |= dict(sorted(turns.counts.items()))
        report.figures |= _sizes(servers)
        _wait_for_holds(servers)
        bills: list[dict[str, Any]] = httpx.get(f"{servers.standin}/bills", timeout=60).json()
        audit(servers.postgres.url, bills, report)
        _read_log(servers.host.log, report)
        return report


def plan_of(size: Size) -> tuple[list[Act], dict[int, Fault]]:
    """What each turn is, and before which one a server fails."""
    chance = Random(size.seed)  # noqa: S311 - no secret
    plan = chance.choices([*ACTS], [*ACTS.values()], k=size.turns)
    whole = size.faults // sum(FAULTS.values())
    kinds = [kind for kind, count in FAULTS.items() for _ in range(count * whole)]
    rest = size.faults - len(kinds)
    if rest >= len(FAULTS):
        kinds += FAULTS
    kinds += chance.choices([*FAULTS], [*FAULTS.values()], k=size.faults - len(kinds))
    faults = dict[int, Fault]()
    for number, kind in zip(
        sorted(chance.sample(range(size.turns), size.faults)), _mixed(kinds, chance), strict=True
    ):
        if act := ACT_OF.get(kind):
            plan[number] = act
        else:
            faults[number] = kind
    return plan, faults


def _mixed(kinds: list[Fault], chance: Random) -> list[Fault]:
    return chance.sample(kinds, len(kinds))


def _strike(servers: Servers, turns: Turns, faults: Mapping[int, Fault], size: Size) -> Counter[str]:
    """Let the servers fail as the turns begin, until they have all begun."""
    chance, struck = Random(size.seed), Counter[str]()  # noqa: S311 - no secret
    for number, fault in sorted(faults.items()):
        while turns.begun <= number and turns.begun < len(turns.plan):
            if time.monotonic() > turns.deadline:
                return struck
            time.sleep(0.05)
        servers.strike(fault, chance)
        struck[fault] += 1
        if fault in {"kill", "database away", "redis away"}:
            say(f"turn {number}: {fault}")
    return struck


def _start(size: Size, folder: Path, stack: ExitStack) -> Servers:
    for name in ("postgres", "redis", "host", "release"):
        (folder / name).mkdir()
    folder.chmod(0o755)  # PostgreSQL runs as another account
    postgres = PostgresServer(folder / "postgres")
    stack.callback(postgres.stop)
    redis_server = RedisServer(folder / "redis")
    stack.callback(redis_server.stop)
    database_proxy = stack.enter_context(Proxy(urlsplit(postgres.url).port or 0))
    redis_proxy = stack.enter_context(Proxy(urlsplit(redis_server.url).port or 0))
    port = unused_port()
    command = [sys.executable, "-m", "scripts.standin", "--port", str(port), "--pace", str(PACE_SECONDS)]
    log = folder / "standin.log"
    standin = stack.enter_context(Program(command, log=log, directory=ROOT, variables=os.environ))
    standin.wait_for_port(port, 120.0)
    say("starting Open WebUI")
    (folder / "release" / "sitecustomize.py").write_text(PATIENT, "utf-8")
    redis_url = f"redis://127.0.0.1:{redis_proxy.port}/0"
    variables = {
        "DATABASE_URL": f"postgresql+psycopg://postgres@127.0.0.1:{database_proxy.port}/postgres",
        "ENABLE_API_KEYS": "true",
        "PYTHONPATH": str(folder / "release"),
        "USER_PERMISSIONS_FEATURES_API_KEYS": "true",
        "REDIS_URL": redis_url,
        "UVICORN_WORKERS": "2",
        "WEBSOCKET_MANAGER": "redis",
        "WEBSOCKET_REDIS_URL": redis_url,
    }
    host = OpenWebUI(folder / "host", variables)
    stack.callback(host.close)
    address = f"http://127.0.0.1:{port}"
    content = build.build(target=folder / "release").read_text("utf-8")
    valves = {"COST_LINE": "off", "SEND_IDENTITY": "user", "SPENDING_LIMITS": size.limits or None}
    session.install(
        host.admin.api, content, API_KEY=session.STANDIN_KEY, BASE_URL=f"{address}/api/v1", **valves
    )
    host.add_tool(TOOL, WEATHER)
    for _ in range(20):  # each worker has to know the models
        host.admin.api.models()
    return Servers(host, postgres, database_proxy, redis_proxy, address, redis_server.url)


def _users(servers: Servers, size: Size, turns: Turns) -> Iterator[User]:
    for number in range(size.users):
        account = servers.host.add_user(f"user{number}")
        yield User(account, key_of(account.api), MODELS[number % len(MODELS)], turns, size.seed, TOOL)


def _wait_for_holds(servers: Servers) -> None:
    deadline = time.monotonic() + HOLDS_SECONDS
    while time.monotonic() < deadline:
        if not fetch(servers.postgres.url, "SELECT count(*) FROM openrouter_pipe_hold")[0][0]:
            return
        time.sleep(2)


def _sizes(servers: Servers) -> dict[str, Any]:
    """What the two workers take, right after their work."""
    connections = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with redis.Redis.from_url(servers.redis_url) as client:
        clients = len(client.client_list()) - 1
    found: dict[str, Any] = {
        "MiB of each worker": [round(resident_kb(pid) / 1024) for pid in servers.workers()],
        "connections to PostgreSQL": fetch(servers.postgres.url, connections)[0][0] - 1,
        "connections to Redis": clients,
    }
    for table in ("openrouter_pipe_audit", "openrouter_pipe_artifact"):
        size = fetch(servers.postgres.url, f"SELECT pg_total_relation_size('{table}')")[0][0]
        rows = fetch(servers.postgres.url, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 - a table of ours
        found[f"bytes a row of {table}"] = round(size / max(1, rows))
    return found


def _read_log(log: Path, report: Report) -> None:
    """Count what the pipe says of bills and of what it did not expect."""
    text = log.read_text("utf-8", "replace")
    for words in ("bill not written", "unexpected error", "Child process", "never retrieved"):
        report.figures[f"log: {words}"] = text.count(words)
    kept = os.environ.get("FAULTS_LOG")
    if kept:
        Path(kept).write_text(text, "utf-8")


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


def say(text: str) -> None:
    """Print how far it is."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
