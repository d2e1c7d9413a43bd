"""The host's storage: who may read a file, and how one is stored; odd rows stand in `files.txt`."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.host.files import HostFiles
from open_webui_openrouter_pipe.media.memory import FileRoom
from open_webui_openrouter_pipe.ports import FileContent
from open_webui_openrouter_pipe.words.lines import notice
from tests.host.tables import insert, write_chat
from tests.support.rows import rows

pytestmark = pytest.mark.live

MEGABYTE = 2**20
CONTENT = b"\x89PNG picture"
PICTURE = FileContent("../a/fox.png", "image/png", CONTENT)
NOT_FOUND, NOT_STORED = notice("file_not_found"), notice("file_not_stored")
MISSING = notice("file_content_missing")
TOO_LARGE = notice("attachment_too_large", megabytes=1)
ROWS = rows(Path(__file__).with_name("files.txt"), "Rows", {"MISSING": MISSING, "TOO_LARGE": TOO_LARGE})

STORED: list[tuple[Any, ...]] = [
    ("ada", "c1", "m1", PICTURE, None, 0),
    ("ada", "c1", "m2", FileContent("other.png", "image/png", CONTENT), None, 0),
    ("ada", "c2", "m3", PICTURE, None, 0),
    ("eve", "", "", PICTURE, None, 3),
    ("ada", "", "", FileContent("x", "", b"y"), None, 4),
    ("ada", "c2", "m4", PICTURE, "k", 5),
    ("ada", "", "", FileContent("x", "", b"new"), "k", 5),
    ("ada", "temporary:s", "m", FileContent("t.txt", "text/plain", b"t"), None, 7),
    ("ada", "c1", "m", FileContent("e", "", b""), None, NOT_STORED),
    ("bob", "c1", "m", PICTURE, None, NOT_STORED),
    ("ada", "", "", FileContent("l", "", bytes(MEGABYTE)), None, 10),
    ("ada", "", "", FileContent("l", "", bytes(MEGABYTE + 1)), None, TOO_LARGE),
]
"""User, chat, message, file and key of what is stored, one after the other, and the first that has the same id."""


async def outcome(reading: Any) -> Any:
    """What was returned, or the line for the user."""
    try:
        return await reading
    except AttachmentUnavailable as error:
        return error.user_message


async def read(file_id: str, *users: str) -> list[Any]:
    return [await outcome(HostFiles().read(user, file_id, FileRoom(MEGABYTE, list))) for user in users]


async def row_of(file_id: str) -> dict[str, Any]:
    from open_webui.models.files import Files

    row = await Files.get_file_by_id(file_id)
    return dict(row.model_dump())


def delete_content(row: dict[str, Any]) -> None:
    """Delete what is stored, behind the host's back."""
    Path(row["path"]).unlink()


def count_files(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


async def look_at_storing() -> dict[str, Any]:
    """Store the same and other files again and again."""
    from open_webui.config import UPLOAD_DIR
    from open_webui.models.chats import Chats
    from open_webui.models.config import Config

    files = HostFiles()
    await Config.upsert({"rag.file.max_size": 1})
    ids = [await outcome(files.store(*each[:4], key=each[4])) for each in STORED]
    first, keyed = ids[0], ids[5]
    row = await row_of(first)
    links = {
        message: len(await Chats.get_chat_files_by_chat_id_and_message_id(chat, message))
        for chat, message in [("c1", "m1"), ("c1", "m2"), ("c2", "m3"), ("c2", "m4"), ("temporary:s", "m")]
    }
    found: dict[str, Any] = {
        "ids": [ids.index(each) if len(each) == 36 else each for each in ids],
        "the id of a key": keyed == files.id_of("ada", "k"),
        "row": {key: row[key] for key in ("user_id", "filename", "data", "meta")},
        "stored under the id": Path(row["path"]).name == f"{first}.png",
        "linked": links,
        "files": count_files(UPLOAD_DIR),
        "the first of a key": await read(keyed, "ada"),
    }
    for file_id, key, file in ((first, None, PICTURE), (keyed, "k", FileContent("n", "image/webp", b"w"))):
        delete_content(await row_of(file_id))
        stored = await files.store("ada", "c1", "m1", file, key=key)
        found[f"regained {key}"] = [stored == file_id, *await read(file_id, "ada")]
    both = await asyncio.gather(*(files.store("ada", "c1", "m4", FileContent("z", "", b"z")) for _ in "ab"))
    return {**found, "ids of the same at once": len(set(both))}


async def look_at_reading() -> dict[str, Any]:
    """Read as everybody, before and after a chat is shared and a file is deleted."""
    from open_webui.config import UPLOAD_DIR
    from open_webui.models.access_grants import AccessGrants
    from open_webui.models.chats import Chats
    from open_webui.models.files import File, Files
    from open_webui.storage.provider import Storage

    picture = await HostFiles().store("ada", "c1", "m1", PICTURE)
    found: dict[str, Any] = {"own": await read(picture, "ada", "root", "eve", "bob", "")}
    await Chats.insert_shared_chat_by_chat_id("c1")
    found["a link alone"] = await read(picture, "eve")
    grant = {"principal_type": "user", "principal_id": "eve", "permission": "read"}
    await AccessGrants.set_access_grants("shared_chat", "c1", [grant])
    found["shared"] = await read(picture, "eve", "bob")
    delete_content(await row_of(picture))
    found["content lost"] = await read(picture, "ada", "eve", "bob")
    await Files.delete_file_by_id(picture)
    found["deleted"] = await read(picture, "ada", "eve", "root")
    found["odd ids"] = [*await read("", "ada"), *await read("../x", "ada"), *await read("%", "ada")]
    for number, (meta, place, size, _) in enumerate(row.values for row in ROWS):
        path = Path(UPLOAD_DIR) / f"r{number}"
        path.write_bytes(bytes(size))
        stored = str(path) if place == "HERE" else place
        row = {"id": f"r{number}", "user_id": "ada", "filename": "row.txt", "path": stored, "meta": meta}
        await insert(File, {**row, "created_at": 1, "updated_at": 1})
        (file,) = await read(f"r{number}", "ada")
        is_file = isinstance(file, FileContent)
        found[str(number)] = [file.name, file.media_type, len(file.content)] if is_file else file
    unreachable = patch.object(Storage, "get_file", side_effect=RuntimeError)
    with unreachable as fetching, patch.object(Storage, "upload_file", side_effect=RuntimeError):
        stored = outcome(HostFiles().store("ada", "", "", FileContent("n", "", b"n")))
        found["storage fails"] = [*await read("r0", "ada"), await stored]
        found["too large to fetch"] = [*await read("r5", "ada"), fetching.call_count]
    return found


async def look() -> dict[str, Any]:
    import open_webui.utils.access_control.files  # noqa: F401 - makes its tables

    for chat_id in ("c1", "c2"):
        await write_chat(chat_id, [{}])
    return {**await look_at_storing(), **await look_at_reading()}


KNOWN: dict[str, Any] = {
    "ids": [each[5] for each in STORED],
    "the id of a key": True,
    "row": {
        "user_id": "ada",
        "filename": "../a/fox.png",
        "data": {},
        "meta": {
            "name": "../a/fox.png",
            "content_type": "image/png",
            "size": len(CONTENT),
            "file_hash": hashlib.sha256(CONTENT).hexdigest(),
            "data": {"chat_id": "c1", "message_id": "m1"},
        },
    },
    "stored under the id": True,
    "linked": {"m1": 1, "m2": 0, "m3": 1, "m4": 1, "m": 0},
    "files": 6,
    "the first of a key": [PICTURE],
    "regained None": [True, PICTURE],
    "regained k": [True, FileContent("n", "image/webp", b"w")],
    "ids of the same at once": 1,
    "own": [PICTURE, PICTURE, NOT_FOUND, NOT_FOUND, NOT_FOUND],
    "a link alone": [NOT_FOUND],
    "shared": [PICTURE, NOT_FOUND],
    "content lost": [MISSING, MISSING, NOT_FOUND],
    "deleted": [NOT_FOUND] * 3,
    "odd ids": [NOT_FOUND] * 3,
    **{str(number): row.values[-1] for number, row in enumerate(ROWS)},
    "storage fails": [notice("file_unreadable"), NOT_STORED],
    "too large to fetch": [TOO_LARGE, 1],
}


@pytest.mark.parametrize("asked", KNOWN)
def test_files_are_stored_once_and_read_by_those_who_may(seen: dict[str, Any], asked: str) -> None:
    """The host's own rules decide, each time anew; who may not read a file does not learn that it exists."""
    assert seen[__name__][asked] == KNOWN[asked]
