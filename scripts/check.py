"""Judges the source without running it.

Format, lint, types, import direction, size, and what the single file or Open WebUI could not bear.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts import budgets, environment
from scripts.bundle import builder
from scripts.paths import PACKAGE, ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found: nothing, or the text to show, which may be a warning alone."""

    name: str
    passed: bool
    output: str
    seconds: float


def commands(*, fix: bool) -> dict[str, list[str]]:
    """The tools in the order of their speed; with `fix` the first two repair what they can."""
    repair = ["--fix"] if fix else []
    return {
        "format": ["ruff", "format", *([] if fix else ["--check"])],
        "lint": ["ruff", "check", *repair],
        "imports": ["lint-imports"],
        "types": ["mypy"],
    }


def run(*, fix: bool = False, closing: bool = False) -> bool:
    """Run every check, show what each found, and end with a summary. True when all passed."""
    verdicts = []
    for verdict in _verdicts(fix=fix, closing=closing):
        if verdict.output.strip() and (not verdict.passed or verdict.name == "budgets"):
            print(f"--- {verdict.name}\n{verdict.output.strip()}", flush=True)
        verdicts.append(verdict)
    for verdict in verdicts:
        print(f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.name} ({verdict.seconds:.1f} s)")
    return all(verdict.passed for verdict in verdicts)


def _verdicts(*, fix: bool, closing: bool) -> Iterator[Verdict]:
    for name, command in commands(fix=fix).items():
        yield _run_tool(name, command)
    yield _bundled()
    yield _budgets(closing=closing)


def _bundled() -> Verdict:
    """Read the package as the single file does."""
    started, found = time.monotonic(), ""
    try:
        builder.read_package(PACKAGE)
    except builder.BuildError as error:
        found = str(error)
    return Verdict("bundle", passed=not found, output=found, seconds=time.monotonic() - started)


def _budgets(*, closing: bool) -> Verdict:
    """Compare the tree with `budgets.toml`."""
    started = time.monotonic()
    found = [*budgets.findings(closing=closing)]
    output = "\n".join(f"{'over' if each.fails else 'note'}: {each.text}" for each in found)
    passed = not any(each.fails for each in found)
    return Verdict("budgets", passed, output, time.monotonic() - started)


def _run_tool(name: str, command: list[str]) -> Verdict:
    started = time.monotonic()
    program = VENV / "bin" / command[0]
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    return Verdict(name, done.returncode == 0, done.stdout + done.stderr, seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__)
    parser.add_argument("--fix", action="store_true", help="format, and repair what the linter can")
    parser.add_argument("--closing", action="store_true", help="fail where a budget is wider than it must be")
    parser.add_argument(
        "--ratchet", action="store_true", help="only lower the budgets to what the tree measures"
    )
    return parser.parse_args()


if __name__ == "__main__":
    options = _arguments()
    environment.prepare()
    if options.ratchet:
        budgets.ratchet()
        sys.exit()
    sys.exit(0 if run(fix=options.fix, closing=options.closing) else 1)
