"""Fits a chat into the model's window, on the way between history and dispatch.

Owns the translation of a history into a conversation and its plan, the thread in which a large chat is planned,
the words for the user, and what is learned and recorded when the bill comes. What is shortened, and when, is
decided in `context` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from ..context.audit import AuditRow, audit_row, rejected_row
from ..context.fold import Reason
from ..context.media import Family, family_of
from ..context.overflow import ContextOverflow
from ..context.plan import LANDING, ModelTerms, Plan, plan
from ..context.recent import Recent
from ..context.settings import ContextSettings
from ..context.tokens import Counter, Tally
from ..context.turns import Conversation, Tool, conversation
from ..errors import ContextBudgetExceeded
from ..history.transform import Transformed
from ..ports import Audit, Audited, Calibrations, Notice, Vocabulary
from ..responses.effects import ResponseFailed, ResponseFinished
from ..responses.items import is_function_call, is_message, is_reasoning
from .recorder import Origin

LARGE_ITEMS: Final = 200
LARGE_CHARACTERS: Final = 200_000
"""From here on a chat that was never counted takes longer than the event loop may wait (about 10 ms)."""

SMALLER_SHARE: Final = 0.75
"""What of a refused request's tokens the next attempt may have, before it lands below."""

_INSTRUCTING: Final = frozenset({"system", "developer"})
_TOLD: Final[Mapping[Reason, str]] = {
    "retention": "Older tool results were shortened to their key facts.",
    "clip": "Only the last messages of this chat were sent to the model.",
    "prune": "Older parts of this chat were shortened to fit the model's window.",
    "landing": "The oldest parts of this chat were left out to fit the model's window.",
}


@dataclass(frozen=True, slots=True)
class Means:
    """What all fittings of a worker share: the ports, and a bounded memory of what was counted and stated."""

    audit: Audit
    calibrations: Calibrations
    vocabulary: Vocabulary
    new_id: Callable[[], str]
    facts: Recent[str] = field(default_factory=Recent)
    counts: dict[tuple[Family, bool], Recent[Tally]] = field(default_factory=dict)

    async def counter(self, model_id: str) -> Counter:
        """The counter for a model; families, and counts with and without a vocabulary, are kept apart."""
        encode = await self.vocabulary.encode()
        family = family_of(model_id)
        counts = self.counts.setdefault((family, encode is not None), Recent())
        return Counter(counts, encode, family)


@dataclass(frozen=True, slots=True)
class Terms:
    """What one call is fitted to: the settings, the model, and the tools that every request carries."""

    settings: ContextSettings
    model: ModelTerms
    tools: tuple[Tool, ...] = ()


class Fitting:
    """Fits the requests of one call of the host."""

    def __init__(self, means: Means, terms: Terms, origin: Origin) -> None:
        """`origin` is whose request the audit says it was."""
        self._means = means
        self._terms = terms
        self._origin = origin

    async def fit(self, transformed: Transformed) -> Plan:
        """Plan the request. Raises ContextBudgetExceeded, and records it, when it cannot be made to fit."""
        try:
            return await self._plan(transformed, self._terms.model)
        except ContextOverflow as overflow:
            self._record(rejected_row(self._terms.model.id, overflow))
            raise

    async def fit_lower(self, transformed: Transformed, refused: Plan) -> Plan | None:
        """Plan anew after the provider has counted more than its window; None when nothing more may go."""
        window_tokens = refused.budget.window_tokens
        if refused.tokens < window_tokens:
            self._means.calibrations.learn(refused.model, refused.tally, window_tokens)
        if self._terms.settings.context_strategy not in LANDING:
            return None
        share = min(1.0, refused.tokens / refused.limit_tokens) * SMALLER_SHARE
        smaller = replace(self._terms.model, window_tokens=int(window_tokens * share))
        try:
            lower = await self._plan(transformed, smaller)
        except ContextBudgetExceeded:
            return None
        return lower if lower.tokens < refused.tokens else None

    def settle(self, sent: Plan, end: ResponseFinished | ResponseFailed | None) -> None:
        """Learn from the bill and record the request; `end` is None for one that never ended."""
        row = audit_row(sent)
        if end is not None and end.usage is not None:
            row = row.with_usage(end.usage)
            if _was_read_once(end):
                self._means.calibrations.learn(sent.model, sent.tally, end.usage.input_tokens)
        self._record(row)

    async def _plan(self, transformed: Transformed, model: ModelTerms) -> Plan:
        work = partial(
            _planned,
            transformed,
            replace(self._terms, model=model),
            await self._means.counter(model.id),
            facts=self._means.facts,
            calibration=await self._means.calibrations.find(model.id),
        )
        return await asyncio.to_thread(work) if is_large(transformed.items) else work()

    def _record(self, row: AuditRow) -> None:
        origin = self._origin
        self._means.audit.write(
            Audited(self._means.new_id(), origin.user_id, origin.chat_id, origin.message_id, row)
        )


def notices(sent: Plan) -> list[Notice]:
    """What the user is told: once when something begins to be shortened, not with every request after it."""
    return [Notice(text) for text in dict.fromkeys(_TOLD[epoch.reason] for epoch in sent.breaks)]


def conversation_of(transformed: Transformed, tools: Sequence[Tool]) -> Conversation:
    """Take the instructions, and what the host added to them for this one request, out of the turns.

    What the host added stands directly before the latest user message and has its origin.
    """
    numbered = list(zip(transformed.items, transformed.turns, transformed.origins, strict=True))
    told = [is_message(item) and item["role"] in _INSTRUCTING for item, _, _ in numbered]
    leading = told.index(False) if False in told else 0
    volatile = {at for at, (_, _, origin) in enumerate(numbered) if told[at] and origin.role == "user"}
    fixed = [at for at in range(leading) if at not in volatile]
    rest = [at for at in range(len(numbered)) if at not in volatile and at not in fixed]
    return conversation(
        [numbered[at][0] for at in rest],
        [numbered[at][1] for at in rest],
        instructions=[numbered[at][0] for at in fixed],
        tools=tools,
        volatile=[numbered[at][0] for at in sorted(volatile)] if rest else (),
    )


def is_large(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether planning the items may take long enough to be noticed by others."""
    return len(items) > LARGE_ITEMS or sum(map(_characters, items)) > LARGE_CHARACTERS


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return sum(map(_characters, inner))


def _planned(transformed: Transformed, terms: Terms, counter: Counter, **memory: Any) -> Plan:
    chat = conversation_of(transformed, terms.tools)
    return plan(chat, terms.settings, model=terms.model, counter=counter, **memory)


def _was_read_once(end: ResponseFinished | ResponseFailed) -> bool:
    """Whether the bill is for this input alone: the provider's own tools read it again in each of their rounds."""
    return isinstance(end, ResponseFinished) and all(
        is_message(item) or is_reasoning(item) or is_function_call(item) for item in end.items
    )
