"""Which text of an item may be cut, and what the item is then: see `excerpts.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.planning.detail import excerpt_text, with_text
from tests.support.chats import reasoning
from tests.support.rows import rows

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.responses.items import Item


def cut(text: str) -> str:
    """The first four characters."""
    return text[:4]


@pytest.mark.parametrize(
    ("title", "item", "expected"), rows(Path(__file__).with_name("excerpts.txt"), "items")
)
def test_an_item_keeps_its_kind_its_ids_and_its_place(title: str, item: Item, expected: Item) -> None:
    """Texts are cut as one, arguments remain JSON, and media give way to a line that names them."""
    text = excerpt_text(item, cut)
    assert text is not None
    assert with_text(item, text) == expected, title


def test_reasoning_has_no_text_to_cut() -> None:
    """It is sent as it is, or not at all."""
    assert excerpt_text(reasoning(), cut) is None
    assert with_text(reasoning(), "") == reasoning()
