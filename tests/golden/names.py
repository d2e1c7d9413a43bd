"""Digests, names and markers, which stored rows and providers' caches hang on: groups two and three."""

from __future__ import annotations

import json
import random
import sqlite3
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import build_conversation, content_digest
from open_webui_openrouter_pipe.history import markers
from open_webui_openrouter_pipe.host.model_rows import _digest
from open_webui_openrouter_pipe.openrouter.request import identity_parameters
from open_webui_openrouter_pipe.ports import RequestOrigin
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.kept import _lease_name
from open_webui_openrouter_pipe.summaries.segments import Segment, SegmentSizes, segment_ends
from tests.golden import bodies, subjects
from tests.golden.cases import FOLDER, as_json
from tests.golden.network import Network, called, said, thought

if TYPE_CHECKING:
    from tests.golden.cases import Texts

ODD_TEXTS = ("", "a", "ü", "日本語 🙂", "\ud83d", "x" * 70_000, 'quote " and \\', "line\r\nline\0")
ODD_VALUES: tuple[Any, ...] = (
    *ODD_TEXTS,
    *(None, True, False, 0, -1, 10**20, 0.1, 1e300, [], {}, [[]], {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    *(
        thought("1"),
        called("1", n=1),
        said("Hi."),
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ),
)
IDS = ("", "ada", "ü:1", "a" * 300)
ULIDS = [markers.item_id(time, dice) for time, dice in product((0, 1, 2**80 - 1), (0, 2**20 - 1))]
HIDDEN = {"payload", "created", "last_used", "until", "updated", "id", "holder", "key_id"}
"""Columns that hold seals, times and new ids."""


def names() -> Texts:
    """Digests of content, chains, ends of segments, and what rows, leases, calls and callers are called."""
    segment, redis = Segment(b"\0" * 16, b"\1" * 16, 3), GuardedRedis(None, prefix="open-webui")
    yield "content", lambda: as_json([content_digest(value).hex() for value in ODD_VALUES])
    for kind in bodies.TRIED:
        yield f"chains {kind}", partial(_chains, kind)
    for window, turns in product((2_000, 7_500, 16_384, 30_720, 128_000, 1_000_000), (0, 5)):
        yield f"ends {window} {turns}", partial(_ends, window, turns)
    for task in (None, "title"):
        yield f"identity {task}", partial(_identity, task)
    yield "leases", lambda: as_json([_lease_name(user, segment) for user in IDS])
    yield "redis", lambda: as_json([redis.row_keys(user, ["A", "B"]) for user in IDS])
    yield "model rows", lambda: as_json([_digest(value) for value in ODD_VALUES])
    phases = product(ULIDS, ("", "commentary", "odd"))
    yield "calls", lambda: as_json([markers.name_call(*each) for each in phases])
    for model in ("anthropic/claude-small", "openai/gpt-small", "deepseek/deepseek-small"):
        yield f"stored {model}", partial(_stored, model)


async def _chains(kind: str) -> str:
    found = []
    for chat in bodies.chats(kind).values():
        items = await subjects.transformed(chat["messages"], {})
        turns = build_conversation(items, [at // 3 for at in range(len(items))]).turns
        found.append([turn.chain.hex() for turn in turns])
    return as_json(found)


def _identity(task: str | None) -> str:
    secret = subjects.SECRET
    origins = [RequestOrigin(*ids, "") for ids in product(IDS, IDS, IDS[:2])]
    return as_json([identity_parameters("trace", origin, secret, task=task) for origin in origins])


def _ends(window: int, turns: int) -> str:
    rand = random.Random(window)
    chats = [[rand.choice((50, 400, 3_000, 20_000)) for _ in range(60)] for _ in range(6)]
    sizes = SegmentSizes.of(ContextSettings(summary_turn_trigger=turns), window)
    return as_json([segment_ends(chat, sizes) for chat in chats])


async def _stored(model: str) -> str:
    """What a chat leaves in the database, without what is sealed, when it was, and sums by quarter of an hour."""
    chat, found = bodies.chats("benchmark")["plain"], {}
    async with subjects.open_pipe(Network()) as opened:
        for number, call in enumerate(chat["calls"][-3:]):
            metadata = {"chat_id": "chat-1", "message_id": f"message-{number}"}
            await opened.events(model, bodies.messages_of(chat, call), metadata)
        await opened.close()
        with sqlite3.connect(opened.path) as connection:
            connection.row_factory = sqlite3.Row
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                rows = map(dict, connection.execute(f'SELECT * FROM "{table}"'))
                shown = [{name: _rounded(row[name]) for name in row if name not in HIDDEN} for row in rows]
                found[table] = sorted(shown, key=json.dumps)
        connection.close()
    del found["openrouter_pipe_usage"]
    return as_json(dict(sorted(found.items())))


def _rounded(value: Any) -> Any:
    """Python 3.12 adds fractions more exactly."""
    return round(value, 9) if isinstance(value, float) else value


# --- markers


def carriers() -> Texts:
    """The three carriers, written and read, on texts with code, fences and folded blocks."""
    writers = (markers.leading_markers, markers.standalone_markers)
    yield "written", lambda: as_json([[write(ULIDS[:n]) for write in writers] for n in range(4)])
    for number, line in enumerate((FOLDER / "marked.ndjson").read_text("utf-8").splitlines()):
        yield f"text {number:02}", partial(_read, line)
    yield "references", _references
    yield "calls", lambda: as_json(list(map(markers.read_call_name, _call_names())))


async def _read(line: str) -> str:
    message = json.loads(line)
    text, ulids = message.pop("text"), [markers.item_id(number, 0) for number in range(1, 9)]
    items = {
        ulid: thought(ulid) if number % 2 else called(ulid, n=number) for number, ulid in enumerate(ulids[:6])
    }
    said_ = {"role": "assistant", "content": text, **message}
    messages = [{"role": "user", "content": "Why?"}, said_, {"role": "user", "content": text}]
    split = [markers.split_text_by_markers(text, known) for known in (None, set(ulids[:3]))]
    sent = await subjects.transformed(messages, items)
    return as_json([text, split, markers.code_ulids(text), markers.erase_markers(text), sent])


def _references() -> str:
    kept = [markers.Reference(*each) for each in product((0, 7), ("", *ULIDS[:2]), ("", "commentary"))]
    written = list(map(markers.write_reference, kept))
    fields: tuple[Any, ...] = ({"id": "x"}, {"id": ULIDS[0], "after": -1})
    odd = [None, 3, {}, *({"type": markers.REFERENCE_TYPE, **each} for each in fields)]
    return as_json([written, markers.read_references([*written, *odd]), markers.read_references("x")])


def _call_names() -> list[str]:
    endings = ("", "_commentary", "_odd", "_final_answer")
    return ["", "call_1", f"x{ULIDS[0]}", *(f"call_{ULIDS[1]}{ending}" for ending in endings)]
