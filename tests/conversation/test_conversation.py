"""Conversations: turns, rounds, names derived from content, and the bounded cache by these names."""

from __future__ import annotations

from open_webui_openrouter_pipe.conversation.conversation import (
    LONG_CHARACTERS,
    ContentCache,
    build_conversation,
    content_digest,
    digest_item,
)
from tests.support.chats import answer, call, history, output, reasoning, user


def test_a_turn_is_divided_into_the_question_and_the_rounds_of_the_answer() -> None:
    """Each response of the model forms a round with the outputs of its calls."""
    chat = history(
        [user("a"), reasoning(), call("1"), call("2"), output("1", "x"), output("2", "y"), answer("b")],
        [user("c")],
    )
    conversation = build_conversation(chat.items, chat.turn_of_item)
    kinds = [[[entry.item["type"] for entry in part] for part in turn.rounds] for turn in conversation.turns]
    result = "function_call_output"
    assert kinds == [
        [["message"], ["reasoning", "function_call", "function_call", result, result], ["message"]],
        [["message"]],
    ]


def test_an_item_is_named_by_its_content_alone() -> None:
    """The id does not count; each text, name and order does."""
    assert digest_item(answer("a", "msg_1")).digest == digest_item(answer("a", "msg_2")).digest
    objects = [{"a": "b"}, {"b": "a"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}]
    values = [["ab"], ["a", "b"], *objects, 1, True, 1.0, None, "1"]
    assert len({content_digest(value) for value in values}) == len(values)


def test_chain_digests_name_a_prefix() -> None:
    """Chats with the same beginning share its digests; a change alters all that follow; reasoning does not count."""
    first, second, other = [user("a"), answer("b")], [user("c"), answer("d")], [user("c"), answer("e")]
    reasoned = [user("a"), reasoning(), answer("b")]
    chats = [
        history(*turns) for turns in ([first, second], [first, other], [other, second], [reasoned, second])
    ]
    one, edited_end, edited_start, same = (
        [turn.chain for turn in build_conversation(chat.items, chat.turn_of_item).turns] for chat in chats
    )
    assert one == same
    assert one[0] == edited_end[0]
    assert len({one[1], edited_end[1], edited_start[1]}) == 3


def test_a_turn_with_reasoning_about_another_chat_goes_without_any() -> None:
    """Claude verifies a turn's thinking as a whole: what is about this chat goes along; other turns keep theirs."""
    turn = [user("a"), reasoning(), call("1"), output("1", "x"), reasoning(), answer("b")]
    chat = history(turn, turn)
    first = build_conversation(chat.items, chat.turn_of_item).turns[0].chain.hex()
    here, elsewhere = (
        build_conversation(
            chat.items, chat.turn_of_item, bound=["", *[""] * 6, bound, *[""] * 2, first, ""]
        ).turns
        for bound in (first, "00")
    )
    kinds = [[entry.item["type"] for entry in each.entries] for each in (*here, *elsewhere)]
    assert kinds[:3] == [[item["type"] for item in turn]] * 3
    assert kinds[3] == ["message", "function_call", "function_call_output", "message"]


def test_a_long_text_is_named_by_all_of_it() -> None:
    """In whichever window it differs; and by its length, so that no short text has its name."""
    text = "A" * (2 * LONG_CHARACTERS + 1)
    others = [text[:at] + "B" + text[at + 1 :] for at in (0, LONG_CHARACTERS, len(text) - 1)]
    names = [content_digest(each) for each in (text, text[:-1], *others)]
    assert len(set(names)) == len(names)
    assert content_digest(text[:5] + text[5:]) == names[0]


def test_a_cached_value_is_not_computed_again() -> None:
    """Asking again returns the first value."""
    cache: ContentCache[int] = ContentCache(4)
    assert [cache.get_or_compute(b"a", lambda: 1), cache.get_or_compute(b"a", lambda: 2)] == [1, 1]


def test_values_in_use_stay_and_others_are_evicted() -> None:
    """However much passes through, at most the limit is held, and what is used again and again is kept."""
    cache: ContentCache[int] = ContentCache(10)
    for number in range(1000):
        cache.put(b"%d" % number, number)
        assert cache.get_or_compute(b"used", lambda: -1) == -1
        assert cache.size <= 10
    assert cache.get(b"0") is None
    assert cache.get(b"999") == 999


def test_values_may_count_by_their_size() -> None:
    """At most so much of them is held; one that is larger than half of it displaces the others."""
    cache: ContentCache[str] = ContentCache(100, len)
    for number in range(100):
        cache.put(b"%d" % number, "x" * 20)
    assert cache.size <= 100
    assert cache.get(b"99") == "x" * 20
    cache.put(b"large", "x" * 90)
    assert cache.get(b"large") == "x" * 90
    cache.put(b"next", "x")
    assert cache.size == 91
