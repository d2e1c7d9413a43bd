"""The answer to `/context` as text: Markdown that can also be read aloud, and that callers without a page get.

Owns the order of what is said, and how it is laid out. The words are the notices'; quoted text is made plain, so that
it has no emphasis, links, lists, tables, images or HTML of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..conversation.budget import Aim
from ..notices import Say, notice
from .context_report import (
    ContextReport,
    PartName,
    ReportedBreak,
    ReportedCost,
    ReportedSummary,
    ReportedTurn,
    TurnState,
)
from .price import dollars

MAX_LISTED_TURNS: Final = 60
"""The newest ones."""

AIM_WORDS: Final[Mapping[Aim, str]] = {"faithful": "context_aim_faithful", "thrifty": "context_aim_thrifty"}
PART_WORDS: Final[Mapping[PartName, str]] = {
    "system": "context_part_system",
    "tools": "context_part_tools",
    "summaries": "context_part_summaries",
    "shortened": "context_part_shortened",
    "recalled": "context_part_recalled",
    "verbatim": "context_part_verbatim",
    "attachments": "context_part_attachments",
    "reserve": "context_part_reserve",
}
STATE_WORDS: Final[Mapping[TurnState, str]] = {
    "verbatim": "context_state_verbatim",
    "shortened": "context_state_shortened",
    "summarized": "context_state_summarized",
    "dropped": "context_state_dropped",
}
CAUSE_WORDS: Final[Mapping[str, str]] = {
    "retention": "context_cause_retention",
    "clip": "context_cause_clip",
    "summary": "context_cause_summary",
    "prune": "context_cause_prune",
    "evict": "context_cause_evict",
    "recall": "context_cause_recall",
    "restore": "context_cause_restore",
    "discard": "context_cause_discard",
    "clock": "context_cause_clock",
    "memory": "context_cause_memory",
    "prompt": "context_cause_prompt",
    "tools": "context_cause_tools",
    "settings": "context_cause_settings",
    "reasoning": "context_cause_reasoning",
    "results": "context_cause_results",
    "attachments": "context_cause_attachments",
    "sources": "context_cause_sources",
    "edit": "context_cause_edit",
    "plan": "context_cause_plan",
    "unknown": "context_cause_unknown",
}
TURN_COLUMNS: Final = (
    "context_turn",
    "context_wrote",
    "context_sent",
    "context_original",
    "context_state",
    "context_cached",
)
"""The names of the words for aims, parts (in the order in which they are shown), states, causes and columns."""
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
    yield say(AIM_WORDS[report.aim])
    yield "\n".join(_parts_table(report, say))
    if report.turns:
        yield "\n".join(_turns_table(report.turns, say))
    if report.cost:
        yield _cost_line(report.cost, say)
    yield from _break_lines(report.breaks, say)
    for summary in report.summaries:
        yield _summary(summary, say)


def plain(text: str) -> str:
    """Return text as Markdown shows it as it is."""
    return _NUMBERED.sub(r"\1\\.", _MARKUP.sub(r"\\\g<0>", text))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _parts_table(report: ContextReport, say: Say) -> Iterator[str]:
    whole = report.window_tokens or sum(report.parts.values()) or 1
    yield _row(say("context_part"), say("context_tokens"), say("context_share"))
    yield _row("---", "---:", "---:")
    for name in PART_WORDS:
        if tokens := report.parts[name]:
            yield _row(
                say(PART_WORDS[name]), _number(tokens, say), say("context_page_share", share=tokens / whole)
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
            say(STATE_WORDS[turn.state]),
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
        lines.append(f"- {where}: {say(CAUSE_WORDS.get(each.cause, 'context_cause_unknown'))}")
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
