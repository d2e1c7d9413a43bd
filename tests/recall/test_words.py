"""The terms of texts in many scripts, and those of questions."""

# ruff: noqa: RUF001 - the words below are meant to be in these scripts
from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.recall.words import TermsOfWords, find_terms, query_terms


def terms(text: str) -> set[str]:
    """The terms of a text."""
    return set(find_terms(text, TermsOfWords()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("invoice", "Invoices"),
        ("port", "ports"),
        ("monthly", "Months"),
        ("Größe", "GROSSE"),
        ("café", "cafe\u0301"),
        ("Ёлка", "елка"),
        ("Rechnungsnummer", "Nummer"),
        ("東京駅", "東京"),
        ("서울에서", "서울"),
        ("snake_case", "case"),
        ("हिन्दी", "हिन्दी"),
        ("SO-118204", "118204"),
    ],
)
def test_words_that_mean_the_same_have_a_term_in_common(one: str, other: str) -> None:
    """Case, accents, endings, compounds, scripts without blanks, identifiers."""
    assert terms(one) & terms(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("port", "part"), ("F28", "F29"), ("1200", "12001"), ("東京", "京都"), ("हिन्दी", "हीरा")],
)
def test_other_words_have_none(one: str, other: str) -> None:
    """Numbers and identifiers count whole."""
    assert not terms(one) & terms(other)


def test_parts_of_a_long_word_are_found_wherever_it_stands() -> None:
    """Also in a text whose words are known already."""
    terms = TermsOfWords()
    texts = ("Krankenversicherung", "Die Krankenversicherung!", "Ärger mit der Krankenversicherung")
    assert all("siche" in find_terms(text, terms) for text in texts)


def test_a_term_is_found_as_often_as_it_stands() -> None:
    """In whatever form."""
    assert find_terms("A ship, two Ships.", TermsOfWords()) == ["a", "ship", "two", "ship"]
    assert find_terms("Naïve naive!", TermsOfWords()) == ["naive", "naive"]


def test_a_question_has_its_terms_in_their_order() -> None:
    """Without words that say nothing about a subject; the parts of a compound count for less."""
    weights = query_terms("What do we pay for the Krankenversicherung in 2026?")
    assert [term for term, weight in weights.items() if weight == 1] == ["pay", "krank", "2026"]
    assert weights["siche"] == pytest.approx(0.25)


SMALL_TALK = (
    "thanks!",
    "ok go on",
    "hello",
    "What do you think?",
    "Thank you very much, good night!",
    "Thanks a lot, that helps!",
    "Guten Morgen! Wie geht's dir heute?",
    "Danke, mach bitte weiter",
    "Merci beaucoup, continue",
    "Muchas gracias, ¿qué te parece?",
    "Grazie mille, vai avanti",
    "Obrigado, continua",
    "Dank je wel, ga verder",
    "Dziękuję, co myślisz?",
    "Спасибо, продолжай",
    "谢谢！",
    "请继续",
    "ありがとうございます",
    "続けてください",
    "감사합니다",
    "ขอบคุณครับ",
    "👍",
    "",
)


@pytest.mark.parametrize("text", SMALL_TALK)
def test_small_talk_asks_for_nothing(text: str) -> None:
    """In many languages."""
    assert query_terms(text) == {}
