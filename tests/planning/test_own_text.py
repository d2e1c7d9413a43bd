"""How much of a request the pipe itself writes: summaries, the record, the note, facts of results, quotations."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, DigestedItem
from open_webui_openrouter_pipe.conversation.slash import Aim
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.responses.items import Item, is_function_call_output, is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.segments import SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import (
    MODEL_LISTS,
    SUMMARY_HEADER,
    Constraint,
    Entry,
    ModelSummary,
    Summary,
    message_text,
)
from tests.support.chats import Memory, answer, call, history, output, plan_with, user
from tests.support.long_chats import words

TURNS = 72
TURNS_IN_A_WINDOW = 18
COUNTER = TokenCounter(ContentCache())


def rule(turn: int) -> str:
    """What the user demands in a turn."""
    return f"Never forget the rule with the number {turn} of this long list."


@cache
def turn_items(turn: int, tokens: int, result_tokens: int = 0) -> tuple[Item, ...]:
    """A turn of about so many tokens, a third of which the user has written, or most of which are such results."""
    if result_tokens:
        results = (
            item
            for at in range(max(1, tokens // result_tokens))
            for item in (
                call(f"c{turn}.{at}"),
                output(f"c{turn}.{at}", words(result_tokens * 3 // 4, turn + at)),
            )
        )
        return (
            user(f"Which rule has the number {turn // 2}?"),
            *results,
            answer(words(20, turn), f"m{turn}"),
        )
    third = tokens // 4  # in words
    return (
        user(f"{rule(turn)}\n{words(third, turn)}"),
        call(f"c{turn}", f'{{"page": {turn}}}'),
        output(f"c{turn}", words(third, turn + 1)),
        answer(words(third, turn + 2), f"m{turn}"),
    )


def longest(target: SummaryTarget) -> Summary:
    """What becomes of the answer of a model that writes as much as it may in every field, and more."""
    numbers = range(target.first_turn, target.first_turn + len(target.turns))
    entries = tuple(Entry(words(14, at), numbers[at % len(numbers)]) for at in range(400))
    lists: dict[str, Any] = dict.fromkeys(MODEL_LISTS, entries)
    written = ModelSummary(
        words(6_000, 1),
        goal=words(3_000, 2),
        constraints=tuple(Constraint(number, rule(number - 1)) for number in numbers),
        **lists,
    )
    return complete_summary(written, target, count=COUNTER.text, max_tokens=target.max_tokens)


def own_messages(sent: Plan) -> tuple[list[str], str]:
    """The parts of the message that replaces old turns, and the note for omitted turns; empty without."""
    messages = [item for item in sent.items if is_message(item) and item["role"] == "user"]
    blocks = [each for each in messages if message_text(each).startswith(SUMMARY_HEADER)]
    notes = [text for text in map(message_text, messages) if "omitted to fit the model's context" in text]
    parts = [str(part.get("text")) for block in blocks for part in block["content"]]
    assert len(blocks) < 2
    assert len(notes) < 2
    return parts, "".join(notes)


def facts_of(sent: Plan) -> list[DigestedItem]:
    """The tool results that are not sent as they were."""
    said = {entry.digest for turn in sent.conversation.turns for entry in turn.entries}
    results = (entry for entry in sent.entries if is_function_call_output(entry.item))
    return [entry for entry in results if entry.digest not in said]


@pytest.mark.parametrize(
    ("window_tokens", "aim", "result_tokens"),
    [
        *product((4_096, 8_192, 16_384, 32_768, 131_072), ("faithful", "thrifty"), [0]),
        *product((4_096, 8_192, 16_384), ["faithful"], [220, 300]),
    ],
)
def test_what_the_pipe_writes_gives_way_to_the_chat(window_tokens: int, aim: Aim, result_tokens: int) -> None:
    """However long the chat is and whatever a model writes; a message that stands keeps its bytes until a break.

    Of the input budget, a fifth is the most for what replaces old turns, 8 % of it for what the user wrote in them;
    with the note for omitted turns, a quarter; with facts of results and quotations, three tenths.
    """
    memory, before, seen = Memory(), list[str](), set[str]()
    policy = ContextSettings(context_aim=aim, recall=True)
    model = ModelTerms("vendor/model", window_tokens)
    items = [turn_items(at, window_tokens // TURNS_IN_A_WINDOW, result_tokens) for at in range(TURNS)]
    most_summaries, requests = 0, [(at, end) for at in range(1, TURNS) for end in range(1, len(items[at]), 2)]
    for number, length in requests:
        chat = history(*items[:number], items[number][:length])
        first = plan_with(chat, policy, model, memory, missing="request")
        memory.summaries.update({each.segment: longest(each) for each in first.required_summaries})
        sent = plan_with(chat, policy, model, memory, missing="request")
        parts, note = own_messages(sent)
        budget_tokens = sent.budget.input_tokens
        sizes = {text: COUNTER.text(text) for text in (*parts, note) if text}
        record = sum(tokens for text, tokens in sizes.items() if text.startswith("[What the user wrote"))
        block = sum(COUNTER.text(text) for text in parts) + 4 * bool(parts)
        facts, quoted = facts_of(sent), sent.recalled.entries
        assert record <= 0.08 * budget_tokens
        assert block <= 0.20 * budget_tokens
        assert block + COUNTER.text(note) <= 0.25 * budget_tokens
        own = block + COUNTER.text(note) + COUNTER.entries([*facts, *quoted]).tokens
        assert own <= 0.30 * budget_tokens
        assert sent.new_breaks or parts == before
        seen |= {name for name, found in (("facts", facts), ("quoted", quoted)) if found}
        before, most_summaries = parts, max(most_summaries, len(parts) - 3)
    assert (most_summaries > 0) == (window_tokens >= 8_192)
    assert "quoted" in seen
