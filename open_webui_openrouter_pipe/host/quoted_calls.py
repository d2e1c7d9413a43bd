"""Which of the calls in an answer's text the model wrote as text.

Older versions of Open WebUI write calls as blocks into the text, newer ones keep an answer as items; to a pipe both are
a text alone where the answer has no call. So the chat is looked up: a block is a call only if an answer without items
has it. An answer of an older version that a newer one has continued has items, too, and its blocks are text. Source:
`models/chats.py` and `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..history.folded import FoldedCall, unfold
from ..responses.wire import as_text
from .call import Call, is_saved

_log = logging.getLogger(__name__)


async def quoted_calls(call: Call, call_ids: Collection[str]) -> frozenset[str]:
    """Return those of the calls that their chat only quotes; none where that is not known."""
    from open_webui.models.chats import Chats

    if not is_saved(call.chat_id):
        return frozenset()
    try:
        messages = await Chats.get_messages_map_by_chat_id(call.chat_id)
        if not messages:
            return frozenset()
        return frozenset(call_ids) - await asyncio.to_thread(_written_by_older_versions, messages.values())
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and they are then taken for calls
        _log.warning("which calls a chat quotes is not known: %s", type(error).__name__)
        return frozenset()


def _written_by_older_versions(messages: Iterable[Mapping[str, Any]]) -> set[str]:
    """The ids of the blocks in answers without items."""
    return {
        piece.call_id
        for message in messages
        if message.get("role") == "assistant" and not message.get("output")
        for piece in unfold(as_text(message.get("content")))
        if isinstance(piece, FoldedCall)
    }
