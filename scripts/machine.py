"""Sees to the programs that come with the operating system: servers and a browser for the tests.

Debian's packages only, and only as root; elsewhere it says what to install and goes no further.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
}
"""Program → the Debian package that brings it."""


def find(program: str) -> Path | None:
    """The program on the PATH, or among PostgreSQL's own directories, which Debian keeps off the PATH."""
    if found := shutil.which(program):
        return Path(found)
    return next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True)), None)


def prepare() -> None:
    """Install what is missing, or end with a message that names it."""
    missing = [package for program, package in PACKAGES.items() if find(program) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"error: the tests need these programs; please install them: {', '.join(missing)}")
    print(f"installing with apt-get: {', '.join(missing)}", flush=True)
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", *words], env=variables, stdin=subprocess.DEVNULL, check=True)
