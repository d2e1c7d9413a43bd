"""The recorder: what is kept, durable before its marker, and silent about a store that is away."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from open_webui_openrouter_pipe.engine.recorder import Persistence, Recorder, RequestOrigin
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import Artifact, LoadedArtifacts
from open_webui_openrouter_pipe.responses.items import (
    AssistantMessage,
    FunctionCall,
    InputMessage,
    Item,
    OpaqueItem,
    Reasoning,
)

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin(user_id="u", chat_id="c", message_id="m", model="openai/gpt-5")
EVERYTHING = Persistence(reasoning="conversation", tools=True)
THOUGHT = Reasoning(type="reasoning", id="rs", summary=[], encrypted_content="sealed")
CALL = FunctionCall(type="function_call", call_id="call_1", name="f", arguments="{}")
SEARCH = OpaqueItem(type="web_search_call", id="ws", status="completed")
TEXT = InputMessage(type="message", role="user", content=[])
EVERY_KIND: list[Item] = [THOUGHT, TEXT, CALL, SEARCH]


class FakeStore:
    def __init__(self) -> None:
        self.batches: list[tuple[Artifact, ...]] = []
        self.away = False

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.batches.append(tuple(artifacts))

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        return LoadedArtifacts()

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Nothing is deleted here."""


def recorder(store: FakeStore, keeping: Persistence = EVERYTHING) -> Recorder:
    numbers = count(1)
    return Recorder(store, origin=ORIGIN, keeping=keeping, new_id=lambda: f"id{next(numbers)}")


def artifact(ulid: str, item: Item) -> Artifact:
    return Artifact(ulid, "u", "c", "m", item["type"], "openai/gpt-5", item)


async def test_one_batch_holds_everything_kept_since_the_last() -> None:
    """The ids come in the order of the items, once, and messages are not kept."""
    store = FakeStore()
    kept = recorder(store)
    for index, item in enumerate(EVERY_KIND):
        kept.keep(index, item)
    ids = [await kept.save(), await kept.save()]
    batch = (artifact("id1", THOUGHT), artifact("id2", CALL), artifact("id3", SEARCH))
    assert (ids, store.batches) == ([("id1", "id2", "id3"), ()], [batch])


@pytest.mark.parametrize(
    ("keeping", "kinds"),
    [
        (Persistence("disabled", tools=True), ["function_call", "web_search_call"]),
        (Persistence("next_reply", tools=False), ["reasoning"]),
        (Persistence("disabled", tools=False), []),
    ],
)
async def test_settings_decide_what_is_kept(keeping: Persistence, kinds: list[str]) -> None:
    """Reasoning and tool items follow their own settings."""
    store = FakeStore()
    kept = recorder(store, keeping)
    for index, item in enumerate(EVERY_KIND):
        kept.keep(index, item)
    await kept.save()
    assert [a.kind for batch in store.batches for a in batch] == kinds


async def test_markers_stand_in_the_order_of_their_items() -> None:
    """Calls that run in parallel may be finished in another order than they were begun."""
    store = FakeStore()
    kept = recorder(store)
    kept.keep(1, CALL)
    kept.keep(0, THOUGHT)
    assert await kept.save() == ("id2", "id1")


async def test_a_phase_is_kept_where_its_message_begins() -> None:
    """The host keeps a message's text but not its phase."""
    store = FakeStore()
    kept = recorder(store)
    message = AssistantMessage(
        type="message", role="assistant", id="m", status="in_progress", content=[], phase="final_answer"
    )
    kept.keep(0, THOUGHT)
    kept.keep_phase(1, message)
    await kept.save()
    assert [artifact.kind for artifact in store.batches[0]] == ["reasoning", "message"]
    assert store.batches[0][1].item["phase"] == "final_answer"  # type: ignore[typeddict-item]  # a message has one


async def test_what_broke_off_is_not_kept() -> None:
    """Half a thought cannot be replayed."""
    kept = recorder(FakeStore())
    kept.keep(0, Reasoning({**THOUGHT, "status": "incomplete"}))
    assert await kept.save() == ()


async def test_what_nobody_would_take_back_is_not_kept() -> None:
    """Items of unknown types, and those without what the input schema requires of them."""
    store = FakeStore()
    kept = recorder(store)
    kept.keep(0, OpaqueItem(type="future_item", id="x", status="completed"))
    kept.keep(1, OpaqueItem(type="shell_call", id="y", status="completed"))
    assert (await kept.save(), store.batches) == ((), [])


async def test_a_store_that_is_away_shows_no_marker() -> None:
    """Nothing is raised; the loss is counted and no id is given out, then or later."""
    store = FakeStore()
    store.away = True
    kept = recorder(store)
    kept.keep(0, THOUGHT)
    first = await kept.save()
    store.away = False
    assert (first, await kept.save(), kept.lost, store.batches) == ((), (), 1, [])


async def test_what_the_end_adds_completes_the_stored_artifact() -> None:
    """An amendment of a saved item is written under the same id; of an unsaved one it simply replaces it."""
    store = FakeStore()
    kept = recorder(store)
    bare = Reasoning(type="reasoning", id="rs", summary=[])
    kept.keep(0, bare)
    await kept.save()
    kept.keep(1, CALL)
    kept.amend(0, THOUGHT)
    kept.amend(1, {**CALL, "arguments": '{"a":1}'})
    await kept.save_amendments()
    await kept.save()
    assert store.batches == [
        (artifact("id1", bare),),
        (artifact("id1", THOUGHT),),
        (artifact("id2", {**CALL, "arguments": '{"a":1}'}),),
    ]
