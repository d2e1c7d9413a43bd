"""From messages to input in one call, for tests that replay chats with artifacts of their own.

Owns the composition of the two halves of `history` with a loader between them, and the message that stands for the
summaries of others where nothing is planned. It is the message that the engine sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..history.artifacts import Artifacts
from ..history.build import BuiltHistory, Options, build_input, read_history
from ..history.reading import Origin
from ..media.choice import name_references
from ..summaries.summary import summary_message

ArtifactLoader: TypeAlias = Callable[[str | None, str | None, Sequence[str]], Awaitable[Artifacts]]
"""Loads artifacts by `(chat_id, message_id, ulids)`; the result lacks what was not found."""


async def transform_messages_to_input(
    messages: Any,
    *,
    artifact_loader: ArtifactLoader | Artifacts | None,
    chat_id: str | None = None,
    message_id: str | None = None,
    options: Options | None = None,
) -> BuiltHistory:
    """Turn a chat into valid input, asking the loader once for all markers, and only if there are any.

    The loader may also be a mapping from ULID to artifact. A `chat_id` given here wins over that of the options. The
    summaries of others are among the items.

    Raises:
        InvalidHistory: The messages are not a chat, or hold nothing that could be sent.
    """
    history = read_history(messages)
    artifacts: Artifacts = {}
    if isinstance(artifact_loader, Mapping):
        artifacts = artifact_loader
    elif artifact_loader is not None and history.wanted:
        artifacts = await artifact_loader(chat_id, message_id, history.wanted)
    options = options or Options()
    built = build_input(history, artifacts, replace(options, chat_id=chat_id or options.chat_id))
    return with_summary_message(with_named_files(built))


def with_named_files(built: BuiltHistory) -> BuiltHistory:
    """Return the input with names in the place of files that only the host could read."""
    return replace(built, items=name_references(built.items))


def with_summary_message(built: BuiltHistory) -> BuiltHistory:
    """Return the input with the summaries of others as one message behind the instructions."""
    message = summary_message((), built.external_summaries)
    if message is None:
        return built
    index = built.instruction_count
    return replace(
        built,
        items=[*built.items[:index], message, *built.items[index:]],
        turns=(*built.turns[:index], built.turns[0], *built.turns[index:]),
        origins=(*built.origins[:index], Origin(0, "system"), *built.origins[index:]),
        instruction_count=index + 1,
        volatile=range(built.volatile.start + 1, built.volatile.stop + 1),
        external_summaries=(),
    )
