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

KINDS: Final[tuple[ReductionKind, ...]] = get_args(ReductionKind)


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


def find_reductions(parts: PartsByDetail, cutoffs: Cutoffs, settings: ContextSettings) -> Iterator[Reduction]:
    """Yield what a request with these cutoffs lacks of the chat's turns."""
    earlier_turns = len(parts.turns) - 1
    lost_tokens, counts = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    counted_turns: set[int] = set()
    unsent: tuple[tuple[ReductionKind, int, int], ...] = (
        ("summarized", 0, cutoffs.summarized),
        ("omitted", cutoffs.summarized, cutoffs.dropped),
    )
    for kind, start, end in unsent:
        restored = [at for at in cutoffs.restored if start <= at < end]
        counts[kind] = parts.turns_before(end) - parts.turns_before(start)
        counts[kind] -= len({parts.parts[at].turn for at in restored})
        lost_tokens[kind] = parts.whole_tokens(start, end)
        lost_tokens[kind] -= sum(parts.whole_tokens(at, at + 1) for at in restored)
    sent_parts = (
        *sorted(at for at in cutoffs.restored if at < cutoffs.dropped),
        *range(cutoffs.dropped, len(parts.parts)),
    )
    for index in sent_parts:
        part, level = parts.parts[index], cutoffs.level_of(index)
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
    if counts["omitted"] and (limit := settings.clip_limit) is not None:
        kept_turns = parts.turns[parts.turns_before(cutoffs.dropped) : -1]
        if sum(map(count_messages, kept_turns)) + 1 >= limit:  # clipping alone omits turns
            counts["clipped"], counts["omitted"] = limit, 0
            lost_tokens["clipped"] = 0
    for kind in KINDS:
        if counts[kind]:
            yield Reduction(kind, counts[kind], lost_tokens[kind], earlier_turns)


def _kind(level: DetailLevel, *, is_current: bool) -> ReductionKind:
    if level == DetailLevel.FULL:
        return "capped"
    return "facts" if is_current or level == DetailLevel.TOOL_FACTS else "shortened"


StepName = Literal["cap", "retention", "summary", "prune", "evict", "recall"]
STEPS: Final[tuple[StepName, ...]] = ("cap", "retention", "summary", "prune", "evict")
"""Those that every request goes through."""


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
class Plan:
    """A request that fits, and how it is put together.

    `entries` are its items with the names of their content: those of the `conversation`, of which part `n` begins at
    `starts[n]`, at the levels of `cutoffs`. `tokens_before` is the size of everything; `counts` divides that of the
    items with tools by kind, for the calibration. `prefix_breaks` are all changes of the prefix so far, `new_breaks`
    those of this request. `summarized_turns` says how many turns are replaced by summaries,
    `tokens_without_new_summaries` how large the request would be without those that it adds. `reductions` are all that
    it lacks of what the chat has, `omitted_tools` names the tools among them, `unoffered_tools` those that the chat has
    no use for as yet. `recalled` is what the entries quote of the earlier turns behind the question.

    The request must not be sent before `required_summaries` are there; `cached_prefix` is what they can be requested
    after. `prefetch_summaries` are worth making for the next requests.
    """

    model: str
    conversation: Conversation = field(compare=False, repr=False)
    parts: PartsByDetail = field(compare=False, repr=False)
    cutoffs: Cutoffs
    entries: tuple[DigestedItem, ...]
    starts: Sequence[int]
    marks: CacheMarks
    budget: Budget
    limit_tokens: int
    tokens_before: int
    steps: tuple[Step, ...]
    counts: TokenCounts
    tokens_without_new_summaries: int
    prefix_breaks: tuple[PrefixBreak, ...] = ()
    new_breaks: tuple[PrefixBreak, ...] = ()
    summarized_turns: int = 0
    required_summaries: tuple[SummaryTarget, ...] = ()
    prefetch_summaries: tuple[SummaryTarget, ...] = ()
    cached_prefix: CachedPrefix | None = None
    omitted_tools: frozenset[str] = frozenset()
    unoffered_tools: frozenset[str] = frozenset()
    reductions: tuple[Reduction, ...] = ()
    recalled: Recalled = NOTHING_RECALLED

    @property
    def tokens(self) -> int:
        """The size of the items with tools, by the plain count."""
        return self.counts.tokens

    @property
    def items(self) -> tuple[Item, ...]:
        """What is sent, without tools."""
        return tuple(entry.item for entry in self.entries)

    @property
    def absent_tools(self) -> frozenset[str]:
        """The names of the chat's tools that the request is sent without."""
        return self.omitted_tools | self.unoffered_tools

    @property
    def optional_tool_tokens(self) -> int:
        """The size of the tools in the request that nobody has chosen."""
        names = {*self.conversation.optional_tools} - self.absent_tools
        tools = [tool for tool in self.conversation.tools if tool.get("name") in names]
        return self.parts.counter.tools(tools).tokens

    @property
    def adds_summaries(self) -> bool:
        """Whether the request summarizes more than the one before."""
        return any(each.reason == "summary" for each in self.new_breaks)
