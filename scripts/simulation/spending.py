"""Whether spending limits hold in a world: what they are, and what was spent of them, by means of its own.

The valve is read by patterns here, and what was spent is added up of the rows that the laws have seen. Nothing is
judged about midnight, when the clocks of workers may be on different days.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scripts.faults.audit import MOST_ROUNDING, SUMS
from scripts.simulation.host import CHANNEL, ZONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scripts.simulation.host import Host, Shown
    from scripts.simulation.services import Exchange, Upstream

PART = re.compile(r"(?:(each of|group) )?(\w+): ([^;]+)")
AMOUNT = re.compile(r"([\d.]+)/(day|month)")
SAID = re.compile(
    r"((?:Your|The) spending limit[\w ]*? of \$[\d.,]+ a \w+) is (used up|nearly used up), until ([^.:]+:\d\d(?: UTC)?)"
)
REFUSED = re.compile(r" is used up, until |is in use by other requests")
"""What an answer fails by at a limit."""
NEAR_SHARE = 0.8
QUARTER_SECONDS = 900
SKEW_SECONDS = 3_700.0
"""More than any worker's clock is off."""
HELD_SECONDS = 200.0
"""For so long what a killed worker has held is in the way of others."""


@dataclass(frozen=True, slots=True)
class Limit:
    """So many dollars in a "day" or "month" for an account: a user's id, a group's name, or "all"."""

    account: str
    whose: str
    dollars: float
    period: str

    def __str__(self) -> str:
        whole, _, part = f"{self.dollars:.4f}".rstrip("0").partition(".")
        return f"{self.whose} of ${whole}.{part:0<2} a {self.period}"


class Spending:
    """What the users of a host have spent; asked before and after a moment's rows were added.

    `judged` counts how often.
    """

    def __init__(self, host: Host, upstream: Upstream, judged: Counter[str]) -> None:
        self._host, self._upstream, self._judged = host, upstream, judged
        self._rows: dict[str, tuple[tuple[str, ...], int, float]] = {}
        self._sums: Counter[tuple[str, int]] = Counter()
        self._since = 0.0
        """When the moment has begun that is judged, in epoch seconds."""
        self._told: set[tuple[str, str, datetime]] = set()
        """Whom, of which limit, and until when: that it is nearly used up is said once."""

    def add(self, row: str, user: str, created: int, dollars: float) -> None:
        """Add a row, or what it says in the place of what it has said before."""
        named = (name for name, users in self._host.groups.items() if user in users and self._limits(name))
        accounts, quarter, before = self._rows.get(
            row, ((user, "all", *named), created // QUARTER_SECONDS, 0.0)
        )
        self._rows[row] = accounts, quarter, dollars
        for account in accounts:
            self._sums[account, quarter] += dollars - before  # type: ignore[assignment]

    @property
    def has_limits(self) -> bool:
        """Whether anybody's chats may be shortened for a time, because they are near a limit."""
        return bool(self._host.valves.get("SPENDING_LIMITS"))

    def limits_of(self, user: str) -> list[Limit]:
        """What a user is under; an administrator under the limits of all alone."""
        found = self._limits("all")
        if not self._host.users[user].is_admin:
            groups = [name for name, users in self._host.groups.items() if user in users]
            found += [limit for name in groups for limit in self._limits(name)]
            each = [limit for name in groups for limit in self._limits(name, "each of", user)]
            periods = {limit.period for limit in each}
            found += [
                limit for limit in self._limits("user", account=user) if limit.period not in periods
            ] + each
        return found

    def _limits(self, name: str, scope: str = "", account: str = "") -> list[Limit]:
        scope = scope or ("" if name in {"user", "all"} else "group")
        whose = "The spending limit of all users" if name == "all" else "Your spending limit"
        whose = f"The spending limit of the group {name}" if scope == "group" else whose
        return [
            Limit(account or name, whose, float(dollars), period)
            for kind, part, amounts in PART.findall(self._host.valves.get("SPENDING_LIMITS", ""))
            if (kind, part) == (scope, name)
            for dollars, period in AMOUNT.findall(amounts)
        ]

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self._host.valves.get("TIME_ZONE", "UTC"))

    def _bounds(self, period: str, seconds: float) -> tuple[datetime, datetime]:
        """The first and the last midnight of the period of a time."""
        begin = datetime.fromtimestamp(seconds, self._zone).replace(hour=0, minute=0, second=0, microsecond=0)
        if period == "day":
            return begin, _midnight(begin + timedelta(days=1))
        begin = begin.replace(day=1)
        return begin, _midnight((begin + timedelta(days=32)).replace(day=1))

    def spent(self, limit: Limit, seconds: float) -> float:
        """What was spent in the limit's period of a time, by the rows that were added."""
        first, last = (each.timestamp() // QUARTER_SECONDS for each in self._bounds(limit.period, seconds))
        return sum(
            dollars
            for (account, quarter), dollars in self._sums.items()
            if account == limit.account and first <= quarter < last
        )

    def _is_sure(self, seconds: float) -> bool:
        """Whether it is the same day by all clocks."""
        first, last = (each.timestamp() for each in self._bounds("day", seconds))
        return first + SKEW_SECONDS < seconds < last - SKEW_SECONDS

    def of_groups(self, query: Callable[[str], Iterable[Any]]) -> Iterator[str]:
        """Which sums of groups are not those of the rows that were written while they had a limit."""
        there = dict(query(SUMS["usage"]))
        for name in self._host.groups:
            spent = sum(dollars for (account, _), dollars in self._sums.items() if account == name)
            stored = there.get(f"group:{name}", 0.0)
            if abs(spent - stored) > MOST_ROUNDING:
                yield f"usage of the group {name}: ${stored:.6f}, and its rows ${spent:.6f}"

    # --- laws

    def before(self, now: float, exchanges: Iterable[Exchange], answers: Sequence[Shown]) -> Iterator[str]:
        """What does not hold by what was spent before the moment: requests, and what had to be said."""
        for shown in answers:
            self._told.update(self._tellings(shown, now))
        exchanges = [*exchanges]
        if self.has_limits and self._is_one_day(exchanges, now):
            yield from self._of_requests(exchanges)
            for shown in answers:
                if shown.ended == "whole" and not shown.messages[-1].startswith("/"):
                    yield from self._of_silence(shown, now)

    def _is_one_day(self, exchanges: Iterable[Exchange], now: float) -> bool:
        """Whether the moment began on the day on which it ends."""
        sent = [each.record.received_at for each in exchanges if each.record]
        begin = min((seconds for seconds in sent if seconds >= self._since), default=now)
        is_sure = self._is_sure(begin) and self._is_sure(now)
        return is_sure and self._bounds("day", begin) == self._bounds("day", now)

    def _of_requests(self, exchanges: Iterable[Exchange]) -> Iterator[str]:
        """No request is sent once a limit is reached by those that were sent before it, whichever arrives first."""
        known = Counter[str]()
        for exchange in exchanges:
            record = exchange.record
            if not (exchange.call and record and record.path == "/responses"):
                continue
            if (seconds := record.received_at) < self._since:
                continue
            for limit in self.limits_of(exchange.call.user_id):
                self._judged["limit"] += 1
                spent = self.spent(limit, seconds) + known[limit.account]
                if spent > limit.dollars + MOST_ROUNDING:
                    yield f"limit: {exchange.call} is sent, and ${spent:.4f} of {limit} were spent"
            if not self._upstream.has_other_prices and not _is_unsure(exchange):
                self._count(known, exchange)

    def _count(self, known: Counter[str], exchange: Exchange) -> None:
        """Add what a request has cost to the accounts of its user."""
        assert exchange.call
        bill = self._upstream.service.bills.get(exchange.generation)
        if bill:
            for account in {limit.account for limit in self.limits_of(exchange.call.user_id)} | {"all"}:
                known[account] += bill["total_cost"] + (bill["upstream_inference_cost"] or 0)

    def _of_silence(self, shown: Shown, now: float) -> Iterator[str]:
        """Who is at a limit is refused, and who is near one is told so."""
        limits = self.limits_of(shown.call.user_id)
        shares = {limit: self.spent(limit, now) / limit.dollars for limit in limits}
        if shown.error or not shares:
            return
        nearest = max(shares, key=lambda limit: shares[limit])
        if shares[nearest] >= 1 + MOST_ROUNDING:
            yield f"limit: {shown.call} is answered, and {nearest} is used up"
            return
        telling = shown.call.user_id, str(nearest), self._bounds(nearest.period, now)[1]
        is_told = not _has_page(shown) or telling in self._told
        if shares[nearest] >= NEAR_SHARE + MOST_ROUNDING and not is_told:
            yield f"limit: {shown.call} is not told that {shares[nearest]:.0%} of {nearest} are spent"

    def _tellings(self, shown: Shown, now: float) -> Iterator[tuple[str, str, datetime]]:
        """What an answer says is nearly used up, until which end of its period."""
        limits = {str(limit): limit for limit in self.limits_of(shown.call.user_id)}
        for name, how, until in SAID.findall("\n".join(shown.lines)):
            if how == "nearly used up" and name in limits:
                for end in self._ends(shown, limits[name], until, now):
                    yield shown.call.user_id, name, end

    def _ends(self, shown: Shown, limit: Limit, until: str, now: float) -> set[datetime]:
        """Which ends of its period an answer may name so, by the clock of any worker since the moment has begun."""
        times = (self._since, now - SKEW_SECONDS, now, now + SKEW_SECONDS)
        ends = [(seconds, self._bounds(limit.period, seconds)[1]) for seconds in times]
        has_page = _has_page(shown)
        return {end for seconds, end in ends if until == _clock_text(end, seconds, has_page=has_page)}

    def after(
        self, now: float, exchanges: Sequence[Exchange], answers: Sequence[Shown], last_kill: float
    ) -> Iterator[str]:
        """What does not hold by what was spent after the moment: what was said of limits."""
        for shown in answers if self._is_one_day(exchanges, now) else ():
            limits = {str(limit): limit for limit in self.limits_of(shown.call.user_id)}
            unsure = any(map(_is_unsure, exchanges))
            for line in (shown.error, *shown.lines):
                for name, how, until in SAID.findall(line):
                    yield from self._of_line(shown, limits.get(name), (name, how, until), now, unsure=unsure)
            is_alone = not exchanges and now - last_kill > HELD_SECONDS
            if "is in use by other requests" in shown.error and is_alone:
                yield f"limit: {shown.call} waits for others, and there are none"
        self._since = now

    def _of_line(
        self, shown: Shown, limit: Limit | None, said: tuple[str, str, str], now: float, *, unsure: bool
    ) -> Iterator[str]:
        name, how, until = said
        self._judged["limit"] += 1
        if limit is None:
            yield f"limit: {shown.call} is told of {name!r}, which is none of its user's"
            return
        share = 1.0 if how == "used up" else NEAR_SHARE
        spent = self.spent(limit, now)
        if spent < share * limit.dollars - MOST_ROUNDING and not unsure:
            yield f"limit: {shown.call} is told that {name} is {how}, of which ${spent:.4f} were spent"
        end = self._bounds(limit.period, now)[1]
        if end not in self._ends(shown, limit, until, now):
            expected = _clock_text(end, now, has_page=_has_page(shown))
            yield f"limit: {shown.call} is told that {name} is {how} until {until}, which is {expected}"


def _has_page(shown: Shown) -> bool:
    """Whether it is shown with lines and in its user's time; a program and a channel know of neither."""
    return bool(shown.call.message_id) and not shown.call.chat_id.startswith(CHANNEL)


def _midnight(day: datetime) -> datetime:
    """The midnight with which a day begins, whatever its clocks do."""
    return datetime(day.year, day.month, day.day, tzinfo=day.tzinfo)


def _clock_text(when: datetime, now: float, *, has_page: bool) -> str:
    """A time as its user reads it; a program has no time zone."""
    zone = ZoneInfo(ZONE if has_page else "UTC")
    there, clock = when.astimezone(zone), f"{when.astimezone(zone):%H:%M}{'' if has_page else ' UTC'}"
    is_today = there.date() == datetime.fromtimestamp(now, zone).date()
    return clock if is_today else f"{there.day} {there:%B} at {clock}"


def _is_unsure(exchange: Exchange) -> bool:
    """Whether it may have been counted otherwise for some time than it was billed in the end."""
    record: Any = exchange.record
    return bool(record) and (record.usage is None or record.disconnected or bool(exchange.faults))
