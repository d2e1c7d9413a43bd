"""What a chat is called that begins with a command; titles and tags of the host's own are in `tests/live`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.wording import name_chat
from tests.host.tables import write_chat

CASES = {
    "by the question": ("/help", {"content": "  What do\notters eat?  "}, "ada", "What do otters eat?"),
    "by its beginning": ("/Foo", {"content": "x" * 150}, "ada", "x" * 100),
    "as its user has named it": ("Otters", {"content": "Hi"}, "ada", "Otters"),
    "as before without words": ("/context", {}, "ada", "/context"),
    "as before for a user who is gone": ("/context", {"content": "Hi"}, "", "/context"),
}
"""The title, the message and who asks => the title then, where the host makes no titles."""


@pytest.mark.parametrize("name", CASES)
def test_a_command_is_no_title(seen: dict[str, Any], name: str) -> None:
    """The page hears of another one; nothing is raised, whatever the host lacks."""
    before, *_, after = CASES[name]
    events = [{"type": "chat:title", "data": after}] if after != before else []
    assert seen[__name__][name] == (after, events)


def test_the_host_is_asked_for_a_title_where_a_command_is_one(seen: dict[str, Any]) -> None:
    """A chat that its user has named is nobody's business, and its title costs nothing."""
    assert seen[__name__]["asked"] == {"/help": True, "Otters": False}


class Request:
    """A request of the page, of which nothing is known but whether somebody has looked at it."""

    asked = False

    def __getattr__(self, name: str) -> Any:
        self.asked = True
        raise AttributeError(name)


async def look() -> dict[str, Any]:
    from open_webui.models.chats import Chats
    from open_webui.models.config import Config

    await Config.upsert({"task.title.enable": False, "task.tags.enable": False})
    seen: dict[str, Any] = {}
    for number, (name, (title, message, user_id, _)) in enumerate(CASES.items()):
        chat_id, events = f"named-{number}", list[dict[str, Any]]()
        await write_chat(chat_id, [{"model_id": "ours.a/m"}], title=title)

        async def emit(event: dict[str, Any], events: list[dict[str, Any]] = events) -> None:
            events.append(event)

        metadata = {"chat_id": chat_id, "message_id": "0", "user_message": message}
        await name_chat(SimpleNamespace(), metadata, {"id": user_id} if user_id else {}, emit)
        seen[name] = (await Chats.get_chat_title_by_id(chat_id), events)

    async def say_nothing(_: dict[str, Any]) -> None:
        pass

    await Config.upsert({"task.title.enable": True})
    seen["asked"] = {}
    for title in ("/help", "Otters"):
        chat_id, request = f"asked-{title.strip('/')}", Request()
        await write_chat(chat_id, [{"model_id": "ours.a/m", "content": "Hi"}], title=title)
        metadata = {"chat_id": chat_id, "message_id": "0", "user_message": {"content": "Hi"}}
        await name_chat(request, metadata, {"id": "ada"}, say_nothing)
        seen["asked"][title] = request.asked
    return seen
