"""Clipping to the last messages."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from tests.support.chats import SYSTEM, History, answer, call, history, output, planned, user


def chat(turns: int) -> History:
    """Questions and answers, and a last question."""
    return history(
        *([user(f"Q{at}"), answer(f"A{at}", f"m{at}")] for at in range(1, turns)), [user(f"Q{turns}")]
    )


def kept(fitted: Any) -> list[str]:
    """The texts that are sent after the system prompt."""
    return [item["content"][0]["text"] for item in fitted.items[1:] if item["type"] == "message"]


def clipping(**changes: Any) -> ContextSettings:
    """Settings of the strategy."""
    return ContextSettings(context_strategy="clip", **changes)


def test_the_last_messages_stay_with_the_question_of_the_first_answer() -> None:
    """Four messages of nine: the cut goes back to the question, and the system prompt stays first."""
    fitted = planned(chat(5), clipping())
    assert fitted.items[0] == SYSTEM
    assert kept(fitted) == ["Q3", "A3", "Q4", "A4", "Q5"]


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"clip_last_messages": 1}, "Q5"),
        ({"clip_last_messages": 3}, "Q4"),
        ({"clip_last_messages": 9}, "Q1"),
        ({"clip_minimum_messages": 10}, "Q1"),
        ({"clip_user_limit": 2}, "Q4"),
        ({"clip_user_limit": 0}, "Q5"),
        ({"clip_user_limit": 500}, "Q1"),
        ({"clip_bypass": True}, "Q1"),
    ],
)
def test_the_limits_hold(changes: dict[str, Any], first: str) -> None:
    """The admin's limit, the user's own within its range, the minimum before clipping, and the bypass."""
    texts = kept(planned(chat(5), clipping(**changes)))
    assert next(text for text in texts if text.startswith("Q")) == first


def test_a_long_round_is_one_message() -> None:
    """An answer with all its calls counts once, and is never cut."""
    busy = [
        user("Q1"),
        *(part for at in range(9) for part in (call(f"{at}"), output(f"{at}", "x"))),
        answer("A1"),
    ]
    fitted = planned(history(busy, [user("Q2"), answer("A2")], [user("Q3")]), clipping())
    assert sum(item["type"] == "function_call" for item in fitted.items) == 9


def test_nothing_is_clipped_in_the_middle_of_a_turn() -> None:
    """While the current turn grows, the cut stays where it was when the turn began."""
    turns = [[user("Q1"), answer("A1")], [user("Q2"), answer("A2")], [user("Q3"), answer("A3")]]
    begun = planned(history(*turns, [user("Q4")]), clipping(clip_last_messages=3))
    grown = planned(
        history(*turns, [user("Q4"), call("1"), output("1", "x")]), clipping(clip_last_messages=3)
    )
    assert grown.items[: len(begun.items)] == begun.items
    assert grown.new_breaks == ()
