"""One turn's entries become items of the input: artifacts filled in, calls paired with results, reasoning judged.

Owns the rules that need the whole turn: a call is sent only with its output, reasoning only with what it led to, and a
provider's own item ids only where the reasoning that they are paired with is sent too. Nothing here depends on later
turns, so an earlier turn's bytes never change when a chat goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, Literal, cast

from ..conversation.conversation import Conversation, build_conversation
from ..conversation.slash import ChatCommand
from ..responses.items import (
    CALL_TYPES,
    AssistantMessage,
    InputMessage,
    InputPart,
    Item,
    kind_of,
    picture_address,
)
from ..responses.values import Kept, as_object, as_text, wire_name
from .artifacts import (
    ANTHROPIC,
    FORMAT_FAMILIES,
    OPENAI,
    PROVIDER_BOUND,
    ROUTER,
    Artifacts,
    LoadedArtifact,
    MissingArtifact,
    Reader,
    StoredItem,
    maker_of,
    normalize_persisted_item,
)
from .calls import CallIds, Fields, ToolCallMatcher, ToolCallPair, ToolCallRecord
from .markers import read_call_name
from .parts import take_images, text_part
from .reading import (
    ArtifactRef,
    AssistantText,
    CallSource,
    Entry,
    Instruction,
    Origin,
    PlainTurn,
    Repair,
    RepairKind,
    ToolCall,
    ToolImages,
    ToolResult,
    UserMessage,
)
from .steady import SteadyPrompt

_DANGLES = "what it led to is not sent"
_BY_TURN = frozenset(FORMAT_FAMILIES.values()) - {OPENAI}


@dataclass(slots=True)
class BuiltHistory:
    """The input of a chat, and what is known about it; turn by turn it is written.

    `items` stand as they are sent: first `instruction_count` instructions, then the turns, with the `volatile` ones
    (indexes of items) before the current turn. They may share objects with the artifacts, and are read-only. `missing`
    names the markers whose artifact could not be had. `external_summaries` are what others made of messages that are
    not in the chat any more: oldest first, each once, and not among `items`.
    """

    repairs: list[Repair]
    items: list[Item] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    instruction_count: int = 0
    volatile: range = range(0)
    replayed: dict[str, int] = field(default_factory=dict)
    """The turn of each piece of reasoning among the items, by its ULID."""
    bound: dict[str | None, str] = field(default_factory=dict)
    """By the ULID of reasoning, what the chain before its turn was; a conversation with another goes without."""
    missing: dict[str, MissingArtifact] = field(default_factory=dict)
    external_summaries: tuple[str, ...] = ()
    steady: SteadyPrompt | None = None
    """What the system prompt was sent as; its note is the first of the volatile items."""
    prompt: str = ""
    """Its name, with which reasoning is kept that is written under it."""
    has_passing_reasoning: bool = False
    """Whether the running turn has reasoning that no later turn will have, or calls in words that they will have."""
    in_words: set[str] = field(default_factory=set)
    """The ids of calls of which the user says what they have returned."""
    has_additions: bool = False
    """Whether the host wrote something into the last question that later requests will not find there."""
    commands: tuple[ChatCommand, ...] = ()
    """What the user has commanded, oldest first."""

    def send(self, item: Any, origin: Origin, turn: int) -> None:
        """Append an item."""
        self.items.append(item)
        self.origins.append(origin)
        self.turns.append(turn)

    def conversation(self, filled: Sequence[Item] | None = None) -> Conversation:
        """Return the items as instructions, volatile text and turns, named by content; without tools yet.

        `filled` are the items with their attachments in place; chains name them without.
        """
        sent, first, volatile = filled or self.items, self.instruction_count, self.volatile
        kept = [*range(first, volatile.start), *range(volatile.stop, len(sent))]
        conversation = build_conversation(
            [sent[index] for index in kept],
            [self.turns[index] for index in kept],
            unfilled=[self.items[index] for index in kept],
            bound=[self.bound.get(self.origins[index].marker, "") for index in kept],
            instructions=sent[:first],
            volatile=sent[volatile.start : volatile.stop],
        )
        return replace(
            conversation,
            external_summaries=self.external_summaries,
            corrections=int(bool(self.steady and self.steady.note)),
            has_additions=self.has_additions,
            commands=self.commands,
        )


@dataclass(frozen=True, slots=True)
class BuildRules:
    """What holds for all turns of a request.

    `latest` is the current turn. `call_ids` are those of the turns so far, for all to differ, and `pictures` what was
    sent or drawn in them.
    """

    artifacts: Artifacts
    reader: Reader
    strip_reasoning: bool
    latest: int
    call_ids: CallIds = field(default_factory=CallIds)
    pictures: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Placeholder:
    """A position in a turn: `content` is its item, text, parts or pair; `dropped` says why none is sent."""

    kind: Literal["ready", "text", "reasoning", "opaque", "call", "output", "images"]
    origin: Origin
    content: Any
    phase: str | None = None
    dropped: str | None = None
    passes: bool = False
    """Whether no later turn will have it."""


def build_turn(number: int, entries: Sequence[Entry], rules: BuildRules, built: BuiltHistory) -> None:
    """Send the items of a turn.

    What its answer shows is sent behind it once another turn follows, each image once in a chat: as a user's, since
    answers hold text alone. An item that a model has drawn is sent as that.
    """
    if type(entries) is PlainTurn and entries.items:
        for entry, item in zip(entries, entries.items, strict=True):
            built.send(item, entry.origin, number)
        return
    begun = len(built.items)
    calls = [entry.call_id for entry in entries if isinstance(entry, ToolCall)]
    named_calls = {name.ulid: call_id for call_id in calls if (name := read_call_name(call_id))}
    builder = _TurnBuilder(number, rules, built, named_calls)
    for entry in entries:
        if not (isinstance(entry, ToolCall | ToolResult) and entry.call_id in builder.replaced):
            builder.add(entry)
    if builder.missing:
        builder.match_missing_outputs()
        built.missing |= builder.missing
    _drop_partial_thinking(builder.placeholders, rules.reader.family, is_running=number == rules.latest)
    _drop_unused_reasoning(builder.placeholders)
    for placeholder in builder.placeholders:
        if placeholder.dropped:
            builder.drop(placeholder)
        else:
            builder.write(placeholder)
    new = {
        image["image_url"]: image
        for image in builder.images
        if image["type"] == "input_image" and image["image_url"] not in rules.pictures
    }
    if new and number < rules.latest:
        rules.pictures.update(new)
        built.send(input_message("user", [*new.values()]), built.origins[-1], number)
    if type(entries) is PlainTurn:
        built.items[begun:] = entries.items = cast("list[Item]", [*map(Kept, built.items[begun:])])


def input_message(role: Literal["user", "system", "developer"], parts: Sequence[InputPart]) -> InputMessage:
    """Return the item of what a user or an instruction says."""
    return {"type": "message", "role": role, "content": list(parts)}


def result_in_words(call: Fields, output: Fields) -> InputMessage:
    """Return what a call has returned as the user says it, where the call itself would be refused."""
    given = output["output"]
    said = [text_part(given)] if isinstance(given, str) else given
    return input_message("user", [text_part(f"[{call['name']}({call['arguments']}) returned:]"), *said])


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

    `named_calls` are the ids of the turn's calls that name their artifacts, by these; `images` are what the answer
    shows by Markdown.
    """

    number: int
    rules: BuildRules
    built: BuiltHistory
    named_calls: Mapping[str, str]
    placeholders: list[Placeholder] = field(default_factory=list)
    missing: dict[str, MissingArtifact] = field(default_factory=dict)
    images: list[InputPart] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """The ids of calls of OpenRouter's own tools, in the place of which their items are sent."""
    _matcher: ToolCallMatcher = field(default_factory=ToolCallMatcher)
    _phase: tuple[tuple[int, int], str] | None = None
    """Of the text that follows in this message."""
    _missing_outputs: list[Placeholder] = field(default_factory=list)
    _keeps_ids: bool = False
    _misses_reasoning: bool = False
    _lacks_latest: bool = False
    """Whether the latest reasoning so far is not sent."""
    _messages: int = 0
    _image_urls: set[str] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Take the next entry of the turn."""
        origin = entry.origin
        match entry:
            case ArtifactRef():
                self._add_artifact(entry)
            case AssistantText():
                phase = entry.phase
                if self._phase and self._phase[0] == origin.message_part:
                    phase, self._phase = self._phase[1], None
                self.placeholders.append(Placeholder("text", origin, entry.text, phase))
            case UserMessage():
                self.placeholders.append(Placeholder("ready", origin, input_message("user", entry.parts)))
            case ToolCall():
                if (name := wire_name(entry.name)) != entry.name:
                    self._repair("call_name", origin, f"{entry.name!r} is sent as {name}")
                named = {"call_id": entry.call_id, "name": name, "arguments": entry.arguments}
                self._add_call({"type": "function_call", **named}, entry.source, origin)
            case ToolResult():
                fields = {"type": "function_call_output", "call_id": entry.call_id, "output": entry.output}
                self._add_output(fields, entry.source, origin)
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
        stored: StoredItem = LoadedArtifact(cast("Any", loaded)) if isinstance(loaded, dict) else loaded
        raw: Any = stored.item
        item: Any = normalize_persisted_item(raw)
        if item is None:
            kind = as_text(as_object(raw).get("type")) or None
            self._repair("artifact", entry.origin, f"not a valid item of type {kind}")
            self._add_missing(entry, MissingArtifact(kind, "unreadable"))
            return
        if item is not raw:
            self._repair("artifact", entry.origin, f"fields of the {item['type']} repaired")
            stored = replace(cast("Any", stored), item=item)
        self._add_item(stored, entry.origin)

    def _add_missing(self, entry: ArtifactRef, missing: MissingArtifact) -> None:
        """An artifact of unknown kind counts as reasoning, which is omitted without a note."""
        self.missing[entry.ulid] = missing
        if missing.kind in {None, "reasoning"}:
            self.placeholders.append(Placeholder("reasoning", entry.origin, {}, dropped="is missing"))
        elif note := kind_of(missing.kind).missing:
            self.placeholders.append(Placeholder("text", entry.origin, note))
            if missing.kind in CALL_TYPES:
                self._missing_outputs.append(self.placeholders[-1])

    def _add_item(self, stored: StoredItem, origin: Origin) -> None:
        """A stored message lends its phase to the text that follows; the text itself is the chat's."""
        item, reader = cast("dict[str, Any]", stored.item), self.rules.reader
        is_running = self.number == self.rules.latest
        families = {reader.family, reader.writer_family(stored.model)} - {None, ROUTER}
        is_other_family = len(families) > 1 and not (is_running and reader.may_be(stored.model))
        match item["type"]:
            case "message":
                self._phase = (origin.message_part, item["phase"])
            case "reasoning":
                problem = reader.problem(stored, is_running=is_running)
                passes = is_running and reader.problem(stored, is_running=False) is not None
                if maker_of(item) == ANTHROPIC and not is_running:
                    self.built.bound[origin.marker] = stored.before
                if self.rules.strip_reasoning:
                    problem = "omitted on request"
                self.placeholders.append(
                    Placeholder("reasoning", origin, item, dropped=problem, passes=passes)
                )
            case kind if kind_of(kind).output:
                self._add_call(_without_id(item) if is_other_family else item, "artifact", origin)
            case kind if kind in CALL_TYPES:
                self._add_output(item, "artifact", origin)
            case kind:
                if call_id := self.named_calls.get(origin.marker or ""):
                    self.replaced.add(call_id)
                is_refused = is_other_family and "encrypted_content" in item
                problem = "sealed by another family of models" if is_refused else None
                if kind_of(kind).answered_by == "nobody":
                    problem = "waits for an answer that a chat cannot hold"
                self.placeholders.append(Placeholder("opaque", origin, item, dropped=problem))

    def _add_call(self, call: Fields, source: CallSource, origin: Origin) -> None:
        """A call keeps the position where it is first reported."""
        named = self.named_calls.get(origin.marker or "", "") if source == "artifact" else ""
        pair = self._matcher.add_call(ToolCallRecord(call, origin), source, named)
        if pair is None:
            self._repair("duplicate", origin, "the same call again")
        elif len(pair.calls) == 1:
            self.placeholders.append(Placeholder("call", origin, pair))

    def _add_output(self, output: Fields, source: CallSource, origin: Origin) -> None:
        """An output keeps the position where it is first reported."""
        pair = self._matcher.add_output(ToolCallRecord(output, origin), source)
        if pair is None:
            self._repair("duplicate", origin, "the same output again")
        elif len(pair.outputs) == 1:
            self.placeholders.append(Placeholder("output", origin, pair))

    def match_missing_outputs(self) -> None:
        """Find the calls whose stored outputs are missing, and drop the notes of those outputs.

        A missing output belongs to the first call up to its own message that has no stored output, if what the host
        shows of it is sent, or a note in the call's position will name the tool. An artifact of unknown kind may have
        been any call's output.
        """
        candidates = [
            pair
            for pair in self._matcher.pairs
            if pair.calls and "artifact" not in pair.outputs and (pair.is_whole or _stored_tool_name(pair))
        ]
        begun: list[int] = []
        """Those up to a note that have no output, by their positions."""
        order = sorted(range(len(candidates)), key=lambda at: _begin_of(candidates[at]), reverse=True)
        for note in self._missing_outputs:
            while order and _begin_of(candidates[order[-1]]) <= note.origin.message_part:
                heappush(begun, order.pop())
            if begun:
                note.dropped = "what the host shows of it, or a note with the tool's name, is sent"
                candidates[heappop(begun)].is_output_lost = True
        if any(missing.kind is None for missing in self.missing.values()):
            for pair in candidates:
                pair.is_output_lost = True

    def drop(self, placeholder: Placeholder) -> None:
        """Send nothing; item ids after reasoning that cannot be sent would point to a missing pair."""
        is_reasoning, reason = placeholder.kind == "reasoning", placeholder.dropped or ""
        self._repair("reasoning" if is_reasoning else "artifact", placeholder.origin, reason)
        if is_reasoning and reason != _DANGLES:
            self._misses_reasoning, self._keeps_ids, self._lacks_latest = True, False, True

    def write(self, placeholder: Placeholder) -> None:
        """Send what is at a position."""
        content, origin = placeholder.content, placeholder.origin
        match placeholder.kind:
            case "text":
                self._write_text(content, origin, placeholder.phase)
            case "reasoning":
                self._keeps_ids, self._lacks_latest = not self._misses_reasoning, False
                self.built.send(content, origin, self.number)
                self.built.replayed[cast("str", origin.marker)] = self.number
                self.built.has_passing_reasoning |= placeholder.passes
            case "call":
                self._write_call(content)
            case "output" if content.is_whole and content.sent_as:
                self._write_output(content)
            case "output":
                place = "before" if content.is_whole else "without"
                self._repair("output", origin, f"an output {place} its call")
                content.output_came_first = True
            case "images":  # those that an output of the turn holds already are not sent twice
                parts = [part for part in content if part.get("image_url") not in self._image_urls]
                if any(part["type"] == "input_image" for part in parts):
                    self.built.send(input_message("user", parts), origin, self.number)
            case "opaque":
                self.rules.pictures.add(picture_address(content))
                if "id" in content and not self._keeps_ids:
                    # Its id is required: it gets one that points to no reasoning.
                    prefix, source = content["id"].partition("_")[0][:8], f"{self.number}:{content['id']}"
                    content = {**content, "id": _derived_id(prefix, source)}
                self.built.send(content, origin, self.number)
            case _:
                self.built.send(content, origin, self.number)

    def _write_text(self, text: str, origin: Origin, phase: str | None = None) -> None:
        key = f"{self.number}.{self._messages}"
        self._messages += 1
        text, images = take_images(text)
        self.images += images
        self.built.send(assistant_message(text, key=key, phase=phase), origin, self.number)

    def _write_call(self, pair: ToolCallPair) -> None:
        fields, origin = pair.call
        if not pair.is_whole:
            self._repair("call", origin, "a call without its output")
            if pair.is_output_lost and (name := _stored_tool_name(pair)):
                self._write_text(f"[The result of the tool {name} is no longer available.]", origin)
            return
        pair.sent_as = self.rules.call_ids.reserve(fields["call_id"])
        if pair.sent_as != fields["call_id"]:
            self._repair("call_id", origin, f"{fields['call_id']!r} is sent as {pair.sent_as}")
        fields, reader = fields if self._keeps_ids else _without_id(fields), self.rules.reader
        lacks_reasoning = self._lacks_latest and self.number == self.rules.latest and not reader.never_reasons
        if lacks_reasoning and reader.family in PROVIDER_BOUND and fields["type"] == "function_call":
            self.built.in_words.add(pair.sent_as)
            self.built.has_passing_reasoning = True
        else:
            self.built.send({**fields, "call_id": pair.sent_as}, origin, self.number)
        if pair.output_came_first:
            self._write_output(pair)

    def _write_output(self, pair: ToolCallPair) -> None:
        fields, origin = pair.output
        is_in_words = pair.sent_as in self.built.in_words
        sent = (
            result_in_words(pair.call.fields, fields) if is_in_words else {**fields, "call_id": pair.sent_as}
        )
        self.built.send(sent, origin, self.number)
        if fields["type"] == "function_call_output" and not isinstance(fields["output"], str):
            parts = (part for part in fields["output"] if part["type"] == "input_image")
            self._image_urls.update(part["image_url"] for part in parts)

    def _repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        self.built.repairs.append(Repair(kind, origin, detail))


def _drop_partial_thinking(
    placeholders: Sequence[Placeholder], target: str | None, *, is_running: bool
) -> None:
    """Whoever seals verifies a turn's thinking as a whole, but OpenAI: one unsendable piece takes the others along.

    While it runs, `PROVIDER_BOUND` makers look at each call alone.
    """
    reasoning = [placeholder for placeholder in placeholders if placeholder.kind == "reasoning"]
    kept = [placeholder for placeholder in reasoning if not placeholder.dropped]
    if len(kept) == len(reasoning):
        return
    found = _BY_TURN & {target, *(maker_of(placeholder.content) for placeholder in kept)}
    passes = is_running and found <= PROVIDER_BOUND
    for placeholder in kept if found else ():
        placeholder.passes |= passes
        placeholder.dropped = None if passes else "other reasoning of the turn cannot be sent"


def _drop_unused_reasoning(placeholders: Sequence[Placeholder]) -> None:
    """Reasoning goes with what it led to: a call that is not sent, or nothing at all, takes it along."""
    is_used, is_followed = False, False
    for placeholder in reversed(placeholders):
        if placeholder.dropped:
            continue
        if placeholder.kind == "reasoning":
            placeholder.dropped = None if is_used else _DANGLES
            is_followed = True
        elif placeholder.kind == "call" and not placeholder.content.is_whole:
            is_used = is_used and not is_followed  # what comes later has reasoning of its own
        elif placeholder.kind in {"text", "call", "opaque"}:
            is_used, is_followed = True, False


def _begin_of(pair: ToolCallPair) -> tuple[int, int]:
    """The first message that has the call."""
    return min(call.origin.message_part for call in pair.calls.values())


def _derived_id(prefix: str, source: str) -> str:
    return f"{prefix}_{hashlib.sha256(source.encode()).hexdigest()[:32]}"


def _stored_tool_name(pair: ToolCallPair) -> str:
    """The name of the tool if our artifact has the call."""
    return as_text(pair.call.fields.get("name")) if pair.call.origin.marker else ""


def _without_id(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key != "id"} if "id" in fields else fields
