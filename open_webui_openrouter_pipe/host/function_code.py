"""The code of the host's functions, read and replaced as its own page does on saving.

Every worker compares a function's code with what it has loaded at each call, and loads it anew where it differs; a call
that runs ends on the code on which it began. Source: `update_function_by_id` in `routers/functions.py` of Open WebUI
0.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UpdateRefused


class HostFunctionCode:
    """Replaces code in the name of an administrator; `request` is the host's."""

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
