"""A network between the pipe and its server that breaks: a TCP proxy with one fault at one byte of the answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, get_args

if TYPE_CHECKING:
    import random

Kind = Literal["drop", "stall", "reset", "cut", "garbage"]
"""The connection ends, falls silent, is reset, ends within a chunk of which half was sent, or carries noise."""

KINDS: tuple[Kind, ...] = get_args(Kind)
_PORTION_BYTES = 65_536
_NOISE_BYTES = 40


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens once so many bytes of a connection's answers have been handed on."""

    kind: Kind
    after_bytes: int
    noise: bytes = b""

    @classmethod
    def at_random(cls, chance: random.Random, *, within_bytes: int) -> Self:
        """Any kind, anywhere in the bytes."""
        return cls(chance.choice(KINDS), chance.randrange(within_bytes), chance.randbytes(_NOISE_BYTES))


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
