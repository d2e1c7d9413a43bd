"""What a call costs: who pays, questions, holds under limits, bills, and the line about it.

A request whose price is not known is not free: under a limit it holds what the dearest offered model would cost, so
that beside it little else runs near that limit. What it has cost is known with its bill.
"""

from __future__ import annotations

import asyncio
import logging
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

from ..conversation.budget import MAX_OUTPUT_SHARE, smallest_known
from ..conversation.conversation import ContentCache, cache_key, item_digest
from ..errors import PipeError, SpendingDeclined, SpendingLimitReached, StoreError
from ..money.audit import Bill, Purpose, sent_bill
from ..money.limits import (
    USER,
    AccountLimit,
    Group,
    SpendingLimits,
    accounts_of,
    find_zone,
    limits_of,
    nearest,
    period_end,
)
from ..money.prefix import (
    NOTHING_ANNOUNCED,
    Announced,
    Digests,
    FoundBreak,
    LastRequest,
    digests_of,
    expected_input,
    find_break,
)
from ..money.prices import (
    MOST_PER_TOKEN,
    NO_PRICES,
    CacheRule,
    Prices,
    dollars,
    highest,
    paid,
    tool_parts,
)
from ..planning.plan import Plan
from ..ports import (
    AnswerCost,
    FindModel,
    Generations,
    Ledger,
    Model,
    Notice,
    Request,
    RequestBody,
    RequestOrigin,
    Show,
    name_of,
)
from ..responses.effects import ResponseFailed, ResponseFinished, Usage
from ..responses.items import Item
from ..responses.tools import PREFIX, SEARCH, most_tool_dollars
from ..responses.values import as_count, as_list, as_object, as_text
from ..threads import apart
from ..words.lines import notice
from .admission import Away
from .fit import PlannerServices, about
from .late_bills import LateBills
from .round import Answer

HELD_OUTPUT_TOKENS: Final = 16_384
"""The longest answer of a model that names none; and room for thinking."""
LEAST_OUTPUT_TOKENS: Final = 4_096
"""What an answer needs beside its thinking."""
OUTPUT_SHARE: Final = 0.1
"""Of the smallest limit: what an answer may cost, if that leaves enough."""
HELD_SHARE: Final = 1.1
"""Of the counted input: what the provider may count at most."""
FEE_SHARE: Final = 1.05
"""Of the list's price: what is paid where a provider's own key is used."""
TIER_SHARE: Final = 2.0
"""Of the list's price: what the dearer service tiers cost at most.

OpenRouter's list has none of them; OpenAI's has 1.7 to 2 times as much for
`priority`.
"""
MAX_REMEMBERED_CHATS: Final = 2_048
ANSWER_SECONDS: Final = 120.0
"""How long a user may think about a price before the request is dropped."""
WAIT_SECONDS: Final = 30.0
"""How long a request waits near a limit for those that run to be billed."""
NOTABLE_SHARE: Final = 1.1
"""From this difference on, both prices of the next request are named."""
CHARACTERS_PER_TOKEN: Final = 4

_POLL_SECONDS: Final = 0.5
_DEARER_TIERS: Final = {"priority", "fast", "scale", "ultrafast"}
_LENGTHS: Final = {"max_tokens", "max_completion_tokens"}
"""The catalogue's names of `max_output_tokens`."""
_WAS_READ_ONCE: Final = attrgetter("was_read_once")

log = logging.getLogger(__name__)

CostLine: TypeAlias = Literal["off", "cost", "forecast"]
"""What stands above an answer: nothing, what it has cost, or also what the next request will cost."""

NearLimit: TypeAlias = Literal["thrifty", "flex", "floor"]
"""The cheaper path near a limit: a thrifty context; besides, a cheaper service tier; or the cheapest provider."""

Ask: TypeAlias = Callable[[str, str], Awaitable[bool | None]]
"""Asks the user a question by title and text; None when no page is there to ask."""


@dataclass(frozen=True, slots=True)
class CostCeiling:
    """What bounds a request's cost: the models that may answer, first the one that is asked, and all offered ones.

    Of a model that the catalogue does not have, there is None. `searches` is how often the web may be searched.
    """

    models: Sequence[Model | None] = ()
    offered: Sequence[Model] = ()
    searches: int = 0

    def highest_cost(self, body: RequestBody, input_tokens: int, *, seconds: float) -> float:
        """Return the most that a request may cost: nothing cached, a long answer, every search.

        It is sent at `seconds` since the epoch. One without a price may cost
        what the dearest offered model does.
        """
        size = input_tokens * HELD_SHARE
        prices = highest(each.at(size, seconds) for each in self._prices())
        contents = (as_list(as_object(item).get("content")) for item in as_list(body.get("input")))
        kinds = Counter(as_text(as_object(part).get("type")) for parts in contents for part in parts)
        pictures = kinds["input_image"]
        seen_token, seen = _of_pictures(prices.image if pictures else None)
        drawn_token, drawn = _of_pictures(prices.image_output)
        given = (
            prices.input,
            prices.write,
            prices.write_long,
            prices.audio if kinds["input_audio"] else None,
            seen_token,
        )
        written = (prices.output, prices.reasoning, drawn_token)
        length = body.get("max_output_tokens") or self._longest_tokens()
        cost = (
            size * max(each or 0.0 for each in given)
            + length * max(each or 0.0 for each in written)
            + pictures * seen
            + drawn
            + (prices.request or 0.0)
            + self.searches * (prices.search or 0.0)
        )
        is_dearer = body.get("service_tier") in _DEARER_TIERS
        return cost * FEE_SHARE * (TIER_SHARE if is_dearer else 1.0) + most_tool_dollars(body)

    def output_tokens(self, reasoning: Mapping[str, Any], limit_dollars: float) -> int | None:
        """Return how long an answer may be under a limit; None for any length.

        As long as the models can write, and as the window keeps free for it;
        half of that, and so on, as long as it costs too much of the limit. It
        depends on nothing that changes within a chat: providers that take an
        effort for a share of it would have cached the chat for another one.
        """
        known = [model for model in self.models if model]
        price = highest(each.dearest() for each in self._prices()).output
        listed = [model.supported_parameters for model in known]
        if price == 0 or any(each and not each & _LENGTHS for each in listed):
            return None
        longest = most = self._longest_tokens()
        if window := smallest_known(model.context_tokens for model in known):
            most = min(most, int(window * MAX_OUTPUT_SHARE))
        thinking = as_count(reasoning.get("max_tokens")) or 0
        may_think = any(model.reasons for model in known)
        thinks = may_think and reasoning.get("effort") != "none" and not thinking
        least = HELD_OUTPUT_TOKENS if thinks else LEAST_OUTPUT_TOKENS
        may_cost = limit_dollars * OUTPUT_SHARE
        while most > least and most * (price or 0.0) > may_cost:
            most = max(least, most // 2)
        if not thinking:
            return most
        return max(most, min(longest, thinking + LEAST_OUTPUT_TOKENS))

    def _longest_tokens(self) -> int:
        sizes = [model.max_output_tokens for model in self.models if model]
        return smallest_known(sizes) or HELD_OUTPUT_TOKENS

    def _prices(self) -> list[Prices]:
        """Those of the models that may answer, or of all that are offered."""
        known = [model.prices if model else NO_PRICES for model in self.models]
        if not all(each.are_known for each in known):
            known += [model.prices for model in self.offered]
        return known


def _of_pictures(price: float | None) -> tuple[float, float]:
    """Return what a token of a picture costs, or what a whole one does."""
    price = price or 0.0
    return (price, 0.0) if price < MOST_PER_TOKEN else (0.0, price)


@dataclass(frozen=True, slots=True)
class SpendingSettings:
    """What is said and limited. Above `confirm_dollars` the user is asked, 0 for never.

    A user who pays with a key of their own is under no limit.
    """

    cost_line: CostLine = "off"
    confirm_dollars: float = 0.0
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    near_limit: NearLimit = "thrifty"
    own_key: bool = False


@dataclass(frozen=True, slots=True)
class SpendingServices:
    """What all calls of a worker share; `groups` returns a user's groups, or raises StoreError."""

    ledger: Ledger
    planner: PlannerServices
    groups: Callable[[str], Awaitable[Sequence[Group]]]
    late: LateBills
    turns: ContentCache[AnswerCost] = field(default_factory=lambda: ContentCache(MAX_REMEMBERED_CHATS))
    """By message."""

    async def admit(
        self,
        user_id: str,
        settings: SpendingSettings,
        *,
        is_admin: bool,
        zone: str,
        may_be_paid: bool = False,
    ) -> Payer:
        """Return who pays, and the limit that is nearest.

        Raises SpendingLimitReached when a limit cannot be read or checked, or is reached, unless what is asked for
        `may_be_paid` already: then its hold is refused where it is not.
        """
        limits = settings.limits
        if settings.own_key:
            return Payer()
        if not (limits.limits or limits.unreadable):
            return Payer(accounts_of(user_id, (), limits))
        try:
            groups = await self.groups(user_id) if limits.groups else ()
        except StoreError as error:  # any limit may be theirs
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error
        if not is_admin and (part := limits.unreadable_for(groups)):
            raise SpendingLimitReached(notice("limits_unreadable", part=part))
        under = limits_of(user_id, groups, limits, is_admin=is_admin)
        state = await self.nearest(under)
        if state and state.is_reached and not may_be_paid:
            raise SpendingLimitReached(self.limit_line("limit_reached", state, zone))
        return Payer(accounts_of(user_id, groups, limits), under, state)

    async def nearest(self, under: Sequence[AccountLimit]) -> AccountLimit | None:
        """Return the limit of which most is spent. Raises SpendingLimitReached when that cannot be read."""
        if not under:
            return None
        try:
            return nearest(under, await self.ledger.sums([each.account for each in under], under[0].zone))
        except StoreError as error:
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error

    def note_failure(self, error: Exception, model: str, accounts: Sequence[str]) -> None:
        """Count what a call has failed by in that of the accounts which is a user's, as only those are reported.

        A question that was declined is no failure.
        """
        kind = error.kind if isinstance(error, PipeError) else "other"
        own = tuple(each for each in accounts if each.startswith(USER))
        if own and not isinstance(error, SpendingDeclined):
            row_id = self.planner.new_id()
            self.ledger.write(Bill(id=row_id, model=model, purpose="failure", failure=kind, accounts=own))

    def limit_line(self, name: str, state: AccountLimit, zone: str) -> str:
        """Return a line about a limit: whose it is, how large, and when its period ends."""
        limit, now = state.limit, self.planner.memory.clock()
        return notice(
            name,
            whose=notice(f"limit_of_{'user' if limit.scope == 'each' else limit.scope}", group=limit.group),
            amount=dollars(limit.dollars),
            period=notice(f"period_{limit.period}"),
            when=time_text(period_end(limit.period, now, state.zone), now, zone),
        )


@dataclass(frozen=True, slots=True)
class Payer:
    """In which accounts a request is counted, under which limits, and the nearest of these."""

    accounts: tuple[str, ...] = ()
    under: tuple[AccountLimit, ...] = ()
    state: AccountLimit | None = None

    @property
    def limit_dollars(self) -> float:
        """The smallest limit; infinite without one."""
        return min((each.limit.dollars for each in self.under), default=math.inf)


@dataclass(slots=True, eq=False, repr=False)
class Spending:
    """What one call of the host spends.

    `chat_id` is the chat to which it is counted, "" for none; the chat and message of `origin` are "" in the host's
    tasks. `ask` is None where nobody can be asked, and `zone` is the user's time zone, "" where unknown.
    """

    services: SpendingServices
    settings: SpendingSettings
    payer: Payer
    origin: RequestOrigin
    chat_id: str
    model: Model | None
    ask: Ask | None = None
    zone: str = ""
    ceiling: CostCeiling = field(default_factory=CostCeiling)
    away: Away = nullcontext
    """Leaves the place among the running requests to others while the user is asked."""
    find: FindModel = lambda _: None
    generations: Generations | None = None
    purpose: Purpose = "answer"
    sent: LastRequest = field(init=False)
    """The last request that was opened, with what its input was expected to be billed as."""
    _found: FoundBreak | None = field(default=None, init=False)
    _row_id: str = field(default="", init=False)
    """The id of the bill of the last request that was opened."""
    _named: int = field(default=0, init=False)
    """How many responses had begun before the request."""
    _message: str = field(init=False)
    """The message's name among all of its user."""
    _key: bytes = field(init=False)
    """Its name among all users'."""

    def __post_init__(self) -> None:
        self._message = f"{self.origin.chat_id}\n{self.origin.message_id}"
        self._key = answer_key(self.origin)

    async def open(
        self,
        plan: Plan,
        request: Request,
        notify: Show,
        announced: Announced = NOTHING_ANNOUNCED,
    ) -> None:
        """Ask for what is expensive, and hold what the request may cost at most, before it is sent.

        Raises SpendingDeclined, and SpendingLimitReached.
        """
        memory, origin = self.services.planner.memory, self.origin
        self.sent = sent = await self._expect(plan, request, announced)
        last = memory.last_requests(origin.user_id, origin.chat_id, origin.model)
        of_preset = [each for each in last if each.preset == sent.preset]
        try:
            self._found = find_break(of_preset, sent.digests, now_seconds=sent.sent_seconds)
        except Exception:  # an answer that is not compared is worth more than none
            self._found = None
            log.exception("the beginning of a request is not compared")
        memory.declined.forget(origin.user_id, origin.chat_id)
        if self.settings.confirm_dollars and self.ask:
            await self._confirm(self.ask)
        self._row_id = self.services.planner.new_id()
        if self.payer.under:
            tokens, now_seconds = sent.usage.input_tokens, sent.sent_seconds
            amount = self.ceiling.highest_cost(request.body, tokens, seconds=now_seconds)
            await self._take_hold(self._priced(plan, sent.usage), amount, notify)
        self.sent = replace(sent, sent_seconds=memory.clock())
        self._named = len(self.generations.named) if self.generations else 0

    def close(self, plan: Plan, answer: Answer) -> None:
        """Have the bill written; where none came, for what was sent and received by then."""
        services, origin, found = self.services, self.origin, self._found
        self.sent = sent = self._answered_by(answer.served.other_model)
        usage = answer.usage
        # our own forecast knows of no parameters
        expected_tokens = 0 if found and found.position == "settings" else sent.usage.cached_tokens
        if usage is not None and origin.chat_id:
            billed = replace(sent, usage=usage, was_read_once=answer.was_read_once)
            services.planner.memory.keep(origin.user_id, origin.chat_id, billed, found, expected_tokens)
        names = self.generations.named[self._named :] if self.generations else []
        was_cut = bool(names) and answer.end is None
        if usage is None and (answer.was_stopped or answer.first_seconds is not None or was_cut):
            usage = replace(sent.usage, output_tokens=answer.characters // CHARACTERS_PER_TOKEN)
        so_far = self.cost_so_far(answer, usage)
        if origin.message_id:
            self.services.turns.put(self._key, so_far)
        for name in names if usage is None else names[:-1]:  # attempts that nothing came of
            lost = self._priced(plan, Usage())
            self._ask_later(replace(lost, id=services.planner.new_id(), generation=name), sent)
        bill = self._priced(plan, usage or Usage())
        if usage is None:
            bill = replace(bill, requests=0)
        else:
            told, total = answer.usage, so_far.last
            bill = replace(
                bill,
                cost=total.cost,
                provider_cost=total.provider_cost,
                break_position=found.position if found else "",
                break_cause=found.cause if found else "",
                lost_tokens=found.lost_tokens if found else 0,
                lost_cost=found.lost_cost if found else 0.0,
                expected_cached_tokens=expected_tokens,
                generation=names[-1] if names else "",
                estimated=told is None or (total.is_billed and not told.is_billed),
            )
        services.ledger.write(bill)
        if bill.estimated:
            self._ask_later(bill, sent)

    def _of_call(self, bill: Bill) -> Bill:
        """The bill with whose it is."""
        return replace(
            bill,
            user_id=self.origin.user_id,
            chat_id=self.chat_id,
            message_id=self.origin.message_id if self.chat_id else "",
            accounts=self.payer.accounts,
        )

    def _priced(self, plan: Plan, usage: Usage) -> Bill:
        """The bill of the last request, by the list of prices."""
        bill = self._of_call(sent_bill(plan))
        bill = replace(bill, id=self._row_id, purpose=self.purpose, created=int(self.sent.sent_seconds))
        return _with_usage(bill, self.sent, usage)

    def _ask_later(self, bill: Bill, sent: LastRequest | None = None) -> None:
        """Have what a generation was really billed written, once that is known; without `sent` by its sizes alone."""
        write = self.services.ledger.write

        def correct(usage: Usage) -> None:
            if bill.estimated or usage.is_billed:  # an attempt that has cost nothing is no request
                told = replace(_with_usage(bill, sent, usage), estimated=False)
                write(replace(told, cost=usage.cost, provider_cost=usage.provider_cost))

        if self.generations:
            self.services.late.ask(self.generations, bill.generation, correct)

    def _answered_by(self, model_id: str) -> LastRequest:
        """The request at the prices of the model that has answered it, "" for the one that was asked."""
        sent, row = self.sent, self.find(model_id) if model_id else None
        if row is None or row == self.model:
            return sent
        rule = CacheRule.of(row.id, row.prices, long=sent.rule.is_kept_long)
        return replace(sent, prices=row.prices, rule=rule)

    def spent_dollars(self) -> float:
        """Return what the answer has cost before the request that is sent next."""
        so_far = self.services.turns.get(self._key)
        return so_far.usage.cost if so_far else 0.0

    def cost_so_far(self, answer: Answer, usage: Usage | None) -> AnswerCost:
        """Return what the whole answer has cost, with a request that has used so much and ends now.

        The time in which its tools run is a part of it.
        """
        earlier = self.services.turns.get(self._key) or AnswerCost()
        if usage is None:
            return earlier
        sent, now = self._answered_by(answer.served.other_model), asyncio.get_running_loop().time()
        # a failure costs what its bill says alone; without one, what was written until then
        has_failed = isinstance(answer.end, ResponseFailed) and answer.usage
        total = paid(usage, 0.0 if has_failed else sent.cost_of(usage, sent.sent_seconds).total)
        usage = replace(usage, cost=total.openrouter, provider_cost=total.provider)
        tools = _tools_of(answer, usage) if usage.tool_cost else ()
        since = earlier.waits_since or answer.began_seconds or now
        return AnswerCost(
            earlier.usage.plus(usage),
            earlier.requests + 1,
            earlier.seconds + now - since,
            (*earlier.others, answer.served.other_model),
            usage,
            (*earlier.tools, *([(tools, usage.tool_cost)] if tools else ())),
            now if answer.has_calls else None,
        )

    async def cached_entries(self, plan: Plan, request: Request) -> int:
        """Return how many items of a request the provider is expected to have in its cache, were it sent now."""
        sent = await self._expect(plan, request)
        tokens, expected = sent.digests.tokens, sent.usage
        scale = expected.input_tokens / max(1.0, tokens[-1])
        return max(0, bisect_right([each * scale for each in tokens], expected.cached_tokens) - 1)

    async def _expect(
        self, plan: Plan, request: Request, announced: Announced = NOTHING_ANNOUNCED
    ) -> LastRequest:
        """Name a request, and forecast what its input will be billed as if it is sent now."""
        planner, origin = self.services.planner, self.origin
        prices = self.model.prices if self.model else NO_PRICES
        counter = await planner.counter(origin.model)
        known = await planner.calibrations.find(origin.model)

        def name() -> Digests:
            sizes, counted = [0.0], 0
            for entry in plan.entries:
                count = counter.entry(entry)
                sizes.append(count.text * known.ratio + count.media + count.sealed)
                counted += count.tokens
            sizes[0] = known.constant_tokens + max(0, plan.counts.tokens - counted) * known.ratio
            return digests_of(
                request.body,
                plan,
                [*accumulate(sizes)],
                breakpoints=[pieces - 1 for pieces in request.breakpoints],  # the tools are the first piece
                answer=origin.message_id,
                announced=announced,
            )

        digests = await apart(plan.items, name, found=item_digest)
        now_seconds = planner.memory.clock()
        real_id = self.model.real_id if self.model and self.model.alias_of else origin.model
        rule = CacheRule.of(real_id, prices, long=request.is_kept_long)
        last = planner.memory.last_requests(origin.user_id, origin.chat_id, origin.model)
        read_once = next(filter(_WAS_READ_ONCE, last), None)
        usage = expected_input(digests, rule, read_once, now_seconds=now_seconds)
        row_id = origin.preset or origin.model
        return LastRequest(
            digests, origin.model, row_id, prices, rule, usage, was_read_once=False, sent_seconds=now_seconds
        )

    def note_failure(self, error: Exception) -> None:
        """Count what the call has failed by."""
        self.services.note_failure(error, self.origin.model, self.payer.accounts)

    async def hold_summary(self, bill: Bill, body: RequestBody) -> Bill:
        """Name the bill of a request for a summary, and hold the most that it may cost; nothing is waited for.

        Raises SpendingLimitReached.
        """
        services, ceiling = self.services, self.ceiling
        named = replace(self._of_call(bill), id=services.planner.new_id())
        if self.payer.under:
            if bill.model != self.origin.model:
                ceiling = CostCeiling((self.find(bill.model),), ceiling.offered)
            now_seconds = services.planner.memory.clock()
            amount = ceiling.highest_cost(body, bill.input_tokens, seconds=now_seconds)
            if not await self._has_hold(named, amount):
                raise SpendingLimitReached(notice("limit_in_use"))
        return named

    def note_summary(self, bill: Bill) -> None:
        """Have what a request for a summary has cost written; one that was not sent has no id."""
        services, has_cost = self.services, bool(bill.cost or bill.provider_cost)
        named = bill if bill.id else replace(self._of_call(bill), id=services.planner.new_id())
        bill = replace(named, requests=int(has_cost))
        services.ledger.write(bill)
        if bill.estimated:
            self._ask_later(bill)

    def last_line(self, answer: Answer) -> str:
        """Return the line about what the whole answer has cost, "" as long as it goes on, or for no line."""
        cost = self.services.turns.get(self._key)
        if self.settings.cost_line == "off" or cost is None or not cost.requests or answer.has_calls:
            return ""
        names = [name_of(each, self.find) for each in dict.fromkeys(cost.others) if each]
        is_known = (latest := self._latest()) is not None and latest.usage is answer.usage
        parts = [
            dollars(cost.usage.cost, cost.usage.provider_cost),
            *([notice("joined", lines=tool_parts(cost.tools), separator=", ")] if cost.tools else []),
            *([notice("cost_answered_by", model=", ".join(names))] if names else []),
            *(self.next_cost() if is_known and self.settings.cost_line == "forecast" else []),
        ]
        return notice("cost_line", line=notice("joined", lines=tuple(parts), separator=" · "))

    def next_cost(self) -> list[str]:
        """Say what the input of the chat's next request will cost, as a worker knows it that has sent the last one."""
        if (latest := self._latest()) is None:
            return []
        cached, cold = latest.next_input_cost(is_cached=True), latest.next_input_cost(is_cached=False)
        if not (latest.prices.are_known and cold):
            return []
        now_seconds = self.services.planner.memory.clock()
        if cold < cached * NOTABLE_SHARE or latest.cached_until < now_seconds:
            return [notice("next_cost", cost=dollars(cold if latest.cached_until < now_seconds else cached))]
        until = time_text(datetime.fromtimestamp(latest.cached_until, UTC), now_seconds, self.zone)
        return [notice("next_cost_until", cached=dollars(cached), cold=dollars(cold), when=until)]

    def _latest(self) -> LastRequest | None:
        """Return what the chat was last billed for, by any model; its bill has to be for the input alone."""
        sent = self.services.planner.memory.last_requests(self.origin.user_id, self.origin.chat_id)
        return next(filter(_WAS_READ_ONCE, sent), None)

    async def begin_piece(self, cost: float | None, what: str, notify: Show) -> Bill:
        """Ask for something that is made by the piece, and hold its price, None for one that is not known.

        `what` says what is made. Returns the bill as it is estimated; `release` or `settle_piece` ends what is held.
        Raises SpendingDeclined, and SpendingLimitReached.
        """
        memory, origin, threshold = self.services.planner.memory, self.origin, self.settings.confirm_dollars
        memory.declined.forget(origin.user_id, origin.chat_id)
        is_dear = bool(threshold) and (cost is None or cost > threshold)
        if is_dear and self.ask and not memory.agreed.contains(origin.user_id, self._message):
            said = "$?" if cost is None else dollars(cost)
            await self._agree(self.ask, said, notice("confirm_piece", what=what, cost=said))
        bill = self.piece(cost or 0.0, self.services.planner.new_id(), int(memory.clock()))
        if self.payer.under:
            await self._take_hold(bill, self.payer.limit_dollars if cost is None else cost, notify)
        return bill

    def piece(self, cost: float, row_id: str, created: int) -> Bill:
        """Return the bill of a piece as it is estimated, with its id and when it was begun, in epoch seconds."""
        model, purpose = self.origin.model, self.purpose
        return self._of_call(
            Bill(id=row_id, model=model, purpose=purpose, created=created, cost=cost, estimated=True)
        )

    def settle_piece(self, bill: Bill, usage: Usage | None) -> None:
        """Have the bill of a piece written, as it is estimated where there is no usage."""
        if usage:
            told = {
                name: getattr(usage, name)
                for name in ("cost", "provider_cost", "input_tokens", "output_tokens")
            }
            bill = replace(bill, **told, estimated=False)
        self.services.ledger.write(bill)

    def note_piece(self, usage: Usage, seconds: float, *, if_stopped: str = "") -> AnswerCost:
        """Note what the answer costs with a piece of so many seconds, and return it."""
        earlier = self.services.turns.get(self._key) or AnswerCost()
        earlier = AnswerCost() if earlier.if_stopped else earlier  # that of the piece, as it was estimated
        whole = AnswerCost(
            earlier.usage.plus(usage),
            earlier.requests + 1,
            earlier.seconds + seconds,
            last=usage,
            if_stopped=if_stopped,
        )
        if self.origin.message_id:
            self.services.turns.put(self._key, whole)
        return whole

    async def _confirm(self, ask: Ask) -> None:
        """Ask before a request above the threshold, once for each message. Raises SpendingDeclined."""
        memory, origin, threshold = self.services.planner.memory, self.origin, self.settings.confirm_dollars
        cost, question, latest = self.sent.input_cost, "", self._latest()
        if latest and latest.model != origin.model and latest.cached_until > self.sent.sent_seconds:
            cached_cost = latest.next_input_cost(is_cached=True)
            if cost - cached_cost > threshold:
                names = {"model": origin.model, "earlier": latest.model}
                question = notice("confirm_switch", cost=dollars(cost), cached=dollars(cached_cost), **names)
        if not question and cost > threshold:
            tokens, cached = about(self.sent.usage.input_tokens), about(self.sent.usage.cached_tokens)
            question = notice("confirm_cost", cost=dollars(cost), tokens=tokens, cached=cached)
        if question and not memory.agreed.contains(origin.user_id, self._message):
            await self._agree(ask, dollars(cost), question)

    async def _agree(self, ask: Ask, cost: str, question: str) -> None:
        """Ask a question about a cost. Raises SpendingDeclined."""
        memory, origin = self.services.planner.memory, self.origin
        async with self.away():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    agreed = await ask(notice("confirm_title", cost=cost), question)
            except TimeoutError:
                agreed = False
            if agreed is False:
                memory.declined.add(origin.user_id, [origin.chat_id])
                raise SpendingDeclined(notice("declined", cost=cost))
        memory.agreed.add(origin.user_id, [self._message])

    async def _take_hold(self, bill: Bill, amount: float, notify: Show) -> None:
        """Hold what the request may cost at most, as soon as that fits. Raises SpendingLimitReached."""
        if await self._has_hold(bill, amount):
            return
        await notify(Notice(notice("limit_waiting"), done=False))
        has_hold, left_seconds = False, WAIT_SECONDS
        try:
            while not has_hold and left_seconds > 0:
                await asyncio.sleep(_POLL_SECONDS)
                left_seconds -= _POLL_SECONDS
                has_hold = await self._has_hold(bill, amount)
        except SpendingLimitReached:
            await notify(Notice(notice("place_found")))
            raise
        try:
            await notify(Notice(notice("place_found")))
        except asyncio.CancelledError:  # what nobody ends would be renewed as long as the worker lives
            self.services.ledger.release(bill)
            raise
        if not has_hold:
            raise SpendingLimitReached(notice("limit_in_use"))

    async def _has_hold(self, bill: Bill, amount: float) -> bool:
        """Try to hold an amount. Raises SpendingLimitReached where waiting is useless."""
        services, payer = self.services, self.payer
        holding = asyncio.ensure_future(services.ledger.hold(bill, amount, payer.under))
        try:
            if await asyncio.shield(holding):
                return True
        except StoreError as error:  # the transaction may have succeeded all the same
            services.ledger.release(bill)
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error
        except asyncio.CancelledError:  # the database goes on with what it has begun
            holding.add_done_callback(lambda _: services.ledger.release(bill))
            raise
        state = await services.nearest(payer.under)
        if state and state.is_reached:
            raise SpendingLimitReached(services.limit_line("limit_reached", state, self.zone))
        return False


def _with_usage(bill: Bill, sent: LastRequest | None, usage: Usage) -> Bill:
    """Return the bill of a request of which so much was used, by the list of prices; without `sent` sizes alone."""
    bill = replace(
        bill,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )
    if sent is None:
        return bill
    cost = sent.cost_of(usage, sent.sent_seconds)
    scale = usage.input_tokens / bill.tokens_sent if bill.tokens_sent else 1.0
    whole = Usage(round(bill.tokens_before * scale))
    return replace(
        bill,
        cost=cost.total,
        input_cost=cost.input,
        read_cost=cost.read,
        saved=sent.cost_of(whole, sent.sent_seconds).input - cost.input,
    )


def _tools_of(answer: Answer, usage: Usage) -> tuple[str, ...]:
    """The names of OpenRouter's tools that a response has called; a plugin searches without an item of its own."""
    items: tuple[Item, ...] = answer.end.items if isinstance(answer.end, ResponseFinished) else ()
    kinds = [SEARCH.type if item["type"] == "web_search_call" else item["type"] for item in items]
    names = dict.fromkeys(kind.removeprefix(PREFIX) for kind in kinds if kind.startswith(PREFIX))
    return tuple(names or ([SEARCH.name] if usage.searches else ()))


def answer_key(origin: RequestOrigin) -> bytes:
    """Return the name of a message among those of all users."""
    return cache_key(origin.user_id, f"{origin.chat_id}\n{origin.message_id}")


def time_text(when: datetime, now_seconds: float, zone: str) -> str:
    """Write a time as a clock at the user shows it; in UTC, and marked as such, where the zone is not known."""
    local = find_zone(zone) or UTC
    there, now = when.astimezone(local), datetime.fromtimestamp(now_seconds, local)
    clock = f"{there:%H:%M}" if local is not UTC else f"{there:%H:%M} UTC"
    if there.date() == now.date():
        return clock
    return notice("on_day_at", day=there.date(), clock=clock)
