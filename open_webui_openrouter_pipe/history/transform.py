"""From a read history and its artifacts to the `input[]` of a request.

Two pure halves for whoever loads artifacts in between: `read_history` finds the markers, `build_input`
fills them. `transform_messages_to_input` joins the halves around one call of a loader, and puts the summaries that
others made back in front. The same messages,
artifacts and options give the same bytes, and what comes later never changes what an earlier turn became.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..errors import InvalidHistory
from ..responses.items import InputMessage, Item, is_message
from .artifacts import Artifacts
from .entries import History, Instruction, Origin, Repair, UserMessage
from .foreign_summaries import SUMMARY_HEADING, each_once
from .instructions import Instructed, instruct, split_user_parts
from .messages import read_history
from .parts import text_part
from .reasoning import family
from .settling import settle_turn
from .slots import Draft, Rules, Written
from .tool_pairs import CallIds
from .turns import note_turn, user_message

__all__ = [
    "ArtifactLoader",
    "History",
    "Options",
    "ReplayedReasoning",
    "Transformed",
    "build_input",
    "read_history",
    "transform_messages_to_input",
    "with_summaries",
]

ArtifactLoader: TypeAlias = Callable[[str | None, str | None, Sequence[str]], Awaitable[Artifacts]]
"""Loads artifacts by `(chat_id, message_id, ulids)`; what it does not find it leaves out."""


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes the input beside the chat itself.

    `model_id` is the OpenRouter id of the model that will read it, None when reasoning is not to be judged.
    `base_system_prompt` and `base_user_prompt` are those of the host's metadata: a system prompt of "" says
    that the host has none, None that it is unknown. `strip_reasoning` leaves all reasoning out, after a
    provider refused it.
    """

    model_id: str | None = None
    chat_id: str | None = None
    base_system_prompt: str | None = None
    base_user_prompt: str | None = None
    strip_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class ReplayedReasoning:
    """A reasoning artifact that the input holds, and the turn that it belongs to."""

    chat_id: str | None
    artifact_id: str
    turn: int
    in_latest_turn: bool


@dataclass(frozen=True, slots=True)
class Transformed:
    """The input, and what is known about it.

    `items` may share objects with the artifacts: treat them as read-only. `turns` and `origins` tell for
    each item which turn it belongs to and where it comes from. `missing` names the markers whose artifact
    could not be had, with its kind where that is known. `summaries` are the texts of what others, such as the host,
    made of messages that are not in the chat any more: oldest first, each once, and not among `items`.
    """

    items: list[Item]
    turns: tuple[int, ...]
    origins: tuple[Origin, ...]
    replayed: tuple[ReplayedReasoning, ...]
    missing: Mapping[str, str | None]
    repairs: tuple[Repair, ...]
    summaries: tuple[str, ...] = ()

    @property
    def replayed_reasoning_refs(self) -> tuple[tuple[str | None, str], ...]:
        """The chat id and artifact id of each reasoning artifact in the input."""
        return tuple((reasoning.chat_id, reasoning.artifact_id) for reasoning in self.replayed)

    @property
    def turn_starts(self) -> tuple[int, ...]:
        """The index of the first item of each turn."""
        starts: dict[int, int] = {}
        for index, turn in enumerate(self.turns):
            starts.setdefault(turn, index)
        return tuple(starts.values())


async def transform_messages_to_input(
    messages: Any,
    *,
    artifact_loader: ArtifactLoader | Artifacts | None,
    chat_id: str | None = None,
    message_id: str | None = None,
    options: Options | None = None,
) -> Transformed:
    """Turn a chat into valid input, asking the loader once for all markers, and only if there are any.

    The loader may also be a mapping from ULID to artifact. A `chat_id` given here wins over that of the options.
    Summaries that others made are among the items: nobody puts them into a block of their own.

    Raises:
        InvalidHistory: The messages are no chat, or hold nothing that could be sent.
    """
    history = read_history(messages)
    artifacts: Artifacts = {}
    if isinstance(artifact_loader, Mapping):
        artifacts = artifact_loader
    elif artifact_loader is not None and history.wanted:
        artifacts = await artifact_loader(chat_id, message_id, history.wanted)
    options = options or Options()
    return with_summaries(
        build_input(history, artifacts, replace(options, chat_id=chat_id or options.chat_id))
    )


def with_summaries(transformed: Transformed) -> Transformed:
    """Put the summaries back among the items, as one message behind the instructions."""
    if not transformed.summaries:
        return transformed
    at = _instructions_end(transformed)
    message: InputMessage = {
        "type": "message",
        "role": "system",
        "content": [text_part(f"{SUMMARY_HEADING}\n{summary}") for summary in transformed.summaries],
    }
    return replace(
        transformed,
        items=[*transformed.items[:at], message, *transformed.items[at:]],
        turns=(*transformed.turns[:at], transformed.turns[0], *transformed.turns[at:]),
        origins=(*transformed.origins[:at], Origin(0, "system"), *transformed.origins[at:]),
        summaries=(),
    )


def build_input(history: History, artifacts: Artifacts, options: Options) -> Transformed:
    """Build the input of a read history; `artifacts` are what was found of `history.wanted`.

    Raises:
        InvalidHistory: Nothing is left that could be sent.
    """
    instructed = _instructed(history, options)
    rules = _rules(history, artifacts, options, instructed)
    written, ids = Written(), CallIds()
    missing: dict[str, str | None] = {}
    repairs = list(history.repairs)
    for number, entries in enumerate(history.turns):
        draft = Draft(number, missing, repairs)
        note_turn(draft, entries, rules)
        settle_turn(draft, rules, written, ids)
    if not written.items:
        raise InvalidHistory("There is nothing in this chat that could be sent.")
    latest = len(history.turns) - 1
    return Transformed(
        items=written.items,
        turns=tuple(written.turns),
        origins=tuple(written.origins),
        replayed=tuple(
            ReplayedReasoning(options.chat_id, ulid, turn, in_latest_turn=turn == latest)
            for ulid, turn in written.replayed
        ),
        missing=missing,
        repairs=tuple(repairs),
        summaries=each_once(
            (*(text for told in instructed.values() for text in told.summaries), *history.summaries)
        ),
    )


def _instructed(history: History, options: Options) -> dict[Instruction, Instructed]:
    """Take the instructions apart. The host writes into the first, if there is a user message to answer."""
    found = [entry for turn in history.turns for entry in turn if isinstance(entry, Instruction)]
    base = options.base_system_prompt if _latest_user(history) else None
    return {entry: instruct(entry, base if entry is found[0] else None) for entry in found}


def _latest_user(history: History) -> UserMessage | None:
    entries = (entry for turn in reversed(history.turns) for entry in reversed(turn))
    return next((entry for entry in entries if isinstance(entry, UserMessage)), None)


def _rules(
    history: History,
    artifacts: Artifacts,
    options: Options,
    instructed: Mapping[Instruction, Instructed],
) -> Rules:
    """What the host mixes into the system prompt and the latest user message has its own place."""
    latest = _latest_user(history)
    volatile = [message for told in instructed.values() for message in told.volatile]
    parts = split_user_parts(latest.parts, options.base_user_prompt) if latest else []
    return Rules(
        artifacts=artifacts,
        target=family(options.model_id),
        strip_reasoning=options.strip_reasoning,
        instructions={entry: told.here for entry, told in instructed.items()},
        latest_user=latest,
        latest_items=[*volatile, user_message(parts)],
    )


def _instructions_end(transformed: Transformed) -> int:
    """How many items are instructions of their own; the host's additions have the origin of the user's message."""
    pairs = zip(transformed.items, transformed.origins, strict=True)
    told = [
        is_message(item) and item["role"] in {"system", "developer"} and origin.role != "user"
        for item, origin in pairs
    ]
    return told.index(False) if False in told else len(told)
