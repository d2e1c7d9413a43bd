"""Brings back the artifacts that a history's markers name, in one load, and words what could not be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..history.artifacts import LoadedArtifact
from ..ports import ArtifactStore, HoleReason, Loaded

_REASONS: Mapping[HoleReason, str] = {
    "missing": "no longer stored",
    "unreadable": "sealed with another key, or damaged",
    "too_large": "over the size limit",
    "unavailable": "the store is away",
}


@dataclass(frozen=True, slots=True)
class Rehydrated:
    """The artifacts by marker, and why the others are missing."""

    artifacts: Mapping[str, LoadedArtifact]
    holes: Mapping[str, HoleReason]


async def rehydrate(store: ArtifactStore, user_id: str, wanted: Sequence[str]) -> Rehydrated:
    """Load everything that is wanted at once; asks nothing when nothing is."""
    loaded = await store.load(user_id, wanted) if wanted else Loaded()
    artifacts = {
        ulid: LoadedArtifact(item=artifact.item, model=artifact.model)
        for ulid, artifact in loaded.artifacts.items()
    }
    return Rehydrated(artifacts, loaded.holes)


def describe_holes(reasons: Sequence[HoleReason]) -> str:
    """One status line for the user about stored items that could not be reloaded."""
    counted = Counter(reasons).most_common()
    details = ", ".join(f"{count} {_REASONS[reason]}" for reason, count in counted)
    total = len(reasons)
    return f"{total} stored item{'s' if total > 1 else ''} could not be reloaded ({details})."
