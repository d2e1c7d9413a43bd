"""Pruning and eviction: what happens without a model to a chat that is too large."""

from __future__ import annotations

from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.errors import ContextBudgetExceeded
from open_webui_openrouter_pipe.planning.detail import OutputLimits
from open_webui_openrouter_pipe.planning.plan import ModelTerms, Plan
from open_webui_openrouter_pipe.responses.items import Item, is_function_call_output, is_message
from tests.planning.exact import MODEL, new_memory, talk, words
from tests.support.chats import (
    History,
    answer,
    call,
    history,
    output,
    plan_with,
    planned,
    reasoning,
    rows,
    user,
)

PRUNE = ContextSettings(context_strategy="prune", tool_output_pruning="off")
SMALL = ModelTerms("vendor/model", 10_000)
PROSE = "the ship sailed north and nobody knew why it came back so late "


def exact(chat: History, settings: ContextSettings = PRUNE) -> Plan:
    """The plan of a chat whose tokens are words, for a budget of 100,000."""
    return plan_with(chat, settings, MODEL, new_memory(), missing="skip")


def sent_turns(fitted: Plan) -> list[int]:
    """The numbers of the turns whose question is sent, the current one aside."""
    texts = [
        str(item["content"][0].get("text")) for item in fitted.items if is_message(item) and item["content"]
    ]
    return [int(text.split()[0][1:]) for text in texts if text.startswith("Q")][:-1]


def agent_turn(number: int, freed_tokens: int) -> list[Item]:
    """A turn of 1,000 tokens, of which stating its tool output as a fact frees so many."""
    fact_tokens = 128  # of 400 and 200 characters, in words of four letters
    call_tokens = 2 + 10
    output_words = freed_tokens + fact_tokens
    rest = 1_000 - 91 - 50 - call_tokens - (output_words + 10)
    return [
        user(words(87, f"Q{number}")),
        answer(words(46, "commentary"), f"c{number}"),
        call(f"{number}"),
        output(f"{number}", words(output_words)),
        answer(words(rest - 4), f"m{number}"),
    ]


def agent_chat(turns: int, freed_tokens: int) -> History:
    """Turns with a tool call each, and a last question; 100 tokens beside the turns."""
    return history(
        *(agent_turn(number, freed_tokens) for number in range(turns)), [user(words(87, f"Q{turns}"))]
    )


def level(fitted: Plan) -> str:
    """How much of the oldest turn is sent: all of it, with facts, or without commentary as well."""
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    if not outputs[0].startswith("[Tool: "):
        return "full"
    return "facts" if any("commentary" in str(item) for item in fitted.items[:3]) else "skeleton"


@pytest.mark.parametrize(
    ("settings", "turns", "freed_tokens", "expected"),
    [
        (PRUNE, 89, 500, "full"),
        (PRUNE, 90, 500, "facts"),
        (replace(PRUNE, prune_trigger_ratio=0.80), 79, 500, "full"),
        (replace(PRUNE, prune_trigger_ratio=0.80), 80, 500, "facts"),
        (PRUNE, 90, 404, "facts"),
        (PRUNE, 90, 403, "skeleton"),
        (PRUNE, 90, 65, "skeleton"),
        (PRUNE, 90, 64, "full"),
    ],
)
def test_old_turns_are_pruned_only_as_far_as_needed(
    settings: ContextSettings, turns: int, freed_tokens: int, expected: str
) -> None:
    """From the trigger on; facts if they bring the request down to 55 %, else skeletons if they free 10 %.

    At 90 turns 87 are not protected: each frees what its fact does, and 50 tokens more without its commentary.
    """
    fitted = exact(agent_chat(turns, freed_tokens), settings)
    assert (level(fitted), len(sent_turns(fitted))) == (expected, turns)


@pytest.mark.parametrize(
    ("turns", "tokens", "protected", "kept"),
    [(99, 1_000, 4, 99), (100, 1_000, 4, 54), (100, 1_000, 60, 54), (5, 20_000, 4, 2), (2, 50_000, 4, 1)],
    ids=["not over the limit", "over the limit", "protected turns give way", "halved", "to the last"],
)
def test_the_oldest_turns_are_evicted_down_to_the_low_water_mark(
    turns: int, tokens: int, protected: int, kept: int
) -> None:
    """Over the limit, as many of the newest turns stay as fit into 55 % of it beside the note."""
    fitted = exact(talk(turns, tokens), replace(PRUNE, protected_recent_turns=protected))
    assert sent_turns(fitted) == list(range(turns - kept, turns))
    assert [step.name for step in fitted.steps if step.triggered] == (["evict"] if kept < turns else [])


def test_after_an_eviction_the_next_turns_need_nothing() -> None:
    """From 54 turns the chat grows to the limit again before more is evicted."""
    fitted = exact(talk(200))
    assert [(each.reason, each.turn) for each in fitted.prefix_breaks] == [
        ("evict", 100),
        ("evict", 146),
        ("evict", 192),
    ]


def test_the_rules_of_evicted_turns_stay_in_a_note() -> None:
    """Before all turns that are sent."""
    rule = [user("You must answer in French."), answer("Oui.")]
    chat = talk(100)
    ruled = History((*rule, *chat.items), (-1, -1, *chat.turn_of_item))
    note = exact(ruled).items[1]
    assert "47 earlier turns omitted" in str(note)
    assert "You must answer in French." in str(note)


@pytest.mark.parametrize(
    ("budget_tokens", "outputs", "tokens"),
    [
        (100_000, 1, 25_000),
        (100_000, 2, 25_000),
        (100_000, 4, 12_500),
        (1_000_000, 1, 50_000),
        (1_000_000, 10, 50_000),
        (4_000, 50, 256),
    ],
)
def test_tool_outputs_are_capped_by_the_budget(budget_tokens: int, outputs: int, tokens: int) -> None:
    """One takes at most a quarter, a round at most half, none more than 50,000 tokens; 256 are always allowed."""
    assert OutputLimits(budget_tokens).output_tokens(outputs) == tokens


@pytest.mark.parametrize(("budget_tokens", "tokens"), [(100_000, 500), (8_000, 400)])
def test_the_rules_in_a_note_are_capped_by_the_budget(budget_tokens: int, tokens: int) -> None:
    """A twentieth of it, and at most 500 tokens."""
    assert OutputLimits(budget_tokens).rules_tokens == tokens


def test_one_huge_output_is_capped_head_and_tail() -> None:
    """Five megabytes of output become a quarter of the budget, with the beginning and the end."""
    text = "BEGIN " + PROSE * 80_000 + " END"
    fitted = planned(history([user("read it"), call("1"), output("1", text)]), model=SMALL)
    sent = next(str(item["output"]) for item in fitted.items if is_function_call_output(item))
    assert sent.startswith("BEGIN ")
    assert sent.endswith(" END")
    assert "characters omitted" in sent
    assert sent.index("\n[... ") / len(sent) == pytest.approx(0.7, abs=0.01)
    assert 0.2 * fitted.budget.input_tokens <= fitted.tokens <= 0.3 * fitted.budget.input_tokens


def test_three_hundred_outputs_at_once_fit_or_are_refused() -> None:
    """The outputs of a round share half of the budget; if even the calls are too many, that is an error."""
    calls = [call(str(at)) for at in range(300)]
    outputs = [output(str(at), rows(50)) for at in range(300)]
    chat = history([user("all of them"), *calls, *outputs])
    assert planned(chat, model=ModelTerms("vendor/model", 200_000)).tokens <= 150_000
    with pytest.raises(ContextOverflow) as refused:
        planned(chat, model=SMALL)
    assert refused.value.shares[0].name == "current tool calls"


def test_a_message_larger_than_the_window_is_refused_with_reasons() -> None:
    """The error is typed, says what takes how much, what cannot be dropped, and what to do."""
    chat = history([user("a"), answer("b")], [user(PROSE * 3000)])
    with pytest.raises(ContextBudgetExceeded, match="context_budget_exceeded") as refused:
        planned(chat, model=SMALL)
    overflow = refused.value
    assert isinstance(overflow, ContextOverflow)
    assert overflow.shares[0].name == "latest message"
    assert not overflow.shares[0].droppable
    assert overflow.needed_tokens == sum(share.tokens for share in overflow.shares) > overflow.limit_tokens
    assert overflow.advice == "Shorten your message or its attachments, or send them in parts."
    assert overflow.advice in overflow.user_message
    assert "\n" not in overflow.user_message


def test_refuse_drops_nothing() -> None:
    """With the strategy `refuse` a chat that is too large is an error, and the turns are named as what could go."""
    with pytest.raises(ContextOverflow) as refused:
        exact(talk(105), ContextSettings(context_strategy="refuse"))
    assert refused.value.needed_tokens == 105_100
    assert refused.value.shares[0].name == "earlier turns"
    assert refused.value.shares[0].droppable


def test_off_sends_everything() -> None:
    """With the strategy `off` the provider decides: nothing is capped, dropped or refused."""
    chat = history([user("read"), call("1"), output("1", PROSE * 20_000)])
    fitted = planned(chat, ContextSettings(context_strategy="off"), SMALL)
    assert fitted.items[1:] == chat.items
    assert fitted.tokens > fitted.limit_tokens


def test_the_rounds_of_a_long_turn_become_facts_and_the_last_stays() -> None:
    """A turn that calls and calls fits too: earlier outputs are facts, the last round is whole."""
    items = [part for at in range(30) for part in (reasoning(), call(f"{at}"), output(f"{at}", rows(40)))]
    fitted = planned(history([user("go"), *items]), model=SMALL)
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    assert len(outputs) == 30
    assert outputs[0].startswith("[Tool: 40 rows")
    assert outputs[-1] == rows(40)
    assert sum(item["type"] == "reasoning" for item in fitted.items) == 30
