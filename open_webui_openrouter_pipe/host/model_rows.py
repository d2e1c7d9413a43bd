"""What administrators have set for a model in Open WebUI, read from its own tables.

The host merges these parameters with the user's own before it calls a pipe, so that the body does not say whose they
are. Source: `main.py: chat_completion`, `utils/misc.py: merge_model_params` and `utils/payload.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..responses.wire import as_object, as_text
from .call import Call


async def admin_parameters(call: Call) -> Mapping[str, Any]:
    """Return the parameters set for all models, in this model's row, and by the chosen options of its controls.

    An arena does not say which of its models was picked, that is which presets: the row is taken that most of the
    call's parameters come from.
    """
    from open_webui.models.config import Config
    from open_webui.models.models import Models

    rows = [await Models.get_model_by_id(call.model_row_id)]
    if call.in_arena:
        rows += [row for row in await Models.get_models() if row.base_model_id == call.model_row_id]
    defaults = as_object(await Config.get("models.default_params", {}))
    fields = [row.params.model_dump() if row and row.params else {} for row in rows]
    candidates = [merge_parameters(defaults, params, call.model_controls) for params in fields]
    return max(candidates, key=lambda found: sum(call.parameters.get(key) == found[key] for key in found))


def merge_parameters(
    defaults: Mapping[str, Any], row: Mapping[str, Any], choices: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the parameters as they arrive in a body to which the user adds nothing.

    Custom parameters win over the fields of the same name, those of a model over those for all; texts of JSON are read.
    """
    custom = {**as_object(defaults.get("custom_params")), **as_object(row.get("custom_params"))}
    for key, control in as_object(row.get("model_controls")).items():
        options = as_object(as_object(control).get("options"))
        choice = choices.get(key, as_object(control).get("default"))
        custom = _deep_update(custom, as_object(as_object(options.get(as_text(choice))).get("params")))
    read = {key: _parsed(value) for key, value in custom.items()}
    return _deep_update({**defaults, **row}, read)


def _deep_update(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        key: _deep_update(as_object(base.get(key)), value) if isinstance(value, dict) else value
        for key, value in changes.items()
    }
    return {**base, **nested}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
