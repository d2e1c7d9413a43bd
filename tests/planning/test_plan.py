"""The plan as a whole: order, limit, volatile text, steps, and how much work it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import CacheMarks, Plan, Step
from open_webui_openrouter_pipe.planning.planner import ModelTerms, PlanCaches, may_need_summaries, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.items import is_message
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
    from open_webui_openrouter_pipe.conversation.budget import Strategy

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


def texts_sent(sent: Plan) -> list[str]:
    """The text of each message."""
    fields = [cast("dict[str, Any]", item) for item in sent.items if is_message(item)]
    return [item["content"][0]["text"] for item in fields]


@pytest.mark.parametrize(("volatile_tokens", "is_cut"), [(60_000, False), (99_000, False), (105_000, True)])
def test_retrieved_text_that_does_not_fit_is_cut_to_its_head(volatile_tokens: int, is_cut: bool) -> None:  # noqa: FBT001
    """To what a single tool output may take, a quarter of the budget; up to then it is sent whole."""
    sent = plan_of(whole(history([user("now?")]), words(volatile_tokens, "first")))
    (text,) = [text for text in texts_sent(sent) if text.startswith("first")]
    assert [each.kind for each in sent.reductions] == (["retrieved_cut"] if is_cut else [])
    assert (22_000 < len(text.split()) <= 25_000) is is_cut
    assert sent.tokens_before - sent.tokens == sum(each.tokens for each in sent.reductions)
    assert sent.tokens_before >= volatile_tokens


PRUNE = ContextSettings(context_strategy="prune")


def test_retrieved_text_gives_way_in_two_steps() -> None:
    """The question is about it: its head stays while old turns are omitted, and goes when nothing else can."""
    fits = plan_of(whole(talk(60), words(30_000)), PRUNE)
    assert fits.reductions == ()
    cut = plan_of(whole(talk(60), words(50_000)), PRUNE)
    assert [each.kind for each in cut.reductions] == ["retrieved_cut"]
    shortened = plan_of(whole(talk(99), words(50_000)), PRUNE)
    assert [each.kind for each in shortened.reductions] == ["omitted", "retrieved_cut"]
    filled = History((user(words(89_000)),), (0,))
    alone = plan_of(whole(filled, words(30_000)), PRUNE)
    assert alone.items == (SYSTEM, *filled.items)
    assert [each.kind for each in alone.reductions] == ["retrieved_omitted"]
    assert alone.tokens_before == alone.tokens + alone.reductions[0].tokens


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


def test_retrieved_text_is_cut_before_tools_are_omitted_and_stays_whole_where_these_are_enough() -> None:
    """Whichever of the two makes the request fit; both where neither alone does."""
    tools = ({"name": "get_time", "description": words(40_000)},)

    def kinds(volatile_tokens: int) -> list[str]:
        chat = whole(history([user("now?")]), words(volatile_tokens))
        chat = replace(chat, tools=tools, optional_tools=frozenset({"get_time"}))
        return [each.kind for each in plan_of(chat, PRUNE).reductions]

    assert kinds(55_000) == []
    assert kinds(70_000) == ["retrieved_cut"]
    tools = ({"name": "get_time", "description": words(90_000)},)
    assert kinds(70_000) == ["tools"]
    assert kinds(105_000) == ["tools", "retrieved_cut"]


@pytest.mark.parametrize("strategy", ["refuse", "off"])
def test_retrieved_text_is_whole_where_nothing_is_dropped(strategy: Strategy) -> None:
    """The request is refused, or the provider decides."""
    chat, policy = whole(talk(2), words(105_000)), ContextSettings(context_strategy=strategy)
    if strategy == "off":
        assert plan_of(chat, policy).reductions == ()
    else:
        with pytest.raises(ContextOverflow, match="The largest part that you can change is: retrieved text"):
            plan_of(chat, policy)


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
        (Calibration(bills=9), 100_000),
        (Calibration(ratio=1.01, bills=9), 100_000),
        (Calibration(ratio=1.05, bills=9), 90_909),
        (Calibration(ratio=1.11, bills=9), 90_909),
        (Calibration(ratio=1.13, bills=9), 83_333),
        (Calibration(ratio=1.45, bills=9), 66_666),
        (Calibration(constant_tokens=350), 100_000 - 384),
        (Calibration(constant_tokens=350, ratio=1.11, bills=9), int((100_000 - 384) / 1.1)),
        (Calibration(ratio=0.66, bills=5), 100_000),
        (Calibration(ratio=0.66, bills=6), 142_857),
        (Calibration(ratio=0.80, bills=6), 125_000),
    ],
)
def test_calibration_moves_the_limit_in_steps(calibration: Calibration | None, limit_tokens: int) -> None:
    """By a constant, and by the upper bound in tenths, less what the overhead reserve covers; both up and down."""
    assert plan_of(whole(talk(3)), model=replace(MODEL, calibration=calibration)).limit_tokens == limit_tokens


def test_a_calibration_below_one_gives_a_chat_the_room_that_it_has() -> None:
    """It is whole where the plain count would have dropped half of it, and what is summarized is the same."""
    settings = ContextSettings(context_strategy="prune")
    fine = replace(MODEL, calibration=Calibration(ratio=0.66, bills=6))
    assert [bool(plan_of(whole(talk(110)), settings, model).prefix_breaks) for model in (MODEL, fine)] == [
        True,
        False,
    ]


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
    """Once more only where it does not fit, for each thing that may give way: here, summaries and the record."""
    prices = CountingPrices(0.1, 1.25)
    chat = talk(turns)
    if last_tokens:
        chat = History((*chat.items[:-1], user(words(last_tokens))), chat.turn_of_item)
    try:
        plan_with(chat, settings, replace(MODEL, prices=prices), new_memory(), missing="request")
    except ContextOverflow:
        assert last_tokens
    assert len(prices.priced) == simulations * (turns + 1)
