"""Spending limits: how the valve is read, who is under what, and when a request may begin."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.money.limits import (
    AccountLimit,
    AccountSums,
    Group,
    Limit,
    LimitState,
    SpendingLimits,
    accounts_of,
    day_number,
    limits_of,
    may_begin,
    month_start,
    nearest,
    period_end,
    read_limits,
)
from tests.support.rows import rows

TABLES = Path(__file__).parent / "money.txt"
STUDENTS, STAFF = Group("g1", "Students"), Group("g2", "Staff")
TEXT = "user: 2/day 20/month; each of Students: 0.5/day; group Staff: $50 a month; all: 100/month"
LIMITS = (
    Limit("user", "", "day", 2),
    Limit("user", "", "month", 20),
    Limit("each", "Students", "day", 0.5),
    Limit("group", "Staff", "month", 50),
    Limit("all", "", "month", 100),
)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


def test_the_valve_is_a_list_of_scopes_and_amounts() -> None:
    """Separated by semicolons or lines."""
    assert read_limits(TEXT) == SpendingLimits(LIMITS)
    assert read_limits(TEXT.replace(";", "\n")) == SpendingLimits(LIMITS)
    assert read_limits("  ") == SpendingLimits()
    assert read_limits("group A: B (2026): 1/DAY").limits == (Limit("group", "A: B (2026)", "day", 1),)


@pytest.mark.parametrize("part", rows(TABLES, "unreadable"))
def test_what_cannot_be_read_is_named(part: str) -> None:
    """And nothing is read halfway: an administrator finds the very part."""
    assert read_limits(f"all: 5/day; {part}; user: 1/day").unreadable == part


def under(groups: list[Group], *, is_admin: bool = False) -> list[Limit]:
    """The limits of Ada."""
    return [each.limit for each in limits_of("ada", groups, SpendingLimits(LIMITS), is_admin=is_admin)]


def test_everybody_is_under_their_limits() -> None:
    """A group's own limit for each member takes the place of the users' for its period."""
    day, month, each, group, everybody = LIMITS
    assert under([]) == [day, month, everybody]
    assert under([STUDENTS]) == [month, each, everybody]
    assert under([STAFF]) == [day, month, group, everybody]
    assert under([STAFF, STUDENTS], is_admin=True) == [everybody]


def test_spending_is_counted_where_it_may_be_limited() -> None:
    """At the user and everybody, and at groups with a limit of their own."""
    limits = SpendingLimits(LIMITS)
    assert accounts_of("ada", [STUDENTS, STAFF], limits) == ("user:ada", "group:g2", "all")
    accounts = {each.account for each in limits_of("ada", [STUDENTS, STAFF], limits, is_admin=False)}
    assert accounts <= set(accounts_of("ada", [STUDENTS, STAFF], limits))


def test_the_nearest_limit_counts() -> None:
    """It is near from 80 % on, and reached with all of it spent."""
    limits = limits_of("ada", [], SpendingLimits(LIMITS), is_admin=False)
    sums = {"user:ada": AccountSums(day=1.5, month=19), "all": AccountSums(month=20)}
    state = nearest(limits, sums)
    assert state == LimitState(LIMITS[1], 19)
    assert (state.is_near, state.is_reached) == (True, False)
    assert LimitState(LIMITS[0], 1.59).is_near is False
    assert LimitState(LIMITS[0], 2).is_reached is True
    assert LimitState(Limit("user", "", "day", 0), 0).is_reached is True
    assert nearest([], sums) is None


@pytest.mark.parametrize(("used", "held", "may"), rows(TABLES, "begins"))
def test_a_request_may_begin_if_all_that_runs_fits(used: float, held: float, *, may: bool) -> None:
    """Alone it may begin below the limit, whatever it costs."""
    limit = AccountLimit(Limit("user", "", "day", 2), "user:ada")
    assert may_begin([limit], {"user:ada": AccountSums(day=used, month=used, held=held)}) is may


@given(
    prices=st.lists(
        st.tuples(st.floats(0.01, 3), st.floats(0, 1), st.integers(0, 4)), min_size=1, max_size=60
    )
)
def test_no_more_than_one_request_goes_beyond_a_limit(prices: list[tuple[float, float, int]]) -> None:
    """However many run at once, as long as none costs more than was held for it; they end in any order."""
    limit, account = AccountLimit(Limit("user", "", "day", 2), "a"), "a"
    total, running = 0.0, list[tuple[float, float]]()
    for most, share, which in prices:
        held = sum(amount for amount, _ in running)
        if may_begin([limit], {account: AccountSums(day=total, held=held)}):
            running.append((most, most * share))
        elif running:
            total += running.pop(which % len(running))[1]
    dearest = max(most * share for most, share, _ in prices)
    assert total + sum(cost for _, cost in running) <= 2 + dearest + 1e-9


def test_days_and_months_are_those_of_utc() -> None:
    """A period ends with the next midnight, or the one before the next month."""
    assert day_number(NOON) - month_start(NOON) == 29
    assert period_end("day", NOON) == datetime(2026, 12, 1, tzinfo=UTC)
    assert period_end("month", NOON) == datetime(2026, 12, 1, tzinfo=UTC)
    assert period_end("month", NOON + 30 * 86_400) == datetime(2027, 1, 1, tzinfo=UTC)
    assert day_number(NOON + 43_200) == day_number(NOON) + 1
