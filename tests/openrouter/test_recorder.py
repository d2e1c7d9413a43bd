"""What is written while a recording runs, and that it changes nothing of what is sent and answered."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.openrouter import recorder as recorder_module
from open_webui_openrouter_pipe.openrouter import recordings as recordings_module
from open_webui_openrouter_pipe.openrouter.recorder import ExchangeRecorder
from open_webui_openrouter_pipe.openrouter.recordings import Recordings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

pytestmark = pytest.mark.anyio

URL = "https://openrouter.example/api/v1/responses"
SENT = {"model": "openai/gpt-5.2", "input": "Where is Ada?", "stream": True}
FRAMES = [
    {"type": "response.created", "response": {"id": "gen-1785882268-KFW49Urm", "status": "in_progress"}},
    {"type": "response.output_text.delta", "delta": "In Paris."},
    {"type": "response.completed", "response": {"status": "completed", "usage": {"cost": 0.02}}},
]
STREAM = b": OPENROUTER PROCESSING\n\n" + b"".join(
    b"data: %s\n\n" % json.dumps(each).encode() for each in FRAMES
)
ENDED = STREAM + b"data: [DONE]\n\n"
KEPT = {
    "content-type": "text/event-stream",
    "x-generation-id": "gen-1785882268-KFW49Urm",
    "x-request-id": "req_0123abcd",
    "x-openrouter-cache-status": "MISS",
    "x-ratelimit-limit": "50",
    "x-ratelimit-remaining": "7",
    "x-ratelimit-reset": "1741305600000",
    "retry-after": "18",
}
STREAMED = {**KEPT, "set-cookie": "c", "cf-ray": "8f1"}
SENT_HEADERS = {"x-openrouter-metadata": "enabled", "x-anthropic-beta": "interleaved-thinking-2025-05-14"}
EVENTS = [FRAMES[0], {"type": "response.output_text.delta", "delta": "x" * 9}, FRAMES[2]]


class Wire(httpx.AsyncByteStream):
    """Bytes that come in portions, as over a network."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 64):
            yield self._content[start : start + 64]


def reply(content: bytes, status: int = 200, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    """What answers every request so; its headers are those of a stream if there are no others."""
    return lambda _: httpx.Response(status, headers=headers or STREAMED, stream=Wire(content))


class Exchanges:
    """A client that records, and what it has written."""

    def __init__(self, folder: Path, handle: Callable[[httpx.Request], httpx.Response]) -> None:
        self.recordings = Recordings(folder / "recordings")
        self.recordings.begin(1000.0, minutes=10)
        self.seconds = 1000.0
        self.tasks: list[asyncio.Task[None]] = []
        self.below = httpx.AsyncClient(transport=httpx.MockTransport(handle))
        self.recorder = ExchangeRecorder(self.below, self.recordings, self._start, clock=self.clock)

    def clock(self) -> float:
        return self.seconds

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    @property
    def client(self) -> httpx.AsyncClient:
        recording = self.recordings.running(1000.0)
        assert recording is not None
        return self.recorder.client(recording)

    @asynccontextmanager
    async def answer(self, sent: Any = SENT) -> AsyncIterator[httpx.Response]:
        request = self.client.build_request(
            "POST", URL, json=sent, headers={**SENT_HEADERS, "Authorization": "Bearer sk-or-zq"}
        )
        response = await self.client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def lines(self) -> list[Any]:
        """What stands in the files, when all is written."""
        await asyncio.gather(*self.tasks, return_exceptions=True)
        texts = [path.read_text("utf-8") for path in self.recordings.files()]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    async def line(self, sent: Any = SENT) -> Any:
        """What is written of one exchange that is read to its end."""
        async with self.answer(sent) as response:
            await response.aread()
        (line,) = await self.lines()
        return line


async def test_a_stream_is_handed_on_as_it_comes_and_written_down(tmp_path: Path) -> None:
    """With its events, the headers that say something of it, and not who asked."""
    seen = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append((request.read(), request.headers["authorization"]))
        return reply(ENDED)(request)

    exchanges = Exchanges(tmp_path, handle)
    async with exchanges.answer() as response:
        assert (await response.aread(), response.headers["set-cookie"]) == (ENDED, "c")
    assert [(json.loads(content), key) for content, key in seen] == [(SENT, "Bearer sk-or-zq")]
    (line,) = await exchanges.lines()
    assert 0 <= line.pop("seconds") < 60
    assert line == {
        "format": 1,
        "path": "responses",
        "request_headers": {**SENT_HEADERS, "content-type": "application/json"},
        "request": {**SENT, "input": "x" * 13},
        "status": 200,
        "headers": KEPT,
        "ending": "complete",
        "kind": None,
        "events": EVENTS,
    }


async def test_a_compressed_stream_is_read(tmp_path: Path) -> None:
    """The reader gets it decoded, and the file has its events."""
    headers = {**STREAMED, "content-encoding": "gzip"}
    exchanges = Exchanges(tmp_path, reply(gzip.compress(ENDED), 200, **headers))
    async with exchanges.answer() as response:
        assert await response.aread() == ENDED
    (line,) = await exchanges.lines()
    assert line["events"] == EVENTS


FAILED = b'data: {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Ada"}}}\n\n'


async def test_of_what_cannot_be_decoded_nothing_is_read(tmp_path: Path) -> None:
    """That it came is written all the same."""
    exchanges = Exchanges(tmp_path, reply(ENDED, 200, **STREAMED, **{"content-encoding": "gzip"}))
    with pytest.raises(httpx.DecodingError):
        await exchanges.line()
    (line,) = await exchanges.lines()
    assert (line["status"], line["text"], line["kind"] is None) == (200, "", False)


@pytest.mark.parametrize(
    ("status", "content", "kind", "rest"),
    [
        (429, b'{"error": {"message": "Ada, please wait"}}', "RateLimited", {"message": "xxx, please wait"}),
        (200, b'{"status": "completed", "output": [], "error": null}', None, None),
        (502, b"<html>Bad gateway of Ada</html>", "ProviderUnavailable", "<html>Bad gateway of xxx</html>"),
        (200, FAILED, "ProviderUnavailable", None),
        (200, b'{"output": "the limit is 5 tok', "ProviderError", "x" * 30),
        (200, b"the limit", "ProviderError", "x" * 9),
    ],
)
async def test_a_failure_is_written_with_its_kind(
    tmp_path: Path, status: int, content: bytes, kind: str | None, rest: Any
) -> None:
    """As the pipe classifies it by the wording as it was, of which only the known words are written."""
    exchanges = Exchanges(tmp_path, reply(content, status, server="cloudflare"))
    line = await exchanges.line()
    assert (line["status"], line["kind"]) == (status, kind)
    assert rest in (None, line.get("body", {}).get("error"), line.get("text"))
    assert "Ada" not in json.dumps(line)


async def test_a_stream_that_is_closed_before_its_end_is_written_as_far_as_it_came(tmp_path: Path) -> None:
    """As when a user stops an answer."""
    exchanges = Exchanges(tmp_path, reply(ENDED))
    async with exchanges.answer() as response:
        async for _ in response.aiter_bytes(chunk_size=len(ENDED) // 2):
            break
    (line,) = await exchanges.lines()
    assert line["ending"] in {"closed", "complete"}
    assert line["events"][0] == EVENTS[0]


async def test_a_connection_that_fails_is_written_and_fails_all_the_same(tmp_path: Path) -> None:
    """It has no status, and the name of what went wrong."""

    def handle(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route to ada.example")

    exchanges = Exchanges(tmp_path, handle)
    with pytest.raises(httpx.ConnectError):
        await exchanges.line()
    (line,) = await exchanges.lines()
    assert (line["status"], line["ending"], "events" in line) == (None, "ConnectError", False)
    assert "example" not in json.dumps(line)


async def test_what_is_too_large_is_only_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its request nor its answer is written, but how large they are."""
    monkeypatch.setattr(recorder_module, "MAX_EXCHANGE_BYTES", 100)
    exchanges = Exchanges(tmp_path, reply(b"y" * 101))
    line = await exchanges.line({"input": "z" * 100})
    assert (line["request"], line["bytes"]) == (112, 101)
    assert not {"events", "body", "text"} & line.keys()


async def test_a_recording_ends_when_its_files_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be too much is not written, and nothing after it."""
    monkeypatch.setattr(recorder_module, "MAX_BYTES", 2400)
    exchanges = Exchanges(tmp_path, reply(ENDED))
    while exchanges.recordings.running(1000.0):
        async with exchanges.answer() as response:
            await response.aread()
        await asyncio.gather(*exchanges.tasks)
    assert len(await exchanges.lines()) == 2
    assert sum(exchanges.recordings.files().values()) <= 2400


async def test_an_answer_does_not_break_by_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a full disk: the answer is whole, and the fault is in the log."""

    def fail(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(recorder_module, "_line", fail)
    exchanges = Exchanges(tmp_path, reply(ENDED))
    async with exchanges.answer() as response:
        assert await response.aread() == ENDED
    assert await exchanges.lines() == []
    assert "an exchange was not recorded" in caplog.text


async def test_two_workers_write_files_of_their_own(tmp_path: Path) -> None:
    """In one folder; the lines of each stay whole."""
    exchanges = Exchanges(tmp_path, reply(ENDED))
    async with exchanges.answer() as response:
        await response.aread()
    exchanges.recorder = ExchangeRecorder(
        exchanges.below, exchanges.recordings, exchanges._start, clock=exchanges.clock
    )
    async with exchanges.answer() as response:
        await response.aread()
    assert len(await exchanges.lines()) == len(exchanges.recordings.files()) == 2


async def test_each_recording_gives_names_of_its_own(tmp_path: Path) -> None:
    """A name stands for the same in one recording; nothing in the next one follows from those before."""
    exchanges = Exchanges(tmp_path, reply(ENDED))

    async def written(*names: str) -> list[str]:
        for name in names:
            async with exchanges.answer({"tools": [{"type": "function", "name": name}]}) as response:
                await response.aread()
            await asyncio.gather(*exchanges.tasks)
        return [line["request"]["tools"][0]["name"] for line in await exchanges.lines()]

    fox, hen, again = await written("fox", "hen", "fox")
    exchanges.recordings.begin(999.0, minutes=10)
    assert (again, await written("hen")) == (fox, [fox])
    assert fox != hen


@pytest.mark.parametrize("then", ["stopped", "over", "another"])
async def test_an_answer_that_ends_after_the_recording_is_not_written(tmp_path: Path, then: str) -> None:
    """Whether an administrator stopped it, or its time was over, or another one has begun meanwhile."""
    exchanges = Exchanges(tmp_path, reply(ENDED))
    async with exchanges.answer() as response:
        await response.aread()
        if then == "stopped":
            exchanges.recordings.end()
        elif then == "over":
            exchanges.seconds += 600.0
        else:
            exchanges.recordings.begin(1000.0, minutes=11)
    assert await exchanges.lines() == []


async def test_what_waits_to_be_written_leaves_the_other_threads_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line after the other, in a thread of its own; when that is closed, nothing more is written."""
    begun, may_end, threads = threading.Event(), threading.Event(), set[int]()

    def wait(*_: Any) -> dict[str, int]:
        threads.add(threading.get_ident())
        begun.set()
        may_end.wait()
        return {"a": 1}

    monkeypatch.setattr(recorder_module, "_line", wait)
    exchanges = Exchanges(tmp_path, reply(ENDED))
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    for _ in range(3):
        async with exchanges.answer() as response:
            await response.aread()
    await asyncio.to_thread(begun.wait)
    assert await asyncio.to_thread(threading.get_ident) not in threads
    await exchanges.recorder.aclose()
    may_end.set()
    assert (await exchanges.lines(), len(threads)) == ([{"a": 1}], 1)


async def test_a_request_that_is_too_large_leaves_nothing_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it cannot be compared with what it may quote."""
    monkeypatch.setattr(recorder_module, "MAX_EXCHANGE_BYTES", 100)
    exchanges = Exchanges(tmp_path, reply(b'{"error": {"message": "the limit", "code": 400}}', 400))
    line = await exchanges.line({"input": "the limit" * 20})
    assert line["body"] == {"error": {"message": "x" * 9, "code": 400}}


async def test_a_number_without_end_is_written_all_the_same(tmp_path: Path) -> None:
    """JSON has no word for it, so it is 1."""
    exchanges = Exchanges(tmp_path, reply(b'{"weight": 1e999, "cost": 1e999}'))
    assert [*(await exchanges.line())["body"].values()] == [1, 1]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ('{"begun": 1000, "until": 1600.0}', True),
        ('{"begun": 0, "until": 1000.0}', False),
        ("", False),
        ("[]", False),
        ('{"until": "soon"}', False),
    ],
)
def test_a_recording_runs_for_its_time(tmp_path: Path, text: str, runs: bool) -> None:  # noqa: FBT001 - the case
    """In every worker that sees the folder, whenever it started; what cannot be read is no recording."""
    (tmp_path / "recording.json").write_text(text, "utf-8")
    assert (Recordings(tmp_path).running(1000.0) is not None) is runs
    assert Recordings(None).running(1000.0) is None


@pytest.mark.parametrize(
    ("minutes", "seconds"), [(10, 600), (0, 60), (10_000, recordings_module.MAX_MINUTES * 60)]
)
def test_a_recording_has_a_longest_time(tmp_path: Path, minutes: int, seconds: int) -> None:
    """And a shortest; only its owner reads the folder."""
    recordings = Recordings(tmp_path / "recordings")
    recordings.begin(5.0, minutes=minutes)
    running = recordings.running(5.0)
    assert running is not None
    assert running.until == 5.0 + seconds
    assert (tmp_path / "recordings").stat().st_mode & 0o077 == 0
    recordings.end()
    recordings.end()
    assert recordings.running(5.0) is None
