"""What chats, tasks and summaries ask for."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import FALLBACK_WINDOW_TOKENS
from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.policy import (
    chat_parameters,
    model_terms,
    shares_cache,
    summary_model_id,
    summary_parameters,
    task_parameters,
)
from open_webui_openrouter_pipe.planning.plan import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices

CHEAP_READS = CachePrices(read=0.1, write=1.25)
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("given", "model_id", "key", "expected"),
    [
        ({"a": 1}, "openai/gpt", "k", {"session_id": "k", "prompt_cache_key": "k", "a": 1}),
        ({}, "openai/gpt", "", {}),
        ({}, "anthropic/claude", "", EPHEMERAL),
        ({"session_id": "own"}, "openai/gpt", "k", {"session_id": "own", "prompt_cache_key": "k"}),
        ({"cache_control": None}, "anthropic/claude", "", {"cache_control": None}),
    ],
)
def test_a_chat_stays_with_the_provider_that_has_it_cached(
    given: dict[str, Any], model_id: str, key: str, expected: dict[str, Any]
) -> None:
    """Keys name the chat, Anthropic is asked to cache, and the host's own parameters win."""
    assert chat_parameters(given, model_id=model_id, cache_key=key) == expected


def test_a_task_takes_over_little() -> None:
    """Limits, sampling and routing, but no tools and no formats; it thinks little."""
    given = {
        "max_tokens": 50,
        "provider": {"zdr": True},
        "tools": [{}],
        "text": {},
        "reasoning_effort": "high",
    }
    assert task_parameters(given) == {
        "max_tokens": 50,
        "provider": {"zdr": True},
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize(
    ("writer_id", "provider"),
    [("a/m", {"order": ["x"], "zdr": True}), ("b/n", {"zdr": True})],
    ids=["the chat's model", "another model"],
)
def test_a_summary_keeps_the_data_policy_of_its_chat(writer_id: str, provider: dict[str, Any]) -> None:
    """Who may see the data holds for every model, the order of providers for the chat's own."""
    given = {"provider": {"order": ["x"], "zdr": True}, "user": "u", "temperature": 1}
    assert summary_parameters(given, model_id="a/m", writer_id=writer_id) == {
        "provider": provider,
        "user": "u",
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize(
    ("setting", "chat_model_id", "writer_id"),
    [("", "a/m", "a/m"), ("", "a/m:online", "a/m"), ("b/n", "a/m", "b/n")],
)
def test_who_writes_summaries(setting: str, chat_model_id: str, writer_id: str) -> None:
    """The chat's own model, without its search, unless the administrator names another."""
    assert summary_model_id(setting, chat_model_id) == writer_id


@pytest.mark.parametrize(
    ("setting", "terms", "expected"),
    [
        ("", ModelTerms("a/m", prices=CHEAP_READS), True),
        ("", ModelTerms("a/m"), False),
        ("b/n", ModelTerms("a/m", prices=CHEAP_READS), False),
        ("", ModelTerms("a/m:online", prices=CHEAP_READS), False),
    ],
    ids=["cheap reads", "no cache", "another model", "search"],
)
def test_when_a_summary_is_asked_for_in_the_chats_own_request(
    setting: str, terms: ModelTerms, *, expected: bool
) -> None:
    """Only where the chat's model writes it and reads its cache cheaply, and nothing is searched for."""
    assert shares_cache(setting, terms) is expected


def test_the_terms_of_a_model() -> None:
    """The prices are those of the model that is asked, the window is the smallest of all that may answer."""
    pricing = {"prompt": "0.000002", "input_cache_read": "0.0000002", "input_cache_write": "0.0000025"}
    rows = [
        {"id": "a/m", "context_length": 900_000, "pricing": pricing},
        {"id": "a/n", "context_length": 8_000},
    ]
    asked, other = read_models({"data": rows})
    assert model_terms("a/m", [asked, other], output_tokens=50) == ModelTerms("a/m", 8_000, 50, CHEAP_READS)
    assert model_terms("x", [None], output_tokens=None) == ModelTerms("x", FALLBACK_WINDOW_TOKENS)
