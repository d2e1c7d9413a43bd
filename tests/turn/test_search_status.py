"""Status lines while a model searches the web or reads a page."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.responses.effects import ItemFinished, ItemStarted, TextDelta
from open_webui_openrouter_pipe.turn.round import search_lines


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"type": "openrouter:web_search", "status": "completed", "action": {"query": "cats"}},
         "Searched the web for: cats"),
        ({"type": "web_search_call", "status": "completed", "action": {"url": "https://a.example"}},
         "Read https://a.example"),
        ({"type": "web_search_call", "status": "completed"}, "Searched the web."),
        ({"type": "openrouter:web_search", "status": "failed"}, "The search did not succeed."),
        ({"type": "openrouter:web_search", "status": "completed", "error": "no"}, "The search did not succeed."),
        ({"type": "openrouter:web_fetch", "status": "completed", "url": "https://a.example"},
         "Read https://a.example"),
    ],
)  # fmt: skip
def test_the_end_says_what_was_found(item: Any, line: str) -> None:
    """What was sought or read, or that it failed."""
    assert list(search_lines(ItemFinished(0, item))) == [Notice(line)]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("openrouter:web_search", "Searching the web..."),
        ("web_search_call", "Searching the web..."),
        ("openrouter:web_fetch", "Reading a web page..."),
    ],
)
def test_the_beginning_is_followed_by_an_end(kind: str, line: str) -> None:
    """So it is not done."""
    item: Any = {"type": kind, "status": "in_progress"}
    assert list(search_lines(ItemStarted(0, item))) == [Notice(line, done=False)]


def test_nothing_is_said_of_all_else() -> None:
    """Neither of other items nor of text."""
    item: Any = {"type": "message", "status": "completed"}
    for output in (ItemStarted(0, item), ItemFinished(0, item), TextDelta(0, 0, "Searching")):
        assert list(search_lines(output)) == []
