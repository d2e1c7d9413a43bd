"""What Open WebUI hands to a pipe, parsed once into a value.

Open WebUI calls a pipe for four reasons: a chat turn in the web frontend (with a chat and a message), a turn of a
temporary chat or a channel (which must not leave anything behind), a bare API call (neither), and its own tasks such
as titles. Source: `functions.py` and `utils/chat_id.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidHistory

_UNSAVED_CHAT_PREFIXES = ("temporary:", "local:", "channel:")
_NOT_PARAMETERS = frozenset({"model", "messages", "stream", "metadata", "chat_id", "session_id", "id"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the host. Ids are "" where the host gives none; `parameters` is the rest of the body."""

    model_id: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any]
    stream: bool
    task: str | None
    user_id: str
    chat_id: str
    message_id: str
    base_system_prompt: str | None
    base_user_prompt: str | None

    @property
    def in_chat(self) -> bool:
        """Whether a web page shows the answer, so that it wants native events rather than chunks."""
        return bool(self.chat_id and self.message_id) and self.task is None

    @property
    def keeps(self) -> bool:
        """Whether artifacts may be kept: a saved chat of a known user, and no task."""
        return self.in_chat and bool(self.user_id) and not self.chat_id.startswith(_UNSAVED_CHAT_PREFIXES)


def read_call(
    body: Mapping[str, Any],
    *,
    user: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
    task: str | None,
) -> Call:
    """Parse what the host passed. Raises InvalidHistory when there is no model or no list of messages."""
    messages = body.get("messages")
    model = body.get("model")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidHistory("This request has no readable messages.")
    if not isinstance(model, str) or not model:
        raise InvalidHistory("This request names no model.")
    metadata = metadata or {}
    return Call(
        model_id=model.split(".", 1)[-1],
        messages=messages,
        parameters={key: value for key, value in body.items() if key not in _NOT_PARAMETERS},
        stream=body.get("stream") is True,
        task=task,
        user_id=_text(user or {}, "id") or "",
        chat_id=_text(metadata, "chat_id") or "",
        message_id=_text(metadata, "message_id") or "",
        base_system_prompt=_base_system_prompt(metadata),
        base_user_prompt=_text(metadata, "base_user_prompt"),
    )


def _base_system_prompt(metadata: Mapping[str, Any]) -> str | None:
    """The system prompt before the host added to it: "" when there is none, None when the host does not say."""
    return (metadata["base_system_prompt"] or "") if "base_system_prompt" in metadata else None


def _text(source: Mapping[str, Any], key: str) -> str | None:
    value = source.get(key)
    return value if isinstance(value, str) else None
