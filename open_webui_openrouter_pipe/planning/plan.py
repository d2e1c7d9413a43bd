"""What a plan says: the request that is sent, what was done to make it fit, and which summaries it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..conversation.budget import (
    Budget,
)
from ..conversation.conversation import Conversation, DigestedItem
from ..conversation.tokens import TokenCounts
from ..responses.items import Item
from ..summaries.segments import SummaryTarget
from .detail import PartsByDetail
from .recalled import NOTHING_RECALLED, Recalled
from .reductions import Reduction
from .simulate import (
    Cutoffs,
    PrefixBreak,
)

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
