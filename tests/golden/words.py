"""Texts that people read, forms, statements, and counts: groups six and seven."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import date
from functools import partial
from itertools import groupby, product
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from open_webui_openrouter_pipe import Pipe
from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.media import family_of
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.store.schema import define_tables
from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from tests.golden.cases import FOLDER, as_json
from tests.golden.names import ODD_TEXTS
from tests.golden.network import called, thought

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.golden.cases import Texts

SAMPLES = Path(__file__).parents[1] / "conversation" / "samples"
VENDORS = ("openai/gpt", "anthropic/claude", "google/gemini", "x-ai/grok")


def texts() -> Texts:
    """Every line in every language by its first letters, the forms of settings, and the tables."""
    for code, language in LANGUAGES.items():
        for letters, names in groupby(sorted(LANGUAGES["en"].lines), key=lambda name: name[:3]):
            yield f"{code} {letters}", partial(_lines, language, tuple(names))
    for name, schema in _schemas():
        yield f"valves {name}", partial(as_json, schema)
    for dialect in ("sqlite", "postgresql"):
        yield f"tables {dialect}", partial(as_json, _statements(dialect))


def _lines(language: Any, names: tuple[str, ...]) -> str:
    english, found = LANGUAGES["en"].lines, list[str]()
    for name in names:
        line = notice(name, **{**_values(english[name]), "count": 2})
        found.append(f"{name} = {in_language(line, language)}")
    return "\n".join(found)


def _values(template: str) -> dict[str, Any]:
    values: dict[str, Any] = {"decimals": 2, "separator": "; "}
    for _, name, form, _ in Formatter().parse(template):
        if name in {"lines", "details"}:
            values[name] = ("a first line", "a second line")
        elif name in {"when", "day", "date"}:
            values[name] = date(2026, 3, 4)
        elif name and form:
            values[name] = 1234.5678 if form[-1] in "f%g}" else 1234
        elif name:
            values[name] = f"<{name}>"
    return values


def _schemas() -> Iterator[tuple[str, Any]]:
    """The JSON schemas of the forms, for administrators and for users under four settings."""
    yield "admin", Pipe.Valves.model_json_schema()
    for name, valves in (
        ("plain", {}),
        ("overriding", {"ENABLE_USER_OVERRIDE": True, "CONTEXT_AIM": "thrifty"}),
        ("few", {"USER_CONTROLS": "WEB_SEARCH, ZDR"}),
        ("strict", {"ZDR": True, "WEB_SEARCH": "on", "COST_LINE": "forecast", "RECALL": False}),
    ):
        pipe = Pipe()
        pipe.valves = Pipe.Valves(**cast("Any", valves))
        yield f"user, {name}", pipe.UserValves.model_json_schema()


def _statements(dialect: str) -> list[str]:
    """The statements that create all tables."""
    tables, found = define_tables("chat" if dialect == "postgresql" else None), list[str]()
    compiler = cast("Any", postgresql if dialect == "postgresql" else sqlite).dialect()

    def keep(statement: Any, *_: Any, **__: Any) -> None:
        found.append(str(statement.compile(dialect=compiler)).strip())

    engine = sa.create_mock_engine(f"{dialect}://", keep)
    metadata = getattr(tables, fields(tables)[0].name).metadata
    metadata.create_all(cast("Any", engine), checkfirst=False)
    return sorted(found)


# --- counts


def counts() -> Texts:
    """The tokens of texts of many kinds, of files, and of items."""
    for path in sorted(SAMPLES.iterdir()):
        for number, part in enumerate(path.read_text("utf-8").split("\n# ")):
            yield f"{path.name} {number:02}", partial(_estimates, part)
    yield "odd texts", lambda: as_json(list(map(estimate_tokens, ODD_TEXTS)))
    items = product((thought("1"), called("1")), VENDORS)
    yield "items", lambda: as_json([_counted(*each) for each in items])
    files = json.loads((FOLDER / "files.json").read_text("utf-8"))
    for kind, zeros in (("wav", 80_000), ("mp3", 64_000)):
        data = "UklGR" + "A" * 32 + "QB8A" + "A" * zeros if kind == "wav" else "A" * zeros
        files[kind] = {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    files["video"] = {"type": "input_video", "video_url": "data:video/mp4;base64," + "A" * 400_000}
    for name, part in files.items():
        yield f"file {name}", partial(_file_tokens, part)


def _estimates(text: str) -> str:
    """Of whole texts alone: a few short lines count for one more token in Python 3.12, whose `sum` is finer."""
    return json.dumps([estimate_tokens(each) for each in (text, text * 3, text[::-1], text.upper())])


def _file_tokens(part: dict[str, Any]) -> str:
    parts = (
        [{**part, "detail": detail} for detail in ("auto", "low", "high")] if "image_url" in part else [part]
    )
    items = [
        *({"type": "message", "role": "user", "content": [each]} for each in parts),
        {"type": "function_call_output", "call_id": "c", "output": parts},
    ]
    return as_json([[_counted(item, vendor) for item in items] for vendor in VENDORS])


def _counted(item: Any, vendor: str) -> tuple[int, ...]:
    """The tokens of an item under the rules of a vendor, by kind."""
    return tuple(TokenCounter(ContentCache(), family=family_of(vendor)).item(item))
