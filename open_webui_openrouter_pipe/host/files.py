"""The host's file storage: files read by those who may, and stored where the host itself stores them.

Every reading checks the user's right to that file, by the host's own rules, at that time. Which files belong to a chat
is decided in `documents`. Source: `routers/files.py`, `models/files.py`, `utils/access_control/files.py` and
`storage/provider.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import mimetypes
import uuid
from pathlib import Path
from typing import Any, Final

from ..errors import AttachmentNotFound, AttachmentUnavailable, PipeError
from ..ports import FileContent, Room
from ..responses.values import as_count, as_object, as_text
from ..words.lines import notice
from .call import is_saved, plain_media_type

_MEGABYTE_BYTES: Final = 2**20
_STORAGE_SECONDS: Final = 120.0
"""How long the host's storage, which may be on another machine, has for one file."""

_log = logging.getLogger(__name__)


class HostFiles:
    """The port `Files` on Open WebUI's storage."""

    async def read(self, user_id: str, file_id: str, room: Room) -> FileContent:
        """Return a file that the user may read, once there is room for it.

        Raises:
            AttachmentNotFound: There is no such file or no right to it.
            AttachmentUnavailable: It is too large, or the storage does not return it.
            TooBusy: There was no room for too long.
        """
        try:
            row = await _readable_row(user_id, file_id)
            meta = as_object(row.meta)
            _check_size(as_count(meta.get("size")) or 0, room.max_bytes)
            async with asyncio.timeout(_STORAGE_SECONDS):
                path, size_bytes = await asyncio.to_thread(_find, as_text(row.path))
            await room.take(size_bytes)
            content = await asyncio.to_thread(path.read_bytes)
        except PipeError:
            raise
        except Exception as error:  # each storage provider, and the host's database, raises what it likes
            _log.warning("file %s could not be read", file_id, exc_info=True)
            raise AttachmentUnavailable(notice("file_unreadable"), detail=file_id) from error
        name = as_text(meta.get("name")) or as_text(row.filename)
        return FileContent(name, plain_media_type(meta.get("content_type")), content)

    def id_of(self, user_id: str, key: str) -> str:
        """Return the id of what is stored for a user under a key."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"openrouter_pipe/{user_id}/{key}"))

    async def store(
        self, user_id: str, chat_id: str, message_id: str, file: FileContent, *, key: str | None = None
    ) -> str:
        """Store a file once under its key, linked to each saved chat that has it, and return its id.

        Without a key its content is the key. What the storage has lost is stored again. The link lets those read it
        with whom the chat is shared, and the host delete it.

        Raises:
            AttachmentUnavailable: The user is unknown, the host's limit is lower, or the storage failed.
        """
        from open_webui.models.chats import Chats
        from open_webui.models.files import Files

        digest = await asyncio.to_thread(lambda: hashlib.sha256(file.content).hexdigest())
        file_id = self.id_of(user_id, key or digest)
        try:
            row = await Files.get_file_by_id(file_id)
            if row is None or await asyncio.to_thread(_is_lost, as_text(row.path)):
                name = Path(as_text(row.path)).name if row else ""
                path = await _upload(user_id, file_id, file, name)
                meta: dict[str, Any] = {"name": file.name, "content_type": file.media_type}
                meta |= {"size": len(file.content), "file_hash": digest}
                if row is None:
                    meta["data"] = {"chat_id": chat_id, "message_id": message_id}
                    await _insert_row(user_id, file_id, path, meta)
                else:
                    await Files.update_file_metadata_by_id(file_id, meta)
            if is_saved(chat_id):
                await Chats.insert_chat_files(chat_id, message_id, [file_id], user_id)
        except AttachmentUnavailable:
            raise
        except Exception as error:  # as above
            _log.warning("a file could not be stored", exc_info=True)
            raise AttachmentUnavailable(notice("file_not_stored"), detail=file_id) from error
        return file_id


def _find(stored_path: str) -> tuple[Path, int]:
    """Have the file on this machine, from wherever it is; return where, and its size in bytes. Blocks."""
    from open_webui.storage.provider import Storage

    path = Path(Storage.get_file(stored_path)) if stored_path else None
    if path is None or not path.is_file():
        raise AttachmentUnavailable(notice("file_content_missing"), detail=stored_path)
    return path, path.stat().st_size


def _is_lost(stored_path: str) -> bool:
    """Whether the storage no longer has the content. Blocks."""
    from open_webui.storage.provider import Storage

    try:
        return not Path(Storage.get_file(stored_path)).is_file()
    except Exception:  # noqa: BLE001 - some say so by an error, and one that is unavailable accepts nothing either
        return True


async def _readable_row(user_id: str, file_id: str) -> Any:
    """The row of a file that the host's own route would return to this user."""
    from open_webui.models.files import Files
    from open_webui.models.users import Users
    from open_webui.utils.access_control.files import has_access_to_file

    row, user = await Files.get_file_by_id(file_id), await Users.get_user_by_id(user_id)
    if row is None or user is None:
        raise AttachmentNotFound(notice("file_not_found"), detail=file_id)
    if row.user_id == user.id or user.role == "admin" or await has_access_to_file(file_id, "read", user):
        return row
    raise AttachmentNotFound(notice("file_not_found"), detail=file_id)


async def _upload(user_id: str, file_id: str, file: FileContent, name: str) -> str:
    """Hand the content to the storage, under the name that it had there; return the path by which that knows it.

    A new name is safe on every storage. The host's own limit of a file holds.
    """
    from open_webui.models.config import Config
    from open_webui.models.users import Users
    from open_webui.storage.provider import Storage

    limit_bytes = int(await Config.get("rag.file.max_size") or 0) * _MEGABYTE_BYTES
    if limit_bytes > 0:
        _check_size(len(file.content), limit_bytes)
    user = await Users.get_user_by_id(user_id)
    if user is None:
        raise AttachmentUnavailable(notice("file_not_stored"), detail=f"no user {user_id}")
    tags = {
        "OpenWebUI-User-Email": user.email,
        "OpenWebUI-User-Id": user.id,
        "OpenWebUI-User-Name": user.name,
        "OpenWebUI-File-Id": file_id,
    }
    name = name or f"{file_id}{mimetypes.guess_extension(file.media_type) or ''}"
    async with asyncio.timeout(_STORAGE_SECONDS):
        _, path = await asyncio.to_thread(Storage.upload_file, io.BytesIO(file.content), name, tags)
    return as_text(path)


async def _insert_row(user_id: str, file_id: str, path: str, meta: dict[str, Any]) -> None:
    from open_webui.models.files import FileForm, Files

    form = FileForm(id=file_id, filename=meta["name"], path=path, data={}, meta=meta)
    # Another worker may have stored the same at the same time, at the same path.
    if await Files.insert_new_file(user_id, form) is None and await Files.get_file_by_id(file_id) is None:
        raise AttachmentUnavailable(notice("file_not_stored"), detail=file_id)


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        limit = limit_bytes / _MEGABYTE_BYTES
        raise AttachmentUnavailable(notice("attachment_too_large", megabytes=limit))
