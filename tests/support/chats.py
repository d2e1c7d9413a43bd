"""Chats made of items, written down shortly or drawn at random.

Owns the short names for items and the strategy that draws histories of every kind: repeated and failed calls,
outputs of all sizes and forms, reasoning, rules, turns without an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import cast

from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, TokenCounts
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import MissingSummaryMode, _decide
from open_webui_openrouter_pipe.responses.items import InputMessage, Item
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import Entry, ModelSummary, Summary
from tests.support.profiling import calls_noted


def user(text: str) -> InputMessage:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def system(text: str) -> InputMessage:
    return {"type": "message", "role": "system", "content": [{"type": "input_text", "text": text}]}


def answer(text: str, item_id: str = "msg_1") -> Item:
    return {
        "type": "message",
        "role": "assistant",
        "id": item_id,
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def call(call_id: str, arguments: str = "{}", name: str = "search") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def reasoning(sealed: str = "c2VhbGVk", *, is_bound: bool = False) -> Item:
    """The model's sealed thinking; Anthropic's is bound to the conversation before it."""
    thought: Item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed}
    return cast("Item", {**thought, "format": "anthropic-claude-v1"}) if is_bound else thought


def rows(count: int, width: int = 20) -> str:
    """JSON rows, as a database tool gives them."""
    return json.dumps([{"id": number, "name": "n" * width} for number in range(count)])


@dataclass(frozen=True, slots=True)
class History:
    """Items with the turn of each."""

    items: tuple[Item, ...]
    turn_of_item: tuple[int, ...]

    def __repr__(self) -> str:
        """Show kinds and sizes: hypothesis prints failing histories, and they are long."""
        shown = (f"{turn}:{item['type']}/{len(str(item))}" for item, turn in self.numbered)
        return f"History({' '.join(shown)})"

    @property
    def numbered(self) -> Iterator[tuple[Item, int]]:
        """Each item with its turn."""
        return zip(self.items, self.turn_of_item, strict=True)

    def upto(self, length: int) -> History:
        """The first items alone."""
        return History(self.items[:length], self.turn_of_item[:length])


def history(*turns: Sequence[Item]) -> History:
    """Number the items of some turns."""
    items = tuple(item for turn in turns for item in turn)
    return History(items, tuple(number for number, turn in enumerate(turns) for _ in turn))


_SAID = "the ship sailed north and nobody knew why it must never return or always carry salt"
_WORDS = _SAID.split() * 2
_TEXTS = st.sampled_from(
    [
        " ".join(_WORDS[first : first + length]) * times
        for times in (1, 1, 1, 3, 40)
        for length in range(1, 13)
        for first in range(len(_WORDS) // 2)
    ]
)
"""Ready-made, because drawing a chat takes longer than planning it."""
_OUTPUTS = st.one_of(
    _TEXTS,
    st.builds(rows, st.sampled_from([0, 1, 5, 60, 400])),
    st.sampled_from(["Error: no such table", '{"error": "quota"}', "", "x" * 9000, "数据" * 2000, "[" * 500]),
)


@st.composite
def histories(draw: st.DrawFn, most_turns: int = 10) -> History:
    """A chat that awaits an answer; each of its requests is a beginning of it that ends with something read."""
    is_bound = draw(st.booleans())
    turns = [_turn(draw, number, is_bound=is_bound) for number in range(draw(st.integers(1, most_turns)))]
    last = turns[-1]
    while len(last) > 1 and last[-1]["type"] != "function_call_output":
        last.pop()
    return history(*turns)


def _turn(draw: st.DrawFn, number: int, *, is_bound: bool) -> list[Item]:
    items: list[Item] = [user(draw(_TEXTS))]
    if draw(st.integers(0, 9)) == 0:
        items.append(system(draw(_TEXTS)))
    for round_ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            items.append(reasoning("A" * draw(st.sampled_from([10, 2000])), is_bound=is_bound))
        if draw(st.booleans()):
            items.append(answer(draw(_TEXTS), f"msg_{number}_{round_}"))
        ids = [f"call_{number}_{round_}_{at}" for at in range(draw(st.integers(1, 3)))]
        items += [call(call_id, draw(st.sampled_from(['{"q": 1}', '{"q": 2}', "{}"]))) for call_id in ids]
        items += [output(call_id, draw(_OUTPUTS)) for call_id in ids]
    if draw(st.integers(0, 9)):
        items.append(answer(draw(_TEXTS), f"msg_{number}"))
    return items


@dataclass(frozen=True, slots=True)
class Memory:
    """What plans of one worker remember of items."""

    counts: ContentCache[TokenCounts] = field(default_factory=ContentCache)
    caches: PlanCaches = field(default_factory=PlanCaches)
    summaries: dict[Segment, Summary] = field(default_factory=dict)
    encode: Callable[[str], Sequence[int]] | None = None
    """The tokenizer; None estimates."""


def split_words(text: str) -> Sequence[int]:
    """A tokenizer by which each word is a token."""
    return range(len(text.split()))


@contextmanager
def simulated_requests() -> Iterator[list[int]]:
    """The requests that are simulated meanwhile, by their parts, in threads that start meanwhile, too."""
    found: list[int] = []

    def note(frame: FrameType) -> None:
        if frame.f_code is _decide.__code__:
            found.append(frame.f_locals["request"].end)

    with calls_noted(note):
        yield found


SYSTEM = system("You are brief. Never guess.")
PLAIN = ContextSettings()
ROOMY = ModelTerms("vendor/model", 1_000_000)
UNTAUGHT = Calibration()


def planned(
    chat: History,
    policy: ContextSettings = PLAIN,
    model: ModelTerms = ROOMY,
    calibration: Calibration = UNTAUGHT,
    memory: Memory | None = None,
) -> Plan:
    """The plan of a chat, by default with a fresh memory; without a tokenizer and without summaries."""
    return plan_with(
        chat, policy, replace(model, calibration=calibration), memory or Memory(), missing="skip"
    )


def summarized(chat: History, policy: ContextSettings, model: ModelTerms, memory: Memory) -> Plan:
    """The same with every summary that it requires, made at once."""
    first = plan_with(chat, policy, model, memory, missing="request")
    for target in first.required_summaries:
        memory.summaries[target.segment] = summary_of(target)
    return plan_with(chat, policy, model, memory, missing="request") if first.required_summaries else first


def entries(*texts: str, turn: int = 0) -> tuple[Entry, ...]:
    """Statements of a model."""
    return tuple(Entry(text, turn) for text in texts)


def summary_of(target: SummaryTarget) -> Summary:
    """A summary that says which turns it is of."""
    return Summary(ModelSummary(f"{target.segment.turns} turns, up to {target.segment.end.hex()}."))


def plan_with(
    chat: History, policy: ContextSettings, model: ModelTerms, memory: Memory, *, missing: MissingSummaryMode
) -> Plan:
    """The plan of a chat with the summaries in the memory."""
    return plan(
        build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM]),
        policy,
        model=model,
        counter=TokenCounter(memory.counts, memory.encode),
        caches=memory.caches,
        summaries=AvailableSummaries(memory.summaries, missing),
    )
