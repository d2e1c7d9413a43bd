"""The host's file storage in memory, and the smallest pictures of each kind."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import wave
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.errors import AttachmentNotFound
from open_webui_openrouter_pipe.ports import FileContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from open_webui_openrouter_pipe.ports import Room

PICTURES = {
    f"image/{kind}": base64.b64decode(content)
    for kind, content in (
        (
            "png",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg==",
        ),
        (
            "jpeg",
            (
                "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP////////////////////////////////////////////////////////////////////"
                "//////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEA"
                "AD8AN//Z"
            ),
        ),
        ("gif", "R0lGODdhAQABAIEAAAAAAAAAAAAAAAAAACwAAAAAAQABAAAIBAABBAQAOw=="),
        ("webp", "UklGRhoAAABXRUJQVlA4TA4AAAAvAAAAAAcQEf0PRET/Aw=="),
    )
}
"""One pixel of each kind."""


def wav(samples: bytes, samples_per_second: int = 24_000) -> bytes:
    """A recording of one channel of 16 bits."""
    content = io.BytesIO()
    with wave.open(content, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(samples_per_second)
        written.writeframes(samples)
    return content.getvalue()


def data_url(kind: str, content: bytes) -> str:
    """Content as a data URL that says it is of the kind."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@dataclass
class FakeFiles:
    """Keeps each user's content once, and the ids that were asked for; while `refusal` is set, it stores nothing."""

    kept: dict[str, tuple[str, FileContent]] = field(default_factory=dict)
    stored_for: list[tuple[str, str, str]] = field(default_factory=list)
    refusal: Exception | None = None
    read_ids: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, contents: Mapping[str, bytes], owner: str = "ada", *, named: bool = True) -> FakeFiles:
        """Return a storage with these contents by id, of one user; it says that they are HTML, which they are not."""
        return cls(
            {
                file_id: (owner, FileContent(f"{file_id}.bin" if named else "", "text/html", content))
                for file_id, content in contents.items()
            }
        )

    async def read(self, user_id: str, file_id: str, room: Room) -> FileContent:
        self.read_ids.append(file_id)
        await asyncio.sleep(0)
        owner, file = self.kept.get(file_id, ("", None))
        if file is None or owner != user_id:
            raise AttachmentNotFound("there is no such file, or you may not read it")
        await room.take(len(file.content))
        return file

    def id_of(self, user_id: str, key: str) -> str:
        return hashlib.sha256(f"{user_id}/{key}".encode()).hexdigest()[:32]

    async def store(
        self, user_id: str, chat_id: str, message_id: str, file: FileContent, *, key: str | None = None
    ) -> str:
        if self.refusal:
            raise self.refusal
        self.stored_for.append((user_id, chat_id, message_id))
        file_id = self.id_of(user_id, key or hashlib.sha256(file.content).hexdigest())
        self.kept.setdefault(file_id, (user_id, file))
        return file_id
