"""Whose a marker is that has no artifact: another pipe writes the same form, and keeps its items elsewhere.

The host names no model in the messages that it passes, so the chat is looked up: a marker is of others where it
stands in an answer of a model that is not of the function that is called. Source: `models/chats.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from ..history.markers import ULID
from .call import Call, is_saved

_log = logging.getLogger(__name__)

_ULIDS = re.compile(ULID)
_OF_FUNCTION = re.compile("[./]")
"""What the ids of a function's or a connection's models have, and those of presets seldom."""


async def markers_of_others(call: Call, ulids: Collection[str]) -> frozenset[str]:
    """Return those of the markers that stand in answers of other functions; none where that is not known."""
    from open_webui.models.chats import Chats
    from open_webui.models.models import Models

    if not call.function_id or not is_saved(call.chat_id):
        return frozenset()
    try:
        messages = await Chats.get_messages_map_by_chat_id(call.chat_id) or {}
        found = await asyncio.to_thread(_markers_by_model, messages, frozenset(ulids))
        others: set[str] = set()
        for model_id, marked in found.items():
            row = await Models.get_model_by_id(model_id)
            if row is None and not _OF_FUNCTION.search(model_id):
                continue  # a preset that was deleted, or an arena
            base_id = (row.base_model_id if row else None) or model_id
            if not base_id.startswith(f"{call.function_id}."):
                others |= marked
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and they are then taken for ours
        _log.warning("whose markers a chat has is not known: %s", type(error).__name__)
        return frozenset()
    return frozenset(others)


def _markers_by_model(messages: Mapping[str, Any], ulids: frozenset[str]) -> dict[str, set[str]]:
    """The markers in the answers of each model that the chat names."""
    found: dict[str, set[str]] = {}
    for message in messages.values():
        model_id = message.get("model")
        if message.get("role") == "assistant" and isinstance(model_id, str) and model_id:
            text = json.dumps([message.get("content"), message.get("output")])
            found.setdefault(model_id, set()).update(ulids.intersection(_ULIDS.findall(text)))
    return {model_id: marked for model_id, marked in found.items() if marked}
