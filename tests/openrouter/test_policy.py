"""What chats, tasks and summaries ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.controls import (
    RESTRICTED,
    SUMMARY_FORMAT,
    CacheLifetime,
    chat_parameters,
    cheaper_parameters,
    drawing_parameters,
    model_terms,
    permitted_image_config,
    permitted_parameters,
    shares_cache,
    summary_model_id,
    summary_parameters,
    task_parameters,
)
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.summaries.prompt import SUMMARY_SCHEMA
from open_webui_openrouter_pipe.valves import Advanced, text_of

CHEAP_READS = CachePrices(read=0.1, write=1.25)
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


NAMED = {"session_id": "k", "user": "u"}


@pytest.mark.parametrize(
    ("given", "model_id", "identity", "expected"),
    [
        ({"a": 1}, "openai/gpt", NAMED, {**NAMED, "a": 1}),
        ({}, "openai/gpt", {}, {}),
        ({}, "anthropic/claude", {}, EPHEMERAL),
        ({}, "~anthropic/claude-latest", {}, EPHEMERAL),
        ({"session_id": "own"}, "openai/gpt", NAMED, {"session_id": "own", "user": "u"}),
        ({"user": "somebody else"}, "openai/gpt", NAMED, NAMED),
        ({"user": "own"}, "openai/gpt", {}, {"user": "own"}),
        ({"cache_control": None}, "anthropic/claude", {}, {"cache_control": None}),
    ],
)
def test_a_chat_stays_with_the_provider_that_has_it_cached(
    given: dict[str, Any], model_id: str, identity: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Anthropic is asked to cache, by an alias too, and the host's own parameters win, but for the user's name."""
    assert chat_parameters(given, model_id=model_id, identity=identity) == expected


@pytest.mark.parametrize(("lifetime", "sent"), [("5m", {}), ("1h", {"ttl": "1h"})])
def test_anthropic_keeps_a_chat_as_long_as_it_is_asked_to(
    lifetime: CacheLifetime, sent: dict[str, str]
) -> None:
    """Five minutes are its default; others are not asked."""
    claude = chat_parameters({}, model_id="anthropic/claude", identity={}, lifetime=lifetime)
    assert claude == {"cache_control": {"type": "ephemeral", **sent}}
    assert chat_parameters({}, model_id="openai/gpt", identity={}, lifetime=lifetime) == {}


def model(*outputs: str) -> Model:
    """A model that answers with these."""
    row = {"id": "a/m", "architecture": {"output_modalities": list(outputs)}}
    return read_models({"data": [row]})[0]


BOTH, WIDE = ["image", "text"], {"aspect_ratio": "16:9"}


@pytest.mark.parametrize(
    ("given", "outputs", "desired", "expected"),
    [
        ({}, ("text", "image"), {}, {"modalities": BOTH}),
        ({}, ("image",), {}, {"modalities": ["image"]}),
        ({}, ("image",), WIDE, {"modalities": ["image"], "image_config": WIDE}),
        ({"a": 1}, ("text",), WIDE, {"a": 1}),
        ({"a": 1}, ("text", "audio"), WIDE, {"a": 1}),
        ({"a": 1}, (), WIDE, {"a": 1}),
        ({"modalities": ["text"]}, ("text", "image"), {}, {"modalities": ["text"]}),
        ({"modalities": None}, ("text", "image"), {}, {"modalities": None}),
        (
            {"image_config": {"aspect_ratio": "1:1", "strength": 1}},
            ("image",),
            {**WIDE, "image_size": "2K"},
            {
                "modalities": ["image"],
                "image_config": {"aspect_ratio": "1:1", "image_size": "2K", "strength": 1},
            },
        ),
        (
            {"image_config": None},
            ("image",),
            WIDE,
            {"modalities": ["image"], "image_config": WIDE},
        ),
    ],
)
def test_a_model_that_draws_is_asked_to(
    given: dict[str, Any], outputs: tuple[str, ...], desired: dict[str, str], expected: dict[str, Any]
) -> None:
    """For pictures alone where it does not write; what was given for the model counts more, key by key."""
    assert drawing_parameters(given, model=model(*outputs), image_config=desired) == expected


def test_an_unknown_model_is_not_asked_to_draw() -> None:
    """It may be unable to, and would refuse the request."""
    assert drawing_parameters({"a": 1}, model=None, image_config=WIDE) == {"a": 1}


SEARCH = {"type": "openrouter:web_search"}
LOOK = {"type": "function", "function": {"name": "look"}}
ADMIN = {"provider": {"zdr": True}, "plugins": [{"id": "web"}], "tools": [SEARCH]}


@pytest.mark.parametrize(
    ("given", "allowed", "expected", "omitted"),
    [
        ({"temperature": 1, "tools": [LOOK]}, (), {"temperature": 1, "tools": [LOOK]}, ()),
        ({"provider": {"zdr": True}}, (), {"provider": {"zdr": True}}, ()),
        ({"provider": {"zdr": False}}, (), {"provider": {"zdr": True}}, ("provider",)),
        ({"provider": {"zdr": False}}, ("provider",), {"provider": {"zdr": True}}, ("provider",)),
        ({"provider": {"sort": "price"}}, ("provider",), {"provider": {"sort": "price", "zdr": True}}, ()),
        ({"provider": None, "plugins": None}, (), {}, ()),
        ({"service_tier": "priority"}, (), {}, ("service_tier",)),
        ({"cache_control": {"ttl": "1h"}}, (), {}, ("cache_control",)),
        ({"cache_control": None}, (), {}, ()),
        ({"models": ["a/x", "b/y"]}, (), {}, ("models",)),
        ({"models": ["a/x:online", "a/x@preset/p", "~a/x"]}, ("models",), {}, ("models",)),
        ({"models": ["a/x", "b/y"]}, ("models",), {"models": ["a/x"]}, ("models",)),
        ({"models": ["a/x", {}]}, ("models",), {"models": ["a/x"]}, ("models",)),
        ({"models": ["a/x"]}, ("models",), {"models": ["a/x"]}, ()),
        ({"tools": [LOOK, SEARCH]}, (), {"tools": [LOOK, SEARCH]}, ()),
        (
            {"tools": [LOOK, {"type": "code_interpreter"}], "tool_choice": {"type": "code_interpreter"}},
            (),
            {"tools": [LOOK], "tool_choice": None},
            ("server_tools",),
        ),
        (
            {"tools": [{"type": "code_interpreter"}]},
            ("server_tools",),
            {"tools": [{"type": "code_interpreter"}]},
            (),
        ),
    ],
)
def test_what_users_may_set(
    given: dict[str, Any], allowed: tuple[str, ...], expected: dict[str, Any], omitted: tuple[str, ...]
) -> None:
    """What the administrator set passes and is put back, also over a null; fallbacks are models that are offered."""
    permitted = permitted_parameters(given, ADMIN, allowed=allowed, offered={"a/x"})
    held = {name: ADMIN[name] for name in ("provider", "plugins")}
    assert permitted == (held | expected, omitted)


@pytest.mark.parametrize("name", sorted(RESTRICTED))
def test_the_valve_names_every_restricted_parameter(name: str) -> None:
    """So that an administrator knows what there is to allow."""
    assert f"`{name}`" in text_of(Advanced, "USER_PARAMETERS").help


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


def test_a_merge_of_answers_is_thought_about_as_an_answer() -> None:
    """A user reads it as one; its tools and formats stay behind all the same."""
    given = {"max_tokens": 50, "tools": [{}], "reasoning_effort": "high"}
    assert task_parameters(given, "moa_response_generation") == {"max_tokens": 50, "reasoning_effort": "high"}


@pytest.mark.parametrize(
    ("model_id", "writer_id", "provider"),
    [
        ("a/m", "a/m", {"order": ["x"], "zdr": True}),
        ("a/m:online", "a/m", {"order": ["x"], "zdr": True}),
        ("a/m", "b/n", {"zdr": True}),
    ],
    ids=["the chat's model", "the chat's model without its search", "another model"],
)
def test_a_summary_keeps_the_data_policy_of_its_chat(
    model_id: str, writer_id: str, provider: dict[str, Any]
) -> None:
    """Who may see the data holds for every model, the order of providers for the chat's own."""
    given = {"provider": {"order": ["x"], "zdr": True}, "user": "u", "temperature": 1}
    assert summary_parameters(given, model_id=model_id, writer_id=writer_id, held={}) == {
        "provider": provider,
        "user": "u",
        "reasoning_effort": "low",
    }


def test_a_summary_by_another_model_keeps_the_administrator_s_limits() -> None:
    """What a summary may cost is theirs to say, whoever writes it; what a chat's own model adds is for that model."""
    held = {"max_price": {"prompt": "1"}, "quantizations": ["bf16"], "sort": "price", "order": ["y"]}
    given = {"provider": {"max_price": {"prompt": "0.5"}, "quantizations": ["fp8"], "ignore": ["z"]}}
    sent = summary_parameters(given, model_id="a/m", writer_id="b/n", held=held)
    limits = {"max_price": {"prompt": "1"}, "quantizations": ["bf16"]}
    assert sent["provider"] == {"ignore": ["z"], **limits}
    own = summary_parameters(given, model_id="a/m", writer_id="a/m", held=held)
    assert own["provider"] == given["provider"]


@pytest.mark.parametrize(
    ("given", "admin", "sent", "omitted"),
    [
        ({}, {}, None, ()),
        (None, {}, None, ()),
        ("x", {}, "x", ()),
        ({"aspect_ratio": "1:1"}, {}, {"aspect_ratio": "1:1"}, ()),
        ({"image_size": "4K"}, {}, None, ("image_config.image_size",)),
        (
            {"image_size": "4K", "aspect_ratio": "1:1"},
            {"image_size": "2K"},
            {"aspect_ratio": "1:1", "image_size": "2K"},
            ("image_config.image_size",),
        ),
        ({"image_size": "2K"}, {"image_size": "2K"}, {"image_size": "2K"}, ()),
        (None, {"image_size": "2K"}, {"image_size": "2K"}, ()),
    ],
)
def test_a_size_that_only_administrators_set(
    given: Any, admin: dict[str, Any], sent: Any, omitted: tuple[str, ...]
) -> None:
    """Is theirs, or none, also where a user has replaced it; the rest is the user's."""
    parameters = {} if given == {} else {"image_config": given}
    kept, names = permitted_image_config(parameters, {"image_config": admin}, held={"image_size"})
    assert (kept.get("image_config"), names) == (sent, omitted)
    assert permitted_image_config(parameters, {}, held=())[0] == parameters


def test_no_name_that_a_user_wrote_is_repeated() -> None:
    """NaN, which differs from itself, is no replaced value."""
    parameters = {"image_config": {"a\x1b[2J\nb": float("nan"), "image_size": "4K"}}
    assert permitted_image_config(parameters, {}, held={"image_size"})[1] == ("image_config.image_size",)
    assert permitted_image_config(parameters, {}, held=()) == (parameters, ())


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
    """The prices are those of the model that is asked, window and output the smallest of all that may answer."""
    pricing = {"prompt": "0.000002", "input_cache_read": "0.0000002", "input_cache_write": "0.0000025"}
    rows = [
        {"id": "a/m", "context_length": 900_000, "pricing": pricing},
        {"id": "a/n", "context_length": 8_000, "top_provider": {"max_completion_tokens": 4_000}},
    ]
    asked, other = read_models({"data": rows})
    terms = ModelTerms("a/m", 8_000, 50, CHEAP_READS, max_output_tokens=4_000)
    assert model_terms("a/m", [asked, other], output_tokens=50) == terms
    larger = replace(other, max_output_tokens=64_000)
    assert model_terms("a/m", [larger, other, None], output_tokens=None).max_output_tokens == 4_000
    assert model_terms("a/m", [asked, None], output_tokens=50).window_tokens == 900_000
    assert model_terms("x", [None], output_tokens=None) == ModelTerms("x")


def test_summaries_are_asked_for_in_a_strict_form() -> None:
    """A provider that knows forms holds the model to this one."""
    form = SUMMARY_FORMAT["text"]["format"]
    assert (form["type"], form["strict"], form["schema"]) == ("json_schema", True, SUMMARY_SCHEMA)


@pytest.mark.parametrize(
    ("model_id", "near_limit", "given", "sent"),
    [
        ("openai/gpt-5.2", "thrifty", {}, {}),
        ("openai/gpt-5.2", "flex", {}, {"service_tier": "flex"}),
        ("openai/gpt-5.2", "flex", {"service_tier": "priority"}, {"service_tier": "priority"}),
        ("anthropic/claude-sonnet-4.5", "flex", {}, {}),
        (
            "openai/gpt-5.2",
            "floor",
            {"provider": {"zdr": True}},
            {"provider": {"sort": "price", "zdr": True}},
        ),
        ("x/y", "floor", {"provider": {"sort": "latency"}}, {"provider": {"sort": "latency"}}),
    ],
)
def test_near_a_limit_the_cheaper_way_is_asked_for(
    model_id: str, near_limit: str, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    """Only what the parameters do not choose themselves, and only where there is such a tier."""
    assert cheaper_parameters(given, model_id=model_id, near_limit=near_limit) == sent
