"""The texts of items, and the passages that they are cut into."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.recall.search import (
    PASSAGE_CHARACTERS,
    item_text,
    make_query,
    new_index,
    passage_starts,
    search,
    texts_of_turns,
)
from open_webui_openrouter_pipe.recall.words import TermsOfWords
from tests.support.chats import answer, call, output, reasoning, system, user

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.responses.items import Item


def passages(text: str) -> list[str]:
    """The passages of a text."""
    starts = passage_starts(text)
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


@given(st.text(st.sampled_from("ab \n.。"), max_size=5_000))
def test_passages_are_all_of_a_text_and_none_is_too_long(text: str) -> None:
    """Without a gap."""
    assert "".join(passages(text)) == text
    assert all(0 < len(passage) <= PASSAGE_CHARACTERS for passage in passages(text))


@pytest.mark.parametrize(
    ("mark", "cut"), [("\n\n", "w w\n\n"), ("\n", "w w\n"), (". ", "w w. "), ("。", "w w。"), (" ", "w w ")]
)
def test_a_text_is_cut_at_the_best_mark(mark: str, cut: str) -> None:
    """A paragraph before a line, a line before a sentence, a sentence before a blank."""
    text = f"{'w ' * 100}w{mark}{'w ' * 200}"
    first, *_ = passages(text)
    assert first.endswith(cut)
    assert first == text[: len(first)]
    assert len(first) == (200 + 1 + len(mark) if mark != " " else PASSAGE_CHARACTERS)


def test_each_item_has_its_author_and_its_text() -> None:
    """Messages, attached text files, calls with readable arguments, results; no reasoning and no media."""
    data = base64.b64encode(b"port: 8443").decode()
    attached = {"type": "input_file", "filename": "a.yaml", "file_data": f"data:text/plain;base64,{data}"}
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
    asked = cast("Item", {**user("Read it."), "content": [*_parts(user("Read it.")), attached, image]})
    arguments = json.dumps({"path": "a.py", "lines": [1, 2], "text": "one\ntwo"})
    items = [
        asked,
        system("Be brief."),
        reasoning(),
        call("c1", arguments, name="write\nfile"),
        output("c1", "Done."),
        answer("It is done."),
    ]
    conversation = build_conversation([user("Hello"), *items], [0, *[1] * len(items)])
    found = [(each.turn, each.author, each.text) for each in texts_of_turns(conversation.turns)]
    assert found == [
        (0, "user", "Hello"),
        (1, "user", "Read it.\nport: 8443"),
        (1, "system", "Be brief."),
        (1, "tool write file", "path: a.py\nlines: [1, 2]\ntext: one\ntwo"),
        (1, "tool write file", "Done."),
        (1, "assistant", "It is done."),
    ]


@pytest.mark.parametrize("arguments", ["not JSON", "[1, 2]", '{"a": ', "[" * 100_000])
def test_arguments_that_are_no_object_stay_as_they_are(arguments: str) -> None:
    """Whatever a model wrote."""
    assert item_text(call("c1", arguments)) == arguments


def _parts(message: Item) -> list[Any]:
    return list(cast("Any", message)["content"])


def test_a_text_is_indexed_once() -> None:
    """A new turn costs its new text only."""
    index, texts = (
        new_index(),
        [*texts_of_turns(build_conversation([user("The port is 8443 now.")], [0]).turns)],
    )
    first = search(texts, make_query("Which port?"), index)
    kept = index.texts.get(texts[0].digest)
    assert search(texts, make_query("Which port?"), index) == first
    assert index.texts.get(texts[0].digest) is kept is not None


def test_an_index_is_bounded_by_its_terms() -> None:
    """However many texts pass through."""
    index = new_index(1_000)
    for number in range(100):
        said = user(" ".join(f"w{number}x{at}" for at in range(100)))
        search([*texts_of_turns(build_conversation([said], [0]).turns)], make_query("w1x1"), index)
    assert len(index.texts) <= 10
    assert len(index.postings) <= 5


def test_terms_of_words_are_found_once() -> None:
    """Equal terms of many passages are one object."""
    terms = TermsOfWords()
    assert terms["Invoices"] is terms["Invoices"]
