"""Fits a chat into the model's window: plans, summarizes, learns, records, and shows the user what is done.

What is shortened, and when, is decided in `planning` alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Final, TypeVar

from ..conversation.budget import MOST_TAUGHT, ContextOverflow, ContextSettings, WindowTooSmall
from ..conversation.conversation import ContentCache, Conversation, Tool
from ..conversation.media import Family, family_of, holds_pdf
from ..conversation.tokens import TokenCounter, TokenCounts
from ..errors import ContextBudgetExceeded, ContextTooLong
from ..money.audit import Bill, rejected_bill
from ..money.prices import Paid, dollars
from ..planning.draft import EVICTING_STRATEGIES
from ..planning.plan import CachedPrefix, Plan, Reduction, ReductionKind
from ..planning.planner import (
    NO_SUMMARIES,
    AvailableSummaries,
    ModelTerms,
    PlanCaches,
    may_be_shortened,
    plan,
)
from ..ports import Calibrations, Encode, Notice, RequestOrigin, Show
from ..threads import LARGE_CHARACTERS, MEMBER_CHARACTERS, apart
from ..words.lines import notice
from .memory import Memory
from .round import Answer
from .summaries import Summarizer, SummaryBatch

LARGE_ITEMS: Final = LARGE_CHARACTERS // MEMBER_CHARACTERS
"""So many are large, whatever they hold."""

NOTABLE_TOOL_TOKENS: Final = 2_000
"""From here on an administrator is told what the host's built-in tools take."""
SMALLER_SHARE: Final = 0.75
"""Of a rejected request's tokens: what the next attempt may have, before it is shortened to well below that."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PlannerServices:
    """What all fitters of a worker share: the ports, and bounded caches of what was counted and stated.

    `write` has a row of the audit written; it never waits or raises. `tokenizer` loads what this machine has to turn
    text into tokens, None where it has nothing.
    """

    write: Callable[[Bill], None]
    calibrations: Calibrations
    tokenizer: Callable[[], Awaitable[Encode | None]]
    new_id: Callable[[], str]
    memory: Memory
    caches: PlanCaches = field(default_factory=PlanCaches)
    counts: dict[tuple[Family, bool], ContentCache[TokenCounts]] = field(default_factory=dict)
    named_windows: dict[tuple[str, str], int] = field(default_factory=dict)
    """By user and model: windows, in tokens, that the catalogue does not know and a provider's refusal has named.

    A refusal may quote what the user sent, so that nobody else's requests go by it.
    """

    async def counter(self, model_id: str) -> TokenCounter:
        """Return the counter for a model; families, and counts with and without a tokenizer, are kept apart."""
        encode = await self.tokenizer()
        family = family_of(model_id)
        counts = self.counts.setdefault((family, encode is not None), ContentCache())
        return TokenCounter(counts, encode, family)

    def record(self, origin: RequestOrigin, bill: Bill) -> None:
        """Write a row of the audit, beside the request; later ids sort later."""
        user_id, chat_id, message_id = origin.user_id, origin.chat_id, origin.message_id
        self.write(replace(bill, id=self.new_id(), user_id=user_id, chat_id=chat_id, message_id=message_id))


@dataclass(frozen=True, slots=True)
class FitTerms:
    """What one call is fitted to: the settings, the model, and the tools that every request carries."""

    settings: ContextSettings
    model: ModelTerms
    tools: tuple[Tool, ...] = ()
    optional_tools: tuple[str, ...] = ()
    """Names of those that the user did not choose, the first to give way first."""
    is_task: bool = False
    """Whether it is one of the host's, and no turn of a chat."""
    calibrates: bool = True
    """Whether bills may calibrate the counts: they are for the input alone, to which plugins would add."""
    names_costs: bool = True
    """Whether the line about summaries says what they have cost."""


@dataclass(slots=True, eq=False, repr=False)
class Fitter:
    """Fits the requests of one call of the host; without a summarizer, no summary is used or written."""

    services: PlannerServices
    terms: FitTerms
    origin: RequestOrigin
    summarizer: Summarizer | None = None
    written: SummaryBatch = field(default_factory=SummaryBatch, init=False)
    """The summaries that the last fit has waited for."""
    _counter: TokenCounter | None = field(default=None, init=False)

    async def fit(self, conversation: Conversation, notify: Show) -> Plan:
        """Plan the request, have the summaries written that it requires, and show the user what is done to the chat.

        Raises ContextBudgetExceeded, and records it, when the request cannot be made to fit.
        """
        conversation = self._with_tools(conversation)
        try:
            fitted, known = await self._fit(conversation, notify)
        except (ContextOverflow, WindowTooSmall) as overflow:
            self.services.record(self.origin, rejected_bill(self.terms.model.id, overflow))
            raise
        await self.report(conversation, fitted, notify, known=known)
        origin = self.origin
        is_first = len(conversation.turns) == 1 and not self.terms.is_task
        tokens = fitted.optional_tool_tokens if is_first and origin.is_admin and origin.chat_id else 0
        if tokens >= NOTABLE_TOOL_TOKENS:
            lines = {"built-in tools": notice("context_builtin_tools", tokens=about(tokens))}
            for line in self.services.memory.new_lines(origin.user_id, origin.chat_id, lines):
                await notify(Notice(line))
        return fitted

    async def preview(self, conversation: Conversation) -> Plan:
        """Plan the request as `fit` would, but write, record and show nothing. Raises ContextBudgetExceeded."""
        conversation = self._with_tools(conversation)
        return await self._plan(conversation, *await self._known(conversation))

    async def report(
        self,
        conversation: Conversation,
        fitted: Plan,
        notify: Show,
        *,
        reason: str = "",
        known: Collection[ReductionKind] = (),
    ) -> None:
        """Show the user what the request lacks and the chat's last one did not, and last of all the `reason` for it.

        `known` are the kinds that the user was informed of otherwise. A worker that knows nothing of the chat shows
        everything, because nobody else may have shown it.
        """
        # a chat without an id is known by its first turn; the host's tasks are not the chat's requests
        chat = self.origin.chat_id.encode() or b"".join(turn.chain for turn in conversation.turns[:1])
        key = self.origin.user_id.encode() + b"\n" + chat
        new = () if self.terms.is_task else self.services.memory.new_reductions(key, fitted.reductions)
        lines = [_lacking(each, fitted) for each in new if each.kind not in known]
        if reason:
            lines.append(reason)
        for line in lines:
            await notify(Notice(line))

    async def _fit(self, conversation: Conversation, notify: Show) -> tuple[Plan, Collection[ReductionKind]]:
        """Plan once; and once more after required summaries have been written, with those that arrived.

        Where the user has waited in vain in this chat, they are written beside the answer, and this request does
        without. Return what the user was informed of meanwhile, too.
        """
        model, known = await self._known(conversation)
        first, summarizer = await self._plan(conversation, model, known), self.summarizer
        if summarizer is None or not first.required_summaries:
            return first, ()
        origin = self.origin
        is_cached = self.services.memory.may_be_cached(origin.user_id, origin.chat_id, model.id)
        cached_prefix = first.cached_prefix if is_cached else None
        if not summarizer.may_wait:
            summarizer.prefetch(first.required_summaries, cached_prefix)
            return await self._plan(conversation, model, AvailableSummaries(known.found)), ()
        before_tokens = first.tokens_without_new_summaries
        await notify(Notice(notice("summarizing", tokens=before_tokens), done=False))
        self.written = batch = await summarizer.make(first.required_summaries, cached_prefix)
        complete = all(target.segment in batch.summaries for target in first.required_summaries)
        arrived = AvailableSummaries({**known.found, **batch.summaries}, "request" if complete else "skip")
        fitted = await self._plan(conversation, model, arrived)
        if fitted.required_summaries:  # real sizes have moved what is summarized
            fitted = await self._plan(conversation, model, replace(arrived, if_missing="skip"))
        shown = batch if self.terms.names_costs else replace(batch, paid=Paid())
        await notify(_summarized(before_tokens, fitted, shown))
        return fitted, ["summarized"] if batch.summaries else []

    def prefetch(self, sent: Plan) -> None:
        """Have the summaries written that the next requests will require; `sent` is in the provider's cache."""
        if self.summarizer is not None:
            prefix = CachedPrefix(sent.items, sent.marks, sent.tokens, sent.unoffered_tools)
            # a request for a summary carries all other tools
            self.summarizer.prefetch(sent.prefetch_summaries, None if sent.omitted_tools else prefix)

    async def refit_smaller(
        self, conversation: Conversation, refused: Plan, counted: ContextTooLong | None
    ) -> Plan | None:
        """Plan anew after the provider has counted more than its window; None when nothing more can be dropped.

        A window that was unknown is the one that its error names, which is remembered, or else less than what was
        refused. Where it has not said that it `counted`, nothing is learned.
        """
        named_tokens = counted and counted.limit_tokens
        window_tokens, limit_tokens = refused.budget.window_tokens, refused.limit_tokens
        if is_unknown := self.terms.model.window_tokens is None:
            window_tokens = limit_tokens = named_tokens or refused.tokens
            if named_tokens:
                self.services.named_windows[self.origin.user_id, refused.model] = named_tokens
        calibrations = self.services.calibrations
        expected_tokens = (await calibrations.find(refused.model)).upper_tokens(refused.counts)
        # with the output that it asks for, it may be too long by what was expected as well, which teaches nothing
        if counted and expected_tokens + (self.terms.model.output_tokens or 0) < window_tokens:
            calibrations.learn(refused.model, refused.counts, window_tokens)
        if self.terms.settings.context_strategy not in EVICTING_STRATEGIES:
            return None
        conversation = self._with_tools(conversation)
        found = await self.summarizer.available(conversation) if self.summarizer else {}
        # a limit that a factor below one has raised beyond the window has proved wrong for this request
        share = min(limit_tokens, refused.tokens, window_tokens) / limit_tokens * SMALLER_SHARE
        smaller = replace(
            self.terms.model,
            calibration=await calibrations.stored(refused.model),
            window_tokens=int(window_tokens * share),
            segment_window_tokens=window_tokens,
        )
        try:
            lower = await self._plan(conversation, smaller, AvailableSummaries(found))
        except ContextBudgetExceeded:
            return None
        budget = lower.budget if is_unknown else refused.budget
        return replace(lower, budget=budget) if lower.tokens < refused.tokens else None

    def learn(self, sent: Plan, answer: Answer) -> None:
        """Learn from the bill."""
        # what a parser makes of a PDF is billed as text that nobody counted
        if answer.usage and self.terms.calibrates and answer.was_read_once and not holds_pdf(sent.items):
            model = answer.served.other_model or sent.model
            self.services.calibrations.learn(model, sent.counts, answer.usage.input_tokens)

    def _with_tools(self, conversation: Conversation) -> Conversation:
        return replace(conversation, tools=self.terms.tools, optional_tools=self.terms.optional_tools)

    async def _known(self, conversation: Conversation) -> tuple[ModelTerms, AvailableSummaries]:
        """Return the model with its calibration, and the summaries that exist where the chat may need any.

        Read once a fit, so that no bill moves it meanwhile; where it can matter, what all workers go by.
        """
        model, summarizer, calibrations = self.terms.model, self.summarizer, self.services.calibrations
        is_large = partial(self._run, partial(may_be_shortened, caches=self.services.caches), conversation)
        if not await is_large(replace(model, calibration=MOST_TAUGHT)):
            return replace(model, calibration=await calibrations.find(model.id)), NO_SUMMARIES
        model = replace(model, calibration=await calibrations.stored(model.id))
        if summarizer is None or not await is_large(model):
            return model, NO_SUMMARIES
        found = await summarizer.available(conversation)
        return model, AvailableSummaries(found, "request" if summarizer.may_try else "skip")

    async def _plan(
        self, conversation: Conversation, model: ModelTerms, summaries: AvailableSummaries
    ) -> Plan:
        work = partial(plan, caches=self.services.caches, summaries=summaries)
        return await self._run(work, conversation, model)

    async def _run(
        self, work: Callable[..., _Result], conversation: Conversation, model: ModelTerms
    ) -> _Result:
        """Run what counts a conversation, in a thread of its own when that takes long."""
        self._counter = counter = self._counter or await self.services.counter(self.terms.model.id)
        call = partial(work, conversation, self.terms.settings, model=model, counter=counter)
        of_turns = chain.from_iterable(turn.entries for turn in conversation.turns)
        entries = chain(conversation.instructions, conversation.volatile, of_turns)
        known = counter.counts.get
        uncounted = [None if known(each.digest) else each.item for each in islice(entries, LARGE_ITEMS)]
        return await apart(uncounted, call)


def _lacking(reduction: Reduction, fitted: Plan) -> str:
    """The line about a reduction."""
    if reduction.kind == "summarized":
        before_tokens = fitted.tokens + reduction.tokens
        if fitted.adds_summaries:
            before_tokens = fitted.tokens_without_new_summaries
        return notice("summarized", before_tokens=before_tokens, after_tokens=fitted.tokens)
    of = about(reduction.of) if reduction.kind == "retrieved_cut" else reduction.of
    return notice(f"lacking_{reduction.kind}", count=reduction.count, of=of, tokens=about(reduction.tokens))


def about(tokens: int) -> int:
    """Round to two digits: a count is not exact, and the next one by another model differs a little."""
    return round(tokens, 2 - len(str(tokens)))


def _summarized(before_tokens: int, fitted: Plan, batch: SummaryBatch) -> Notice:
    """What became of the summaries, and what they cost."""
    reason = notice(f"summary_failure_{batch.failure}") if batch.failure else ""
    if reason and not batch.summaries:
        return Notice(notice("not_summarized", reason=reason))
    line = notice("summarized", before_tokens=before_tokens, after_tokens=fitted.tokens)
    if any(batch.paid):
        line = notice("summarized_cost", line=line, cost=dollars(*batch.paid))
    if reason:
        line = notice("summarized_partly", line=line, reason=reason)
    return Notice(line)
