"""The port `Requests`: one call's parameters, ready to be joined with the input of each of its requests.

A provider that caches at explicit breakpoints only gets them at the ends of the blocks that stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..context.breakpoints import needs_breakpoints, with_breakpoints
from ..context.plan import Marks
from ..ports import Model, RequestBody
from ..responses.items import Item
from .request import build_request

_log = logging.getLogger(__name__)


class Composer:
    """Builds bodies for one model from the same parameters."""

    def __init__(self, parameters: Mapping[str, Any], *, model: Model | None, model_id: str) -> None:
        """`model` is the catalogue's entry, None when unknown; `model_id` is asked for, variant included."""
        self._parameters = parameters
        self._model = model
        self._model_id = model_id
        self._host_names: Mapping[str, str] = {}

    def build(self, items: Sequence[Item], marks: Marks | None = None) -> RequestBody:
        """Put parameters and input together."""
        if marks is not None and needs_breakpoints(self._model_id):
            items = with_breakpoints(items, marks)
        built = build_request(self._parameters, model=self._model, model_id=self._model_id, items=items)
        self._host_names = built.tool_names
        if built.dropped:
            _log.debug("parameters that %s does not take: %s", self._model_id, ", ".join(built.dropped))
        return built.body

    def host_tool_name(self, name: str) -> str:
        """The host's name for a tool of the last body."""
        return self._host_names.get(name, name)
