"""Counting items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.content_cache import ContentCache
from open_webui_openrouter_pipe.conversation.conversation import digest_item
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, TokenCounts, class_of
from tests.support.chats import answer, call, output, reasoning, user


class Vocabulary:
    """One token a character; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> Sequence[int]:
        self.asked.append(text)
        return range(len(text))


def test_an_item_is_counted_once() -> None:
    """The second time, the count comes out of the memory, whatever the id."""
    vocabulary = Vocabulary()
    counter = TokenCounter(ContentCache(), vocabulary)
    first, again = (
        counter.entry(digest_item(answer("abc", "1"))),
        counter.entry(digest_item(answer("abc", "2"))),
    )
    assert (first, again, vocabulary.asked) == (TokenCounts(prose=7), TokenCounts(prose=7), ["abc"])


@pytest.mark.parametrize(
    ("item", "tally"),
    [
        (user("hello"), TokenCounts(prose=9)),
        (answer("bonjour"), TokenCounts(prose=11)),
        (call("1", "{}", "f"), TokenCounts(data=14)),
        (output("1", "好好好"), TokenCounts(wide=13)),
        (reasoning("A" * 4000), TokenCounts(sealed=(3000 - 650) // 4 + 4)),
        (
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "why"}]},
            TokenCounts(prose=7),
        ),
        ({"type": "web_search_call", "id": "w"}, TokenCounts(data=38, prose=4)),
    ],
)
def test_each_kind_of_item_has_its_rule(item: Any, tally: TokenCounts) -> None:
    """Messages, calls, outputs and reasoning by their own rule; anything else by its fields."""
    assert TokenCounter(ContentCache(), Vocabulary()).item(item) == tally


def test_media_are_counted_by_their_rule() -> None:
    """Base64 never reaches the vocabulary."""
    vocabulary = Vocabulary()
    parts: Any = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "detail": "low", "image_url": "data:image/png;base64," + "A" * 100_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "mp3"}},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    counted = TokenCounter(ContentCache(), vocabulary, "openai").item(
        {"type": "message", "role": "user", "content": parts}
    )
    assert counted == TokenCounts(prose=8, media=85 + 96 + 5)
    assert vocabulary.asked == ["look", "hello"]


def test_tools_are_counted() -> None:
    """Each definition by its JSON."""
    tool = {"type": "function", "name": "f", "parameters": {}}
    assert TokenCounter(ContentCache(), Vocabulary()).tools([tool, tool]) == TokenCounts(tools=2 * (51 + 8))


def test_a_failing_vocabulary_gives_way_to_the_estimate() -> None:
    """There is always a count."""

    def fail(text: str) -> Sequence[int]:
        raise ValueError(text)

    assert (
        TokenCounter(ContentCache(), fail).text("hello world")
        == TokenCounter(ContentCache()).text("hello world")
        > 0
    )


def test_a_huge_text_reaches_the_vocabulary_in_pieces() -> None:
    """No piece is long enough to harm a tokenizer, and together they are the text."""
    vocabulary = Vocabulary()
    assert TokenCounter(ContentCache(), vocabulary).text("ab" * 100_000) == 200_000
    assert "".join(vocabulary.asked) == "ab" * 100_000
    assert max(map(len, vocabulary.asked)) <= 32_768


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The ship sailed north, and nobody knew why.", "prose"),
        ('[{"a": 1, "b": 2.5}, {"a": 3, "b": 4.5}]', "data"),
        ("def f(self, x):\n    return self.values[x] + other(x)\n", "code"),
        ("港口模拟器可以重现一座小型港口", "wide"),
        ("", "prose"),
    ],
)
def test_texts_are_told_apart(text: str, kind: str) -> None:
    """By the share of digits, punctuation and scripts beyond Latin."""
    assert class_of(text) == kind
