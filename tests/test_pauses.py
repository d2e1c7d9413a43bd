"""What fails repeatedly is left alone for a while, for longer each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.ports import MAX_REMEMBERED, Pauses

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        *(
            ("", 0.0),
            ("f", 0.0),
            ("ff", 10.0),
            ("fff", 20.0),
            ("ffff", 40.0),
            ("f" * 5, 60.0),
            ("f" * 2_000, 60.0),
        ),
        *(("fsf", 0.0), ("fffffs", 0.0), ("fffffsf", 0.0), ("fffffsff", 10.0)),
        *(("t", 10.0), ("tt", 20.0), ("ft", 10.0), ("fft", 20.0)),
    ],
)
def test_each_pause_is_twice_as_long_as_the_one_before(events: str, seconds: float) -> None:
    """From the second failure (f) in a row on, or the first that pauses (t), up to a limit; a success (s) ends that."""
    now = [100.0]
    tried = pauses(lambda: now[0])
    for event in events:
        if event == "s":
            tried.record_success("m")
        else:
            tried.record_failure("m", pauses=event == "t")
    assert (tried.remaining_seconds("m"), tried.remaining_seconds("other")) == (seconds, 0.0)
    assert tried.failures("m") == len(events.rpartition("s")[2]) + ("t" in events[:1])
    now[0] += seconds
    assert tried.remaining_seconds("m") == 0.0


def test_only_so_many_names_are_remembered() -> None:
    """A worker that serves many users for a long time forgets the oldest failures."""
    tried = pauses(float)
    for number in range(2 * MAX_REMEMBERED):
        tried.record_failure(f"user {number}", pauses=True)
    remaining = [tried.remaining_seconds(f"user {number}") for number in (0, 2 * MAX_REMEMBERED - 1)]
    assert remaining == [0.0, 10.0]


def pauses(clock: Callable[[], float]) -> Pauses:
    """Pauses of ten seconds after two failures, and of no more than a minute."""
    return Pauses(clock=clock, failures=2, first_seconds=10.0, longest_seconds=60.0)
