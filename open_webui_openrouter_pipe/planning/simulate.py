"""Every past request of a chat, decided again: the cutoffs between levels of detail, moved as the policies say.

It keeps no state between calls: the same history has the same cutoffs, and a longer history begins with the decisions
of the shorter one. That keeps the prefix of a chat the same from request to request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ..conversation.budget import ContextSettings
from ..conversation.conversation import DigestedItem
from ..conversation.slash import Compact, Discard, Restore, covers
from ..responses.items import is_function_call_output
from .detail import KEPT_DECISIONS, SENT_LEVELS, DetailLevel, PartsByDetail

RATIO_DIGITS = 2
TOOLS_SHARE = 0.5
"""Of the budget: what a request may take with what stands word for word, before optional tools give way."""
OWN_SHARE = 0.30
"""Of the budget: the most that all takes which the pipe writes itself, with what is quoted behind the question."""
CHEAP_READ = 0.25
"""Price up to which reading a whole chat from the cache costs less than reading its old turns alone."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What a token costs when it is read from the cache and when it is written to it; plain input costs 1.

    Changing something old makes the provider read all that follows anew; leaving it costs its reading with each
    request, until there is as much to change again.

    `bands` are other prices, beside the same plain input, for requests of more tokens than so many, the smallest first.
    """

    read: float = 1.0
    write: float = 1.0
    bands: tuple[tuple[int, CachePrices], ...] = ()

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

    def at(self, tokens: float) -> CachePrices:
        """Return what holds for a request of this size."""
        return next((prices for size, prices in reversed(self.bands) if tokens > size), self)

    @property
    def shares_cache(self) -> bool:
        """Whether a question about a chat costs least at the end of the cached chat itself."""
        return self.read <= CHEAP_READ

    def pays(self, freed_tokens: int, requests: int, following_tokens: int, *, tokens: float) -> bool:
        """Return whether leaving so much out of so many coming requests saves more than the change costs.

        `tokens` is how large each of them would be, `following_tokens` what stands behind the change. Where that brings
        a request into a lower price band, all that is left of it costs less.
        """
        left_tokens = tokens - freed_tokens
        before, after = self.at(tokens), self.at(left_tokens)
        saved = requests * (tokens * before.read - left_tokens * after.read)
        return saved >= following_tokens * max(0.0, after.write - after.read)


BreakReason = Literal[
    "retention", "clip", "summary", "prune", "evict", "tools", "recall", "restore", "discard"
]


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Where each level of detail ends: parts before `ends[level]` are sent at that level or a lower one.

    Turns that their user has `restored` are sent whole wherever they stand, beside what replaces them; no policy counts
    them. `discards` is how often the user has had summaries made again, `omitted_tools` names the tools that give way.
    """

    ends: tuple[int, ...] = (0,) * len(DetailLevel)
    restored: frozenset[int] = frozenset()
    """The parts of these turns."""
    discards: int = 0
    omitted_tools: frozenset[str] = frozenset()

    def moved(self, level: DetailLevel, end: int) -> Cutoffs:
        """Return the same with all parts before `end` at most at this level; a cutoff never moves back."""
        ends = tuple(max(old, end) if at <= level else old for at, old in enumerate(self.ends))
        return replace(self, ends=ends)

    def level_of(self, part: int) -> DetailLevel:
        """Return the level at which a part is sent."""
        if part in self.restored:
            return DetailLevel.FULL
        return next((level for level in reversed(DetailLevel) if part < self.ends[level]), DetailLevel.FULL)

    @property
    def summarized(self) -> int:
        """How many parts are replaced by summaries."""
        return self.ends[DetailLevel.SUMMARIZED]

    @property
    def replaced(self) -> int:
        """The same as far as summaries are sent: none where their user has restored all of these turns."""
        is_sent = not self.restored or any(part not in self.restored for part in range(self.summarized))
        return self.summarized if is_sent else 0

    @property
    def before_turns(self) -> tuple[int, int, frozenset[str]]:
        """What the text before all turns goes by."""
        return self.replaced, self.discards, self.omitted_tools

    @property
    def dropped(self) -> int:
        """How many parts are not sent themselves, summarized ones included."""
        return self.ends[DetailLevel.DROPPED]

    def note(self, parts: PartsByDetail) -> tuple[DigestedItem, ...]:
        """Return the message that stands in for the dropped parts, if there is one."""
        return parts.note(self.summarized, self.dropped, self.restored)


def own_tokens(parts: PartsByDetail, cutoffs: Cutoffs) -> int:
    """Return what stands for words of earlier turns: summaries at most, the note, results stated as facts."""
    written = [*cutoffs.note(parts)]
    for number in range(cutoffs.dropped, min(parts.current, cutoffs.ends[DetailLevel.TOOL_FACTS])):
        said = {entry.digest for entry in parts.parts[number].entries}
        sent = parts.entries(cutoffs.level_of(number), number)
        written += [each for each in sent if is_function_call_output(each.item) and each.digest not in said]
    summaries_tokens = parts.summaries.max_tokens(parts.segments_before(cutoffs.replaced))
    return summaries_tokens + parts.counter.entries(written).tokens


MissingSummaryMode = Literal["request", "skip"]
"""Whether a plan may require summaries that are not available, or does without them."""


@dataclass(frozen=True, slots=True)
class SimulationTerms:
    """What the policies go by: settings, prices, and sizes in tokens.

    `limit_tokens` is the most that a request may take, `budget_tokens` the same before any calibration, `base_tokens`
    what every request carries beside the parts and the summaries, `reserved_tokens` what is free below the limit for
    quotations. `room_tokens` is what is left beside that which is never dropped, `verbatim_share` how much of it the
    newest completed turns hold word for word. `optional_tools` are names and sizes of the tools that may give way, the
    first to go first.
    """

    settings: ContextSettings
    prices: CachePrices
    limit_tokens: int
    budget_tokens: int
    missing_summaries: MissingSummaryMode = "skip"
    base_tokens: int = 0
    room_tokens: int = 0
    verbatim_share: float = 0.0
    reserved_tokens: int = 0
    optional_tools: tuple[tuple[str, int], ...] = ()
    restores: bool = True
    """Whether turns are sent whole that their user has restored."""

    def in_turn(self, parts: PartsByDetail, turn: int) -> SimulationTerms:
        """Return them as they held in a turn: under the aim that the user had commanded last."""
        aim = parts.aim(turn)
        return replace(self, settings=replace(self.settings, context_aim=aim)) if aim else self


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request of the chat, as it is about to be sent: the parts before `end` at the levels of `cutoffs`.

    `previous` are the cutoffs of the request before. `opens_turn` says that it is the first of its turn.
    """

    parts: PartsByDetail
    terms: SimulationTerms
    cutoffs: Cutoffs
    end: int
    previous: Cutoffs = field(default_factory=Cutoffs)
    opens_turn: bool = False

    @property
    def turn(self) -> int:
        """The index of the current turn."""
        return self.parts.parts[self.end - 1].turn

    def tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the request's size with these cutoffs or its own; summaries count with the most they may take."""
        cutoffs = cutoffs or self.cutoffs
        note = self.parts.counter.entries(cutoffs.note(self.parts))
        return self.fixed_tokens(cutoffs) + note.tokens + self.parts_tokens(cutoffs)

    def largest_tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the same as `tokens` with what the user has restored, and without summaries that are not sent."""
        cutoffs, summaries = cutoffs or self.cutoffs, self.parts.summaries
        unsent = summaries.max_tokens(self.parts.segments_before(cutoffs.summarized))
        unsent -= summaries.max_tokens(self.parts.segments_before(cutoffs.replaced))
        return self.tokens(cutoffs) - unsent + self.restored_tokens(cutoffs.restored, cutoffs)

    def actual_tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the same with the summaries as they are."""
        summaries = self.parts.summaries
        segments = self.parts.segments_before((cutoffs or self.cutoffs).replaced)
        return self.largest_tokens(cutoffs) - summaries.max_tokens(segments) + summaries.tokens(segments)

    def restored_tokens(self, restored: Collection[int], cutoffs: Cutoffs | None = None) -> int:
        """Return by how much the request is larger with these parts whole."""
        if not restored:
            return 0
        ends = (cutoffs or self.cutoffs).ends
        known, key = self.parts.restored_tokens, (frozenset(restored), ends)
        if key not in known:
            level_of = Cutoffs(ends).level_of
            known[key] = 0
            for at in restored:
                level = level_of(at)
                sent = self.parts.tokens(level, at, at + 1) if level in SENT_LEVELS else 0
                known[key] += self.parts.tokens(DetailLevel.FULL, at, at + 1) - sent
        return known[key]

    def freed_tokens(self, cutoffs: Cutoffs) -> int:
        """Return how much smaller it would be with these cutoffs."""
        return self.tokens() - self.tokens(cutoffs)

    def likely_tokens(self, cutoffs: Cutoffs | None = None) -> int:
        """Return the same as `tokens`, with summaries as large as they usually are: what it costs goes by this."""
        segments = self.parts.segments_before((cutoffs or self.cutoffs).summarized)
        return self.tokens(cutoffs) - self.parts.summaries.unfilled_tokens(segments)

    def first_changed(self, cutoffs: Cutoffs) -> int:
        """Return the first turn that is sent otherwise with these cutoffs: 0 where what stands before it is."""
        old, parts = self.cutoffs, self.parts
        if cutoffs.before_turns != old.before_turns or cutoffs.note(parts) != old.note(parts):
            return 0
        pairs = zip(old.ends, cutoffs.ends, strict=True)
        moved = [start for start, end in pairs if start != end]
        moved += old.restored ^ cutoffs.restored
        current = parts.start_of(self.turn)
        for at in range(min(moved, default=current), current):
            if parts.entries(old.level_of(at), at) != parts.entries(cutoffs.level_of(at), at):
                return parts.parts[at].turn
        return self.turn

    def fixed_tokens(self, cutoffs: Cutoffs) -> int:
        """Return what stands before all parts: instructions, tools and summaries."""
        segments = self.parts.segments_before(cutoffs.summarized)
        omitted_tokens = 0
        if cutoffs.omitted_tools:
            names = self.omitted_tools(cutoffs)
            omitted_tokens = sum(tokens for name, tokens in self.terms.optional_tools if name in names)
        return self.terms.base_tokens - omitted_tokens + self.parts.summaries.max_tokens(segments)

    def omitted_tools(self, cutoffs: Cutoffs) -> frozenset[str]:
        """Return the names of the tools that it lacks: none that was called in the chat."""
        return cutoffs.omitted_tools - self.parts.measured.called[self.end]

    def tools_to_omit(self, cutoffs: Cutoffs) -> frozenset[str]:
        """Return the names of the tools that give way to what stands word for word: the first ones, as few as needed.

        Without them, that takes its share of the budget together with the summaries and the note of these cutoffs.
        Tools that are omitted already come back only all together.
        """
        called, room_tokens = self.parts.measured.called[self.end], TOOLS_SHARE * self.terms.budget_tokens
        tokens = self.tokens(cutoffs) - self.parts_tokens(cutoffs)
        tokens += self.parts.tokens(DetailLevel.FULL, self.verbatim_start(self.turn), self.end)
        all_tools = replace(cutoffs, omitted_tools=frozenset())
        if tokens + self.fixed_tokens(all_tools) - self.fixed_tokens(cutoffs) <= room_tokens:
            return frozenset()
        omitted = set(cutoffs.omitted_tools)
        for name, tool_tokens in self.terms.optional_tools:
            if tokens > room_tokens and name not in omitted | called:
                omitted.add(name)
                tokens -= tool_tokens
        return frozenset(omitted)

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
    def trigger_tokens(self) -> float:
        """The size from which on the chat is shortened, whatever that costs."""
        return self.terms.settings.summary_trigger_ratio * self.terms.budget_tokens

    @property
    def prune_tokens(self) -> float:
        """The size from which on turns are shortened that summaries leave alone."""
        return self.terms.settings.prune_trigger_ratio * self.terms.limit_tokens

    @property
    def turn_tokens(self) -> float:
        """What the newest completed turns took on average, as many of them as keep their tool outputs."""
        first = max(0, self.turn - self.terms.settings.retention_turns)
        start, end = self.parts.start_of(first), self.parts.start_of(self.turn)
        return self.parts.tokens(DetailLevel.FULL, start, end) / max(1, self.turn - first)

    def summarizable(self, eligible_turns: int) -> Cutoffs:
        """Return the cutoffs with summaries of all segments in the oldest turns."""
        return self.summarized(self.parts.summaries.count_completed(eligible_turns, current_turn=self.turn))

    def summarized(self, segments: int) -> Cutoffs:
        """Return the cutoffs with summaries of so many of the oldest segments."""
        end = self.parts.start_of(self.parts.summaries.ends[segments - 1]) if segments else 0
        return self.cutoffs.moved(DetailLevel.SUMMARIZED, end)

    def requests_in(self, start: int, end: int) -> int:
        """Return how many requests the parts from `start` to before `end` took."""
        return sum(part.awaits_answer for part in self.parts.parts[start:end])

    def verbatim_start(self, turn: int) -> int:
        """Return the first part of the newest completed turns that stay word for word in this turn or the next.

        They are as few as hold their share of the room that the open turn leaves, and one at least. The next turn is
        taken to find one more turn of the mean size.
        """
        parts, current = self.parts, self.start_of_newest(1)
        open_tokens = parts.tokens(DetailLevel.FULL, current, self.end)
        least_tokens = self.terms.verbatim_share * (self.terms.room_tokens - open_tokens)
        if turn > self.turn:
            least_tokens -= self.turn_tokens
        sums = parts.measured.sums[DetailLevel.FULL]
        first = bisect_right(sums, sums[current] - least_tokens, hi=current)
        return parts.start_of(parts.turns_before(first) - 1)

    def shortened_end(self, turn: int) -> int:
        """Return the first part that the aim leaves as it is in this turn or the next, while that fits."""
        is_faithful = self.terms.settings.context_aim == "faithful"
        return self.verbatim_start(turn) if is_faithful else self.start_of_newest(1)

    def retention_end(self, turn: int) -> int:
        """Return the first part whose tool outputs stay verbatim in this turn, or in the next as far as it is known."""
        retained = self.parts.start_of(min(self.turn, turn + 1 - self.terms.settings.retention_turns))
        is_batched = self.terms.settings.tool_output_pruning == "batched"
        return min(retained, self.shortened_end(turn)) if is_batched and retained else retained

    def prunable_tokens(self, end: int) -> int:
        """Return what stating all outputs before a part as facts would free now."""
        start = self.cutoffs.ends[DetailLevel.TOOL_FACTS]
        full = self.parts.tokens(DetailLevel.FULL, start, end)
        return full - self.parts.tokens(DetailLevel.TOOL_FACTS, start, end)


Policy: TypeAlias = Callable[[SimulatedRequest], Cutoffs]
"""Looks at a request and returns the cutoffs that it should have: those it has, or ones further on."""


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """A request with this many parts, in this turn: why its prefix differs from the one before, and what that freed.

    All before the turn `first_changed` is the same as in the one before.
    """

    request: int
    turn: int
    reason: BreakReason
    freed_tokens: int
    first_changed: int = 0


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
    """Apply the policies to all requests: one after each part that awaits an answer, the current one last.

    Those that were decided before, by the same terms, are not decided again.
    """
    of_summaries = parts.summaries.terms(with_available=terms.missing_summaries == "skip")
    decided = parts.measured.decided.setdefault((terms, of_summaries, tuple(policies)), [])
    first, found = decided[-1] if decided else (0, Simulation())
    cutoffs, previous, retained = found.cutoffs, found.previous, found.retained
    breaks = [*found.breaks]
    states = deque[tuple[int, tuple[Cutoffs, Cutoffs, Cutoffs], int]](maxlen=KEPT_DECISIONS)
    turn = parts.parts[first - 1].turn if first else -1
    count = len(parts.parts)
    for end, part in enumerate(parts.parts[first:], start=first + 1):
        if not (part.awaits_answer or end == count):
            continue
        request = SimulatedRequest(
            parts.as_of(part.turn),
            terms.in_turn(parts, part.turn),
            cutoffs,
            end,
            cutoffs,
            opens_turn=part.turn != turn,
        )
        turn = part.turn
        request, changes = _decide(request, policies)
        breaks += changes
        if any(each.reason == "retention" for each in changes):
            retained = retained.moved(DetailLevel.TOOL_FACTS, request.retention_end(turn))
        for moved, reason in _as_commanded(request):
            freed_tokens = request.largest_tokens() - request.largest_tokens(moved)
            breaks.append(PrefixBreak(end, turn, reason, freed_tokens, request.first_changed(moved)))
            request = replace(request, cutoffs=moved)
        previous, cutoffs = cutoffs, request.cutoffs
        if part.awaits_answer:  # the last one may go on otherwise
            states.append((end, (cutoffs, previous, retained), len(breaks)))
    decided += [(end, Simulation(*state, tuple(breaks[:known]))) for end, state, known in states]
    del decided[:-KEPT_DECISIONS]
    return Simulation(cutoffs, previous, retained, tuple(breaks))


def _decide(
    request: SimulatedRequest, policies: Sequence[tuple[BreakReason, Policy]]
) -> tuple[SimulatedRequest, list[PrefixBreak]]:
    """Return the request as the policies have it, with the tools that fit, and what has changed.

    Tools stand before all else: which are offered changes only where the prefix does anyway, or nothing fits. Where it
    does, the policies go by the trigger as the limit, so that this change is worth its price.
    """
    decided, changes = _apply(request, policies)
    terms = request.terms
    if not (policies and terms.optional_tools and (changes or decided.tokens() > terms.limit_tokens)):
        return decided, changes
    omitted = request.tools_to_omit(decided.cutoffs)
    if omitted == request.cutoffs.omitted_tools:
        return decided, changes
    cutoffs = replace(request.cutoffs, omitted_tools=omitted)
    change = PrefixBreak(request.end, request.turn, "tools", request.freed_tokens(cutoffs))
    lower_terms = replace(terms, limit_tokens=min(terms.limit_tokens, int(request.trigger_tokens)))
    decided, changes = _apply(replace(request, terms=lower_terms, cutoffs=cutoffs), policies)
    return replace(decided, terms=terms), [change, *changes]


def _apply(
    request: SimulatedRequest, policies: Sequence[tuple[BreakReason, Policy]]
) -> tuple[SimulatedRequest, list[PrefixBreak]]:
    """Return the request as the policies have it, one after the other, and what each has changed."""
    changes: list[PrefixBreak] = []
    for reason, policy in policies:
        moved = policy(request)
        if moved != request.cutoffs:
            freed_tokens, first = request.freed_tokens(moved), request.first_changed(moved)
            changes.append(PrefixBreak(request.end, request.turn, reason, freed_tokens, first))
            request = replace(request, cutoffs=moved)
    return request, changes


def _as_commanded(request: SimulatedRequest) -> Iterator[tuple[Cutoffs, BreakReason]]:
    """Yield the cutoffs after what the user has commanded before a turn, and after what has become too large of it.

    Restored turns stay as long as the request with them fits, and until the user has the chat summarized again; then
    all go.
    """
    cutoffs = request.cutoffs
    tokens = request.tokens() + request.restored_tokens(cutoffs.restored)
    if cutoffs.restored and tokens > request.terms.limit_tokens + request.terms.reserved_tokens:
        cutoffs = replace(cutoffs, restored=frozenset())
        yield cutoffs, "restore"
    for command in request.parts.commands(request.turn) if request.opens_turn else ():
        match command:
            case Compact() if cutoffs.restored:
                cutoffs = replace(cutoffs, restored=frozenset())
                yield cutoffs, "restore"
            case Discard() if any(
                covers(command.turns, turn) for turn in range(request.parts.turns_before(cutoffs.summarized))
            ):
                cutoffs = replace(cutoffs, discards=cutoffs.discards + 1)
                yield cutoffs, "discard"
            case Restore() if request.terms.restores and (more := {*_restored(command, request, cutoffs)}):
                cutoffs = replace(cutoffs, restored=cutoffs.restored | more)
                yield cutoffs, "restore"


def _restored(command: Restore, request: SimulatedRequest, cutoffs: Cutoffs) -> Iterator[int]:
    """Yield the parts of the turns that a command restores: the newest first, all that fit; quotations give way.

    Where the command names none, it is about those that are not sent whole.
    """
    parts = request.parts
    room_tokens = request.terms.limit_tokens + request.terms.reserved_tokens - request.tokens()
    room_tokens -= request.restored_tokens(cutoffs.restored)
    named = (range(max(1, each.start), min(each.stop, request.turn + 1)) for each in command.turns)
    turns = {number - 1 for each in named for number in each}
    if not command.turns:
        shortened = range(min(max(cutoffs.ends), parts.start_of(request.turn)))
        turns = {parts.parts[at].turn for at in shortened if at not in cutoffs.restored}
    for turn in sorted(turns, reverse=True):
        numbers = range(parts.start_of(turn), parts.start_of(turn + 1))
        if cutoffs.restored.issuperset(numbers):
            continue
        if (tokens := request.restored_tokens(numbers)) <= room_tokens:
            room_tokens -= tokens
            yield from numbers
