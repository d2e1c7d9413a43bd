"""How time and memory of each stage grow with use: long chats, artifacts, chats, models, users under limits.

Each subject is measured at four sizes, of which each is twice the one before. `seconds` are the shortest of several
runs: of processor time where nothing else works for it, else by the wall; `megabytes` what Python allocates at most, in
a run of its own. `exponent` is that of the power of the size that fits all four best, `last` that of the last doubling:
above 1.1 a stage grows faster than its input. Stages that take less than `LEAST_SECONDS` have none.

The table and the curves are in `.artifacts/scale.md` and `scale.png`, with those of earlier runs of other subjects. The
variable SUBJECTS names subjects, separated by commas; all without it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import tempfile
import time
import tracemalloc
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scripts.benchmarks import _scale_chats, _scale_tables
from scripts.benchmarks._curves import draw_curves
from scripts.harness.database import open_database
from scripts.harness.servers import PostgresServer
from scripts.paths import ARTIFACTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Subject = Callable[[int, "Stages"], Awaitable[None]]

HALVINGS: Final = 3
LEAST_SECONDS: Final = 0.004
REPEATS: Final = 2
SUBJECTS: Final = {
    "chat": (2_000, "turns of 10 KB", _scale_chats.chat),
    "turn": (2_000, "turns before it, of 10 KB", _scale_chats.turn),
    "window": (1_000_000, "tokens of the window", _scale_chats.window),
    "stream": (20_000, "deltas", _scale_chats.stream),
    "catalogue": (1_000, "models", _scale_chats.catalogue),
}
TABLES: Final = {
    f"{name} on {database}": (largest, things, subject)
    for name, largest, things, subject in (
        ("artifacts", 1_000_000, "artifacts, ten in a chat", _scale_tables.artifacts),
        ("users", 1_000, "users under limits, each with a running request", _scale_tables.users),
    )
    for database in ("SQLite", "PostgreSQL")
}


@dataclass
class Stages:
    """What the stages of a subject take at one size."""

    clock: Callable[[], float] = time.process_time
    traces: bool = False
    taken: dict[str, float] = field(default_factory=dict)
    """Seconds by the name of a stage, or megabytes."""

    def lacks(self, name: str) -> bool:
        """Whether a long stage is still to be measured: once, and its memory not at all, since that takes longer."""
        return not (self.traces or name in self.taken)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure what runs meanwhile."""
        if self.traces:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            yield
            self.taken[name] = (tracemalloc.get_traced_memory()[1] - before) / 1e6
            return
        begin = self.clock()
        yield
        self.taken[name] = min(self.clock() - begin, self.taken.get(name, math.inf))


def run() -> dict[str, Any]:
    """By subject and stage: seconds and megabytes at the four sizes, and exponents."""
    named = os.environ.get("SUBJECTS", "")
    wanted = named.split(",") if named else [*SUBJECTS, *TABLES]
    ARTIFACTS.mkdir(exist_ok=True)
    path, found = ARTIFACTS / "scale.json", dict[str, Any]()
    for name in wanted:
        measured = _on_server(name) if name in TABLES else asyncio.run(_grown(*SUBJECTS[name]))
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        found = {**known, name: measured}
        path.write_text(json.dumps(found, indent=1), "utf-8")
        (ARTIFACTS / "scale.md").write_text(table(found), "utf-8")
        draw_curves(found, ARTIFACTS / "scale.png")
    return found


async def _grown(largest: int, things: str, subject: Subject) -> dict[str, Any]:
    sizes = [largest >> halved for halved in range(HALVINGS, -1, -1)]
    timed, traced = [], []
    for size in sizes:
        timed.append(Stages())
        for _ in range(REPEATS):
            await subject(size, timed[-1])
        tracemalloc.start()
        traced.append(Stages(traces=True))
        await subject(size, traced[-1])
        tracemalloc.stop()
    return summed_up(sizes, things, timed, traced)


def _on_server(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        if "SQLite" in name:
            return asyncio.run(_filled(f"sqlite:///{folder}/rows.db", *TABLES[name]))
        server = PostgresServer(Path(folder))
        try:
            return asyncio.run(_filled(server.url, *TABLES[name]))
        finally:
            server.stop()


async def _filled(url: str, largest: int, things: str, subject: Any) -> dict[str, Any]:
    """The tables are filled further from size to size."""
    sizes = [largest >> halved for halved in range(HALVINGS, -1, -1)]
    clock = time.process_time if url.startswith("sqlite") else time.perf_counter
    timed = [Stages(clock=clock) for _ in sizes]
    traced = [Stages(traces=True) for _ in sizes]
    async with aclosing(open_database(url)) as database:
        tables = subject(database)
        for size, time_stages, memory_stages in zip(sizes, timed, traced, strict=True):
            await tables.fill(size)
            for _ in range(REPEATS):
                await tables.measure(time_stages)
            tracemalloc.start()
            await tables.measure(memory_stages)
            tracemalloc.stop()
    return summed_up(sizes, things, timed, traced)


def summed_up(sizes: list[int], things: str, timed: list[Stages], traced: list[Stages]) -> dict[str, Any]:
    """What was measured of a subject, by its stages."""
    stages = {}
    for name in timed[-1].taken:
        seconds = [each.taken[name] for each in timed]
        stages[name] = {
            "seconds": [round(each, 6) for each in seconds],
            "megabytes": [round(each.taken[name], 2) for each in traced if name in each.taken],
            **exponents(sizes, seconds),
        }
    return {"sizes": sizes, "things": things, "stages": stages}


def exponents(sizes: list[int], seconds: list[float]) -> dict[str, float]:
    """Of the power that fits all, and of the last doubling; none where the time is too short to tell."""
    if seconds[-1] < LEAST_SECONDS:
        return {}
    points = [(math.log(size), math.log(taken)) for size, taken in zip(sizes, seconds, strict=True)]
    mean_x, mean_y = (sum(each) / len(points) for each in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return {"exponent": round(slope, 2), "last": round(math.log2(seconds[-1] / seconds[-2]), 2)}


def table(found: dict[str, Any]) -> str:
    """All stages as a table in Markdown."""
    lines = []
    for subject, each in found.items():
        sizes = " | ".join(f"{size:,}" for size in each["sizes"])
        lines += ["", f"## {subject}: {each['things']}", "", f"| ms | {sizes} | MB | exponent | last |"]
        lines.append("|---" * (len(each["sizes"]) + 4) + "|")
        for name, stage in each["stages"].items():
            cells = [f"{1e3 * seconds:,.1f}" for seconds in stage["seconds"]]
            cells += [f"{stage['megabytes'][-1]:,.1f}" if stage["megabytes"] else ""]
            cells += [str(stage.get(key, "")) for key in ("exponent", "last")]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines[1:]) + "\n"


BENCHMARKS = {"scale": run}
