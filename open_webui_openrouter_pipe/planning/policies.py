"""When and how far a chat is shortened.

Each of the six policies looks at one request and returns the cutoffs that it should have. All shorten from the
oldest. Never dropped: instructions, summaries, the user's latest message, and the calls of the current turn; what the
user wrote in omitted turns stays as a record. Only counts, prices and settings decide; a summary that is not written
yet counts with the most it may take. So the same history is always decided alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

from ..conversation.conversation import Turn
from ..conversation.slash import Compact
from ..responses.items import is_message
from .detail import SENT_LEVELS, DetailLevel
from .simulate import OWN_SHARE, Cutoffs, SimulatedRequest, own_tokens

LOW_WATER_SHARE = 0.5
"""Pruning and eviction never take more than the other half of a chat at once."""

SHORTENED_LEVELS = (DetailLevel.TOOL_FACTS, DetailLevel.SKELETON, DetailLevel.EXCERPTS)
"""The levels at which a turn is still sent, but not whole, the mildest first."""


def shorten_old_tool_results(request: SimulatedRequest) -> Cutoffs:
    """State the outputs of all turns before the retained ones as facts, if it is time.

    At the beginning of a turn; within one only when pruning is due as well.
    """
    tokens = request.tokens()
    may_change = request.opens_turn or tokens >= request.prune_tokens
    is_due = may_change and facts_are_due(request, request.turn, tokens)
    end = request.retention_end(request.turn)
    return request.cutoffs.moved(DetailLevel.TOOL_FACTS, end) if is_due else request.cutoffs


def facts_are_due(request: SimulatedRequest, turn: int, tokens: float) -> bool:
    """Return whether old outputs become facts in a turn that finds the chat so large: this one or the next.

    Batched: when that pays; in a faithful chat not below the trigger, and only if the next turn gains from it. That
    one waits no longer than the next turn fits below the size at which pruning is due.
    """
    settings, end = request.terms.settings, request.retention_end(turn)
    freed_tokens = request.prunable_tokens(end)
    if settings.tool_output_pruning != "batched" or freed_tokens <= 0:
        return settings.tool_output_pruning == "every_turn" and freed_tokens > 0
    if settings.context_aim == "faithful":
        if tokens < request.trigger_tokens or freed_tokens < request.turn_tokens:
            return False
        if tokens + request.turn_tokens >= request.prune_tokens:
            return True
    frontier = request.cutoffs.ends[DetailLevel.TOOL_FACTS]
    following_tokens = request.parts.tokens(DetailLevel.FULL, frontier, request.end) - freed_tokens
    requests = request.requests_in(frontier, end)
    return request.terms.prices.pays(freed_tokens, requests, following_tokens, tokens=tokens)


def clip_turns(request: SimulatedRequest) -> Cutoffs:
    """Drop the turns before the last messages; that moves only where a turn begins.

    A clipped chat begins with a user's message, so that no answer is without its question and no output without its
    call. Instructions are not messages and always stay.
    """
    settings = request.terms.settings
    limit, parts = settings.clip_limit, request.parts
    if limit is None:
        return request.cutoffs
    counts = map(
        count_messages, reversed(parts.turns[: request.turn][-max(limit, settings.clip_minimum_messages) :])
    )
    totals = [*accumulate(counts, initial=1)]
    if totals[-1] < settings.clip_minimum_messages or totals[-1] <= limit:
        return request.cutoffs
    first = request.turn - bisect_left(totals, limit)
    return request.cutoffs.moved(DetailLevel.DROPPED, parts.start_of(first))


def count_messages(turn: Turn) -> int:
    """Count messages as the chat shows them: what the user wrote, and the answer with all its rounds."""
    roles = [entry.item["role"] if is_message(entry.item) else "assistant" for entry in turn.entries]
    return roles.count("user") + ("assistant" in roles)


def summarize(request: SimulatedRequest) -> Cutoffs:
    """Replace the oldest turns by summaries, as far as the aim has it.

    At the beginning of a turn, when the request has reached the trigger, when the last summary is many turns ago, or,
    in a thrifty chat, when that pays; within a turn only when pruning is due as well. Then turns that are kept
    otherwise are summarized, too.
    """
    settings, cutoffs, tokens = request.terms.settings, request.cutoffs, request.tokens()
    must_shrink = tokens >= request.prune_tokens
    if not (must_shrink or request.opens_turn):
        return cutoffs
    turns_since = request.turn - request.parts.turns_before(cutoffs.summarized)
    many_turns_ago = 0 < settings.summary_turn_trigger <= turns_since
    kept_turns = settings.protected_turns if many_turns_ago else settings.kept_turns
    is_worthwhile = many_turns_ago or compaction_pays(request, request.turn + 1 - kept_turns)
    # The trigger counts as the request would be, had no policy looked at it yet.
    if not (must_shrink or is_worthwhile or request.tokens(request.previous) >= request.trigger_tokens):
        return cutoffs
    count = due_segments(request, request.turn, tokens, kept_turns, is_worthwhile=is_worthwhile)
    return request.summarized(count)


def compact(request: SimulatedRequest) -> Cutoffs:
    """Replace all turns but the newest by summaries where the user has just commanded it, if that frees anything."""
    commands = request.parts.commands(request.turn) if request.opens_turn else ()
    if not any(isinstance(each, Compact) for each in commands):
        return request.cutoffs
    count, freed_tokens = choose_segments(request, request.turn - 1, math.inf)
    return request.summarized(count if freed_tokens > 0 else 0)


def due_segments(
    request: SimulatedRequest, turn: int, tokens: float, kept_turns: int, *, is_worthwhile: bool
) -> int:
    """Return how many of the oldest segments to summarize in a turn that finds the chat so large; 0 for none.

    A thrifty request becomes as small as can be; a faithful one leaves room below the trigger for as many turns as keep
    their tool outputs. What is not worthwhile by itself has to make room for a turn at least, and waits for old outputs
    to become facts.
    """
    settings, must_shrink = request.terms.settings, tokens >= request.prune_tokens
    surplus_tokens = tokens - request.trigger_tokens + settings.retention_turns * request.turn_tokens
    surplus_tokens = math.inf if settings.context_aim == "thrifty" else surplus_tokens
    is_batched = settings.tool_output_pruning == "batched"
    facts_free_tokens = request.prunable_tokens(request.retention_end(turn)) if is_batched else 0
    waits = surplus_tokens <= 0 or facts_free_tokens >= request.turn_tokens
    if waits and not (must_shrink or is_worthwhile):
        return 0
    least_freed = 0 if is_worthwhile else request.turn_tokens
    last = turn if is_worthwhile else request.parts.turns_before(request.shortened_end(turn))
    for kept, least in _forced_attempts(request) if must_shrink else [(kept_turns, least_freed)]:
        count, freed = choose_segments(request, min(last, request.turn, turn + 1 - kept), surplus_tokens)
        if freed > least:
            return count
    return 0


def _forced_attempts(request: SimulatedRequest) -> Iterator[tuple[int, float]]:
    """Yield how many turns to keep when the request must become smaller, halved to one, and what that has to free.

    A thrifty chat keeps fewer rather than break the prefix again in the next turn.
    """
    kept = request.terms.settings.kept_turns
    least = request.turn_tokens if request.terms.settings.context_aim == "thrifty" else 0
    while kept > 1:
        yield kept, least
        kept //= 2
    yield from ((1, least), (1, 0))


def compaction_pays(request: SimulatedRequest, eligible_turns: int) -> bool:
    """Return whether replacing its oldest turns now saves a thrifty chat more than it costs.

    That is until there is as much to replace again, which takes as many requests as it did.
    """
    compacted = request.summarizable(eligible_turns)
    if request.terms.settings.context_aim != "thrifty" or compacted == request.cutoffs:
        return False
    requests = request.requests_in(request.cutoffs.summarized, compacted.summarized)
    tokens, left_tokens = request.likely_tokens(), request.likely_tokens(compacted)
    following_tokens = left_tokens - request.terms.base_tokens
    return request.terms.prices.pays(tokens - left_tokens, requests, following_tokens, tokens=tokens)


def segments_to_prefetch(request: SimulatedRequest) -> int:
    """Return how many segments should have summaries before the next turn; 0 while that will need none.

    They are those that would be summarized if the next turn brought the request just to the trigger; in a thrifty
    chat, also those that it will pay to summarize then.
    """
    settings, tokens = request.terms.settings, request.tokens()
    pays = compaction_pays(request, min(request.turn, request.turn + 2 - settings.kept_turns))
    is_near = pays or tokens >= settings.summary_ahead_ratio * request.terms.budget_tokens
    if settings.summary_ahead_ratio >= 1 or not is_near:
        return 0
    turn, next_tokens = request.turn + 1, max(request.trigger_tokens, tokens + request.turn_tokens)
    if facts_are_due(request, turn, next_tokens):
        shortened = request.cutoffs.moved(DetailLevel.TOOL_FACTS, request.retention_end(turn))
        next_tokens -= request.freed_tokens(shortened)
        request = replace(request, cutoffs=shortened)
    return due_segments(request, turn, next_tokens, settings.kept_turns, is_worthwhile=pays)


def choose_segments(request: SimulatedRequest, eligible_turns: int, target_tokens: float) -> tuple[int, int]:
    """Return how many of the oldest segments to summarize to free `target_tokens`, and what that frees.

    All that are eligible where they are too few; 0 where none are.
    """
    parts, cutoffs, summaries = request.parts, request.cutoffs, request.parts.summaries
    done = parts.segments_before(cutoffs.summarized)
    before = request.parts_tokens(cutoffs) + summaries.max_tokens(done)
    chosen, freed_tokens = 0, 0
    eligible = summaries.count_completed(eligible_turns, current_turn=request.turn)
    for count in range(done + 1, eligible + 1):
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
    if request.tokens() <= request.prune_tokens:
        return request.cutoffs
    steps = ((level, _protected_start(request)) for level in SHORTENED_LEVELS)
    low_water_tokens = _low_water_tokens(request, request.prune_tokens)
    cutoffs = _give_way(request, steps, low_water_tokens)
    return cutoffs if request.tokens(cutoffs) <= low_water_tokens else request.cutoffs


def evict(request: SimulatedRequest) -> Cutoffs:
    """Bring the request below the limit; where the prefix changes, what the pipe writes in it below its share, too.

    For that, the oldest turns are dropped whose tool results are facts.
    """
    cutoffs, parts = _below_limit(request), request.parts
    most_tokens = OWN_SHARE * request.terms.budget_tokens
    if cutoffs == request.previous or own_tokens(parts, cutoffs) <= most_tokens:
        return cutoffs
    first, end = map(parts.turns_before, (cutoffs.dropped, request.verbatim_start(request.turn)))
    dropped = (cutoffs.moved(DetailLevel.DROPPED, parts.start_of(turn + 1)) for turn in range(first, end))
    enough = (moved for moved in dropped if own_tokens(parts, moved) <= most_tokens)
    return min(cutoffs, next(enough, cutoffs), key=request.tokens)


def _below_limit(request: SimulatedRequest) -> Cutoffs:
    """When the request is over the limit, shorten the oldest, then drop them, each only as far as needed.

    Down to the low-water mark where earlier turns alone can give it; otherwise just below the limit. At the very last,
    what the model has just read is stated as facts. Where nothing fits (a single message larger than the window), the
    smallest is returned: the caller has to refuse it.
    """
    limit_tokens = request.terms.limit_tokens
    if request.tokens() <= limit_tokens:
        return request.cutoffs
    earlier, newest, last = _eviction_steps(request)
    cutoffs = _give_way(request, earlier, _low_water_tokens(request, limit_tokens))
    if request.tokens(cutoffs) > limit_tokens:
        cutoffs = _give_way(request, (*earlier, *newest), limit_tokens)
    if request.tokens(cutoffs) > limit_tokens:
        unsummarized = replace(cutoffs, ends=(*cutoffs.ends[: DetailLevel.SUMMARIZED], 0))
        if request.tokens(unsummarized) <= limit_tokens + request.terms.reserved_tokens:
            return unsummarized
        cutoffs = _give_way(request, (*earlier, *newest, *last), limit_tokens)
    if request.tokens(cutoffs) <= limit_tokens:
        return cutoffs
    dropped = request.cutoffs.moved(DetailLevel.DROPPED, request.start_of_newest(1))
    return min(request.cutoffs, dropped.moved(DetailLevel.TOOL_FACTS, request.end), key=request.tokens)


def _protected_start(request: SimulatedRequest) -> int:
    """Return the first part of the turns that are protected or stay word for word."""
    protected = request.start_of_newest(request.terms.settings.protected_turns)
    return min(protected, request.verbatim_start(request.turn))


_Step: TypeAlias = tuple[DetailLevel, int]
"""What may be sent at a level at most: the parts before an end."""


def _eviction_steps(request: SimulatedRequest) -> tuple[Sequence[_Step], Sequence[_Step], Sequence[_Step]]:
    """Return what gives way, the mildest first: of the earlier turns, and what is for a request that fits no other way.

    The retained turns stay in some form while that is possible, the protected ones longer than the outputs of the
    current turn's earlier rounds, which were asked for to answer the latest message. Apart from these, how the last
    completed turn is shortened, before which the summaries give way.
    """
    protected, verbatim = _protected_start(request), request.verbatim_start(request.turn)
    last, current = request.start_of_newest(2), request.start_of_newest(1)
    earlier = [
        *((level, protected) for level in SHORTENED_LEVELS),
        (DetailLevel.DROPPED, min(request.retention_end(request.turn), protected)),
        *((level, verbatim) for level in SHORTENED_LEVELS),
        (DetailLevel.DROPPED, verbatim),
    ]
    newest = [
        *((level, last) for level in (*SHORTENED_LEVELS, DetailLevel.DROPPED)),
        (DetailLevel.TOOL_FACTS, request.end - 1),
    ]
    return earlier, newest, [(level, current) for level in (*SENT_LEVELS[2:], DetailLevel.DROPPED)]


def _give_way(request: SimulatedRequest, steps: Iterable[_Step], max_tokens: float) -> Cutoffs:
    """Take the steps in their order, each only as far as needed; all of them where they are not enough."""
    cutoffs = request.cutoffs
    for level, end in steps:
        # A note may take more than the turns that it stands for: these stay.
        cutoffs = min(
            cutoffs, _moved_as_needed(request, cutoffs, (level, end), max_tokens), key=request.tokens
        )
        if request.tokens(cutoffs) <= max_tokens:
            break
    return cutoffs


def _moved_as_needed(request: SimulatedRequest, cutoffs: Cutoffs, step: _Step, max_tokens: float) -> Cutoffs:
    """Move a level over as few of the oldest turns, or rounds of the current turn, as bring the request down."""
    (level, last), parts, current = step, request.parts, request.start_of_newest(1)
    turns = range(parts.turns_before(cutoffs.ends[level]), request.turn + 1)
    ends = [end for end in map(parts.start_of, turns) if end <= last]
    ends += range(max(current, cutoffs.ends[level]) + 1, last + 1)
    if not ends:
        return cutoffs

    def is_enough(end: int) -> bool:
        moved = cutoffs.moved(level, end)
        without_note = request.fixed_tokens(moved) + request.parts_tokens(moved)
        return without_note <= max_tokens and request.tokens(moved) <= max_tokens

    end = ends[bisect_left(ends, 1, hi=len(ends) - 1, key=is_enough)]
    if level == DetailLevel.DROPPED and not is_enough(end):
        # The note grows with what is dropped: fewer turns may be enough where all are not.
        end = next(filter(is_enough, ends), end)
    return cutoffs.moved(level, end)


def _low_water_tokens(request: SimulatedRequest, high_tokens: float) -> float:
    """Return what a request that came to `high_tokens` is brought down to, so that the next turns need nothing.

    There should be room for so many turns of the chat's mean size that reading their requests from the cache costs
    what changing the prefix costs now; for one where nothing is cached; and never for more than half of the chat.
    """
    prices = request.terms.prices.at(high_tokens)
    parts, current = request.parts, request.start_of_newest(1)
    growth_tokens = parts.tokens(DetailLevel.FULL, 0, current or request.end) / max(1, request.turn)
    quiet_turns = max(1.0, (prices.write - prices.read) / prices.read) if prices.read else math.inf
    room_tokens = high_tokens - request.fixed_tokens(request.cutoffs)
    return high_tokens - min(LOW_WATER_SHARE * room_tokens, quiet_turns * growth_tokens)
