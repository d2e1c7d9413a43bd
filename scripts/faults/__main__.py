"""Command line: run, print the table, and fail on any violation."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from scripts.faults.run import Size, run


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/audit-faults", description=__doc__)
    for each in fields(Size):
        kind = type(each.default)
        parser.add_argument(f"--{each.name}", type=kind, default=each.default, help=f"{each.default}")
    report = run(Size(**vars(parser.parse_args())))
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
