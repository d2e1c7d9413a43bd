"""What the audit holds."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import sqlalchemy as sa

from open_webui_openrouter_pipe.money.audit import AuditRow, AuditStep
from open_webui_openrouter_pipe.ports import Audited

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.store.database import Database


async def audited(database: Database, *, limit: int = 100) -> list[Audited]:
    """The records of the audit, the newest first."""
    table = database.tables.audit
    records = []
    for found in await database.fetch(sa.select(table).order_by(table.c.id.desc()).limit(limit)):
        row = {field.name: getattr(found, field.name) for field in fields(AuditRow)}
        row["steps"] = tuple(AuditStep(**step) for step in row["steps"])
        ids = (found.id, found.user_id, found.chat_id, found.message_id)
        records.append(Audited(*ids, AuditRow(**row)))
    return records
