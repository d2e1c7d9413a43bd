"""Settings: what valves and user valves become for one request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.settings import UserValves, Valves, read_settings, tokenizer_folder

if TYPE_CHECKING:
    from pydantic import JsonValue


def test_the_defaults_of_the_context() -> None:
    """The defaults of the valves are those of the context; a user may switch summaries off."""
    assert read_settings(Valves()).context == ContextSettings()
    bypassed = read_settings(Valves(), UserValves(SUMMARY_BYPASS=True))
    assert bypassed.context == ContextSettings(context_strategy="prune")


def test_every_valve_of_the_context_is_read() -> None:
    """Each valve sets its own field; the user's limit and bypass are added to the administrator's."""
    valves = Valves(
        CONTEXT_STRATEGY="clip",
        CONTEXT_MAX_OUTPUT_TOKENS=1,
        PRUNE_TRIGGER_RATIO=0.5,
        SUMMARY_TRIGGER_RATIO=0.4,
        SUMMARY_AHEAD_RATIO=0.3,
        SUMMARY_TURN_TRIGGER=8,
        PROTECTED_RECENT_TURNS=2,
        TOOL_OUTPUT_RETENTION_TURNS=3,
        TOOL_OUTPUT_PRUNING="every_turn",
        CLIP_LAST_MESSAGES=6,
        CLIP_MIN_MESSAGES=7,
    )
    settings = read_settings(valves, UserValves(CLIP_LAST_MESSAGES=8, CLIP_BYPASS=True))
    assert settings.context == ContextSettings(
        tool_output_retention_turns=3,
        tool_output_pruning="every_turn",
        context_strategy="clip",
        context_max_output_tokens=1,
        prune_trigger_ratio=0.5,
        summary_trigger_ratio=0.4,
        summary_ahead_ratio=0.3,
        summary_turn_trigger=8,
        protected_recent_turns=2,
        clip_last_messages=6,
        clip_minimum_messages=7,
        clip_user_limit=8,
        clip_bypass=True,
    )


@pytest.mark.parametrize(
    ("valve", "passphrases"),
    [
        ("", ()),
        (" , \n ", ()),
        ("correct horse battery staple", ("correct horse battery staple",)),
        ("the new one, the old one,", ("the new one", "the old one")),
        ("the new one\r\nthe old one\n", ("the new one", "the old one")),
    ],
)
def test_passphrases_are_read_in_their_order(valve: str, passphrases: tuple[str, ...]) -> None:
    """One a line or comma, spaces included; the first is the one that seals."""
    assert read_settings(Valves(ARTIFACT_ENCRYPTION_KEY=valve)).store.passphrases == passphrases


@pytest.mark.parametrize(
    "valves",
    [
        {"CLIP_LAST_MESSAGES": 0},
        {"CLIP_LAST_MESSAGES": 51},
        {"PRUNE_TRIGGER_RATIO": 0},
        {"SUMMARY_TRIGGER_RATIO": 1.1},
        {"SUMMARY_TIMEOUT_SECONDS": 0},
        {"CONTEXT_STRATEGY": "forget"},
    ],
)
def test_meaningless_values_are_refused(valves: dict[str, JsonValue]) -> None:
    """Open WebUI shows the administrator what is wrong."""
    with pytest.raises(ValueError, match=next(iter(valves))):
        Valves.model_validate(valves)


def test_tokenizer_files_are_looked_for_where_tiktoken_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken's own variable comes first; an empty one says that nothing is cached."""
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "/old")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert tokenizer_folder() == Path("/old")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/new")
    assert tokenizer_folder() == Path("/new")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert tokenizer_folder() is None
