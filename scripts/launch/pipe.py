"""Puts the built pipe into a running Open WebUI and points it at OpenRouter or at the stand-in."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.bundle.builder import PIPE
from scripts.launch.process import Program
from scripts.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.launch.api import Api

FUNCTION_ID = PIPE.id
STANDIN_KEY = "sk-or-v1-stand-in"
STANDIN_START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """Whom the pipe talks to: a key, and the address of the interface (None: OpenRouter's own)."""

    api_key: str
    base_url: str | None = None


def standin_upstream(port: int) -> Upstream:
    """The stand-in on a loopback port."""
    return Upstream(STANDIN_KEY, f"http://127.0.0.1:{port}/api/v1")


def start_standin(port: int, log: Path) -> Program:
    """Start the server that stands in for OpenRouter, and wait until it listens."""
    command = [sys.executable, "-m", "scripts.standin", "--port", str(port)]
    program = Program(command, log=log, directory=ROOT, variables=os.environ)
    program.wait_for_port(port, STANDIN_START_SECONDS)
    return program


def install(api: Api, content: str, upstream: Upstream, **valves: object) -> list[str]:
    """Install or update the pipe, set its upstream and valves, and return the ids of the models it then offers."""
    api.install_function(FUNCTION_ID, PIPE.title, content, description=PIPE.description)
    api.set_valves(FUNCTION_ID, {"API_KEY": upstream.api_key, "BASE_URL": upstream.base_url, **valves})
    return [model for model in api.models() if model.startswith(f"{FUNCTION_ID}.")]
