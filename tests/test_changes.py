"""Six typical changes, made on a copy of the package: each takes effect, and takes at most three files of code.

A case in `tests/changes` has the edits (`@ file`, where, and the lines that come there) and the check of what they do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from scripts.paths import PACKAGE, ROOT

CASES = sorted((Path(__file__).parent / "changes").glob("*.txt"))
MOST_FILES = 3
_EDIT = re.compile(r"^@ (\S+) (below|above|instead of) (.*)\n((?:(?!@ |= check).*\n)*)", re.MULTILINE)
_CHECK = """
import asyncio
import sqlite3
from pathlib import Path
from open_webui_openrouter_pipe.errors import TooBusy
from scripts.harness.page import Page, PipeInProcess
from scripts.standin import StandIn

async def check(standin):
    driver = PipeInProcess(Path("."), base_url=standin.base_url)
    async with driver as pipe:
        page = Page(pipe, "openai/gpt-5.2")
{check}

with StandIn() as standin:
    asyncio.run(check(standin))
"""


def edited(package: Path, text: str) -> set[str]:
    """Make a case's edits; return the files of code that they change."""
    files = set()
    for name, where, anchor, lines in _EDIT.findall(text):
        path = package / name
        source = path.read_text("utf-8").splitlines(keepends=True)
        (at,) = (number for number, line in enumerate(source) if anchor in line)
        source[at : at + 1] = {
            "below": [source[at], lines],
            "above": [lines, source[at]],
            "instead of": [lines],
        }[where]
        path.write_text("".join(source), "utf-8")
        files.add(name)
    return {name for name in files if name.endswith(".py")}


def ran(check: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a check with the package in a folder."""
    (folder / "check.py").write_text(_CHECK.format(check=indent(check, " " * 8)), "utf-8")
    command = [sys.executable, "check.py"]
    paths = os.pathsep.join((str(folder), str(ROOT)))
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_a_typical_change_needs_few_files(case: Path, tmp_path: Path) -> None:
    """The check fails before the change, and passes after it."""
    text = case.read_text("utf-8")
    package, check = tmp_path / PACKAGE.name, text.partition("= check\n")[2]
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = ran(check, tmp_path)
    files = edited(package, text)
    after = ran(check, tmp_path)
    assert before.returncode, "the check passes without the change"
    assert (after.returncode, len(files) <= MOST_FILES) == (0, True), (files, after.stderr[-3_000:])
