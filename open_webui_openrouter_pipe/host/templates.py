"""Whether anybody has edited a call's system prompt: the texts of it as people wrote them, before the host fills them.

The texts of a folder are not among them.
"""

from __future__ import annotations

import json
import logging
from hashlib import sha256

from ..responses.wire import as_object, as_text
from .call import Call

log = logging.getLogger(__name__)


async def template_digest(call: Call) -> str:
    """Return a digest of the system prompts of the call's model, of all models and of its chat, "" where unknown.

    Source: `main.py: chat_completion` (the model's prompt goes before that of all models) and `functions.py` of Open
    WebUI 0.12.
    """
    from open_webui.models.config import Config
    from open_webui.models.models import Models

    try:
        row = await Models.get_model_by_id(call.model_row_id)
        params = as_object(row.params.model_dump()) if row and row.params else {}
        defaults = as_object(await Config.get("models.default_params", {}))
    except Exception as error:  # noqa: BLE001 - the host's database may raise anything, and this is no reason to fail
        log.warning("the template of a system prompt is not known: %s", type(error).__name__)
        return ""
    texts = [as_text(params.get("system")), as_text(defaults.get("system")), *call.written_prompts]
    return sha256(json.dumps(texts).encode()).hexdigest()


async def unknown_template(_: Call) -> str:
    """Return that nothing is known of the texts."""
    return ""
