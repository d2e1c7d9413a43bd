"""What the host hands over, read once; cases in `call.txt`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.markers import ANSWER_MARK, serialize_marker
from open_webui_openrouter_pipe.host.call import AttachedFile, Call, Source, read_call
from open_webui_openrouter_pipe.host.native import FAILED, NOTICE
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BODY = {"model": "pipe.openai/gpt-5.2", "messages": [{"role": "user", "content": "hi"}], "stream": True}
OF_A_PROGRAM = Call(
    model_id="openai/gpt-5.2",
    messages=[{"role": "user", "content": "hi"}],
    parameters={},
    model_row_id="pipe.openai/gpt-5.2",
    in_arena=False,
    model_controls={},
    stream=True,
    task=None,
    user_id="",
    is_admin=False,
    chat_id="",
    message_id="",
    base_system_prompt=None,
    base_user_prompt=None,
)
TEXTS = {
    "MARKED": f"USER: hi\nASSISTANT: {serialize_marker('0' * 20)}\n\nHello",
    "COMMANDED": f"USER: hi\nASSISTANT: Hello\nUSER: /help\nASSISTANT: {ANSWER_MARK}So.\nUSER: more",
    "COMMAND": "/help",
}
NAMES: Mapping[str, Any] = {
    **{name: {"role": "user", "content": text} for name, text in TEXTS.items()},
    "REPLY": {"role": "assistant", "content": f"{ANSWER_MARK}So."},
    "USER": {"role": "user", "content": "Why?"},
    "FAILED": {"role": "assistant", "content": "Half.", "output": [{"type": NOTICE, FAILED: True}]},
    "CUT": {"role": "assistant", "content": "Half.", "output": [{"type": NOTICE}, {"type": "message"}]},
    "RESUMED": {"role": "assistant", "output": [{"type": NOTICE, FAILED: True}, {"type": "message"}]},
    "SAID": {"role": "assistant", "content": "How?"},
    "BUILTIN": {"type": "builtin"},
}
FORMS: Mapping[str, Callable[[Any], Any]] = {
    "optional_tools": tuple,
    "builtin_tools": frozenset,
    "written_prompts": tuple,
    "latest_document_ids": tuple,
    "documents": lambda found: tuple(AttachedFile(*each) for each in found),
    "sources": lambda found: tuple(Source(file_id, tuple(excerpts)) for file_id, excerpts in found),
}


def cases(section: str) -> list[Any]:
    return rows(Path(__file__).with_name("call.txt"), section, NAMES)


def call_of(
    body: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    task: str | None = None,
) -> Call:
    return read_call({**BODY, **(body or {})}, user=user, metadata=metadata, task=task)


@pytest.mark.parametrize(("given", "expected"), cases("Calls"))
def test_a_call_is_read(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """All of it, whatever a client or a filter may have written there."""
    differing = {name: FORMS.get(name, lambda same: same)(value) for name, value in expected.items()}
    assert call_of(**given) == replace(OF_A_PROGRAM, **differing)


@pytest.mark.parametrize(("chat_id", "message_id", "user_id", "task", "expected"), cases("Ways"))
def test_who_calls_decides_what_is_shown_and_kept(
    chat_id: str, message_id: str, user_id: str, task: str | None, expected: list[bool]
) -> None:
    """Native events go to a page; artifacts are kept for saved chats of a known user only."""
    call = call_of({}, {"id": user_id}, {"chat_id": chat_id, "message_id": message_id}, task)
    assert [call.in_chat, call.keeps, call.is_unsaved, call.in_channel] == expected


@pytest.mark.parametrize("body", [row.values[0] for row in cases("Refused")])
def test_a_call_without_model_or_messages_is_refused(body: dict[str, Any]) -> None:
    """The error says what is missing."""
    with pytest.raises(InvalidHistory):
        call_of(body)
