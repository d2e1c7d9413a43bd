"""The chats that recall is judged on keep what they promise, and the benchmark reads requests as they are sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from scripts.benchmarks._recall_chats import ORDINARY_TURNS, STYLES, RecallChat, write_chat
from scripts.benchmarks.recall import Stage, request_text

if TYPE_CHECKING:
    from collections.abc import Iterator

TURNS = 24
"""Of a chat that is planned here: enough to be summarized in a small window."""


def texts(chat: RecallChat) -> Iterator[tuple[int, str]]:
    """Each text of a chat with its turn; the system prompt stands before the first."""
    turn = -1
    for message in chat.messages:
        turn += message["role"] == "user"
        yield turn, message["content"] + json.dumps(message.get("tool_calls", ""), ensure_ascii=False)


@pytest.fixture(params=sorted(STYLES))
def chat(request: pytest.FixtureRequest) -> RecallChat:
    """Each of the chats."""
    return write_chat(request.param)


def test_the_words_of_a_fact_stand_once_in_the_chat_and_in_its_turn(chat: RecallChat) -> None:
    """Otherwise a request could hold them by chance; a question does not give them away."""
    assert (len(chat.facts), sum(fact.is_held_out for fact in chat.facts)) == (80, 40)
    for fact in chat.facts:
        found = [(turn, text) for turn, text in texts(chat) if fact.words in text]
        assert [turn for turn, _ in found] == [fact.turn], fact.words
        assert sum(text.count(fact.words) for _, text in found) == 1, fact.words
        assert fact.passage in found[0][1], fact.words
        assert not any(fact.words in other.question for other in chat.facts), fact.words


def test_facts_stand_everywhere_in_a_chat_that_no_window_holds_whole(chat: RecallChat) -> None:
    """Each chat is larger than what a window of 200,000 tokens has room for; every tenth of it holds facts."""
    tokens = sum(estimate_tokens(text) for _, text in texts(chat))
    assert 230_000 <= tokens <= 300_000
    turns = STYLES[chat.name].turns
    assert {fact.turn * 10 // turns for fact in chat.facts} == set(range(10))
    assert [fact.turn for fact in chat.facts] == sorted(fact.turn for fact in chat.facts)


def test_the_benchmark_counts_what_the_request_holds() -> None:
    """A small window holds some of the facts; without recall the last message changes nothing before it."""
    chat = write_chat("coding")
    end = [number for number, message in enumerate(chat.messages) if message["role"] == "user"][TURNS]
    facts = tuple(fact for fact in chat.facts if fact.turn < TURNS)
    stage = Stage(replace(chat, messages=chat.messages[:end], facts=facts), 16_000)
    first, second = (stage.plan(text, recall=False) for text in (ORDINARY_TURNS[0], facts[0].question))
    assert first.items[:-1] == second.items[:-1]
    assert request_text(first).endswith(ORDINARY_TURNS[0])
    needed = [[fact.words] for fact in facts]
    held = stage.held_by(first, needed)
    sent = json.dumps(first.items, ensure_ascii=False)
    assert held == [fact.words in sent for fact in facts]
    assert 0 < sum(held) < len(held)
    questions = [fact.question for fact in facts[:2]]
    planned = stage.plan(recall=True)
    recalled = stage.recalled(planned, questions)
    assert recalled == [stage.plan(text, recall=True).recalled for text in questions]
    assert all(each.tokens for each in recalled)
    assert all(stage.held_by(planned, needed[:2], recalled))
    assert facts[0].words in stage.looked_up(planned, questions)[0]


def test_no_two_ordinary_turns_are_alike() -> None:
    """Each counts once in the share that quotes something."""
    assert len({*ORDINARY_TURNS}) == len(ORDINARY_TURNS) == 500
