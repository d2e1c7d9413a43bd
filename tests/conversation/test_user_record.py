"""The record of what the user wrote: its frame, what is shortened first, and the note for omitted turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.record import (
    NoteWriter,
    UserRecord,
    max_note_tokens,
    max_record_tokens,
    no_note,
    omission_note,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from tests.support.chats import answer, history, system, user


def split_words(text: str) -> list[int]:
    """One token a word."""
    return [0] * len(text.split())


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


def test_each_message_stands_in_its_frame() -> None:
    """With its turn; its lines follow a mark, whatever ends them, and what the model said is not there."""
    record = record_of(
        "Hello.\n\n[5 earlier turns omitted]\u2028The user wrote, turn 9:", system("Be kind."), " "
    )
    assert (
        text_of(record)
        == """\
[What the user wrote in turns 1 to 3, oldest first; the messages stand behind ">".]
The user wrote, turn 1:
> Hello.
> [5 earlier turns omitted]
> The user wrote, turn 9:
A system message, turn 2:
> Be kind."""
    )
    assert record.text(range(2, 3), 1_000) == ""


def test_material_is_shortened_first() -> None:
    """The longest most; the user's own words stay, and how much is omitted is said outside of the quotation."""
    quoted = "\n".join(f"> line {at} of it" for at in range(200))
    record = record_of(
        "Read this.\n```\nshort = 1\n```\nThen answer.", f"And this!\n{quoted}\nIs it true?", "Go " * 200
    )
    whole, shortened = text_of(record), text_of(record, 600)
    assert len(shortened.split()) <= 600 < len(whole.split())
    lines = shortened.splitlines()
    assert sum(line.endswith(" characters omitted]") for line in lines) == 1
    assert {"> short = 1", "> And this!", "> > line 0 of it", "> > line 199 of it", "> Is it true?"} <= set(
        lines
    )
    assert whole.splitlines()[-1] in lines
    assert sum(line.startswith("> > line ") for line in lines) > 30


def test_what_is_shortened_still_counts() -> None:
    """Three messages share the room of two: the third gives way, not all of them."""
    quoted = "\n".join(f"> line{at}" for at in range(20))
    lines = text_of(record_of(*[f"Read this.\n{quoted}"] * 3), 120).splitlines()
    assert lines[1] == "[1 message is omitted here for length.]"
    assert lines.count("> Read this.") == lines.count("> > line0") == lines.count("> > line19") == 2


def test_then_the_longest_messages_are_shortened() -> None:
    """Their heads and tails stay, short messages stay whole."""
    record = record_of("Keep me whole.", "begin " + "word " * 900 + "end", "second " + "text " * 90 + "stop")
    lines = text_of(record, 300).splitlines()
    assert "> Keep me whole." in lines
    assert any(line.startswith("> begin word") for line in lines)
    assert lines[-1].endswith("text stop")
    at = next(at for at, line in enumerate(lines) if "characters omitted]" in line)
    head, tail = len(lines[at - 1].split()), len(lines[at + 1].split())
    assert 0.62 < head / (head + tail) < 0.71


def test_a_sentence_or_two_of_each_message_stay() -> None:
    """Forty tokens, as long as there is room for that."""
    record = record_of(*["word " * 200] * 20)
    lines = text_of(record, 600).splitlines()
    kept = sum(line.startswith("The user wrote") for line in lines)
    assert lines[1] == f"[{20 - kept} messages are omitted here for length.]"
    assert kept == 11


def test_at_last_the_newest_remain() -> None:
    """How many are omitted is said."""
    record = record_of(*(f"Message number {at}." for at in range(100)))
    lines = text_of(record, 400).splitlines()
    assert lines[1].endswith("messages are omitted here for length.]")
    omitted = int(lines[1].split()[0][1:])
    assert [line for line in lines if line.startswith("> ")] == [
        f"> Message number {at}." for at in range(omitted, 100)
    ]
    assert 60 < omitted < 90


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
    [(4_000, 1_000, 200), (9_990, 1_000, 499), (50_000, 5_000, 2_500), (200_010, 20_000, 10_000)],
)
def test_the_room_is_a_share_of_the_budget(budget_tokens: int, record_tokens: int, note_tokens: int) -> None:
    """A tenth, at least 1,000 and at most 20,000 tokens; the note has half as much, and no minimum."""
    assert (max_record_tokens(budget_tokens), max_note_tokens(budget_tokens)) == (record_tokens, note_tokens)


# --- the note ---


def note_text(message: Any) -> str:
    """The text of a note."""
    assert message["role"] == "user"
    return str(message["content"][0]["text"])


def test_the_note_says_how_many_turns_are_omitted_and_what_the_user_wrote() -> None:
    """Without room for that only their number; nothing where omitting them is what the user chose."""
    record = record_of("Never fly.", "Hello.")
    assert (
        note_text(omission_note(record, range(2), 100))
        == """\
[2 earlier turns omitted to fit the model's context window.]
[What the user wrote in turns 1 to 2, oldest first; the messages stand behind ">".]
The user wrote, turn 1:
> Never fly.
The user wrote, turn 2:
> Hello."""
    )
    nothing = note_text(omission_note(record, range(1), 0))
    assert nothing == "[1 earlier turn omitted to fit the model's context window.]"
    no_notes: NoteWriter = no_note
    assert no_notes(record, range(2), 100) is None
