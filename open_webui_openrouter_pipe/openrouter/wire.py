"""The body of a request as JSON in UTF-8, written and sent in pieces that hold up nobody.

Attachments make bodies of many megabytes, and Python's JSON writer holds the interpreter for as long as it looks at
each of their characters. So a large body is measured in a thread, and written as it is sent: member by member, and a
long text in windows; one that needs no escapes, as base64 never does, is copied.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from ..ports import RequestBody
from ..responses.values import Kept, mend_text, once
from ..threads import is_large

_SHORT_BYTES: Final = 16 * 1024
"""Pieces of less are sent together."""
_WINDOW_CHARACTERS: Final = 128 * 1024
"""As much is looked at, or sent, at a time."""
_AS_THEY_ARE: Final = bytes(byte for byte in range(0x20, 0x80) if byte not in b'"\\')
"""What JSON does not escape."""
_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class EncodedBody(httpx.AsyncByteStream):
    """A body that can be sent several times: `write` yields its bytes each time anew; `length_bytes` is its size."""

    write: Callable[[], Iterable[bytes]]
    length_bytes: int

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the bytes in short portions, between which others get their turn."""
        for piece in self.write():
            for start in range(0, len(piece), _WINDOW_CHARACTERS):
                yield piece[start : start + _WINDOW_CHARACTERS]
                if len(piece) < self.length_bytes:
                    await asyncio.sleep(0)


async def encode_body(body: RequestBody) -> EncodedBody:
    """Encode a body. A large one is only measured, in a thread, so that it is never in memory as bytes.

    What neither JSON nor UTF-8 can hold, NaN and half surrogates, is omitted or replaced.
    """
    if not is_large(body, _encoded):
        content = [b"".join(_members(body))]
        return EncodedBody(lambda: content, len(content[0]))

    def write() -> Iterator[bytes]:
        return _joined(_pieces(body))

    return EncodedBody(write, await asyncio.to_thread(lambda: sum(map(len, write()))))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces, short ones together."""
    short: list[bytes] = []
    length_bytes = 0
    for piece in pieces:
        if max(length_bytes, len(piece)) > _SHORT_BYTES:
            yield b"".join(short)
            short, length_bytes = [], 0
        short.append(piece)
        length_bytes += len(piece)
    yield b"".join(short)


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield the JSON of a value: a large one by its members, a long text in windows, and a kept one as it was found."""
    if type(value) is Kept:
        yield once(_encoded, value)
    elif isinstance(value, list | tuple) and Kept in map(type, value):
        yield from _members(value)
    elif not is_large(value):
        yield _encoded(value)
    elif isinstance(value, str):
        yield b'"'
        yield from map(_escaped, _windows(value))
        yield b'"'
    else:
        yield from _members(value)


def _members(value: Any) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        kept = ((name, member) for name, member in value.items() if not _is_infinite(member))
        yield b"{"
        for number, (name, member) in enumerate(kept):
            yield b"%s%s:" % (b"," * bool(number), _encoded(name))
            yield from _pieces(member)
        yield b"}"
    else:
        yield b"["
        for number, member in enumerate(value):
            yield b"," * bool(number)
            yield from _pieces(None if _is_infinite(member) else member)
        yield b"]"


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
        return _JSON.encode(value).encode()
    except ValueError:  # an infinite number, or half a character
        return mend_text(_JSON.encode(_finite(value))).encode()


def _finite(value: Any) -> Any:
    """The JSON value without infinite numbers and NaN: their fields are absent, and in lists they are null."""
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items() if not _is_infinite(member)}
    if isinstance(value, list | tuple):
        return [None if _is_infinite(member) else _finite(member) for member in value]
    return value


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
