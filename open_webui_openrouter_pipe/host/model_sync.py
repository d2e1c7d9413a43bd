"""Writes what the catalogue says of the offered models, and who may use them, into Open WebUI's model rows.

In the background, by one worker at a time. All rows are read at once, and only those that differ are written: nothing
when nothing has changed. What an administrator has written stays, and so does every row, also of a model that is no
longer offered: Open WebUI does not show it then, and its settings are back when the model is.
Source: `models/models.py`, `models/access_grants.py` and `utils/plugin.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from ..ports import Model
from ..responses.wire import as_object
from .model_info import RowInfo, model_fields, new_row, updated_row

AccessFor = Literal["new", "all"]
Outcome = Literal["created", "updated", "access"]

PRIVATE: Final = "private"
PUBLIC: Final = "public"

_LEASE: Final = "model rows"
_LEASE_SECONDS: Final = 10 * 60.0
_RETRY_SECONDS: Final = 60.0
_PAGE_ROWS: Final = 50
_COMMENT: Final = "From OpenRouter's list of models"
"""What the row's history in Open WebUI says of our versions."""

_log = logging.getLogger(__name__)

Grant = tuple[str, str, str]
"""Kind and id of whom it is for, and what is permitted."""


@dataclass(frozen=True, slots=True)
class ModelRowSettings:
    """Whether rows are filled; who may use models (`private`, `public`, or names of groups), and which of them.

    That is decided once for each new model, or with `all` for every model, at each pass.
    """

    sync_info: bool = True
    access: tuple[str, ...] = (PRIVATE,)
    access_for: AccessFor = "new"


class Claims(Protocol):
    """What lets one worker at a time do something. Both methods may raise anything."""

    async def take(self, name: str, seconds: float) -> bool:
        """Return whether this worker may; a claim ends by itself."""

    async def release(self, name: str) -> None:
        """Give the claim back."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """What one function offers. `listing` numbers the lists that were fetched: each of them is worth a pass."""

    models: Sequence[Model]
    settings: ModelRowSettings
    listing: int


Write = Callable[[str, Sequence[Model], ModelRowSettings], Awaitable[Mapping[Outcome, int]]]


@dataclass(slots=True)
class ModelRows:
    """The passes of one worker. `start` begins work in the background, `clock` is in seconds, `write` is a pass."""

    claims: Claims
    start: Callable[[Coroutine[Any, Any, None]], object]
    clock: Callable[[], float]
    write: Write
    _done: dict[str, _Offer] = field(default_factory=dict)
    _next_attempts: dict[str, float] = field(default_factory=dict)

    def offer(
        self, function_id: str, models: Sequence[Model], settings: ModelRowSettings, *, listing: int
    ) -> None:
        """Have the rows of the models that a function offers written, if that was not done; returns at once."""
        offer = _Offer(models, settings, listing)
        now = self.clock()
        if self._done.get(function_id) == offer or now < self._next_attempts.get(function_id, now):
            return
        self._done[function_id] = offer
        self.start(self._write(function_id, offer))

    async def _write(self, function_id: str, offer: _Offer) -> None:
        try:
            if await self.claims.take(_LEASE, _LEASE_SECONDS):
                try:
                    written = await self.write(function_id, offer.models, offer.settings)
                finally:
                    await self.claims.release(_LEASE)
                _log.debug("model rows written: %s", dict(written))
                return
        except Exception:  # noqa: BLE001 - the host may raise anything, and the next attempt may succeed
            _log.warning("the model rows were not all written", exc_info=True)
        self._done.pop(function_id, None)
        self._next_attempts[function_id] = self.clock() + _RETRY_SECONDS


def function_id(pipe: object) -> str | None:
    """Return the id under which the running host has loaded a pipe; None while it has not, and elsewhere.

    That very object is looked for: two functions may hold the same code, and an old pipe may still be running.
    """
    main = sys.modules.get("open_webui.main")
    loaded = getattr(getattr(getattr(main, "app", None), "state", None), "FUNCTIONS", None)
    return next((name for name, function in as_object(loaded).items() if function is pipe), None)


async def write_model_rows(
    function_id: str, models: Sequence[Model], settings: ModelRowSettings
) -> Mapping[Outcome, int]:
    """Write the rows of a function's models that differ, and return how many of each kind; may raise anything."""
    by_row_id = {f"{function_id}.{model.id}": model for model in models if not re.search(r"\s", model.id)}
    rows = await _read_rows(function_id)
    ours = {row_id: row for row_id in by_row_id if (row := rows.get(row_id)) is not None}
    fields = await _fields(by_row_id, settings)
    grants = await _grants(settings.access)
    written: Counter[Outcome] = Counter()
    missing = [row_id for row_id in by_row_id if row_id not in rows]
    if missing and (settings.sync_info or grants):
        owner_id = await _owner_id(function_id)
        for page in _pages(missing):
            infos = {
                row_id: new_row(fields[row_id]) if settings.sync_info else RowInfo(by_row_id[row_id].name, {})
                for row_id in page
            }
            written["created"] += await _create(infos, owner_id, grants, int(time.time()))
    if settings.sync_info:
        for row_id in await asyncio.to_thread(_outdated, ours, fields):
            written["updated"] += await _update(row_id, fields[row_id])
    if settings.access_for == "all":
        written["access"] += await _set_access(list(ours), grants)
    return written


async def _read_rows(function_id: str) -> dict[str, RowInfo | None]:
    """The rows of a function's models, in one query; None for a workspace's own model that has such an id."""
    import sqlalchemy as sa
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.models import Model as Row

    of_function = Row.id.startswith(f"{function_id}.", autoescape=True)
    query = sa.select(Row.id, Row.base_model_id, Row.name, Row.meta).where(of_function)
    async with get_async_db_context() as session:
        found = (await session.execute(query)).all()
    return {
        row_id: RowInfo(name, as_object(meta)) if base_id is None else None
        for row_id, base_id, name, meta in found
    }


async def _fields(
    by_row_id: Mapping[str, Model], settings: ModelRowSettings
) -> Mapping[str, Mapping[str, Any]]:
    """The fields of each row; made in a thread, since icons are drawn."""
    from open_webui.models.config import Config

    if not settings.sync_info:
        return {}
    metadata = as_object(await Config.get("models.default_metadata", {}))
    defaults = as_object(metadata.get("capabilities"))

    def make() -> dict[str, Mapping[str, Any]]:
        return {row_id: model_fields(model, defaults) for row_id, model in by_row_id.items()}

    return await asyncio.to_thread(make)


def _outdated(rows: Mapping[str, RowInfo], fields: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [row_id for row_id, row in rows.items() if updated_row(row, fields[row_id])]


async def _owner_id(function_id: str) -> str:
    """The administrator who installed the function: the owner of its rows."""
    from open_webui.models.functions import Functions

    function = await Functions.get_function_by_id(function_id)
    return function.user_id if function else ""


async def _create(infos: Mapping[str, RowInfo], owner_id: str, grants: frozenset[Grant], created: int) -> int:
    """Create rows in one transaction, each with its first version; 0 where somebody else creates one of them too.

    The host's own way, row by row, keeps a worker busy for seconds. Before 0.12, rows had no versions.
    """
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.models import Model as Row
    from open_webui.models.models import ModelForm
    from sqlalchemy.exc import IntegrityError

    try:
        from open_webui.models.model_history import ModelHistories, model_snapshot
    except ImportError:
        ModelHistories = None  # noqa: N806 - the host's name, of what it does not have
    async with get_async_db_context() as session:
        for row_id, info in infos.items():
            form = ModelForm.model_validate(
                {"id": row_id, "name": info.name, "meta": info.meta, "params": {}}
            )
            content = form.model_dump(exclude={"access_grants", "commit_message"})
            row = Row(**content, user_id=owner_id, created_at=created, updated_at=created)
            if ModelHistories:
                version = ModelHistories.new_entry(
                    row_id, model_snapshot(content), owner_id, commit_message=_COMMENT
                )
                row.version_id = version.id
                session.add(version)
            session.add_all([row, *_grant_rows(row_id, grants, created)])
        try:
            await session.commit()
        except IntegrityError as error:
            await session.rollback()
            _log.debug("rows were created by somebody else: %s", error)
            return 0
    return len(infos)


async def _update(row_id: str, fields: Mapping[str, Any]) -> bool:
    """Update a row as it is now; False where that is no longer due, or somebody else edits it at this moment."""
    from fastapi import HTTPException
    from open_webui.models.models import ModelForm, Models

    row = await Models.get_model_by_id(row_id)
    if row is None:
        return False
    content = row.model_dump(exclude={"access_grants"})
    updated = updated_row(RowInfo(row.name, content["meta"]), fields)
    if updated is None:
        return False
    changes = {"name": updated.name, "meta": updated.meta, "commit_message": _COMMENT}
    try:
        await Models.update_model_by_id(row_id, ModelForm.model_validate({**content, **changes}))
    except HTTPException as error:
        if error.status_code != 409:
            raise
        return False
    return True


async def _grants(access: Sequence[str]) -> frozenset[Grant]:
    """Whom the models are opened to; a group that does not exist opens nothing."""
    from open_webui.models.groups import Groups

    if access == (PRIVATE,):
        return frozenset()
    if access == (PUBLIC,):
        return frozenset({("user", "*", "read")})
    ids = {group.name: group.id for group in await Groups.get_all_groups()}
    if unknown := [name for name in access if name not in ids]:
        _log.warning("NEW_MODEL_ACCESS names groups that Open WebUI does not have: %s", ", ".join(unknown))
    return frozenset(("group", ids[name], "read") for name in access if name in ids)


async def _set_access(row_ids: Sequence[str], grants: frozenset[Grant]) -> int:
    """Give the rows exactly these grants; return how many had others."""
    import sqlalchemy as sa
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.access_grants import AccessGrant, AccessGrants

    present = await AccessGrants.get_grants_by_resources("model", list(row_ids))
    others = [
        row_id
        for row_id in row_ids
        if {(each.principal_type, each.principal_id, each.permission) for each in present.get(row_id, ())}
        != grants
    ]
    for page in _pages(others):
        of_page = sa.delete(AccessGrant).where(
            AccessGrant.resource_type == "model", AccessGrant.resource_id.in_(page)
        )
        async with get_async_db_context() as session:
            await session.execute(of_page)
            session.add_all(each for row_id in page for each in _grant_rows(row_id, grants, int(time.time())))
            await session.commit()
    return len(others)


def _grant_rows(row_id: str, grants: frozenset[Grant], created: int) -> list[Any]:
    from open_webui.models.access_grants import AccessGrant

    names = ("principal_type", "principal_id", "permission")
    return [
        AccessGrant(
            id=str(uuid.uuid4()),
            resource_type="model",
            resource_id=row_id,
            created_at=created,
            **dict(zip(names, grant, strict=True)),
        )
        for grant in sorted(grants)
    ]


def _pages(row_ids: Sequence[str]) -> list[Sequence[str]]:
    """So many rows that no transaction holds up a chat for long."""
    return [row_ids[start : start + _PAGE_ROWS] for start in range(0, len(row_ids), _PAGE_ROWS)]
