"""Events as bytes."""

from __future__ import annotations

from itertools import islice

import pytest

from scripts.standin.plan import Delivery
from scripts.standin.sending import Chunk, frames

DELTA = {"type": "a.delta", "delta": "é"}
END = {"type": "b.done"}


def test_the_plain_framing() -> None:
    """Comments, data lines, the end mark."""
    assert list(frames([DELTA, END], Delivery(comments=1))) == [
        Chunk(b": OPENROUTER PROCESSING\n\n"),
        Chunk('data: {"type":"a.delta","delta":"é"}\n\n'.encode()),
        Chunk(b'data: {"type":"b.done"}\n\n'),
        Chunk(b"data: [DONE]\n\n"),
    ]


def test_framing_options_change_the_bytes() -> None:
    """CRLF, bare comments between deltas, pauses before deltas alone, no end mark."""
    odd = Delivery(
        first_delay_seconds=2,
        delay_seconds=1,
        newline="\r\n",
        comments=1,
        bare_comments=True,
        comment_every=2,
        done=False,
    )
    line = 'data: {"type":"a.delta","delta":"é"}\r\n\r\n'.encode()
    assert list(frames([DELTA, DELTA, END], odd)) == [
        Chunk(b": \r\n\r\n", 2),
        Chunk(line, 1),
        Chunk(b": \r\n\r\n"),
        Chunk(line, 1),
        Chunk(b'data: {"type":"b.done"}\r\n\r\n'),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_split_bytes_are_the_same_bytes(size: int) -> None:
    """Pieces end anywhere, inside a character too, and lose nothing."""
    whole = b"".join(chunk.data for chunk in frames([DELTA, END], Delivery()))
    chunks = [chunk.data for chunk in frames([DELTA, END], Delivery(split_bytes=size))]
    assert b"".join(chunks) == whole
    assert max(map(len, chunks)) <= size


def test_a_first_pause_needs_no_comment() -> None:
    """Without comments an empty chunk carries it."""
    assert next(frames([END], Delivery(comments=0, first_delay_seconds=3))) == Chunk(b"", 3)


def test_a_silence_is_comments_without_end() -> None:
    """After the opening comments, twice a second; no event follows."""
    chunks = list(islice(frames([DELTA, END], Delivery(comments=0, silence="comments")), 1, 1000))
    assert set(chunks) == {Chunk(b": OPENROUTER PROCESSING\n\n", 0.5)}
