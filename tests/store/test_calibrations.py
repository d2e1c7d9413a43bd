"""Calibrations: learned in memory, the same for all workers where it matters, and never a reason to fail."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations

pytestmark = pytest.mark.anyio

COUNTS = TokenCounts(text=12_000)


@pytest.mark.parametrize(
    ("counts", "billed"),
    [(COUNTS, [15_000, 16_000, 15_500]), (TokenCounts(text=400), [750, 750, 750])],
    ids=["large requests", "small requests, which teach a constant alone"],
)
async def test_what_was_learned_survives_a_restart(
    database: Database, counts: TokenCounts, billed: list[int]
) -> None:
    """Another worker begins with what the first one has learned, and another model with nothing."""
    first, learned = StoredCalibrations(database), Calibration()
    for name in ("model", "other"):
        assert await first.find(f"vendor/{name}") == Calibration()
        learned = taught(first, billed, counts, f"vendor/{name}")
    await first.idle()
    for worker in (first, StoredCalibrations(database)):
        found = [await worker.find(f"vendor/{name}") for name in ("model", "other", "third")]
        assert found == [learned, learned, Calibration()]
    assert learned.constant_tokens > 0 or counts is COUNTS


def taught(
    worker: StoredCalibrations,
    billed: list[int],
    counts: TokenCounts = COUNTS,
    model_id: str = "vendor/model",
    before: Calibration | None = None,
) -> Calibration:
    """What a worker should have learned when requests with these counts were billed with so many tokens."""
    learned = before or Calibration()
    for tokens in billed:
        worker.learn(model_id, counts, tokens)
        learned = learned.observed(counts, tokens)
    return learned


async def test_what_is_stored_moves_by_steps(database: Database) -> None:
    """No bill that limits requests a little less moves it, though the worker that was billed has learned of it."""
    one, other = StoredCalibrations(database), StoredCalibrations(database)
    assert [await each.stored("vendor/model") for each in (one, other)] == [Calibration()] * 2
    first = taught(one, [15_000, 15_000])
    await one.idle()
    second = taught(one, [15_200, 14_800, 15_000], before=first)
    await one.idle()
    assert [await each.stored("vendor/model") for each in (one, other)] == [first, first]
    assert [await each.find("vendor/model") for each in (one, other)] == [second, first]
    third = taught(one, [24_000, 24_000], before=second)
    await one.idle()
    assert [await each.stored("vendor/model") for each in (one, other)] == [third, third]
    assert await other.find("vendor/model") == third


async def test_a_change_whose_answer_is_lost_is_the_workers_own(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has learned since is written over it."""
    worker, change = StoredCalibrations(database), database.change
    await worker.find("vendor/model")

    async def lose(*details: Any) -> int:
        monkeypatch.setattr(database, "change", change)
        await change(*details)
        learned.append(taught(worker, [24_000, 24_000], before=learned[0]))
        raise StoreUnavailable("The answer is lost.")

    monkeypatch.setattr(database, "change", lose)
    learned = [taught(worker, [15_000, 15_000])]
    await worker.idle()
    assert await StoredCalibrations(database).find("vendor/model") == learned[1] != learned[0]


async def test_a_worker_does_not_undo_what_another_has_stored(database: Database) -> None:
    """It goes on from that; what its own bills have taught it meanwhile is lost."""
    one, other = StoredCalibrations(database), StoredCalibrations(database)
    for worker in (one, other):
        await worker.find("vendor/model")
    first = taught(one, [15_000, 16_000])
    await one.idle()
    taught(other, [24_000, 24_000])
    await other.idle()
    assert [await each.find("vendor/model") for each in (one, other)] == [first, first]
    second = taught(other, [24_000, 24_000], before=first)
    await other.idle()
    assert [await each.stored("vendor/model") for each in (one, other)] == [second, second]


async def test_whatever_the_database_raises_nothing_is_known(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer does not fail for want of its calibration; what was found last holds, and what is stored stays."""
    before, calibrations = StoredCalibrations(sqlite_database), StoredCalibrations(sqlite_database)
    assert await before.find("vendor/model") == Calibration()
    learned = taught(before, [15_000, 16_000])
    await before.idle()

    async def break_down(*_: object) -> None:
        raise RuntimeError("a driver's own error")

    with monkeypatch.context() as broken:
        broken.setattr(sqlite_database, "read", break_down)
        assert await calibrations.find("vendor/model") == Calibration()
        taught(calibrations, [24_000, 24_000])
        await calibrations.idle()
        assert await before.stored("vendor/model") == learned
    assert await calibrations.find("vendor/model") == learned
