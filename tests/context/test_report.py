"""The report of a planned request, and its text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

import pytest

from open_webui_openrouter_pipe.context.report import (
    ChatCost,
    ChatRecord,
    ContextReport,
    context_text,
    cost_text,
    report_context,
)
from open_webui_openrouter_pipe.money.audit import ChatSpending
from tests.planning.language import Case
from tests.support.context_reports import SMALL


def report(line: str, record: ChatRecord | None = None, *, writes: bool = True) -> ContextReport:
    """The report of a chat."""
    case = Case.read(line)
    sent = case.plan_written() if writes else case.plan()
    found = report_context(sent, record or ChatRecord(), model="A model", settings=case.settings)
    assert sum(found.parts.values()) - found.parts["reserve"] == sent.tokens
    return found


def test_a_report_divides_what_the_plan_counts() -> None:
    """Nothing is counted twice, and nothing is forgotten."""
    record = ChatRecord(5, [("instructions", "prompt", 0.25)])
    found = report("22 turns; 20 /compact; 21 /restore 2-3", record)
    states = "svv" + "s" * 15 + "v" * 4
    assert [(turn.number, turn.state[0], turn.cached, turn.original_tokens) for turn in found.turns] == [
        (number, state, number in {1, 2, *range(4, 19)}, 1_000)
        for number, state in enumerate(states, start=1)
    ]
    summaries = [(each.first_turn, each.last_turn, bool(each.text)) for each in found.summaries]
    assert summaries == [(1, 9, True), (10, 18, True)]
    breaks = [(each.turn, each.cause) for each in found.breaks]
    assert breaks == [(22, "restore"), (21, "summary"), (0, "prompt")]
    assert found.window_tokens == 110_000


def test_a_summary_that_is_not_written_yet_is_named() -> None:
    """The next request has it written."""
    found = report("20 turns; 20 /compact", writes=False)
    assert [(each.text, each.tokens) for each in found.summaries] == [("", 0)] * 2
    text = context_text(found)
    assert "The next message has turns 1 to 9 summarized." in text
    assert "`/restore 3-8` sends turns" in text
    before, hint = text.rsplit("\n\n", 1)
    folded = f"{hint}\n\n<details>\n<summary>The same as text</summary>\n\n{before}\n\n</details>"
    assert context_text(found, folded=True) == folded


@pytest.mark.parametrize(
    ("terms", "tokens"),
    [
        ("", "70,000"),
        (" summary_trigger_ratio=0.5", "50,000"),
        (" context_strategy=prune", "90,000"),
        (" ratio=1.9 bills=20", "47,367"),
        (" summary_turn_trigger=10", ""),
        (" tool_output_pruning=every_turn", ""),
        (" context_strategy=refuse", ""),
        (" context_aim=thrifty", ""),
        (" window=1000000000", ""),
    ],
)
def test_why_room_is_free_is_said(terms: str, tokens: str) -> None:
    """From which size on old turns give way, where that is by the budget."""
    said = re.findall(
        r"Old turns give way from about ([\d,]+) tokens on", context_text(report(f"5 turns{terms}"))
    )
    assert said == [tokens] * bool(tokens)


@pytest.mark.parametrize(
    ("tokens", "said"), [(6_100, ["Open WebUI's built-in tools take about 6,100 tokens"]), (0, [])]
)
def test_what_tools_take_that_nobody_has_chosen_is_said(tokens: int, said: list[str]) -> None:
    """Beside the aim, where there are any."""
    text = context_text(replace(SMALL, builtin_tokens=tokens))
    assert re.findall(r"Open WebUI's built-in tools take about [\d,]+ tokens", text) == said


def test_tools_that_are_left_out_are_not_counted() -> None:
    """They are named instead."""
    found = report("12 turns builtin 6000 chosen 200 window=16384")
    assert found.builtin_tokens == 0
    assert "Built-in tools left out for want of room: 1, about 6,001 tokens." in context_text(found)


def test_what_a_chat_has_cost_ends_with_what_the_next_message_will() -> None:
    """Where that is known."""
    texts = [cost_text(ChatCost(ChatSpending(), next_message=line)) for line in ("About $0.02.", "")]
    assert [text.rpartition("\n\n- ")[2] for text in texts] == ["About $0.02.", texts[1]]


def test_of_what_a_chat_has_cost_by_day_the_latest_is_listed() -> None:
    """Twelve lines of a day and a model; the rest, which no answer was billed for, is one more."""
    days = [(date(2026, 10, day), "a/m", ChatSpending(1, cost=0.01)) for day in range(13, 0, -1)]
    text = cost_text(ChatCost(ChatSpending(13, cost=0.13), days))
    listed = [f"- {day} October, a/m: $0.01 (requests: 1)" for day in range(13, 1, -1)]
    assert text.splitlines()[2:] == [*listed, "- titles and the like: $0.01"]
