"""`python -m tests.golden` rewrites the digests; `--texts DIR` writes every case's whole text instead."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.golden import cases, releases, seals
from tests.golden.groups import GROUPS


def main() -> None:
    """Read the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--texts", type=Path, metavar="DIR", help="write whole texts there, and no digests")
    parser.add_argument("--rows", action="store_true", help="seal the stored rows anew before")
    parser.add_argument("groups", nargs="*", help="the groups to make; all where none is named")
    parser.add_argument(
        "--release", action="store_true", help="write what this version stores, and nothing else"
    )
    options = parser.parse_args()
    if options.release:
        releases.write()
        return
    if options.rows:
        seals.seal_rows()
    for group in GROUPS:
        if options.groups and group.name not in options.groups:
            continue
        lines = []
        for name, text in group.made():
            if options.texts:
                cases.write(options.texts, group.name, name, text)
            lines.append(f"{name} {cases.digest(text)}\n")
        if not options.texts:
            group.path.write_text("".join(lines), "utf-8")
        print(f"{group.name}: {len(lines)} cases")  # noqa: T201


if __name__ == "__main__":
    main()
