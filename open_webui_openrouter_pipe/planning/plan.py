"""What a plan says: the request that is sent, what was done to make it fit, and which summaries it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from ..conversation.budget import Budget, ContextSettings
from ..conversation.conversation import Conversation, DigestedItem
from ..conversation.tokens import TokenCounts
from ..responses.items import Item, is_function_call_output
from ..summaries.segments import SummaryTarget
from .detail import DetailLevel, PartsByDetail
from .policies import count_messages
from .recall import NOTHING_RECALLED, Recalled
from .simulate import Cutoffs, PrefixBreak

ReductionKind = Literal[
    "tools",
    "capped",
    "facts",
    "summarized",
    "shortened",
    "clipped",
    "omitted",
    "retrieved_cut",
    "retrieved_omitted",
]
"""In the order in which they are shown: what the answer suffers from most comes last, where the page shows it."""

_KINDS: Final[tuple[ReductionKind, ...]] = get_args(ReductionKind)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One kind of what a request lacks: `count` turns, tool results or tools, and how many `tokens` that saves.

    `of` is how many there are: earlier turns, or tokens of retrieved text. Reductions of two requests are equal when
    the same is lacking, however long the chat has become meanwhile. Of a clipped chat, `count` is the number of
    messages that are sent, since it lacks more with every turn.
    """

    kind: ReductionKind
    count: int
    tokens: int
    of: int = field(default=0, compare=False)


def chat_reductions(parts: PartsByDetail, cutoffs: Cutoffs, settings: ContextSettings) -> Iterator[Reduction]:
    """Yield what the request lacks of the chat's turns."""
    earlier_turns = len(parts.turns) - 1
    lost_tokens = dict.fromkeys(_KINDS, 0)
    counts = dict.fromkeys(_KINDS, 0)
    counted_turns: set[int] = set()
    for index, part in enumerate(parts.parts):
        level = cutoffs.level_of(index)
        sent = parts.entries(level, index)
        if sent == part.entries:
            continue
        kind = _kind(level, is_current=index >= parts.current)
        lost_tokens[kind] += parts.counter.entries(part.entries).tokens - parts.counter.entries(sent).tokens
        if kind in {"facts", "capped"}:
            kept = {entry.digest for entry in sent}
            counts[kind] += sum(
                is_function_call_output(entry.item) and entry.digest not in kept for entry in part.entries
            )
        elif part.turn not in counted_turns:
            counted_turns.add(part.turn)
            counts[kind] += 1
    summaries, segments = parts.summaries, parts.segments_before(cutoffs.replaced)
    lost_tokens["summarized"] -= summaries.tokens(segments) - summaries.tokens(0)
    if counts["omitted"] and _is_clipped_alone(parts, cutoffs, settings):
        counts["clipped"], counts["omitted"] = settings.clip_limit or 0, 0
        lost_tokens["clipped"] = 0
    for kind in _KINDS:
        if counts[kind]:
            yield Reduction(kind, counts[kind], lost_tokens[kind], earlier_turns)


def retrieved_reduction(whole_tokens: int, sent_tokens: int) -> Iterator[Reduction]:
    """Yield what is lacking of retrieved text of `whole_tokens`, if anything is."""
    if sent_tokens < whole_tokens:
        kind: ReductionKind = "retrieved_cut" if sent_tokens else "retrieved_omitted"
        yield Reduction(kind, 1, whole_tokens - sent_tokens, whole_tokens)


def in_order(reductions: Iterator[Reduction]) -> tuple[Reduction, ...]:
    """Return them in the order in which they are shown."""
    return tuple(sorted(reductions, key=lambda each: _KINDS.index(each.kind)))


def _kind(level: DetailLevel, *, is_current: bool) -> ReductionKind:
    if level == DetailLevel.SUMMARIZED:
        return "summarized"
    if level == DetailLevel.DROPPED:
        return "omitted"
    if level == DetailLevel.FULL:
        return "capped"
    return "facts" if is_current or level == DetailLevel.TOOL_FACTS else "shortened"


def _is_clipped_alone(parts: PartsByDetail, cutoffs: Cutoffs, settings: ContextSettings) -> bool:
    """Whether clipping alone omits turns: the messages that it keeps are all sent."""
    limit = settings.clip_limit
    if limit is None:
        return False
    kept = parts.turns[parts.turns_before(cutoffs.dropped) : -1]
    return sum(map(count_messages, kept)) + 1 >= limit


StepName = Literal["cap", "retention", "summary", "prune", "evict", "recall"]


@dataclass(frozen=True, slots=True)
class Step:
    """The request's size after a step, and whether the step did something in this very request."""

    name: StepName
    tokens: int
    triggered: bool


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """Ends of the blocks that stay the same from request to request, as numbers of items.

    `instructions` ends what comes before all parts; `unchanged` what this request shares with the one before;
    `frontier` the shortened parts; `completed` everything before the current turn. `current` is where that turn begins,
    0 where that is unknown: from `completed` until there stands what changes from request to request. `has_additions`
    says that the question itself holds such text.
    """

    instructions: int
    unchanged: int
    frontier: int
    completed: int
    current: int = 0
    has_additions: bool = False

    @property
    def has_volatile(self) -> bool:
        """Whether the current turn begins with something that no later turn will find there again."""
        return self.has_additions or self.current > self.completed


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What the request before this one has brought to the provider's cache, as far as it belongs to the chat."""

    items: tuple[Item, ...]
    marks: CacheMarks
    tokens: int
    unoffered_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """How a request is put together: its parts at the levels of `cutoffs`, of which part `n` begins at `starts[n]`."""

    conversation: Conversation
    parts: PartsByDetail
    cutoffs: Cutoffs
    starts: Sequence[int]
    tool_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that fits.

    `tokens_before` is the size of everything, `tokens` that of `items` with tools, by the plain count; `counts`
    divides the latter by kind, for the calibration. `prefix_breaks` are all changes of the prefix so far,
    `new_breaks` those of this request. `summarized_turns` says how many turns are replaced by summaries,
    `tokens_without_new_summaries` how large the request would be without those that it adds. `reductions` are all that
    it lacks of what the chat has, `omitted_tools` names the tools among them. `entries` are the items with the names of
    their content, `recalled` is what of the earlier turns they quote beside the question. `unoffered_tools` names the
    tools that the chat has no use for as yet.

    The request must not be sent before `required_summaries` are there; `cached_prefix` is what they can be requested
    after, with most of it read from the cache. `prefetch_summaries` are worth making for the next requests.
    """

    model: str
    items: tuple[Item, ...]
    marks: CacheMarks
    budget: Budget
    limit_tokens: int
    tokens_before: int
    tokens: int
    steps: tuple[Step, ...]
    counts: TokenCounts
    prefix_breaks: tuple[PrefixBreak, ...]
    new_breaks: tuple[PrefixBreak, ...]
    summarized_turns: int
    tokens_without_new_summaries: int
    required_summaries: tuple[SummaryTarget, ...]
    prefetch_summaries: tuple[SummaryTarget, ...]
    cached_prefix: CachedPrefix | None
    omitted_tools: frozenset[str]
    reductions: tuple[Reduction, ...]
    entries: tuple[DigestedItem, ...] = ()
    unoffered_tools: frozenset[str] = frozenset()
    recalled: Recalled = NOTHING_RECALLED
    layout: Layout | None = field(default=None, compare=False, repr=False)

    @property
    def absent_tools(self) -> frozenset[str]:
        """The names of the chat's tools that the request is sent without."""
        return self.omitted_tools | self.unoffered_tools

    @property
    def adds_summaries(self) -> bool:
        """Whether the request summarizes more than the one before."""
        return any(each.reason == "summary" for each in self.new_breaks)
