"""What the next request of a chat would be made of: the values that the answer to `/context` shows. Pure.

Sizes are tokens by the plain count, money is dollars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ..conversation.budget import UNKNOWN_WINDOW_TOKENS
from ..conversation.commands import Aim
from ..conversation.conversation import DigestedItem, Turn
from ..conversation.tokens import TokenCounter
from ..money.prefix import BreakCause
from ..money.prices import dollars
from ..planning.detail import DetailLevel
from ..planning.plan import Layout, Plan
from ..planning.simulate import BreakReason
from ..summaries.prompt import turn_text
from ..summaries.summary import render_part, render_summary
from ..words.lines import Say, notice

PartName: TypeAlias = Literal[
    "system", "tools", "summaries", "shortened", "recalled", "verbatim", "attachments", "reserve"
]
TurnState: TypeAlias = Literal["verbatim", "shortened", "summarized", "dropped"]

MAX_BREAKS: Final = 10
TEXT_CHARACTERS: Final = 80
_READ_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReportedTurn:
    """A turn of the chat: `number` counts from 1, `text` is the beginning of what the user wrote, in one line.

    `tokens` is what is sent of it, `original_tokens` all of it; `cached` says that it stands in the prefix that the
    provider's cache is expected to hold.
    """

    number: int
    text: str
    tokens: int
    original_tokens: int
    state: TurnState
    cached: bool


@dataclass(frozen=True, slots=True)
class ReportedSummary:
    """A summary as it is sent, with the turns that it replaces.

    Not `kept` where there is none yet: the next request has it written, and `text` is empty until then.
    """

    first_turn: int
    last_turn: int
    source_tokens: int
    tokens: int
    text: str
    kept: bool


@dataclass(frozen=True, slots=True)
class ReportedBreak:
    """A change of the prefix: in which turn, why, and what it has cost; `cost` is None where nobody counted it.

    `turn` is 0 where the change stands before all turns.
    """

    turn: int
    announced: bool
    cause: str
    cost: float | None


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """What a chat has cost so far; `saved` is held against sending all of it without a cache."""

    cost: float
    requests: int
    read_cost: float
    cached_tokens: int
    input_tokens: int
    saved: float


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The next request of a chat; `model` is the name that users see, `window_tokens` None where it is unknown.

    `parts` says how the window is divided ("reserve" is kept for the answer). `breaks` begin with the latest and are
    ten at most; `cost` is None where nothing is counted.
    """

    model: str
    window_tokens: int | None
    aim: Aim
    parts: Mapping[PartName, int]
    turns: Sequence[ReportedTurn]
    summaries: Sequence[ReportedSummary]
    breaks: Sequence[ReportedBreak]
    cost: ReportedCost | None


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """What is known of a chat's earlier requests.

    `cached_entries` is how many of the next request's items the provider is expected to have in its cache, `breaks` are
    the changes that nobody announced, the latest first.
    """

    cached_entries: int = 0
    breaks: Sequence[ReportedBreak] = ()
    cost: ReportedCost | None = None


def report_context(plan: Plan, record: ChatRecord, *, model: str, aim: Aim) -> ContextReport:
    """Return what a planned request is made of; its current turn is the question that nobody has asked yet."""
    layout = plan.layout
    assert layout is not None
    window_tokens = plan.budget.window_tokens
    return ContextReport(
        model,
        None if window_tokens >= UNKNOWN_WINDOW_TOKENS else window_tokens,
        aim,
        _parts(plan, layout),
        tuple(_turns(layout, record.cached_entries)),
        tuple(reported_summaries(layout)),
        tuple(_breaks(plan, record.breaks)),
        record.cost,
    )


def _parts(plan: Plan, layout: Layout) -> Mapping[PartName, int]:
    """Return the tokens of each part, media apart from all others."""
    parts, counter, cutoffs = layout.parts, layout.parts.counter, layout.cutoffs
    conversation = layout.conversation
    summaries = parts.summaries.entries(parts.segments_before(cutoffs.replaced))
    found: dict[PartName, int] = dict.fromkeys(get_args(PartName), 0)
    found["system"] = _text_tokens(counter, [*conversation.instructions, *conversation.volatile])
    found["tools"] = layout.tool_tokens
    found["summaries"] = _text_tokens(counter, summaries)
    found["recalled"] = _text_tokens(counter, plan.recalled.entries)
    found["shortened"] = _text_tokens(counter, parts.note(cutoffs.summarized, cutoffs.dropped))
    for at, part in enumerate(parts.parts):
        sent = parts.entries(cutoffs.level_of(at), at)
        found["verbatim" if sent == part.entries else "shortened"] += _text_tokens(counter, sent)
    found["attachments"] = plan.counts.media
    found["reserve"] = plan.budget.output_reserve_tokens
    return found


def _text_tokens(counter: TokenCounter, entries: Iterable[DigestedItem]) -> int:
    counts = counter.entries(entries)
    return counts.tokens - counts.media


def _turns(layout: Layout, cached_entries: int) -> Iterator[ReportedTurn]:
    """Yield the turns before the current one."""
    parts, cutoffs = layout.parts, layout.cutoffs
    summaries_end = len(layout.conversation.instructions) + 1
    for index, turn in enumerate(parts.turns[:-1]):
        numbers = range(parts.start_of(index), parts.start_of(index + 1))
        sent = [parts.entries(cutoffs.level_of(at), at) for at in numbers]
        levels = [cutoffs.level_of(at) for at in numbers]
        state: TurnState = "shortened"
        if all(entries == parts.parts[at].entries for at, entries in zip(numbers, sent, strict=True)):
            state = "verbatim"
        elif max(levels) == DetailLevel.SUMMARIZED:
            state = "summarized"
        elif min(levels) == DetailLevel.DROPPED:
            state = "dropped"
        end = summaries_end if state == "summarized" else layout.starts[numbers[-1]] + len(sent[-1])
        yield ReportedTurn(
            index + 1,
            opening_of(turn),
            sum(parts.counter.entries(entries).tokens for entries in sent),
            parts.counter.entries(turn.entries).tokens,
            state,
            state != "dropped" and end <= cached_entries,
        )


def opening_of(turn: Turn) -> str:
    """Return the beginning of what the user wrote in a turn, in one line."""
    text = " ".join(turn_text(turn, "user")[:_READ_CHARACTERS].split())
    return text if len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 1]}\u2026"


def turn_of_position(position: str) -> int:
    """Return the turn in which the audit found a change, 0 where it stands before all turns."""
    number = position.removeprefix("turn ")
    return int(number) if number.isdecimal() else 0


def reported_summaries(layout: Layout) -> Iterator[ReportedSummary]:
    """Yield the summaries that are sent, oldest first; the newest says also how things stand."""
    index, counter = layout.parts.summaries, layout.parts.counter
    covered = [*index.cover(layout.parts.segments_before(layout.cutoffs.replaced))]
    for number, (target, summary) in enumerate(covered, start=1):
        text = ""
        if summary is not None:
            text = render_summary(summary) if number == len(covered) else render_part(summary)
        last_turn = target.first_turn + len(target.turns) - 1
        yield ReportedSummary(
            target.first_turn,
            last_turn,
            target.source_tokens,
            counter.text(text) if text else 0,
            text,
            summary is not None,
        )


def _breaks(plan: Plan, found: Sequence[ReportedBreak]) -> Sequence[ReportedBreak]:
    """Return the latest changes, by the turns in which they stand."""
    announced = [
        ReportedBreak(each.turn + 1, announced=True, cause=each.reason, cost=None)
        for each in plan.prefix_breaks
    ]
    return sorted([*found, *reversed(announced)], key=lambda each: -each.turn)[:MAX_BREAKS]


MAX_LISTED_TURNS: Final = 60
"""The newest ones."""

PARTS: Final = get_args(PartName)
"""In the order in which they are shown; the words for parts, aims, states and causes bear their names."""
_CAUSES: Final = frozenset((*get_args(BreakReason), *get_args(BreakCause)))
TURN_COLUMNS: Final = (
    "context_turn",
    "context_wrote",
    "context_sent",
    "context_original",
    "context_state",
    "context_cached",
)
"""The names of the words for columns."""
_MARKUP: Final = re.compile(r"[\\`*_{}\[\]<>()#+!|~$&@]|:(?=//)|(?<=www)\.|^[-=]", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^(\d+)\.", re.MULTILINE)
"""Emphasis, links with and without brackets, and what begins a line that is a list, a rule or a heading."""


def context_text(report: ContextReport, say: Say = notice, *, folded: bool = False) -> str:
    """Return the report as paragraphs and tables, in the words that `say` returns; `folded` beside a page of it."""
    text = "\n\n".join(_paragraphs(report, say))
    is_whole = all(turn.state == "verbatim" for turn in report.turns)
    hint = say("context_hint_help" if is_whole else "context_hint")
    if not folded:
        return f"{text}\n\n{hint}"
    return f"{hint}\n\n<details>\n<summary>{say('context_as_text')}</summary>\n\n{text}\n\n</details>"


def _paragraphs(report: ContextReport, say: Say) -> Iterator[str]:
    used = sum(tokens for name, tokens in report.parts.items() if name != "reserve")
    yield f"**{say('context_title', model=plain(report.model))}**"
    if report.window_tokens:
        share = used / report.window_tokens
        yield say("context_window", tokens=used, window_tokens=report.window_tokens, share=share)
    else:
        yield say("context_window_unknown", tokens=used)
    yield say(f"context_aim_{report.aim}")
    yield "\n".join(_parts_table(report, say))
    if report.turns:
        yield "\n".join(_turns_table(report.turns, say))
    if report.cost:
        yield _cost_line(report.cost, say)
    yield from _break_lines(report.breaks, say)
    for summary in report.summaries:
        yield _summary(summary, say)


def cause_name(cause: str) -> str:
    """Return the name of the words for why a prefix changed; the audit may hold a cause that is not known here."""
    return f"context_cause_{cause if cause in _CAUSES else 'unknown'}"


def plain(text: str) -> str:
    """Return text as Markdown shows it as it is."""
    return _NUMBERED.sub(r"\1\\.", _MARKUP.sub(r"\\\g<0>", text))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _parts_table(report: ContextReport, say: Say) -> Iterator[str]:
    whole = report.window_tokens or sum(report.parts.values()) or 1
    yield _row(say("context_part"), say("context_tokens"), say("context_share"))
    yield _row("---", "---:", "---:")
    for name in PARTS:
        if tokens := report.parts[name]:
            yield _row(
                say(f"context_part_{name}"),
                _number(tokens, say),
                say("context_page_share", share=tokens / whole),
            )


def _turns_table(turns: Sequence[ReportedTurn], say: Say) -> Iterator[str]:
    listed = turns[-MAX_LISTED_TURNS:]
    yield _row(*(say(name) for name in TURN_COLUMNS))
    yield _row("---:", "---", "---:", "---:", "---", "---")
    if len(listed) < len(turns):
        yield _row("\u2026", say("context_earlier_turns", count=len(turns) - len(listed)), "", "", "", "")
    for turn in listed:
        yield _row(
            str(turn.number),
            plain(turn.text),
            _number(turn.tokens, say),
            _number(turn.original_tokens, say),
            say(f"context_state_{turn.state}"),
            say("context_yes" if turn.cached else "context_no"),
        )


def _cost_line(cost: ReportedCost, say: Say) -> str:
    line = say("context_cost", cost=dollars(cost.cost), count=cost.requests)
    if cost.cached_tokens:
        share = cost.cached_tokens / max(1, cost.input_tokens)
        line += f" {say('context_read', share=share, cost=dollars(cost.read_cost))}"
    return line + (f" {say('context_saved', cost=dollars(cost.saved))}" if cost.saved > 0 else "")


def _break_lines(breaks: Sequence[ReportedBreak], say: Say) -> Iterator[str]:
    """Yield what made the provider read the chat anew, as one list."""
    if not breaks:
        return
    lines = [say("context_breaks")]
    for each in breaks:
        where = say("context_break_turn", turn=each.turn) if each.turn else say("context_break_start")
        lines.append(f"- {where}: {say(cause_name(each.cause))}")
        lines[-1] += f" ({_amount(each.cost, say)})" if each.cost else ""
    yield "\n".join(lines)


def _number(number: int, say: Say) -> str:
    return say("context_page_number", number=number)


def _amount(amount: float, say: Say) -> str:
    return say("context_page_amount", amount=dollars(amount))


def _summary(summary: ReportedSummary, say: Say) -> str:
    turns = {"first": summary.first_turn, "last": summary.last_turn}
    if not summary.kept:
        return say("context_summary_missing", **turns)
    line = say("context_summary", tokens=summary.tokens, source_tokens=summary.source_tokens, **turns)
    quoted = "\n".join(f"> {plain(each.strip())}  " for each in summary.text.splitlines())
    return f"**{line}**\n\n{quoted}"
