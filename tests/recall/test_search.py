"""The texts of items, the passages that they are cut into, and which of these a query finds, in which order."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.recall.search import (
    NEIGHBOR_SHARE,
    PASSAGE_CHARACTERS,
    TERM_WEIGHT,
    UNIQUE_TERM_BONUS,
    WEIGHT_UNITS,
    Found,
    SourceText,
    TextIndex,
    gather,
    gather_turns,
    item_text,
    make_query,
    new_index,
    passage_bounds,
    rarity,
    texts_of_turns,
)
from open_webui_openrouter_pipe.recall.search import search as search_groups
from open_webui_openrouter_pipe.recall.words import TermsOfWords
from open_webui_openrouter_pipe.responses.items import Item
from tests.support.chats import answer, call, output, reasoning, system, user
from tests.support.rows import rows

CASES = Path(__file__).with_name("searches.txt")


def passages(text: str) -> list[str]:
    """The passages of a text."""
    return [text[start:end] for start, end in pairwise(passage_bounds(text))]


@given(st.text(st.sampled_from("ab \n.。"), max_size=5_000))
def test_passages_are_all_of_a_text_and_none_is_too_long(text: str) -> None:
    """Without a gap."""
    assert "".join(passages(text)) == text
    assert all(0 < len(passage) <= PASSAGE_CHARACTERS for passage in passages(text))


@pytest.mark.parametrize(("mark", "length"), rows(CASES, "marks"))
def test_a_text_is_cut_at_the_best_mark(mark: str, length: int) -> None:
    """Behind a line, in a long one behind a sentence, in a long sentence behind a word."""
    text = f"{'w ' * 100}w{mark}{'w ' * 200}"
    assert passages(text)[0] == text[:length]


def test_each_item_has_its_author_and_its_text() -> None:
    """Messages, refusals, attached text files, readable arguments, results; no reasoning and no media."""
    data = base64.b64encode(b"port: 8443").decode()
    attached = {"type": "input_file", "filename": "a.yaml", "file_data": f"data:text/plain;base64,{data}"}
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
    asked: Any = user("Read it.")
    asked["content"] += [attached, image]
    arguments = json.dumps({"path": "a.py", "lines": [1, 2], "text": "one\ntwo"})
    calls = [call("c1", arguments, name="write\nfile"), output("c1", "Done.")]
    refused: Any = answer("It is done.")
    refused["content"].append({"type": "refusal", "refusal": "No more."})
    items = [asked, system("Be brief."), reasoning(), *calls, refused]
    conversation = build_conversation([user("Hello"), *cast("list[Item]", items)], [0, *[1] * len(items)])
    found = [(each.turn, each.author, each.text) for each in texts_of_turns(conversation.turns)]
    assert found == [
        (0, "user", "Hello"),
        (1, "user", "Read it.\nport: 8443"),
        (1, "system", "Be brief."),
        (1, "tool write file", "path: a.py\nlines: [1, 2]\ntext: one\ntwo"),
        (1, "tool write file", "Done."),
        (1, "assistant", "It is done.\nNo more."),
    ]


@pytest.mark.parametrize("arguments", ["not JSON", "[1, 2]", '{"a": ', "[" * 100_000], ids=range(4))
def test_arguments_that_are_no_object_stay_as_they_are(arguments: str) -> None:
    """Whatever a model wrote."""
    assert item_text(call("c1", arguments)) == arguments


def sources(*texts: str) -> list[SourceText]:
    """A text in each turn."""
    return [SourceText(turn, "user", text, text.encode()) for turn, text in enumerate(texts)]


def search(sources: Sequence[SourceText], asked: str, index: TextIndex, *, limit: int = 9) -> Found:
    """What a question finds in some texts: turn by turn and all together, always the same."""
    terms, query = TermsOfWords(), make_query(asked)
    alone = [*gather_turns(index, sources, terms)]
    name = b"".join(source.digest for source in sources)
    joined = gather(index, name, range(len(sources)), lambda turn: [sources[turn]], terms)
    all_found = [search_groups(groups, query, limit=limit) for groups in (alone, [joined])]
    found, again = (replace(each, passages=[*each.passages]) for each in all_found)
    assert found == again
    return found


@pytest.mark.parametrize(("asked", "texts", "turns"), rows(CASES, "searches"))
def test_what_fits_best_is_found_first(asked: str, texts: Sequence[str], turns: Sequence[int]) -> None:
    """Among passages of the conversation alone."""
    found = search(sources(*texts), asked, new_index())
    assert [passage.turn for passage, _ in found.passages] == turns


def test_the_score_is_the_weight_of_the_querys_terms() -> None:
    """By how rare they are; a part of what stands beside counts, a repeated word does not, and one of its own does."""
    texts = ("red boat red", "blue boat", "green boat boat green", "blue red")
    found = search(sources(*texts), "red boat", new_index())
    red, boat = (TERM_WEIGHT + math.log(1 + few) for few in (2.5 / 2.5, 1.5 / 3.5))
    assert rarity(2, 4) + TERM_WEIGHT == pytest.approx(red)
    assert {passage.text: score for passage, score in found.passages} == pytest.approx(
        {
            "red boat red": red + boat,
            "blue boat": boat + NEIGHBOR_SHARE * red,
            "green boat boat green": (boat + NEIGHBOR_SHARE * red) * (1 + UNIQUE_TERM_BONUS),
            "blue red": red + NEIGHBOR_SHARE * boat,
        },
        abs=2 / WEIGHT_UNITS,
    )
    assert found.best == pytest.approx(red + boat, abs=1 / WEIGHT_UNITS)
    assert found.searched == 4
    many = sources(*(f"boat number{number}" for number in range(100)))
    assert len([*search(many, "boat", new_index(), limit=7).passages]) == 7


@pytest.mark.parametrize(("before", "turn"), [(3, 3), (4, 0)])
def test_words_of_its_own_raise_a_passage_that_nearly_fits_best(before: int, turn: int) -> None:
    """Not one far behind: of equal ones the first four are compared where one is asked for."""
    lines = sources(*["a boat"] * before, "a boat Ada")
    assert [found.turn for found, _ in search(lines, "boat", new_index(), limit=1).passages] == [turn]


@pytest.mark.parametrize(("author", "text", "begins", "columns"), rows(CASES, "columns"))
def test_a_row_of_a_table_has_the_names_of_its_columns(
    author: str, text: str, begins: str, columns: str
) -> None:
    """By Markdown's rule below them, or as the first line of what a tool returned; no other line has any."""
    source = SourceText(0, author, text, b"")
    found = search([source], "eel row name", new_index()).passages
    assert {each.columns for each, _ in found if each.text.startswith(begins)} == {columns}


def test_a_long_text_is_found_by_its_passage() -> None:
    """With the offset at which it starts; passages are numbered over all texts."""
    long = f"{'filler words. ' * 60}The boat sank.{' other words and more' * 60}"
    texts = sources("no", "no", long, "no", "a boat")
    found = [each for each, _ in search(texts, "boat", new_index()).passages]
    assert [(each.turn, "boat" in each.text) for each in found[:2]] == [(2, True), (4, True)]
    assert all(texts[each.turn].text[each.start : each.end] == each.text for each in found)


def test_a_text_is_indexed_once() -> None:
    """A new turn costs its new text only, and an index is bounded by its terms, however many texts pass through."""
    index, asked = new_index(1_000), "w1x1"
    for number in range(100):
        texts = sources(" ".join(f"w{number}x{at}" for at in range(100)))
        first = search(texts, asked, index)
        kept = index.get(texts[0].digest)
        assert search(texts, asked, index) == first
        assert index.get(texts[0].digest) is kept is not None
    assert index.size == 8 * 101  # eight texts


def test_an_index_takes_what_its_text_takes() -> None:
    """Words that stand in one line of thousands are numbers, not bits; words of every line are bits."""
    lines = 5_000
    text = "".join(f"line row{at}\n" for at in range(lines))
    (searched,) = gather_turns(new_index(), sources(text), TermsOfWords())
    found, kept = searched.postings, searched.postings.passages
    assert isinstance(kept["line"], int)
    assert sum(isinstance(numbers, tuple) for numbers in kept.values()) > 0.8 * lines
    assert found.size < 1.5 * lines
