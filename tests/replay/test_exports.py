"""Reading exports, and the messages at one point of a chat.

The files in tests/data/exports were exported by Open WebUI 0.12.4; the requests and artifacts beside them are those
that were sent and stored while the chat went on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.host.call import strip_function_prefix
from open_webui_openrouter_pipe.replay.exports import (
    Chat,
    chat_state,
    choose_chat,
    read_artifacts,
    read_export,
)
from tests.history.builders import assistant, reasoning, user

_DATA = Path(__file__).parents[1] / "data" / "exports"


def data(name: str) -> Any:
    return json.loads((_DATA / name).read_text("utf-8"))


def tree(*messages: dict[str, Any], **chat: Any) -> dict[str, Any]:
    """A chat in which each message follows the one before it, unless it names its parent; ids are a, b, c."""
    ids = "abcdefgh"
    chained = {
        ids[at]: {"id": ids[at], "parentId": ids[at - 1] if at else None, **message}
        for at, message in enumerate(messages)
    }
    return {"history": {"messages": chained, "currentId": ids[len(messages) - 1]}, **chat}


def only(value: Any) -> Chat:
    (chat,) = read_export(value)
    return chat


def contents(chat: Chat, at: str | None = None) -> list[Any]:
    return [message["content"] for message in chat_state(chat, at).messages]


def picture_question() -> str:
    """The id of the question whose answer lies off the current branch."""
    messages: dict[str, Any] = data("weather.json")[0]["chat"]["history"]["messages"]
    return next(id_ for id_, message in messages.items() if "picture" in str(message["content"]))


@pytest.mark.parametrize(("request_index", "at"), [(0, "1"), (2, None), (3, "2"), (4, "3")])
def test_an_export_with_its_artifacts_gives_what_was_sent(request_index: int, at: str | None) -> None:
    """To the byte, on both branches and to both models."""
    sent = data("weather_requests.json")[request_index]
    found = chat_state(only(data("weather.json")), at or picture_question())
    model_id = strip_function_prefix(found.model)
    artifacts = read_artifacts(data("weather_artifacts.json"))
    built = build_input(read_history(found.messages), artifacts, Options(model_id=model_id))
    assert json.dumps({"model": model_id, "input": built.items}) == json.dumps(sent)


_SAID = [user("one"), assistant("two")]


@pytest.mark.parametrize(
    "value",
    [
        {"id": "x", "title": "t", "chat": tree(*_SAID), "current_message_id": "b"},
        [{"id": "x", "chat": tree(*_SAID)}],
        tree(*_SAID),
        {"chat": {"messages": _SAID}},
        {"messages": _SAID},
        _SAID,
    ],
    ids=["chat", "list of one", "without envelope", "old", "request body", "messages"],
)
def test_every_form_of_a_chat(value: Any) -> None:
    """One chat, a list, the inner object, and plain messages mean the same."""
    assert contents(only(value)) == ["one", "two"]


@pytest.mark.parametrize(
    "value", [None, "text", 1, {}, {"mapping": {}}, [{"mapping": {}}], [1], {"chat": {"history": []}}, []]
)
def test_other_files(value: Any) -> None:
    """Whatever is not a chat is refused."""
    with pytest.raises(InvalidHistory):
        read_export(value)


def test_plain_messages_stay_as_they_are() -> None:
    """Even those that are not messages: the history names them."""
    messages = [user("one"), 7, assistant("two", reasoning_details=[{"type": "x"}])]
    assert chat_state(only(messages)).messages == tuple(messages)


def test_the_branch_that_ends_with_a_message() -> None:
    """A message's id picks its branch, whichever is current."""
    chat = only(tree(user("one"), assistant("two"), {**assistant("other"), "parentId": "a"}))
    assert [contents(chat), contents(chat, "b")] == [["one", "other"], ["one", "two"]]


@pytest.mark.parametrize("current", [None, "absent", 3])
def test_without_a_current_message_the_last_one_counts(current: Any) -> None:
    """Damaged chats have no end of their branch, or a wrong one."""
    value = tree(*_SAID)
    value["history"]["currentId"] = current
    assert contents(only(value)) == ["one", "two"]


def test_a_ring_of_parents_ends() -> None:
    """Damaged chats may have parents that lead back."""
    value = tree({**user("one"), "parentId": "b"}, assistant("two"))
    assert contents(only(value)) == ["one", "two"]


def test_a_turn_ends_with_its_question() -> None:
    """The request of turn 2 holds the first answer and the second question."""
    chat = only(tree(user("q1"), assistant("a1"), user("q2"), assistant("a2")))
    assert [contents(chat, "1"), contents(chat, "2")] == [["q1"], ["q1", "a1", "q2"]]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("0", "There is no turn 0: the current branch has 1."),
        ("2", "There is no turn 2: the current branch has 1."),
        ("z", "This chat has no message z."),
    ],
)
def test_no_such_point(at: str, words: str) -> None:
    """The error says how far the chat goes."""
    with pytest.raises(InvalidHistory, match=f"^{words}$"):
        chat_state(only(tree(*_SAID)), at)


def test_a_chat_without_messages() -> None:
    """It may stand in an export of all chats, and only fails when it is chosen."""
    chat = only({"history": {"messages": {}, "currentId": None}})
    with pytest.raises(InvalidHistory, match="no messages"):
        chat_state(chat)


def test_the_chats_own_system_prompt_comes_first() -> None:
    """The host sends it before the messages, which count on from there."""
    found = chat_state(only(tree(user("one"), params={"system": "Be brief."})))
    assert (found.messages[0], found.ids) == ({"role": "system", "content": "Be brief."}, ("", "a"))


def test_what_the_host_summarised_is_replaced() -> None:
    """Messages before its newest summary are not sent any more; an earlier turn knows nothing of it."""
    chat = only(
        tree(
            user("q1"),
            assistant("a1"),
            user("q2") | {"contextSummary": "They met."},
            params={"system": "Be brief."},
        )
    )
    assert contents(chat) == ["Be brief.\n[CONVERSATION SUMMARY]\nThey met.", "q2"]
    assert [chat_state(chat).earlier_turns, chat_state(chat, "1").earlier_turns] == [1, 0]


def test_pictures_of_a_question_join_its_content() -> None:
    """Only pictures do, and only those that the export can name."""
    files = [
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "file", "content_type": "image/png", "url": "0a1b"},
        {"type": "file", "content_type": "image/svg+xml", "url": "svg"},
        {"type": "file", "content_type": "text/plain", "url": "txt"},
        {"type": "image"},
    ]
    assert contents(only(tree(user("Look.") | {"files": files}))) == [
        [
            {"type": "text", "text": "Look."},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "image_url", "image_url": {"url": "0a1b"}},
        ]
    ]


@pytest.mark.parametrize(("model_id", "kept"), [(None, True), ("openai/gpt-5", True), ("other/model", False)])
def test_what_is_bound_to_a_model_stays_with_it(model_id: str | None, *, kept: bool) -> None:
    """The host drops reasoning_details for another model than that of the answer."""
    item = {"type": "reasoning", "reasoning_details": [{"type": "x"}]}
    chat = only(tree(assistant("", model="pipe.openai/gpt-5", output=[item])))
    (message,) = chat_state(chat, model_id=model_id).messages
    assert ("reasoning_details" in message["output"][0]) is kept


@pytest.mark.parametrize(
    ("value", "model"),
    [
        (tree(user("one") | {"models": ["f.a/b"]}, models=["f.c/d"]), "f.a/b"),
        (tree(user("one") | {"models": ["f.a/b"]}, assistant("two", model="f.x/y")), "f.x/y"),
        (tree(user("one"), models=["f.c/d"]), "f.c/d"),
        ({"messages": [user("one")], "model": "f.c/d"}, "f.c/d"),
        ([user("one")], ""),
    ],
)
def test_the_model_that_answers(value: Any, model: str) -> None:
    """The newest message that names one decides, then the chat."""
    assert chat_state(only(value)).model == model


def test_choosing_a_chat() -> None:
    """By number, id or title; a title that two chats share is refused."""
    named = [("x", "one"), ("y", "two"), ("z", "two")]
    chats = read_export([{"id": id_, "title": title, "chat": tree(*_SAID)} for id_, title in named])
    assert [choose_chat(chats, name).id for name in ("1", "y", "one")] == ["x", "y", "x"]
    for name, words in {"two": "2 chats are called 'two'.", "4": "No chat is called '4'."}.items():
        with pytest.raises(InvalidHistory, match=words):
            choose_chat(chats, name)


def test_artifacts_alone_or_with_their_model() -> None:
    """Both forms are distinguished by the item's type."""
    item = reasoning("rs_1")
    alone, with_model = read_artifacts({"a": item, "b": {"item": item, "model": "openai/gpt-5"}}).values()
    assert (alone, getattr(with_model, "item", None), getattr(with_model, "model", None)) == (
        item,
        item,
        "openai/gpt-5",
    )
    with pytest.raises(InvalidHistory):
        read_artifacts([item])
