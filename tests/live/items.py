"""What stands in the requests and answers of live tests, and in the host's database file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

from open_webui_openrouter_pipe.history.markers import erase_markers
from open_webui_openrouter_pipe.host.native import NOTICE
from scripts.harness.openwebui import OpenWebUI
from scripts.harness.page import failure_of, lines_in
from scripts.standin import StandIn
from scripts.standin.state import RecordedRequest
from tests.live.models import Json

OF_TOOLS = "Open WebUI's built-in tools take about "
"""Begins what administrators read once in each chat."""
MARKS_OF_CACHE = {"cache_control", "prompt_cache_breakpoint"}


def statuses(answer: Json) -> list[str]:
    """What the pipe has said about an answer, above it and in it; the host's own lines are known by an action."""
    own = [each for each in answer.get("statusHistory", ()) if "action" not in each and "hidden" not in each]
    about = [item for item in answer.get("output", ()) if not failure_of(item)]
    said = [line for item in about for line in lines_in(item)]
    lines = [*said, *(each["description"] for each in own)]
    return [line for line in lines if not line.startswith(OF_TOOLS)]


def error_of(answer: Json) -> str:
    """The line of an answer's error, "" for none: an item of it, or a field where it did not stream."""
    content = (answer.get("error") or {}).get("content") or {}
    line = content.get("message") if isinstance(content, dict) else content
    return str(line or "".join(map(failure_of, answer.get("output") or [])))


def text_of(answer: Json) -> str:
    """An answer's text as the host stored it in its items, without markers; a broken answer has no other."""
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return "\n".join(erase_markers(part["text"]) for part in parts)


def answers(standin: StandIn) -> list[RecordedRequest]:
    """The requests for answers in chats, without those for summaries and the host's own tasks."""
    return [each for each in standin.responses if "session_id" in each.body and not each.is_summary]


def inputs(standin: StandIn) -> list[list[Json]]:
    """The inputs of these."""
    return [each.body["input"] for each in answers(standin)]


def given(requests: Sequence[RecordedRequest]) -> list[Json]:
    """All items that these were answered with."""
    return [item for request in requests for item in request.output]


def kinds(items: Sequence[Json]) -> list[str]:
    """Items by their types, messages by their roles; instructions and lines about answers aside."""
    found = [item.get("role") or item["type"] for item in items]
    return [kind for kind in found if kind not in {"system", "developer", NOTICE}]


def wire(items: Sequence[Json], *types: str) -> list[str]:
    """The items of these types as they lie on the wire, key order included."""
    return [json.dumps(item) for item in items if item["type"] in types]


def arguments_of(items: Sequence[Json]) -> list[tuple[str, str]]:
    """The calls among items, each as its id and its arguments as they were written."""
    return [(item["call_id"], item["arguments"]) for item in items if item["type"] == "function_call"]


def outputs_of(items: Sequence[Json]) -> list[str]:
    """The tool results among items."""
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def texts_of(items: Sequence[Json], *roles: str) -> list[str]:
    """The texts of the messages among items in their order, of these roles or of all."""
    messages = [item for item in items if item["type"] == "message" and (not roles or item["role"] in roles)]
    return ["\n".join(part.get("text", "") for part in item["content"]) for item in messages]


def stored_rows(host: OpenWebUI, query: str, *values: str) -> list[tuple[Any, ...]]:
    """What a query finds in the host's database file."""
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def database_bytes(host: OpenWebUI) -> bytes:
    """The host's database file, with what is not yet moved into it."""
    files = [host.data / "webui.db", host.data / "webui.db-wal"]
    return b"".join(file.read_bytes() for file in files if file.exists())


def each_continues(requests: Sequence[list[Any]]) -> bool:
    """Whether each input begins with the whole one before."""
    return all(after[: len(before)] == before for before, after in pairwise(requests))


def without_marks(item: Any) -> Any:
    """A value of a request without the marks for the cache, which move on from turn to turn."""
    if isinstance(item, dict):
        return {key: without_marks(value) for key, value in item.items() if key not in MARKS_OF_CACHE}
    return [without_marks(each) for each in item] if isinstance(item, list) else item
