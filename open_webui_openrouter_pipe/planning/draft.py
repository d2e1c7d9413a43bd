"""One way to send a conversation: what of it, under which terms, and the plan that follows.

Owns the order of the steps (cap, shorten old tool results, summarize, prune, evict), what gives way where these are not
enough, and how a request is put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

from ..conversation.budget import BUILT_IN_TOOLS, Budget, ContextShare, Strategy
from ..conversation.conversation import Conversation, DigestedItem, digest_item
from ..conversation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter, TokenCounts, truncate_to_tokens
from ..history.artifacts import ANTHROPIC, maker_of
from ..recall.search import TextIndex
from ..responses.items import Item
from ..summaries.segments import SummaryTarget
from . import policies
from .detail import DetailLevel, PartsByDetail
from .plan import KINDS, CachedPrefix, CacheMarks, Plan, Reduction, ReductionKind, Step, find_reductions
from .recall import (
    NOTHING_RECALLED,
    UNOFFERED,
    Recalled,
    asked_in,
    max_recalled_tokens,
    parts_removed,
    quote_passages,
    removed_texts,
    with_arrival,
    without_tools,
)
from .simulate import (
    OWN_SHARE,
    BreakReason,
    Cutoffs,
    Policy,
    PrefixBreak,
    SimulatedRequest,
    Simulation,
    SimulationTerms,
    own_tokens,
    simulate,
)

EVICTING_STRATEGIES: frozenset[Strategy] = frozenset({"summarize", "prune", "clip"})
"""Strategies that drop what they must; the others refuse, or send everything."""
LEADING_BITS = 3

_SOURCE, _SOURCE_END = "<source ", "</source>"
"""The tags that Open WebUI puts around each source, the most relevant first."""

_RETENTION: tuple[BreakReason, Policy] = ("retention", policies.shorten_old_tool_results)
_EVICTION: tuple[BreakReason, Policy] = ("evict", policies.evict)
_POLICIES: Mapping[Strategy, tuple[tuple[BreakReason, Policy], ...]] = {
    "summarize": (
        ("summary", policies.compact),
        _RETENTION,
        ("summary", policies.summarize),
        ("prune", policies.prune),
        _EVICTION,
    ),
    "prune": (_RETENTION, ("prune", policies.prune), _EVICTION),
    "clip": (("clip", policies.clip_turns), _RETENTION, _EVICTION),
    "refuse": (_RETENTION,),
    "off": (),
}


def head_of_retrieved(
    entries: Sequence[DigestedItem], max_tokens: int, counter: TokenCounter
) -> tuple[DigestedItem, ...]:
    """Return the first of the messages, the last one cut, with at most `max_tokens` in all."""
    kept: list[DigestedItem] = []
    for entry in entries:
        tokens = counter.entry(entry).tokens
        if tokens > max_tokens:
            kept += _cut(entry, max_tokens, counter)
            break
        kept.append(entry)
        max_tokens -= tokens
    return tuple(kept)


def _cut(entry: DigestedItem, max_tokens: int, counter: TokenCounter) -> Iterator[DigestedItem]:
    """Yield the message with the head of its text; nothing where not even a note would fit.

    A source that is cut keeps its end tag, so that what the host wrote behind the sources is not read as one of them.
    """
    fields = cast("dict[str, Any]", entry.item)
    text = "\n".join(part.get("text", "") for part in fields["content"])
    room = max_tokens - MESSAGE_OVERHEAD_TOKENS - counter.text(_SOURCE_END)
    head = truncate_to_tokens(text, room, counter.text, head_share=1.0)
    if head:
        is_open = head.rfind(_SOURCE) > head.rfind(_SOURCE_END)
        content = [{"type": "input_text", "text": head + _SOURCE_END if is_open else head}]
        yield digest_item(cast("Item", {**fields, "content": content}))


@dataclass(frozen=True, eq=False)
class Draft:
    """One way to send the whole conversation: what of it, in which parts, under which terms.

    The chat is simulated once, when it is first asked for something that follows from that.
    """

    conversation: Conversation
    parts: PartsByDetail
    terms: SimulationTerms
    index: TextIndex

    @property
    def max_recalled_tokens(self) -> int:
        """The most that quoted passages take."""
        return max_recalled_tokens(self.terms.settings, self.terms.budget_tokens)

    def with_settings(self, **changes: Any) -> Draft:
        """Return the same under other settings."""
        settings = replace(self.terms.settings, **changes)
        return replace(self, terms=replace(self.terms, settings=settings))

    def alternatives(self) -> Iterator[Draft]:
        """Yield it as it is, then with less and less of what may give way, in this order."""
        draft, strategy = self, self.terms.settings.context_strategy
        drops = strategy in EVICTING_STRATEGIES
        yield self
        if drops and self._has_long_retrieved():
            retrieved = self.conversation.retrieved
            yield self._with_retrieved(head_of_retrieved(retrieved, self._head_tokens, self.parts.counter))
        if drops and draft.conversation.retrieved:
            draft = self._with_retrieved(())
            yield draft
        if strategy == "summarize":
            draft = draft.with_settings(context_strategy="prune")
            yield draft
        if strategy in {"summarize", "prune"}:  # a note that does not say what the user wrote
            yield replace(draft, parts=draft.parts.without_record())

    def _with_retrieved(self, entries: tuple[DigestedItem, ...]) -> Draft:
        """What says how the instructions now read stays: without it, the model would go by what they no longer say."""
        corrections = self.conversation.volatile[: self.conversation.corrections]
        return replace(self, conversation=replace(self.conversation, volatile=(*corrections, *entries)))

    def _optional_tools(self) -> tuple[tuple[str, int], ...]:
        """Return names and sizes of the tools that may give way, the first to go first."""
        tools = {tool.get("name"): tool for tool in self.conversation.tools}
        names, count = self.conversation.optional_tools, self.parts.counter.tools
        return tuple((name, count([tools[name]]).tokens) for name in names if name in tools)

    @property
    def omitted_tools(self) -> frozenset[str]:
        """The names of the tools that give way."""
        return self._request.omitted_tools(self._simulation.cutoffs)

    @property
    def _head_tokens(self) -> int:
        """How much of the retrieved text its head may take: as much as a single tool output."""
        return self.parts.limits.output_tokens(1)

    def _has_long_retrieved(self) -> bool:
        return self._tokens(self.conversation.retrieved) > self._head_tokens

    @property
    def tokens(self) -> int:
        """The size of the current request."""
        return self._request.actual_tokens()

    def is_crowded(self) -> bool:
        """Whether turns were evicted for long retrieved text, which gives way before them."""
        return self._has_long_retrieved() and any(each.reason == "evict" for each in self._simulation.breaks)

    def _fixed_tokens(self, *, with_recall: bool) -> int:
        tools = self.conversation.tools
        tools = tools if with_recall or not self.terms.settings.recall_tool else without_tools(tools)
        return self.parts.counter.tools(tools).tokens + self._tokens(self.conversation.instructions)

    def _unoffered(self, cutoffs: Cutoffs, end: int) -> frozenset[str]:
        """Return which tools the chat has no use for: ours, as long as nothing was removed."""
        has_use = not self.terms.settings.recall_tool or self._has_use_for_recall(cutoffs, end)
        names = frozenset(str(tool.get("name")) for tool in self.conversation.tools)
        return frozenset() if has_use else UNOFFERED & names

    @cached_property
    def _simulation_terms(self) -> SimulationTerms:
        """What the past is decided by.

        Retrieved text changes from request to request: the past is decided with its rounded size, and with no more
        than its head takes, so that cutting it to that moves nothing that was decided before. Every request leaves the
        room of quoted passages and of our tool free below the limit, so that recall does not either. When summaries
        begin does not go by it.
        """
        fixed_tokens = self._fixed_tokens(with_recall=False)
        tool_tokens = self._fixed_tokens(with_recall=True) - fixed_tokens
        reserved_tokens = min(self.terms.limit_tokens, self.max_recalled_tokens + tool_tokens)
        volatile_tokens = min(self._tokens(self.conversation.volatile), self._head_tokens)
        base_tokens = fixed_tokens + rounded_up(volatile_tokens)
        optional = self._optional_tools()
        room_tokens = min(self.terms.budget_tokens, self.terms.limit_tokens) - fixed_tokens
        return replace(
            self.terms,
            base_tokens=base_tokens,
            limit_tokens=self.terms.limit_tokens - reserved_tokens,
            reserved_tokens=reserved_tokens,
            room_tokens=room_tokens + sum(tokens for _, tokens in optional),
            optional_tools=optional,
        )

    @cached_property
    def _simulation(self) -> Simulation:
        """All requests of the chat."""
        found = simulate(self.parts, self._simulation_terms, _POLICIES[self.terms.settings.context_strategy])
        if self._has_use_for_recall(found.cutoffs, len(self.parts.parts)):
            found = replace(found, breaks=with_arrival(found.breaks, self.parts))
        return found

    def _has_use_for_recall(self, cutoffs: Cutoffs, end: int) -> bool:
        """Whether the request with so many parts lacks something that the model could ask for."""
        if not self.terms.settings.recall_tool:
            return False
        is_cut = self.parts.first_cut < end
        return is_cut or (any(cutoffs.ends) and any(parts_removed(self.parts, cutoffs, 0, end)))

    @cached_property
    def _recalled(self) -> Recalled:
        """What the request quotes. It changes within a turn only where the prefix does."""
        return self._quoted(self._simulation.cutoffs)

    def _quoted(self, cutoffs: Cutoffs) -> Recalled:
        """Return what is quoted of the earlier turns that a request with these cutoffs lacks."""
        parts, lacks_any = self.parts, any(cutoffs.ends) or self.parts.first_cut < self.parts.current
        if not (self.max_recalled_tokens and lacks_any):
            return NOTHING_RECALLED

        def before() -> Iterator[DigestedItem]:
            entries, starts = self._entries(cutoffs)
            yield from entries[: starts[parts.current]]

        room_tokens = int(OWN_SHARE * self.terms.budget_tokens) - own_tokens(parts, cutoffs)
        return quote_passages(
            removed_texts(parts, cutoffs, self.index),
            before(),
            asked_in(parts.turns[-1]),
            counter=parts.counter,
            max_tokens=min(self.max_recalled_tokens, room_tokens),
        )

    @cached_property
    def _request(self) -> SimulatedRequest:
        """The current request as the simulation of the chat leaves it, with its exact size."""
        found, parts = self._simulation, self.parts
        offers_recall = self._has_use_for_recall(found.cutoffs, len(parts.parts))
        volatile_tokens = self._tokens([*self.conversation.volatile, *self._recalled.entries])
        terms = replace(
            self._simulation_terms.in_turn(parts, len(parts.turns) - 1),
            base_tokens=self._fixed_tokens(with_recall=offers_recall) + volatile_tokens,
        )
        return SimulatedRequest(
            parts,
            terms,
            found.cutoffs,
            len(parts.parts),
        )

    def plan(self, model_id: str, budget: Budget, limit_tokens: int) -> Plan:
        """Put the request together."""
        found, parts, counter = self._simulation, self.parts, self.parts.counter
        cutoffs, summaries = found.cutoffs, parts.summaries
        entries, starts = self._entries(cutoffs, self._recalled)
        new_breaks = tuple(each for each in found.breaks if each.request == len(parts.parts))
        reasons = {each.reason for each in new_breaks}
        adds_summaries = "summary" in reasons
        sent_segments = parts.segments_before(cutoffs.replaced)
        required = summaries.missing(sent_segments)
        if self.terms.missing_summaries == "request" and (adds_summaries or required):
            # Where the prefix changes anyway, neighbors that should share a summary are joined.
            required = summaries.desired(sent_segments)
        without_new = found.previous if adds_summaries else found.retained
        unoffered, omitted = self._unoffered(cutoffs, len(parts.parts)), self.omitted_tools
        tools = without_tools(self.conversation.tools, unoffered | omitted)
        whole = parts.conversation
        whole = replace(whole, tools=without_tools(whole.tools)) if unoffered else whole
        return Plan(
            model=model_id,
            conversation=self.conversation,
            parts=parts,
            cutoffs=cutoffs,
            entries=tuple(entries),
            starts=starts,
            marks=self._marks(cutoffs, found.previous, starts),
            budget=budget,
            limit_tokens=limit_tokens,
            tokens_before=count_all(parts, whole).tokens + summaries.tokens(0),
            steps=tuple(self._steps(reasons)),
            counts=counter.entries(entries).plus(counter.tools(tools)),
            tokens_without_new_summaries=self._request.actual_tokens(without_new),
            prefix_breaks=found.breaks,
            new_breaks=new_breaks,
            summarized_turns=parts.turns_before(cutoffs.summarized),
            required_summaries=required,
            prefetch_summaries=self._prefetch(parts.segments_before(cutoffs.summarized)),
            cached_prefix=self._cached_prefix() if required else None,
            omitted_tools=omitted,
            unoffered_tools=unoffered,
            reductions=tuple(sorted(self._reductions(), key=lambda each: KINDS.index(each.kind))),
            recalled=self._recalled,
        )

    def _steps(self, reasons: set[BreakReason]) -> Iterator[Step]:
        """Yield the request's size after each step; the prefix changes for these reasons."""
        cutoffs, retained = self._simulation.cutoffs, self._simulation.retained
        summarized = retained.moved(DetailLevel.SUMMARIZED, cutoffs.summarized)
        pruned = Cutoffs((*cutoffs.ends[: DetailLevel.DROPPED], cutoffs.summarized, cutoffs.summarized))

        def size(cutoffs: Cutoffs | None = None) -> int:
            return self._request.actual_tokens(cutoffs) - self._recalled.tokens

        yield Step("cap", size(Cutoffs()), triggered=False)
        yield Step("retention", size(retained), triggered="retention" in reasons)
        yield Step("summary", size(summarized), triggered="summary" in reasons)
        yield Step("prune", size(pruned), triggered="prune" in reasons)
        yield Step("evict", size(), triggered=bool(reasons & {"evict", "clip"}))
        if self._recalled.entries:
            yield Step("recall", self.tokens, triggered=True)

    def _reductions(self) -> Iterator[Reduction]:
        """Yield what the request lacks of the whole conversation."""
        sent, whole = self.conversation, self.parts.conversation
        yield from find_reductions(self.parts, self._simulation.cutoffs, self.terms.settings)
        whole_tokens, tokens = self._tokens(whole.retrieved), self._tokens(sent.retrieved)
        if tokens < whole_tokens:
            kind: ReductionKind = "retrieved_cut" if tokens else "retrieved_omitted"
            yield Reduction(kind, 1, whole_tokens - tokens, whole_tokens)
        if omitted := self.omitted_tools:
            sizes = self._simulation_terms.optional_tools
            saved_tokens = sum(tokens for name, tokens in sizes if name in omitted)
            yield Reduction("tools", len(omitted), saved_tokens)

    def _prefetch(self, segments: int) -> tuple[SummaryTarget, ...]:
        """What the next summarizing would require beyond what this request does."""
        terms, index = self.terms, self.parts.summaries
        summarizes = terms.settings.context_strategy == "summarize" and terms.missing_summaries == "request"
        if not (summarizes and self.parts.parts):
            return ()
        next_segments = max(segments, policies.segments_to_prefetch(self._request))
        in_use = {target.segment for target in (*index.missing(segments), *index.desired(segments))}
        return tuple(target for target in index.desired(next_segments) if target.segment not in in_use)

    def _cached_prefix(self) -> CachedPrefix:
        """The chat as the request before sent it: up to the current turn when this request opens it."""
        previous, opens_turn = self._simulation.previous, len(self.parts.parts) - self.parts.current <= 1
        before = replace(self, conversation=replace(self.conversation, volatile=())) if opens_turn else self
        recalled = NOTHING_RECALLED if opens_turn else self._quoted(previous)
        earlier = [each for each in self._simulation.breaks if each.request < len(self.parts.parts)]
        entries, starts = before._entries(previous, recalled, earlier)  # noqa: SLF001 - the same class
        marks = before._marks(previous, previous, starts)  # noqa: SLF001 - the same class
        if opens_turn:
            entries = entries[: starts[self.parts.current]]
            if self.conversation.volatile:  # so had the request before, most likely
                marks = replace(marks, current=marks.completed + 1)
        absent = self._unoffered(previous, len(self.parts.parts) - 1) | self._request.omitted_tools(previous)
        tools = without_tools(self.conversation.tools, absent)
        tokens = self.parts.counter.tools(tools).tokens + self._tokens(entries)
        return CachedPrefix(tuple(entry.item for entry in entries), marks, tokens, absent)

    def shares(self) -> Iterator[ContextShare]:
        """Yield what the request holds when all that may be dropped is dropped."""
        parts, conversation, counter = self.parts, self.conversation, self.parts.counter
        cutoffs, end, current = self._simulation.cutoffs, len(parts.parts), parts.current
        summaries = parts.summaries.tokens(parts.segments_before(cutoffs.replaced))
        note = self._tokens(cutoffs.note(parts))

        def tokens(start: int, end: int) -> int:
            return sum(self._tokens(parts.entries(cutoffs.level_of(at), at)) for at in range(start, end))

        said = (*conversation.instructions, *conversation.volatile[: conversation.corrections])
        yield ContextShare("instructions", self._tokens(said), droppable=False)
        offered = without_tools(conversation.tools, self.omitted_tools)
        chosen = without_tools(offered, conversation.optional_tools)
        built_in = [tool for tool in offered if tool not in chosen]
        yield ContextShare("tools", counter.tools(chosen).tokens, droppable=False)
        yield ContextShare(BUILT_IN_TOOLS, counter.tools(built_in).tokens, droppable=False)
        yield ContextShare("summaries", summaries, droppable=False)
        yield ContextShare("retrieved text", self._tokens(conversation.retrieved), droppable=True)
        yield ContextShare("note on omitted turns", note, droppable=False)
        yield ContextShare("earlier turns", tokens(0, current), droppable=True)
        yield ContextShare("latest message", tokens(current, min(end, current + 1)), droppable=False)
        yield ContextShare("current tool calls", tokens(current + 1, end), droppable=False)

    def _entries(
        self,
        cutoffs: Cutoffs,
        recalled: Recalled = NOTHING_RECALLED,
        breaks: Sequence[PrefixBreak] | None = None,
    ) -> tuple[list[DigestedItem], list[int]]:
        """Return the entries in their order, and how many come before each part and at the end.

        Thinking that is bound to the conversation before it is left out where one of the `breaks` has changed that: in
        the turns from the first that it changed to the one before its own. Nothing behind that change is cached.
        """
        parts, conversation = self.parts, self.conversation
        breaks = self._simulation.breaks if breaks is None else breaks
        changed_until = [0] * len(parts.turns)
        for each in breaks:
            first = each.first_changed
            changed_until[first] = max(changed_until[first], each.turn)
        changed_until = [*accumulate(changed_until, max)]
        summaries = parts.summaries.entries(parts.segments_before(cutoffs.replaced))
        entries = [
            *conversation.instructions,
            *summaries,
            *cutoffs.note(parts),
        ]
        first = min(cutoffs.dropped, *cutoffs.restored, parts.current)
        starts = [len(entries)] * first
        for part in range(first, len(parts.parts)):
            if part == parts.current:
                entries += conversation.volatile
            starts.append(len(entries))
            of_part = parts.entries(cutoffs.level_of(part), part)
            turn = parts.parts[part].turn
            if turn < changed_until[turn]:
                of_part = tuple(entry for entry in of_part if maker_of(entry.item) != ANTHROPIC)
            entries += of_part
            if part == parts.current:
                entries += recalled.entries
        return entries, [*starts, len(entries)]

    def _marks(self, cutoffs: Cutoffs, previous: Cutoffs, starts: Sequence[int]) -> CacheMarks:
        """Return the ends of what stays the same; `starts` are the numbers of items before each part."""
        instructions = len(self.conversation.instructions)
        summaries = self.parts.summaries.entries(self.parts.segments_before(cutoffs.replaced))
        fixed = instructions + len(summaries)
        frontier = cutoffs.ends[DetailLevel.TOOL_FACTS]
        if cutoffs.before_turns != previous.before_turns:
            unchanged = instructions
        elif cutoffs.dropped != previous.dropped:
            unchanged = fixed
        else:
            changed = (at for at in range(frontier) if cutoffs.level_of(at) != previous.level_of(at))
            first = frontier if cutoffs == previous else next(changed, frontier)
            if first < frontier:  # a turn's thinking is left out from where it changes
                opening = self.parts.start_of(self.parts.parts[first].turn)
                earlier = (entry for at in range(opening, first) for entry in self.parts.parts[at].entries)
                first = opening if any(maker_of(entry.item) == ANTHROPIC for entry in earlier) else first
            unchanged = starts[first]
        return CacheMarks(
            instructions=fixed,
            unchanged=unchanged,
            frontier=starts[frontier],
            completed=starts[self.parts.current] - len(self.conversation.volatile),
            current=starts[self.parts.current],
            has_additions=self.conversation.has_additions,
        )

    def _tokens(self, entries: Iterable[DigestedItem]) -> int:
        return self.parts.counter.entries(entries).tokens


def count_all(parts: PartsByDetail, conversation: Conversation) -> TokenCounts:
    """Count everything of the parts' conversation, or what is to be sent of it, but the external summaries."""
    entries, counter = (*conversation.instructions, *conversation.volatile), parts.counter
    return parts.measured.whole[-1].plus(counter.entries(entries)).plus(counter.tools(conversation.tools))


def rounded_up(tokens: int) -> int:
    """Round to three leading bits: text that changes a little does not move what was decided before."""
    step = 1 << max(0, tokens.bit_length() - LEADING_BITS)
    return -(-tokens // step) * step
