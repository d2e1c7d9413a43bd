"""The engine's store of artifacts: what is missing and why, limits, changed keys; and those of chats not saved yet."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store import artifacts
from open_webui_openrouter_pipe.store.artifacts import (
    RunningReasoning,
    RunningRows,
    SavedRows,
    SealedArtifacts,
    UnsavedRows,
)
from open_webui_openrouter_pipe.store.sealing import ItemTooLarge, Keyring
from open_webui_openrouter_pipe.store.table import RowStore
from tests.store.contract import KEYRING, StoreContract, artifact, row
from tests.store.fakes import MemoryRows, SwitchedRows

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

pytestmark = pytest.mark.anyio


FIRST, SECOND, THIRD = row(1), row(2), row(3)


class TestMemory(StoreContract):
    @pytest.fixture(params=["fake", "unsaved", "saved"])
    def rows(self, request: pytest.FixtureRequest) -> RowStore:
        """In memory alone, and where unsaved chats are looked through for what is not below."""
        memory, unsaved = MemoryRows(), UnsavedRows()
        saved = SavedRows(memory, unsaved)
        stores: dict[str, RowStore] = {"fake": memory, "unsaved": unsaved, "saved": saved}
        return stores[request.param]


class TestRunningReasoning(StoreContract):
    @pytest.fixture
    def rows(self) -> RowStore:
        return MemoryRows()

    @pytest.fixture
    def store(self, rows: RowStore) -> Any:
        """Of the very message whose artifacts these are."""
        passing = SealedArtifacts(UnsavedRows(), KEYRING)
        return RunningReasoning(SealedArtifacts(rows, KEYRING), passing, artifact(0).message_id)


async def test_reasoning_that_is_not_kept_is_found_by_its_own_message_alone() -> None:
    """What is below stays below: other items, and reasoning that was kept before."""
    below, running = (SealedArtifacts(MemoryRows(), KEYRING) for _ in range(2))
    thought, other, earlier = artifact(0), artifact(1), artifact(5)
    await below.put([earlier])
    own, next_one = (RunningReasoning(below, running, name) for name in (thought.message_id, "message-2"))
    await own.put([thought, other])
    ids, absent = [thought.id, other.id, earlier.id], MissingArtifact()
    kept = {other.id: other, earlier.id: earlier}
    assert await own.load("ada", ids) == {**kept, thought.id: thought}
    assert await next_one.load("ada", ids) == await below.load("ada", ids) == {**kept, thought.id: absent}
    await own.delete("ada", ids)
    assert set((await own.load("ada", ids)).values()) == {absent}


async def test_who_served_an_item_is_sealed_with_it() -> None:
    """The item itself comes back as it was, and a row without that knowledge as well."""
    rows = MemoryRows()
    store = SealedArtifacts(rows, KEYRING)
    known = replace(artifact(0), provider="Google AI Studio", prompt="0123", before="4567")
    await store.put([known, artifact(1)])
    assert await store.load("ada", [known.id, artifact(1).id]) == {
        known.id: known,
        artifact(1).id: artifact(1),
    }
    assert b"Studio" not in b"".join(each.payload for each in rows.rows.values())


def text(number: int, length: int) -> Any:
    """An item of about this many bytes of JSON."""
    return {"type": "reasoning", "text": chr(97 + number % 26) * length}


async def test_a_row_that_does_not_open_is_unreadable_and_its_kind_known() -> None:
    """Of an unknown key, which opens again with the old key listed; and one that was moved to another owner."""
    rows = MemoryRows()
    before, after, both = (
        SealedArtifacts(rows, Keyring(keys)) for keys in (["old"], ["new"], ["new", "old"])
    )
    await before.put([artifact(1)])
    await after.put([artifact(2)])
    ids = [artifact(1).id, artifact(2).id]
    unreadable = MissingArtifact("function_call", "unreadable")
    assert await after.load("ada", ids) == {ids[1]: artifact(2), ids[0]: unreadable}
    assert await both.load("ada", ids) == {ids[0]: artifact(1), ids[1]: artifact(2)}
    await rows.put([rows.rows["ada", ids[0]]._replace(user_id="eve")])
    assert await both.load("eve", ids[:1]) == {ids[0]: unreadable}


@pytest.mark.parametrize(
    ("lengths", "limits", "too_large"),
    [([5000, 10], ("MAX_ITEM_BYTES", 1000), 1), ([970] * 10, ("MAX_LOAD_BYTES", 3000), 7)],
    ids=["an item over a lowered limit", "more than one load may hold"],
)
async def test_what_is_over_a_limit_is_missing_and_its_kind_known(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], limits: tuple[str, int], too_large: int
) -> None:
    """It stays in the database, and is not opened; of a chat with too many, those of its beginning are missing."""
    rows = MemoryRows()
    created = [artifact(number, text(number, length)) for number, length in enumerate(lengths)]
    await SealedArtifacts(rows, KEYRING).put(created)
    monkeypatch.setattr(artifacts, *limits)
    loaded = await SealedArtifacts(rows, KEYRING).load("ada", [each.id for each in created])
    missing = {each.id: MissingArtifact("reasoning", "too_large") for each in created[:too_large]}
    assert loaded == {**missing, **{each.id: each for each in created[too_large:]}}


async def test_an_item_over_the_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """`put` raises and stores nothing of it."""
    monkeypatch.setattr(artifacts, "MAX_ITEM_BYTES", 128)
    store = SealedArtifacts(MemoryRows(), KEYRING)
    await store.put([artifact(1, text(1, 98))])
    with pytest.raises(ItemTooLarge):
        await store.put([artifact(2, text(1, 99))])


async def test_an_unavailable_store_fails_writing_and_not_reading() -> None:
    """What cannot be loaded is missing; writing and deleting raise, and nothing is kept for later."""
    rows = SwitchedRows()
    store = SealedArtifacts(rows, KEYRING)
    unavailable = MissingArtifact(None, "unavailable")
    assert await store.load("ada", ["1", "2"]) == {"1": unavailable, "2": unavailable}
    for work in (store.put([artifact(1)]), store.delete("ada", ["1"])):
        with pytest.raises(StoreUnavailable):
            await work
    rows.below = MemoryRows()
    assert await store.load("ada", [artifact(1).id]) == {artifact(1).id: MissingArtifact()}


async def test_other_tasks_run_while_many_artifacts_are_opened() -> None:
    """Opening 500 artifacts leaves the event loop to others many times in between."""
    store = SealedArtifacts(MemoryRows(), KEYRING)
    created = [artifact(number, text(number, 2500)) for number in range(500)]
    await store.put(created)
    loading, runs = asyncio.create_task(store.load("ada", [each.id for each in created])), 0
    while not loading.done():
        await asyncio.sleep(0)
        runs += 1
    assert (len(await loading), runs > 500 * 2500 / 65_536) == (500, True)


class WatchedKeyring(Keyring):
    """Records in which threads it is used."""

    def __init__(self) -> None:
        super().__init__(["key"])
        self.threads: list[int] = []

    def cipher(self, key_id: str) -> AESGCM:
        self.threads.append(threading.get_ident())
        return super().cipher(key_id)


@pytest.mark.parametrize(("characters", "in_a_thread"), [(2_000_000, True), (100, False)])
async def test_a_large_item_is_sealed_and_opened_in_a_thread(characters: int, in_a_thread: bool) -> None:  # noqa: FBT001
    """The event loop is free meanwhile; for a small item a thread would cost more than it saves."""
    keyring = WatchedKeyring()
    store = SealedArtifacts(MemoryRows(), keyring)
    noise = "".join(map(chr, random.Random(1).choices(range(33, 4099), k=characters)))
    created = artifact(1, {"type": "reasoning", "text": noise})
    await store.put([created])
    assert await store.load("ada", [created.id]) == {created.id: created}
    assert [thread != threading.get_ident() for thread in keyring.threads] == [in_a_thread] * 2


async def test_of_too_many_bytes_the_rows_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was replaced or deleted counts no more."""
    monkeypatch.setattr(artifacts, "MAX_UNSAVED_BYTES", len(FIRST.payload) + len(SECOND.payload))
    rows = UnsavedRows()
    for _ in range(3):
        await rows.put([FIRST])
    await rows.put([THIRD])
    await rows.delete("ada", [THIRD.id])
    await rows.put([SECOND])
    await rows.load("ada", [FIRST.id])
    await rows.put([THIRD])
    found = await rows.load("ada", [FIRST.id, SECOND.id, THIRD.id])
    assert found == {FIRST.id: FIRST, THIRD.id: THIRD}


async def test_a_saved_chat_has_its_rows_made_durable() -> None:
    """With the first load; they are found below from then on, and what is deleted is nowhere any more."""
    below, unsaved = MemoryRows(), UnsavedRows()
    await below.put([FIRST])
    await unsaved.put([SECOND])
    rows, ids = SavedRows(below, unsaved), [FIRST.id, SECOND.id, THIRD.id]
    found = await rows.load("ada", ids)
    assert found == {FIRST.id: FIRST, SECOND.id: SECOND}
    assert await below.load("ada", ids) == found
    await rows.delete("ada", ids[:2])
    assert await rows.load("ada", ids) == {}


async def test_rows_in_memory_are_found_while_the_database_is_unavailable() -> None:
    """The others are unavailable, and the next load makes those in memory durable."""
    below, unsaved = SwitchedRows(), UnsavedRows()
    await unsaved.put([SECOND])
    rows = SavedRows(below, unsaved)
    found = await rows.load("ada", [FIRST.id, SECOND.id])
    assert found == {FIRST.id: None, SECOND.id: SECOND}
    below.below = MemoryRows()
    await rows.load("ada", [SECOND.id])
    assert list(await below.load("ada", [SECOND.id])) == [SECOND.id]


async def test_the_next_turn_of_a_chat_drops_what_an_earlier_one_left_in_memory() -> None:
    """It was stopped or has failed; answers side by side are one turn, and other chats and users have theirs."""
    running = SealedArtifacts(RunningRows(), KEYRING)
    left, beside, elsewhere, other_user, later = (
        replace(artifact(5 * number), message_id=f"answer-{number}") for number in range(5)
    )
    elsewhere, other_user = replace(elsewhere, chat_id="chat-2"), replace(other_user, user_id="eve")
    turns = [(left, "one"), (beside, "one"), (elsewhere, "else"), (other_user, "eve's"), (later, "two")]
    kept = []
    for each, turn in turns:
        await RunningReasoning(SealedArtifacts(MemoryRows(), KEYRING), running, turn).put([each])
        found = [(await running.load(one.user_id, [one.id]))[one.id] for one, _ in turns]
        kept.append([isinstance(one, Artifact) for one in found])
    assert kept[3] == [True, True, True, True, False]
    assert kept[4] == [False, False, True, True, True]
