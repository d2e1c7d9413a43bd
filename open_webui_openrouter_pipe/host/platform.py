"""What Open WebUI itself runs on and shares: database, Redis, secret key, data folder, functions, users' valves.

All of it stays the host's: nothing here is closed. The host's Redis (a plain one, behind Sentinel, or a cluster) is
connected when it is first used. Everything is imported when it is asked for. Where the host has no secret key, one of
our own is in its data folder.
Source: `internal/db.py`, `utils/redis.py` and `env.py` of Open WebUI 0.12; for the code of functions
`update_function_by_id` in its `routers/functions.py`.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.exceptions import RedisError
from sqlalchemy.ext.asyncio import AsyncEngine

from ..conversation.masking import Secret
from ..errors import UpdateRefused
from ..responses.values import as_object

SECRET_FILE: Final = "openrouter_pipe_secret"  # noqa: S105 - a name
_OUR_PART: Final = "openrouter_pipe"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedRedis:
    """An asyncio client in bytes mode, and the prefix of the names that are ours."""

    client: Any
    prefix: str


@dataclass(frozen=True, slots=True)
class Platform:
    """The host's shared parts. `schema` is the database schema, None for the default one; `redis` may be None.

    `secret_key` is empty where the host has none (it allows that without accounts) and its data folder keeps none.
    """

    engine: AsyncEngine
    schema: str | None
    redis: SharedRedis | None
    secret_key: Secret
    cache_folder: Path


def platform() -> Platform:
    """Return the parts of the running host. Raises ImportError outside Open WebUI."""
    from open_webui import env
    from open_webui.internal.db import async_engine

    folder = Path(env.DATA_DIR)
    return Platform(
        engine=async_engine,
        schema=env.DATABASE_SCHEMA or None,
        redis=shared_redis(),
        secret_key=host_secret(),
        cache_folder=folder / "cache",
    )


def host_secret() -> Secret:
    """Return the host's secret key, or our own where it has none; "" when none can be kept."""
    from open_webui import env

    return Secret(env.WEBUI_SECRET_KEY or own_secret(Path(env.DATA_DIR)))


def own_secret(folder: Path) -> str:
    """Return the secret that is kept in the folder, made by whoever asks first; empty when none can be kept there."""
    path = folder / SECRET_FILE
    try:
        if not path.exists():
            descriptor, temporary = tempfile.mkstemp(dir=folder)  # readable by this account alone
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(secrets.token_urlsafe())
                    file.flush()
                    os.fsync(file.fileno())
                # Of several workers one has made the file, whole; the others read it.
                with suppress(FileExistsError):
                    os.link(temporary, path)
            finally:
                Path(temporary).unlink()
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        _log.warning(
            "nothing is sealed: Open WebUI has no secret key, and %s cannot be kept: %s", path, error
        )
        return ""


def shared_redis() -> SharedRedis | None:
    """Return the host's Redis; None when it has none, or settings that it does not understand either.

    Connects to nothing. Raises ImportError outside Open WebUI.
    """
    from open_webui import env
    from open_webui.utils.redis import get_redis_connection, get_sentinels_from_env

    try:
        client = get_redis_connection(
            env.REDIS_URL,
            redis_sentinels=get_sentinels_from_env(env.REDIS_SENTINEL_HOSTS, env.REDIS_SENTINEL_PORT),
            redis_cluster=env.REDIS_CLUSTER,
            async_mode=True,
            decode_responses=False,
        )
    except (ValueError, RedisError) as error:
        _log.warning("artifacts are kept without Redis: %s", error)
        return None
    return SharedRedis(client, f"{env.REDIS_KEY_PREFIX}:{_OUR_PART}") if client is not None else None


def stored_user_valves(user: Mapping[str, Any], function_id: str) -> Mapping[str, Any] | None:
    """Return what is stored of a user's valves for a function; None where it can no longer be decrypted.

    `user` is what the host passes to a pipe: with the user's settings, which hold the valves of all functions.
    """
    functions = as_object(as_object(user.get("settings")).get("functions"))
    stored = as_object(functions.get("valves")).get(function_id)
    if not isinstance(stored, str) or not stored:
        return as_object(stored)
    try:  # the host's own `decrypt_valves` takes what it cannot decrypt for empty
        from open_webui.utils.valves import _fernet

        return as_object(json.loads(_fernet().decrypt(stored.encode())))
    except Exception as error:  # noqa: BLE001 - whatever it is, they cannot be read
        _log.warning("the valves of a user cannot be decrypted: %s", type(error).__name__)
        return None


async def stored_valves(function_id: str) -> Mapping[str, Any] | None:
    """Return what is stored of a function's valves, None where the database does not say.

    For each call the host takes that for no valves: `get_function_module_by_id` in `functions.py` of Open WebUI 0.12.
    """
    from open_webui.models.functions import Functions

    found: Mapping[str, Any] | None = await Functions.get_function_valves_by_id(function_id)
    return found


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


async def loaded_function(request: Any, function_id: str) -> Any:
    """Return a function as the host has it loaded, with its valves as they are stored; None where it cannot be had."""
    from open_webui.functions import get_function_module_by_id

    try:
        return await get_function_module_by_id(request, function_id)
    except Exception as error:  # noqa: BLE001 - its code may raise anything
        _log.warning("the function %s cannot be loaded: %s", function_id, type(error).__name__)
        return None


class HostFunctionCode:
    """Replaces code in the name of an administrator, as the host's own page does; `request` is the host's.

    Every worker compares a function's code with what it has loaded at each call, and loads it anew where it differs; a
    call that runs ends on the code on which it began.
    """

    def __init__(self, request: Any, user_id: str) -> None:
        self._request = request
        self._user_id = user_id

    @property
    def host_version(self) -> str:
        """The version of Open WebUI."""
        from open_webui.env import VERSION

        return str(VERSION)

    async def contents(self) -> Mapping[str, str]:
        """Return the code of all functions by their ids."""
        from open_webui.models.functions import Functions

        return {function.id: function.content for function in await Functions.get_functions()}

    async def replace(self, function_id: str, content: str, *, message: str) -> None:
        """Put other code in a function's place: its valves, name and switch stay.

        Raises:
            UpdateRefused: The host does not take it: the code cannot be loaded, or the stored valves are not valid
                under it. The function is as it was. The line is the host's.
        """
        from open_webui.models.functions import FunctionForm, Functions
        from open_webui.models.users import Users
        from open_webui.routers.functions import update_function_by_id

        function = await Functions.get_function_by_id(function_id)
        user = await Users.get_user_by_id(self._user_id)
        try:
            form = FunctionForm(**{**function.model_dump(), "content": content, "commit_message": message})
            await update_function_by_id(self._request, function_id, form, user=user, db=None)
        except Exception as error:  # the host raises what the code raised, as a text or as it is
            raise UpdateRefused(str(getattr(error, "detail", "") or error)) from error
