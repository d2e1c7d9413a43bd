"""What the host hands over, read once."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.markers import serialize_marker
from open_webui_openrouter_pipe.history.reading import ANSWER_MARK
from open_webui_openrouter_pipe.host.call import Call, read_call, strip_function_prefix

BODY = {"model": "pipe.openai/gpt-5.2", "messages": [{"role": "user", "content": "hi"}], "stream": True}
USER = {"id": "u1"}
METADATA = {
    "chat_id": "c1",
    "message_id": "m1",
    "base_system_prompt": None,
    "base_user_prompt": "hi",
}


def test_a_chat_turn_is_read_whole() -> None:
    """The function's id is cut from the model, dots of the model's own name stay, and the rest is parameters."""
    call = read_call({**BODY, "temperature": 0.5, "chat_id": "x"}, user=USER, metadata=METADATA, task=None)
    assert call == Call(
        model_id="openai/gpt-5.2",
        messages=[{"role": "user", "content": "hi"}],
        parameters={"temperature": 0.5},
        model_row_id="pipe.openai/gpt-5.2",
        function_id="pipe",
        in_arena=False,
        model_controls={},
        stream=True,
        task=None,
        user_id="u1",
        is_admin=False,
        chat_id="c1",
        message_id="m1",
        base_system_prompt="",
        base_user_prompt="hi",
    )


def test_a_preset_and_its_options_are_named() -> None:
    """The host replaces a preset's model by the one that it is based on, and keeps the preset in the metadata."""
    picked = {"preset": {"tier": "fast"}, "other": {"tier": "slow"}}
    metadata = {"model": {"id": "preset"}, "params": {"model_controls": picked}}
    call = read_call(BODY, user={"id": "u", "role": "admin"}, metadata=metadata, task=None)
    assert (call.model_id, call.model_row_id, call.model_controls, call.is_admin) == (
        "openai/gpt-5.2",
        "preset",
        {"tier": "fast"},
        True,
    )


@pytest.mark.parametrize(
    ("calling", "switched_on", "expected"),
    [("legacy", True, True), ("native", True, False), ("legacy", False, False), (None, True, False)],
)
def test_code_between_tags_is_asked_for_where_calls_are_not_native(
    calling: str | None, *, switched_on: bool, expected: bool
) -> None:
    """And only with the code interpreter switched on."""
    metadata = {"params": {"function_calling": calling}, "features": {"code_interpreter": switched_on}}
    call = read_call(BODY, user=USER, metadata=metadata, task=None)
    assert call.runs_tagged_code is expected


def test_an_arena_has_no_row_of_its_own() -> None:
    """The host picks one of its models, and applies the parameters of that one."""
    metadata = {"model": {"id": "arena-model", "owned_by": "arena"}}
    call = read_call(BODY, user=USER, metadata=metadata, task=None)
    assert (call.model_row_id, call.in_arena) == (BODY["model"], True)


@pytest.mark.parametrize(
    ("user", "metadata", "task", "expected"),
    [
        (USER, METADATA, None, (True, True)),
        (USER, {**METADATA, "chat_id": "temporary:s"}, None, (True, False)),
        (USER, {**METADATA, "chat_id": "local:s"}, None, (True, False)),
        (USER, {**METADATA, "chat_id": "channel:s"}, None, (True, False)),
        (USER, {"chat_id": "", "message_id": None}, None, (False, False)),
        (USER, METADATA, "title_generation", (False, False)),
        (None, METADATA, None, (True, False)),
        (USER, None, None, (False, False)),
    ],
)
def test_who_calls_decides_what_is_shown_and_kept(
    user: dict[str, Any] | None,
    metadata: dict[str, Any] | None,
    task: str | None,
    expected: tuple[bool, bool],
) -> None:
    """Native events go to a page; artifacts are kept for saved chats of a known user only."""
    call = read_call(BODY, user=user, metadata=metadata, task=task)
    assert (call.in_chat, call.keeps) == expected


@pytest.mark.parametrize("change", [{"messages": None}, {"messages": "x"}, {"model": None}, {"model": ""}])
def test_a_call_without_model_or_messages_is_refused(change: dict[str, Any]) -> None:
    """The error says what is missing."""
    with pytest.raises(InvalidHistory):
        read_call({**BODY, **change}, user=USER, metadata=METADATA, task=None)


@pytest.mark.parametrize("task", [None, "title_generation"])
def test_a_message_of_an_odd_shape_does_not_cost_the_call(task: str | None) -> None:
    """The history repairs it."""
    messages = ["x", None, {"role": "user", "content": "hi"}]
    assert read_call({**BODY, "messages": messages}, user=USER, metadata={}, task=task).messages == messages


@pytest.mark.parametrize(
    ("model", "model_id"),
    [
        ("pipe.openai/gpt-4.1", "openai/gpt-4.1"),
        ("openai/gpt-4.1", "openai/gpt-4.1"),
        ("my_function.~openai/gpt-latest", "~openai/gpt-latest"),
        ("gpt-4.1", "gpt-4.1"),
        ("plain", "plain"),
    ],
)
def test_the_function_is_cut_from_a_models_id(model: str, model_id: str) -> None:
    """A function's id is a Python identifier, so a version number is not taken for one."""
    assert strip_function_prefix(model) == model_id


def test_a_task_does_not_show_markers() -> None:
    """The prompt of a task quotes the chat, and its model reads only what the user sees."""
    quoted = f"USER: hi\nASSISTANT: {serialize_marker('0' * 20)}Hello"
    body = {**BODY, "messages": [{"role": "user", "content": quoted}]}
    task, turn = (
        read_call(body, user=USER, metadata={}, task=task).messages for task in ("title_generation", None)
    )
    assert (serialize_marker("0" * 20).strip() in task[0]["content"], turn[0]["content"]) == (False, quoted)


@pytest.mark.parametrize(
    ("messages", "task", "expected"),
    [
        (
            [{"role": "user", "content": "/help"}, {"role": "assistant", "content": f"{ANSWER_MARK}So."}],
            "tags",
            True,
        ),
        ([{"role": "user", "content": "/help"}, {"role": "assistant", "content": "How?"}], "tags", False),
        ([{"role": "user", "content": "/help"}], "query_generation", True),
        ([{"role": "user", "content": "/help"}], None, False),
        ([{"role": "user", "content": "Hi."}], "tags", False),
        (None, "tags", False),
    ],
)
def test_a_task_may_be_about_a_command(messages: Any, task: str | None, *, expected: bool) -> None:
    """The host names the chat beside the prompt that quotes it."""
    metadata = {**METADATA, "task_body": {"messages": messages}}
    assert read_call(BODY, user=USER, metadata=metadata, task=task).about_command is expected


def test_a_task_does_not_show_commands() -> None:
    """Nor our answers to them; the message itself, which a model may have answered, is as it is."""
    quoted = f"USER: hi\nASSISTANT: Hello\nUSER: /help\nASSISTANT: {ANSWER_MARK}So.\nUSER: more"
    body = {**BODY, "messages": [{"role": "user", "content": quoted}]}
    task = read_call(body, user=USER, metadata={}, task="title_generation").messages
    assert task[0]["content"] == "USER: hi\nASSISTANT: Hello\nUSER: more"


def _metadata(*chosen: str, **fields: Any) -> dict[str, Any]:
    """Metadata with built-in tools that come by themselves, these others, and a tool of the user's."""
    builtin = ("get_current_timestamp", "search_notes", "view_file", "query_knowledge_files", *chosen)
    tools = {name: {"type": "builtin", "tool_id": f"builtin:{name}"} for name in builtin}
    return {**METADATA, **fields, "tools": {**tools, "weather": {"tool_id": "weather", "spec": {}}}}


@pytest.mark.parametrize(
    ("metadata", "optional"),
    [
        (METADATA, set()),
        ({**METADATA, "tools": None}, set()),
        ({**METADATA, "tools": {"a": None, "b": {"type": ["builtin"]}}}, set()),
        (_metadata(), {"get_current_timestamp", "search_notes", "view_file", "query_knowledge_files"}),
        (
            _metadata("search_web", "execute_code", "list_chat_files", "call_tool", "view_skill"),
            {"get_current_timestamp", "search_notes", "view_file", "query_knowledge_files"},
        ),
        (_metadata(files=[{"type": "collection", "id": "k1"}]), {"get_current_timestamp", "search_notes"}),
        (
            _metadata(model={"info": {"meta": {"knowledge": [{"type": "note", "id": "n1"}]}}}),
            {"get_current_timestamp", "search_notes"},
        ),
    ],
)
def test_tools_that_nobody_chose_are_known(metadata: dict[str, Any], optional: set[str]) -> None:
    """Built-in ones that come with every chat; not those of a feature, a file, a skill or attached knowledge."""
    assert read_call(BODY, user=USER, metadata=metadata, task=None).optional_tools == optional


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, ""),
        ({"features": {"web_search": True}}, ""),
        ({"features": {"web_search": True}, "tools": {"search_web": {"type": "builtin"}}}, "offered"),
        ({"features": {"web_search": False}, "tools": {"search_web": {"type": "builtin"}}}, ""),
        ({"features": {"web_search": True}, "tools": {"search_web": {"type": "function"}}}, ""),
        ({"files": [{"type": "web_search", "urls": []}]}, "done"),
    ],
)
def test_what_the_host_s_web_search_did(metadata: dict[str, Any], expected: str) -> None:
    """The switch alone is the client's word; the host's own tool, or its results, show the permission."""
    body = {"model": "a/b", "messages": []}
    assert read_call(body, user=None, metadata=metadata, task=None).host_search == expected
