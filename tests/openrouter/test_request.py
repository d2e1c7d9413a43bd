"""Requests: parameters joined with an input, cache breakpoints in it, and what it says of who asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.openrouter.controls import SUMMARY_FORMAT
from open_webui_openrouter_pipe.openrouter.request import (
    Composer,
    identity_parameters,
    own_plugins,
    with_breakpoints,
)
from open_webui_openrouter_pipe.openrouter.server_tools import ServerToolSettings, with_server_tools
from open_webui_openrouter_pipe.planning.plan import CacheMarks
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.ports import Request, RequestOrigin
from tests.openrouter.test_fields import MODEL, NAMES
from tests.support import chats
from tests.support.chats import SYSTEM, History, answer, call, histories, output, planned, system, user

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
LOOK, OWN, SEARCH, MUST = (NAMES[name] for name in ("LOOK", "OWN", "SEARCH", "MUST"))
PARAMETERS: dict[str, Any] = {
    "temperature": 0.5,
    "tools": [LOOK],
    "tool_choice": "required",
    "max_tokens": 50,
    "plugins": [{"id": "web"}],
    "response_format": {"type": "json_object"},
    "verbosity": "low",
    "stop": ["END"],
    "session_id": "s",
    "modalities": ["image", "text"],
    "image_config": {"aspect_ratio": "16:9"},
}


def text(role: str, words: str, **fields: Any) -> Any:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words, **fields}]}


def composer(parameters: Mapping[str, Any], model_id: str = "openai/gpt", **given: Any) -> Composer:
    return Composer(parameters, **{"model": None, "model_id": model_id, **given})


def names(body: Mapping[str, Any]) -> list[str]:
    return [tool["name"] for tool in body.get("tools", [])]


def test_what_a_planner_needs_is_read_from_the_parameters() -> None:
    """The models that may answer, the tools, the output limit and the plugins, in the form in which they are sent."""

    def needed(given: Composer) -> tuple[Any, ...]:
        return given.model_ids, given.tools, given.max_output_tokens, given.has_added_input

    full = composer({**PARAMETERS, "models": ["a/n"], "max_tokens": "50"}, "a/m")
    assert needed(full) == (("a/m", "a/n"), tuple(full.build([]).body["tools"]), 50, True)
    assert needed(composer({}, "a/m")) == (("a/m",), (), None, False)
    searching = composer({"tools": [{"type": "openrouter:web_search"}]}, "a/m")
    assert composer({}, "a/m:online").has_added_input
    assert searching.has_added_input


BRIEF, NOON, ONE = text("system", "brief"), text("system", "it is noon"), text("user", "one")
MARKED = text("system", "brief", **MARK)


@pytest.mark.parametrize("model_id", ["anthropic/m", "~anthropic/m", "qwen/m", "openai/m", "google/m"])
def test_explicit_caches_get_breakpoints(model_id: str) -> None:
    """Only where the provider needs them, and only when it is known where the stable blocks end."""
    asked = composer({}, model_id)
    two, none = CacheMarks(1, 1, 1, 1), CacheMarks(0, 0, 0, 0)
    requests = [asked.build([BRIEF, ONE], marks) for marks in (two, none, None)]
    is_marked = model_id not in {"openai/m", "google/m"}
    assert [request.body["input"][0] for request in requests] == [
        MARKED if is_marked else BRIEF,
        BRIEF,
        BRIEF,
    ]
    assert [request.breakpoints for request in requests] == [[2] if is_marked else [], [], []]


def test_what_is_kept_an_hour_gets_breakpoints_where_text_changes() -> None:
    """Then it is kept five minutes: without them nothing would be found again, with them no longer time is taken."""
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    claude = composer(hour, "anthropic/claude")
    requests = [claude.build([BRIEF, NOON, ONE], CacheMarks(1, 1, 1, 1, current)) for current in (1, 2)]
    bodies = [request.body for request in requests]
    assert [body["cache_control"] for body in bodies] == [hour["cache_control"], {"type": "ephemeral"}]
    assert [body["input"] for body in bodies] == [[BRIEF, NOON, ONE], [MARKED, NOON, ONE]]
    assert [(request.is_kept_long, request.breakpoints) for request in requests] == [
        (True, [4]),
        (False, [2, 4]),
    ]


def test_a_request_without_tools_and_input_has_no_breakpoints() -> None:
    """As little as one whose whole is not cached."""
    assert (Request({}).breakpoints, Request({"input": [{"type": "reasoning"}]}).breakpoints) == ([], [])


def test_pdfs_name_the_engine_that_reads_them() -> None:
    """Unless the parameters do; behind other plugins, and only where there is one."""
    pdf: Any = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}
    items: Any = [{"type": "message", "role": "user", "content": [pdf]}]
    web, parser = {"id": "web"}, {"id": "file-parser", "pdf": {"engine": "native"}}
    own = {"id": "file-parser"}
    plugins = [
        composer(given, plugins=own_plugins(engine, None, is_fitted=True)).build(read).body.get("plugins")
        for given, engine, read in (
            ({"plugins": [web]}, "native", items),
            ({"plugins": [web]}, "native", []),
            ({"plugins": [own]}, "native", items),
            ({}, None, items),
        )
    ]
    assert plugins == [[web, parser], [web], [own], None]


def test_what_is_too_long_for_a_small_window_is_refused_not_cut() -> None:
    """OpenRouter removes the middle of such a prompt in silence, unless it is told not to, or the parameters say so."""
    web, told = {"id": "web"}, {"id": "context-compression", "enabled": False}
    own = {"id": "context-compression"}

    def plugins(window_tokens: int, *given: Mapping[str, Any], is_fitted: bool = True) -> Any:
        parameters = {"plugins": [*given]} if given else {}
        composed = composer(parameters, plugins=own_plugins("native", window_tokens, is_fitted=is_fitted))
        answer, summary = composed.build([ONE]), composed.build_summary_request([ONE], output_tokens=9)
        return answer.body.get("plugins"), summary.get("plugins"), composed.has_added_input

    assert plugins(8_192) == ([told], [told], False)
    assert plugins(8_192, web) == ([web, told], [told], True)
    assert plugins(8_192, own) == ([own], [told], True)
    assert plugins(8_193) == plugins(8_192, is_fitted=False) == (None, None, False)


def test_a_summary_request_keeps_what_the_cache_depends_on() -> None:
    """Nothing that would force a call, search the web, ask for a form, or cut the answer short."""
    given = composer(PARAMETERS)
    live, summary = given.build([ONE]).body, given.build_summary_request([ONE], output_tokens=900)
    changed = {"tool_choice": "none", "max_output_tokens": 900, "text": {"verbosity": "low"}}
    omitted = {"plugins", "stop", "modalities", "image_config"}
    assert omitted <= set(live)
    assert summary == {**{name: value for name, value in live.items() if name not in omitted}, **changed}


def test_a_question_of_its_own_has_what_was_asked_for_such() -> None:
    """The form that is read, strictly; without marks nothing is cached, and no choice has to be the same."""
    asked = composer({"session_id": "s"}, "anthropic/claude", summary_parameters=SUMMARY_FORMAT)
    body = asked.build_summary_request([], output_tokens=900)
    assert (body["text"], body["max_output_tokens"]) == (SUMMARY_FORMAT["text"], 900)
    assert body["text"]["format"]["strict"] is True
    assert "text" not in asked.build([]).body


def test_tools_of_ours_stand_behind_all_others() -> None:
    """In summary requests as well, which share the chat's cache; without them both are as they always were."""
    parameters = {name: value for name, value in PARAMETERS.items() if name != "tool_choice"}
    plain, with_own = composer(parameters), composer(parameters, own_tools=[OWN])
    assert names(with_own.build([]).body) == ["look", "recall"]
    assert names(with_own.build_summary_request([], output_tokens=9)) == ["look", "recall"]
    without = with_own.build([], omitted_tools={"recall"}).body
    assert list(without.items()) == list(plain.build([]).body.items())
    without = with_own.build_summary_request([], output_tokens=9, omitted_tools={"recall"})
    assert without == plain.build_summary_request([], output_tokens=9)


def test_a_choice_that_was_meant_for_other_tools_does_not_force_a_call_of_ours() -> None:
    """A chat without tools is the same until ours comes."""
    parameters = {"tool_choice": "required", "temperature": 0.5}
    plain = composer(parameters, model=MODEL)
    with_own = composer(parameters, model=MODEL, own_tools=[OWN])
    without = with_own.build([], omitted_tools={"recall"}).body
    assert list(without.items()) == list(plain.build([]).body.items())
    offered = with_own.build([]).body
    assert (names(offered), offered.get("tool_choice")) == (["recall"], None)


@pytest.mark.parametrize("tools", [[], [LOOK]], ids=["alone", "beside another"])
def test_ours_are_sent_like_any_other(tools: list[Any]) -> None:
    """Byte for byte as if the host had sent them; fallback models come before all tools."""
    parameters = {"models": ["a/n"], "temperature": 0.5}
    with_own = composer({**parameters, "tools": tools}, model=MODEL, own_tools=[OWN])
    of_host = composer({**parameters, "tools": [*tools, OWN]}, model=MODEL)
    assert json.dumps(with_own.build([]).body) == json.dumps(of_host.build([]).body)


# --- where the provider caches

ITEMS = [
    SYSTEM,
    *(user("Q1"), call("1"), output("1", "fact"), answer("A1")),
    *(user("Q2"), call("2"), output("2", "whole"), answer("A2")),
    *(user("Q3"), call("3"), output("3", "new")),
]


def marked(items: Any) -> list[int]:
    """The indexes of the items with a breakpoint."""
    return [at for at, item in enumerate(items) if "prompt_cache_breakpoint" in json.dumps(item)]


@pytest.mark.parametrize(
    ("items", "marks", "expected"),
    [
        (ITEMS, CacheMarks(1, 5, 5, 9), [0, 5, 9]),
        # when the prefix changes, the first one stands where the change begins, not after the instructions
        (ITEMS, CacheMarks(1, 2, 5, 9), [1, 5, 9]),
        # behind what changes nothing is marked, as little as in a question that the host has added to
        ([*ITEMS[:9], system("it is noon"), *ITEMS[9:]], CacheMarks(1, 5, 5, 9, 10), [0, 1, 5]),
        ([SYSTEM, system("it is noon"), user("Q1")], CacheMarks(1, 1, 1, 1, 2), [0]),
        ([system("it is noon"), user("Q1")], CacheMarks(0, 0, 0, 0, 1), []),
        (ITEMS, CacheMarks(1, 5, 5, 9, 9, has_additions=True), [0, 1, 5]),
    ],
)
def test_breakpoints_end_the_stable_blocks(items: Any, marks: CacheMarks, expected: list[int]) -> None:
    """After the instructions, the frontier and the last completed turn, on the next message that can."""
    sent: Any = with_breakpoints(items, marks)
    assert marked(sent) == expected
    assert all(sent[at]["content"][-1] == {**items[at]["content"][-1], **MARK} for at in expected)


def test_a_request_finds_what_the_one_before_has_marked() -> None:
    """Also where both have something before the question that the other has not."""
    earlier = with_breakpoints([*ITEMS[:5], system("it is ten"), ITEMS[5]], CacheMarks(1, 1, 1, 5, 6))
    later = with_breakpoints([*ITEMS[:9], system("it is noon"), ITEMS[9]], CacheMarks(1, 1, 1, 9, 10))
    left = marked(earlier)[-1]
    assert left in marked(later)
    assert json.dumps(earlier[: left + 1]) == json.dumps(later[: left + 1])


@given(histories(most_turns=5))
def test_breakpoints_change_nothing_that_the_model_reads(chat: History) -> None:
    """At most three, as the end of the request is the provider's; without them the items are the same."""
    settings = ContextSettings(tool_output_pruning="every_turn")
    fitted = planned(chat, settings, ModelTerms("anthropic/m", 900_000))
    items: Any = json.loads(json.dumps(with_breakpoints(fitted.items, fitted.marks)))
    assert len(marked(items)) <= 3
    for item in items:
        for part in item.get("content", []):
            part.pop("prompt_cache_breakpoint", None)
    assert items == json.loads(json.dumps(fitted.items))


# --- web search


def test_the_tools_of_the_host_make_room() -> None:
    """Where OpenRouter searches in its place; its other tools stay."""
    host = [{"type": "function", "function": {"name": name}} for name in ("search_web", "fetch_url")]
    given = {"tools": [host[0], LOOK, host[1]]}
    by_openrouter = ServerToolSettings(host_switch_by="openrouter", fetches=False)
    sent = with_server_tools(given, by_openrouter, "offered", model=MODEL, model_id="openai/gpt")
    assert sent == {"tools": [LOOK, SEARCH]}
    assert (
        with_server_tools(given, ServerToolSettings("on"), "offered", model=MODEL, model_id="openai/gpt")
        == given
    )


def test_a_model_has_to_search_once_a_turn() -> None:
    """A request that goes on after a tool's result would be forced again and again; any other choice stays."""
    question, output, said = ONE, chats.output("1", ""), answer("")
    picture: Any = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
    inputs: list[list[Any]] = [
        *([question], [question, output], [said], [question, output, picture], [said, question], []),
    ]
    for choice, kept in ((MUST, [MUST, None, None, None, MUST, None]), ("required", ["required"] * 6)):
        given = composer({"tools": [SEARCH, LOOK], "tool_choice": choice}, model=MODEL)
        assert [given.build(items).body.get("tool_choice") for items in inputs] == kept


# --- who asks

ADA = RequestOrigin("ada-1", "chat-1", "message-1", "a/m")
SECRET = "secret"


def test_names_are_stable_and_differ() -> None:
    """By user, chat, message and secret; nothing else changes them, and each is short enough for all providers."""
    first = identity_parameters("trace", ADA, SECRET)
    assert first == identity_parameters("trace", replace(ADA), SECRET)
    assert len(first["prompt_cache_key"]) == len(first["user"]) == len(first["trace"]["trace_id"]) == 48
    apart = RequestOrigin("ada-1chat", "-1", "message-1", "a/m")
    others: list[tuple[str, RequestOrigin, str]] = [
        ("session_id", replace(ADA, chat_id="chat-2"), SECRET),
        ("session_id", apart, SECRET),
        ("session_id", ADA, "other"),
        ("user", replace(ADA, user_id="ada-2"), SECRET),
        ("user", ADA, "other"),
        ("trace", replace(ADA, message_id="message-2"), SECRET),
    ]
    for name, origin, secret in others:
        assert identity_parameters("trace", origin, secret)[name] != first[name]
    assert identity_parameters("user", replace(ADA, chat_id="chat-2"), SECRET)["user"] == first["user"]


def test_a_task_belongs_to_no_session() -> None:
    """It says what it is; a caller without ids says nothing of them."""
    task = identity_parameters("trace", replace(ADA, message_id=""), SECRET, task="title_generation")
    assert (set(task), task["trace"]) == ({"user", "trace"}, {"trace_name": "title_generation"})
    assert identity_parameters("user", RequestOrigin("", "", "", "a/m"), SECRET) == {}


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        (replace(MODEL, reasons=True), "high", {"effort": "none"}),
        (replace(MODEL, reasons=True), "", {"effort": "none"}),
        (
            replace(MODEL, reasons=True, reasoning_is_mandatory=True),
            "high",
            {"summary": "auto", "effort": "high"},
        ),
        (replace(MODEL, reasons=False), "high", None),
        (None, "high", {"effort": "none"}),
        (None, "", None),
    ],
)
def test_a_model_is_told_not_to_think_where_it_can_be(model: Any, effort: str, sent: Any) -> None:
    """One of which nothing is known, only where it was told how much to think."""
    asked = replace(model, supported_efforts=("high",)) if model else None
    given = composer({"reasoning_effort": effort} if effort else {}, model=asked)
    body = given.build([text("user", "a")], thinks=False).body
    assert body.get("reasoning") == sent
    assert given.build([text("user", "a")]).body.get("reasoning") != {"effort": "none"}
