"""The stand-in of a run, which writes down for the audit what each request held: `python -m scripts.faults.upstream`.

Every question of a run has a tag, by which it is known again in whatever is made of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import threading
from typing import TYPE_CHECKING, Any, TextIO

from scripts.standin import StandIn
from scripts.standin.planner import NOTE
from scripts.standin.prompt import input_items, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.standin.state import RecordedRequest

    Json = dict[str, Any]

TAG = re.compile(r"turn-(\d{6})")
TASK = "### Task:"
"""How the host begins what it asks for by itself, such as a title."""
PERIOD_SECONDS = 1.0


def tag(number: int) -> str:
    """What names a question."""
    return f"turn-{number:06d}"


def digest(text: str) -> str:
    """What names a text, however its words are spaced."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def told(request: RecordedRequest) -> Json:
    """What the audit has to know of a request: the tags in it, its questions and answers in order, and its answer."""
    body = request.body if isinstance(request.body, dict) else {}
    items = input_items(body) if "input" in body else []
    is_task = any(item.get("role") == "user" and text_of(item).startswith(TASK) for item in items)
    return {
        "path": request.path,
        "kind": "summary" if request.is_summary else "task" if is_task else "answer",
        "model": body.get("model"),
        "user": body.get("user"),
        "tags": sorted({int(number) for number in TAG.findall(request.raw.decode("utf-8", "replace"))}),
        "items": [*_items(items)],
        "written": request.written,
        "is_whole": request.usage is not None and not request.disconnected,
        "status": request.status,
        "error": request.error,
        "warnings": request.warnings,
        "began": request.received_at,
        "ended": request.ended_at,
    }


def _items(items: list[Json]) -> Iterator[tuple[str, int | str]]:
    """The numbers of questions, and the digests of answers; notes beside a question are none."""
    for item in items:
        text = text_of(item) if item.get("role") in {"user", "assistant"} else ""
        if item.get("role") == "assistant":
            yield "answer", digest(text)
        elif text and not NOTE.match(text):
            yield from (("question", int(number)) for number in TAG.findall(text))


def write_down(standin: StandIn, file: TextIO) -> None:
    """Take what has ended out of the log, oldest first, and write it down."""
    while standin.log and standin.log[0].ended_at is not None:
        request = standin.log.popleft()
        if request.method == "POST":
            file.write(json.dumps(told(request)) + "\n")
    file.flush()


def main() -> None:
    """Serve until the terminal or the system says stop."""
    parser = argparse.ArgumentParser(prog="python -m scripts.faults.upstream", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True, help="seconds between deltas")
    parser.add_argument("--log", required=True, help="the file that is written")
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with (
        open(options.log, "a", encoding="utf-8") as file,  # noqa: PTH123 - a path of the command line
        StandIn(pace_seconds=options.pace, port=options.port) as standin,
    ):
        while not stopped.wait(PERIOD_SECONDS):
            write_down(standin, file)


if __name__ == "__main__":
    main()
