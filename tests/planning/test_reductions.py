"""What a plan says that its request lacks: kinds, numbers and sizes, which are those of what is not sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.planning.plan import Plan, Reduction
from open_webui_openrouter_pipe.responses.items import is_message
from tests.planning.exact import MODEL, UNCACHED, new_memory, talk, with_window, words
from tests.support.chats import (
    History,
    answer,
    call,
    history,
    output,
    planned,
    rows,
    summarized,
    user,
)

PRUNE = ContextSettings(context_strategy="prune", tool_output_pruning="off")


def plan_of(chat: History, policy: ContextSettings = PRUNE, window: int = 110_000) -> Plan:
    """The plan of a chat in which a token is a word."""
    return planned(chat, policy, with_window(window), memory=new_memory())


def worked(turns: int, result: str) -> History:
    """Turns with one tool call each, and a last question."""
    said = [
        [user(f"Q{at}"), call(f"call_{at}"), output(f"call_{at}", result), answer(f"A{at}", f"m{at}")]
        for at in range(turns)
    ]
    return history(*said, [user("now?")])


def test_a_request_with_everything_lacks_nothing() -> None:
    """Neither words nor tool results."""
    assert plan_of(talk(40)).reductions == ()


@pytest.mark.parametrize(("turns", "is_cut"), [(99, False), (100, True), (160, True)])
def test_turns_that_are_omitted_are_counted_with_their_size(turns: int, is_cut: bool) -> None:  # noqa: FBT001
    """Of all earlier turns, and with the tokens of the originals: each has a thousand."""
    chat = talk(turns)
    sent = plan_of(chat)
    asked = [item for item in chat.items if is_message(item) and item["role"] == "user"]
    left_out = sum(item not in sent.items for item in asked)
    expected = [("omitted", left_out, 1_000 * left_out, turns)] if is_cut else []
    assert [(each.kind, each.count, each.tokens, each.of) for each in sent.reductions] == expected
    assert (left_out > 10) is is_cut


def test_reductions_are_equal_when_the_same_is_lacking() -> None:
    """However long the chat has become; the next batch is another reduction."""
    first, same, more = (plan_of(talk(turns)).reductions for turns in (100, 101, 150))
    assert first == same != more
    assert first[0].of != same[0].of


def test_tool_results_that_are_stated_as_facts_are_counted() -> None:
    """Those of old turns; the newest ten are whole."""
    policy = ContextSettings(tool_output_pruning="every_turn")
    (found,) = plan_of(worked(14, rows(200)), policy).reductions
    assert (found.kind, found.count) == ("facts", 5)
    sent = plan_of(worked(14, rows(200)), policy)
    assert found.tokens == sent.tokens_before - sent.tokens


def test_a_tool_result_that_is_cut_on_arrival_is_counted() -> None:
    """It keeps what a quarter of the budget takes, also in the current turn."""
    chat = history([user("look"), call("call_1"), output("call_1", words(40_000))])
    sent = plan_of(chat)
    assert sent.reductions == (Reduction("capped", 1, sent.tokens_before - sent.tokens),)
    assert sent.reductions[0].tokens > 14_000


def test_shortened_turns_are_counted() -> None:
    """Those that lost something, with all that they lost; others are sent as they are.

    The old result and five long answers are cut; the short answer and those of the three newest turns are not.
    """
    chat = history(
        [user("one"), call("a"), output("a", rows(3_000)), answer("ok", "m1")],
        [user("two"), answer(words(500), "m2")],
        *[[user(f"Q{at}"), answer(words(9_000), f"m{at}")] for at in range(8)],
        [user("now?")],
    )
    sent = plan_of(chat, window=98_000)
    assert [(each.kind, each.count, each.of) for each in sent.reductions] == [("shortened", 6, 10)]
    assert sent.reductions[0].tokens == sent.tokens_before - sent.tokens


def test_results_of_the_current_turn_are_no_earlier_turn() -> None:
    """What must be shortened of them counts as tool results."""
    rounds = [item for at in range(6) for item in (call(f"c{at}"), output(f"c{at}", words(20_000)))]
    sent = plan_of(history([user("look"), *rounds]))
    assert {each.kind for each in sent.reductions} <= {"facts", "capped"}
    assert sum(each.count for each in sent.reductions) >= 1


def test_summarized_turns_are_counted_with_what_the_summaries_save() -> None:
    """Turns behind a summary are not omitted."""
    sent = summarized(talk(75), ContextSettings(), MODEL, new_memory())
    (found,) = sent.reductions
    assert (found.kind, found.count, found.of) == ("summarized", sent.summarized_turns, 75)
    assert found.tokens == sent.tokens_before - sent.tokens


@pytest.mark.parametrize("turns", [4, 9])
def test_a_clipped_chat_says_how_many_messages_are_sent(turns: int) -> None:
    """Always the same, though more is omitted with each turn."""
    policy = ContextSettings(context_strategy="clip", clip_last_messages=4)
    assert plan_of(talk(turns), policy).reductions == (Reduction("clipped", 4, 0),)


def test_a_clipped_chat_that_still_does_not_fit_says_what_is_omitted() -> None:
    """Its last messages are not all sent, where each is too short to be cut itself."""
    policy = ContextSettings(context_strategy="clip", clip_last_messages=50)
    turns = [[user(words(3_500, f"Q{at}")), answer(words(1_500), f"m{at}")] for at in range(30)]
    (found,) = plan_of(history(*turns, [user("now?")]), policy).reductions
    assert found.kind == "omitted"


def test_reductions_are_shown_in_one_order() -> None:
    """Tool results first, then turns: the page shows the last line."""
    chat = joined(talk(100), worked(20, rows(500)))
    policy = replace(ContextSettings(tool_output_pruning="every_turn"), context_strategy="prune")
    sent = planned(chat, policy, replace(MODEL, prices=UNCACHED), memory=new_memory())
    kinds = [each.kind for each in sent.reductions]
    assert kinds[-1] == "omitted"
    assert kinds == sorted(kinds, key=["capped", "facts", "shortened", "omitted"].index)
    assert len(kinds) > 1


def joined(first: History, second: History) -> History:
    """Both chats, one after the other; the last question of the first goes."""
    items, turns = first.items[:-1], first.turn_of_item[:-1]
    return History((*items, *second.items), (*turns, *(turns[-1] + 1 + turn for turn in second.turn_of_item)))
