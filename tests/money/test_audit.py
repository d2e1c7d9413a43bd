"""The rows of the audit: of sent and rejected requests, and of those for summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import Budget, ContextOverflow
from open_webui_openrouter_pipe.money.audit import (
    AuditRow,
    AuditStep,
    PrefixNote,
    SummaryOutcome,
    audit_row,
    rejected_row,
    summary_row,
)
from open_webui_openrouter_pipe.money.prefix import FoundBreak
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.responses.effects import Usage
from tests.support.chats import history, planned, user

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.planning.plan import StepName

SMALL = ModelTerms("vendor/model", 10_000)
BUDGET = Budget(10_000, 2500, 500)
BILLED = Usage(input_tokens=40, cached_tokens=30, cost=0.5)


def test_a_sent_request_is_recorded() -> None:
    """Window, budget, the sizes before and after each step, and what was billed."""
    plan = planned(history([user("hello")]), model=SMALL)
    assert audit_row(plan).with_usage(BILLED) == AuditRow(
        model="vendor/model",
        purpose="answer",
        window_tokens=10_000,
        budget_tokens=7000,
        limit_tokens=7000,
        tokens_before=plan.tokens,
        tokens_sent=plan.tokens,
        steps=tuple(AuditStep(step.name, plan.tokens, triggered=False) for step in plan.steps),
        rejected=False,
        billed_tokens=40,
        cached_tokens=30,
        cost=0.5,
        details_omitted=0,
        failure="",
    )
    assert plan.steps


def test_a_beginning_that_nobody_announced_is_recorded() -> None:
    """Its place, its cause and its price; and what was expected to be cached, whatever was found."""
    row = audit_row(planned(history([user("hello")]), model=SMALL))
    found = FoundBreak("turn 3", "edit", ("unused",), 5000, 0.25)
    assert row.with_prefix(PrefixNote(None, 700)) == replace(row, expected_cached_tokens=700)
    assert row.with_prefix(PrefixNote(found, 700)) == replace(
        row,
        break_position="turn 3",
        break_cause="edit",
        lost_tokens=5000,
        lost_cost=0.25,
        expected_cached_tokens=700,
    )


def test_a_rejected_request_is_recorded() -> None:
    """With the size of what cannot be dropped, and the budget that half of the reserves leaves; nothing was sent."""
    with pytest.raises(ContextOverflow) as rejected:
        planned(history([user("ship " * 9000)]), model=SMALL)
    assert rejected_row("vendor/model", rejected.value) == AuditRow(
        model="vendor/model",
        purpose="answer",
        window_tokens=10_000,
        budget_tokens=8500,
        limit_tokens=8500,
        tokens_before=rejected.value.needed_tokens,
        tokens_sent=0,
        rejected=True,
    )


def test_a_request_for_a_summary_is_recorded() -> None:
    """With the sizes of source and summary, the details it omits, what was billed, and what it was for."""
    outcome = SummaryOutcome(source_tokens=9000, summary_tokens=1100, details_omitted=2)
    assert summary_row("vendor/model", outcome, ahead=True, budget=BUDGET, usage=BILLED) == AuditRow(
        model="vendor/model",
        purpose="summary_ahead",
        window_tokens=10_000,
        budget_tokens=7000,
        limit_tokens=7000,
        tokens_before=9000,
        tokens_sent=1100,
        billed_tokens=40,
        cached_tokens=30,
        cost=0.5,
        details_omitted=2,
    )


def test_a_failed_request_for_a_summary_says_why() -> None:
    """One that was never answered was billed nothing."""
    outcome = SummaryOutcome(9000, failure="time-out")
    assert summary_row("vendor/model", outcome, ahead=False, budget=BUDGET) == AuditRow(
        model="vendor/model",
        purpose="summary",
        window_tokens=10_000,
        budget_tokens=7000,
        limit_tokens=7000,
        tokens_before=9000,
        tokens_sent=0,
        failure="time-out",
    )


@pytest.mark.parametrize(
    ("name", "triggered", "pruned"),
    [
        ("cap", True, False),
        ("summary", True, False),
        ("retention", True, True),
        ("prune", True, True),
        ("clip", True, True),
        ("evict", True, True),
        ("evict", False, False),
    ],
)
def test_a_request_is_pruned_by_each_step_that_drops_without_a_summary(
    name: StepName,
    triggered: bool,  # noqa: FBT001 - columns of the table
    pruned: bool,  # noqa: FBT001
) -> None:
    """And only if the step changed something."""
    steps = (AuditStep("cap", 9, triggered=True), AuditStep(name, 9, triggered=triggered))
    assert AuditRow("m", "answer", 1, 1, 1, 1, 1, steps).pruned == pruned
