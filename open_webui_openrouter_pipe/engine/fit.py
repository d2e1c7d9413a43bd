"""Fits a chat into the model's window, on the way between history and dispatch.

Owns the translation of a history into a conversation and its plan, the thread in which a large chat is planned,
the order of planning and summarising, the words for the user, and what is learned and recorded when the bill comes.
What is shortened, and when, is decided in `context` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from ..conversation.budget import ContextSettings, WindowTooSmall
from ..conversation.content_cache import ContentCache
from ..conversation.conversation import Conversation, Tool
from ..conversation.media import Family, family_of
from ..conversation.tokens import TokenCounter, TokenCounts
from ..errors import ContextBudgetExceeded
from ..planning.audit import AuditRow, audit_row, rejected_row
from ..planning.overflow import ContextOverflow
from ..planning.plan import EVICTING_STRATEGIES, AvailableSummaries, CachedPrefix, ModelTerms, Plan, plan
from ..planning.simulate import BreakReason
from ..ports import Audit, Audited, Calibrations, Notice, Tokenizer
from ..responses.effects import ResponseFailed, ResponseFinished
from ..responses.items import is_function_call, is_message, is_reasoning
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from .recorder import RequestOrigin
from .summarizer import PromptCacheClock, Summarizer, SummaryBatch

LARGE_ITEMS: Final = 200
LARGE_CHARACTERS: Final = 200_000
"""From here on a chat that was never counted takes longer than the event loop may wait (about 10 ms)."""

SMALLER_SHARE: Final = 0.75
"""What of a refused request's tokens the next attempt may have, before it lands below."""

_TOLD: Final[Mapping[BreakReason, str]] = {
    "retention": "Older tool results were shortened to their key facts.",
    "clip": "Only the last messages of this chat were sent to the model.",
    "prune": "Older parts of this chat were shortened to fit the model's window.",
    "landing": "The oldest parts of this chat were left out to fit the model's window.",
}

Tell: TypeAlias = Callable[[Notice], Awaitable[None]]
"""Shows the user a line while the answer is being prepared."""


@dataclass(frozen=True, slots=True)
class PlannerServices:
    """What all fittings of a worker share: the ports, and a bounded memory of what was counted and stated."""

    audit: Audit
    calibrations: Calibrations
    vocabulary: Tokenizer
    new_id: Callable[[], str]
    warmth: PromptCacheClock
    facts: ContentCache[str] = field(default_factory=ContentCache)
    counts: dict[tuple[Family, bool], ContentCache[TokenCounts]] = field(default_factory=dict)

    async def counter(self, model_id: str) -> TokenCounter:
        """The counter for a model; families, and counts with and without a vocabulary, are kept apart."""
        encode = await self.vocabulary.encode()
        family = family_of(model_id)
        counts = self.counts.setdefault((family, encode is not None), ContentCache())
        return TokenCounter(counts, encode, family)

    def record(self, origin: RequestOrigin, row: AuditRow) -> None:
        """Write a row of the audit, beside the request."""
        self.audit.write(Audited(self.new_id(), origin.user_id, origin.chat_id, origin.message_id, row))


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """What one call is fitted to: the settings, the model, and the tools that every request carries."""

    settings: ContextSettings
    model: ModelTerms
    tools: tuple[Tool, ...] = ()
    recorded: bool = True
    """Whether the audit has a row for each request; the host's tasks are no turns of a chat."""
    teaches: bool = True
    """Whether a bill is for the input alone; plugins add to it."""


@dataclass(frozen=True, slots=True)
class _Chat:
    """A conversation, and whether planning it is for a thread of its own."""

    conversation: Conversation
    in_thread: bool


class RequestFitter:
    """Fits the requests of one call of the host."""

    def __init__(
        self,
        means: PlannerServices,
        terms: RequestTerms,
        origin: RequestOrigin,
        *,
        summarizer: Summarizer | None = None,
    ) -> None:
        """`origin` is whose request the audit says it was; without a summarizer, no summary is used or made."""
        self._means = means
        self._terms = terms
        self._origin = origin
        self._summarizer = summarizer
        self._at_hand: Mapping[Segment, Summary] = {}
        self._said: set[Notice] = set()

    async def fit(self, conversation: Conversation, tell: Tell) -> Plan:
        """Plan the request, with the summaries that it takes, and tell the user what is done to the chat.

        Raises ContextBudgetExceeded, and records it, when the request cannot be made to fit.
        """
        chat = self._read(conversation)
        try:
            fitted = await self._plan(chat, self._terms.model, asking=self._summarizer is not None)
            if self._summarizer is not None and (fitted.told or fitted.soon):
                fitted = await self._told(chat, self._summarizer, tell)
        except (ContextOverflow, WindowTooSmall) as overflow:
            self._means.record(self._origin, rejected_row(self._terms.model.id, overflow))
            raise
        for notice in notices(fitted):
            if notice not in self._said:
                self._said.add(notice)
                await tell(notice)
        return fitted

    async def _told(self, chat: _Chat, summarizer: Summarizer, tell: Tell) -> Plan:
        """Plan the request with what is at hand, and with what can be made now."""
        self._at_hand = await summarizer.available(chat.conversation)
        asking = await self._plan(chat, self._terms.model, asking=True)
        if not asking.wanted:
            if asking.starts_summarizing:
                await tell(_summarized(asking.tokens_without_new_summaries, asking, SummaryBatch()))
            return asking
        if not summarizer.may_try:
            return await self._plan(chat, self._terms.model, asking=False)
        before = asking.tokens_without_new_summaries
        await tell(Notice(f"Summarizing conversation ({before:,} tokens)...", done=False))
        made = await summarizer.make(asking.wanted, asking.live if self._is_warm else None)
        self._at_hand = {**self._at_hand, **made.summaries}
        fitted = await self._plan(chat, self._terms.model, asking=True)
        if fitted.wanted:
            fitted = await self._plan(chat, self._terms.model, asking=False)
        await tell(_summarized(before, fitted, made))
        return fitted

    def prefetch(self, sent: Plan) -> None:
        """Have what the next requests will want summarised beside the chat; `sent` is in the provider's cache."""
        if self._summarizer is not None:
            self._summarizer.prefetch(sent.soon, CachedPrefix(sent.items, sent.marks, sent.tokens))

    @property
    def _is_warm(self) -> bool:
        return self._means.warmth.is_warm(self._origin.chat_id, self._terms.model.id)

    async def refit_smaller(self, conversation: Conversation, refused: Plan) -> Plan | None:
        """Plan anew after the provider has counted more than its window; None when nothing more may go."""
        window_tokens = refused.budget.window_tokens
        if refused.tokens < window_tokens:
            self._means.calibrations.learn(refused.model, refused.tally, window_tokens)
        if self._terms.settings.context_strategy not in EVICTING_STRATEGIES:
            return None
        share = min(1.0, refused.tokens / refused.limit_tokens) * SMALLER_SHARE
        smaller = replace(
            self._terms.model, window_tokens=int(window_tokens * share), cut_tokens=window_tokens
        )
        try:
            lower = await self._plan(self._read(conversation), smaller, asking=False)
        except ContextBudgetExceeded:
            return None
        return replace(lower, budget=refused.budget) if lower.tokens < refused.tokens else None

    def record_usage(self, sent: Plan, end: ResponseFinished | ResponseFailed | None) -> None:
        """Learn from the bill and record the request; `end` is None for one that never ended."""
        row = audit_row(sent)
        if end is not None and end.usage is not None:
            row = row.with_usage(end.usage)
            self._means.warmth.note(self._origin.chat_id, sent.model)
            if self._terms.teaches and _was_read_once(end):
                self._means.calibrations.learn(sent.model, sent.tally, end.usage.input_tokens)
        if self._terms.recorded:
            self._means.record(self._origin, row)

    def _read(self, conversation: Conversation) -> _Chat:
        entries = (
            *conversation.instructions,
            *(entry for turn in conversation.turns for entry in turn.entries),
        )
        in_thread = is_large([entry.item for entry in entries])
        return _Chat(replace(conversation, tools=self._terms.tools), in_thread)

    async def _plan(self, chat: _Chat, model: ModelTerms, *, asking: bool) -> Plan:
        work = partial(
            plan,
            chat.conversation,
            self._terms.settings,
            model=replace(model, calibration=await self._means.calibrations.find(model.id)),
            counter=await self._means.counter(model.id),
            facts=self._means.facts,
            at_hand=AvailableSummaries(self._at_hand, asking),
        )
        return await asyncio.to_thread(work) if chat.in_thread else work()


def notices(sent: Plan) -> list[Notice]:
    """What the user is told: once when something begins to be shortened, not with every request after it."""
    reasons = dict.fromkeys(epoch.reason for epoch in sent.breaks)
    return [Notice(_TOLD[reason]) for reason in reasons if reason in _TOLD]


def _summarized(before_tokens: int, fitted: Plan, made: SummaryBatch) -> Notice:
    """What became of the summaries, and what they cost."""
    if made.failure and not made.summaries:
        return Notice(f"The conversation could not be summarized: {made.failure}.")
    cost = f" (${made.cost:.4f})" if made.cost else ""
    failed = f"; a part could not be: {made.failure}" if made.failure else ""
    return Notice(f"Summarized: {before_tokens:,} → {fitted.tokens:,} tokens{cost}{failed}")


def is_large(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether planning the items may take long enough to be noticed by others."""
    return len(items) > LARGE_ITEMS or sum(map(_characters, items)) > LARGE_CHARACTERS


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return sum(map(_characters, inner))


def _was_read_once(end: ResponseFinished | ResponseFailed) -> bool:
    """Whether the bill is for this input alone: the provider's own tools read it again in each of their rounds."""
    return isinstance(end, ResponseFinished) and all(
        is_message(item) or is_reasoning(item) or is_function_call(item) for item in end.items
    )
