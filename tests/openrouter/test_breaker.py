"""An address that cannot be reached is left alone for a while."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.errors import AddressPaused, ConnectionFailed
from open_webui_openrouter_pipe.openrouter.connections import (
    FAILURES_TO_OPEN,
    MAX_PAUSE_SECONDS,
    PAUSE_SECONDS,
    AddressBreaker,
)

HERE, THERE = "https://here.test", "https://there.test"


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def failed(*, passes: bool = True) -> ConnectionFailed:
    error = ConnectionFailed("no")
    error.passes = passes
    return error


def attempt(breaker: AddressBreaker, error: ConnectionFailed | None = None, address: str = HERE) -> bool:
    """Whether the breaker lets an attempt through that ends with the error."""
    try:
        with breaker.attempt(address):
            if error:
                raise error
    except AddressPaused:
        return False
    except ConnectionFailed:
        pass
    return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> AddressBreaker:
    """A breaker that was just opened."""
    breaker = AddressBreaker(clock=clock)
    assert all(attempt(breaker, failed()) for _ in range(FAILURES_TO_OPEN))
    return breaker


def test_repeated_failures_open_it_for_one_address(opened: AddressBreaker, clock: Clock) -> None:
    """Until the pause is over, and the error says when that is."""
    clock.seconds += PAUSE_SECONDS - 4
    with pytest.raises(AddressPaused, match="next try is in 4 seconds") as caught, opened.attempt(HERE):
        pass
    assert (caught.value.retry_after_seconds, "5 times" in caught.value.admin_message) == (4.0, True)
    assert attempt(opened, address=THERE)
    clock.seconds += 4
    assert attempt(opened)


def test_a_success_in_between_forgets_the_failures(clock: Clock) -> None:
    """Only failures in a row count, and time-outs of answers are none."""
    breaker = AddressBreaker(clock=clock)
    endings = [failed()] * (FAILURES_TO_OPEN - 1) + [None]
    assert all(attempt(breaker, ending) for ending in endings * 3)
    assert all(attempt(breaker, failed(passes=False)) for _ in range(3 * FAILURES_TO_OPEN))


def test_one_request_tries_the_address_out(opened: AddressBreaker, clock: Clock) -> None:
    """The others wait for its result; when it succeeds all may go."""
    clock.seconds += PAUSE_SECONDS
    with opened.attempt(HERE):
        assert not attempt(opened)
    assert attempt(opened)


def test_a_try_that_waits_for_its_answer_holds_up_nobody_for_long(
    opened: AddressBreaker, clock: Clock
) -> None:
    """Connected it is by then: a model may think for minutes before anything comes."""
    clock.seconds += PAUSE_SECONDS
    with opened.attempt(HERE):
        clock.seconds += PAUSE_SECONDS - 1
        with pytest.raises(AddressPaused, match="next try is in 1 seconds"), opened.attempt(HERE):
            pass
        clock.seconds += 1
        assert attempt(opened)


def test_a_cancelled_try_leaves_the_place_to_another(opened: AddressBreaker, clock: Clock) -> None:
    """It has proved nothing."""
    clock.seconds += PAUSE_SECONDS
    with pytest.raises(KeyboardInterrupt), opened.attempt(HERE):
        raise KeyboardInterrupt
    assert attempt(opened)


def test_a_failed_try_doubles_the_pause_up_to_a_limit(opened: AddressBreaker, clock: Clock) -> None:
    """An outage of an hour is not asked about every ten seconds."""
    pauses = []
    for _ in range(6):
        before = clock.seconds
        while not attempt(opened, failed()):
            clock.seconds += 1
        pauses.append(clock.seconds - before)
    assert pauses == [PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)] + [MAX_PAUSE_SECONDS] * 2


def test_requests_that_began_before_prolong_nothing(clock: Clock) -> None:
    """A burst that fails together counts as one outage."""
    breaker = AddressBreaker(clock=clock)
    burst = [breaker.attempt(HERE) for _ in range(20)]
    for each in burst:
        each.__enter__()
    for each in burst:
        error = failed()
        assert not each.__exit__(type(error), error, None)
    clock.seconds += PAUSE_SECONDS
    assert attempt(breaker)
