"""Writes what people install into Open WebUI: the single file, and the stub for a package from pip."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.bundle import builder
from scripts.bundle.builder import BuildError
from scripts.paths import DIST, PACKAGE

BUNDLE = "openrouter_pipe.py"
STUB = "openrouter_pipe_stub.py"


def build(package: Path = PACKAGE, target: Path = DIST) -> Path:
    """Write both files for the package in a directory, and return the path of the single file."""
    content = builder.read_package(package)
    target.mkdir(parents=True, exist_ok=True)
    (target / STUB).write_text(builder.stub(content), "utf-8")
    (target / BUNDLE).write_text(builder.bundle(content), "utf-8")
    return target / BUNDLE


def main() -> int:
    """Build from the command line; say what was written."""
    parser = argparse.ArgumentParser(prog="scripts/build", description=__doc__)
    parser.add_argument("--package", type=Path, default=PACKAGE, help="the package's directory")
    parser.add_argument("--target", type=Path, default=DIST, help="where the files go")
    options = parser.parse_args()
    try:
        written = build(options.package, options.target)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in (written, written.with_name(STUB)):
        print(f"{path} ({path.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
