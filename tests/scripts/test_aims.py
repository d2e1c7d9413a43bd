"""The benchmark of the two aims: it decides as plans do, and its bills hold against the requests themselves."""

from __future__ import annotations

import json

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    build_conversation,
    is_model_input,
)
from open_webui_openrouter_pipe.conversation.slash import Aim
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.summaries.segments import Segment
from open_webui_openrouter_pipe.summaries.summary import Summary
from scripts.benchmarks._chats import Chat, Shape, message, text_of, write_chat
from scripts.benchmarks.aims import (
    LISTS,
    THRIFTY,
    Stage,
    fixed_threshold,
    own_policies,
    play,
    play_open_webui,
    write_summary,
)

AGENT = Shape(14, outputs=3, positions=("question", "output", "answer"))
PRICES = CachePrices(0.1, 1.25)


def planned(chat: Chat, window_tokens: int, settings: ContextSettings) -> list[Plan]:
    """The plans of all requests, one after the other, each with the summaries that it requires."""
    counter, caches = TokenCounter(ContentCache()), PlanCaches()
    written: dict[Segment, Summary] = {}
    model = ModelTerms("model", window_tokens, prices=PRICES)
    plans = []
    items, turn_of_item = chat.all_items()
    system = message("system", chat.system)
    for end in (at for at, item in enumerate(items, start=1) if is_model_input(item)):
        conversation = build_conversation(items[:end], turn_of_item[:end], instructions=[system])
        for _ in range(2):
            available = AvailableSummaries(dict(written), "request")
            fitted = plan(
                conversation, settings, model=model, counter=counter, caches=caches, summaries=available
            )
            for target in fitted.required_summaries:
                written[target.segment] = write_summary(target, counter)
        plans.append(fitted)
    return plans


def cost_of(plans: list[Plan]) -> float:
    """What the requests cost when each reads from the cache what it shares with the one before."""
    counter, cost, before = TokenCounter(ContentCache()), 0.0, list[str]()
    for fitted in plans:
        items = list(map(json.dumps, fitted.items))
        same = next((at for at, (a, b) in enumerate(zip(items, before, strict=False)) if a != b), len(before))
        shared = sum(counter.item(item).tokens for item in fitted.items[:same])
        cost += shared * PRICES.read + (fitted.tokens - shared) * PRICES.write
        before = items
    return cost / 1000


@pytest.mark.parametrize("window_tokens", [32_000, pytest.param(64_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("aim", ["faithful", "thrifty"])
def test_the_benchmark_sends_what_plans_send(aim: Aim, window_tokens: int) -> None:
    """Sizes, changes of the prefix, summaries and bills are those of the requests."""
    chat, settings = write_chat(AGENT), ContextSettings(context_aim=aim)
    outcome = play(Stage(chat, window_tokens), settings, own_policies(), {"": PRICES}, PRICES)
    plans = planned(chat, window_tokens, settings)
    assert outcome.breaks == sum(bool(fitted.new_breaks) for fitted in plans) > 0
    assert outcome.largest == max(fitted.tokens for fitted in plans)
    assert outcome.bills[""].answers_cost / 1000 == pytest.approx(cost_of(plans), rel=0.005)
    text = "\n".join(map(text_of, plans[-1].items))
    assert outcome.facts == sum(fact.is_in(text) for fact in chat.facts) / len(chat.facts)


@pytest.mark.thorough
def test_a_thrifty_chat_is_not_dearer_than_any_fixed_threshold() -> None:
    """On each list of prices within 5 % of the best in hindsight, and 2 % of the model of Open WebUI's compaction."""
    stage = Stage(write_chat(Shape(30, outputs=3, positions=AGENT.positions)), 128_000)
    fixed = [play(stage, THRIFTY, fixed_threshold(at), LISTS) for at in (40_000, 60_000, 80_000, 120_000)]
    theirs = play_open_webui(stage, LISTS)
    for name, prices in LISTS.items():
        cost = play(stage, THRIFTY, own_policies(), {name: prices}, prices).costs[name]
        assert cost <= 1.05 * min(outcome.costs[name] for outcome in fixed), name
        assert cost <= 1.02 * theirs.costs[name], name
