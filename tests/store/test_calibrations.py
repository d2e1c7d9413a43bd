"""Calibrations: learned in memory, found again after a restart, never a reason to wait or fail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.store.calibrations import StoredCalibrations
from open_webui_openrouter_pipe.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

TALLY = TokenCounts(text=1200)


class Contract:
    """What holds on every database."""

    async def test_what_was_learned_survives_a_restart(self, database: Database) -> None:
        """Another worker begins where the first one has been."""
        first = StoredCalibrations(database)
        assert await first.find("vendor/model") is None
        for billed in (1500, 1600, 1550):
            first.learn("vendor/model", TALLY, billed)
        await first.idle()
        learned = Calibration().observed(TALLY, 1500).observed(TALLY, 1600).observed(TALLY, 1550)
        assert await first.find("vendor/model") == learned
        assert await StoredCalibrations(database).find("vendor/model") == learned

    async def test_models_are_learned_apart(self, database: Database) -> None:
        """A vendor's tokenizer says nothing about another's."""
        one = StoredCalibrations(database)
        for model_id, billed in (("vendor/model", 1500), ("vendor/other", 1300)):
            assert await one.find(model_id) is None
            one.learn(model_id, TALLY, billed)
        await one.idle()
        again = StoredCalibrations(database)
        found = [await again.find(model_id) for model_id in ("vendor/model", "vendor/other", "vendor/third")]
        fresh = Calibration()
        assert found == [fresh.observed(TALLY, 1500), fresh.observed(TALLY, 1300), None]


class TestSqlite(Contract):
    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database


@pytest.mark.servers
class TestPostgres(Contract):
    @pytest.fixture
    def database(self, postgres_database: Database) -> Database:
        return postgres_database


async def test_small_requests_teach_nothing(sqlite_database: Database) -> None:
    """Nothing is known, and nothing is written."""
    calibrations = StoredCalibrations(sqlite_database)
    calibrations.learn("vendor/model", TokenCounts(text=20), 60)
    await calibrations.aclose()
    assert await calibrations.find("vendor/model") is None


async def test_nothing_is_learned_while_the_database_is_away(tmp_path: Path) -> None:
    """What little a worker could learn by itself must not replace what is stored."""
    away = Database.from_url(f"sqlite:///{tmp_path}/no/such/folder/rows.db")
    calibrations = StoredCalibrations(away)
    assert await calibrations.find("vendor/model") is None
    calibrations.learn("vendor/model", TALLY, 1500)
    await calibrations.aclose()
    assert await calibrations.find("vendor/model") is None
    # The driver's threads still report to the event loop for a moment.
    await asyncio.sleep(0.2)
