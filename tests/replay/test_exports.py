"""Reading exports, the messages at one point of a chat, and their input in one call; tables in `exports.txt`.

The files in tests/data/exports were exported by Open WebUI 0.12.4; the requests and artifacts beside them are those
that were sent and stored while the chat went on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.markers import Reference, name_call, write_reference
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.history.turn import BuiltHistory
from open_webui_openrouter_pipe.host.call import strip_function_prefix
from open_webui_openrouter_pipe.replay.exports import (
    Chat,
    chat_state,
    choose_chat,
    read_artifacts,
    read_export,
    transform_messages_to_input,
)
from open_webui_openrouter_pipe.summaries.summary import summary_message
from tests.history.builders import (
    answered,
    assert_valid,
    assistant,
    call,
    mark,
    reasoning,
    said,
    system,
    tool,
    tool_call,
    ulid,
    user,
)
from tests.support.rows import rows

_DATA = Path(__file__).parents[1] / "data" / "exports"
_SAID = [user("one"), assistant("two")]


def data(name: str) -> Any:
    return json.loads((_DATA / name).read_text("utf-8"))


def tree(messages: list[dict[str, Any]], **chat: Any) -> dict[str, Any]:
    """A chat as the host keeps it, of messages that follow each other; their ids are a, b, c."""
    ids = ["", *"abcdefgh"]
    chained = {ids[at + 1]: {"parentId": ids[at], **message} for at, message in enumerate(messages)}
    current = chat.pop("currentId", ids[len(messages)])
    return {"history": {"messages": chained, "currentId": current}, **chat}


def only(value: Any) -> Chat:
    (chat,) = read_export(value)
    return chat


def contents(chat: Chat, at: str | None = None) -> list[Any]:
    return [message["content"] for message in chat_state(chat, at).messages]


@pytest.mark.parametrize(("request_index", "at"), [(0, "1"), (2, None), (3, "2"), (4, "3")])
def test_an_export_with_its_artifacts_gives_what_was_sent(request_index: int, at: str | None) -> None:
    """To the byte, on both branches and to both models."""
    sent, chat = data("weather_requests.json")[request_index], only(data("weather.json"))
    off_branch = next(id_ for id_, each in chat.messages.items() if "picture" in str(each["content"]))
    found = chat_state(chat, at or off_branch)
    model_id = strip_function_prefix(found.model)
    artifacts = read_artifacts(data("weather_artifacts.json"))
    built = build_input(read_history(found.messages), artifacts, Options(model_id=model_id))
    assert json.dumps({"model": model_id, "input": built.items}) == json.dumps(sent)


@pytest.mark.parametrize(
    "value",
    [
        {"id": "x", "title": "t", "chat": tree(_SAID), "current_message_id": "b"},
        [{"id": "x", "chat": tree(_SAID)}],
        tree(_SAID),
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
    assert chat_state(only({"messages": _SAID, "model": "f.c/d"})).model == "f.c/d"


@pytest.mark.parametrize(
    ("messages", "chat", "at", "found", "model", "earlier_turns"),
    rows(Path(__file__).with_name("exports.txt"), "points"),
)
def test_a_chat_at_one_point(
    messages: list[Any], chat: Any, at: str | None, found: str | list[Any], model: str, earlier_turns: int
) -> None:
    """It is what the host sends there; an error says how far the chat goes."""
    roles = {"u": "user", "a": "assistant"}
    written = [
        {"role": roles[who], "content": text, **dict(more)}
        for (who, text), *more in (message.items() for message in messages)
    ]
    read = only(tree(written, **chat))
    if isinstance(found, str):
        with pytest.raises(InvalidHistory, match=f"^{found}$"):
            chat_state(read, at)
    else:
        state = chat_state(read, at)
        sent = [message["content"] for message in state.messages]
        assert (sent, state.model, state.earlier_turns) == (found, model, earlier_turns)
        assert [bool(each) for each in state.ids] == [each["role"] != "system" for each in state.messages]


@pytest.mark.parametrize(("model_id", "kept"), [(None, True), ("openai/gpt-5", True), ("other/model", False)])
def test_what_is_bound_to_a_model_stays_with_it(model_id: str | None, *, kept: bool) -> None:
    """The host drops reasoning_details for another model than that of the answer."""
    item = {"type": "reasoning", "reasoning_details": [{"type": "x"}]}
    chat = only(tree([assistant("", model="pipe.openai/gpt-5", output=[item])]))
    (message,) = chat_state(chat, model_id=model_id).messages
    assert ("reasoning_details" in message["output"][0]) is kept


def test_choosing_a_chat() -> None:
    """By number, id or title; a title that two chats share is refused."""
    named = [("x", "one"), ("y", "two"), ("z", "two")]
    chats = read_export([{"id": id_, "title": title, "chat": tree(_SAID)} for id_, title in named])
    assert [choose_chat(chats, name).id for name in ("1", "y", "one")] == ["x", "y", "x"]
    for name, words in {"two": "2 chats are called 'two'.", "4": "No chat is called '4'."}.items():
        with pytest.raises(InvalidHistory, match=words):
            choose_chat(chats, name)


def test_artifacts_alone_or_with_their_model() -> None:
    """Both forms are distinguished by the item's type."""
    item = reasoning("rs_1")
    alone, with_model = read_artifacts({"a": item, "b": {"item": item, "model": "openai/gpt-5"}}).values()
    assert alone == item
    assert (getattr(with_model, "item", None), getattr(with_model, "model", None)) == (item, "openai/gpt-5")
    with pytest.raises(InvalidHistory):
        read_artifacts([item])


def without_ids(built: BuiltHistory) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "id"} for item in built.items]


@pytest.mark.anyio
async def test_summaries_of_others_are_one_message_behind_the_instructions() -> None:
    """It is the message that the engine sends; the host's additions, such as sources, come after it."""
    chat = [system("Be brief.\n[CONVERSATION SUMMARY]\nFoxes.\nSources: x"), user("1"), assistant("a")]
    options = Options(base_system_prompt="Be brief.\n[CONVERSATION SUMMARY]\nFoxes.", base_user_prompt="2")
    built = await transform_messages_to_input(
        [*chat, user("Template\n2")], artifact_loader=None, options=options
    )
    assert_valid(built.items)
    assert [*zip(without_ids(built), built.turns, strict=True)] == [
        (said("system", "Be brief."), 0),
        (summary_message((), ["Foxes."]), 0),
        (said("user", "1"), 0),
        (answered("a"), 0),
        (said("system", "Sources: x"), 1),
        (said("user", "2", "Template"), 1),
    ]
    assert (built.external_summaries, len(built.origins)) == ((), len(built.items))
    options = Options(base_system_prompt="[CONVERSATION SUMMARY]\nFoxes.")
    chat = [system("[CONVERSATION SUMMARY]\nFoxes.\nSources: x"), user("1")]
    built = await transform_messages_to_input(chat, artifact_loader=None, options=options)
    assert built.items == [summary_message((), ["Foxes."]), said("system", "Sources: x"), said("user", "1")]
    assert [entry.item for entry in built.conversation().volatile] == [said("system", "Sources: x")]


@pytest.mark.anyio
async def test_one_load_for_all_messages_and_carriers() -> None:
    """Markers in texts, beside reasoning and in the ids of calls are asked for together; without one nothing is."""
    asked: list[Any] = []
    named = name_call(ulid(103))
    numbers = range(1, 101)
    stored = {ulid(number): reasoning(f"rs_{number}") for number in (*numbers, 102)}
    stored[ulid(103)] = call("call_0")

    async def load(chat: str | None, message: str | None, ulids: Sequence[str]) -> Mapping[str, Any]:
        asked.append((chat, message, tuple(ulids)))
        return {each: stored[each] for each in ulids}

    chat = [
        *(message for number in numbers for message in (user("q"), assistant(f"{mark(number)}\nA"))),
        *(
            user("q"),
            assistant("B", tool_call(named), reasoning_details=[write_reference(Reference(0, ulid(102)))]),
        ),
        tool(named, "out"),
    ]
    built = await transform_messages_to_input(
        chat, artifact_loader=load, chat_id="chat", message_id="message"
    )
    await transform_messages_to_input([user("q")], artifact_loader=load)
    assert asked == [("chat", "message", tuple(stored))]
    assert [item for item in built.items if item in stored.values()] == [*stored.values()]


@pytest.mark.anyio
async def test_mappings_serve_as_loader() -> None:
    """Available artifacts need no loader."""
    chat = [user("q"), assistant(f"{mark(1)}\nA")]
    loader = {ulid(1): reasoning("rs_1")}
    built = await transform_messages_to_input(chat, artifact_loader=loader, chat_id="chat")
    assert built.items[1] == reasoning("rs_1")
    assert built.replayed == {ulid(1): 0}
