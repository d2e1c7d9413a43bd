"""Runs the checks and the tests, after setting up what they need.

In three sizes: `--quick` without servers, browser and Open WebUI; a whole run, with one of each; `--thorough` with
everything. tests/support/sizes.py owns what is thorough, tests/conftest.py which process runs what. With `--host`
only what an Open WebUI has a part in runs, beside the version that is named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from scripts import environment
from scripts.paths import ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUICK = "not live and not browser and not servers and not index"
WORKERS = 2
DEVELOPMENT = ("tests/docs", "tests/scripts", "tests/standin")
"""Tests of what runs on this environment's Python alone."""
OF_HOST = ("tests/live", "tests/host", "tests/history/test_host_output.py", "tests/words/test_languages.py")
"""Tests in which Open WebUI runs, or that read its sources."""


def main() -> int:
    """Set up, then test, with the checks and the package on Python 3.12, where there is one, beside that."""
    options, passed_on = _arguments()
    environment.prepare()
    environment.prepare_vocabularies()
    python = VENV / "bin" / "python"
    size = ["-m", QUICK] if options.quick else ["--thorough"] if options.thorough else []
    if not options.quick:
        environment.prepare_programs()
    if options.host:
        return _start(*of_host(environment.prepare_host(options.host), [*size, *passed_on])).wait()
    if options.quick:
        return _start(*_pytest(python, *size, *passed_on)).wait()
    beside = {"checks": [str(python), "-m", "scripts.check"]}
    if (python312 := environment.prepare_light()) is None:
        print("no Python 3.12 here: the tests run on this Python alone", flush=True)
    else:
        chosen = _light_tests(thorough=options.thorough)
        beside["pytest on Python 3.12"] = _pytest(python312, "-m", QUICK, *chosen, processes=1)
    with ExitStack() as stack:
        started = []
        for name, command in beside.items():
            output = stack.enter_context(tempfile.TemporaryFile("w+"))
            process = _start(*command, output=output)
            stack.callback(process.kill)  # at the latest
            started.append((name, process, output))
        if options.thorough:
            os.environ.setdefault("HYPOTHESIS_PROFILE", "thorough")  # read by tests/support/cases.py
        codes = [_start(*_pytest(python, *size, *passed_on)).wait()]
        for name, process, output in started:
            codes.append(process.wait())
            output.seek(0)
            print(f"--- {name}\n{output.read()}", flush=True)
        return int(any(codes))


def of_host(python: Path, arguments: Sequence[str]) -> list[str]:
    """What runs the tests in which Open WebUI has a part, or the paths among the arguments, beside another one."""
    named = any((ROOT / word.partition("::")[0]).exists() for word in arguments)
    return _pytest(python, *(() if named else OF_HOST), *arguments)


def pure_folders() -> list[str]:
    """The tests of the packages that know no clock and no I/O, as the linter's contract names them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    pure = next(each for each in contracts if each["name"].startswith("the pure folders"))
    names = [module.split(".")[1] for module in pure["source_modules"] if module.endswith(".**")]
    return [f"tests/{name}" for name in names if (ROOT / "tests" / name).is_dir()]


def _light_tests(*, thorough: bool) -> list[str]:
    """What runs on Python 3.12: what is pure, or all that needs no Open WebUI."""
    return [f"--ignore={folder}" for folder in DEVELOPMENT] if thorough else pure_folders()


def _pytest(python: Path, *arguments: str, processes: int = WORKERS) -> list[str]:
    return [str(python), "-m", "pytest", "-n", str(processes), *arguments]


def _start(*command: str, output: IO[str] | None = None) -> subprocess.Popen[str]:
    print("---", *command, flush=True)
    # What is written beside the tests is one text: errors stand among the rest.
    errors = None if output is None else subprocess.STDOUT
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, text=True
    )


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="scripts/test", description=__doc__, epilog="All other arguments are passed to pytest."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        action="store_true",
        help="only tests that need neither Open WebUI, a browser, servers nor the package index",
    )
    size.add_argument(
        "--thorough", action="store_true", help="all tests, and more generated cases of each law"
    )
    parser.add_argument(
        "--host",
        metavar="VERSION",
        help="only the tests in which Open WebUI has a part, with this version of it",
    )
    return parser.parse_known_args()


if __name__ == "__main__":
    sys.exit(main())
