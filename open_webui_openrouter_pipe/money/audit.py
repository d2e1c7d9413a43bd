"""What is recorded about the context of each request: the values of the audit's rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from ..conversation.budget import Budget, ContextOverflow, WindowTooSmall
from ..planning.plan import Plan, Step
from ..responses.effects import Usage
from .prefix import FoundBreak

Purpose: TypeAlias = Literal["answer", "summary", "summary_ahead"]
"""What a request is for: the user's answer, or a summary, written while the user waits or in the background."""

AuditStep: TypeAlias = Step
"""The size of a request after a step, in tokens, and whether the step changed it."""

_NOT_PRUNING = frozenset({"cap", "summary", "recall"})


@dataclass(frozen=True, slots=True)
class PrefixNote:
    """How a request begins: a change that nobody announced, if there is one, and what was expected to be cached."""

    found: FoundBreak | None = None
    expected_cached_tokens: int = 0


NO_PREFIX_NOTE: Final = PrefixNote()
"""Where nothing was compared."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One request. Sizes are tokens by the plain count; the cost is US dollars.

    `tokens_before` is the size of everything, `tokens_sent` what was sent of it after the `steps`, 0 when the request
    was rejected. In the row of a request for a summary they are the sizes of its source and of the summary;
    `details_omitted` is how many tool calls, files and links the summary does not list, and `failure` why there is no
    summary. What the provider billed is zero until it has answered. `break_position` and `break_cause` say where and
    why the request begins otherwise than the one before although nobody announced it, "" where it does not;
    `lost_tokens` and `lost_cost` are its price, and `expected_cached_tokens` are held against those that were cached.
    """

    model: str
    purpose: Purpose
    window_tokens: int
    budget_tokens: int
    limit_tokens: int
    tokens_before: int
    tokens_sent: int
    steps: tuple[AuditStep, ...] = ()
    rejected: bool = False
    billed_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    details_omitted: int = 0
    failure: str = ""
    break_position: str = ""
    break_cause: str = ""
    lost_tokens: int = 0
    expected_cached_tokens: int = 0
    lost_cost: float = 0.0

    @property
    def pruned(self) -> bool:
        """Whether old turns or tool results were shortened or dropped without a summary."""
        return any(step.triggered and step.name not in _NOT_PRUNING for step in self.steps)

    def with_usage(self, usage: Usage) -> AuditRow:
        """Return the row with what the provider billed for the request."""
        return replace(
            self, billed_tokens=usage.input_tokens, cached_tokens=usage.cached_tokens, cost=usage.cost
        )

    def with_prefix(self, note: PrefixNote) -> AuditRow:
        """Return the row with what was found of the request's beginning."""
        row = replace(self, expected_cached_tokens=note.expected_cached_tokens)
        if (found := note.found) is None:
            return row
        return replace(
            row,
            break_position=found.position,
            break_cause=found.cause,
            lost_tokens=found.lost_tokens,
            lost_cost=found.lost_cost,
        )


def audit_row(plan: Plan) -> AuditRow:
    """Return the row of a request that is sent."""
    return AuditRow(
        model=plan.model,
        purpose="answer",
        window_tokens=plan.budget.window_tokens,
        budget_tokens=plan.budget.input_tokens,
        limit_tokens=plan.limit_tokens,
        tokens_before=plan.tokens_before,
        tokens_sent=plan.tokens,
        steps=plan.steps,
    )


def rejected_row(model: str, overflow: ContextOverflow | WindowTooSmall) -> AuditRow:
    """Return the row of a request that does not fit; `tokens_before` is what cannot be dropped."""
    return AuditRow(
        model=model,
        purpose="answer",
        window_tokens=overflow.budget.window_tokens,
        budget_tokens=overflow.budget.input_tokens,
        limit_tokens=overflow.limit_tokens,
        tokens_before=overflow.needed_tokens,
        tokens_sent=0,
        rejected=True,
    )


@dataclass(frozen=True, slots=True)
class SummaryOutcome:
    """What became of a request for a summary; sizes are tokens. Without a summary `failure` says why."""

    source_tokens: int
    summary_tokens: int = 0
    details_omitted: int = 0
    failure: str = ""


def summary_row(
    model: str, outcome: SummaryOutcome, *, ahead: bool, budget: Budget, usage: Usage | None = None
) -> AuditRow:
    """Return the row of a request for a summary; `ahead` when nobody waited, `usage` None when it was not billed."""
    row = AuditRow(
        model=model,
        purpose="summary_ahead" if ahead else "summary",
        window_tokens=budget.window_tokens,
        budget_tokens=budget.input_tokens,
        limit_tokens=budget.input_tokens,
        tokens_before=outcome.source_tokens,
        tokens_sent=outcome.summary_tokens,
        details_omitted=outcome.details_omitted,
        failure=outcome.failure,
    )
    return row.with_usage(usage or Usage())
