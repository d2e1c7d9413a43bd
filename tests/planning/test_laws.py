"""What holds for every history, whatever its size and the settings.

Every law is tried on the same histories, because drawing and planning one takes longer than all of the laws.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, is_model_input
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.search import item_text
from open_webui_openrouter_pipe.recall.tool import GAP, HEADING, max_excerpts_tokens
from open_webui_openrouter_pipe.responses.items import (
    Item,
    is_function_call,
    is_function_call_output,
    is_message,
    is_reasoning,
)
from tests.planning.language import Case, new_memory
from tests.support.cases import CHATS, HISTORIES, SHARES
from tests.support.chats import (
    SYSTEM,
    History,
    Memory,
    answer,
    call,
    histories,
    history,
    output,
    reasoning,
    rows,
    summarized,
    user,
)

OMISSION_LINE = re.compile(r"\[\d+ earlier turns? omitted to fit the model's context window\.\]")
CUT_LINE = re.compile(r"\n\[\.\.\. ([\d,]+) characters omitted \.\.\.\]\n")
FREE = "openai-responses-v1"
"""The format of thinking that is not bound, as long as that of thinking that is: it counts the same."""
thorough = settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))

_policies = st.builds(
    ContextSettings,
    tool_output_retention_turns=st.integers(1, 4),
    tool_output_pruning=st.sampled_from(["batched", "every_turn", "off"]),
    context_strategy=st.sampled_from(["summarize", "summarize", "prune", "clip", "refuse"]),
    context_aim=st.sampled_from(["faithful", "thrifty"]),
    summary_turn_trigger=st.sampled_from([0, 0, 2]),
    summary_trigger_ratio=st.sampled_from([0.02, 0.3, 0.7, 0.7]),
    protected_recent_turns=st.integers(1, 4),
    clip_last_messages=st.integers(1, 6),
    recall=st.booleans(),
)
_models = st.builds(
    ModelTerms,
    id=st.just("vendor/model"),
    window_tokens=st.sampled_from([2_500, 4_000, 8_000, 30_000, 200_000, 1_000_000]),
    prices=st.sampled_from([CachePrices(), CachePrices(0.1, 1.25), CachePrices(0.5, 1.0)]),
)
_NOUNS = "boat harbor invoice garden ticket engine budget letter window bridge doctor recipe server camera"


@st.composite
def _inquiries(draw: st.DrawFn) -> History:
    """A chat whose questions are about things that answers and results have spoken of."""
    noun = st.sampled_from(_NOUNS.split())

    def said(number: int) -> str:
        facts = [f"The {draw(noun)} of the {draw(noun)} has the number {number}{at}." for at in range(6)]
        return " ".join(facts) + f" {draw(noun)} " * draw(st.sampled_from([1, 60, 200]))

    turns: list[list[Item]] = []
    for number in range(draw(st.integers(4, 9))):
        items: list[Item] = [user(f"Which number has the {draw(noun)} of the {draw(noun)}?")]
        for at in range(draw(st.integers(0, 2))):
            items += [call(f"c{number}_{at}"), output(f"c{number}_{at}", said(number * 10 + at))]
        turns.append([*items, answer(said(number), f"m{number}")])
    turns[-1].pop()
    return history(*turns)


@dataclass(frozen=True, slots=True)
class Sent:
    """A chat with the plan of its last request, and that of the request before."""

    chat: History
    policy: ContextSettings
    model: ModelTerms
    plan: Plan
    before: Plan | None
    """None for a chat of one request, and when that one was refused."""
    opens_turn: bool
    """Whether the request before belongs to an earlier turn."""

    @property
    def items(self) -> tuple[Item, ...]:
        """What is sent."""
        return self.plan.items

    @property
    def current(self) -> list[Item]:
        """What the current turn has."""
        return [item for item, turn in self.chat.numbered if turn == self.chat.turn_of_item[-1]]


def attempted(
    chat: History, policy: ContextSettings, model: ModelTerms, memory: Memory
) -> Plan | ContextOverflow:
    """The plan of the chat, or its refusal."""
    try:
        return summarized(chat, policy, model, memory)
    except ContextOverflow as overflow:
        return overflow


def dumped(items: Iterable[Item]) -> list[str]:
    """The bytes of each item."""
    return [json.dumps(item) for item in items]


def request_before(chat: History) -> History | None:
    """The beginning of the chat that was sent as the request before its last one; None when there was none."""
    for end in range(len(chat.items) - 1, 0, -1):
        same_turn = chat.turn_of_item[end] == chat.turn_of_item[end - 1]
        if is_model_input(chat.items[end - 1]) and not (same_turn and is_model_input(chat.items[end])):
            return chat.upto(end)
    return None


@pytest.mark.parametrize("share", SHARES)
@thorough
@given(st.one_of(histories(), histories(), _inquiries()), _policies, _models)
def test_every_law_holds(share: int, chat: History, policy: ContextSettings, model: ModelTerms) -> None:
    """For each history, each policy and each window: the plan obeys every law, or is a refusal with reasons."""
    memory, earlier = Memory(), request_before(chat)
    before = attempted(earlier, policy, model, memory) if earlier else None
    fitted = attempted(chat, policy, model, memory)
    again = attempted(chat, policy, model, Memory(summaries=memory.summaries))
    if isinstance(fitted, ContextOverflow):
        assert str(fitted) == str(again)
        assert fitted.needed_tokens > fitted.limit_tokens
        return
    assert isinstance(again, Plan)
    assert (dumped(fitted.items), fitted) == (dumped(again.items), again)
    assert fitted.required_summaries == ()
    opens_turn = earlier is None or earlier.turn_of_item[-1] != chat.turn_of_item[-1]
    sent = Sent(chat, policy, model, fitted, before if isinstance(before, Plan) else None, opens_turn)
    for law in LAWS:
        law(sent)


def what_is_sent_is_within_the_limit(sent: Sent) -> None:
    """Counted anew, item by item, as is everything that could have been sent."""
    fitted, counter = sent.plan, TokenCounter(ContentCache())
    assert sum(counter.item(item).tokens for item in fitted.items) == fitted.tokens == fitted.counts.tokens
    assert fitted.tokens <= fitted.limit_tokens
    assert fitted.tokens_before == sum(counter.item(item).tokens for item in (SYSTEM, *sent.chat.items))


def no_word_is_lost_below_the_trigger(sent: Sent) -> None:
    """In a window in which no single output is cut on arrival, what fits is sent to a faithful chat as it came."""
    policy, budget = sent.policy, sent.plan.budget
    is_faithful = (policy.context_aim, policy.summary_turn_trigger) == ("faithful", 0)
    is_faithful &= policy.context_strategy != "clip" and policy.tool_output_pruning != "every_turn"
    share = min(policy.summary_trigger_ratio, policy.prune_trigger_ratio)
    is_below = sent.plan.tokens_before < share * budget.input_tokens
    if is_faithful and is_below and budget.window_tokens >= 200_000:
        assert (sent.items, sent.plan.prefix_breaks) == ((SYSTEM, *sent.chat.items), ())


def what_must_not_be_dropped_is_there(sent: Sent) -> None:
    """The instructions, and all of the current turn: nothing but outputs is ever shortened in it."""
    assert sent.items[0] == SYSTEM
    assert all(item in sent.items for item in sent.current if not is_function_call_output(item))


def no_call_is_without_its_output(sent: Sent) -> None:
    """Calls and outputs are sent in pairs, each output after its call, each once."""
    calls = [item["call_id"] for item in sent.items if is_function_call(item)]
    outputs = [item["call_id"] for item in sent.items if is_function_call_output(item)]
    assert sorted(calls) == sorted(set(outputs)) == sorted(outputs)
    first: dict[str, str] = {}
    for item in sent.items:
        if is_function_call(item) or is_function_call_output(item):
            first.setdefault(item["call_id"], item["type"])
    assert set(first.values()) <= {"function_call"}


def the_newest_are_kept(sent: Sent) -> None:
    """The turns that are sent are the newest ones, without a gap, and each begins with the user's message."""
    asked = [item for item in sent.chat.items if is_message(item) and item["role"] == "user"]
    users = [item for item in sent.items if is_message(item) and item["role"] == "user"]
    kept = [item for item in users if any(stands_for(item, each) for each in asked)]
    assert all(map(stands_for, kept, asked[len(asked) - len(kept) :]))
    first = next(
        item for item in sent.items[1:] if not is_message(item) or not OMISSION_LINE.match(_text(item))
    )
    assert is_message(first)
    assert first["role"] == "user"


def stands_for(item: Item, original: Item) -> bool:
    """Whether an item is the original itself, or its head and tail with a line that says how much lies between."""
    whole, cut = _text(original), CUT_LINE.split(_text(item))
    if len(cut) == 1:
        return item == original
    head, omitted, tail = cut
    is_cut = whole.startswith(head) and whole.endswith(tail)
    return is_cut and len(head) + int(omitted.replace(",", "")) + len(tail) == len(whole)


def reasoning_is_sent_for_a_whole_turn_or_not_at_all(sent: Sent) -> None:
    """Of the reasoning of a turn, all or nothing is sent."""
    for turn in set(sent.chat.turn_of_item):
        thoughts = [id(item) for item, of in sent.chat.numbered if of == turn and is_reasoning(item)]
        assert [id(item) for item in sent.items if id(item) in thoughts] in ([], thoughts)


def a_request_continues_the_one_before_unless_it_says_so(sent: Sent) -> None:
    """A request begins with the bytes of the one before, or announces why it does not; the past is decided once."""
    after, before = sent.plan, sent.before
    if before is None:
        return
    assert after.prefix_breaks == (*before.prefix_breaks, *after.new_breaks)
    if after.new_breaks or gave_up_excerpts(sent):
        return
    same = dumped(without_excerpts(before))
    assert dumped(without_excerpts(after))[: len(same)] == same
    excerpts = excerpts_of(before) if sent.opens_turn else []
    end = before.items.index(excerpts[0]) if excerpts else len(before.items)
    assert dumped(after.items)[:end] == dumped(before.items)[:end]


def excerpts_stand_directly_behind_the_question(sent: Sent) -> None:
    """In one message of the user, which takes no more than its share; everything before it stays from turn to turn."""
    fitted, excerpts = sent.plan, excerpts_of(sent.plan)
    assert len(excerpts) == len(fitted.recalled.entries) <= 1
    if excerpts:
        at, most = fitted.items.index(excerpts[0]), max_excerpts_tokens(fitted.budget.input_tokens)
        asked = [*takewhile(lambda item: is_message(item) and item["role"] != "assistant", sent.current)]
        assert [*fitted.items[at - len(asked) : at]] == asked
        assert TokenCounter(ContentCache()).item(excerpts[0]).tokens <= most


def all_requests_of_a_turn_quote_the_same(sent: Sent) -> None:
    """As long as the prefix stays; but for one that has no room for it any more."""
    is_free = sent.opens_turn or sent.plan.new_breaks or gave_up_excerpts(sent)
    if sent.before is not None and not is_free:
        assert sent.plan.recalled == sent.before.recalled


def what_is_quoted_is_what_earlier_turns_say(sent: Sent) -> None:
    """Each line behind its mark stands in an item of an earlier turn, and every other line is ours."""
    earlier = [item for item, turn in sent.chat.numbered if turn != sent.chat.turn_of_item[-1]]
    said = [" ".join(item_text(item).split()) for item in earlier]
    for excerpts in excerpts_of(sent.plan):
        heading, *lines = _text(excerpts).splitlines()
        assert heading == HEADING
        for line in lines:
            if line.startswith("> ") and line != GAP:
                assert any(" ".join(line[2:].split()) in text for text in said)
            elif line != GAP:
                assert re.fullmatch(r"Turn \d+, (user|assistant|system|tool \w+):", line)


def excerpts_of(fitted: Plan) -> list[Item]:
    """The messages that begin as excerpts do."""
    return [item for item in fitted.items if is_message(item) and _text(item).startswith(HEADING)]


def without_excerpts(fitted: Plan) -> list[Item]:
    """What is sent but the excerpts."""
    excerpts = excerpts_of(fitted)
    return [item for item in fitted.items if item not in excerpts]


def gave_up_excerpts(sent: Sent) -> bool:
    """Whether a request within a turn has no room for the excerpts that the one before had room for."""
    if sent.before is None or sent.opens_turn:
        return False
    room_tokens = max_excerpts_tokens(sent.plan.budget.input_tokens)
    is_full = sent.plan.tokens + room_tokens > min(sent.plan.limit_tokens, sent.before.limit_tokens)
    return is_full and bool(sent.before.recalled.entries) > bool(sent.plan.recalled.entries)


def every_prefix_break_frees_something(sent: Sent) -> None:
    """The prefix is never changed for nothing, and by each policy at most once a request."""
    breaks = sent.plan.prefix_breaks
    assert all(each.freed_tokens > 0 for each in breaks if each.reason != "clip")
    per_request = [(each.request, each.reason) for each in breaks]
    assert len(set(per_request)) == len(per_request)


def thinking_goes_with_the_conversation_that_it_is_bound_to(sent: Sent) -> None:
    """What stands behind a change of the prefix is of the current turn, and that is all sent."""
    current = [item for item in sent.current if is_bound(item)]
    is_sent = [at for at, item in enumerate(without_excerpts(sent.plan)) if is_bound(item)]
    assert len(current) <= len(is_sent)
    if sent.before is not None and sent.plan.new_breaks:
        shared = shared_items(sent.before, sent.plan)
        assert sum(at >= shared for at in is_sent) <= len(current)


def thinking_that_is_bound_costs_no_cache(sent: Sent) -> None:
    """A request shares with the one before all before the turn in which they differ if no thinking is bound."""
    if sent.before is None or not any(map(is_bound, sent.chat.items)):
        return
    items = tuple(
        cast("Item", {**item, "format": FREE}) if is_bound(item) else item for item in sent.chat.items
    )
    chat, memory = History(items, sent.chat.turn_of_item), Memory()
    earlier = request_before(chat)
    assert earlier is not None
    before, after = (attempted(each, sent.policy, sent.model, memory) for each in (earlier, chat))
    assert isinstance(before, Plan)
    assert isinstance(after, Plan)
    free = without_excerpts(before)
    asked = [at for at, item in enumerate(free) if is_message(item) and item["role"] == "user"]
    start = max(at for at in [0, *asked] if at <= shared_items(before, after))
    shared = without_excerpts(sent.before)[: shared_items(sent.before, sent.plan)]
    assert unthought(shared) >= unthought(free[:start])


def shared_items(before: Plan, after: Plan) -> int:
    """How many items both begin with, excerpts aside."""
    pairs = zip(dumped(without_excerpts(before)), dumped(without_excerpts(after)), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def is_bound(item: Item) -> bool:
    """Whether it is thinking that is bound to the conversation before it."""
    return is_reasoning(item) and item.get("format") == "anthropic-claude-v1"


def unthought(items: Sequence[Item]) -> int:
    """How many are no thinking."""
    return sum(not is_reasoning(item) for item in items)


def what_is_lacking_is_said(sent: Sent) -> None:
    """Whatever of the chat is not sent as it was is among the reductions, and its size; otherwise there are none.

    But for thinking that is bound to a conversation which has changed: no model would read it.
    """
    lacking = Counter(dumped(sent.chat.items)) - Counter(dumped(sent.items))
    bound = [text for text in lacking.elements() if is_reasoning(json.loads(text)) and '"format"' in text]
    lacking -= Counter(bound)
    reductions = {each.kind: each for each in sent.plan.reductions}
    assert len(reductions) == len(sent.plan.reductions)
    assert bool(lacking) == bool(reductions)
    if "clipped" in reductions:
        return
    lost_tokens = sent.plan.tokens_before - (sent.plan.tokens - sent.plan.recalled.tokens)
    lost_tokens -= sum(TokenCounter(ContentCache()).item(json.loads(text)).tokens for text in bound)
    assert sum(each.tokens for each in reductions.values()) >= lost_tokens
    counted = sum(each.count for kind, each in reductions.items() if kind not in {"facts", "capped"})
    asked = [item for item in sent.chat.items if is_message(item) and item["role"] == "user"]
    assert counted >= sum((Counter(dumped(asked)) & lacking).values())


LAWS: Sequence[Callable[[Sent], None]] = (
    what_is_sent_is_within_the_limit,
    no_word_is_lost_below_the_trigger,
    no_call_is_without_its_output,
    what_must_not_be_dropped_is_there,
    the_newest_are_kept,
    reasoning_is_sent_for_a_whole_turn_or_not_at_all,
    a_request_continues_the_one_before_unless_it_says_so,
    every_prefix_break_frees_something,
    thinking_goes_with_the_conversation_that_it_is_bound_to,
    thinking_that_is_bound_costs_no_cache,
    what_is_lacking_is_said,
    excerpts_stand_directly_behind_the_question,
    all_requests_of_a_turn_quote_the_same,
    what_is_quoted_is_what_earlier_turns_say,
)


def _text(item: Item) -> str:
    assert is_message(item)
    return str(item["content"][0].get("text", ""))


def test_thinking_before_a_change_stays() -> None:
    """Of the turns whose results stay as they are, and of every turn until one before it has changed."""
    policy = ContextSettings(tool_output_retention_turns=2, tool_output_pruning="every_turn")
    model = ModelTerms("vendor/model", 1_000_000)
    turns: list[list[Item]] = []
    for number in range(12):
        items: list[Item] = [user(f"Question {number}")]
        for called in [f"c{number}", f"d{number}"] * (number > 3):
            thought = reasoning("A" * 50 + called, is_bound=True)
            items += [thought, call(called), output(called, rows(60))]
        thought = reasoning("A" * 50 + str(number), is_bound=True)
        turns.append([*items, thought, answer("Done.", f"m{number}")])
    plans = [summarized(history(*turns[:end], turns[end][:1]), policy, model, Memory()) for end in range(12)]
    assert sum(bool(plan.new_breaks) for plan in plans) > 4
    for end in range(1, 12):
        chat = history(*turns[:end], turns[end][:1])
        sent = Sent(chat, policy, model, plans[end], plans[end - 1], opens_turn=True)
        for law in LAWS:
            law(sent)
    assert [*map(is_bound, plans[-1].items)].count(True) == 4


_numbers = st.tuples(st.integers(1, 40), st.integers(0, 9)).map(lambda pair: f"{pair[0]}-{sum(pair)}")
_turns = st.lists(_numbers, max_size=2).map(", ".join)
_commands = st.one_of(
    st.sampled_from(["/compact", "/aim thrifty", "/aim faithful", "/help"]),
    st.builds("/{} {}".format, st.sampled_from(["restore", "discard"]), _turns),
)


@settings(max_examples=CHATS, deadline=None)
@example([(3, "/compact"), (3, "/restore"), (4, "/compact")], "faithful")  # restored before it is written
@given(
    st.lists(st.tuples(st.integers(0, 30), _commands), max_size=5), st.sampled_from(["faithful", "thrifty"])
)
def test_commands_change_a_prefix_only_where_that_is_announced(told: list[tuple[int, str]], aim: str) -> None:
    """Each request begins like the one before, or its own plan names the break; earlier plans stay as they were."""
    memory, plans = new_memory(), list[Plan]()
    told = sorted(told, key=lambda each: each[0])
    for turns in range(0, 34, 3):
        known = "".join(f"; {turn} {command}" for turn, command in told if turn <= turns)
        plans.append(Case.read(f"{turns} turns context_aim={aim}{known}").plan_written(memory))
    for before, after in pairwise(plans):
        turn = before.parts.parts[-1].turn
        assert tuple(each for each in after.prefix_breaks if each.turn <= turn) == before.prefix_breaks
        if after.prefix_breaks == before.prefix_breaks:
            assert after.items[: len(before.items)] == before.items
        assert after.tokens <= after.limit_tokens
