"""What a plan does to a chat, in lines for people.

Owns the wording. It must not decide or count anything: the figures are the plan's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..responses.items import Item, is_function_call_output
from .plan import Plan


def outline(plan: Plan, items: Sequence[Item], turns: Sequence[int]) -> str:
    """Tell budget, steps, epochs and what is left out; `items` are the whole chat's, `turns` the turn of each."""
    return "\n".join((*_figures(plan), *_epochs(plan, turns), *_losses(plan, items, turns)))


def _figures(plan: Plan) -> Iterator[str]:
    budget = plan.budget
    yield (
        f"plan for a window of {budget.window_tokens:,} tokens: {budget.output_reserve_tokens:,} for the answer, "
        f"{budget.overhead_reserve_tokens:,} in reserve, at most {plan.limit_tokens:,} of input"
    )
    yield f"  {plan.tokens_before:>11,}  everything"
    for step in plan.steps:
        changed = ", changed in this request" if step.triggered else ""
        yield f"  {step.tokens:>11,}  after {step.name}{changed}"


def _epochs(plan: Plan, turns: Sequence[int]) -> Iterator[str]:
    """The changes of the prefix so far."""
    numbers = list(dict.fromkeys(turns))
    yield f"changes of what was sent before: {len(plan.epochs) or 'none'}"
    for epoch in plan.epochs:
        yield f"  turn {numbers[epoch.turn]}: {epoch.reason}, {epoch.tokens_won:,} tokens won"


def _losses(plan: Plan, items: Sequence[Item], turns: Sequence[int]) -> Iterator[str]:
    """What is not sent, or not as it is in the chat; an item that is sent as it is, is the same object."""
    sent = {id(item) for item in plan.items}
    calls = {item["call_id"] for item in plan.items if is_function_call_output(item)}
    changed = [(item, turn) for item, turn in zip(items, turns, strict=True) if id(item) not in sent]
    shortened = [turn for item, turn in changed if is_function_call_output(item) and item["call_id"] in calls]
    gone = [
        turn for item, turn in changed if not is_function_call_output(item) or item["call_id"] not in calls
    ]
    yield f"outputs shortened: {_counted(shortened)}"
    yield f"items left out: {_counted(gone)}"


def _counted(turns: Sequence[int]) -> str:
    if not turns:
        return "none"
    first, last = min(turns), max(turns)
    return f"{len(turns):,} (turn {first})" if first == last else f"{len(turns):,} (turns {first} to {last})"
