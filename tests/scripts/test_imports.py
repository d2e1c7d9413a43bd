"""Scripts and tests depend on each other in one direction: tests import scripts."""

from __future__ import annotations

import re

from scripts.paths import ROOT

_IMPORT = re.compile(r"^\s*(?:from|import) tests\b", re.MULTILINE)


def test_scripts_import_no_tests() -> None:
    """What both need stands in scripts/harness."""
    files = (ROOT / "scripts").rglob("*.py")
    assert [path for path in files if _IMPORT.search(path.read_text("utf-8"))] == []
