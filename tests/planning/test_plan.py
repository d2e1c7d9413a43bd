"""The plan as a whole: order, limit, volatile text, steps, and how much work it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.conversation.content_cache import ContentCache
from open_webui_openrouter_pipe.conversation.conversation import Conversation, build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import (
    CacheMarks,
    ModelTerms,
    Plan,
    Step,
    may_need_summaries,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from tests.planning.exact import MODEL, new_memory, split_words, talk, words
from tests.support.chats import SYSTEM, History, history, plan_with, planned, system, user

SOURCES = system("Source 1: the ship was late.")


def whole(chat: History, *volatile: str) -> Conversation:
    """The conversation of a chat with retrieved text."""
    return build_conversation(
        chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[system(text) for text in volatile]
    )


def plan_of(chat: Conversation, settings: ContextSettings | None = None, model: ModelTerms = MODEL) -> Plan:
    """The plan of a conversation."""
    counter = TokenCounter(ContentCache(), split_words)
    return plan(chat, settings or ContextSettings(), model=model, counter=counter, facts=ContentCache())


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    """Instructions, then every item in its order; nothing is announced."""
    chat = talk(3)
    fits = planned(chat)
    assert fits.items == (SYSTEM, *chat.items)
    assert (fits.prefix_breaks, fits.new_breaks, fits.required_summaries, fits.prefetch_summaries) == (
        (),
    ) * 4
    assert fits.tokens == fits.tokens_before == fits.counts.tokens
    assert fits.marks == CacheMarks(instructions=1, unchanged=1, frontier=1, completed=7)
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


def test_volatile_text_goes_before_the_request_is_refused() -> None:
    """When nothing else can go, retrieved text is omitted."""
    chat = history([user("now?")])
    assert plan_of(whole(chat, words(105_000))).items == (SYSTEM, *chat.items)


@pytest.mark.parametrize(("volatile_tokens", "evicted"), [(2_560, False), (2_561, True), (3_072, True)])
def test_a_little_more_volatile_text_does_not_change_the_past(volatile_tokens: int, evicted: bool) -> None:  # noqa: FBT001
    """It counts in steps of 512 tokens here: 97,100 tokens with 2,561 or 3,072 of it are both over the limit."""
    conversation = whole(talk(97), words(volatile_tokens - 4))
    sent = plan_of(conversation, ContextSettings(context_strategy="prune"))
    assert bool(sent.prefix_breaks) is evicted


@pytest.mark.parametrize(
    ("calibration", "limit_tokens"),
    [
        (None, 100_000),
        (Calibration(0.7, 0.02, 5), 100_000),
        (Calibration(0.97, 0.02, 5), 90_909),
        (Calibration(1.05, 0.02, 5), 90_909),
        (Calibration(1.07, 0.02, 5), 83_333),
        (Calibration(1.45, 0.02, 5), 66_666),
    ],
)
def test_calibration_moves_the_limit_in_steps(calibration: Calibration | None, limit_tokens: int) -> None:
    """By the upper bound, rounded up to a tenth; a model that counts less is not given more."""
    assert plan_of(whole(talk(3)), model=replace(MODEL, calibration=calibration)).limit_tokens == limit_tokens


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
        (10, 0, ContextSettings(), 1),
        (69, 0, ContextSettings(), 1),
        (70, 0, ContextSettings(), 1),
        (100, 0, ContextSettings(context_strategy="prune"), 1),
        (10, 120_000, ContextSettings(context_strategy="refuse"), 1),
        (10, 120_000, ContextSettings(context_strategy="prune"), 2),
        (10, 120_000, ContextSettings(), 3),
    ],
    ids=["fits", "prefetches", "requires", "evicts", "refused", "refused prune", "refused summarize"],
)
def test_a_plan_simulates_the_chat_once(
    turns: int, last_tokens: int, settings: ContextSettings, simulations: int
) -> None:
    """Once more only where the request does not fit: without retrieved text, then without summaries."""
    prices = CountingPrices(0.1, 1.25)
    chat = talk(turns)
    if last_tokens:
        chat = History((*chat.items[:-1], user(words(last_tokens))), chat.turn_of_item)
    try:
        plan_with(chat, settings, replace(MODEL, prices=prices), new_memory(), missing="request")
    except ContextOverflow:
        assert last_tokens
    assert len(prices.priced) == simulations * (turns + 1)
