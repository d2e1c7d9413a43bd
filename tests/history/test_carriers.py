"""Markers outside of the text: what is written beside the reasoning and into calls' ids is read where it stood."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.markers import (
    PHASE_TYPE,
    REFERENCE_TYPE,
    CallName,
    Reference,
    insert_references,
    name_call,
    read_call_name,
    read_references,
    visible_chars,
    write_reference,
)
from tests.history.builders import ulid
from tests.support.cases import CHATS

law = settings(max_examples=CHATS, deadline=None)
_texts = st.lists(st.text("ab \n\t\u2003", max_size=6).filter(str.strip), min_size=1, max_size=5)


def ref(number: int, after: int = 0) -> dict[str, Any]:
    return write_reference(Reference(after, ulid=ulid(number)))


@law
@given(_texts, st.data())
def test_references_come_back_between_the_texts_where_they_were_written(texts: list[str], data: Any) -> None:
    """However the host joins texts and strips blanks, each reference stands behind the same words."""
    positions = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    references = [
        Reference(sum(map(visible_chars, texts[:position])), ulid=ulid(number))
        for number, position in enumerate(positions)
    ]
    inserted = list(insert_references(["\n".join(texts).strip()], references))
    words = ["".join("".join(texts[:position]).split()) for position in positions]
    found = [
        "".join("".join(text for text in inserted[:index] if isinstance(text, str)).split())
        for index, each in enumerate(inserted)
        if isinstance(each, Reference)
    ]
    assert found == words
    assert [each for each in inserted if isinstance(each, Reference)] == references


@law
@given(st.lists(st.text("ab \n", max_size=8), max_size=3), st.lists(st.integers(0, 12), max_size=4))
def test_nothing_is_lost_wherever_a_reference_points(texts: list[str], positions: list[int]) -> None:
    """A text that was edited is divided at line breaks alone, and none of its words is."""
    references = [Reference(after, ulid=ulid(number)) for number, after in enumerate(positions)]
    inserted = list(insert_references(texts, references))
    shown = [each for each in inserted if isinstance(each, str)]
    assert "\n".join(shown).split() == "\n".join(texts).split()
    assert sorted(each for each in inserted if isinstance(each, Reference)) == sorted(references)


def test_without_references_texts_stay_to_the_byte() -> None:
    """So do those before which all references stand."""
    texts = ["\n a\n\n", "b \n"]
    assert list(insert_references(texts, [])) == texts
    first = Reference(0, ulid=ulid(1))
    assert list(insert_references(texts, [first])) == [first, *texts]


def test_a_text_is_divided_at_the_break_with_which_the_host_joins_it() -> None:
    """What the first text ended with stays its own."""
    second = Reference(3, ulid=ulid(2))
    assert list(insert_references(["One\n\n\nTwo"], [second])) == ["One\n\n", second, "Two"]


@pytest.mark.parametrize(
    "detail",
    [
        {"type": REFERENCE_TYPE, "id": "short"},
        {"type": "reasoning.text", "text": "x"},
        {"type": REFERENCE_TYPE, "id": 5, "after": 1},
        None,
        "text",
    ],
)
def test_what_is_not_ours_is_no_reference(detail: Any) -> None:
    """Providers and other pipes have details of their own."""
    assert read_references([detail]) == []


@pytest.mark.parametrize("after", [-1, None, "3", True, 2**60, 1.5])
def test_a_reference_that_points_nowhere_stands_before_the_text(after: Any) -> None:
    """Whatever is said in the place of a number."""
    assert read_references([{**ref(1), "after": after}]) == [Reference(0, ulid=ulid(1))]


def test_a_phase_that_nobody_knows_ends_the_one_before() -> None:
    """A strict provider would refuse it."""
    assert read_references([{"type": PHASE_TYPE, "phase": "x", "after": 2}]) == [Reference(2)]


@pytest.mark.parametrize("phase", ["", "commentary", "final_answer"])
def test_a_calls_id_names_its_artifact_and_the_phase_before_it(phase: str) -> None:
    """Within the 64 characters that an id may have."""
    call_id = name_call(ulid(7), phase)
    assert read_call_name(call_id) == CallName(ulid(7), phase)
    assert len(call_id) <= 64


@pytest.mark.parametrize(
    "call_id", ["", "call_0", "toolu_01", f"call_{ulid(1)}x", f"call_{ulid(1)}_x", ulid(1)]
)
def test_a_providers_id_names_nothing(call_id: str) -> None:
    """It is no reason to look for anything."""
    assert read_call_name(call_id) is None
