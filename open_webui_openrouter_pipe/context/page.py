"""The answer to `/context` as a page, and what the pages that answer commands share: document, style, tables. Pure.

A page is one text without external resources, which says all of it without its script too. No other script than the
page's own runs, and whatever comes from a chat is escaped. `frame.css` and `frame.js` are in every page, those of its
own name behind them; `page.js` shows the buttons only where somebody hears them. A page is as high as its content, and
has the theme that `data-theme` names, or else the browser's; as an embed of the same origin it follows the host's.
Source of what Open WebUI hears of an embed (`iframe:height`, `input:prompt:submit`): `FullHeightIframe.svelte` and
`Chat.svelte` of Open WebUI 0.12.
"""

from __future__ import annotations

import base64
import hashlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import Any, Final

from ..words.lines import Say, notice
from .report import (
    PARTS,
    TURN_COLUMNS,
    ContextReport,
    ReportedBreak,
    ReportedSummary,
    ReportedTurn,
    aim_line,
    break_cells,
    cost_lines,
    turn_cells,
    use_line,
)

_NEWEST_TURNS: Final = 8
"""As many are seen at once, and what follows them is still in sight; the earlier ones are opened."""

_BREAK_COLUMNS: Final = ("context_page_cause", "context_turn", "context_page_planned", "context_page_cost")
_CODE: Final = re.compile("`([^`]*)`")


def context_page(report: ContextReport, say: Say = notice) -> str:
    """Draw a report as an HTML document, in the words that `say` returns."""

    def shown(name: str, **values: Any) -> str:
        return escaped(say(name, **values))

    title, cost = shown("context_title", model=report.model), ""
    if report.cost:
        cost = f"<h2>{shown('context_page_cost')}</h2>" + "".join(
            paragraph(line, "cost") for line in cost_lines(report.cost, shown)
        )
    content = _window(report, shown) + _turns(report.turns, shown) + cost + _breaks(report.breaks, shown)
    if report.summaries:
        content += f"<h2>{shown('context_part_summaries')}</h2>"
        content += "".join(_summary(each, shown) for each in report.summaries)
    return document("page", title, content, shown)


def _window(report: ContextReport, say: Say) -> str:
    """Draw the bar of the window, with its legend. Where more is sent than fits, it shows where the window ends."""
    taken = sum(report.parts.values())
    window = report.window_tokens or taken
    parts = [(part, f"context_part_{part}", report.parts.get(part, 0)) for part in PARTS]
    shown = [each for each in (*parts, ("free", "context_page_free", window - taken)) if each[2] > 0]
    bar, legend, said, over = "", "", [], ""
    for part, name, tokens in shown:
        words, size = say(name), say("context_page_number", number=tokens)
        share = say("context_page_share", share=tokens / max(taken, window))
        bar += f'<i class="{part}" style="flex-grow:{tokens}"></i>'
        legend += f'<li><i class="{part}"></i>{words} <span>{size}</span> <small>{share}</small></li>'
        said.append(f"{words} {share}")
    if taken > window:
        bar += f'<i class="end" style="width:{window / taken:.1%}"></i>'
        over = paragraph(say("context_page_over", count=taken - window), "warning")
    if shown:
        bar = f'<div class="bar" role="img" aria-label="{", ".join(said)}">{bar}</div>'
    aim = paragraph(marked(aim_line(report, say)), "muted")
    return f'{aim}{paragraph(use_line(report, say), "use")}{over}{bar}<ul class="legend">{legend}</ul>'


def _turns(turns: Sequence[ReportedTurn], say: Say) -> str:
    """Draw the turns as a table; of a long chat the earlier ones as another that is to be opened."""
    title = say("context_page_turns")
    if not turns:
        return f"<h2>{title}</h2>" + paragraph(say("context_page_nothing"), "muted")
    earlier, newest = turns[:-_NEWEST_TURNS], turns[-_NEWEST_TURNS:]
    opened = ""
    if earlier:
        line = say("context_earlier_turns", count=len(earlier))
        opened = f"<details><summary>{line}</summary>{_table_of_turns(earlier, line, say)}</details>"
    return f"<h2>{title}</h2>{opened}{_table_of_turns(newest, title, say)}"


def _table_of_turns(turns: Sequence[ReportedTurn], label: str, say: Say) -> str:
    rows = []
    for turn in turns:
        number, text, tokens, original, state, cached = turn_cells(turn, say)
        style = "summaries" if turn.state == "summarized" else turn.state  # that of a part is its name
        rows.append(
            f'<tr><th scope="row">{number}<td><div dir="auto">{escaped(text)}</div>'
            f'<td>{tokens}<td>{original}<td><i class="{style}"></i>{state}<td>{cached}'
        )
    return table("turns", label, map(say, TURN_COLUMNS), rows)


def _breaks(breaks: Sequence[ReportedBreak], say: Say) -> str:
    """Draw what made the provider read earlier turns anew, and why."""
    title, rows = say("context_page_breaks"), []
    for each in breaks:
        where, cause, price = break_cells(each, say)
        announced = say("context_yes" if each.cost is None else "context_no")
        price = price or f"<small>{say('context_page_uncounted')}</small>"
        rows.append(f'<tr><th scope="row">{cause}<td>{where}<td>{announced}<td>{price}')
    drawn = table("breaks", title, map(say, _BREAK_COLUMNS), rows)
    return f"<h2>{title}</h2>" + (drawn if rows else paragraph(say("context_page_nothing"), "muted"))


def _summary(summary: ReportedSummary, say: Say) -> str:
    first, last = summary.first_turn, summary.last_turn
    if not summary.text:
        return paragraph(say("context_summary_missing", first=first, last=last), "missing")
    title = say("context_page_summary", first=first, last=last)
    if first == last:
        title = say("context_break_turn", turn=first)
    size = say("context_page_summary_size", tokens=summary.tokens, source_tokens=summary.source_tokens)
    commands = {name: f"/{name} {first}-{last}" for name in ("restore", "discard")}
    buttons = ""
    for name, typed in commands.items():
        words = say(f"context_page_{name}")
        buttons += f'<button hidden value="{typed}" aria-label="{words}: {title}">{words}</button>'
    return (
        f"<details><summary><b>{title}</b><small>{size}</small></summary>"
        f'<div class="text" dir="auto">{escaped(summary.text)}</div><div class="actions">{buttons}'
        f"{paragraph(marked(say('context_hint', **commands)), 'muted')}</div></details>"
    )


def document(name: str, title: str, content: str, say: Say) -> str:
    """Return an HTML document with the style and the script of the page of this name."""
    style, script = (_read(name, kind) for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    return (
        f'<!doctype html><html lang="{say("context_page_language")}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head>"
        f"<body><main><h1>{title}</h1>{content}</main><script>{script}</script></body></html>"
    )


@cache
def _read(name: str, kind: str) -> str:
    """Return what all pages have, and what this one has besides."""
    files = (pkgutil.get_data(__package__, f"{each}.{kind}") or b"" for each in ("frame", name))
    return b"".join(files).decode()


def table(style: str, label: str, columns: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table of rows that are written already."""
    header = "".join(f'<th scope="col">{words}' for words in columns)
    return f'<table class="{style}" aria-label="{label}"><thead><tr>{header}<tbody>{"".join(rows)}</table>'


def paragraph(words: str, style: str) -> str:
    """Return a paragraph."""
    return f'<p class="{style}">{words}</p>'


def marked(words: str) -> str:
    """Mark what users type in a line, which stands between backticks."""
    return _CODE.sub(r"<code>\1</code>", words)


def escaped(words: str) -> str:
    """Escape for the content of an element and for a quoted attribute; what no database keeps as text is replaced."""
    return escape(words.encode("utf-8", "replace").decode().replace("\0", "?"))
