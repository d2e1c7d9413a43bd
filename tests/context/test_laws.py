"""What holds for every history, whatever its size and the settings."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.context.overflow import ContextOverflow
from open_webui_openrouter_pipe.context.pins import PINNED_LINE
from open_webui_openrouter_pipe.context.plan import ModelTerms, Plan
from open_webui_openrouter_pipe.context.pricing import CachePrices
from open_webui_openrouter_pipe.context.recent import Recent
from open_webui_openrouter_pipe.context.settings import ContextSettings
from open_webui_openrouter_pipe.context.tokens import Counter
from open_webui_openrouter_pipe.context.turns import read_by_model
from open_webui_openrouter_pipe.responses.items import (
    Item,
    is_function_call,
    is_function_call_output,
    is_message,
    is_reasoning,
)
from tests.support.cases import HISTORIES
from tests.support.chats import SYSTEM, History, histories, planned

lawful = settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))

_policies = st.builds(
    ContextSettings,
    tool_output_retention_turns=st.integers(1, 4),
    tool_output_pruning=st.sampled_from(["batched", "every_turn", "off"]),
    context_strategy=st.sampled_from(["summarize", "clip", "refuse"]),
    protected_recent_turns=st.integers(1, 4),
    clip_last_messages=st.integers(1, 6),
)
_models = st.builds(
    ModelTerms,
    id=st.just("vendor/model"),
    window_tokens=st.sampled_from([2500, 4000, 8000, 30_000, 1_000_000]),
    prices=st.sampled_from([CachePrices(), CachePrices(0.1, 1.25), CachePrices(0.5, 1.0)]),
)


def attempted(chat: History, policy: ContextSettings, model: ModelTerms) -> Plan | ContextOverflow:
    """The plan of the chat, or its refusal."""
    try:
        return planned(chat, policy, model)
    except ContextOverflow as overflow:
        return overflow


def dumped(items: Sequence[Item]) -> list[str]:
    """The bytes of each item."""
    return [json.dumps(item) for item in items]


def requests(chat: History) -> list[int]:
    """Lengths of the beginnings that were sent as requests."""
    return [
        at
        for at in range(1, len(chat.items) + 1)
        if read_by_model(chat.items[at - 1])
        and (at == len(chat.items) or chat.turn_of_item[at] != chat.turn_of_item[at - 1]
             or not read_by_model(chat.items[at]))
    ]  # fmt: skip


@lawful
@given(histories(), _policies, _models)
def test_a_plan_is_within_the_limit_or_refused_with_reasons(
    chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """What is sent, counted anew, is within the limit; what cannot be made to fit is a typed error."""
    made = attempted(chat, policy, model)
    if isinstance(made, ContextOverflow):
        assert made.code == "context_budget_exceeded"
        assert made.needed_tokens > made.limit_tokens
        return
    counted = planned(chat, ContextSettings(context_strategy="off"), model)
    assert sum(Counter(Recent()).item(item).tokens for item in made.items) == made.tokens == made.tally.tokens
    assert made.tokens <= made.limit_tokens
    assert made.tokens_before == counted.tokens_before


@lawful
@given(histories(), _policies, _models)
def test_no_call_is_without_its_output(chat: History, policy: ContextSettings, model: ModelTerms) -> None:
    """Calls and outputs are sent in pairs, each output after its call, each once."""
    try:
        items = planned(chat, policy, model).items
    except ContextOverflow:
        return
    calls = [item["call_id"] for item in items if is_function_call(item)]
    outputs = [item["call_id"] for item in items if is_function_call_output(item)]
    assert sorted(calls) == sorted(outputs)
    assert len(set(calls)) == len(calls)
    order = [item["call_id"] for item in items if is_function_call(item) or is_function_call_output(item)]
    assert all(order.index(call_id) < len(order) - 1 - order[::-1].index(call_id) for call_id in calls)


@lawful
@given(histories(), _policies, _models)
def test_what_must_not_be_dropped_is_there(chat: History, policy: ContextSettings, model: ModelTerms) -> None:
    """The system prompt, the latest user message and every call of the current turn are always sent."""
    try:
        items = planned(chat, policy, model).items
    except ContextOverflow:
        return
    current = [item for item, turn in chat.numbered if turn == chat.turn_of_item[-1]]
    sent_calls = {item["call_id"] for item in items if is_function_call_output(item)}
    assert items[0] == SYSTEM
    assert current[0] in items
    assert {item["call_id"] for item in current if is_function_call(item)} <= sent_calls


@lawful
@given(histories(), _policies, _models)
def test_the_newest_are_kept(chat: History, policy: ContextSettings, model: ModelTerms) -> None:
    """The turns that are sent are the newest ones, without a gap, and each begins with the user's message."""
    try:
        items = planned(chat, policy, model).items
    except ContextOverflow:
        return
    asked = [item for item in chat.items if is_message(item) and item["role"] == "user"]
    sent = [item for item in items if is_message(item) and item["role"] == "user" and item in asked]
    assert dumped(sent) == dumped(asked[len(asked) - len(sent) :])
    first = next(item for item in items[1:] if not is_message(item) or not PINNED_LINE.match(_text(item)))
    assert is_message(first)
    assert first["role"] == "user"


@lawful
@given(histories(), _policies, _models)
def test_reasoning_is_sent_for_a_whole_turn_or_not_at_all(
    chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """Of the reasoning of a turn, all or nothing is sent."""
    try:
        sent = planned(chat, policy, model).items
    except ContextOverflow:
        return
    for turn in set(chat.turn_of_item):
        ours = [item for item, number in chat.numbered if number == turn]
        thoughts = [id(item) for item in ours if is_reasoning(item)]
        kept = [id(item) for item in sent if id(item) in thoughts]
        assert kept in ([], thoughts)


@lawful
@given(histories(), _policies, _models)
def test_the_same_history_gives_the_same_bytes(
    chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """A second plan, made with another memory, is the same to the byte."""
    first, second = (attempted(chat, policy, model) for _ in range(2))
    if isinstance(first, Plan) and isinstance(second, Plan):
        assert (dumped(first.items), first) == (dumped(second.items), second)
    else:
        assert str(first) == str(second)


@lawful
@given(histories(), _policies, _models, st.data())
def test_a_request_continues_the_one_before_unless_it_says_so(
    chat: History, policy: ContextSettings, model: ModelTerms, data: st.DataObject
) -> None:
    """A request begins with the bytes of the one before, or announces why it does not; the past is decided once."""
    ends = requests(chat)
    if len(ends) < 2:
        return
    at = data.draw(st.integers(1, len(ends) - 1))
    try:
        before = planned(chat.upto(ends[at - 1]), policy, model)
        after = planned(chat.upto(ends[at]), policy, model)
    except ContextOverflow:
        return
    assert after.epochs[: len(before.epochs)] == before.epochs
    assert after.epochs[len(before.epochs) :] == after.breaks
    if not after.breaks:
        assert dumped(after.items)[: len(before.items)] == dumped(before.items)


@lawful
@given(histories(), _policies, _models)
def test_every_epoch_wins_something(chat: History, policy: ContextSettings, model: ModelTerms) -> None:
    """The prefix is never changed for nothing, and by each policy at most once a request."""
    try:
        made = planned(chat, policy, model)
    except ContextOverflow:
        return
    assert all(epoch.tokens_won > 0 for epoch in made.epochs if epoch.reason != "clip")
    per_request = [(epoch.request, epoch.reason) for epoch in made.epochs]
    assert len(set(per_request)) == len(per_request)


def _text(item: Item) -> str:
    assert is_message(item)
    return str(item["content"][0].get("text", ""))
