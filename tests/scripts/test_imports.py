"""Scripts and tests depend on each other in one direction: tests import scripts."""

from __future__ import annotations

import ast

from scripts.paths import ROOT


def test_scripts_import_no_tests() -> None:
    """What both need stands in scripts/harness."""
    imported = [
        (path.relative_to(ROOT).as_posix(), module)
        for path in (ROOT / "scripts").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    ]
    assert [(path, module) for path, module in imported if module.split(".")[0] == "tests"] == []
