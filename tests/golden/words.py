"""Texts that people read, forms, statements, and counts: groups six and seven."""

from __future__ import annotations

import json
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from tests.golden import subjects
from tests.golden.cases import FOLDER, as_json
from tests.golden.names import ODD_TEXTS
from tests.golden.network import called, thought

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLES = Path(__file__).parents[1] / "conversation" / "samples"
VENDORS = ("openai/gpt", "anthropic/claude", "google/gemini", "x-ai/grok")


def texts() -> Iterator[tuple[str, Callable[[], str]]]:
    """Every line in every language by its first letters, the forms of settings, and the tables."""
    for code, language in subjects.LANGUAGES.items():
        for letters, names in groupby(sorted(subjects.LANGUAGES["en"].lines), key=lambda name: name[:3]):
            yield f"{code} {letters}", partial(_lines, language, tuple(names))
    for name, schema in subjects.schemas():
        yield f"valves {name}", partial(as_json, schema)
    for dialect in ("sqlite", "postgresql"):
        yield f"tables {dialect}", partial(as_json, subjects.statements(dialect))


def _lines(language: Any, names: tuple[str, ...]) -> str:
    english, found = subjects.LANGUAGES["en"].lines, list[str]()
    for name in names:
        for count in (1, 2) if f"{name}.one" in english else (2,):
            line = subjects.notice(name, **{**_values(english[name]), "count": count})
            found.append(f"{name} = {subjects.in_language(line, language)}")
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


# --- counts


def counts() -> Iterator[tuple[str, Callable[[], str]]]:
    """The tokens of texts of many kinds, of files, and of items."""
    for path in sorted(SAMPLES.iterdir()):
        for number, part in enumerate(path.read_text("utf-8").split("\n# ")):
            yield f"{path.name} {number:02}", partial(_estimates, part)
    yield "odd texts", lambda: as_json(list(map(subjects.estimate_tokens, ODD_TEXTS)))
    yield (
        "items",
        lambda: as_json(
            [subjects.counted(item, vendor) for item in (thought("1"), called("1")) for vendor in VENDORS]
        ),
    )
    files = json.loads((FOLDER / "files.json").read_text("utf-8"))
    for kind, zeros in (("wav", 80_000), ("mp3", 64_000)):
        data = "UklGR" + "A" * 32 + "QB8A" + "A" * zeros if kind == "wav" else "A" * zeros
        files[kind] = {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    files["video"] = {"type": "input_video", "video_url": "data:video/mp4;base64," + "A" * 400_000}
    for name, part in files.items():
        yield f"file {name}", partial(_file_tokens, part)


def _estimates(text: str) -> str:
    """Of whole texts alone: a few short lines count for one more token in Python 3.12, whose `sum` is finer."""
    return json.dumps([subjects.estimate_tokens(each) for each in (text, text * 3, text[::-1], text.upper())])


def _file_tokens(part: dict[str, Any]) -> str:
    parts = (
        [{**part, "detail": detail} for detail in ("auto", "low", "high")] if "image_url" in part else [part]
    )
    items = [
        *({"type": "message", "role": "user", "content": [each]} for each in parts),
        {"type": "function_call_output", "call_id": "c", "output": parts},
    ]
    return as_json([[subjects.counted(item, vendor) for item in items] for vendor in VENDORS])
