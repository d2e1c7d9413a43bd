"""Tool outputs stated as facts: what was there, in the output's own words, never retold.

Owns the recognition of JSON rows, CSV, tables and errors, and the fact line that stands in for each. Every
value in a fact occurs in the output; what cannot be read is given by its size, head and tail. No model is
asked.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..responses.items import FunctionCallOutput, InputPart

Row: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | float | bool | None

HEAD_CHARACTERS = 400
TAIL_CHARACTERS = 200
COMMENT_CHARACTERS = 300
VALUE_CHARACTERS = 80
COLUMNS_SHOWN = 20
NAME_CHARACTERS = 60
FIRST_ROW_CHARACTERS = 600
ERROR_CHARACTERS = 300
LEAST_TABLE_ROWS = 3
MOST_UNWRAPPINGS = 3
MOST_CANDIDATES = 8
LEAST_SHARE = 0.5
FAILURE_FACT = "[Tool: error | "

ROW_FIELDS = ("results", "rows", "data", "items", "records", "values", "result", "output")
ERROR_FIELDS = ("error", "errors", "isError", "is_error", "exception")
ERROR_BEGINNING = re.compile(
    r"\s*(?:[\w. ]{0,60}(?:error|exception|failure|failed)\s*[:(!]"
    r"|traceback \(most recent call last\)|fatal:|permission denied)",
    re.IGNORECASE,
)
ERROR_PHRASE = re.compile(r"\b(?:failed|failure|not found|timed out|denied|exception)\b", re.IGNORECASE)
SHORT_ERROR_CHARACTERS = 200
"""A text this short that speaks of a failure is one; a longer one may be a report about failures."""
_TOO_DEEP = re.compile(r"(?:[\[{][^\[\]{}]*){64}")
_CANDIDATE = re.compile(r"[\[{]")
_RULE_LINE = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?\s*")
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows found in an output: their number and columns, the first of them, and the text around."""

    rows: int
    columns: tuple[str, ...]
    first: Row
    errors: int = 0
    before: str = ""
    after: str = ""


def state_fact(output: str) -> str:
    """The fact that stands in for an output; the output itself when the fact would not be shorter."""
    text = _unescaped(output)
    fact = next((fact for read in _READERS if (fact := read(text)) is not None), None) or _extent(output)
    return fact if len(fact) < len(output) else output


def state_parts(parts: Sequence[InputPart]) -> str:
    """The fact for an output in parts: its text as one fact, and each attachment named."""
    return "\n".join([*map(state_fact, _texts(parts)), *_attachments(parts)])


def prune_tool_output(item: FunctionCallOutput) -> FunctionCallOutput:
    """Return the item with its output stated as a fact; the same item when that would not be shorter."""
    output = item["output"]
    fact = state_fact(output) if isinstance(output, str) else state_parts(output)
    return item if fact == output else {**item, "output": fact}


def text_of(output: str | Sequence[InputPart]) -> str:
    """The text of an output; attachments are named in its place."""
    return output if isinstance(output, str) else "\n".join([*_texts(output), *_attachments(output)])


def _texts(parts: Sequence[InputPart]) -> list[str]:
    texts = [part["text"] for part in parts if part["type"] == "input_text"]
    return ["\n".join(texts)] if texts else []


def _attachments(parts: Sequence[InputPart]) -> list[str]:
    return [f"[{part['type'].removeprefix('input_')}]" for part in parts if part["type"] != "input_text"]


def is_failure(output: str) -> bool:
    """Tell whether an output, or the fact that stands in for it, reports nothing but an error."""
    return output.startswith(FAILURE_FACT) or _error(_unescaped(output)) is not None


def _unescaped(output: str) -> str:
    """Undo HTML escapes and one layer of a JSON string around the whole."""
    text = html.unescape(output) if "&quot;" in output or "&#34;" in output else output
    for _ in range(MOST_UNWRAPPINGS):
        stripped = text.strip()
        if not (len(stripped) > 1 and stripped[0] == stripped[-1] == '"'):
            break
        inner = _parsed(stripped)
        if not isinstance(inner, str):
            break
        text = inner
    if '\\"' in text and not _has_json(text):
        text = text.replace('\\"', '"').replace("\\n", "\n")
    return text


def _has_json(text: str) -> bool:
    return next(_json_blocks(text), None) is not None


def _parsed(text: str) -> Any:
    """The JSON value, or None when it is none or too deeply nested to be read everywhere alike."""
    if _TOO_DEEP.search(text):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json_blocks(text: str) -> Iterator[tuple[Any, str, str]]:
    """Containers of JSON that make up most of a text, each with what stands before and after it."""
    if _TOO_DEEP.search(text):
        return
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MOST_CANDIDATES):
        start = _CANDIDATE.search(text, at)
        if start is None:
            return
        try:
            value, end = decoder.raw_decode(text, start.start())
        except ValueError:
            at = start.end()
            continue
        if value and end - start.start() >= LEAST_SHARE * len(text):
            yield value, text[: start.start()], text[end:]
        at = end


def _json_rows(text: str) -> str | None:
    for value, before, after in _json_blocks(text):
        rows = _rows_in(value)
        if rows is not None:
            columns = tuple(rows[0]) if rows and isinstance(rows[0], dict) else ()
            errors = sum(map(_is_error, rows))
            first = rows[0] if rows else None
            return _line(FoundRows(len(rows), columns, first, errors, before, after))
    return None


def _json_lines(text: str) -> str | None:
    """One JSON object a line, as logs and exports have it."""
    lines = text.strip().splitlines()
    if len(lines) < LEAST_TABLE_ROWS or not all(line.startswith("{") for line in lines):
        return None
    rows = [_parsed(line) for line in lines]
    if not all(isinstance(row, dict) and row for row in rows):
        return None
    return _line(FoundRows(len(rows), tuple(rows[0]), rows[0], sum(map(_is_error, rows))))


def _rows_in(value: Any) -> list[Any] | None:
    """The array of rows: the value itself, or under one of the usual names, also as JSON in a string."""
    if isinstance(value, list):
        return value
    for name in ROW_FIELDS:
        inner = value.get(name)
        if isinstance(inner, str) and inner[:1] in {"[", "{"}:
            inner = _parsed(inner)
        if isinstance(inner, list) and inner:
            return inner
        if isinstance(inner, dict) and (rows := _rows_in(inner)) is not None:
            return rows
    return None


def _json_object(text: str) -> str | None:
    """An object without rows: its field names and its values, cut short."""
    for value, before, after in _json_blocks(text):
        if isinstance(value, dict):
            shown = _shortened_row(value)
            line = f"[Tool: {len(text):,} characters | fields: {_names(tuple(value))} | {shown}]"
            return _around(line, before, after)
    return None


def _error(text: str) -> str | None:
    """An error is what begins like one, or is an object with nothing to show but its error."""
    if _says_error(text):
        return f"{FAILURE_FACT}{_cut(text.strip(), ERROR_CHARACTERS)}]"
    block = next(_json_blocks(text), None)
    if block is None or not _is_error(block[0]) or _rows_in(block[0]):
        return None
    return f"{FAILURE_FACT}{_cut(text.strip(), ERROR_CHARACTERS)}]"


def _says_error(text: str) -> bool:
    short = len(text) <= SHORT_ERROR_CHARACTERS and not _CANDIDATE.search(text)
    return ERROR_BEGINNING.match(text) is not None or (short and ERROR_PHRASE.search(text) is not None)


def _is_error(row: Any) -> bool:
    if isinstance(row, str):
        return _says_error(row)
    if not isinstance(row, dict):
        return False
    failed = str(row.get("status", "")).lower() in {"error", "failed", "failure"}
    return failed or any(row.get(name) for name in ERROR_FIELDS)


def _table(text: str) -> str | None:
    """A Markdown table: the line above its rule names the columns."""
    lines = text.splitlines()
    rule = next(
        (at for at, line in enumerate(lines) if at and "|" in line and _RULE_LINE.fullmatch(line)), None
    )
    if rule is None or "|" not in lines[rule - 1]:
        return None
    end = next((at for at in range(rule + 1, len(lines)) if "|" not in lines[at]), len(lines))
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[rule - 1 : end]]
    return _tabular(cells[:1] + cells[2:], "\n".join(lines[: rule - 1]), "\n".join(lines[end:]))


def _delimited(text: str) -> str | None:
    """CSV and its kin: several lines with the same number of fields, more than one each."""
    lines = text.strip().splitlines()
    for delimiter in _DELIMITERS:
        head = lines[: LEAST_TABLE_ROWS + 1]
        if len(head) <= LEAST_TABLE_ROWS or not all(delimiter in line for line in head):
            continue
        try:
            rows = list(csv.reader(lines, delimiter=delimiter))
        except csv.Error:
            continue
        alike = sum(len(row) == len(rows[0]) for row in rows)
        names = [name.strip() for name in rows[0]]
        if (
            len(set(names)) == len(names) > 1
            and alike >= 0.9 * len(rows)
            and max(map(len, names)) <= NAME_CHARACTERS
        ):
            return _tabular(rows, "", "")
    return None


def _tabular(rows: Sequence[Sequence[str]], before: str, after: str) -> str:
    columns, body = tuple(rows[0]), rows[1:]
    first = dict(zip(columns, body[0], strict=False)) if body else None
    return _line(FoundRows(len(body), columns, first, 0, before, after))


def _extent(text: str) -> str:
    """The size, the head and the tail of what cannot be read as anything."""
    cut = cut_middle(text, HEAD_CHARACTERS, TAIL_CHARACTERS)
    return f"[Tool: {len(text):,} characters, the middle left out]\n{cut}"


_READERS: tuple[Callable[[str], str | None], ...] = (
    _error,
    _json_lines,
    _json_rows,
    _table,
    _json_object,
    _delimited,
)


def _line(found: FoundRows) -> str:
    parts = [f"{found.rows:,} row{'' if found.rows == 1 else 's'}"]
    if found.errors:
        parts.append(f"{found.errors:,} of them error{'' if found.errors == 1 else 's'}")
    if found.columns:
        parts.append(f"columns: {_names(found.columns)}")
    if found.first is not None:
        parts.append(f"first: {_shortened_row(found.first)}")
    return _around(f"[Tool: {' | '.join(parts)}]", found.before, found.after)


def _around(line: str, before: str, after: str) -> str:
    comments = (_cut(text.strip(), COMMENT_CHARACTERS) for text in (before, after))
    head, tail = comments
    return "\n".join(part for part in (head, line, tail) if part)


def _names(columns: Sequence[str]) -> str:
    shown = ", ".join(_cut(str(name), NAME_CHARACTERS) for name in columns[:COLUMNS_SHOWN])
    return shown if len(columns) <= COLUMNS_SHOWN else f"{shown}, and {len(columns) - COLUMNS_SHOWN} more"


def _shortened_row(row: Row) -> str:
    if isinstance(row, Mapping):
        names = list(row)[:COLUMNS_SHOWN]
        return _cut(_written({name: _shortened(row[name]) for name in names}), FIRST_ROW_CHARACTERS)
    if isinstance(row, list):
        return _cut(_written([_shortened(value) for value in row[:COLUMNS_SHOWN]]), FIRST_ROW_CHARACTERS)
    return _written(_shortened(row))


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, VALUE_CHARACTERS)
    if isinstance(value, dict | list):
        written = _written(value)
        return value if len(written) <= VALUE_CHARACTERS else _cut(written, VALUE_CHARACTERS)
    return value


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit_characters: int) -> str:
    return text if len(text) <= limit_characters else f"{text[:limit_characters]}…"


def cut_middle(text: str, head_characters: int, tail_characters: int) -> str:
    """Head and tail of a text, with the size of what is missing between them."""
    missing = len(text) - head_characters - tail_characters
    if missing <= 0:
        return text
    tail = text[len(text) - tail_characters :]
    return f"{text[:head_characters]}\n[… {missing:,} characters left out …]\n{tail}"
