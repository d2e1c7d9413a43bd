"""When and how far a chat is shortened.

Each of the five policies looks at one request and returns the cutoffs that it should have. All shorten from the
oldest. Never dropped: instructions, summaries, the user's latest message, the calls of the current turn, and the rules
that the user set. Only counts, prices and settings decide; a summary that is not written yet counts with the most it
may take. So the same history is always decided alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..conversation.conversation import Turn
from ..conversation.rules import NOTE_OVERHEAD_TOKENS
from ..responses.items import is_message
from .detail import DetailLevel
from .simulate import Cutoffs, SimulatedRequest

SUMMARY_LOW_WATER_SHARE = 3 / 7
"""Of the trigger (30 % of the budget by default): summaries replace as many of the oldest turns as it takes."""
MIN_SUMMARIZED_SHARE = 1 / 7
"""Of the trigger (10 % of the budget by default): summaries that free less wait until they must be made."""
LOW_WATER_SHARE = 0.55
"""Of the limit: pruning and eviction go down to it, so that the next turns need nothing."""
MIN_FREED_SHARE = 0.10
"""A change that frees less would be needed again soon: it waits until it must be."""

_SHORTENED_LEVELS = (DetailLevel.TOOL_FACTS, DetailLevel.SKELETON)


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
    """When the budget is nearly full, shorten the turns that are not protected, only as far as needed."""
    settings, limit_tokens = request.terms.settings, request.terms.limit_tokens
    before = request.tokens()
    if before <= settings.prune_trigger_ratio * limit_tokens:
        return request.cutoffs
    shortened = request.cutoffs
    for level in _SHORTENED_LEVELS:
        shortened = shortened.moved(level, request.start_of_newest(settings.protected_turns))
        if request.tokens(shortened) <= LOW_WATER_SHARE * limit_tokens:
            return shortened
    freed_tokens = before - request.tokens(shortened)
    return shortened if freed_tokens >= MIN_FREED_SHARE * limit_tokens else request.cutoffs


def evict(request: SimulatedRequest) -> Cutoffs:
    """When the request is over the limit, shorten and drop the oldest until it is well below.

    The mildest candidate that is small enough wins. Where none fits (a single message larger than the window), the
    smallest is returned: the caller has to refuse it.
    """
    limit_tokens = request.terms.limit_tokens
    if request.tokens() <= limit_tokens:
        return request.cutoffs
    candidate = request.cutoffs
    for candidate in _eviction_candidates(request):
        if request.tokens(candidate) <= LOW_WATER_SHARE * limit_tokens:
            return candidate
    if request.tokens(candidate) <= limit_tokens:
        return candidate
    return min(request.cutoffs, candidate.moved(DetailLevel.TOOL_FACTS, request.end), key=request.tokens)


def _eviction_candidates(request: SimulatedRequest) -> Iterator[Cutoffs]:
    """Yield cutoffs from the mildest to the strictest.

    The protected turns are halved down to the current one; each time, older turns are shortened and then dropped.
    At last the earlier rounds of the current turn are stated as facts, one after the other.
    """
    shortened = request.cutoffs
    for protected in halvings(request.terms.settings.protected_turns):
        start = request.start_of_newest(protected)
        for level in _SHORTENED_LEVELS:
            shortened = shortened.moved(level, start)
            yield shortened
        yield _drop_oldest(request, shortened, start)
    current_start = request.start_of_newest(1)
    current = shortened.moved(DetailLevel.DROPPED, current_start)
    for end in range(current_start + 1, request.end):
        yield current.moved(DetailLevel.TOOL_FACTS, end)


def _drop_oldest(request: SimulatedRequest, cutoffs: Cutoffs, protected_start: int) -> Cutoffs:
    """Keep as many of the newest turns as fit below the low-water mark, and the protected ones in any case."""
    note_tokens = request.parts.limits.rules_tokens + NOTE_OVERHEAD_TOKENS
    target_tokens = LOW_WATER_SHARE * request.terms.limit_tokens
    max_tokens = target_tokens - request.fixed_tokens(cutoffs) - note_tokens
    dropped = cutoffs.moved(DetailLevel.DROPPED, protected_start)
    for turn in range(request.parts.parts[protected_start].turn - 1, -1, -1):
        longer = cutoffs.moved(DetailLevel.DROPPED, request.parts.start_of(turn))
        if request.parts_tokens(longer) > max_tokens:
            break
        dropped = longer
    return dropped


def halvings(turns: int) -> Iterator[int]:
    """Yield a number of protected turns, halved down to the current one alone."""
    while turns > 1:
        yield turns
        turns //= 2
    yield 1
