"""Summaries in memory keep the contract, and are bounded."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.ports import Summaries
from open_webui_openrouter_pipe.store.memory import MemorySummaries
from tests.store.summary_contract import Clock, SummariesContract, chains, segment, stored

pytestmark = pytest.mark.anyio


class TestMemorySummaries(SummariesContract):
    @pytest.fixture
    def store(self, clock: Clock) -> Summaries:
        return MemorySummaries(clock=clock)


async def test_the_summaries_unused_for_longest_are_deleted() -> None:
    """The summaries of temporary chats cannot fill the memory; those in use stay."""
    store = MemorySummaries(limit=3)
    for start in (0, 1, 2):
        await store.keep(stored(start, start + 1))
    await store.find("ada", chains(0, 1), chat_id="")
    for start in (3, 4):
        await store.keep(stored(start, start + 1))
    found = await store.find("ada", chains(*range(9)), chat_id="")
    assert found.keys() == {segment(0, 1), segment(3, 4), segment(4, 5)}
