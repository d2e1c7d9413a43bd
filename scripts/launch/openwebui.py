"""Starts Open WebUI on SQLite with an administrator. Owns its environment variables and data directory."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from scripts.launch.process import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

START_SECONDS = 900.0
REPORT_SECONDS = 5.0

_QUIET = {
    "AUDIO_STT_ENGINE": "openai",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
    "ENABLE_OLLAMA_API": "false",
    "ENABLE_OPENAI_API": "false",
    "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS": "false",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "HF_HUB_OFFLINE": "1",
    "OFFLINE_MODE": "true",
    "RAG_EMBEDDING_ENGINE": "openai",
}
"""What keeps Open WebUI from downloading models or asking other servers."""

_NOT_INHERITED = {"DATABASE_URL", "REDIS_URL", "WEBSOCKET_MANAGER", "WEBSOCKET_REDIS_URL"}
"""What would turn it away from its own SQLite file."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a data directory is opened with: the administrator's login, and the key that signs and seals."""

    email: str
    password: str
    secret_key: str

    @classmethod
    def of(cls, data: Path) -> Secrets:
        """Those of a data directory, created at its first use and kept in it for its owner's eyes."""
        data.mkdir(parents=True, exist_ok=True)
        path = data / "login.json"
        if not path.exists():
            login = {"email": "admin@localhost", "password": secrets.token_urlsafe(9)}
            path.touch(mode=0o600)
            path.write_text(json.dumps({**login, "secret_key": secrets.token_urlsafe(32)}), "utf-8")
        return cls(**json.loads(path.read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """For a browser on this machine."""
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"  # noqa: S104 - compared


def start(
    address: Address, data: Path, *, report: Callable[[str], None], variables: Mapping[str, str] | None = None
) -> Program:
    """Start Open WebUI and wait until it answers; `variables` are added to its environment and win.

    Reports progress while it waits. Raises LaunchError when it ends or takes longer than START_SECONDS;
    nothing is left running then.
    """
    command = [str(Path(sys.executable).with_name("open-webui")), "serve"]
    words = ["--host", address.host, "--port", str(address.port)]
    environment = {**_environment(address, data), **(variables or {})}
    program = Program([*command, *words], log=data / "open-webui.log", directory=data, variables=environment)
    reported = time.monotonic()

    def answers() -> bool:
        nonlocal reported
        if time.monotonic() - reported > REPORT_SECONDS:
            report("Open WebUI is starting")
            reported = time.monotonic()
        return _healthy(address)

    program.wait_until(answers, START_SECONDS, "does not answer")
    return program


def _environment(address: Address, data: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    login = Secrets.of(data)
    ours = {
        "BYPASS_MODEL_ACCESS_CONTROL": "true",  # each account may use the pipe's models without a grant
        "CORS_ALLOW_ORIGIN": f"{address.url};http://localhost:{address.port}",
        "DATA_DIR": str(data),
        "STATIC_DIR": str(data / "static"),
        "WEBUI_ADMIN_EMAIL": login.email,
        "WEBUI_ADMIN_PASSWORD": login.password,
        "WEBUI_SECRET_KEY": login.secret_key,
    }
    return {**_QUIET, **inherited, **ours}


def _healthy(address: Address) -> bool:
    try:
        return httpx.get(f"{address.url}/health", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False
