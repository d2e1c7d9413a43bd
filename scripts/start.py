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
        from scripts.launch.session import Options, run

        return run(Options(options.host, options.port, options.standin_port, options.data.resolve()))
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
        return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Take every wish that we end as Ctrl-C, once: the second would disturb the stopping."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    variables = os.environ
    parser = argparse.ArgumentParser(prog="scripts/start", description=__doc__)
    parser.add_argument(
        "--host",
        default=variables.get("OPEN_WEBUI_HOST", "127.0.0.1"),
        help="the address to listen on (OPEN_WEBUI_HOST, 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=variables.get("OPEN_WEBUI_PORT", "8080"),
        help="Open WebUI's port (OPEN_WEBUI_PORT, 8080)",
    )
    parser.add_argument(
        "--standin-port",
        type=int,
        default=variables.get("STANDIN_PORT", "8081"),
        help="the stand-in's port (STANDIN_PORT, 8081)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=variables.get("OPEN_WEBUI_DATA", str(DATA)),
        help="where Open WebUI keeps everything (OPEN_WEBUI_DATA, .data in the repository)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
