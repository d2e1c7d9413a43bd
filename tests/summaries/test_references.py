"""The messages that a summary's entries refer to: which come first, and how much of them stays."""

from __future__ import annotations

from dataclasses import replace

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.summaries.references import referenced_messages
from open_webui_openrouter_pipe.summaries.summary import ModelSummary
from tests.support.chats import answer, entries, history, user


def referenced(summary: ModelSummary, *, max_tokens: int, shown: str = "") -> list[str]:
    """The lines about ten turns: short questions, and answers of a hundred words."""
    turns = [[user(f"Question {at}?"), answer(f"Answer {at} " + "word " * 98)] for at in range(1, 11)]
    chat = history(*turns)
    text = referenced_messages(
        build_conversation(chat.items, chat.turn_of_item).turns,
        summary,
        count=lambda text: len(text.split()),
        max_tokens=max_tokens,
        shown=shown,
    )
    assert len(text.split()) <= max_tokens
    return [line[:30].strip() for line in text.splitlines()]


REFERRING = ModelSummary(
    "They met.",
    decisions=(*entries("a", turn=3), *entries("b", turn=9), *entries("c", turn=11), *entries("d")),
    open_questions=entries("e", turn=3),
    done=entries("f", turn=5),
)


def test_messages_of_the_turns_with_most_entries_come_first() -> None:
    """Then the newest; they are shown in the order of the chat."""
    lines = referenced(REFERRING, max_tokens=5_000)
    assert lines == [
        "[Messages that the entries ref",
        *(
            line
            for turn in (3, 5, 9)
            for line in (
                f"The user wrote, turn {turn}:",
                f"> Question {turn}?",
                f"The assistant wrote, turn {turn}:",
                f"> Answer {turn} word word word word",
            )
        ),
    ]
    assert [line for line in referenced(REFERRING, max_tokens=200) if "assistant" in line] == [
        "The assistant wrote, turn 3:"
    ]


def test_what_is_shown_already_is_not_repeated() -> None:
    """As the user's messages mostly are."""
    lines = referenced(REFERRING, max_tokens=5_000, shown="> Question 3?\n> Question 5?\n> Question 9?")
    assert [line for line in lines if line.startswith("The user")] == []


def test_long_messages_leave_room_for_others() -> None:
    """One takes at most half of the rest; too little of a message says nothing."""
    one = replace(REFERRING, open_questions=(), done=())
    lines = referenced(one, max_tokens=300)
    assert [line for line in lines if "assistant" in line or "omitted" in line] == [
        "The assistant wrote, turn 3:",
        "[224 characters omitted]",
        "The assistant wrote, turn 9:",
    ]
    assert referenced(one, max_tokens=100) == referenced(ModelSummary("x"), max_tokens=900) == []
