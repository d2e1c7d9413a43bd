"""How workers, database and Redis fare during a run, by the clock: what the curves show, and figures of them."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import TYPE_CHECKING, Any, Self

import psycopg
import redis

from scripts.launch.process import resident_kb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scripts.faults.servers import Servers
    from scripts.faults.users import Turns

PERIOD_SECONDS = 5.0
MEMORY, LAG = "memory of workers, MiB", "longest lag of event loops, ms"
TASKS, DESCRIPTORS = "asyncio tasks of workers", "open descriptors of workers"
MOST_MIB_AN_HOUR = 50.0
JUDGED_SECONDS = 2700.0
"""A worker's memory is judged once it has lived so long: what it keeps of chats grows with them for half an hour."""
MOST_LEFT = {TASKS: 50, DESCRIPTORS: 100}
"""How many a worker may have at the end, when nobody chats: twice as many as were seen."""
CONNECT_SECONDS = 5
TABLES = "SELECT relname, n_live_tup FROM pg_stat_user_tables WHERE relname ~ %s"
OF_CHATS = "^(openrouter_pipe_.*|chat|chat_message|file)$"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"

Points = list[tuple[float, float]]
"""Seconds since the start, and what was measured."""


@dataclass
class Samples:
    """Reads all figures again and again in a thread of its own, as a context.

    `curves` are the points by panel, which names the unit, and line; `marks` are the faults, by their seconds.
    """

    servers: Servers
    turns: Turns
    probes: Path
    curves: dict[str, dict[str, Points]] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    kinds: dict[str, Any] = field(default_factory=dict)
    """What the tasks of each worker last ran."""
    began: float = field(default_factory=time.time)
    _ended: threading.Event = field(default_factory=threading.Event)
    _read: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _before: tuple[float, int, int] = (0.0, 0, 0)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Read no more. Stopping twice does no harm."""
        self._ended.set()
        self._thread.join()

    def mark(self, what: str) -> None:
        """Note that something happens."""
        self.marks.append((time.time() - self.began, what))

    def _add(self, panel: str, line: str, value: float, at: float | None = None) -> None:
        points = self.curves.setdefault(panel, {}).setdefault(line, [])
        points.append(((at or time.time()) - self.began, value))

    def _run(self) -> None:
        while True:
            for read in (self._processes, self._probes, self._database, self._redis, self._users):
                try:
                    read()
                except (OSError, psycopg.Error, redis.RedisError):
                    continue  # it is away, or has just been killed
            if self._ended.wait(PERIOD_SECONDS):
                return

    def _processes(self) -> None:
        for pid in self.servers.workers():
            held = [*(Path(f"/proc/{pid}/fd")).iterdir()]
            self._add(MEMORY, f"{pid}", resident_kb(pid) / 1024)
            self._add(DESCRIPTORS, f"{pid}", len(held))

    def _probes(self) -> None:
        for path in self.probes.glob("*.jsonl"):
            lines = path.read_text("utf-8").splitlines(keepends=True)
            new = [json.loads(line) for line in lines[self._read[path.stem] :] if line.endswith("\n")]
            self._read[path.stem] += len(new)
            for line in new:
                if line["at"] < self.began:
                    continue
                self._add(LAG, path.stem, line["lag_ms"], line["at"])
                self._add(TASKS, path.stem, line["tasks"], line["at"])
                self.kinds[path.stem] = line["kinds"]

    def _database(self) -> None:
        with psycopg.connect(self.servers.postgres.url, connect_timeout=CONNECT_SECONDS) as connection:
            (count,) = connection.execute(CONNECTIONS).fetchone() or (1,)
            self._add("connections", "PostgreSQL", count - 1)
            for name, rows in connection.execute(TABLES, [OF_CHATS]).fetchall():
                self._add("rows", name.removeprefix("openrouter_pipe_"), rows)

    def _redis(self) -> None:
        with redis.Redis.from_url(self.servers.redis_url, socket_timeout=CONNECT_SECONDS) as client:
            self._add("connections", "Redis", len(client.client_list()) - 1)

    def _users(self) -> None:
        """Turns and failures in a minute, and how long the turns took since the last time."""
        counts, at = dict(self.turns.counts), time.time()
        done = len(self.turns.seconds)
        failed = sum(count for name, count in counts.items() if not name.startswith("turn: "))
        since, were_done, had_failed = self._before
        if since:
            minutes = (at - since) / 60
            self._add("turns a minute", "answered", (done - were_done) / minutes)
            self._add("turns a minute", "refused or late", (failed - had_failed) / minutes)
        if took := self.turns.seconds[were_done:]:
            self._add("seconds of a turn", "median", median(took))
            self._add("seconds of a turn", "longest", max(took))
        self._before = (at, done, failed)


def figures_of(samples: Samples) -> Iterator[tuple[str, Any]]:
    """What the table says of the curves, by name."""
    ways: dict[str, Callable[[Sequence[float]], str]] = {
        MEMORY: lambda values: f"{values[0]:.0f} to {values[-1]:.0f}, most {max(values):.0f}",
        LAG: _spread,
        TASKS: _ends,
        DESCRIPTORS: _ends,
        "connections": _ends,
        "rows": lambda values: f"{values[-1]:.0f}",
        "seconds of a turn": _spread,
    }
    for panel, way in ways.items():
        for line, points in samples.curves.get(panel, {}).items():
            yield f"{panel}: {line}", way([value for _, value in points])
    for line, points in samples.curves.get(MEMORY, {}).items():
        if points[-1][0] - points[0][0] >= JUDGED_SECONDS:
            yield f"MiB an hour in the second half of: {line}", round(slope(points))


def leaks_in(curves: Mapping[str, Mapping[str, Points]]) -> Iterator[str]:
    """What a worker has not given back; only those that live to the end are judged."""
    end = max((points[-1][0] for points in curves.get(MEMORY, {}).values()), default=0.0)
    for line, points in curves.get(MEMORY, {}).items():
        grown = slope(points)
        if points[-1][0] - points[0][0] >= JUDGED_SECONDS and grown > MOST_MIB_AN_HOUR:
            yield f"worker {line} grows by {grown:.0f} MiB an hour"
    for panel, most in MOST_LEFT.items():
        for line, points in curves.get(panel, {}).items():
            if points[-1][1] > most and points[-1][0] >= end - 2 * PERIOD_SECONDS:
                yield f"{panel}: {line} has {points[-1][1]:.0f} at the end"


def slope(points: Points) -> float:
    """By how much a curve grows in an hour, over the second half of its time; 0 where that is too short."""
    half = (points[0][0] + points[-1][0]) / 2
    late = [(at, value) for at, value in points if at >= half]
    if len(late) < 3:
        return 0.0
    return linear_regression(*zip(*late, strict=True)).slope * 3600


def _spread(values: Sequence[float]) -> str:
    parts = quantiles(values, n=100) if len(values) > 1 else [values[0]] * 99
    return f"median {median(values):.1f}, 99 of 100 within {parts[98]:.1f}, most {max(values):.1f}"


def _ends(values: Sequence[float]) -> str:
    return f"{values[0]:.0f} to {values[-1]:.0f}, most {max(values):.0f}"
