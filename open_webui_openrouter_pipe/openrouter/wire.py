"""The body of a request as JSON in UTF-8, written and sent in pieces that hold up nobody.

Attachments make bodies of many megabytes, and Python's JSON writer holds the interpreter for as long as it looks at
each of their characters; in another thread it would hold it all the same. So a long text is written in windows, between
which others get their turn, and one that needs no escapes, as base64 never does, is copied. The bytes are the same.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx

from ..ports import RequestBody
from ..responses.values import mend_text

LONG_CHARACTERS: Final = 64 * 1024
_WINDOW_CHARACTERS: Final = 256 * 1024
"""As much is looked at, or sent, at a time."""
_AS_THEY_ARE: Final = bytes(byte for byte in range(0x20, 0x80) if byte not in b'"\\')
"""What JSON does not escape."""


@dataclass(frozen=True, slots=True)
class EncodedBody(httpx.AsyncByteStream):
    """A body that can be sent several times: `write` yields its bytes each time anew; `length_bytes` is its size."""

    write: Callable[[], Iterable[bytes]]
    length_bytes: int

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the bytes in short portions."""
        for piece in self.write():
            for start in range(0, len(piece), _WINDOW_CHARACTERS):
                yield piece[start : start + _WINDOW_CHARACTERS]


async def encode_body(body: RequestBody) -> EncodedBody:
    """Encode a body. One with long texts is only measured, a little at a time, so that it is never in memory as bytes.

    What neither JSON nor UTF-8 can hold, NaN and half surrogates, is omitted or replaced.
    """
    if not _holds_long(body):
        content = [_encoded(body)]
        return EncodedBody(lambda: content, len(content[0]))
    write = partial(_pieces, _finite(body))
    length_bytes = unbroken_bytes = 0
    for piece in write():
        length_bytes += len(piece)
        unbroken_bytes += len(piece)
        if unbroken_bytes > LONG_CHARACTERS:
            await asyncio.sleep(0)
            unbroken_bytes = 0
    return EncodedBody(write, length_bytes)


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield the JSON of a value, a long text in windows."""
    if isinstance(value, str) and _holds_long(value):
        yield b'"'
        yield from map(_escaped, _windows(value))
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
    if isinstance(value, Mapping):
        return any(map(_holds_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_long, value))


def _windows(text: str) -> Iterator[str]:
    """Divide a text; the two halves of a character stay together, to be mended."""
    start = 0
    while start < len(text):
        end = start + _WINDOW_CHARACTERS
        end += "\ud800" <= text[end - 1 : end] <= "\udbff"
        yield text[start:end]
        start = end


def _escaped(text: str) -> bytes:
    """What stands between the quotation marks for this part of a text."""
    if text.isascii() and not (raw := text.encode("ascii")).translate(None, _AS_THEY_ARE):
        return raw
    return _encoded(text)[1:-1]


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:  # an infinite number, or half a character
        return mend_text(json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))).encode()


def _finite(value: Any) -> Any:
    """The JSON value without infinite numbers and NaN: their fields are absent, and in lists they are null."""
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items() if not _is_infinite(member)}
    if isinstance(value, list | tuple):
        return [None if _is_infinite(member) else _finite(member) for member in value]
    return value


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
