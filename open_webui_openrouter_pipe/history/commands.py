"""Commands among a chat's messages: which ones they are, and which answers to them are ours.

A command stands in the chat together with its answer. Both are taken out: no model ever sees them. That an answer is
ours is seen by the mark at its beginning, which survives whatever copies text: a reload, a branch, an export, another
model. The same words that another model has answered stay in the chat, with its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..conversation.commands import Command, read_command
from ..responses.wire import as_list, as_object, as_text

ANSWER_MARK: Final = "\u2063\u2060\u2063"
"""How our answers begin: three characters that have no width, no sound and no meaning, and that nobody types."""

_ANSWERING: Final = frozenset({"assistant", "tool"})
_SPEAKER: Final = "(?:USER|ASSISTANT|SYSTEM): "
_IN_PROMPT: Final = re.compile(
    rf"(?:^USER: *+/[^\n]*+(?:\n(?!{_SPEAKER})[^\n]*+)*+\n)?^ASSISTANT: *+{ANSWER_MARK}.*?"
    rf"(?:\n(?={_SPEAKER}|</)|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A command and our answer, as the host quotes them in the prompts of its tasks (`get_messages_content`).

The number of messages that it quotes is limited, so the command may be missing.
"""


TAKEN_OUT: Final[Mapping[str, Any]] = {"role": "system"}
"""Stands for a message that no model sees: one that says nothing, so that all others keep their index."""
NO_QUESTION: Final[Mapping[str, Any]] = {"role": "user", "content": [{"type": "text", "text": ""}]}
"""Stands for a command that waits for its answer."""


@dataclass(frozen=True, slots=True)
class FoundCommands:
    """A chat's messages with its commands and our answers taken out of their places.

    `commands` are by index those that hold: what we have answered, and `asked`, the one that is to be answered now.
    """

    left: Sequence[Any]
    commands: Mapping[int, Command] = field(default_factory=dict)
    asked: Command | None = None


def find_commands(messages: Sequence[Any], *, prompt: str | None = None) -> FoundCommands:
    """Take the commands out of a chat.

    `prompt` is what the user wrote in the last message before the host added to it, "" where something is attached to
    it, None where that is not known. An answer that is to be continued is given anew.
    """
    left = [TAKEN_OUT if _is_our_answer(each) else each for each in messages]
    commands: dict[int, Command] = {}
    asked: Command | None = None
    users = [index for index, message in enumerate(messages) if as_object(message).get("role") == "user"]
    for index in users:
        text, is_last = _only_text(messages[index]), index == users[-1]
        written = prompt if text is not None and is_last and prompt is not None else text
        command = read_command(written or "")
        answer = [*_answer_to(messages, index)] if command else []
        is_ours = bool(answer) and left[answer[0]] is TAKEN_OUT
        if command is None or not (is_ours or all(_is_blank(messages[at]) for at in answer)):
            continue
        for at in (index, *(() if is_ours else answer)):
            left[at] = TAKEN_OUT
        if is_last:
            left[index], asked = NO_QUESTION, command
        if is_last or is_ours:
            commands[index] = command
    return FoundCommands(left, commands, asked)


def erase_commands(text: str) -> str:
    """Return a task's prompt without the commands and answers that it quotes."""
    return _IN_PROMPT.sub("", text) if ANSWER_MARK in text else text


def _answer_to(messages: Sequence[Any], index: int) -> Iterator[int]:
    """Yield the indexes of what answers a message."""
    for at in range(index + 1, len(messages)):
        if as_text(as_object(messages[at]).get("role")) not in _ANSWERING:
            return
        yield at


def _is_our_answer(message: Any) -> bool:
    """Whether a message is our answer to a command, also where the command itself is gone."""
    return as_object(message).get("role") == "assistant" and _text_of(message).lstrip().startswith(
        ANSWER_MARK
    )


def _only_text(message: Any) -> str | None:
    """Return the text of a message that is nothing but text, None for any other."""
    content = as_object(message).get("content")
    if isinstance(content, str):
        return content
    parts = as_list(content)
    return as_text(as_object(parts[0]).get("text")) if len(parts) == 1 else None


def _text_of(message: Any) -> str:
    """Return the text of an answer, as the host shows it or as it stores it."""
    fields = as_object(message)
    content = fields.get("content")
    if isinstance(content, str) and content:
        return content
    items = (as_object(item) for item in as_list(fields.get("output")))
    parts = [*as_list(content), *(part for item in items for part in as_list(item.get("content")))]
    return "".join(as_text(as_object(part).get("text")) for part in parts)


def _is_blank(message: Any) -> bool:
    """Whether an answer says and calls nothing: it was stopped, or failed."""
    fields = as_object(message)
    items = (as_object(item) for item in as_list(fields.get("output")))
    is_called = fields.get("tool_calls") or any(item.get("type") != "message" for item in items)
    return not is_called and not _text_of(message).strip()
