"""The title and the tags of a chat that begins with commands.

The page has Open WebUI make them of a chat's first message alone, so that such a chat is called "/context". They are
made anew of the first message that is none, by the host itself. Source: `background_tasks_handler` in
`utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ..conversation.slash import read_command
from ..responses.values import as_object, as_text
from .wording import EventEmitter

_TITLE_CHARACTERS: Final = 100
"""As many of a message as the host makes a title of."""

_log = logging.getLogger(__name__)


async def name_chat(
    request: Any, metadata: Mapping[str, Any], user: Mapping[str, Any], emit: EventEmitter
) -> None:
    """Have the chat named by the message that is being answered, if a command is its title; never raises.

    The arguments are those of the pipe. Where the host makes no title, the message's beginning becomes it.
    """
    chat_id, asked = as_text(metadata.get("chat_id")), as_object(metadata.get("user_message"))
    shown = as_object(as_object(user.get("settings")).get("ui"))
    tasks = {
        "title_generation": as_object(shown.get("title")).get("auto", True),
        "tags_generation": shown.get("autoTags", True),
    }
    try:
        from open_webui.models.chats import Chats
        from open_webui.models.users import Users
        from open_webui.utils.middleware import background_tasks_handler

        if not read_command(await Chats.get_chat_title_by_id(chat_id) or ""):
            return
        await background_tasks_handler(
            {
                "request": request,
                "form_data": {},
                "user": await Users.get_user_by_id(user["id"]),
                "metadata": dict(metadata),
                "tasks": tasks,
                "event_emitter": emit,
            }
        )
        title = " ".join(as_text(asked.get("content")).split())[:_TITLE_CHARACTERS]
        if title and read_command(await Chats.get_chat_title_by_id(chat_id) or ""):
            await Chats.update_chat_title_by_id(chat_id, title)
            await emit({"type": "chat:title", "data": title})
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and a title is not worth an answer
        _log.warning("a chat was not named: %r", error)
