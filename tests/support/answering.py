"""Servers of the tests' own, for what an administrator connects Open WebUI to."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Reply(NamedTuple):
    """What is answered: its media type, and its bytes."""

    media_type: str
    content: bytes


def json_reply(value: Any) -> Reply:
    """A value as JSON."""
    return Reply("application/json", json.dumps(value).encode())


@contextmanager
def answering(reply: Callable[[str, Any], Reply]) -> Iterator[str]:
    """The address of a server, as long as it runs; `reply` gets the path and the JSON of each POST."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            answer = reply(self.path, json.loads(asked))
            self.send_response(200)
            self.send_header("Content-Type", answer.media_type)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
