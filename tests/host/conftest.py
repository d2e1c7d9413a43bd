"""What all tests of this folder have seen in one Open WebUI."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.tables import seen_inside
from tests.support.host_source import is_older

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


class _OfOlder(dict[str, Any]):
    """What was seen in an older Open WebUI."""

    def __missing__(self, name: str) -> None:
        pytest.skip("this Open WebUI has nothing of that")


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """On SQLite, by the name of the module that looked."""
    found = seen_inside(tmp_path_factory.mktemp("host"), *MODULES)
    return _OfOlder({name: _OfOlder(each) for name, each in found.items()}) if is_older() else found
