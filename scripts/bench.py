"""Measures: runs the modules in scripts/benchmarks and prints their results as one JSON object.

A module there has `BENCHMARKS`: by the names used here, functions that return results, JSON values named with their
units. With `--against` another checkout runs its own benchmarks of the same names just before, with its own scripts and
package, and the object holds both results and, for each number that both have, this checkout's divided by the other's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.environment import prepare_vocabularies
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Benchmarks = Mapping[str, Callable[[], dict[str, Any]]]

DIRECTORY = ROOT / "scripts" / "benchmarks"


def find(directory: Path = DIRECTORY, package: str = "scripts.benchmarks") -> Benchmarks:
    """All benchmarks by their names, in the order of their files."""
    stems = sorted(path.stem for path in directory.glob("*.py") if not path.stem.startswith("_"))
    modules = [importlib.import_module(f"{package}.{stem}") for stem in stems]
    return {name: run for module in modules for name, run in module.BENCHMARKS.items()}


def measure(benchmarks: Benchmarks, names: Sequence[str], checkout: Path | None = None) -> dict[str, Any]:
    """The results of the named benchmarks, or of all, compared with another checkout's where there is one."""
    results: dict[str, Any] = {}
    for name in names or list(benchmarks):
        if checkout is None:
            results[name] = benchmarks[name]()
            continue
        there = measure_checkout(checkout, name)
        here = benchmarks[name]()
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
    prepare_vocabularies()
    json.dump(measure(benchmarks, options.names, options.against), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
