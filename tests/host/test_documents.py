"""Which documents are attached where, in chats that the host's own code keeps and sends; cases in `documents.txt`."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from inspect import iscoroutinefunction
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, patch

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.host.call import AttachedFile, Call, read_call
from open_webui_openrouter_pipe.host.documents import (
    UnsavedChats,
    attached_documents,
    files_without_text,
    with_documents,
)
from tests.host.tables import insert
from tests.support.host_source import host_source
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

Message = dict[str, Any]


def upload(file_id: str, media_type: str = "application/pdf", **fields: Any) -> dict[str, Any]:
    """A file as the page writes it after an upload."""
    row = {"id": file_id, "meta": {"name": f"{file_id}.pdf", "content_type": media_type}}
    shown = {"id": file_id, "url": file_id, "name": f"{file_id}.pdf", "content_type": media_type}
    return {"type": "file", "file": row, "size": 1000, **shown, **fields}


IMAGE = {"type": "image", "id": "i1", "url": "data:image/png;base64,AAAA", "content_type": "image/png"}
PHOTO = upload("i2", "image/jpeg", url="data:image/jpeg;base64,AAAA")
SOURCE = {"source": {"type": "file", "id": "f1"}, "document": ["Foxes"], "metadata": [{"source": "a.pdf"}]}
EXCERPT = 'Use this:\n<source id="1" resource-type="file" resource-id="f1">Foxes</source>\nThanks.'
FILES = {
    "PDF": AttachedFile("f1", "a.pdf", "application/pdf", 1000),
    "NOTES": AttachedFile("f2", "b.md", "", None),
}
SAYINGS = {
    "ADDED": "It is Monday.",
    "FIRST": "One",
    "LATEST": "Two",
    "EXCERPT": EXCERPT,
    "WITH_EXCERPT": f"{EXCERPT}\nTwo",
    "IMAGES": [{"type": "text", "text": TOOL_IMAGES_TEXT}, {"type": "image_url"}],
}
NAMES: dict[str, Any] = {
    **{name: upload(name) for name in ("f1", "f2", "f3", "f4")},
    **{name: {"role": "user", "content": content} for name, content in SAYINGS.items()},
    **{
        name: {"type": "file", "file": {"file_id": file.id, "filename": file.name}}
        for name, file in FILES.items()
    },
    "IMAGE": IMAGE,
    "PHOTO": PHOTO,
    "DRAWING": upload("svg", "image/svg+xml"),
    "SAID": {"role": "assistant", "content": "1"},
    "WITH_EXCERPT_TEXT": SAYINGS["WITH_EXCERPT"],
}


def cases(section: str) -> list[Any]:
    return rows(Path(__file__).with_name("documents.txt"), section, NAMES)


CHAT: dict[str, Message] = {
    message_id: {"parentId": parent, "role": role, "content": words, **({"files": files} if files else {})}
    for message_id, parent, role, words, files in (row.values for row in cases("Chat"))
}
SENT = [row.values for row in cases("Sent")]


def a_call(messages: Sequence[Any], files: Any, *, task: str | None = None, **metadata: Any) -> Call:
    """The host's call with these messages and attached files."""
    metadata = {"chat_id": "documents", "message_id": "m", "files": files, **metadata}
    body = {"model": "p.m/n", "messages": messages}
    return read_call(body, user={"id": "ada"}, metadata=metadata, task=task)


def ids(found: Any) -> dict[str, list[str]]:
    return {str(index): [file.id for file in files] for index, files in found.items()}


async def fill() -> None:
    """Write two chats that name their messages alike, and files with and without text."""
    from open_webui.models.chat_messages import ChatMessages
    from open_webui.models.chats import Chat
    from open_webui.models.files import File

    times = {"created_at": 1, "updated_at": 1}
    for chat_id in ("documents", "other documents"):
        await insert(Chat, {"id": chat_id, "user_id": "ada", "title": "", "chat": {}, **times})
        for message_id, message in CHAT.items():
            wrong = {"files": [upload("wrong")]} if chat_id == "other documents" else {}
            await ChatMessages.upsert_message(message_id, chat_id, "ada", {**message, **wrong})
    texts: dict[str, Any] = {"f1": "Foxes", "blank": " \n\t\f", "empty": "", "none": None}
    data = {**{file: {"content": text} for file, text in texts.items()}, "pending": {}, "old": None}
    row = {"user_id": "ada", "filename": "a.pdf", **times}
    await insert(File, *({**row, "id": file_id, "data": each} for file_id, each in data.items()))


async def sent_body(message_id: str) -> list[Message]:
    """The branch as the host loads and sends it, images and the names of files included."""
    from open_webui.models.chats import Chats
    from open_webui.utils import misc

    keys = host_source("utils/middleware", "MESSAGE_REPLAY_KEYS").MESSAGE_REPLAY_KEYS
    load = host_source(
        "utils/middleware",
        "load_messages_from_db",
        MESSAGE_REPLAY_KEYS=keys,
        Chats=Chats,
        get_message_list=misc.get_message_list,
    )
    messages = await load.load_messages_from_db("documents", message_id) or []
    branch, stored = deepcopy(messages), AsyncMock(return_value=SimpleNamespace(chat={}))
    given: dict[str, Any] = {"is_saved_chat_id": bool, "get_message_list": lambda *_: branch}
    given["Chats"] = SimpleNamespace(get_chat_by_id_and_user_id=stored)
    add = host_source("utils/middleware", "add_file_context", **given).add_file_context
    for message in messages:
        urls = [file.get("url", "") for file in message.get("files", ())]
        if images := [{"type": "image_url", "image_url": {"url": url}} for url in urls if url[:5] == "data:"]:
            message["content"] = [{"type": "text", "text": message["content"]}, *images]
    if iscoroutinefunction(add):  # before 0.12 it took the files of the chat's branch
        await add(messages, "documents", SimpleNamespace(id="ada"))
    else:
        add(messages)
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def arrived(pieces: list[Any], body: list[Message]) -> list[Message]:
    """The messages that a row names: ranges of the body, and whole messages."""
    found: list[Message] = []
    for piece in pieces:
        begin, _, end = piece.partition(":") if isinstance(piece, str) else ("", "", "")
        found += body[int(begin) : int(end) if end else None] if begin else [piece]
    return found


async def look() -> dict[str, Any]:
    """What is found in each chat on its way, by how many statements, and which files have no text."""
    from open_webui.internal import db

    await fill()
    statements: list[str] = []

    def listen(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    sa.event.listen(db.async_engine.sync_engine, "before_cursor_execute", listen)
    files = [file for message in CHAT.values() for file in message.get("files", ())]
    body = await sent_body("u3")
    found: dict[str, Any] = {}
    calls = {
        name: a_call(arrived(pieces, await sent_body(message_id)), files, user_message_id=message_id)
        for name, message_id, pieces, _ in SENT
    }
    calls["removed since"] = a_call(
        body, [file for file in files if file["id"] != "f1"], user_message_id="u3"
    )
    statements.clear()
    for name, call in calls.items():
        found[name] = ids(await attached_documents(call))
    found["statements"] = len(statements) / len(calls)
    for without in (None, [], [IMAGE, PHOTO, {"type": "collection", "id": "k"}]):
        found["nothing attached"] = await attached_documents(a_call(body, without, user_message_id="u3"))
    found["a task"] = await attached_documents(replace(calls["third turn"], task="title_generation"))
    found["statements for nothing"] = len(statements) - len(calls)
    asked = ["f1", "blank", "empty", "none", "pending", "old", "deleted"]
    found["without text"] = await files_without_text(asked)
    with patch.object(db, "get_async_db_context", side_effect=sa.exc.OperationalError("", {}, OSError())):
        found["unreadable"] = await attached_documents(calls["third turn"])
    return found


KNOWN = {
    **{name: expected for name, _, _, expected in SENT},
    "removed since": {"0": ["svg"], "4": ["f3"]},
    "statements": 1,
    "nothing attached": {},
    "a task": {},
    "statements for nothing": 0,
    "without text": {"blank", "empty", "none", "old", "pending"},
    "unreadable": {},
}


@pytest.mark.live
@pytest.mark.parametrize("name", KNOWN)
def test_documents_are_found_where_they_were_attached(seen: dict[str, Any], name: str) -> None:
    """In every branch and whatever happened to the messages on their way; by one statement, or by none."""
    assert seen[__name__][name] == KNOWN[name]


@pytest.mark.parametrize("chat_id", ["temporary:s", "local:s", "channel:s", ""])
@pytest.mark.parametrize(("messages", "asked", "expected"), cases("Unsaved"))
def test_an_unsaved_chat_knows_its_latest_message_alone(
    chat_id: str, messages: list[Any], asked: Any, expected: dict[str, list[str]]
) -> None:
    """What is attached to it is there; all else counts as attached to the first message, on every turn."""
    files = [upload("f1"), upload("f2")]
    call = a_call(messages, files, chat_id=chat_id, user_message=asked, user_message_id="u")
    assert ids(asyncio.run(attached_documents(call))) == expected


def test_documents_of_an_unsaved_chat_stay_where_they_came() -> None:
    """As far as this worker has seen them arrive; in another chat, or of another user, they are unknown."""
    unsaved = UnsavedChats(2)
    chat = [{"role": "user", "content": words} for words in ("1", "-", "2", "-", "3", "-", "4")]
    chat = [{**message, "role": "assistant"} if message["content"] == "-" else message for message in chat]
    attached = {1: ["f1"], 3: ["f2"], 5: ["f3", "f1"], 7: []}

    def found(length: int, chat_id: str = "temporary:s", user_id: str = "ada") -> dict[str, list[str]]:
        files = {file: upload(file) for end, new in attached.items() if end <= length for file in new}
        asked = {"content": chat[length - 1]["content"], "files": [upload(each) for each in attached[length]]}
        call = a_call(chat[:length], [*files.values()], chat_id=chat_id, user_message=asked)
        return ids(asyncio.run(attached_documents(replace(call, user_id=user_id), unsaved=unsaved)))

    assert [found(length) for length in (1, 3, 3)] == [{"0": ["f1"]}, *[{"0": ["f1"], "2": ["f2"]}] * 2]
    assert found(5) == found(7) == {"2": ["f2"], "4": ["f3", "f1"]}
    unknown = [found(7, "temporary:other"), found(7, user_id="eve"), found(7, "")]
    assert unknown == [{"0": ["f1", "f2", "f3"]}] * 3


@pytest.mark.parametrize(("messages", "chosen", "expected"), cases("Joined"))
def test_documents_follow_the_content_of_their_message(
    messages: list[Any], chosen: dict[str, list[str]], expected: list[Any]
) -> None:
    """The host's excerpts of them go; nothing else of the call changes, nor the messages that were passed in."""
    call, before = a_call(messages, None, sources=[SOURCE], base_user_prompt="Two"), str(messages)
    files = {int(index): [FILES[name] for name in names] for index, names in chosen.items()}
    assert with_documents(call, files) == replace(call, messages=expected)
    assert str(messages) == before
