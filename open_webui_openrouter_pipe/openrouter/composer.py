"""The port `Requests`: one call's parameters, ready to be joined with the input of each of its requests.

A provider that caches at explicit breakpoints only gets them at the ends of the blocks that stay the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..planning.cache_marks import needs_breakpoints, with_breakpoints
from ..planning.plan import CacheMarks
from ..ports import Model, RequestBody
from ..responses.items import Item
from .request import Built, build_request

_log = logging.getLogger(__name__)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_ASIDE = frozenset({"tool_choice", "plugins", "response_format", "text", "stop", "modalities"})
"""What would force a call or another form, search the web, or cut the answer short."""


class Composer:
    """Builds bodies for one model from the same parameters."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        model: Model | None,
        model_id: str,
        aside: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """`model` is the catalogue's entry, None when unknown; `model_id` is asked for, variant included.

        `aside` is what questions beside the chat ask for in addition.
        """
        self._parameters = parameters
        self._aside = aside
        self._model = model
        self._model_id = model_id
        self._host_names: Mapping[str, str] = {}

    def build(self, items: Sequence[Item], marks: CacheMarks | None = None) -> RequestBody:
        """Put parameters and input together."""
        built = self._built(self._parameters, items, marks)
        self._host_names = built.tool_names
        if built.dropped:
            _log.debug("parameters that %s does not take: %s", self._model_id, ", ".join(built.dropped))
        return built.body

    def build_summary_request(
        self, items: Sequence[Item], marks: CacheMarks | None = None, *, output_tokens: int
    ) -> RequestBody:
        """The same for a question beside the chat; after a live request, with all that its cache depends on."""
        kept = {name: value for name, value in self._parameters.items() if name not in _NOT_ASIDE}
        changed: dict[str, Any] = {"tool_choice": "none", "max_output_tokens": output_tokens}
        if marks is not None and needs_breakpoints(self._model_id):
            changed = {} if _thinks(kept) else {"max_output_tokens": output_tokens}
        return self._built({**kept, **self._aside, **changed}, items, marks).body

    def _built(self, parameters: Mapping[str, Any], items: Sequence[Item], marks: CacheMarks | None) -> Built:
        if marks is not None and needs_breakpoints(self._model_id):
            items = with_breakpoints(items, marks)
        return build_request(parameters, model=self._model, model_id=self._model_id, items=items)

    def host_tool_name(self, name: str) -> str:
        """The host's name for a tool of the last body."""
        return self._host_names.get(name, name)


def _thinks(parameters: Mapping[str, Any]) -> bool:
    """Whether the output limit also sets how much is thought, since an effort is a share of it.

    Anthropic's models do not find what they have cached when that, or the choice of tools, is another.
    """
    given = parameters.get("reasoning")
    reasoning = given if isinstance(given, Mapping) else {}
    return bool(parameters.get("reasoning_effort") or reasoning.get("effort") or reasoning.get("enabled"))
