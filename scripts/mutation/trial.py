"""Tries mutants in a copy of the tree, inside one pytest that has collected all tests.

A mutant of a function is tried in a process forked from it, where the function gets other code; what an import runs,
in a pytest of its own. Owns how long a run may last, and how what tests reach is found out. Run by `scripts/mutate`.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.mutation.mutants import Mutant
from scripts.mutation.probes import Finder, Functions
from scripts.mutation.reach import MAX_SECONDS, Piece, chosen, folder_of, order, uses
from scripts.mutation.verdicts import Verdict, Verdicts, file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NEEDS = {"live", "browser", "servers", "index", "thorough"}
"""Markers of tests that are not run here: they need what a copy of the tree has not, or take too long."""
OMITTED = ("tests/live", "tests/scripts", "tests/standin")
"""They need Open WebUI, or test what stands around the package."""
WITH_HOST = "tests/host/"
"""That folder with the tests that need Open WebUI: they hold what `host/` does with it."""

_START_SECONDS = 15
_PATIENCE = 3
"""A trial may take this many times the processor time that its tests took before, and what a start takes."""
_MAP_SECONDS = 45
"""Of processor time for the tests of one file; what they have not reached then does not count."""
_ASLEEP_SECONDS = 60.0
_AWAKE_SHARE = 0.03
"""Who neither ran nor waited for a processor in this share of a minute waits for something that never comes."""
_MEMORY_BYTES = 8 << 30
_PASSED, _FAILED, _UNFIT, _BROKEN = range(4)
"""Exits of a forked process: all passed, a test failed, the mutant cannot be put in, pytest itself failed."""
_ARGUMENTS = ["-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0"]


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be tried, and where what is found out is kept."""

    package: str
    mutants: list[Mutant]
    verdicts: str
    pieces: str
    """The folder of what tests reach."""

    @classmethod
    def read(cls, file: Path) -> Job:
        """As `write` wrote it."""
        row = json.loads(file.read_text("utf-8"))
        return cls(**row | {"mutants": [Mutant(**mutant) for mutant in row["mutants"]]})

    def write(self, file: Path) -> None:
        """For the process that does it."""
        file.write_text(json.dumps(asdict(self)), "utf-8")


class Trials:
    """A plugin that tries mutants where pytest would run the tests."""

    def __init__(self, root: Path, job: Job, finder: Finder) -> None:
        self._root = root
        self._job = job
        self._finder = finder
        self._verdicts = Verdicts(root, Path(job.verdicts))
        self._items: dict[str, pytest.Item] = {}
        self._pieces: dict[str, Piece] = {}
        self._with_host: list[str] = []
        self._sound: set[tuple[str, bool]] = set()
        self._failed: set[str] = set()
        self._scratch = root / ".trial"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Omit what needs more than Python."""
        needs = {item: NEEDS.intersection(mark.name for mark in item.iter_markers()) for item in items}
        live = [item.nodeid for item in items if needs[item] == {"live"}]
        self._with_host = [test for test in live if test.startswith(WITH_HOST)]
        items[:] = [item for item in items if not needs[item]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails, in a process that runs tests."""
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant with the tests of some places after those of others, the nearest first, until one fails."""
        self._items = {item.nodeid: item for item in session.items}
        self._finder.load_all()
        imported = self._relative(self._finder.reached)
        functions = Functions()
        names = {mutant.name for mutant in self._job.mutants}
        used = uses(self._root / self._job.package, self._root, names)
        files = {file_of(test) for test in self._items}
        places = {mutant.path: order(mutant.path, files) for mutant in self._job.mutants}
        gc.collect()
        gc.freeze()
        for stage in range(max(map(len, places.values()), default=0)):
            self._pieces.clear()
            # What needs a pytest of its own comes last.
            for _, group, _, _, mutant in sorted(
                (not mutant.suite, places[mutant.path][stage], mutant.path, mutant.start, mutant)
                for mutant in self._job.mutants
                if stage < len(places[mutant.path])
            ):
                verdict = self._verdicts.known(mutant)
                left = [place for place in group if place not in verdict.tried]
                if verdict.by or not left:
                    continue
                at_import = not mutant.suite or f"{mutant.path}:{mutant.suite}" in imported
                trial = partial(self._try, mutant, functions, at_import=at_import)
                started, by = _processor_seconds(), trial([self._verdicts.hint(mutant)])
                if not by:
                    pieces = self._reached(left, verdict)
                    started = _processor_seconds()
                    tests = chosen(mutant, pieces, used, source=verdict.source, imported=at_import)
                    by = trial(tests)
                took = _processor_seconds() - started
                self._note(mutant, left, by, took)
        self._try_with_host()
        return True

    def _try_with_host(self) -> None:
        """Try what is left of `host/` with all tests of its folder."""
        known = {mutant: self._verdicts.known(mutant) for mutant in self._job.mutants}
        left = [
            mutant
            for mutant, verdict in known.items()
            if mutant.path.startswith(f"{self._job.package}/host/")
            and not verdict.by
            and WITH_HOST not in verdict.tried
        ]
        if not (left and self._with_host) or self._failing_anew(self._with_host):
            return
        for mutant in left:
            started = _processor_seconds()
            with _changed(self._root / mutant.path, mutant):
                by = self._failing_anew(self._with_host)
            self._note(mutant, [WITH_HOST], by, _processor_seconds() - started)

    def _note(self, mutant: Mutant, places: Sequence[str], by: str, took: float) -> None:
        """Keep and print what became of a mutant."""
        verdict = self._verdicts.known(mutant)
        digests = {place: self._verdicts.digest(place) for place in places}
        tried = verdict.tried if by else verdict.tried | digests
        test = self._verdicts.digest(file_of(by)) if by else ""
        self._verdicts.note(Verdict(verdict.key, verdict.source, by, test, tried))
        found = f"{'killed' if by else 'alive'} ({took:.1f} s, {by or ' '.join(places)})"
        print(f"{found} {mutant.path}:{mutant.line} {mutant.change}", flush=True)

    def _relative(self, reached: set[str]) -> set[str]:
        return {suite.removeprefix(f"{self._root}/") for suite in reached}

    def _reached(self, places: Sequence[str], verdict: Verdict) -> list[Piece]:
        """What the tests of some places reach, found out anew where they are others than before.

        Without those of files that do not notice the mutant.
        """
        found = []
        files = {file_of(test) for test in self._items}
        for file in sorted(file for file in files if {file, folder_of(file)}.intersection(places)):
            if file in verdict.tried:
                continue
            kept = Path(self._job.pieces) / f"{file.replace('/', '-')}.json"
            digest = self._verdicts.digest(file)
            piece = self._pieces.get(file) or Piece.read(kept)
            if piece is None or piece.digest != digest:
                self._map(file, kept)
                piece = Piece.read(kept) or Piece(digest, {}, {}, {})
            self._pieces[file] = piece
            found.append(piece)
        return found

    def _map(self, file: str, kept: Path) -> None:
        """Run the tests of a file, each with what it reaches noted, and keep that."""
        started = time.monotonic()
        kept.unlink(missing_ok=True)
        tests = [test for test in self._items if file_of(test) == file]
        modules = (self._root / self._job.package).rglob("*.py")
        digests = {
            path: self._verdicts.digest(path)
            for path in (each.relative_to(self._root).as_posix() for each in modules)
        }

        def run() -> int:
            seconds: dict[str, float] = {}
            suites: dict[str, list[str]] = defaultdict(list)
            for number, test in enumerate(tests, 1):
                if _processor_seconds() > _MAP_SECONDS:
                    break
                self._finder.reached.clear()
                before = time.process_time()
                if self._run([test], tests[number : number + 1]) == _PASSED:
                    seconds[test] = round(time.process_time() - before, 3)
                    for suite in self._relative(self._finder.reached):
                        suites[suite].append(test)
                self._failed.clear()
            Piece(self._verdicts.digest(file), digests, seconds, suites).write(kept)
            return _PASSED

        status, failed = self._forked(run, 2 * _MAP_SECONDS)
        note = "" if status == _PASSED else f", which ended with {status} {failed}"
        print(f"mapped {file} in {time.monotonic() - started:.0f} s{note}", flush=True)

    def _try(self, mutant: Mutant, functions: Functions, tests: Sequence[str], *, at_import: bool) -> str:
        """The test that fails or hangs on the mutant, and passes alone without it; empty if none does."""
        left = [test for test in tests if test in self._items]
        while left:
            failed = self._failing(mutant, functions, left, at_import=at_import)
            if not failed or (failed, at_import) in self._sound:
                return failed
            if at_import:
                passes = not self._failing_anew([failed])
            else:
                passes = self._forked(partial(self._run, [failed]), 2 * _MAP_SECONDS)[0] == _PASSED
            if passes:
                self._sound.add((failed, at_import))
                return failed
            left.remove(failed)
        return ""

    def _failing(self, mutant: Mutant, functions: Functions, tests: Sequence[str], *, at_import: bool) -> str:
        """The test that fails when a function has other code, or if that may not be all, when all is imported."""
        path = self._root / mutant.path

        def run() -> int:
            return self._run(tests) if functions.patch(mutant, path) else _UNFIT

        if mutant.suite:
            status, test = self._forked(run, self._limit(tests))
            if status not in {_PASSED, _UNFIT}:
                return test
            if status == _PASSED and not at_import:
                return ""
        with _changed(path, mutant):
            return self._failing_anew(tests)

    def _failing_anew(self, tests: Sequence[str]) -> str:
        """The test that fails in a pytest of its own, which imports the package and the tests; empty if none does."""

        def run() -> int:
            sys.meta_path.remove(self._finder)
            for name in sys.modules.keys() - {"__main__"}:  # whoever spawns a process looks at that
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{self._root}/"):
                    del sys.modules[name]
            files = sorted({file_of(test) for test in tests})
            return int(pytest.main([*_ARGUMENTS, "-x", *files], [Chosen([*tests], self._scratch)]))

        status, _ = self._forked(run, 2 * self._limit(tests))
        survived = status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        return "" if survived else self._scratch.read_text("utf-8") or tests[0]

    def _limit(self, tests: Sequence[str]) -> int:
        """How many seconds of processor time their trial may take."""
        pieces = (self._pieces.get(file_of(test)) for test in tests)
        took = (piece.seconds.get(test) if piece else None for piece, test in zip(pieces, tests, strict=True))
        known = sum(MAX_SECONDS if each is None else each for each in took)
        return int(_START_SECONDS + _PATIENCE * known)

    def _run(self, tests: Sequence[str], following: Sequence[str] = ()) -> int:
        """Run these until one fails, and note which of them runs for whoever finds that it did not end."""
        items = [self._items[test] for test in (*tests, *following)]
        for test, item, after in zip(tests, items, [*items[1:], None], strict=False):
            self._scratch.write_text(test, "utf-8")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return _FAILED
        return _PASSED

    def _forked(self, run: Callable[[], int], seconds: int) -> tuple[int, str]:
        """Call it in a process of its own, and return how that ended and the test that it ran last."""
        self._scratch.write_text("", "utf-8")
        if (pid := os.fork()) == 0:
            status = _BROKEN
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
                resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
                nothing = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):
                    os.dup2(nothing, stream)
                status = run()
            except BaseException:  # noqa: BLE001 - the last one: this process must not go on
                self._scratch.write_text(traceback.format_exc(), "utf-8")
            finally:
                os._exit(status)
        return watched(pid), self._scratch.read_text("utf-8")


class Chosen:
    """A plugin that runs these tests alone, in this order, and notes which of them runs."""

    def __init__(self, tests: list[str], scratch: Path) -> None:
        """Each test's number says when it runs."""
        self._numbers = {test: number for number, test in enumerate(tests)}
        self._scratch = scratch

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Omit all others."""
        kept = [item for item in items if item.nodeid in self._numbers]
        items[:] = sorted(kept, key=lambda item: self._numbers[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """For whoever finds that it failed or did not end."""
        self._scratch.write_text(nodeid, "utf-8")


_stamps = itertools.count(1_000_000_000)


@contextmanager
def _changed(path: Path, mutant: Mutant) -> Iterator[None]:
    """Write a mutant, with a time that no earlier source had, so that no stale bytecode is run."""
    source, written = path.read_text("utf-8"), path.stat().st_mtime
    try:
        path.write_text(mutant.applied(source), "utf-8")
        os.utime(path, (written, next(_stamps)))
        yield
    finally:
        path.write_text(source, "utf-8")
        os.utime(path, (written, written))


def watched(pid: int) -> int:
    """The exit of a process when it ended, or had been asleep for a minute and was ended with all that it started."""
    judged, wanted, pause = time.monotonic(), 0.0, 0.005
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        time.sleep(pause)
        pause = min(0.1, pause * 1.2)
        if (passed := time.monotonic() - judged) >= _ASLEEP_SECONDS:
            before, wanted, judged = wanted, _wanted_seconds(pid), time.monotonic()
            if abs(wanted - before) < _AWAKE_SHARE * passed:
                os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(ended[1])


def _processor_seconds() -> float:
    """What this process and those that it ended took."""
    return sum(os.times()[:4])


def _wanted_seconds(group: int) -> float:
    """How long the threads of a group of processes ran or waited for a processor."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.getpgid(int(process.name)) == group:
                stats = [stat.read_text().split() for stat in process.glob("task/*/schedstat")]
                total += sum(int(ran) + int(waited) for ran, waited, _ in stats)
    return total / 1e9


def main(arguments: list[str]) -> int:
    """Do the job of a file in the tree that stands here."""
    root = Path.cwd()
    job = Job.read(Path(arguments[0]))
    finder = Finder(job.package)
    sys.meta_path.insert(0, finder)
    omitted = [f"--ignore={folder}" for folder in OMITTED]
    words = [*_ARGUMENTS, *omitted, "-s", f"--basetemp={root / '.temp'}"]
    return int(pytest.main(words, [Trials(root, job, finder)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
