"""Parameters of one call, joined with the input of each of its requests."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.composer import Composer
from open_webui_openrouter_pipe.planning.plan import CacheMarks
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
    two, none = CacheMarks(1, 1, 1, 1), CacheMarks(0, 0, 0, 0)
    claude = Composer({}, model=None, model_id="anthropic/claude")
    other = Composer({}, model=None, model_id="openai/gpt")
    inputs = [
        composer.build(items, marks)["input"]
        for composer, marks in ((claude, two), (claude, none), (claude, None), (other, two))
    ]
    assert inputs == [marked, items, items, items]


PARAMETERS = {
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "look"}}],
    "tool_choice": "required",
    "max_tokens": 50,
    "plugins": [{"id": "web"}],
    "response_format": {"type": "json_object"},
    "session_id": "s",
}


def test_a_question_beside_the_chat_keeps_what_the_cache_depends_on() -> None:
    """Nothing that would force a call, search the web, ask for a form, or cut the answer short."""
    items: Any = [text("user", "one")]
    composer = Composer(PARAMETERS, model=None, model_id="openai/gpt")
    live, aside = composer.build(items), composer.build_aside(items, output_tokens=900)
    changed = {"tool_choice": "none", "max_output_tokens": 900}
    gone = {"plugins", "text"}
    assert gone <= set(live)
    assert aside == {**{name: value for name, value in live.items() if name not in gone}, **changed}


@pytest.mark.parametrize(
    ("effort", "limit"),
    [({}, 900), ({"reasoning_effort": "high"}, None), ({"reasoning": {"effort": "low"}}, None)],
    ids=["no effort", "effort", "effort of reasoning"],
)
def test_anthropic_is_asked_with_the_same_choice_and_budget(
    effort: dict[str, Any], limit: int | None
) -> None:
    """Both belong to what its cache is found by, where an effort is a share of the output limit."""
    items: Any = [text("system", "brief"), text("user", "one")]
    parameters = {
        name: value for name, value in PARAMETERS.items() if name not in {"max_tokens", "tool_choice"}
    }
    composer = Composer({**parameters, **effort}, model=None, model_id="anthropic/claude")
    aside = composer.build_aside(items, CacheMarks(1, 1, 1, 1), output_tokens=900)
    assert (aside.get("tool_choice"), aside.get("max_output_tokens")) == (None, limit)
    assert aside["input"] == [text("system", "brief", **MARK), text("user", "one")]


def test_a_question_of_its_own_has_what_was_asked_for_such() -> None:
    """A form, say; without marks nothing is cached, and no choice has to be the same."""
    form = {"text": {"format": {"type": "json_object"}}}
    composer = Composer({"session_id": "s"}, model=None, model_id="anthropic/claude", aside=form)
    body = composer.build_aside([], output_tokens=900)
    assert (body["text"], body["max_output_tokens"]) == (form["text"], 900)
    assert "text" not in composer.build([])
