"""What gives way: messages of a clipped chat, tool results, tools, retrieved text; and how that is said."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
    digest_item,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.draft import head_of_retrieved
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.items import is_function_call_output, is_message
from tests.planning.exact import MODEL, UNCACHED, new_memory, split_words, talk, with_window, words
from tests.support.chats import (
    SYSTEM,
    History,
    answer,
    call,
    history,
    output,
    planned,
    rows,
    summarized,
    system,
    user,
)

PRUNE = ContextSettings(context_strategy="prune", tool_output_pruning="off")
CLIP = ContextSettings(context_strategy="clip")
COUNTER = TokenCounter(ContentCache(), split_words)


def plan_of(chat: History, policy: ContextSettings = PRUNE, window: int = 110_000) -> Plan:
    """The plan of a chat in which a token is a word."""
    return planned(chat, policy, with_window(window), memory=new_memory())


def worked(turns: int, result: str) -> History:
    """Turns with one tool call each, and a last question."""
    said = [
        [user(f"Q{at}"), call(f"c{at}"), output(f"c{at}", result), answer(f"A{at}", f"m{at}")]
        for at in range(turns)
    ]
    return history(*said, [user("now?")])


# --- clipping ---


def test_the_last_messages_stay_with_the_question_of_the_first_answer() -> None:
    """Four messages of nine: the cut goes back to the question, and the system prompt stays first."""
    chat = talk(4)
    assert planned(chat, CLIP).items == (SYSTEM, *chat.items[4:])


def test_a_long_round_is_one_message() -> None:
    """An answer with all its calls counts once, and is never cut."""
    rounds = [part for at in range(9) for part in (call(f"{at}"), output(f"{at}", "x"))]
    chat = history([user("Q1"), *rounds, answer("A1")], [user("Q2"), answer("A2")], [user("Q3")])
    assert planned(chat, CLIP).items == (SYSTEM, *chat.items)


def test_nothing_is_clipped_in_the_middle_of_a_turn() -> None:
    """While the current turn grows, the cut stays where it was when the turn began."""
    chat, policy = talk(3), replace(CLIP, clip_last_messages=3)
    begun = planned(chat, policy)
    grown = History((*chat.items, call("1"), output("1", "x")), (*chat.turn_of_item, 3, 3))
    later = planned(grown, policy)
    assert (later.items, later.new_breaks) == ((*begun.items, *grown.items[-2:]), ())


# --- tool results ---


def test_old_outputs_are_facts() -> None:
    """What stands in for an old output is its fact, in the same pair; the newest turns are whole."""
    policy = ContextSettings(tool_output_pruning="every_turn", tool_output_retention_turns=3)
    sent = planned(worked(7, rows(100)), policy)
    fact = '[Tool: 100 rows | columns: id, name | first: {"id": 0, "name": "' + "n" * 20 + '"}]'
    outputs = [item for item in sent.items if is_function_call_output(item)]
    assert outputs == [output(f"c{at}", fact if at < 5 else rows(100)) for at in range(7)]


def test_the_frontier_does_not_move_within_a_turn() -> None:
    """However much a turn of many requests pays for old outputs that could be freed: its prefix stays in the cache."""
    rounds = [item for at in range(60) for item in (call(f"r{at}"), output(f"r{at}", "short"))]
    policy = ContextSettings(tool_output_retention_turns=3)
    model = ModelTerms("anthropic/model", 1_000_000, prices=CachePrices(0.1, 1.25))
    chat = worked(6, rows(40))
    grown = History((*chat.items, *rounds), (*chat.turn_of_item, *[6] * len(rounds)))
    opened, within = planned(chat, policy, model), planned(grown, policy, model)
    assert within.prefix_breaks == opened.prefix_breaks


# --- tools ---

SMALL = ModelTerms("vendor/small", 8_000, max_output_tokens=1_600)


def with_tools(chat: History, tokens: int, *names: str) -> Conversation:
    """A chat with built-in tools of so many tokens each."""
    tools = tuple({"name": name, "description": words(tokens)} for name in names)
    conversation = build_conversation(chat.items, chat.turn_of_item)
    return replace(conversation, tools=tools, optional_tools=frozenset(names))


def plan_with_tools(conversation: Conversation, model: ModelTerms = SMALL) -> Plan:
    """The plan without summaries."""
    return plan(conversation, ContextSettings(), model=model, counter=COUNTER, caches=PlanCaches())


def test_a_longer_chat_goes_on_without_the_tools() -> None:
    """Once they are omitted they stay so, and each request begins like the one before."""
    plans = [plan_with_tools(with_tools(talk(turns, 200), 6_050, "get_time")) for turns in range(1, 20)]
    assert {sent.omitted_tools for sent in plans} == {frozenset({"get_time"})}
    for before, after in pairwise(plans):
        assert after.items[: len(before.items)] == before.items


@pytest.mark.parametrize("later", [[], [user("and then?")]], ids=["this turn", "an earlier turn"])
def test_a_tool_that_was_called_stays(later: list[Any]) -> None:
    """A call in the input needs its tool; the others go."""
    said = history([user("now?"), call("call_1", "{}"), output("call_1", words(500)), *later])
    sent = plan_with_tools(with_tools(said, 4_000, "search", "get_time"))
    assert sent.omitted_tools == frozenset({"get_time"})


def test_no_summary_is_requested_behind_a_chat_without_its_tools() -> None:
    """A request for a summary carries all tools, and would be too large."""
    model = ModelTerms("vendor/small", 20_000)
    sent = plan_with_tools(with_tools(talk(40, 400), 12_000, "get_time"), model)
    assert (sent.omitted_tools, sent.cached_prefix) == (frozenset({"get_time"}), None)


# --- retrieved text ---


def head(max_tokens: int, *texts: str) -> list[str]:
    """The texts of the messages that are left."""
    kept = head_of_retrieved([digest_item(system(text)) for text in texts], max_tokens, COUNTER)
    assert COUNTER.entries(kept).tokens <= max_tokens
    assert all(entry.digest == digest_item(entry.item).digest for entry in kept)
    return [entry.item["content"][0]["text"] for entry in kept]  # type: ignore[typeddict-item]


def source(number: int, size: int) -> str:
    """A source as Open WebUI writes it."""
    return f'<source id="{number}" name="report">{words(size)}</source>'


def test_messages_are_kept_in_their_order_as_far_as_they_fit() -> None:
    """To the token; the one that is too long keeps its beginning and says how much is missing, those behind it go."""
    assert head(208, words(100), words(100)) == [words(100), words(100)]
    whole, cut = head(200, words(100), f"first {words(500)} last", words(3))
    assert (whole, cut.startswith("first word"), "last" in cut) == (words(100), True, False)
    assert cut.rstrip().endswith("characters omitted ...]")


def test_a_source_that_is_cut_is_closed() -> None:
    """Earlier ones are whole; what follows the text is not read as a part of it. Between sources nothing is closed."""
    (text,) = head(300, f"<context>\n{source(1, 100)}\n{source(2, 500)}\n</context>")
    assert source(1, 100) in text
    assert text.count("<source ") == text.count("</source>") == 2
    assert text.endswith("omitted ...]\n</source>")
    (text,) = head(150, source(1, 50) + words(500))
    assert text.count("</source>") == 1


@pytest.mark.parametrize("max_tokens", [0, 3, 9])
def test_nothing_is_sent_where_not_even_a_note_fits(max_tokens: int) -> None:
    """A message without words says nothing."""
    assert head(max_tokens, words(500)) == []


# --- what is said of it ---


def test_reductions_are_equal_when_the_same_is_lacking() -> None:
    """However long the chat has become; the next batch is another reduction."""
    first, same, more = (plan_of(talk(turns)).reductions for turns in (100, 101, 150))
    assert first == same != more
    assert [each[0].of for each in (first, same)] == [100, 101]


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
    assert [each.kind for each in sent.reductions] == ["facts"]


def test_summarized_turns_are_counted_with_what_the_summaries_save() -> None:
    """Turns behind a summary are not omitted."""
    sent = summarized(talk(75), ContextSettings(), MODEL, new_memory())
    (found,) = sent.reductions
    assert (found.kind, found.count, found.of) == ("summarized", sent.summarized_turns, 75)
    assert found.tokens == sent.tokens_before - sent.tokens


def test_a_clipped_chat_that_still_does_not_fit_says_what_is_omitted() -> None:
    """Its last messages are not all sent, where each is too short to be cut itself."""
    turns = [[user(words(3_500, f"Q{at}")), answer(words(1_500), f"m{at}")] for at in range(30)]
    (found,) = plan_of(history(*turns, [user("now?")]), replace(CLIP, clip_last_messages=50)).reductions
    assert found.kind == "omitted"


def test_reductions_are_shown_in_one_order() -> None:
    """Tool results first, then turns: the page shows the last line."""
    first, second = talk(100), worked(20, rows(500))
    chat = History(
        (*first.items[:-1], *second.items),
        (*first.turn_of_item[:-1], *(100 + turn for turn in second.turn_of_item)),
    )
    policy = ContextSettings(context_strategy="prune", tool_output_pruning="every_turn")
    sent = planned(chat, policy, replace(MODEL, prices=UNCACHED), memory=new_memory())
    assert [each.kind for each in sent.reductions] == ["facts", "omitted"]
    asked = [item for item in chat.items if is_message(item) and item["role"] == "user"]
    assert sent.reductions[1].count == sum(item not in sent.items for item in asked)
