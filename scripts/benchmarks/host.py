"""What a turn and a delta cost in a real Open WebUI: this pipe, its own connection, and the shortest possible pipe.

A fresh Open WebUI with the release file, its own connection to OpenRouter (`own`) and a pipe that does nothing but
write (`floor`), all before the same light server, in alternation; the first run of each is dropped. Processor time is
that of the whole host by its own clock, less what it takes while nothing happens; a page's websocket is open.

Milliseconds differ between machines and hours: the ratios to `own` and to `floor` count. Statements of the database,
events, bytes and wake-ups are of one turn. `hundred` has a fresh host for each kind, since memory does not fall again.
`parts` measures what reading by time and the transport bring, each alone, `source` what a function's size costs a call.
`tools` is wall time, the shortest of a turn whose tools mostly sleep: other work on the machine only adds to it.
The variable REPEATS says how often each is measured, 9 times without it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import httpx

from scripts.benchmarks._upstream import KEY, directive
from scripts.bundle import builder
from scripts.harness.openwebui import TOOL, WEATHER, OpenWebUI, Sent, Session
from scripts.harness.servers import PostgresServer
from scripts.launch import session
from scripts.launch.api import ApiError
from scripts.launch.process import printing_server, resident_kb
from scripts.paths import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = {"own": "own.openai/gpt-5.2", "floor": "floor", "ours": "openrouter.openai/gpt-5.2"}
REPEATS = int(os.environ.get("REPEATS", "9"))
LONG_MESSAGES = 400
STREAMS, STREAM_DELTAS, STREAM_PACE_SECONDS, STREAM_GAP_SECONDS = 100, 200, 0.05, 0.06
PACED = {"paced8": (400, 0.008), "paced20": (200, 0.020)}
BURST_DELTAS = 10_000
WHOLE_DELTAS = 300
_SETTLE_SECONDS = 0.25
_IDLE_SECONDS = 3.0
_HEALTH_SECONDS = 0.02
_READS = 100
MAX_IDLE_MS = 50.0
"""A second of the idle host takes less, or the machine is not fit to measure on."""
NAP = '''
import asyncio


class Tools:
    async def {name}(self) -> str:
        """
        Sleep.
        """
        await asyncio.sleep({seconds})
        return "Slept."
'''
FLOOR = '''"""
title: Floor
"""
import asyncio, json, re, time
from collections import Counter
from sqlalchemy import event
from sqlalchemy.engine import Engine

STATEMENTS = Counter()

@event.listens_for(Engine, "before_cursor_execute")
def _count(_connection, _cursor, statement, *_):
    table = re.search(r'\\b(?:FROM|INTO|UPDATE) "?(\\w+)', statement)
    STATEMENTS[f"{statement.split()[0]} {table[1] if table else ''}"] += 1

class Pipe:
    async def pipe(self, body):
        text = json.dumps(body["messages"])
        if "which statements" in text:
            return json.dumps(STATEMENTS)
        if named := re.findall(r"\\[\\[rows: (\\w+) (\\d+)\\]\\]", text):
            return json.dumps(await self.read(named[0][0], int(named[0][1])))
        return self.write(re.findall(r"\\[\\[bench: ([^\\]]*)\\]\\]", text)[-1])

    async def read(self, name, times):
        from open_webui.models.functions import Functions

        began, before = time.monotonic(), time.process_time()
        for _ in range(times):
            await Functions.get_function_by_id(name)
        return [time.process_time() - before, time.monotonic() - began]

    async def write(self, said):
        options = dict(pair.split("=", 1) for pair in said.split())
        pace, deltas = float(options.get("pace", 0)), int(options.get("deltas", 1))
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        at_once = max(1, round(0.04 / pace)) if pace else 40
        for at in range(0, deltas, at_once):
            await asyncio.sleep(pace * at_once)
            yield {"type": "response.output_text.delta", **where, "delta": " word" * min(at_once, deltas - at)}
        part = {"type": "output_text", "text": " word" * deltas, "annotations": []}
        done = {**item, "status": "completed", "content": [part]}
        yield {"type": "response.output_item.done", "output_index": 0, "item": done}
        yield {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [done]}}
'''

PACED_HTTPX = """

import httpcore

class _PacedStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream):
        self.stream, self.pace = stream, Pace()

    async def read(self, max_bytes, timeout=None):
        await self.pace.wait()
        return await self.stream.read(max_bytes, timeout)

    async def write(self, buffer, timeout=None):
        self.pace = Pace()
        await self.stream.write(buffer, timeout)

    async def aclose(self):
        await self.stream.aclose()

    def get_extra_info(self, info):
        return self.stream.get_extra_info(info)

class _PacedBackend(httpcore.AnyIOBackend):
    async def connect_tcp(self, *args, **options):
        return _PacedStream(await super().connect_tcp(*args, **options))

class _PacedHttpx(httpx.AsyncHTTPTransport):
    def __init__(self):
        super().__init__()
        self._pool._network_backend = _PacedBackend()

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        response.extensions["pace"] = response.extensions["network_stream"].pace
        return response
"""
_OURS = "            from .transport import Transport\n\n            transport = Transport()\n"
PARTS: dict[str, list[tuple[str, str]]] = {
    "neither": [(_OURS, "            pass\n")],
    "the transport alone": [("if self._interval_seconds and", "if False and")],
    "reading by time alone": [(_OURS, "            transport = _PacedHttpx()\n"), ("", PACED_HTTPX)],
    "both": [],
}
"""What of `openrouter/connections.py` is replaced by what; a text is added at the end for none."""


def run() -> dict[str, Any]:
    """Milliseconds, ratios and counts of one turn by the kind of work, then a hundred answers at once."""
    with printing_server("scripts.benchmarks._upstream") as base_url, Host(base_url) as host:
        found = {name: _compared(host, name, work) for name, work in host.scenarios().items()}
        found["first_and_stop"] = _first_and_stop(host)
    return {**found, **_derived(found)}


def run_parts() -> dict[str, Any]:
    """What a delta costs with each part of how streams are read, to its own connection in the same host."""
    found = dict[str, Any]()
    with printing_server("scripts.benchmarks._upstream") as base_url:
        for name, changes in PARTS.items():
            with Host(base_url, changes=changes) as host:
                work = host.scenarios()
                measured = {each: _compared(host, each, work[each]) for each in ("one", *PACED, "burst")}
                of_delta = _derived(measured)["per_delta"]
                found[name] = {each: values["to_own"] for each, values in of_delta.items()}
    return found


def run_source() -> dict[str, Any]:
    """What the size of a function's source costs a call: the host reads the function's row each time, with it."""
    package = builder.part_of(builder.read_package(PACKAGE), builder.PIPE)
    comments = {
        "none": "",
        "packed": builder.pack(package),
        "readable": builder.readable(package),
    }
    found = dict[str, Any]()
    with ExitStack() as stack:
        base_url = stack.enter_context(printing_server("scripts.benchmarks._upstream"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL runs as another account
        (folder / "postgres").mkdir()
        postgres = PostgresServer(folder / "postgres")
        stack.callback(postgres.stop)
        address = f"postgresql+psycopg://{postgres.url.partition('://')[2]}"
        for database, variables in {"SQLite": {}, "PostgreSQL": {"DATABASE_URL": address}}.items():
            with Host(base_url, variables=variables) as host:
                for name, text in comments.items():
                    source = FLOOR + "".join(f"# {line}\n" for line in text.splitlines())
                    host.server.admin.api.install_function(f"floor_{name}", name, source)
                    found[name] = {**found.get(name, {}), "kilobytes": len(source) // 1000}
                for name, measured in _row_reads(host, [*comments]).items():
                    found[name][database] = measured
    return found


def _row_reads(host: Host, names: list[str]) -> dict[str, dict[str, float]]:
    """Milliseconds of the host's processor for reading each function's row, and until it is read; medians."""
    taken = defaultdict[str, list[tuple[float, float]]](list)
    for name in names * REPEATS:
        message = {"role": "user", "content": f"[[rows: floor_{name} {_READS}]]"}
        answer = host.server.admin.complete(MODELS["floor"], [message])
        taken[name].append(json.loads(answer["choices"][0]["message"]["content"]))
    return {
        name: {"processor_ms": round(median(processor), 2), "waited_ms": round(median(waited), 2)}
        for name, values in taken.items()
        for processor, waited in [
            zip(*((a / _READS * 1000, b / _READS * 1000) for a, b in values), strict=True)
        ]
    }


def run_hundred() -> dict[str, Any]:
    """A hundred answers side by side, by each kind in a host of its own."""
    found = dict[str, Any]()
    with printing_server("scripts.benchmarks._upstream") as base_url:
        for kind in MODELS:
            with Host(base_url) as host:
                found[kind] = _hundred(host, kind)
    return found


def run_tools() -> dict[str, Any]:
    """Milliseconds of a turn with eight calls of 200 ms, by who runs them, and of one whose calls take no time."""
    cases = {"own": ("own", "host", 0.2), "host": ("ours", "host", 0.2), "pipe": ("ours", "pipe", 0.2)}
    found = defaultdict[str, list[float]](list)
    with printing_server("scripts.benchmarks._upstream") as base_url, Host(base_url) as host:
        for seconds in (0.0, 0.2):
            host.server.add_tool(_nap(seconds), NAP.format(name=_nap(seconds), seconds=seconds))
        for _ in range(REPEATS):
            for name, (kind, mode, seconds) in {**cases, "no_time": ("ours", "pipe", 0.0)}.items():
                host.server.admin.api.set_valves("openrouter", {"TOOL_EXECUTION": mode})
                text, tool = directive(deltas=5, tool=_nap(seconds), calls=8), _nap(seconds)
                for _ in range(2):  # the first has new settings to read
                    began = time.monotonic()
                    host.ask(kind, text, tool_ids=[tool])
                    took = time.monotonic() - began
                found[name].append(took * 1000)
    milliseconds = {name: round(min(each)) for name, each in found.items()}
    return {"ms": milliseconds, "of_the_tools": milliseconds["pipe"] - milliseconds["no_time"]}


def _nap(seconds: float) -> str:
    return f"nap_{seconds * 1000:.0f}"


@dataclass
class Host:
    """An Open WebUI with the three kinds of models, and one page in it."""

    base_url: str
    changes: list[tuple[str, str]] = field(default_factory=list)
    """Of the way in which streams are read."""
    variables: dict[str, str] = field(default_factory=dict)
    idle: float = 0.0
    """Processor seconds that it takes in a second while nothing happens."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _long: dict[str, Sent] = field(default_factory=dict)
    _asking: Counter[str] = field(default_factory=Counter)
    """The statements of asking for them."""

    def __enter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.server = OpenWebUI(folder, self.variables)
        self._stack.callback(self.server.close)
        api = self.server.admin.api
        content = builder.pack(builder.part_of(_changed(self.changes), builder.PIPE))
        session.install(api, content, API_KEY=KEY, BASE_URL=self.base_url)
        api.install_function("floor", "Floor", FLOOR)
        self.server.add_tool(TOOL, WEATHER)
        own = {"enable": True, "prefix_id": "own", "api_type": "responses", "tags": [], "model_ids": []}
        addresses = {"OPENAI_API_BASE_URLS": [self.base_url], "OPENAI_API_KEYS": [KEY]}
        form = {"ENABLE_OPENAI_API": True, **addresses, "OPENAI_API_CONFIGS": {"0": own}}
        api.post("/openai/config/update", form)
        missing = {*MODELS.values()} - {*api.models()}
        assert not missing, missing
        self.page = self._stack.enter_context(self.server.admin.session())
        self.statements()
        self._asking = self.statements(self.statements())
        self.pid = self.server.pid
        before, began = _processor_seconds(self.pid), time.monotonic()
        time.sleep(_IDLE_SECONDS)
        self.idle = (_processor_seconds(self.pid) - before) / (time.monotonic() - began)
        if self.idle * 1000 > MAX_IDLE_MS:
            print(f"the idle host takes {self.idle * 1000:.0f} ms of a second", file=sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def scenarios(self) -> dict[str, Callable[[str], int]]:
        """What is done by a kind of model, by name; each returns how many turns it was."""
        one = directive(deltas=1)
        work: dict[str, Callable[[str], int]] = {
            "api": lambda kind: self._bare(kind, 10),
            "one": lambda kind: self._turns(kind, 5, one),
            "tool": lambda kind: self._turns(
                kind, 4, directive(deltas=5, tool="get_weather"), tool_ids=[TOOL]
            ),
            "long": self._long_turns,
        }
        for name, (deltas, pace) in PACED.items():
            text = directive(deltas=deltas, pace=pace)
            work[name] = lambda kind, text=text: self._turns(kind, 1, text)  # type: ignore[misc]
        work["burst"] = lambda kind: self._turns(kind, 1, directive(deltas=BURST_DELTAS))
        return work

    def ask(self, kind: str, text: str, *, after: Sent | None = None, **fields: Any) -> Sent:
        """Send a message as the page does, and wait until it knows that the answer is done."""
        sent = self.server.admin.send(MODELS[kind], text, after=after, session_id=self.page.id, **fields)
        _wait_until_done(self.page, sent)
        return sent

    def statements(self, since: Counter[str] | None = None) -> Counter[str]:
        """How often the host's database has had each verb with each table, in all or since it was asked.

        It is asked twice: a turn still reads its chat after its last event, and has done so by the second time.
        """
        message = {"role": "user", "content": "which statements"}
        for _ in range(2):
            answer = self.server.admin.complete(MODELS["floor"], [message])
        found = Counter(json.loads(answer["choices"][0]["message"]["content"]))
        return found if since is None else found - since - self._asking

    def _bare(self, kind: str, turns: int) -> int:
        messages = [{"role": "user", "content": directive(deltas=3)}]
        for _ in range(turns):
            self.server.admin.complete(MODELS[kind], messages)
        return turns

    def _turns(self, kind: str, turns: int, text: str, **fields: Any) -> int:
        for _ in range(turns):
            self.ask(kind, text, **fields)
        return turns

    def _long_turns(self, kind: str) -> int:
        if kind not in self._long:
            self._long[kind] = self._long_chat(kind)
            self.ask(kind, directive(deltas=5), after=self._long[kind])
        for _ in range(3):
            self.ask(kind, directive(deltas=5), after=self._long[kind])
        return 3

    def _long_chat(self, kind: str) -> Sent:
        """A stored chat of many messages, by its last answer."""
        messages = dict[str, Any]()
        parent: str | None = None
        for number in range(LONG_MESSAGES):
            message_id = str(uuid4())
            if parent:
                messages[parent]["childrenIds"] = [message_id]
            by = (
                {"role": "user", "models": [MODELS[kind]]}
                if number % 2 == 0
                else {"role": "assistant", "model": MODELS[kind], "done": True}
            )
            text = f"Message {number} says: " + "some words of a usual length follow here. " * 6
            ids: dict[str, Any] = {"id": message_id, "parentId": parent, "childrenIds": []}
            messages[message_id] = {**ids, **by, "content": text, "timestamp": int(time.time())}
            parent = message_id
        history = {"messages": messages, "currentId": parent}
        chat = {
            "title": "long",
            "models": [MODELS[kind]],
            "history": history,
            "messages": [*messages.values()],
        }
        row = self.server.admin.api.post("/api/v1/chats/new", {"chat": chat})
        return Sent(row["id"], str(parent))


def _changed(changes: list[tuple[str, str]]) -> builder.Package:
    """The package with a module that reads streams in another way."""
    package, name = builder.read_package(PACKAGE), "openrouter/connections.py"
    text = package.files[name]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new) if old else text + new
    return replace(package, files={**package.files, name: text})


def _compared(host: Host, name: str, work: Callable[[str], int]) -> dict[str, Any]:
    """Medians of a turn by kind, and the ratios of ours."""
    milliseconds, counts = defaultdict[str, list[float]](list), dict[str, Any]()
    for number in range(REPEATS + 1):
        for kind in MODELS:
            if kind == "floor" and name == "tool":  # it calls none
                continue
            wakes, statements = _wakes(host.pid), host.statements()
            host.page.events.clear()
            began, before = time.monotonic(), _processor_seconds(host.pid)
            turns = work(kind)
            time.sleep(_SETTLE_SECONDS)
            seconds = _processor_seconds(host.pid) - before - host.idle * (time.monotonic() - began)
            if not number:
                continue
            milliseconds[kind].append(seconds * 1000 / turns)
            wakes = _wakes(host.pid) - wakes
            counts[kind] = {
                "wakes": round(wakes / turns, 1),
                "events": round(len(host.page.events) / turns, 1),
                "kilobytes": round(len(json.dumps(host.page.events)) / turns / 1000, 1),
                "statements": round(host.statements(statements).total() / turns, 1),
            }
    found = {kind: round(median(values), 2) for kind, values in milliseconds.items()}
    ratios = {f"to_{kind}": round(found["ours"] / found[kind], 2) for kind in found if kind != "ours"}
    return {"ms": found, **ratios, "of_a_turn": counts}


def _derived(found: dict[str, Any]) -> dict[str, Any]:
    """What a delta costs beyond the first, and a whole answer of three hundred."""
    one, per_delta = found["one"]["ms"], dict[str, Any]()
    sizes = {name: deltas for name, (deltas, _) in PACED.items()} | {"burst": BURST_DELTAS}
    for name, deltas in sizes.items():
        each = {kind: (ms - one[kind]) / deltas for kind, ms in found[name]["ms"].items()}
        whole = {kind: one[kind] + each[kind] * WHOLE_DELTAS for kind in each}
        per_delta[name] = {
            "ms": {kind: round(ms, 4) for kind, ms in each.items()},
            "to_own": round(each["ours"] / each["own"], 2),
            "whole_to_own": round(whole["ours"] / whole["own"], 2),
        }
    return {"per_delta": per_delta}


def _first_and_stop(host: Host) -> dict[str, Any]:
    """Milliseconds to the first delta, and from Stop until the page is told; medians."""
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    text = directive(deltas=1000, pace=0.008)
    for number in range(REPEATS + 1):
        for kind, model in MODELS.items():
            host.page.events.clear()
            began = time.monotonic()
            sent = host.server.admin.send(model, text, session_id=host.page.id)
            _wait_for(host.page, lambda event: str(_inner(event).get("type")).endswith(".delta"))
            first = time.monotonic() - began
            time.sleep(0.3)
            began = time.monotonic()
            host.server.admin.stop(sent)
            _wait_for(host.page, lambda event: event["data"]["type"] == "chat:tasks:cancel")
            if number:
                found[kind]["first_delta"].append(first * 1000)
                found[kind]["stop"].append((time.monotonic() - began) * 1000)
    return {kind: {name: round(median(ms), 1) for name, ms in of.items()} for kind, of in found.items()}


def _hundred(host: Host, kind: str) -> dict[str, Any]:
    """Many paced answers that begin shortly after each other."""
    text = directive(deltas=STREAM_DELTAS, pace=STREAM_PACE_SECONDS)
    host.ask(kind, text)
    stopping, lags, refused = threading.Event(), list[float](), 0
    before_mb, began = resident_kb(host.pid) / 1024, dict[str, float]()
    Path(f"/proc/{host.pid}/clear_refs").write_text("5", "ascii")
    arrived: dict[str, float] = {}
    threads = [
        threading.Thread(target=_watch_lag, args=(host.server.url, stopping, lags)),
        threading.Thread(target=_watch_firsts, args=(host.page, stopping, arrived)),
    ]
    for thread in threads:
        thread.start()
    seconds, sent = _processor_seconds(host.pid), list[Sent]()
    host.page.events.clear()
    for _ in range(STREAMS):
        now = time.monotonic()
        try:
            sent.append(host.server.admin.send(MODELS[kind], text, session_id=host.page.id))
            began[sent[-1].message_id] = now
        except ApiError:  # of SQLite that is locked
            refused += 1
        time.sleep(max(0.0, now + STREAM_GAP_SECONDS - time.monotonic()))
    for each in sent:
        with suppress(TimeoutError):
            _wait_until_done(host.page, each)
    stopping.set()
    for thread in threads:
        thread.join()
    firsts = [(arrived[name] - at) * 1000 for name, at in began.items() if name in arrived]
    cuts = quantiles(firsts, n=100, method="inclusive")
    return {
        "refused": refused,
        "processor_seconds": round(_processor_seconds(host.pid) - seconds, 2),
        "memory_mb": round(before_mb),
        "peak_more_mb": round(_peak_mb(host.pid) - before_mb, 1),
        "first_delta_p50_ms": round(cuts[49]),
        "first_delta_p99_ms": round(cuts[98]),
        "lag_p99_ms": round(quantiles(lags, n=100, method="inclusive")[98] * 1000, 1),
        "events": len(host.page.events),
    }


def _watch_lag(url: str, stopping: threading.Event, lags: list[float]) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        while not stopping.wait(_HEALTH_SECONDS):
            began = time.monotonic()
            client.get("/health")
            lags.append(time.monotonic() - began)


def _watch_firsts(page: Session, stopping: threading.Event, arrived: dict[str, float]) -> None:
    seen = 0
    while not stopping.wait(0.005):
        events = page.events
        for event in events[seen:]:
            if str(_inner(event).get("type")).endswith(".delta"):
                arrived.setdefault(str(event.get("message_id")), time.monotonic())
        seen = len(events)


def _inner(event: dict[str, Any]) -> dict[str, Any]:
    inner = event["data"].get("data")
    return inner if isinstance(inner, dict) else {}


def _wait_for(page: Session, is_it: Callable[[dict[str, Any]], bool], seconds: float = 60.0) -> None:
    seen = 0

    def has_come() -> bool:
        nonlocal seen
        arrived = page.events[seen:]
        seen += len(arrived)
        return any(map(is_it, arrived))

    page.wait_until(has_come, seconds)


def _wait_until_done(page: Session, sent: Sent) -> None:
    def is_last(event: dict[str, Any]) -> bool:
        return event.get("message_id") == sent.message_id and _inner(event).get("done") is True

    _wait_for(page, is_last, 300.0)


def _processor_seconds(pid: int) -> float:
    """What all threads of a process have taken, also those that have ended (Linux: its CPUCLOCK_SCHED)."""
    return time.clock_gettime((~pid << 3) | 2)


def _wakes(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    lines = (path.read_text("ascii") for path in Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(
        int(line.split()[1]) for text in lines for line in text.splitlines() if line.startswith("voluntary")
    )


def _peak_mb(pid: int) -> float:
    """The most of memory that a process has taken since its marks were cleared."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


BENCHMARKS = {
    "host": run,
    "hundred": run_hundred,
    "parts": run_parts,
    "source": run_source,
    "tools": run_tools,
}
