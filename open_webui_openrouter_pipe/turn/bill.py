"""The most that a request may cost, which is held of a spending limit while it runs. Pure.

A request whose price is not known is not free: it holds what the dearest offered model would cost, so that beside it
little else runs near a limit. What it has cost is known with its bill.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from ..conversation.budget import Calibration
from ..conversation.conversation import ContentCache, cache_key, content_digest
from ..errors import PipeError, SpendingDeclined, SpendingLimitReached, StoreError
from ..money.audit import NO_PREFIX_NOTE, AuditRow, PrefixNote
from ..money.limits import (
    AccountLimit,
    Group,
    LimitState,
    Period,
    Scope,
    SpendingLimits,
    accounts_of,
    limits_of,
    nearest,
    period_end,
)
from ..money.prefix import RequestDigests, digest_request
from ..money.prices import (
    AnswerCost,
    CacheRule,
    Prices,
    RequestPieces,
    SentRequest,
    dollars,
    expected_input,
    next_input,
)
from ..planning.plan import Plan
from ..ports import Bill, Event, Ledger, Model, Notice, Request, RequestBody, RequestOrigin, Responses, Show
from ..responses.effects import ResponseFinished, Usage
from ..responses.failure import Failure, has_output
from ..responses.items import is_function_call
from ..words.lines import notice
from .admission import Away
from .fit import PlannerServices, about, was_read_once
from .memory import PrefixWatch, Watched
from .round import Round

HELD_OUTPUT_TOKENS: Final = 16_384
"""What an answer is taken to have at most where the request sets no limit."""
HELD_SHARE: Final = 1.1
"""Of the counted input: what the provider may count at most."""


@dataclass(frozen=True, slots=True)
class CostCeiling:
    """What bounds a request's cost: the models that may answer, first the one that is asked, and all offered ones.

    Of a model that the catalogue does not have, there is None. `searches` is how often the web may be searched.
    """

    models: Sequence[Model | None] = ()
    offered: Sequence[Model] = ()
    searches: int = 0

    def highest_cost(self, body: RequestBody, input_tokens: int) -> float:
        """Return the most that a request may be expected to cost: nothing cached, a long answer, every search."""
        prices, asked = self.prices, next(iter(self.models), None)
        dearest = max(prices.input or 0.0, prices.write or 0.0, prices.write_long or 0.0)
        most = (asked.max_output_tokens if asked else None) or HELD_OUTPUT_TOKENS
        output_tokens = body.get("max_output_tokens") or min(most, HELD_OUTPUT_TOKENS)
        return (
            input_tokens * HELD_SHARE * dearest
            + output_tokens * (prices.output or 0.0)
            + (prices.request or 0.0)
            + self.searches * (prices.search or 0.0)
        )

    @property
    def prices(self) -> Prices:
        """The highest prices of the models; one without a price may cost what the dearest offered one does."""
        prices = [prices_of(model) for model in self.models]
        if not all(each.are_known for each in prices):
            prices += map(prices_of, self.offered)
        return _highest(prices)


def prices_of(model: Model | None) -> Prices:
    """Return the prices of a model of the catalogue; none of one that it does not have."""
    if model is None:
        return Prices()
    return Prices(
        model.price_input,
        model.price_output,
        model.price_cache_read,
        model.price_cache_write,
        model.price_cache_write_1h,
        model.price_request,
        model.price_search,
    )


def _highest(prices: Sequence[Prices]) -> Prices:
    """The highest of each price that is known."""
    names = [field.name for field in fields(Prices)]
    known = ([price for each in prices if (price := getattr(each, name)) is not None] for name in names)
    return Prices(*(max(values, default=None) for values in known))


MAX_REMEMBERED_CHATS: Final = 2_048
ANSWER_SECONDS: Final = 120.0
"""How long a user may think about a price before the request is dropped."""
WAIT_SECONDS: Final = 30.0
"""How long a request waits near a limit for those that run to be billed."""
NOTABLE_SHARE: Final = 1.1
"""From this difference on, both prices of the next request are named."""
CHARACTERS_PER_TOKEN: Final = 4
LARGE_TOKENS: Final = 20_000
"""From here on naming a request takes longer than the event loop may wait."""

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_NAME_BYTES: Final = 8

CostLine: TypeAlias = Literal["off", "cost", "forecast"]
"""What the status line of an answer names: nothing, what it cost, or also what the next request will cost."""

NearLimit: TypeAlias = Literal["thrifty", "flex", "floor"]
"""The cheaper path near a limit: a thrifty context; besides, a cheaper service tier; or the cheapest provider."""

Ask: TypeAlias = Callable[[str, str], Awaitable[bool | None]]
"""Asks the user a question by title and text; None when no page is there to ask."""

_WHOSE: Final[Mapping[Scope, str]] = {
    "user": "limit_of_user",
    "each": "limit_of_user",
    "group": "limit_of_group",
    "all": "limit_of_all",
}
"""How a limit is named to the user, by its scope."""
_PERIODS: Final[Mapping[Period, str]] = {"day": "period_day", "month": "period_month"}


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
class LatestRequest:
    """What a chat was last billed for: by which model, at which prices, and until when that is cached."""

    model: str
    prices: Prices
    rule: CacheRule
    usage: Usage
    cached_until: float


@dataclass(frozen=True, slots=True)
class SpendingServices:
    """What all calls of a worker share. `clock` gives epoch seconds, `timer` monotonic ones.

    `groups` returns a user's groups, or raises StoreError; `new_id` names what is held.
    """

    ledger: Ledger
    planner: PlannerServices
    groups: Callable[[str], Awaitable[Sequence[Group]]] | None
    new_id: Callable[[], str]
    clock: Callable[[], float]
    timer: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    sent: ContentCache[SentRequest] = field(default_factory=lambda: ContentCache(MAX_REMEMBERED_CHATS))
    latest: ContentCache[LatestRequest] = field(default_factory=lambda: ContentCache(MAX_REMEMBERED_CHATS))
    turns: ContentCache[AnswerCost] = field(default_factory=lambda: ContentCache(MAX_REMEMBERED_CHATS))
    """By message: what its rounds have cost so far."""
    answers: ContentCache[bool] = field(default_factory=lambda: ContentCache(MAX_REMEMBERED_CHATS))
    """By message, whether the user has agreed to its price; by chat, whether the last message was declined."""
    prefixes: PrefixWatch = field(default_factory=PrefixWatch)

    async def admit(self, user_id: str, settings: SpendingSettings, *, is_admin: bool, zone: str) -> Payer:
        """Return who pays, and the limit that is nearest.

        Raises SpendingLimitReached when a limit is reached, or cannot be read or checked.
        """
        limits = settings.limits
        if settings.own_key:
            return Payer()
        if limits.unreadable and not is_admin:
            raise SpendingLimitReached(notice("limits_unreadable", part=limits.unreadable))
        groups = await self._groups_of(user_id) if limits.name_groups else ()
        under = limits_of(user_id, groups, limits, is_admin=is_admin)
        payer = Payer(accounts_of(user_id, groups, limits), under)
        state = await self.nearest(payer)
        if state and state.is_reached:
            raise SpendingLimitReached(self.limit_line("limit_reached", state, zone))
        return replace(payer, state=state)

    async def _groups_of(self, user_id: str) -> Sequence[Group]:
        """Return a user's groups. Raises SpendingLimitReached when they cannot be read: any limit may be theirs."""
        try:
            return await self.groups(user_id) if self.groups else ()
        except StoreError as error:
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error

    async def nearest(self, payer: Payer) -> LimitState | None:
        """Return the limit of which most is spent. Raises SpendingLimitReached when that cannot be read."""
        if not payer.under:
            return None
        try:
            return nearest(payer.under, await self.ledger.sums([each.account for each in payer.under]))
        except StoreError as error:
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error

    def limit_line(self, name: str, state: LimitState, zone: str) -> str:
        """Return a line about a limit: whose it is, how large, and when its period ends."""
        limit, now = state.limit, self.clock()
        return notice(
            name,
            whose=notice(_WHOSE[limit.scope], group=limit.group),
            amount=dollars(limit.dollars),
            period=notice(_PERIODS[limit.period]),
            when=time_text(period_end(limit.period, now), now, zone),
        )

    def was_declined(self, user_id: str, chat_id: str) -> bool:
        """Whether the user has declined the last message of a chat: no task is to be run for it."""
        return bool(chat_id) and self.answers.get(cache_key(user_id, chat_id)) is False


@dataclass(frozen=True, slots=True)
class Payer:
    """In which accounts a request is counted, under which limits, and the nearest of these."""

    accounts: tuple[str, ...] = ()
    under: tuple[AccountLimit, ...] = ()
    state: LimitState | None = None


class TimedResponses:
    """Responses that note when the last stream began and first brought something, and how much text came."""

    def __init__(self, responses: Responses, timer: Callable[[], float]) -> None:
        """`timer` gives monotonic seconds."""
        self._responses = responses
        self._timer = timer
        self.began: float | None = None
        self.first: float | None = None
        self.characters = 0

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        """Open a stream."""
        self.began, self.first, self.characters = self._timer(), None, 0
        async with self._responses.stream(body) as events:
            yield self._noted(events)

    async def _noted(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if self.first is None and has_output(event):
                self.first = self._timer()
            if isinstance(delta := event.get("delta"), str):
                self.characters += len(delta)
            yield event

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        """Return the response object of a request without streaming."""
        return await self._responses.create(body)

    def explain(self, failure: Failure) -> PipeError:
        """Turn a failure that arrived inside a stream into an error."""
        return self._responses.explain(failure)


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
    responses: TimedResponses
    ask: Ask | None = None
    zone: str = ""
    ceiling: CostCeiling = field(default_factory=CostCeiling)
    away: Away = nullcontext
    """Leaves the place among the running requests to others while the user is asked."""
    prefix: PrefixNote = field(default=NO_PREFIX_NOTE, init=False)
    """What was found of the beginning of the last request."""
    _digests: RequestDigests | None = field(default=None, init=False)
    _expected: Usage = field(default_factory=Usage, init=False)
    _pieces: RequestPieces = field(default_factory=lambda: RequestPieces((), ()), init=False)
    _hold: str = field(default="", init=False)
    _long: bool = field(default=False, init=False)
    """Whether the request asks for an hour in the provider's cache."""
    _sent_seconds: float = field(default=0.0, init=False)

    @property
    def _prices(self) -> Prices:
        return prices_of(self.model)

    @property
    def _rule(self) -> CacheRule:
        return CacheRule.of(self.origin.model, self._prices, long=self._long)

    @property
    def _chat(self) -> bytes:
        return cache_key(self.origin.user_id, self.origin.chat_id)

    @property
    def _chat_and_model(self) -> bytes:
        return cache_key(self.origin.user_id, self.origin.chat_id, self.origin.model)

    @property
    def _message(self) -> bytes:
        return cache_key(self.origin.user_id, self.origin.chat_id, "message", self.origin.message_id)

    async def open(self, plan: Plan, request: Request, notify: Show, *, new_prompt: bool = False) -> None:
        """Ask for what is expensive, and hold what the request may cost at most, before it is sent.

        `new_prompt` says that the system prompt is announced to be another one than the chat's last.
        Raises SpendingDeclined, and SpendingLimitReached.
        """
        self._long = request.is_kept_long
        last = self.services.sent.get(self._chat_and_model) if self.origin.chat_id else None
        self._pieces = await self._read_pieces(plan, request)
        now = self.services.clock()
        self._expected = expected_input(self._pieces, self._rule, last, now_seconds=now)
        name = partial(
            digest_request,
            request.body,
            plan,
            self._pieces,
            answer=self.origin.message_id,
            new_prompt=new_prompt,
        )
        await self._compare_prefix(name, takes_long=plan.tokens > LARGE_TOKENS or bool(plan.counts.media))
        await self._confirm()
        await self._take_hold(request.body, notify)
        self._sent_seconds = self.services.clock()
        self.responses.began = self.responses.first = None

    def close(self, plan: Plan, sent: Round) -> None:
        """Have the bill written; where none came, for what was sent and received by then."""
        services, end = self.services, sent.end
        usage = end.usage if end else None
        if (
            usage is not None
            and isinstance(end, ResponseFinished)
            and was_read_once(end)
            and self.origin.chat_id
        ):
            request = SentRequest(self._pieces, usage.input_tokens, self._sent_seconds)
            services.sent.put(self._chat_and_model, request)
            until = self._sent_seconds + self._rule.kept_seconds
            latest = LatestRequest(self.origin.model, self._prices, self._rule, usage, until)
            services.latest.put(self._chat, latest)
        if end is not None and usage is not None and self._digests:
            digests = replace(self._digests, sent_seconds=self._sent_seconds)
            read = usage.cached_tokens if was_read_once(end) else None
            services.prefixes.close(self._watched, digests, self.prefix, read, now_seconds=services.clock())
        usage = usage or self._broken_off()
        hold, self._hold = self._hold, ""
        if usage is None:
            services.ledger.release(hold, self.payer.accounts)
            return
        bill = self._bill(usage, plan)
        services.ledger.write(replace(bill, hold=hold))
        if self.origin.message_id:
            earlier = services.turns.get(self._message) or AnswerCost()
            services.turns.put(self._message, earlier.plus(self._answer_cost(usage, bill.cost)))

    async def cached_entries(self, plan: Plan, request: Request) -> int:
        """Return how many items of a request the provider is expected to have in its cache, were it sent now."""
        self._long = request.is_kept_long
        last = self.services.sent.get(self._chat_and_model) if self.origin.chat_id else None
        pieces = await self._read_pieces(plan, request)
        expected = expected_input(pieces, self._rule, last, now_seconds=self.services.clock())
        scale = expected.input_tokens / max(1.0, pieces.total_tokens)
        ends = [tokens * scale for tokens in pieces.tokens]
        return max(0, bisect_right(ends, expected.cached_tokens) - 1)

    @property
    def _watched(self) -> Watched:
        return Watched(self._chat_and_model, self.origin.model, self.origin.preset or self.origin.model)

    async def _compare_prefix(self, name: Callable[[], RequestDigests], *, takes_long: bool) -> None:
        """Compare the beginning of a request with those of the chat that this worker has sent."""
        self._digests, self.prefix = None, NO_PREFIX_NOTE
        if not self.origin.chat_id:
            return
        now_seconds, watch = self.services.clock(), self.services.prefixes
        try:
            named = await asyncio.to_thread(name) if takes_long else name()
            found = watch.compare(self._watched, named, self._rule, self._prices, now_seconds=now_seconds)
        except Exception:  # noqa: BLE001 - an answer that is not compared is worth more than none
            _log.exception("the beginning of a request is not compared")
            return
        self._digests = named
        # our own forecast knows of no parameters
        expected = 0 if found and found.position == "settings" else self._expected.cached_tokens
        self.prefix = PrefixNote(found, expected)

    def note_summary(self, row: AuditRow) -> None:
        """Have the bill of a request for a summary written."""
        if row.cost:
            bill = Bill(self.origin.user_id, self.chat_id, self.payer.accounts, row.cost)
            tokens, cached_tokens = row.billed_tokens, row.cached_tokens
            self.services.ledger.write(replace(bill, input_tokens=tokens, cached_tokens=cached_tokens))

    def last_line(self, sent: Round) -> str:
        """Return the line about what the whole answer has cost, "" as long as it goes on, or for no line."""
        items = sent.end.items if isinstance(sent.end, ResponseFinished) else ()
        cost = self.services.turns.get(self._message)
        if cost is None or any(map(is_function_call, items)):
            return ""
        self.services.turns.put(self._message, AnswerCost())
        is_silent = self.settings.cost_line == "off" or not (cost.cost or cost.usage.total_tokens)
        if is_silent:
            return ""
        parts = (dollars(cost.cost), *self._forecast_parts(sent), *_cost_parts(cost))
        return notice("cost_line", line=notice("joined", lines=parts, separator=" · "))

    def _forecast_parts(self, sent: Round) -> list[str]:
        """Say what the input of the next request will cost, now and once the cache is cold."""
        latest = self.services.latest.get(self._chat) if self.origin.chat_id else None
        if self.settings.cost_line != "forecast" or latest is None or not self._prices.are_known:
            return []
        if sent.end is None or sent.end.usage is not latest.usage:
            return []
        cached, cold = _next_costs(latest)
        if not cold:
            return []
        if cold < cached * NOTABLE_SHARE:
            return [notice("next_cost", cost=dollars(cached))]
        now = self.services.clock()
        until = time_text(datetime.fromtimestamp(latest.cached_until, UTC), now, self.zone)
        return [notice("next_cost_until", cached=dollars(cached), cold=dollars(cold), when=until)]

    async def _confirm(self) -> None:
        """Ask before a request above the threshold, once for each message. Raises SpendingDeclined."""
        threshold, services, message = self.settings.confirm_dollars, self.services, self._message
        if services.answers.get(self._chat) is False:
            services.answers.put(self._chat, value=True)
        if not threshold or self.ask is None or services.answers.get(message):
            return
        cost = self._prices.input_cost(self._expected, long=self._long)
        latest = services.latest.get(self._chat) if self.origin.chat_id else None
        question = ""
        if latest and latest.model != self.origin.model and latest.cached_until > services.clock():
            cached_cost = _next_costs(latest)[0]
            if cost - cached_cost > threshold:
                names = {"model": self.origin.model, "earlier": latest.model}
                question = notice("confirm_switch", cost=dollars(cost), cached=dollars(cached_cost), **names)
        if not question and cost > threshold:
            tokens, cached = (about(self._expected.input_tokens), about(self._expected.cached_tokens))
            name = "confirm_cost_cached" if cached else "confirm_cost"
            question = notice(name, cost=dollars(cost), tokens=tokens, cached=cached)
        if not question:
            return
        async with self.away():
            await self._require_agreement(self.ask, question, dollars(cost))
        services.answers.put(message, value=True)

    async def _require_agreement(self, ask: Ask, question: str, cost: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                agreed = await ask(notice("confirm_title", cost=cost), question)
        except TimeoutError:
            agreed = False
        self.services.answers.put(self._chat, agreed is not False)
        if agreed is False:
            raise SpendingDeclined(notice("declined", cost=cost))

    async def _take_hold(self, body: RequestBody, notify: Show) -> None:
        """Hold what the request may cost at most, as soon as that fits. Raises SpendingLimitReached."""
        if not self.payer.under:
            return
        hold = self.services.new_id()
        amount = self.ceiling.highest_cost(body, self._expected.input_tokens)
        if await self._has_hold(hold, amount):
            return
        await notify(Notice(notice("limit_waiting"), done=False))
        try:
            has_hold = await self._wait_for_hold(hold, amount)
        except SpendingLimitReached:
            await notify(Notice(notice("place_found")))
            raise
        await notify(Notice(notice("place_found")))
        if not has_hold:
            raise SpendingLimitReached(notice("limit_in_use"))

    async def _wait_for_hold(self, hold: str, amount: float) -> bool:
        left_seconds = WAIT_SECONDS
        while left_seconds > 0:
            await self.services.sleep(_POLL_SECONDS)
            left_seconds -= _POLL_SECONDS
            if await self._has_hold(hold, amount):
                return True
        return False

    async def _has_hold(self, hold: str, amount: float) -> bool:
        """Try to hold an amount. Raises SpendingLimitReached where waiting is useless."""
        services, payer = self.services, self.payer
        holding = asyncio.ensure_future(services.ledger.hold(hold, amount, payer.under))
        try:
            if await asyncio.shield(holding):
                self._hold = hold
                return True
        except StoreError as error:  # the transaction may have succeeded all the same
            services.ledger.release(hold, payer.accounts)
            raise SpendingLimitReached(notice("limits_unavailable"), detail=error.detail) from error
        except asyncio.CancelledError:  # the database goes on with what it has begun
            holding.add_done_callback(lambda _: services.ledger.release(hold, payer.accounts))
            raise
        state = await services.nearest(payer)
        if state and state.is_reached:
            raise SpendingLimitReached(services.limit_line("limit_reached", state, self.zone))
        return False

    async def _read_pieces(self, plan: Plan, request: Request) -> RequestPieces:
        """Return the request as its provider caches it, with the tokens that the provider is expected to count."""
        counter = await self.services.planner.counter(self.origin.model)
        known = await self.services.planner.calibrations.find(self.origin.model) or Calibration()
        counts = [counter.entry(entry) for entry in plan.entries]
        sizes = [count.text * known.ratio + count.media + count.sealed for count in counts]
        tool_tokens = max(0, plan.counts.tokens - sum(count.tokens for count in counts)) * known.ratio
        tools = request.body.get("tools")
        names = [content_digest(tools) if tools else b"", *(entry.digest for entry in plan.entries)]
        return RequestPieces(
            [int.from_bytes(name[:_NAME_BYTES]) for name in names],
            [*accumulate([known.constant_tokens + tool_tokens, *sizes])],
            request.breakpoints,
        )

    def _broken_off(self) -> Usage | None:
        """Return what a request without a bill has used by our own count; None when nothing has come back."""
        if self.responses.first is None:
            return None
        return replace(self._expected, output_tokens=self.responses.characters // CHARACTERS_PER_TOKEN)

    def _bill(self, usage: Usage, plan: Plan) -> Bill:
        prices = self._prices
        input_cost = prices.input_cost(usage, long=self._long)
        scale = usage.input_tokens / plan.tokens if plan.tokens else 1.0
        return Bill(
            self.origin.user_id,
            self.chat_id,
            self.payer.accounts,
            prices.cost(usage, long=self._long),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            input_cost=input_cost,
            read_cost=prices.read_cost(usage.cached_tokens),
            expected_input_cost=prices.input_cost(self._expected, long=self._long),
            saved=plan.tokens_before * scale * (prices.input or 0.0) - input_cost,
        )

    def _answer_cost(self, usage: Usage, cost: float) -> AnswerCost:
        now, began, first = self.services.timer(), self.responses.began, self.responses.first
        seconds = now - began if began is not None else 0.0
        return AnswerCost(
            usage, cost, seconds, now - first if first is not None else 0.0, usage.output_tokens
        )


def time_text(when: datetime, now_seconds: float, zone: str) -> str:
    """Write a time as a clock at the user shows it; in UTC, and marked as such, where the zone is not known."""
    try:
        local: tzinfo = ZoneInfo(zone) if zone else UTC
    except (KeyError, ValueError, OSError):
        local = UTC
    there, now = when.astimezone(local), datetime.fromtimestamp(now_seconds, local)
    clock = f"{there:%H:%M}" if local is not UTC else f"{there:%H:%M} UTC"
    if there.date() == now.date():
        return clock
    if there.date() == now.date() + timedelta(days=1):
        return notice("tomorrow_at", clock=clock)
    return notice("on_day_at", day=there.date(), clock=clock)


def _next_costs(latest: LatestRequest) -> tuple[float, float]:
    """Return what the input of a chat's next request costs as long as it is cached, and once it is not."""
    cached, cold = (next_input(latest.usage, latest.rule, is_cached=is_cached) for is_cached in (True, False))
    long = latest.rule.is_kept_long
    return latest.prices.input_cost(cached, long=long), latest.prices.input_cost(cold, long=long)


def _cost_parts(cost: AnswerCost) -> list[str]:
    """Say what an answer has used, and how long it took."""
    usage, speed = cost.usage, cost.tokens_per_second
    name = "cost_input_cached" if usage.cached_tokens else "cost_input"
    return [
        notice(name, tokens=usage.input_tokens, cached=usage.cached_tokens),
        notice("cost_output", tokens=usage.output_tokens),
        notice("cost_seconds", seconds=cost.seconds),
        *([notice("cost_speed", speed=speed)] if speed else []),
    ]
