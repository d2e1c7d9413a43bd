"""When and how far a chat is shortened.

Each of the five policies looks at one request and returns the cutoffs that it should have. All shorten from the
oldest. Never dropped: instructions, summaries, the user's latest message, the calls of the current turn, and the rules
that the user set. Only counts, prices and settings decide; a summary that is not written yet counts with the most it
may take. So the same history is always decided alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from ..conversation.conversation import Turn
from ..responses.items import is_message
from .detail import DetailLevel
from .simulate import Cutoffs, SimulatedRequest

SUMMARY_LOW_WATER_SHARE = 3 / 7
"""Of the trigger (30 % of the budget by default): summaries replace as many of the oldest turns as it takes."""
MIN_SUMMARIZED_SHARE = 1 / 7
"""Of the trigger (10 % of the budget by default): summaries that free less wait until they must be made."""
LOW_WATER_SHARE = 0.5
"""Pruning and eviction never take more than the other half of a chat at once."""

SHORTENED_LEVELS = (DetailLevel.TOOL_FACTS, DetailLevel.SKELETON, DetailLevel.EXCERPTS)
"""The levels at which a turn is still sent, but not whole, the mildest first."""


def shorten_old_tool_results(request: SimulatedRequest) -> Cutoffs:
    """At the beginning of a turn, state the outputs of all turns before the retained ones as facts.

    Batched: once the old outputs have cost about as much as changing the prefix costs now.
    """
    cutoffs, terms = request.cutoffs, request.terms
    pruning = terms.settings.tool_output_pruning
    if pruning == "off" or not request.opens_turn:
        return cutoffs
    freed_tokens = request.prunable_tokens()
    if freed_tokens <= 0:
        return cutoffs
    if pruning == "batched":
        frontier = cutoffs.ends[DetailLevel.TOOL_FACTS]
        following_tokens = request.parts.tokens(DetailLevel.FULL, frontier, request.end)
        change_cost = terms.prices.change_cost(following_tokens, freed_tokens)
        if not terms.prices.pays(request.waiting_cost, change_cost):
            return cutoffs
    return cutoffs.moved(DetailLevel.TOOL_FACTS, request.retention_end)


def clip_turns(request: SimulatedRequest) -> Cutoffs:
    """At the beginning of a turn, drop the turns before the last messages.

    A clipped chat begins with a user's message, so that no answer is without its question and no output without its
    call. Instructions are not messages and always stay.
    """
    settings = request.terms.settings
    limit = settings.clip_limit
    if limit is None or not request.opens_turn:
        return request.cutoffs
    counts = [count_messages(turn) for turn in request.parts.turns[: request.turn]]
    total = sum(counts) + 1
    if total < settings.clip_minimum_messages or total <= limit:
        return request.cutoffs
    first, kept = request.turn, 1
    while kept < limit and first > 0:
        first -= 1
        kept += counts[first]
    return request.cutoffs.moved(DetailLevel.DROPPED, request.parts.start_of(first))


def count_messages(turn: Turn) -> int:
    """Count messages as the chat shows them: what the user wrote, and the answer with all its rounds."""
    roles = [entry.item["role"] if is_message(entry.item) else "assistant" for entry in turn.entries]
    return roles.count("user") + ("assistant" in roles)


def summarize(request: SimulatedRequest) -> Cutoffs:
    """Replace the oldest turns by summaries when the request is large, or when the last summary is many turns ago.

    That is decided when a turn begins, and within a turn only when pruning is due as well: then protected turns
    are summarized, too.
    """
    settings, terms, cutoffs = request.terms.settings, request.terms, request.cutoffs
    tokens = request.tokens()
    must_shrink = tokens >= settings.prune_trigger_ratio * terms.limit_tokens
    if not (must_shrink or request.opens_turn):
        return cutoffs
    turns_since = request.turn - request.parts.turns_before(cutoffs.summarized)
    many_turns_ago = 0 < settings.summary_turn_trigger <= turns_since
    trigger_tokens = settings.summary_trigger_ratio * terms.budget_tokens
    if not (must_shrink or many_turns_ago or tokens >= trigger_tokens):
        return cutoffs
    least_freed = 0 if must_shrink or many_turns_ago else MIN_SUMMARIZED_SHARE * trigger_tokens
    target_tokens = tokens - SUMMARY_LOW_WATER_SHARE * trigger_tokens
    for protected in halvings(settings.protected_turns) if must_shrink else [settings.protected_turns]:
        count, freed = choose_segments(request, request.turn + 1 - protected, target_tokens)
        if freed > least_freed:
            end = request.parts.start_of(request.parts.summaries.ends[count - 1])
            return cutoffs.moved(DetailLevel.SUMMARIZED, end)
    return cutoffs


def segments_to_prefetch(request: SimulatedRequest) -> int:
    """Return how many segments should have summaries before the next turn; 0 while the chat is not large enough.

    They are those that would be summarized if the next turn brought the request just to the trigger.
    """
    settings, budget_tokens = request.terms.settings, request.terms.budget_tokens
    tokens = request.tokens()
    if settings.summary_ahead_ratio >= 1 or tokens < settings.summary_ahead_ratio * budget_tokens:
        return 0
    trigger_tokens = settings.summary_trigger_ratio * budget_tokens
    target_tokens = max(tokens, trigger_tokens) - SUMMARY_LOW_WATER_SHARE * trigger_tokens
    next_turn = request.turn + 1
    eligible_turns = min(request.turn, next_turn + 1 - settings.protected_turns)
    count, freed = choose_segments(request, eligible_turns, target_tokens)
    return count if freed > MIN_SUMMARIZED_SHARE * trigger_tokens else 0


def choose_segments(request: SimulatedRequest, eligible_turns: int, target_tokens: float) -> tuple[int, int]:
    """Return how many of the oldest segments to summarize to free `target_tokens`, and what that frees.

    All that are eligible where they are too few; 0 where none are.
    """
    parts, cutoffs, summaries = request.parts, request.cutoffs, request.parts.summaries
    done = parts.segments_before(cutoffs.summarized)
    before = request.parts_tokens(cutoffs) + summaries.max_tokens(done)
    chosen, freed_tokens = 0, 0
    for count in range(done + 1, summaries.count(eligible_turns) + 1):
        if request.terms.missing_summaries == "skip" and summaries.missing(count):
            continue
        rest = cutoffs.moved(DetailLevel.DROPPED, parts.start_of(summaries.ends[count - 1]))
        freed_tokens = before - request.parts_tokens(rest) - summaries.max_tokens(count)
        chosen = count
        if freed_tokens >= target_tokens:
            break
    return chosen, freed_tokens


def prune(request: SimulatedRequest) -> Cutoffs:
    """When the budget is nearly full, shorten the turns that are not protected, as few of the oldest as needed.

    Where that is not enough to let the next turns go quietly, nothing is changed before it must be.
    """
    settings = request.terms.settings
    trigger_tokens = settings.prune_trigger_ratio * request.terms.limit_tokens
    if request.tokens() <= trigger_tokens:
        return request.cutoffs
    end = request.start_of_newest(settings.protected_turns)
    steps = ((level, end) for level in SHORTENED_LEVELS)
    return _give_way(request, steps, _low_water_tokens(request, trigger_tokens)) or request.cutoffs


def evict(request: SimulatedRequest) -> Cutoffs:
    """When the request is over the limit, shorten the oldest, then drop them, each only as far as needed.

    Down to the low-water mark where earlier turns alone can give it; otherwise just below the limit. At the very last,
    what the model has just read is stated as facts. Where nothing fits (a single message larger than the window), the
    smallest is returned: the caller has to refuse it.
    """
    limit_tokens = request.terms.limit_tokens
    if request.tokens() <= limit_tokens:
        return request.cutoffs
    earlier, current = _eviction_steps(request)
    fitting = _give_way(request, earlier, _low_water_tokens(request, limit_tokens))
    fitting = fitting or _give_way(request, (*earlier, *current), limit_tokens)
    if fitting is not None:
        return fitting
    dropped = request.cutoffs.moved(DetailLevel.DROPPED, request.start_of_newest(1))
    return min(request.cutoffs, dropped.moved(DetailLevel.TOOL_FACTS, request.end), key=request.tokens)


_Step: TypeAlias = tuple[DetailLevel, int]
"""What may be sent at a level at most: the parts before an end."""


def _eviction_steps(request: SimulatedRequest) -> tuple[Sequence[_Step], Sequence[_Step]]:
    """Return what gives way, the mildest first: of the earlier turns, and what is for a request that fits no other way.

    The retained turns stay in some form while that is possible, the protected ones longer than the outputs of the
    current turn's earlier rounds, which were asked for to answer the latest message.
    """
    settings, current = request.terms.settings, request.start_of_newest(1)
    protected, *fewer = [request.start_of_newest(turns) for turns in halvings(settings.protected_turns)]
    earlier = [
        *((level, protected) for level in SHORTENED_LEVELS),
        (DetailLevel.DROPPED, min(request.retention_end, protected)),
        *((level, end) for end in fewer for level in SHORTENED_LEVELS),
        (DetailLevel.DROPPED, protected),
    ]
    return earlier, [
        (DetailLevel.TOOL_FACTS, request.end - 1),
        (DetailLevel.DROPPED, current),
    ]


def _give_way(request: SimulatedRequest, steps: Iterable[_Step], max_tokens: float) -> Cutoffs | None:
    """Take the steps in their order, each only as far as needed; None when all are not enough."""
    cutoffs = request.cutoffs
    for level, end in steps:
        cutoffs = _moved_as_needed(request, cutoffs, (level, end), max_tokens)
        if request.tokens(cutoffs) <= max_tokens:
            return cutoffs
    return None


def _moved_as_needed(request: SimulatedRequest, cutoffs: Cutoffs, step: _Step, max_tokens: float) -> Cutoffs:
    """Move a level over as few of the oldest turns, or rounds of the current turn, as bring the request down."""
    (level, last), parts, current = step, request.parts, request.start_of_newest(1)
    turns = range(parts.turns_before(cutoffs.ends[level]), request.turn + 1)
    ends = [end for end in map(parts.start_of, turns) if end <= last]
    ends += range(max(current, cutoffs.ends[level]) + 1, last + 1)
    if not ends:
        return cutoffs

    def is_enough(end: int) -> bool:
        return request.tokens(cutoffs.moved(level, end)) <= max_tokens

    return cutoffs.moved(level, ends[bisect_left(ends, 1, hi=len(ends) - 1, key=is_enough)])


def _low_water_tokens(request: SimulatedRequest, high_tokens: float) -> float:
    """Return what a request that came to `high_tokens` is brought down to, so that the next turns need nothing.

    There should be room for so many turns of the chat's mean size that reading their requests from the cache costs
    what changing the prefix costs now; for one where nothing is cached; and never for more than half of the chat.
    """
    prices, parts, current = request.terms.prices, request.parts, request.start_of_newest(1)
    growth_tokens = parts.tokens(DetailLevel.FULL, 0, current or request.end) / max(1, request.turn)
    quiet_turns = max(1.0, (prices.write - prices.read) / prices.read) if prices.read else math.inf
    room_tokens = high_tokens - request.fixed_tokens(request.cutoffs)
    return high_tokens - min(LOW_WATER_SHARE * room_tokens, quiet_turns * growth_tokens)


def halvings(turns: int) -> Iterator[int]:
    """Yield a number of protected turns, halved down to the current one alone."""
    while turns > 1:
        yield turns
        turns //= 2
    yield 1
