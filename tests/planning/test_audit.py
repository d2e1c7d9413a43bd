"""The audit row and the metrics."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.budget import Budget
from open_webui_openrouter_pipe.planning.audit import (
    AuditRow,
    Metrics,
    SummaryOutcome,
    audit_row,
    metrics,
    rejected_row,
    summary_row,
)
from open_webui_openrouter_pipe.planning.overflow import ContextOverflow
from open_webui_openrouter_pipe.planning.plan import ModelTerms
from open_webui_openrouter_pipe.responses.usage import Usage
from tests.support.chats import history, planned, user

SMALL = ModelTerms("vendor/model", 10_000)
BILLED = Usage(input_tokens=9500, cached_tokens=9000, cost=0.125)


def test_a_request_leaves_its_figures() -> None:
    """Window, budget, sizes after each step, and what was billed."""
    made = planned(history([user("hello")]), model=SMALL)
    size = made.tokens
    assert audit_row(made).with_usage(Usage(input_tokens=40, cached_tokens=30, cost=0.5)) == AuditRow(
        model="vendor/model",
        window_tokens=10_000,
        budget_tokens=6976,
        limit_tokens=6976,
        tokens_before=size,
        tokens_after_cap=size,
        tokens_after_retention=size,
        tokens_after_summary=size,
        tokens_after_prune=size,
        tokens_after_landing=size,
        retention_triggered=False,
        summary_triggered=False,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=False,
        billed_tokens=40,
        cached_tokens=30,
        cost=0.5,
        purpose="answer",
        facts_lost=0,
        failure="",
    )


def test_a_request_for_a_summary_leaves_a_row_of_its_own() -> None:
    """What was summarised and what the summary comes to, what it lost, what was billed, and for whom it was."""
    summarized = SummaryOutcome(source_tokens=9000, summary_tokens=1100, facts_lost=2)
    usage = Usage(input_tokens=9500, cached_tokens=9000, cost=0.125)
    made = summary_row("vendor/model", summarized, ahead=True, budget=Budget(10_000, 2000, 1024), usage=usage)
    assert made == AuditRow(
        model="vendor/model",
        window_tokens=10_000,
        budget_tokens=6976,
        limit_tokens=6976,
        tokens_before=9000,
        tokens_after_cap=9000,
        tokens_after_retention=9000,
        tokens_after_summary=1100,
        tokens_after_prune=1100,
        tokens_after_landing=1100,
        retention_triggered=False,
        summary_triggered=True,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=False,
        billed_tokens=9500,
        cached_tokens=9000,
        cost=0.125,
        purpose="summary_ahead",
        facts_lost=2,
        failure="",
    )


def test_a_request_without_a_summary_says_why() -> None:
    """One that was never answered was billed nothing."""
    made = summary_row(
        "vendor/model",
        SummaryOutcome(9000, failure="time-out"),
        ahead=False,
        budget=Budget(10_000, 2000, 1024),
    )
    figures = (made.purpose, made.failure, made.tokens_after_summary, made.billed_tokens, made.cost)
    assert figures == ("summary", "time-out", 0, 0, 0.0)


def test_the_metrics_are_sums_over_rows() -> None:
    """Refused requests count as such and leave the averages alone, and so do those for summaries."""
    with pytest.raises(ContextOverflow) as refused:
        planned(history([user("ship " * 9000)]), model=SMALL)
    sent = audit_row(planned(history([user("hello")]), model=SMALL))
    rows = [
        sent.with_usage(Usage(input_tokens=100, cached_tokens=50, cost=0.25)),
        sent.with_usage(Usage(input_tokens=300, cached_tokens=250, cost=0.25)),
        rejected_row("vendor/model", refused.value),
        *(
            summary_row("cheap/model", each, ahead=ahead, budget=Budget(10_000, 0, 0), usage=BILLED)
            for each in (SummaryOutcome(9000, 900), SummaryOutcome(9000, failure="empty"))
            for ahead in (False, True)
        ),
    ]
    assert metrics(rows) == Metrics(
        requests=3,
        summary_count=2,
        prune_count=0,
        overflow_reject_count=1,
        avg_prompt_tokens=200.0,
        cached_share=0.75,
        cost=0.5,
        summary_cost=0.5,
    )
    assert metrics([]) == Metrics(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
