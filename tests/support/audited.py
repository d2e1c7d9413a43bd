"""What the audit holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from open_webui_openrouter_pipe.money.audit import AUDIT_COLUMNS, Bill
from open_webui_openrouter_pipe.planning.plan import Step

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.store.database import Database


async def audited(database: Database, *, limit: int = 100) -> list[Bill]:
    """The bills of the audit, the newest first."""
    table, names = database.tables.audit, [each.name for each in AUDIT_COLUMNS if each.name != "created"]
    bills = []
    for found in await database.fetch(sa.select(table).order_by(table.c.id.desc()).limit(limit)):
        steps = tuple(Step(**step) for step in found.steps)
        bills.append(Bill(**{name: getattr(found, name) for name in names} | {"steps": steps}))
    return bills
