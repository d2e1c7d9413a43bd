"""Telling: when old turns are told by summaries, how many, and what that does to the requests around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.content_cache import ContentCache
from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import AvailableSummaries, ModelTerms, Plan, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import ModelSummary, Summary
from tests.support.chats import SYSTEM, History, answer, history, user

CACHED = CachePrices(0.1, 1.25)
MODEL = ModelTerms("vendor/model", 32_768, prices=CACHED)


def talk(turns: int, words: int = 600) -> History:
    """Turns of about `words` tokens and a last question."""
    said = [[user(f"Question {at}?"), answer(f"{at} word" * (words // 2), f"m{at}")] for at in range(turns)]
    return history(*said, [user(f"Question {turns}?")])


def summary_of(stretch: SummaryTarget) -> Summary:
    """A summary that says where it is from."""
    return Summary(ModelSummary(f"{stretch.segment.turns} turns up to {stretch.segment.end.hex()}."))


class Chat:
    """A chat whose summaries are made as soon as they are wanted."""

    def __init__(self, settings: ContextSettings | None = None, model: ModelTerms = MODEL) -> None:
        self.settings = settings or ContextSettings()
        self.model = model
        self.at_hand: dict[Segment, Summary] = {}
        self.made: list[Segment] = []

    def ask(self, chat: History) -> Plan:
        """The plan of a request, made with all the summaries that it wants."""
        wanted = self.plan(chat, asking=True).wanted
        self.made += [stretch.segment for stretch in wanted]
        self.at_hand |= {stretch.segment: summary_of(stretch) for stretch in wanted}
        return self.plan(chat, asking=False)

    def plan(self, chat: History, *, asking: bool, at_hand: Mapping[Segment, Summary] | None = None) -> Plan:
        """The plan with what is at hand."""
        return plan(
            build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM]),
            self.settings,
            model=self.model,
            counter=TokenCounter(ContentCache()),
            facts=ContentCache(),
            at_hand=AvailableSummaries(self.at_hand if at_hand is None else at_hand, asking),
        )


def trigger(settings: ContextSettings | None = None, model: ModelTerms = MODEL) -> int:
    """How many turns a chat has when the first summary is wanted."""
    chat = Chat(settings, model)
    return next(turns for turns in range(1, 90) if chat.plan(talk(turns), asking=True).wanted)


def test_summaries_are_wanted_from_the_trigger_on() -> None:
    """At 70 % of the limit and not before; the newest turns are never among them."""
    turns = trigger()
    chat = Chat()
    before, at = (chat.plan(talk(count), asking=True) for count in (turns - 1, turns))
    assert before.tokens < 0.70 * before.limit_tokens
    assert (before.wanted, before.told, before.breaks) == ((), 0, ())
    assert [epoch.reason for epoch in at.breaks] == ["summary"]
    assert 0 < at.told <= turns + 1 - 4
    assert sum(stretch.segment.turns for stretch in at.wanted) == at.told


def test_a_told_chat_lands_well_below_the_trigger() -> None:
    """The block stands after the instructions, all turns that are not told follow as they were."""
    turns = trigger()
    chat, whole = Chat(), talk(turns)
    told = chat.ask(whole)
    assert told.tokens <= 0.60 * told.limit_tokens
    assert told.items[0] == SYSTEM
    block = json.dumps(told.items[1])
    assert all(summary.by_model.summary_text in block for summary in chat.at_hand.values())
    assert told.items[2:] == whole.items[2 * told.told :]
    assert told.steps[2].triggered
    assert told.tokens == sum(TokenCounter(ContentCache()).item(item).tokens for item in told.items)


def test_ten_further_turns_want_nothing() -> None:
    """A landing is good for ten turns like those before, and the prefix stays the same through all of them."""
    turns = trigger()
    chat = Chat()
    requests = [chat.ask(talk(count)) for count in range(turns, turns + 11)]
    assert [request.breaks != () for request in requests] == [True] + [False] * 10
    sent = [list(map(json.dumps, request.items)) for request in requests]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before


def test_a_long_chat_tells_each_segment_once() -> None:
    """Over many landings each segment is summarised once, and joined ones from their originals."""
    chat = Chat()
    for turns in range(1, 160):
        request = chat.ask(talk(turns))
        assert request.tokens <= 0.75 * request.limit_tokens
    assert len(set(chat.made)) == len(chat.made)
    assert len({segment.end for segment in chat.made}) > 8
    assert max(segment.turns for segment in chat.made) >= 2 * min(segment.turns for segment in chat.made)


def test_an_edit_keeps_what_lies_before_it() -> None:
    """Of the summaries that the edited chat wants, those before the edit are at hand."""
    chat = Chat()
    for turns in range(1, 61):
        chat.ask(talk(turns))
    made = len(chat.made)
    items = list(talk(60).items)
    items[60] = user("Another question 30?")
    edited = History(tuple(items), talk(60).turn_of_item)
    chat.ask(edited)
    shortest = min(segment.turns for segment in chat.made)
    assert 0 < len(chat.made) - made <= (60 - 30) // shortest


def test_a_larger_window_goes_back_to_the_originals() -> None:
    """And the smaller one finds its summaries again."""
    small, turns = Chat(), trigger() + 3
    told = small.ask(talk(turns))
    made = len(small.made)
    large = replace(MODEL, window_tokens=200_000)
    whole = plan(
        build_conversation(talk(turns).items, talk(turns).turn_of_item, instructions=[SYSTEM]),
        ContextSettings(),
        model=large,
        counter=TokenCounter(ContentCache()),
        facts=ContentCache(),
        at_hand=AvailableSummaries(small.at_hand, asking=True),
    )
    assert (whole.told, whole.items) == (0, (SYSTEM, *talk(turns).items))
    assert (small.ask(talk(turns)).items, len(small.made)) == (told.items, made)


def test_the_decision_is_the_same_before_and_after_the_summary_is_there() -> None:
    """What is told follows from the content, not from the size of what was written."""
    turns = trigger()
    chat = Chat()
    asked = chat.plan(talk(turns), asking=True)
    made = chat.ask(talk(turns))
    assert (asked.told, asked.epochs[-1].turn) == (made.told, made.epochs[-1].turn)


def test_without_its_summary_a_chat_is_shortened_otherwise() -> None:
    """Nothing is asked for, and over the limit the chat lands as it would without summaries."""
    chat = Chat()
    for turns in (trigger(), 90):
        alone = chat.plan(talk(turns), asking=False)
        assert (alone.wanted, alone.told) == ((), 0)
        assert alone.tokens <= alone.limit_tokens
    assert "landing" in {epoch.reason for epoch in alone.epochs}


def test_the_next_summary_is_worth_making_ahead_of_time() -> None:
    """A little before it is wanted, and what is wanted then is just that."""
    turns = trigger()
    chat = Chat()
    plans = {count: chat.plan(talk(count), asking=True) for count in range(1, turns + 1)}
    early = [count for count in plans if count < turns and plans[count].soon]
    assert early
    assert all(plans[count].tokens >= 0.45 * plans[count].limit_tokens for count in early)
    segments = [stretch.segment for stretch in plans[early[-1]].soon]
    assert [stretch.segment for stretch in plans[turns].wanted] == segments
    assert trigger(ContextSettings(summary_ahead_ratio=1.0)) == turns


def test_without_a_cache_the_soft_limit_counts() -> None:
    """There is no cached prefix to keep, so an early summary only saves."""
    assert trigger(model=replace(MODEL, prices=CachePrices())) < trigger()


def test_summaries_can_be_had_by_turns() -> None:
    """Every so many turns, however small they are."""
    settings = ContextSettings(summary_turn_trigger=8)
    chat = Chat(settings, replace(MODEL, window_tokens=1_000_000))
    told = [chat.ask(talk(turns, words=200)).told for turns in range(1, 22)]
    assert max(told) == 16
    assert chat.plan(talk(11, words=200), asking=True).told == 8
    assert chat.plan(talk(10, words=200), asking=True).told == 0


def test_other_strategies_tell_nothing() -> None:
    """Whatever the size."""
    for strategy in ("prune", "clip", "refuse", "off"):
        chat = Chat(ContextSettings(context_strategy=strategy), replace(MODEL, window_tokens=100_000))
        made = chat.plan(talk(80), asking=True)
        assert (made.told, made.wanted, made.soon) == (0, (), ())


def test_what_a_summary_is_asked_after_is_what_was_sent_before() -> None:
    """The chat up to the current turn, in the form of the request before: the provider has it in its cache."""
    turns = trigger()
    chat = Chat()
    before = chat.ask(talk(turns - 1))
    live = chat.plan(talk(turns), asking=True).live
    assert live is not None
    assert live.items[: len(before.items)] == before.items
    assert live.items == (SYSTEM, *talk(turns).items[:-1])
    assert live.tokens == sum(TokenCounter(ContentCache()).item(item).tokens for item in live.items)
