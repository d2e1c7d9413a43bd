"""What is planned for which chat: a table of plans. `python -m tests.planning.test_plans` writes what is planned anew.

The left side of a row is in the language of `language.py`. The right side says what is sent and what is not: of the
turns, which are `whole`, `gone`, or with `facts` for results, `cut` texts or `fewer` items; where the prefix changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from open_webui_openrouter_pipe.conversation.budget import MOST_TAUGHT, ContextOverflow
from open_webui_openrouter_pipe.conversation.slash import ChatCommand, Help
from open_webui_openrouter_pipe.planning.plan import Plan
from tests.planning.language import COUNTER, MODEL, Case, new_memory

TAUGHT: Final = {
    "bills": MOST_TAUGHT.bills,
    "ratio": MOST_TAUGHT.ratio,
    "constant": MOST_TAUGHT.constant_tokens,
}

TABLE: Final = Path(__file__).with_name("plans.txt")


def table() -> list[tuple[str, str]]:
    """The rows, without titles."""
    lines = (line for line in TABLE.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return [(when, then) for when, _, then in (line.partition(" | ") for line in lines)]


@pytest.mark.parametrize(("when", "then"), table(), ids=[when for when, _ in table()])
def test_a_chat_is_planned_as_the_table_says(when: str, then: str) -> None:
    """And alike with the summaries that it requires, and where a command that changes nothing has all be decided.

    Whatever bills have taught, where it is said that they cannot matter.
    """
    assert said_of(when) == then
    case = Case.read(when)
    if then.startswith("refused"):
        return
    first = case.plan()
    tools = [tool for tool in case.conversation.tools if tool["name"] not in first.absent_tools]
    sent_tokens = sum(COUNTER.item(item).tokens for item in first.items) + COUNTER.tools(tools).tokens
    assert first.steps[-1].tokens == first.tokens == sent_tokens
    assert case.may_need_summaries or not (first.required_summaries or first.prefetch_summaries)
    limited = replace(case, terms={**case.terms, **TAUGHT})
    assert limited.may_be_shortened or limited.plan().items == first.items
    if not case.commands:
        assert replace(case, commands=(ChatCommand(0, Help()),)).plan() == first
    if first.required_summaries:
        written = case.plan_written(new_memory())
        assert (written.required_summaries, written.prefix_breaks) == ((), first.prefix_breaks)
        assert written.summarized_turns == first.summarized_turns


def said_of(when: str) -> str:
    """The right side of a row."""
    case = Case.read(when)
    try:
        return "; ".join(_describe(case, case.plan()))
    except ContextOverflow as refused:
        shares = (
            f"{each.name} {each.tokens:,}{' kept' * (not each.droppable)}"
            for each in refused.shares
            if each.tokens
        )
        return f"refused at {refused.limit_tokens:,}: {refused.needed_tokens:,} = {', '.join(shares)}. {refused.advice}"


def _describe(case: Case, sent: Plan) -> Iterator[str]:
    """What differs from plan to plan."""
    yield f"{sent.tokens:,} of {sent.limit_tokens:,}"
    if sent.budget.window_tokens != MODEL.window_tokens:
        yield f"reserves {sent.budget.output_reserve_tokens:,}"
    if sent.prefix_breaks:
        runs = groupby(sent.prefix_breaks, key=lambda each: each.reason)
        yield ", ".join(f"{reason}@{'+'.join(str(each.turn) for each in run)}" for reason, run in runs)
    yield from _describe_summaries(case, sent)
    states = [(state, len([*run])) for state, run in groupby(_states(sent))]
    if states != [("whole", len(sent.parts.turns))]:
        yield f"turns {', '.join(f'{count} {state}' for state, count in states)}"
    if sent.reductions:
        lacking = (f"{each.kind} {each.count} of {each.of:,} ({each.tokens:,})" for each in sent.reductions)
        yield f"lacks {', '.join(lacking)}"
    if sent.new_breaks:
        yield f"frees {'+'.join(f'{each.freed_tokens:,}' for each in sent.new_breaks)}"
        first, *others = sent.steps
        pairs = zip(sent.steps, others, strict=False)
        moved = [step for before, step in pairs if step.triggered or step.tokens != before.tokens]
        yield ", ".join(f"{step.name} {step.tokens:,}" for step in (first, *moved))
        yield f"items {sent.marks.instructions}/{sent.marks.unchanged}/{sent.marks.frontier}"
    if case.settings.recall_tool and not sent.unoffered_tools:
        yield "offers recall"


def _describe_summaries(case: Case, sent: Plan) -> Iterator[str]:
    if sent.summarized_turns:
        yield f"summarized {sent.summarized_turns}"
    for name, targets in (("required", sent.required_summaries), ("ahead", sent.prefetch_summaries)):
        if targets:
            yield f"{name} {'+'.join(str(target.segment.turns) for target in targets)}"
    if sent.required_summaries:
        before = sent.cached_prefix
        yield f"behind {before.tokens if before else 0:,} instead of {sent.tokens_without_new_summaries:,}"
    elif case.may_need_summaries and not sent.prefetch_summaries:
        yield "may need summaries"


def _states(sent: Plan) -> Iterator[str]:
    """How each turn is sent."""
    ends = [*sent.starts[1:]]
    if sent.parts.current:
        ends[sent.parts.current - 1] = sent.marks.completed
    for turn, parts in groupby(range(len(ends)), key=lambda at: sent.parts.parts[at].turn):
        items = [item for at in parts for item in sent.items[sent.starts[at] : ends[at]]]
        whole = [entry.item for entry in sent.parts.turns[turn].entries]
        if not items or items == whole:
            yield "whole" if items else "gone"
            continue
        facts = [item for item in items if "[Tool: " in str(item)]
        marks = {
            "facts": facts,
            "cut": any("omitted ..." in str(item) for item in items if item not in facts),
            "fewer": len(items) < len(whole),
        }
        yield " ".join(name for name, is_so in marks.items() if is_so)


if __name__ == "__main__":
    lines = TABLE.read_text("utf-8").splitlines()
    rows = [line if line[:1] in {"", "#"} else line.partition(" | ")[0] for line in lines]
    written = [row if row[:1] in {"", "#"} else f"{row} | {said_of(row)}" for row in rows]
    TABLE.write_text("\n".join([*written, ""]), "utf-8")
