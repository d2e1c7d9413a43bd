"""One run of scripts/start: what is started in which order, what is said, and when it ends.

And how the built pipe is put into a running Open WebUI.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from scripts import build
from scripts.bundle.builder import PIPE, BuildError
from scripts.launch import openwebui
from scripts.launch.api import Api, ApiError
from scripts.launch.process import LaunchError, Program, require_free_port
from scripts.paths import ROOT

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

WATCH_SECONDS = 0.5
STANDIN_KEY = "sk-or-v1-stand-in"
STANDIN_START_SECONDS = 300.0


class Progress:
    """Prints lines with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print one line."""
        print(f"[{time.monotonic() - self._started:4.0f} s] {text}", flush=True)


def run(options: Namespace) -> int:
    """Start everything and keep it running until an interrupt, which passes through; 1 when that fails.

    The options are those of scripts/start: where the servers listen, and where the data lie.
    """
    try:
        with contextlib.ExitStack() as servers:
            _watch(_start(options, Progress(), servers))
    except (LaunchError, ApiError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _start(options: Namespace, say: Progress, servers: contextlib.ExitStack) -> list[Program]:
    """Start the servers, install the pipe and say how to log in."""
    address = openwebui.Address(options.port, options.host)
    require_free_port(address.host, address.port, "choose another with --port or OPEN_WEBUI_PORT")
    login = openwebui.Secrets.of(options.data)
    programs, valves = _start_upstream(options, say, servers)
    say(f"starting Open WebUI on SQLite, with its data in {options.data}")
    programs.append(servers.enter_context(openwebui.start(address, options.data, report=say)))
    say("building and installing the pipe")
    content = build.build().read_text("utf-8")
    with _sign_in(address, login) as admin:
        models = install(admin, content, **valves)
    say(f"ready, with {len(models)} models of the pipe")
    print(
        f"\n  {address.url}\n  email     {login.email}\n  password  {login.password}\n\n"
        "New chats begin with the first model until one is chosen for all: Admin Panel, Settings, Models, the menu of\n"
        "the model, Set as Selected Model.\n\nCtrl-C stops it.",
        flush=True,
    )
    return programs


def _start_upstream(
    options: Namespace, say: Progress, servers: contextlib.ExitStack
) -> tuple[list[Program], dict[str, str | None]]:
    """OpenRouter itself when there is a key for it, otherwise the stand-in; and the valves that name it."""
    if key := os.environ.get("OPENROUTER_API_KEY", "").strip():
        say("the pipe will talk to OpenRouter, with the key in OPENROUTER_API_KEY")
        return [], {"API_KEY": key, "BASE_URL": None}
    require_free_port("127.0.0.1", options.standin_port, "choose another with --standin-port or STANDIN_PORT")
    say("OPENROUTER_API_KEY is not set: starting a stand-in for OpenRouter, whose answers are made up")
    standin = servers.enter_context(_start_standin(options.standin_port, options.data / "stand-in.log"))
    base_url = f"http://127.0.0.1:{options.standin_port}/api/v1"
    return [standin], {"API_KEY": STANDIN_KEY, "BASE_URL": base_url}


def _sign_in(address: openwebui.Address, login: openwebui.Secrets) -> Api:
    with Api(address.url) as anyone:
        try:
            return anyone.sign_in(login.email, login.password)
        except ApiError as error:
            raise LaunchError(
                f"cannot sign in as {login.email}; if its password was changed, write the new one into "
                f"login.json in the data directory ({error})"
            ) from error


def _watch(programs: list[Program]) -> NoReturn:
    """Wait while all programs run; the first that ends by itself ends the session with an error."""
    while all(program.running for program in programs):
        time.sleep(WATCH_SECONDS)
    ended = next(program for program in programs if not program.running)
    raise LaunchError(f"a server ended by itself; the end of {ended.log}:\n{ended.last_lines(20)}")


def _start_standin(port: int, log: Path) -> Program:
    """Start the server that stands in for OpenRouter, and wait until it listens."""
    command = [sys.executable, "-m", "scripts.standin", "--port", str(port)]
    program = Program(command, log=log, directory=ROOT, variables=os.environ)
    program.wait_for_port(port, STANDIN_START_SECONDS)
    return program


def install(api: Api, content: str, **valves: object) -> list[str]:
    """Install or update the pipe, set its valves, and return the ids of the models that it then offers."""
    api.install_function(PIPE.id, PIPE.title, content, description=PIPE.description)
    api.set_valves(PIPE.id, valves)
    return [model for model in api.models() if model.startswith(f"{PIPE.id}.")]
