"""Starts Open WebUI with the pipe in it, ready to chat, and stops all of it at Ctrl-C.

With OPENROUTER_API_KEY set the pipe talks to OpenRouter; without, to a stand-in that is started here.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from scripts import environment
from scripts.paths import DATA

if TYPE_CHECKING:
    from types import FrameType


def main() -> int:
    """Bring the environment up to date, then run until interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    options = _arguments()
    try:
        environment.prepare()
        # Only now is what it imports sure to be installed.
        from scripts.launch.session import run

        return run(options)
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Take every wish that we end as Ctrl-C, once: the second would disturb the stopping."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _resolved(path: str) -> Path:
    return Path(path).resolve()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/start", description=__doc__)
    for option, variable, kind, default, text in (
        ("--host", "OPEN_WEBUI_HOST", str, "127.0.0.1", "the address to listen on"),
        ("--port", "OPEN_WEBUI_PORT", int, "8080", "Open WebUI's port"),
        ("--standin-port", "STANDIN_PORT", int, "8081", "the stand-in's port"),
        ("--data", "OPEN_WEBUI_DATA", _resolved, str(DATA), "where Open WebUI keeps everything"),
    ):
        value = os.environ.get(variable, default)
        parser.add_argument(option, type=kind, default=value, help=f"{text} ({variable}, {default})")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
