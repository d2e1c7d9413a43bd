"""Both aims of the context beside other ways: what a chat costs, and what the model still knows.

On five lists of prices (cached read / cache write, as shares of the plain input), five windows and seven chats. A cell
is one chat in one window; the best fixed threshold is chosen in hindsight for each list. Owns which cells are played
and how they are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from scripts.benchmarks._chats import SHAPES, write_chat
from scripts.benchmarks._ways import (
    Outcome,
    Stage,
    fixed_threshold,
    own_policies,
    play,
    play_open_webui,
    truncate,
)

LISTS: Mapping[str, CachePrices] = {
    "0.1 / 1.25": CachePrices(0.1, 1.25),
    "0.1 / 1": CachePrices(0.1, 1.0),
    "0.25 / 1": CachePrices(0.25, 1.0),
    "0.5 / 1": CachePrices(0.5, 1.0),
    "no cache": CachePrices(),
}
WINDOWS_TOKENS = (32_000, 128_000, 200_000, 400_000, 1_000_000)
THRESHOLDS_TOKENS = (40_000, 60_000, 80_000, 100_000, 130_000, 160_000, 200_000, 280_000, 400_000)
QUICK_SHAPES, QUICK_WINDOWS_TOKENS = ("agent 40", "documents 60"), (128_000, 200_000)

FAITHFUL, THRIFTY = ContextSettings(), ContextSettings(context_aim="thrifty")
Cell = dict[str, Any]


def measure_aims(
    shapes: Iterable[str] = QUICK_SHAPES, windows_tokens: Iterable[int] = QUICK_WINDOWS_TOKENS
) -> dict[str, Cell]:
    """Play the cells, one after the other; what is done is said on stderr."""
    cells: dict[str, Cell] = {}
    windows_tokens = tuple(windows_tokens)
    for shape in shapes:
        chat = write_chat(SHAPES[shape])
        for window_tokens in windows_tokens:
            name = f"{shape}, {window_tokens // 1000}k"
            cells[name] = _cell(Stage(chat, window_tokens))
            print(name, file=sys.stderr, flush=True)
    return cells


def _cell(stage: Stage) -> Cell:
    shared = {
        "truncation": play(stage, FAITHFUL, [("evict", truncate)], LISTS),
        "every turn": play(stage, THRIFTY, fixed_threshold(0), LISTS),
        "Open WebUI": play_open_webui(stage, LISTS),
        "faithful": play(stage, FAITHFUL, own_policies(), LISTS),
    }
    fixed = {each: play(stage, THRIFTY, fixed_threshold(each), LISTS) for each in THRESHOLDS_TOKENS}
    thrifty = {name: play(stage, THRIFTY, own_policies(), {name: LISTS[name]}, LISTS[name]) for name in LISTS}
    best = {name: min(fixed, key=lambda each: fixed[each].costs[name]) for name in LISTS}
    theirs = shared["Open WebUI"].costs
    return {
        "tokens": stage.total_tokens[-1],
        "costs": {
            **{way: _rounded(outcome.costs) for way, outcome in shared.items()},
            "best fixed": _rounded({name: fixed[best[name]].costs[name] for name in LISTS}),
            "thrifty": _rounded({name: thrifty[name].costs[name] for name in LISTS}),
        },
        "best_fixed": best,
        "over_best_fixed": {n: _over(thrifty[n].costs[n], fixed[best[n]].costs[n]) for n in LISTS},
        "over_open_webui": {n: _over(thrifty[n].costs[n], theirs[n]) for n in LISTS},
        "held": {
            **{way: _held(outcome) for way, outcome in shared.items()},
            **{f"thrifty, {name}": _held(outcome) for name, outcome in thrifty.items()},
        },
    }


def _rounded(costs: Mapping[str, float]) -> dict[str, int]:
    return {name: round(cost) for name, cost in costs.items()}


def _over(cost: float, rival: float) -> float:
    return round(cost / rival - 1, 4)


def _held(outcome: Outcome) -> dict[str, float]:
    shares = {"words": outcome.words, "mean_words": outcome.mean_words, "facts": outcome.facts}
    return {
        **{name: round(share, 3) for name, share in shares.items()},
        "breaks": outcome.breaks,
        "largest": outcome.largest_tokens,
        "summaries": outcome.summaries,
        "unforeseen": outcome.unforeseen,
        "unused": outcome.unused,
    }


WAYS = ("truncation", "every turn", "Open WebUI", "faithful", "thrifty")


def tables(cells: Mapping[str, Cell], prices: str = "0.1 / 1.25") -> Iterator[str]:
    """Markdown: what each chat costs and holds at one list of prices, and how thrifty compares on all of them."""
    yield f"| {' | '.join(['chat, window', *WAYS])} |"
    yield "| --- " * (len(WAYS) + 1) + "|"
    for name, cell in cells.items():
        shown = []
        for way in WAYS:
            held = cell["held"][f"{way}, {prices}" if way == "thrifty" else way]
            shares = " / ".join(f"{100 * held[key]:.0f}" for key in ("words", "mean_words", "facts"))
            shown.append(f"{cell['costs'][way][prices]:,} ({shares})")
        yield f"| {' | '.join([name, *shown])} |"
    yield ""
    yield f"| {' | '.join(['chat, window', *LISTS])} |"
    yield "| --- " * (len(LISTS) + 1) + "|"
    for name, cell in cells.items():
        both = [
            f"{100 * cell['over_best_fixed'][n]:+.1f} ({cell['best_fixed'][n] // 1000}k), "
            f"{100 * cell['over_open_webui'][n]:+.0f}"
            for n in LISTS
        ]
        yield f"| {' | '.join([name, *both])} |"
