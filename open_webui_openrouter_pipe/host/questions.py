"""Questions to the user, in the page's own dialogue.

Source: `socket/main.py: get_event_call` of Open WebUI 0.12. It returns what the user chose, or an object with an error
where the page is gone; it waits for ever unless the host is configured otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ..languages.language import Language
from ..notices import ENGLISH, in_language

EventCall: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


def page_question(
    event_call: EventCall | None, language: Language = ENGLISH
) -> Callable[[str, str], Awaitable[bool | None]] | None:
    """Return what asks the user to confirm a text under a title; its answer is None when nobody was there to ask."""
    if event_call is None:
        return None

    async def ask(title: str, text: str) -> bool | None:
        title, text = in_language(title, language), in_language(text, language)
        answer = await event_call({"type": "confirmation", "data": {"title": title, "message": text}})
        return None if isinstance(answer, dict) and "error" in answer else bool(answer)

    return ask
