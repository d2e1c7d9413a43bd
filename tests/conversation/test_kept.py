"""JSON objects that are kept by their content."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import (
    MAX_BYTES,
    KeptObjects,
    content_digest,
    digest_item,
)
from open_webui_openrouter_pipe.responses.values import Kept, once


def said(text: str) -> Any:
    """A message, as a value of its own."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_the_same_content_is_one_object() -> None:
    """What was found of it is found once."""
    kept, found = KeptObjects(), list[Any]()
    for _ in range(3):
        once(found.append, kept.of(said("Hello")))
    assert found == [said("Hello")]
    assert kept.of(said("Hello")) is kept.of(kept.of(said("Hello")))


@pytest.mark.parametrize(
    "others",
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": True}, {"a": 1.0}, {"a": "1"}, {"a": [1]}),
        ({"a": None}, {"a": {}}, {"a": []}, {"a": ""}, {}),
        ({"a": "é"}, {"a": "e\u0301"}, {"a": "\ud83d"}),
    ],
)
def test_what_other_bytes_are_sent_for_is_another_object(others: tuple[dict[str, Any], ...]) -> None:
    """Python takes some of them for equal."""
    kept = KeptObjects()
    found = [kept.of(each) for each in others]
    assert [*map(repr, found)] == [*map(repr, others)]
    assert len({*map(id, found)}) == len(others)


@pytest.mark.parametrize("value", [said("x" * MAX_BYTES), {"a": object()}, [1], "text", None])
def test_what_cannot_be_kept_is_as_it_was(value: Any) -> None:
    """It is large, or no JSON object."""
    kept = KeptObjects()
    assert kept.of(value) is value
    assert kept.size == 0


def test_they_take_no_more_than_their_bytes() -> None:
    """The ones that were not used for long go first."""
    kept = KeptObjects(200_000)
    first = kept.of(said("first"))
    for number in range(1_000):
        kept.of(said(f"{number}"))
        kept.of(said("first"))
        assert kept.size <= 200_000
    assert kept.of(said("first")) is first
    assert kept.get(b"") is None
    kept.evict(kept.size)
    assert kept.size == 0
    assert kept.of(said("first")) is not first


def test_a_kept_item_has_the_name_of_any_other() -> None:
    """Also inside of other values."""
    item = said("Hello")
    assert content_digest([Kept(item)]) == content_digest([item])
    assert digest_item(Kept(item)).digest == digest_item(item).digest  # type: ignore[arg-type]
