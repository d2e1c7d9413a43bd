"""Maps: the docstring of each folder's `__init__`, and of the root docs/architecture.md, name exactly what is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from scripts.paths import PACKAGE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
_LINE = re.compile(r"^ {4}(\w+) {2,}\S", re.MULTILINE)


def mapped(folder: Path) -> list[str]:
    """The names in the docstring of a folder: lines of four spaces, the name, at least two spaces, and a text."""
    tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
    return sorted(_LINE.findall(ast.get_docstring(tree, clean=True) or ""))


def modules(folder: Path) -> list[str]:
    """The names of a folder's modules and packages; `__init__` is the map itself."""
    names = {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }
    return sorted(names - {"__init__"})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folders_docstring_is_its_map(folder: Path) -> None:
    """Each module has one line, and each line a module."""
    assert mapped(folder) == modules(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folders_init_holds_no_code(folder: Path) -> None:
    """Its docstring stands alone."""
    body = ast.parse((folder / "__init__.py").read_text("utf-8")).body
    assert [type(node) for node in body] == [ast.Expr]


def test_the_architecture_lists_every_module_and_folder_of_the_root() -> None:
    """The table under "Folders and modules" in docs/architecture.md names them all, and no other."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.split("## Folders and modules", 1)[1].split("\n## ", 1)[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == ["__init__", *modules(PACKAGE)]


def test_no_class_name_is_used_twice() -> None:
    """Whoever imports two classes of the package need not rename one; nested ones are of their class."""
    trees = [ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
