"""What fails repeatedly is left alone for a while, for longer each time: here with the figures of summary models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.ports import MAX_REMEMBERED, Pauses
from open_webui_openrouter_pipe.turn.summaries import (
    FAILURES_BEFORE_PAUSE,
    MAX_PAUSE_SECONDS,
    PAUSE_SECONDS,
    SummarizerState,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeClock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return monotonic seconds."""
        return self.seconds


@pytest.fixture
def clock() -> FakeClock:
    """At 0."""
    return FakeClock()


@pytest.fixture
def pauses(clock: FakeClock) -> Pauses:
    """Those of summary models."""
    return SummarizerState(lambda work: work.close(), clock).pauses


def fail(pauses: Pauses, times: int) -> None:
    """Fail in a row."""
    for _ in range(times):
        pauses.record_failure("m")


def test_a_success_forgets_all_failures(pauses: Pauses) -> None:
    """One failure begins no pause, and after a success the next one is a first one again."""
    for failures in (1, 1, 5):
        fail(pauses, failures)
        pauses.record_success("m")
        assert (pauses.failures("m"), pauses.remaining_seconds("m")) == (0, 0)
    fail(pauses, 1)
    assert (pauses.failures("m"), pauses.remaining_seconds("m")) == (1, 0)


@pytest.mark.parametrize(
    "begin",
    [
        lambda pauses: fail(pauses, FAILURES_BEFORE_PAUSE),
        lambda pauses: pauses.record_failure("m", pauses=True),
    ],
    ids=["two failures in a row", "one that took all the time there was"],
)
def test_a_pause_ends_by_itself(pauses: Pauses, clock: FakeClock, begin: Callable[[Pauses], None]) -> None:
    """It is of that name alone; the next failure, of either kind, begins one twice as long."""
    begin(pauses)
    assert (pauses.remaining_seconds("m"), pauses.remaining_seconds("other")) == (PAUSE_SECONDS, 0)
    clock.seconds = PAUSE_SECONDS - 1
    assert pauses.remaining_seconds("m") == 1
    clock.seconds = PAUSE_SECONDS
    assert pauses.remaining_seconds("m") == 0
    pauses.record_failure("m", pauses=True)
    assert pauses.remaining_seconds("m") == 2 * PAUSE_SECONDS


def test_each_further_pause_is_longer_up_to_a_limit(pauses: Pauses) -> None:
    """Each is twice as long as the one before, and never longer than the limit."""
    fail(pauses, 1)
    found = []
    for _ in range(2_000):
        fail(pauses, 1)
        found.append(pauses.remaining_seconds("m"))
    assert found == [*(PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)), *[MAX_PAUSE_SECONDS] * 1_996]


def test_only_so_many_names_are_remembered(pauses: Pauses) -> None:
    """A worker that serves many users for a long time forgets the oldest failures."""
    for number in range(2 * MAX_REMEMBERED):
        pauses.record_failure(f"user {number}", pauses=True)
    assert [pauses.failures(f"user {number}") for number in (0, 2 * MAX_REMEMBERED - 1)] == [0, 2]
