"""Amounts, prices, limits and the audit's rows: what the pure functions of money say; see `money.txt`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, WindowTooSmall
from open_webui_openrouter_pipe.money.audit import Bill, rejected_bill, sent_bill
from open_webui_openrouter_pipe.money.limits import (
    DAY_QUARTERS,
    QUARTER_SECONDS,
    AccountLimit,
    AccountSums,
    Group,
    Limit,
    SpendingLimits,
    accounts_of,
    clock_changes,
    find_zone,
    first_quarter,
    limits_of,
    may_begin,
    nearest,
    period_end,
    period_start,
    read_limits,
)
from open_webui_openrouter_pipe.money.prefix import Digests, LastRequest, expected_input, find_break
from open_webui_openrouter_pipe.money.prices import (
    CacheRule,
    Paid,
    PriceBand,
    Prices,
    dollars,
    next_input,
    paid,
)
from open_webui_openrouter_pipe.planning.plan import Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.responses.effects import Usage
from tests.support.chats import history, planned, user
from tests.support.rows import rows

TABLES: Final = Path(__file__).parent / "money.txt"
PRICES = Prices(input=3e-6, output=15e-6, read=0.3e-6, write=3.75e-6, write_long=6e-6)
CLAUDE = CacheRule("explicit", bills_writes=True)
GPT = CacheRule("automatic")
RULES = {"by blocks": GPT, "at breakpoints": CLAUDE, "never": CacheRule("none")}
NOTHING_SENT = Digests({}, (), (), 0, 0, (), 0, (), (), 0, 0, frozenset(), "", ())
SIZES = (1000, 2500, 4000, 4600)


def request(tools: int, *items: int, breakpoints: Sequence[int] = ()) -> Digests:
    """A request of a tool and of items with these names."""
    sizes = SIZES[: 1 + len(items)]
    return replace(NOTHING_SENT, tools=[tools], items=items, tokens=sizes, breakpoints=breakpoints)


def sent(digests: Digests, billed: int, at: float = 0.0, rule: CacheRule = CLAUDE) -> LastRequest:
    """A request that was billed as so many tokens."""
    return LastRequest(digests, "m", "m", PRICES, rule, Usage(billed), was_read_once=True, sent_seconds=at)


def pruned(names: Any) -> bool:
    """Whether a plan with these steps dropped something without a summary; steps that did nothing never do."""
    assert not Bill(steps=tuple(Step(name, 9, triggered=False) for name in names)).pruned
    return Bill(steps=tuple(Step(name, 9, triggered=True) for name in names)).pruned


def unreadable(part: str) -> Any:
    """What is named of a list with this part, and whose: the very part; the others are read."""
    limits = read_limits(f"all: 5/day; {part}; user: 1/day")
    assert [limit.scope for limit in limits.limits] == ["all", "user"]
    (found,) = limits.unreadable
    assert found.text == part
    return found.group


def begins(used: float, held: float) -> bool:
    """Whether a request may begin, if all that runs fits; alone it may below the limit, whatever it costs."""
    limit = AccountLimit(Limit("user", "", "day", 2), "user:ada")
    return may_begin([limit], {"user:ada": AccountSums(day=used, month=used, held=held)})


def forecasts(rule: CacheRule, last: Any, breakpoints: list[int], now: float) -> list[int]:
    """By what a request shares with the last one, while that is kept, and by what the provider counted then."""
    pieces = request(1, 2, 3, 4, breakpoints=breakpoints)
    before = sent(request(*last[0], breakpoints=last[1]), last[2]) if last else None
    usage = expected_input(pieces, rule, before, now_seconds=now)
    assert usage == Usage(usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens)
    return [usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens]


STEPS: Final[dict[str, Callable[..., Any]]] = {
    "amounts": dollars,
    "unreadable": unreadable,
    "begins": begins,
    "pruned": pruned,
    "forecasts": forecasts,
}


@pytest.mark.parametrize(
    ("step", "cells"),
    [
        pytest.param(step, case.values, id=f"{section}: {case.id}")
        for section, step in STEPS.items()
        for case in rows(TABLES, section, RULES)
    ],
)
def test_each_step_does_what_its_table_says(step: Callable[..., Any], cells: tuple[Any, ...]) -> None:
    """Behind the arrow stands what a step makes of the cells before it; what cannot be read is named as it is."""
    *given_cells, expected = cells if len(cells) > 1 else cells * 2
    assert step(*given_cells) == expected


# --- the audit

SMALL = ModelTerms("vendor/model", 10_000)


def test_a_sent_request_is_recorded() -> None:
    """Window, budget, the sizes before and after each step; what it costs is not known yet."""
    plan = planned(history([user("hello")]), model=SMALL)
    sizes: Any = {"window_tokens": 10_000, "budget_tokens": 7000, "limit_tokens": 7000}
    steps = tuple(Step(step.name, plan.tokens, triggered=False) for step in plan.steps)
    counted = Bill(tokens_before=plan.tokens, tokens_sent=plan.tokens, steps=steps)
    assert sent_bill(plan) == replace(counted, model="vendor/model", **sizes)
    assert plan.steps


def test_a_rejected_request_is_recorded() -> None:
    """With the size of what cannot be dropped, and the budget that half of the reserves leaves; nothing was sent."""
    with pytest.raises(ContextOverflow) as rejected:
        planned(history([user("ship " * 9000)]), model=SMALL)
    sizes: Any = {"window_tokens": 10_000, "budget_tokens": 8500, "limit_tokens": 8500}
    needed = Bill(tokens_before=rejected.value.needed_tokens, rejected=True, requests=0)
    assert rejected_bill("vendor/model", rejected.value) == replace(needed, model="vendor/model", **sizes)
    with pytest.raises(WindowTooSmall) as refused:
        planned(history([user("hello")]), model=ModelTerms("vendor/model", 128, output_tokens=32))
    bill = rejected_bill("vendor/model", refused.value)
    assert (bill.limit_tokens, bill.tokens_before) == (0, 0)


# --- prices


def test_the_bill_is_the_truth_and_otherwise_the_prices() -> None:
    """What was not billed is computed: plain, cached and written input, output, and the request itself."""
    usage = Usage(1000, cached_tokens=400, cache_write_tokens=500, output_tokens=10)
    prices = replace(PRICES, request=0.01)
    computed = 100 * 3e-6 + 400 * 0.3e-6 + 500 * 3.75e-6 + 10 * 15e-6 + 0.01
    assert paid(usage, prices.cost(usage).total) == pytest.approx(Paid(computed))
    long = prices.cost(usage, long=True).total
    assert paid(usage, long) == pytest.approx(Paid(computed + 500 * 2.25e-6))
    assert paid(replace(usage, cost=0.5), long) == Paid(0.5)


def test_prices_that_are_missing_are_those_of_plain_input() -> None:
    """As OpenRouter bills them; a model without any price costs nothing."""
    usage = Usage(1000, cached_tokens=400, cache_write_tokens=500, output_tokens=10)
    assert Prices(input=1e-6).cost(usage).total == pytest.approx(0.001)
    assert Prices().cost(usage).total == 0


@pytest.mark.parametrize(
    ("model", "prices", "rule"),
    [
        ("anthropic/claude-sonnet-4.5", PRICES, CLAUDE),
        ("~anthropic/claude-opus-4.5", PRICES, replace(CLAUDE, minimum_tokens=4096)),
        ("openai/gpt-5.2", Prices(input=1e-6, read=1e-7), GPT),
        ("deepseek/deepseek-v3.2", Prices(1e-6, read=1e-7), CacheRule("automatic", 64, 64)),
        ("google/gemini-3-pro", Prices(1e-6, read=1e-7), CacheRule("automatic", 4096, 256)),
        ("mistralai/mistral-large", Prices(input=1e-6), CacheRule("none")),
        ("alibaba/qwen3-max", Prices(1e-6, read=1e-7, write=1e-6), replace(CLAUDE, bills_writes=False)),
    ],
)
def test_each_vendor_has_its_rule(model: str, prices: Prices, rule: CacheRule) -> None:
    """One without a price for cached reads does not cache; an hour is kept where it is asked for."""
    assert CacheRule.of(model, prices) == rule
    kept_long = CacheRule.of(model, prices, long=True).kept_seconds
    assert (rule.kept_seconds, kept_long) == (300, 300 if rule.kind == "none" else 3600)


def test_the_next_request_reads_the_last_answer_too() -> None:
    """Warm, what was sent is read from the cache; cold, all of it is read or written anew."""
    bill = Usage(5000, output_tokens=960)
    assert next_input(bill, CLAUDE, is_cached=True) == Usage(6000, 5000, 1000)
    assert next_input(bill, CLAUDE, is_cached=False) == Usage(6000, 0, 6000)
    assert next_input(bill, GPT, is_cached=True) == Usage(6000, 4992)


NIGHT: Final = PriceBand((("input", 1e-6), ("read", 1e-7)), start=0, end=600)
LARGE: Final = PriceBand((("input", 6e-6), ("read", 0.6e-6), ("write", 7.5e-6)), more_than_tokens=5000)


def test_the_next_request_may_be_in_another_price_band() -> None:
    """By its size; and cold it is by the hour at which the cache is lost."""
    sized = replace(sent(NOTHING_SENT, 4900), prices=replace(PRICES, bands=(LARGE,)), rule=GPT)
    assert sized.input_cost == pytest.approx(4900 * 3e-6)
    grown = replace(sized, usage=Usage(4900, output_tokens=60))
    assert grown.next_input_cost(is_cached=False) == pytest.approx(5000 * 3e-6)
    grown = replace(sized, usage=Usage(4900, output_tokens=61))
    assert grown.next_input_cost(is_cached=False) == pytest.approx(5001 * 6e-6)
    assert grown.next_input_cost(is_cached=True) == pytest.approx((5001 - 4864) * 6e-6 + 4864 * 0.6e-6)
    nightly = replace(grown, prices=replace(PRICES, bands=(NIGHT,)), sent_seconds=6 * 3600 - 100)
    assert nightly.next_input_cost(is_cached=True) == pytest.approx((5001 - 4864) * 1e-6 + 4864 * 1e-7)
    assert nightly.next_input_cost(is_cached=False) == pytest.approx(5001 * 3e-6)


@pytest.mark.parametrize(("bands", "dearer"), [((), 3.75 - 0.3), ((LARGE,), 7.5 - 0.6)])
def test_a_lost_cache_costs_what_the_band_says(bands: tuple[PriceBand, ...], dearer: float) -> None:
    """That of the request as it is now."""
    last, now = (
        replace(NOTHING_SENT, tools=[1], items=items, tokens=sizes, completed=2, lasting=2, turns=(1, 2))
        for items, sizes in (((2, 3), (1000, 2000, 3000)), ((9, 3), (1000, 4000, 6000)))
    )
    before = replace(sent(last, 6000), prices=replace(PRICES, bands=bands))
    found = find_break([before], now, now_seconds=1)
    assert found
    assert 0 < found.lost_tokens < 5000
    assert found.lost_cost == pytest.approx(found.lost_tokens * dearer * 1e-6)


@given(
    names=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    earlier=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    step=st.integers(1, 5000),
    billed=st.integers(0, 100_000),
    rule=st.sampled_from([GPT, CLAUDE, CacheRule("none"), replace(GPT, bills_writes=True)]),
)
def test_a_forecast_is_always_a_possible_bill(
    names: list[int], earlier: list[int], step: int, billed: int, rule: CacheRule
) -> None:
    """No more is cached and written than there is, whatever was sent before."""

    def digests(of: list[int]) -> Digests:
        sizes = [step * (at + 1) for at in range(len(of))]
        ends = [len(of) - 1]
        return replace(NOTHING_SENT, tools=of[:1], items=of[1:], tokens=sizes, breakpoints=ends)

    usage = expected_input(digests(names), rule, sent(digests(earlier), billed, rule=rule), now_seconds=1)
    assert usage.cached_tokens >= 0
    assert usage.cache_write_tokens >= 0
    assert usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens


# --- limits

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


def test_what_cannot_be_read_concerns_whoever_it_may_limit() -> None:
    """Everybody where it does not say whom, or the members of the group that it names."""
    groups = [Group("1", "A")]
    found = [
        read_limits(text).unreadable_for(groups)
        for text in ("x", "each of A: 1", "group B: 1/d", "all: 1/day")
    ]
    assert (found, read_limits("each of A: 1; group B: 2/day").groups) == (
        ["x", "each of A: 1", "", ""],
        ("B", "A"),
    )


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
    assert state == AccountLimit(LIMITS[1], "user:ada", 19)
    assert (state.is_near, state.is_reached) == (True, False)
    assert AccountLimit(LIMITS[0], "", 1.59).is_near is False
    assert AccountLimit(LIMITS[0], "", 2).is_reached is True
    assert AccountLimit(Limit("user", "", "day", 0), "", 0).is_reached is True
    assert nearest([], sums) is None


@pytest.mark.parametrize(
    ("period", "counts", "used"),
    [("day", "both", 11), ("day", "openrouter", 1), ("month", "both", 22), ("month", "openrouter", 2)],
)
def test_a_limit_counts_what_it_says(period: Any, counts: Any, used: float) -> None:
    """What OpenRouter was paid in its period, and what providers were paid besides."""
    sums = {"a": AccountSums(day=1, month=2, provider_day=10, provider_month=20)}
    for dollars_in_it, begins in ((used, False), (used + 1, True)):
        under = AccountLimit(Limit("user", "", period, dollars_in_it), "a", counts=counts)
        assert nearest([under], sums) == replace(under, used=used)
        assert may_begin([under], sums) is begins


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


@pytest.mark.parametrize(
    ("zone", "start", "end", "month_end"),
    [
        ("", "2026-11-30T00:00+00:00", "2026-12-01T00:00+00:00", "2026-12-01T00:00+00:00"),
        ("Asia/Kathmandu", "2026-11-29T18:15+00:00", "2026-11-30T18:15+00:00", "2026-11-30T18:15+00:00"),
        ("Pacific/Kiritimati", "2026-11-30T10:00+00:00", "2026-12-01T10:00+00:00", "2026-12-31T10:00+00:00"),
    ],
)
def test_days_and_months_are_those_of_the_zone(zone: str, start: str, end: str, month_end: str) -> None:
    """A period ends with the next midnight there, or the one before the next month."""
    there = find_zone(zone)
    assert there
    quarter = first_quarter(period_start("day", NOON, there), there)
    assert quarter * QUARTER_SECONDS == datetime.fromisoformat(start).timestamp()
    assert period_start("month", NOON, there).day == 1
    assert period_end("day", NOON, there) == datetime.fromisoformat(end)
    assert period_end("month", NOON, there) == datetime.fromisoformat(month_end)
    assert period_end("month", NOON + 31 * 86_400, UTC) == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["Berlin", "America", "../etc/passwd", "/etc/localtime", "Europe/Berlin\0", "é"]
)
def test_what_is_no_zone_is_none(name: str) -> None:
    """Also what is a folder, a path or no name at all."""
    assert find_zone(name) is None


@given(
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"]),
    first=st.dates(date(2024, 1, 1), date(2027, 1, 1)),
    days=st.integers(1, 400),
    at=st.floats(0, 0.999_999),
)
def test_any_zones_days_are_put_together_of_quarters_of_an_hour(
    zone: str, first: date, days: int, at: float
) -> None:
    """Whatever its clock does in them."""
    there = ZoneInfo(zone)
    begin, end = first_quarter(first, there), first_quarter(first + timedelta(days=days), there)
    quarter = begin + int(at * (end - begin))
    ahead = [ahead for since, ahead in clock_changes(begin, end, there) if since <= quarter][-1]
    for seconds in (0, QUARTER_SECONDS - 1):
        local = datetime.fromtimestamp(quarter * QUARTER_SECONDS + seconds, there).date()
        assert date(1970, 1, 1) + timedelta(days=(quarter + ahead) // DAY_QUARTERS) == local
