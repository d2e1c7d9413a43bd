"""The promise of the aim `faithful`: what fits is sent, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, Tool, build_conversation
from open_webui_openrouter_pipe.conversation.slash import ChatCommand, Help
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.planner import ModelTerms, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL
from tests.support.cases import HISTORIES, SHARES
from tests.support.chats import SYSTEM, History, Memory, histories, plan_with, system

_policies = st.builds(
    ContextSettings,
    tool_output_retention_turns=st.integers(1, 4),
    tool_output_pruning=st.sampled_from(["batched", "off"]),
    context_strategy=st.sampled_from(["summarize", "summarize", "prune", "refuse"]),
    protected_recent_turns=st.integers(1, 4),
    summary_trigger_ratio=st.sampled_from([0.02, 0.1, 0.3, 0.7]),
)
_models = st.builds(
    ModelTerms,
    id=st.just("vendor/model"),
    window_tokens=st.sampled_from(
        [200_000, 400_000]
    ),  # in smaller ones, single outputs are truncated on arrival
    prices=st.sampled_from([CachePrices(), CachePrices(0.1, 1.25), CachePrices(0.5, 1.0)]),
)


@pytest.mark.parametrize("share", SHARES)
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), _policies, _models)
def test_no_word_is_lost_below_the_trigger(
    share: int, chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """Whatever the chat, the prices and the other settings are: every item is sent as it came."""
    counter = TokenCounter(ContentCache())
    tokens = sum(counter.item(item).tokens for item in (SYSTEM, *chat.items))
    try:
        sent = plan_with(chat, policy, model, Memory(), missing="request")
    except ContextOverflow:
        assert tokens > 0.5 * (model.window_tokens or 0)
        return
    budget_tokens = sent.budget.input_tokens
    if tokens < min(policy.summary_trigger_ratio, policy.prune_trigger_ratio) * budget_tokens:
        assert (sent.items, sent.prefix_breaks) == ((SYSTEM, *chat.items), ())
        assert (sent.required_summaries, sent.summarized_turns) == ((), 0)


@pytest.mark.parametrize("share", SHARES)
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), _policies, _models, st.booleans())
def test_what_plainly_fits_is_planned_as_the_policies_would(
    share: int,
    chat: History,
    policy: ContextSettings,
    model: ModelTerms,
    has_tool: bool,  # noqa: FBT001 - drawn
) -> None:
    """A command that changes nothing has all of them look at every request of the chat."""
    tools: tuple[Tool, ...] = (RECALL_TOOL, {"type": "function", "name": "look", "parameters": {}})
    conversation = replace(
        build_conversation(
            chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[system("It is noon.")]
        ),
        tools=tools if has_tool else (),
    )
    policy = replace(policy, recall_tool=has_tool, recall=True)
    plans = []
    for commands in ((), (ChatCommand(0, Help()),)):
        memory = Memory()
        known = replace(conversation, commands=commands)
        counter = TokenCounter(memory.counts)
        try:
            plans.append(plan(known, policy, model=model, counter=counter, caches=memory.caches))
        except ContextOverflow:
            return
    assert plans[0] == plans[1]
