"""A stand-in that runs in a thread of its own, for tests and demonstrations.

Owns starting and stopping uvicorn on a loopback port. Nothing else may bind a socket.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, Self

import uvicorn

from .server import API, create_app, script, summarize

if TYPE_CHECKING:
    from types import TracebackType

    from .state import Options, RecordedRequest, Service

LOOPBACK = "127.0.0.1"
GRACE_SECONDS = 1
STOP_SECONDS = 5
KEEP_ALIVE_SECONDS = 300
"""Longer than any client keeps an idle connection: one that is closed while a request is on its way fails it."""


class StandIn:
    """The stand-in as a context manager: ``with StandIn() as s: ... s.base_url``."""

    def __init__(self, options: Options | None = None, *, port: int = 0) -> None:
        self._app = create_app(options)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, port))
        settings = uvicorn.Config(
            self._app,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws="none",
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._run, name="standin", daemon=True)

    def __enter__(self) -> Self:
        self._socket.listen()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._socket.close()

    @property
    def service(self) -> Service:
        """The state behind the app."""
        service: Service = self._app.state.service
        return service

    @property
    def url(self) -> str:
        """Where the server is, without a path."""
        return f"http://{LOOPBACK}:{self._socket.getsockname()[1]}"

    @property
    def base_url(self) -> str:
        """What takes the place of https://openrouter.ai/api/v1."""
        return self.url + API

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests since the start or the last reset, oldest first."""
        return list(self.service.requests)

    @property
    def responses(self) -> list[RecordedRequest]:
        """The requests to /responses among them."""
        return [record for record in self.requests if record.path == "/responses"]

    def reset(self) -> None:
        """Forget log, queue, prompt cache and generations; clock and summarizer are as at the start."""
        self.service.reset()

    def script(self, *entries: str | dict[str, Any]) -> None:
        """Queue behaviours for the next requests, each once or as its entry says."""
        script(self.service, [{"do": entry} if isinstance(entry, str) else entry for entry in entries])

    @property
    def summarizer(self) -> str:
        """How requests for a summary are answered; one of the kinds of ``summarizers``."""
        return self.service.summarizer

    @summarizer.setter
    def summarizer(self, kind: str) -> None:
        summarize(self.service, {"kind": kind})

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self.service.advanced_seconds += seconds

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
