"""A server of embeddings for Open WebUI, which keeps no memory without one."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI

SETTINGS = "/api/v1/retrieval/embedding"


class Embedder(BaseHTTPRequestHandler):
    """Gives every text a vector by its letters."""

    def do_POST(self) -> None:
        """Answer in OpenAI's form."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        vectors = [[1.0, *(float(text.count(letter)) for letter in "abcdefg")] for text in asked]
        answer = json.dumps({"data": [{"embedding": vector} for vector in vectors]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@contextmanager
def embeddings(host: OpenWebUI) -> Iterator[None]:
    """Let the host embed what it keeps; afterwards it cannot any more, and its administrator has no memories."""
    before = host.admin.api.get(SETTINGS)
    with ThreadingHTTPServer(("127.0.0.1", 0), Embedder) as server:
        Thread(target=server.serve_forever).start()
        config = {"url": f"http://127.0.0.1:{server.server_port}", "key": "none"}
        host.admin.api.post(f"{SETTINGS}/update", {**before, "openai_config": config})
        try:
            yield
        finally:
            host.admin.api.delete("/api/v1/memories/delete/user")
            host.admin.api.post(f"{SETTINGS}/update", before)
            server.shutdown()
