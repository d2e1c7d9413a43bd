"""Pruning and eviction: what happens without a model to a chat that is too large."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.errors import ContextBudgetExceeded
from open_webui_openrouter_pipe.planning.detail import OutputLimits
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.responses.items import (
    Item,
    is_function_call,
    is_function_call_output,
    is_message,
)
from tests.planning.exact import MODEL, UNCACHED, new_memory, split_words, talk, words
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


def uncached(chat: History) -> Plan:
    """The same where nothing is cached, so that there is room for one more turn after a change."""
    return plan_with(chat, PRUNE, replace(MODEL, prices=UNCACHED), new_memory(), missing="skip")


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
        (PRUNE, 90, 134, "facts"),
        (PRUNE, 90, 133, "skeleton"),
        (PRUNE, 90, 84, "skeleton"),
        (PRUNE, 90, 83, "full"),
    ],
)
def test_old_turns_are_pruned_only_as_far_as_needed(
    settings: ContextSettings, turns: int, freed_tokens: int, expected: str
) -> None:
    """From the trigger on; facts if they make room for eleven and a half turns below it, else skeletons, else nothing.

    At 90 turns 87 are not protected: each frees what its fact does, and 50 tokens more without its commentary.
    """
    fitted = exact(agent_chat(turns, freed_tokens), settings)
    assert (level(fitted), len(sent_turns(fitted))) == (expected, turns)


def test_as_few_of_the_oldest_turns_are_pruned_as_needed() -> None:
    """11,600 tokens over the mark are 24 turns of which each frees 500."""
    fitted = exact(agent_chat(90, 500))
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    assert [text.startswith("[Tool: ") for text in outputs] == [True] * 24 + [False] * 66


def long_turn(number: int, words_each: int = 4_000, result_words: int = 0) -> list[Item]:
    """A question and an answer of so many words, with a tool call where its result has any."""
    called = [call(f"{number}"), output(f"{number}", words(result_words))] if result_words else []
    return [
        user(words(words_each, f"Q{number}")),
        *called,
        answer(words(words_each, f"A{number}"), f"m{number}"),
    ]


def shown(fitted: Plan) -> list[str]:
    """How each earlier turn's answer is sent, the oldest first."""
    texts = [
        str(item["content"][0].get("text"))
        for item in fitted.items
        if is_message(item) and item["role"] == "assistant"
    ]
    return ["cut" if "characters omitted" in text else "whole" for text in texts]


def test_long_texts_are_cut_before_any_turn_is_dropped() -> None:
    """The oldest first, and as few as needed: each of 12 turns of 8,008 tokens frees 1,991 and 3,991 or less."""
    chat = history(*(long_turn(number) for number in range(13)), [user("Q13 and now?")])
    fitted = uncached(chat)
    cut = shown(fitted).count("cut")
    assert sent_turns(fitted) == list(range(13))
    assert shown(fitted) == ["cut"] * cut + ["whole"] * (13 - cut)
    assert 0 < cut <= 9
    assert 80_000 < fitted.tokens <= 100_000


def test_the_users_words_keep_twice_as_much_as_the_models() -> None:
    """4,000 tokens of a budget of 100,000 are twice an excerpt."""
    chat = history(long_turn(0, 4_200), *(long_turn(number, 12_000) for number in range(1, 5)), [user("Q5?")])
    cut = exact(chat).items[1:3]
    counts = [TokenCounter(ContentCache(), split_words).item(item).tokens for item in cut]
    assert [3_400 < counts[0] <= 4_000, 1_700 < counts[1] <= 2_000] == [True, True]


def test_short_arguments_of_a_long_call_stay() -> None:
    """Only the texts that are long themselves are cut; numbers and names stay, and it remains JSON."""
    arguments = json.dumps({"path": "docs/log.md", "text": words(15_000), "line": 3})
    writing = [user("Q0 write"), call("c", arguments), output("c", "ok"), answer("Done.", "m0")]
    chat = history(writing, *(long_turn(number, 11_000) for number in range(1, 5)), [user("Q5?")])
    sent = next(item for item in exact(chat).items if is_function_call(item))
    values = json.loads(sent["arguments"])
    assert {**values, "text": ""} == {"path": "docs/log.md", "text": "", "line": 3}
    assert "characters omitted" in values["text"]


def test_a_fact_is_no_longer_than_an_excerpt() -> None:
    """120 tokens of a budget of 6,000; the fact alone would be 400 and 200 characters, 138 tokens."""
    turns = [
        [user("Q?"), call(f"{at}"), output(f"{at}", words(300)), answer("ok", f"m{at}")] for at in range(3)
    ]
    settings = ContextSettings(tool_output_pruning="every_turn", tool_output_retention_turns=1)
    model = ModelTerms("vendor/model", 8_000, max_output_tokens=1_600)
    fitted = plan_with(history(*turns, [user("Q3?")]), settings, model, new_memory(), missing="skip")
    counter = TokenCounter(ContentCache(), split_words)
    stated = [item for item in fitted.items if is_function_call_output(item)]
    assert all(str(item["output"]).startswith("[Tool: 1,499 characters]") for item in stated)
    assert all(100 < counter.item(item).tokens <= 120 for item in stated)
    assert len(stated) == 3


def test_what_the_model_has_just_read_is_stated_as_facts_at_the_very_last() -> None:
    """Rather than refusing the request, once all earlier turns are dropped and the note is written."""
    reading = [
        user(words(71_000, "Q1")),
        call("c"),
        output("c", words(24_000)),
        call("d"),
        output("d", words(24_000)),
    ]
    fitted = exact(history(long_turn(0), reading))
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    assert [text.startswith("[Tool: ") for text in outputs] == [True, False]
    both = [
        user(words(71_000, "Q1")),
        *(call(at) for at in "cd"),
        *(output(at, words(24_000)) for at in "cd"),
    ]
    stated = [
        str(item["output"])
        for item in exact(history(long_turn(0), both)).items
        if is_function_call_output(item)
    ]
    assert [text.startswith("[Tool: ") for text in stated] == [True, True]


def test_retained_turns_are_kept_in_some_form_before_newer_ones_are_cut() -> None:
    """The turns before the last ten go first, then the protected ones are cut, and only then are others dropped."""
    old = [long_turn(number, 1_000) for number in range(10)]
    kept = [long_turn(number, 1_900) for number in range(10, 16)]
    newest = [long_turn(number, 10_000) for number in range(16, 19)]
    fitted = uncached(history(*old, *kept, *newest, [user(words(20_000, "Q19"))]))
    assert sent_turns(fitted) == list(range(10, 19))
    assert shown(fitted) == [*["whole"] * 6, "cut", "whole", "whole"]


def test_results_of_the_current_turn_outlast_unprotected_turns() -> None:
    """They were asked for to answer the latest message; the last three turns stay in some form all the same."""
    old = [long_turn(number, 1_900) for number in range(10)]
    rounds = [[call(f"c{at}"), output(f"c{at}", words(24_000))] for at in range(3)]
    fitted = exact(history(*old, [user("Q10 go"), *(item for each in rounds for item in each)]))
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    assert all(text == words(24_000) for text in outputs)
    assert sent_turns(fitted)[-3:] == [7, 8, 9]
    assert 3 <= len(sent_turns(fitted)) < 10


def test_earlier_results_of_the_turn_become_facts_before_the_last_turns_are_dropped() -> None:
    """As few as needed, the oldest first; the newest result, which the model has just read, is whole."""
    old = [long_turn(number, 1_900) for number in range(10)]
    rounds = [[call(f"c{at}"), output(f"c{at}", words(24_000))] for at in range(5)]
    fitted = exact(history(*old, [user("Q10 go"), *(item for each in rounds for item in each)]))
    outputs = [str(item["output"]) for item in fitted.items if is_function_call_output(item)]
    assert [text.startswith("[Tool: ") for text in outputs] == [True, True, False, False, False]
    assert sent_turns(fitted) == [7, 8, 9]


def test_the_mark_is_missed_rather_than_the_current_turn_cut() -> None:
    """Where earlier turns cannot give the room for more turns, the request goes just below the limit."""
    old = [[user(f"Q{number}"), answer(words(1_000), f"m{number}")] for number in range(6)]
    rounds = [[call(f"c{at}"), output(f"c{at}", words(24_000))] for at in range(4)]
    chat = history(*old, [user("Q6 go"), *(item for each in rounds for item in each)])
    fitted = exact(chat)
    assert 95_000 < fitted.tokens <= 100_000
    assert sent_turns(fitted) == [3, 4, 5]


def test_what_the_user_wrote_in_evicted_turns_stays_in_a_note() -> None:
    """Before all turns that are sent."""
    rule = [user("You must answer in French."), answer("Oui.")]
    chat = talk(100)
    ruled = History((*rule, *chat.items), (-1, -1, *chat.turn_of_item))
    note = exact(ruled).items[1]
    assert "14 earlier turns omitted" in str(note)
    assert "The user wrote, turn 1:\\n> You must answer in French." in str(note)


@pytest.mark.parametrize(("tokens", "is_noted"), [(97_000, True), (99_000, False)])
def test_no_request_is_refused_for_the_note(tokens: int, is_noted: bool) -> None:  # noqa: FBT001 - a table
    """Where the latest message leaves no room for what the user wrote before, the note only says what is omitted.

    With half of the margin there are 102,750 tokens, and the note takes 4,036.
    """
    fitted = exact(history(long_turn(0), [user(words(tokens, "Q1"))]))
    text = str(fitted.items[1])
    assert "1 earlier turn omitted" in text
    assert ("The user wrote, turn 1" in text) is is_noted


def terse_turn(number: int) -> list[Item]:
    """A message of 300 short lines, each of which takes a mark more in the note, and an answer that says nothing."""
    lines = "\n".join(["line"] * 300)
    return [user(f"Q{number}\n{lines}"), answer("ok", f"m{number}")]


def working_turn(number: int, result_words: int, question_words: int) -> list[Item]:
    """The current turn, with four results of so many words."""
    rounds = [(call(f"c{at}"), output(f"c{at}", words(result_words))) for at in range(4)]
    return [user(words(question_words, f"Q{number}")), *(item for each in rounds for item in each)]


def test_turns_that_are_smaller_than_their_note_stay() -> None:
    """Dropping them would make the request larger."""
    fitted = exact(history(*map(terse_turn, range(4)), working_turn(4, 24_700, 300)))
    assert sent_turns(fitted) == [0, 1, 2, 3]
    assert [each.kind for each in fitted.reductions] == ["facts"]


def test_fewer_turns_are_dropped_where_the_note_outgrows_the_others() -> None:
    """The first turn frees more than the request is over the limit; with each further one it grows again."""
    first = [user("Q0"), answer(words(1_500), "m0")]
    fitted = exact(history(first, *map(terse_turn, range(1, 9)), working_turn(9, 24_000, 1_060)))
    assert 101_000 < fitted.tokens_before < 101_400
    assert sent_turns(fitted) == list(range(1, 9))
    assert [each.kind for each in fitted.reductions] == ["omitted"]


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


@pytest.mark.parametrize(("budget_tokens", "tokens"), [(100_000, 2_000), (5_000, 100), (2_000, 48)])
def test_excerpts_are_limited_by_the_budget(budget_tokens: int, tokens: int) -> None:
    """A fiftieth of it, and 48 tokens are always allowed."""
    assert OutputLimits(budget_tokens).excerpt_tokens == tokens


@pytest.mark.parametrize(("budget_tokens", "tokens"), [(100_000, 5_000), (8_000, 400)])
def test_the_note_is_capped_by_the_budget(budget_tokens: int, tokens: int) -> None:
    """A twentieth of it."""
    assert OutputLimits(budget_tokens).note_tokens == tokens


def test_one_huge_output_is_capped_head_and_tail() -> None:
    """Five megabytes of output become a quarter of the budget, with the beginning and the end."""
    text = "BEGIN " + PROSE * 80_000 + " END"
    fitted = planned(history([user("read it"), call("1"), output("1", text)]), model=SMALL)
    sent = next(str(item["output"]) for item in fitted.items if is_function_call_output(item))
    assert sent.startswith("BEGIN ")
    assert sent.endswith(" END")
    assert "characters omitted" in sent
    assert sent.index("\n[... ") / len(sent) == pytest.approx(2 / 3, abs=0.01)
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
    with pytest.raises(ContextBudgetExceeded) as refused:
        planned(chat, model=SMALL)
    overflow = refused.value
    assert isinstance(overflow, ContextOverflow)
    assert overflow.shares[0].name == "latest message"
    assert not overflow.shares[0].droppable
    assert overflow.needed_tokens == sum(share.tokens for share in overflow.shares) > overflow.limit_tokens
    assert overflow.advice == "Shorten your message or its attachments, or send them in parts."
    assert overflow.advice in overflow.user_message
    assert overflow.code == "context_budget_exceeded"
    assert "\n" not in overflow.user_message


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
