"""Status lines while a model searches the web or reads a page, since it writes nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from ..notices import notice
from ..ports import Notice, Output
from ..responses.effects import ItemFinished, ItemStarted
from ..responses.wire import as_object, as_text

_SEARCHES: Final = frozenset({"web_search_call", "openrouter:web_search"})
_FETCH: Final = "openrouter:web_fetch"


def search_lines(output: Output) -> Iterator[Notice]:
    """Yield the line about an output that begins or ends a search or the reading of a page."""
    if not isinstance(output, ItemStarted | ItemFinished):
        return
    item = cast("Mapping[str, Any]", output.item)
    name = "searching" if item["type"] in _SEARCHES else "reading_page" if item["type"] == _FETCH else ""
    if name and isinstance(output, ItemStarted):
        yield Notice(notice(name), done=False)
    elif name:
        yield Notice(_result(item))


def _result(item: Mapping[str, Any]) -> str:
    """What was searched for or read, or that it failed."""
    if item.get("error") or item.get("status") not in (None, "completed"):
        return notice("search_failed")
    action = as_object(item.get("action"))
    query, url = as_text(action.get("query")), as_text(action.get("url")) or as_text(item.get("url"))
    if query:
        return notice("searched_for", query=query)
    return notice("page_read", url=url) if url else notice("searched")
