"""The forms in which a part of a conversation can be sent, and what each costs.

Owns the forms from whole to told, their items and their running token sums. It must not choose:
policies say which part has which form. A part is a round of a turn, or what the user said at its beginning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from ..conversation.content_cache import ContentCache
from ..conversation.conversation import (
    Conversation,
    DigestedItem,
    Turn,
    content_digest,
    digest_item,
    is_model_input,
)
from ..conversation.rules import NoteWriter, omission_note, select_rules, user_rules
from ..conversation.tokens import CALL_OVERHEAD_TOKENS, TokenCounter
from ..conversation.tool_facts import cut_middle, is_failure, prune_tool_output, text_of
from ..responses.items import (
    FunctionCallOutput,
    Item,
    is_function_call,
    is_function_call_output,
    is_message,
    is_reasoning,
)
from ..summaries.segments import SummaryIndex

CAP_SHARE = 0.25
ROUND_CAP_SHARE = 0.50
CAP_TOKENS = 50_000
LEAST_CAP_TOKENS = 256
HEAD_SHARE = 0.7
CUT_ATTEMPTS = 6
CUT_MARGIN = 0.9
PINS_SHARE = 0.05
PINS_TOKENS = 500


class DetailLevel(IntEnum):
    """How much of a part is sent; from everything to nothing, or a summary in its place."""

    FULL = 0
    """As it is; a single huge output is capped."""
    FAILED_REDUCED = 1
    """Outputs of failed and of repeated calls are facts."""
    TOOL_FACTS = 2
    """All outputs are facts."""
    SKELETON = 3
    """Facts; failed and repeated calls, reasoning and the talk between calls are left out."""
    DROPPED = 4
    """Left out; the rules that the user set there stand in a note."""
    SUMMARIZED = 5
    """Told by a summary, which stands before everything else of the chat."""


SENT_LEVELS = (DetailLevel.FULL, DetailLevel.FAILED_REDUCED, DetailLevel.TOOL_FACTS, DetailLevel.SKELETON)
"""Forms in which something of a part is sent itself."""


@dataclass(frozen=True, slots=True)
class Part:
    """A round of a turn, or its beginning; `turn` is the place of its turn in the conversation."""

    turn: int
    entries: tuple[DigestedItem, ...]
    ends_turn: bool

    @property
    def awaits_answer(self) -> bool:
        """Whether a request ends with this part: the model has read its last item and not yet answered."""
        return is_model_input(self.entries[-1].item)


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How large a single output and the note for what is left out may be, and who writes that note."""

    budget_tokens: int
    cap_tokens: int = CAP_TOKENS
    note: NoteWriter = omission_note

    def output_tokens(self, outputs_in_round: int) -> int:
        """How large each output of a round may be; all of them together have a share of the budget too."""
        shared = int(self.budget_tokens * ROUND_CAP_SHARE / max(1, outputs_in_round))
        return max(LEAST_CAP_TOKENS, min(self.cap_tokens, int(self.budget_tokens * CAP_SHARE), shared))

    @property
    def pins_tokens(self) -> int:
        """How large the rules in the note may be."""
        return min(PINS_TOKENS, int(self.budget_tokens * PINS_SHARE))


NO_LIMITS = OutputLimits(sys.maxsize, sys.maxsize)
"""Nothing is capped."""


class PartsByDetail:
    """A conversation's parts in all their forms; everything is made when first asked for.

    `facts` remembers what stands in for outputs from request to request; it follows from content alone.
    """

    def __init__(
        self,
        conversation: Conversation,
        counter: TokenCounter,
        facts: ContentCache[str],
        limits: OutputLimits,
        shelf: SummaryIndex,
    ) -> None:
        """Lay out the parts; nothing is counted yet."""
        self.counter = counter
        self.limits = limits
        self.shelf = shelf
        self.sizes: dict[tuple[int, Hashable], int] = {}
        """What requests came to that were looked at before, by their number of parts and their bounds."""
        self.turns = conversation.turns
        self.parts = tuple(_parts(conversation.turns))
        self._remembered = facts
        self._sums: dict[DetailLevel, list[int]] = {form: [0] for form in DetailLevel}
        self._entries: dict[tuple[DetailLevel, int], tuple[DigestedItem, ...]] = {}
        self._notes: dict[tuple[int, int], tuple[DigestedItem, ...]] = {}
        self._rules: dict[int, tuple[str, ...]] = {}
        self._repeated: Mapping[int, frozenset[str]] | None = None
        starts = {part.turn: at for at, part in reversed(list(enumerate(self.parts)))}
        self._starts = [starts[turn] for turn in range(len(self.turns))]

    @property
    def current(self) -> int:
        """The first part of the current turn."""
        return self._starts[-1] if self._starts else 0

    def start_of(self, turn: int) -> int:
        """The first part of the turn at a place; the conversation's first for a place before it."""
        return self._starts[max(0, turn)]

    def tokens(self, form: DetailLevel, start: int, end: int) -> int:
        """What the parts from `start` to before `end` cost in a form, aside from what stands in for them."""
        if form >= DetailLevel.DROPPED or start >= end:
            return 0
        sums = self._sums[form]
        if len(sums) <= end:
            self._count_upto(form, end)
        return sums[end] - sums[start]

    def _count_upto(self, form: DetailLevel, end: int) -> None:
        sums, count = self._sums[form], self.counter.entry
        for at in range(len(sums) - 1, end):
            sums.append(sums[-1] + sum(map(sum, map(count, self.entries(form, at)))))

    def turns_before(self, part: int) -> int:
        """How many turns begin before a part."""
        return self.parts[part - 1].turn + 1 if part else 0

    def told(self, part: int) -> int:
        """How many segments are told when all parts before `part` are."""
        return self.shelf.count(self.turns_before(part))

    def standing(self, told: int) -> tuple[DigestedItem, ...]:
        """The block that stands in for the parts before `told`."""
        return self.shelf.entries(self.told(told))

    def standing_room_tokens(self, told: int) -> int:
        """What that block may come to."""
        return self.shelf.max_tokens(self.told(told))

    def standing_tokens(self, told: int) -> int:
        """What that block comes to, as far as its summaries are at hand."""
        return self.shelf.tokens(self.told(told))

    def note(self, told: int, gone: int) -> tuple[DigestedItem, ...]:
        """The message that stands in for the parts from `told` to before `gone`; none where nothing is to be said."""
        if gone > told and (told, gone) not in self._notes:
            turns = range(self.turns_before(told), self.turns_before(gone))
            newest_first = (self._rules_of(turn) for turn in reversed(turns))
            rules = select_rules(newest_first, self.counter.text, self.limits.pins_tokens)
            note = self.limits.note(len(turns), rules)
            self._notes[told, gone] = (digest_item(note),) if note else ()
        return self._notes.get((told, gone), ())

    def entries(self, form: DetailLevel, at: int) -> tuple[DigestedItem, ...]:
        """The entries of a part in a form."""
        made = self._entries.get((form, at))
        if made is None:
            made = self._entries[form, at] = tuple(_FORM_RULES[form](self, at))
        return made

    def whole(self, at: int) -> Iterator[DigestedItem]:
        """The entries of a part, huge outputs capped."""
        entries = self.parts[at].entries
        outputs = sum(is_function_call_output(entry.item) for entry in entries)
        if not outputs:
            return iter(entries)
        cap = self.limits.output_tokens(outputs)
        return (self._capped(entry, cap) for entry in entries)

    def spent(self, at: int) -> Iterator[DigestedItem]:
        """The entries of a part, with facts for the outputs of failed and of repeated calls."""
        spent = self._spent_calls(at)
        both = zip(self.entries(DetailLevel.FULL, at), self.entries(DetailLevel.TOOL_FACTS, at), strict=True)
        return (fact if _call_id(whole) in spent else whole for whole, fact in both)

    def facts(self, at: int) -> Iterator[DigestedItem]:
        """The entries of a part, with a fact for each output."""
        return map(self._fact, self.parts[at].entries, self.entries(DetailLevel.FULL, at))

    def lean(self, at: int) -> Iterator[DigestedItem]:
        """The entries of a part that say something by themselves."""
        spent, ends_turn = self._spent_calls(at), self.parts[at].ends_turn
        for entry in self.entries(DetailLevel.TOOL_FACTS, at):
            item = entry.item
            talk = is_message(item) and item["role"] == "assistant" and not ends_turn
            if not (talk or is_reasoning(item) or _call_id(entry) in spent):
                yield entry

    def _fact(self, entry: DigestedItem, whole: DigestedItem) -> DigestedItem:
        """The entry with its output stated as a fact; as a whole when that saves nothing."""
        item = entry.item
        if not is_function_call_output(item):
            return whole
        text = self._stated(entry)
        if text == item["output"]:
            return whole
        fact = DigestedItem({**item, "output": text}, entry.digest + b"fact")
        return min(whole, fact, key=lambda either: self.counter.entry(either).tokens)

    def _stated(self, entry: DigestedItem) -> str:
        return self._remembered.get_or_compute(entry.digest, lambda: _statement(entry.item))

    def _capped(self, entry: DigestedItem, cap_tokens: int) -> DigestedItem:
        item = entry.item
        if not is_function_call_output(item) or (tokens := self.counter.entry(entry).tokens) <= cap_tokens:
            return entry
        name = entry.digest + b"cap%d" % cap_tokens
        text = self._remembered.get_or_compute(name, lambda: self._cut(item, tokens, cap_tokens))
        return DigestedItem({**item, "output": text}, name)

    def _cut(self, item: FunctionCallOutput, tokens: int, cap_tokens: int) -> str:
        """Head and tail of an output, shortened until they are within the cap."""
        text = text_of(item["output"])
        keep = len(text) * min(1.0, cap_tokens / tokens)
        for _ in range(CUT_ATTEMPTS):
            keep *= CUT_MARGIN
            head = int(keep * HEAD_SHARE)
            cut = cut_middle(text, head, int(keep) - head)
            found = self.counter.text(cut) + CALL_OVERHEAD_TOKENS
            if found <= cap_tokens:
                return cut
            keep *= cap_tokens / found
        return _statement(item)

    def _rules_of(self, turn: int) -> tuple[str, ...]:
        if turn not in self._rules:
            self._rules[turn] = user_rules(self.turns[turn])
        return self._rules[turn]

    def _spent_calls(self, at: int) -> frozenset[str | None]:
        """The ids of a part's calls that failed or were repeated."""
        outputs = (entry for entry in self.parts[at].entries if is_function_call_output(entry.item))
        failed = frozenset(_call_id(entry) for entry in outputs if self._failed(entry))
        if self._repeated is None:
            self._repeated = _repeated_calls(self.parts)
        return failed | self._repeated.get(at, frozenset())

    def _failed(self, entry: DigestedItem) -> bool:
        name = entry.digest + b"failed"
        return self._remembered.get_or_compute(name, lambda: str(is_failure(self._stated(entry)))) == str(
            True
        )


_FORM_RULES: Mapping[DetailLevel, Callable[[PartsByDetail, int], Iterator[DigestedItem]]] = MappingProxyType(
    {
        DetailLevel.FULL: PartsByDetail.whole,
        DetailLevel.FAILED_REDUCED: PartsByDetail.spent,
        DetailLevel.TOOL_FACTS: PartsByDetail.facts,
        DetailLevel.SKELETON: PartsByDetail.lean,
        DetailLevel.DROPPED: lambda _forms, _at: iter(()),
        DetailLevel.SUMMARIZED: lambda _forms, _at: iter(()),
    }
)


def _parts(turns: Sequence[Turn]) -> Iterator[Part]:
    for place, turn in enumerate(turns):
        for number, entries in enumerate(turn.rounds, start=1):
            yield Part(place, entries, ends_turn=number == len(turn.rounds))


def _call_id(entry: DigestedItem) -> str | None:
    item = entry.item
    return item["call_id"] if is_function_call(item) or is_function_call_output(item) else None


def _statement(item: Item) -> str:
    if not is_function_call_output(item):
        return ""
    return str(prune_tool_output(item)["output"])


def _repeated_calls(parts: Sequence[Part]) -> Mapping[int, frozenset[str]]:
    """Calls made again: within their turn with the same arguments, or earlier with the same output too.

    Only what is known when a turn ends decides, so that a later turn never changes the form of an earlier
    one.
    """
    repeated: dict[int, set[str]] = {}
    latest: dict[tuple[int, bytes], tuple[int, str]] = {}
    seen: set[tuple[bytes, bytes]] = set()
    for at, part in enumerate(parts):
        outputs = {
            item["call_id"]: item["output"]
            for entry in part.entries
            if is_function_call_output(item := entry.item)
        }
        for entry in part.entries:
            item = entry.item
            if not is_function_call(item):
                continue
            call = content_digest([item["name"], item["arguments"]])
            answer = (call, content_digest(outputs.get(item["call_id"])))
            if before := latest.get((part.turn, call)):
                repeated.setdefault(before[0], set()).add(before[1])
            elif answer in seen:
                repeated.setdefault(at, set()).add(item["call_id"])
            latest[part.turn, call] = (at, item["call_id"])
            seen.add(answer)
    return {at: frozenset(calls) for at, calls in repeated.items()}
