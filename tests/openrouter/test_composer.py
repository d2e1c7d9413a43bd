"""Parameters of one call, joined with the input of each of its requests."""

from __future__ import annotations

from typing import Any

from open_webui_openrouter_pipe.openrouter.composer import Composer
from open_webui_openrouter_pipe.responses.tool_names import wire_name


def test_the_same_parameters_for_each_input() -> None:
    """Each input gets the call's parameters, and changed tool names are told back."""
    name = "server.look"
    parameters = {"temperature": 0.5, "tools": [{"type": "function", "function": {"name": name}}]}
    composer = Composer(parameters, model=None, model_id="a/m")
    items: Any = [{"type": "message", "role": "user", "content": []}]
    body = composer.build(items)
    assert (
        body["input"],
        body["temperature"],
        composer.host_tool_name(wire_name(name)),
        composer.host_tool_name("x"),
    ) == (
        items,
        0.5,
        name,
        "x",
    )
