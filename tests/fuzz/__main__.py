"""Tries damaged inputs at all borders for some time: `python -m tests.fuzz --seconds 480 --seed 1`.

Each seed has cases of its own. A finding is printed with the command that repeats it; what was mended
stands in `FOUND` of `test_fuzz.py`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections import Counter
from typing import Any, Final

from tests.fuzz.borders import BORDERS, case

CASE_SECONDS: Final = 20.0
"""Of processor time, in which a case ends many times over."""
SEED_CASES: Final = 10_000_000


class TooSlow(BaseException):
    """A case that takes too much work."""


def _stop(_signal: int, _frame: Any) -> None:
    raise TooSlow


def main() -> int:
    """Try until the time is over; 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", nargs=2, metavar=("BORDER", "NUMBER"), help="repeat one")
    options = parser.parse_args()
    if options.case:
        case(options.case[0], int(options.case[1]))()
        return 0
    signal.signal(signal.SIGVTALRM, _stop)
    tried, found, seen, slowest = Counter[str](), 0, set[str](), Counter[str]()
    begin, number = time.monotonic(), options.seed * SEED_CASES
    while time.monotonic() - begin < options.seconds:
        number += 1
        for border in BORDERS:
            began = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, CASE_SECONDS)
            try:
                case(border, number)()
            except (Exception, TooSlow) as error:  # noqa: BLE001 - whatever it is, it is a finding
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{border}: {type(error).__name__} at {last.filename}:{last.lineno}"
                found += 1
                if place not in seen:
                    seen.add(place)
                    again = f"python -m tests.fuzz --case {border} {number}"
                    print(f"{place}\n  {again}\n  {error!s:.300}", flush=True)  # noqa: T201
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            tried[border] += 1
            slowest[border] = max(slowest[border], int(1000 * (time.process_time() - began)))
    found_at = f"{found} findings at {len(seen)} places"
    print(f"{sum(tried.values())} cases, {found_at}; milliseconds of the slowest: {dict(slowest)}")  # noqa: T201
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
