"""Skills in a real Open WebUI: offered by name, read in full where a message mentions one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "skill")]

MODEL = "openrouter.openai/gpt-5.2"
TEXT = "Beat for ten minutes."
MENTION = "<$whisk|Whisk> How do I begin?"


@pytest.fixture
def skill(open_webui: OpenWebUI) -> Iterator[None]:
    """A skill of the administrator's."""
    form = {"id": "whisk", "name": "Whisk", "description": "How to beat cream", "content": TEXT}
    open_webui.admin.api.post("/api/v1/skills/create", form)
    yield
    open_webui.admin.api.delete("/api/v1/skills/id/whisk/delete")


def texts_of(items: list[dict[str, Any]], role: str) -> list[str]:
    """The texts of one role's messages."""
    return [item["content"][0]["text"] for item in items if item.get("role") == role]


def test_a_mentioned_skill_is_read_from_the_first_message_on(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It stands in the system prompt, and stays there."""
    sent, _ = open_webui.admin.ask(MODEL, MENTION)
    open_webui.admin.ask(MODEL, "And then?", after=sent)
    first, second = (request.body["input"] for request in standin.responses)
    assert TEXT in texts_of(first, "system")[0]
    assert texts_of(first, "user") == ["Whisk How do I begin?"]
    assert second[: len(first)] == first


def test_a_skill_that_is_mentioned_later_leaves_the_front_alone(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """Its text stands before the question; what was sent before stays as it was."""
    sent, _ = open_webui.admin.ask(MODEL, "Hello.")
    sent, _ = open_webui.admin.ask(MODEL, MENTION, after=sent)
    open_webui.admin.ask(MODEL, "And then?", after=sent)
    first, second, third = (request.body["input"] for request in standin.responses)
    assert TEXT not in str(first)
    assert "<name>Whisk</name>" in texts_of(first, "system")[0]
    assert second[: len(first)] == first
    assert TEXT in second[-2]["content"][0]["text"]
    assert third[: len(second) - 2] == second[:-2]
    assert TEXT in third[-2]["content"][0]["text"]
