"""From a read history and its artifacts to the `input[]` of a request.

Two pure halves for whoever loads artifacts in between: `read_history` finds the markers, `build_input`
fills them. `transform_messages_to_input` joins the halves around one call of a loader. The same messages,
artifacts and options give the same bytes, and what comes later never changes what an earlier turn became.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..errors import InvalidHistory
from ..responses.items import Item
from .artifacts import Artifacts
from .entries import History, Instruction, Origin, Repair, UserMessage
from .instructions import instruction_items, split_user_parts
from .messages import read_history
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
    could not be had, with its kind where that is known.
    """

    items: list[Item]
    turns: tuple[int, ...]
    origins: tuple[Origin, ...]
    replayed: tuple[ReplayedReasoning, ...]
    missing: Mapping[str, str | None]
    repairs: tuple[Repair, ...]

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
    return build_input(history, artifacts, replace(options, chat_id=chat_id or options.chat_id))


def build_input(history: History, artifacts: Artifacts, options: Options) -> Transformed:
    """Build the input of a read history; `artifacts` are what was found of `history.wanted`.

    Raises:
        InvalidHistory: Nothing is left that could be sent.
    """
    rules = _rules(history, artifacts, options)
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
    )


def _rules(history: History, artifacts: Artifacts, options: Options) -> Rules:
    """Take apart what the host mixes into: the system prompt and the latest user message."""
    entries = [entry for turn in history.turns for entry in turn]
    first = next((entry for entry in entries if isinstance(entry, Instruction)), None)
    latest = next((entry for entry in reversed(entries) if isinstance(entry, UserMessage)), None)
    base = options.base_system_prompt if latest else None
    here, volatile = instruction_items(first, base) if first else ([], [])
    parts = split_user_parts(latest.parts, options.base_user_prompt) if latest else []
    return Rules(
        artifacts=artifacts,
        target=family(options.model_id),
        strip_reasoning=options.strip_reasoning,
        first_instruction=first,
        first_items=here,
        latest_user=latest,
        latest_items=[*volatile, user_message(parts)],
    )
