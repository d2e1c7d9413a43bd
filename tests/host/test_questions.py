"""Questions on the page, and the groups of a user, as the host has them."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.wording import page_question

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        pytest.param(True, True, id="yes"),
        pytest.param(False, False, id="no"),
        pytest.param(None, False, id="closed"),
        pytest.param({"error": "Client session disconnected."}, None, id="nobody there"),
    ],
)
async def test_a_question_is_a_confirmation_of_the_page(reply: Any, answer: Any) -> None:
    """Its answer says whether the user agrees, and None that nobody was asked."""
    events = list[dict[str, Any]]()

    async def event_call(event: dict[str, Any]) -> Any:
        events.append(event)
        return reply

    ask = page_question(event_call)
    assert ask
    assert await ask("Title", "Text") is answer
    assert events == [{"type": "confirmation", "data": {"title": "Title", "message": "Text"}}]
    assert page_question(None) is None


def test_a_call_names_the_time_zone_of_the_browser() -> None:
    """The page sends it with its prompt's variables; other callers do not."""
    body = {"model": "x.openai/gpt-5.2", "messages": []}
    metadata = {"variables": {"{{CURRENT_TIMEZONE}}": "Europe/Berlin"}}
    assert read_call(body, user=None, metadata=metadata, task=None).time_zone == "Europe/Berlin"
    assert read_call(body, user=None, metadata={"variables": None}, task=None).time_zone == ""
