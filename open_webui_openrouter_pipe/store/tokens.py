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

_UNTAUGHT: Final = Calibration(), 0

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
    """What each worker has learned, in its memory; and what is stored, by which all workers limit requests.

    That moves at once to a lower limit, but back by steps alone: every change may cut chats anew. A worker that finds
    another's change goes on from that.
    """

    gathering_seconds = 0.0

    def __init__(self, database: Database) -> None:
        super().__init__("calibration of counts", self._save)
        self._database = database
        self._table = database.tables.calibration
        self._stored: dict[str, tuple[Calibration, int]] = {}
        """By model, with the time of the row; the own change before it is written, too."""
        self._learned: dict[str, Calibration] = {}
        self._written: dict[str, int] = {}
        """By model, the time of the own row that was written last, or may be: its answer can be lost."""

    async def find(self, model_id: str) -> Calibration:
        """Return what the bills so far have taught; asks the database once per model."""
        if model_id not in self._learned:
            await self.stored(model_id)
        return self._learned.get(model_id, Calibration())

    async def stored(self, model_id: str) -> Calibration:
        """Ask the database what is stored; while it is unavailable, that is what was last."""
        columns = self._table.c
        query = sa.select(columns.state, columns.updated).where(columns.model == model_id)
        try:
            rows = await self._database.read(query)
            found = (Calibration.from_json(rows[0].state), rows[0].updated) if rows else _UNTAUGHT
        except Exception as error:  # noqa: BLE001 - no answer is to fail for want of its calibration
            # What little is learned meanwhile must not replace what is stored: the model stays unknown.
            _log.warning("the calibration of %s could not be read: %s", model_id, error)
            return self._stored.get(model_id, _UNTAUGHT)[0]
        if model_id not in self._stored or found[1] != self._stored[model_id][1]:
            self._stored[model_id], self._learned[model_id] = found, found[0]
        return self._stored[model_id][0]

    def learn(self, model_id: str, counts: TokenCounts, billed_tokens: int) -> None:
        """Learn from what was billed for a request with these counts; before `find` has succeeded, nothing."""
        if (before := self._learned.get(model_id)) is None:
            return
        after = self._learned[model_id] = before.observed(counts, billed_tokens)
        stored, version = self._stored[model_id]
        if after.is_beyond(stored):
            self._stored[model_id] = after, version
            self.write(model_id)

    async def _save(self, model_ids: Sequence[str]) -> None:
        for model_id in sorted({*model_ids}):
            after, version = self._stored[model_id]
            now = max(epoch_seconds(), version + 1)
            known = version, self._written.get(model_id, version)
            self._written[model_id] = now
            upsert = self._database.upsert(self._table, where=self._table.c.updated.in_(known))
            values = {"model": model_id, "state": after.as_json(), "updated": now}
            if await self._database.change(upsert.values(values)):
                self._stored[model_id] = self._stored[model_id][0], now
            else:  # another worker came first
                await self.stored(model_id)
