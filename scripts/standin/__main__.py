"""Command line: serve the stand-in on a loopback port until interrupted."""

from __future__ import annotations

import argparse
import signal
import threading

from . import StandIn

DEMO_PACE_SECONDS = 0.03
DEFAULT_PORT = 8399


def main() -> None:
    """Serve until the terminal or the system says stop."""
    parser = argparse.ArgumentParser(prog="python -m scripts.standin", description=__doc__)
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument("--pace", type=float, default=DEMO_PACE_SECONDS, help="seconds between deltas")
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with StandIn(pace_seconds=options.pace, port=options.port) as standin:
        print(f"stand-in at {standin.base_url}", flush=True)
        stopped.wait()


if __name__ == "__main__":
    main()
