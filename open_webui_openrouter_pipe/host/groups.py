"""Which groups of the host a user is in. Source: `models/groups.py` of Open WebUI 0.12."""

from __future__ import annotations

from ..planning.limits import Group


async def groups_of(user_id: str) -> list[Group]:
    """Return a user's groups. Raises whatever the host raises."""
    from open_webui.models.groups import Groups

    return [Group(group.id, group.name) for group in await Groups.get_groups_by_member_id(user_id)]
