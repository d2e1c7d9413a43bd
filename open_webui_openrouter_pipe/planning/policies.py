"""When old tool outputs become facts.

Owns one policy: outputs of the newest turns stay verbatim, older ones are stated as facts when that pays.
Only the plain count and the model's prices decide, so the frontier stays where it was put. It must not look
at the limit.

Clipping: only the last messages of a chat are sent.

Owns the choice of the turn at which a clipped chat begins. It always begins with a user's message, so no
answer is left without its question and no output without its call; instructions are not messages and always
stay.

Making a full chat small, without a model.

Owns two policies. `relieve` shrinks what is old when the budget is nearly full; `land` does whatever is
needed when it is over the limit, and lands well below it, so that the next turns need nothing. Both shrink
from the oldest and keep from the newest. Never given up: instructions, summaries, the user's latest message, the
calls of the current turn, and the rules that the user set.

When old turns are told by summaries.

Owns one policy: the oldest segments are told when the request fills most of its limit, or earlier where carrying
them has cost more than telling them does. As many are told as it takes to land low enough. Only counts and prices
decide, and a segment that is told for the first time counts by the room of its summary, so that the decision is
the same before and after the summary is written. It must not write summaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..conversation.budget import Pruning
from ..conversation.conversation import Turn
from ..conversation.rules import NOTE_OVERHEAD_TOKENS
from ..responses.items import is_message
from ..summaries.summary import max_summary_tokens
from .detail import DetailLevel
from .simulate import Cutoffs, SimulatedRequest, halvings, prunable_tokens, retention_end, summarizable_tokens


def shorten_old_tool_results(moment: SimulatedRequest) -> Cutoffs:
    """The frontier moves at the beginning of a turn, and then over all that is old enough."""
    if not moment.opens_turn:
        return moment.bounds
    won = prunable_tokens(moment)
    if won <= 0 or not _PRUNING_RULES[moment.terms.settings.tool_output_pruning](moment, won):
        return moment.bounds
    return moment.bounds.moved(DetailLevel.TOOL_FACTS, retention_end(moment))


def _pays(moment: SimulatedRequest, won_tokens: int) -> bool:
    """Batched: once the old outputs have cost about as much as changing the prefix costs now."""
    frontier = moment.bounds.ends[DetailLevel.TOOL_FACTS]
    following = moment.forms.tokens(
        DetailLevel.FULL, max(frontier, moment.bounds.ends[DetailLevel.FAILED_REDUCED]), moment.end
    )
    prices = moment.terms.prices
    return prices.pays(moment.waited.pruning_cost, prices.change_cost(following, won_tokens))


_PRUNING_RULES: Mapping[Pruning, Callable[[SimulatedRequest, int], bool]] = MappingProxyType(
    {
        "batched": _pays,
        "every_turn": lambda _moment, _won: True,
        "off": lambda _moment, _won: False,
    }
)


def clip_turns(moment: SimulatedRequest) -> Cutoffs:
    """At the beginning of a turn, leave out what is older than the last messages."""
    settings = moment.terms.settings
    limit = settings.clip_limit
    if limit is None or not moment.opens_turn:
        return moment.bounds
    counts = [count_messages(turn) for turn in moment.forms.turns[: moment.turn]]
    total = sum(counts) + 1
    if total < settings.clip_minimum_messages or total <= limit:
        return moment.bounds
    first, kept = moment.turn, 1
    while kept < limit and first > 0:
        first -= 1
        kept += counts[first]
    return moment.bounds.moved(DetailLevel.DROPPED, moment.forms.start_of(first))


def count_messages(turn: Turn) -> int:
    """Count messages as the chat shows them: what the user said, and the answer with all its rounds."""
    asked = sum(is_message(entry.item) and entry.item["role"] == "user" for entry in turn.entries)
    return asked + any(
        not is_message(entry.item) or entry.item["role"] == "assistant" for entry in turn.entries
    )


LOW_WATER_SHARE = 0.55
MIN_PRUNE_SHARE = 0.10
"""A relief that wins less than this share would be needed again soon: it waits for the landing."""

SHRINKING = (DetailLevel.FAILED_REDUCED, DetailLevel.TOOL_FACTS, DetailLevel.SKELETON)


def prune(moment: SimulatedRequest) -> Cutoffs:
    """When the budget is nearly full, shrink the turns that are not protected, only as far as needed."""
    terms = moment.terms
    before = moment.tokens()
    if before <= terms.settings.prune_trigger_ratio * terms.limit_tokens:
        return moment.bounds
    target = LOW_WATER_SHARE * terms.limit_tokens
    shrunk = moment.bounds
    for form in SHRINKING:
        shrunk = shrunk.moved(form, _protected_start(moment, terms.settings.protected_turns))
        if moment.tokens(shrunk) <= target:
            return shrunk
    won = before - moment.tokens(shrunk)
    return shrunk if won >= MIN_PRUNE_SHARE * terms.limit_tokens else moment.bounds


def evict(moment: SimulatedRequest) -> Cutoffs:
    """When the request is over the limit, the first of the candidates that is small enough.

    Where none is (a single message larger than the window), the smallest is given: the caller has to refuse
    it.
    """
    limit = moment.terms.limit_tokens
    if moment.tokens() <= limit:
        return moment.bounds
    target = LOW_WATER_SHARE * limit
    candidate = moment.bounds
    for candidate in _candidates(moment):
        if moment.tokens(candidate) <= target:
            return candidate
    if moment.tokens(candidate) <= limit:
        return candidate
    return min(moment.bounds, candidate.moved(DetailLevel.TOOL_FACTS, moment.end), key=moment.tokens)


def _candidates(moment: SimulatedRequest) -> Iterator[Cutoffs]:
    """Bounds from the mildest to the strictest.

    The protected turns are halved down to the current one; each time, older turns are shrunk and then left
    out. At last the earlier rounds of the current turn are stated as facts, one after the other.
    """
    shrunk = moment.bounds
    for protected in halvings(moment.terms.settings.protected_turns):
        start = _protected_start(moment, protected)
        for form in SHRINKING:
            shrunk = shrunk.moved(form, start)
            yield shrunk
        yield _without_oldest(moment, shrunk, start)
    current = shrunk.moved(DetailLevel.DROPPED, _protected_start(moment, 1))
    for end in range(_protected_start(moment, 1) + 1, moment.end):
        yield current.moved(DetailLevel.TOOL_FACTS, end)


def _without_oldest(moment: SimulatedRequest, bounds: Cutoffs, latest_start: int) -> Cutoffs:
    """Keep as many of the newest turns as fit the target, and those after `latest_start` in any case."""
    note = moment.forms.limits.pins_tokens + NOTE_OVERHEAD_TOKENS
    room = LOW_WATER_SHARE * moment.terms.limit_tokens - moment.fixed_tokens(bounds) - note
    gone = bounds.moved(DetailLevel.DROPPED, latest_start)
    for turn in range(moment.forms.parts[latest_start].turn - 1, -1, -1):
        longer = bounds.moved(DetailLevel.DROPPED, moment.forms.start_of(turn))
        if moment.parts_tokens(longer) > room:
            break
        gone = longer
    return gone


def _protected_start(moment: SimulatedRequest, turns: int) -> int:
    return moment.forms.start_of(moment.turn - turns + 1)


PAYING_SHARE = 0.50
"""Of the budget: below, a chat is sent whole, whatever it costs."""
LOWEST_SHARE = 0.30
"""Of the budget: so much stays as it is, whatever it costs."""
QUIET_TURNS = 10
"""Turns like the recent ones that should fit before the next summary is due; a chat that grows fast lands lower."""
MEASURED_TURNS = 8
SOURCE_SHARE = 0.3
"""What a summary's source comes to with tool outputs as facts, usually."""
WRITING_COST = 2.0
"""What a token of a summary's room costs to write: half of it is written, and output costs about four times input."""
MISCOUNT_STEPS = (1.0, 1.5, 2.25)
TOLERANCE = 1.25
"""How much more than a step the provider may count: 70 % of the budget are then 88 % of what it takes."""
LEAST_WON_SHARE = 0.10
"""A telling that wins less than this share would be due again soon: it waits until pruning is due as well."""


def summarize(moment: SimulatedRequest) -> Cutoffs:
    """Tell the oldest turns when the request is large, when that pays, or when the last telling is long ago.

    That is decided when a turn begins, and within a turn only when pruning is due as well.
    """
    settings = moment.terms.settings
    full = moment.tokens() >= settings.prune_trigger_ratio * moment.terms.limit_tokens
    if not (full or moment.opens_turn) or (moment.forms.shelf.is_empty and not moment.terms.asking):
        return moment.bounds
    for protected in halvings(settings.protected_turns):
        count = _count(moment, moment.turn + 1 - protected, full=full)
        if count:
            return moment.bounds.moved(
                DetailLevel.SUMMARIZED, moment.forms.start_of(moment.forms.shelf.ends[count - 1])
            )
        if not full:
            break
    return moment.bounds


def count_prefetched(moment: SimulatedRequest) -> int:
    """How many segments the next turn may have to tell; 0 when it will not come to that."""
    settings, forms = moment.terms.settings, moment.forms
    if settings.summary_ahead_ratio >= 1:
        return 0
    growth_tokens, requests = _usual_turn(moment)
    eligible_turns = min(moment.turn, moment.turn + 2 - settings.protected_turns)
    carried_tokens = max(0, summarizable_tokens(moment, forms.shelf.count(eligible_turns)))
    cost = moment.waited.telling_cost + requests * moment.terms.prices.waiting_cost(carried_tokens)
    later = replace(moment, waited=replace(moment.waited, telling_cost=cost))
    if paying := _paying(later, eligible_turns, more_tokens=growth_tokens):
        return paying
    if moment.tokens() < settings.summary_ahead_ratio * _base_tokens(moment):
        return 0
    count, won_tokens = _choose(moment, eligible_turns, _target_tokens(moment) - growth_tokens)
    return count if won_tokens > LEAST_WON_SHARE * _base_tokens(moment) else 0


def _count(moment: SimulatedRequest, eligible_turns: int, *, full: bool) -> int:
    """How many segments to tell now: as many as pay, or as few as it takes."""
    if paying := _paying(moment, eligible_turns):
        return paying
    large = moment.tokens() >= moment.terms.settings.summary_trigger_ratio * _base_tokens(moment)
    if not (large or full or _is_long_ago(moment)):
        return 0
    count, won_tokens = _choose(moment, eligible_turns, _target_tokens(moment))
    least_tokens = 0 if full or _is_long_ago(moment) else LEAST_WON_SHARE * _base_tokens(moment)
    return count if won_tokens > least_tokens else 0


def _paying(moment: SimulatedRequest, eligible_turns: int, *, more_tokens: float = 0.0) -> int:
    """How many segments it pays to tell; 0 where it does not, and where the chat is small beside its window."""
    base_tokens = _base_tokens(moment)
    if moment.tokens() + more_tokens < PAYING_SHARE * base_tokens:
        return 0
    count, won_tokens = _choose(moment, eligible_turns, LOWEST_SHARE * base_tokens - more_tokens)
    return count if won_tokens > LEAST_WON_SHARE * base_tokens and _pays_telling(moment, count) else 0


def _base_tokens(moment: SimulatedRequest) -> float:
    """What shares are taken of: the budget by the plain count, in coarse steps less where the provider counts more."""
    miscount = moment.terms.budget_tokens / max(1, moment.terms.limit_tokens)
    step = next((step for step in MISCOUNT_STEPS if miscount <= step * TOLERANCE), MISCOUNT_STEPS[-1])
    return moment.terms.budget_tokens / step


def _is_long_ago(moment: SimulatedRequest) -> bool:
    told_turns = moment.forms.turns_before(moment.bounds.ends[DetailLevel.SUMMARIZED])
    return 0 < moment.terms.settings.summary_turn_trigger <= moment.turn - told_turns


def _choose(moment: SimulatedRequest, eligible_turns: int, target_tokens: float) -> tuple[int, int]:
    """How many segments of the oldest turns it takes to come down to the target, and what telling them wins."""
    forms = moment.forms
    told = forms.told(moment.bounds.ends[DetailLevel.SUMMARIZED])
    aim_tokens = moment.tokens() - target_tokens
    chosen, won_tokens = 0, 0
    for count in range(told + 1, forms.shelf.count(eligible_turns) + 1):
        if not moment.terms.asking and forms.shelf.missing(count):
            continue
        chosen, won_tokens = count, summarizable_tokens(moment, count)
        if won_tokens >= aim_tokens:
            break
    return chosen, won_tokens


def _pays_telling(moment: SimulatedRequest, count: int) -> bool:
    """Whether waiting has cost about as much as the summaries, and as reading anew all that follows."""
    forms, prices = moment.forms, moment.terms.prices
    told = forms.told(moment.bounds.ends[DetailLevel.SUMMARIZED])
    following_tokens = moment.parts_tokens(moment.bounds)
    change_cost = prices.change_cost(following_tokens, summarizable_tokens(moment, count))
    source_tokens = forms.shelf.source_tokens(told, count)
    asking_cost = (
        (count - told) * prices.read * moment.tokens() if prices.rides else SOURCE_SHARE * source_tokens
    )
    writing_cost = WRITING_COST * (count - told) * max_summary_tokens(source_tokens // (count - told))
    return prices.pays(moment.waited.telling_cost, change_cost + asking_cost + writing_cost)


def _target_tokens(moment: SimulatedRequest) -> float:
    """Where to land: at a share of the limit, or lower where that would be full again within a few turns."""
    base_tokens = _base_tokens(moment)
    growth_tokens, _ = _usual_turn(moment)
    trigger_tokens = moment.terms.settings.summary_trigger_ratio * base_tokens
    return min(LOW_WATER_SHARE * base_tokens, trigger_tokens - QUIET_TURNS * growth_tokens)


def _usual_turn(moment: SimulatedRequest) -> tuple[float, float]:
    """What a turn has come to of late, in tokens and in requests."""
    forms = moment.forms
    first = max(0, moment.turn - MEASURED_TURNS)
    start, end = forms.start_of(first), forms.start_of(moment.turn)
    turns = max(1, moment.turn - first)
    return forms.tokens(DetailLevel.FULL, start, end) / turns, (end - start) / turns
