"""The record of what the user wrote: its frame, what is shortened first, and the note for omitted turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.record import (
    UserRecord,
    max_note_tokens,
    max_record_tokens,
    omission_note,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from tests.support.chats import answer, history, split_words, system, user
from tests.support.rows import rows, whole


def record_of(*texts: str | Any) -> UserRecord:
    """The record of turns in which the user wrote these texts; other items are taken as they are."""
    turns = [
        [user(text) if isinstance(text, str) else text, answer("I must always agree.")] for text in texts
    ]
    chat = history(*turns)
    return UserRecord(
        build_conversation(chat.items, chat.turn_of_item).turns, TokenCounter(ContentCache(), split_words)
    )


def text_of(record: UserRecord, max_tokens: int = 10_000) -> str:
    """The record of all turns."""
    return record.text(range(len(record.turns)), max_tokens)


def message_of(written: Any) -> Any:
    """A message of the table."""
    text = whole(written)
    return system(text.removeprefix("system: ")) if text.startswith("system: ") else text


@pytest.mark.parametrize(
    ("title", "messages", "room_tokens", "record"), rows(Path(__file__).with_name("records.txt"), "records")
)
def test_messages_are_recorded_in_their_frames(
    title: str, messages: list[Any], room_tokens: int, record: str
) -> None:
    """Word for word as long as they fit; how much is omitted is said, outside of the quotation."""
    assert text_of(record_of(*map(message_of, messages)), room_tokens) == record, title


def test_the_record_depends_on_the_turns_and_the_room_alone() -> None:
    """Two workers, one of which has seen other requests, write the same bytes."""
    texts = ["a " * 300, "> b\n" * 300, "c"]
    first, second = record_of(*texts), record_of(*texts)
    for max_tokens in (50, 700, 100):
        text_of(first, max_tokens)
    assert text_of(first, 200) == text_of(second, 200)
    assert first.tokens(range(3), 200) == len(text_of(second, 200).split())
    assert first.tokens(range(0), 200) == 0


_TEXTS = st.lists(
    st.sampled_from(["a", "word " * 30, "> quoted\n" * 9, "```\nx\n", "\u2028x: y", "长文" * 300, "\n"])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_TEXTS.map("".join), min_size=1, max_size=12), st.integers(0, 2_000), st.booleans())
def test_the_record_is_within_its_room_and_in_its_frame(
    texts: list[str],
    max_tokens: int,
    estimates: bool,  # noqa: FBT001 - drawn
) -> None:
    """However long the messages are and whatever they hold; no line of theirs stands without its mark."""
    counter = TokenCounter(ContentCache(), None if estimates else split_words)
    record = UserRecord(record_of(*texts).turns, counter)
    text = text_of(record, max_tokens)
    assert counter.text(text) <= max_tokens
    for line in text.splitlines():
        assert line.startswith(
            ("> ", "[What the user wrote in turns ", "The user wrote, turn ")
        ) or line.endswith((" characters omitted]", " omitted here for length.]"))


@pytest.mark.parametrize(
    ("budget_tokens", "record_tokens", "note_tokens"),
    [(2_816, 225, 112), (50_000, 4_000, 2_000), (300_000, 20_000, 10_000)],
)
def test_the_room_is_a_share_of_the_budget(budget_tokens: int, record_tokens: int, note_tokens: int) -> None:
    """8 % and at most 20,000 tokens; the note has half as much."""
    assert (max_record_tokens(budget_tokens), max_note_tokens(budget_tokens)) == (record_tokens, note_tokens)


# --- the note ---


def note_text(message: Any) -> str:
    """The text of a note."""
    assert message["role"] == "user"
    return str(message["content"][0]["text"])


def test_the_note_says_how_many_turns_are_omitted_and_what_the_user_wrote() -> None:
    """Without room for that only their number."""
    record = record_of("Never fly.", "Hello.")
    assert (
        note_text(omission_note(2, text_of(record, 100)))
        == """\
[2 earlier turns omitted to fit the model's context window.]
[What the user wrote in turns 1 to 2, oldest first; the messages stand behind ">".]
The user wrote, turn 1:
> Never fly.
The user wrote, turn 2:
> Hello."""
    )
    nothing = note_text(omission_note(1, text_of(record, 0)))
    assert nothing == "[1 earlier turn omitted to fit the model's context window.]"
