"""The host's built-in tools, which it offers to every chat, beside a model with a small window."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.ports import Failed, Notice
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords
from tests.app.chat import settings

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "mistralai/mistral-small-8k"
"""A window of 8,000 tokens, of which 5,376 are for the input."""


def function(name: str, sentences: int) -> dict[str, Any]:
    """A tool as the host describes it, of some 14 tokens a sentence."""
    description = "Search the notes of the user by their words and return the best matches. " * sentences
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return {"name": name, "description": description, "parameters": parameters}


async def ask(
    folder: Path, standin: StandIn, text: str, builtin: list[dict[str, Any]], chosen: list[dict[str, Any]]
) -> tuple[str, list[str], str | None]:
    """The answer, the status lines and the error of a first question."""
    offered = [{"type": "function", "function": spec} for spec in (*builtin, *chosen)]
    kinds = {spec["name"]: {"type": "builtin", "spec": spec} for spec in builtin}
    kinds |= {spec["name"]: {"tool_id": "weather", "spec": spec} for spec in chosen}
    body = {"model": f"openrouter.{SMALL}", "messages": [{"role": "user", "content": text}], "stream": True}
    metadata = {"chat_id": "chat-1", "message_id": "message-1", "tools": kinds}
    call = read_call({**body, "tools": offered}, user={"id": "ada"}, metadata=metadata, task=None)
    host = Host(open_database(f"sqlite:///{folder}/rows.db"), FakeRecords(), "secret")
    async with aclosing(App(host)) as app:
        outputs = [output async for output in app.answer(call, settings(standin))]
    return (
        "".join(output.delta for output in outputs if isinstance(output, TextDelta)),
        [output.text for output in outputs if isinstance(output, Notice)],
        next((output.message for output in outputs if isinstance(output, Failed)), None),
    )


def sent_tools(standin: StandIn) -> list[str]:
    """The names of the tools in the last request."""
    return [tool["name"] for tool in standin.responses[-1].body.get("tools", [])]


async def test_a_small_model_answers_hello_beside_the_built_in_tools(
    tmp_path: Path, standin: StandIn
) -> None:
    """30 tools of some 5,500 tokens are over what is left for the input, and within the halved reserves."""
    builtin = [function(f"search_notes_{number}", 10) for number in range(30)]
    text, notices, error = await ask(tmp_path, standin, "Hello", builtin, [])
    assert (bool(text), notices, error, len(sent_tools(standin))) == (True, [], None, 30)


async def test_built_in_tools_are_omitted_where_they_do_not_fit(tmp_path: Path, standin: StandIn) -> None:
    """The user reads how many; what the user chose stays."""
    builtin = [function(f"search_notes_{number}", 20) for number in range(30)]
    text, notices, error = await ask(tmp_path, standin, "Hello", builtin, [function("weather", 3)])
    assert (bool(text), error, sent_tools(standin)) == (True, None, ["weather"])
    (line,) = notices
    assert line.startswith("Built-in tools of Open WebUI omitted to fit the model's window: 30, about ")


async def test_without_any_tool_left_there_is_no_choice_of_one(tmp_path: Path, standin: StandIn) -> None:
    """Neither tools nor a choice are in the request."""
    builtin = [function(f"search_notes_{number}", 20) for number in range(30)]
    text, _, error = await ask(tmp_path, standin, "Hello", builtin, [])
    assert (bool(text), error, "tools" in standin.responses[-1].body) == (True, None, False)


async def test_chosen_tools_that_do_not_fit_are_refused(tmp_path: Path, standin: StandIn) -> None:
    """They may be what the question is about."""
    chosen = [function(f"weather_{number}", 20) for number in range(30)]
    _, _, error = await ask(tmp_path, standin, "Hello", [], chosen)
    assert error is not None
    assert "Switch off tools" in error
