"""The engine's store: holes, limits, changed keys, and the event loop's share while much is opened."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import ArtifactStore, LoadedArtifacts
from open_webui_openrouter_pipe.store.artifacts import ArtifactLimits, SealedArtifacts
from open_webui_openrouter_pipe.store.memory import MemoryRows
from open_webui_openrouter_pipe.store.sealing import ItemTooLarge, Keyring, Sealing
from tests.store.contract import SEALING, AwayRows, artifact

pytestmark = pytest.mark.anyio


def text(number: int, length: int) -> Any:
    """An item of about this many bytes of JSON."""
    return {"type": "reasoning", "text": chr(97 + number % 26) * length}


async def test_it_is_the_engines_port() -> None:
    """The type checker agrees that it is an ArtifactStore, and it begins empty."""
    store: ArtifactStore = SealedArtifacts(MemoryRows(), SEALING, ArtifactLimits())
    assert await store.load("ada", ["1"]) == LoadedArtifacts({}, {"1": "missing"})


async def test_a_changed_key_makes_holes() -> None:
    """Rows of a key that is no longer there are unreadable; new ones work beside them."""
    rows = MemoryRows()
    before = SealedArtifacts(rows, Sealing(Keyring(["old"])), ArtifactLimits())
    after = SealedArtifacts(rows, Sealing(Keyring(["new"])), ArtifactLimits())
    both = SealedArtifacts(rows, Sealing(Keyring(["new", "old"])), ArtifactLimits())
    await before.put([artifact(1)])
    await after.put([artifact(2)])
    ids = [artifact(1).id, artifact(2).id]
    assert await after.load("ada", ids) == LoadedArtifacts({ids[1]: artifact(2)}, {ids[0]: "unreadable"})
    assert await both.load("ada", ids) == LoadedArtifacts({ids[0]: artifact(1), ids[1]: artifact(2)})


async def test_a_row_of_another_owner_is_unreadable() -> None:
    """Someone who writes to the database cannot give one user's artifact to another."""
    rows = MemoryRows()
    store = SealedArtifacts(rows, SEALING, ArtifactLimits())
    await store.put([artifact(1)])
    (row,) = (await rows.load("ada", [artifact(1).id])).rows.values()
    await rows.put([row._replace(user_id="eve")])
    assert await store.load("eve", [artifact(1).id]) == LoadedArtifacts({}, {artifact(1).id: "unreadable"})


async def test_an_item_over_the_limit_is_refused() -> None:
    """`put` says so, and stores nothing of it."""
    store = SealedArtifacts(MemoryRows(), SEALING, ArtifactLimits(item_bytes=128))
    await store.put([artifact(1, text(1, 98))])
    with pytest.raises(ItemTooLarge):
        await store.put([artifact(2, text(1, 99))])


async def test_a_lowered_limit_makes_holes() -> None:
    """What is larger than today's limit stays in the database, and is not opened."""
    rows = MemoryRows()
    await SealedArtifacts(rows, SEALING, ArtifactLimits()).put(
        [artifact(1, text(1, 5000)), artifact(2, text(2, 10))]
    )
    store = SealedArtifacts(rows, SEALING, ArtifactLimits(item_bytes=1000))
    loaded = await store.load("ada", [artifact(1).id, artifact(2).id])
    assert (list(loaded.artifacts), loaded.missing) == ([artifact(2).id], {artifact(1).id: "too_large"})


async def test_all_together_over_the_limit_keep_the_latest() -> None:
    """When a chat's artifacts are too many, those of its beginning become holes."""
    rows = MemoryRows()
    made = [artifact(number, text(number, 970)) for number in range(10)]
    store = SealedArtifacts(rows, SEALING, ArtifactLimits(load_bytes=3000))
    await store.put(made)
    loaded = await store.load("ada", [each.id for each in made])
    assert list(loaded.artifacts) == [each.id for each in made[7:]]
    assert loaded.missing == {each.id: "too_large" for each in made[:7]}


async def test_a_store_that_is_away_makes_holes() -> None:
    """Reading never raises; writing and deleting do."""
    store = SealedArtifacts(AwayRows(), SEALING, ArtifactLimits())
    assert await store.load("ada", ["1", "2"]) == LoadedArtifacts(
        {}, {"1": "unavailable", "2": "unavailable"}
    )
    with pytest.raises(StoreUnavailable):
        await store.put([artifact(1)])
    with pytest.raises(StoreUnavailable):
        await store.delete("ada", ["1"])


async def test_a_model_is_part_of_the_seal_and_of_the_answer() -> None:
    """Each artifact keeps the model that wrote it."""
    store = SealedArtifacts(MemoryRows(), SEALING, ArtifactLimits())
    other = replace(artifact(1), model="anthropic/claude-opus")
    await store.put([other])
    assert (await store.load("ada", [other.id])).artifacts == {other.id: other}


async def test_others_run_while_much_is_opened() -> None:
    """Opening 2,000 artifacts leaves the event loop to others many times in between."""
    store = SealedArtifacts(MemoryRows(), SEALING, ArtifactLimits())
    made = [artifact(number, text(number, 2500)) for number in range(2000)]
    await store.put(made)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    loaded = await store.load("ada", [each.id for each in made])
    task.cancel()
    assert len(loaded.artifacts) == 2000
    assert turns > 2000 * 2500 / 65_536


async def test_a_large_item_is_opened_beside_the_event_loop() -> None:
    """A payload of many megabytes is sealed and opened in a thread."""
    store = SealedArtifacts(MemoryRows(), SEALING, ArtifactLimits())
    noise = "".join(map(chr, random.Random(1).choices(range(33, 4099), k=2_000_000)))
    large = artifact(1, {"type": "reasoning", "text": noise})
    ticks: list[float] = []

    async def clock() -> None:
        while True:
            ticks.append(time.perf_counter())
            await asyncio.sleep(0.001)

    task = asyncio.create_task(clock())
    await store.put([large])
    loaded = await store.load("ada", [large.id])
    task.cancel()
    assert loaded.artifacts == {large.id: large}
    assert len(ticks) > 5
