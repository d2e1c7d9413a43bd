"""What chats become: see `cases/built.txt`."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact
from tests.history.builders import (
    DEEP,
    assert_valid,
    assistant,
    build,
    call,
    compact,
    mark,
    plain,
    reasoning,
    system,
    thinking,
    tool,
    tool_call,
    user,
)
from tests.history.cases import Case, facts_of, read_cases

CASES = read_cases("built")


@pytest.mark.parametrize("case", CASES, ids=[case.title.partition(":")[0] for case in CASES])
def test_a_chat_becomes_these_items(case: Case) -> None:
    """All of them, valid, in their order; what was repaired is said, and nothing that is given is changed."""
    messages, stored = case.messages, case.stored
    given = copy.deepcopy((messages, stored))
    built = build(messages, stored, **case.options)
    assert_valid(built.items)
    assert plain(built.items) == case.expected
    assert (messages, stored) == given
    facts = facts_of(built, case)
    assert {name: facts[name] for name in case.facts} == case.facts


@pytest.mark.parametrize("case", CASES, ids=[case.title.partition(":")[0] for case in CASES])
def test_a_conversation_holds_the_items_in_the_order_in_which_they_are_sent(case: Case) -> None:
    """Instructions, earlier turns, volatile text, current turn."""
    built = build(case.messages, case.stored, **case.options)
    parts = built.conversation()
    *earlier, current = [[*turn.entries] for turn in parts.turns]
    entries = [*parts.instructions, *chain(*earlier), *parts.volatile, *current]
    assert [entry.item for entry in entries] == built.items


@pytest.mark.parametrize("messages", [None, "text", {}, [], [None, 5], [assistant("")]])
def test_a_chat_with_nothing_to_send_is_an_error(messages: Any) -> None:
    """Without a single thing to send there is a typed error."""
    with pytest.raises(InvalidHistory):
        build(messages)


@pytest.mark.parametrize(
    ("given", "sent"),
    [("[" * 100_000, f'{{"input":"{"[" * 100_000}"}}'), ({"a": DEEP}, '{"input":"[nested too deeply]"}')],
    ids=["beyond reading", "beyond writing"],
)
def test_arguments_may_be_nested_without_end(given: Any, sent: str) -> None:
    """They are sent as a text, or said to be nested too deeply."""
    chat = [user("q"), assistant("", tool_call("c1", given)), tool("c1", "out")]
    assert build(chat).items[1] == call("c1", sent)


@pytest.mark.parametrize(
    ("item", "number", "before", "is_sent"),
    [
        (thinking("rs_1"), 1, "{0}", True),
        (thinking("rs_1"), 1, "{1}", False),
        (thinking("rs_1"), 1, "", True),
        (thinking("rs_1"), 2, "{0}", True),
        (reasoning("rs_1"), 1, "{1}", True),
    ],
)
def test_thinking_is_sent_behind_the_chat_that_it_was_written_behind(
    item: Any, number: int, before: str, *, is_sent: bool
) -> None:
    """Anthropic's alone, and of earlier turns; where that is unknown, it is sent. Chains do not name it."""
    chat = [user("1"), assistant("a"), user("2"), assistant("b"), user("3"), assistant("c")]
    chains = [turn.chain for turn in build(chat).conversation().turns]
    chat[2 * number + 1] = assistant(f"{mark(1)}{'abc'[number]}")
    stored = LoadedArtifact(item, before=before.format(*[chain.hex() for chain in chains]))
    turns = build(chat, {1: stored}).conversation().turns
    assert [entry.item["type"] for entry in turns[number].entries].count("reasoning") == is_sent
    assert [turn.chain for turn in turns] == chains


@pytest.mark.parametrize(
    ("question", "number", "is_sent"), [("q", 0, True), ("Template\nq", 0, False), ("Template\nq", 1, True)]
)
def test_thinking_about_what_a_first_question_had_is_not_sent_without_it(
    question: str, number: int, *, is_sent: bool
) -> None:
    """Anthropic binds it to that question, to which the host has added texts for once; to no later one."""
    chat = [system("S"), user("q"), assistant("a"), user("q"), assistant("b"), user("q")]
    asked = build([*chat[: 2 * number + 1], user(question)], base_user_prompt="q")
    chat[2 * number + 2] = assistant(f"{mark(1)}a")
    items = build(chat, {1: LoadedArtifact(thinking("rs_1"), prompt=asked.prompt)}).items
    assert [item["type"] for item in items].count("reasoning") == is_sent


def test_the_next_request_begins_like_this_one() -> None:
    """Up to the end of the user's own words the bytes stay, whatever the host mixed in this time."""
    now = [system("S"), user("1"), assistant("a"), user("Template\n2")]
    then = [*now[:-1], user("2"), assistant("b"), user("Template\n3")]
    one = compact(build(now, base_system_prompt="S", base_user_prompt="2").items)
    two = compact(build(then, base_system_prompt="S", base_user_prompt="3").items)
    assert two.startswith(one[: one.index(',{"type":"input_text","text":"Template"}')])


def ids(*messages: Any) -> list[str]:
    """The ids of the assistant's messages."""
    found: list[Any] = build(messages).items
    return [item["id"] for item in found if item["role"] == "assistant"]


def test_the_id_of_an_answer_is_made_of_its_text_and_its_position() -> None:
    """Short, unique even where the same words are said twice, and of nothing that comes later."""
    chat = [user("q"), assistant("A"), assistant("A"), user("r"), assistant("A")]
    found = ids(*chat)
    assert len(set(found)) == 3
    assert all(name.startswith("msg_") and len(name) == 36 and int(name[4:], 16) for name in found)
    assert ids(*chat[:2]) == found[:1] != ids(user("q"), assistant("B"))
