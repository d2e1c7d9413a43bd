"""A short secret of a user as text that only this server can open, to be kept where settings are kept.

The form is `sealed:KEY_ID:BASE64`. Sealing what is sealed already changes nothing, since a page sends back what it was
given.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from ..errors import SealBroken
from .sealing import SEALED, Keyring, Packed, pack, unpack

_PREFIX: Final = "sealed:"
_MAX_BYTES: Final = 4096


def seal_text(text: str, secret: str, *, purpose: str) -> str:
    """Return the text sealed for a purpose, "" for the empty one. Raises ConfigurationError without a secret."""
    if not text or text.startswith(_PREFIX):
        return text
    packed = pack(text.encode(), (purpose,), Keyring((secret,)))
    return f"{_PREFIX}{packed.key_id}:{base64.urlsafe_b64encode(packed.payload).decode()}"


def open_text(sealed: str, secret: str, *, purpose: str) -> str:
    """Return what was sealed for the purpose, "" for the empty text.

    Raises SealBroken, and ConfigurationError without a secret.
    """
    if not sealed:
        return ""
    key_id, _, payload = sealed.removeprefix(_PREFIX).partition(":")
    try:
        packed = Packed(key_id, SEALED, base64.urlsafe_b64decode(payload))
    except (binascii.Error, ValueError) as error:
        raise SealBroken("A sealed text could not be opened.", detail="not base64") from error
    return unpack(packed, (purpose,), Keyring((secret,)), limit_bytes=_MAX_BYTES).decode()
