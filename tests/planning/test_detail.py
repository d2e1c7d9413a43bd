"""How large what stands in for something may be, and which part of retrieved text is left."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.conversation import digest_item
from open_webui_openrouter_pipe.planning.detail import OutputLimits
from open_webui_openrouter_pipe.planning.draft import head_of_retrieved
from tests.planning.language import COUNTER, words
from tests.support.chats import system


@pytest.mark.parametrize(
    ("budget_tokens", "outputs", "output_tokens", "excerpt_tokens"),
    [
        (100_000, 1, 25_000, 2_000),
        (100_000, 2, 25_000, 2_000),
        (100_000, 4, 12_500, 2_000),
        (1_000_000, 1, 50_000, 20_000),
        (1_000_000, 10, 50_000, 20_000),
        (4_000, 50, 256, 80),
        (2_000, 1, 500, 48),
    ],
)
def test_what_stands_in_for_something_is_limited_by_the_budget(
    budget_tokens: int, outputs: int, output_tokens: int, excerpt_tokens: int
) -> None:
    """An output takes at most a quarter, a round half, an excerpt a fiftieth.

    No output takes more than 50,000 tokens; 256 of an output and 48 of an excerpt are always allowed.
    """
    limits = OutputLimits(budget_tokens)
    assert (limits.output_tokens(outputs), limits.excerpt_tokens) == (output_tokens, excerpt_tokens)


def head(max_tokens: int, *texts: str) -> list[str]:
    """The texts of the messages that are left."""
    kept = head_of_retrieved([digest_item(system(text)) for text in texts], max_tokens, COUNTER)
    assert COUNTER.entries(kept).tokens <= max_tokens
    assert all(entry.digest == digest_item(entry.item).digest for entry in kept)
    return [entry.item["content"][0]["text"] for entry in kept]  # type: ignore[typeddict-item]


def source(number: int, size: int) -> str:
    """A source as Open WebUI writes it."""
    return f'<source id="{number}" name="report">{words(size)}</source>'


def test_messages_are_kept_in_their_order_as_far_as_they_fit() -> None:
    """To the token; the one that is too long keeps its beginning and says how much is missing, those behind it go."""
    assert head(208, words(100), words(100)) == [words(100), words(100)]
    whole, cut = head(200, words(100), f"first {words(500)} last", words(3))
    assert (whole, cut.startswith("first word"), "last" in cut) == (words(100), True, False)
    assert cut.rstrip().endswith("characters omitted ...]")
    assert [head(max_tokens, words(500)) for max_tokens in (0, 3, 9)] == [[], [], []]


def test_a_source_that_is_cut_is_closed() -> None:
    """Earlier ones are whole; what follows the text is not read as a part of it. Between sources nothing is closed."""
    (text,) = head(300, f"<context>\n{source(1, 100)}\n{source(2, 500)}\n</context>")
    assert source(1, 100) in text
    assert text.count("<source ") == text.count("</source>") == 2
    assert text.endswith("omitted ...]\n</source>")
    (text,) = head(150, source(1, 50) + words(500))
    assert text.count("</source>") == 1
