"""A port that hands connections on to a server of the loopback, as long as it is to.

It cuts all of them, refuses new ones for a while, or cuts one whose COMMIT the server has executed, before its answer.
"""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from typing import Self

from scripts.harness.servers import unused_port

OURS = b"openrouter_pipe"
PREPARED = re.compile(rb"(_pg3_\d+)\x00[^\x00]*" + OURS)
"""psycopg's name of a statement of ours, with which alone it is executed later."""
COMMIT_ANSWER_SECONDS = 0.5
_PORTION_BYTES = 65_536


class Proxy:
    """Serves in a thread of its own, as a context; its methods may be called from any thread."""

    def __init__(self, target_port: int) -> None:
        self.port = unused_port()
        self.lost_commits = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._loses_commit = False

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Cut every connection; new ones are served."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def away(self, seconds: float) -> None:
        """Cut every connection, and refuse new ones for so long."""
        self._run(self._stop())
        self._run(asyncio.sleep(seconds))
        self._run(self._listen())

    def lose_commit(self) -> None:
        """Let the next COMMIT of the pipe be executed, and its answer be lost with the connection."""
        self._loses_commit = True

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()  # type: ignore[arg-type]

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _stop(self) -> None:
        if self._server:
            self._server.close()
        self._abort_all()

    async def _end(self) -> None:
        """Wait for what is being served, whose connections are cut."""
        if serving := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(serving)

    def _abort_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, there[1]}
        self._open |= ends
        up = asyncio.create_task(self._pass_up(reader, there[1], ends))
        down = asyncio.create_task(self._pass(there[0], writer))
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for task in (up, down):
            task.cancel()
        for end in ends:
            end.transport.abort()
        self._open -= ends

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while portion := await reader.read(_PORTION_BYTES):
                writer.write(portion)
                await writer.drain()

    async def _pass_up(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: set[asyncio.StreamWriter]
    ) -> None:
        """Hand on what the client says, until it is a COMMIT of ours that is to be lost."""
        named, is_ours = set[bytes](), False
        with suppress(OSError):
            while portion := await reader.read(_PORTION_BYTES):
                named.update(PREPARED.findall(portion))
                is_ours |= OURS in portion or any(name + b"\x00" in portion for name in named)
                is_end = b"COMMIT" in portion
                if is_end and is_ours and self._loses_commit:
                    self._loses_commit = False
                    self.lost_commits += 1
                    (client,) = ends - {writer}
                    await self._commit_unheard(portion, writer, client)
                    return
                is_ours &= not is_end
                writer.write(portion)
                await writer.drain()

    async def _commit_unheard(
        self, portion: bytes, writer: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        """Cut the client off first, so that no answer reaches it, then have the server commit."""
        client.transport.abort()
        writer.write(portion)
        await writer.drain()
        await asyncio.sleep(COMMIT_ANSWER_SECONDS)
