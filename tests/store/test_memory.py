"""Rows in memory keep the contract."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.store.memory import MemoryRows
from open_webui_openrouter_pipe.store.rows import RowStore
from tests.store.contract import StoreContract


class TestMemoryRows(StoreContract):
    @pytest.fixture
    def rows(self) -> RowStore:
        return MemoryRows()
