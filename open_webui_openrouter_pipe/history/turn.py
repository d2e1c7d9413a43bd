"""One turn's entries become its items: artifacts filled in, calls paired with their results, reasoning judged.

Owns the rules that need the whole turn: a call is sent only with its output, reasoning only with what it led to, and a
provider's own item ids only where the reasoning that they are paired with is sent too. Entries are collected first and
written once the turn is complete. Nothing here depends on later turns, so an earlier turn's bytes never change when a
chat goes on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ..responses.items import CALL_TYPES, AssistantMessage, InputMessage, InputPart, Item, kind_of
from ..responses.values import as_object, as_text, reference_of, wire_name
from .artifacts import (
    ANTHROPIC,
    FORMAT_FAMILIES,
    Artifacts,
    MissingArtifact,
    model_family,
    normalize_persisted_item,
    reasoning_problem,
)
from .calls import CallIds, Fields, ToolCallMatcher, ToolCallPair, ToolCallRecord
from .markers import closed_fences, inline_code, is_within, read_call_name
from .parts import read_content, text_part
from .reading import (
    ArtifactRef,
    AssistantText,
    CallSource,
    Entry,
    Instruction,
    Origin,
    Repair,
    RepairKind,
    ToolCall,
    ToolImages,
    ToolResult,
    UserMessage,
)

_IMAGE: Final = re.compile(
    r"!\[[^\[\]\n]{0,400}\]\([ \t]{0,9}"
    r"(?P<address>/api/v1/files/[A-Za-z0-9_-]{1,64}(?:/content)?|"
    r"(?P<inline>(?i:data:image/[a-z0-9.+-]{1,40};base64,)[A-Za-z0-9+/_=-]++))"
    r"(?:[ \t]{1,9}\"[^\"\n]{0,400}\")?[ \t]{0,9}\)"
)


def take_images(text: str) -> tuple[str, list[InputPart]]:
    """Return the text of an answer with references in the place of inline content, and its images in their order."""
    if "!" not in text or "![" not in text:
        return text, []
    blocks, inline = closed_fences(text), inline_code(text)
    pieces: list[str] = []
    images: list[InputPart] = []
    done = 0
    for each in _IMAGE.finditer(text):
        if is_within(each.start(), blocks) or is_within(each.start(), inline):
            continue
        images += read_content([{"type": "image_url", "image_url": {"url": each["address"]}}])
        if each["inline"] and images[-1]["type"] == "input_image":
            pieces += [
                text[done : each.start("inline")],
                f"reference:{reference_of(images[-1]['image_url'])}",
            ]
            done = each.end("inline")
    return "".join([*pieces, text[done:]]), images


_DANGLES = "what it led to is not sent"


@dataclass(frozen=True, slots=True)
class BuildRules:
    """What holds for all turns of a request; `target` is the family of the model, None if unknown."""

    artifacts: Artifacts
    model_id: str | None
    target: str | None
    strip_reasoning: bool


@dataclass(slots=True)
class BuiltTurn:
    """The items of a turn with their origins, and what happened to it. `replayed` are the ULIDs of its reasoning."""

    items: list[Item] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)
    missing: dict[str, MissingArtifact] = field(default_factory=dict)
    repairs: list[Repair] = field(default_factory=list)
    images: list[InputPart] = field(default_factory=list)
    """What the answer shows by Markdown; they are sent behind the turn, once another one follows."""

    def send(self, item: Any, origin: Origin) -> None:
        """Append an item."""
        self.items.append(item)
        self.origins.append(origin)

    def repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        """Note what was repaired."""
        self.repairs.append(Repair(kind, origin, detail))


@dataclass(slots=True)
class Placeholder:
    """A position in a turn: `content` is its item, text or parts; `dropped` says why nothing is sent there."""

    kind: Literal["ready", "text", "reasoning", "opaque", "call", "output", "images"]
    origin: Origin
    content: Any = None
    pair: ToolCallPair | None = None
    phase: str | None = None
    dropped: str | None = None


def build_turn(number: int, entries: Sequence[Entry], rules: BuildRules, call_ids: CallIds) -> BuiltTurn:
    """Build the items of a turn; `call_ids` are those of the turns before it, for all to differ."""
    calls = (entry.call_id for entry in entries if isinstance(entry, ToolCall))
    named_calls = {name.ulid: call_id for call_id in calls if (name := read_call_name(call_id))}
    builder = _TurnBuilder(number, rules, call_ids, named_calls)
    for entry in entries:
        builder.add(entry)
    builder.match_missing_outputs()
    _drop_partial_thinking(builder.placeholders, rules.target)
    _drop_unused_reasoning(builder.placeholders)
    for placeholder in builder.placeholders:
        builder.write(placeholder)
    return builder.built


def input_message(role: Literal["user", "system", "developer"], parts: Sequence[InputPart]) -> InputMessage:
    """Return the item of what a user or an instruction says."""
    return {"type": "message", "role": role, "content": list(parts)}


def assistant_message(text: str, *, key: str, phase: str | None = None) -> AssistantMessage:
    """Return the item of what the assistant says; its id follows from the text and its position, the key."""
    message: AssistantMessage = {
        "type": "message",
        "role": "assistant",
        "id": _derived_id("msg", f"{key}:{text}"),
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if phase:
        message["phase"] = phase
    return message


@dataclass(slots=True)
class _TurnBuilder:
    """First collects a turn's placeholders and its pairs of calls and outputs; then writes them as items.

    `named_calls` are the ids of the turn's calls that name their artifacts, by these.
    """

    number: int
    rules: BuildRules
    call_ids: CallIds
    named_calls: Mapping[str, str]
    built: BuiltTurn = field(default_factory=BuiltTurn)
    placeholders: list[Placeholder] = field(default_factory=list)
    _matcher: ToolCallMatcher = field(default_factory=ToolCallMatcher)
    _phase: tuple[tuple[int, int], str] | None = None
    """Of the text that follows in this message."""
    _missing_outputs: list[Placeholder] = field(default_factory=list)
    _results_lost: list[ToolCallPair] = field(default_factory=list)
    """The calls whose stored outputs are missing."""
    _keeps_ids: bool = False
    _misses_reasoning: bool = False
    _messages: int = 0
    _image_urls: set[str] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Take the next entry of the turn."""
        origin = entry.origin
        match entry:
            case AssistantText():
                phase = entry.phase
                if self._phase and self._phase[0] == origin.message_part:
                    phase, self._phase = self._phase[1], None
                self.placeholders.append(Placeholder("text", origin, entry.text, phase=phase))
            case ToolCall():
                if (name := wire_name(entry.name)) != entry.name:
                    self.built.repair("call_name", origin, f"{entry.name!r} is sent as {name}")
                named = {"call_id": entry.call_id, "name": name, "arguments": entry.arguments}
                self._add_call({"type": "function_call", **named}, entry.source, origin)
            case ToolResult():
                fields = {"type": "function_call_output", "call_id": entry.call_id, "output": entry.output}
                self._add_output(fields, entry.source, origin)
            case ArtifactRef():
                self._add_artifact(entry)
            case UserMessage():
                self.placeholders.append(Placeholder("ready", origin, input_message("user", entry.parts)))
            case ToolImages():
                self.placeholders.append(Placeholder("images", origin, entry.parts))
            case Instruction():
                message = input_message(entry.role, [text_part("\n\n".join(entry.texts))])
                self.placeholders.append(Placeholder("ready", origin, message))

    def _add_artifact(self, entry: ArtifactRef) -> None:
        loaded: Any = self.rules.artifacts.get(entry.ulid)
        if loaded is None or isinstance(loaded, MissingArtifact):
            self._add_missing(entry, loaded or MissingArtifact())
            return
        raw, model = (loaded, None) if isinstance(loaded, dict) else (loaded.item, loaded.model)
        item: Any = normalize_persisted_item(raw)
        if item is None:
            kind = as_text(as_object(raw).get("type")) or None
            self.built.repair("artifact", entry.origin, f"not a valid item of type {kind}")
            self._add_missing(entry, MissingArtifact(kind, "unreadable"))
            return
        if item is not raw:
            self.built.repair("artifact", entry.origin, f"fields of the {item['type']} repaired")
        is_of_model = model is not None and model == self.rules.model_id
        self._add_item(item, self.rules.target if is_of_model else model_family(model), entry.origin)

    def _add_item(self, item: Fields, writer: str | None, origin: Origin) -> None:
        """A stored message lends its phase to the text that follows; the text itself is the chat's."""
        target = self.rules.target
        is_other_family = bool(writer and target and writer != target)
        match item["type"]:
            case "message":
                self._phase = (origin.message_part, item["phase"])
            case "reasoning":
                problem = reasoning_problem(item, writer=writer, target=target)
                if self.rules.strip_reasoning:
                    problem = "omitted on request"
                self.placeholders.append(Placeholder("reasoning", origin, item, dropped=problem))
            case kind if kind_of(kind).output:
                self._add_call(_without_id(item) if is_other_family else item, "artifact", origin)
            case kind if kind in CALL_TYPES:
                self._add_output(item, "artifact", origin)
            case kind:
                is_refused = is_other_family and "encrypted_content" in item
                problem = "sealed by another family of models" if is_refused else None
                if kind_of(kind).answered_by == "nobody":
                    problem = "waits for an answer that a chat cannot hold"
                self.placeholders.append(Placeholder("opaque", origin, item, dropped=problem))

    def match_missing_outputs(self) -> None:
        """Find the calls whose stored outputs are missing, and drop the notes of those outputs.

        A missing output belongs to the first call up to its own message that has no stored output, if what the host
        shows of it is sent, or a note in the call's position will name the tool. An artifact of unknown kind may have
        been any call's output.
        """
        if not self.built.missing:
            return
        candidates = [
            pair
            for pair in self._matcher.pairs
            if pair.calls and "artifact" not in pair.outputs and (pair.is_whole or _stored_tool_name(pair))
        ]
        for note in self._missing_outputs:
            for pair in candidates:
                if min(call.origin.message_part for call in pair.calls.values()) <= note.origin.message_part:
                    note.dropped = "what the host shows of it, or a note with the tool's name, is sent"
                    self._results_lost.append(pair)
                    candidates.remove(pair)
                    break
        if any(missing.kind is None for missing in self.built.missing.values()):
            self._results_lost += candidates

    def _add_call(self, call: Fields, source: CallSource, origin: Origin) -> None:
        """A call keeps the position where it is first reported."""
        given_id = call["call_id"]
        call_id = given_id if source != "artifact" else self.named_calls.get(origin.marker or "", given_id)
        pair = self._matcher.add_call(ToolCallRecord(_with_call_id(call, call_id), origin), source)
        if pair is None:
            self.built.repair("duplicate", origin, "the same call again")
            return
        if call_id != given_id:
            pair.given_id = given_id
        if len(pair.calls) == 1:
            self.placeholders.append(Placeholder("call", origin, pair=pair))

    def _add_output(self, output: Fields, source: CallSource, origin: Origin) -> None:
        """An output keeps the position where it is first reported."""
        pair = self._matcher.add_output(ToolCallRecord(output, origin), source)
        if pair is None:
            self.built.repair("duplicate", origin, "the same output again")
        elif len(pair.outputs) == 1:
            self.placeholders.append(Placeholder("output", origin, pair=pair))

    def _add_missing(self, entry: ArtifactRef, missing: MissingArtifact) -> None:
        """An artifact of unknown kind counts as reasoning, which is omitted without a note."""
        self.built.missing[entry.ulid] = missing
        if missing.kind in {None, "reasoning"}:
            self.placeholders.append(Placeholder("reasoning", entry.origin, {}, dropped="is missing"))
        elif note := kind_of(missing.kind).missing:
            self.placeholders.append(Placeholder("text", entry.origin, note))
            if missing.kind in CALL_TYPES:
                self._missing_outputs.append(self.placeholders[-1])

    def write(self, placeholder: Placeholder) -> None:
        """Item ids after reasoning that cannot be sent would point to a pair that is not there."""
        content, origin, reason = placeholder.content, placeholder.origin, placeholder.dropped
        match placeholder.kind:
            case kind if reason:
                self.built.repair("reasoning" if kind == "reasoning" else "artifact", origin, reason)
                if kind == "reasoning" and reason != _DANGLES:
                    self._misses_reasoning = True
                    self._keeps_ids = False
            case "text":
                self._write_text(content, origin, placeholder.phase)
            case "reasoning":
                self._keeps_ids = not self._misses_reasoning
                self.built.send(content, origin)
                self.built.replayed.append(cast("str", origin.marker))
            case "call":
                self._write_call(cast("ToolCallPair", placeholder.pair))
            case "output":
                self._write_first_output(cast("ToolCallPair", placeholder.pair), origin)
            case "images":  # those that an output of the turn holds already are not sent twice
                parts = [part for part in content if part.get("image_url") not in self._image_urls]
                if any(part["type"] == "input_image" for part in parts):
                    self.built.send(input_message("user", parts), origin)
            case "opaque" if "id" in content and not self._keeps_ids:
                # Its id is required: it gets one that points to no reasoning.
                new_id = _derived_id(content["id"].partition("_")[0][:8], f"{self.number}:{content['id']}")
                self.built.send({**content, "id": new_id}, origin)
            case _:
                self.built.send(content, origin)

    def _write_text(self, text: str, origin: Origin, phase: str | None = None) -> None:
        key = f"{self.number}.{self._messages}"
        self._messages += 1
        text, images = take_images(text)
        self.built.images += images
        self.built.send(assistant_message(text, key=key, phase=phase), origin)

    def _write_call(self, pair: ToolCallPair) -> None:
        fields, origin = pair.call
        if not pair.is_whole:
            self.built.repair("call", origin, "a call without its output")
            name = _stored_tool_name(pair)
            if name and any(pair is lost for lost in self._results_lost):
                self._write_text(f"[The result of the tool {name} is no longer available.]", origin)
            return
        given_id = pair.given_id or fields["call_id"]
        pair.sent_as = call_id = self.call_ids.reserve(given_id)
        if call_id != given_id:
            self.built.repair("call_id", origin, f"{given_id!r} is sent as {call_id}")
        self.built.send(_with_call_id(fields if self._keeps_ids else _without_id(fields), call_id), origin)
        if pair.output_came_first:
            self._write_output(pair, call_id)

    def _write_first_output(self, pair: ToolCallPair, origin: Origin) -> None:
        if not pair.is_whole:
            self.built.repair("output", origin, "an output without its call")
        elif pair.sent_as:
            self._write_output(pair, pair.sent_as)
        else:
            self.built.repair("output", origin, "an output before its call")
            pair.output_came_first = True

    def _write_output(self, pair: ToolCallPair, call_id: str) -> None:
        fields, origin = pair.output
        self.built.send(_with_call_id(fields, call_id), origin)
        if fields["type"] == "function_call_output" and not isinstance(fields["output"], str):
            parts = (part for part in fields["output"] if part["type"] == "input_image")
            self._image_urls.update(part["image_url"] for part in parts)


def _drop_partial_thinking(placeholders: Sequence[Placeholder], target: str | None) -> None:
    """Anthropic verifies a turn's thinking as a whole: one unsendable piece takes the others along."""
    reasoning = [placeholder for placeholder in placeholders if placeholder.kind == "reasoning"]
    if not any(placeholder.dropped for placeholder in reasoning):
        return
    formats = {FORMAT_FAMILIES.get(placeholder.content.get("format") or "") for placeholder in reasoning}
    if ANTHROPIC in {target, *formats}:
        for placeholder in reasoning:
            placeholder.dropped = placeholder.dropped or "other reasoning of the turn cannot be sent"


def _drop_unused_reasoning(placeholders: Sequence[Placeholder]) -> None:
    """Reasoning goes with what it led to: a call that is not sent, or nothing at all, takes it along."""
    is_used, is_followed = False, False
    for placeholder in reversed(placeholders):
        if placeholder.dropped:
            continue
        if placeholder.kind == "reasoning":
            placeholder.dropped = None if is_used else _DANGLES
            is_followed = True
        elif placeholder.kind == "call" and placeholder.pair and not placeholder.pair.is_whole:
            is_used = is_used and not is_followed  # what comes later has reasoning of its own
        elif placeholder.kind in {"text", "call", "opaque"}:
            is_used, is_followed = True, False


def _derived_id(prefix: str, source: str) -> str:
    return f"{prefix}_{hashlib.sha256(source.encode()).hexdigest()[:32]}"


def _stored_tool_name(pair: ToolCallPair) -> str:
    """The name of the tool if our artifact has the call."""
    return as_text(pair.call.fields.get("name")) if pair.call.origin.marker else ""


def _without_id(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key != "id"} if "id" in fields else fields


def _with_call_id(fields: Fields, call_id: str) -> Fields:
    return fields if fields["call_id"] == call_id else {**fields, "call_id": call_id}
