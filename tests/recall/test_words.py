"""The terms of texts in many scripts, and those of questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_webui_openrouter_pipe.recall.words import TermsOfWords, find_terms, query_terms
from tests.support.rows import rows

CASES = Path(__file__).with_name("words.txt")


@pytest.mark.parametrize(("one", "other"), rows(CASES, "the same"))
def test_words_that_mean_the_same_have_a_term_in_common(one: str, other: str) -> None:
    """Also in a text whose words are known already."""
    terms = TermsOfWords()
    for text in (one, f"{one}, ä"):
        assert {*find_terms(text, terms)} & {*find_terms(other, terms)}


@pytest.mark.parametrize(("one", "other"), rows(CASES, "others"))
def test_other_words_have_none(one: str, other: str) -> None:
    """However alike they look."""
    assert not {*find_terms(one, TermsOfWords())} & {*find_terms(other, TermsOfWords())}


def test_a_term_is_found_as_often_as_it_stands() -> None:
    """In whatever form; equal terms of many passages are one object."""
    terms = TermsOfWords()
    assert find_terms("A ship, two Ships.", terms) == ["a", "ship", "two", "ship"]
    assert find_terms("Naïve naive!", terms) == ["naive", "naive"]
    assert find_terms("Ships", terms)[0] is find_terms("two Ships", terms)[1]


def test_a_question_has_its_terms_in_their_order() -> None:
    """Without words that say nothing about a subject; the parts of a compound count for less."""
    weights = query_terms("What do we pay for the Krankenversicherung in 2026?")
    assert [term for term, weight in weights.items() if weight == 1] == ["pay", "krank", "2026"]
    assert weights["siche"] == pytest.approx(0.25)


@pytest.mark.parametrize("text", rows(CASES, "small talk"))
def test_small_talk_asks_for_nothing(text: str) -> None:
    """In many languages."""
    assert query_terms(text) == {}
