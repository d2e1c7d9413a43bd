"""The plan of one request: what is sent, what was done to make it fit, and what should be summarised.

Owns the order of the steps: cap, retain, tell, relieve, land, refuse. The steps themselves are elsewhere. It
must not change a conversation's wording beyond what the steps say, and the same conversation with the same
summaries gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from ..conversation.budget import (
    FALLBACK_WINDOW_TOKENS,
    Budget,
    ContextSettings,
    Strategy,
    WindowTooSmall,
    split_window,
)
from ..conversation.calibration import Calibration
from ..conversation.content_cache import ContentCache
from ..conversation.conversation import Conversation, DigestedItem
from ..conversation.rules import omission_note, rules_note
from ..conversation.tokens import NO_TOKENS, TokenCounter, TokenCounts
from ..responses.items import Item
from ..summaries.segments import Segment, SegmentSizes, SummaryIndex, SummaryTarget
from ..summaries.summary import Summary
from .detail import NO_LIMITS, DetailLevel, OutputLimits, PartsByDetail
from .overflow import ContextOverflow, ContextShare
from .policies import clip_turns, count_prefetched, evict, prune, shorten_old_tool_results, summarize
from .simulate import (
    BreakReason,
    CachePrices,
    Cutoffs,
    Policy,
    PrefixBreak,
    SimulatedRequest,
    Simulation,
    SimulationTerms,
    simulate,
)

SCALE_STEPS_PER_UNIT = 10
LEADING_BITS = 3

StepName = Literal["cap", "retention", "summary", "prune", "landing"]

_LADDER: tuple[tuple[BreakReason, Policy], ...] = (
    ("retention", shorten_old_tool_results),
    ("prune", prune),
    ("landing", evict),
)
_POLICIES: Mapping[Strategy, tuple[tuple[BreakReason, Policy], ...]] = MappingProxyType(
    {
        "summarize": (_LADDER[0], ("summary", summarize), *_LADDER[1:]),
        "prune": _LADDER,
        "clip": (("clip", clip_turns), ("retention", shorten_old_tool_results), ("landing", evict)),
        "refuse": (("retention", shorten_old_tool_results),),
        "off": (),
    }
)
EVICTING_STRATEGIES: frozenset[Strategy] = frozenset({"summarize", "prune", "clip"})
"""Strategies that drop what they must; the others refuse, or send everything."""


@dataclass(frozen=True, slots=True)
class ModelTerms:
    """What a plan needs of the model that serves the request.

    `window_tokens` is the smallest of all that may serve it, None when unknown; `output_tokens` what the
    request asks for, None when it leaves that open. `calibration` is what its bills have taught so far.
    """

    id: str
    window_tokens: int | None = None
    output_tokens: int | None = None
    prices: CachePrices = field(default_factory=CachePrices)
    calibration: Calibration | None = None
    cut_tokens: int | None = None
    """The window that segments are cut for, where this request has to make do with less than the model's."""


@dataclass(frozen=True, slots=True)
class AvailableSummaries:
    """The summaries that exist; with `asking`, a plan may name others that it takes, else it does with these."""

    summaries: Mapping[Segment, Summary] = field(default_factory=dict)
    asking: bool = False


NO_SUMMARIES = AvailableSummaries()


@dataclass(frozen=True, slots=True)
class Step:
    """What the request came to after a step, and whether the step did something in this very request."""

    name: StepName
    tokens: int
    triggered: bool


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """Ends of the blocks that stay the same from request to request, as numbers of items."""

    instructions: int
    """With the summaries."""
    unchanged: int
    """Up to the first change against the request before; up to the frontier when that is the same."""
    frontier: int
    completed: int


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What the request before this one has brought to the provider's cache, as far as it belongs to the chat."""

    items: tuple[Item, ...]
    marks: CacheMarks
    tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that fits.

    `tokens_before` is what everything would have come to, `tokens` what `items` come to with tools, by the
    plain count; `tally` divides the latter by class, for the calibration. `epochs` are all changes of the
    prefix so far; `breaks` are those of this request. `told` says how many turns are told by summaries,
    `tokens_without_new_summaries` what the request would come to without those that it begins to tell.
    `wanted` are the summaries that are missing: the request must not be sent before they are there, or it has
    been planned without asking for any. `soon` are those worth making for the next requests. `live` is what the
    wanted ones can be asked for after, with most of it read from the cache.
    """

    model: str
    items: tuple[Item, ...]
    marks: CacheMarks
    budget: Budget
    limit_tokens: int
    tokens_before: int
    tokens: int
    steps: tuple[Step, ...]
    tally: TokenCounts
    epochs: tuple[PrefixBreak, ...]
    breaks: tuple[PrefixBreak, ...]
    told: int
    tokens_without_new_summaries: int
    wanted: tuple[SummaryTarget, ...]
    soon: tuple[SummaryTarget, ...]
    live: CachedPrefix | None

    @property
    def starts_summarizing(self) -> bool:
        """Whether the request tells more than the one before."""
        return _begins_telling(self.breaks)


def plan(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    model: ModelTerms,
    counter: TokenCounter,
    facts: ContentCache[str],
    at_hand: AvailableSummaries = NO_SUMMARIES,
) -> Plan:
    """Fit a conversation into a model's window.

    Raises ContextOverflow or NoRoom (both are ContextBudgetExceeded) when what must be sent is over the limit,
    unless the strategy is `off`. The model's calibration moves the limit in steps, so that the landing does not
    move with each observation.
    """
    asked = model.output_tokens or settings.context_max_output_tokens
    budget = split_window(model.window_tokens or FALLBACK_WINDOW_TOKENS, output_tokens=asked)
    bounded = settings.context_strategy != "off"
    if bounded and budget.input_tokens <= 0:
        raise WindowTooSmall(budget)
    note = rules_note if settings.context_strategy == "clip" else omission_note
    limits = OutputLimits(budget.input_tokens, note=note) if bounded else NO_LIMITS
    sizes = SegmentSizes.of(settings, model.cut_tokens or budget.window_tokens)
    shelf = SummaryIndex(conversation, counter, sizes, at_hand.summaries)
    forms = PartsByDetail(conversation, counter, facts, limits, shelf)
    limit_tokens = int(budget.input_tokens / _scale(conversation, counter, model.calibration))
    drafts = [_PlanDraft(conversation, settings, model, budget, limit_tokens, forms, asking=at_hand.asking)]
    if settings.context_strategy in EVICTING_STRATEGIES:
        drafts.append(replace(drafts[0], conversation=replace(conversation, volatile=())))
    if settings.context_strategy == "summarize":  # summaries that take too much room give way as well
        drafts.append(replace(drafts[1], settings=replace(settings, context_strategy="prune")))
    for draft in drafts:
        final = draft.final()
        if not bounded or final.tokens() <= limit_tokens:
            return draft.plan(final)
    raise ContextOverflow(budget, limit_tokens, tuple(drafts[-1].shares(drafts[-1].final())))


def _begins_telling(breaks: Iterable[PrefixBreak]) -> bool:
    return "summary" in {epoch.reason for epoch in breaks}


def _scale(conversation: Conversation, counter: TokenCounter, calibration: Calibration | None) -> float:
    """How much larger than the plain count the provider's may be, in steps; never below one."""
    if calibration is None:
        return 1.0
    tally = _sum([*_tallies(counter, _everything(conversation)), counter.tools(conversation.tools)])
    ratio = calibration.upper_tokens(tally) / max(1, tally.tokens)
    return max(1.0, math.ceil(ratio * SCALE_STEPS_PER_UNIT) / SCALE_STEPS_PER_UNIT)


def _everything(conversation: Conversation) -> Iterator[DigestedItem]:
    yield from conversation.instructions
    yield from conversation.volatile
    for turn in conversation.turns:
        yield from turn.entries


def _tallies(counter: TokenCounter, entries: Iterable[DigestedItem]) -> list[TokenCounts]:
    return [counter.entry(entry) for entry in entries]


def _sum(tallies: Sequence[TokenCounts]) -> TokenCounts:
    return TokenCounts(*map(sum, zip(*tallies, strict=True))) if tallies else NO_TOKENS


def _stepped(tokens: int) -> int:
    """Rounded up to three leading bits: text that changes a little does not move what was decided before."""
    step = 1 << max(0, tokens.bit_length() - LEADING_BITS)
    return -(-tokens // step) * step


@dataclass(frozen=True, slots=True)
class _PlanDraft:
    """A plan in the making: the conversation in its forms, and what it is measured against."""

    conversation: Conversation
    settings: ContextSettings
    model: ModelTerms
    budget: Budget
    limit_tokens: int
    forms: PartsByDetail
    asking: bool

    def final(self) -> _FinalRequest:
        """Fold the past, and give the current request with the bounds that follow."""
        fixed, volatile = self._fixed_tokens(), self._tokens(self.conversation.volatile)
        base = fixed + _stepped(volatile)
        terms = SimulationTerms(
            self.settings,
            self.model.prices,
            base,
            self.limit_tokens,
            self.budget.input_tokens,
            asking=self.asking,
        )
        folded = simulate(self.forms, terms, _POLICIES[self.settings.context_strategy])
        actual = replace(terms, base_tokens=fixed + volatile)
        end = len(self.forms.parts)
        return _FinalRequest(
            folded, SimulatedRequest(self.forms, actual, folded.bounds, end, waited=folded.waited)
        )

    def plan(self, final: _FinalRequest) -> Plan:
        """Put the request together."""
        bounds = final.folded.bounds
        entries, starts = self._entries(bounds)
        tools = self.forms.counter.tools(self.conversation.tools)
        everything = self._tokens(_everything(self.conversation)) + self.forms.shelf.tokens(0)
        told = self.forms.told(bounds.ends[DetailLevel.SUMMARIZED])
        wanted = self._wanted(final, told)
        return Plan(
            model=self.model.id,
            items=tuple(entry.item for entry in entries),
            marks=self._marks(bounds, final.folded.previous, starts),
            budget=self.budget,
            limit_tokens=self.limit_tokens,
            tokens_before=everything + tools.tokens,
            tokens=final.tokens(),
            steps=tuple(final.steps()),
            tally=_sum([*_tallies(self.forms.counter, entries), tools]),
            epochs=final.folded.epochs,
            breaks=final.breaks,
            told=self.forms.turns_before(bounds.ends[DetailLevel.SUMMARIZED]),
            tokens_without_new_summaries=final.tokens_without_new_summaries(),
            wanted=wanted,
            soon=self._soon(final, told),
            live=self._live(final.folded.previous, opens_turn=final.opens_turn) if wanted else None,
        )

    def _soon(self, final: _FinalRequest, told: int) -> tuple[SummaryTarget, ...]:
        """What the next telling would ask for beyond what is in force, when it is worth making ahead of time."""
        if self.settings.context_strategy != "summarize" or not self.forms.parts:
            return ()
        shelf = self.forms.shelf
        moment = replace(final.moment, terms=replace(final.moment.terms, asking=True))
        next_told = max(told, count_prefetched(moment))
        in_force = {stretch.segment for stretch in (*shelf.missing(told), *shelf.desired(told))}
        return tuple(stretch for stretch in shelf.desired(next_told) if stretch.segment not in in_force)

    def _wanted(self, final: _FinalRequest, told: int) -> tuple[SummaryTarget, ...]:
        """What is missing; where the prefix changes anyway, with neighbours joined that should share a summary."""
        shelf = self.forms.shelf
        return shelf.desired(told) if final.starts_summarizing and self.asking else shelf.missing(told)

    def _live(self, previous: Cutoffs, *, opens_turn: bool) -> CachedPrefix:
        """The chat in the form of the request before: up to the current turn when this request opens it."""
        before = (
            self if not opens_turn else replace(self, conversation=replace(self.conversation, volatile=()))
        )
        entries, starts = before._entries(previous)  # noqa: SLF001 - the same draft
        end = starts[self.forms.current] if opens_turn and self.forms.parts else len(entries)
        tools = self.forms.counter.tools(self.conversation.tools).tokens
        return CachedPrefix(
            tuple(entry.item for entry in entries[:end]),
            before._marks(previous, previous, starts),  # noqa: SLF001 - the same draft
            tools + self._tokens(entries[:end]),
        )

    def shares(self, final: _FinalRequest) -> Iterator[ContextShare]:
        """What the request holds when all that may go is gone; with the strategy `refuse`, nothing is."""
        forms, conversation = self.forms, self.conversation
        bounds, end = final.folded.bounds, len(forms.parts)
        head = forms.current
        told, gone = bounds.ends[DetailLevel.SUMMARIZED], bounds.ends[DetailLevel.DROPPED]
        yield ContextShare("instructions", self._tokens(conversation.instructions), droppable=False)
        yield ContextShare("tools", forms.counter.tools(conversation.tools).tokens, droppable=False)
        yield ContextShare("summaries", forms.standing_tokens(told), droppable=False)
        yield ContextShare("retrieved text", self._tokens(conversation.volatile), droppable=True)
        yield ContextShare("pinned rules", self._tokens(forms.note(told, gone)), droppable=False)
        yield ContextShare("earlier turns", self._parts_tokens(bounds, 0, head), droppable=True)
        yield ContextShare(
            "latest message", self._parts_tokens(bounds, head, min(end, head + 1)), droppable=False
        )
        yield ContextShare("current tool calls", self._parts_tokens(bounds, head + 1, end), droppable=False)

    def _entries(self, bounds: Cutoffs) -> tuple[list[DigestedItem], list[int]]:
        """The entries in their order, and how many come before each part and at the end."""
        forms, conversation = self.forms, self.conversation
        told, gone = bounds.ends[DetailLevel.SUMMARIZED], bounds.ends[DetailLevel.DROPPED]
        entries = [*conversation.instructions, *forms.standing(told), *forms.note(told, gone)]
        starts = []
        for at in range(len(forms.parts)):
            if at == forms.current:
                entries += conversation.volatile
            starts.append(len(entries))
            entries += forms.entries(bounds.form_of(at), at)
        return entries, [*starts, len(entries)]

    def _marks(self, bounds: Cutoffs, previous: Cutoffs, starts: Sequence[int]) -> CacheMarks:
        """The ends of what stays the same, as the starts of parts."""
        instructions = len(self.conversation.instructions)
        fixed = instructions + len(self.forms.standing(bounds.ends[DetailLevel.SUMMARIZED]))
        frontier = bounds.ends[DetailLevel.FAILED_REDUCED]
        changed = range(frontier) if bounds != previous else range(0)
        kept = next((at for at in changed if bounds.form_of(at) != previous.form_of(at)), frontier)
        unchanged = (
            starts[kept] if bounds.ends[DetailLevel.DROPPED] == previous.ends[DetailLevel.DROPPED] else fixed
        )
        return CacheMarks(
            instructions=fixed,
            unchanged=unchanged
            if bounds.ends[DetailLevel.SUMMARIZED] == previous.ends[DetailLevel.SUMMARIZED]
            else instructions,
            frontier=starts[frontier],
            completed=starts[self.forms.current] - len(self.conversation.volatile),
        )

    def _fixed_tokens(self) -> int:
        conversation = self.conversation
        tools = self.forms.counter.tools(conversation.tools).tokens
        return tools + self._tokens(conversation.instructions)

    def _tokens(self, entries: Iterable[DigestedItem]) -> int:
        return sum(tally.tokens for tally in _tallies(self.forms.counter, entries))

    def _parts_tokens(self, bounds: Cutoffs, start: int, end: int) -> int:
        return sum(self._tokens(self.forms.entries(bounds.form_of(at), at)) for at in range(start, end))


@dataclass(frozen=True, slots=True)
class _FinalRequest:
    """The folded past, and the current request as it follows."""

    folded: Simulation
    moment: SimulatedRequest

    def tokens(self) -> int:
        """What the request comes to."""
        return self.moment.actual_tokens()

    @property
    def breaks(self) -> tuple[PrefixBreak, ...]:
        """The changes of the prefix that begin with this request."""
        return tuple(epoch for epoch in self.folded.epochs if epoch.request == self.moment.end)

    @property
    def starts_summarizing(self) -> bool:
        """Whether this request tells more than the one before."""
        return _begins_telling(self.breaks)

    def tokens_without_new_summaries(self) -> int:
        """What the request would come to without what it begins to tell, or without any summary."""
        folded = self.folded
        return self.moment.actual_tokens(folded.previous if self.starts_summarizing else folded.retained)

    @property
    def opens_turn(self) -> bool:
        """Whether the current turn has had no answer yet."""
        return self.moment.end - self.moment.forms.current <= 1

    def steps(self) -> Iterator[Step]:
        """What the request came to after each step."""
        reasons = {epoch.reason for epoch in self.breaks}
        bounds, retained = self.folded.bounds, self.folded.retained
        told = bounds.ends[DetailLevel.SUMMARIZED]
        kept = Cutoffs((*bounds.ends[: DetailLevel.DROPPED], told, told))
        yield Step("cap", self.moment.actual_tokens(Cutoffs()), triggered=False)
        yield Step("retention", self.moment.actual_tokens(retained), triggered="retention" in reasons)
        summarised = self.moment.actual_tokens(retained.moved(DetailLevel.SUMMARIZED, told))
        yield Step("summary", summarised, triggered="summary" in reasons)
        yield Step("prune", self.moment.actual_tokens(kept), triggered="prune" in reasons)
        yield Step("landing", self.moment.actual_tokens(), triggered=bool(reasons & {"landing", "clip"}))
