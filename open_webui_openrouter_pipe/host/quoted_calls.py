"""Which of the calls in an answer's text the model wrote as text.

Older versions of Open WebUI write calls as blocks into the text, newer ones keep an answer as items; to a pipe both are
a text alone where the answer has no call. So the chat is looked up: a block that stands in an item's text is a
quotation. Source: `models/chats.py` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..history.folded import FoldedCall, unfold
from ..responses.wire import as_list, as_object, as_text
from .call import Call, is_saved

_log = logging.getLogger(__name__)


async def quoted_calls(call: Call, call_ids: Collection[str]) -> frozenset[str]:
    """Return those of the calls that are quotations in their chat; none where that is not known."""
    from open_webui.models.chats import Chats

    if not is_saved(call.chat_id):
        return frozenset()
    try:
        messages = await Chats.get_messages_map_by_chat_id(call.chat_id) or {}
        return await asyncio.to_thread(_quoted, messages.values(), frozenset(call_ids))
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and they are then taken for calls
        _log.warning("which calls a chat quotes is not known: %s", type(error).__name__)
        return frozenset()


def _quoted(messages: Iterable[Mapping[str, Any]], call_ids: frozenset[str]) -> frozenset[str]:
    """Those of the calls whose blocks stand in the texts of items, but in no answer without items."""
    in_items, elsewhere = set[str](), set[str]()
    for message in messages:
        if message.get("role") != "assistant":
            continue
        if items := [as_object(item) for item in as_list(message.get("output"))]:
            in_items.update(*map(_folded_ids, _texts(items)))
        else:
            elsewhere.update(_folded_ids(as_text(message.get("content"))))
    return call_ids & (in_items - elsewhere)


def _texts(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "message":
            yield "".join(as_text(as_object(part).get("text")) for part in as_list(item.get("content")))


def _folded_ids(text: str) -> Iterator[str]:
    return (piece.call_id for piece in unfold(text) if isinstance(piece, FoldedCall))
