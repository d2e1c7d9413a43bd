"""How much of a request the pipe itself writes: summaries, the record of what the user wrote, the note."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.conversation.slash import Aim
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.responses.items import Item, is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.prompt import SummaryAssignment
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
def turn_items(turn: int, tokens: int) -> tuple[Item, ...]:
    """A turn of about so many tokens, a third of which the user has written."""
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
    assignment = SummaryAssignment(target.turns, target.first_turn)
    return complete_summary(written, assignment, count=COUNTER.text, max_tokens=target.max_tokens)


def own_messages(sent: Plan) -> tuple[list[str], str]:
    """The parts of the message that replaces old turns, and the note for omitted turns; empty without."""
    messages = [item for item in sent.items if is_message(item) and item["role"] == "user"]
    blocks = [each for each in messages if message_text(each).startswith(SUMMARY_HEADER)]
    notes = [text for text in map(message_text, messages) if "omitted to fit the model's context" in text]
    parts = [str(part.get("text")) for block in blocks for part in block["content"]]
    assert len(blocks) < 2
    assert len(notes) < 2
    return parts, "".join(notes)


@pytest.mark.parametrize("aim", ["faithful", "thrifty"])
@pytest.mark.parametrize("window_tokens", [4_096, 8_192, 16_384, 32_768, 131_072])
def test_what_the_pipe_writes_gives_way_to_the_chat(window_tokens: int, aim: Aim) -> None:
    """However long the chat is and whatever a model writes; a message that stands keeps its bytes until a break.

    Of the input budget, a fifth is the most for what replaces old turns, 8 % of it for what the user wrote in them;
    with the note for omitted turns, a quarter.
    """
    memory, before = Memory(), list[str]()
    policy, model = ContextSettings(context_aim=aim), ModelTerms("vendor/model", window_tokens)
    items = [turn_items(at, window_tokens // TURNS_IN_A_WINDOW) for at in range(TURNS)]
    most_summaries = 0
    for number, length in product(range(1, TURNS), (1, 3)):
        chat = history(*items[:number], items[number][:length])
        first = plan_with(chat, policy, model, memory, missing="request")
        memory.summaries.update({each.segment: longest(each) for each in first.required_summaries})
        sent = plan_with(chat, policy, model, memory, missing="request")
        parts, note = own_messages(sent)
        budget_tokens = sent.budget.input_tokens
        sizes = {text: COUNTER.text(text) for text in (*parts, note) if text}
        record = sum(tokens for text, tokens in sizes.items() if text.startswith("[What the user wrote"))
        block = sum(COUNTER.text(text) for text in parts) + 4 * bool(parts)
        assert record <= 0.08 * budget_tokens
        assert block <= 0.20 * budget_tokens
        assert block + COUNTER.text(note) <= 0.25 * budget_tokens
        assert sent.new_breaks or parts == before
        before, most_summaries = parts, max(most_summaries, len(parts) - 3)
    assert (most_summaries > 0) == (window_tokens >= 8_192)
