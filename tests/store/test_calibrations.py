"""Calibrations: learned in memory, found again after a restart, and never a reason to fail."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.store.beside import StoredCalibrations
from open_webui_openrouter_pipe.store.database import Database

pytestmark = pytest.mark.anyio

COUNTS = TokenCounts(text=12_000)


class TestCalibrations:
    """What holds on every database."""

    async def test_what_was_learned_survives_a_restart(self, database: Database) -> None:
        """Another worker begins with what the first one has learned."""
        first = StoredCalibrations(database)
        assert await first.find("vendor/model") is None
        for billed in (15_000, 16_000, 15_500):
            first.learn("vendor/model", COUNTS, billed)
        await first.idle()
        learned = Calibration().observed(COUNTS, 15_000).observed(COUNTS, 16_000).observed(COUNTS, 15_500)
        assert await first.find("vendor/model") == learned
        assert await StoredCalibrations(database).find("vendor/model") == learned

    async def test_models_are_learned_apart(self, database: Database) -> None:
        """A vendor's tokenizer says nothing about another's."""
        one = StoredCalibrations(database)
        for model_id, billed in (("vendor/model", 15_000), ("vendor/other", 13_000)):
            assert await one.find(model_id) is None
            one.learn(model_id, COUNTS, billed)
        await one.idle()
        again = StoredCalibrations(database)
        found = [await again.find(model_id) for model_id in ("vendor/model", "vendor/other", "vendor/third")]
        fresh = Calibration()
        assert found == [fresh.observed(COUNTS, 15_000), fresh.observed(COUNTS, 13_000), None]


async def test_a_constant_alone_is_known(sqlite_database: Database) -> None:
    """What small requests teach is stored as well."""
    calibrations = StoredCalibrations(sqlite_database)
    assert await calibrations.find("vendor/model") is None
    for _ in range(2):
        calibrations.learn("vendor/model", TokenCounts(text=400), 750)
    await calibrations.idle()
    assert await StoredCalibrations(sqlite_database).find("vendor/model") == await calibrations.find(
        "vendor/model"
    )
    known = await calibrations.find("vendor/model")
    assert known is not None
    assert known.constant_tokens > 0


async def test_mostly_media_teaches_nothing(sqlite_database: Database) -> None:
    """Nothing is known, and nothing is written."""
    calibrations = StoredCalibrations(sqlite_database)
    assert await calibrations.find("vendor/model") is None
    calibrations.learn("vendor/model", TokenCounts(text=20, media=900), 60)
    await calibrations.aclose()
    assert await StoredCalibrations(sqlite_database).find("vendor/model") is None


async def test_nothing_is_learned_while_the_database_is_unavailable(unavailable_database: Database) -> None:
    """What little a worker could learn by itself must not replace what is stored."""
    calibrations = StoredCalibrations(unavailable_database)
    assert await calibrations.find("vendor/model") is None
    calibrations.learn("vendor/model", COUNTS, 15_000)
    await calibrations.aclose()
    assert await calibrations.find("vendor/model") is None


async def test_whatever_the_database_raises_nothing_is_known(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer does not fail for want of its calibration; nothing is learned meanwhile, and what is stored stays."""
    before, calibrations = StoredCalibrations(sqlite_database), StoredCalibrations(sqlite_database)
    await before.find("vendor/model")
    before.learn("vendor/model", COUNTS, 15_000)
    await before.idle()

    async def break_down(*_: object) -> None:
        raise RuntimeError("a driver's own error")

    with monkeypatch.context() as broken:
        broken.setattr(sqlite_database, "read", break_down)
        assert await calibrations.find("vendor/model") is None
        calibrations.learn("vendor/model", COUNTS, 30_000)
        await calibrations.idle()
    assert await calibrations.find("vendor/model") == Calibration().observed(COUNTS, 15_000)
