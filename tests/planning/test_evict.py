"""What happens to a chat that is too large."""

from __future__ import annotations

from itertools import pairwise

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.errors import ContextBudgetExceeded
from open_webui_openrouter_pipe.planning.overflow import ContextOverflow
from open_webui_openrouter_pipe.planning.plan import ModelTerms
from open_webui_openrouter_pipe.responses.items import is_function_call_output
from tests.support.chats import History, answer, call, history, output, planned, reasoning, rows, user

SMALL = ModelTerms("vendor/model", 10_000)
PROSE = "the ship sailed north and nobody knew why it came back so late "


def talk(turns: int, times: int = 40) -> History:
    """Long questions and answers, and a short question."""
    said = [[user(f"{at} {PROSE * times}"), answer(f"{at} {PROSE * times}", f"m{at}")] for at in range(turns)]
    return history([user("You must answer in French.")], *said, [user("now?")])


def test_a_full_chat_lands_well_below_the_limit() -> None:
    """It lands under 60 %, keeps the newest turns, and the rule of the first one in the note."""
    chat = talk(20)
    asked = [
        at for at in range(1, len(chat.items)) if chat.items[at - 1]["type"] == "message" and at % 2 == 0
    ]
    landed = next(made for made in (planned(chat.upto(at), model=SMALL) for at in asked) if made.breaks)
    assert [epoch.reason for epoch in landed.breaks] == ["landing"]
    assert 0.3 * landed.limit_tokens < landed.tokens <= 0.6 * landed.limit_tokens
    note = landed.items[1]
    assert "You must answer in French." in str(note)
    assert [item["type"] for item in landed.items[2:4]] == ["message", "message"]


def test_after_landing_the_next_turns_need_nothing() -> None:
    """The prefix stays the same for several turns after each landing."""
    made = planned(talk(40), model=SMALL)
    landings = [epoch.turn for epoch in made.epochs if epoch.reason == "landing"]
    assert min(later - earlier for earlier, later in pairwise(landings)) >= 3


def test_when_nearly_full_old_outputs_go_before_any_turn() -> None:
    """Shrinking what tools gave is enough: every message is still there."""
    turns = [
        [
            user(f"q{at}"),
            reasoning("A" * 900),
            call(f"{at}"),
            output(f"{at}", rows(60)),
            answer(f"a{at}", f"m{at}"),
        ]
        for at in range(9)
    ]
    made = planned(history(*turns, [user("now?")]), ContextSettings(tool_output_pruning="off"), SMALL)
    assert {epoch.reason for epoch in made.epochs} == {"prune"}
    messages = [item for item in made.items if item["type"] == "message"]
    assert len(messages) == 1 + 2 * 9 + 1
    assert made.tokens < 0.7 * made.tokens_before


def test_one_huge_output_is_capped_head_and_tail() -> None:
    """Five megabytes of output become a quarter of the budget, with the beginning and the end."""
    text = "BEGIN " + PROSE * 80_000 + " END"
    made = planned(history([user("read it"), call("1"), output("1", text)]), model=SMALL)
    said = next(str(item["output"]) for item in made.items if is_function_call_output(item))
    assert said.startswith("BEGIN ")
    assert said.endswith(" END")
    assert "characters left out" in said
    assert made.tokens <= 0.3 * made.budget.input_tokens


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
        planned(talk(20), ContextSettings(context_strategy="refuse"), SMALL)
    assert refused.value.shares[0].name == "earlier turns"
    assert refused.value.shares[0].droppable


def test_off_sends_everything() -> None:
    """With the strategy `off` the provider decides: nothing is capped, dropped or refused."""
    chat = history([user("read"), call("1"), output("1", PROSE * 20_000)])
    made = planned(chat, ContextSettings(context_strategy="off"), SMALL)
    assert made.items[1:] == chat.items
    assert made.tokens > made.limit_tokens


def test_the_rounds_of_a_long_turn_become_facts_and_the_last_stays() -> None:
    """An agent that calls and calls lands too: earlier outputs are facts, the last round is whole."""
    items = [part for at in range(30) for part in (reasoning(), call(f"{at}"), output(f"{at}", rows(40)))]
    made = planned(history([user("go"), *items]), model=SMALL)
    said = [str(item["output"]) for item in made.items if is_function_call_output(item)]
    assert len(said) == 30
    assert said[0].startswith("[Tool: 40 rows")
    assert said[-1] == rows(40)
    assert sum(item["type"] == "reasoning" for item in made.items) == 30


def test_calibration_moves_the_limit() -> None:
    """A model whose tokenizer is known to be coarser is given less; one that is finer, not more."""
    chat = talk(3)
    tally = planned(chat).tally
    coarse = fine = Calibration()
    for _ in range(6):
        coarse = coarse.observed(tally, round(1.45 * tally.tokens))
        fine = fine.observed(tally, round(0.7 * tally.tokens))
    plain = planned(chat, model=SMALL).limit_tokens
    assert plain / 1.6 < planned(chat, model=SMALL, calibration=coarse).limit_tokens < plain / 1.45
    assert planned(chat, model=SMALL, calibration=fine).limit_tokens == plain
