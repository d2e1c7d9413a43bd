"""A server that repeats the stand-in's own bytes and does next to nothing for it, in a process of its own.

The stand-in thinks about each request, which on a small machine takes longer than what is measured. So it is asked
once for each kind of answer, and what it sent is sent again: an event at a time, paced where the request says so.
Owns HTTP/1.1 as far as httpx speaks it to the stand-in, and nothing more.

    GET  /api/v1/models      the stand-in's list
    POST /api/v1/responses   the answer with as many deltas as the body names
    GET  /connections        how many connections there have been
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from typing import Any

import httpx
import uvloop

from scripts.harness.page import KEY
from scripts.standin import StandIn

MODEL = "openai/gpt-5.2"
_DIRECTIVES = re.compile(rb"deltas=(\d+)\D+delay=([\d.]+)")


def prompt(deltas: int, pace_seconds: float = 0.0) -> str:
    """What a user writes to get sealed reasoning and an answer of so many deltas."""
    directives = ("reasoning=encrypted", f"deltas={deltas}", f"delay={pace_seconds}")
    return " ".join(f"[[standin: {each}]]" for each in directives)


def request_body(text: str) -> dict[str, Any]:
    """The body of POST /responses for one question."""
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"model": MODEL, "input": [message], "stream": True}


class Replies:
    """The recorded answers, by how many deltas they have, and the list of models."""

    def __init__(self, sizes: list[int]) -> None:
        self.connections = 0
        with StandIn() as standin, httpx.Client(base_url=standin.base_url) as client:
            self._models = client.get("/models").content
            headers = {"Authorization": f"Bearer {KEY}"}
            self._answers: dict[int, list[bytes]] = {}
            for deltas in sizes:
                answer = client.post("/responses", json=request_body(prompt(deltas)), headers=headers)
                frames = answer.raise_for_status().content.split(b"\n\n")
                self._answers[deltas] = [frame + b"\n\n" for frame in frames if frame]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until the client leaves."""
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"POST"):
                    await self._stream(writer, body)
                else:
                    count = json.dumps(self.connections).encode()
                    content = self._models if b"/models" in head else count
                    kind = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    writer.write(kind + b"content-length: %d\r\n\r\n%b" % (len(content), content))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        named = _DIRECTIVES.search(body)
        assert named
        pace_seconds = float(named[2])
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for frame in self._answers[int(named[1])]:
            if pace_seconds and b"output_text.delta" in frame:
                await asyncio.sleep(pace_seconds)
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _main(sizes: list[int]) -> None:
    replies, ended = Replies(sizes), asyncio.Event()
    server = await asyncio.start_server(replies.serve, "127.0.0.1", 0, backlog=1024)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1", flush=True)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_main([int(size) for size in sys.argv[1:]]))
