"""The plan as a whole: order, volatile text, and steps."""

from __future__ import annotations

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.content_cache import ContentCache
from open_webui_openrouter_pipe.conversation.conversation import Conversation, build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import CacheMarks, ModelTerms, Plan, Step, plan
from tests.support.chats import SYSTEM, History, answer, history, planned, system, user

SOURCES = system("Source 1: the ship was late.")


def talk(turns: int) -> History:
    """Questions and answers, and a last question."""
    return history(*([user(f"Q{at}"), answer(f"A{at}", f"m{at}")] for at in range(turns)), [user("now?")])


def made(chat: Conversation, settings: ContextSettings | None = None, window: int = 100_000) -> Plan:
    """The plan of a conversation."""
    terms = ModelTerms("vendor/model", window)
    return plan(
        chat,
        settings or ContextSettings(),
        model=terms,
        counter=TokenCounter(ContentCache()),
        facts=ContentCache(),
    )


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    """Instructions, then every item in its place; nothing is announced."""
    chat = talk(3)
    fits = planned(chat)
    assert fits.items == (SYSTEM, *chat.items)
    assert (fits.epochs, fits.breaks, fits.wanted, fits.soon) == ((), (), (), ())
    assert fits.tokens == fits.tokens_before == fits.tally.tokens
    assert fits.marks == CacheMarks(instructions=1, unchanged=1, frontier=1, completed=7)
    assert fits.steps == tuple(
        Step(name, fits.tokens, triggered=False)
        for name in ("cap", "retention", "summary", "prune", "landing")
    )


def test_volatile_text_stands_before_the_current_turn() -> None:
    """What changes from request to request comes after all that does not."""
    chat = talk(2)
    whole = build_conversation(chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[SOURCES])
    assert made(whole).items == (SYSTEM, *chat.items[:-1], SOURCES, chat.items[-1])


def test_volatile_text_goes_before_the_request_is_refused() -> None:
    """When nothing else can go, retrieved text is left out."""
    chat = history([user("now?")])
    whole = build_conversation(chat.items, chat.turn_of_item, volatile=[system("ship " * 9000)])
    assert made(whole, window=8192).items == chat.items


def test_an_empty_conversation_is_planned() -> None:
    """Nothing in, nothing out."""
    assert made(build_conversation([], [])).items == ()
