"""What goes wrong in a world: faults drawn by a seed, each a plain record, and where and when they strike.

A record is one step of a story, so a story can be told without it. It is armed when its step comes, and strikes the
first operation of its kind from then on, after those that it skips. `Faults.strikes` says what has struck whom; what
strikes a request is kept with it.

    connect     a connection to OpenRouter is refused, or reset before anything is answered
    cut         an answer breaks at any byte: the connection ends, is reset, ends within a portion, carries noise, or
                falls silent
    refusal     a documented status, as JSON, as a failed response or as a gateway's page
    recorded    one of the refusals in `tests/data/openrouter/errors.json`
    provider    a provider that fails in mid-stream, an answer that ends early, comes slowly, late, or never
    database    a statement that is not executed, a COMMIT whose answer is lost before, inside or after it, a full disk
    database_away, redis_away   nothing there answers for so many seconds
    redis       a command that is lost, or whose answer is
    kill, skew, settings   a worker's process, clock and valves: the world carries these out
    prices      a model of the catalogue has other prices
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from scripts.paths import ROOT
from scripts.standin.errors import KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

Record = dict[str, Any]
Place = Literal["connect", "stream", "answer", "database", "redis", "away", "world"]

ERRORS: Final = ROOT / "tests" / "data" / "openrouter" / "errors.json"
GATEWAY_STATUSES: Final = (500, 502, 503, 504, 520, 522, 524)
PROVIDER_ORDERS: Final = (
    "fail=failed after={deltas}",
    "fail=response.error after={deltas}",
    "fail=nested after={deltas}",
    "fail=flat after={deltas}",
    "fail=eof after={deltas}",
    "incomplete=max_output_tokens",
    "incomplete=content_filter",
    "delay=2 first=50",
    "delay=0.1 first=200",
    "hang",
    "late",
    "unknown=both",
    "mute",
)
MOMENTS: Final = ("connect", "execute", "before", "inside", "after", "full")
"""Of a database: no connection; no statement; COMMIT is lost, or its answer, or the next one; or the disk is full."""
SKEWS_SECONDS: Final = (-3600.0, -90.0, -2.0, 2.0, 90.0, 3600.0)
OTHER_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"CONTEXT_AIM": "thrifty"},
    {"COST_LINE": "cost"},
    {"RECALL": False},
    {"SEND_IDENTITY": "trace"},
    {"CONTEXT_STRATEGY": "prune"},
)
"""Valves of a worker that has not seen yet, or has seen too early, what an administrator has changed."""


@cache
def recorded_errors() -> list[Record]:
    """The refusals that were recorded from OpenRouter."""
    found: list[Record] = json.loads(ERRORS.read_text("utf-8"))
    return found


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault: how often it is drawn beside the others, which operation it strikes, and what it is like.

    The place is "away" for what is away for a time, and "world" for what the world carries out.
    """

    rate: int
    place: Place
    fields: Callable[[Random], Record]


def _connect(chance: Random) -> Record:
    return {"how": chance.choice(("refused", "reset"))}


def _cut(chance: Random) -> Record:
    how = chance.choice(("drop", "reset", "half", "noise", "silence"))
    return {
        "how": how,
        "times": 1,
        "after_bytes": int(chance.expovariate(1 / 4000)),
        "noise": chance.randbytes(12).hex(),
    }


def _refusal(chance: Random) -> Record:
    if chance.random() < 1 / 4:
        return {"orders": f"error={chance.choice(GATEWAY_STATUSES)} family=html"}
    family = chance.choice(("", "", " family=A", " family=B", " family=C"))
    wait = chance.choice(("", " retry_after=2", " retry_after=600"))
    return {"orders": f"error={chance.choice([*KNOWN])}{family}{wait}"}


def _provider(chance: Random) -> Record:
    return {"orders": chance.choice(PROVIDER_ORDERS).format(deltas=chance.randrange(12))}


def _away(chance: Random) -> Record:
    return {"seconds": chance.choice((0.3, 2.0, 20.0, 300.0))}


KINDS: Final = {
    "connect": Kind(6, "connect", _connect),
    "cut": Kind(22, "stream", _cut),
    "refusal": Kind(14, "answer", _refusal),
    "recorded": Kind(14, "answer", lambda chance: {"row": chance.randrange(len(recorded_errors()))}),
    "provider": Kind(14, "answer", _provider),
    "database": Kind(22, "database", lambda chance: {"moment": chance.choice(MOMENTS)}),
    "database_away": Kind(4, "away", _away),
    "redis": Kind(8, "redis", lambda chance: {"how": chance.choice(("lost", "unheard"))}),
    "redis_away": Kind(3, "away", _away),
    "kill": Kind(8, "world", lambda chance: {"turns": int(chance.expovariate(1 / 300))}),
    "skew": Kind(3, "world", lambda chance: {"seconds": chance.choice(SKEWS_SECONDS)}),
    "settings": Kind(3, "world", lambda chance: {"valves": chance.choice(OTHER_SETTINGS)}),
    "prices": Kind(3, "world", lambda chance: {"factor": chance.choice((0.25, 0.5, 2.0, 10.0))}),
}
WORLD_KINDS: Final = frozenset(kind for kind, each in KINDS.items() if each.place == "world")
"""What the world carries out itself; a kill comes after so many turns of the event loop."""


def draw(chance: Random, workers: Sequence[str], models: Sequence[str]) -> Record:
    """Draw a fault that strikes any of the workers, or the prices of one of the models."""
    name = chance.choices([*KINDS], [each.rate for each in KINDS.values()])[0]
    kind = KINDS[name]
    record: Record = {"kind": name}
    if kind.place not in {"world", "away"}:
        record |= {"skip": chance.choice((0, 0, 0, 1, 2, 5)), "times": chance.choice((1, 1, 1, 1, 2, 6))}
    elif name == "prices":
        record["model"] = chance.choice(models)
    elif kind.place == "world":
        record["worker"] = chance.choice(workers)
    return record | kind.fields(chance)


@dataclass(frozen=True, slots=True)
class Strike:
    """Whom a fault has struck: a call where it is known whose work was under way, else a worker by its name."""

    kind: str
    whom: object


@dataclass(slots=True, eq=False)
class _Armed:
    record: Record
    skip: int
    times: int


class Faults:
    """The faults that are armed; `clock` gives true epoch seconds, and `say` writes a line of the world's log.

    `whose` returns the call whose work is under way, None where nobody's is.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        say: Callable[[str], None],
        whose: Callable[[], object] = lambda: None,
    ) -> None:
        self._clock, self._say, self._whose = clock, say, whose
        self._armed: list[_Armed] = []
        self._away_until: dict[str, float] = {}
        self.struck: Counter[str] = Counter()
        """How often each kind has struck."""
        self.strikes: list[Strike] = []
        """Those of the database, Redis, and the world that were not judged yet."""

    def arm(self, record: Record) -> None:
        """Let a fault strike from here on."""
        place = KINDS[record["kind"]].place
        if place == "away":
            self._away_until[record["kind"].removesuffix("_away")] = self._clock() + record["seconds"]
            self.note(record, "all")
        elif place != "world":
            self._armed.append(_Armed(record, record.get("skip", 0), record.get("times", 1)))

    def disarm(self) -> None:
        """Let nothing that is armed strike any more; what is away comes back in its time."""
        self._armed.clear()

    def note(self, record: Record, whom: str) -> None:
        """Count a fault that has struck."""
        self.struck[record["kind"]] += 1
        match KINDS[record["kind"]].place:
            case "database" | "redis":
                self.strikes.append(Strike(record["kind"], self._whose() or whom))
            case "world":
                self.strikes.append(Strike(record["kind"], whom))
        self._say(f"fault {json.dumps(record, sort_keys=True)} strikes {whom}")

    def take(self, place: Place, whom: str, moment: str = "") -> Record | None:
        """The fault that strikes this operation, if any does; one that cuts is noted when it comes to that."""
        if self._clock() < self._away_until.get(place, 0.0):
            return {"kind": f"{place}_away", "how": "lost", "moment": moment}
        for armed in self._armed:
            if KINDS[armed.record["kind"]].place != place or armed.record.get("moment", "") != moment:
                continue
            if armed.skip > 0:
                armed.skip -= 1
                return None
            armed.times -= 1
            if armed.times <= 0:
                self._armed.remove(armed)
            if place != "stream":
                self.note(armed.record, whom)
            return armed.record
        return None

    def orders(self, record: Record) -> str:
        """What tells the stand-in to answer as a fault says."""
        if record["kind"] != "recorded":
            return f"[[standin: {record['orders']}]]"
        names = ("status", "shape", "body", "message")
        row = {name: value for name, value in recorded_errors()[record["row"]].items() if name in names}
        return f"[[standin: recorded={json.dumps(row)}]]"

    async def database(self, worker: str, kind: str, statement: str) -> None:
        """Let a worker's driver fail before it does something; raises sqlite3.OperationalError.

        `kind` is what it is about to do: connect, execute, commit, or, when it has committed, go on.
        """
        is_away = kind != "rollback" and self._clock() < self._away_until.get("database", 0.0)
        if is_away:
            self.strikes.append(Strike("database_away", self._whose() or worker))
            raise sqlite3.OperationalError(
                "unable to open database file" if kind == "connect" else "disk I/O error"
            )
        for moment, at, said in _DATABASE:
            if at != kind or (moment == "full" and not statement.lstrip().startswith(_WRITES)):
                continue
            if self.take("database", worker, moment):
                raise sqlite3.OperationalError(said)


_WRITES: Final = ("INSERT", "UPDATE")
_DATABASE: Final = (
    ("connect", "connect", "unable to open database file"),
    ("execute", "execute", "disk I/O error"),
    ("full", "execute", "database or disk is full"),
    ("before", "commit", "database is locked"),
    ("inside", "committed", "database is locked"),
    ("after", "connect", "unable to open database file"),
)
"""At which step of the driver a moment strikes, and what it raises. "After" a COMMIT the next connection is lost."""
