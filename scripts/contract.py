"""Finds out where the stand-in is not as OpenRouter is, for whoever has a key: small exchanges with both, compared.

The key is read from OPENROUTER_API_KEY, and is neither written nor shown. What all would cost at most is said before,
and asked; what was billed is counted, and no case begins that could exceed the limit. Exit codes: 0 nothing differs,
1 something does, 2 it did not begin, or was interrupted: then what there is comes first.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.openrouter.client import DEFAULT_BASE_URL
from scripts.exchanges import report
from scripts.exchanges.cases import CASES, Case
from scripts.exchanges.run import Purse, run
from scripts.exchanges.service import NotReachable, opened
from scripts.standin import StandIn

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_VARIABLE = "OPENROUTER_API_KEY"
STANDIN_KEY = "sk-or-v1-contract"
DEFAULT_LIMIT_DOLLARS = 1.0
SAME, DIFFERENT, NOT_BEGUN = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    options = _read_options(arguments)
    cases = _chosen(options.only)
    if not cases:
        return _refuse(f"there is no case or group called {', '.join(options.only)}; --list names them")
    if options.list:
        print("\n".join(f"{case.group:14} {case.name}" for case in cases))
        return SAME
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return _refuse(f"there is no key: set {KEY_VARIABLE}; https://openrouter.ai/settings/keys has yours")
    log = logging.getLogger("open_webui_openrouter_pipe")
    level = log.level
    log.setLevel(logging.CRITICAL)  # refusals are what is asked for
    try:
        return asyncio.run(_compare(options, cases, key))
    except NotReachable as error:
        return _refuse(str(error).replace(key, "..."))
    except KeyboardInterrupt:
        return _refuse("interrupted")
    finally:
        log.setLevel(level)


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/contract", description=__doc__)
    add = parser.add_argument
    add("--limit", type=float, default=DEFAULT_LIMIT_DOLLARS, metavar="DOLLARS", help="what may be spent (1)")
    add(
        "--base-url", default=DEFAULT_BASE_URL, metavar="URL", help=f"another service than {DEFAULT_BASE_URL}"
    )
    add(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="cases or groups, by the beginnings of their names",
    )
    add("--list", action="store_true", help="name the cases, and send nothing")
    add("--yes", action="store_true", help="do not ask before it begins")
    add("--json", type=Path, metavar="FILE", help="write the results there, too")
    return parser.parse_args(arguments)


def _chosen(names: Sequence[str]) -> list[Case]:
    wanted = tuple(names)
    return [case for case in CASES if not wanted or case.group in wanted or case.name.startswith(wanted)]


async def _compare(options: argparse.Namespace, cases: Sequence[Case], key: str) -> int:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("service", "standin"):
            (folder / name).mkdir()
        open_side = stack.enter_async_context
        real = await open_side(opened("the service", options.base_url, key, folder / "service"))
        lines, total = report.prices(real, cases)
        print("\n".join([*lines, f"Limit: ${options.limit:.2f}."]), flush=True)
        if not (options.yes or _agrees(min(total, options.limit))):
            return _refuse("nothing was sent")
        standin = stack.enter_context(StandIn())
        ours = await open_side(opened("the stand-in", standin.base_url, STANDIN_KEY, folder / "standin"))
        purse = Purse(options.limit)
        try:
            await run(real, ours, cases, purse, lambda each: print(report.line(each), flush=True))
        finally:
            print("\n".join(report.summary(purse.results)))
            if options.json:
                options.json.write_text(report.as_json(purse.results) + "\n", "utf-8")
    return DIFFERENT if any(each.verdict == "differs" for each in purse.results) else SAME


def _agrees(dollars: float) -> bool:
    """Ask whether to spend so much; nobody to ask is a no."""
    if not sys.stdin.isatty():
        print("There is nobody to ask: --yes says that it may begin.", file=sys.stderr)
        return False
    return input(f"Spend up to ${dollars:.2f}? [y/N] ").strip().lower() in {"y", "yes"}


def _refuse(reason: str) -> int:
    print(f"contract: {reason}", file=sys.stderr)
    return NOT_BEGUN


if __name__ == "__main__":
    sys.exit(main())
