"""Making a full chat small, without a model.

Owns two policies. `relieve` shrinks what is old when the budget is nearly full; `land` does whatever is
needed when it is over the limit, and lands well below it, so that the next turns need nothing. Both shrink
from the oldest and keep from the newest. Never given up: instructions, summaries, the user's latest message, the
calls of the current turn, and the rules that the user set.
"""

from __future__ import annotations

from collections.abc import Iterator

from .fold import Bounds, Moment, halved
from .forms import Form
from .pins import NOTE_OVERHEAD_TOKENS

LANDING_SHARE = 0.55
LEAST_RELIEF_SHARE = 0.10
"""A relief that wins less than this share would be needed again soon: it waits for the landing."""

SHRINKING = (Form.SPENT, Form.FACTS, Form.LEAN)


def relieve(moment: Moment) -> Bounds:
    """When the budget is nearly full, shrink the turns that are not protected, only as far as needed."""
    terms = moment.terms
    before = moment.tokens()
    if before <= terms.settings.prune_trigger_ratio * terms.limit_tokens:
        return moment.bounds
    target = LANDING_SHARE * terms.limit_tokens
    shrunk = moment.bounds
    for form in SHRINKING:
        shrunk = shrunk.moved(form, _protected_start(moment, terms.settings.protected_turns))
        if moment.tokens(shrunk) <= target:
            return shrunk
    won = before - moment.tokens(shrunk)
    return shrunk if won >= LEAST_RELIEF_SHARE * terms.limit_tokens else moment.bounds


def land(moment: Moment) -> Bounds:
    """When the request is over the limit, the first of the candidates that is small enough.

    Where none is (a single message larger than the window), the smallest is given: the caller has to refuse
    it.
    """
    limit = moment.terms.limit_tokens
    if moment.tokens() <= limit:
        return moment.bounds
    target = LANDING_SHARE * limit
    candidate = moment.bounds
    for candidate in _candidates(moment):
        if moment.tokens(candidate) <= target:
            return candidate
    if moment.tokens(candidate) <= limit:
        return candidate
    return min(moment.bounds, candidate.moved(Form.FACTS, moment.end), key=moment.tokens)


def _candidates(moment: Moment) -> Iterator[Bounds]:
    """Bounds from the mildest to the strictest.

    The protected turns are halved down to the current one; each time, older turns are shrunk and then left
    out. At last the earlier rounds of the current turn are stated as facts, one after the other.
    """
    shrunk = moment.bounds
    for protected in halved(moment.terms.settings.protected_turns):
        start = _protected_start(moment, protected)
        for form in SHRINKING:
            shrunk = shrunk.moved(form, start)
            yield shrunk
        yield _without_oldest(moment, shrunk, start)
    current = shrunk.moved(Form.GONE, _protected_start(moment, 1))
    for end in range(_protected_start(moment, 1) + 1, moment.end):
        yield current.moved(Form.FACTS, end)


def _without_oldest(moment: Moment, bounds: Bounds, latest_start: int) -> Bounds:
    """Keep as many of the newest turns as fit the target, and those after `latest_start` in any case."""
    note = moment.forms.limits.pins_tokens + NOTE_OVERHEAD_TOKENS
    room = LANDING_SHARE * moment.terms.limit_tokens - moment.fixed_tokens(bounds) - note
    gone = bounds.moved(Form.GONE, latest_start)
    for turn in range(moment.forms.parts[latest_start].turn - 1, -1, -1):
        longer = bounds.moved(Form.GONE, moment.forms.start_of(turn))
        if moment.parts_tokens(longer) > room:
            break
        gone = longer
    return gone


def _protected_start(moment: Moment, turns: int) -> int:
    return moment.forms.start_of(moment.turn - turns + 1)
