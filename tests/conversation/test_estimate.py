"""The estimate: close to a real vocabulary, and safe on what it was not made for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.estimate import SLICE_BYTES, SLICES, estimate_tokens
from scripts.benchmarks.context import SAMPLES, sample_texts, vocabulary

KINDS = list(sample_texts())


def sections(path: Path) -> dict[str, list[str]]:
    """The lines of a file of samples by their heading."""
    found: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if line.startswith("# "):
            lines = found.setdefault(line[2:].strip(), [])
        else:
            lines.append(line)
    return found


def error(text: str) -> float:
    """How far the estimate is from o200k_base, as a share of it."""
    encode = vocabulary("o200k_base")
    if encode is None:
        pytest.skip("no vocabulary in tiktoken's cache directory")
    return estimate_tokens(text) / len(encode(text)) - 1


LANGUAGES, NOTATION = sections(SAMPLES / "languages.txt"), sections(SAMPLES / "notation.txt")
SENTENCES = sections(Path(__file__).with_name("sentences.txt"))
CLOSE = {
    **{kind: sample_texts()[kind] for kind in KINDS},
    **{kind: "".join(lines) for each in (NOTATION, LANGUAGES) for kind, lines in each.items()},
}
UNSEEN = {language: " ".join(lines).rstrip() for language, lines in SENTENCES.items()}


@pytest.mark.parametrize("text", CLOSE.values(), ids=CLOSE)
def test_the_estimate_is_close_to_the_vocabulary(text: str) -> None:
    """At most 5 % under and 10 % over o200k_base, for prose, code, tables, symbols, markup, and fifty languages."""
    assert -0.05 <= error(text) <= 0.10


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_weights_were_not_fitted_to_is_close(language: str) -> None:
    """The least-squares fit saw only the other lines: four sentences are at most an eighth under, a fifth over."""
    assert -0.125 <= error("".join(LANGUAGES[language][1::2])) <= 0.20


@pytest.mark.parametrize("text", UNSEEN.values(), ids=UNSEEN)
def test_no_language_is_underestimated(text: str) -> None:
    """Other sentences, some in rare scripts, that the least-squares fit did not see: at most a fifth off."""
    assert -0.20 <= error(text) <= 0.20


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("\u0710", "\u072f"),  # Syriac
        ("\u0780", "\u07a5"),  # Thaana
        ("\u07ca", "\u07e7"),  # N'Ko
        ("\u0e81", "\u0ea3"),  # Lao
        ("\u1100", "\u11ff"),  # Hangul Jamo
        ("\u1200", "\u1248"),  # Ethiopic
        ("\u13a0", "\u13f5"),  # Cherokee
        ("\u1820", "\u1842"),  # Mongolian
        ("\u2801", "\u28ff"),  # Braille
        ("\ua000", "\ua48c"),  # Yi
        ("\U00010330", "\U00010340"),  # Gothic
        ("\U00020000", "\U00020100"),  # the rarest Han
    ],
)
def test_a_script_that_no_sentence_has_is_counted_by_its_characters(first: str, last: str) -> None:
    """Its letters one after the other are at most an eighth under, a fifth over."""
    assert -0.125 <= error("".join(map(chr, range(ord(first), ord(last) + 1)))) <= 0.20


@pytest.mark.parametrize("text", [*UNSEEN.values(), *sample_texts().values()], ids=[*UNSEEN, *KINDS])
def test_the_estimate_is_at_least_as_safe_as_a_ratio_of_characters(text: str) -> None:
    """Never more than 5 % and 3 tokens below one for each 3.2 characters, unless the vocabulary needs fewer, too."""
    encode = vocabulary("o200k_base")
    if encode is None:
        pytest.skip("no vocabulary in tiktoken's cache directory")
    safe_tokens = math.ceil(len(text) / 4 * 1.25)
    assert estimate_tokens(text) >= 0.95 * min(safe_tokens, len(encode(text))) - 3


def test_the_spelling_of_a_long_text_is_judged_by_slices() -> None:
    """A text many times over costs as many times as much, though not all of it is looked at."""
    once = UNSEEN["basque"] + "\n"
    assert len(once.encode()) * 600 > SLICES * SLICE_BYTES
    assert estimate_tokens(once * 600) == pytest.approx(600 * estimate_tokens(once), rel=0.03)


@given(st.text(), st.text())
def test_two_texts_cost_about_as_much_together_as_apart(first: str, second: str) -> None:
    """The estimate is a sum over the text: joining can change it only where the texts meet."""
    together, apart = estimate_tokens(first + second), estimate_tokens(first) + estimate_tokens(second)
    assert estimate_tokens(first + second) >= 0
    assert abs(together - apart) <= 4 + 0.6 * min(len(first), len(second))


@pytest.mark.parametrize(
    ("text", "least"),
    [("", 0), ("a", 1), ("\udc80", 1), ("ACGT" * 500, 800), ("9" * 3000, 1000), ("deadBEEF0123" * 100, 600)],
)
def test_odd_texts_are_not_taken_for_nothing(text: str, least: int) -> None:
    """Lone surrogates are counted, and long runs without a word cost as much as their length demands."""
    assert estimate_tokens(text) >= least
