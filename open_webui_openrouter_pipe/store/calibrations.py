"""The calibration of each model: in memory for the requests, in the database for the next start.

Each worker learns by itself and begins with what any of them wrote last. Owns the loading (once a model, with a
time limit) and the writing (beside the requests, only the newest state of each model).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from ..conversation.calibration import Calibration
from ..conversation.tokens import TokenCounts
from ..errors import StoreError
from .artifacts import epoch_seconds
from .database import Database
from .tasks import BatchWriter

_LOAD_SECONDS: Final = 2.0
"""How long the first request of a model waits; then it goes on without, and the model is learned anew."""

_log = logging.getLogger(__name__)


class StoredCalibrations:
    """The calibrations of one worker."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._table = database.tables.calibration
        self._known: dict[str, Calibration] = {}
        self._deferred = BatchWriter("calibration of counts", self._save)

    async def find(self, model_id: str) -> Calibration | None:
        """What the bills so far have taught, None when there was none yet; asks the database once a model."""
        if model_id not in self._known:
            loaded = await self._load(model_id)
            if loaded is None:  # not to be written over with what little is learned meanwhile
                return None
            self._known.setdefault(model_id, loaded)
        known = self._known[model_id]
        return known if known.seen else None

    def learn(self, model_id: str, tally: TokenCounts, billed_tokens: int) -> None:
        """Take in what was billed for a request with these counts; before `find` has succeeded, nothing is learned."""
        before = self._known.get(model_id)
        after = before.observed(tally, billed_tokens) if before is not None else None
        if after is not None and after is not before:
            self._known[model_id] = after
            self._deferred.add(model_id)

    async def idle(self) -> None:
        """Wait until all that was learned is written."""
        await self._deferred.idle()

    async def aclose(self) -> None:
        """Let what is under way end."""
        await self._deferred.aclose()

    async def _load(self, model_id: str) -> Calibration | None:
        chosen = sa.select(self._table.c.state).where(self._table.c.model == model_id)
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                state = await self._database.read(lambda connection: connection.scalar(chosen))
        except (StoreError, TimeoutError) as error:
            _log.warning("the calibration of %s could not be read and is not used now: %s", model_id, error)
            return None
        try:
            return Calibration.from_json(json.loads(state)) if state else Calibration()
        except ValueError as error:
            _log.warning("the calibration of %s is unreadable and is learned anew: %s", model_id, error)
            return Calibration()

    async def _save(self, model_ids: Sequence[str]) -> None:
        now = self._clock()
        # In the same order in all workers, so that two of them cannot wait for each other.
        values = [
            {"model": model_id, "state": json.dumps(self._known[model_id].as_json()), "updated": now}
            for model_id in sorted(set(model_ids))
        ]
        upsert = self._database.replacing(self._table)
        await self._database.run(lambda connection: connection.execute(upsert, values))
