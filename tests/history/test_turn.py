"""Ids of assistant messages: made from the text and its position, and from nothing that comes later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.history.builders import assistant, build, user

if TYPE_CHECKING:
    from collections.abc import Sequence


def ids(messages: Sequence[object]) -> list[str]:
    return [item["id"] for item in build(messages).items if item.get("role") == "assistant"]  # type: ignore[typeddict-item]


def test_ids_are_short_hex_and_unique() -> None:
    """Even where the same words are said twice, in one turn or in two."""
    found = ids([user("q"), assistant("A"), assistant("A"), user("r"), assistant("A")])
    assert len(set(found)) == 3
    assert all(name.startswith("msg_") and len(name) == 36 and int(name[4:], 16) for name in found)


def test_ids_do_not_depend_on_what_follows() -> None:
    """A longer chat names its earlier messages as before."""
    chat = [user("q"), assistant("A"), user("r"), assistant("B")]
    assert ids(chat)[:1] == ids(chat[:2])


def test_ids_depend_on_the_text() -> None:
    """An edited answer is another message."""
    assert ids([user("q"), assistant("A")]) != ids([user("q"), assistant("B")])
