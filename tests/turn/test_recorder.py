"""The recorder: what is kept, durable before its marker, and silent when the store is unavailable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

import pytest

from open_webui_openrouter_pipe.errors import StoreError, StoreUnavailable
from open_webui_openrouter_pipe.ports import Artifact, LoadedArtifacts, RequestOrigin
from open_webui_openrouter_pipe.responses.items import (
    FunctionCall,
    InputMessage,
    Item,
    OpaqueItem,
    Reasoning,
)
from open_webui_openrouter_pipe.turn.recorder import Persistence, Recorder

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin(user_id="u", chat_id="c", message_id="m", model="openai/gpt-5")
EVERYTHING = Persistence(reasoning="conversation", tools=True)
THOUGHT = Reasoning(type="reasoning", id="rs", summary=[], encrypted_content="sealed")
CALL = FunctionCall(type="function_call", call_id="call_1", name="f", arguments="{}")
SEARCH = OpaqueItem(type="web_search_call", id="ws", status="completed")
TEXT = InputMessage(type="message", role="user", content=[])
EVERY_KIND: list[Item] = [THOUGHT, TEXT, CALL, SEARCH]


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
        return LoadedArtifacts()

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Nothing is deleted here."""


def make_recorder(store: FakeStore, persistence: Persistence = EVERYTHING) -> Recorder:
    numbers = count(1)
    return Recorder(store, origin=ORIGIN, persistence=persistence, new_id=lambda: f"id{next(numbers)}")


def artifact(ulid: str, item: Item) -> Artifact:
    return Artifact(ulid, "u", "c", "m", item["type"], "openai/gpt-5", item)


async def test_each_save_is_one_batch_of_everything_kept_since_the_last() -> None:
    """The ids come in the order of the items, once, and messages are not kept."""
    store = FakeStore()
    recorder = make_recorder(store)
    for index, item in enumerate(EVERY_KIND):
        recorder.keep(index, item)
    ids = [await recorder.save(), await recorder.save()]
    batch = (artifact("id1", THOUGHT), artifact("id2", CALL), artifact("id3", SEARCH))
    assert (ids, store.batches) == ([("id1", "id2", "id3"), ()], [batch])


@pytest.mark.parametrize(
    ("persistence", "kinds"),
    [
        (Persistence("disabled", tools=True), ["function_call", "web_search_call"]),
        (Persistence("next_reply", tools=False), ["reasoning"]),
        (Persistence("disabled", tools=False), []),
    ],
)
async def test_settings_decide_what_is_kept(persistence: Persistence, kinds: list[str]) -> None:
    """Reasoning and tool items follow their own settings."""
    store = FakeStore()
    recorder = make_recorder(store, persistence)
    for index, item in enumerate(EVERY_KIND):
        recorder.keep(index, item)
    await recorder.save()
    assert [a.kind for batch in store.batches for a in batch] == kinds


async def test_markers_are_in_the_order_of_their_items() -> None:
    """Calls that run in parallel may be finished in another order than they were begun."""
    store = FakeStore()
    recorder = make_recorder(store)
    recorder.keep(1, CALL)
    recorder.keep(0, THOUGHT)
    assert await recorder.save() == ("id2", "id1")


async def test_a_call_is_kept_under_the_ulid_that_its_id_names() -> None:
    """The id of the call in the chat is then all that is needed to find it."""
    store = FakeStore()
    recorder = make_recorder(store)
    recorder.keep(0, CALL, "named")
    assert (await recorder.save(), store.batches) == (("named",), [(artifact("named", CALL),)])


async def test_an_incomplete_item_is_not_kept() -> None:
    """Half a thought cannot be replayed."""
    recorder = make_recorder(FakeStore())
    recorder.keep(0, Reasoning({**THOUGHT, "status": "incomplete"}))
    assert await recorder.save() == ()


async def test_items_that_no_provider_accepts_are_not_kept() -> None:
    """Items of unknown types, without what the input schema requires, and calls that nobody here can answer."""
    store = FakeStore()
    recorder = make_recorder(store)
    recorder.keep(0, OpaqueItem(type="future_item", id="x", status="completed"))
    recorder.keep(1, OpaqueItem(type="shell_call", id="y", status="completed"))
    unanswered: list[dict[str, Any]] = [
        {"type": "local_shell_call", "action": {}, "call_id": "1", "id": "a", "status": "completed"},
        {"type": "computer_call", "call_id": "2", "pending_safety_checks": [], "status": "completed"},
        {"type": "mcp_approval_request", "arguments": "", "id": "b", "name": "n", "server_label": "s"},
    ]
    for index, item in enumerate(unanswered, 2):
        recorder.keep(index, cast("Item", item))
    assert (await recorder.save(), store.batches) == ((), [])


async def test_an_unavailable_store_shows_no_marker() -> None:
    """The store is asked once for all, the loss is counted, and no id is given out, then or later."""
    store = FakeStore()
    store.unavailable = True
    recorder = make_recorder(store)
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
    recorder = make_recorder(store)
    recorder.keep(0, THOUGHT)
    recorder.keep(1, CALL)
    stored = await recorder.save()
    assert (stored, recorder.lost, store.batches) == (("id1",), 1, [(artifact("id1", THOUGHT),)])


async def test_an_amendment_completes_the_stored_artifact() -> None:
    """An amendment of a saved item is written under the same id; of an unsaved one it simply replaces it."""
    store = FakeStore()
    recorder = make_recorder(store)
    bare = Reasoning(type="reasoning", id="rs", summary=[])
    recorder.keep(0, bare)
    await recorder.save()
    recorder.keep(1, CALL)
    recorder.amend(0, THOUGHT)
    recorder.amend(0, {**CALL, "call_id": ""})  # no item that could be sent: what was stored stays
    recorder.amend(1, {**CALL, "arguments": '{"a":1}'})
    await recorder.save_amendments()
    await recorder.save()
    assert store.batches == [
        (artifact("id1", bare),),
        (artifact("id1", THOUGHT),),
        (artifact("id2", {**CALL, "arguments": '{"a":1}'}),),
    ]
