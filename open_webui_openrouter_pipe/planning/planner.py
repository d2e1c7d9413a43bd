"""Plans one request: fits a conversation into a model's window.

Owns the budget, and what gives way in which order until the request fits, or is refused. The same conversation with
the same summaries always has the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ..conversation.budget import (
    OVERHEAD_SHARE,
    UNKNOWN_WINDOW_TOKENS,
    Budget,
    Calibration,
    ContextOverflow,
    ContextSettings,
    WindowTooSmall,
    split_window,
)
from ..conversation.conversation import ContentCache, Conversation
from ..conversation.record import UserRecord, max_record_tokens
from ..conversation.slash import Compact, Restore, SetAim
from ..conversation.tokens import TokenCounter
from ..recall.search import TextIndex, new_index
from ..summaries.segments import MESSAGE_SHARE, Segment, SegmentSizes, SummaryIndex
from ..summaries.summary import Summary
from .detail import NO_LIMITS, Measured, OutputLimits, PartsByDetail
from .draft import Draft, count_all, rounded_up
from .plan import STEPS, CacheMarks, Plan, Step
from .recall import UNOFFERED, max_recalled_tokens, without_tools
from .simulate import CachePrices, Cutoffs, MissingSummaryMode, SimulationTerms

LIMIT_STEPS_PER_UNIT = 10
"""The limit follows the calibration in steps of a tenth, so that cutoffs do not move with each bill. What the provider
counts beyond a step is within the overhead reserve."""
FACTS_CHARACTERS = 16 * 1024 * 1024
MEASURED_PARTS = 100_000
"""Of all chats of a worker: the parts whose sizes are kept, each in about half a kilobyte."""
THRIFTY_WINDOW_TOKENS = 128_000
"""The window from which on segments are of full size: in larger ones only more summaries would stand side by side."""


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
    calibration: Calibration = field(default_factory=Calibration)
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
    """What follows from items, kept from request to request: texts that stand in for them, and their passages.

    `measured` is what was found of a chat's parts, by its first turn.
    """

    facts: ContentCache[str] = field(default_factory=lambda: ContentCache(FACTS_CHARACTERS, len))
    passages: TextIndex = field(default_factory=new_index)
    measured: ContentCache[Measured] = field(
        default_factory=lambda: ContentCache(MEASURED_PARTS, lambda found: len(found.whole))
    )


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
    budget = _budget(settings, model)
    least = budget.with_half_reserves(output_tokens=model.output_tokens)
    bounded = settings.context_strategy != "off"
    if bounded and least.input_tokens <= 0:
        raise WindowTooSmall(budget)
    parts = _parts(conversation, settings, model, counter, caches, summaries.found)
    limit_of = _limit(parts, model)
    limit_tokens = limit_of(budget)
    if _stays_whole(parts, settings, budget, limit_tokens):
        return _plan_of_all(parts, settings, model.id, budget, limit_tokens)
    terms = SimulationTerms(
        settings,
        model.prices,
        limit_tokens,
        budget.input_tokens,
        summaries.if_missing,
        verbatim_share=budget.verbatim_share,
    )
    # The chat is shortened for the whole reserves; half of them gives way to what is left, before anything is refused.
    last_limit_tokens = limit_of(least)
    drafts = [Draft(conversation, parts, terms, caches.passages)]
    if drafts[0].max_recalled_tokens:
        drafts.append(drafts[0].with_settings(recall=False))
    if any(isinstance(each.command, Restore) for each in conversation.commands):
        drafts.append(replace(drafts[-1], terms=replace(drafts[-1].terms, restores=False)))
    for draft in chain.from_iterable(each.alternatives() for each in drafts):
        if not bounded or (draft.tokens <= limit_tokens and not draft.is_crowded()):
            return draft.plan(model.id, budget, limit_tokens)
        if draft.tokens <= last_limit_tokens and not draft.is_crowded():
            return draft.plan(model.id, least, last_limit_tokens)
    raise ContextOverflow(least, last_limit_tokens, tuple(draft.shares()))


def _stays_whole(parts: PartsByDetail, settings: ContextSettings, budget: Budget, limit_tokens: int) -> bool:
    """Whether it is plain that no policy has ever had anything to do, nor will have for the next request."""
    conversation = parts.conversation
    may_change = (
        conversation.commands
        or conversation.external_summaries
        or settings.clip_limit is not None
        or settings.context_aim != "faithful"
        or settings.tool_output_pruning == "every_turn"
        or 0 < settings.summary_turn_trigger < len(conversation.turns)
    )
    tokens = 0 if may_change else _largest_tokens(parts)
    if may_change or tokens > limit_tokens or tokens >= _quiet_tokens(settings, budget, limit_tokens):
        return False
    return parts.first_cut == len(parts.parts)


def _plan_of_all(
    parts: PartsByDetail, settings: ContextSettings, model_id: str, budget: Budget, limit_tokens: int
) -> Plan:
    """Send the conversation as it is: what the policies lead to where none of them has anything to do."""
    conversation = parts.conversation
    entries, starts = [*conversation.instructions], []
    for number, part in enumerate(parts.parts):
        if number == parts.current:
            entries += conversation.volatile
        starts.append(len(entries))
        entries += part.entries
    starts.append(len(entries))
    tools = without_tools(conversation.tools) if settings.recall_tool else conversation.tools
    counts = parts.counter.entries(entries).plus(parts.counter.tools(tools))
    current = starts[parts.current]
    completed = current - len(conversation.volatile)
    return Plan(
        model=model_id,
        conversation=conversation,
        parts=parts,
        cutoffs=Cutoffs(),
        entries=tuple(entries),
        starts=starts,
        marks=CacheMarks(starts[0], starts[0], starts[0], completed, current, conversation.has_additions),
        budget=budget,
        limit_tokens=limit_tokens,
        tokens_before=counts.tokens,
        steps=tuple(Step(name, counts.tokens, triggered=False) for name in STEPS),
        counts=counts,
        tokens_without_new_summaries=counts.tokens,
        unoffered_tools=frozenset() if tools == conversation.tools else UNOFFERED,
    )


def segment_sizes(
    settings: ContextSettings, budget: Budget, *, window_tokens: int | None = None
) -> tuple[SegmentSizes, int]:
    """Return how a chat is divided for summaries, and how large the record beside them may be, in tokens.

    `window_tokens` is the window that segments are cut for, None for the budget's. A thrifty chat is divided in a large
    window as in a smaller one.
    """
    window_tokens = window_tokens or budget.window_tokens
    if settings.context_aim == "thrifty":
        window_tokens = min(window_tokens, THRIFTY_WINDOW_TOKENS)
        smaller_tokens = min(budget.window_tokens, THRIFTY_WINDOW_TOKENS)
        budget = split_window(smaller_tokens, output_tokens=budget.output_reserve_tokens)
    record_tokens = max_record_tokens(budget.input_tokens)
    summaries_tokens = int(budget.input_tokens * MESSAGE_SHARE) - record_tokens
    return SegmentSizes.of(settings, window_tokens, summaries_tokens=summaries_tokens), record_tokens


def may_be_shortened(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    model: ModelTerms,
    counter: TokenCounter,
    caches: PlanCaches,
) -> bool:
    """Return whether the chat is so large or so long that it may not be sent whole; only counts."""
    may_begin = 0 < settings.summary_turn_trigger < len(conversation.turns)
    for each in conversation.commands:
        may_begin |= isinstance(each.command, Compact) or each.command == SetAim("thrifty")
    if may_begin:
        return True
    budget, parts = _budget(settings, model), _parts(conversation, settings, model, counter, caches, {})
    least_tokens = _quiet_tokens(settings, budget, _limit(parts, model)(budget))
    if settings.context_aim == "thrifty":
        least_tokens = min(least_tokens, segment_sizes(settings, budget)[0].min_tokens)
    return _largest_tokens(parts) >= least_tokens


def _quiet_tokens(settings: ContextSettings, budget: Budget, limit_tokens: int) -> float:
    """Return the size from which on a faithful chat may have to give way, or have a summary made ahead of time."""
    limit_tokens -= max_recalled_tokens(settings, budget.input_tokens)
    share = min(settings.summary_ahead_ratio, settings.summary_trigger_ratio)
    return min(share * budget.input_tokens, settings.prune_trigger_ratio * limit_tokens)


def _largest_tokens(parts: PartsByDetail) -> int:
    """Return the size of everything, with what changes from request to request as it is decided with."""
    conversation = parts.conversation
    tokens = count_all(parts, replace(conversation, volatile=())).tokens + parts.summaries.tokens(0)
    return tokens + rounded_up(parts.counter.entries(conversation.volatile).tokens)


def _budget(settings: ContextSettings, model: ModelTerms) -> Budget:
    output_tokens = model.output_tokens or settings.context_max_output_tokens or model.max_output_tokens
    return split_window(model.window_tokens or UNKNOWN_WINDOW_TOKENS, output_tokens=output_tokens)


def _parts(
    conversation: Conversation,
    settings: ContextSettings,
    model: ModelTerms,
    counter: TokenCounter,
    caches: PlanCaches,
    found: Mapping[Segment, Summary],
) -> PartsByDetail:
    """Divide the conversation, and go on from what earlier requests have found of it."""
    budget = _budget(settings, model)
    sizes, record_tokens = segment_sizes(settings, budget, window_tokens=model.segment_window_tokens)
    limits = OutputLimits(
        budget.input_tokens,
        note="nothing" if settings.context_strategy == "clip" else "words",
        has_references=settings.recall_tool,
    )
    limits = NO_LIMITS if settings.context_strategy == "off" else limits
    name = b"".join([entry.digest for turn in conversation.turns[:1] for entry in turn.rounds[0]])
    name += repr((counter.family, counter.method, limits, sizes)).encode()
    measured = (caches.measured.get(name) or Measured()).beginning(conversation)
    record = UserRecord(conversation.turns, counter, caches.facts)
    index = SummaryIndex(conversation, record, sizes, found, record_tokens=record_tokens)
    index.known = measured.segments
    parts = PartsByDetail(conversation, limits, index, measured)
    caches.measured.put(name, measured)
    return parts


def _limit(parts: PartsByDetail, model: ModelTerms) -> Callable[[Budget], int]:
    """Return how many tokens by our count fit into a budget by the model's calibration, in steps.

    Only the limit goes by that. When summaries begin, and which, is a share of the plain budget and never moves with a
    bill: a factor below one leaves more room above the trigger, it does not raise the trigger.
    """
    calibration, counts = model.calibration, count_all(parts, parts.conversation)
    scaled_tokens = counts.text * calibration.upper_ratio + counts.media + counts.sealed
    beyond_reserve = scaled_tokens / max(1, counts.tokens) / (1 + OVERHEAD_SHARE)
    factor = max(1, math.ceil(beyond_reserve * LIMIT_STEPS_PER_UNIT)) / LIMIT_STEPS_PER_UNIT
    constant_tokens = rounded_up(math.ceil(calibration.constant_tokens))
    return lambda budget: int(max(0, budget.input_tokens - constant_tokens) / factor)
