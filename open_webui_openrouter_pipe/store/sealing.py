"""Keys, and the bytes that only they open, in the row that these were sealed for.

A JSON object is written compactly, compressed when it is large, and sealed with AES-256-GCM. The seal covers the
packing and the names of the row: a payload that was altered, written by somebody else, or moved to another row, does
not open. The first key seals, all of them open, so a key can be replaced while old rows stay readable.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from ..conversation.masking import NO_SECRET, Secret
from ..errors import ConfigurationError, SealBroken, StoreError
from .schema import PromptRow, Row, SealedRow, SummaryRow

SEALED: Final = 1
COMPRESSED: Final = 2
"""How a payload is to be opened: the sum of these. Plain integers, because each row of a request asks."""

MIN_PASSPHRASE_CHARACTERS: Final = 16
"""A shorter passphrase is warned of: whoever has the database can try many."""

_FORMAT: Final = b"\x01"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_KEY_ID_CHARACTERS: Final = 16
_KEY_PURPOSE: Final = b"open_webui_openrouter_pipe artifact v1"
# The id of a key from a passphrase begins with the way it was derived, so that a later release may derive otherwise.
_SCRYPT_ID: Final = "scrypt1:"
_SCRYPT_COST: Final = 2**15
_SCRYPT_BLOCKS: Final = 8
# Inflating hundreds of small items takes longer than reading them; large ones bring nearly all of the saving.
_COMPRESSED_FROM_BYTES: Final = 4096
# The fastest level: the slower ones make text of this size two percent smaller.
_COMPRESSION_LEVEL: Final = 1
# `json.loads` spends a quarter of its time on looking for spaces that compact JSON does not have.
_JSON: Final = json.JSONDecoder()
_UNREADABLE: Final = "A stored item could not be opened."
_PREFIX: Final = "sealed:"
_OWNED: Final = "owned:"
_MAX_TEXT_BYTES: Final = 4096

_log = logging.getLogger(__name__)


class Keyring:
    """The keys of a store: the first seals new rows, each opens the rows that carry its id."""

    def __init__(self, secrets: Sequence[str], *, passphrases: Sequence[str] = ()) -> None:
        """Derive the keys, those of passphrases first; empty texts are ignored, and at least one must remain.

        A secret is random and long enough as it is. A passphrase was thought up: deriving its key takes some 0.2
        seconds and 32 MB, so that guessing is slow. It may also be what once was the secret, and then opens as that.
        """
        self._ciphers: dict[str, AESGCM] = {}
        for passphrase in filter(None, passphrases):
            if len(passphrase) < MIN_PASSPHRASE_CHARACTERS:
                _log.warning(
                    "A passphrase of ARTIFACT_ENCRYPTION_KEY has %d characters; at least %d are hard to guess.",
                    len(passphrase),
                    MIN_PASSPHRASE_CHARACTERS,
                )
            # All workers must derive the same key before they have read anything, so the salt is a constant.
            scrypt = Scrypt(_KEY_PURPOSE, length=_KEY_BYTES, n=_SCRYPT_COST, r=_SCRYPT_BLOCKS, p=1)
            self._add(_SCRYPT_ID, scrypt.derive(passphrase.encode("utf-8", "surrogatepass")))
        for secret in filter(None, (*secrets, *passphrases)):
            hkdf = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_KEY_PURPOSE)
            self._add("", hkdf.derive(secret.encode("utf-8", "surrogatepass")))
        if not self._ciphers:
            raise ConfigurationError("Artifacts cannot be stored: there is no encryption key.")
        self.first_id: Final = next(iter(self._ciphers))

    def _add(self, prefix: str, key: bytes) -> None:
        key_id = prefix + hashlib.sha256(b"key id" + key).hexdigest()[:_KEY_ID_CHARACTERS]
        self._ciphers.setdefault(key_id, AESGCM(key))

    def cipher(self, key_id: str) -> AESGCM:
        """Return the cipher with this id; raises SealBroken when the key is not among ours."""
        try:
            return self._ciphers[key_id]
        except KeyError:
            raise SealBroken(_UNREADABLE, detail=f"unknown key {key_id!r}") from None


class ItemTooLarge(StoreError):
    """An item is larger than what the reader or writer accepts."""


class Packed(NamedTuple):
    """Bytes as a row holds them: the id of the key, the flags above, and the payload."""

    key_id: str
    packing: int
    payload: bytes


UNSEALED: Final = Packed("", 0, b"")
"""What a row has before it is sealed."""


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


def pack(data: bytes, names: Sequence[str], keyring: Keyring) -> Packed:
    """Make bytes ready for a row: compressed when they are large, and sealed.

    The seal is bound to `names`, which distinguish the row from every other; none of them contains a NUL.
    """
    packing = SEALED
    if len(data) >= _COMPRESSED_FROM_BYTES:
        # JSON in UTF-8 is never noise, so from a few kilobytes on it always shrinks.
        data, packing = zlib.compress(data, _COMPRESSION_LEVEL), packing | COMPRESSED
    cipher, nonce = keyring.cipher(keyring.first_id), os.urandom(_NONCE_BYTES)
    sealed = cipher.encrypt(nonce, data, _associated_data(packing, names))
    return Packed(keyring.first_id, packing, _FORMAT + nonce + sealed)


def unpack(
    packed: Packed | SealedRow | SummaryRow | PromptRow,
    names: Sequence[str],
    keyring: Keyring,
    *,
    limit_bytes: int,
) -> bytes:
    """Return what was packed under these names. Raises SealBroken, or ItemTooLarge when it is over the limit."""
    if packed.packing & ~COMPRESSED != SEALED:
        raise SealBroken(_UNREADABLE, detail=f"unknown packing {packed.packing}")
    if packed.payload[:1] != _FORMAT:
        raise SealBroken(_UNREADABLE, detail="unknown format")
    nonce, sealed = packed.payload[1 : 1 + _NONCE_BYTES], packed.payload[1 + _NONCE_BYTES :]
    covered = _associated_data(packed.packing, names)
    try:
        data = keyring.cipher(packed.key_id).decrypt(nonce, sealed, covered)
    except (InvalidTag, ValueError) as error:
        raise SealBroken(_UNREADABLE, detail="altered, or moved to another row") from error
    if packed.packing & COMPRESSED:
        try:
            # No further than one byte past the limit, so that a small row cannot fill the memory.
            data = zlib.decompressobj().decompress(data, limit_bytes + 1)
        except zlib.error as error:
            raise SealBroken(_UNREADABLE, detail=str(error)) from error
    if len(data) > limit_bytes:
        raise ItemTooLarge(_UNREADABLE, detail=f"more than {limit_bytes} bytes")
    return data


def seal_row(row: Row, data: bytes, keyring: Keyring, *, limit_bytes: int) -> Row:
    """Return the row with the data sealed in it.

    Raises ItemTooLarge, and StoreError for what PostgreSQL does not take as text: NUL and lone surrogates.
    """
    if len(data) > limit_bytes:
        raise ItemTooLarge("An item is too large to be stored.", detail=f"{len(data)} bytes")
    texts = [value for value in row if isinstance(value, str)]
    if re.search(r"[\0\ud800-\udfff]", "".join(texts)):
        raise StoreError("An item could not be stored.", detail=f"not storable as text: {texts!r}")
    return cast("Row", row._replace(**pack(data, row.bound_names, keyring)._asdict()))


def seal_text(text: str, secret: str, *, purpose: str, owner: str = "") -> str:
    """Return the text sealed for a purpose, and for one owner's use alone; "" for the empty one.

    Raises ConfigurationError without a secret.
    """
    if not text or text.startswith(_PREFIX):
        return text
    packed = pack(text.encode(), (purpose, owner) if owner else (purpose,), Keyring((secret,)))
    prefix = _PREFIX + _OWNED if owner else _PREFIX
    return f"{prefix}{packed.key_id}:{base64.urlsafe_b64encode(packed.payload).decode()}"


def is_owned(sealed: str) -> bool:
    """Whether a sealed text opens for its owner alone."""
    return sealed.startswith(_PREFIX + _OWNED)


def open_text(sealed: str, secret: str, *, purpose: str, owner: str = "") -> Secret:
    """Return what was sealed for the purpose, and for this owner if for any; "" for the empty text.

    Raises SealBroken, and ConfigurationError without a secret.
    """
    if not sealed:
        return NO_SECRET
    names = (purpose, owner) if is_owned(sealed) else (purpose,)
    key_id, _, payload = sealed.removeprefix(_PREFIX).removeprefix(_OWNED).partition(":")
    try:
        packed = Packed(key_id, SEALED, base64.urlsafe_b64decode(payload))
    except (binascii.Error, ValueError) as error:
        raise SealBroken("A sealed text could not be opened.", detail="not base64") from error
    return Secret(unpack(packed, names, Keyring((secret,)), limit_bytes=_MAX_TEXT_BYTES).decode())


def _associated_data(packing: int, names: Sequence[str]) -> bytes:
    """Return what a seal covers besides the payload."""
    return "\0".join((str(packing), *names)).encode("utf-8", "surrogatepass")
