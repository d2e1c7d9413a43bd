"""Sealing: what is stored becomes bytes that only our key opens, and only in the place where they were put.

A JSON object is written compactly, compressed when it is large, and sealed with AES-256-GCM. The seal covers the
packing and the names of the row, of an artifact its id, owner, kind and model: a payload that was altered, or
moved to another row, does not open. Chat and message stay outside the seal; they take no part in finding a row
and may change.

Keys come from passphrases by HKDF-SHA256. The first seals, all of them open, so a key can be replaced while
old rows stay readable. This module owns keys and bytes; it knows neither databases nor caches.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import ConfigurationError, SealBroken, StoreError
from ..ports import Artifact
from .rows import COMPRESSED, PLAIN, SEALED, SealedRow

if TYPE_CHECKING:
    from ..responses.items import Item

ALWAYS_SEALED: Final = frozenset({"reasoning"})
"""Kinds that are sealed whatever the settings say, and refused when they come back plain."""

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
        """Derive the keys; empty passphrases are passed over, and at least one must remain."""
        derived = [_derive(passphrase) for passphrase in passphrases if passphrase]
        if not derived:
            raise ConfigurationError("Artifacts cannot be stored: there is no encryption key.")
        self._ciphers = {_fingerprint(key): AESGCM(key) for key in derived}
        self.first_id: Final = _fingerprint(derived[0])

    def cipher(self, key_id: str) -> AESGCM:
        """The cipher with this id; raises SealBroken when the key is not ours, or no longer."""
        try:
            return self._ciphers[key_id]
        except KeyError:
            raise SealBroken(_UNREADABLE, detail=f"unknown key {key_id!r}") from None


@dataclass(frozen=True, slots=True)
class Sealing:
    """How new rows are made: with which keys, and whether every kind is sealed or only `ALWAYS_SEALED`."""

    keyring: Keyring
    encrypt_all: bool = True


class Opened(NamedTuple):
    """An artifact out of its row, and the size of its item as JSON, in bytes."""

    artifact: Artifact
    item_bytes: int


class ItemTooLarge(StoreError):
    """An item is larger than what the reader or writer accepts."""


class Packed(NamedTuple):
    """Bytes as a row holds them; `SealedRow` says what the fields mean."""

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

    The seal is bound to `names`, which tell the row from every other; none of them contains a NUL.
    """
    payload, packing = _compress(data)
    if keyring is None:
        return Packed("", packing, payload)
    packing |= SEALED
    nonce = os.urandom(_NONCE_BYTES)
    sealed = keyring.cipher(keyring.first_id).encrypt(nonce, payload, _bound(packing, names))
    return Packed(keyring.first_id, packing, _FORMAT + nonce + sealed)


def unpack(packed: Packed, names: Sequence[str], keyring: Keyring, *, limit_bytes: int) -> bytes:
    """Give back what was packed under these names. Raises SealBroken, or ItemTooLarge when it is over the limit."""
    payload = packed.payload
    if packed.packing & SEALED:
        payload = _decrypt(packed, names, keyring)
    if packed.packing & COMPRESSED:
        payload = _decompress(payload, limit_bytes)
    if len(payload) > limit_bytes:
        raise ItemTooLarge(_UNREADABLE, detail=f"more than {limit_bytes} bytes")
    return payload


def require_storable(*texts: str) -> None:
    """Raise StoreError for what PostgreSQL does not take as text: NUL and lone surrogates."""
    for text in texts:
        if "\0" in text or not _encodable(text):
            raise StoreError("An item could not be stored.", detail=f"not storable as text: {text!r}")


def seal(artifact: Artifact, data: bytes, sealing: Sealing, *, now: int) -> SealedRow:
    """Make the row of an artifact whose encoded item is `data`, created at `now` (epoch seconds).

    Raises StoreError when a name of the artifact is not storable as text.
    """
    names = _names(artifact)
    require_storable(*names, artifact.chat_id, artifact.message_id)
    sealed = sealing.encrypt_all or artifact.kind in ALWAYS_SEALED
    packed = pack(data, names, sealing.keyring if sealed else None)
    return SealedRow(
        user_id=artifact.user_id,
        id=artifact.id,
        chat_id=artifact.chat_id,
        message_id=artifact.message_id,
        kind=artifact.kind,
        model=artifact.model,
        key_id=packed.key_id,
        packing=packed.packing,
        payload=packed.payload,
        created=now,
        last_used=now,
    )


def unseal(row: SealedRow, keyring: Keyring, *, limit_bytes: int) -> Opened:
    """Open a row. Raises SealBroken, or ItemTooLarge when the item's JSON is over the limit."""
    if row.kind in ALWAYS_SEALED and not row.packing & SEALED:
        raise SealBroken(_UNREADABLE, detail="a plain row of a kind that is always sealed")
    packed = Packed(row.key_id, row.packing, row.payload)
    data = unpack(packed, _names(row), keyring, limit_bytes=limit_bytes)
    artifact = Artifact(
        id=row.id,
        user_id=row.user_id,
        chat_id=row.chat_id,
        message_id=row.message_id,
        kind=row.kind,
        model=row.model,
        item=cast("Item", decode_item(data)),
    )
    return Opened(artifact, len(data))


def _derive(passphrase: str) -> bytes:
    secret = passphrase.encode("utf-8", "surrogatepass")
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_KEY_PURPOSE).derive(secret)


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(b"key id" + key).hexdigest()[:_KEY_ID_CHARACTERS]


def _names(artifact: Artifact | SealedRow) -> tuple[str, ...]:
    """What the seal of an artifact is bound to."""
    return artifact.user_id, artifact.id, artifact.kind, artifact.model


def _bound(packing: int, names: Sequence[str]) -> bytes:
    """What a seal covers besides the payload."""
    return "\0".join((str(packing), *names)).encode("utf-8", "surrogatepass")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _compress(data: bytes) -> tuple[bytes, int]:
    """Compress large items: JSON in UTF-8 is never noise, so from a few kilobytes on it always shrinks."""
    if len(data) < _COMPRESSED_FROM_BYTES:
        return data, PLAIN
    return zlib.compress(data, _COMPRESSION_LEVEL), COMPRESSED


def _decrypt(packed: Packed, names: Sequence[str], keyring: Keyring) -> bytes:
    if packed.payload[:1] != _FORMAT:
        raise SealBroken(_UNREADABLE, detail="unknown format")
    nonce, sealed = packed.payload[1 : 1 + _NONCE_BYTES], packed.payload[1 + _NONCE_BYTES :]
    try:
        return keyring.cipher(packed.key_id).decrypt(nonce, sealed, _bound(packed.packing, names))
    except (InvalidTag, ValueError) as error:
        raise SealBroken(_UNREADABLE, detail="altered, or moved to another row") from error


def _decompress(data: bytes, limit_bytes: int) -> bytes:
    """Inflate no further than one byte past the limit, so that a small row cannot fill the memory."""
    try:
        return zlib.decompressobj().decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise SealBroken(_UNREADABLE, detail=str(error)) from error
