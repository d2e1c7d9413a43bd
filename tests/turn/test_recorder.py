"""The recorder: what is kept (see `calls.txt`), durable before its marker, and silent without a store."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.ports import Artifact, RequestOrigin
from open_webui_openrouter_pipe.responses.items import FunctionCall, InputMessage, Item, OpaqueItem, Reasoning
from open_webui_openrouter_pipe.turn.recorder import Persistence, Recorder
from tests.support.rows import rows
from tests.turn.turns import FakeStore

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
        recorder.keep(index, item, item)
    ids = [await recorder.save(), await recorder.save()]
    # Reasoning that will be deleted before its chat has a name that says so.
    short = {"reasoning"} if reasoning != "conversation" else set()
    names = ["Zd" if kind in short else "id" for kind in kinds]
    wanted = zip(names, (item for item in items if item["type"] in kinds), strict=True)
    kept = [artifact(f"{name}{at}", item) for at, (name, item) in enumerate(wanted, 1)]
    assert [each.kind for each in kept] == kinds
    assert ids == [tuple(each.id for each in kept), ()]
    assert store.batches == ([tuple(kept)] if kept else [])


async def test_markers_are_in_the_order_of_their_items() -> None:
    """Calls that run in parallel may be finished in another order; a call is found under what its id names."""
    recorder = recorder_of(FakeStore())
    recorder.for_host(1, CALL)
    for index, item in ((2, THOUGHT), (1, CALL), (0, THOUGHT)):
        recorder.keep(index, item, item)
    assert await recorder.save() == ("id3", "id1", "id2")


@pytest.mark.parametrize(
    ("state", "saved", "lost", "puts"),
    [("away", (), 2, 1), (frozenset({"function_call"}), ("id1",), 1, 3)],
    ids=["unavailable", "a call is too large"],
)
async def test_what_is_not_stored_has_no_marker(
    state: Any, saved: tuple[str, ...], lost: int, puts: int
) -> None:
    """It is counted, and gets none later; the store is asked once for all, then for each that it may take."""
    store = FakeStore(state)
    recorder = recorder_of(store)
    recorder.keep(0, THOUGHT, THOUGHT)
    recorder.keep(1, CALL, CALL)
    first = await recorder.save()
    recorder.keep(1, {**CALL, "arguments": "late"}, CALL)
    store.state = ""
    assert (first, await recorder.save(), recorder.lost, store.puts) == (saved, (), lost, puts)
    assert store.batches == [(artifact(ulid, THOUGHT),) for ulid in saved]


async def test_an_amendment_completes_the_stored_artifact() -> None:
    """An amendment of a saved item is written under the same id, of which no marker is shown; others replace it."""
    store = FakeStore()
    recorder = recorder_of(store)
    recorder.keep(0, BARE, BARE)
    await recorder.save()
    recorder.keep(1, CALL, CALL)
    recorder.keep(0, THOUGHT, THOUGHT)
    recorder.keep(0, {**CALL, "call_id": ""}, CALL)  # no item that could be sent: what was stored stays
    recorder.keep(1, {**CALL, "arguments": '{"a":1}'}, CALL)
    assert await recorder.save() == ("id2",)
    amended = artifact("id2", {**CALL, "arguments": '{"a":1}'})
    assert store.batches == [(artifact("id1", BARE),), (artifact("id1", THOUGHT), amended)]
    assert recorder.saved == {0: artifact("id1", THOUGHT), 1: amended}


@pytest.mark.parametrize(
    ("maker", "next_kind", "tools", "is_sealed"),
    [
        ("openai-responses-v1", "future_item", True, False),
        ("openai-responses-v1", "computer_call", True, False),
        ("openai-responses-v1", "web_search_call", False, False),
        ("openai-responses-v1", "web_search_call", True, True),
        ("openai-responses-v1", "openrouter:future", True, True),
        ("openai-responses-v1", "function_call", False, True),
        ("openai-responses-v1", "message", True, True),
        ("anthropic-claude-v1", "future_item", True, True),
    ],
)
async def test_openais_thought_before_what_is_never_sent_again_loses_its_seal(
    maker: str, next_kind: str, *, tools: bool, is_sealed: bool
) -> None:
    """OpenAI refuses it without what came next; so also one that is durable, or complete with the end alone."""
    store, sealed = FakeStore(), Reasoning(**THOUGHT, format=maker)
    recorder = recorder_of(store, tools=tools)
    bare = Reasoning(type="reasoning", id="rs", summary=[], format=maker)
    recorder.keep(0, bare, bare)
    after = OpaqueItem(type=next_kind, id="x", status="completed")
    recorder.keep(1, after, after)
    recorder.keep(2, sealed, sealed)
    await recorder.save()
    recorder.keep(0, sealed, sealed)
    recorder.note_writer("", "")
    await recorder.save()
    seals = [recorder.saved[index].item.get("encrypted_content") for index in (0, 2)]
    assert seals == ["sealed" if is_sealed else None, "sealed"]
