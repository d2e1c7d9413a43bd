"""Values off the wire, coerced to a type, and names as the wire accepts them.

Each coercer returns a value of the wanted type, or an empty one, and never raises. The host allows any text as the
name of a tool (MCP servers use dots and slashes), providers only `^[a-zA-Z0-9_-]{1,64}$`, and Gemini none that begins
with a digit or a dash.

What follows from the content of an object that comes back with each request, such as its name or its bytes, is found
once as long as the object is kept; of any other object it is found anew, and is the same.
"""

from __future__ import annotations

import binascii
import html
import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

_MAX_COUNT: Final = 2**53
"""Beyond it a JSON number is not exact, and a count nonsense."""
_GENERATION_ID: Final = re.compile(r"(?:gen|resp|req)[-_](?!sk-)[A-Za-z0-9_-]{1,72}")

_ENDLESS: Final = re.compile("&#[0-9]{32,}+")
"""Python refuses to read a number of thousands of digits."""
_ACCEPTED: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_KEPT_CHARACTERS: Final = 55


Value = TypeVar("Value")


class Kept(dict[str, Any]):
    """A JSON object that is never changed, with what was found of it, each under what has found it.

    `size_bytes` is what it takes, about, with all that may be found of it.
    """

    __slots__ = ("found", "size_bytes")

    def __init__(self, value: Mapping[str, object], size_bytes: int = 0) -> None:
        super().__init__(value)
        self.found: dict[object, Any] = {}
        self.size_bytes = size_bytes


def once(find: Callable[[Any], Value], value: Any) -> Value:
    """Return what a function finds of a JSON value: of a kept one it is found once."""
    if type(value) is not Kept:
        return find(value)
    if find not in value.found:
        value.found[find] = find(value)
    return cast("Value", value.found[find])


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array, [] for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a string as it is, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_generation_id(value: Any) -> str:
    """Return OpenRouter's name for a request, "" for what has another form: an echo of a key must not be logged."""
    return value if isinstance(value, str) and _GENERATION_ID.fullmatch(value) else ""


def as_count(value: Any) -> int | None:
    """Return an integer from 0 to 2**53, None for anything else (booleans too)."""
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None


def is_web_address(value: Any) -> bool:
    """Whether a value is an http or https URL, to which a page may link."""
    return as_text(value)[:8].lower().startswith(("https://", "http://"))


CITATION: Final = "url_citation"


def flat_annotation(wire: Any) -> dict[str, Any] | None:
    """Return a citation flat (some providers nest it) and as replay requires it.

    None if it is not an annotation, or leads elsewhere than into the web: a page makes a link of its address.
    """
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        return None
    is_citation = wire["type"] == CITATION
    nested = wire.get(CITATION)
    flat = {"type": CITATION, **nested} if is_citation and isinstance(nested, dict) else wire
    url = as_text(flat.get("url"))
    if (is_citation or flat.get("url")) and not is_web_address(url):
        return None
    if not is_citation:
        return flat
    return {
        **flat,
        "type": CITATION,
        "title": as_text(flat.get("title")) or url,
        "start_index": as_count(flat.get("start_index")) or 0,
        "end_index": as_count(flat.get("end_index")) or 0,
    }


def as_number(value: Any) -> float | None:
    """Return a finite number, None for anything else; numbers in strings, as prices are written, are read."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_json(text: str | bytes, default: Any = None) -> Any:
    """Return the value of a JSON text, the default for what is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def unescape(text: str) -> str:
    """Undo HTML's escapes; a number that is too long to be one of a character is U+FFFD, as a large one is."""
    return html.unescape(_ENDLESS.sub("&#0", text))


def wire_name(name: str) -> str:
    """Return the name to send; a changed one ends in a digest, so that two names never become the same."""
    if _ACCEPTED.fullmatch(name):
        return name
    if not name:
        return "unnamed_tool"
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    kept = re.sub(r"^(?=[0-9-])|[^a-zA-Z0-9_-]", "_", name)
    return f"{kept[:_KEPT_CHARACTERS]}_{digest}"


REPLACEMENT: Final = "\ufffd"
TOO_DEEP: Final = "[nested too deeply]"
"""What stands for a value that is nested too deeply to be written."""

_MAX_LEVELS: Final = 100
"""Levels of a provider's value: no real one nests so deeply, and Python's recursion ends at some hundreds."""

_HALF: Final = re.compile("[\ud800-\udfff]")


def mend_text(text: str) -> str:
    """Join the pairs and replace each lone half with U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend(value: Any) -> Any:
    """Mend a JSON value throughout, in a copy; NaN and infinities become null, what nests too deeply a note."""
    return _map_values(value, mend_text, levels=_MAX_LEVELS)


def split_pending(text: str) -> tuple[str, str]:
    """Split the text into what can be shown now, mended, and a first half at its end."""
    if "\ud800" <= text[-1:] <= "\udbff":
        return mend_text(text[:-1]), text[-1]
    return mend_text(text), ""


def clean_text(text: str) -> str:
    """Mend the text and drop NUL."""
    return text if _are_clean((text,)) else mend_text(text.replace("\0", ""))


def clean(value: Any) -> Any:
    """Clean all text within a JSON value; NaN and infinities become null.

    A value that is clean, as most are, is returned as the same object. Raises RecursionError.
    """
    return value if _are_clean((value,)) else _map_values(value, clean_text)


def json_text(value: Any) -> str:
    """Write a value as compact JSON, cleaned; what JSON has no form for is written as text."""
    try:
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        return TOO_DEEP


def _are_clean(members: Iterable[Any]) -> bool:
    """A plain loop: every artifact is walked when it is loaded, and calls for each text would cost most of the time."""
    for member in members:
        if isinstance(member, str):
            if "\0" in member or not (member.isascii() or _HALF.search(member) is None):
                return False
        elif isinstance(member, dict):
            if not (_are_clean(member) and _are_clean(member.values())):
                return False
        elif isinstance(member, list):
            if not _are_clean(member):
                return False
        elif isinstance(member, float) and not math.isfinite(member):
            return False
    return True


def _map_values(value: Any, change: Callable[[str], str], *, levels: int = -1) -> Any:
    """Change all text within a value of so many levels; -1 is any number."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return TOO_DEEP
    if isinstance(value, list):
        return [_map_values(member, change, levels=levels - 1) for member in value]
    return {
        _map_values(key, change): _map_values(member, change, levels=levels - 1)
        for key, member in value.items()
    }


_REFERENCE_CHARACTERS: Final = 8
_WINDOW_CHARACTERS: Final = 256 * 1024
"""As much is decoded at a time: the interpreter is held meanwhile."""
_DATA_HEAD: Final = re.compile(r"data:[^,]{0,200},", re.IGNORECASE)


def reference_of(inline: str) -> str:
    """Return a short name of content, by which texts that stand in its place refer to it."""
    return sha256(inline.encode("utf-8", "replace")).hexdigest()[:_REFERENCE_CHARACTERS]


def base64_of(inline: str) -> str:
    """Return the base64 text itself, without the head of a data URL."""
    head = _DATA_HEAD.match(inline)
    return inline[head.end() :] if head else inline


def decode(inline: str, *, limit_characters: int | None = None) -> bytes:
    """Return the bytes of base64 of either alphabet, with or without blanks and padding; b"" when it is none.

    With a limit, those of the whole groups of four among the first so many characters.
    """
    text = base64_of(inline[:limit_characters])
    content, rest = bytearray(), ""
    try:
        for start in range(0, len(text), _WINDOW_CHARACTERS):
            window = "".join(text[start : start + _WINDOW_CHARACTERS].split())
            if rest.endswith("=") and window:
                return b""  # it would go on behind its end
            rest += window.replace("-", "+").replace("_", "/")
            whole = (len(rest) - 1) // 4 * 4  # the last group may be the end
            content += b64decode(rest[:whole], validate=True)
            rest = rest[whole:]
        if limit_characters is not None:
            rest = rest[: len(rest) // 4 * 4]
        return bytes(content + b64decode(rest + "=" * (-len(rest) % 4), validate=True))
    except (binascii.Error, ValueError):
        return b""


HOST_FILES: Final = "/api/v1/files/"
"""Where Open WebUI shows the files of its users."""

_FILE: Final = re.compile(rf"{HOST_FILES}([A-Za-z0-9_-]{{1,64}})(?:/content)?")


def host_file_path(file_id: str) -> str:
    """Return the path of a file's content."""
    return f"{HOST_FILES}{file_id}/content"


def host_file_id(path: str) -> str | None:
    """Return the id of the file that a path names, None for any other text."""
    found = _FILE.fullmatch(path)
    return found[1] if found else None
