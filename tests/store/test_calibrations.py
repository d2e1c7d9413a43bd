"""Calibrations: learned in memory, found again after a restart, and never a reason to fail."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations

pytestmark = pytest.mark.anyio

COUNTS = TokenCounts(text=12_000)


@pytest.mark.parametrize(
    ("counts", "billed"),
    [(COUNTS, [15_000, 16_000, 15_500]), (TokenCounts(text=400), [750, 750])],
    ids=["large requests", "small requests, which teach a constant alone"],
)
async def test_what_was_learned_survives_a_restart(
    database: Database, counts: TokenCounts, billed: list[int]
) -> None:
    """Another worker begins with what the first one has learned, and another model with nothing."""
    first, learned = StoredCalibrations(database), Calibration()
    assert [await first.find(model_id) for model_id in ("vendor/model", "vendor/other")] == [None, None]
    first.learn("vendor/other", COUNTS, 13_000)
    for tokens in billed:
        first.learn("vendor/model", counts, tokens)
        learned = learned.observed(counts, tokens)
    await first.idle()
    expected = [learned, Calibration().observed(COUNTS, 13_000), None]
    for worker in (first, StoredCalibrations(database)):
        found = [await worker.find(f"vendor/{name}") for name in ("model", "other", "third")]
        assert found == expected
    assert learned.constant_tokens > 0 or counts is COUNTS


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
