"""Every past request of a chat, decided again: the cutoffs between levels of detail, moved as the policies say.

It keeps no state between calls: the same history has the same cutoffs, and a longer history begins with the decisions
of the shorter one. That keeps the prefix of a chat the same from request to request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ..conversation.budget import ContextSettings
from .detail import SENT_LEVELS, DetailLevel, PartsByDetail

CHANGE_THRESHOLD_SHARE = 0.6
"""A change is made once waiting has cost this share of what the change costs. Below one, because a decision once a turn
is half a turn late on average, and because each change makes the next one cheaper."""
RATIO_DIGITS = 2
CHEAP_READ = 0.25
"""Price up to which reading a whole chat from the cache costs less than reading its old turns alone."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What a token costs when it is read from the cache and when it is written to it; plain input costs 1.

    Changing something old makes the provider read all that follows anew; leaving it costs its reading with each
    request. The rule is rent-or-buy: what the waiting has cost so far is compared with what the change costs now.
    In a chat that grows steadily, changing when the two are equal is the optimum of the economic order quantity;
    it needs no guess of how long the chat will go on.
    """

    read: float = 1.0
    write: float = 1.0

    @classmethod
    def of(
        cls, price_input: float | None, price_read: float | None, price_write: float | None
    ) -> CachePrices:
        """Read a catalog row, rounded, so that a small change of prices moves nothing decided before.

        A model without a price for cached reads does not cache; one without a price for writes does not
        bill them.
        """
        if not price_input or price_input < 0 or price_read is None:
            return cls()
        write = price_input if price_write is None else price_write
        return cls(round(price_read / price_input, RATIO_DIGITS), round(write / price_input, RATIO_DIGITS))

    @property
    def shares_cache(self) -> bool:
        """Whether a question about a chat costs least at the end of the cached chat itself."""
        return self.read <= CHEAP_READ

    def waiting_cost(self, prunable_tokens: int) -> float:
        """Return what one more request pays for carrying what could be pruned."""
        return prunable_tokens * self.read

    def change_cost(self, following_tokens: int, freed_tokens: int) -> float:
        """Return what the next request pays more for `following_tokens`, of which `freed_tokens` are removed."""
        return (following_tokens - freed_tokens) * self.write - following_tokens * self.read

    def pays(self, waiting_cost: float, change_cost: float) -> bool:
        """Return whether the waiting so far has cost enough to make the change worth it."""
        return waiting_cost >= CHANGE_THRESHOLD_SHARE * change_cost


BreakReason = Literal["retention", "clip", "summary", "prune", "evict"]


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Where each level of detail ends: parts before `ends[level]` are sent at that level or a lower one."""

    ends: tuple[int, ...] = (0,) * len(DetailLevel)

    def moved(self, level: DetailLevel, end: int) -> Cutoffs:
        """Return the same with all parts before `end` at most at this level; a cutoff never moves back."""
        return Cutoffs(tuple(max(old, end) if at <= level else old for at, old in enumerate(self.ends)))

    def level_of(self, part: int) -> DetailLevel:
        """Return the level at which a part is sent."""
        return next((level for level in reversed(DetailLevel) if part < self.ends[level]), DetailLevel.FULL)

    @property
    def summarized(self) -> int:
        """How many parts are replaced by summaries."""
        return self.ends[DetailLevel.SUMMARIZED]

    @property
    def dropped(self) -> int:
        """How many parts are not sent themselves, summarized ones included."""
        return self.ends[DetailLevel.DROPPED]


MissingSummaryMode = Literal["request", "skip"]
"""Whether a plan may require summaries that are not available, or does without them."""


@dataclass(frozen=True, slots=True)
class SimulationTerms:
    """What the policies go by: settings, prices, and sizes in tokens.

    `limit_tokens` is the most that a request may take, `budget_tokens` the same before any calibration, `base_tokens`
    what every request carries beside the parts and the summaries.
    """

    settings: ContextSettings
    prices: CachePrices
    limit_tokens: int
    budget_tokens: int
    missing_summaries: MissingSummaryMode = "skip"
    base_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request of the chat, as it is about to be sent: the parts before `end` at the levels of `cutoffs`.

    `opens_turn` says that it is the first of its turn, `waiting_cost` what was paid for carrying prunable outputs
    since the prefix last changed.
    """

    parts: PartsByDetail
    terms: SimulationTerms
    cutoffs: Cutoffs
    end: int
    opens_turn: bool = False
    waiting_cost: float = 0.0

    @property
    def turn(self) -> int:
        """The index of the current turn."""
        return self.parts.parts[self.end - 1].turn

    def tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the request's size with these cutoffs or its own; summaries count with the most they may take."""
        cutoffs = cutoffs or self.cutoffs
        note = self.parts.counter.entries(self.parts.note(cutoffs.summarized, cutoffs.dropped))
        return self.fixed_tokens(cutoffs) + note.tokens + self.parts_tokens(cutoffs)

    def actual_tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the same with the summaries as they are."""
        segments = self.parts.segments_before((cutoffs or self.cutoffs).summarized)
        unused = self.parts.summaries.max_tokens(segments) - self.parts.summaries.tokens(segments)
        return self.tokens(cutoffs) - unused

    def fixed_tokens(self, cutoffs: Cutoffs) -> int:
        """Return what stands before all parts: instructions, tools and summaries."""
        segments = self.parts.segments_before(cutoffs.summarized)
        return self.terms.base_tokens + self.parts.summaries.max_tokens(segments)

    def parts_tokens(self, cutoffs: Cutoffs) -> int:
        """Return what the parts alone take."""
        tokens, end = 0, self.end
        for level in SENT_LEVELS:
            start = cutoffs.ends[level + 1]
            if start < end:
                tokens += self.parts.tokens(level, start, end)
                end = start
        return tokens

    def start_of_newest(self, turns: int) -> int:
        """Return the first part of the newest turns, of which the current one is the last."""
        return self.parts.start_of(self.turn - turns + 1)

    @property
    def retention_end(self) -> int:
        """The first part of the oldest turn whose tool outputs stay verbatim."""
        return self.start_of_newest(self.terms.settings.retention_turns)

    def prunable_tokens(self) -> int:
        """Return what stating all outputs before the retained turns as facts would free now."""
        start, end = self.cutoffs.ends[DetailLevel.TOOL_FACTS], self.retention_end
        full = self.parts.tokens(DetailLevel.FULL, start, end)
        return full - self.parts.tokens(DetailLevel.TOOL_FACTS, start, end)


Policy: TypeAlias = Callable[[SimulatedRequest], Cutoffs]
"""Looks at a request and returns the cutoffs that it should have: those it has, or ones further on."""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """A request with this many parts, in this turn: why its prefix differs from the one before, and what that freed."""

    request: int
    turn: int
    reason: BreakReason
    freed_tokens: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The last request's cutoffs, those of the `previous` one, those of retention alone, and all changes so far."""

    cutoffs: Cutoffs = field(default_factory=Cutoffs)
    previous: Cutoffs = field(default_factory=Cutoffs)
    retained: Cutoffs = field(default_factory=Cutoffs)
    breaks: tuple[PrefixBreak, ...] = ()


def simulate(
    parts: PartsByDetail, terms: SimulationTerms, policies: Sequence[tuple[BreakReason, Policy]]
) -> Simulation:
    """Apply the policies to all requests: one after each part that awaits an answer, the current one last."""
    cutoffs = previous = retained = Cutoffs()
    breaks: list[PrefixBreak] = []
    waiting_cost, turn = 0.0, -1
    count = len(parts.parts)
    for end, part in enumerate(parts.parts, start=1):
        if not (part.awaits_answer or end == count):
            continue
        request = SimulatedRequest(parts, terms, cutoffs, end, waiting_cost=waiting_cost)
        request = replace(request, opens_turn=request.turn != turn)
        turn = request.turn
        breaks_before = len(breaks)
        for reason, policy in policies:
            moved = policy(request)
            if moved != request.cutoffs:
                freed_tokens = request.tokens() - request.tokens(moved)
                breaks.append(PrefixBreak(end, turn, reason, freed_tokens))
                request = replace(request, cutoffs=moved)
                if reason == "retention":
                    retained = retained.moved(DetailLevel.TOOL_FACTS, request.retention_end)
        previous, cutoffs = cutoffs, request.cutoffs
        if len(breaks) > breaks_before:
            waiting_cost = 0.0
        waiting_cost += terms.prices.waiting_cost(request.prunable_tokens())
    return Simulation(cutoffs, previous, retained, tuple(breaks))
