"""The section Security of docs/operations.md: each guard and each test that it names exists, for each border."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from scripts.paths import PACKAGE, ROOT
from tests.fuzz.borders import BORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECTION = (
    (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Security\n")[2].partition("\n## ")[0]
)
ROWS = [line.strip("| ").split(" | ") for line in _SECTION.splitlines() if line.startswith("| ")][1:]
_CODE = re.compile(r"`([\w./]+)`")


def named(cell: str) -> Iterator[tuple[str, str]]:
    """The names of a cell, each with the file before it."""
    file = ""
    for code in _CODE.findall(cell):
        if code.endswith(".py"):
            file = code
        else:
            yield file, code


@cache
def defined(path: Path) -> frozenset[str]:
    """The functions and classes of a module, methods behind their class."""
    found = set[str]()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            members = node.body if isinstance(node, ast.ClassDef) else []
            methods = [each for each in members if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in methods} | {each.name for each in methods}
    return frozenset(found)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_guards_and_tests_exist(row: list[str]) -> None:
    """By the names that the table has for them, at least one of each."""
    _border, _who, guard, test = row
    for folder, cell in ((PACKAGE, guard), (ROOT, test)):
        listed = [*named(cell)]
        assert listed
        assert [(file, name) for file, name in listed if name not in defined(folder / file)] == []
    assert all(file.startswith("tests/") and name.startswith("test_") for file, name in named(test))


def test_every_border_is_listed() -> None:
    """As many at least as are tried with damaged inputs, and each once."""
    borders = [row[0] for row in ROWS]
    assert len({*borders}) == len(borders) >= len(BORDERS)
