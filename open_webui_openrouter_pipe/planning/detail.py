"""The levels of detail in which a part of a conversation can be sent, and what each costs.

A part is a round of a turn, or the user's message at its beginning. Policies choose which part has which level.
"""

from __future__ import annotations

import copy
import json
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate, chain, count, repeat, takewhile, zip_longest
from operator import attrgetter, eq, itemgetter
from typing import Any, NamedTuple

from ..conversation.conversation import (
    Conversation,
    DigestedItem,
    digest_item,
    is_model_input,
    reference_of,
)
from ..conversation.facts import output_text, state_output
from ..conversation.media import embedded_text
from ..conversation.record import (
    Note,
    max_note_tokens,
    omission_note,
    turn_numbers,
)
from ..conversation.slash import Aim, ChatCommand, Command, commanded_aims
from ..conversation.tokens import (
    CALL_OVERHEAD_TOKENS,
    TokenCounts,
    join_ends,
    truncate_to_tokens,
)
from ..responses.items import (
    InputPart,
    Item,
    Message,
    is_function_call,
    is_function_call_output,
    is_message,
    is_reasoning,
)
from ..summaries.segments import KnownSegments, SummaryIndex


def excerpt_text(item: Item, cut: Callable[[str], str]) -> str | None:
    """Return what replaces the text of an item, cut by `cut`; None for an item that has no such text.

    The text of a message is all that its parts say, that of a call its arguments.
    """
    if is_message(item):
        return _message_text(item, cut)
    if is_function_call_output(item):
        return output_text(item["output"], cut)
    return _arguments(item["arguments"], cut) if is_function_call(item) else None


def with_text(item: Item, text: str) -> Item:
    """Return the item with the text that `excerpt_text` has returned for it."""
    if is_function_call_output(item):
        return {**item, "output": text}
    if is_function_call(item):
        return {**item, "arguments": text}
    if not is_message(item):
        return item
    if item["role"] == "assistant":
        return {**item, "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {**item, "content": [{"type": "input_text", "text": text}]}


def _message_text(message: Message, cut: Callable[[str], str]) -> str:
    if message["role"] != "assistant":
        return output_text([_as_text(part) for part in message["content"]], cut)
    parts = message["content"]
    return cut(
        "\n".join(part["text"] if part["type"] == "output_text" else part["refusal"] for part in parts)
    )


def _as_text(part: InputPart) -> InputPart:
    """Return an attached text file as text; any other part as it is."""
    text = embedded_text(part)
    return part if text is None else {"type": "input_text", "text": text}


def _arguments(arguments: str, cut: Callable[[str], str]) -> str:
    """Return the same JSON with its texts cut; what is not JSON stays, since a provider may read it."""
    try:
        return json.dumps(_cut_texts(json.loads(arguments), cut), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return arguments


def _cut_texts(value: Any, cut: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _cut_texts(inner, cut) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_texts(inner, cut) for inner in value]
    return cut(value) if isinstance(value, str) else value


CAP_SHARE = 0.25  # of the budget: the most that one tool output takes
ROUND_CAP_SHARE = 0.50  # of the budget: the most that all outputs of one round take
CAP_TOKENS = 50_000
MIN_CAP_TOKENS = 256
EXCERPT_SHARE = 0.02  # of the budget: head and tail of a long text; twice that of what the user wrote
MIN_EXCERPT_TOKENS = 48


class DetailLevel(IntEnum):
    """How much of a part is sent; from everything to nothing, or a summary instead."""

    FULL = 0  # as it is; a single huge output is capped
    TOOL_FACTS = 1  # outputs are stated as facts
    SKELETON = 2  # facts; reasoning and assistant messages between tool calls are omitted
    HALVED = 3  # the same, with each text no longer than half of the budget
    TRIMMED = 4  # the same, with each text no longer than a single tool output may be
    EXCERPTS = 5  # the same, with head and tail of each long text
    DROPPED = 6  # omitted; a note keeps what the user wrote in it, as far as there is room
    SUMMARIZED = 7  # replaced by a summary, which comes before everything else of the chat


SENT_LEVELS = tuple(level for level in DetailLevel if level < DetailLevel.DROPPED)
"""Levels at which some of the part's own items are sent."""


class Part(NamedTuple):
    """A round of a turn, or its beginning; `turn` is the index of its turn in the conversation."""

    turn: int
    entries: tuple[DigestedItem, ...]

    @property
    def awaits_answer(self) -> bool:
        """Whether a request ends with this part: the model has read its last item and not yet answered."""
        return is_model_input(self.entries[-1].item)


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How large a tool output and the note for dropped turns may be, and what that note says.

    With `has_references`, what stands for something else says how the model can ask for it.
    """

    budget_tokens: int
    cap_tokens: int = CAP_TOKENS
    note: Note = "words"
    has_references: bool = False

    def output_tokens(self, outputs_in_round: int) -> int:
        """Return the most that each output of a round may take."""
        shared = int(self.budget_tokens * ROUND_CAP_SHARE / max(1, outputs_in_round))
        return max(MIN_CAP_TOKENS, min(self.cap_tokens, int(self.budget_tokens * CAP_SHARE), shared))

    @property
    def excerpt_tokens(self) -> int:
        """The most that what is kept of a long text may take."""
        return max(MIN_EXCERPT_TOKENS, int(self.budget_tokens * EXCERPT_SHARE))


NO_LIMITS = OutputLimits(sys.maxsize, sys.maxsize)
"""Nothing is capped."""

KEPT_DECISIONS = 16
"""Of the requests of a chat, the last ones: the next request goes on from one of them, or decides all again."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found of a chat's parts, kept from one request to the next: names and numbers, no word of it.

    `chains` name the chat at the end of each turn, `rounds` what the parts of the last one hold, without the last part,
    which may not be how the turn ends; `commands` are what the user commanded. `whole` are the tokens of all parts
    before each, as they are, and `sums` the same at each level, as far as they were counted; `called` names the tools
    that were called in them. `decided` are what the last requests were decided to be, by what that goes by, each with
    the number of its parts. `segments` are of the turns.
    """

    chains: Sequence[bytes] = ()
    rounds: Sequence[bytes] = ()
    commands: tuple[ChatCommand, ...] = ()
    whole: list[TokenCounts] = field(default_factory=lambda: [TokenCounts()])
    called: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    sums: dict[DetailLevel, list[int]] = field(default_factory=lambda: {level: [0] for level in SENT_LEVELS})
    decided: dict[Hashable, list[tuple[int, Any]]] = field(default_factory=dict)
    segments: KnownSegments = field(default_factory=KnownSegments)

    def beginning(self, conversation: Conversation) -> Measured:
        """Return a copy of what holds for a conversation, as far as it is the same."""
        turns, commands = conversation.turns, conversation.commands
        chains = [*map(attrgetter("sent_chain"), turns)]
        rounds = [
            b"".join([entry.digest for entry in part]) for turn in turns[-1:] for part in turn.rounds[:-1]
        ]
        same = sum(takewhile(bool, map(eq, chains, self.chains)))
        commanded = zip_longest(commands, self.commands)
        changes = [each.turn for one, other in commanded if one != other for each in (one, other) if each]
        known_turns = min([same, *changes])
        known = sum(map(len, map(attrgetter("rounds"), turns[:known_turns])))
        if same == len(self.chains) - 1 == len(chains) - 1 < min([*changes, len(chains)]):
            known += sum(takewhile(bool, map(eq, rounds, self.rounds)))
        sums = {level: sums[: known + 1] for level, sums in self.sums.items()}
        decided = {
            terms: [(end, state) for end, state in states if end <= known]
            for terms, states in [*self.decided.items()]  # which another thread may add to
        }
        return Measured(
            chains,
            rounds,
            commands,
            self.whole[: known + 1],
            self.called[: known + 1],
            sums,
            decided,
            self.segments.beginning(known_turns),
        )


class PartsByDetail:
    """A conversation's parts at all levels of detail; items are built and counted on first use.

    The texts of the summaries' record cache what stands in for long items, too; it follows from content alone.
    `measured` is what earlier requests have found of the conversation, and gets to know the rest of it.
    """

    def __init__(
        self,
        conversation: Conversation,
        limits: OutputLimits,
        summaries: SummaryIndex,
        measured: Measured | None = None,
    ) -> None:
        """Divide the turns into parts; what is new is counted when it is asked for."""
        self.counter = summaries.record.counter
        self.limits = limits
        self.summaries = summaries
        self.turns = conversation.turns
        self.conversation = conversation
        self.restored_tokens: dict[tuple[frozenset[int], tuple[int, ...]], int] = {}
        """By how much restored parts are larger than at the levels that these cutoffs give them, once counted."""
        rounds = [*map(attrgetter("rounds"), self.turns)]
        sizes = [*map(len, rounds)]
        numbers = chain.from_iterable(map(repeat, count(), sizes))
        self.parts = [*map(Part, numbers, chain.from_iterable(rounds))]
        self._starts = [*accumulate(sizes, initial=0)]
        self._aims = [*commanded_aims(conversation.commands)]
        self._commands: defaultdict[int, list[Command]] = defaultdict(list)
        for each in conversation.commands:
            self._commands[each.turn].append(each.command)
        self._texts = summaries.record.texts
        self._entries: dict[tuple[DetailLevel, int], tuple[DigestedItem, ...]] = {}
        self._notes: dict[tuple[range, frozenset[int]], tuple[DigestedItem, ...]] = {}
        self._references: dict[bytes, str] = {}
        self.measured = measured or Measured()
        # count the parts that are new, as they are
        whole, called = self.measured.whole, self.measured.called
        for part in self.parts[len(whole) - 1 :]:
            names = {entry.item["name"] for entry in part.entries if is_function_call(entry.item)}
            called.append(called[-1] if called[-1] >= names else called[-1] | names)
            whole.append(whole[-1].plus(self.counter.entries(part.entries)))

    @property
    def first_cut(self) -> int:
        """The first part that holds an output which is never sent whole; how many parts there are where none does."""
        whole = self.measured.whole
        return bisect_left(
            range(len(self.parts)),
            1,
            key=lambda at: whole[at + 1].tokens - self.tokens(DetailLevel.FULL, 0, at + 1),
        )

    def without_record(self) -> PartsByDetail:
        """Return the same with a note that says only how many turns are dropped."""
        limits = replace(self.limits, note="count")
        return PartsByDetail(self.conversation, limits, self.summaries)

    def commands(self, turn: int) -> Sequence[Command]:
        """Return what the user has commanded directly before a turn."""
        return self._commands.get(turn, ())

    def aim(self, turn: int) -> Aim | None:
        """Return the aim that the user had commanded last in a turn, None where they had not."""
        at = bisect_right(self._aims, turn, key=itemgetter(0))
        return self._aims[at - 1][1] if at else None

    def as_of(self, turn: int) -> PartsByDetail:
        """Return the same with the segments as they were known in a turn, before later commands."""
        summaries = self.summaries.as_of(turn)
        if summaries is self.summaries:
            return self
        known = copy.copy(self)
        known.summaries = summaries
        return known

    @property
    def current(self) -> int:
        """The first part of the current turn."""
        return self.start_of(len(self.turns) - 1)

    def start_of(self, turn: int) -> int:
        """Return the first part of a turn; the conversation's first for a turn before it, its end for one behind it."""
        return self._starts[max(0, turn)]

    def turns_before(self, part: int) -> int:
        """Return how many turns begin before a part."""
        return self.parts[part - 1].turn + 1 if part else 0

    def segments_before(self, part: int) -> int:
        """Return how many segments lie before a part."""
        return self.summaries.count(self.turns_before(part))

    def whole_tokens(self, start: int, end: int) -> int:
        """Return what the parts from `start` to before `end` take as they are."""
        return self.measured.whole[end].tokens - self.measured.whole[start].tokens

    def tokens(self, level: DetailLevel, start: int, end: int) -> int:
        """Return what the parts from `start` to before `end` take at a level at which they are sent."""
        if start >= end:
            return 0
        sums = self.measured.sums[level]
        for part in range(len(sums) - 1, end):
            sums.append(sums[-1] + self.counter.entries(self.entries(level, part)).tokens)
        return sums[end] - sums[start]

    def entries(self, level: DetailLevel, part: int) -> tuple[DigestedItem, ...]:
        """Return the items of a part at a level of detail."""
        if (level, part) not in self._entries:
            self._entries[level, part] = self._build_entries(level, part)
        return self._entries[level, part]

    def note(self, start: int, end: int, restored: Collection[int]) -> tuple[DigestedItem, ...]:
        """Return the message that stands in for the dropped parts from `start` to before `end`, if there is one.

        It does not count turns with `restored` parts.
        """
        turns, limits = range(self.turns_before(start), self.turns_before(end)), self.limits
        whole = frozenset(self.parts[at].turn for at in restored if start <= at < end)
        if len(whole) >= len(turns) or limits.note == "nothing":
            return ()
        if (turns, whole) not in self._notes:
            has_words, max_tokens = limits.note == "words", max_note_tokens(limits.budget_tokens)
            words = self.summaries.record.text(turns, max_tokens) if has_words else ""
            numbers = turn_numbers(turns, whole) if limits.has_references or whole else ""
            note = omission_note(len(turns) - len(whole), words, numbers)
            self._notes[turns, whole] = (digest_item(note),)
        return self._notes[turns, whole]

    def _build_entries(self, level: DetailLevel, part: int) -> tuple[DigestedItem, ...]:
        whole, ends_turn = self.parts[part].entries, part + 1 == self.start_of(self.parts[part].turn + 1)
        match level:
            case DetailLevel.FULL:
                is_output = [is_function_call_output(entry.item) for entry in whole]
                most = self.limits.output_tokens(sum(is_output))
                pairs = zip(whole, is_output, strict=True)
                return tuple(self._truncated(entry, most) if cut else entry for entry, cut in pairs)
            case DetailLevel.TOOL_FACTS:
                return tuple(map(self._with_fact, whole, self.entries(DetailLevel.FULL, part)))
            case DetailLevel.SKELETON:
                facts = self.entries(DetailLevel.TOOL_FACTS, part)
                return tuple(entry for entry in facts if not _is_omitted(entry, ends_turn=ends_turn))
            case DetailLevel.HALVED | DetailLevel.TRIMMED:
                is_half = level == DetailLevel.HALVED
                most = self.limits.budget_tokens // 2 if is_half else self.limits.output_tokens(1)
                skeleton = self.entries(DetailLevel.SKELETON, part)
                return tuple(self._truncated(entry, most) for entry in skeleton)
            case DetailLevel.EXCERPTS:
                return tuple(map(self._with_excerpt, self.entries(DetailLevel.SKELETON, part)))
            case DetailLevel.DROPPED | DetailLevel.SUMMARIZED:
                return ()

    def _with_fact(self, entry: DigestedItem, full: DigestedItem) -> DigestedItem:
        """Return the entry with its output as a fact; `full` where that saves nothing, as for a small output."""
        item = entry.item
        if not is_function_call_output(item):
            return full
        digest = entry.digest + b"fact" + self.counter.method
        text = self._texts.get_or_compute(digest, lambda: state_output(item, self.counter.text))
        if reference := self._reference(entry):
            text, digest = f"{text} [{reference}]", digest + b"#"
            self._references[digest] = reference
        fact = DigestedItem({**item, "output": text}, digest)
        return min(full, fact, key=lambda either: self.counter.entry(either).tokens)

    def _reference(self, entry: DigestedItem) -> str:
        """Return the name of the whole item that an entry is, or stands for; "" where none is shown."""
        if not self.limits.has_references:
            return ""
        return self._references.get(entry.digest) or reference_of(entry.digest)

    def _with_excerpt(self, entry: DigestedItem) -> DigestedItem:
        """Return the entry with head and tail of its text; itself when it is no longer than that."""
        item, max_tokens = entry.item, self.limits.excerpt_tokens
        is_input = is_message(item) and item["role"] != "assistant"
        return self._truncated(entry, 2 * max_tokens if is_input else max_tokens)

    def _truncated(self, entry: DigestedItem, max_tokens: int) -> DigestedItem:
        """Return the entry with head and tail of its text, in so many tokens; itself when it is smaller."""
        if self.counter.entry(entry).tokens <= max_tokens:
            return entry
        reference = self._reference(entry)
        digest = entry.digest + b"truncated%d" % max_tokens + self.counter.method + reference.encode()

        def cut(text: str) -> str:
            room_tokens = max_tokens - CALL_OVERHEAD_TOKENS
            shorter = truncate_to_tokens(text, room_tokens, self.counter.text, reference=reference)
            return shorter or join_ends("", len(text), "", reference=reference)

        text = self._texts.get_or_compute(digest, lambda: excerpt_text(entry.item, cut) or "")
        self._references[digest] = reference
        truncated = DigestedItem(with_text(entry.item, text), digest)
        return min(entry, truncated, key=lambda either: self.counter.entry(either).tokens)


def _is_omitted(entry: DigestedItem, *, ends_turn: bool) -> bool:
    """Whether a skeleton goes without an item: reasoning, and assistant messages before the answer of the turn."""
    item = entry.item
    return is_reasoning(item) or (is_message(item) and item["role"] == "assistant" and not ends_turn)
