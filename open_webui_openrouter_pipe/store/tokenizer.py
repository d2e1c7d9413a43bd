"""A vocabulary of tiktoken's that already lies on this machine.

tiktoken downloads what it does not find, and also replaces a file whose content is not what it expects. So it is
called only after its file was found whole; nothing is ever downloaded, and nothing is deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..ports import Encode

_ADDRESS: Final = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary by its name, and the SHA-256 of its file as tiktoken's own sources state it."""

    name: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name under which tiktoken keeps the file: the SHA-1 of its address."""
        address = _ADDRESS.format(name=self.name)
        return hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()

    def lies_in(self, folder: Path) -> bool:
        """Tell whether the file is there, whole and unchanged."""
        try:
            content = (folder / self.file_name).read_bytes()
        except OSError:
            return False
        return hashlib.sha256(content).hexdigest() == self.sha256


O200K: Final = Vocabulary("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d")


class LocalTokenizer:
    """The vocabulary `o200k_base`, if tiktoken's cache folder holds it."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` is the one that tiktoken itself reads from; None when it keeps none."""
        self._folder = folder
        self._loading: asyncio.Task[Encode | None] | None = None

    async def encode(self) -> Encode | None:
        """The function that turns text into tokens; loaded once, in a thread, by whoever asks first."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(load, self._folder))
        return await asyncio.shield(self._loading)


def load(folder: Path | None) -> Encode | None:
    """Load the vocabulary (about half a second); None when it is not there or cannot be used."""
    if folder is None or not O200K.lies_in(folder):
        return None
    try:
        import tiktoken

        return tiktoken.get_encoding(O200K.name).encode_ordinary
    except Exception:  # noqa: BLE001 - whatever is wrong with a foreign tokenizer, the estimate counts
        _log.warning("tiktoken's vocabulary cannot be used; tokens are estimated", exc_info=True)
        return None
