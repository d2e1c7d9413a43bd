"""The breaker: what fails repeatedly is not tried for a while, for longer each time."""

from __future__ import annotations

from open_webui_openrouter_pipe.turn.summaries import (
    MAX_PAUSE_SECONDS,
    MAX_REMEMBERED,
    PAUSE_SECONDS,
    Breaker,
)


class FakeClock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return monotonic seconds."""
        return self.seconds


def test_a_single_failure_does_not_open_the_breaker() -> None:
    """The next try is made at once; a success in between forgets all failures."""
    breaker = Breaker(clock=FakeClock())
    for _ in range(3):
        breaker.record_failure("m")
        assert not breaker.is_open("m")
        breaker.record_success("m")


def test_the_second_failure_in_a_row_opens_the_breaker() -> None:
    """It is open for that name alone, and until the pause is over."""
    clock = FakeClock()
    breaker = Breaker(clock=clock)
    breaker.record_failure("m")
    breaker.record_failure("m")
    assert (breaker.is_open("m"), breaker.is_open("other")) == (True, False)
    clock.seconds = PAUSE_SECONDS - 1
    assert breaker.is_open("m")
    clock.seconds = PAUSE_SECONDS
    assert not breaker.is_open("m")


def test_the_first_time_out_opens_the_breaker() -> None:
    """It has cost as much as anybody may have to wait; the next failure doubles the pause."""
    clock = FakeClock()
    breaker = Breaker(clock=clock)
    breaker.record_time_out("m")
    clock.seconds = PAUSE_SECONDS - 1
    assert breaker.is_open("m")
    clock.seconds = PAUSE_SECONDS
    assert not breaker.is_open("m")
    breaker.record_time_out("m")
    clock.seconds += 2 * PAUSE_SECONDS - 1
    assert breaker.is_open("m")
    clock.seconds += 1
    assert not breaker.is_open("m")


def test_each_further_pause_is_longer_up_to_a_limit() -> None:
    """Each pause is twice as long as the one before, and never longer than the limit."""
    clock = FakeClock()
    breaker = Breaker(clock=clock)
    breaker.record_failure("m")
    pauses = []
    for _ in range(2_000):
        breaker.record_failure("m")
        start = clock.seconds
        while breaker.is_open("m"):
            clock.seconds += PAUSE_SECONDS / 2
        pauses.append(clock.seconds - start)
    growing = [PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert pauses == [*growing, *[MAX_PAUSE_SECONDS] * 1_996]


def test_after_a_success_the_pauses_begin_anew() -> None:
    """Failures before a success do not count."""
    clock = FakeClock()
    breaker = Breaker(clock=clock)
    for _ in range(5):
        breaker.record_failure("m")
    breaker.record_success("m")
    assert not breaker.is_open("m")
    breaker.record_failure("m")
    assert not breaker.is_open("m")
    breaker.record_failure("m")
    clock.seconds += PAUSE_SECONDS
    assert not breaker.is_open("m")


def test_only_so_many_names_are_remembered() -> None:
    """A worker that serves many users for a long time forgets the oldest failures."""
    breaker = Breaker(clock=FakeClock())
    for number in range(2 * MAX_REMEMBERED):
        breaker.record_failure(f"user {number}")
        breaker.record_failure(f"user {number}")
    assert breaker.is_open(f"user {2 * MAX_REMEMBERED - 1}")
    assert not breaker.is_open("user 0")
