"""Artifacts sealed into rows and opened again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..errors import SealBroken
from ..history.artifacts import MissingArtifact
from ..ports import Artifact, LoadedArtifacts
from .rows import (
    FoundRows,
    RowStore,
    SealedRow,
)
from .sealing import ItemTooLarge, Opened, Sealing, encode_item, seal, unseal

_SLICE_BYTES: Final = 64 * 1024


def epoch_seconds() -> int:
    """The clock of rows."""
    return int(time.time())


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """How large one item, and all items of one load, may be as JSON, in bytes."""

    item_bytes: int = 16 * 1024 * 1024
    load_bytes: int = 64 * 1024 * 1024


class SealedArtifacts:
    """An ArtifactStore over a RowStore. Keeps nothing itself: make a new one when settings change."""

    def __init__(
        self,
        rows: RowStore,
        sealing: Sealing,
        limits: ArtifactLimits,
        *,
        clock: Callable[[], int] = epoch_seconds,
    ) -> None:
        self._rows = rows
        self._sealing = sealing
        self._limits = limits
        self._clock = clock

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        """Seal the artifacts and make all of them durable together.

        Raises StoreUnavailable when neither database nor shelter can be reached, and StoreError when one of
        the artifacts cannot be stored at all (too large, or not JSON): then none is stored.
        """
        now = self._clock()
        sealed: list[SealedRow] = []
        for artifact in artifacts:
            data = encode_item(artifact.item)
            if len(data) > self._limits.item_bytes:
                raise ItemTooLarge("An artifact is too large to be stored.", detail=f"{len(data)} bytes")
            work = partial(seal, artifact, data, self._sealing, now=now)
            sealed.append(await asyncio.to_thread(work) if len(data) > _SLICE_BYTES else work())
        if sealed:
            await self._rows.put(sealed)

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        """Find and open the user's artifacts; `ids` stand in the order of the chat.

        When all together are over the limit, the latest are opened and the earliest become holes. Never
        raises.
        """
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return LoadedArtifacts()
        found = await self._rows.load(user_id, wanted)
        outcomes = await self._open_latest_first(
            found.rows[key] for key in reversed(wanted) if key in found.rows
        )
        artifacts: dict[str, Artifact] = {}
        missing: dict[str, MissingArtifact] = {}
        for key in wanted:
            outcome = outcomes.get(key) or _why_absent(found, key)
            if isinstance(outcome, Opened):
                artifacts[key] = outcome.artifact
            else:
                missing[key] = outcome
        return LoadedArtifacts(artifacts, missing)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Forget the user's artifacts in database, cache and shelter, or raise StoreUnavailable."""
        if wanted := list(dict.fromkeys(ids)):
            await self._rows.delete(user_id, wanted)

    async def _open_latest_first(self, rows: Iterable[SealedRow]) -> dict[str, Opened | MissingArtifact]:
        """Open the rows, large ones in a thread and small ones in slices between which others run."""
        outcomes: dict[str, Opened | MissingArtifact] = {}
        room_bytes, slice_bytes = self._limits.load_bytes, 0
        for row in rows:
            limit_bytes = min(room_bytes, self._limits.item_bytes)
            size_bytes = len(row.payload)
            slice_bytes += size_bytes
            if slice_bytes > _SLICE_BYTES:
                slice_bytes = size_bytes
                await asyncio.sleep(0)
            if size_bytes > _SLICE_BYTES:
                outcome = await asyncio.to_thread(self._open, row, limit_bytes)
            else:
                outcome = self._open(row, limit_bytes)
            outcomes[row.id] = outcome
            room_bytes -= outcome.item_bytes if isinstance(outcome, Opened) else 0
        return outcomes

    def _open(self, row: SealedRow, limit_bytes: int) -> Opened | MissingArtifact:
        try:
            return unseal(row, self._sealing.keyring, limit_bytes=limit_bytes)
        except ItemTooLarge:
            return MissingArtifact(row.kind, "too_large")
        except SealBroken:
            return MissingArtifact(row.kind, "unreadable")


def _why_absent(found: FoundRows, key: str) -> MissingArtifact:
    return MissingArtifact(reason="unavailable" if key in found.away else "missing")
