"""When it pays to change the past of a chat.

Owns the economics of a cached prefix. Changing something old makes the provider read all that follows anew;
leaving it there costs its reading with every request. It must not know turns or items: tokens in, a
decision out.

The rule is rent-or-buy: what the waiting has cost so far is held against what the change costs now. In a
chat that grows steadily, changing when the two are equal is the optimum of the economic order quantity; it
needs no guess of how long the chat will go on.

The past decided again from the beginning: what every earlier request of a chat looked like.

Owns the bounds between the forms and the fold that moves them, request by request, as the policies say. It
keeps no state between calls: the same history gives the same bounds, and a longer history begins with the
decisions of the shorter one. That is what keeps the prefix of a chat the same from request to request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ..conversation.budget import ContextSettings
from .detail import SENT_LEVELS, DetailLevel, PartsByDetail

PATIENCE = 0.6
"""Share of the cost of a change that waiting may come to. Below one, because the decision comes once a turn
only and so is late by half a turn on average, and because each change makes the next one cheaper."""

RATIO_DIGITS = 2
CHEAP_READ = 0.25
"""Price up to which reading a whole chat from the cache costs less than reading its old turns alone."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What a token costs when it is read from the cache and when it is written to it; plain input costs 1."""

    read: float = 1.0
    write: float = 1.0

    @classmethod
    def of(
        cls, price_input: float | None, price_read: float | None, price_write: float | None
    ) -> CachePrices:
        """Read a catalogue row, rounded, so that a small change of prices moves nothing decided before.

        A model without a price for cached reads does not cache; one without a price for writes does not
        bill them.
        """
        if not price_input or price_input < 0 or price_read is None:
            return cls()
        write = price_input if price_write is None else price_write
        return cls(round(price_read / price_input, RATIO_DIGITS), round(write / price_input, RATIO_DIGITS))

    @property
    def rides(self) -> bool:
        """Whether a question is asked best at the end of a chat that is in the cache, or else by itself."""
        return self.read <= CHEAP_READ

    def waiting_cost(self, prunable_tokens: int) -> float:
        """What one more request pays for carrying what could be pruned."""
        return prunable_tokens * self.read

    def change_cost(self, following_tokens: int, won_tokens: int) -> float:
        """What the next request pays more for `following_tokens`, of which `won_tokens` go away."""
        return (following_tokens - won_tokens) * self.write - following_tokens * self.read

    def pays(self, waited_cost: float, change_cost: float) -> bool:
        """Tell whether the waiting so far has cost enough to make the change worth it."""
        return waited_cost >= PATIENCE * change_cost


BreakReason = Literal["retention", "clip", "summary", "prune", "landing"]


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Where each form ends: parts before `ends[form]` are sent in that form or a shorter one."""

    ends: tuple[int, ...] = (0,) * len(DetailLevel)

    def moved(self, form: DetailLevel, end: int) -> Cutoffs:
        """The same with all parts before `end` in at most this form; a bound never moves back."""
        return Cutoffs(tuple(max(was, end) if at <= form else was for at, was in enumerate(self.ends)))

    def form_of(self, part: int) -> DetailLevel:
        """The form in which a part is sent."""
        return next((form for form in reversed(DetailLevel) if part < self.ends[form]), DetailLevel.FULL)


@dataclass(frozen=True, slots=True)
class SimulationTerms:
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
class AccruedCost:
    """What was paid for carrying old outputs since the frontier last moved, and old turns since the last were told."""

    pruning_cost: float = 0.0
    telling_cost: float = 0.0

    def after(self, reasons: AbstractSet[BreakReason]) -> AccruedCost:
        """The same after a request that has changed the prefix for these reasons, if any."""
        if not reasons:
            return self
        return AccruedCost(telling_cost=0.0 if "summary" in reasons else self.telling_cost)

    def plus(self, pruning_cost: float, telling_cost: float) -> AccruedCost:
        """The same after one more request."""
        return AccruedCost(self.pruning_cost + pruning_cost, self.telling_cost + telling_cost)


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request of the chat, as it is about to be sent: the parts before `end` in the forms of `bounds`.

    `opens_turn` says that it is the first of its turn, `waited` what was paid for carrying what is old.
    """

    forms: PartsByDetail
    terms: SimulationTerms
    bounds: Cutoffs
    end: int
    opens_turn: bool = False
    waited: AccruedCost = AccruedCost()

    @property
    def turn(self) -> int:
        """The place of the current turn."""
        return self.forms.parts[self.end - 1].turn

    def tokens(self, bounds: Cutoffs | None = None) -> int:
        """What the request comes to, with these bounds or its own; summaries with all their room."""
        bounds = bounds or self.bounds
        known = self.forms.sizes.get((self.end, bounds))
        if known is None:
            known = self.forms.sizes[self.end, bounds] = self._parts_and_note_tokens(bounds)
        return self.fixed_tokens(bounds) + known

    def _parts_and_note_tokens(self, bounds: Cutoffs) -> int:
        told, gone = bounds.ends[DetailLevel.SUMMARIZED], bounds.ends[DetailLevel.DROPPED]
        note = sum(self.forms.counter.entry(entry).tokens for entry in self.forms.note(told, gone))
        return note + self.parts_tokens(bounds)

    def actual_tokens(self, bounds: Cutoffs | None = None) -> int:
        """The same with the summaries as they are."""
        told = (bounds or self.bounds).ends[DetailLevel.SUMMARIZED]
        unused = self.forms.standing_room_tokens(told) - self.forms.standing_tokens(told)
        return self.tokens(bounds) - unused

    def fixed_tokens(self, bounds: Cutoffs) -> int:
        """What stands before all parts: instructions, tools and summaries."""
        return self.terms.base_tokens + self.forms.standing_room_tokens(bounds.ends[DetailLevel.SUMMARIZED])

    def parts_tokens(self, bounds: Cutoffs) -> int:
        """What the parts alone come to."""
        tokens, end = 0, self.end
        for form in SENT_LEVELS:
            start = bounds.ends[form + 1]
            if start < end:
                tokens += self.forms.tokens(form, start, end)
                end = start
        return tokens


Policy: TypeAlias = Callable[[SimulatedRequest], Cutoffs]
"""Looks at a request and gives the bounds that it should have: those it has, or ones further on."""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """A request whose prefix differs from the one before, why, and what it won in tokens.

    `request` is the number of parts that it holds, `turn` the place of its turn.
    """

    request: int
    turn: int
    reason: BreakReason
    tokens_won: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the requests of the past have come to: bounds (now, before, and of retention alone), epochs, costs."""

    bounds: Cutoffs = field(default_factory=Cutoffs)
    previous: Cutoffs = field(default_factory=Cutoffs)
    retained: Cutoffs = field(default_factory=Cutoffs)
    epochs: tuple[PrefixBreak, ...] = ()
    waited: AccruedCost = AccruedCost()


def simulate(
    forms: PartsByDetail, terms: SimulationTerms, policies: Sequence[tuple[BreakReason, Policy]]
) -> Simulation:
    """Replay the policies over all requests of the conversation, the current one last."""
    bounds = previous = retained = Cutoffs()
    epochs: list[PrefixBreak] = []
    waited, carried = AccruedCost(), 0
    turn = -1
    for end in _requests(forms):
        moment = SimulatedRequest(forms, terms, bounds, end, waited=waited)
        moment = replace(moment, opens_turn=moment.turn != turn)
        turn = moment.turn
        decided, begun = _decided(moment, policies)
        epochs += begun
        reasons = {epoch.reason for epoch in begun}
        if "retention" in reasons:
            retained = retained.moved(DetailLevel.TOOL_FACTS, retention_end(moment))
        previous, bounds = bounds, decided.bounds
        if moment.opens_turn or begun:
            carried = _tellable_tokens(decided)
        waited = waited.after(reasons).plus(
            terms.prices.waiting_cost(prunable_tokens(decided)), terms.prices.waiting_cost(carried)
        )
    return Simulation(bounds, previous, retained, tuple(epochs), waited)


def _tellable_tokens(moment: SimulatedRequest) -> int:
    """What would be won by telling all that may be told."""
    settings = moment.terms.settings
    if settings.context_strategy != "summarize":
        return 0
    count = moment.forms.shelf.count(moment.turn + 1 - settings.protected_turns)
    return max(0, summarizable_tokens(moment, count))


def _decided(
    moment: SimulatedRequest, policies: Sequence[tuple[BreakReason, Policy]]
) -> tuple[SimulatedRequest, list[PrefixBreak]]:
    """The request with the bounds that the policies give it, and the epochs that begin with it."""
    epochs: list[PrefixBreak] = []
    for reason, policy in policies:
        moved = policy(moment)
        if moved != moment.bounds:
            won = moment.tokens() - moment.tokens(moved)
            epochs.append(PrefixBreak(moment.end, moment.turn, reason, won))
            moment = replace(moment, bounds=moved)
    return moment, epochs


def prunable_tokens(moment: SimulatedRequest) -> int:
    """What would be won now by stating as facts all outputs that are older than the retention turns."""
    tokens = moment.forms.tokens
    start, end = moment.bounds.ends[DetailLevel.TOOL_FACTS], retention_end(moment)
    spent = min(max(start, moment.bounds.ends[DetailLevel.FAILED_REDUCED]), end)
    now = tokens(DetailLevel.FAILED_REDUCED, start, spent) + tokens(DetailLevel.FULL, spent, end)
    return now - tokens(DetailLevel.TOOL_FACTS, start, end)


def summarizable_tokens(moment: SimulatedRequest, count: int) -> int:
    """What would be won now by telling the first `count` segments, with all the room that new summaries may take."""
    forms, bounds = moment.forms, moment.bounds
    told = forms.told(bounds.ends[DetailLevel.SUMMARIZED])
    if count <= told:
        return 0
    rest = bounds.moved(DetailLevel.DROPPED, forms.start_of(forms.shelf.ends[count - 1]))
    rooms = forms.shelf.max_tokens(count) - forms.shelf.max_tokens(told)
    return moment.parts_tokens(bounds) - moment.parts_tokens(rest) - rooms


def retention_end(moment: SimulatedRequest) -> int:
    """The first part of the oldest turn whose outputs stay verbatim."""
    return moment.forms.start_of(moment.turn - moment.terms.settings.retention_turns + 1)


def _requests(forms: PartsByDetail) -> Iterator[int]:
    """Where requests were sent: after each part that awaits an answer, and at the end in any case."""
    ends = [at for at, part in enumerate(forms.parts, start=1) if part.awaits_answer]
    yield from ends
    if forms.parts and (not ends or ends[-1] != len(forms.parts)):
        yield len(forms.parts)


def halvings(turns: int) -> Iterator[int]:
    """A number of protected turns, halved down to the current one alone."""
    while turns > 1:
        yield turns
        turns //= 2
    yield 1
