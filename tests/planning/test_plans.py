"""What is planned for which chat: a table of plans. `python -m tests.planning.test_plans` writes what is planned anew.

A row begins with the chat: so many turns `of` so many tokens (1,000), with `results` of so many tokens in them, in
turns that are `unanswered` or not; `longer` turns by their numbers, a `last` question, `rounds` of the current turn
with results, `sources` beside the question, `builtin` and `chosen` tools. Settings and the model follow.
"""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from tests.planning.exact import MODEL, split_words, talk, words
from tests.support.chats import SYSTEM, answer, call, history, output, system, user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from open_webui_openrouter_pipe.responses.items import Item
    from open_webui_openrouter_pipe.summaries.segments import SummaryTarget

TABLE: Final = Path(__file__).with_name("plans.txt")
COUNTER: Final = TokenCounter(ContentCache(), split_words)


def table() -> list[tuple[str, str]]:
    """The rows, without titles."""
    lines = (line for line in TABLE.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return [(when.strip(), then.strip()) for when, _, then in (line.partition("|") for line in lines)]


@pytest.mark.parametrize(("when", "then"), table(), ids=[when for when, _ in table()])
def test_a_chat_is_planned_as_the_table_says(when: str, then: str) -> None:
    """What is sent of it, what is summarized, what it lacks and where its prefix changed; or that it is refused."""
    assert said_of(when) == then


def said_of(when: str) -> str:
    """The right side of a row."""
    asked = dict(_words(when))
    try:
        return "; ".join(_describe(_plan(asked)))
    except ContextOverflow as refused:
        largest = refused.shares[0]
        return f"refused at {refused.limit_tokens:,}: {refused.needed_tokens:,}, {largest.name} {largest.tokens:,}"


def _words(when: str) -> Iterator[tuple[str, Any]]:
    """The words of a row's left side by their names."""
    count, _, *rest = when.split()
    yield "turns", int(count)
    names = iter(rest)
    for name in names:
        if name in {"skip", "unanswered"}:
            yield name, True
        elif "=" in name:
            yield name.partition("=")[0], name.partition("=")[2]
        else:
            value = next(names)
            yield name, value if ":" in value else int(value)


def _conversation(asked: dict[str, Any]) -> Conversation:
    count, results = asked["turns"], asked.get("results", 0)
    tokens = asked.get("of", 1_000)
    turns: list[list[Item]] = []
    if results:
        for at in range(count):
            called = [call(f"c{at}"), output(f"c{at}", words(results - 10, f"R{at}"))]
            rest = (
                [] if "unanswered" in asked else [answer(words(tokens - 100 - results, f"A{at}"), f"m{at}")]
            )
            turns.append([user(words(96, f"Q{at}")), *called, *rest])
        turns.append([*talk(0).items])
    else:
        longer = {}
        if "longer" in asked:
            numbers, _, size = asked["longer"].partition(":")
            first, _, last = numbers.partition("-")
            longer = dict.fromkeys(range(int(first), int(last) + 1), int(size))
        chat = talk(count, tokens, longer=longer)
        turns = [[item for item, turn in chat.numbered if turn == at] for at in range(count + 1)]
    if "last" in asked:
        turns[-1] = [user(words(asked["last"]))]
    for at in range(asked.get("rounds", 0)):
        turns[-1] += [call(f"n{at}"), output(f"n{at}", words(asked["each"]))]
    chat = history(*turns)
    volatile = [system(words(asked["sources"]))] if "sources" in asked else []
    conversation = build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=volatile)
    tools = tuple(
        {"name": name, "description": words(asked[name] - 10)}
        for name in ("builtin", "chosen")
        if name in asked
    )
    return replace(conversation, tools=tools, optional_tools=frozenset({"builtin"}))


def _plan(asked: dict[str, Any]) -> Plan:
    names = {field.name: field.type for field in fields(ContextSettings)}
    settings = {name: _value(value) for name, value in asked.items() if name in names}
    model = MODEL
    if "window" in asked:
        model = ModelTerms("vendor/small", int(asked["window"]))
    if "asks" in asked:
        model = replace(model, output_tokens=int(asked["asks"]))
    if "writes" in asked:
        model = replace(model, max_output_tokens=int(asked["writes"]))
    if "cache" in asked:
        model = replace(model, prices=CachePrices(*map(float, asked["cache"].split("/"))))
    if asked.keys() & {"bills", "ratio", "constant"}:
        known = {"ratio": float(asked.get("ratio", 1)), "bills": int(asked.get("bills", 0))}
        calibration = Calibration(constant_tokens=float(asked.get("constant", 0)), **known)  # type: ignore[arg-type]
        model = replace(model, calibration=calibration)
    return plan(
        _conversation(asked),
        ContextSettings(**settings),
        model=model,
        counter=COUNTER,
        caches=PlanCaches(),
        summaries=AvailableSummaries({}, "skip" if "skip" in asked else "request"),
    )


def _value(text: str) -> Any:
    if text in {"True", "False"}:
        return text == "True"
    return text if text[0].isalpha() else float(text) if "." in text else int(text)


def _describe(sent: Plan) -> Iterator[str]:
    """What differs from plan to plan."""
    yield f"{sent.tokens:,} of {sent.limit_tokens:,}"
    if sent.budget.window_tokens != MODEL.window_tokens:
        yield f"reserves {sent.budget.output_reserve_tokens:,}"
    if sent.prefix_breaks:
        runs = groupby(sent.prefix_breaks, key=lambda each: each.reason)
        yield ", ".join(f"{reason}@{'+'.join(str(each.turn) for each in run)}" for reason, run in runs)
    if sent.summarized_turns:
        yield f"summarized {sent.summarized_turns}"
    for name, targets in (("required", sent.required_summaries), ("ahead", sent.prefetch_summaries)):
        if targets:
            yield f"{name} {_turns(targets)}"
    if sent.reductions:
        yield f"lacks {', '.join(f'{each.kind} {each.count} ({each.tokens:,})' for each in sent.reductions)}"


def _turns(targets: Sequence[SummaryTarget]) -> str:
    return "+".join(str(target.segment.turns) for target in targets)


if __name__ == "__main__":
    lines = TABLE.read_text("utf-8").splitlines()
    rows = [line.partition("|")[0].rstrip() if line[:1].isdigit() else line for line in lines]
    written = [f"{row} | {said_of(row)}" if row[:1].isdigit() else row for row in rows]
    TABLE.write_text("\n".join([*written, ""]), "utf-8")
