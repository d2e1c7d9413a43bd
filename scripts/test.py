"""Runs the checks and the tests, after setting up what they need; tests/conftest.py owns which process runs what."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from scripts import check, environment, machine, vocabulary
from scripts.paths import ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUICK = "not live and not browser and not servers and not index"
WORKERS = 2
DEVELOPMENT = ("tests/docs", "tests/scripts", "tests/standin")
"""Tests of what runs on this environment's Python alone."""


def main() -> int:
    """Set up, check, then test all, and beside that the package on Python 3.12 where there is one."""
    options, passed_on = _arguments()
    environment.prepare()
    vocabulary.prepare()
    python = VENV / "bin" / "python"
    if options.quick:
        return _pytest(python, "-m", QUICK, *passed_on)
    machine.prepare()
    if not check.run():
        return 1
    if (python312 := environment.prepare_light()) is None:
        print("no Python 3.12 here: the tests run on this Python alone", flush=True)
        return _test_all(python, passed_on)
    ignored = [f"--ignore={folder}" for folder in DEVELOPMENT]
    # Tests of live pages wait a lot: one more process uses that.
    with tempfile.TemporaryFile("w+") as output:
        beside = _start(python312, "-n", "1", "-m", QUICK, *ignored, output=output)
        try:
            failed = _test_all(python, passed_on) | beside.wait()
        finally:
            beside.kill()
        output.seek(0)
        print(f"--- pytest on Python 3.12\n{output.read()}", flush=True)
    return failed


def _test_all(python: Path, arguments: Sequence[str]) -> int:
    os.environ.setdefault("HYPOTHESIS_PROFILE", "thorough")  # read by tests/support/cases.py
    return _pytest(python, *arguments)


def _pytest(python: Path, *arguments: str) -> int:
    """Run pytest in two processes; tests/conftest.py says who runs what."""
    return _start(python, "-n", str(WORKERS), *arguments).wait()


def _start(python: Path, *arguments: str, output: IO[str] | None = None) -> subprocess.Popen[str]:
    variables = {**os.environ, "TIKTOKEN_CACHE_DIR": str(vocabulary.DIRECTORY)}
    print(f"--- pytest, {python.relative_to(ROOT)}", flush=True)
    command = [str(python), "-m", "pytest", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=output, text=True
    )


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="scripts/test", description=__doc__, epilog="All other arguments are passed to pytest."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only tests that need neither Open WebUI, a browser, servers nor the package index",
    )
    return parser.parse_known_args()


if __name__ == "__main__":
    sys.exit(main())
