"""Reports of contexts for tests: a short chat, a long one, a hostile one, and those that are out of the ordinary."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace

from open_webui_openrouter_pipe.context.report import (
    PARTS,
    ContextReport,
    ReportedBreak,
    ReportedSummary,
    ReportedTurn,
    TurnState,
)
from open_webui_openrouter_pipe.money.audit import ChatSpending

ASKED = (
    "Which of the ferries still runs in November?",
    "Compare the timetables of both piers, and say which connection is the surest in fog",
    "What did the harbour master say about the winter?",
    "Thanks!",
    "Write it down as a table with times, prices and the names of the ships, for the notice board",
)


def turn(number: int, state: TurnState = "verbatim", *, cached: bool = True, text: str = "") -> ReportedTurn:
    """A turn with one of the questions; what is sent of it depends on its state."""
    original = 180 + number * 137 % 2900
    parts = {"verbatim": 1, "shortened": 0.4, "summarized": 0.1, "dropped": 0}
    text = text or ASKED[number % len(ASKED)]
    return ReportedTurn(number, text, int(original * parts[state]), original, state, cached)


def state_of(number: int, count: int) -> TurnState:
    """The oldest tenth is not sent; summaries, shortened turns and whole ones follow."""
    states: tuple[TurnState, ...] = ("dropped", "summarized", "shortened", "verbatim")
    return states[bisect((0.1, 0.6, 0.7), number / count)]


EMPTY = ContextReport("OpenAI: GPT-5.2", 400_000, "faithful", dict.fromkeys(PARTS, 0), (), (), (), None)
SUMMARY = (
    "The user plans a trip to the islands in November and wants to know which ferries run.\n\n"
    "- The *Halcyon* sails from the east pier at 07:40 and 16:10, except on Mondays; 12.50 a ticket.\n"
    "- The harbour master expects fog until noon, and says that the west pier closes on 3 December.\n"
    "- Agreed: the table is for the notice board, with times, prices and names of ships."
)
SMALL = ContextReport(
    model="OpenAI: GPT-5.2",
    window_tokens=128_000,
    aim="faithful",
    parts={
        "system": 1_204,
        "tools": 5_312,
        "summaries": 2_450,
        "shortened": 6_120,
        "recalled": 1_880,
        "verbatim": 31_702,
        "attachments": 8_400,
        "reserve": 16_384,
    },
    turns=[turn(number, state_of(number, 12), cached=number < 10) for number in range(1, 13)],
    summaries=[
        ReportedSummary(2, 5, 9_804, 1_410, SUMMARY),
        ReportedSummary(6, 7, 4_120, 0, ""),
    ],
    breaks=[
        ReportedBreak(11, cause="prompt", cost=0.0123),
        ReportedBreak(8, cause="summary", cost=None),
        ReportedBreak(0, cause="tools", cost=0.0041),
    ],
    cost=ChatSpending(14, 512_900, 391_204, cost=0.4184, read_cost=0.0312, saved=0.9731),
)
LONG = replace(
    SMALL,
    model="Anthropic: Claude Opus 4.5",
    aim="thrifty",
    window_tokens=200_000,
    turns=[turn(number, state_of(number, 1_000), cached=number < 990) for number in range(1, 1_001)],
    summaries=[ReportedSummary(100 + 50 * at, 149 + 50 * at, 61_000, 1_900, SUMMARY * 4) for at in range(10)],
    breaks=[
        ReportedBreak(1_000 - 40 * at, cause=cause, cost=0.01 * at if at % 2 else None)
        for at, cause in enumerate(
            ("edit", "evict", "prompt", "retention", "tools", "prune", "plan", "clip", "new", "recall")
        )
    ],
    cost=ChatSpending(1_420, 151_512_900, 148_391_204, cost=38.2, read_cost=3.1, saved=-0.5),
)
HOSTILE_TEXT = (
    "</div></details></main></script></style><script>document.title='owned';parent.postMessage({type:"
    "'input:prompt:submit',text:'owned'},'*')</script><img src=https://a.example/ onerror=alert(1)>"
    "<style>*{display:none}</style>\"'`&lt;&amp;{}{number}%s </head> x-data new Chart( \u202eright to left\u202c "
    "\u0645\u0631\u062d\u0628\u0627 \0 \ud800 "
)
HOSTILE = replace(
    SMALL,
    model=f"Model {HOSTILE_TEXT}",
    turns=[turn(number, text=HOSTILE_TEXT * 20) for number in range(1, 5)],
    summaries=[
        ReportedSummary(1, 1, 99_000, 98_000, (HOSTILE_TEXT * 300)[:100_000]),
        ReportedSummary(2, 3, 9_000, 8_000, "W" * 100_000),
    ],
    breaks=[ReportedBreak(1, cause=HOSTILE_TEXT, cost=1e-7)],
)
UNKNOWN_WINDOW = replace(SMALL, window_tokens=None, cost=None, breaks=(), summaries=())
OVERFULL = replace(SMALL, window_tokens=48_000)
REPORTS = {
    "empty": EMPTY,
    "small": SMALL,
    "long": LONG,
    "hostile": HOSTILE,
    "unknown-window": UNKNOWN_WINDOW,
    "overfull": OVERFULL,
}
