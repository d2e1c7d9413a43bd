"""Measures: runs the modules in scripts/benchmarks and prints their figures as one JSON object.

A benchmark is a module with `NAME` (what it is called here) and `run() -> dict` (its figures, JSON values).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DIRECTORY = ROOT / "scripts" / "benchmarks"


class Benchmark(Protocol):
    """What a benchmark module offers."""

    NAME: str

    def run(self) -> dict[str, Any]:
        """Measure, and give the figures, each named with its unit."""


def find(directory: Path = DIRECTORY, package: str = "scripts.benchmarks") -> dict[str, Benchmark]:
    """All benchmarks by their names, in the order of their files."""
    stems = sorted(path.stem for path in directory.glob("*.py") if not path.stem.startswith("_"))
    modules = [cast("Benchmark", importlib.import_module(f"{package}.{stem}")) for stem in stems]
    return {module.NAME: module for module in modules}


def measure(benchmarks: Mapping[str, Benchmark], names: Sequence[str]) -> dict[str, Any]:
    """The figures of the named benchmarks, or of all; a KeyError names what does not exist."""
    return {name: benchmarks[name].run() for name in names or list(benchmarks)}


def main() -> int:
    """Run from the command line."""
    benchmarks = find()
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"which ones (all): {', '.join(benchmarks) or 'there are none'}"
    )
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in benchmarks]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    json.dump(measure(benchmarks, names), sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
