"""The past decided again from the beginning: what every earlier request of a chat looked like.

Owns the bounds between the forms and the fold that moves them, request by request, as the policies say. It
keeps no state between calls: the same history gives the same bounds, and a longer history begins with the
decisions of the shorter one. That is what keeps the prefix of a chat the same from request to request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from .forms import SENT_FORMS, Form, Forms
from .pricing import CachePrices
from .settings import ContextSettings

Reason = Literal["retention", "clip", "summary", "prune", "landing"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where each form ends: parts before `ends[form]` are sent in that form or a shorter one."""

    ends: tuple[int, ...] = (0,) * len(Form)

    def moved(self, form: Form, end: int) -> Bounds:
        """The same with all parts before `end` in at most this form; a bound never moves back."""
        return Bounds(tuple(max(was, end) if at <= form else was for at, was in enumerate(self.ends)))

    def form_of(self, part: int) -> Form:
        """The form in which a part is sent."""
        return next((form for form in reversed(Form) if part < self.ends[form]), Form.WHOLE)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the policies go by: settings, prices, and sizes in tokens.

    `base_tokens` is what every request carries beside the parts and the summaries. `limit_tokens` is what a request
    may come to, and `budget_tokens` the same before any calibration. With `asking`, a summary that is missing counts
    as one that will be there.
    """

    settings: ContextSettings
    prices: CachePrices
    base_tokens: int
    limit_tokens: int
    budget_tokens: int
    asking: bool = True


@dataclass(frozen=True, slots=True)
class Waited:
    """What was paid for carrying old outputs since the frontier last moved, and old turns since the last were told."""

    pruning_cost: float = 0.0
    telling_cost: float = 0.0

    def after(self, reasons: AbstractSet[Reason]) -> Waited:
        """The same after a request that has changed the prefix for these reasons, if any."""
        if not reasons:
            return self
        return Waited(telling_cost=0.0 if "summary" in reasons else self.telling_cost)

    def plus(self, pruning_cost: float, telling_cost: float) -> Waited:
        """The same after one more request."""
        return Waited(self.pruning_cost + pruning_cost, self.telling_cost + telling_cost)


@dataclass(frozen=True, slots=True)
class Moment:
    """One request of the chat, as it is about to be sent: the parts before `end` in the forms of `bounds`.

    `opens_turn` says that it is the first of its turn, `waited` what was paid for carrying what is old.
    """

    forms: Forms
    terms: Terms
    bounds: Bounds
    end: int
    opens_turn: bool = False
    waited: Waited = Waited()

    @property
    def turn(self) -> int:
        """The place of the current turn."""
        return self.forms.parts[self.end - 1].turn

    def tokens(self, bounds: Bounds | None = None) -> int:
        """What the request comes to, with these bounds or its own; summaries with all their room."""
        bounds = bounds or self.bounds
        known = self.forms.sizes.get((self.end, bounds))
        if known is None:
            known = self.forms.sizes[self.end, bounds] = self._parts_and_note_tokens(bounds)
        return self.fixed_tokens(bounds) + known

    def _parts_and_note_tokens(self, bounds: Bounds) -> int:
        told, gone = bounds.ends[Form.TOLD], bounds.ends[Form.GONE]
        note = sum(self.forms.counter.entry(entry).tokens for entry in self.forms.note(told, gone))
        return note + self.parts_tokens(bounds)

    def actual_tokens(self, bounds: Bounds | None = None) -> int:
        """The same with the summaries as they are."""
        told = (bounds or self.bounds).ends[Form.TOLD]
        unused = self.forms.standing_room_tokens(told) - self.forms.standing_tokens(told)
        return self.tokens(bounds) - unused

    def fixed_tokens(self, bounds: Bounds) -> int:
        """What stands before all parts: instructions, tools and summaries."""
        return self.terms.base_tokens + self.forms.standing_room_tokens(bounds.ends[Form.TOLD])

    def parts_tokens(self, bounds: Bounds) -> int:
        """What the parts alone come to."""
        tokens, end = 0, self.end
        for form in SENT_FORMS:
            start = bounds.ends[form + 1]
            if start < end:
                tokens += self.forms.tokens(form, start, end)
                end = start
        return tokens


Policy: TypeAlias = Callable[[Moment], Bounds]
"""Looks at a request and gives the bounds that it should have: those it has, or ones further on."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A request whose prefix differs from the one before, why, and what it won in tokens.

    `request` is the number of parts that it holds, `turn` the place of its turn.
    """

    request: int
    turn: int
    reason: Reason
    tokens_won: int


@dataclass(frozen=True, slots=True)
class Folded:
    """What the requests of the past have come to: bounds (now, before, and of retention alone), epochs, costs."""

    bounds: Bounds = field(default_factory=Bounds)
    previous: Bounds = field(default_factory=Bounds)
    retained: Bounds = field(default_factory=Bounds)
    epochs: tuple[Epoch, ...] = ()
    waited: Waited = Waited()


def fold(forms: Forms, terms: Terms, policies: Sequence[tuple[Reason, Policy]]) -> Folded:
    """Replay the policies over all requests of the conversation, the current one last."""
    bounds = previous = retained = Bounds()
    epochs: list[Epoch] = []
    waited, carried = Waited(), 0
    turn = -1
    for end in _requests(forms):
        moment = Moment(forms, terms, bounds, end, waited=waited)
        moment = replace(moment, opens_turn=moment.turn != turn)
        turn = moment.turn
        decided, begun = _decided(moment, policies)
        epochs += begun
        reasons = {epoch.reason for epoch in begun}
        if "retention" in reasons:
            retained = retained.moved(Form.FACTS, retention_end(moment))
        previous, bounds = bounds, decided.bounds
        if moment.opens_turn or begun:
            carried = _tellable_tokens(decided)
        waited = waited.after(reasons).plus(
            terms.prices.waiting_cost(prunable_tokens(decided)), terms.prices.waiting_cost(carried)
        )
    return Folded(bounds, previous, retained, tuple(epochs), waited)


def _tellable_tokens(moment: Moment) -> int:
    """What would be won by telling all that may be told."""
    settings = moment.terms.settings
    if settings.context_strategy != "summarize":
        return 0
    count = moment.forms.shelf.count(moment.turn + 1 - settings.protected_turns)
    return max(0, tellable_tokens(moment, count))


def _decided(moment: Moment, policies: Sequence[tuple[Reason, Policy]]) -> tuple[Moment, list[Epoch]]:
    """The request with the bounds that the policies give it, and the epochs that begin with it."""
    epochs: list[Epoch] = []
    for reason, policy in policies:
        moved = policy(moment)
        if moved != moment.bounds:
            won = moment.tokens() - moment.tokens(moved)
            epochs.append(Epoch(moment.end, moment.turn, reason, won))
            moment = replace(moment, bounds=moved)
    return moment, epochs


def prunable_tokens(moment: Moment) -> int:
    """What would be won now by stating as facts all outputs that are older than the retention turns."""
    tokens = moment.forms.tokens
    start, end = moment.bounds.ends[Form.FACTS], retention_end(moment)
    spent = min(max(start, moment.bounds.ends[Form.SPENT]), end)
    now = tokens(Form.SPENT, start, spent) + tokens(Form.WHOLE, spent, end)
    return now - tokens(Form.FACTS, start, end)


def tellable_tokens(moment: Moment, count: int) -> int:
    """What would be won now by telling the first `count` segments, with all the room that new summaries may take."""
    forms, bounds = moment.forms, moment.bounds
    told = forms.told(bounds.ends[Form.TOLD])
    if count <= told:
        return 0
    rest = bounds.moved(Form.GONE, forms.start_of(forms.shelf.ends[count - 1]))
    rooms = forms.shelf.room_tokens(count) - forms.shelf.room_tokens(told)
    return moment.parts_tokens(bounds) - moment.parts_tokens(rest) - rooms


def retention_end(moment: Moment) -> int:
    """The first part of the oldest turn whose outputs stay verbatim."""
    return moment.forms.start_of(moment.turn - moment.terms.settings.retention_turns + 1)


def _requests(forms: Forms) -> Iterator[int]:
    """Where requests were sent: after each part that awaits an answer, and at the end in any case."""
    ends = [at for at, part in enumerate(forms.parts, start=1) if part.awaits_answer]
    yield from ends
    if forms.parts and (not ends or ends[-1] != len(forms.parts)):
        yield len(forms.parts)


def halved(turns: int) -> Iterator[int]:
    """A number of protected turns, halved down to the current one alone."""
    while turns > 1:
        yield turns
        turns //= 2
    yield 1
