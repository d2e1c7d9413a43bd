"""The rows of the audit: of sent and rejected requests, and of those for summaries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow
from open_webui_openrouter_pipe.money.audit import Bill, rejected_bill, sent_bill
from open_webui_openrouter_pipe.planning.plan import Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from tests.support.chats import history, planned, user
from tests.support.rows import rows

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.planning.plan import StepName

SMALL = ModelTerms("vendor/model", 10_000)


def test_a_sent_request_is_recorded() -> None:
    """Window, budget, the sizes before and after each step; what it costs is not known yet."""
    plan = planned(history([user("hello")]), model=SMALL)
    assert sent_bill(plan) == Bill(
        model="vendor/model",
        purpose="answer",
        window_tokens=10_000,
        budget_tokens=7000,
        limit_tokens=7000,
        tokens_before=plan.tokens,
        tokens_sent=plan.tokens,
        steps=tuple(Step(step.name, plan.tokens, triggered=False) for step in plan.steps),
    )
    assert plan.steps


def test_a_rejected_request_is_recorded() -> None:
    """With the size of what cannot be dropped, and the budget that half of the reserves leaves; nothing was sent."""
    with pytest.raises(ContextOverflow) as rejected:
        planned(history([user("ship " * 9000)]), model=SMALL)
    assert rejected_bill("vendor/model", rejected.value) == Bill(
        model="vendor/model",
        purpose="answer",
        window_tokens=10_000,
        budget_tokens=8500,
        limit_tokens=8500,
        tokens_before=rejected.value.needed_tokens,
        tokens_sent=0,
        rejected=True,
    )


@pytest.mark.parametrize(("names", "pruned"), rows(Path(__file__).parent / "money.txt", "pruned"))
def test_a_request_is_pruned_by_each_step_that_drops_without_a_summary(
    names: list[StepName], *, pruned: bool
) -> None:
    """And only if the step changed something."""
    assert Bill(steps=tuple(Step(name, 9, triggered=True) for name in names)).pruned == pruned
    assert not Bill(steps=tuple(Step(name, 9, triggered=False) for name in names)).pruned
