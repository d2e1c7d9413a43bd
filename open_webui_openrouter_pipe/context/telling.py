"""When old turns are told by summaries.

Owns one policy: the oldest segments are told when the request fills most of its limit, or earlier where carrying
them has cost more than telling them does. As many are told as it takes to land low enough. Only counts and prices
decide, and a segment that is told for the first time counts by the room of its summary, so that the decision is
the same before and after the summary is written. It must not write summaries.
"""

from __future__ import annotations

from dataclasses import replace

from .fold import Bounds, Moment, halved, tellable_tokens
from .forms import Form
from .summary import room_tokens

LANDING_SHARE = 0.55
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


def tell(moment: Moment) -> Bounds:
    """Tell the oldest turns when the request is large, when that pays, or when the last telling is long ago.

    That is decided when a turn begins, and within a turn only when pruning is due as well.
    """
    settings = moment.terms.settings
    full = moment.tokens() >= settings.prune_trigger_ratio * moment.terms.limit_tokens
    if not (full or moment.opens_turn) or (moment.forms.shelf.is_empty and not moment.terms.asking):
        return moment.bounds
    for protected in halved(settings.protected_turns):
        count = _count(moment, moment.turn + 1 - protected, full=full)
        if count:
            return moment.bounds.moved(Form.TOLD, moment.forms.start_of(moment.forms.shelf.ends[count - 1]))
        if not full:
            break
    return moment.bounds


def soon_told(moment: Moment) -> int:
    """How many segments the next turn may have to tell; 0 when it will not come to that."""
    settings, forms = moment.terms.settings, moment.forms
    if settings.summary_ahead_ratio >= 1:
        return 0
    growth_tokens, requests = _usual_turn(moment)
    eligible_turns = min(moment.turn, moment.turn + 2 - settings.protected_turns)
    carried_tokens = max(0, tellable_tokens(moment, forms.shelf.count(eligible_turns)))
    cost = moment.waited.telling_cost + requests * moment.terms.prices.waiting_cost(carried_tokens)
    later = replace(moment, waited=replace(moment.waited, telling_cost=cost))
    if paying := _paying(later, eligible_turns, more_tokens=growth_tokens):
        return paying
    if moment.tokens() < settings.summary_ahead_ratio * _base_tokens(moment):
        return 0
    count, won_tokens = _choose(moment, eligible_turns, _target_tokens(moment) - growth_tokens)
    return count if won_tokens > LEAST_WON_SHARE * _base_tokens(moment) else 0


def _count(moment: Moment, eligible_turns: int, *, full: bool) -> int:
    """How many segments to tell now: as many as pay, or as few as it takes."""
    if paying := _paying(moment, eligible_turns):
        return paying
    large = moment.tokens() >= moment.terms.settings.summary_trigger_ratio * _base_tokens(moment)
    if not (large or full or _is_long_ago(moment)):
        return 0
    count, won_tokens = _choose(moment, eligible_turns, _target_tokens(moment))
    least_tokens = 0 if full or _is_long_ago(moment) else LEAST_WON_SHARE * _base_tokens(moment)
    return count if won_tokens > least_tokens else 0


def _paying(moment: Moment, eligible_turns: int, *, more_tokens: float = 0.0) -> int:
    """How many segments it pays to tell; 0 where it does not, and where the chat is small beside its window."""
    base_tokens = _base_tokens(moment)
    if moment.tokens() + more_tokens < PAYING_SHARE * base_tokens:
        return 0
    count, won_tokens = _choose(moment, eligible_turns, LOWEST_SHARE * base_tokens - more_tokens)
    return count if won_tokens > LEAST_WON_SHARE * base_tokens and _pays(moment, count) else 0


def _base_tokens(moment: Moment) -> float:
    """What shares are taken of: the budget by the plain count, in coarse steps less where the provider counts more."""
    miscount = moment.terms.budget_tokens / max(1, moment.terms.limit_tokens)
    step = next((step for step in MISCOUNT_STEPS if miscount <= step * TOLERANCE), MISCOUNT_STEPS[-1])
    return moment.terms.budget_tokens / step


def _is_long_ago(moment: Moment) -> bool:
    told_turns = moment.forms.turns_before(moment.bounds.ends[Form.TOLD])
    return 0 < moment.terms.settings.summary_turn_trigger <= moment.turn - told_turns


def _choose(moment: Moment, eligible_turns: int, target_tokens: float) -> tuple[int, int]:
    """How many segments of the oldest turns it takes to come down to the target, and what telling them wins."""
    forms = moment.forms
    told = forms.told(moment.bounds.ends[Form.TOLD])
    aim_tokens = moment.tokens() - target_tokens
    chosen, won_tokens = 0, 0
    for count in range(told + 1, forms.shelf.count(eligible_turns) + 1):
        if not moment.terms.asking and forms.shelf.missing(count):
            continue
        chosen, won_tokens = count, tellable_tokens(moment, count)
        if won_tokens >= aim_tokens:
            break
    return chosen, won_tokens


def _pays(moment: Moment, count: int) -> bool:
    """Whether waiting has cost about as much as the summaries, and as reading anew all that follows."""
    forms, prices = moment.forms, moment.terms.prices
    told = forms.told(moment.bounds.ends[Form.TOLD])
    following_tokens = moment.parts_tokens(moment.bounds)
    change_cost = prices.change_cost(following_tokens, tellable_tokens(moment, count))
    source_tokens = forms.shelf.source_tokens(told, count)
    asking_cost = (
        (count - told) * prices.read * moment.tokens() if prices.rides else SOURCE_SHARE * source_tokens
    )
    writing_cost = WRITING_COST * (count - told) * room_tokens(source_tokens // (count - told))
    return prices.pays(moment.waited.telling_cost, change_cost + asking_cost + writing_cost)


def _target_tokens(moment: Moment) -> float:
    """Where to land: at a share of the limit, or lower where that would be full again within a few turns."""
    base_tokens = _base_tokens(moment)
    growth_tokens, _ = _usual_turn(moment)
    trigger_tokens = moment.terms.settings.summary_trigger_ratio * base_tokens
    return min(LANDING_SHARE * base_tokens, trigger_tokens - QUIET_TURNS * growth_tokens)


def _usual_turn(moment: Moment) -> tuple[float, float]:
    """What a turn has come to of late, in tokens and in requests."""
    forms = moment.forms
    first = max(0, moment.turn - MEASURED_TURNS)
    start, end = forms.start_of(first), forms.start_of(moment.turn)
    turns = max(1, moment.turn - first)
    return forms.tokens(Form.WHOLE, start, end) / turns, (end - start) / turns
