"""Command line: many users through pages and API for a while, servers that are restarted meanwhile, and the audits."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from scripts.faults.run import Size, run

if TYPE_CHECKING:
    from scripts.faults.servers import Fault

TURNS_A_MINUTE = 600
"""More than begin: the clock ends the run."""
RESTARTS: tuple[tuple[float, Fault], ...] = (
    (0.25, "redis restarted"),
    (0.45, "database restarted"),
    (0.65, "kill"),
)
"""What happens, after which share of the time."""


def main() -> int:
    """Run from the command line; 1 where anything is not as it must be."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of chatting (60)")
    parser.add_argument("--users", type=int, default=30, help="how many chat (30)")
    parser.add_argument("--pages", type=int, default=2, help="how many of them at a browser of their own (2)")
    parser.add_argument("--pause", type=float, default=8.0, help="seconds between two turns of a user (8)")
    parser.add_argument("--length", type=int, default=60, help="questions of a chat at most (60)")
    parser.add_argument("--seed", type=int, default=31, help="of what the users do (31)")
    options = parser.parse_args()
    size = Size(
        turns=round(options.minutes * TURNS_A_MINUTE),
        faults=0,
        users=options.users,
        seconds=options.minutes * 60,
        seed=options.seed,
        pages=options.pages,
        pause=options.pause,
        length=options.length,
        restarts=RESTARTS,
        name="soak",
    )
    report = run(size)
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
