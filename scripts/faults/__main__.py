"""Command line: run, print the table, and fail on any violation."""

from __future__ import annotations

import argparse
import sys

from scripts.faults.run import Size, run

OPTIONS = ("turns", "faults", "users", "seconds", "seed", "limits")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/audit-faults", description=__doc__)
    for name in OPTIONS:
        default = getattr(Size(), name)
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{default}")
    report = run(Size(**vars(parser.parse_args())))
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
