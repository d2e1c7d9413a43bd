"""Both aims of the context beside other ways: what a chat costs, and what the model still knows.

On five lists of prices (cached read / cache write, as shares of the plain input), five windows and seven chats. A cell
is one chat in one window; the best fixed threshold is chosen in hindsight for each list.

The pipe's own policies decide, in one simulation of the whole chat: it decides every request as the request's own plan
would. Costs are thousands of tokens of plain input, requests for summaries and their output included, what the answers
say not. The provider's cache is ideal: it holds the request before, whole, and nothing else; the rest is written.

Owns the rivals (truncation, fixed thresholds, a model of Open WebUI's compaction), the bills and the fidelity, and
stands in for the model that writes a summary. It must not change a policy of the pipe's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.record import UserRecord
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, TokenCounts
from open_webui_openrouter_pipe.planning.detail import DetailLevel, OutputLimits, PartsByDetail
from open_webui_openrouter_pipe.planning.planner import (
    ModelTerms,
    PlanCaches,
    plan,
    segment_sizes,
)
from open_webui_openrouter_pipe.planning.policies import (
    evict,
    prune,
    shorten_old_tool_results,
    summarize,
)
from open_webui_openrouter_pipe.planning.simulate import (
    BreakReason,
    CachePrices,
    Cutoffs,
    Policy,
    SimulatedRequest,
    SimulationTerms,
    simulate,
)
from open_webui_openrouter_pipe.responses.items import is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.segments import (
    Segment,
    SummaryIndex,
    SummaryTarget,
    summaries_within,
)
from open_webui_openrouter_pipe.summaries.summary import Entry, ModelSummary, Summary, render_summary
from scripts.benchmarks._chats import SHAPES, Chat, message, sentences_with_details, text_of, write_chat

if TYPE_CHECKING:
    from collections.abc import Sequence

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

MODEL_SHARE = 0.5
"""Of a summary's size: what the model itself writes of it; the pipe adds the rest."""
OUTPUT_PRICE = 5.0
"""What a token that a model writes costs, as most large models have it; a token of plain input costs 1."""
INSTRUCTION_TOKENS = 900
"""What a request for a summary holds beside the chat."""

OPEN_WEBUI_TRIGGER_TOKENS = 80_000
OPEN_WEBUI_WINDOW_SHARE = 0.7
"""In smaller windows an administrator has to lower the trigger; to this share of the window, say."""
OPEN_WEBUI_KEPT_SHARE = 0.40
OPEN_WEBUI_SUMMARY_TOKENS = 1_000


@dataclass(slots=True)
class Bill:
    """The cost of a chat so far at one list of prices, in tokens of plain input."""

    prices: CachePrices
    answers_cost: float = 0.0
    summaries_cost: float = 0.0

    def pay_request(self, tokens: int, shared_tokens: int) -> None:
        """Pay for an answer's input, of which so much is in the cache."""
        self.answers_cost += shared_tokens * self.prices.read + (tokens - shared_tokens) * self.prices.write

    def pay_summary(self, prefix_tokens: int, source_tokens: int, output_tokens: int) -> None:
        """Pay for a summary: at the end of the cached chat if that holds its turns, or by a request of its own."""
        if self.prices.shares_cache and prefix_tokens:
            self.summaries_cost += prefix_tokens * self.prices.read + INSTRUCTION_TOKENS * self.prices.write
        else:
            self.summaries_cost += source_tokens + INSTRUCTION_TOKENS
        self.summaries_cost += output_tokens * OUTPUT_PRICE


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a chat cost under each list of prices, and what its requests held.

    `facts` is the share of planted facts that the last request holds; `largest` the most tokens of one. `breaks` are
    the requests whose prefix changed, `summaries` those that were written.
    """

    bills: Mapping[str, Bill]
    facts: float
    breaks: int
    largest: int
    summaries: int

    @property
    def costs(self) -> dict[str, float]:
        """Thousands of tokens by the list's name, those for summaries included."""
        return {name: (bill.answers_cost + bill.summaries_cost) / 1000 for name, bill in self.bills.items()}


def _bills(lists: Mapping[str, CachePrices]) -> dict[str, Bill]:
    return {name: Bill(prices) for name, prices in lists.items()}


class Stage:
    """A chat before a window: everything that is the same for all ways and prices."""

    def __init__(self, chat: Chat, window_tokens: int) -> None:
        self._chat = chat
        self.window_tokens = window_tokens
        self.counter = TokenCounter(_COUNTS)
        self.conversation = build_conversation(
            *chat.all_items(), instructions=[message("system", chat.system)]
        )
        empty = plan(
            build_conversation([], []),
            ContextSettings(),
            model=ModelTerms("model", window_tokens),
            counter=self.counter,
            caches=PlanCaches(_FACTS),
        )
        self._budget = empty.budget
        self.base_tokens = self.counter.entries(self.conversation.instructions).tokens

    def parts(self, settings: ContextSettings, written: dict[Segment, Summary]) -> PartsByDetail:
        """The chat's parts, with segments as the settings have them; summaries are added while it is played."""
        sizes, record_tokens = segment_sizes(settings, self._budget)
        record = UserRecord(self.conversation.turns, self.counter, _FACTS)
        index = SummaryIndex(self.conversation, record, sizes, written, record_tokens=record_tokens)
        limits = OutputLimits(self._budget.input_tokens)
        return PartsByDetail(self.conversation, limits, index)

    def terms(self, settings: ContextSettings, prices: CachePrices) -> SimulationTerms:
        """What the policies go by."""
        tokens = self._budget.input_tokens
        return SimulationTerms(
            settings,
            prices,
            tokens,
            tokens,
            "request",
            self.base_tokens,
            room_tokens=tokens - self.base_tokens,
            verbatim_share=self._budget.verbatim_share,
        )

    def known_facts(self, text: str) -> float:
        """The share of the planted facts that a text holds."""
        return sum(fact.is_in(text) for fact in self._chat.facts) / max(1, len(self._chat.facts))


_COUNTS: ContentCache[TokenCounts] = ContentCache(1_000_000)
_FACTS: ContentCache[str] = ContentCache(1_000_000)
_SUMMARIES: dict[tuple[Segment, int], Summary] = {}
"""Summaries are the same in all ways and windows: they follow from their segment and their size."""


def write_summary(target: SummaryTarget, counter: TokenCounter) -> Summary:
    """A summary as a fair model writes it: every second sentence with a detail, and the pipe's own additions.

    It fills half of its allowance, as it is asked to, and names the turn of each entry.
    """
    key = target.segment, target.max_tokens
    if key not in _SUMMARIES:
        texts = [
            (number, text_of(entry.item))
            for number, turn in enumerate(target.turns, target.first_turn)
            for entry in turn.entries
            if is_message(entry.item)
        ]
        details = [Entry(found, number) for number, text in texts for found in sentences_with_details(text)]
        others = [Entry(text[:160], number) for number, text in texts[1:]]
        model = ModelSummary(
            f"{len(target.turns)} turns about {texts[0][1][:200]}",
            _fit(details[::2], 0.2 * target.max_tokens, counter),
            decisions=_fit(others, 0.3 * target.max_tokens, counter),
            action_items=_fit(others[::-1], MODEL_SHARE * target.max_state_tokens, counter),
        )
        _SUMMARIES[key] = complete_summary(
            model,
            target,
            count=counter.text,
            max_tokens=target.max_tokens,
        )
    return _SUMMARIES[key]


_Words = TypeVar("_Words", str, Entry)


def _fit(entries: Sequence[_Words], max_tokens: float, counter: TokenCounter) -> tuple[_Words, ...]:
    sizes = accumulate(counter.text(str(entry)) + 4 for entry in entries)
    return tuple(entry for entry, size in zip(entries, sizes, strict=True) if size <= max_tokens)


Step = tuple[BreakReason, Policy]


def own_policies(
    first: Sequence[Step] = (("retention", shorten_old_tool_results), ("summary", summarize)),
) -> list[Step]:
    """The pipe's policies, with others than its own for what is done before the window is nearly full."""
    return [*first, ("prune", prune), ("evict", evict)]


def fixed_threshold(threshold_tokens: int) -> list[Step]:
    """Summarize down to the protected turns at the beginning of each turn that finds the chat so large."""

    def compact(request: SimulatedRequest) -> Cutoffs:
        settings = request.terms.settings
        if request.opens_turn and request.tokens() >= min(threshold_tokens, request.trigger_tokens):
            compacted = request.summarizable(request.turn + 1 - settings.protected_turns)
            if request.freed_tokens(compacted) > 0:
                return compacted
        is_full = request.tokens() >= settings.prune_trigger_ratio * request.terms.limit_tokens
        return summarize(request) if is_full else request.cutoffs

    return own_policies([("summary", compact)])


def truncate(request: SimulatedRequest) -> Cutoffs:
    """Drop the oldest turns that do not fit, in the same request."""
    cutoffs = request.cutoffs
    for turn in range(request.turn + 1):
        cutoffs = cutoffs.moved(DetailLevel.DROPPED, request.parts.start_of(turn))
        if request.tokens(cutoffs) <= request.terms.limit_tokens:
            break
    return cutoffs


def play(
    stage: Stage,
    settings: ContextSettings,
    policies: Sequence[Step],
    billed: Mapping[str, CachePrices],
    prices: CachePrices | None = None,
) -> Outcome:
    """Play the whole chat under some policies; `prices` are what these go by, `billed` what it is billed at."""
    written: dict[Segment, Summary] = {}
    parts, bills, requests = stage.parts(settings, written), _bills(billed), list[tuple[int, Cutoffs]]()

    def note(request: SimulatedRequest) -> Cutoffs:
        requests.append((request.end, request.cutoffs))
        return request.cutoffs

    simulate(parts, stage.terms(settings, prices or CachePrices()), [*policies, ("clip", note)])
    previous, previous_end, tokens, largest, breaks = Cutoffs(), 0, 0, 0, 0
    for end, cutoffs in requests:
        shared = tokens
        if tokens and cutoffs == previous:
            tokens += parts.tokens(DetailLevel.FULL, previous_end, end)
        else:
            if cutoffs.summarized != previous.summarized:
                _write_summaries(parts, written, cutoffs, prefix_tokens=tokens, bills=bills)
            before, now = (_sent(parts, *each) for each in ((previous, previous_end), (cutoffs, end)))
            same = takewhile(lambda pair: pair[0] == pair[1], zip(now, before, strict=False))
            shared = min(tokens, stage.base_tokens + sum(now[piece] for piece, _ in same))
            breaks += tokens > 0
            tokens = stage.base_tokens + sum(now.values())
        for bill in bills.values():
            bill.pay_request(tokens, shared)
        previous, previous_end, largest = cutoffs, end, max(largest, tokens)
    block = parts.summaries.entries(parts.segments_before(previous.summarized))
    kept = [parts.entries(previous.level_of(at), at) for at in range(previous.dropped, previous_end)]
    facts = stage.known_facts("\n".join(text_of(each.item) for each in chain(block, *kept)))
    return Outcome(bills, facts, breaks, largest, len(written))


def _sent(parts: PartsByDetail, cutoffs: Cutoffs, end: int) -> dict[tuple[object, ...], int]:
    """What a request holds behind its instructions, in order, and how many tokens each piece takes."""
    note = parts.note(cutoffs.summarized, cutoffs.dropped, ())
    levels = ((at, cutoffs.level_of(at)) for at in range(cutoffs.dropped, end))
    return {
        ("summaries", cutoffs.summarized): parts.summaries.tokens(parts.segments_before(cutoffs.summarized)),
        ("note", cutoffs.dropped): parts.counter.entries(note).tokens,
        **{(at, level): parts.tokens(level, at, at + 1) for at, level in levels},
    }


def _write_summaries(
    parts: PartsByDetail,
    written: dict[Segment, Summary],
    cutoffs: Cutoffs,
    *,
    prefix_tokens: int,
    bills: Mapping[str, Bill],
) -> None:
    """Write the summaries that these cutoffs need, and pay for them."""
    for target in parts.summaries.desired(parts.segments_before(cutoffs.summarized)):
        written[target.segment] = write_summary(target, parts.counter)
        joined = summaries_within(target, written)
        first = joined[-1].last_turn if joined else target.first_turn - 1
        start, end = (parts.start_of(turn) for turn in (first, target.first_turn - 1 + len(target.turns)))
        source = parts.tokens(DetailLevel.TOOL_FACTS, start, end)
        source += sum(parts.counter.text(render_summary(each)) for each in joined)
        output = int(MODEL_SHARE * (target.max_tokens + target.max_state_tokens))
        for bill in bills.values():
            bill.pay_summary(0 if joined else prefix_tokens, source, output)


# --- Open WebUI ----------------------------------------------------------------------------------------------


def play_open_webui(stage: Stage, billed: Mapping[str, CachePrices]) -> Outcome:
    """A model of Open WebUI's own compaction, with its defaults.

    At the beginning of a turn over 80,000 tokens, 60 % of the messages become a summary of 1,000 tokens, which is
    written from messages without tool outputs, by a request of its own, and stands at the end of the system prompt.
    """
    parts = stage.parts(ContextSettings(), {})
    counter, bills = stage.counter, _bills(billed)
    trigger = min(OPEN_WEBUI_TRIGGER_TOKENS, OPEN_WEBUI_WINDOW_SHARE * stage.window_tokens)
    first, turn, previous_tokens, largest, breaks = 0, -1, 0, 0, 0
    summary: list[str] = []

    def messages(start: int, end: int) -> list[str]:
        entries = (e.item for at in range(start, end) for e in parts.parts[at].entries)
        return [text_of(item) for item in entries if is_message(item)]

    for end, part in enumerate(parts.parts, start=1):
        if not (part.awaits_answer or end == len(parts.parts)):
            continue
        start = parts.start_of(first)
        fixed = stage.base_tokens + (OPEN_WEBUI_SUMMARY_TOKENS if summary else 0)
        shared = previous_tokens
        tokens = fixed + parts.tokens(DetailLevel.FULL, start, end)
        if part.turn != turn and tokens > trigger and part.turn - first > 1:
            kept_turns = max(1, int((part.turn - first) * OPEN_WEBUI_KEPT_SHARE))
            new_first = part.turn - kept_turns
            read = messages(start, end)
            source = sum(map(counter.text, read)) + (OPEN_WEBUI_SUMMARY_TOKENS if summary else 0)
            for bill in bills.values():
                bill.summaries_cost += source + INSTRUCTION_TOKENS + OUTPUT_PRICE * OPEN_WEBUI_SUMMARY_TOKENS
            replaced = messages(start, parts.start_of(new_first))
            found = [sentence for text in replaced for sentence in sentences_with_details(text)][::2]
            newest_first = [*found[::-1], *summary[::-1]]
            summary = [*reversed(_fit(newest_first, OPEN_WEBUI_SUMMARY_TOKENS, counter))] or [""]
            first, breaks, shared = new_first, breaks + 1, 0
            start = parts.start_of(first)
            fixed = stage.base_tokens + OPEN_WEBUI_SUMMARY_TOKENS
            tokens = fixed + parts.tokens(DetailLevel.FULL, start, end)
        turn = part.turn
        for bill in bills.values():
            bill.pay_request(tokens, min(shared, tokens))
        previous_tokens, largest = tokens, max(largest, tokens)
    kept = (text_of(e.item) for part in parts.parts[parts.start_of(first) :] for e in part.entries)
    facts = stage.known_facts("\n".join([*summary, *kept]))
    return Outcome(bills, facts, breaks, largest, breaks)


# --- the cells -----------------------------------------------------------------------------------------------


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
        "tokens": sum(stage.counter.entries(turn.entries).tokens for turn in stage.conversation.turns),
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
    return {name: round(getattr(outcome, name), 3) for name in ("facts", "breaks", "largest", "summaries")}


BENCHMARKS = {"aims": partial(measure_aims, SHAPES, WINDOWS_TOKENS)}
