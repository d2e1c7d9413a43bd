"""A server of pictures and of web searches for Open WebUI, as an administrator connects one."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from scripts.standin.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI

IMAGES = "/api/v1/images/config"
SEARCH = "/api/v1/retrieval/config"
FOUND = {"link": "https://example.org/tower", "title": "Tower", "snippet": "The tower has 42 floors."}


class Engine(BaseHTTPRequestHandler):
    """Draws the same picture for every prompt, and finds the same page for every query."""

    def do_POST(self) -> None:
        """Answer as OpenAI does for pictures, and as the host's external search does."""
        self.rfile.read(int(self.headers["Content-Length"]))
        drawn = {"data": [{"b64_json": base64.b64encode(draw("a boat")).decode()}]}
        answer = json.dumps(drawn if self.path.endswith("/images/generations") else [FOUND]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@contextmanager
def drawing(host: OpenWebUI) -> Iterator[None]:
    """Let the host draw pictures; afterwards it draws none."""
    wanted = {"ENABLE_IMAGE_GENERATION": True, "IMAGE_GENERATION_MODEL": "painter"}
    before = host.admin.api.get(IMAGES)
    with _engine() as address:
        connection = {"IMAGES_OPENAI_API_BASE_URL": address, "IMAGES_OPENAI_API_KEY": "none"}
        host.admin.api.post(f"{IMAGES}/update", {**before, **wanted, **connection})
        try:
            yield
        finally:
            host.admin.api.post(f"{IMAGES}/update", before)


@contextmanager
def searching(host: OpenWebUI) -> Iterator[None]:
    """Let the host search the web; afterwards it does not."""
    wanted = {
        "ENABLE_WEB_SEARCH": True,
        "WEB_SEARCH_ENGINE": "external",
        "BYPASS_WEB_SEARCH_WEB_LOADER": True,
        "BYPASS_WEB_SEARCH_EMBEDDING_AND_RETRIEVAL": True,
    }
    before = host.admin.api.get(SEARCH)["web"]
    with _engine() as address:
        connection = {"EXTERNAL_WEB_SEARCH_URL": address, "EXTERNAL_WEB_SEARCH_API_KEY": "none"}
        host.admin.api.post(f"{SEARCH}/update", {"web": {**before, **wanted, **connection}})
        try:
            yield
        finally:
            host.admin.api.post(f"{SEARCH}/update", {"web": before})


@contextmanager
def _engine() -> Iterator[str]:
    """The server's address, as long as it runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
