"""The host's built-in tools, which it offers to every chat, beside a model with a small window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.app.chat import NewChat, sent

if TYPE_CHECKING:
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "mistralai/mistral-small-8k"
"""A window of 8,000 tokens, of which 5,376 are for the input."""
OMITTED = "Built-in tools of Open WebUI omitted to fit the model's window: 30, about "


def functions(name: str, count: int, sentences: int) -> list[dict[str, Any]]:
    """Tools as the host describes them, each of some 14 tokens a sentence."""
    description = "Search the notes of the user by their words and return the best matches. " * sentences
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return [
        {"name": f"{name}_{number}", "description": description, "parameters": parameters}
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("described", "offered", "line", "error"),
    [
        ((functions("notes", 30, 10), []), 30, "", ""),
        ((functions("notes", 30, 20), functions("weather", 1, 3)), 1, OMITTED, ""),
        ((functions("notes", 30, 20), []), None, OMITTED, ""),
        (([], functions("weather", 30, 20)), None, "", "Switch off tools"),
    ],
    ids=["within the halved reserves", "what was chosen stays", "none is left", "chosen ones do not fit"],
)
async def test_built_in_tools_are_omitted_where_they_do_not_fit(
    new_chat: NewChat, standin: StandIn, described: Any, offered: int | None, line: str, error: str
) -> None:
    """The user reads how many. What was chosen may be what the question is about: it stays, or nothing is sent."""
    builtin, chosen = described
    kinds = {spec["name"]: {"type": "builtin", "spec": spec} for spec in builtin}
    kinds |= {spec["name"]: {"tool_id": "weather", "spec": spec} for spec in chosen}
    tools = [{"type": "function", "function": spec} for spec in (*builtin, *chosen)]
    answer = await new_chat(model=SMALL, metadata={"tools": kinds}).ask("Hello", tools=tools)
    assert error in (answer.error or "")
    assert (bool(answer.text), bool(answer.error), bool(answer.notices)) == (
        not error,
        bool(error),
        bool(line),
    )
    assert all(each.startswith(line) for each in answer.notices)
    if not error:
        names = [tool["name"] for tool in sent(standin).get("tools", [])]
        assert (len(names) or None, "tool_choice" in sent(standin)) == (offered, False)
        assert not chosen or names == ["weather_0"]
