"""Changes the package at random places, one at a time, and counts how many of the changes the tests notice.

What survives is listed: a line that no test holds. Only the tests that reach a changed line are run, the fastest
first. `mutants.txt` names survivors that change nothing, with the reason; they are not counted.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import queue
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.mutation.mutants import Mutant, mutants
from scripts.mutation.trial import Copy
from scripts.paths import CACHE, PACKAGE, ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_MAX_TESTS = 200
_MAX_SECONDS = 20.0
"""Of one mutant's tests, by the processor time that they took; then the fastest of each further file may follow."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tests reach a line, and how many seconds of processor time each test takes."""

    lines: Mapping[str, Mapping[int, Collection[str]]]
    seconds: Mapping[str, float]
    uses: Mapping[str, Collection[tuple[str, int]]]
    """Name → the lines inside functions of the package that use it."""

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests to try a mutant with: those that reach it; for what imports run, those that use its names."""
        lines = self.lines.get(mutant.path, {})
        reaching = self._passed(lines.get(mutant.line, ())) or self._passed(lines.get(mutant.statement, ()))
        if mutant.name:
            for path, line in self.uses.get(mutant.name, ()):
                reaching |= self._passed(self.lines.get(path, {}).get(line, ()))
        imported = "" in lines.get(mutant.statement, ())
        if imported and not reaching:
            reaching = self._passed(test for tests in lines.values() for test in tests)
        return self._bounded(sorted(reaching, key=lambda test: (self.seconds[test], test)))

    def _passed(self, tests: Iterable[str]) -> set[str]:
        return self.seconds.keys() & set(tests)

    def _bounded(self, tests: list[str]) -> list[str]:
        """As many of the fastest as there is time for, and the fastest of each file that has none among them."""
        chosen: list[str] = []
        files: set[str] = set()
        seconds = 0.0
        for test in tests:
            file = test.partition("::")[0]
            limits = 1 if len(chosen) < _MAX_TESTS else 2 if file not in files else 0
            if seconds + self.seconds[test] <= limits * _MAX_SECONDS or not chosen:
                chosen.append(test)
                files.add(file)
                seconds += self.seconds[test]
        return chosen


def read_reach(folder: Path, package: Path) -> Reach:
    """Read what a run of all tests wrote."""
    from coverage import Coverage

    coverage = Coverage(data_file=folder / "lines", config_file=False, messages=False)
    if pieces := [str(path) for path in folder.glob("lines.*")]:
        coverage.combine(pieces)
    coverage.load()
    data = coverage.get_data()
    lines = {Path(path).as_posix(): data.contexts_by_lineno(path) for path in data.measured_files()}
    seconds = {}
    for part in folder.glob("seconds-*.json"):
        seconds.update(json.loads(part.read_text("utf-8")))
    return Reach(lines, seconds, _uses(package))


def _uses(package: Path) -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for path in package.rglob("*.py"):
        inner = path.relative_to(package.parent).as_posix()
        functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        for function in filter(
            lambda node: isinstance(node, functions), ast.walk(ast.parse(path.read_text("utf-8")))
        ):
            for node in ast.walk(function):
                if isinstance(node, ast.Name):
                    found[node.id].add((inner, node.lineno))
                elif isinstance(node, ast.Attribute):
                    found[node.attr].add((inner, node.lineno))
    return found


def drawn(found: Iterable[Mutant], count: int, seed: str) -> list[Mutant]:
    """As many mutants, each on a line of its own; every line that has one is as likely as any other."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in found:
        by_line[mutant.path, mutant.line].append(mutant)
    dice = random.Random(seed)  # noqa: S311 - a sample, not a secret
    lines = dice.sample(sorted(by_line), min(count, len(by_line)))
    return [dice.choice(by_line[line]) for line in lines]


def equivalents(file: Path) -> set[str]:
    """The labels of the mutants that change nothing; each line of the file is `path | old → new | reason`."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {line.rpartition(" | ")[0] for line in lines if line.strip() and not line.startswith("#")}


def main() -> int:
    """Map what tests reach, unless that is known; try the mutants; list the survivors and the share killed."""
    options = _arguments()
    found = [
        mutant
        for path in sorted(PACKAGE.rglob("*.py"))
        for mutant in mutants(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    known = equivalents(options.equivalent)
    chosen = [
        each for each in drawn(found, options.mutants, options.seed or _commit()) if each.label not in known
    ]
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copies = [Copy(ROOT, Path(folder) / str(number)) for number in range(options.jobs)]
        target = CACHE / "mutate" / _tree_digest()
        if not (target / "complete").exists():
            print(f"mapping which tests reach which of {len(found)} mutants", flush=True)
            copies[0].map(PACKAGE.name, target, options.jobs)
            (target / "complete").touch()
        survivors = _survivors(chosen, read_reach(target, PACKAGE), copies)
    killed = len(chosen) - len(survivors)
    print(f"\n{len(survivors)} survived:", *survivors, sep="\n")
    print(f"{killed} of {len(chosen)} mutants killed: {killed / max(1, len(chosen)):.1%}")
    return 0


def _survivors(chosen: list[Mutant], reach: Reach, copies: list[Copy]) -> list[str]:
    """Try each mutant in a copy that is free, and say what became of it as soon as it is known."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def tried(mutant: Mutant) -> tuple[bool, int]:
        tests, copy = reach.tests(mutant), free.get()
        try:
            seconds = sum(reach.seconds[test] for test in tests)
            return bool(tests) and copy.kills(mutant, tests, seconds), len(tests)
        finally:
            free.put(copy)

    survivors = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for number, (mutant, (killed, tests)) in enumerate(
            zip(chosen, pool.map(tried, chosen), strict=True), 1
        ):
            shown = f"{mutant.path}:{mutant.line}, {mutant.old} → {mutant.new}"
            print(f"{number} {'killed' if killed else 'SURVIVED'} ({tests} tests) {shown}", flush=True)
            if not killed:
                survivors.append(shown if tests else f"{shown} (no test reaches it)")
    return survivors


def _tree_digest() -> str:
    """The name of what the map depends on: the sources of the package, of scripts and of tests."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(
        path for top in (PACKAGE, ROOT / "scripts", ROOT / "tests") for path in top.rglob("*.*")
    ):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or sys.exit("error: this is not a git checkout; please give a --seed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("--mutants", type=int, default=150, help="how many are drawn (default: 150)")
    parser.add_argument("--seed", help="what is drawn follows from it (default: the commit)")
    parser.add_argument(
        "--jobs", type=int, default=2, help="how many are tried at the same time (default: 2)"
    )
    parser.add_argument(
        "--equivalent", type=Path, default=ROOT / "mutants.txt", help="survivors not to count"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
