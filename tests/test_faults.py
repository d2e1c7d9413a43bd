"""The pipe behind a network that breaks at any byte of an answer, in any way.

`FAULT_POSITIONS=500 pytest tests/test_faults.py` tries as many bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, get_args
from urllib.parse import urlsplit

import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers
from scripts.harness.page import Page, PipeInProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

POSITIONS = int(os.environ.get("FAULT_POSITIONS", "150"))
SILENCE_SECONDS = 0.2
"""How long the pipe waits for the next byte while nothing else than a stall can be the reason for it."""
MAX_TURN_SECONDS = 60.0
"""Far more than a turn takes on a slow machine: a hang is a failure."""
WORDS = [f"w{number}" for number in range(40)]
ORDER = f'[[standin: reasoning=summary text="I think."]] [[standin: text="{" ".join(WORDS)}"]]'
Kind = Literal["drop", "stall", "reset", "cut", "garbage"]
"""The connection ends, falls silent, is reset, ends within a chunk of which half was sent, or carries noise."""

KINDS: tuple[Kind, ...] = get_args(Kind)
_PORTION_BYTES = 65_536


async def test_no_fault_of_the_network_hangs_or_loses_what_was_written(
    standin: StandIn, tmp_path: Path
) -> None:
    """Each turn ends; its text is how the answer begins; no task and no connection is left; the next turn works."""
    chance = random.Random(14)
    port = urlsplit(standin.url).port
    assert port
    async with FaultProxy(port) as proxy:
        behind_proxy = standin.base_url.replace(standin.url, proxy.url)
        async with PipeInProcess(tmp_path, base_url=behind_proxy, RETRY_SECONDS=0.0) as pipe:
            length = await length_of_answer(pipe, proxy)
            for seconds in (SILENCE_SECONDS, MAX_TURN_SECONDS):
                set_patience(pipe, seconds)
                await pipe.pipes()  # a list that falls silent is given up after five minutes
            before = running()
            endings: Counter[tuple[str, bool]] = Counter()
            for number in range(POSITIONS):
                proxy.fault = Fault(chance.choice(KINDS), chance.randrange(length), chance.randbytes(40))
                endings[(proxy.fault.kind, await ends_well(pipe, proxy, f"chat-{number}"))] += 1
            await eventually(lambda: running() <= before and proxy.open_connections <= 1)
    assert {kind for kind, _ in endings} == set(KINDS)
    assert all(endings[kind, False] for kind in KINDS if kind != "garbage")


async def length_of_answer(pipe: Pipe, proxy: FaultProxy) -> int:
    """How many bytes a whole answer has, its headers and its end included."""
    answer = await Page(pipe, "standin/script", chat_id="whole").ask(ORDER)
    assert (answer.error, erase_markers(answer.text)) == (None, " ".join(WORDS))
    return proxy.answer_bytes


def set_patience(pipe: Pipe, seconds: float) -> None:
    """Let the pipe wait so long for the next byte."""
    advanced = json.loads(pipe.valves.ADVANCED) | {"REQUEST_TIMEOUT_SECONDS": seconds}
    pipe.valves = pipe.valves.model_copy(update={"ADVANCED": json.dumps(advanced)})


async def ends_well(pipe: Pipe, proxy: FaultProxy, chat_id: str) -> bool:
    """Ask over the broken network, then once more over one that works; return whether the answer was whole."""
    page = Page(pipe, "standin/script", chat_id=chat_id)
    fault = proxy.fault
    assert fault
    wait_seconds = SILENCE_SECONDS if fault.kind == "stall" else MAX_TURN_SECONDS
    set_patience(pipe, wait_seconds)
    async with asyncio.timeout(MAX_TURN_SECONDS):
        broken = await page.ask(ORDER)
    text, whole = erase_markers(broken.text).strip(), " ".join(WORDS)
    assert whole.startswith(text) or fault.kind == "garbage", text
    assert (text == whole) or broken.error, "part of an answer was taken for the whole"
    assert not broken.error or "\n" not in broken.error
    proxy.fault = None
    set_patience(pipe, MAX_TURN_SECONDS)
    answer = await page.ask("and now?")
    assert (answer.error, answer.text != "") == (None, True)
    return broken.error is None


def running() -> Counter[str]:
    """How many tasks of each kind run, but for writers and the proxy."""
    names = Counter[str]()
    for task in asyncio.all_tasks():
        name = getattr(task.get_coro(), "__qualname__", "")
        names[name] += not task.done() and not name.startswith(("FaultProxy.", "_pass_on", "BatchWriter."))
    return names


# --- the network that breaks


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens once so many bytes of a connection's answers have been handed on."""

    kind: Kind
    after_bytes: int
    noise: bytes


class FaultProxy:
    """Hands everything on to a port of the loopback, and breaks each connection by its `fault` as long as it has one.

    `answer_bytes` is the length of the last answer as far as it was handed on; `open_connections` counts those of the
    clients.
    """

    def __init__(self, target_port: int) -> None:
        self.fault: Fault | None = None
        self.answer_bytes = 0
        self.open_connections = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        upward = asyncio.create_task(_pass_on(reader, server_writer))
        downward = asyncio.create_task(self._answer(server_reader, writer))
        try:
            await asyncio.wait({upward, downward}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (upward, downward):
                task.cancel()
            await asyncio.wait({upward, downward})
            for each in (server_writer, writer):
                each.close()
            self.open_connections -= 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answer_bytes = 0
        with suppress(ConnectionError):
            while portion := await reader.read(_PORTION_BYTES):
                fault = self.fault
                if fault and self.answer_bytes + len(portion) > fault.after_bytes:
                    await self._break(fault, portion, writer)
                    return
                self.answer_bytes += len(portion)
                writer.write(portion)
                await writer.drain()

    async def _break(self, fault: Fault, portion: bytes, writer: asyncio.StreamWriter) -> None:
        kept = portion[: fault.after_bytes - self.answer_bytes]
        rest = portion[len(kept) :]
        writer.write(kept + (rest[: len(rest) // 2] if fault.kind == "cut" else b""))
        await writer.drain()
        match fault.kind:
            case "stall":
                await asyncio.Event().wait()  # until the client gives up
            case "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case "garbage":
                writer.write(fault.noise + rest)
                await writer.drain()
            case _:
                pass


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while portion := await reader.read(_PORTION_BYTES):
            writer.write(portion)
            await writer.drain()
