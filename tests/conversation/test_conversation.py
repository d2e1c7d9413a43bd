"""Conversations: turns, rounds, and names derived from content."""

from __future__ import annotations

from open_webui_openrouter_pipe.conversation.conversation import (
    LONG_CHARACTERS,
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
    values = [
        ["ab"],
        ["a", "b"],
        {"a": "b"},
        {"b": "a"},
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        1,
        True,
        1.0,
        None,
        "1",
    ]
    assert len({content_digest(value) for value in values}) == len(values)


def test_chain_digests_name_a_prefix() -> None:
    """Chats with the same beginning share its digests; a change alters all that follow; reasoning does not count."""
    first, second, other = [user("a"), answer("b")], [user("c"), answer("d")], [user("c"), answer("e")]
    chains = []
    for turns in (
        [first, second],
        [first, other],
        [other, second],
        [[user("a"), reasoning(), answer("b")], second],
    ):
        chat = history(*turns)
        chains.append([turn.chain for turn in build_conversation(chat.items, chat.turn_of_item).turns])
    assert chains[0][0] == chains[1][0]
    assert chains[0][1] != chains[1][1]
    assert chains[0][1] != chains[2][1]
    assert chains[0] == chains[3]


def test_a_long_text_is_named_by_all_of_it() -> None:
    """In whichever window it differs; and by its length, so that no short text has its name."""
    text = "A" * (2 * LONG_CHARACTERS + 1)
    others = [text[:at] + "B" + text[at + 1 :] for at in (0, LONG_CHARACTERS, len(text) - 1)]
    names = [content_digest(each) for each in (text, text[:-1], *others)]
    assert len(set(names)) == len(names)
    assert content_digest(text[:5] + text[5:]) == names[0]
