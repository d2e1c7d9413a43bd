"""The host's storage: who may read a file, and how one is stored, in a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.host.files import HostFiles
from open_webui_openrouter_pipe.ports import FileContent
from open_webui_openrouter_pipe.words.lines import notice
from tests.support.inside import inside_open_webui

pytestmark = pytest.mark.live

PICTURE = FileContent("../a/fox.png", "image/png", b"\x89PNG picture")
LIMITS = {"rag.file.max_size": 1}
MEGABYTE = 2**20

NOT_FOUND = notice("file_not_found")
MISSING = notice("file_content_missing")
UNREADABLE = notice("file_unreadable")
NOT_STORED = notice("file_not_stored")
TOO_LARGE = notice("attachment_too_large", megabytes=1)


async def fill() -> None:
    """Two users, an administrator, and two chats of Ada's."""
    from open_webui.internal.db import async_engine
    from open_webui.models.chats import Chat
    from open_webui.models.users import Users
    from sqlalchemy import insert

    for name, role in (("ada", "user"), ("eve", "user"), ("root", "admin")):
        await Users.insert_new_user(name, name, f"{name}@example.com", role=role)
    async with async_engine.begin() as connection:
        row = {"user_id": "ada", "title": "", "chat": {}, "created_at": 1, "updated_at": 1}
        chats = [{**row, "id": chat} for chat in ("c1", "c2")]
        await connection.execute(insert(Chat.__table__), chats)


async def outcome(reading: Any) -> Any:
    """What was returned, or the line for the user."""
    try:
        return await reading
    except AttachmentUnavailable as error:
        return error.user_message


async def row_of(file_id: str) -> dict[str, Any]:
    from open_webui.models.files import Files

    row = await Files.get_file_by_id(file_id)
    return dict(row.model_dump())


async def add_row(file_id: str, *, path: str | None = None, content: bytes = b"text", **fields: Any) -> str:
    """A file of Ada's, as an older host or another program may have written it."""
    from open_webui.config import UPLOAD_DIR
    from open_webui.internal.db import async_engine
    from open_webui.models.files import File
    from sqlalchemy import insert

    stored = Path(UPLOAD_DIR) / file_id
    stored.write_bytes(content)
    row = {
        "id": file_id,
        "user_id": "ada",
        "filename": "row.txt",
        "path": path or str(stored),
        "created_at": 1,
        "updated_at": 1,
    }
    async with async_engine.begin() as connection:
        await connection.execute(insert(File.__table__), [{**row, **fields}])
    return file_id


def count_stored() -> int:
    """How many files the host's storage has."""
    from open_webui.config import UPLOAD_DIR

    return len(list(Path(UPLOAD_DIR).iterdir()))


def delete_content(path: str) -> None:
    """Delete what is stored, behind the host's back."""
    Path(path).unlink()


async def storing() -> dict[str, Any]:
    """Store the same and other files again and again."""
    from open_webui.models.chats import Chats
    from open_webui.models.config import Config

    files = HostFiles()
    first = await files.store("ada", "c1", "m1", PICTURE)
    again = await files.store("ada", "c1", "m2", FileContent("other.png", "image/png", PICTURE.content))
    row = await row_of(first)
    answers: dict[str, Any] = {
        "one": again == first,
        "row": {key: row[key] for key in ("user_id", "filename", "data", "meta")},
        "stored under": Path(row["path"]).name == f"{first}.png",
        "elsewhere": await files.store("ada", "c2", "m3", PICTURE) == first,
        "chats": [
            [
                link.file_id == first
                for link in await Chats.get_chat_files_by_chat_id_and_message_id(chat, message)
            ]
            for chat, message in (("c1", "m1"), ("c1", "m2"), ("c2", "m3"))
        ],
        "files": count_stored(),
        "read": await files.read("ada", first, max_bytes=MEGABYTE) == PICTURE,
        "another user": await files.store("eve", "", "", PICTURE) != first,
        "other content": await files.store("ada", "", "", FileContent("x", "", b"y")) != first,
        "a key": await files.store("ada", "c2", "m4", PICTURE, key="k") == files.id_of("ada", "k") != first,
        "the first of a key": await files.store("ada", "", "", FileContent("x", "", b"new"), key="k")
        and await files.read("ada", files.id_of("ada", "k"), max_bytes=MEGABYTE) == PICTURE,
    }
    delete_content((await row_of(first))["path"])
    regained = FileContent("new.webp", "image/webp", b"regained")
    answers["what is lost is stored again"] = (
        await files.store("ada", "c1", "m1", PICTURE) == first,
        await files.read("ada", first, max_bytes=MEGABYTE) == PICTURE,
    )
    keyed = files.id_of("ada", "k")
    delete_content((await row_of(keyed))["path"])
    await files.store("ada", "c2", "m4", regained, key="k")
    answers["even if it is another"] = await files.read("ada", keyed, max_bytes=MEGABYTE) == regained
    temporary = await files.store("ada", "temporary:s", "m", FileContent("t.txt", "text/plain", b"t"))
    links = await Chats.get_chat_files_by_chat_id_and_message_id("temporary:s", "m")
    both = await asyncio.gather(*(files.store("ada", "c1", "m4", FileContent("z", "", b"z")) for _ in "ab"))
    await Config.upsert(LIMITS)
    answers |= {
        "temporary": (temporary != "", links),
        "at once": len(set(both)),
        "empty": await outcome(files.store("ada", "c1", "m", FileContent("e", "", b""))),
        "unknown user": await outcome(files.store("bob", "c1", "m", PICTURE)),
        "at the limit": len(await outcome(files.store("ada", "", "", FileContent("l", "", bytes(MEGABYTE))))),
        "over the limit": await outcome(
            files.store("ada", "", "", FileContent("l", "", bytes(MEGABYTE + 1)))
        ),
        "files after": count_stored(),
    }
    return answers


async def reading() -> dict[str, Any]:
    """Read as everybody, before and after a chat is shared and a file is deleted."""
    from open_webui.models.access_grants import AccessGrants
    from open_webui.models.chats import Chats
    from open_webui.models.files import Files
    from open_webui.storage import provider

    files = HostFiles()
    picture = await files.store("ada", "c1", "m1", PICTURE)

    async def tried(file_id: str, *users: str) -> list[Any]:
        return [await outcome(files.read(user, file_id, max_bytes=MEGABYTE)) for user in users]

    answers: dict[str, Any] = {"own": await tried(picture, "ada", "root", "eve", "bob", "")}
    await Chats.insert_shared_chat_by_chat_id("c1")
    answers["a link alone"] = await tried(picture, "eve")
    grant = {"principal_type": "user", "principal_id": "eve", "permission": "read"}
    await AccessGrants.set_access_grants("shared_chat", "c1", [grant])
    answers["shared"] = await tried(picture, "eve", "bob")
    delete_content((await row_of(picture))["path"])
    answers["content lost"] = await tried(picture, "ada", "eve", "bob")
    await Files.delete_file_by_id(picture)
    answers["deleted"] = await tried(picture, "ada", "eve", "root")
    answers["odd ids"] = [(await tried(each, "ada"))[0] for each in ("", "nothing", "../x", "%")]
    rows: list[dict[str, Any]] = [
        {"meta": {"name": "n.pdf", "content_type": "Application/PDF; x=y"}},
        {"meta": {"name": "n.pdf", "content_type": ["Application/PDF; x=y", None], "size": 5}},
        {"meta": None},
        {"meta": {"size": "many"}, "path": "/nowhere/at/all"},
        {"path": str(Path(__file__).parent)},
    ]
    answers["rows"] = [
        (await tried(await add_row(f"r{number}", **row), "ada"))[0] for number, row in enumerate(rows)
    ]
    answers["sizes"] = [
        (await tried(await add_row(f"s{number}", meta={"size": size}, content=content), "ada"))[0]
        for number, (size, content) in enumerate(
            [(MEGABYTE + 1, b"x"), (1, bytes(MEGABYTE + 1)), (None, bytes(MEGABYTE + 1)), (MEGABYTE, b"x")]
        )
    ]
    looked: list[str] = []
    provider.Storage = FailingStorage(looked)
    answers["storage fails"] = await tried("r0", "ada")
    answers["not stored"] = await outcome(files.store("ada", "", "", FileContent("n", "", b"n")))
    answers["too large to fetch"] = ((await tried("s0", "ada"))[0], looked)
    return answers


class FailingStorage:
    """A storage on another machine that cannot be reached."""

    def __init__(self, looked: list[str]) -> None:
        self._looked = looked

    def get_file(self, path: str) -> str:
        self._looked.append(Path(path).name)
        raise RuntimeError("unreachable")

    def upload_file(self, *_: Any) -> Any:
        raise RuntimeError("unreachable")


def visit() -> dict[str, Any]:
    """Everything in one process: the host takes long to import."""

    async def look() -> dict[str, Any]:
        await fill()
        return {"storing": await storing(), "reading": await reading()}

    import open_webui.utils.access_control.files  # noqa: F401 - makes the tables

    return asyncio.run(look())


TEXT = FileContent("row.txt", "", b"text")


def test_files_are_stored_once_and_read_by_those_who_may(tmp_path: Path) -> None:
    """The host's own rules decide, each time anew; who may not read a file does not learn that it exists."""
    variables = {
        "FROM_INIT_PY": "true",  # its page is where the package has it
        "STATIC_DIR": f"{tmp_path}/static",
        "AUDIO_STT_ENGINE": "openai",
        "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
        "HF_HUB_OFFLINE": "1",
        "RAG_EMBEDDING_ENGINE": "openai",
    }
    answers = inside_open_webui(tmp_path, variables, visit)
    assert answers["storing"]["row"].pop("meta") == {
        "name": "../a/fox.png",
        "content_type": "image/png",
        "size": len(PICTURE.content),
        "file_hash": hashlib.sha256(PICTURE.content).hexdigest(),
        "data": {"chat_id": "c1", "message_id": "m1"},
    }
    assert answers["storing"] == {
        "one": True,
        "row": {"user_id": "ada", "filename": "../a/fox.png", "data": {}},
        "stored under": True,
        "elsewhere": True,
        "chats": [[True], [], [True]],
        "files": 1,
        "read": True,
        "another user": True,
        "other content": True,
        "a key": True,
        "the first of a key": True,
        "what is lost is stored again": (True, True),
        "even if it is another": True,
        "temporary": (True, []),
        "at once": 1,
        "empty": NOT_STORED,
        "unknown user": NOT_STORED,
        "at the limit": 36,
        "over the limit": TOO_LARGE,
        "files after": 7,
    }
    assert answers["reading"] == {
        "own": [PICTURE, PICTURE, NOT_FOUND, NOT_FOUND, NOT_FOUND],
        "a link alone": [NOT_FOUND],
        "shared": [PICTURE, NOT_FOUND],
        "content lost": [MISSING, MISSING, NOT_FOUND],
        "deleted": [NOT_FOUND, NOT_FOUND, NOT_FOUND],
        "odd ids": [NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND],
        "rows": [
            FileContent("n.pdf", "application/pdf", b"text"),
            FileContent("n.pdf", "", b"text"),
            TEXT,
            MISSING,
            MISSING,
        ],
        "sizes": [TOO_LARGE, TOO_LARGE, TOO_LARGE, FileContent("row.txt", "", b"x")],
        "storage fails": [UNREADABLE],
        "not stored": NOT_STORED,
        "too large to fetch": (TOO_LARGE, ["r0"]),
    }
