"""What is recorded about the context of each request, and the figures made of it.

Owns the values of the audit row and the metrics' arithmetic. It must not store anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..responses.usage import Usage
from .overflow import ContextOverflow
from .plan import Plan


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One request. Sizes are tokens, estimated ones by the plain count; the cost is US dollars.

    The billed figures are zero until the provider has answered, and stay so when the request was refused.
    """

    model: str
    window_tokens: int
    budget_tokens: int
    limit_tokens: int
    tokens_before: int
    tokens_after_cap: int
    tokens_after_retention: int
    tokens_after_prune: int
    tokens_after_landing: int
    summary_wanted: bool
    retention_triggered: bool
    prune_triggered: bool
    landing_triggered: bool
    overflow_rejected: bool
    billed_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0

    def with_usage(self, usage: Usage) -> AuditRow:
        """The row with what the provider billed for the request."""
        return replace(
            self, billed_tokens=usage.input_tokens, cached_tokens=usage.cached_tokens, cost=usage.cost
        )


def audit_row(plan: Plan) -> AuditRow:
    """The row of a request that is sent."""
    steps = {step.name: step for step in plan.steps}
    return AuditRow(
        model=plan.model,
        window_tokens=plan.budget.window_tokens,
        budget_tokens=plan.budget.input_tokens,
        limit_tokens=plan.limit_tokens,
        tokens_before=plan.tokens_before,
        tokens_after_cap=steps["cap"].tokens,
        tokens_after_retention=steps["retention"].tokens,
        tokens_after_prune=steps["prune"].tokens,
        tokens_after_landing=steps["landing"].tokens,
        summary_wanted=plan.wanted is not None,
        retention_triggered=steps["retention"].triggered,
        prune_triggered=steps["prune"].triggered,
        landing_triggered=steps["landing"].triggered,
        overflow_rejected=False,
    )


def rejected_row(model: str, overflow: ContextOverflow) -> AuditRow:
    """The row of a request that was refused; its sizes are what remained after every step."""
    needed = overflow.needed_tokens
    return AuditRow(
        model=model,
        window_tokens=overflow.budget.window_tokens,
        budget_tokens=overflow.budget.input_tokens,
        limit_tokens=overflow.limit_tokens,
        tokens_before=needed,
        tokens_after_cap=needed,
        tokens_after_retention=needed,
        tokens_after_prune=needed,
        tokens_after_landing=needed,
        summary_wanted=False,
        retention_triggered=False,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=True,
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sums over audit rows; the averages are over the requests that were sent."""

    requests: int
    summary_count: int
    prune_count: int
    overflow_reject_count: int
    avg_prompt_tokens: float
    cached_share: float
    cost: float


def metrics(rows: Sequence[AuditRow]) -> Metrics:
    """The figures of a number of requests; all zero for none."""
    sent = [row for row in rows if not row.overflow_rejected]
    billed = sum(row.billed_tokens for row in sent)
    return Metrics(
        requests=len(rows),
        summary_count=sum(row.summary_wanted for row in rows),
        prune_count=sum(
            row.retention_triggered or row.prune_triggered or row.landing_triggered for row in rows
        ),
        overflow_reject_count=len(rows) - len(sent),
        avg_prompt_tokens=sum(row.billed_tokens or row.tokens_after_landing for row in sent)
        / max(1, len(sent)),
        cached_share=sum(row.cached_tokens for row in sent) / max(1, billed),
        cost=sum(row.cost for row in sent),
    )
