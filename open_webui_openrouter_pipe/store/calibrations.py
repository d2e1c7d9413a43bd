"""The calibrations of a worker: what bills have taught of each model's tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import sqlalchemy as sa

from ..conversation.budget import Calibration
from ..conversation.tokens import TokenCounts
from .beside import BatchWriter
from .database import Database, epoch_seconds

_log = logging.getLogger(__name__)


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
