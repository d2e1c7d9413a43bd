"""Parameters of one call, joined with the input of each of its requests; and what a request says of who asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.request import Composer, IdentityLevel, identity_parameters
from open_webui_openrouter_pipe.planning.plan import CacheMarks
from open_webui_openrouter_pipe.ports import Request, RequestOrigin
from tests.openrouter.test_errors import TABLES
from tests.openrouter.test_fields import MODEL
from tests.support.rows import rows

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
PARAMETERS: dict[str, Any] = {
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "look"}}],
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


def text(role: str, words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words, **fields}]}


def composer(parameters: Mapping[str, Any], model_id: str = "openai/gpt", **given: Any) -> Composer:
    return Composer(parameters, **{"model": None, "model_id": model_id, **given})


def names(body: Mapping[str, Any]) -> list[str]:
    return [tool["name"] for tool in body.get("tools", [])]


def test_what_a_planner_needs_is_read_from_the_parameters() -> None:
    """The models that may answer, the tools, the output limit and the plugins, in the form in which they are sent."""
    given = composer({**PARAMETERS, "models": ["a/n"], "max_tokens": "50"}, "a/m")
    body = given.build([]).body
    needed = (given.model_ids, given.tools, given.max_output_tokens, given.has_added_input)
    assert needed == (("a/m", "a/n"), tuple(body["tools"]), 50, True)
    none = composer({}, "a/m")
    assert (none.model_ids, none.tools, none.max_output_tokens, none.has_added_input) == (
        ("a/m",),
        (),
        None,
        False,
    )
    searching = {"tools": [{"type": "openrouter:web_search"}]}
    assert composer({}, "a/m:online").has_added_input
    assert composer(searching, "a/m").has_added_input


def test_explicit_caches_get_breakpoints() -> None:
    """Only where the provider needs them, and only when it is known where the stable blocks end."""
    items: Any = [text("system", "brief"), text("user", "one")]
    marked = [text("system", "brief", **MARK), text("user", "one")]
    two, none = CacheMarks(1, 1, 1, 1), CacheMarks(0, 0, 0, 0)
    claude = composer({}, "anthropic/claude")
    requests = [
        *(claude.build(items, marks) for marks in (two, none, None)),
        composer({}).build(items, two),
    ]
    assert [request.body["input"] for request in requests] == [marked, items, items, items]
    assert [request.breakpoints for request in requests] == [[2], [], [], []]


def test_what_is_kept_an_hour_gets_breakpoints_where_text_changes() -> None:
    """Then it is kept five minutes: without them nothing would be found again, with them no longer time is taken."""
    items: Any = [text("system", "brief"), text("system", "it is noon"), text("user", "one")]
    marked = [text("system", "brief", **MARK), *items[1:]]
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    claude = composer(hour, "anthropic/claude")
    requests = [claude.build(items, CacheMarks(1, 1, 1, 1, current)) for current in (1, 2)]
    bodies = [request.body for request in requests]
    assert [body["cache_control"] for body in bodies] == [hour["cache_control"], {"type": "ephemeral"}]
    assert [body["input"] for body in bodies] == [items, marked]
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
    parser = {"id": "file-parser", "pdf": {"engine": "native"}}
    given = composer({"plugins": [{"id": "web"}]}, pdf_engine="native")
    assert given.build(items).body["plugins"] == [{"id": "web"}, parser]
    assert given.build([]).body["plugins"] == [{"id": "web"}]
    own = {"plugins": [{"id": "file-parser"}]}
    assert composer(own, pdf_engine="native").build(items).body["plugins"] == own["plugins"]
    assert "plugins" not in composer({}).build(items).body


def test_a_summary_request_keeps_what_the_cache_depends_on() -> None:
    """Nothing that would force a call, search the web, ask for a form, or cut the answer short."""
    items: Any = [text("user", "one")]
    given = composer(PARAMETERS)
    live, summary = given.build(items).body, given.build_summary_request(items, output_tokens=900)
    changed = {"tool_choice": "none", "max_output_tokens": 900, "text": {"verbosity": "low"}}
    omitted = {"plugins", "stop", "modalities", "image_config"}
    assert omitted <= set(live)
    assert summary == {**{name: value for name, value in live.items() if name not in omitted}, **changed}


@pytest.mark.parametrize(("effort", "limit"), rows(TABLES, "budgets of summaries"))
def test_anthropic_is_asked_with_the_same_choice_and_budget(
    effort: dict[str, Any], limit: int | None
) -> None:
    """Both belong to what its cache is found by, where an effort is a share of the output limit."""
    items: Any = [text("system", "brief"), text("user", "one")]
    kept = {name: value for name, value in PARAMETERS.items() if name not in {"max_tokens", "tool_choice"}}
    claude = composer({**kept, **effort}, "anthropic/claude")
    summary = claude.build_summary_request(items, CacheMarks(1, 1, 1, 1), output_tokens=900)
    assert (summary.get("tool_choice"), summary.get("max_output_tokens")) == (None, limit)
    assert summary["input"] == [text("system", "brief", **MARK), text("user", "one")]


def test_a_question_of_its_own_has_what_was_asked_for_such() -> None:
    """A form, say; without marks nothing is cached, and no choice has to be the same."""
    form = {"text": {"format": {"type": "json_object"}}}
    asked = composer({"session_id": "s"}, "anthropic/claude", summary_parameters=form)
    body = asked.build_summary_request([], output_tokens=900)
    assert (body["text"], body["max_output_tokens"]) == (form["text"], 900)
    assert "text" not in asked.build([]).body


@pytest.mark.parametrize(("choice", "omitted", "kept"), rows(TABLES, "omitted tools"))
def test_a_tool_that_is_omitted_is_not_the_choice(choice: Any, omitted: list[str], kept: Any) -> None:
    """A provider refuses a choice of a tool that the request does not have; any other choice stays."""
    tools = [{"type": "function", "function": {"name": name}} for name in "bac"]
    body = composer({"tools": tools, "tool_choice": choice}).build([], omitted_tools={*omitted}).body
    assert (names(body), body.get("tool_choice")) == ([each for each in "abc" if each not in omitted], kept)


LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
OWN = {**LOOK, "name": "recall"}


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


def test_a_chat_without_tools_is_the_same_until_ours_comes() -> None:
    """A choice that was meant for other tools does not force a call of ours."""
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


@pytest.mark.parametrize(
    ("supported", "tools", "offers"), rows(TABLES, "own tools", {"LOOK": LOOK, "OWN": OWN})
)
def test_ours_are_offered_to_models_that_call_tools(
    supported: list[str], tools: list[Any], *, offers: bool
) -> None:
    """And not beside another tool of the same name."""
    served = replace(MODEL, supported_parameters=frozenset(supported))
    assert composer({"tools": tools}, model=served, own_tools=[OWN]).offers_own_tools is offers


# --- who asks

ADA = RequestOrigin("ada-1", "chat-1", "message-1", "a/m")
SECRET = b"secret"


@pytest.mark.parametrize(("level", "sent"), rows(TABLES, "identity"))
def test_each_level_adds_a_name(level: IdentityLevel, sent: list[str]) -> None:
    """And none shows an id of the host."""
    named = identity_parameters(level, ADA, SECRET)
    assert sorted(named) == sorted(sent)
    assert not any(each in str(named) for each in ("ada", "chat-1", "message-1"))


def test_names_are_stable_and_differ() -> None:
    """By user, chat, message and secret; nothing else changes them."""
    first = identity_parameters("trace", ADA, SECRET)
    assert first == identity_parameters("trace", replace(ADA), SECRET)
    others: dict[str, Any] = {
        "session_id": {"chat_id": "chat-2"},
        "user": {"user_id": "ada-2"},
        "trace": {"message_id": "message-2"},
    }
    for name, changes in others.items():
        assert identity_parameters("trace", replace(ADA, **changes), SECRET)[name] != first[name]
    assert identity_parameters("user", ADA, b"other")["user"] != first["user"]
    assert identity_parameters("user", replace(ADA, chat_id="chat-2"), SECRET)["user"] == first["user"]


def test_a_task_belongs_to_no_session() -> None:
    """It says what it is; a caller without ids says nothing of them."""
    task = identity_parameters("trace", replace(ADA, message_id=""), SECRET, task="title_generation")
    assert (set(task), task["trace"]) == ({"user", "trace"}, {"trace_name": "title_generation"})
    assert identity_parameters("user", RequestOrigin("", "", "", "a/m"), SECRET) == {}
