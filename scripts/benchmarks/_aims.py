"""Both aims of the context beside other ways: what a chat costs, and what the model still knows.

On five lists of prices (cached read / cache write, as shares of the plain input), five windows and seven chats. A cell
is one chat in one window; the best fixed threshold is chosen in hindsight for each list. Owns which cells are played
and how they are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
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
    }
    fixed = {each: play(stage, THRIFTY, fixed_threshold(each), LISTS) for each in THRESHOLDS_TOKENS}
    own = {"faithful": _play_own(stage, FAITHFUL), "thrifty": _play_own(stage, THRIFTY)}
    own_costs = {
        way: {name: each.costs[name] for name, each in played.items()} for way, played in own.items()
    }
    thrifty = own_costs["thrifty"]
    best = {name: min(fixed, key=lambda each: fixed[each].costs[name]) for name in LISTS}
    best_costs = {name: fixed[best[name]].costs[name] for name in LISTS}
    theirs = shared["Open WebUI"]
    fits = theirs.largest <= stage.window_tokens
    return {
        "tokens": stage.total_tokens[-1],
        "window": stage.window_tokens,
        "costs": {
            **{way: _rounded(outcome.costs) for way, outcome in shared.items()},
            **{way: _rounded(costs) for way, costs in own_costs.items()},
            "best fixed": _rounded(best_costs),
        },
        "best_fixed": best,
        "over_best_fixed": {name: _over(thrifty[name], best_costs[name]) for name in LISTS},
        "over_open_webui": {name: _over(thrifty[name], theirs.costs[name]) for name in LISTS if fits},
        "held": {
            **{way: _held(outcome) for way, outcome in shared.items()},
            **{f"{way}, {name}": _held(each) for way, played in own.items() for name, each in played.items()},
        },
    }


def _play_own(stage: Stage, settings: ContextSettings) -> dict[str, Outcome]:
    """The pipe's own policies at each list of prices, which they go by."""
    return {
        name: play(stage, settings, own_policies(), {name: prices}, prices) for name, prices in LISTS.items()
    }


def _rounded(costs: Mapping[str, float]) -> dict[str, int]:
    return {name: round(cost) for name, cost in costs.items()}


def _over(cost: float, rival: float) -> float:
    return round(cost / rival - 1, 4)


def _held(outcome: Outcome) -> dict[str, float]:
    """All of an outcome but its costs."""
    numbers = {name: value for name, value in asdict(outcome).items() if "costs" not in name}
    return {name: round(value, 3) for name, value in numbers.items()}


OVER_THE_WINDOW = "over the window"
WAYS = ("truncation", "every turn", "Open WebUI", "faithful", "thrifty")


def tables(cells: Mapping[str, Cell], prices: str = "0.1 / 1.25") -> Iterator[str]:
    """Markdown: what each chat costs and holds at one list of prices, and how thrifty compares on all of them."""
    yield f"| {' | '.join(['chat, window', *WAYS])} |"
    yield "| --- " * (len(WAYS) + 1) + "|"
    for name, cell in cells.items():
        shown = []
        for way in WAYS:
            held = cell["held"].get(f"{way}, {prices}") or cell["held"][way]
            shares = " / ".join(f"{100 * held[key]:.0f}" for key in ("words", "mean_words", "facts"))
            fits = held["largest"] <= cell["window"]
            shown.append(f"{cell['costs'][way][prices]:,} ({shares})" if fits else OVER_THE_WINDOW)
        yield f"| {' | '.join([name, *shown])} |"
    yield ""
    yield f"| {' | '.join(['chat, window', *LISTS])} |"
    yield "| --- " * (len(LISTS) + 1) + "|"
    for name, cell in cells.items():
        theirs = {n: f"{100 * over:+.0f}" for n, over in cell["over_open_webui"].items()}
        both = [
            f"{100 * over:+.1f} ({cell['best_fixed'][n] // 1000}k), {theirs.get(n, OVER_THE_WINDOW)}"
            for n, over in cell["over_best_fixed"].items()
        ]
        yield f"| {' | '.join([name, *both])} |"
