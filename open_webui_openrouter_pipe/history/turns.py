"""Notes a turn entry by entry: markers are filled, calls find their outputs, each thing gets its place.

Owns what every kind of entry and artifact becomes in a draft. What is sent of it is settled afterwards,
when the whole turn is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..responses.items import InputMessage, InputPart
from ..responses.tool_names import wire_name
from .artifacts import LostArtifact, normalize_persisted_item
from .entries import Answered, Called, Entry, Instruction, Marked, Origin, Said, ToolImages, UserMessage
from .reasoning import family, unusable
from .slots import Draft, Rules, Slot
from .tool_pairs import CALL_TYPES, OUTPUT_TYPES, Fields, Mention, Pair, PairBook

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


def note_turn(draft: Draft, entries: Sequence[Entry], rules: Rules) -> None:
    """Note all entries of a turn in its draft."""
    noter = _Noter(draft, rules)
    for entry in entries:
        _ENTRIES[type(entry)](noter, entry)


class _Noter:
    """The draft so far, its pairs, and a phase that waits for its text."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self.draft = draft
        self._rules = rules
        self._pairs = PairBook()
        self._phase: tuple[tuple[int, int], str] | None = None

    def instruction(self, entry: Instruction) -> None:
        self._ready(self._rules.instructions[entry], entry.origin)

    def user(self, entry: UserMessage) -> None:
        is_latest = entry is self._rules.latest_user
        self._ready(self._rules.latest_items if is_latest else [user_message(entry.parts)], entry.origin)

    def images(self, entry: ToolImages) -> None:
        self.draft.slots.append(Slot("images", entry.origin, entry.parts))

    def said(self, entry: Said) -> None:
        phase = entry.phase
        if self._phase and self._phase[0] == entry.origin.place:
            phase, self._phase = self._phase[1], None
        self.draft.slots.append(Slot("text", entry.origin, entry.text, phase=phase))

    def called(self, entry: Called) -> None:
        name = wire_name(entry.name)
        if name != entry.name:
            self.draft.repair("call_name", entry.origin, f"{entry.name!r} is sent as {name}")
        call = {"type": "function_call", "call_id": entry.call_id, "name": name, "arguments": entry.arguments}
        self._place_call(self._pairs.add_call(Mention(call, entry.origin), entry.source), entry.origin)

    def answered(self, entry: Answered) -> None:
        output = {"type": "function_call_output", "call_id": entry.call_id, "output": entry.output}
        self._place_output(self._pairs.add_output(Mention(output, entry.origin), entry.source), entry.origin)

    def marked(self, entry: Marked) -> None:
        loaded: Any = self._rules.artifacts.get(entry.ulid)
        if loaded is None or isinstance(loaded, LostArtifact):
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
        _ARTIFACTS.get(item["type"], _Noter.opaque)(self, item, writer, entry.origin)

    def phase(self, item: Fields, _writer: str | None, origin: Origin) -> None:
        """A stored message lends its phase to the text that follows; the text itself is the chat's."""
        self._phase = (origin.place, item["phase"])

    def reasoning(self, item: Fields, writer: str | None, origin: Origin) -> None:
        why = unusable(item, writer=writer, target=self._rules.target)
        if self._rules.strip_reasoning:
            why = "left out on request"
        self.draft.slots.append(Slot("reasoning", origin, item, dropped=why))

    def artifact_call(self, item: Fields, writer: str | None, origin: Origin) -> None:
        if "id" in item and self._is_foreign(writer):
            item = {key: value for key, value in item.items() if key != "id"}
        self._place_call(self._pairs.add_call(Mention(item, origin), "artifact"), origin)

    def artifact_output(self, item: Fields, _writer: str | None, origin: Origin) -> None:
        self._place_output(self._pairs.add_output(Mention(item, origin), "artifact"), origin)

    def opaque(self, item: Fields, writer: str | None, origin: Origin) -> None:
        """Any other item; what another family of models has sealed, the provider refuses."""
        is_refused = "encrypted_content" in item and self._is_foreign(writer)
        why = "sealed by another family of models" if is_refused else None
        self.draft.slots.append(Slot("opaque", origin, item, dropped=why))

    def _ready(self, items: Sequence[InputMessage], origin: Origin) -> None:
        for item in items:
            self.draft.slots.append(Slot("ready", origin, item))

    def _place_call(self, pair: Pair | None, origin: Origin) -> None:
        """A call stands where it is first told of."""
        if pair is None:
            self.draft.repair("double", origin, "the call was told before")
        elif len(pair.calls) == 1:
            self.draft.slots.append(Slot("call", origin, pair=pair))

    def _place_output(self, pair: Pair | None, origin: Origin) -> None:
        """An output stands where it is first told of."""
        if pair is None:
            self.draft.repair("double", origin, "the output was told before")
        elif len(pair.outputs) == 1:
            self.draft.slots.append(Slot("output", origin, pair=pair))

    def _lose(self, entry: Marked, kind: str | None) -> None:
        """An artifact of unknown kind counts as reasoning, which is lost in silence."""
        self.draft.missing[entry.ulid] = kind
        self.draft.has_holes = True
        note = _LOST_NOTES.get(kind or "reasoning", _LOST_ITEM)
        if kind in {None, "reasoning"}:
            self.draft.slots.append(Slot("reasoning", entry.origin, {}, dropped="is missing"))
        elif note:
            self.draft.slots.append(Slot("text", entry.origin, note))

    def _is_foreign(self, writer: str | None) -> bool:
        return writer != self._rules.target and None not in {writer, self._rules.target}


_ENTRIES: Mapping[type[Entry], Callable[[_Noter, Any], None]] = {
    Instruction: _Noter.instruction,
    UserMessage: _Noter.user,
    ToolImages: _Noter.images,
    Said: _Noter.said,
    Marked: _Noter.marked,
    Called: _Noter.called,
    Answered: _Noter.answered,
}
_ARTIFACTS: Mapping[str, Callable[[_Noter, Fields, str | None, Origin], None]] = {
    "message": _Noter.phase,
    "reasoning": _Noter.reasoning,
    **dict.fromkeys(OUTPUT_TYPES, _Noter.artifact_call),
    **dict.fromkeys(CALL_TYPES, _Noter.artifact_output),
}
