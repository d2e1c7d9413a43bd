"""One run: servers, users, faults in the order of a seed or by the clock, samples all the while, and the audits."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx

from scripts.faults import servers as starting
from scripts.faults.audit import Report, audit, fetch
from scripts.faults.chats import Outage, compare_chats, stored_in
from scripts.faults.curves import draw
from scripts.faults.pages import Person
from scripts.faults.samples import Samples, figures_of, leaks_in
from scripts.faults.servers import OUTAGES, Fault, Servers
from scripts.faults.users import ACTS, MODELS, Act, Turns, User, key_of
from scripts.harness.openwebui import TOOL
from scripts.paths import ARTIFACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
HOLDS_SECONDS = 150.0
"""Two minutes, and time to notice."""
LATE_SECONDS = 75.0
"""After the last answer: by then a stopped one's bill was asked for twice."""
UNEXPECTED = "unexpected error"
"""What the pipe logs of an error that it has no words for."""
LIMITS = "user: 50/day; all: 5000/month"


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens: turns, faults among them, users, and seconds after which no more turns begin.

    `restarts` are faults by the clock, each after a share of the seconds. `pages` of the users are at a browser,
    `pause` is how many seconds users rest after a turn, and `length` how many questions a chat has at most. What is
    kept of the run has its `name`.
    """

    turns: int = 3000
    faults: int = 300
    users: int = 20
    seconds: float = 20 * 60.0
    seed: int = 31
    limits: str = LIMITS
    pages: int = 0
    pause: float = 0.0
    length: int = 6
    restarts: tuple[tuple[float, Fault], ...] = ()
    name: str = "faults"


def run(size: Size) -> Report:
    """Start everything, let it fail, and audit it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        say("starting Open WebUI")
        valves = {"COST_LINE": "off", "SEND_IDENTITY": "user", "SPENDING_LIMITS": size.limits or None}
        servers = starting.start(folder, stack, **valves)
        say(f"two workers serve: {servers.workers()}")
        plan, faults = plan_of(size)
        turns = Turns(plan, length=size.length, pause=size.pause)
        stack.callback(turns.stop)  # after an interrupt, too
        samples = stack.enter_context(Samples(servers, turns, servers.probes))
        users = [*_users(servers, size, turns)]
        people = users[: size.pages]
        began = time.monotonic()
        turns.deadline = began + size.seconds
        threads = [
            *(threading.Thread(target=Person(user, folder / user.name).run) for user in people),
            *(threading.Thread(target=user.run) for user in users[size.pages :]),
        ]
        for thread in threads:
            thread.start()
        outages = _strike(servers, samples, due_faults(turns, faults, size), size)
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        begun = turns.begun
        say(f"{begun} turns in {seconds:.0f} s")
        _wait_for_late_bills(turns, users)
        report = Report({"turns": begun, "seconds of chatting": round(seconds)})
        struck = Counter(outage.kind for outage in outages)
        report.figures |= {f"fault: {kind}": count for kind, count in sorted(struck.items())}
        report.figures |= dict(sorted(turns.counts.items()))
        _wait_for_holds(servers)
        samples.stop()
        bills: list[dict[str, Any]] = httpx.get(f"{servers.standin}/bills", timeout=60).json()
        audit(servers.postgres.url, bills, report)
        _audit_chats(servers, turns, users, outages, report)
        report.figures |= {**_bytes_of_rows(servers), **dict(figures_of(samples))}
        report.violations += [*turns.wrong, *leaks_in(samples.curves)]
        read_log(servers.host.log.read_text("utf-8", "replace"), report)
        _keep(servers, samples, size.name)
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


def due_faults(turns: Turns, faults: Mapping[int, Fault], size: Size) -> Iterator[Fault]:
    """The faults of servers, each when it is its turn or its time, until the users have done."""
    began = turns.deadline - size.seconds
    measures: tuple[tuple[Callable[[], float], Iterable[tuple[float, Fault]]], ...] = (
        (lambda: turns.begun - 1, sorted(faults.items())),
        (lambda: (time.monotonic() - began) / size.seconds, size.restarts),
    )
    for measure, due in measures:
        for at, fault in due:
            while measure() < at:
                if time.monotonic() > turns.deadline or turns.begun >= len(turns.plan):
                    return
                time.sleep(0.05)
            yield fault


def _strike(servers: Servers, samples: Samples, due: Iterator[Fault], size: Size) -> list[Outage]:
    """Let the servers fail, and return when each did."""
    chance, struck = Random(size.seed), list[Outage]()  # noqa: S311 - no secret
    for fault in due:
        began = time.time()
        servers.strike(fault, chance)
        struck.append(Outage(fault, began, time.time()))
        if fault in OUTAGES - {"cut"}:
            samples.mark(fault)
            say(fault)
    return struck


def _users(servers: Servers, size: Size, turns: Turns) -> Iterator[User]:
    for number in range(size.users):
        name = f"user{number}"
        account = servers.host.add_user(name)
        model, key = MODELS[number % len(MODELS)], key_of(account.api)
        yield User(name, account, key, model, turns, size.seed, TOOL, servers.channel)


def _wait_for_late_bills(turns: Turns, users: Sequence[User]) -> None:
    """Rest until holds of killed workers are over, whoever comes then finds them, and until late bills are told."""
    turns.plan[turns.begun :] = ["ask"] * len(users)
    turns.deadline = time.monotonic() + HOLDS_SECONDS
    time.sleep(max(0.0, HOLDS_SECONDS - LATE_SECONDS))
    threads = [threading.Thread(target=user.run) for user in users[: len(users) // 2 + 1]]
    for thread in threads:
        thread.start()
    time.sleep(LATE_SECONDS)
    turns.stop()
    for thread in threads:
        thread.join()


def _wait_for_holds(servers: Servers) -> None:
    deadline = time.monotonic() + HOLDS_SECONDS
    while time.monotonic() < deadline:
        if not fetch(servers.postgres.url, "SELECT count(*) FROM openrouter_pipe_hold")[0][0]:
            return
        time.sleep(2)


def _audit_chats(
    servers: Servers, turns: Turns, users: Sequence[User], outages: Sequence[Outage], report: Report
) -> None:
    """Compare all chats, as their users can export them, with the stand-in's log."""
    stored = [
        answer
        for user in users
        for line in user.account.api.content("/api/v1/chats/all").splitlines()
        for answer in stored_in(json.loads(line)["chat"])
    ]
    log = [json.loads(line) for line in servers.log.read_text("utf-8").splitlines()]
    broken = [outage for outage in outages if outage.kind in OUTAGES]
    compare_chats(dict(turns.asked), stored, log, broken, report)


def _bytes_of_rows(servers: Servers) -> dict[str, Any]:
    found = dict[str, Any]()
    for table in ("openrouter_pipe_audit", "openrouter_pipe_artifact"):
        size = fetch(servers.postgres.url, f"SELECT pg_total_relation_size('{table}')")[0][0]
        rows = fetch(servers.postgres.url, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 - a table of ours
        found[f"bytes a row of {table}"] = round(size / max(1, rows))
    return found


def read_log(text: str, report: Report) -> None:
    """Count what the host's log says of bills, workers and errors; one that nobody expected must not be."""
    for words in ("bill not written", UNEXPECTED, "Child process", "never retrieved"):
        report.figures[f"log: {words}"] = text.count(words)
    report.violations += [line[:300] for line in text.splitlines() if UNEXPECTED in line]


def _keep(servers: Servers, samples: Samples, name: str) -> None:
    """Leave the picture, its points and both logs in `.artifacts/`, called like the run."""
    ARTIFACTS.mkdir(exist_ok=True)
    draw(samples.curves, samples.marks, ARTIFACTS / f"{name}.png")
    points = {"curves": samples.curves, "marks": samples.marks, "tasks": samples.kinds}
    (ARTIFACTS / f"{name}.json").write_text(json.dumps(points), "utf-8")
    shutil.copy(servers.host.log, ARTIFACTS / f"{name}.log")
    shutil.copy(servers.log, ARTIFACTS / f"{name}-requests.jsonl")


def say(text: str) -> None:
    """Print how far it is."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
