"""What all tests of this folder have seen in one Open WebUI."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.tables import seen_inside

MODULES = (
    "test_lookups",
    "test_documents",
    "test_files",
    "test_platform",
    "test_model_rows",
    "test_installed",
    "test_naming",
    "test_tool_runs",
)


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """On SQLite, by the name of the module that looked."""
    return seen_inside(tmp_path_factory.mktemp("host"), *MODULES)
