"""What administrators and users have switched, in the parameters of a call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.controls import (
    INTERLEAVED_THINKING,
    ControlSettings,
    beta_features,
    controlled,
    routed,
)

MODEL, OTHER = read_models({"data": [{"id": "a/m"}, {"id": "a/n"}]})
HIGH = ControlSettings(reasoning={"effort": "high", "summary": "detailed"})


@pytest.mark.parametrize(
    ("controls", "given", "expected"),
    [
        (ControlSettings(), {"a": 1}, {"a": 1}),
        (HIGH, {}, {"reasoning": {"effort": "high", "summary": "detailed"}}),
        (
            HIGH,
            {"reasoning_effort": "low"},
            {"reasoning_effort": "low", "reasoning": {"summary": "detailed"}},
        ),
        (HIGH, {"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low", "summary": "detailed"}}),
        (HIGH, {"reasoning": {"max_tokens": 9}}, {"reasoning": {"max_tokens": 9, "summary": "detailed"}}),
        (HIGH, {"reasoning": {"summary": "auto"}}, {"reasoning": {"effort": "high", "summary": "auto"}}),
        (ControlSettings(reasoning={"summary": None}), {}, {"reasoning": {"summary": None}}),
        (ControlSettings(service_tier="flex"), {}, {"service_tier": "flex"}),
        (ControlSettings(service_tier="flex"), {"service_tier": None}, {"service_tier": "flex"}),
        (ControlSettings(service_tier="flex"), {"service_tier": "auto"}, {"service_tier": "auto"}),
        (ControlSettings(fallback_models=("a/n", "a/m", "b/x")), {}, {"models": ["a/n"]}),
        (ControlSettings(fallback_models=("a/n",)), {"models": ["a/o"]}, {"models": ["a/o"]}),
    ],
)
def test_what_a_chat_gets(controls: ControlSettings, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """What the call itself has set counts more, key by key."""
    assert controlled(given, controls, offered=[MODEL, OTHER], model=MODEL, model_id="a/m") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, {"zdr": True}), ({"provider": {"zdr": False, "sort": "price"}}, {"zdr": True, "sort": "price"})],
)
def test_every_call_is_routed(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """A task too; without preferences nothing is added."""
    assert routed(given, ControlSettings(provider={"zdr": True})) == {"provider": expected}
    assert routed(given, ControlSettings()) == given


def test_the_settings_do_not_show_the_key() -> None:
    """Wherever they are printed."""
    assert "sk-or" not in repr(ControlSettings(own_api_key="sk-or-v1-secret"))


CLAUDE = replace(MODEL, id="anthropic/claude-sonnet-4.5", reasons=True)


@pytest.mark.parametrize(
    ("model", "has_tools", "expected"),
    [
        (CLAUDE, True, (INTERLEAVED_THINKING,)),
        (replace(CLAUDE, id="~anthropic/claude-sonnet-latest"), True, (INTERLEAVED_THINKING,)),
        (CLAUDE, False, ()),
        (replace(CLAUDE, id="anthropic/claude-3.7-sonnet"), True, ()),
        (replace(CLAUDE, reasons=False), True, ()),
        (replace(CLAUDE, id="openai/gpt-5"), True, ()),
        (None, True, ()),
    ],
)
def test_who_thinks_between_calls(model: Any, has_tools: Any, expected: tuple[str, ...]) -> None:
    """Models of Anthropic that think, from version 4 on, where there are tools and the valve allows it."""
    assert beta_features(ControlSettings(), model, has_tools=has_tools) == expected
    assert beta_features(ControlSettings(interleaves_thinking=False), model, has_tools=has_tools) == ()
