"""Measures: runs the modules in scripts/benchmarks and prints their results as one JSON object.

A benchmark is a module with `NAME` (what it is called here) and `run() -> dict` (its results, JSON values). With
`--against` another checkout runs its own benchmarks of the same names just before, with its own scripts and package,
and the object holds both results and, for each number that both have, this checkout's divided by the other's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIRECTORY = ROOT / "scripts" / "benchmarks"


class Benchmark(Protocol):
    """What a benchmark module offers."""

    NAME: str

    def run(self) -> dict[str, Any]:
        """Measure, and return the results, each named with its unit."""


def find(directory: Path = DIRECTORY, package: str = "scripts.benchmarks") -> dict[str, Benchmark]:
    """All benchmarks by their names, in the order of their files."""
    stems = sorted(path.stem for path in directory.glob("*.py") if not path.stem.startswith("_"))
    modules = [cast("Benchmark", importlib.import_module(f"{package}.{stem}")) for stem in stems]
    return {module.NAME: module for module in modules}


def measure(
    benchmarks: Mapping[str, Benchmark], names: Sequence[str], checkout: Path | None = None
) -> dict[str, Any]:
    """The results of the named benchmarks, or of all, compared with another checkout's where there is one."""
    results: dict[str, Any] = {}
    for name in names or list(benchmarks):
        if checkout is None:
            results[name] = benchmarks[name].run()
            continue
        there = measure_checkout(checkout, name)
        here = benchmarks[name].run()
        results[name] = {"here": here, "there": there, "ratio": ratios(here, there)}
    return results


def measure_checkout(checkout: Path, name: str) -> dict[str, Any]:
    """The results of another checkout's benchmark, in a process of its own with this Python."""
    command = [sys.executable, "-m", "scripts.bench", name]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    results: dict[str, Any] = json.loads(done.stdout)[name]
    return results


def ratios(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Here divided by there for each number that both have, in the same nesting."""
    found: dict[str, Any] = {}
    for name in here.keys() & there.keys():
        ours, theirs = here[name], there[name]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            found[name] = ratios(ours, theirs)
        elif isinstance(ours, int | float) and isinstance(theirs, int | float) and theirs:
            found[name] = round(ours / theirs, 3)
    return dict(sorted(found.items()))


def main() -> int:
    """Run from the command line."""
    benchmarks = find()
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"which ones (all): {', '.join(benchmarks) or 'there are none'}"
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout to compare with")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in benchmarks]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    json.dump(measure(benchmarks, options.names, options.against), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
