"""The host's file storage in memory, and the smallest pictures of each kind."""

from __future__ import annotations

import base64
import io
import wave
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.ports import FileContent
from scripts.harness.page import KeptFiles

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
class FakeFiles(KeptFiles):
    """Keeps each user's content once, and the ids that were asked for; while `refusal` is set, it stores nothing."""

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
        return await super().read(user_id, file_id, room)

    async def store(
        self, user_id: str, chat_id: str, message_id: str, file: FileContent, *, key: str | None = None
    ) -> str:
        if self.refusal:
            raise self.refusal
        self.stored_for.append((user_id, chat_id, message_id))
        return await super().store(user_id, chat_id, message_id, file, key=key)
