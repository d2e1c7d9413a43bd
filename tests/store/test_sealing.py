"""Sealing: what opens, what is rejected, and what a changed key does."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import ConfigurationError, SealBroken, StoreError
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import seal, unseal
from open_webui_openrouter_pipe.store.rows import SealedRow
from open_webui_openrouter_pipe.store.sealing import (
    COMPRESSED,
    PLAIN,
    SEALED,
    ItemTooLarge,
    Keyring,
    Sealing,
    encode_item,
)
from tests.store.contract import ITEMS, NOW, SEALING, artifact

LIMIT_BYTES = 10_000_000
KEYRING = SEALING.keyring

texts = st.text(st.characters(exclude_categories=()))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
items = st.dictionaries(texts, values, max_size=6).map(lambda item: item | {"type": "reasoning"})


def sealed_row(item: Any, *, kind: str = "reasoning", sealing: Sealing = SEALING) -> SealedRow:
    """The row of an artifact with this item."""
    return seal(
        Artifact("0" * 20, "ada", "c", "m", kind, "openai/gpt-5", item), encode_item(item), sealing, now=NOW
    )


def opened(row: SealedRow, keyring: Keyring = KEYRING) -> Any:
    """The item inside a row."""
    return unseal(row, keyring, limit_bytes=LIMIT_BYTES).artifact.item


@settings(deadline=None)
@given(items)
def test_any_item_is_opened_byte_for_byte(item: dict[str, Any]) -> None:
    """Whatever JSON can hold is written the same after sealing and opening."""
    assert json.dumps(opened(sealed_row(item))) == json.dumps(item)


@settings(deadline=None)
@given(st.data())
def test_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    """No bit of a sealed payload can change without the seal breaking."""
    item = data.draw(st.sampled_from(ITEMS))
    row = sealed_row(item, kind=item["type"])
    index = data.draw(st.integers(0, len(row.payload) * 8 - 1))
    changed = bytearray(row.payload)
    changed[index // 8] ^= 1 << index % 8
    with pytest.raises(SealBroken):
        opened(row._replace(payload=bytes(changed)))


def test_every_flipped_byte_of_one_row_is_noticed() -> None:
    """The same, for each byte of a small row in turn."""
    row = sealed_row({"type": "reasoning"})
    for index in range(len(row.payload)):
        changed = bytearray(row.payload)
        changed[index] ^= 0xFF
        with pytest.raises(SealBroken):
            opened(row._replace(payload=bytes(changed)))


@settings(deadline=None)
@given(st.integers(0, 300))
def test_a_truncated_payload_is_noticed(length: int) -> None:
    """A payload that ends early does not open."""
    row = sealed_row({"type": "reasoning", "text": "t" * 300})
    with pytest.raises(SealBroken):
        opened(row._replace(payload=row.payload[:length]))


@pytest.mark.parametrize(
    "moved",
    [
        {"id": "1" * 20},
        {"user_id": "eve"},
        {"kind": "function_call"},
        {"model": "openai/gpt-4"},
        {"packing": SEALED | COMPRESSED},
        {"packing": PLAIN},
        {"packing": 4},
        {"packing": SEALED | 4},
        {"key_id": "0" * 16},
    ],
)
def test_a_payload_belongs_to_its_row(moved: dict[str, Any]) -> None:
    """A payload under another id, owner, kind, model, packing or key does not open."""
    with pytest.raises(SealBroken):
        opened(sealed_row({"type": "reasoning"})._replace(**moved))


def test_chat_and_message_may_change() -> None:
    """They take no part in finding a row; the artifact says what the row says."""
    row = sealed_row({"type": "reasoning"})._replace(chat_id="copy", message_id="other")
    found = unseal(row, KEYRING, limit_bytes=LIMIT_BYTES).artifact
    assert found == Artifact(
        row.id, "ada", "copy", "other", "reasoning", "openai/gpt-5", {"type": "reasoning"}
    )


def test_the_same_item_is_never_sealed_alike() -> None:
    """Each row has a nonce of its own, and its payload shows nothing of the item."""
    rows = [sealed_row({"type": "reasoning", "text": "visible" * 9}) for _ in range(50)]
    assert len({row.payload for row in rows}) == 50
    assert not any(b"visible" in row.payload for row in rows)


def test_old_keys_open_and_the_first_seals() -> None:
    """A new passphrase before the old one changes what is written and nothing that can be read."""
    old, new = Keyring(["old"]), Keyring(["new", "old"])
    before = sealed_row({"type": "reasoning"}, sealing=Sealing(old))
    after = sealed_row({"type": "reasoning"}, sealing=Sealing(new))
    assert (before.key_id, after.key_id) == (old.first_id, new.first_id)
    assert opened(before, new) == opened(after, new) == {"type": "reasoning"}
    with pytest.raises(SealBroken):
        opened(after, old)


def test_keys_are_named_by_what_they_are() -> None:
    """The same passphrase gives the same key in every process, and another one another."""
    assert Keyring(["one"]).first_id == Keyring(["", "one", "two"]).first_id == "45684cdeca34d2e5"
    assert Keyring(["one"]).first_id != Keyring(["two"]).first_id


def test_a_keyring_needs_a_key() -> None:
    """Without any passphrase there is no store."""
    with pytest.raises(ConfigurationError):
        Keyring(["", ""])


def test_without_encrypt_all_reasoning_alone_is_sealed() -> None:
    """Other kinds are stored plain, and both come back."""
    sealing = Sealing(KEYRING, encrypt_all=False)
    reasoning = sealed_row({"type": "reasoning"}, sealing=sealing)
    call = sealed_row({"type": "function_call"}, kind="function_call", sealing=sealing)
    assert (reasoning.packing, reasoning.key_id) == (SEALED, KEYRING.first_id)
    assert (call.packing, call.key_id, call.payload) == (PLAIN, "", b'{"type":"function_call"}')
    assert [opened(reasoning), opened(call)] == [{"type": "reasoning"}, {"type": "function_call"}]


def test_plain_reasoning_is_rejected() -> None:
    """Nobody can slip in reasoning by writing a plain row."""
    row = sealed_row({"type": "reasoning"}, kind="function_call", sealing=Sealing(KEYRING, encrypt_all=False))
    for kind in ("reasoning", "function_call"):
        with pytest.raises(SealBroken):
            opened(row._replace(kind=kind))


@pytest.mark.parametrize("payload", [b"", b"\xff", b"[1]", b"{", b"null", b'{"a":1}x', b"[" * 100_000])
def test_a_plain_payload_that_is_not_an_item_is_rejected(payload: bytes) -> None:
    """Nothing but our own errors is raised, whatever a plain row holds."""
    row = sealed_row({"type": "x"}, kind="x", sealing=Sealing(KEYRING, encrypt_all=False))
    for packing in (PLAIN, COMPRESSED):
        with pytest.raises(SealBroken):
            opened(row._replace(payload=payload, packing=packing))


@settings(deadline=None)
@given(st.integers(0), st.sampled_from([0x7E, 0x7FF, 0xD7FF, 0x10FFFF]), st.integers(0, 4000))
def test_large_items_are_compressed_and_small_ones_are_not(seed: int, last: int, length: int) -> None:
    """Every large text shrinks, even noise; a small one is not worth the time of inflating it."""
    text = "".join(map(chr, random.Random(seed).choices(range(0x20, last), k=4096)))
    item: Any = {"type": "reasoning", "text": text}
    large = sealed_row(item)
    small = sealed_row({"type": "reasoning", "text": "a" * length})
    assert (large.packing, small.packing) == (SEALED | COMPRESSED, SEALED)
    assert len(large.payload) < len(encode_item(item))


def test_a_small_row_cannot_fill_the_memory() -> None:
    """Inflating ends at the limit."""
    row = sealed_row({"type": "reasoning", "text": "a" * 1_000_000})
    assert len(row.payload) < 10_000
    with pytest.raises(ItemTooLarge):
        unseal(row, KEYRING, limit_bytes=1_000_000)
    assert unseal(row, KEYRING, limit_bytes=1_000_100).item_bytes == 1_000_030


@pytest.mark.parametrize("item", [{"a": object()}, {"a": {1, 2}}, {("a",): 1}])
def test_what_is_not_json_is_rejected(item: Any) -> None:
    """By an error of ours, and not one of the json module."""
    with pytest.raises(StoreError):
        encode_item(item)


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_names_that_databases_reject_are_rejected_first(text: str) -> None:
    """PostgreSQL's text takes neither NUL nor lone surrogates."""
    bad = Artifact("0" * 20, "ada", "c", text, "reasoning", "m", {"type": "reasoning"})
    with pytest.raises(StoreError):
        seal(bad, b"{}", SEALING, now=NOW)


def test_a_row_remembers_where_it_was_made() -> None:
    """Everything but the item stands in columns."""
    row = seal(artifact(1), encode_item(artifact(1).item), SEALING, now=NOW)
    assert row._replace(payload=b"") == SealedRow(
        user_id="ada",
        id=f"{1:020d}",
        chat_id="chat-1",
        message_id="message-1",
        kind="function_call",
        model="openai/gpt-5",
        key_id=KEYRING.first_id,
        packing=SEALED,
        payload=b"",
        created=NOW,
        last_used=NOW,
    )
