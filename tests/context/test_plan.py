"""The plan as a whole: order, volatile text, steps, and the seam for summaries."""

from __future__ import annotations

from dataclasses import replace

from open_webui_openrouter_pipe.context.plan import Marks, ModelTerms, Plan, Step, plan
from open_webui_openrouter_pipe.context.recent import Recent
from open_webui_openrouter_pipe.context.segments import Segment, StandIn, wanted_segment, with_stand_ins
from open_webui_openrouter_pipe.context.settings import ContextSettings
from open_webui_openrouter_pipe.context.tokens import Counter
from open_webui_openrouter_pipe.context.turns import CHAIN_START, Conversation, conversation
from tests.support.chats import SYSTEM, History, answer, history, planned, system, user

SOURCES = system("Source 1: the ship was late.")


def talk(turns: int) -> History:
    """Questions and answers, and a last question."""
    return history(*([user(f"Q{at}"), answer(f"A{at}", f"m{at}")] for at in range(turns)), [user("now?")])


def made(chat: Conversation, settings: ContextSettings | None = None, window: int = 100_000) -> Plan:
    """The plan of a conversation."""
    terms = ModelTerms("vendor/model", window)
    return plan(chat, settings or ContextSettings(), model=terms, counter=Counter(Recent()), facts=Recent())


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    """Instructions, then every item in its place; nothing is announced."""
    chat = talk(3)
    fits = planned(chat)
    assert fits.items == (SYSTEM, *chat.items)
    assert (fits.epochs, fits.breaks, fits.wanted) == ((), (), None)
    assert fits.tokens == fits.tokens_before == fits.tally.tokens
    assert fits.marks == Marks(instructions=1, unchanged=1, frontier=1, completed=7)
    assert fits.steps == tuple(
        Step(name, fits.tokens, triggered=False) for name in ("cap", "retention", "prune", "landing")
    )


def test_volatile_text_stands_before_the_current_turn() -> None:
    """What changes from request to request comes after all that does not."""
    chat = talk(2)
    whole = conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[SOURCES])
    assert made(whole).items == (SYSTEM, *chat.items[:-1], SOURCES, chat.items[-1])


def test_volatile_text_goes_before_the_request_is_refused() -> None:
    """When nothing else can go, retrieved text is left out."""
    chat = history([user("now?")])
    whole = conversation(chat.items, chat.turn_of_item, volatile=[system("ship " * 9000)])
    assert made(whole, window=8192).items == chat.items


def test_an_empty_conversation_is_planned() -> None:
    """Nothing in, nothing out."""
    assert made(conversation([], [])).items == ()


def test_old_turns_are_wanted_for_a_summary_from_the_trigger_on() -> None:
    """At 70 % of the limit, or after so many turns, all but the protected turns; otherwise nothing."""
    chat = conversation(talk(9).items, talk(9).turn_of_item)
    settings = ContextSettings()
    segment = Segment(CHAIN_START, chat.turns[5].chain, 6)
    assert wanted_segment(chat, settings, tokens=70, limit_tokens=100) == segment
    assert wanted_segment(chat, settings, tokens=69, limit_tokens=100) is None
    often = replace(settings, summary_turn_trigger=8)
    assert wanted_segment(chat, often, tokens=1, limit_tokens=100) == segment
    clipping = replace(settings, context_strategy="clip")
    assert wanted_segment(chat, clipping, tokens=99, limit_tokens=100) is None
    assert made(chat, often).wanted == segment


def test_stand_ins_replace_the_turns_that_they_name() -> None:
    """Neighbouring segments from the beginning are replaced; those of another branch are passed over."""
    chat = conversation(talk(5).items, talk(5).turn_of_item, instructions=[SYSTEM])
    chains = [turn.chain for turn in chat.turns]
    first = StandIn(Segment(CHAIN_START, chains[1], 2), user("Summary of 0 and 1"))
    second = StandIn(Segment(chains[1], chains[2], 1), user("Summary of 2"))
    gap = StandIn(Segment(chains[3], chains[4], 1), user("Summary of 4"))
    foreign = StandIn(Segment(chains[2], b"elsewhere", 1), user("Another branch"))
    shorter = with_stand_ins(chat, [gap, foreign, second, first])
    assert made(shorter).items == (SYSTEM, first.message, second.message, *talk(5).items[6:])
    assert shorter.before == chains[2]
    assert with_stand_ins(chat, [foreign]) == chat


def test_the_current_turn_is_never_replaced() -> None:
    """Even a stand-in for everything leaves the current turn."""
    chat = conversation(talk(1).items, talk(1).turn_of_item)
    whole = StandIn(Segment(CHAIN_START, chat.turns[-1].chain, 2), user("Everything"))
    assert with_stand_ins(chat, [whole]) == chat
