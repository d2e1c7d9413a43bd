"""A turn in the making: its places in order, and what each of them may become.

Owns the values that `turns` notes and `settling` turns into items.

Notes a turn entry by entry: markers are filled, calls find their outputs, each thing gets its place.

Owns what every kind of entry and artifact becomes in a draft. What is sent of it is settled afterwards,
when the whole turn is known.

Settles a noted turn: judges its reasoning, leaves out what is half, and writes the items.

Owns the rules that need the whole turn: a call is sent only with its output, reasoning only with what it
led to, and a provider's own item ids only where the reasoning that they are paired with is sent too.
Nothing here depends on later turns, so an earlier turn's bytes never change when a chat goes on.

From a read history and its artifacts to the `input[]` of a request.

Two pure halves for whoever loads artifacts in between: `read_history` finds the markers, `build_input`
fills them. `transform_messages_to_input` joins the halves around one call of a loader, and puts the summaries that
others made back in front. The same messages,
artifacts and options give the same bytes, and what comes later never changes what an earlier turn became.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

from ..errors import InvalidHistory
from ..responses.items import AssistantMessage, InputMessage, InputPart, Item, is_message
from ..responses.tool_names import wire_name
from .artifacts import Artifacts, MissingArtifact, normalize_persisted_item
from .entries import (
    ArtifactRef,
    AssistantText,
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
from .external_summaries import SUMMARY_HEADING, unique_summaries
from .instructions import Instructed, instruct, split_user_parts
from .parts import text_part
from .reading import read_history
from .reasoning import ANTHROPIC, FORMAT_FAMILIES, family, unusable
from .tool_calls import (
    CALL_TYPES,
    OUTPUT_TYPES,
    CallIds,
    Fields,
    ToolCallMatcher,
    ToolCallPair,
    ToolCallRecord,
)

PlaceholderKind = Literal["ready", "text", "reasoning", "opaque", "call", "output", "images"]


@dataclass(frozen=True, slots=True)
class BuildRules:
    """What holds for all turns of a request.

    `target` is the family of the model that will read it, None when unknown. The instructions and the latest user
    message come with the items that they become, since the host mixes into these.
    """

    artifacts: Artifacts
    target: str | None = None
    strip_reasoning: bool = False
    instructions: Mapping[Instruction, Sequence[InputMessage]] = field(default_factory=dict)
    latest_user: UserMessage | None = None
    latest_items: Sequence[InputMessage] = ()


@dataclass(slots=True)
class Placeholder:
    """A place in a turn: `content` is its item, text or parts; `dropped` says why it stays empty."""

    kind: PlaceholderKind
    origin: Origin
    content: Any = None
    pair: ToolCallPair | None = None
    phase: str | None = None
    dropped: str | None = None


@dataclass(slots=True)
class TurnDraft:
    """The places of one turn. `missing` and `repairs` are those of the whole request, for adding to."""

    number: int
    missing: dict[str, str | None]
    repairs: list[Repair]
    slots: list[Placeholder] = field(default_factory=list)
    has_holes: bool = False

    def repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        """Remember what was mended."""
        self.repairs.append(Repair(kind, origin, detail))


@dataclass(slots=True)
class InputBuilder:
    """The items of a request as far as they are written, and for each its turn and origin."""

    items: list[Item] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    replayed: list[tuple[str, int]] = field(default_factory=list)
    """The ULID and turn of each reasoning item."""


_LOST_IMAGE = "[A stored image is no longer available.]"
_LOST_ITEM = "[A stored item is no longer available.]"
_LOST_NOTES: Mapping[str, str | None] = {
    "reasoning": None,
    "function_call": None,
    "message": None,
    "function_call_output": "[The stored result of a tool call is no longer available.]",
    "image_generation_call": _LOST_IMAGE,
    "openrouter:image_generation": _LOST_IMAGE,
}
"""What stands for a lost artifact. Nothing for what was never shown, or what the host tells in its own
words.
"""


def user_message(parts: Sequence[InputPart]) -> InputMessage:
    """Make the item of what a user says."""
    return {"type": "message", "role": "user", "content": list(parts)}


def collect_turn(draft: TurnDraft, entries: Sequence[Entry], rules: BuildRules) -> None:
    """Note all entries of a turn in its draft."""
    noter = _Collector(draft, rules)
    for entry in entries:
        _ENTRIES[type(entry)](noter, entry)


class _Collector:
    """The draft so far, its pairs, and a phase that waits for its text."""

    def __init__(self, draft: TurnDraft, rules: BuildRules) -> None:
        self.draft = draft
        self._rules = rules
        self._pairs = ToolCallMatcher()
        self._phase: tuple[tuple[int, int], str] | None = None

    def instruction(self, entry: Instruction) -> None:
        self._ready(self._rules.instructions[entry], entry.origin)

    def user(self, entry: UserMessage) -> None:
        is_latest = entry is self._rules.latest_user
        self._ready(self._rules.latest_items if is_latest else [user_message(entry.parts)], entry.origin)

    def images(self, entry: ToolImages) -> None:
        self.draft.slots.append(Placeholder("images", entry.origin, entry.parts))

    def said(self, entry: AssistantText) -> None:
        phase = entry.phase
        if self._phase and self._phase[0] == entry.origin.place:
            phase, self._phase = self._phase[1], None
        self.draft.slots.append(Placeholder("text", entry.origin, entry.text, phase=phase))

    def called(self, entry: ToolCall) -> None:
        name = wire_name(entry.name)
        if name != entry.name:
            self.draft.repair("call_name", entry.origin, f"{entry.name!r} is sent as {name}")
        call = {"type": "function_call", "call_id": entry.call_id, "name": name, "arguments": entry.arguments}
        self._place_call(self._pairs.add_call(ToolCallRecord(call, entry.origin), entry.source), entry.origin)

    def answered(self, entry: ToolResult) -> None:
        output = {"type": "function_call_output", "call_id": entry.call_id, "output": entry.output}
        self._place_output(
            self._pairs.add_output(ToolCallRecord(output, entry.origin), entry.source), entry.origin
        )

    def marked(self, entry: ArtifactRef) -> None:
        loaded: Any = self._rules.artifacts.get(entry.ulid)
        if loaded is None or isinstance(loaded, MissingArtifact):
            self._lose(entry, loaded.kind if loaded else None)
            return
        raw, writer = (loaded, None) if isinstance(loaded, dict) else (loaded.item, family(loaded.model))
        item: Any = normalize_persisted_item(raw)
        if item is None:
            kind = raw.get("type") if isinstance(raw, dict) else None
            self.draft.repair("artifact", entry.origin, f"not a valid item of type {kind}")
            self._lose(entry, kind if isinstance(kind, str) else None)
            return
        if item is not raw:
            self.draft.repair("artifact", entry.origin, f"fields of the {item['type']} mended")
        _ARTIFACTS.get(item["type"], _Collector.opaque)(self, item, writer, entry.origin)

    def phase(self, item: Fields, _writer: str | None, origin: Origin) -> None:
        """A stored message lends its phase to the text that follows; the text itself is the chat's."""
        self._phase = (origin.place, item["phase"])

    def reasoning(self, item: Fields, writer: str | None, origin: Origin) -> None:
        why = unusable(item, writer=writer, target=self._rules.target)
        if self._rules.strip_reasoning:
            why = "left out on request"
        self.draft.slots.append(Placeholder("reasoning", origin, item, dropped=why))

    def artifact_call(self, item: Fields, writer: str | None, origin: Origin) -> None:
        if "id" in item and self._is_foreign(writer):
            item = {key: value for key, value in item.items() if key != "id"}
        self._place_call(self._pairs.add_call(ToolCallRecord(item, origin), "artifact"), origin)

    def artifact_output(self, item: Fields, _writer: str | None, origin: Origin) -> None:
        self._place_output(self._pairs.add_output(ToolCallRecord(item, origin), "artifact"), origin)

    def opaque(self, item: Fields, writer: str | None, origin: Origin) -> None:
        """Any other item; what another family of models has sealed, the provider refuses."""
        is_refused = "encrypted_content" in item and self._is_foreign(writer)
        why = "sealed by another family of models" if is_refused else None
        self.draft.slots.append(Placeholder("opaque", origin, item, dropped=why))

    def _ready(self, items: Sequence[InputMessage], origin: Origin) -> None:
        for item in items:
            self.draft.slots.append(Placeholder("ready", origin, item))

    def _place_call(self, pair: ToolCallPair | None, origin: Origin) -> None:
        """A call stands where it is first told of."""
        if pair is None:
            self.draft.repair("double", origin, "the call was told before")
        elif len(pair.calls) == 1:
            self.draft.slots.append(Placeholder("call", origin, pair=pair))

    def _place_output(self, pair: ToolCallPair | None, origin: Origin) -> None:
        """An output stands where it is first told of."""
        if pair is None:
            self.draft.repair("double", origin, "the output was told before")
        elif len(pair.outputs) == 1:
            self.draft.slots.append(Placeholder("output", origin, pair=pair))

    def _lose(self, entry: ArtifactRef, kind: str | None) -> None:
        """An artifact of unknown kind counts as reasoning, which is lost in silence."""
        self.draft.missing[entry.ulid] = kind
        self.draft.has_holes = True
        note = _LOST_NOTES.get(kind or "reasoning", _LOST_ITEM)
        if kind in {None, "reasoning"}:
            self.draft.slots.append(Placeholder("reasoning", entry.origin, {}, dropped="is missing"))
        elif note:
            self.draft.slots.append(Placeholder("text", entry.origin, note))

    def _is_foreign(self, writer: str | None) -> bool:
        return writer != self._rules.target and None not in {writer, self._rules.target}


_ENTRIES: Mapping[type[Entry], Callable[[_Collector, Any], None]] = {
    Instruction: _Collector.instruction,
    UserMessage: _Collector.user,
    ToolImages: _Collector.images,
    AssistantText: _Collector.said,
    ArtifactRef: _Collector.marked,
    ToolCall: _Collector.called,
    ToolResult: _Collector.answered,
}
_ARTIFACTS: Mapping[str, Callable[[_Collector, Fields, str | None, Origin], None]] = {
    "message": _Collector.phase,
    "reasoning": _Collector.reasoning,
    **dict.fromkeys(OUTPUT_TYPES, _Collector.artifact_call),
    **dict.fromkeys(CALL_TYPES, _Collector.artifact_output),
}


_ID_HEX_CHARS = 32
_DANGLES = "what it led to is not sent"


def emit_turn(draft: TurnDraft, rules: BuildRules, written: InputBuilder, ids: CallIds) -> None:
    """Write the items of a noted turn; what is left out is noted among the draft's repairs."""
    reasoning = [slot for slot in draft.slots if slot.kind == "reasoning"]
    if reasoning:
        _judge_reasoning(reasoning, rules)
        _drop_dangling_reasoning(draft.slots)
    writer = _Emitter(draft, written, ids)
    for slot in draft.slots:
        if slot.dropped:
            writer.leave_out(slot)
        else:
            _WRITERS[slot.kind](writer, slot)


def assistant_message(text: str, *, key: str, phase: str | None = None) -> AssistantMessage:
    """Make the item of what the assistant says; its id follows from the text and its place, the key."""
    digest = hashlib.sha256(f"{key}:{text}".encode()).hexdigest()[:_ID_HEX_CHARS]
    message: AssistantMessage = {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{digest}",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if phase:
        message["phase"] = phase
    return message


def _judge_reasoning(reasoning: Sequence[Placeholder], rules: BuildRules) -> None:
    """Anthropic verifies a turn's thinking as a whole: one unsendable piece takes the others along."""
    is_whole = not any(slot.dropped for slot in reasoning)
    if is_whole or not (rules.target == ANTHROPIC or any(map(_is_anthropic, reasoning))):
        return
    for slot in reasoning:
        slot.dropped = slot.dropped or "other reasoning of the turn cannot be sent"


def _is_anthropic(slot: Placeholder) -> bool:
    return FORMAT_FAMILIES.get(slot.content.get("format") or "") == ANTHROPIC


def _drop_dangling_reasoning(slots: Sequence[Placeholder]) -> None:
    """Reasoning goes with what it led to: a call that is not sent, or nothing at all, takes it along."""
    run: list[Placeholder] = []
    is_broken = False
    for slot in slots:
        if slot.kind == "reasoning" and not slot.dropped:
            if is_broken:
                _drop(run)
                run, is_broken = [], False
            run.append(slot)
        elif slot.pair and slot.kind == "call" and not slot.pair.is_whole:
            is_broken = bool(run)
        elif slot.kind in {"text", "call", "opaque"} and not slot.dropped:
            run, is_broken = [], False
    _drop(run)


def _drop(reasoning: Sequence[Placeholder]) -> None:
    for slot in reasoning:
        slot.dropped = _DANGLES


class _Emitter:
    """Writes a judged turn."""

    def __init__(self, draft: TurnDraft, written: InputBuilder, ids: CallIds) -> None:
        self._draft = draft
        self._written = written
        self._ids = ids
        self._keeps_ids = False
        self._misses_reasoning = False
        self._messages = 0
        self._images: set[str] = set()

    def leave_out(self, slot: Placeholder) -> None:
        """Item ids after reasoning that cannot be sent would name a pair that is not there."""
        self._draft.repair(
            "reasoning" if slot.kind == "reasoning" else "artifact", slot.origin, slot.dropped or ""
        )
        if slot.kind == "reasoning" and slot.dropped != _DANGLES:
            self._misses_reasoning = True
            self._keeps_ids = False

    def ready(self, slot: Placeholder) -> None:
        self._add(slot.content, slot.origin)

    def text(self, slot: Placeholder) -> None:
        key = f"{self._draft.number}.{self._messages}"
        self._messages += 1
        self._add(assistant_message(slot.content, key=key, phase=slot.phase), slot.origin)

    def reasoning(self, slot: Placeholder) -> None:
        self._keeps_ids = not self._misses_reasoning
        self._add(slot.content, slot.origin)
        self._written.replayed.append((cast("str", slot.origin.marker), self._draft.number))

    def opaque(self, slot: Placeholder) -> None:
        """An item whose id is required gets one that points to no reasoning."""
        item = slot.content
        if "id" in item and not self._keeps_ids:
            prefix = item["id"].partition("_")[0]
            digest = hashlib.sha256(f"{self._draft.number}:{item['id']}".encode()).hexdigest()
            item = {**item, "id": f"{prefix[:8]}_{digest[:_ID_HEX_CHARS]}"}
        self._add(item, slot.origin)

    def call(self, slot: Placeholder) -> None:
        pair = cast("ToolCallPair", slot.pair)
        if not pair.is_whole:
            self._leave_out_call(pair)
            return
        call = pair.call
        pair.sent_as = call_id = self._ids.settle(call.fields["call_id"])
        if call_id != call.fields["call_id"]:
            self._draft.repair("call_id", call.origin, f"{call.fields['call_id']!r} is sent as {call_id}")
        fields = call.fields if self._keeps_ids else _without_id(call.fields)
        self._add(_with_call_id(fields, call_id), call.origin)
        if pair.output_waits:
            self._output(pair, call_id)

    def output(self, slot: Placeholder) -> None:
        pair = cast("ToolCallPair", slot.pair)
        if not pair.is_whole:
            self._draft.repair("output", slot.origin, "an output without its call")
        elif pair.sent_as:
            self._output(pair, pair.sent_as)
        else:
            self._draft.repair("output", slot.origin, "an output before its call")
            pair.output_waits = True

    def images(self, slot: Placeholder) -> None:
        """Images that an output of the turn holds already are not sent twice."""
        parts = [part for part in slot.content if part.get("image_url") not in self._images]
        if any(part["type"] == "input_image" for part in parts):
            self._add(user_message(parts), slot.origin)

    def _output(self, pair: ToolCallPair, call_id: str) -> None:
        output = pair.output
        self._add(_with_call_id(output.fields, call_id), output.origin)
        if output.fields["type"] == "function_call_output":
            self._images.update(_image_urls(output.fields["output"]))

    def _leave_out_call(self, pair: ToolCallPair) -> None:
        """A stored call whose stored result is lost is named; any other half is left out."""
        call = pair.call
        self._draft.repair("call", call.origin, "a call without its output")
        name = call.fields.get("name")
        if call.origin.marker and name and self._draft.has_holes:
            note = f"[The result of the tool {name} is no longer available.]"
            self.text(Placeholder("text", call.origin, note))

    def _add(self, item: Any, origin: Origin) -> None:
        self._written.items.append(item)
        self._written.turns.append(self._draft.number)
        self._written.origins.append(origin)


_WRITERS: Mapping[PlaceholderKind, Callable[[_Emitter, Placeholder], None]] = {
    "ready": _Emitter.ready,
    "text": _Emitter.text,
    "reasoning": _Emitter.reasoning,
    "opaque": _Emitter.opaque,
    "call": _Emitter.call,
    "output": _Emitter.output,
    "images": _Emitter.images,
}


def _without_id(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key != "id"} if "id" in fields else fields


def _with_call_id(fields: Fields, call_id: str) -> Fields:
    return fields if fields["call_id"] == call_id else {**fields, "call_id": call_id}


def _image_urls(output: str | Sequence[InputPart]) -> Iterator[str]:
    if not isinstance(output, str):
        yield from (part["image_url"] for part in output if part["type"] == "input_image")


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
    written, ids = InputBuilder(), CallIds()
    missing: dict[str, str | None] = {}
    repairs = list(history.repairs)
    for number, entries in enumerate(history.turns):
        draft = TurnDraft(number, missing, repairs)
        collect_turn(draft, entries, rules)
        emit_turn(draft, rules, written, ids)
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
        summaries=unique_summaries(
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
) -> BuildRules:
    """What the host mixes into the system prompt and the latest user message has its own place."""
    latest = _latest_user(history)
    volatile = [message for told in instructed.values() for message in told.volatile]
    parts = split_user_parts(latest.parts, options.base_user_prompt) if latest else []
    return BuildRules(
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
