"""The host's instructions for a spoken answer, which it writes into the system prompt while the user is in a call.

Whoever speaks one question and types the next would have the provider read the whole chat anew each time. So they stand
where the host's other additions for one request do: behind the base prompt, which is sent before the current turn.
Source: `process_chat_payload` in `utils/middleware.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ..responses.wire import as_object, as_text
from .call import Call

log = logging.getLogger(__name__)


async def voice_prompt() -> str:
    """Return the instructions as the administrator has set them, "" where they are not known."""
    from open_webui.config import DEFAULT_VOICE_MODE_PROMPT_TEMPLATE
    from open_webui.models.config import Config

    try:
        return as_text(await Config.get("task.voice.prompt_template")) or DEFAULT_VOICE_MODE_PROMPT_TEMPLATE
    except Exception as error:  # noqa: BLE001 - the host's database may raise anything, and this is no reason to fail
        log.warning("the instructions for spoken answers are not known: %s", type(error).__name__)
        return ""


def with_voice_prompt_last(call: Call, prompt: str) -> Call:
    """Return the call with these instructions behind its base prompt; as it is where the host did not write them."""
    first = as_object(call.messages[0]) if call.messages else {}
    text = first.get("content")
    if first.get("role") != "system" or not isinstance(text, str) or not call.base_system_prompt:
        return call
    base, whole = (_without_lines(each, prompt) for each in (call.base_system_prompt, text))
    if base is None or whole is None:
        return call
    message = {**first, "content": "\n".join(filter(None, (whole, prompt)))}
    return replace(call, messages=[message, *call.messages[1:]], base_system_prompt=base)


def _without_lines(text: str, lines: str) -> str | None:
    """The text without these lines, None where they do not stand in it on lines of their own."""
    before, found, after = f"\n{text}\n".partition(f"\n{lines}\n") if lines else ("", "", "")
    return f"{before}\n{after}"[1:-1] if found else None
