"""Reads the host's loose messages into turns of typed entries.

Owns what each role and field of a message means, and where turns begin. Finds markers without filling them, and never
fails on a message: what cannot be read is repaired or named. It decides nothing about pairing, model families or where
instructions go, since those need artifacts or settings. Entries are tuples: a long chat has many, and frozen
dataclasses cost twice as much.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise, takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..conversation.slash import ChatCommand, Command, Unknown, read_command
from ..errors import InvalidHistory
from ..responses.items import PHASES, InputPart, Item
from ..responses.values import as_list, as_object, as_text, clean_text, once
from .folded import (
    TOOL_IMAGES_TEXT,
    FoldedCall,
    Piece,
    holds_details,
    may_hold_blocks,
    quoted_calls,
    unfold,
    unfold_output,
)
from .markers import (
    ANSWER_MARK,
    MARKER_END,
    Reference,
    all_ulids,
    code_ulids,
    insert_references,
    read_call_name,
    read_references,
    split_text_by_markers,
)
from .parts import omitted_part, read_arguments, read_call_id, read_content, read_output, text_part

_ANSWERING = frozenset({"assistant", "tool"})
"""A chat whose first messages the host has cut off begins with one of these; its instructions stay in front."""
_BESIDE_TEXT: Final = ("output", "tool_calls", "reasoning_details")
_NOT_PLAIN: Final = (*_BESIDE_TEXT, "refusal", "phase")
_MARKS: Final = (MARKER_END, "![")
"""Of texts in which there may be markers, or images."""
Keep: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Returns a JSON object of the same content, which may have been kept."""
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


def find_commands(
    messages: Sequence[Any], *, prompt: str | None = None, of_program: bool = False
) -> FoundCommands:
    """Take the commands out of a chat.

    `prompt` is what the user wrote in the last message before the host added to it, "" where something is attached to
    it, None where that is not known. An answer that is to be continued is given anew. What a program writes is a
    command only where there is such a one: its other words are meant for the model.
    """
    roles = [as_text(as_object(message).get("role")) for message in messages]
    left = [
        TAKEN_OUT if role == "assistant" and _text_of(message).lstrip().startswith(ANSWER_MARK) else message
        for role, message in zip(roles, messages, strict=True)
    ]
    commands: dict[int, Command] = {}
    asked: Command | None = None
    users = [index for index, role in enumerate(roles) if role == "user"]
    for index in users:
        content, is_last = as_object(messages[index]).get("content"), index == users[-1]
        if isinstance(content, list):  # more than a text is no command
            content = as_text(as_object(content[0]).get("text")) if len(content) == 1 else None
        text = content if isinstance(content, str) else None
        written = prompt if text is not None and is_last and prompt is not None else text
        command = read_command(written or "")
        if command is None or (of_program and isinstance(command, Unknown)):
            continue
        answer = [*takewhile(lambda at: roles[at] in _ANSWERING, range(index + 1, len(messages)))]
        is_ours = bool(answer) and left[answer[0]] is TAKEN_OUT
        if not (is_ours or all(_is_blank(messages[at]) for at in answer)):
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


def _text_of(message: Any) -> str:
    """Return the text of an answer, as the host shows it or as it stores it."""
    fields = as_object(message)
    content = fields.get("content")
    if isinstance(content, str) and content:
        return content
    holders = [fields, *map(as_object, as_list(fields.get("output")))]
    parts = [as_object(part) for each in holders for part in as_list(each.get("content"))]
    return "".join([as_text(part.get("text")) for part in parts])


def _is_blank(message: Any) -> bool:
    """Whether an answer says and calls nothing: it was stopped, or failed."""
    fields = as_object(message)
    items = (as_object(item) for item in as_list(fields.get("output")))
    is_called = fields.get("tool_calls") or any(item.get("type") != "message" for item in items)
    return not is_called and not _text_of(message).strip()


EMPTY_MESSAGE = "[empty message]"
"""What replaces a user message without any content: providers refuse an empty one."""

HostMessage: TypeAlias = Mapping[str, Any]

CallSource = Literal["artifact", "host", "folded"]
"""Who reports a call or a result: our store, the host's tool messages, or a block folded into text."""

RepairKind = Literal[
    "message", "call", "call_id", "call_name", "output", "duplicate", "reasoning", "artifact"
]
"""What was repaired: an unreadable message, half a call, a call's id or name, half an output or one that came too
early, a duplicate, reasoning that cannot be sent, an artifact that is broken or cannot be sent.
"""


class Origin(NamedTuple):
    """Where an item comes from: the index and role of the host's message, and the marker in it, if any.

    `part` counts the messages that a folded answer unfolds into.
    """

    message: int
    role: str
    marker: str | None = None
    part: int = 0

    @property
    def message_part(self) -> tuple[int, int]:
        """The key of the message that the model sees, the same for a folded and an unfolded chat."""
        return self.message, self.part


@dataclass(frozen=True, slots=True)
class Repair:
    """What was repaired, where, and how: for the replay command and the log, never for the model."""

    kind: RepairKind
    origin: Origin
    detail: str


class Instruction(NamedTuple):
    """Consecutive system and developer messages; `role` is developer only if all of them are."""

    texts: tuple[str, ...]
    role: Literal["system", "developer"]
    origin: Origin


class UserMessage(NamedTuple):
    """What the user says; begins a turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


class ToolImages(NamedTuple):
    """Images of tool results, which the host sends as a user message within the same turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


class AssistantText(NamedTuple):
    """Text of the assistant, with the ULIDs in it that are markers only if there are such artifacts."""

    text: str
    origin: Origin
    phase: str | None = None
    in_code: tuple[str, ...] = ()


class ArtifactRef(NamedTuple):
    """The position of an artifact; its id is also the origin's marker.

    One `of_call` is known from a call's id alone: where there is no such artifact, the call is what the host shows.
    """

    ulid: str
    origin: Origin
    of_call: bool = False


class ToolCall(NamedTuple):
    """A tool call as the host or a folded block shows it: `arguments` is JSON text of an object."""

    call_id: str
    name: str
    arguments: str
    source: CallSource
    origin: Origin


class ToolResult(NamedTuple):
    """A tool's result as the host or a folded block shows it."""

    call_id: str
    output: str | list[InputPart]
    source: CallSource
    origin: Origin


Entry: TypeAlias = (
    Instruction | UserMessage | ToolImages | AssistantText | ArtifactRef | ToolCall | ToolResult
)


@dataclass(frozen=True, slots=True)
class History:
    """A chat, read: its turns, and what was repaired.

    The first turn also holds what stands before the first user message. `question` is the latest of these. `commands`
    are those of the user that hold, the one that is to be answered included; that one is also `asked`, and the last
    turn then has an empty question. `holds_details` says that a text has blocks that were taken for text, `others` are
    the contents of all messages that are nobody's answer.
    """

    turns: Sequence[Sequence[Entry]]
    repairs: Sequence[Repair]
    question: UserMessage | None = None
    commands: tuple[ChatCommand, ...] = ()
    asked: Command | None = None
    holds_details: bool = False
    others: tuple[Any, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The ULIDs of its markers in order and once each, of what only reads like a marker as well."""
        found: dict[str, None] = {}
        for entry in chain.from_iterable(self.turns):
            if isinstance(entry, ArtifactRef):
                found[entry.ulid] = None
            elif isinstance(entry, AssistantText) and entry.in_code:
                found |= dict.fromkeys(entry.in_code)
        return tuple(found)


def answers_without_items(messages: Any) -> list[str]:
    """Return the texts of a chat's answers that hold all that was done: in their turn nothing has items or calls."""
    texts: list[str] = []
    is_text = True
    for message in map(as_object, messages if isinstance(messages, Sequence) else ()):
        role = as_text(message.get("role"))
        if role == "user":
            is_text = True
        elif role in _ANSWERING:
            is_text = is_text and role == "assistant" and not any(map(message.get, _BESIDE_TEXT))
            texts += [as_text(message.get("content"))] if is_text else ()
    return texts


def read_history(
    messages: Any,
    *,
    prompt: str | None = None,
    of_program: bool = False,
    without_items: Iterable[str] = (),
    keep: Keep = dict,
) -> History:
    """Read a chat as Open WebUI shows it, folded or unfolded; `prompt` and `of_program` are as in `find_commands`.

    `without_items` are the texts of its answers of which the host keeps no items: it has folded what they did into
    them, each counts once. In all others, blocks of the host are what somebody wrote, and text. What `keep` keeps of
    plain turns is read once.

    Raises:
        InvalidHistory: There is no message in it at all.
    """
    if not isinstance(messages, Sequence):
        raise InvalidHistory("The chat could not be read: its messages are not a list.")
    found = find_commands(messages, prompt=prompt, of_program=of_program)
    reader = _Reader(without_items)
    commands: list[ChatCommand] = []
    begins = [index for index, message in enumerate(found.left) if as_object(message).get("role") == "user"]
    ends = dict(pairwise(begins))
    read_until = 0
    for index, message in enumerate(found.left):
        if index < read_until:
            continue
        if index in found.commands:
            turns = len(reader.turns) if reader.question else 0
            commands.append(ChatCommand(turns, found.commands[index]))
        if index in ends and reader.add_plain(index, found.left[index : ends[index]], keep):
            read_until = ends[index]
        elif message is not TAKEN_OUT:
            reader.read(index, message)
    if not reader.is_readable:
        raise InvalidHistory("The chat could not be read: it has no message.")
    reader.add_instructions()
    return History(
        reader.turns,
        reader.repairs,
        reader.question,
        tuple(commands),
        found.asked,
        reader.holds_details,
        tuple(reader.others),
    )


def read_messages(
    messages: Sequence[HostMessage], *, first_index: int, others: Sequence[Any] = ()
) -> History:
    """Read messages that go on with a turn; the first one has this index in the chat, `others` stand before it."""
    reader = _Reader(others=others)
    for index, message in enumerate(messages, first_index):
        reader.read(index, message)
    return History(reader.turns, reader.repairs, others=tuple(reader.others))


class PlainTurn(list[Entry]):
    """A turn of texts alone behind others, which is read and built the same whatever stands around it.

    It is kept: nobody changes it. `items` are those that its entries become, none until it was built.
    """

    items: Sequence[Item] = ()


def _read_plain(turn: Mapping[str, Any]) -> PlainTurn | None:
    """Read the messages of a turn by themselves; None where more than their texts counts."""
    messages = turn["messages"]
    for message in messages:
        text = message.get("content")
        if message.get("role") not in ("user", "assistant") or not isinstance(text, str) or not text:
            return None
        if any(map(message.get, _NOT_PLAIN)) or any(each in text for each in _MARKS) or may_hold_blocks(text):
            return None
    reader = _Reader()
    for index, message in enumerate(messages, turn["index"]):
        reader.read(index, message)
    return None if reader.repairs else PlainTurn(reader.turns[0])


class _Reader:
    """The turns so far, and the instructions held back until the next user message, or the first of all."""

    def __init__(self, without_items: Iterable[str] = (), others: Sequence[Any] = ()) -> None:
        self.turns: list[list[Entry]] = [[]]
        self.others = [*others]
        self.holds_details = False
        self.repairs: list[Repair] = []
        self.question: UserMessage | None = None
        self.is_readable = False
        self._without_items = Counter(without_items)
        self._quoted: set[str] = set()
        self._searched = 0
        self._has_commentary = False
        self._instructions: list[tuple[str, Origin]] = []

    def add_plain(self, index: int, messages: Sequence[Any], keep: Keep) -> bool:
        """Add a turn that begins with a user's message at an index, if it is plain; return whether it was."""
        if not self.question or self._instructions or not all(isinstance(each, dict) for each in messages):
            return False
        turn = once(_read_plain, keep({"turn": len(self.turns), "index": index, "messages": messages}))
        if turn is None or not isinstance(turn[0], UserMessage):
            return False
        self.others.append(messages[0]["content"])
        self._has_commentary, self.question = False, turn[0]
        self.turns.append(turn)
        return True

    def read(self, index: int, message: Any) -> None:
        if not isinstance(message, dict):
            self._repair("message", Origin(index, "unknown"), f"not an object: {type(message).__name__}")
            return
        self.is_readable = True
        origin = Origin(index, as_text(message.get("role")) or "unknown")
        if origin.role in _ANSWERING and self.turns == [[]]:
            self.add_instructions()
        handler = _ROLES.get(origin.role)
        if handler is None:
            self._repair("message", origin, "unknown role, read as the user's")
        (handler or _Reader.user)(self, message, origin)

    def instruction(self, message: HostMessage, origin: Origin) -> None:
        self.others.append(message.get("content"))
        parts = read_content(message.get("content"))
        text = "\n".join(part["text"] if part["type"] == "input_text" else "[part omitted]" for part in parts)
        if text:
            self._instructions.append((text, origin))

    def user(self, message: HostMessage, origin: Origin) -> None:
        """A user message begins a turn, unless the host made it to send images of tools."""
        self.others.append(message.get("content"))
        parts = read_content(message.get("content"))
        if self.turns[-1] and isinstance(message.get("content"), list) and _are_tool_images(parts):
            self.turns[-1] = [*self.turns[-1], ToolImages(tuple(parts), origin)]
            return
        if self.question:
            self.turns.append([])
        self._has_commentary = False
        self.add_instructions()
        text = "" if message is NO_QUESTION else EMPTY_MESSAGE
        self.question = UserMessage(tuple(parts) or (text_part(text),), origin)
        self.turns[-1].append(self.question)

    def assistant(self, message: HostMessage, origin: Origin) -> None:
        """An answer: as it is, or unfolded when the host shows its stored items."""
        output = as_list(message.get("output"))
        unfolded = unfold_output(output) if output else []
        if not unfolded:
            self.answer(message, origin)
        for number, part in enumerate(unfolded):
            _UNFOLDED_ROLES[part["role"]](self, part, Origin(origin.message, part["role"], part=number))

    def tool(self, message: HostMessage, origin: Origin) -> None:
        self.others.append(message.get("content"))
        call_id = read_call_id(message.get("tool_call_id"))
        if not call_id:
            self._repair("output", origin, "names no call")
            return
        self.turns[-1].append(ToolResult(call_id, read_output(message.get("content")), "host", origin))

    def answer(self, message: HostMessage, origin: Origin) -> None:
        """An answer as the host shows it to a model: references, text with markers, calls."""
        references = read_references(message.get("reasoning_details"))
        calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
        call_ids = [read_call_id(call.get("id")) for call in calls]
        phase = self._phase(message, call_ids)
        content, refusal = message.get("content"), message.get("refusal")
        texts = [content] if isinstance(content, str) else [_as_text(part) for part in read_content(content)]
        said = filter(None, (*texts, as_text(refusal)))
        for inserted in insert_references(said, references) if references else said:
            if not isinstance(inserted, Reference):
                self._add_text(inserted, origin, phase)
            elif inserted.ulid:
                marked = origin._replace(marker=inserted.ulid)
                self.turns[-1].append(ArtifactRef(inserted.ulid, marked))
            else:
                phase = inserted.phase or None
        for call_id, call in zip(call_ids, calls, strict=True):
            function = call.get("function")
            if call_id and isinstance(function, dict):
                name, arguments = function.get("name"), function.get("arguments")
                self._add_call(_call(call_id, name, arguments, "host", origin))
            else:
                self._repair("call", origin, "not a call that could be paired")

    def _phase(self, message: HostMessage, call_ids: Sequence[str]) -> str | None:
        """The phase of a message's text, unless a reference says another.

        Calls name that of the text before them; where they have named commentary, text without calls is the answer.
        """
        phases = [name.phase for name in map(read_call_name, call_ids) if name and name.phase]
        named = phases[0] if phases else None
        self._has_commentary = self._has_commentary or named == "commentary"
        derived = "final_answer" if self._has_commentary and not call_ids else None
        phase = as_text(message.get("phase"))
        return phase if phase in PHASES else named or derived

    def _add_call(self, call: ToolCall) -> None:
        if name := read_call_name(call.call_id):
            marked = call.origin._replace(marker=name.ulid)
            self.turns[-1].append(ArtifactRef(name.ulid, marked, of_call=True))
        self.turns[-1].append(call)

    def _add_text(self, text: str, origin: Origin, phase: str | None) -> None:
        """Take text, which is that of an answer without items if the host has one of just these words."""
        if not may_hold_blocks(text):
            self._add_marked(text, origin, phase)
            return
        is_folded = self._without_items[text] > 0
        self._without_items[text] -= is_folded
        self.holds_details = self.holds_details or (not is_folded and holds_details(text))
        quoted = self._quoted_before() if is_folded else ()
        for part in split_at_folds(unfold(text, with_details=is_folded, quoted=quoted), origin, phase):
            if isinstance(part, AssistantText):
                self._add_marked(part.text, origin, phase)
            elif isinstance(part, ToolCall):
                self._add_call(part)
            else:
                self.turns[-1].append(part)

    def _add_marked(self, text: str, origin: Origin, phase: str | None) -> None:
        """What reads like a marker where it was quoted from what is nobody's answer is text."""
        text = clean_text(text)
        quoted = self._quoted_before().intersection(all_ulids(text)) if MARKER_END in text else ()
        self.turns[-1] += split_at_markers(text, origin, phase, quoted=quoted)

    def _quoted_before(self) -> set[str]:
        """The ULIDs and ids of calls in the messages so far that are nobody's answer: of markers and blocks."""
        for content in self.others[self._searched :]:
            for part in content if isinstance(content, list) else [content]:
                text = as_text(as_object(part).get("text")) or as_text(part)
                self._quoted.update(all_ulids(text), quoted_calls(text))
        self._searched = len(self.others)
        return self._quoted

    def add_instructions(self) -> None:
        if self._instructions:
            texts, origins = zip(*self._instructions, strict=True)
            is_developer = all(origin.role == "developer" for origin in origins)
            self.turns[-1].append(Instruction(texts, "developer" if is_developer else "system", origins[0]))
            self._instructions = []

    def _repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        self.repairs.append(Repair(kind, origin, detail))


_ROLES: Mapping[str, Callable[[_Reader, HostMessage, Origin], None]] = {
    "system": _Reader.instruction,
    "developer": _Reader.instruction,
    "user": _Reader.user,
    "assistant": _Reader.assistant,
    "tool": _Reader.tool,
}
_UNFOLDED_ROLES = {**_ROLES, "assistant": _Reader.answer}


def split_at_markers(
    text: str,
    origin: Origin,
    phase: str | None,
    ulids: Container[str] | None = None,
    quoted: Collection[str] = (),
) -> Iterator[AssistantText | ArtifactRef]:
    """Divide assistant text as `split_text_by_markers` does; what is blank between markers is omitted.

    What is `quoted` is no marker in code either.
    """
    for raw, found in split_text_by_markers(text, ulids, quoted):
        for ulid in found:
            yield ArtifactRef(ulid, Origin(origin.message, origin.role, ulid, origin.part))
        if not found and not raw.isspace():
            in_code = tuple([ulid for ulid in code_ulids(raw) if ulid not in quoted])
            yield AssistantText(raw, origin, phase, in_code)


def split_at_folds(
    unfolded: Iterable[Piece], origin: Origin, phase: str | None
) -> Iterator[AssistantText | ToolCall | ToolResult]:
    """Turn what `unfold` returns into entries. Neighbouring blocks are one round: its calls come before its outputs."""
    for is_text, pieces in groupby(unfolded, key=lambda piece: isinstance(piece, str)):
        if is_text:
            yield from (AssistantText(piece, origin, phase) for piece in pieces if isinstance(piece, str))
            continue
        calls = [call for call in pieces if isinstance(call, FoldedCall)]
        for call in calls:
            yield _call(call.call_id, call.name, call.arguments, "folded", origin)
        for call in calls:
            if call.result is not None:
                yield ToolResult(call.call_id, read_output(call.result), "folded", origin)


def _call(call_id: str, name: Any, arguments: Any, source: CallSource, origin: Origin) -> ToolCall:
    return ToolCall(call_id, clean_text(as_text(name)), read_arguments(arguments), source, origin)


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
