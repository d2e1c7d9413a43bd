"""What a request says of who asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.openrouter.request import Caller, IdentityLevel, identity_parameters

ADA = Caller("ada-1", "chat-1", "message-1", None)
SECRET = b"secret"


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("none", set()),
        ("session", {"session_id", "prompt_cache_key"}),
        ("user", {"session_id", "prompt_cache_key", "user"}),
        ("trace", {"session_id", "prompt_cache_key", "user", "trace"}),
    ],
)
def test_each_level_adds_a_name(level: IdentityLevel, names: set[str]) -> None:
    """And none shows an id of the host."""
    sent = identity_parameters(level, ADA, SECRET)
    assert set(sent) == names
    assert not any(text in str(sent) for text in ("ada", "chat-1", "message-1"))


def test_names_are_stable_and_differ() -> None:
    """By user, chat, message and secret; nothing else changes them."""
    first = identity_parameters("trace", ADA, SECRET)
    assert first == identity_parameters("trace", replace(ADA), SECRET)
    others = {
        "session_id": replace(ADA, chat_id="chat-2"),
        "user": replace(ADA, user_id="ada-2"),
        "trace": replace(ADA, message_id="message-2"),
    }
    for name, caller in others.items():
        assert identity_parameters("trace", caller, SECRET)[name] != first[name]
    assert identity_parameters("user", ADA, b"other")["user"] != first["user"]
    same_user = identity_parameters("user", others["session_id"], SECRET)
    assert same_user["user"] == first["user"]


def test_a_task_belongs_to_no_session() -> None:
    """It says what it is; a caller without ids says nothing of them."""
    task = identity_parameters("trace", replace(ADA, task="title_generation", message_id=""), SECRET)
    assert (set(task), task["trace"]) == ({"user", "trace"}, {"trace_name": "title_generation"})
    assert identity_parameters("user", Caller("", "", "", None), SECRET) == {}
