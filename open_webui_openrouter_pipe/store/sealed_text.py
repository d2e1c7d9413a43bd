"""A short secret of a user as text that only this server can open, to be kept where settings are kept.

The form is `sealed:KEY_ID:BASE64`, or `sealed:owned:KEY_ID:BASE64` where it opens for its owner alone. Sealing what is
sealed already changes nothing, since a page sends back what it was given.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from ..errors import SealBroken
from .sealing import SEALED, Keyring, Packed, pack, unpack

_PREFIX: Final = "sealed:"
_OWNED: Final = "owned:"
_MAX_BYTES: Final = 4096


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


def open_text(sealed: str, secret: str, *, purpose: str, owner: str = "") -> str:
    """Return what was sealed for the purpose, and for this owner if for any; "" for the empty text.

    Raises SealBroken, and ConfigurationError without a secret.
    """
    if not sealed:
        return ""
    names = (purpose, owner) if is_owned(sealed) else (purpose,)
    key_id, _, payload = sealed.removeprefix(_PREFIX).removeprefix(_OWNED).partition(":")
    try:
        packed = Packed(key_id, SEALED, base64.urlsafe_b64decode(payload))
    except (binascii.Error, ValueError) as error:
        raise SealBroken("A sealed text could not be opened.", detail="not base64") from error
    return unpack(packed, names, Keyring((secret,)), limit_bytes=_MAX_BYTES).decode()
