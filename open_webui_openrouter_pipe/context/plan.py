"""The plan of one request: what is sent, what was done to make it fit, and what should be summarised.

Owns the order of the steps: cap, retain, stand-ins, relieve, land, refuse. The steps themselves are
elsewhere. It must not change a conversation's wording beyond what the steps say, and the same conversation
gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from ..responses.items import Item
from .budget import FALLBACK_WINDOW_TOKENS, Budget, budget_of
from .calibration import Calibration
from .clip import clip
from .fold import Bounds, Epoch, Folded, Moment, Policy, Reason, Terms, fold
from .forms import BOUNDLESS, Form, Forms, Limits
from .landing import land, relieve
from .overflow import ContextOverflow, Share
from .pins import omission_note, rules_note
from .pricing import CachePrices
from .recent import Recent
from .retention import retain
from .segments import Segment, wanted_segment
from .settings import ContextSettings, Strategy
from .tokens import NOTHING, Counter, Tally
from .turns import Conversation, Entry

SCALE_STEPS_PER_UNIT = 10
LEADING_BITS = 3

StepName = Literal["cap", "retention", "prune", "landing"]

_LADDER: tuple[tuple[Reason, Policy], ...] = (("retention", retain), ("prune", relieve), ("landing", land))
_POLICIES: Mapping[Strategy, tuple[tuple[Reason, Policy], ...]] = MappingProxyType(
    {
        "summarize": _LADDER,
        "prune": _LADDER,
        "clip": (("clip", clip), ("retention", retain), ("landing", land)),
        "refuse": (("retention", retain),),
        "off": (("retention", retain),),
    }
)
LANDING: frozenset[Strategy] = frozenset({"summarize", "prune", "clip"})
"""Strategies that drop what they must; the others refuse, or send everything."""


@dataclass(frozen=True, slots=True)
class ModelTerms:
    """What a plan needs of the model that serves the request.

    `window_tokens` is the smallest of all that may serve it, None when unknown; `output_tokens` what the
    request asks for, None when it leaves that open.
    """

    id: str
    window_tokens: int | None = None
    output_tokens: int | None = None
    prices: CachePrices = field(default_factory=CachePrices)


@dataclass(frozen=True, slots=True)
class Step:
    """What the request came to after a step, and whether the step did something in this very request."""

    name: StepName
    tokens: int
    triggered: bool


@dataclass(frozen=True, slots=True)
class Marks:
    """Ends of the blocks that stay the same from request to request, as numbers of items."""

    instructions: int
    unchanged: int
    """Up to the first change against the request before; up to the frontier when that is the same."""
    frontier: int
    completed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that fits.

    `tokens_before` is what everything would have come to, `tokens` what `items` come to with tools, by the
    plain count; `tally` divides the latter by class, for the calibration. `epochs` are all changes of the
    prefix so far; `breaks` are those of this request. `wanted` is what should be summarised for the next
    one.
    """

    model: str
    items: tuple[Item, ...]
    marks: Marks
    budget: Budget
    limit_tokens: int
    tokens_before: int
    tokens: int
    steps: tuple[Step, ...]
    tally: Tally
    epochs: tuple[Epoch, ...]
    breaks: tuple[Epoch, ...]
    wanted: Segment | None


def plan(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    model: ModelTerms,
    counter: Counter,
    facts: Recent[str],
    calibration: Calibration | None = None,
) -> Plan:
    """Fit a conversation into a model's window.

    Raises ContextOverflow (a ContextBudgetExceeded) when what must be sent is over the limit, unless the
    strategy is `off`. `calibration` moves the limit in steps, so that the landing does not move with each
    observation.
    """
    asked = model.output_tokens or settings.context_max_output_tokens
    budget = budget_of(model.window_tokens or FALLBACK_WINDOW_TOKENS, output_tokens=asked)
    bounded = settings.context_strategy != "off"
    note = rules_note if settings.context_strategy == "clip" else omission_note
    limits = Limits(budget.input_tokens, note=note) if bounded else BOUNDLESS
    forms = Forms(conversation, counter, facts, limits)
    limit_tokens = int(budget.input_tokens / _scale(conversation, counter, calibration))
    drafts = [_Draft(conversation, settings, model, budget, limit_tokens, forms)]
    if settings.context_strategy in LANDING:
        drafts.append(replace(drafts[0], conversation=replace(conversation, volatile=())))
    for draft in drafts:
        final = draft.final()
        if not bounded or final.tokens() <= limit_tokens:
            return draft.plan(final)
    raise ContextOverflow(budget, limit_tokens, tuple(drafts[-1].shares(drafts[-1].final())))


def _scale(conversation: Conversation, counter: Counter, calibration: Calibration | None) -> float:
    """How much larger than the plain count the provider's may be, in steps; never below one."""
    if calibration is None:
        return 1.0
    tally = _sum([*_tallies(counter, _everything(conversation)), counter.tools(conversation.tools)])
    ratio = calibration.upper_tokens(tally) / max(1, tally.tokens)
    return max(1.0, math.ceil(ratio * SCALE_STEPS_PER_UNIT) / SCALE_STEPS_PER_UNIT)


def _everything(conversation: Conversation) -> Iterator[Entry]:
    yield from conversation.instructions
    yield from conversation.standing
    yield from conversation.volatile
    for turn in conversation.turns:
        yield from turn.entries


def _tallies(counter: Counter, entries: Iterable[Entry]) -> list[Tally]:
    return [counter.entry(entry) for entry in entries]


def _sum(tallies: Sequence[Tally]) -> Tally:
    return Tally(*map(sum, zip(*tallies, strict=True))) if tallies else NOTHING


def _stepped(tokens: int) -> int:
    """Rounded up to three leading bits: text that changes a little does not move what was decided before."""
    step = 1 << max(0, tokens.bit_length() - LEADING_BITS)
    return -(-tokens // step) * step


@dataclass(frozen=True, slots=True)
class _Draft:
    """A plan in the making: the conversation in its forms, and what it is measured against."""

    conversation: Conversation
    settings: ContextSettings
    model: ModelTerms
    budget: Budget
    limit_tokens: int
    forms: Forms

    def final(self) -> _Final:
        """Fold the past, and give the current request with the bounds that follow."""
        fixed, volatile = self._fixed_tokens(), self._tokens(self.conversation.volatile)
        terms = Terms(self.settings, self.model.prices, fixed + _stepped(volatile), self.limit_tokens)
        folded = fold(self.forms, terms, _POLICIES[self.settings.context_strategy])
        actual = replace(terms, base_tokens=fixed + volatile)
        return _Final(folded, Moment(self.forms, actual, folded.bounds, len(self.forms.parts)))

    def plan(self, final: _Final) -> Plan:
        """Put the request together."""
        entries, starts = self._entries(final.folded.bounds)
        tools = self.forms.counter.tools(self.conversation.tools)
        everything = self._tokens(_everything(self.conversation))
        steps = tuple(final.steps())
        return Plan(
            model=self.model.id,
            items=tuple(entry.item for entry in entries),
            marks=self._marks(final.folded, starts),
            budget=self.budget,
            limit_tokens=self.limit_tokens,
            tokens_before=everything + tools.tokens,
            tokens=final.tokens(),
            steps=steps,
            tally=_sum([*_tallies(self.forms.counter, entries), tools]),
            epochs=final.folded.epochs,
            breaks=final.breaks,
            wanted=wanted_segment(
                self.conversation, self.settings, tokens=steps[1].tokens, limit_tokens=self.limit_tokens
            ),
        )

    def shares(self, final: _Final) -> Iterator[Share]:
        """What the request holds when all that may go is gone; with the strategy `refuse`, nothing is."""
        forms, conversation = self.forms, self.conversation
        bounds, end = final.folded.bounds, len(forms.parts)
        head = forms.current
        gone = bounds.ends[Form.GONE]
        yield Share("instructions", self._tokens(conversation.instructions), droppable=False)
        yield Share("tools", forms.counter.tools(conversation.tools).tokens, droppable=False)
        yield Share("summaries", self._tokens(conversation.standing), droppable=False)
        yield Share("retrieved text", self._tokens(conversation.volatile), droppable=True)
        yield Share("pinned rules", self._tokens(forms.note(gone)), droppable=False)
        yield Share("earlier turns", self._parts_tokens(bounds, 0, head), droppable=True)
        yield Share("latest message", self._parts_tokens(bounds, head, min(end, head + 1)), droppable=False)
        yield Share("current tool calls", self._parts_tokens(bounds, head + 1, end), droppable=False)

    def _entries(self, bounds: Bounds) -> tuple[list[Entry], list[int]]:
        """The entries in their order, and how many come before each part and at the end."""
        forms, conversation = self.forms, self.conversation
        note = forms.note(bounds.ends[Form.GONE])
        entries = [*conversation.instructions, *conversation.standing, *note]
        starts = []
        for at in range(len(forms.parts)):
            if at == forms.current:
                entries += conversation.volatile
            starts.append(len(entries))
            entries += forms.entries(bounds.form_of(at), at)
        return entries, [*starts, len(entries)]

    def _marks(self, folded: Folded, starts: Sequence[int]) -> Marks:
        """The ends of what stays the same, as the starts of parts."""
        bounds, previous = folded.bounds, folded.previous
        fixed = len(self.conversation.instructions) + len(self.conversation.standing)
        frontier = bounds.ends[Form.SPENT]
        kept = next((at for at in range(frontier) if bounds.form_of(at) != previous.form_of(at)), frontier)
        return Marks(
            instructions=len(self.conversation.instructions),
            unchanged=starts[kept] if bounds.ends[Form.GONE] == previous.ends[Form.GONE] else fixed,
            frontier=starts[frontier],
            completed=starts[self.forms.current] - len(self.conversation.volatile),
        )

    def _fixed_tokens(self) -> int:
        conversation = self.conversation
        tools = self.forms.counter.tools(conversation.tools).tokens
        return tools + self._tokens([*conversation.instructions, *conversation.standing])

    def _tokens(self, entries: Iterable[Entry]) -> int:
        return sum(tally.tokens for tally in _tallies(self.forms.counter, entries))

    def _parts_tokens(self, bounds: Bounds, start: int, end: int) -> int:
        return sum(self._tokens(self.forms.entries(bounds.form_of(at), at)) for at in range(start, end))


@dataclass(frozen=True, slots=True)
class _Final:
    """The folded past, and the current request as it follows."""

    folded: Folded
    moment: Moment

    def tokens(self) -> int:
        """What the request comes to."""
        return self.moment.tokens()

    @property
    def breaks(self) -> tuple[Epoch, ...]:
        """The changes of the prefix that begin with this request."""
        return tuple(epoch for epoch in self.folded.epochs if epoch.request == self.moment.end)

    def steps(self) -> Iterator[Step]:
        """What the request came to after each step."""
        reasons = {epoch.reason for epoch in self.breaks}
        bounds = self.folded.bounds
        kept = Bounds((*bounds.ends[: Form.GONE], 0))
        whole, retained = self.moment.tokens(Bounds()), self.moment.tokens(self.folded.retained)
        yield Step("cap", whole, triggered=False)
        yield Step("retention", retained, triggered="retention" in reasons)
        yield Step("prune", self.moment.tokens(kept), triggered="prune" in reasons)
        yield Step("landing", self.moment.tokens(), triggered=bool(reasons & {"landing", "clip"}))
