"""A light server in OpenRouter's place: it answers as a message asks, and takes next to nothing of the machine.

Frames are prepared before the first is sent, and each delta is one write on a socket without delay, so that a reader
meets the portions of a service with that pace. In the newest user message:

    [[bench: deltas=300 pace=0.008]]        so many deltas, so many seconds apart; without a pace forty to a write
    [[bench: deltas=5 tool=get_weather]]       first a call of that tool, and the deltas once its output is there
    [[bench: deltas=5 tool=nap calls=8]]       so many calls at once

What is not an answer comes from a stand-in. `python -m scripts.benchmarks._upstream` prints its address and serves.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from itertools import count
from typing import Any

import httpx

from scripts.standin import StandIn

KEY = "sk-or-v1-bench"
_DIRECTIVE = re.compile(r"\[\[bench: ([^\]]*)\]\]")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_TOGETHER = 40
_WORD = " word"
_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 100,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 200,
    "cost": 0.001,
}


def directive(**options: object) -> str:
    """What a message says to be answered so."""
    return f"[[bench: {' '.join(f'{name}={value}' for name, value in options.items())}]]"


class Frames:
    """The events of one answer, each as one chunk of the transfer encoding."""

    def __init__(self, body: dict[str, Any]) -> None:
        """`body` is that of the request."""
        said = _DIRECTIVE.findall(json.dumps(body["input"]))
        self.options = dict(pair.split("=", 1) for pair in (said[-1].split() if said else ()))
        self._body, self._numbers = body, count()
        self.first = self._event("response.created", response=self._response("in_progress"))
        self.first += self._event("response.in_progress", response=self._response("in_progress"))
        kinds = [item.get("type") for item in body["input"] if isinstance(item, dict)]
        if "tool" in self.options and "function_call_output" not in kinds:
            self.deltas, self.last = list[bytes](), self._calls()
        else:
            self.deltas, self.last = self._text(int(self.options.get("deltas", 1)))

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
        echoed = {"model": self._body.get("model"), "tools": self._body.get("tools") or []}
        whole = {"id": "gen-1-bench", "object": "response", "created_at": 1, "status": status, "output": []}
        return {**whole, **echoed, "error": None, "incomplete_details": None, "usage": None, **more}

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = {"type": kind, **fields, "sequence_number": next(self._numbers)}
        data = b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
        return b"%x\r\n%s\r\n" % (len(data), data)

    def _completed(self, *items: dict[str, Any]) -> bytes:
        done = [
            self._event("response.output_item.done", output_index=at, item=item)
            for at, item in enumerate(items)
        ]
        response = self._response("completed", output=items, usage=_USAGE)
        return b"".join(done) + self._event("response.completed", response=response)

    def _calls(self) -> bytes:
        frames, calls = list[bytes](), list[dict[str, Any]]()
        for at in range(int(self.options.get("calls", 1))):
            ids = {"id": f"fc_{at}", "call_id": f"call_{at}"}
            call = {"type": "function_call", **ids, "name": self.options["tool"]}
            begun = {**call, "arguments": "", "status": "in_progress"}
            of_item, said = {"output_index": at, "item_id": f"fc_{at}"}, {"arguments": "{}"}
            frames += (
                self._event("response.output_item.added", output_index=at, item=begun),
                self._event("response.function_call_arguments.delta", **of_item, delta="{}"),
                self._event("response.function_call_arguments.done", **of_item, **said, name=call["name"]),
            )
            calls.append({**call, **said, "status": "completed"})
        return b"".join(frames) + self._completed(*calls)

    def _text(self, deltas: int) -> tuple[list[bytes], bytes]:
        of_part = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        item = {"type": "message", "id": "msg_1", "role": "assistant"}
        part = {"type": "output_text", "annotations": [], "logprobs": []}
        whole = {**part, "text": _WORD * deltas}
        begun = {**item, "status": "in_progress", "content": []}
        self.first += self._event("response.output_item.added", output_index=0, item=begun)
        self.first += self._event("response.content_part.added", **of_part, part={**part, "text": ""})
        written = [
            self._event("response.output_text.delta", **of_part, delta=_WORD, logprobs=[])
            for _ in range(deltas)
        ]
        last = self._event("response.output_text.done", **of_part, text=whole["text"], logprobs=[])
        last += self._event("response.content_part.done", **of_part, part=whole)
        return written, last + self._completed({**item, "status": "completed", "content": [whole]})


class Upstream:
    """Serves connections; `behind` is the base URL of the stand-in that answers everything else."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self._known: dict[str, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection until it ends."""
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while request := await _request(reader):
                method, path, content = request
                if method == "POST" and path.endswith("/responses"):
                    await self._answer(json.loads(content), writer)
                else:
                    writer.write(await asyncio.to_thread(self._other, path))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        frames, loop = Frames(body), asyncio.get_running_loop()
        if not body.get("stream"):
            last = json.loads(frames.last[frames.last.rindex(b"data: ") + 6 : -2])["response"]
            writer.write(_json(200, json.dumps(last).encode()))
            return
        writer.write(_HEAD + frames.first)
        pace_seconds = float(frames.options.get("pace", 0))
        at_once = 1 if pace_seconds else _TOGETHER
        due = loop.time()
        for at in range(0, len(frames.deltas), at_once):
            due += pace_seconds
            await asyncio.sleep(max(0.0, due - loop.time()))
            writer.write(b"".join(frames.deltas[at : at + at_once]))
            await writer.drain()
        writer.write(frames.last + _END)

    def _other(self, path: str) -> bytes:
        if path not in self._known:
            answer = httpx.get(
                self._behind + path, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False
            )
            self._known[path] = _json(answer.status_code, answer.content)
        return self._known[path]


def _json(status: int, content: bytes) -> bytes:
    kind = b"Content-Type: application/json"
    return b"HTTP/1.1 %d X\r\n%s\r\nContent-Length: %d\r\n\r\n%s" % (status, kind, len(content), content)


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    """Method, path and content of the next request; None at the end of the connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.split("\r\n")
        named = (each.partition(":") for each in lines)
        headers = {name.lower(): value.strip() for name, _, value in named}
        content = b""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                content += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            content = await reader.readexactly(int(headers.get("content-length", 0)))
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = line.split(" ")
    return method, path, content


async def _main() -> None:
    with StandIn() as standin:
        server = await asyncio.start_server(Upstream(standin.url).serve, "127.0.0.1", 0, limit=2**26)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
