"""When the tool that finds what was removed is offered, what it costs a plan, and what names what it can find."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
    reference_of,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.detail import SENT_LEVELS, OutputLimits, PartsByDetail
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import PrefixBreak
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL
from open_webui_openrouter_pipe.responses.items import is_function_call_output, is_message
from open_webui_openrouter_pipe.summaries.segments import NO_SEGMENTS, SummaryIndex
from tests.planning.exact import MODEL, split_words, talk, with_window, words
from tests.support.chats import SYSTEM, History, answer, call, history, output, rows, user

HOSTS = {"type": "function", "name": "look", "parameters": {}}
SETTINGS = ContextSettings(
    context_strategy="prune",
    tool_output_pruning="every_turn",
    tool_output_retention_turns=2,
    recall_tool=True,
)


def chat(turns: int, text: str = rows(300)) -> History:
    """Turns with a tool's output each, and a question."""
    asked = [
        [user(f"Q{at}"), call(f"call_{at}"), output(f"call_{at}", f"{text} {at}"), answer("A", f"m{at}")]
        for at in range(turns)
    ]
    return history(*asked, [user("And now?")])


def whole(items: History) -> Conversation:
    conversation = build_conversation(items.items, items.turn_of_item, instructions=[SYSTEM])
    return replace(conversation, tools=(HOSTS, RECALL_TOOL))


def planned(items: History, settings: ContextSettings = SETTINGS, model: ModelTerms = MODEL) -> Plan:
    counter = TokenCounter(ContentCache(), split_words)
    return plan(whole(items), settings, model=model, counter=counter, caches=PlanCaches())


def outputs(sent: Plan) -> list[str]:
    return [str(item["output"]) for item in sent.items if is_function_call_output(item)]


def test_the_tool_comes_with_the_first_fact_and_stays() -> None:
    """Whether a request has it follows from its history, and its coming is part of the change that it comes with."""
    plans = [planned(chat(turns)) for turns in range(6)]
    assert [each.unoffered_tools for each in plans] == [frozenset({"recall"})] * 2 + [frozenset()] * 4
    assert [[change.reason for change in each.new_breaks] for each in plans[1:3]] == [[], ["retention"]]


def test_the_request_is_counted_as_it_is_sent() -> None:
    """The tool counts once it is there; its size is reserved before."""
    counter = TokenCounter(ContentCache(), split_words)
    tool_tokens = counter.tools([RECALL_TOOL]).tokens
    for turns in (1, 4):
        sent = planned(chat(turns))
        tools = counter.tools([HOSTS, RECALL_TOOL]).tokens - (tool_tokens if sent.unoffered_tools else 0)
        items = sum(counter.item(item).tokens for item in sent.items)
        assert sent.tokens == sent.counts.tokens == items + tools == sent.steps[-1].tokens
        everything = [SYSTEM, *chat(turns).items]
        assert sent.tokens_before == tools + sum(counter.item(item).tokens for item in everything)


def test_its_coming_moves_nothing_else() -> None:
    """What a chat was like before is decided alike once it has the tool."""
    chats = [planned(talk(turns)) for turns in range(90, 130, 3)]
    breaks = [each.prefix_breaks for each in chats]
    assert breaks[0] == ()
    assert breaks[-1]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(breaks))


def test_an_output_that_is_cut_on_arrival_announces_the_tool() -> None:
    """Nothing else changes the prefix then, and it is said that this does, in that request and ever after."""
    once = history([user("Q"), call("c"), output("c", words(60_000))])
    later = history(
        [user("Q"), call("c"), output("c", words(60_000)), answer("A")], [user("And?")], [user("And now?")]
    )
    announced = PrefixBreak(2, 0, "recall", 0)
    settings = replace(SETTINGS, tool_output_pruning="off")
    first, last = planned(once, settings), planned(later, settings)
    assert first.new_breaks == first.prefix_breaks == (announced,)
    assert (last.new_breaks, last.prefix_breaks) == ((), (announced,))


def test_what_stands_for_something_names_it() -> None:
    """Facts at their end, cut texts where they are cut; the name is that of the whole item."""
    items = chat(4)
    digests = [
        entry.digest
        for turn in whole(items).turns
        for entry in turn.entries
        if is_function_call_output(entry.item)
    ]
    names = [re.findall(r"#\d{6}", text) for text in outputs(planned(items))]
    assert names == [[reference_of(digest)] for digest in digests[:3]] + [[]]


def test_a_cut_output_names_itself() -> None:
    """In the line between its head and its tail."""
    items = history([user("Q"), call("c"), output("c", words(60_000))])
    (digest,) = [
        entry.digest for entry in whole(items).turns[0].entries if is_function_call_output(entry.item)
    ]
    (text,) = outputs(planned(items))
    assert f"characters omitted ... {reference_of(digest)}]" in text


def test_however_often_a_text_is_cut_it_names_the_whole() -> None:
    """A fact that is too long itself, at each level at which it is sent."""
    conversation = whole(history([user("Q"), call("c"), output("c", words(900)), answer("A")], [user("?")]))
    counter = TokenCounter(ContentCache(), split_words)
    index = SummaryIndex(conversation, counter, NO_SEGMENTS, {})
    limits = OutputLimits(1_000, has_references=True)
    parts = PartsByDetail(conversation, counter, ContentCache(), limits, index)
    (digest,) = [
        entry.digest for entry in conversation.turns[0].entries if is_function_call_output(entry.item)
    ]
    for level in SENT_LEVELS:
        texts = str([entry.item for entry in parts.entries(level, 1)])
        assert set(re.findall(r"#\d{6}", texts)) == {reference_of(digest)}


def test_a_note_says_which_turns_it_is_for() -> None:
    """By their numbers, by which they can be asked for."""
    sent = planned(talk(30), model=with_window(20_000))
    (note,) = [
        str(item["content"])
        for item in sent.items
        if is_message(item) and "omitted to fit" in str(item["content"])
    ]
    assert re.search(r"\[(\d+) earlier turns \(1 to \1\) omitted to fit the model", note)


@pytest.mark.parametrize("turns", [0, 1, 4, 9])
def test_switched_off_nothing_has_a_name(turns: int) -> None:
    """The bytes are those of a chat without the tool, and a tool of the same name stays."""
    items, off = chat(turns), replace(SETTINGS, recall_tool=False)
    sent = planned(items, off)
    assert "#" not in "".join(outputs(sent))
    assert sent.unoffered_tools == frozenset()
