"""The breaker: what fails again and again waits, for longer each time."""

from __future__ import annotations

from open_webui_openrouter_pipe.engine.summarizer import LONGEST_PAUSE_SECONDS, PAUSE_SECONDS, Breaker


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds


def test_a_single_failure_is_forgiven() -> None:
    """The next try is made at once; a success in between forgets all."""
    breaker = Breaker(clock=Clock())
    for _ in range(3):
        breaker.failed("m")
        assert not breaker.is_open("m")
        breaker.succeeded("m")


def test_the_second_failure_in_a_row_makes_a_pause() -> None:
    """For that name alone, and until the pause is over."""
    clock = Clock()
    breaker = Breaker(clock=clock)
    breaker.failed("m")
    breaker.failed("m")
    assert (breaker.is_open("m"), breaker.is_open("other")) == (True, False)
    clock.seconds = PAUSE_SECONDS - 1
    assert breaker.is_open("m")
    clock.seconds = PAUSE_SECONDS
    assert not breaker.is_open("m")


def test_each_further_pause_is_longer_up_to_a_limit() -> None:
    """Twice as long each time, and never for ever."""
    clock = Clock()
    breaker = Breaker(clock=clock)
    breaker.failed("m")
    pauses = []
    for _ in range(2_000):
        breaker.failed("m")
        begun = clock.seconds
        while breaker.is_open("m"):
            clock.seconds += PAUSE_SECONDS / 2
        pauses.append(clock.seconds - begun)
    growing = [PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert pauses == [*growing, *[LONGEST_PAUSE_SECONDS] * 1_996]


def test_after_a_success_the_pauses_begin_anew() -> None:
    """Old failures do not count."""
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(5):
        breaker.failed("m")
    breaker.succeeded("m")
    assert not breaker.is_open("m")
    breaker.failed("m")
    assert not breaker.is_open("m")
    breaker.failed("m")
    clock.seconds += PAUSE_SECONDS
    assert not breaker.is_open("m")
