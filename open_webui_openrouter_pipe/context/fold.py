"""The past decided again from the beginning: what every earlier request of a chat looked like.

Owns the bounds between the forms and the fold that moves them, request by request, as the policies say. It
keeps no state between calls: the same history gives the same bounds, and a longer history begins with the
decisions of the shorter one. That is what keeps the prefix of a chat the same from request to request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from .forms import Form, Forms
from .pricing import CachePrices
from .settings import ContextSettings

Reason = Literal["retention", "clip", "prune", "landing"]


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

    `base_tokens` is what every request carries beside the parts, `limit_tokens` what a request may come to.
    """

    settings: ContextSettings
    prices: CachePrices
    base_tokens: int
    limit_tokens: int


@dataclass(frozen=True, slots=True)
class Moment:
    """One request of the chat, as it is about to be sent: the parts before `end` in the forms of `bounds`.

    `opens_turn` says that it is the first of its turn, `waited_cost` what was paid for carrying old outputs
    since the frontier last moved.
    """

    forms: Forms
    terms: Terms
    bounds: Bounds
    end: int
    opens_turn: bool = False
    waited_cost: float = 0.0

    @property
    def turn(self) -> int:
        """The place of the current turn."""
        return self.forms.parts[self.end - 1].turn

    def tokens(self, bounds: Bounds | None = None) -> int:
        """What the request comes to, with these bounds or its own."""
        bounds = bounds or self.bounds
        gone = bounds.ends[Form.GONE]
        note = sum(self.forms.counter.entry(entry).tokens for entry in self.forms.note(gone))
        return self.terms.base_tokens + note + self.parts_tokens(bounds)

    def parts_tokens(self, bounds: Bounds) -> int:
        """What the parts alone come to."""
        ends = (self.end, *bounds.ends[1:], 0)
        return sum(self.forms.tokens(form, ends[form + 1], ends[form]) for form in Form)


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
    """The bounds of the current request and of the one before, those of retention alone, and every epoch."""

    bounds: Bounds = field(default_factory=Bounds)
    previous: Bounds = field(default_factory=Bounds)
    retained: Bounds = field(default_factory=Bounds)
    epochs: tuple[Epoch, ...] = ()


def fold(forms: Forms, terms: Terms, policies: Sequence[tuple[Reason, Policy]]) -> Folded:
    """Replay the policies over all requests of the conversation, the current one last."""
    bounds = previous = retained = Bounds()
    epochs: list[Epoch] = []
    waited_cost = 0.0
    turn = -1
    for end in _requests(forms):
        moment = Moment(forms, terms, bounds, end, waited_cost=waited_cost)
        moment = replace(moment, opens_turn=moment.turn != turn)
        turn = moment.turn
        decided, begun = _decided(moment, policies)
        epochs += begun
        if "retention" in {epoch.reason for epoch in begun}:
            retained = retained.moved(Form.FACTS, retention_end(moment))
        previous, bounds = bounds, decided.bounds
        waited_cost = 0.0 if begun else waited_cost
        waited_cost += terms.prices.waiting_cost(prunable_tokens(decided))
    return Folded(bounds, previous, retained, tuple(epochs))


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
    start, end = moment.bounds.ends[Form.FACTS], retention_end(moment)
    return moment.forms.tokens(Form.WHOLE, start, end) - moment.forms.tokens(Form.FACTS, start, end)


def retention_end(moment: Moment) -> int:
    """The first part of the oldest turn whose outputs stay verbatim."""
    return moment.forms.start_of(moment.turn - moment.terms.settings.retention_turns + 1)


def _requests(forms: Forms) -> Iterator[int]:
    """Where requests were sent: after each part that awaits an answer, and at the end in any case."""
    ends = [at for at, part in enumerate(forms.parts, start=1) if part.awaits_answer]
    yield from ends
    if forms.parts and (not ends or ends[-1] != len(forms.parts)):
        yield len(forms.parts)
