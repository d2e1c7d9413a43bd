"""Tool results stated as facts: what a model needs to go on, in the result's own words and numbers.

What is counted here, and so does not stand in the result, reads `(rows: 42)`. Names, numbers and ids are whole or
absent, secrets masked. What is not recognized for certain is length, head and tail. No model is asked.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from ..responses.items import FunctionCallOutput, InputPart
from ..responses.values import unescape
from .estimate import estimate_tokens
from .masking import mask_secrets
from .tokens import HEAD_SHARE, head_and_tail

MIN_OUTPUT_TOKENS = 200
"""A smaller result is not replaced."""
MAX_FACT_TOKENS = 150
MAX_FACT_SHARE = 1 / 4
"""Of the result's tokens."""
SEEN_CHARACTERS = 8_000
"""Of the beginning and of the end: what is counted in tokens."""
VALUE_CHARACTERS = 80
LAST_LINES = 6
"""Of a log, besides its errors."""
MIN_ROWS = 3
MOSTLY = 0.5
"""Of a text: what is less of it is an aside."""
LINE_LOSS = 1 / 3
"""Of what could be shown: this much is given up to end with a line."""

ERROR_FIELDS = ("error", "errors", "exception")
_TOO_DEEP = re.compile(r"(?:[\[{][^\[\]{}]*+){64}+")
"""Nesting that not every Python version parses alike."""
_UNSPACED = r"\s\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\uff9f"
_GLUED = re.compile(rf"[^;>{{}}{_UNSPACED}][^{_UNSPACED}]")
"""What no text is cut between: it is cut at spaces, ends of statements and tags, in Thai and Chinese."""
_FILE = re.compile(
    r"^--- (?:a/)?(\S[^\n\t]*).*\n"
    r"\+\+\+ (?:b/)?(\S[^\n\t]*).*\n(?=@@ )",
    re.MULTILINE,
)
_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
"""How many lines of each side follow, 1 where that is not said."""
_CHANGED_FILE = re.compile(r"^diff --git ", re.MULTILINE)
_FENCED = re.compile(r"^```[\s\S]*?^```", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6} \S.*)(\n(?:[ \t]*$|[A-Z][a-z]|[*>|] |\d+\. ))?", re.MULTILINE)
_SQL = re.compile(
    r"(?:\s|--[^\n]*+\n)*+"  # after comments
    r"(?:"
    r"create "
    r"(?:(?:or replace|temp|temporary|unique) ){0,2}"
    r"(?:table|index|view|trigger)\b"
    r"|insert into \S"
    r"|delete from \S"
    r"|update \S{1,99} set\b"
    r"|pragma \w"
    r"|begin\b[^;\n]{0,20};"
    r"|with \w{1,99} as ?\("
    r"|select\b[^;]{1,999}?\s"
    r"from\s+\S{1,99}\s*"
    r"(?:;|where\b|join\b|group\b|order\b)"
    r")",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^(?:"
    r"(?:from \S+ )?import [\w.{*('\"]+(?:[ ,;)}]|$)"
    r"|package \w+;?$"
    r"|(?:const|let|var) \w+ ?="
    r"|(?:[a-z]{1,9} ){0,3}"
    r"(?:def|class|function|func|fn|struct) ?"
    r"\w+ ?[(:{<]"
    r")",
    re.MULTILINE,
)

_RULE = re.compile(r"[-+=|: ─═│║┌┬┐├┼┤└┴┘╞╪╡╔╦╗╠╬╣╚╩╝]+")
_WORD = re.compile(r"\S+")
_BARS = str.maketrans("│║", "||")
_COLUMN = re.compile(
    r"[%#]?[^\W\d][\w .%$#/°-]{0,59}"
    r"(?:\([\w .%$#/°-]{0,20}\) *)?"  # a unit
)
_VALUE = re.compile(
    r"[-+]?[$€£]?\d[\d.,:%/TZeE+-]*[A-Za-z%]{0,3}"
    r"|true|false|null",
    re.IGNORECASE,
)
_LOGGED = re.compile(
    r".{0,80}?\b(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
    r"|\W?\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "  # as syslog does
)
_FAILED = re.compile(
    r".{0,200}?\b"
    r"(?:ERROR|CRITICAL|FATAL|FAILED|fatal: |[A-Z]\w{0,60}(?:Error|Exception):)"
    r"|\W{0,9}"
    r"(?:\S{1,200}: )?"  # a place
    r"(?:[\w ]{0,30}\b)?"
    r"(?:error|failed|failure|exception)\b"
    r"[^:\n]{0,30}:"
)

Count: TypeAlias = Callable[[str], int]
_Found: TypeAlias = tuple[str, str, float]
"""What a text is, the words that say most of it, and the share of their head in what is shown."""
_DECODER = json.JSONDecoder(parse_float=str)
"""A number stays as it is written."""


def state_fact(output: str, count: Count = estimate_tokens) -> str:
    """Return the fact for a text; the text itself when it is small. `count` counts tokens."""
    tokens = count(output[:SEEN_CHARACTERS])
    if tokens * MAX_FACT_SHARE < MAX_FACT_TOKENS:
        tokens = count(output)
    if tokens < MIN_OUTPUT_TOKENS:
        return output
    kind, text, head_share = _recognize(_unescape(mask_secrets(output)))
    if len(text) > 2 * SEEN_CHARACTERS:
        text = f"{text[:SEEN_CHARACTERS]}\n…\n{text[-SEEN_CHARACTERS:]}"

    def join(head: str, omitted: int, tail: str) -> str:
        lines = f"[Tool: {kind}]\n{head}\n{'…' * bool(omitted)}\n{tail}".splitlines()
        return "\n".join(filter(str.strip, lines)).replace("\n…\n…", "\n…")

    max_tokens = min(MAX_FACT_TOKENS, int(tokens * MAX_FACT_SHARE))
    shown = head_and_tail(text, max_tokens, lambda *pieces: count(join(*pieces)), head_share=head_share)
    head, omitted, tail = shown or ("", len(text), "")
    if shown is None:
        kind = kind.split()[0]
    if omitted:
        head = text[: _cut(text, len(head), -1)]
        tail = text[_cut(text, len(text) - len(tail), 1) :].lstrip(" ")
    # Once more, since what was escaped has come to light.
    return mask_secrets(join(head, omitted, tail))


def state_output(item: FunctionCallOutput, count: Count = estimate_tokens) -> str:
    """Return the fact for a tool call's output, with a line for each attachment."""
    return output_text(item["output"], lambda text: state_fact(text, count))


def output_text(output: str | Sequence[InputPart], state: Callable[[str], str]) -> str:
    """Return the text of an output, passed through `state` as one, with a line for each attachment."""
    if isinstance(output, str):
        return state(output)
    texts = [part["text"] for part in output if part["type"] == "input_text"]
    kinds = [part["type"].removeprefix("input_") for part in output if part["type"] != "input_text"]
    stated = [state("\n".join(texts))] if texts else []
    return "\n".join([*stated, *(f"[{kind} omitted]" for kind in kinds)])


def _unescape(output: str) -> str:
    """Undo HTML escapes and layers of a JSON string around the whole."""
    text = unescape(output) if "&quot;" in output or "&#34;" in output else output
    with suppress(ValueError):
        while text.lstrip().startswith('"'):
            text = str(json.loads(text))
    return text


def _cut(text: str, at: int, step: int) -> int:
    """Return where to cut a text near a place: at a line's end, or else at a space."""
    line = text.rfind("\n", 0, at + 1) if step < 0 else text.find("\n", max(0, at - 1))
    if line >= 0 and abs(line - at) < LINE_LOSS * (at if step < 0 else len(text) - at):
        return line
    while 0 < at < len(text) and _GLUED.match(text, at - 1):
        at += step
    return at


def _clip(text: str) -> str:
    """Return a text on one line, its end cut off where it is long."""
    line = " ".join(text.split())
    long = len(line) > VALUE_CHARACTERS
    return f"{line[: _cut(line, VALUE_CHARACTERS, -1)].rstrip(' ,;')} …".lstrip() if long else line


# --- readers: each returns what its kind of text says, or None ---


def _recognize(text: str) -> _Found:
    """Return what a text is, or else its length, head and tail."""
    found = None
    with suppress(RecursionError):  # what is nested deeper than it can be read is text
        found = next((found for read in _READERS if (found := read(text)) is not None), None)
    return found or (f"text (characters: {len(text)}, lines: {len(text.splitlines())})", text, HEAD_SHARE)


def _json_block(text: str) -> tuple[Any, str]:
    """Return the JSON that makes up most of a text, and the text around it; None without any."""
    for start in () if _TOO_DEEP.search(text) else sorted({text.find("{"), text.find("[")} - {-1}):
        with suppress(ValueError):
            value, end = _DECODER.raw_decode(text, start)
            if value and end - start >= MOSTLY * len(text):
                return value, _clip(f"{text[:start]} … {text[end:]}").strip(" …")
    return None, ""


def _read_json(text: str) -> _Found | None:
    lines = text.strip().splitlines()
    is_lines = len(lines) >= MIN_ROWS and all(line.startswith(("{", "[")) for line in lines)
    value, around = _json_block(f"[{','.join(lines)}]") if is_lines else (None, "")
    if value is None:
        value, around = _json_block(text)
    if isinstance(value, list):
        return f"JSON ({_counts(value)})", "\n".join([*_shape(value), around]), 1
    return None if value is None else _read_object(value, around)


def _read_object(value: Mapping[str, Any], around: str) -> _Found:
    """An object: its errors, what is at its top, what is deeper, a first row, its main text."""
    leaves = dict(_leaves(value))
    kind, text, head_share = "JSON", "", 1.0
    main = max(leaves, key=lambda path: len(leaves[path]) if isinstance(leaves[path], str) else 0)
    if isinstance(leaves[main], str) and len(leaves[main]) > len(_show([*leaves.values()])):
        inner, text, head_share = _recognize(leaves.pop(main))
        kind = f"JSON | {_clip(main)}: {inner}"
    ranked = []
    for path, inner in leaves.items():
        is_error = inner and path.partition(".")[0] in ERROR_FIELDS
        field = _field(path, inner)
        ranked.append((not is_error, path.count("."), isinstance(inner, list), len(field), field))
    rows = max((inner for inner in leaves.values() if isinstance(inner, list)), key=len, default=[])
    lines = [*(field for *_, field in sorted(ranked)), *_shape(rows)[1:], around, text]
    return kind, "\n".join(lines), head_share


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what an object and its objects hold, each with its path."""
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}", inner


def _field(path: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{path} ({_counts(value)}): {_shape(value)[0].partition(': ')[2]}".removesuffix(": ")
    is_long = isinstance(value, str) and len(value) > VALUE_CHARACTERS
    return f"{path}{f' (characters: {len(value)})' if is_long else ''}: {_show(value)}"


def _counts(rows: Sequence[Any]) -> str:
    errors = sum(isinstance(row, dict) and any(map(row.get, ERROR_FIELDS)) for row in rows)
    return f"rows: {len(rows)}{f', errors: {errors}' * bool(errors)}"


def _shape(rows: Sequence[Any]) -> list[str]:
    """Return columns and first row; the first values where rows are not objects."""
    if rows and isinstance(rows[0], dict):
        return [f"columns: {', '.join(rows[0])}", f"first: {', '.join(map(_show, rows[0].values()))}"]
    return [f"first: {_clip(', '.join(map(_show, rows)))}"]


def _show(value: Any) -> str:
    """Return a value on one line, with long texts cut."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_show(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return (_clip(value) or '""') if isinstance(value, str) else json.dumps(value)


def _read_diff(text: str) -> _Found | None:
    """A unified diff: its files, and what is said before them."""
    before, *parts = _FILE.split(text)
    files, total, beside = [], Counter[str](), 0
    for old, new, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        signs, beside = _changes(body)
        total += signs
        files.append(f"{old if new == '/dev/null' else new} (added: {signs['+']}, removed: {signs['-']})")
    if not files or len(before) + beside > MOSTLY * len(text):
        return None
    count = max(len(files), len(_CHANGED_FILE.findall(text)))
    kind = f"diff (files: {count}, added: {total['+']}, removed: {total['-']})"
    return kind, "\n".join([*files, before.partition("diff --git ")[0]]), 1


def _changes(body: str) -> tuple[Counter[str], int]:
    """Count the lines of a file's hunks by their signs, and the characters behind the last of them."""
    signs, old, new, beside = Counter[str](), 0, 0, 0
    for line in body.splitlines():
        if hunk := _HUNK.match(line):
            old, new, beside = int(hunk[1] or 1), int(hunk[2] or 1), 0
        elif old + new > 0 and not line.startswith("\\"):
            signs[line[:1]] += 1
            old, new = old - (line[:1] != "+"), new - (line[:1] != "-")
        else:
            beside += len(line)
    return signs, beside


def _read_markdown(text: str) -> _Found | None:
    headings = _HEADING.findall(_FENCED.sub("", text))
    if "\n##" not in text or sum(bool(spaced) for _, spaced in headings) < max(2, MOSTLY * len(headings)):
        return None
    kind = f"Markdown (characters: {len(text)}, headings: {len(headings)})"
    return kind, "\n".join(heading for heading, _ in headings), 1


def _read_code(text: str) -> _Found | None:
    """SQL or a program: its first lines."""
    is_code = text.startswith(("#!/", "#include ")) or len(_CODE.findall(text)) > 1
    kind = "SQL" if _SQL.match(text) else "code" if is_code else ""
    return (f"{kind} (lines: {len(text.splitlines())})", text, 1) if kind else None


def _read_table(text: str) -> _Found | None:
    """CSV, Markdown, drawn or aligned columns: a value in each row for each name."""
    whole = text.splitlines()
    lines = [line.translate(_BARS).strip(" |") for line in whole if not _RULE.fullmatch(line)]
    for delimiter in "\t,;| " if len(lines) > MIN_ROWS else "":
        is_spaced = delimiter == " "
        with suppress(csv.Error):
            columns, *rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter in " |")
            lengths = {min(len(row), len(columns)) if is_spaced else len(row) for row in rows}
            numbers = (all(map(_VALUE.fullmatch, each)) for each in zip(*rows, strict=False))
            is_certain = not is_spaced or (_is_aligned(whole) and (len(lines) < len(whole) or any(numbers)))
            fits = rows and len(columns) > 1 and lengths <= {len(columns), len(columns) - is_spaced}
            if fits and is_certain and all(map(_COLUMN.fullmatch, columns)):
                first = dict(zip(map(str.strip, columns), rows[0], strict=False))
                return f"table (rows: {len(rows)})", "\n".join(_shape([first])), 1
    return None


def _is_aligned(lines: Sequence[str]) -> bool:
    """Whether the words of the first lines begin or end below each other."""
    names, *rows = ([word.span() for word in _WORD.finditer(line)] for line in lines[: MIN_ROWS + 1])
    return all(a == c or b == d for row in rows for (a, b), (c, d) in zip(names, row, strict=False))


def _read_log(text: str) -> _Found | None:
    """A log, or what else names errors at the beginning of lines: these, and its end."""
    lines = text.splitlines()
    failed, last = [*filter(_FAILED.match, lines)], lines[-LAST_LINES:]
    is_log = len([*filter(_LOGGED.match, lines)]) >= MOSTLY * len(lines) > 1
    if not is_log and not failed:
        return None
    kind = f"{'log' if is_log else 'output'} (lines: {len(lines)})"
    earlier = [line for line in dict.fromkeys(failed) if line not in last]
    return kind, "\n".join([*earlier, "…", *last]), MOSTLY if earlier else 0


_READERS = (
    _read_json,
    _read_diff,
    _read_markdown,
    _read_code,
    _read_table,
    _read_log,
)
