"""Which groups a user is in, by the tables of a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.host.platform import groups_of
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live


def visit() -> list[Any]:
    """The groups of two users, and whether there is an error of ours once the table is gone."""

    async def look() -> list[Any]:
        import open_webui.config  # noqa: F401 - makes the tables
        from open_webui.internal.db import async_engine
        from open_webui.models.groups import Group, GroupForm, GroupMember, Groups

        group = await Groups.insert_new_group("admin", GroupForm(name="Students", description=""))
        assert group
        await Groups.add_users_to_group(group.id, ["ada"])
        names = [[each.name for each in await groups_of(user_id)] for user_id in ("ada", "bob")]
        async with async_engine.begin() as connection:
            for table in (GroupMember, Group):
                await connection.run_sync(table.__table__.drop)
        try:
            await groups_of("ada")
        except StoreUnavailable as error:
            return [*names, bool(error.detail)]
        return names

    return asyncio.run(look())


def test_groups_that_cannot_be_read_are_an_error_of_ours(tmp_path: Path) -> None:
    """Whatever the host raises; otherwise the names of those that the user is in."""
    variables = {"FROM_INIT_PY": "true", "STATIC_DIR": str(tmp_path / "static")}
    assert inside_open_webui(tmp_path, variables, visit) == [["Students"], [], True]
