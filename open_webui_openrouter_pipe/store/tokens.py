"""How a worker counts tokens: a tokenizer of tiktoken whose vocabulary is here already, and what bills have taught.

tiktoken downloads a vocabulary that it does not find, and replaces a file whose content is not what it expects. So
it is called only after the file was found whole: nothing is ever downloaded, and nothing is deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from ..conversation.budget import Calibration
from ..conversation.estimate import estimate_tokens
from ..conversation.tokens import TokenCounts
from ..ports import Encode
from .beside import BatchWriter
from .database import Database, epoch_seconds

VOCABULARIES: Final = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The SHA-256 of each vocabulary's file; the preferred one is first, Open WebUI's image brings the other."""

CURRENT: Final = "o200k_base"
"""The older vocabulary needs up to five times as many tokens for other languages than English."""

_ADDRESS: Final = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"

_log = logging.getLogger(__name__)


class LocalTokenizer:
    """The best tokenizer whose vocabulary is in tiktoken's cache folder."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` is the one that tiktoken itself reads from; None when it keeps none."""
        self._folder = folder
        self._loading: asyncio.Task[Encode | None] | None = None

    async def encode(self) -> Encode | None:
        """Return the function that turns text into tokens; loaded in a thread by the first call."""
        if self._folder is None:
            return None
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_load, self._folder))
        return await asyncio.shield(self._loading)


def vocabulary_file(name: str) -> str:
    """Return the name under which tiktoken keeps a vocabulary: the SHA-1 of its address."""
    return hashlib.sha1(_ADDRESS.format(name=name).encode(), usedforsecurity=False).hexdigest()


def _load(folder: Path) -> Encode | None:
    """Load a vocabulary (about half a second); None when there is none, or none that can be used."""
    for name, sha256 in VOCABULARIES.items():
        try:
            if hashlib.sha256((folder / vocabulary_file(name)).read_bytes()).hexdigest() == sha256:
                import tiktoken

                encode = tiktoken.get_encoding(name).encode_ordinary
                return encode if name == CURRENT else partial(_at_most_estimated, encode)
        except OSError:
            continue
        except Exception:  # noqa: BLE001 - whatever is wrong with tiktoken, tokens can be estimated
            _log.warning("tiktoken's vocabulary %s cannot be used", name, exc_info=True)
    return None


def _at_most_estimated(encode: Encode, text: str) -> Sequence[int]:
    """Encode with an older vocabulary; of more tokens than a current one is estimated to need, only so many."""
    return encode(text)[: estimate_tokens(text)]


class StoredCalibrations(BatchWriter[str]):
    """The calibrations of one worker: in memory for the requests, in the database for the next start.

    Each worker learns by itself, and begins with what any of them wrote last.
    """

    def __init__(self, database: Database) -> None:
        super().__init__("calibration of counts", self._save)
        self._database = database
        self._table = database.tables.calibration
        self._upsert = database.prepared_upsert(self._table)
        self._known: dict[str, Calibration] = {}

    async def find(self, model_id: str) -> Calibration | None:
        """Return what the bills so far have taught, None when there was none yet; asks the database once per model."""
        if model_id not in self._known:
            query = sa.select(self._table.c.state).where(self._table.c.model == model_id)
            try:
                found = await self._database.read(query)
                stored = Calibration.from_json(found[0].state) if found else Calibration()
            except Exception as error:  # noqa: BLE001 - no answer is to fail for want of its calibration
                # What little is learned meanwhile must not replace what is stored: the model stays unknown.
                _log.warning("the calibration of %s could not be read: %s", model_id, error)
                return None
            self._known.setdefault(model_id, stored)
        known = self._known[model_id]
        return None if known == Calibration() else known

    def learn(self, model_id: str, counts: TokenCounts, billed_tokens: int) -> None:
        """Learn from what was billed for a request with these counts; before `find` has succeeded, nothing."""
        if (before := self._known.get(model_id)) is None:
            return
        after = self._known[model_id] = before.observed(counts, billed_tokens)
        if after is not before:
            self.write(model_id)

    async def _save(self, model_ids: Sequence[str]) -> None:
        now = epoch_seconds()
        # In the same order in all workers, so that two of them cannot wait for each other.
        values = [
            {"model": model_id, "state": self._known[model_id].as_json(), "updated": now}
            for model_id in sorted(set(model_ids))
        ]
        await self._database.change(self._upsert, values)
