"""What the next request of a chat would be made of: the rows that `/context` shows, and their Markdown. Pure.

Sizes are tokens by the plain count, money is dollars. The words for parts, aims, states and causes bear their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeAlias, get_args

from ..conversation.budget import UNKNOWN_WINDOW_TOKENS, ContextSettings
from ..conversation.conversation import DigestedItem, Turn
from ..conversation.slash import Aim
from ..conversation.tokens import TokenCounter
from ..money.audit import ChatSpending
from ..money.prefix import BreakCause
from ..money.prices import dollars
from ..planning.detail import DetailLevel
from ..planning.plan import Plan, Reduction
from ..planning.simulate import BreakReason
from ..summaries.prompt import user_text
from ..summaries.summary import render_part, render_state
from ..words.lines import Say, notice

PartName: TypeAlias = Literal[
    "system", "tools", "summaries", "shortened", "recalled", "verbatim", "attachments", "reserve"
]
TurnState: TypeAlias = Literal["verbatim", "shortened", "summarized", "dropped"]

PARTS: Final = get_args(PartName)
"""In the order in which they are shown."""
TURN_COLUMNS: Final = (
    "context_turn",
    "context_wrote",
    "context_sent",
    "context_original",
    "context_state",
    "context_cached",
)
"""The names of the words for columns."""
MAX_BREAKS: Final = 10
MAX_LISTED_DAYS: Final = 12
LEAST_DOLLARS: Final = 1e-6
"""What is less is the rounding of sums."""
_PAID: Final = ("cost", "provider_cost")
MAX_LISTED_TURNS: Final = 60
"""The newest ones."""
TEXT_CHARACTERS: Final = 80
_READ_CHARACTERS: Final = 2_000
_CAUSES: Final = frozenset((*get_args(BreakReason), *get_args(BreakCause)))
_MARKUP: Final = re.compile(r"[\\`*_{}\[\]<>#+!|~$&@]|:(?=//)|(?<=www)\.|^[-=]")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])")
"""Emphasis, links with and without brackets, and what begins a line that is a list, a rule or a heading."""
_APART: Final = {"[": "[\u2060", "]": "]\u2060", "\\": "\\\\\u2060"}
"""What begins a formula behind a backslash: a word joiner keeps it apart, since the page shows entities as they are."""


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

    `text` is empty where there is none yet: the next request has it written.
    """

    first_turn: int
    last_turn: int
    source_tokens: int
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class ReportedBreak:
    """A change of the prefix: in which turn (0 for before all turns), why, and what it has cost.

    `cost` is None for one that the plan announces: nobody counts it.
    """

    turn: int
    cause: str
    cost: float | None


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The next request of a chat; `model` is the name that users see, `window_tokens` None where it is unknown.

    `parts` says how the window is divided ("reserve" is kept for the answer). `breaks` begin with the latest and are
    ten at most; `cost` is None where nothing is counted. From `trigger_tokens` on old turns give way; 0 where no such
    size is known.
    """

    model: str
    window_tokens: int | None
    aim: Aim
    parts: Mapping[PartName, int]
    turns: Sequence[ReportedTurn]
    summaries: Sequence[ReportedSummary]
    breaks: Sequence[ReportedBreak]
    cost: ChatSpending | None
    trigger_tokens: int = 0
    builtin_tokens: int = 0
    """What the host's tools take that nobody has chosen."""
    lacking_tools: Reduction | None = None


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """What is known of a chat's earlier requests.

    `cached_entries` is how many of the next request's items the provider is expected to have in its cache, `breaks` are
    position, cause and price of the changes that nobody announced, the latest first.
    """

    cached_entries: int = 0
    breaks: Sequence[tuple[str, str, float]] = ()
    cost: ChatSpending | None = None


@dataclass(frozen=True, slots=True)
class ChatCost:
    """What a chat has cost, None where that is not counted; `days` are a day, the name of a model, and what it cost.

    The latest come first. `next_message` is a line about what the next request will cost, "" where nothing is known.
    """

    whole: ChatSpending | None
    days: Sequence[tuple[date, str, ChatSpending]] = ()
    next_message: str = ""


def report_context(plan: Plan, record: ChatRecord, *, model: str, settings: ContextSettings) -> ContextReport:
    """Return what a planned request is made of; its current turn is the question that nobody has asked yet."""
    window_tokens, aim = plan.budget.window_tokens, settings.context_aim
    is_known = window_tokens < UNKNOWN_WINDOW_TOKENS
    by_size = settings.summary_turn_trigger == 0 and settings.tool_output_pruning != "every_turn"
    is_pruned = settings.context_strategy in {"summarize", "prune"}
    trigger_tokens = settings.prune_trigger_ratio * plan.limit_tokens
    if settings.context_strategy == "summarize":
        trigger_tokens = min(trigger_tokens, settings.summary_trigger_ratio * plan.budget.input_tokens)
    found = (  # without a number, it stands before all turns
        ReportedBreak(int(at) if (at := position.removeprefix("turn ")).isdecimal() else 0, cause, cost)
        for position, cause, cost in record.breaks
    )
    announced = (ReportedBreak(each.turn + 1, each.reason, None) for each in reversed(plan.prefix_breaks))
    return ContextReport(
        model,
        window_tokens if is_known else None,
        aim,
        _parts(plan),
        tuple(_turns(plan, record.cached_entries)),
        tuple(reported_summaries(plan)),
        sorted([*found, *announced], key=lambda each: -each.turn)[:MAX_BREAKS],
        record.cost if record.cost and record.cost.requests else None,
        int(trigger_tokens) if is_known and by_size and is_pruned and aim == "faithful" else 0,
        plan.optional_tool_tokens,
        next((each for each in plan.reductions if each.kind == "tools"), None),
    )


def _parts(plan: Plan) -> Mapping[PartName, int]:
    """Return the tokens of each part, media apart from all others."""
    parts, cutoffs, conversation = plan.parts, plan.cutoffs, plan.conversation
    counter = parts.counter
    tools = [tool for tool in conversation.tools if tool.get("name") not in plan.absent_tools]
    summaries = parts.summaries.entries(parts.segments_before(cutoffs.replaced))
    found: dict[PartName, int] = dict.fromkeys(PARTS, 0)
    found["system"] = _text_tokens(counter, [*conversation.instructions, *conversation.volatile])
    found["tools"] = counter.tools(tools).tokens
    found["summaries"] = _text_tokens(counter, summaries)
    found["recalled"] = _text_tokens(counter, plan.recalled.entries)
    found["shortened"] = _text_tokens(counter, cutoffs.note(parts))
    for at, part in enumerate(parts.parts):
        sent = parts.entries(cutoffs.level_of(at), at)
        found["verbatim" if sent == part.entries else "shortened"] += _text_tokens(counter, sent)
    found["attachments"] = plan.counts.media
    found["reserve"] = plan.budget.output_reserve_tokens
    return found


def _text_tokens(counter: TokenCounter, entries: Iterable[DigestedItem]) -> int:
    counts = counter.entries(entries)
    return counts.tokens - counts.media


def _turns(plan: Plan, cached_entries: int) -> Iterator[ReportedTurn]:
    """Yield the turns before the current one."""
    parts, cutoffs = plan.parts, plan.cutoffs
    summaries_end = len(plan.conversation.instructions) + 1
    for index, turn in enumerate(parts.turns[:-1]):
        numbers = range(parts.start_of(index), parts.start_of(index + 1))
        levels = [cutoffs.level_of(at) for at in numbers]
        sent = [parts.entries(level, at) for level, at in zip(levels, numbers, strict=True)]
        state: TurnState = "shortened"
        if all(entries == parts.parts[at].entries for at, entries in zip(numbers, sent, strict=True)):
            state = "verbatim"
        elif max(levels) == DetailLevel.SUMMARIZED:
            state = "summarized"
        elif min(levels) == DetailLevel.DROPPED:
            state = "dropped"
        end = summaries_end if state == "summarized" else plan.starts[numbers[-1]] + len(sent[-1])
        yield ReportedTurn(
            index + 1,
            _opening_of(turn),
            sum(parts.counter.entries(entries).tokens for entries in sent),
            parts.counter.entries(turn.entries).tokens,
            state,
            state != "dropped" and end <= cached_entries,
        )


def _opening_of(turn: Turn) -> str:
    """Return the beginning of what the user wrote in a turn, in one line."""
    text = " ".join(user_text(turn)[:_READ_CHARACTERS].split())
    return text if len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 1]}\u2026"


def reported_summaries(plan: Plan) -> Iterator[ReportedSummary]:
    """Yield the summaries that are sent, oldest first; the newest says also how things stand."""
    parts = plan.parts
    covered = [*parts.summaries.cover(parts.segments_before(plan.cutoffs.replaced))]
    state = render_state([summary for _, summary in covered if summary])
    for number, (target, summary) in enumerate(covered, start=1):
        shown = [render_part(summary)] if summary else []
        text = "\n".join([*shown, state] if shown and state and number == len(covered) else shown)
        last_turn = target.first_turn + len(target.turns) - 1
        tokens = parts.counter.text(text) if text else 0
        yield ReportedSummary(target.first_turn, last_turn, target.source_tokens, tokens, text)


def use_line(report: ContextReport, say: Say) -> str:
    """Say how full the window is. What is kept for the answer is not in use, but needs its room."""
    tokens = sum(tokens for name, tokens in report.parts.items() if name != "reserve")
    if not (window := report.window_tokens):
        return say("context_window_unknown", tokens=tokens)
    return say("context_window", tokens=tokens, window_tokens=window, share=tokens / window)


def turn_cells(turn: ReportedTurn, say: Say) -> tuple[str, ...]:
    """Return what stands in the columns of a turn."""
    return (
        str(turn.number),
        turn.text,
        say("context_page_number", number=turn.tokens),
        say("context_page_number", number=turn.original_tokens),
        say(f"context_state_{turn.state}"),
        say("context_yes" if turn.cached else "context_no"),
    )


def cost_lines(cost: ChatSpending, say: Say) -> Iterator[str]:
    """Say what a chat has cost, and what the cache has saved."""
    yield say("context_cost", cost=dollars(cost.cost, cost.provider_cost), count=cost.requests)
    if cost.cached_tokens:
        share = cost.cached_tokens / max(1, cost.input_tokens)
        yield say("context_read", share=share)
    if cost.saved > 0:
        yield say("context_saved", cost=dollars(cost.saved))


def cost_text(cost: ChatCost, say: Say = notice) -> str:
    """Say what a chat has cost, by day and model; the rest is what no answer was billed for."""
    if cost.whole is None:
        return say("cost_uncounted")
    lines, whole = list[str](), cost.whole
    listed = cost.days[:MAX_LISTED_DAYS]
    for day, model, spent in listed:
        price = dollars(spent.cost, spent.provider_cost)
        lines.append(say("cost_of_day", day=day, model=plain(model), cost=price, count=spent.requests))
    rest = [getattr(whole, name) - sum(getattr(each, name) for *_, each in listed) for name in _PAID]
    if lines and max(rest) > LEAST_DOLLARS:
        lines.append(say("cost_of_others", cost=dollars(*rest)))
    if cost.next_message:
        lines.append(say("list_item", line=cost.next_message))
    return "\n\n".join([" ".join(cost_lines(whole, say)), "\n".join(lines)]).strip()


def break_cells(each: ReportedBreak, say: Say) -> tuple[str, str, str]:
    """Return where a change stands, why it came, and its price, "" for none.

    The audit may hold a cause that is not known here.
    """
    cause = each.cause if each.cause in _CAUSES else "unknown"
    return (
        say("context_break_turn", turn=each.turn) if each.turn else say("context_break_start"),
        say(f"context_cause_{cause}"),
        "" if each.cost is None else say("context_page_amount", amount=dollars(each.cost)),
    )


def aim_line(report: ContextReport, say: Say) -> str:
    """Return what the chat is sent by, why room is free, and what tools take that nobody has chosen."""
    trigger, tools, lacking = report.trigger_tokens, report.builtin_tokens, report.lacking_tools
    lines = [
        say(f"context_aim_{report.aim}"),
        say("context_trigger", tokens=trigger) if trigger else "",
        say("context_builtin_tools", tokens=tools) if tools else "",
        say("lacking_tools", count=lacking.count, tokens=lacking.tokens) if lacking else "",
    ]
    return " ".join(filter(None, lines))


def context_text(report: ContextReport, say: Say = notice, *, folded: bool = False) -> str:
    """Return the report as paragraphs and tables, in the words that `say` returns; `folded` beside a page of it."""
    text = "\n\n".join(_paragraphs(report, say))
    hint = say("help_help")
    if not all(turn.state == "verbatim" for turn in report.turns):
        hint = say("context_hint", restore="/restore 3-8", discard="/discard 3-8")
    return folded_text(hint, text, say) if folded else f"{text}\n\n{hint}"


def folded_text(first: str, text: str, say: Say) -> str:
    """Return a text to be opened beside a page, below a line: behind an answer's mark Open WebUI reads no tag."""
    return f"{first}\n\n<details>\n<summary>{say('context_as_text')}</summary>\n\n{text}\n\n</details>"


def _paragraphs(report: ContextReport, say: Say) -> Iterator[str]:
    yield f"**{say('context_title', model=plain(report.model))}**"
    yield use_line(report, say)
    yield aim_line(report, say)
    yield "\n".join(_parts_table(report, say))
    if report.turns:
        yield "\n".join(_turns_table(report.turns, say))
    if report.cost:
        yield " ".join(cost_lines(report.cost, say))
    if report.breaks:
        lines = [f"**{say('context_page_breaks')}**"]
        for each in report.breaks:
            where, cause, price = break_cells(each, say)
            lines.append(f"- {where}: {cause}" + (f" ({price})" if each.cost else ""))
        yield "\n".join(lines)
    if report.summaries:
        yield f"**{say('context_part_summaries')}**"
    for summary in report.summaries:
        turns = {"first": summary.first_turn, "last": summary.last_turn}
        if not summary.text:
            yield say("context_summary_missing", **turns)
            continue
        size = say("context_page_summary_size", tokens=summary.tokens, source_tokens=summary.source_tokens)
        yield f"**{say('context_page_summary', **turns)}: {size}**\n\n" + "\n".join(
            f"> {plain(each.strip())}  " for each in summary.text.splitlines()
        )


def plain(text: str) -> str:
    """Return text as Markdown shows it as it is, in one line."""
    line = re.sub(r"\s+", " ", text)
    line = _MARKUP.sub(lambda found: _APART.get(found[0], f"\\{found[0]}"), line)
    return _NUMBERED.sub(r"\1\\\2", line)


def markdown_row(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def _parts_table(report: ContextReport, say: Say) -> Iterator[str]:
    whole = report.window_tokens or sum(report.parts.values()) or 1
    yield markdown_row(say("context_part"), say("context_tokens"), say("context_share"))
    yield markdown_row("---", "---:", "---:")
    for name in PARTS:
        if tokens := report.parts[name]:
            size = say("context_page_number", number=tokens)
            yield markdown_row(
                say(f"context_part_{name}"), size, say("context_page_share", share=tokens / whole)
            )


def _turns_table(turns: Sequence[ReportedTurn], say: Say) -> Iterator[str]:
    listed = turns[-MAX_LISTED_TURNS:]
    yield markdown_row(*map(say, TURN_COLUMNS))
    yield markdown_row("---:", "---", "---:", "---:", "---", "---")
    if len(listed) < len(turns):
        yield markdown_row(
            "\u2026", say("context_earlier_turns", count=len(turns) - len(listed)), "", "", "", ""
        )
    for number, text, *cells in (turn_cells(turn, say) for turn in listed):
        yield markdown_row(number, plain(text), *cells)
