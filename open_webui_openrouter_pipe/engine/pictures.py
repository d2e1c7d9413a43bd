"""Stores what models draw: a picture is among the host's files before it is shown, and its item holds the path.

So neither the chat's row nor the artifact carries megabytes, and what a provider has at an address of its own is still
there when the provider has deleted it. Whatever the storage does, the answer goes on: what cannot be stored stays as it
came, and where it is inline a line says so.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ..errors import AttachmentUnavailable
from ..notices import notice
from ..ports import Downloads, FileContent, Files
from ..responses.inline import decode
from ..responses.items import Item
from ..responses.pictures import (
    image_type,
    inline_picture,
    is_picture,
    picture_address,
    with_picture,
    without_unusable,
)
from ..responses.references import host_file_path
from ..responses.wire import is_web_address
from .recorder import RequestOrigin

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PictureStorage:
    """Stores the pictures of one round.

    Without `files` they stay as they came, and without `downloads` those that are at an address.
    """

    files: Files | None
    origin: RequestOrigin
    downloads: Downloads | None = None

    async def keep(self, item: Item) -> tuple[Item, str | None]:
        """Return an item as it may be shown and kept, and a line for the user if its picture is not as it should be."""
        if not is_picture(item):
            return item, None
        received = without_unusable(item)
        inline = inline_picture(received)
        if not inline:
            is_refused = received is not item and not picture_address(received)
            if is_refused:
                return received, notice("attachment_not_a_picture")
            return await self._fetched(received), None
        if self.files is None:
            return received, None
        try:
            file_id = await self._store(self.files, await asyncio.to_thread(decode, inline))
            return with_picture(received, host_file_path(file_id)), None
        except AttachmentUnavailable as error:
            log.warning("a picture is not stored: %s", error)
            reason = error.user_message
        except Exception:  # whatever ails the storage, the picture is paid for and is shown
            log.exception("a picture is not stored")
            reason = notice("attachment_storage_failed")
        return received, notice("attachment_not_stored", reason=reason)

    async def _fetched(self, item: Item) -> Item:
        """Return a picture that is at a web address as one that is stored; as it is where that cannot be done."""
        address = picture_address(item)
        if self.files is None or self.downloads is None or not is_web_address(address):
            return item
        try:
            content = (await self.downloads.fetch(address)).content
            return with_picture(item, host_file_path(await self._store(self.files, content)))
        except AttachmentUnavailable as error:
            log.warning("a picture stays at its address: %s", error)
        except Exception:  # as above
            log.exception("a picture stays at its address")
        return item

    async def _store(self, files: Files, content: bytes) -> str:
        kind = image_type(content)
        if kind is None:
            raise AttachmentUnavailable(notice("attachment_damaged"))
        file = FileContent(f"picture.{kind.rpartition('/')[2]}", kind, content)
        origin = self.origin
        return await files.store(origin.user_id, origin.chat_id, origin.message_id, file)
