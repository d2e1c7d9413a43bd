"""Pictures at addresses, from a chat on the page to OpenRouter: how many are asked for, and what they take."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.media.memory import MAX_ASKED
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page, PipeInProcess
from scripts.paths import ROOT
from tests.support.files import PICTURES, data_url
from tests.support.network import trusted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024
MODEL = "openai/gpt-5.2"
LIMIT_MB = 128
"""Smaller than the default, so that the limit is met."""
PICTURE = PICTURES["image/png"]
VALVES: dict[str, Any] = {"DOWNLOAD_HOSTS": "localhost", "MAX_INPUT_IMAGES_PER_REQUEST": 0}


class Pictures:
    """A server of pictures of one size on the loopback, and the paths that it was asked for."""

    def __init__(self, size_bytes: int) -> None:
        self.content = PICTURE + bytes(size_bytes - len(PICTURE))
        self.asked: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def running(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pictures]:
        """Listen, until the end of the block; below `/gone` there is nothing, and `/moved` leads elsewhere."""
        tls = trusted(folder, monkeypatch)
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256, ssl=tls)
        self.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        self.asked.append(path)
        if path.startswith("/gone"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        elif path.startswith("/moved"):
            where = path.replace("moved", "gone").encode()
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % where)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.content))
            writer.write(self.content)
        await writer.drain()
        writer.close()

    def attached(self, *paths: str) -> list[dict[str, Any]]:
        """Them as parts of a message."""
        return [{"type": "image_url", "image_url": {"url": self.url + path}} for path in paths]


async def test_many_addresses_are_a_hundred_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standin: StandIn
) -> None:
    """Redirects count, nothing is asked again in later rounds of the turn, and what was not asked is said once."""
    async with (
        Pictures(1000).running(tmp_path, monkeypatch) as pictures,
        PipeInProcess(tmp_path, base_url=standin.base_url, **VALVES) as pipe,
    ):
        app = pipe._running_app()
        page = Page(pipe, MODEL, tools={"get_weather": lambda _: "sunny"})
        gone = (f"/{'moved' if number % 2 else 'gone'}/{number}" for number in range(600))
        page.attached = pictures.attached(*gone, "/1.png", "/2.png")
        answer = await page.ask("[[standin: call=get_weather]]")
        requests = len(standin.responses)
        budget = app.worker.encoded_files.budget
    assert answer.error is None
    assert requests >= 2
    assert len(pictures.asked) == MAX_ASKED
    assert set(pictures.asked[:4]) >= {"/1.png", "/2.png"}
    reason = notice("address_not_asked", count=MAX_ASKED)
    assert answer.notices.count(notice("addresses_not_asked", reason=reason)) == 1
    for request in standin.responses:
        parts = request.body["input"][0]["content"]
        assert sum(part["type"] == "input_image" for part in parts) == 2
    assert budget.held_bytes == 0


async def test_without_room_a_chat_is_told_so(tmp_path: Path, standin: StandIn) -> None:
    """Nothing is sent without its pictures; with room the chat goes on, and an answer leaves none taken."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        budget = pipe._running_app().worker.encoded_files.budget
        budget.max_wait_seconds = 0
        page = Page(pipe, MODEL)
        page.attached = [{"type": "image_url", "image_url": {"url": data_url("image/png", PICTURE)}}]
        others = await budget.reserve("others", budget.limit_bytes)
        answers = [await page.ask("What is there?")]
        others.release()
        answers.append(await page.ask("And here?"))
        assert budget.held_bytes == 0
    assert [answer.error for answer in answers] == [notice("memory_slow", seconds=0), None]
    assert len(standin.responses) == 1


PROCESS = r"""
import asyncio, json, re, sys
from pathlib import Path
from scripts.harness.page import Page, PipeInProcess
from scripts.paths import ROOT

folder, base_url, attached, valves = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])

def peak_kilobytes():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])

async def main():
    async with PipeInProcess(Path(folder), base_url=base_url, **valves) as pipe:
        first = Page(pipe, "openai/gpt-5.2", chat_id="first")  # loads what is loaded once
        first.attached = attached[:2]
        await first.ask("Hello")
        before = peak_kilobytes()
        pages = [Page(pipe, "openai/gpt-5.2", chat_id=f"chat {number}") for number in range(2)]
        for page in pages:
            page.attached = attached[2:]
        answers = await asyncio.gather(*(page.ask("What is there?") for page in pages))
        print(json.dumps([peak_kilobytes() - before, [answer.error for answer in answers]]))

asyncio.run(main())
"""


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nothing tells what a process takes")
async def test_large_pictures_take_no_more_than_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standin: StandIn
) -> None:
    """In a process of its own, in two chats at once: its memory grows by what it may, and every chat is answered."""
    async with Pictures(4 * MEGABYTE).running(tmp_path, monkeypatch) as pictures:
        attached = pictures.attached("/gone", *(f"/{number}.png" for number in range(180)))
        inline = {"url": data_url("image/png", PICTURE)}
        attached = [{"type": "image_url", "image_url": inline}, *attached]
        valves = {**VALVES, "MAX_MEMORY_MB": LIMIT_MB}
        words = [str(tmp_path), standin.base_url, json.dumps(attached), json.dumps(valves)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROCESS,
            *words,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            # so that what is freed is not kept by the C library
            env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        )
        said, _ = await process.communicate()
    grown_kilobytes, errors = json.loads(said.splitlines()[-1])
    assert errors == [None, None]
    assert len(pictures.asked) <= 2 * MAX_ASKED
    assert 0 < grown_kilobytes <= LIMIT_MB * 1024
    bodies = [request.body["input"][0]["content"] for request in standin.responses[-2:]]
    assert all(sum(part["type"] == "input_image" for part in parts) >= 6 for parts in bodies)
