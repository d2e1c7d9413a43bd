"""What `/spending` reads: the ledger, the host's users, and how far their limits are spent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ..context.spending import SpendingReport, days_of, report_spending
from ..money.limits import USER, AccountLimit, AccountSums, Person, SpendingLimits, limits_of
from .bill import SpendingServices

MAX_LIMITS: Final = 100
"""Those of which most is spent."""


@dataclass(frozen=True, slots=True)
class SpendingReader:
    """Reads what one user may know: their own spending, or that of all users.

    `people` returns all users by id, or raises StoreError.
    """

    services: SpendingServices
    limits: SpendingLimits
    people: Callable[[], Awaitable[Mapping[str, Person]]]
    user_id: str
    is_admin: bool

    async def read(self, period: str) -> SpendingReport:
        """Return what was spent in a month, or in so many days. Raises StoreError."""
        ledger, zone = self.services.ledger, self.limits.zone
        today = datetime.fromtimestamp(self.services.planner.memory.clock(), zone).date()
        days = days_of(period, today)
        found = await ledger.usage(days, zone, "" if self.is_admin else f"{USER}{self.user_id}")
        people = await self.people() if self.is_admin else await self._reader()
        under: Sequence[tuple[str, AccountLimit]] = ()
        if self.limits.limits and days[1] == today:
            under = await asyncio.to_thread(self._under, people)
        # of all users, one by one, the report has the sums
        read = {each.account for _, each in under if not (self.is_admin and each.account.startswith(USER))}
        sums = await ledger.sums(sorted(read), zone) if read else {}

        def report() -> SpendingReport:
            of_users = {
                row.account: AccountSums(
                    row.day_cost, row.month_cost, 0.0, row.provider_day, row.provider_month
                )
                for row in found
                if row.by == "account"
            }
            return report_spending(
                found,
                people,
                days=days,
                zone=str(zone),
                of_all=self.is_admin,
                limits=_spent(under, {**of_users, **sums}),
            )

        return await asyncio.to_thread(report)

    async def _reader(self) -> Mapping[str, Person]:
        groups = await self.services.groups(self.user_id) if self.limits.groups else ()
        return {self.user_id: Person("", groups=tuple(groups))}

    def _under(self, people: Mapping[str, Person]) -> Sequence[tuple[str, AccountLimit]]:
        """Return the limits of all these people, each with the name of whose it is alone, once."""
        found = {
            (each.limit, each.account): (person.name if each.account.startswith(USER) else "", each)
            for user_id, person in people.items()
            for each in limits_of(user_id, person.groups, self.limits, is_admin=person.is_admin)
        }
        return [*found.values()]


def _spent(
    under: Sequence[tuple[str, AccountLimit]], sums: Mapping[str, AccountSums]
) -> Sequence[tuple[str, AccountLimit]]:
    """Return how far limits are spent; of many, those of single users only where they are near."""
    known = [
        (name, replace(each, used=sums.get(each.account, AccountSums()).used(each))) for name, each in under
    ]
    shown = [(name, each) for name, each in known if not name or each.is_near]
    return sorted(shown, key=lambda each: -each[1].share)[:MAX_LIMITS]
