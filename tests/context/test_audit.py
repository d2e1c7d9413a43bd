"""The audit row and the metrics."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.context.audit import AuditRow, Metrics, audit_row, metrics, rejected_row
from open_webui_openrouter_pipe.context.overflow import ContextOverflow
from open_webui_openrouter_pipe.context.plan import ModelTerms
from open_webui_openrouter_pipe.responses.usage import Usage
from tests.support.chats import history, planned, user

SMALL = ModelTerms("vendor/model", 10_000)


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
        tokens_after_prune=size,
        tokens_after_landing=size,
        summary_wanted=False,
        retention_triggered=False,
        prune_triggered=False,
        landing_triggered=False,
        overflow_rejected=False,
        billed_tokens=40,
        cached_tokens=30,
        cost=0.5,
    )


def test_the_metrics_are_sums_over_rows() -> None:
    """Refused requests count as such and leave the averages alone."""
    with pytest.raises(ContextOverflow) as refused:
        planned(history([user("ship " * 9000)]), model=SMALL)
    sent = audit_row(planned(history([user("hello")]), model=SMALL))
    rows = [
        sent.with_usage(Usage(input_tokens=100, cached_tokens=50, cost=0.25)),
        sent.with_usage(Usage(input_tokens=300, cached_tokens=250, cost=0.25)),
        rejected_row("vendor/model", refused.value),
    ]
    assert metrics(rows) == Metrics(3, 0, 0, 1, avg_prompt_tokens=200.0, cached_share=0.75, cost=0.5)
    assert metrics([]) == Metrics(0, 0, 0, 0, 0.0, 0.0, 0.0)
