"""The head of retrieved text: whole messages first, whole sources, and a note of what is omitted."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, digest_item
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.draft import head_of_retrieved
from tests.planning.exact import split_words, words
from tests.support.chats import system

COUNTER = TokenCounter(ContentCache(), split_words)


def head(max_tokens: int, *texts: str) -> list[str]:
    """The texts of the messages that are left."""
    kept = head_of_retrieved([digest_item(system(text)) for text in texts], max_tokens, COUNTER)
    assert COUNTER.entries(kept).tokens <= max_tokens
    assert all(entry.digest == digest_item(entry.item).digest for entry in kept)
    return [entry.item["content"][0]["text"] for entry in kept]  # type: ignore[typeddict-item]


def source(number: int, size: int) -> str:
    """A source as Open WebUI writes it."""
    return f'<source id="{number}" name="report">{words(size)}</source>'


def test_what_fits_stays_as_it_is() -> None:
    """To the token."""
    assert head(208, words(100), words(100)) == [words(100), words(100)]


def test_a_long_text_keeps_its_beginning() -> None:
    """And says how much is missing."""
    (text,) = head(100, f"first {words(500)} last")
    assert text.startswith("first word")
    assert text.rstrip().endswith("characters omitted ...]")
    assert "last" not in text


def test_messages_are_kept_in_their_order() -> None:
    """The one that is too long is cut, and those behind it go."""
    kept = head(200, words(100), words(500), words(3))
    assert kept[0] == words(100)
    assert [len(kept), kept[1].startswith("word")] == [2, True]


def test_a_source_that_is_cut_is_closed() -> None:
    """Earlier ones are whole; what follows the text is not read as a part of it."""
    (text,) = head(300, f"<context>\n{source(1, 100)}\n{source(2, 500)}\n</context>")
    assert source(1, 100) in text
    assert text.count("<source ") == text.count("</source>") == 2
    assert text.endswith("omitted ...]\n</source>")


def test_a_cut_between_sources_closes_nothing() -> None:
    """The end tag is there already."""
    (text,) = head(150, source(1, 50) + words(500))
    assert text.count("</source>") == 1


@pytest.mark.parametrize("max_tokens", [0, 3, 9])
def test_nothing_is_sent_where_not_even_a_note_fits(max_tokens: int) -> None:
    """A message without words says nothing."""
    assert head(max_tokens, words(500)) == []
