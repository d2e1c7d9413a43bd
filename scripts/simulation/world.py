"""One world: the host and its workers, the provider, the database and Redis, in one event loop under one seed.

It runs a story moment by moment: the steps of a moment go on at once, each on one of the workers; when all have ended
and nothing runs in the background, the laws are judged. A worker that is killed loses all that it had in memory.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import tempfile
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.worker import Host as Resources
from scripts.harness.page import KeptFiles
from scripts.standin.prompt import ByteTokenizer

from . import host, users
from .clock import Chance, Clock, VirtualLoop, installed
from .faults import WORLD_KINDS, Faults
from .laws import Laws
from .services import BASE_URL, CALL, Transport, Upstream
from .stores import InProcess, OnServers, Store, Stores

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

Json = dict[str, Any]

KEY = "sk-or-v1-simulation"
SECRET = "the host's secret"  # noqa: S105 - of a host that does not exist
LONGEST_SECONDS = 6 * 3_600.0
"""No step, and nothing in the background, may take longer."""
LOOK_MOMENTS = 100
"""How often what nobody holds any more is collected: never while anything runs."""
KEPT_LINES = 400
GROUP = "Keepers"
"""The host's group, which has every other user."""

WORKER: ContextVar[Worker | None] = ContextVar("WORKER", default=None)
"""The worker whose code runs."""


class BrokenError(Exception):
    """A law does not hold; says which, and in which moment of the story."""

    def __init__(self, at: int, found: list[str]) -> None:
        super().__init__(at, found)
        self.at, self.found = at, found

    def __str__(self) -> str:
        return f"moment {self.at}: {'; '.join(self.found)}"

    @property
    def law(self) -> str:
        """Which law it is: what stands before the colon."""
        return self.found[0].partition(":")[0]


@dataclass(slots=True, eq=False)
class Worker:
    """One process of the host, as long as it lives."""

    name: str
    pipe: Pipe
    store: Store
    transport: Transport
    skew_seconds: float = 0.0
    tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict)
    apps: list[App] = field(default_factory=list)
    is_dead: bool = False

    @property
    def app(self) -> App | None:
        """What answers in it; None before the first call, and when it is dead."""
        return self.apps[-1] if self.apps and not self.is_dead else None


class World:
    """All of it."""

    def __init__(
        self,
        story: Json,
        clock: Clock,
        chance: Chance,
        *,
        keeps_all: bool = False,
        servers: tuple[str, str] | None = None,
    ) -> None:
        """Create it while the clock and the chance are installed; `servers` are the URLs of PostgreSQL and Redis."""
        self.story, self.clock, self.chance, self.keeps_all = story, clock, chance, keeps_all
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.digest, self.lines = hashlib.sha256(), list[str]()
        self.host = host.Host(self.clock.true)
        self.host.log = self.log
        self.host.valves = {"API_KEY": KEY, "BASE_URL": BASE_URL, **story["valves"]}
        self.host.users = {
            f"user-{at}": host.User(f"user-{at}", is_admin=at == 0) for at in range(story["users"])
        }
        self.names = [*self.host.users]
        """Who takes the steps of each of the story's users."""
        self.host.groups = {GROUP: frozenset(f"user-{at}" for at in range(1, story["users"], 2))}
        self.faults = Faults(self.clock.true, lambda line: self.log("fault", line), CALL.get)
        self.travel = Random(f"travel {story['seed']}")  # noqa: S311 - no secret
        self.upstream = Upstream(self.faults, self.clock.true, self.travel)
        self.upstream.service.tokenizer = ByteTokenizer()
        self.counts = {"messages": 0, "tools": 0, "moments": 0, "requests": 0}
        self.kills: list[tuple[str, float]] = []
        """Of which worker, and when, in epoch seconds."""
        self._folder = tempfile.TemporaryDirectory(prefix="simulation-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.stores = self._open(servers)
        self.workers = [self._new_worker(f"w{at}") for at in range(story["workers"])]
        self._dead: list[Worker] = []
        self.laws = Laws(self)

    # --- what it is made of

    def _open(self, servers: tuple[str, str] | None) -> Stores:
        if servers is None:
            return InProcess(self.folder, self.clock.true, self.faults, self.travel, self._database)
        stores = OnServers(*servers, self.clock.true, self.faults, self._database)
        self.loop.wait_for(stores.is_waited_for)
        return stores

    def _new_worker(self, name: str) -> Worker:
        transport = self.upstream.transport(name)
        worker = Worker(name, Pipe(lambda: self._build(worker)), self.stores.of(name), transport)
        return worker

    def _build(self, worker: Worker) -> App:
        resources = Resources(
            worker.store.database,
            self.host,
            Secret(SECRET),
            redis=GuardedRedis(worker.store.redis, prefix="simulation", clock=self.loop.time),
            cache_folder=self.folder,
            files=KeptFiles(self.host.files),
            chat_pauses=self.host.pauses,
            people=self.host.people,
            groups=self.host.groups_of,
            attached_documents=self.host.attached_documents,
            middleware=host.Middleware,
            stored_valves=self.host.stored_valves,
        )
        worker.apps.append(App(resources, transport=worker.transport, clock=self.clock.now))
        return worker.apps[-1]

    async def _database(self, worker: str, kind: str, statement: str) -> None:
        is_of_tables = statement.startswith(("CREATE INDEX", "PRAGMA"))  # SQLAlchemy keeps indexes in a set
        self.log("database", worker, kind, "" if is_of_tables else statement)
        await self.faults.database(worker, kind, statement)

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement of SQLite finds, whatever the workers' connections do."""
        return self.stores.query(statement, values)

    @property
    def apps(self) -> dict[str, App]:
        """What answers in each worker that lives."""
        return {worker.name: app for worker in self.workers if (app := worker.app)}

    def user(self, step: Json) -> host.User:
        """Whose a step is."""
        return self.host.users[self.names[step["user"] % len(self.names)]]

    def replace_user(self, step: Json) -> None:
        """Delete whose a step is; another one comes in their place."""
        at = step["user"] % len(self.names)
        self.host.delete_user(self.names[at])
        self.names[at] = f"user-{at}.{self.host.number()}"
        self.host.users[self.names[at]] = host.User(self.names[at])

    def log(self, *parts: Any) -> None:
        """Note an event."""
        line = f"{self.loop.time():.6f} {' '.join(map(str, parts))}"
        self.digest.update(line.encode("utf-8", "surrogatepass"))
        self.lines.append(line)
        if not self.keeps_all and len(self.lines) > 2 * KEPT_LINES:
            del self.lines[:-KEPT_LINES]

    async def aclose(self) -> None:
        """End all that still runs; the catalogue is as it was."""
        self.upstream.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        await self.stores.aclose()
        self._folder.cleanup()

    # --- how it goes on

    async def run(self) -> None:
        """Run the whole story. Raises BrokenError."""
        await self.stores.of("first").database.fetch(sa.select(1))  # which makes the tables
        for at, moment in enumerate(self.story["moments"]):
            await asyncio.sleep(moment["after"])
            self.chance.seed(moment["seed"])
            self.travel.seed(moment["seed"])
            await self._moment(moment)
            if at % LOOK_MOMENTS == 0:
                gc.collect()
            if found := self.laws.check():
                raise BrokenError(at, found)
        if found := self.laws.settle():
            raise BrokenError(len(self.story["moments"]) - 1, found)

    async def _moment(self, moment: Json) -> None:
        self.counts["moments"] += 1
        if (valves := moment.get("valves")) is not None:
            self.host.has_changed = True
            self.host.valves = {"API_KEY": KEY, "BASE_URL": BASE_URL, **valves}
        for record in moment.get("faults", ()):
            self._arm(record)
        steps = [asyncio.ensure_future(self._step(step)) for step in moment["steps"]]
        if steps:
            _, late = await asyncio.wait(steps, timeout=LONGEST_SECONDS)
            if late:
                raise BrokenError(self.counts["moments"] - 1, [f"end: {len(late)} steps do not end"])
            for step in steps:
                step.result()
        self.faults.disarm()
        self.loop.forget_calls()
        await self._idle()
        for exchange in self.upstream.exchanges:
            if record := exchange.record:
                sent = hashlib.sha256(record.raw).hexdigest()
                self.log("request", exchange.worker, record.path, record.status, sent, record.billed)
        self.counts["requests"] += len(self.upstream.exchanges)

    async def _idle(self) -> None:
        """Wait until nothing runs in the background."""
        for worker in self.workers:
            if app := worker.app:
                try:
                    async with asyncio.timeout(LONGEST_SECONDS):
                        await app.idle()
                        while app.worker.own.late_bills._timers:  # noqa: SLF001 - what a worker waits for
                            await asyncio.sleep(1.0)
                            await app.idle()
                        await app.worker.own.ledger.idle()
                except TimeoutError:
                    tasks = [str(task.get_coro()) for task in app.worker.own.tasks]
                    raise BrokenError(self.counts["moments"] - 1, [f"end: {tasks} do not end"]) from None

    async def _step(self, step: Json) -> None:
        """Run a step on its worker, unless that dies meanwhile."""
        await asyncio.sleep(step.get("offset", 0.0))
        worker = self.workers[step["worker"] % len(self.workers)]
        self.log("step", worker.name, step)
        self.counts["messages"] += step["act"] not in users.SILENT
        self.counts["tools"] += step["act"] == "tools"
        task = self._start(worker, users.Acts(self, worker, step).run())
        await asyncio.wait({task})
        if task.cancelled():
            if not worker.is_dead:
                raise BrokenError(self.counts["moments"] - 1, [f"raised: a step was cancelled: {step}"])
        elif (error := task.exception()) and not worker.is_dead:
            raise BrokenError(self.counts["moments"] - 1, [f"raised: {error!r}"]) from error

    def _start(self, worker: Worker, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        context = copy_context()
        context.run(WORKER.set, worker)
        return self.loop.create_task(work, context=context)

    def _arm(self, record: Json) -> None:
        """Let a fault strike; what is about a whole worker is done here."""
        if record["kind"] not in WORLD_KINDS:
            self.faults.arm(record)
            return
        if record["kind"] == "prices":
            self.upstream.multiply_prices(record["model"], record["factor"])
            self.faults.note(record, record["model"])
            return
        worker = next(each for each in self.workers if each.name == record["worker"])
        if record["kind"] == "kill":
            self.loop.after_turns(1 + record["turns"], lambda: self._strike(worker, record))
            return
        if record["kind"] == "skew":
            worker.skew_seconds = record["seconds"]
        else:
            self.host.own_valves[worker.pipe] = record["valves"]
            self.host.has_changed = True
        self.faults.note(record, worker.name)

    def _strike(self, worker: Worker, record: Json) -> None:
        if not worker.is_dead:
            self.faults.note(record, worker.name)
            self.kill(worker)

    def kill(self, worker: Worker) -> None:
        """End a worker as the end of its process does, and begin another in its place."""
        worker.is_dead = True
        self.kills.append((worker.name, self.clock.true()))
        worker.store.kill()
        worker.transport.kill()
        for task in [*worker.tasks]:
            task.cancel()
        self._dead.append(worker)  # its app closes what it holds when it is collected: not in the middle
        self.workers[self.workers.index(worker)] = self._new_worker(worker.name)


def _skew_seconds() -> float:
    worker = WORKER.get()
    return worker.skew_seconds if worker else 0.0


def _new_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """A task that its worker's end takes with it."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    context = options.get("context")
    worker = context.get(WORKER) if context else WORKER.get()
    if worker:
        worker.tasks[task] = None
        task.add_done_callback(lambda done: worker.tasks.pop(done, None))
    return task


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run: its log's digest, what was counted, and what is broken, None for nothing.

    `judged` says how often each law was asked.
    """

    digest: str
    counts: dict[str, int]
    struck: dict[str, int]
    judged: dict[str, int]
    broken: BrokenError | None
    lines: tuple[str, ...]
    processor_seconds: float


def run(story: Json, *, keeps_all: bool = False, servers: tuple[str, str] | None = None) -> Ran:
    """Run a story in a world of its own; its last lines are kept, or all. `servers` are those of `World`."""
    gc.collect()
    gc.freeze()  # what is imported stays
    gc.disable()
    loop = VirtualLoop()
    loop.set_task_factory(_new_task)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_run(story, keeps_all=keeps_all, servers=servers))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        gc.unfreeze()
        gc.enable()


async def _run(story: Json, **options: Any) -> Ran:
    begun, broken = process_time(), None
    clock, chance = Clock(asyncio.get_running_loop(), _skew_seconds), Chance(story["seed"])
    with installed(clock, chance):
        world = World(story, clock, chance, **options)
        try:
            await world.run()
        except BrokenError as error:
            broken = error
        finally:
            await world.aclose()
    counts = {
        **world.counts,
        **world.host.tools_run,
        "kills": len(world.kills),
        "days": int(world.loop.time() / 86_400),
    }
    struck, judged = dict(world.faults.struck), dict(world.laws.judged)
    seconds = process_time() - begun
    return Ran(world.digest.hexdigest(), counts, struck, judged, broken, tuple(world.lines), seconds)
