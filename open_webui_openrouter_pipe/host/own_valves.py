"""A user's valves as the host stores them, beside the object that it hands on.

The host hands on the defaults, without a word, where what it has stored does not fit the class or cannot be decrypted.
Source: `get_function_params` in `functions.py`, `models/functions.py` and `utils/valves.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from ..responses.wire import as_object, as_text

_log = logging.getLogger(__name__)


def stored_user_valves(user: Mapping[str, Any], function_id: str) -> Mapping[str, Any] | None:
    """Return what is stored of a user's valves for a function; None where it can no longer be decrypted.

    `user` is what the host passes to a pipe: with the user's settings, which hold the valves of all functions.
    """
    functions = as_object(as_object(user.get("settings")).get("functions"))
    stored = as_object(functions.get("valves")).get(function_id)
    return _decrypted(stored) if isinstance(stored, str) and stored else as_object(stored)


async def replace_user_valve(function_id: str, user_id: str, name: str, values: tuple[str, str]) -> None:
    """Store another value of a user's valve, if it is still the first of these; never raises."""
    from open_webui.models.functions import Functions

    old, new = values
    try:
        stored = as_object(await Functions.get_user_valves_by_id_and_user_id(function_id, user_id))
        if stored.get(name) == old:
            await Functions.update_user_valves_by_id_and_user_id(function_id, user_id, {**stored, name: new})
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and the next request tries again
        _log.warning("the valve %s of a user was not replaced: %s", name, type(error).__name__)


def function_of(model: Any) -> str:
    """Return the id of the function that offers a model, as the host reads it in the model's id."""
    return as_text(model).partition(".")[0]


def _decrypted(stored: str) -> Mapping[str, Any] | None:
    """The host's own `decrypt_valves` takes what it cannot decrypt for empty."""
    try:
        from open_webui.utils.valves import _fernet

        return as_object(json.loads(_fernet().decrypt(stored.encode())))
    except Exception as error:  # noqa: BLE001 - whatever it is, they cannot be read
        _log.warning("the valves of a user cannot be decrypted: %s", type(error).__name__)
        return None
