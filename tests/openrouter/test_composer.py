"""Parameters of one call, joined with the input of each of its requests."""

from __future__ import annotations

from typing import Any

from open_webui_openrouter_pipe.context.plan import Marks
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


MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def text(role: str, words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words, **fields}]}


def test_explicit_caches_get_breakpoints() -> None:
    """Only where the provider needs them, and only when it is known where the stable blocks end."""
    items: Any = [text("system", "brief"), text("user", "one")]
    marked = [text("system", "brief", **MARK), text("user", "one")]
    two, none = Marks(1, 1, 1, 1), Marks(0, 0, 0, 0)
    claude = Composer({}, model=None, model_id="anthropic/claude")
    other = Composer({}, model=None, model_id="openai/gpt")
    inputs = [
        composer.build(items, marks)["input"]
        for composer, marks in ((claude, two), (claude, none), (claude, None), (other, two))
    ]
    assert inputs == [marked, items, items, items]
