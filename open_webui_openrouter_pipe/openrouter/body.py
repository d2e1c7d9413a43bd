"""The body of a request as JSON in UTF-8, written and sent in pieces that hold up nobody.

Attachments make bodies of many megabytes, and Python's JSON writer holds the interpreter for as long as it looks at
each of their characters. So a long text that needs no escapes, as base64 never does, is copied as it is; the rest is
written as ever. The bytes are the same.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from ..ports import RequestBody
from ..responses.text import mend_text

LONG_CHARACTERS: Final = 64 * 1024
_WINDOW_CHARACTERS: Final = 256 * 1024
"""As much is looked at, or sent, at a time."""
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class EncodedBody(httpx.AsyncByteStream):
    """A body that can be sent several times; `length_bytes` is its size."""

    pieces: Sequence[bytes]

    @property
    def length_bytes(self) -> int:
        """The sum of the pieces."""
        return sum(map(len, self.pieces))

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the bytes in short portions."""
        for piece in self.pieces:
            for start in range(0, len(piece), _WINDOW_CHARACTERS):
                yield piece[start : start + _WINDOW_CHARACTERS]


async def encode_body(body: RequestBody) -> EncodedBody:
    """Encode a body, beside the event loop where that takes long.

    What neither JSON nor UTF-8 can hold, NaN and half surrogates, is omitted or replaced.
    """
    if not _holds_long(body):
        return EncodedBody([_encoded(body)])
    return EncodedBody(await asyncio.to_thread(lambda: [*_pieces(_finite(body))]))


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield the JSON of a value with long texts as pieces of their own."""
    if _is_plain(value):
        yield b'"'
        yield value.encode("ascii")
        yield b'"'
    elif isinstance(value, Mapping) and _holds_long(value):
        for number, (name, member) in enumerate(value.items()):
            yield b"%s%s:" % (b"," if number else b"{", _encoded(name))
            yield from _pieces(member)
        yield b"}"
    elif isinstance(value, list | tuple) and _holds_long(value):
        for number, member in enumerate(value):
            yield b"," if number else b"["
            yield from _pieces(member)
        yield b"]"
    else:
        yield _encoded(value)


def _holds_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > LONG_CHARACTERS
    members = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list | tuple) and any(map(_holds_long, members))


def _is_plain(value: Any) -> bool:
    """Whether it is a long text that JSON writes as it is; looked at in windows, so that others get their turn."""
    if not isinstance(value, str) or not _holds_long(value) or not value.isascii():
        return False
    starts = range(0, len(value), _WINDOW_CHARACTERS)
    return not any(_ESCAPED.search(value, start, start + _WINDOW_CHARACTERS) for start in starts)


def _encoded(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return mend_text(text).encode()


def _finite(value: Any) -> Any:
    """The JSON value without infinite numbers and NaN: their fields are absent, and in lists they are null."""
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items() if not _is_infinite(member)}
    if isinstance(value, list | tuple):
        return [None if _is_infinite(member) else _finite(member) for member in value]
    return value


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
