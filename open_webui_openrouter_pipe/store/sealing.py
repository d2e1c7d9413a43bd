"""Keys, and the bytes that only they open, in the row that these were sealed for.

A JSON object is written compactly, compressed when it is large, and sealed with AES-256-GCM. The seal covers the
packing and the names of the row: a payload that was altered, or moved to another row, does not open. Keys come from
passphrases by HKDF-SHA256. The first seals, all of them open, so a key can be replaced while old rows stay readable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import ConfigurationError, SealBroken, StoreError

PLAIN: Final = 0
SEALED: Final = 1
COMPRESSED: Final = 2
"""How a payload is to be opened: the sum of these. Plain integers, because each row of a request asks."""

_FORMAT: Final = b"\x01"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_KEY_ID_CHARACTERS: Final = 16
_KEY_PURPOSE: Final = b"open_webui_openrouter_pipe artifact v1"
# Inflating hundreds of small items takes longer than reading them; large ones bring nearly all of the saving.
_COMPRESSED_FROM_BYTES: Final = 4096
# The fastest level: the slower ones make text of this size two percent smaller.
_COMPRESSION_LEVEL: Final = 1
# `json.loads` spends a quarter of its time on looking for spaces that compact JSON does not have.
_JSON: Final = json.JSONDecoder()
_UNREADABLE: Final = "A stored item could not be opened."


class Keyring:
    """The keys of a store: the first seals new rows, each opens the rows that carry its id."""

    def __init__(self, passphrases: Sequence[str]) -> None:
        """Derive the keys; empty passphrases are ignored, and at least one must remain."""
        self._ciphers: dict[str, AESGCM] = {}
        for passphrase in filter(None, passphrases):
            secret = passphrase.encode("utf-8", "surrogatepass")
            key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_KEY_PURPOSE).derive(secret)
            self._ciphers[hashlib.sha256(b"key id" + key).hexdigest()[:_KEY_ID_CHARACTERS]] = AESGCM(key)
        if not self._ciphers:
            raise ConfigurationError("Artifacts cannot be stored: there is no encryption key.")
        self.first_id: Final = next(iter(self._ciphers))

    def cipher(self, key_id: str) -> AESGCM:
        """Return the cipher with this id; raises SealBroken when the key is not among ours."""
        try:
            return self._ciphers[key_id]
        except KeyError:
            raise SealBroken(_UNREADABLE, detail=f"unknown key {key_id!r}") from None


@dataclass(frozen=True, slots=True)
class Sealing:
    """How new rows are made: with which keys, and whether every kind is sealed or only `ALWAYS_SEALED`."""

    keyring: Keyring
    encrypt_all: bool = True


class ItemTooLarge(StoreError):
    """An item is larger than what the reader or writer accepts."""


class Packed(NamedTuple):
    """Bytes as a row holds them: the id of the key (empty for a plain payload), the flags above, and the payload."""

    key_id: str
    packing: int
    payload: bytes


def encode_item(item: Mapping[str, Any]) -> bytes:
    """Write an object as compact JSON with its key order; lone surrogates survive. Raises StoreError."""
    try:
        text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError("An item could not be stored.", detail=f"not JSON: {error}") from error
    return text.encode("utf-8", "surrogatepass")


def decode_item(data: bytes) -> dict[str, Any]:
    """Read what `encode_item` wrote. Raises SealBroken."""
    item: Any
    try:
        text = data.decode("utf-8", "surrogatepass")
        item, end = _JSON.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise SealBroken(_UNREADABLE, detail=f"not JSON: {error}") from error
    if end != len(text) or not isinstance(item, dict):
        raise SealBroken(_UNREADABLE, detail="not an item")
    return item


def pack(data: bytes, names: Sequence[str], keyring: Keyring | None) -> Packed:
    """Make bytes ready for a row: compressed when they are large, and sealed, unless `keyring` is None.

    The seal is bound to `names`, which distinguish the row from every other; none of them contains a NUL.
    """
    payload, packing = data, PLAIN
    if len(data) >= _COMPRESSED_FROM_BYTES:
        # JSON in UTF-8 is never noise, so from a few kilobytes on it always shrinks.
        payload, packing = zlib.compress(data, _COMPRESSION_LEVEL), COMPRESSED
    if keyring is None:
        return Packed("", packing, payload)
    packing |= SEALED
    nonce = os.urandom(_NONCE_BYTES)
    sealed = keyring.cipher(keyring.first_id).encrypt(nonce, payload, _associated_data(packing, names))
    return Packed(keyring.first_id, packing, _FORMAT + nonce + sealed)


def unpack(packed: Packed, names: Sequence[str], keyring: Keyring, *, limit_bytes: int) -> bytes:
    """Return what was packed under these names. Raises SealBroken, or ItemTooLarge when it is over the limit."""
    if packed.packing & ~(SEALED | COMPRESSED):
        raise SealBroken(_UNREADABLE, detail=f"unknown packing {packed.packing}")
    payload = _decrypt(packed, names, keyring) if packed.packing & SEALED else packed.payload
    if packed.packing & COMPRESSED:
        try:
            # No further than one byte past the limit, so that a small row cannot fill the memory.
            payload = zlib.decompressobj().decompress(payload, limit_bytes + 1)
        except zlib.error as error:
            raise SealBroken(_UNREADABLE, detail=str(error)) from error
    if len(payload) > limit_bytes:
        raise ItemTooLarge(_UNREADABLE, detail=f"more than {limit_bytes} bytes")
    return payload


def require_storable(*texts: str) -> None:
    """Raise StoreError for what PostgreSQL does not take as text: NUL and lone surrogates."""
    if re.search(r"[\0\ud800-\udfff]", "".join(texts)):
        raise StoreError("An item could not be stored.", detail=f"not storable as text: {texts!r}")


def _associated_data(packing: int, names: Sequence[str]) -> bytes:
    """Return what a seal covers besides the payload."""
    return "\0".join((str(packing), *names)).encode("utf-8", "surrogatepass")


def _decrypt(packed: Packed, names: Sequence[str], keyring: Keyring) -> bytes:
    if packed.payload[:1] != _FORMAT:
        raise SealBroken(_UNREADABLE, detail="unknown format")
    nonce, sealed = packed.payload[1 : 1 + _NONCE_BYTES], packed.payload[1 + _NONCE_BYTES :]
    try:
        return keyring.cipher(packed.key_id).decrypt(nonce, sealed, _associated_data(packed.packing, names))
    except (InvalidTag, ValueError) as error:
        raise SealBroken(_UNREADABLE, detail="altered, or moved to another row") from error
