"""The recorder: what is kept (see `calls.txt`), durable before its marker, and silent without a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import StoreError, StoreUnavailable
from open_webui_openrouter_pipe.ports import Artifact, LoadedArtifacts, RequestOrigin
from open_webui_openrouter_pipe.responses.items import FunctionCall, InputMessage, Item, OpaqueItem, Reasoning
from open_webui_openrouter_pipe.turn.recorder import Persistence, Recorder
from tests.support.rows import rows

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin(user_id="u", chat_id="c", message_id="m", model="openai/gpt-5")
BARE = Reasoning(type="reasoning", id="rs", summary=[])
THOUGHT = Reasoning(type="reasoning", id="rs", summary=[], encrypted_content="sealed")
CALL = FunctionCall(type="function_call", call_id="call_1", name="f", arguments="{}")
ITEMS: dict[str, Item] = {
    "THOUGHT": THOUGHT,
    "CALL": CALL,
    "SEARCH": OpaqueItem(type="web_search_call", id="ws", status="completed"),
    "TEXT": InputMessage(type="message", role="user", content=[]),
}


class FakeStore:
    """Keeps what is put; `refused_kinds` are items that it can never store."""

    def __init__(self) -> None:
        self.batches: list[tuple[Artifact, ...]] = []
        self.unavailable = False
        self.puts = 0
        self.refused_kinds: set[str] = set()

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        self.puts += 1
        if self.unavailable:
            raise StoreUnavailable("unavailable")
        if any(artifact.kind in self.refused_kinds for artifact in artifacts):
            raise StoreError("too large")
        self.batches.append(tuple(artifacts))

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        raise AssertionError

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        raise AssertionError


def recorder_of(store: FakeStore, reasoning: Any = "conversation", *, tools: bool = True) -> Recorder:
    numbers = count(1)
    persistence = Persistence(reasoning, tools=tools)
    return Recorder(store, origin=ORIGIN, persistence=persistence, new_id=lambda: f"id{next(numbers)}")


def artifact(ulid: str, item: Item) -> Artifact:
    return Artifact(ulid, "u", "c", "m", item["type"], "openai/gpt-5", item)


@pytest.mark.parametrize(
    ("reasoning", "tools", "items", "kinds"), rows(Path(__file__).parent / "calls.txt", "kept", ITEMS)
)
async def test_what_may_be_replayed_and_is_wanted_is_kept(
    reasoning: str, items: list[Item], kinds: list[str], *, tools: bool
) -> None:
    """Each save is one batch of everything since the last, and returns its ids once, in the order of the items."""
    store = FakeStore()
    recorder = recorder_of(store, reasoning, tools=tools)
    for index, item in enumerate(items):
        recorder.keep(index, item)
    ids = [await recorder.save(), await recorder.save()]
    kept = [artifact(f"id{at}", item) for at, item in enumerate((i for i in items if i["type"] in kinds), 1)]
    assert [each.kind for each in kept] == kinds
    assert ids == [tuple(each.id for each in kept), ()]
    assert store.batches == ([tuple(kept)] if kept else [])


async def test_markers_are_in_the_order_of_their_items() -> None:
    """Calls that run in parallel may be finished in another order; a call is found under what its id names."""
    store = FakeStore()
    recorder = recorder_of(store)
    recorder.keep(2, CALL)
    recorder.keep(1, CALL, "named")
    recorder.keep(0, THOUGHT)
    assert await recorder.save() == ("id2", "named", "id1")


async def test_an_unavailable_store_shows_no_marker() -> None:
    """The store is asked once for all, the loss is counted, and no id is given out, then or later."""
    store = FakeStore()
    store.unavailable = True
    recorder = recorder_of(store)
    recorder.keep(0, THOUGHT)
    recorder.keep(1, CALL)
    first = await recorder.save()
    recorder.amend(0, {**THOUGHT, "encrypted_content": "late"})
    store.unavailable = False
    await recorder.save_amendments()
    assert (first, await recorder.save(), recorder.lost, store.puts, store.batches) == ((), (), 2, 1, [])


async def test_a_refused_item_costs_only_its_own_marker() -> None:
    """An item that can never be stored (too large) is counted, and the others of its batch are stored."""
    store = FakeStore()
    store.refused_kinds = {"function_call"}
    recorder = recorder_of(store)
    recorder.keep(0, THOUGHT)
    recorder.keep(1, CALL)
    stored = await recorder.save()
    assert (stored, recorder.lost, store.batches) == (("id1",), 1, [(artifact("id1", THOUGHT),)])


async def test_an_amendment_completes_the_stored_artifact() -> None:
    """An amendment of a saved item is written under the same id; of an unsaved one it simply replaces it."""
    store = FakeStore()
    recorder = recorder_of(store)
    recorder.keep(0, BARE)
    await recorder.save()
    recorder.keep(1, CALL)
    recorder.amend(0, THOUGHT)
    recorder.amend(0, {**CALL, "call_id": ""})  # no item that could be sent: what was stored stays
    recorder.amend(1, {**CALL, "arguments": '{"a":1}'})
    await recorder.save_amendments()
    await recorder.save()
    amended = artifact("id2", {**CALL, "arguments": '{"a":1}'})
    assert store.batches == [(artifact("id1", BARE),), (artifact("id1", THOUGHT),), (amended,)]
    assert recorder.saved == {0: artifact("id1", THOUGHT), 1: amended}
