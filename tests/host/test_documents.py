"""Which documents are attached where, in chats that the host's own code keeps and sends, and how they become parts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from tests.support.host_source import host_source
from tests.support.inside import inside_open_webui
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.live

Message = dict[str, Any]


def upload(file_id: str, media_type: str = "application/pdf", **fields: Any) -> dict[str, Any]:
    """A file as the page writes it after an upload."""
    return {
        "type": "file",
        "file": {"id": file_id, "meta": {"name": f"{file_id}.pdf", "content_type": media_type}},
        "id": file_id,
        "url": file_id,
        "name": f"{file_id}.pdf",
        "size": 1000,
        "content_type": media_type,
        **fields,
    }


IMAGE = {"type": "image", "id": "i1", "url": "data:image/png;base64,AAAA", "content_type": "image/png"}
PHOTO = upload("i2", "image/jpeg", url="data:image/jpeg;base64,AAAA")
DRAWING = upload("svg", "image/svg+xml")

ADDED = {"role": "user", "content": "It is Monday."}
IMAGES = {"role": "user", "content": [{"type": "text", "text": TOOL_IMAGES_TEXT}, {"type": "image_url"}]}
FIRST, LATEST = {"role": "user", "content": "One"}, {"role": "user", "content": "Two"}
SAID = {"role": "assistant", "content": "1"}
NAMES = {name: upload(name) for name in ("f1", "f2", "f3", "f4", "k3")}
NAMES |= {"IMAGE": IMAGE, "PHOTO": PHOTO, "DRAWING": DRAWING, "ADDED": ADDED, "IMAGES": IMAGES}
NAMES |= {"FIRST": FIRST, "LATEST": LATEST, "SAID": SAID}


def cases(section: str) -> list[Any]:
    return rows(Path(__file__).with_name("documents.txt"), section, NAMES)


CHAT: dict[str, Message] = {
    message_id: {"parentId": parent, "role": role, "content": words, **({"files": files} if files else {})}
    for message_id, parent, role, words, files in (row.values for row in cases("Chat"))
}
SENT = [row.values for row in cases("Sent")]


def a_call(messages: Sequence[Any], files: Any, *, task: str | None = None, **metadata: Any) -> Call:
    """The host's call with these messages and attached files."""
    metadata = {"chat_id": "c", "message_id": "m", "files": files, **metadata}
    return read_call(
        {"model": "p.m/n", "messages": messages}, user={"id": "ada"}, metadata=metadata, task=task
    )


def ids(found: Any) -> dict[str, list[str]]:
    return {str(index): [file.id for file in files] for index, files in found.items()}


async def fill() -> None:
    """Write two chats that name their messages alike, and files with and without text."""
    from open_webui.internal.db import async_engine
    from open_webui.models.chat_messages import ChatMessage, ChatMessages
    from open_webui.models.chats import Chat
    from open_webui.models.files import File

    async with async_engine.begin() as connection:
        for model in (Chat, ChatMessage, File):
            await connection.run_sync(model.__table__.create)
        chats = [{"id": chat, "user_id": "ada", "archived": False} for chat in ("c", "other")]
        await connection.execute(sa.insert(Chat.__table__), chats)
        texts: dict[str, Any] = {"f1": "Foxes", "blank": " \n\t\f", "empty": "", "none": None}
        data = {**{file: {"content": text} for file, text in texts.items()}, "pending": {}, "old": None}
        files = [{"id": file, "user_id": "ada", "data": each} for file, each in data.items()]
        await connection.execute(sa.insert(File.__table__), files)
    for chat in ("c", "other"):
        for message_id, message in CHAT.items():
            wrong = {"files": [upload("wrong")]} if chat == "other" else {}
            await ChatMessages.upsert_message(message_id, chat, "ada", {**message, **wrong})
    old = {"id": "u1", "chat_id": "other", "user_id": "ada", "role": "user", "created_at": 1, "updated_at": 1}
    async with async_engine.begin() as connection:
        await connection.execute(sa.insert(ChatMessage.__table__), [{**old, "content": "What is in it?"}])


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
    add = host_source("utils/middleware", "add_file_context")
    messages = await load.load_messages_from_db("c", message_id) or []
    for message in messages:
        urls = [file.get("url", "") for file in message.get("files", ())]
        if images := [{"type": "image_url", "image_url": {"url": url}} for url in urls if url[:5] == "data:"]:
            message["content"] = [{"type": "text", "text": message["content"]}, *images]
    add.add_file_context(messages)
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def arrived(pieces: list[Any], body: list[Message]) -> list[Message]:
    """The messages that a row names: ranges of the body, and whole messages."""
    found = []
    for piece in pieces:
        if isinstance(piece, str):
            begin, _, end = piece.partition(":")
            found += body[int(begin) : int(end) if end else None]
        else:
            found.append(piece)
    return found


async def look() -> dict[str, Any]:
    """What is found in each chat on its way, by how many statements, and which files have no text."""
    from open_webui.internal.db import async_engine
    from open_webui.models.chat_messages import ChatMessage

    await fill()
    statements: list[str] = []

    def listen(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    sa.event.listen(async_engine.sync_engine, "before_cursor_execute", listen)
    files = [file for message in CHAT.values() for file in message.get("files", ())]
    found, counts = {}, set()
    for name, message_id, pieces, _ in SENT:
        call = a_call(arrived(pieces, await sent_body(message_id)), files, user_message_id=message_id)
        statements.clear()
        found[name] = ids(await attached_documents(call))
        counts.add(len(statements))
    body = await sent_body("u3")
    kept = [file for file in files if file["id"] != "f1"]
    statements.clear()
    answers = {
        "found": found,
        "counts": counts,
        "removed": ids(await attached_documents(a_call(body, kept, user_message_id="u3"))),
        "statements": len(statements),
        "nothing attached": [
            ids(await attached_documents(a_call(body, none, user_message_id="u3")))
            for none in (None, [], [IMAGE, PHOTO, {"type": "collection", "id": "k"}])
        ],
        "a task": ids(
            await attached_documents(a_call(body, files, user_message_id="u3", task="title_generation"))
        ),
        "statements for nothing": len(statements) - 1,
        "without text": sorted(
            await files_without_text(["f1", "blank", "empty", "none", "pending", "old", "deleted"])
        ),
    }
    async with async_engine.begin() as connection:
        await connection.run_sync(ChatMessage.__table__.drop)
    answers["without the table"] = ids(await attached_documents(a_call(body, files, user_message_id="u3")))
    await async_engine.dispose()
    return answers


def visit() -> dict[str, Any]:
    """The same, for a process without an event loop."""
    return asyncio.run(look())


KNOWN = {
    "found": {name: expected for name, _, _, expected in SENT},
    "counts": {1},
    "removed": {"0": ["svg"], "4": ["f3"]},
    "statements": 1,
    "nothing attached": [{}, {}, {}],
    "a task": {},
    "statements for nothing": 0,
    "without text": ["blank", "empty", "none", "old", "pending"],
    "without the table": {},
}


def test_documents_are_found_where_they_were_attached(tmp_path: Path) -> None:
    """In every branch and whatever happened to the messages on their way; by one statement, or by none."""
    answers = inside_open_webui(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}, visit)
    assert answers == KNOWN


@pytest.mark.servers
def test_documents_are_found_in_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """The same answers, in a schema of its own."""
    url = postgres_server.url.replace("postgresql:", "postgresql+psycopg:")
    answers = inside_open_webui(tmp_path, {"DATABASE_URL": url, "DATABASE_SCHEMA": postgres_schema}, visit)
    assert answers == KNOWN


@pytest.mark.parametrize("chat_id", ["temporary:s", "local:s", "channel:s", ""])
@pytest.mark.parametrize(("messages", "asked", "expected"), cases("Unsaved"))
def test_an_unsaved_chat_knows_its_latest_message_alone(
    chat_id: str, messages: list[Any], asked: Any, expected: dict[str, list[str]]
) -> None:
    """What is attached to it is there; all else counts as attached to the first message, on every turn."""
    call = a_call(
        messages, [upload("f1"), upload("f2")], chat_id=chat_id, user_message=asked, user_message_id="u"
    )
    assert ids(asyncio.run(attached_documents(call))) == expected


def test_documents_of_an_unsaved_chat_stay_where_they_came() -> None:
    """As far as this worker has seen them arrive; in another chat, or of another user, they are unknown."""
    unsaved = UnsavedChats()
    three, four = ({"role": "user", "content": words} for words in ("Three", "Four"))
    chat = [FIRST, SAID, LATEST, SAID, three, SAID, four]
    attached = {1: ["f1"], 3: ["f2"], 5: ["f3", "f1"], 7: []}

    def found(length: int, chat_id: str = "temporary:s", user_id: str = "ada") -> dict[str, list[str]]:
        files = {file: upload(file) for end, new in attached.items() if end <= length for file in new}
        asked = {"content": chat[length - 1]["content"], "files": [upload(each) for each in attached[length]]}
        call = a_call(
            chat[:length], [*files.values()], chat_id=chat_id, user_message=asked, user_message_id="u"
        )
        return ids(asyncio.run(attached_documents(replace(call, user_id=user_id), unsaved=unsaved)))

    assert [found(length) for length in (1, 3, 3)] == [{"0": ["f1"]}, *[{"0": ["f1"], "2": ["f2"]}] * 2]
    assert found(5) == found(7) == {"2": ["f2"], "4": ["f3", "f1"]}
    unknown = [found(7, "temporary:other"), found(7, user_id="eve"), found(7, "")]
    assert unknown == [{"0": ["f1", "f2", "f3"]}] * 3


def test_only_the_users_own_files_are_documents() -> None:
    """Each once, with what the page or the file's row says of it; not knowledge, pages, notes, chats or pictures."""
    files = [row.values[0] for row in cases("Attached")]
    knowledge = [{"type": "file", "id": "k3"}, {"type": "collection"}]
    model = {"id": "p.m", "info": {"meta": {"knowledge": knowledge}}}
    assert a_call([], files, model=model).documents == (
        AttachedFile("f1", "f1.pdf", "text/plain", 1000),
        AttachedFile("f2", "b.md", "text/markdown", 7),
        AttachedFile("f3", "", "", None),
        AttachedFile("svg", "svg.pdf", "image/svg+xml", 1000),
    )


@pytest.mark.parametrize("files", [None, "x", {}, [None]])
def test_odd_lists_hold_no_documents(files: Any) -> None:
    """A filter may leave anything."""
    assert a_call([], files, user_message=[], sources=files).documents == ()


PDF, NOTES = AttachedFile("f1", "a.pdf", "application/pdf", 1000), AttachedFile("f2", "b.md", "", None)
PARTS = [
    {"type": "file", "file": {"file_id": "f1", "filename": "a.pdf"}},
    {"type": "file", "file": {"file_id": "f2", "filename": "b.md"}},
]


def test_documents_follow_the_content_of_their_message() -> None:
    """Text becomes a part as it is, and nothing else of the call changes, nor the messages that were passed in."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " A \n", "name": "Ada"},
        {"role": "user", "content": [{"type": "text", "text": "B"}, picture]},
        {"role": "user", "content": None},
        {"role": "user", "content": "C"},
    ]
    call = a_call(messages, None)
    before = str(messages)
    joined = with_documents(call, {1: [PDF, NOTES], 2: [NOTES], 3: [PDF], 4: []})
    assert joined.messages == [
        messages[0],
        {"role": "user", "content": [{"type": "text", "text": " A \n"}, *PARTS], "name": "Ada"},
        {"role": "user", "content": [{"type": "text", "text": "B"}, picture, PARTS[1]]},
        {"role": "user", "content": [PARTS[0]]},
        messages[4],
    ]
    assert (str(messages), with_documents(call, {})) == (before, call)


SOURCE = {"source": {"type": "file", "id": "f1"}, "document": ["Foxes"], "metadata": [{"source": "a.pdf"}]}
WRITTEN = 'Use this:\n<source id="1" resource-type="file" resource-id="f1">Foxes</source>\nThanks.'


def test_excerpts_of_the_chosen_documents_go() -> None:
    """Of exactly these; the message of their turn need not be the one that has the excerpts."""
    messages = [FIRST, SAID, {"role": "user", "content": f"{WRITTEN}\nTwo"}]
    call = a_call(messages, None, sources=[SOURCE], base_user_prompt="Two")
    first = {"role": "user", "content": [{"type": "text", "text": "One"}, PARTS[0]]}
    assert with_documents(call, {0: [PDF]}).messages == [first, SAID, LATEST]
    assert with_documents(call, {0: [NOTES]}).messages[1:] == messages[1:]


def test_a_message_of_sources_alone_leaves_only_its_documents() -> None:
    """The host writes one behind an answer that is continued."""
    messages = [FIRST, SAID, {"role": "user", "content": WRITTEN}]
    call = a_call(messages, None, sources=[SOURCE], base_user_prompt="One")
    assert with_documents(call, {2: [PDF]}).messages == [FIRST, SAID, {"role": "user", "content": [PARTS[0]]}]
    assert with_documents(call, {0: [PDF]}).messages[1:] == [SAID]
