"""The attachments of one call: what reads them for its model, and its documents put into their messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from sqlalchemy.exc import SQLAlchemyError

from .errors import AttachmentNotFound
from .host.call import Call
from .host.documents import with_documents
from .media.choice import plain_name
from .media.download import DownloadSettings, GuardedDownloads
from .media.library import MediaLibrary
from .notices import notice
from .ports import Model
from .settings import Settings
from .worker import Worker

log = logging.getLogger(__name__)


def build_library(worker: Worker, call: Call, settings: Settings, model: Model | None) -> MediaLibrary:
    """What reads the call's attachments for its model."""
    media = settings.attachments.media
    downloads = GuardedDownloads(
        DownloadSettings(allowed_hosts=settings.attachments.download_hosts, max_bytes=media.max_bytes)
    )
    saved_for = (call.chat_id, call.message_id) if call.keeps and settings.save_attachments else None
    return MediaLibrary(
        worker.host.files, downloads, worker.encoded_files, media, model, call.user_id, saved_for
    )


async def attach_documents(
    worker: Worker, call: Call, settings: Settings, library: MediaLibrary
) -> tuple[Call, Mapping[str, str]]:
    """The call with its documents in their messages, and a line about each that the host gives in excerpts.

    What neither the model reads nor the host is put into its message all the same, where a note stands for it. So
    is what the user may not read, unless the host gives it to everybody all the same.
    """
    find, lacks_text = worker.host.attached_documents, worker.host.files_without_text
    if find is None or lacks_text is None or settings.attachments.media.documents == "host":
        return call, {}
    attached, given = await find(call), {source.file_id for source in call.sources}
    files = [file for of_message in attached.values() for file in of_message]
    errors = await asyncio.gather(*(library.refusal(file.id) for file in files))
    refused = {
        file: error
        for file, error in zip(files, errors, strict=True)
        if error and (not isinstance(error, AttachmentNotFound) or file.id in given)
    }
    try:
        silent = await lacks_text([file.id for file in refused]) if refused else frozenset()
    except SQLAlchemyError:
        log.warning("whether the host has their text is not known", exc_info=True)
        silent = frozenset()
    as_excerpts = {file: error for file, error in refused.items() if file.id not in silent}
    lines = {
        file.id: notice(
            "document_as_excerpts", name=plain_name(file.name) or file.id, reason=error.user_message
        )
        for file, error in as_excerpts.items()
    }
    chosen = {
        index: [file for file in of_message if file not in as_excerpts]
        for index, of_message in attached.items()
    }
    return (with_documents(call, chosen) if any(chosen.values()) else call), lines
