"""Bodies in pieces: the same bytes as JSON writes at once, whatever they hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.openrouter.wire import EncodedBody, encode_body
from open_webui_openrouter_pipe.responses.values import Kept
from open_webui_openrouter_pipe.threads import LARGE_CHARACTERS

pytestmark = pytest.mark.anyio

LONG = "A" * (LARGE_CHARACTERS + 1)

TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(lambda head, tail: head + LONG + tail, st.text(max_size=3), st.text(max_size=3)),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def written(body: EncodedBody) -> bytes:
    """All of it."""
    return b"".join(body.write())


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
async def test_the_pieces_are_the_json(body: dict[str, Any]) -> None:
    """Byte for byte, with a length that is right."""
    encoded = await encode_body(body)
    whole = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if b"\xed" not in whole:  # half surrogates are replaced
        assert written(encoded) == whole
    assert encoded.length_bytes == len(written(encoded))
    json.loads(written(encoded))
    items = [{"type": "message", "content": value} for value in body.values()]
    same = await encode_body({"input": items, **body})
    for kept in ([*map(Kept, items)], [*map(Kept, items[:1]), *items[1:]]):
        for _ in range(2):  # the second time with the bytes of the first
            assert written(await encode_body({"input": kept, **body})) == written(same)


@pytest.mark.parametrize("escaped", ['"', "\\", "\n", "\0", "\x1f", "ü", "\x7f"])
@pytest.mark.parametrize("offset", [0, LARGE_CHARACTERS // 2, 300_000, 600_000])
async def test_a_long_text_with_an_escape_is_written_as_ever(escaped: str, offset: int) -> None:
    """Wherever it stands."""
    text = "A" * offset + escaped + "A" * (600_001 - offset)
    assert json.loads(written(await encode_body({"a": [{"b": text}], "c": 1}))) == {
        "a": [{"b": text}],
        "c": 1,
    }


async def test_long_texts_are_pieces_of_their_own() -> None:
    """Nothing looks for escapes in them again."""
    pieces = [*(await encode_body({"a": LONG, "b": [LONG, 1.5], "c": (LONG,)})).write()]
    assert b"".join(piece for piece in pieces if len(piece) > 100) == LONG.encode() * 3
    assert json.loads(b"".join(pieces)) == {"a": LONG, "b": [LONG, 1.5], "c": [LONG]}


@pytest.mark.parametrize("long", ["", LONG])
async def test_what_neither_json_nor_utf_8_can_hold_is_never_sent(long: str) -> None:
    """It would be refused with each request of the chat: fields are absent, members null, half characters replaced."""
    infinite = {"b": float("inf"), "c": [1.5, float("-inf")], "d": ({"e": 1},)}
    encoded = written(await encode_body({"x": float("nan"), "a": infinite, "f": "a\ud83d", "g": long}))
    expected = {"a": {"c": [1.5, None], "d": [{"e": 1}]}, "f": "a\ufffd", "g": long}
    assert json.loads(encoded, parse_constant=pytest.fail) == expected


async def test_a_body_can_be_sent_again_in_short_portions() -> None:
    """A retry sends the same."""
    encoded = await encode_body({"a": "A" * 1_000_000})
    first = [portion async for portion in encoded]
    assert [portion async for portion in encoded] == first
    assert b"".join(first) == written(encoded)
    assert max(map(len, first)) <= 256 * 1024
