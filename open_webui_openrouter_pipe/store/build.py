"""Composes the store's layers: the one place that knows which of them stands on which.

SealedArtifacts      artifacts ↔ sealed rows, limits
└── TouchingRows     notes the use of rows
    └── CachedRows       Redis: what was used a short while ago        (with Redis)
        └── ShelteredRows    Redis: writes while the database is away  (with Redis)
            └── SqlRows          SQLite or PostgreSQL

SealedSummaries      summaries ↔ sealed rows
└── SummaryRows          SQLite or PostgreSQL; claims, and notes of use
"""

from __future__ import annotations

from collections.abc import Callable

from .artifacts import ArtifactLimits, SealedArtifacts, epoch_seconds
from .cache import TIME_TO_LIVE_SECONDS, CachedRows, GuardedRedis
from .database import Database
from .rows import LastUsedRows, RowStore, SqlRows
from .sealing import Sealing
from .shelter import ShelteredRows
from .summaries import SealedSummaries, SummaryRows


def build_rows(
    database: Database,
    *,
    redis: GuardedRedis | None = None,
    cache_seconds: int = TIME_TO_LIVE_SECONDS,
    clock: Callable[[], int] = epoch_seconds,
) -> RowStore:
    """Compose what a process keeps for its whole life; its owner awaits `aclose`."""
    rows: RowStore = SqlRows(database)
    if redis is not None:
        rows = CachedRows(ShelteredRows(rows, redis), redis, time_to_live_seconds=cache_seconds)
    return LastUsedRows(rows, clock)


def build_artifact_store(
    rows: RowStore,
    sealing: Sealing,
    limits: ArtifactLimits | None = None,
    *,
    clock: Callable[[], int] = epoch_seconds,
) -> SealedArtifacts:
    """Compose the engine's store over rows that live longer. Cheap: make another when settings change."""
    return SealedArtifacts(rows, sealing, limits or ArtifactLimits(), clock=clock)


def build_summary_rows(database: Database, *, clock: Callable[[], int] = epoch_seconds) -> SummaryRows:
    """Compose what a process keeps for its whole life; its owner awaits `aclose`."""
    return SummaryRows(database, clock=clock)


def build_summaries(
    rows: SummaryRows, sealing: Sealing, *, clock: Callable[[], int] = epoch_seconds
) -> SealedSummaries:
    """Compose the engine's summaries over rows that live longer; they are sealed, whatever else is not."""
    return SealedSummaries(rows, sealing.keyring, clock=clock)
