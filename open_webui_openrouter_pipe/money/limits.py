"""Spending limits: what the valve says, which limits a user is under, and when one is reached. Pure.

The valve's text is a list, separated by semicolons or lines, such as

    user: 2/day 20/month; each of Students: 0.5/day; group Students: 20/month; all: 100/month

Amounts are US dollars. `user` holds for every user alone; `each of GROUP` for every member of a group alone, and takes
the place of `user` there, for its own period; `group GROUP` for what its members spend together; `all` for what
everybody spends together. Days and months begin at midnight in a time zone, UTC where none is set.

What is spent is counted by quarters of an hour since 1970, as all zones differ from UTC by whole ones: any zone's days
can be put together of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from operator import attrgetter
from typing import Final, Literal
from zoneinfo import ZoneInfo

Scope = Literal["user", "each", "group", "all"]
Period = Literal["day", "month"]
Counts = Literal["both", "openrouter"]
"""What a limit counts: what OpenRouter is paid, or also what providers are."""

EVERYBODY: Final = "all"
_ZONE_CHARACTERS: Final = 64
"""More than any name of the IANA's has."""
USER: Final = "user:"
"""What the account of a user begins with; their id follows."""
NEAR_SHARE: Final = 0.8
"""From this share of a limit on, the cheaper path is taken."""
QUARTER_SECONDS: Final = 15 * 60
DAY_QUARTERS: Final = 96
EPOCH: Final = date(1970, 1, 1)
_NAMED: Final[tuple[tuple[str, Scope], ...]] = (("each of ", "each"), ("group ", "group"))
_AMOUNT: Final = re.compile(
    r"\$?(?<![\d.])(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})\s{0,9}(?:/|\bper\b|\ba\b)\s{0,9}(day|month)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Group:
    """One of the host's groups."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Person:
    """One of the host's users, with their groups."""

    name: str
    is_admin: bool = False
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """So many dollars in a period, for a scope; `group` is the name of one, "" in the other scopes."""

    scope: Scope
    group: str
    period: Period
    dollars: float


@dataclass(frozen=True, slots=True)
class UnreadableLimit:
    """A part of the valve that cannot be read; `group` is whose members it concerns, "" where that may be anybody."""

    text: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """The limits of a valve, the parts of it that cannot be read, and where their days begin."""

    limits: tuple[Limit, ...] = ()
    unreadable: tuple[UnreadableLimit, ...] = ()
    counts: Counts = "both"
    zone: tzinfo = UTC

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of groups; without any it does not matter who is in which."""
        named = [each.group for each in self.limits] + [each.group for each in self.unreadable]
        return tuple(dict.fromkeys(filter(None, named)))

    def unreadable_for(self, groups: Sequence[Group]) -> str:
        """Return the first unreadable part that may concern a member of these groups, "" for none."""
        names = {"", *(group.name for group in groups)}
        return next((each.text for each in self.unreadable if each.group in names), "")


@dataclass(frozen=True, slots=True)
class AccountLimit:
    """A limit that somebody is under, the account whose spending it limits, and what was spent of it."""

    limit: Limit
    account: str
    used: float = 0.0
    counts: Counts = "both"
    zone: tzinfo = UTC

    @property
    def share(self) -> float:
        """Which share of it is spent; a limit of nothing is always reached."""
        return self.used / self.limit.dollars if self.limit.dollars else math.inf

    @property
    def is_reached(self) -> bool:
        """Whether nothing more may be sent."""
        return self.share >= 1

    @property
    def is_near(self) -> bool:
        """Whether the cheaper path is to be taken."""
        return self.share >= NEAR_SHARE


def read_limits(text: str) -> SpendingLimits:
    """Read the valve."""
    found, unreadable = list[Limit](), list[UnreadableLimit]()
    for part in filter(None, map(str.strip, re.split(r"[;\n]", text))):
        limits = _read_part(part)
        if isinstance(limits, UnreadableLimit):
            unreadable.append(limits)
        else:
            found += limits
    return SpendingLimits(tuple(found), tuple(unreadable))


def _read_part(part: str) -> list[Limit] | UnreadableLimit:
    """Read `SCOPE: AMOUNT/PERIOD ...`; none of it when any of it cannot be read."""
    name, colon, amounts = part.rpartition(":")
    scope, group = _read_scope(" ".join(name.split()))
    rest = _AMOUNT.sub("", amounts).replace(",", "").strip()
    limits = [
        Limit(scope, group, "day" if match[2].lower() == "day" else "month", float(match[1]))
        for match in _AMOUNT.finditer(amounts)
        if scope
    ]
    return limits if colon and limits and not rest else UnreadableLimit(part, group if colon else "")


def _read_scope(name: str) -> tuple[Scope | None, str]:
    match name.lower():
        case "user":
            return "user", ""
        case "all":
            return "all", ""
    for beginning, scope in _NAMED:
        if name.lower().startswith(beginning) and (group := name[len(beginning) :].strip()):
            return scope, group
    return None, ""


def accounts_of(user_id: str, groups: Sequence[Group], limits: SpendingLimits) -> tuple[str, ...]:
    """Return the accounts that a user's spending is counted in: theirs, everybody's, and of groups with a limit."""
    limited = [limit.group for limit in limits.limits if limit.scope == "group"]
    named = {f"group:{group.id}" for group in groups if group.name in limited}
    return (f"{USER}{user_id}", *sorted(named), EVERYBODY)


def limits_of(
    user_id: str, groups: Sequence[Group], limits: SpendingLimits, *, is_admin: bool
) -> tuple[AccountLimit, ...]:
    """Return what a user is under. An administrator, who could change the limits, is only under those of all."""
    names, found = {group.name for group in groups}, list[tuple[Limit, str]]()
    own_periods = {limit.period for limit in limits.limits if limit.scope == "each" and limit.group in names}
    for limit in limits.limits:
        if limit.scope == "all":
            found.append((limit, EVERYBODY))
        elif is_admin:
            continue
        elif limit.scope == "group":
            found += [(limit, f"group:{group.id}") for group in groups if group.name == limit.group]
        elif (limit.group in names) if limit.scope == "each" else (limit.period not in own_periods):
            found.append((limit, f"{USER}{user_id}"))
    counts, zone = limits.counts, limits.zone
    return tuple(AccountLimit(limit, account, counts=counts, zone=zone) for limit, account in found)


@dataclass(frozen=True, slots=True)
class AccountSums:
    """What an account has spent, and the most that its running requests may cost.

    In dollars, today and this month. `provider_day` and `provider_month` are
    what providers were paid besides, whose keys are in the OpenRouter account.
    """

    day: float = 0.0
    month: float = 0.0
    held: float = 0.0
    provider_day: float = 0.0
    provider_month: float = 0.0

    def used(self, under: AccountLimit) -> float:
        """Return what was spent in the period of a limit, as far as it counts."""
        own, provider = self.month, self.provider_month
        if under.limit.period == "day":
            own, provider = self.day, self.provider_day
        return own + provider if under.counts == "both" else own


def nearest(under: Iterable[AccountLimit], sums: Mapping[str, AccountSums]) -> AccountLimit | None:
    """Return the limit of which the largest share is spent, None without limits."""
    known = [replace(each, used=sums.get(each.account, AccountSums()).used(each)) for each in under]
    return max(known, key=attrgetter("share"), default=None)


def may_begin(under: Iterable[AccountLimit], sums: Mapping[str, AccountSums]) -> bool:
    """Return whether a request may begin, so that no limit is exceeded by more than that request.

    All that runs besides it must fit below the limits at its highest price, or nothing runs.
    """
    for each in under:
        account = sums.get(each.account, AccountSums())
        used = account.used(each)
        if used >= each.limit.dollars or (account.held and used + account.held >= each.limit.dollars):
            return False
    return True


def find_zone(name: str) -> tzinfo | None:
    """Return the time zone of a name of the IANA's, UTC for "", and None where there is none."""
    if len(name) > _ZONE_CHARACTERS:  # of many slashes Python makes many folders
        return None
    try:
        return UTC if name in {"", "UTC"} else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def period_start(period: Period, seconds: float, zone: tzinfo) -> date:
    """Return the first day of the period of an epoch second."""
    today = datetime.fromtimestamp(seconds, zone).date()
    return today if period == "day" else today.replace(day=1)


def period_end(period: Period, seconds: float, zone: tzinfo) -> datetime:
    """Return when the period of an epoch second ends: the next midnight, or that before the next month."""
    start = period_start(period, seconds, zone)
    end = start + timedelta(days=1) if period == "day" else next_month(start)
    return datetime(end.year, end.month, end.day, tzinfo=zone)


def next_month(day: date) -> date:
    """Return the first day of the month after."""
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1)


def first_quarter(day: date, zone: tzinfo) -> int:
    """Return with which quarter of an hour since 1970 a day begins."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) // QUARTER_SECONDS


def clock_changes(first: int, end: int, zone: tzinfo) -> list[tuple[int, int]]:
    """Return by how many quarters of an hour local time is ahead of UTC, from which one on.

    Begins with the quarter `first`, and has what comes before `end`, if no clock changes twice within 24 hours.
    """

    def ahead(quarter: int) -> int:
        offset = datetime.fromtimestamp(quarter * QUARTER_SECONDS, zone).utcoffset() or timedelta()
        return int(offset.total_seconds()) // QUARTER_SECONDS

    found = [(first, ahead(first))]
    for day in range(first, end, DAY_QUARTERS):
        if ahead(day + DAY_QUARTERS) != found[-1][1]:
            change = next(at for at in range(day, day + DAY_QUARTERS + 1) if ahead(at) != found[-1][1])
            found.append((change, ahead(change)))
    return found
