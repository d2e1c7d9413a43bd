"""Reads the host's loose messages into turns of typed entries.

Owns what each role and field of a message means, and where turns begin. Finds markers without filling them,
and never fails on a message: what cannot be read is repaired or named. It decides nothing about pairing,
families or instructions' final places, since those need artifacts or settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..errors import InvalidHistory
from ..responses.items import InputPart
from ..responses.text import clean_text
from .entries import (
    ArtifactRef,
    AssistantText,
    Entry,
    History,
    Instruction,
    Origin,
    Repair,
    ToolCall,
    ToolImages,
    ToolResult,
    UserMessage,
)
from .external_summaries import summary_messages
from .folded import FoldedCall, Piece, unfold
from .host_output import TOOL_IMAGES_TEXT, unfold_output
from .markers import is_ulid, split_text_by_markers
from .parts import left_out, read_arguments, read_content, read_output, text_part

REFERENCE_TYPE = "openrouter_pipe.artifact"
"""The entry of `reasoning_details` that carries an artifact's id outside of the text, under `id`."""

EMPTY_MESSAGE = "[empty message]"
"""What stands for a user message without any content: providers refuse an empty one."""

_ANSWERING = frozenset({"assistant", "tool"})
"""With one of these a chat begins whose first messages the host has cut off; its instructions stay in front."""

Wire = Mapping[str, Any]


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
    """The turns so far, and the instructions that wait for the next user message, or for the first of all."""

    def __init__(self) -> None:
        self._turns: list[list[Entry]] = [[]]
        self._has_user = False
        self._instructions: list[tuple[str, Origin]] = []
        self._wanted: dict[str, None] = {}
        self._repairs: list[Repair] = []
        self._readable = False

    def read(self, index: int, message: Any) -> None:
        """Read one message of the host."""
        role = message.get("role") if isinstance(message, dict) else None
        origin = Origin(index, role if isinstance(role, str) else "unknown")
        if not isinstance(message, dict):
            self._repair("message", origin, f"not an object: {type(message).__name__}")
            return
        self._readable = True
        if origin.role in _ANSWERING and self._turns == [[]]:
            self._place_instructions()
        handler = _ROLES.get(origin.role)
        if handler is None:
            self._repair("message", origin, "unknown role, read as the user's")
        (handler or _Reader.user)(self, message, origin)

    def finish(self) -> History:
        """Give what was read; instructions that no user message followed stand at the end."""
        if not self._readable:
            raise InvalidHistory("The chat could not be read: it has no message.")
        self._place_instructions()
        turns = tuple(tuple(turn) for turn in self._turns)
        return History(turns, tuple(self._wanted), tuple(self._repairs))

    def instruction(self, message: Wire, origin: Origin) -> None:
        """A system or developer message waits for the next user message."""
        parts = read_content(message.get("content"))
        text = "\n".join(
            part["text"] if part["type"] == "input_text" else "[part left out]" for part in parts
        )
        if text:
            self._instructions.append((text, origin))

    def user(self, message: Wire, origin: Origin) -> None:
        """A user message begins a turn, unless the host made it up to hand over images of tools."""
        parts = read_content(message.get("content"))
        if _is_tool_images(message, parts) and self._turns[-1]:
            self._turns[-1].append(ToolImages(tuple(parts), origin))
            return
        if self._has_user:
            self._turns.append([])
        self._has_user = True
        self._place_instructions()
        self._turns[-1].append(UserMessage(tuple(parts) or (text_part(EMPTY_MESSAGE),), origin))

    def assistant(self, message: Wire, origin: Origin) -> None:
        """An answer: as it is, or unfolded when the host shows its stored items."""
        output = message.get("output")
        unfolded = unfold_output(output) if isinstance(output, list) else []
        if not unfolded:
            self.answer(message, origin)
        for number, part in enumerate(unfolded):
            _UNFOLDED_ROLES[part["role"]](self, part, Origin(origin.message, part["role"], part=number))

    def tool(self, message: Wire, origin: Origin) -> None:
        """A tool's answer as the host tells it."""
        call_id = _identifier(message.get("tool_call_id"))
        if not call_id:
            self._repair("output", origin, "names no call")
            return
        self._turns[-1].append(ToolResult(call_id, read_output(message.get("content")), "host", origin))

    def answer(self, message: Wire, origin: Origin) -> None:
        """An answer as the host tells a model of it: references, text with markers, calls."""
        for detail in _list(message.get("reasoning_details")):
            if (
                isinstance(detail, dict)
                and detail.get("type") == REFERENCE_TYPE
                and is_ulid(detail.get("id"))
            ):
                self._mark(detail["id"], origin)
        phase = message.get("phase")
        for text in _assistant_texts(message):
            self._say(text, origin, phase if isinstance(phase, str) else None)
        for call in _list(message.get("tool_calls")):
            self._call(call, origin)

    def _say(self, text: str, origin: Origin, phase: str | None) -> None:
        pieces = unfold(text)
        if len(pieces) == 1 and isinstance(pieces[0], str):
            self._say_plain(pieces[0], origin, phase)
            return
        for group in _grouped(pieces):
            if isinstance(group, str):
                self._say_plain(group, origin, phase)
            else:
                self._unfold_calls(group, origin)

    def _say_plain(self, text: str, origin: Origin, phase: str | None) -> None:
        for segment in split_text_by_markers(text):
            for ulid in segment.ulids:
                self._mark(ulid, origin)
            if not segment.ulids and not segment.raw.isspace():
                self._turns[-1].append(AssistantText(clean_text(segment.raw), origin, phase))

    def _mark(self, ulid: str, origin: Origin) -> None:
        if ulid not in self._wanted:
            self._wanted[ulid] = None
            self._turns[-1].append(ArtifactRef(ulid, Origin(origin.message, origin.role, ulid, origin.part)))

    def _call(self, call: Any, origin: Origin) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        call_id = _identifier(call.get("id")) if isinstance(call, dict) else ""
        if not isinstance(function, dict) or not call_id:
            self._repair("call", origin, "not a call that could be paired")
            return
        self._add_call(call_id, function.get("name"), function.get("arguments"), "host", origin)

    def _unfold_calls(self, folded: list[FoldedCall], origin: Origin) -> None:
        """Neighbouring blocks are one round: all its calls come before its outputs."""
        readable = [call for call in folded if call.call_id]
        for call in readable:
            self._add_call(call.call_id, call.name, call.arguments, "folded", origin)
        for call in readable:
            if call.result is not None:
                output = read_output(call.result)
                self._turns[-1].append(ToolResult(clean_text(call.call_id), output, "folded", origin))

    def _add_call(self, call_id: str, name: Any, arguments: Any, source: Any, origin: Origin) -> None:
        told = name if isinstance(name, str) else ""
        called = ToolCall(clean_text(call_id), clean_text(told), read_arguments(arguments), source, origin)
        self._turns[-1].append(called)

    def _place_instructions(self) -> None:
        if not self._instructions:
            return
        texts, origins = zip(*self._instructions, strict=True)
        only_developer = all(origin.role == "developer" for origin in origins)
        role = "developer" if only_developer else "system"
        self._turns[-1].append(Instruction(texts, cast("Any", role), origins[0]))
        self._instructions = []

    def _repair(self, kind: Any, origin: Origin, detail: str) -> None:
        self._repairs.append(Repair(kind, origin, detail))


_ROLES: dict[str, Callable[[_Reader, Wire, Origin], None]] = {
    "system": _Reader.instruction,
    "developer": _Reader.instruction,
    "user": _Reader.user,
    "assistant": _Reader.assistant,
    "tool": _Reader.tool,
}
_UNFOLDED_ROLES: dict[str, Callable[[_Reader, Wire, Origin], None]] = {**_ROLES, "assistant": _Reader.answer}


def _assistant_texts(message: Wire) -> list[str]:
    content, refusal = message.get("content"), message.get("refusal")
    texts = [content] if isinstance(content, str) else [_shown(part) for part in read_content(content)]
    return [*texts, refusal] if isinstance(refusal, str) else texts


def _shown(part: InputPart) -> str:
    """An assistant message holds text alone."""
    return part["text"] if part["type"] == "input_text" else left_out(part["type"][len("input_") :])["text"]


def _is_tool_images(message: Wire, parts: list[InputPart]) -> bool:
    if not isinstance(message.get("content"), list) or len(parts) < 2:
        return False
    first, *others = parts
    told = first["type"] == "input_text" and first["text"] == TOOL_IMAGES_TEXT
    return told and all(part["type"] == "input_image" or part == left_out("image") for part in others)


def _grouped(pieces: list[Piece]) -> Iterator[str | list[FoldedCall]]:
    calls: list[FoldedCall] = []
    for piece in pieces:
        if isinstance(piece, FoldedCall):
            calls.append(piece)
            continue
        if calls:
            yield calls
            calls = []
        yield piece
    if calls:
        yield calls


def _identifier(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return clean_text(value) if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
