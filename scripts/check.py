"""Judges the source without running it.

Format, lint, types, import direction, size, and what the single file or Open WebUI could not bear.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from scripts import budgets, environment
from scripts.bundle import builder
from scripts.paths import PACKAGE, ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Callable


Verdict = tuple[bool, str]
"""Whether a check passed, and the text to show, which may be a warning alone."""


def checks(*, fix: bool, closing: bool) -> dict[str, Callable[[], Verdict]]:
    """What is checked, in the order of its speed; with `fix` the first two repair what they can."""
    return {
        "format": partial(_run_tool, "ruff", "format", *([] if fix else ["--check"])),
        "lint": partial(_run_tool, "ruff", "check", *(["--fix"] if fix else [])),
        "imports": partial(_run_tool, "lint-imports"),
        "types": partial(_run_tool, "mypy"),
        "bundle": _bundled,
        "budgets": partial(_budgets, closing=closing),
    }


def run(*, fix: bool = False, closing: bool = False) -> bool:
    """Run every check, show what each found, and end with a summary. True when all passed."""
    all_passed, lines = True, []
    for name, check in checks(fix=fix, closing=closing).items():
        started = time.monotonic()
        passed, output = check()
        lines.append(f"{'ok  ' if passed else 'FAIL'} {name} ({time.monotonic() - started:.1f} s)")
        if output.strip() and (not passed or name == "budgets"):
            print(f"--- {name}\n{output.strip()}", flush=True)
        all_passed &= passed
    print("\n".join(lines))
    return all_passed


def _run_tool(program: str, *words: str) -> Verdict:
    done = subprocess.run(
        [VENV / "bin" / program, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


def _bundled() -> Verdict:
    """Read the package as the single file does."""
    try:
        builder.read_package(PACKAGE)
    except builder.BuildError as error:
        return False, str(error)
    return True, ""


def _budgets(*, closing: bool) -> Verdict:
    """Compare the tree with `budgets.toml`."""
    found = [*budgets.findings(closing=closing)]
    output = "\n".join(f"{'over' if each.fails else 'note'}: {each.text}" for each in found)
    return not any(each.fails for each in found), output


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
