"""Tool results stated as facts: what they hold, in their own words, never paraphrased.

Every value in a fact occurs in the result, but for secrets, which are masked. What is not JSON, CSV, a table or an
error is represented by its size, head and tail. No model is asked.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..responses.items import FunctionCallOutput, InputPart
from .masking import mask_secrets
from .tokens import truncate_middle

HEAD_CHARACTERS = 400
TAIL_CHARACTERS = 200
COMMENT_CHARACTERS = 300
VALUE_CHARACTERS = 80
COLUMNS_SHOWN = 20
NAME_CHARACTERS = 60
FIRST_ROW_CHARACTERS = 600
ERROR_CHARACTERS = 300
MAX_ERROR_CHARACTERS = 2_000
"""A longer text that begins like an error is one only with a traceback, a status or a count of failures."""
SHORT_ERROR_CHARACTERS = 200
"""A text this short that speaks of a failure is one; a longer one may be a report about failures."""
MIN_TABLE_ROWS = 3
MAX_UNWRAPPINGS = 3
MAX_CANDIDATES = 8
MIN_JSON_SHARE = 0.5
"""Of a text: JSON that is less of it is an aside."""

ROW_FIELDS = ("results", "rows", "data", "items", "records", "values", "result", "output")
ERROR_FIELDS = ("error", "errors", "isError", "is_error", "exception")
_FAILURES = r"(?:errors?|exceptions?|failures?|failed)"
TRACEBACK = re.compile(r"\s*+traceback \(most recent call last\)", re.IGNORECASE)
ERROR_BEGINNING = re.compile(
    rf"\s*+(?:[\w. ]{{0,60}}{_FAILURES}\s*[:(!]|fatal:|permission denied)",
    re.IGNORECASE,
)
ERROR_STATUS = re.compile(
    r"\b(?:http(?:/[\d.]{1,3}|s? error)?|status(?: code)?|code|error)[ :=#]{1,3}[45]\d\d\b"
    r"|\bexit(?:ed with)?(?: code| status)?[ :=]{1,3}[1-9]"
    rf"|\b[1-9]\d{{0,8}}(?: \w{{1,20}})? {_FAILURES}\b|\b{_FAILURES}\s{{0,3}}[:=(]\s{{0,3}}[1-9]",
    re.IGNORECASE,
)
"""A status of HTTP or of a process, or a count of failures above zero."""
ERROR_PHRASE = re.compile(r"\b(?:failed|failure|not found|timed out|denied|exception)\b", re.IGNORECASE)
NO_FAILURE = re.compile(
    rf"\b(?:0|no|zero)(?: \w{{1,20}})? {_FAILURES}\b|\b{_FAILURES}\s{{0,3}}[:=(]\s{{0,3}}"
    r"(?:none\b|no errors?\b|(?:0|nil|null)(?=\s{0,3}(?:[,;)|/\n]|\Z|(?:of|tests?)\b)))",
    re.IGNORECASE,
)
"""What says that nothing failed."""
_NOTHING = frozenset({"", "0", "none", "null", "nil", "false", "no error", "no errors"})
_TOO_DEEP = re.compile(r"(?:[\[{][^\[\]{}]*){64}")
"""Nesting that not every Python version parses alike."""
_BRACKET = re.compile(r"[\[{]")
_RULE_CELL = re.compile(r":?-{2,}+:?")
_DELIMITERS = (",", "\t", ";", "|")


def state_fact(output: str) -> str:
    """Return the fact that stands in for a text; the text itself when the fact would not be shorter."""
    masked = mask_secrets(output)
    text = _unescape(masked)
    fact = next((fact for read in _READERS if (fact := read(text)) is not None), None)
    if fact is None:
        shown = truncate_middle(masked, HEAD_CHARACTERS, TAIL_CHARACTERS)
        fact = f"[Tool: {len(output):,} characters]\n{shown}"
    # Once more: the first row of a table now has its columns' names beside its values.
    fact = mask_secrets(fact)
    return fact if len(fact) < len(output) else output


def state_output(item: FunctionCallOutput) -> str:
    """Return the fact for a tool call's output: its text as one fact, and a line for each attachment."""
    return output_text(item["output"], state_fact)


def output_text(output: str | Sequence[InputPart], state: Callable[[str], str] = str) -> str:
    """Return the text of an output, passed through `state` as one, with a line for each attachment."""
    if isinstance(output, str):
        return state(output)
    texts = [part["text"] for part in output if part["type"] == "input_text"]
    kinds = [part["type"].removeprefix("input_") for part in output if part["type"] != "input_text"]
    stated = [state("\n".join(texts))] if texts else []
    return "\n".join([*stated, *(f"[{kind} omitted]" for kind in kinds)])


def _unescape(output: str) -> str:
    """Undo HTML escapes and layers of a JSON string around the whole."""
    text = html.unescape(output) if "&quot;" in output or "&#34;" in output else output
    for _ in range(MAX_UNWRAPPINGS):
        inner = _parse_json(text.strip()) if text.lstrip().startswith('"') else None
        if not isinstance(inner, str):
            break
        text = inner
    if '\\"' in text and next(_json_blocks(text), None) is None:
        text = text.replace('\\"', '"').replace("\\n", "\n")
    return text


def _parse_json(text: str) -> Any:
    """Return the JSON value; None when the text is not JSON or too deeply nested."""
    if _TOO_DEEP.search(text):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json_blocks(text: str) -> Iterator[tuple[Any, str, str]]:
    """Yield JSON containers that make up most of a text, each with the text before and after it."""
    if _TOO_DEEP.search(text):
        return
    decoder, position = json.JSONDecoder(), 0
    for _ in range(MAX_CANDIDATES):
        start = _BRACKET.search(text, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(text, start.start())
        except ValueError:
            position = start.end()
            continue
        if value and position - start.start() >= MIN_JSON_SHARE * len(text):
            yield value, text[: start.start()], text[position:]


# --- readers: each returns the fact for its kind of text, or None ---------------------------------------------


def _read_error(text: str) -> str | None:
    """An error begins like one, or is an object with nothing to show but its error."""
    if not _says_error(text):
        value = next(_json_blocks(text), (None,))[0]
        if not _is_error(value) or _find_rows(value):
            return None
    return f"[Tool: error | {_shorten(text.strip(), ERROR_CHARACTERS)}]"


def _read_json_lines(text: str) -> str | None:
    """One JSON object a line, as logs and exports have it."""
    lines = text.strip().splitlines()
    if len(lines) < MIN_TABLE_ROWS or not all(line.startswith("{") for line in lines):
        return None
    rows = [_parse_json(line) for line in lines]
    return _rows_fact(rows) if all(isinstance(row, dict) and row for row in rows) else None


def _read_json_rows(text: str) -> str | None:
    for value, before, after in _json_blocks(text):
        rows = _find_rows(value)
        if rows is not None:
            return _rows_fact(rows, before, after)
    return None


def _read_table(text: str) -> str | None:
    """A Markdown table: the line above its rule names the columns."""
    lines = text.splitlines()
    rule = next((n for n, line in enumerate(lines) if n and _is_table_rule(line)), None)
    if rule is None or "|" not in lines[rule - 1]:
        return None
    end = next((n for n in range(rule + 1, len(lines)) if "|" not in lines[n]), len(lines))
    cells = [_cells(line) for line in lines[rule - 1 : end]]
    before, after = "\n".join(lines[: rule - 1]), "\n".join(lines[end:])
    return _rows_fact(cells[2:], before, after, columns=cells[0])


def _is_table_rule(line: str) -> bool:
    """Whether a line divides a table's columns from its rows: bars between dashes."""
    return "|" in line and all(map(_RULE_CELL.fullmatch, _cells(line)))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _read_json_object(text: str) -> str | None:
    """An object without rows: its field names and its shortened values."""
    for value, before, after in _json_blocks(text):
        if isinstance(value, dict):
            names = _column_names(tuple(value))
            line = f"[Tool: {len(text):,} characters | fields: {names} | {_show_row(value)}]"
            return _with_comments(line, before, after)
    return None


def _read_delimited(text: str) -> str | None:
    """CSV and the like: several lines with the same number of fields, more than one each."""
    lines = text.strip().splitlines()
    head = lines[: MIN_TABLE_ROWS + 1]
    for delimiter in _DELIMITERS:
        if len(head) <= MIN_TABLE_ROWS or not all(delimiter in line for line in head):
            continue
        try:
            rows = list(csv.reader(lines, delimiter=delimiter))
        except csv.Error:
            continue
        names = [name.strip() for name in rows[0]]
        regular = sum(len(row) == len(names) for row in rows) >= 0.9 * len(rows)
        if regular and len(set(names)) == len(names) > 1 and max(map(len, names)) <= NAME_CHARACTERS:
            return _rows_fact(rows[1:], columns=rows[0])
    return None


_READERS: tuple[Callable[[str], str | None], ...] = (
    _read_error,
    _read_json_lines,
    _read_json_rows,
    _read_table,
    _read_json_object,
    _read_delimited,
)


def _find_rows(value: Any) -> list[Any] | None:
    """Return the array of rows: the value itself, or under one of the usual names, also as JSON in a string."""
    if isinstance(value, list):
        return value
    for name in ROW_FIELDS:
        inner = value.get(name)
        if isinstance(inner, str) and inner[:1] in {"[", "{"}:
            inner = _parse_json(inner)
        if isinstance(inner, list) and inner:
            return inner
        if isinstance(inner, dict) and (rows := _find_rows(inner)) is not None:
            return rows
    return None


def _says_error(text: str) -> bool:
    """Whether a text reports a failure: by a traceback, a status, a count above zero, or because it is short."""
    if TRACEBACK.match(text):
        return True
    head = NO_FAILURE.sub("", text[:MAX_ERROR_CHARACTERS])
    if ERROR_BEGINNING.match(head):
        beginning = head[:ERROR_CHARACTERS]
        return len(text) < MAX_ERROR_CHARACTERS or ERROR_STATUS.search(beginning) is not None
    short = len(text) <= SHORT_ERROR_CHARACTERS and not _BRACKET.search(text)
    return short and ERROR_PHRASE.search(head) is not None


def _is_error(row: Any) -> bool:
    if not isinstance(row, dict):
        return isinstance(row, str) and _says_error(row)
    failed = str(row.get("status", "")).lower() in {"error", "failed", "failure"}
    return failed or any(_is_reported(row.get(name)) for name in ERROR_FIELDS)


def _is_reported(value: Any) -> bool:
    """Whether the field of an error holds one."""
    return bool(value) and str(value).strip().rstrip(".").lower() not in _NOTHING


# --- wording --------------------------------------------------------------------------------------------------


def _rows_fact(rows: Sequence[Any], before: str = "", after: str = "", *, columns: Sequence[str] = ()) -> str:
    """The fact for rows: objects with field names, or lists of cells under `columns`."""
    first: Any = rows[0] if rows else None
    if columns and rows:
        first = dict(zip(columns, first, strict=False))
    elif isinstance(first, dict):
        columns = tuple(first)
    parts = [f"{len(rows):,} row{'' if len(rows) == 1 else 's'}"]
    if errors := sum(map(_is_error, rows)):
        parts.append(f"{errors:,} of them error{'' if errors == 1 else 's'}")
    if columns:
        parts.append(f"columns: {_column_names(columns)}")
    if first is not None:
        parts.append(f"first: {_show_row(first)}")
    return _with_comments(f"[Tool: {' | '.join(parts)}]", before, after)


def _with_comments(line: str, before: str, after: str) -> str:
    head, tail = (_shorten(text.strip(), COMMENT_CHARACTERS) for text in (before, after))
    return "\n".join(part for part in (head, line, tail) if part)


def _column_names(columns: Sequence[str]) -> str:
    shown = ", ".join(_shorten(str(name), NAME_CHARACTERS) for name in columns[:COLUMNS_SHOWN])
    return shown if len(columns) <= COLUMNS_SHOWN else f"{shown}, and {len(columns) - COLUMNS_SHOWN} more"


def _show_row(row: Any) -> str:
    if isinstance(row, Mapping):
        row = {name: _shorten_value(row[name]) for name in list(row)[:COLUMNS_SHOWN]}
    elif isinstance(row, list):
        row = [_shorten_value(value) for value in row[:COLUMNS_SHOWN]]
    else:
        row = _shorten_value(row)
    return _shorten(json.dumps(row, ensure_ascii=False), FIRST_ROW_CHARACTERS)


def _shorten_value(value: Any) -> Any:
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return value if len(text) <= VALUE_CHARACTERS else _shorten(text, VALUE_CHARACTERS)
    return _shorten(value, VALUE_CHARACTERS) if isinstance(value, str) else value


def _shorten(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"
