"""What is recorded about the context of each request, and the figures made of it.

Owns the values of the audit row and the metrics' arithmetic. It must not store anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..conversation.budget import Budget, WindowTooSmall
from ..responses.usage import Usage
from .overflow import ContextOverflow
from .plan import Plan

Purpose: TypeAlias = Literal["answer", "summary", "summary_ahead"]
"""What a request is for: the user's answer, or a summary, made while the user waits or in the background."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One request. Sizes are tokens, estimated ones by the plain count; the cost is US dollars.

    The billed figures are zero until the provider has answered, and stay so when the request was refused. In the
    row of a request for a summary, the sizes before the step `summary` are those of what was summarised, and those
    from there on what the summary comes to; `facts_lost` is how many exact details it neither repeats nor lists,
    and `failure` why there is no summary, empty when there is one.
    """

    model: str
    window_tokens: int
    budget_tokens: int
    limit_tokens: int
    tokens_before: int
    tokens_after_cap: int
    tokens_after_retention: int
    tokens_after_summary: int
    tokens_after_prune: int
    tokens_after_landing: int
    retention_triggered: bool
    summary_triggered: bool
    prune_triggered: bool
    landing_triggered: bool
    overflow_rejected: bool
    billed_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    purpose: Purpose = "answer"
    facts_lost: int = 0
    failure: str = ""

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
        tokens_after_summary=steps["summary"].tokens,
        tokens_after_prune=steps["prune"].tokens,
        tokens_after_landing=steps["evict"].tokens,
        retention_triggered=steps["retention"].triggered,
        summary_triggered=steps["summary"].triggered,
        prune_triggered=steps["prune"].triggered,
        landing_triggered=steps["evict"].triggered,
        overflow_rejected=False,
    )


def rejected_row(model: str, overflow: ContextOverflow | WindowTooSmall) -> AuditRow:
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
        tokens_after_summary=needed,
        tokens_after_prune=needed,
        tokens_after_landing=needed,
        retention_triggered=False,
        summary_triggered=False,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=True,
    )


@dataclass(frozen=True, slots=True)
class SummaryOutcome:
    """What became of a request for a summary; sizes are tokens. Without a summary `failure` says why."""

    source_tokens: int
    summary_tokens: int = 0
    facts_lost: int = 0
    failure: str = ""


def summary_row(
    model: str, summarized: SummaryOutcome, *, ahead: bool, budget: Budget, usage: Usage | None = None
) -> AuditRow:
    """The row of a request for a summary; `ahead` when nobody waited for it, `usage` None when it was not billed."""
    source, summary = summarized.source_tokens, summarized.summary_tokens
    row = AuditRow(
        model=model,
        window_tokens=budget.window_tokens,
        budget_tokens=budget.input_tokens,
        limit_tokens=budget.input_tokens,
        tokens_before=source,
        tokens_after_cap=source,
        tokens_after_retention=source,
        tokens_after_summary=summary,
        tokens_after_prune=summary,
        tokens_after_landing=summary,
        retention_triggered=False,
        summary_triggered=True,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=False,
        purpose="summary_ahead" if ahead else "summary",
        facts_lost=summarized.facts_lost,
        failure=summarized.failure,
    )
    return row.with_usage(usage or Usage())


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sums over audit rows.

    `requests`, averages, share and `cost` are those of the requests for answers, the latter three of those that were
    sent. `summary_count` is how many summaries were made, and `summary_cost` what all requests for summaries cost,
    failed ones among them, beside `cost`.
    """

    requests: int
    summary_count: int
    prune_count: int
    overflow_reject_count: int
    avg_prompt_tokens: float
    cached_share: float
    cost: float
    summary_cost: float


def metrics(rows: Sequence[AuditRow]) -> Metrics:
    """The figures of a number of requests; all zero for none."""
    answers = [row for row in rows if row.purpose == "answer"]
    summaries = [row for row in rows if row.purpose != "answer"]
    sent = [row for row in answers if not row.overflow_rejected]
    billed = sum(row.billed_tokens for row in sent)
    return Metrics(
        requests=len(answers),
        summary_count=sum(not row.failure for row in summaries),
        prune_count=sum(
            row.retention_triggered or row.prune_triggered or row.landing_triggered for row in answers
        ),
        overflow_reject_count=len(answers) - len(sent),
        avg_prompt_tokens=sum(row.billed_tokens or row.tokens_after_landing for row in sent)
        / max(1, len(sent)),
        cached_share=sum(row.cached_tokens for row in sent) / max(1, billed),
        cost=sum(row.cost for row in sent),
        summary_cost=sum(row.cost for row in summaries),
    )
