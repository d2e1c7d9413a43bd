"""A turn: what is loaded, stored, marked, retried, reported and forgotten, in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.engine.channel import OutputChannel
from open_webui_openrouter_pipe.engine.fit import RequestFitter, RequestTerms
from open_webui_openrouter_pipe.engine.recorder import Persistence, RequestOrigin
from open_webui_openrouter_pipe.engine.round import Ports
from open_webui_openrouter_pipe.engine.turn import SeenOnce, Turn, TurnRequest
from open_webui_openrouter_pipe.errors import (
    ConnectionFailed,
    ContextTooLong,
    PipeError,
    ReasoningRejected,
    StoreUnavailable,
    StreamBroken,
)
from open_webui_openrouter_pipe.planning.plan import CacheMarks, ModelTerms, Plan
from open_webui_openrouter_pipe.ports import (
    Artifact,
    Event,
    Failed,
    LoadedArtifacts,
    MissingReason,
    Notice,
    Output,
    RequestBody,
    StoredMarkers,
)
from open_webui_openrouter_pipe.responses.effects import ItemFinished, ItemStarted, ResponseFailed, TextDelta
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.items import Item, Reasoning
from tests.support.services import FakeServices as Books

pytestmark = pytest.mark.anyio

OLD = "0000000000000000000A"
ORIGIN = RequestOrigin(user_id="u", chat_id="c", message_id="m", model="openai/gpt-5.2")
KEEPING = Persistence(reasoning="conversation", tools=True)
OLD_THOUGHT = Reasoning(type="reasoning", id="rs_old", summary=[], encrypted_content="old")
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
FIRST_TURN = [{"role": "user", "content": "one"}]
SECOND_TURN = [
    *FIRST_TURN,
    {"role": "assistant", "content": f"[{OLD}]: #\n\nHi"},
    {"role": "user", "content": "two"},
]

LONG_CHAT = [
    *(
        message
        for number in range(30)
        for message in (
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "content": "word " * 2000},
        )
    ),
    {"role": "user", "content": "and now?"},
]


def answer(*items: dict[str, Any]) -> list[Event]:
    """A stream that tells each item whole."""
    events: list[Event] = []
    for index, item in enumerate(items):
        kinds_ = ("added", "done")
        events += [
            {"type": f"response.output_item.{kind}", "output_index": index, "item": item} for kind in kinds_
        ]
    return [
        *events,
        {"type": "response.completed", "response": {"status": "completed", "output": list(items)}},
    ]


class FakeStore:
    """Keeps artifacts in a dict and writes down what happens to it, together with the outlet's outputs."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.held: dict[str, Artifact] = {}
        self.away = False
        self.loads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        await self.gate.wait()
        if self.away:
            raise StoreUnavailable("away")
        self.held.update({artifact.id: artifact for artifact in artifacts})
        self.log.append(("put", [artifact.kind for artifact in artifacts]))

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        self.loads += 1
        found = {ulid: self.held[ulid] for ulid in ids if ulid in self.held}
        reason: MissingReason = "unreadable"
        return LoadedArtifacts(found, {ulid: reason for ulid in ids if ulid not in found})

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.log.append(("delete", list(ids)))


class FakeOpenRouter:
    """Gives one prepared stream, or error, for each request."""

    def __init__(self, *streams: list[Event] | PipeError, breaks: StreamBroken | None = None) -> None:
        self.streams = list(streams)
        self.bodies: list[RequestBody] = []
        self.breaks = breaks

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        self.bodies.append(body)
        prepared = self.streams.pop(0)
        if isinstance(prepared, PipeError):
            raise prepared
        yield self._events(prepared)

    async def _events(self, prepared: list[Event]) -> AsyncIterator[Event]:
        for event in prepared:
            yield event
        if self.breaks is not None:
            raise self.breaks

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        raise AssertionError

    def explain(self, failure: Failure) -> PipeError:
        return PipeError(f"explained: {failure.message}")


class FakeRequests:
    def build(self, items: Sequence[Item], marks: CacheMarks | None = None) -> RequestBody:
        return {"input": list(items)}

    def build_aside(
        self, items: Sequence[Item], marks: CacheMarks | None = None, *, output_tokens: int
    ) -> RequestBody:
        raise AssertionError

    def host_tool_name(self, name: str) -> str:
        return name


class Watched(RequestFitter):
    """A fitting that writes down for which plans the next summary was to be made."""

    prepared: list[Plan]

    def prefetch(self, sent: Plan) -> None:
        self.prepared.append(sent)


class Scene:
    """A turn with fakes around it."""

    def __init__(
        self,
        router: FakeOpenRouter,
        messages: list[dict[str, Any]] | None = None,
        *,
        keeping: Persistence = KEEPING,
        reported: SeenOnce | None = None,
    ) -> None:
        self.router = router
        self.log: list[Any] = []
        self.store = FakeStore(self.log)
        self.question = TurnRequest(messages or FIRST_TURN, ORIGIN, keeping)
        self.reported = reported or SeenOnce()
        self.prepared: list[Plan] = []
        self.books = Books()
        self.means = self.books.planner()
        self.terms = RequestTerms(ContextSettings(), ModelTerms(ORIGIN.model, 100_000))

    def hold_old_thought(self) -> None:
        self.store.held[OLD] = Artifact(OLD, "u", "c", "m0", "reasoning", ORIGIN.model, OLD_THOUGHT)

    def turn(self, outlet: OutputChannel, new_id: Callable[[], str]) -> Turn:
        ports = Ports(self.router, FakeRequests(), self.store, new_id)
        fitting = Watched(self.means, self.terms, ORIGIN)
        fitting.prepared = self.prepared
        return Turn(self.question, ports, outlet, reported=self.reported, fitting=fitting)

    async def play(self) -> list[Output]:
        outlet = OutputChannel(interval_seconds=0)
        numbers = count(1)
        task = asyncio.create_task(self.turn(outlet, lambda: f"id{next(numbers)}").run())
        outputs = []
        async for output in outlet.drain():
            outputs.append(output)
            self.log.append(output)
        await task
        return outputs


def kinds(outputs: Sequence[Any]) -> list[str]:
    return [type(output).__name__ for output in outputs if not isinstance(output, tuple)]


async def test_no_marker_is_shown_before_its_artifact_is_durable() -> None:
    """While the store writes, neither the marker nor the text behind it is handed on."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, TEXT)))
    scene.store.gate.clear()
    playing = asyncio.create_task(scene.play())
    await asyncio.sleep(0.01)
    while_writing = kinds(scene.log)
    scene.store.gate.set()
    shown = ["ItemStarted", "ItemFinished"]
    assert while_writing == shown
    rest = ["StoredMarkers", "ItemStarted", "TextDelta", "ItemFinished", "ResponseFinished"]
    assert kinds(await playing) == [*shown, *rest]


async def test_markers_of_calls_stand_at_the_end_of_the_round() -> None:
    """Reasoning and calls of a run are stored in one batch."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, CALL)))
    outputs = await scene.play()
    assert StoredMarkers(("id1", "id2")) in outputs
    assert ("put", ["reasoning", "function_call"]) in scene.log


async def test_all_markers_are_loaded_at_once_and_replayed_in_place() -> None:
    """The request carries the stored item, untouched, before the text that it led to."""
    scene = Scene(FakeOpenRouter(answer(TEXT)), SECOND_TURN)
    scene.hold_old_thought()
    await scene.play()
    types = [item["type"] for item in scene.router.bodies[0]["input"]]
    assert (scene.store.loads, types) == (1, ["message", "reasoning", "message", "message"])
    assert scene.router.bodies[0]["input"][1] == OLD_THOUGHT


async def test_a_chat_without_markers_asks_the_store_nothing() -> None:
    """No query is made for nothing."""
    scene = Scene(FakeOpenRouter(answer(TEXT)))
    await scene.play()
    assert scene.store.loads == 0


async def test_rejected_reasoning_is_left_out_once() -> None:
    """The second request goes without it, and the user is told."""
    scene = Scene(FakeOpenRouter(ReasoningRejected("no"), answer(TEXT)), SECOND_TURN)
    scene.hold_old_thought()
    outputs = await scene.play()
    replayed = [[item["type"] for item in body["input"]] for body in scene.router.bodies]
    assert replayed == [["message", "reasoning", "message", "message"], ["message", "message", "message"]]
    assert kinds(outputs)[0] == "Notice"
    assert kinds(outputs)[-1] == "ResponseFinished"


async def test_rejected_reasoning_without_replay_is_an_error() -> None:
    """There is nothing to leave out, so asking again would be useless."""
    scene = Scene(FakeOpenRouter(ReasoningRejected("no")))
    assert await scene.play() == [Failed("no")]


async def test_a_failed_stream_keeps_what_arrived_and_is_explained() -> None:
    """The text comes first, then the failure, then its explanation, and nothing after it."""
    failed: list[Event] = [
        {
            "type": "response.output_text.delta",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "delta": "Hi",
        },
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boom"}}},
    ]
    outputs = await Scene(FakeOpenRouter(failed)).play()
    assert kinds(outputs) == ["ItemStarted", "TextDelta", "ItemFinished", "ResponseFailed", "Failed"]
    assert outputs[-1] == Failed("explained: boom")


async def test_a_lost_connection_ends_with_its_own_line() -> None:
    """The items that were open are finished first."""
    started: list[Event] = [
        {
            "type": "response.output_text.delta",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "delta": "Hi",
        }
    ]
    router = FakeOpenRouter(started, breaks=StreamBroken("The connection was lost."))
    outputs = await Scene(router).play()
    assert kinds(outputs) == ["ItemStarted", "TextDelta", "ItemFinished", "ResponseFailed", "Failed"]
    assert outputs[-1] == Failed("The connection was lost.")


async def test_an_unreachable_server_is_one_line() -> None:
    """Nothing else is shown."""
    assert await Scene(FakeOpenRouter(ConnectionFailed("No way."))).play() == [Failed("No way.")]


async def test_an_unexpected_error_is_one_line_without_details() -> None:
    """The log has the rest."""
    scene = Scene(FakeOpenRouter())
    assert await scene.play() == [
        Failed("The pipe met an unexpected error; the server's log has the details.")
    ]


async def test_a_store_that_is_away_costs_markers_not_the_answer() -> None:
    """The text arrives, no marker is shown, and the user is told once."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, TEXT)))
    scene.store.away = True
    outputs = await scene.play()
    assert "StoredMarkers" not in kinds(outputs)
    assert kinds(outputs).count("Notice") == 1
    assert any(isinstance(output, TextDelta) and output.delta == "Hi" for output in outputs)


async def test_a_hole_is_reported_once() -> None:
    """The line says why; asking again in the same chat does not repeat it."""
    reported = SeenOnce()
    first = await Scene(FakeOpenRouter(answer(TEXT)), SECOND_TURN, reported=reported).play()
    second = await Scene(FakeOpenRouter(answer(TEXT)), SECOND_TURN, reported=reported).play()
    told = "1 stored item could not be reloaded (1 sealed with another key, or damaged)."
    assert first[0] == Notice(told)
    assert "Notice" not in kinds(second)


NEXT_REPLY = Persistence(reasoning="next_reply", tools=True)


async def test_next_reply_forgets_what_was_replayed_once_the_turn_ends_well() -> None:
    """The reasoning of the earlier turn is deleted after the answer."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, TEXT)), SECOND_TURN, keeping=NEXT_REPLY)
    scene.hold_old_thought()
    await scene.play()
    assert ("delete", [OLD]) in scene.log


@pytest.mark.parametrize("stream", [answer(THOUGHT, CALL), answer(TEXT)[:1]])
async def test_next_reply_keeps_what_a_later_round_still_needs(stream: list[Event]) -> None:
    """A round that ends in a call, and one that broke, have not ended the turn."""
    scene = Scene(FakeOpenRouter(stream), SECOND_TURN, keeping=NEXT_REPLY)
    scene.hold_old_thought()
    await scene.play()
    assert ("delete", [OLD]) not in scene.log


async def test_next_reply_says_nothing_of_reasoning_that_is_gone_by_design() -> None:
    """Leftover markers make no noise."""
    scene = Scene(FakeOpenRouter(answer(TEXT)), SECOND_TURN, keeping=NEXT_REPLY)
    assert "Notice" not in kinds(await scene.play())


async def test_a_cut_off_answer_says_so() -> None:
    """The notice comes before the end."""
    cut: list[Event] = [
        {
            "type": "response.incomplete",
            "response": {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "output": [TEXT],
            },
        }
    ]
    outputs = await Scene(FakeOpenRouter(cut)).play()
    assert kinds(outputs)[-2:] == ["Notice", "ResponseFinished"]


async def test_items_that_were_started_are_finished() -> None:
    """Whatever the stream does, the host never keeps half an item."""
    outputs = await Scene(FakeOpenRouter(answer(THOUGHT, TEXT)[:3])).play()
    started = [output.index for output in outputs if isinstance(output, ItemStarted)]
    finished = [output.index for output in outputs if isinstance(output, ItemFinished)]
    assert started == finished == [0, 1]
    assert isinstance(outputs[-2], ResponseFailed)


@pytest.mark.parametrize("items", [[], [THOUGHT]])
async def test_a_turn_without_an_answer_says_so(items: list[dict[str, Any]]) -> None:
    """The user is not left before an empty message."""
    outputs = await Scene(FakeOpenRouter(answer(*items))).play()
    assert kinds(outputs)[-2:] == ["Notice", "ResponseFinished"]


async def test_stop_while_the_store_writes_ends_the_turn() -> None:
    """Nothing more is shown, the outlet closes, and no task is left."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, TEXT)))
    scene.store.gate.clear()
    outlet = OutputChannel(interval_seconds=0)
    turn = asyncio.create_task(scene.turn(outlet, lambda: "id").run())
    await asyncio.sleep(0.01)
    turn.cancel()
    shown = [output async for output in outlet.drain()]
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert kinds(shown) == ["ItemStarted", "ItemFinished"]


async def test_a_writer_that_waits_for_room_can_be_stopped() -> None:
    """A page that no longer reads must not hold the engine for ever."""
    outlet = OutputChannel(interval_seconds=0)

    async def write() -> None:
        while True:
            await outlet.put(Notice("more"))

    writer = asyncio.create_task(write())
    await asyncio.sleep(0.01)
    writer.cancel()
    outcome = await asyncio.wait_for(asyncio.gather(writer, return_exceptions=True), 1)
    assert [type(error) for error in outcome] == [asyncio.CancelledError]


async def test_rejected_reasoning_is_not_offered_again() -> None:
    """The next turn leaves it out from the beginning, and says nothing of it."""
    reported = SeenOnce()
    first = Scene(FakeOpenRouter(ReasoningRejected("no"), answer(TEXT)), SECOND_TURN, reported=reported)
    second = Scene(FakeOpenRouter(answer(TEXT)), SECOND_TURN, reported=reported)
    for scene in (first, second):
        scene.hold_old_thought()
    await first.play()
    outputs = await second.play()
    assert [item["type"] for item in second.router.bodies[0]["input"]] == ["message"] * 3
    assert "Notice" not in kinds(outputs)


async def test_a_provider_that_counts_more_is_asked_once_more_with_less() -> None:
    """The second request leaves old turns out, the user is told, and both requests are recorded."""
    scene = Scene(FakeOpenRouter(ContextTooLong("too long"), answer(TEXT)), LONG_CHAT)
    outputs = await scene.play()
    first, second = (body["input"] for body in scene.router.bodies)
    assert len(second) < len(first)
    assert second[-1] == first[-1]
    assert (kinds(outputs)[0], kinds(outputs)[-1]) == ("Notice", "ResponseFinished")
    assert len(scene.books.written) == 2


async def test_a_provider_that_still_counts_more_is_not_asked_again() -> None:
    """Its own words are the last thing that the user sees."""
    scene = Scene(FakeOpenRouter(ContextTooLong("too long"), ContextTooLong("still too long")), LONG_CHAT)
    outputs = await scene.play()
    assert (kinds(outputs), outputs[-1]) == (["Notice", "Failed"], Failed("still too long"))


async def test_what_cannot_fit_is_never_sent() -> None:
    """The user gets one line that says what takes the room."""
    scene = Scene(FakeOpenRouter(), [{"role": "user", "content": "word " * 100_000}])
    (failed,) = await scene.play()
    assert isinstance(failed, Failed)
    assert "The largest part is: latest message" in failed.message
    assert (scene.router.bodies, len(scene.books.written)) == ([], 1)


async def test_a_stopped_request_is_recorded() -> None:
    """What it would have come to is known; nothing was billed."""
    scene = Scene(FakeOpenRouter(answer(THOUGHT, TEXT)))
    scene.store.gate.clear()
    outlet = OutputChannel(interval_seconds=0)
    turn = asyncio.create_task(scene.turn(outlet, lambda: "id").run())
    await asyncio.sleep(0.01)
    turn.cancel()
    await asyncio.wait({turn})
    assert [record.row.billed_tokens for record in scene.books.written] == [0]


@pytest.mark.parametrize(
    ("stream", "times"),
    [(answer(TEXT), 1), (answer(THOUGHT, CALL), 0), (answer(TEXT)[:1], 0), (ConnectionFailed("no"), 0)],
    ids=["ended", "calls", "broken", "unreachable"],
)
async def test_the_next_summary_is_made_once_a_turn_has_ended(
    stream: list[Event] | PipeError, times: int
) -> None:
    """A request that the next round follows at once is no time for it, nor one that failed."""
    scene = Scene(FakeOpenRouter(stream))
    await scene.play()
    assert len(scene.prepared) == times
