"""Which passages a query finds, and in which order."""

from __future__ import annotations

import math

import pytest

from open_webui_openrouter_pipe.recall.search import (
    UNIQUE_TERM_BONUS,
    SourceText,
    make_query,
    new_index,
    rarity,
    search,
)


def sources(*texts: str) -> list[SourceText]:
    """A text in each turn."""
    return [SourceText(turn, "user", text, text.encode()) for turn, text in enumerate(texts)]


def found(query: str, *texts: str, context: tuple[str, ...] = ()) -> list[int]:
    """The turns whose texts are found, best first."""
    return [passage.turn for passage, _ in search(sources(*texts), make_query(query, context), new_index())]


def test_the_score_is_the_share_of_the_querys_terms() -> None:
    """Weighted by how rare they are; a word of its own makes a passage worth more, a repeated one does not."""
    texts = ("red boat red", "blue boat", "green boat boat green", "blue red")
    scores = {
        passage.text: score for passage, score in search(sources(*texts), make_query("red boat"), new_index())
    }
    red, boat = math.log(1 + 2.5 / 2.5), math.log(1 + 1.5 / 3.5)
    assert rarity(2, 4) == pytest.approx(red)
    assert scores == pytest.approx(
        {
            "red boat red": 1,
            "blue red": red / (red + boat),
            "green boat boat green": boat / (red + boat) * (1 + UNIQUE_TERM_BONUS),
            "blue boat": boat / (red + boat),
        }
    )


def test_passages_are_numbered_over_all_texts() -> None:
    """Of which some have one, and others several."""
    long = f"{'filler words. ' * 60}The boat sank."
    texts = sources("no", "no", long, "no", "a boat")
    found = [passage for passage, _ in search(texts, make_query("boat"), new_index())]
    assert sorted((passage.turn, passage.text[-14:]) for passage in found) == [
        (2, "The boat sank."),
        (4, "a boat"),
    ]
    assert all(texts[each.turn].text[each.start : each.end] == each.text for each in found)


def test_a_rare_term_counts_more_than_a_common_one() -> None:
    """Whatever comes first."""
    assert found("common rare", "common word here", "common thing here", "rare thing here")[0] == 2


def test_equal_ones_come_in_the_order_of_the_conversation() -> None:
    """And nothing comes that has no term of the question."""
    assert found("boat", "the boat", "the boat", "the car", "the boat") == [0, 1, 3]


def test_the_context_decides_between_equals_and_finds_nothing_alone() -> None:
    """A passage has a term of the question itself."""
    texts = ("cost of the boat", "cost of the house", "house of the boat")
    assert found("cost?", *texts) == [0, 1]
    assert found("cost?", *texts, context=("the house",)) == [1, 0]


def test_a_passage_with_words_of_its_own_comes_first() -> None:
    """Of lines that repeat each other, the one that differs."""
    assert found("status", "status all is well", "status all is well", "status grid F28 failed, well")[0] == 2


def test_a_long_text_is_found_by_its_passage() -> None:
    """With the offset at which it starts."""
    text = f"{'filler words and more. ' * 100}The password is marmalade. {'other words and more. ' * 100}"
    ((passage, _), *_) = search(sources(text), make_query("Which password?"), new_index())
    assert "marmalade" in passage.text
    assert text[passage.start : passage.end] == passage.text


def test_nothing_is_found_in_nothing() -> None:
    """Without texts, without a question."""
    assert search([], make_query("boat"), new_index()) == []
    assert search(sources("the boat"), make_query(""), new_index()) == []


def test_as_many_are_returned_as_are_wanted() -> None:
    """The best of all."""
    texts = [f"boat number{number}" for number in range(100)]
    assert len(search(sources(*texts), make_query("boat"), new_index(), limit=7)) == 7
