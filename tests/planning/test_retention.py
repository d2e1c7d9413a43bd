"""When old tool outputs become facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings, Strategy
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.items import is_function_call_output
from tests.planning.exact import MODEL, new_memory, talk, words
from tests.support.chats import History, answer, call, history, output, plan_with, planned, rows, user

ANTHROPIC = ModelTerms("anthropic/model", 1_000_000, prices=CachePrices(0.1, 1.25))
UNCACHED = ModelTerms("vendor/model", 1_000_000)


def chat(turns: int) -> History:
    """Turns with one call each, and a last message that awaits its answer."""
    return history(
        *(
            [user(f"question {at}"), call(f"c{at}"), output(f"c{at}", rows(100 + at)), answer("done")]
            for at in range(turns - 1)
        ),
        [user("now?")],
    )


def verbatim(fitted: Plan) -> list[str]:
    """The calls whose outputs are sent whole."""
    return [
        i["call_id"] for i in fitted.items if is_function_call_output(i) and str(i["output"]).startswith("[{")
    ]


def settings(pruning: Any, turns: int = 3, **changes: Any) -> ContextSettings:
    """Settings with a short retention."""
    return ContextSettings(tool_output_pruning=pruning, tool_output_retention_turns=turns, **changes)


def thrifty(pruning: Any) -> ContextSettings:
    """The same for a chat that goes by prices, without summaries."""
    return settings(pruning, context_aim="thrifty", context_strategy="prune")


def test_the_newest_turns_stay_verbatim() -> None:
    """With pruning in every turn, exactly the outputs of the newest turns are whole, the current turn counted."""
    assert verbatim(planned(chat(8), settings("every_turn"))) == ["c5", "c6"]


def test_nothing_is_pruned_when_pruning_is_off() -> None:
    """All outputs stay, and the prefix never changes."""
    fitted = planned(chat(8), settings("off"))
    assert (len(verbatim(fitted)), fitted.prefix_breaks, fitted.tokens) == (7, (), fitted.tokens_before)


def test_without_a_cache_batches_are_as_small_as_can_be() -> None:
    """Where reading from a cache saves nothing, batched is the same as every turn."""
    batched, every = (planned(chat(12), thrifty(kind), UNCACHED) for kind in ("batched", "every_turn"))
    assert batched == every


def test_with_a_cheap_cache_batches_are_few_and_large() -> None:
    """The prefix changes rarely, and each time more is freed; in between, everything since then stays verbatim."""
    batched, every = (planned(chat(60), thrifty(kind), ANTHROPIC) for kind in ("batched", "every_turn"))
    assert len(every.prefix_breaks) == 57
    assert 1 <= len(batched.prefix_breaks) <= 12
    assert min(e.freed_tokens for e in batched.prefix_breaks) > max(
        e.freed_tokens for e in every.prefix_breaks
    )
    assert set(verbatim(every)) < set(verbatim(batched))


@pytest.mark.parametrize("retention", [0, -3])
def test_the_current_turn_is_never_pruned(retention: int) -> None:
    """No setting reaches the outputs that the model has not yet answered."""
    fitted = planned(
        history([user("a"), call("1"), output("1", rows(100))]), settings("every_turn", retention)
    )
    assert verbatim(fitted) == ["1"]


def test_old_outputs_are_facts() -> None:
    """What stands in for an old output is its fact, in the same pair."""
    fitted = planned(chat(5), settings("every_turn", 1))
    old = next(item for item in fitted.items if is_function_call_output(item))
    assert old == output(
        "c0", '[Tool: 100 rows | columns: id, name | first: {"id": 0, "name": "' + "n" * 20 + '"}]'
    )


def sized_chat(turns: int) -> History:
    """Turns of 1,000 tokens, of which 888 are an output; as a fact it would take more than 100."""
    asked = [
        [user(words(96, f"Q{at}")), call(f"c{at}"), output(f"c{at}", words(878, f"R{at}"))]
        for at in range(turns)
    ]
    return history(*asked, talk(0).items)


@pytest.mark.parametrize(
    ("turns", "retained", "outputs_as_facts"),
    [
        *[(69, 10, 0), (70, 10, 61), (115, 10, 61), (116, 10, 107)],
        *[(77, 50, 0), (78, 50, 29), (88, 69, 0), (89, 69, 21), (89, 89, 0)],
    ],
    ids=[
        "below the trigger",
        "at the trigger",
        "quiet afterwards",
        "again",
        "above the trigger, but the change does not pay",
        "it pays",
        "while the next turn fits below the size at which pruning is due",
        "no longer",
        "less than a turn is not worth it",
    ],
)
@pytest.mark.parametrize("strategy", ["prune", "refuse"])
def test_a_faithful_chat_keeps_its_outputs_up_to_the_trigger(
    strategy: Strategy, turns: int, retained: int, outputs_as_facts: int
) -> None:
    """Then all old outputs become facts at once, when that pays, or the next turn would come to be pruned."""
    kept = ContextSettings(context_strategy=strategy, tool_output_retention_turns=retained)
    fitted = plan_with(sized_chat(turns), kept, MODEL, new_memory(), missing="skip")
    whole = sum(item in sized_chat(turns).items for item in fitted.items if is_function_call_output(item))
    assert turns - whole == outputs_as_facts


@pytest.mark.parametrize(("rounds", "reasons"), [(4, []), (5, ["retention"])])
def test_within_a_turn_old_outputs_become_facts_before_anything_is_summarized(
    rounds: int, reasons: list[str]
) -> None:
    """While they wait for a change to pay, a turn of many rounds may bring the chat to be pruned."""
    items, turns = sized_chat(85).items, sized_chat(85).turn_of_item
    current = [part for at in range(rounds) for part in (call(f"n{at}"), output(f"n{at}", words(990)))]
    chat = History((*items, *current), (*turns, *[turns[-1]] * len(current)))
    kept = ContextSettings(tool_output_retention_turns=69)
    fitted = plan_with(chat, kept, MODEL, new_memory(), missing="request")
    assert [each.reason for each in fitted.prefix_breaks] == reasons


def test_without_a_cache_a_faithful_chat_waits_for_nothing_above_the_trigger() -> None:
    """What is not in a cache costs the same anew."""
    kept = ContextSettings(context_strategy="prune", tool_output_retention_turns=69)
    uncached = replace(MODEL, prices=UNCACHED.prices)
    fitted = plan_with(sized_chat(70), kept, uncached, new_memory(), missing="skip")
    assert [(each.turn, each.reason) for each in fitted.prefix_breaks] == [(70, "retention")]


def test_the_frontier_does_not_move_within_a_turn() -> None:
    """However much a turn of many requests pays for old outputs that could be freed: its prefix stays in the cache."""
    rounds = [item for at in range(60) for item in (call(f"r{at}"), output(f"r{at}", "short"))]
    turns = [
        [user(f"question {at}"), call(f"c{at}"), output(f"c{at}", rows(40)), answer("done " * 300)]
        for at in range(6)
    ]
    opened = planned(history(*turns, [user("go on")]), settings("batched"), ANTHROPIC)
    within = planned(history(*turns, [user("go on"), *rounds]), settings("batched"), ANTHROPIC)
    assert within.prefix_breaks == opened.prefix_breaks
