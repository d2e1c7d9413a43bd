"""What a model in a small window still knows of a chat, and how often the chat's prefix changes.

Chats of 24 turns; each question has a code word of its own in its middle. Every request from the twelfth turn on is
planned and looked through: how many of the last ten questions are there in some form (their code word is), whether the
answer before the question is whole, how many of the turn's own tool results are, how many code words were there when
the turn began and no longer when it ended. Two ways: without summaries (`prune`), and with them, written by a
summarizer that keeps none of the code words, so that nothing is credited to it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings, Strategy
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    build_conversation,
    is_model_input,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.summaries.summary import ModelSummary, Summary
from scripts.benchmarks._chats import answer, call_and_output, message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from open_webui_openrouter_pipe.responses.items import Item
    from open_webui_openrouter_pipe.summaries.segments import Segment

WINDOWS_TOKENS = (4_096, 6_144, 8_192, 12_288, 16_384)
TURNS = 24
FIRST_TURN = 11
"""The first turn that is looked at, by its index."""
LAST_QUESTIONS = 10
SUMMARY_WORDS = 250
_TEXT = (
    "the harbour crew checked every crate before noon and wrote down what was missing because the buyer in town "
    "had asked twice for an exact list of cups plates lamps and spare parts while rain kept the road closed"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of chat: tool calls in a turn, tokens of a document in the third question, tools that are offered."""

    calls: int = 0
    result_rows: int = 60
    document_share: float = 0.0
    offered_tools: int = 0


SHAPES = {
    "plain": Shape(),
    "one tool": Shape(calls=1),
    "document": Shape(document_share=0.4),
    "25 tools": Shape(offered_tools=25),
    "four tools": Shape(calls=4, result_rows=25),
}


def run() -> dict[str, Any]:
    """Measure all shapes in all windows; each figure is a mean over the requests that were looked at."""
    return {
        strategy: {
            name: {str(window): measure(shape, window, strategy) for window in WINDOWS_TOKENS}
            for name, shape in SHAPES.items()
        }
        for strategy in ("prune", "summarize")
    }


def measure(shape: Shape, window_tokens: int, strategy: Strategy) -> dict[str, float]:
    """Plan every request of a chat, and return what the later ones hold."""
    chat, sums = _Chat(shape, window_tokens, strategy), Counter[str]()
    chat_items = [(turn, item) for turn in range(TURNS) for item in _turn(shape, turn, window_tokens)]
    turn_of_item, items = [turn for turn, _ in chat_items], [item for _, item in chat_items]
    known_first: set[int] = set()
    for end in range(1, len(items) + 1):
        turn = turn_of_item[end - 1]
        is_request = is_model_input(items[end - 1]) and (end == len(items) or not is_model_input(items[end]))
        if not is_request:
            continue
        sent = chat.ask(items[:end], turn_of_item[:end])
        if turn < FIRST_TURN:
            continue
        sums["requests"] += 1
        if sent is None:
            sums["refused"] += 1
            continue
        text = json.dumps(sent.items)
        known = {at for at in range(turn) if _code(at) in text}
        last = {at for at in known if at >= turn - LAST_QUESTIONS}
        sums["known"] += len(last)
        sums["known_earlier"] += len(known - last)
        sums["breaks"] += bool(sent.new_breaks)
        sums["summaries"] = len(chat.summaries)
        if turn_of_item[end - 2] != turn:
            sums["turns"] += 1
            sums["answers_whole"] += json.dumps(_answer(turn - 1)) in text
            known_first = known
        if items[end]["type"] == "message":
            sums["forgotten"] += len(known_first - known)
            sums["results_whole"] += sum(
                json.dumps(_result(shape, turn, at)) in text for at in range(shape.calls)
            )
    requests, turns = max(1, sums["requests"] - sums["refused"]), max(1, sums["turns"])
    return {
        "of_last_ten": round(sums["known"] / requests, 1),
        "of_earlier": round(sums["known_earlier"] / requests, 1),
        "answer_before_whole": round(sums["answers_whole"] / turns, 2),
        "results_whole": round(sums["results_whole"] / turns, 1),
        "forgotten_in_a_turn": round(sums["forgotten"] / turns, 2),
        "breaks_per_turn": round(sums["breaks"] / turns, 2),
        "summaries": sums["summaries"],
        "refused": sums["refused"],
    }


class _Chat:
    """One chat of one user: its model, its caches, and the summaries that were written for it."""

    def __init__(self, shape: Shape, window_tokens: int, strategy: Strategy) -> None:
        self._tools = tuple(_tool(at) for at in range(max(shape.offered_tools, min(1, shape.calls))))
        self.summaries: dict[Segment, Summary] = {}
        self._plan = partial(
            plan,
            settings=ContextSettings(context_strategy=strategy),
            model=ModelTerms("vendor/model", window_tokens),
            counter=TokenCounter(ContentCache()),
            caches=PlanCaches(),
            summaries=AvailableSummaries(self.summaries, "request"),
        )

    def ask(self, items: Sequence[Item], turn_of_item: Sequence[int]) -> Plan | None:
        """The plan of a request with all summaries that it requires; None when it is refused."""
        instructions = [message("system", _prose(40, 7))]
        conversation = replace(
            build_conversation(items, turn_of_item, instructions=instructions), tools=self._tools
        )
        try:
            first = self._plan(conversation)
            for target in first.required_summaries:
                written = ModelSummary(_prose(SUMMARY_WORDS, len(self.summaries)))
                self.summaries[target.segment] = Summary(written)
            return self._plan(conversation) if first.required_summaries else first
        except ContextOverflow:
            return None


def _turn(shape: Shape, turn: int, window_tokens: int) -> Iterator[Item]:
    question = f"{_prose(25, turn)} The code is {_code(turn)}. {_prose(20, turn + 3)}?"
    if turn == 2 and shape.document_share:
        question += f"\n\n{_prose(int(window_tokens * shape.document_share / 1.3), turn)}"
    yield message("user", question)
    for at in range(shape.calls):
        yield from call_and_output(f"call_{turn}_{at}", "tool_0", {"q": turn}, _result(shape, turn, at))
    yield answer("msg", _answer(turn))


def _answer(turn: int) -> str:
    return f"{_prose(190, turn + 5)} Done with {turn}."


def _result(shape: Shape, turn: int, at: int) -> str:
    rows = [{"id": turn * 1_000 + row, "name": _prose(3, row + at)} for row in range(shape.result_rows)]
    return json.dumps({"call": f"{turn}/{at}", "rows": rows})


def _tool(at: int) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": _prose(6, at)} for name in ("q", "place")}
    parameters = {"type": "object", "properties": properties, "required": ["q"]}
    description = _prose(25, at)
    return {"type": "function", "name": f"tool_{at}", "description": description, "parameters": parameters}


def _code(turn: int) -> str:
    return f"QX{turn * 7919 % 10_000:04}"


def _prose(words: int, seed: int) -> str:
    return " ".join(islice(cycle(_TEXT.split()), seed * 11, seed * 11 + words))


BENCHMARKS = {"small_windows": run}
