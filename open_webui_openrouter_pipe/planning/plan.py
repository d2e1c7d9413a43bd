"""The plan of one request: what is sent, what was done to make it fit, and which summaries it needs.

Owns the order of the steps (cap, shorten old tool results, summarize, prune, evict, refuse) and what is dropped when
they are not enough. The same conversation with the same summaries always has the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Literal

from ..conversation.budget import (
    OVERHEAD_SHARE,
    UNKNOWN_WINDOW_TOKENS,
    Budget,
    ContextOverflow,
    ContextSettings,
    ContextShare,
    Strategy,
    WindowTooSmall,
    split_window,
)
from ..conversation.calibration import Calibration
from ..conversation.commands import Command, Compact, Restore, SetAim
from ..conversation.content_cache import ContentCache
from ..conversation.conversation import Conversation, DigestedItem, Tool
from ..conversation.tokens import TokenCounter, TokenCounts
from ..conversation.user_record import instructions_note, max_record_tokens, omission_note
from ..recall.passages import TextIndex, new_index
from ..responses.items import Item, is_function_call
from ..summaries.segments import NO_SEGMENTS, Segment, SegmentSizes, SummaryIndex, SummaryTarget
from ..summaries.summary import Summary
from .detail import NO_LIMITS, DetailLevel, OutputLimits, PartsByDetail
from .policies import (
    LOW_WATER_SHARE,
    clip_turns,
    compact,
    evict,
    prune,
    segments_to_prefetch,
    shorten_old_tool_results,
    summarize,
)
from .recall_offer import UNOFFERED, lacks_something, with_arrival, without_recall
from .recalled import NOTHING_RECALLED, Recalled, max_recalled_tokens, recall_passages
from .reductions import Reduction, chat_reductions, in_order, retrieved_reduction
from .retrieved import head_of_retrieved
from .simulate import (
    BreakReason,
    CachePrices,
    Cutoffs,
    MissingSummaryMode,
    Policy,
    PrefixBreak,
    SimulatedRequest,
    Simulation,
    SimulationTerms,
    simulate,
)

LIMIT_STEPS_PER_UNIT = 10
"""The limit follows the calibration in steps of a tenth, so that cutoffs do not move with each bill. What the provider
counts beyond a step is within the overhead reserve."""
LEADING_BITS = 3
THRIFTY_WINDOW_TOKENS = 128_000
"""The window from which on segments are of full size: in larger ones only more summaries would stand side by side."""

StepName = Literal["cap", "retention", "summary", "prune", "evict", "recall"]

_RETENTION: tuple[BreakReason, Policy] = ("retention", shorten_old_tool_results)
_POLICIES: Mapping[Strategy, tuple[tuple[BreakReason, Policy], ...]] = MappingProxyType(
    {
        "summarize": (
            ("summary", compact),
            _RETENTION,
            ("summary", summarize),
            ("prune", prune),
            ("evict", evict),
        ),
        "prune": (_RETENTION, ("prune", prune), ("evict", evict)),
        "clip": (("clip", clip_turns), _RETENTION, ("evict", evict)),
        "refuse": (_RETENTION,),
        "off": (),
    }
)
EVICTING_STRATEGIES: frozenset[Strategy] = frozenset({"summarize", "prune", "clip"})
"""Strategies that drop what they must; the others refuse, or send everything."""


@dataclass(frozen=True, slots=True)
class ModelTerms:
    """What a plan needs to know of the model that serves the request.

    `window_tokens` is the smallest of all that may serve it, None when unknown; `output_tokens` what the request asks
    for, None when it leaves that open; `max_output_tokens` the most that each model that may serve can write, thinking
    included; `calibration` what its bills have taught so far. `segment_window_tokens` is the window that segments are
    cut for, where a request has to fit into less than the model's.
    """

    id: str
    window_tokens: int | None = None
    output_tokens: int | None = None
    prices: CachePrices = field(default_factory=CachePrices)
    calibration: Calibration | None = None
    segment_window_tokens: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AvailableSummaries:
    """The summaries that exist, and whether a plan may require others or skips the turns that have none."""

    found: Mapping[Segment, Summary] = field(default_factory=dict)
    if_missing: MissingSummaryMode = "skip"


NO_SUMMARIES = AvailableSummaries()


@dataclass(frozen=True, slots=True)
class PlanCaches:
    """What follows from items, kept from request to request: texts that stand in for them, and their passages."""

    facts: ContentCache[str] = field(default_factory=ContentCache)
    passages: TextIndex = field(default_factory=new_index)


@dataclass(frozen=True, slots=True)
class Step:
    """The request's size after a step, and whether the step did something in this very request."""

    name: StepName
    tokens: int
    triggered: bool


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """Ends of the blocks that stay the same from request to request, as numbers of items.

    `instructions` ends what comes before all parts; `unchanged` what this request shares with the one before;
    `frontier` the shortened parts; `completed` everything before the current turn. `current` is where that turn begins,
    0 where that is unknown: from `completed` until there stands what changes from request to request. `has_additions`
    says that the question itself holds such text.
    """

    instructions: int
    unchanged: int
    frontier: int
    completed: int
    current: int = 0
    has_additions: bool = False

    @property
    def has_volatile(self) -> bool:
        """Whether the current turn begins with something that no later turn will find there again."""
        return self.has_additions or self.current > self.completed


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What the request before this one has brought to the provider's cache, as far as it belongs to the chat."""

    items: tuple[Item, ...]
    marks: CacheMarks
    tokens: int
    unoffered_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """How a request is put together: its parts at the levels of `cutoffs`, of which part `n` begins at `starts[n]`."""

    conversation: Conversation
    parts: PartsByDetail
    cutoffs: Cutoffs
    starts: Sequence[int]
    tool_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that fits.

    `tokens_before` is the size of everything, `tokens` that of `items` with tools, by the plain count; `counts`
    divides the latter by kind, for the calibration. `prefix_breaks` are all changes of the prefix so far,
    `new_breaks` those of this request. `summarized_turns` says how many turns are replaced by summaries,
    `tokens_without_new_summaries` how large the request would be without those that it adds. `reductions` are all that
    it lacks of what the chat has, `omitted_tools` names the tools among them. `entries` are the items with the names of
    their content, `recalled` is what of the earlier turns they quote beside the question. `unoffered_tools` names the
    tools that the chat has no use for as yet.

    The request must not be sent before `required_summaries` are there; `cached_prefix` is what they can be requested
    after, with most of it read from the cache. `prefetch_summaries` are worth making for the next requests.
    """

    model: str
    items: tuple[Item, ...]
    marks: CacheMarks
    budget: Budget
    limit_tokens: int
    tokens_before: int
    tokens: int
    steps: tuple[Step, ...]
    counts: TokenCounts
    prefix_breaks: tuple[PrefixBreak, ...]
    new_breaks: tuple[PrefixBreak, ...]
    summarized_turns: int
    tokens_without_new_summaries: int
    required_summaries: tuple[SummaryTarget, ...]
    prefetch_summaries: tuple[SummaryTarget, ...]
    cached_prefix: CachedPrefix | None
    omitted_tools: frozenset[str]
    reductions: tuple[Reduction, ...]
    entries: tuple[DigestedItem, ...] = ()
    unoffered_tools: frozenset[str] = frozenset()
    recalled: Recalled = NOTHING_RECALLED
    layout: Layout | None = field(default=None, compare=False, repr=False)

    @property
    def absent_tools(self) -> frozenset[str]:
        """The names of the chat's tools that the request is sent without."""
        return self.omitted_tools | self.unoffered_tools

    @property
    def adds_summaries(self) -> bool:
        """Whether the request summarizes more than the one before."""
        return any(each.reason == "summary" for each in self.new_breaks)


def plan(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    model: ModelTerms,
    counter: TokenCounter,
    caches: PlanCaches,
    summaries: AvailableSummaries = NO_SUMMARIES,
) -> Plan:
    """Fit a conversation into a model's window.

    Raises ContextOverflow or WindowTooSmall (both are ContextBudgetExceeded) when what must be sent is over the
    limit, unless the strategy is `off`.
    """
    budget, scale = _budget_and_scale(conversation, settings, model, counter)
    limit_tokens = scale.limit_tokens(budget)
    least = budget.with_half_reserves(output_tokens=model.output_tokens)
    bounded = settings.context_strategy != "off"
    if bounded and least.input_tokens <= 0:
        raise WindowTooSmall(budget)
    note = instructions_note if settings.context_strategy == "clip" else omission_note
    sizes = segment_sizes(settings, model.segment_window_tokens or budget.window_tokens)
    record_tokens = record_tokens_of(settings, budget)
    index = SummaryIndex(
        conversation, counter, sizes, summaries.found, record_tokens=record_tokens, texts=caches.facts
    )
    limits = (
        OutputLimits(budget.input_tokens, note=note, has_references=settings.recall_tool)
        if bounded
        else NO_LIMITS
    )
    parts = PartsByDetail(conversation, counter, caches.facts, limits, index)
    terms = SimulationTerms(settings, model.prices, limit_tokens, budget.input_tokens, summaries.if_missing)
    # The chat is shortened for the whole reserves; half of them gives way to what is left, before anything is refused.
    last_limit_tokens = scale.limit_tokens(least)
    whole = _Draft(conversation, conversation, parts, terms, index=caches.passages)
    wholes = [whole]
    if whole.max_recalled_tokens:
        wholes.append(whole.without_recall())
    if any(isinstance(each.command, Restore) for each in conversation.commands):
        wholes.append(wholes[-1].without_restored())
    for draft in chain.from_iterable(map(_drafts, wholes)):
        request = draft.simulate()
        if not bounded or (request.tokens <= limit_tokens and not draft.is_crowded(request)):
            return draft.plan(request, model.id, budget, limit_tokens)
        if request.tokens <= last_limit_tokens and not draft.is_crowded(request):
            return draft.plan(request, model.id, least, last_limit_tokens)
    raise ContextOverflow(least, last_limit_tokens, tuple(draft.shares(request)))


def segment_sizes(settings: ContextSettings, window_tokens: int) -> SegmentSizes:
    """Return how a chat is divided for summaries; a thrifty one in a large window as in a smaller one."""
    if settings.context_aim == "thrifty":
        window_tokens = min(window_tokens, THRIFTY_WINDOW_TOKENS)
    return SegmentSizes.of(settings, window_tokens)


def record_tokens_of(settings: ContextSettings, budget: Budget) -> int:
    """Return how large the record beside summaries may be; a thrifty chat's does not grow with a large window."""
    if settings.context_aim == "thrifty":
        window_tokens = min(budget.window_tokens, THRIFTY_WINDOW_TOKENS)
        budget = split_window(window_tokens, output_tokens=budget.output_reserve_tokens)
    return max_record_tokens(budget.input_tokens)


def may_need_summaries(
    conversation: Conversation, settings: ContextSettings, *, model: ModelTerms, counter: TokenCounter
) -> bool:
    """Return whether the chat is so large or so long that summaries can matter to its plan; only counts."""
    if settings.context_strategy != "summarize":
        return False
    commands = [each.command for each in conversation.commands]
    if 0 < settings.summary_turn_trigger < len(conversation.turns) or any(map(_is_about_summaries, commands)):
        return True
    budget, scale = _budget_and_scale(conversation, settings, model, counter)
    limit_tokens = scale.limit_tokens(budget) - max_recalled_tokens(settings, budget.input_tokens)
    share = min(settings.summary_ahead_ratio, settings.summary_trigger_ratio)
    least_tokens = min(share * budget.input_tokens, settings.prune_trigger_ratio * limit_tokens)
    if settings.context_aim == "thrifty":
        least_tokens = segment_sizes(settings, budget.window_tokens).min_tokens
    volatile_tokens = counter.entries(conversation.volatile).tokens
    external_tokens = SummaryIndex(conversation, counter, NO_SEGMENTS, {}).tokens(0)
    tokens = _count_all(counter, replace(conversation, volatile=())).tokens + external_tokens
    return tokens + _rounded_up(volatile_tokens) >= least_tokens


def _is_about_summaries(command: Command) -> bool:
    """Whether a command may move where summaries begin."""
    return isinstance(command, Compact) or (isinstance(command, SetAim) and command.aim == "thrifty")


@dataclass(frozen=True, slots=True)
class _Scale:
    """What the provider may count: so many tokens with every request, and so many for each of ours."""

    constant_tokens: int = 0
    factor: float = 1.0

    def limit_tokens(self, budget: Budget) -> int:
        """Return how many tokens by our count fit into the budget."""
        return int(max(0, budget.input_tokens - self.constant_tokens) / self.factor)


def _budget_and_scale(
    conversation: Conversation, settings: ContextSettings, model: ModelTerms, counter: TokenCounter
) -> tuple[Budget, _Scale]:
    """Return the budget, and what the provider may count by the model's calibration, in steps.

    Only the limit goes by it. When summaries begin, and which, is a share of the plain budget and never moves with a
    bill: a factor below one leaves more room above the trigger, it does not raise the trigger.
    """
    output_tokens = model.output_tokens or settings.context_max_output_tokens or model.max_output_tokens
    budget = split_window(model.window_tokens or UNKNOWN_WINDOW_TOKENS, output_tokens=output_tokens)
    if (calibration := model.calibration) is None:
        return budget, _Scale()
    counts = _count_all(counter, conversation)
    scaled_tokens = counts.text * calibration.upper_ratio + counts.media + counts.sealed
    beyond_reserve = scaled_tokens / max(1, counts.tokens) / (1 + OVERHEAD_SHARE)
    factor = max(1, math.ceil(beyond_reserve * LIMIT_STEPS_PER_UNIT)) / LIMIT_STEPS_PER_UNIT
    return budget, _Scale(_rounded_up(math.ceil(calibration.constant_tokens)), factor)


def _drafts(draft: _Draft) -> Iterator[_Draft]:
    """Yield the request as it is, then with less and less of what may give way, in this order."""
    strategy = draft.terms.settings.context_strategy
    drops = strategy in EVICTING_STRATEGIES

    def with_less_retrieved(whole: _Draft) -> Iterator[_Draft]:
        yield whole
        if drops and whole.has_long_retrieved():
            yield whole.with_head_of_retrieved()

    yield from with_less_retrieved(draft)
    chosen_tools = draft.without_optional_tools()
    if chosen_tools is not draft:
        draft = chosen_tools
        yield from with_less_retrieved(draft)
    if drops and draft.conversation.retrieved:
        draft = draft.without_retrieved()
        yield draft
    if strategy == "summarize":
        draft = draft.without_summaries()
        yield draft
    if strategy in {"summarize", "prune"}:
        yield draft.without_record()


def _count_all(counter: TokenCounter, conversation: Conversation) -> TokenCounts:
    """Count everything of a conversation but the external summaries."""
    turns = chain.from_iterable(turn.entries for turn in conversation.turns)
    entries = chain(conversation.instructions, conversation.volatile, turns)
    return counter.entries(entries).plus(counter.tools(conversation.tools))


def _rounded_up(tokens: int) -> int:
    """Round to three leading bits: text that changes a little does not move what was decided before."""
    step = 1 << max(0, tokens.bit_length() - LEADING_BITS)
    return -(-tokens // step) * step


@dataclass(frozen=True, slots=True)
class _Request:
    """The current request as the simulation of the chat leaves it, with its exact size."""

    simulation: Simulation
    simulated: SimulatedRequest
    offers_recall: bool = False
    recalled: Recalled = NOTHING_RECALLED

    @property
    def tokens(self) -> int:
        return self.simulated.actual_tokens()

    @property
    def new_breaks(self) -> tuple[PrefixBreak, ...]:
        return tuple(each for each in self.simulation.breaks if each.request == self.simulated.end)

    def steps(self) -> Iterator[Step]:
        """Yield the request's size after each step."""
        reasons = {each.reason for each in self.new_breaks}
        cutoffs, retained = self.simulation.cutoffs, self.simulation.retained
        summarized = retained.moved(DetailLevel.SUMMARIZED, cutoffs.summarized)
        pruned = Cutoffs((*cutoffs.ends[: DetailLevel.DROPPED], cutoffs.summarized, cutoffs.summarized))

        def size(cutoffs: Cutoffs | None = None) -> int:
            return self.simulated.actual_tokens(cutoffs) - self.recalled.tokens

        yield Step("cap", size(Cutoffs()), triggered=False)
        yield Step("retention", size(retained), triggered="retention" in reasons)
        yield Step("summary", size(summarized), triggered="summary" in reasons)
        yield Step("prune", size(pruned), triggered="prune" in reasons)
        yield Step("evict", size(), triggered=bool(reasons & {"evict", "clip"}))
        if self.recalled.entries:
            yield Step("recall", self.tokens, triggered=True)


@dataclass(frozen=True, slots=True)
class _Draft:
    """One way to send the whole conversation: what of it, in which parts, under which terms."""

    whole: Conversation
    conversation: Conversation
    parts: PartsByDetail
    terms: SimulationTerms
    omitted_tools: frozenset[str] = frozenset()
    index: TextIndex = field(default_factory=new_index)

    @property
    def max_recalled_tokens(self) -> int:
        """The most that quoted passages take."""
        return max_recalled_tokens(self.terms.settings, self.terms.budget_tokens)

    def optional_tools(self) -> tuple[Tool, ...]:
        """Return the tools that may be omitted: not chosen by the user, and never called in this chat.

        Some providers refuse calls in the input of a request that offers no tools.
        """
        items = (entry.item for part in self.parts.parts for entry in part.entries)
        called = {item["name"] for item in items if is_function_call(item)}
        names = self.conversation.optional_tools - called
        return tuple(tool for tool in self.conversation.tools if tool.get("name") in names)

    def without_optional_tools(self) -> _Draft:
        """Return the same with the other tools alone."""
        omitted = self.optional_tools()
        if not omitted:
            return self
        tools = tuple(tool for tool in self.conversation.tools if tool not in omitted)
        names = frozenset(str(tool["name"]) for tool in omitted)
        return replace(self, conversation=replace(self.conversation, tools=tools), omitted_tools=names)

    def has_long_retrieved(self) -> bool:
        """Whether the retrieved text is longer than a single tool output may be."""
        return self._tokens(self.conversation.retrieved) > self._head_tokens

    @property
    def _head_tokens(self) -> int:
        """How much of the retrieved text its head may take: as much as a single tool output."""
        return self.parts.limits.output_tokens(1)

    def with_head_of_retrieved(self) -> _Draft:
        """Return the same with the head of the retrieved text."""
        head = head_of_retrieved(self.conversation.retrieved, self._head_tokens, self.parts.counter)
        return self._with_retrieved(head)

    def without_retrieved(self) -> _Draft:
        """Return the same without any retrieved text."""
        return self._with_retrieved(())

    def _with_retrieved(self, entries: tuple[DigestedItem, ...]) -> _Draft:
        """What says how the instructions now read stays: without it, the model would go by what they no longer say."""
        corrections = self.conversation.volatile[: self.conversation.corrections]
        return replace(self, conversation=replace(self.conversation, volatile=(*corrections, *entries)))

    def without_summaries(self) -> _Draft:
        """Return the same with turns omitted instead of summarized."""
        settings = replace(self.terms.settings, context_strategy="prune")
        return replace(self, terms=replace(self.terms, settings=settings))

    def without_record(self) -> _Draft:
        """Return the same with a note that does not say what the user wrote."""
        return replace(self, parts=self.parts.without_record())

    def without_recall(self) -> _Draft:
        """Return the same without quoted passages."""
        settings = replace(self.terms.settings, recall=False)
        return replace(self, terms=replace(self.terms, settings=settings))

    def without_restored(self) -> _Draft:
        """Return the same without the turns that its user has restored."""
        return replace(self, terms=replace(self.terms, restores=False))

    def is_crowded(self, request: _Request) -> bool:
        """Whether turns were evicted for what gives way before them.

        That is long retrieved text, and optional tools that alone keep every request above the low-water mark.
        """
        if not any(each.reason == "evict" for each in request.simulation.breaks):
            return False
        tokens, low_water_tokens = self._base_tokens(), LOW_WATER_SHARE * self.terms.limit_tokens
        optional_tokens = self.parts.counter.tools(self.optional_tools()).tokens
        return self.has_long_retrieved() or tokens - optional_tokens <= low_water_tokens < tokens

    def _base_tokens(self) -> int:
        """What every request is taken to carry beside the chat.

        Retrieved text changes from request to request: the past is decided with its rounded size, and with no more
        than its head takes, so that cutting it to that moves nothing that was decided before.
        """
        volatile_tokens = min(self._tokens(self.conversation.volatile), self._head_tokens)
        return self._fixed_tokens(with_recall=False) + _rounded_up(volatile_tokens)

    def _reserved_tokens(self) -> int:
        """What every request leaves free below the limit, so that recall moves nothing that was decided before.

        That is the room of quoted passages and of our tool. When summaries begin does not go by it.
        """
        tools_tokens = self._fixed_tokens(with_recall=True) - self._fixed_tokens(with_recall=False)
        return self.max_recalled_tokens + tools_tokens

    def _fixed_tokens(self, *, with_recall: bool) -> int:
        tools = self.parts.counter.tools(self._tools(with_recall=with_recall))
        return tools.tokens + self._tokens(self.conversation.instructions)

    def simulate(self) -> _Request:
        """Simulate the chat, and measure the current request as it follows."""
        limit_tokens = max(0, self.terms.limit_tokens - self._reserved_tokens())
        terms = replace(self.terms, base_tokens=self._base_tokens(), limit_tokens=limit_tokens)
        simulation = simulate(self.parts, terms, _POLICIES[terms.settings.context_strategy])
        end = len(self.parts.parts)
        if offers_recall := self._has_use_for_recall(simulation.cutoffs, end):
            simulation = replace(simulation, breaks=with_arrival(simulation.breaks, self.parts))
        recalled = self._recalled(simulation.opening)
        volatile_tokens = self._tokens([*self.conversation.volatile, *recalled.entries])
        base_tokens = self._fixed_tokens(with_recall=offers_recall) + volatile_tokens
        actual = replace(terms.in_turn(self.parts, len(self.parts.turns) - 1), base_tokens=base_tokens)
        request = SimulatedRequest(
            self.parts,
            actual,
            simulation.cutoffs,
            end,
            unpruned_cost=simulation.unpruned_cost,
            unsummarized_cost=simulation.unsummarized_cost,
        )
        return _Request(simulation, request, offers_recall, recalled)

    def _has_use_for_recall(self, cutoffs: Cutoffs, end: int) -> bool:
        """Whether the request with so many parts lacks something that the model could ask for."""
        return self.terms.settings.recall_tool and lacks_something(self.parts, cutoffs, end)

    def _tools(self, *, with_recall: bool) -> tuple[Tool, ...]:
        """Return the tools of a request, without ours where it is of no use yet."""
        tools = self.conversation.tools
        return tools if with_recall or not self.terms.settings.recall_tool else without_recall(tools)

    def _recalled(self, opening: Cutoffs) -> Recalled:
        """Return what is quoted in the current turn, from what its first request did not say."""
        if not self.max_recalled_tokens:
            return NOTHING_RECALLED
        entries, starts = self._entries(opening)
        before = entries[: starts[self.parts.current]]
        return recall_passages(self.parts, opening, before, self.index, self.max_recalled_tokens)

    def plan(self, request: _Request, model_id: str, budget: Budget, limit_tokens: int) -> Plan:
        """Put the request together."""
        simulation, parts, counter = request.simulation, self.parts, self.parts.counter
        cutoffs, index = simulation.cutoffs, parts.summaries
        entries, starts = self._entries(cutoffs, request.recalled)
        segments = parts.segments_before(cutoffs.summarized)
        adds_summaries = any(each.reason == "summary" for each in request.new_breaks)
        # Where the prefix changes anyway, neighbors that should share a summary are joined.
        joins = adds_summaries and self.terms.missing_summaries == "request"
        sent_segments = parts.segments_before(cutoffs.replaced)
        required = index.desired(sent_segments) if joins else index.missing(sent_segments)
        without_new = simulation.previous if adds_summaries else simulation.retained
        tools, whole = self._tools(with_recall=request.offers_recall), self.whole
        if tools != self.conversation.tools:
            whole = replace(whole, tools=without_recall(whole.tools))
        return Plan(
            model=model_id,
            items=tuple(entry.item for entry in entries),
            marks=self._marks(cutoffs, simulation.previous, starts, request.recalled),
            budget=budget,
            limit_tokens=limit_tokens,
            tokens_before=_count_all(counter, whole).tokens + index.tokens(0),
            tokens=request.tokens,
            steps=tuple(request.steps()),
            counts=counter.entries(entries).plus(counter.tools(tools)),
            prefix_breaks=simulation.breaks,
            new_breaks=request.new_breaks,
            summarized_turns=parts.turns_before(cutoffs.summarized),
            tokens_without_new_summaries=request.simulated.actual_tokens(without_new),
            required_summaries=required,
            prefetch_summaries=self._prefetch(request, segments),
            cached_prefix=self._cached_prefix(request) if required and not self.omitted_tools else None,
            omitted_tools=self.omitted_tools,
            reductions=in_order(self._reductions(cutoffs)),
            entries=tuple(entries),
            unoffered_tools=frozenset() if tools == self.conversation.tools else UNOFFERED,
            recalled=request.recalled,
            layout=Layout(self.conversation, parts, cutoffs, starts, counter.tools(tools).tokens),
        )

    def _reductions(self, cutoffs: Cutoffs) -> Iterator[Reduction]:
        """Yield what the request lacks of the whole conversation."""
        sent, whole = self.conversation, self.whole
        yield from chat_reductions(self.parts, cutoffs, self.terms.settings)
        yield from retrieved_reduction(self._tokens(whole.retrieved), self._tokens(sent.retrieved))
        if self.omitted_tools:
            tokens = (
                self.parts.counter.tools(whole.tools).tokens - self.parts.counter.tools(sent.tools).tokens
            )
            yield Reduction("tools", len(self.omitted_tools), tokens)

    def _prefetch(self, request: _Request, segments: int) -> tuple[SummaryTarget, ...]:
        """What the next summarizing would require beyond what this request does."""
        terms, index = self.terms, self.parts.summaries
        summarizes = terms.settings.context_strategy == "summarize" and terms.missing_summaries == "request"
        if not (summarizes and self.parts.parts):
            return ()
        next_segments = max(segments, segments_to_prefetch(request.simulated))
        in_use = {target.segment for target in (*index.missing(segments), *index.desired(segments))}
        return tuple(target for target in index.desired(next_segments) if target.segment not in in_use)

    def _cached_prefix(self, request: _Request) -> CachedPrefix:
        """The chat as the request before sent it: up to the current turn when this request opens it."""
        previous, opens_turn = request.simulation.previous, len(self.parts.parts) - self.parts.current <= 1
        before = replace(self, conversation=replace(self.conversation, volatile=())) if opens_turn else self
        recalled = NOTHING_RECALLED if opens_turn else request.recalled
        entries, starts = before._entries(previous, recalled)  # noqa: SLF001 - the same class
        marks = before._marks(previous, previous, starts, recalled)  # noqa: SLF001 - the same class
        if opens_turn:
            entries = entries[: starts[self.parts.current]]
            if (
                self.conversation.volatile or request.recalled.entries
            ):  # so had the request before, most likely
                marks = replace(marks, current=marks.completed + 1)
        offered = self._has_use_for_recall(previous, len(self.parts.parts) - 1)
        tools = self._tools(with_recall=offered)
        tokens = self.parts.counter.tools(tools).tokens + self._tokens(entries)
        unoffered = frozenset() if tools == self.conversation.tools else UNOFFERED
        return CachedPrefix(tuple(entry.item for entry in entries), marks, tokens, unoffered)

    def shares(self, request: _Request) -> Iterator[ContextShare]:
        """Yield what the request holds when all that may be dropped is dropped."""
        parts, conversation, counter = self.parts, self.conversation, self.parts.counter
        cutoffs, end, current = request.simulation.cutoffs, len(parts.parts), parts.current
        summaries = parts.summaries.tokens(parts.segments_before(cutoffs.replaced))
        note = self._tokens(parts.note(cutoffs.summarized, cutoffs.dropped))

        def tokens(start: int, end: int) -> int:
            return sum(self._tokens(parts.entries(cutoffs.level_of(at), at)) for at in range(start, end))

        said = (*conversation.instructions, *conversation.volatile[: conversation.corrections])
        yield ContextShare("instructions", self._tokens(said), droppable=False)
        built_in = [tool for tool in conversation.tools if tool.get("name") in conversation.optional_tools]
        chosen = [tool for tool in conversation.tools if tool not in built_in]
        yield ContextShare("tools", counter.tools(chosen).tokens, droppable=False)
        yield ContextShare("built-in tools", counter.tools(built_in).tokens, droppable=False)
        yield ContextShare("summaries", summaries, droppable=False)
        yield ContextShare("retrieved text", self._tokens(conversation.retrieved), droppable=True)
        yield ContextShare("note on omitted turns", note, droppable=False)
        yield ContextShare("earlier turns", tokens(0, current), droppable=True)
        yield ContextShare("latest message", tokens(current, min(end, current + 1)), droppable=False)
        yield ContextShare("current tool calls", tokens(current + 1, end), droppable=False)

    def _entries(
        self, cutoffs: Cutoffs, recalled: Recalled = NOTHING_RECALLED
    ) -> tuple[list[DigestedItem], list[int]]:
        """Return the entries in their order, and how many come before each part and at the end."""
        parts, conversation = self.parts, self.conversation
        summaries = parts.summaries.entries(parts.segments_before(cutoffs.replaced))
        note = parts.note(cutoffs.summarized, cutoffs.dropped)
        entries = [*conversation.instructions, *summaries, *note]
        starts = []
        for part in range(len(parts.parts)):
            if part == parts.current:
                entries += [*conversation.volatile, *recalled.entries]
            starts.append(len(entries))
            entries += parts.entries(cutoffs.level_of(part), part)
        return entries, [*starts, len(entries)]

    def _marks(
        self, cutoffs: Cutoffs, previous: Cutoffs, starts: Sequence[int], recalled: Recalled
    ) -> CacheMarks:
        """Return the ends of what stays the same; `starts` are the numbers of items before each part."""
        instructions = len(self.conversation.instructions)
        summaries = self.parts.summaries.entries(self.parts.segments_before(cutoffs.replaced))
        fixed = instructions + len(summaries)
        frontier = cutoffs.ends[DetailLevel.TOOL_FACTS]
        if (cutoffs.replaced, cutoffs.discards) != (previous.replaced, previous.discards):
            unchanged = instructions
        elif cutoffs.dropped != previous.dropped:
            unchanged = fixed
        else:
            changed = (at for at in range(frontier) if cutoffs.level_of(at) != previous.level_of(at))
            unchanged = starts[frontier if cutoffs == previous else next(changed, frontier)]
        return CacheMarks(
            instructions=fixed,
            unchanged=unchanged,
            frontier=starts[frontier],
            completed=starts[self.parts.current] - len(self.conversation.volatile) - len(recalled.entries),
            current=starts[self.parts.current],
            has_additions=self.conversation.has_additions,
        )

    def _tokens(self, entries: Iterable[DigestedItem]) -> int:
        return self.parts.counter.entries(entries).tokens
