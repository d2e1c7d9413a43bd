"""Which groups of the host a user is in. Source: `models/groups.py` of Open WebUI 0.12."""

from __future__ import annotations

from ..errors import StoreUnavailable
from ..planning.limits import Group


async def groups_of(user_id: str) -> list[Group]:
    """Return a user's groups. Raises StoreUnavailable."""
    from open_webui.models.groups import Groups

    try:
        return [Group(group.id, group.name) for group in await Groups.get_groups_by_member_id(user_id)]
    except Exception as error:  # whatever the host raises
        raise StoreUnavailable("The groups of a user cannot be read.", detail=repr(error)) from error
