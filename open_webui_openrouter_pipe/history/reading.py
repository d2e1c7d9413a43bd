"""Reads the host's loose messages into turns of typed entries.

Owns what each role and field of a message means, and where turns begin. Finds markers without filling them, and never
fails on a message: what cannot be read is repaired or named. It decides nothing about pairing, model families or where
instructions go, since those need artifacts or settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal, TypeAlias

from ..errors import InvalidHistory
from ..responses.items import InputPart
from ..responses.text import clean_text
from ..responses.wire import as_list, as_object, as_text
from .additions import summary_messages
from .entries import (
    ArtifactRef,
    AssistantText,
    CallSource,
    Entry,
    History,
    Instruction,
    Origin,
    Repair,
    RepairKind,
    ToolCall,
    ToolImages,
    ToolResult,
    UserMessage,
)
from .folded import FoldedCall, unfold
from .host_output import TOOL_IMAGES_TEXT, unfold_output
from .markers import is_ulid, split_text_by_markers
from .parts import omitted_part, read_arguments, read_content, read_output, text_part

REFERENCE_TYPE = "openrouter_pipe.artifact"
"""The entry of `reasoning_details` that carries an artifact's id outside of the text, under `id`."""

EMPTY_MESSAGE = "[empty message]"
"""What replaces a user message without any content: providers refuse an empty one."""

_ANSWERING = frozenset({"assistant", "tool"})
"""A chat whose first messages the host has cut off begins with one of these; its instructions stay in front."""

HostMessage: TypeAlias = Mapping[str, Any]


def read_history(messages: Any) -> History:
    """Read a chat as Open WebUI shows it, folded or unfolded.

    Raises:
        InvalidHistory: There is no message in it at all.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise InvalidHistory("The chat could not be read: its messages are not a list.")
    summaries = summary_messages(messages)
    reader = _Reader()
    for index, message in enumerate(messages):
        if index not in summaries:
            reader.read(index, message)
    return replace(reader.finish(), summaries=tuple(summaries[index] for index in sorted(summaries)))


class _Reader:
    """The turns so far, and the instructions held back until the next user message, or the first of all."""

    def __init__(self) -> None:
        self._turns: list[list[Entry]] = [[]]
        self._has_user = False
        self._instructions: list[tuple[str, Origin]] = []
        self._wanted: dict[str, None] = {}
        self._repairs: list[Repair] = []
        self._is_readable = False

    def read(self, index: int, message: Any) -> None:
        """Read one message of the host."""
        fields = as_object(message)
        origin = Origin(index, as_text(fields.get("role")) or "unknown")
        if not isinstance(message, dict):
            self._repair("message", origin, f"not an object: {type(message).__name__}")
            return
        self._is_readable = True
        if origin.role in _ANSWERING and self._turns == [[]]:
            self._add_instructions()
        handler = _ROLES.get(origin.role)
        if handler is None:
            self._repair("message", origin, "unknown role, read as the user's")
        (handler or _Reader.user)(self, fields, origin)

    def finish(self) -> History:
        """Return what was read; instructions that no user message followed stand at the end."""
        if not self._is_readable:
            raise InvalidHistory("The chat could not be read: it has no message.")
        self._add_instructions()
        turns = tuple(tuple(turn) for turn in self._turns)
        return History(turns, tuple(self._wanted), tuple(self._repairs))

    def instruction(self, message: HostMessage, origin: Origin) -> None:
        """A system or developer message is held back until the next user message."""
        parts = read_content(message.get("content"))
        text = "\n".join(part["text"] if part["type"] == "input_text" else "[part omitted]" for part in parts)
        if text:
            self._instructions.append((text, origin))

    def user(self, message: HostMessage, origin: Origin) -> None:
        """A user message begins a turn, unless the host made it to send images of tools."""
        parts = read_content(message.get("content"))
        if self._turns[-1] and isinstance(message.get("content"), list) and _are_tool_images(parts):
            self._turns[-1].append(ToolImages(tuple(parts), origin))
            return
        if self._has_user:
            self._turns.append([])
        self._has_user = True
        self._add_instructions()
        self._turns[-1].append(UserMessage(tuple(parts) or (text_part(EMPTY_MESSAGE),), origin))

    def assistant(self, message: HostMessage, origin: Origin) -> None:
        """An answer: as it is, or unfolded when the host shows its stored items."""
        output = as_list(message.get("output"))
        unfolded = unfold_output(output) if output else []
        if not unfolded:
            self.answer(message, origin)
        for number, part in enumerate(unfolded):
            _UNFOLDED_ROLES[part["role"]](self, part, Origin(origin.message, part["role"], part=number))

    def tool(self, message: HostMessage, origin: Origin) -> None:
        """A tool's result as the host shows it."""
        call_id = _call_id(message.get("tool_call_id"))
        if not call_id:
            self._repair("output", origin, "names no call")
            return
        self._turns[-1].append(ToolResult(call_id, read_output(message.get("content")), "host", origin))

    def answer(self, message: HostMessage, origin: Origin) -> None:
        """An answer as the host shows it to a model: references, text with markers, calls."""
        for detail in map(as_object, as_list(message.get("reasoning_details"))):
            if detail.get("type") == REFERENCE_TYPE and is_ulid(detail.get("id")):
                self._add_reference(detail["id"], origin)
        phase = as_text(message.get("phase")) or None
        content, refusal = message.get("content"), message.get("refusal")
        texts = [content] if isinstance(content, str) else [_as_text(part) for part in read_content(content)]
        for text in [*texts, refusal] if isinstance(refusal, str) else texts:
            self._add_folded_text(text, origin, phase)
        for call in map(as_object, as_list(message.get("tool_calls"))):
            call_id, function = _call_id(call.get("id")), call.get("function")
            if call_id and isinstance(function, dict):
                self._add_call(call_id, function.get("name"), function.get("arguments"), "host", origin)
            else:
                self._repair("call", origin, "not a call that could be paired")

    def _add_folded_text(self, text: str, origin: Origin, phase: str | None) -> None:
        """Neighbouring blocks of calls are one round: all its calls come before its outputs."""
        for is_text, pieces in groupby(unfold(text), key=lambda piece: isinstance(piece, str)):
            if is_text:
                for piece in pieces:
                    self._add_text(piece, origin, phase)  # type: ignore[arg-type]
                continue
            calls = [call for call in pieces if isinstance(call, FoldedCall) and call.call_id]
            for call in calls:
                self._add_call(clean_text(call.call_id), call.name, call.arguments, "folded", origin)
            for call in calls:
                if call.result is not None:
                    output = read_output(call.result)
                    self._turns[-1].append(ToolResult(clean_text(call.call_id), output, "folded", origin))

    def _add_text(self, text: str, origin: Origin, phase: str | None) -> None:
        for segment in split_text_by_markers(text):
            for ulid in segment.ulids:
                self._add_reference(ulid, origin)
            if not segment.ulids and not segment.raw.isspace():
                self._turns[-1].append(AssistantText(clean_text(segment.raw), origin, phase))

    def _add_reference(self, ulid: str, origin: Origin) -> None:
        if ulid not in self._wanted:
            self._wanted[ulid] = None
            self._turns[-1].append(ArtifactRef(ulid, Origin(origin.message, origin.role, ulid, origin.part)))

    def _add_call(self, call_id: str, name: Any, arguments: Any, source: CallSource, origin: Origin) -> None:
        call = ToolCall(call_id, clean_text(as_text(name)), read_arguments(arguments), source, origin)
        self._turns[-1].append(call)

    def _add_instructions(self) -> None:
        if not self._instructions:
            return
        texts, origins = zip(*self._instructions, strict=True)
        only_developer = all(origin.role == "developer" for origin in origins)
        role: Literal["system", "developer"] = "developer" if only_developer else "system"
        self._turns[-1].append(Instruction(texts, role, origins[0]))
        self._instructions = []

    def _repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        self._repairs.append(Repair(kind, origin, detail))


_ROLES: Mapping[str, Callable[[_Reader, HostMessage, Origin], None]] = {
    "system": _Reader.instruction,
    "developer": _Reader.instruction,
    "user": _Reader.user,
    "assistant": _Reader.assistant,
    "tool": _Reader.tool,
}
_UNFOLDED_ROLES = {**_ROLES, "assistant": _Reader.answer}


def _as_text(part: InputPart) -> str:
    """An assistant message holds text alone."""
    if part["type"] == "input_text":
        return part["text"]
    return omitted_part(part["type"].removeprefix("input_"))["text"]


def _are_tool_images(parts: list[InputPart]) -> bool:
    """Whether the parts are those of the message with which the host sends images of tool results."""
    if len(parts) < 2 or parts[0] != text_part(TOOL_IMAGES_TEXT):
        return False
    return all(part["type"] == "input_image" or part == omitted_part("image") for part in parts[1:])


def _call_id(value: Any) -> str:
    """A call's id; some models number their calls."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return clean_text(as_text(value))
