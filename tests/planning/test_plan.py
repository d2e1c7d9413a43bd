"""The plan as a whole: order, limit, volatile text, steps, and how much work it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import CacheMarks, Plan, Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms, PlanCaches, may_need_summaries, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from tests.planning.exact import MODEL, new_memory, split_words, talk, words
from tests.support.chats import (
    SYSTEM,
    History,
    answer,
    call,
    history,
    output,
    plan_with,
    planned,
    system,
    user,
)

if TYPE_CHECKING:
    pass

SOURCES = system("Source 1: the ship was late.")


def whole(chat: History, *volatile: str) -> Conversation:
    """The conversation of a chat with retrieved text."""
    return build_conversation(
        chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[system(text) for text in volatile]
    )


def plan_of(chat: Conversation, settings: ContextSettings | None = None, model: ModelTerms = MODEL) -> Plan:
    """The plan of a conversation."""
    counter = TokenCounter(ContentCache(), split_words)
    return plan(chat, settings or ContextSettings(), model=model, counter=counter, caches=PlanCaches())


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    """Instructions, then every item in its order; nothing is announced."""
    chat = talk(3)
    fits = planned(chat)
    assert fits.items == (SYSTEM, *chat.items)
    assert (fits.prefix_breaks, fits.new_breaks, fits.required_summaries, fits.prefetch_summaries) == (
        (),
    ) * 4
    assert fits.tokens == fits.tokens_before == fits.counts.tokens
    assert fits.marks == CacheMarks(instructions=1, unchanged=1, frontier=1, completed=7, current=7)
    assert fits.steps == tuple(
        Step(name, fits.tokens, triggered=False) for name in ("cap", "retention", "summary", "prune", "evict")
    )


def test_volatile_text_stands_before_the_current_turn() -> None:
    """What changes from request to request comes after all that does not."""
    chat = talk(2)
    conversation = build_conversation(
        chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[SOURCES]
    )
    assert plan_of(conversation).items == (SYSTEM, *chat.items[:-1], SOURCES, chat.items[-1])


PRUNE = ContextSettings(context_strategy="prune")


NOTED = "Your instructions have changed: it is noon."
NOTE = system(NOTED)


def test_what_the_instructions_now_read_is_never_omitted() -> None:
    """Retrieved text goes, and the note stays: without it the model would go by a stale date."""
    filled = History((user(words(89_000)),), (0,))
    noted = build_conversation(
        filled.items, filled.turn_of_item, instructions=[SYSTEM], volatile=[NOTE, system(words(30_000))]
    )
    sent = plan_of(replace(noted, corrections=1), PRUNE)
    assert sent.items == (SYSTEM, NOTE, *filled.items)
    assert [each.kind for each in sent.reductions] == ["retrieved_omitted"]


def test_the_head_of_retrieved_text_stands_behind_what_the_instructions_now_read() -> None:
    """The note is not counted as retrieved text, and not cut with it."""
    chat = history([user("now?")])
    noted = replace(whole(chat, NOTED, words(105_000, "first")), corrections=1)
    sent, without = plan_of(noted), plan_of(whole(chat, words(105_000, "first")))
    assert (sent.items[1], sent.items[3:]) == (NOTE, chat.items)
    assert [each.kind for each in sent.reductions] == ["retrieved_cut"]
    assert (sent.items[2], sent.reductions) == (without.items[1], without.reductions)


def test_an_empty_conversation_is_planned() -> None:
    """Nothing in, nothing out."""
    assert plan_of(build_conversation([], [])).items == ()


@pytest.mark.parametrize(
    ("settings", "turns", "needed"),
    [
        (ContextSettings(), 59, False),
        (ContextSettings(), 60, True),
        (ContextSettings(summary_ahead_ratio=1.0), 69, False),
        (ContextSettings(summary_ahead_ratio=1.0), 70, True),
        (ContextSettings(summary_turn_trigger=5), 4, False),
        (ContextSettings(summary_turn_trigger=5), 5, True),
        (ContextSettings(context_strategy="prune"), 99, False),
    ],
)
def test_summaries_are_looked_up_for_large_chats_only(
    settings: ContextSettings,
    turns: int,
    needed: bool,  # noqa: FBT001 - the expected verdict
) -> None:
    """From the size or the number of turns at which a summary may be due or made ahead of time."""
    counter = TokenCounter(ContentCache(), split_words)
    assert may_need_summaries(whole(talk(turns)), settings, model=MODEL, counter=counter) is needed


def test_external_summaries_count_for_the_look_up() -> None:
    """They are sent before all turns."""
    counter = TokenCounter(ContentCache(), split_words)
    chat = replace(whole(talk(50)), external_summaries=(words(12_000),))
    assert may_need_summaries(chat, ContextSettings(), model=MODEL, counter=counter)


@pytest.mark.parametrize(
    ("message_tokens", "tool_tokens", "advice"),
    [
        (30_000, 98_000, "Shorten your message or its attachments, or send them in parts."),
        (10, 120_000, "Choose a model with a larger window."),
    ],
)
def test_a_refusal_names_what_the_user_can_change(message_tokens: int, tool_tokens: int, advice: str) -> None:
    """Not the built-in tools, though they are the largest: the user did not choose them, and they were called."""
    called = [user("q"), call("c1", name="clock"), output("c1", "noon"), answer("It is noon.")]
    chat = history(called, [user(words(message_tokens))])
    tools = ({"name": "clock", "description": words(tool_tokens)},)
    crowded = replace(whole(chat), tools=tools, optional_tools=frozenset({"clock"}))
    with pytest.raises(ContextOverflow) as refused:
        plan_of(crowded, PRUNE)
    assert refused.value.shares[0].name == "built-in tools"
    line = refused.value.user_message
    assert line.endswith(f" {advice}")
    assert ("The largest part that you can change is: latest message" in line) == (message_tokens > 10)
    assert "tools" not in line


@dataclass(frozen=True, slots=True)
class CountingPrices(CachePrices):
    """Counts the simulated requests: each is priced once."""

    priced: list[int] = field(default_factory=list)

    def waiting_cost(self, prunable_tokens: int) -> float:
        """Count."""
        self.priced.append(prunable_tokens)
        return 0.0


@pytest.mark.parametrize(
    ("turns", "last_tokens", "settings", "simulations"),
    [
        (10, 0, ContextSettings(), 0),
        (69, 0, ContextSettings(), 1),
        (70, 0, ContextSettings(), 1),
        (100, 0, ContextSettings(context_strategy="prune"), 1),
        (10, 120_000, ContextSettings(context_strategy="refuse"), 1),
        (10, 120_000, ContextSettings(context_strategy="prune"), 2),
        (10, 120_000, ContextSettings(), 3),
    ],
    ids=["fits", "prefetches", "requires", "evicts", "refused", "refused prune", "refused summarize"],
)
def test_a_plan_simulates_the_chat_at_most_once(
    turns: int, last_tokens: int, settings: ContextSettings, simulations: int
) -> None:
    """Not at all far below any trigger; again only where it does not fit, for each thing that may give way.

    That is here: summaries and the record.
    """
    prices = CountingPrices(0.1, 1.25)
    chat = talk(turns)
    if last_tokens:
        chat = History((*chat.items[:-1], user(words(last_tokens))), chat.turn_of_item)
    try:
        plan_with(chat, settings, replace(MODEL, prices=prices), new_memory(), missing="request")
    except ContextOverflow:
        assert last_tokens
    assert len(prices.priced) == simulations * (turns + 1)
