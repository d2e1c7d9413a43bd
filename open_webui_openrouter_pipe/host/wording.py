"""How one user is addressed: language and choice of lines, the theme of pages, questions, spoken answers, titles.

Of this only the instructions for a spoken answer reach the model: lines are looked up when they leave for the user.
Sources in Open WebUI 0.12: the page sends its language as a variable of the prompt (`getPromptVariables`, from its own
local storage); a channel and a bare API call have the header of their request alone, an automation neither
(`utils/automations.py`), and the page itself begins with `DEFAULT_LOCALE`. The button that continues an answer stands
under the last one of a chat for administrators and for users with the permission `chat.continue_response`
(`ResponseMessage.svelte`); channels have none. Titles are made by `background_tasks_handler` in `utils/middleware.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from ..conversation.slash import read_command
from ..ports import Embed, Failed, Notice, Output
from ..responses.values import as_object, as_text
from ..words.lines import (
    ENGLISH,
    Language,
    find_language,
    in_language,
    is_line,
    weight,
    without_button,
)
from .call import Call

EventCall: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
EventEmitter: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
StatusLines = Literal["all", "important", "none"]

_THEME: Final = "return document.documentElement.classList.contains('dark') ? 'dark' : 'light'"
"""For the page's own `execute` (`Chat.svelte`)."""
_THEME_SECONDS: Final = 2.0
_TITLE_CHARACTERS: Final = 100
"""As many of a message as the host makes a title of."""
_log = logging.getLogger(__name__)


def page_question(
    event_call: EventCall | None, language: Language = ENGLISH
) -> Callable[[str, str], Awaitable[bool | None]] | None:
    """Return what asks the user to confirm a text under a title; its answer is None when nobody was there to ask."""
    if event_call is None:
        return None

    async def ask(title: str, text: str) -> bool | None:
        title, text = in_language(title, language), in_language(text, language)
        answer = await event_call({"type": "confirmation", "data": {"title": title, "message": text}})
        return None if isinstance(answer, dict) and "error" in answer else bool(answer)

    return ask


async def in_theme(page: Embed, event_call: EventCall) -> Embed:
    """Return a page in the theme that the tab shows; as it is where no tab says so within `_THEME_SECONDS`.

    An embed sees nothing of the host's page, unless users have let it.
    """
    with suppress(TimeoutError):
        answer = event_call({"type": "execute", "data": {"code": _THEME}})
        theme = await asyncio.wait_for(answer, _THEME_SECONDS)
        if theme in ("dark", "light"):
            return Embed(page.html.replace("<html", f'<html data-theme="{theme}"', 1))
    return page


async def voice_prompt() -> str:
    """Return the instructions as the administrator has set them, "" where they are not known."""
    from open_webui.config import DEFAULT_VOICE_MODE_PROMPT_TEMPLATE
    from open_webui.models.config import Config

    try:
        return as_text(await Config.get("task.voice.prompt_template")) or DEFAULT_VOICE_MODE_PROMPT_TEMPLATE
    except Exception as error:  # noqa: BLE001 - the host's database may raise anything, and this is no reason to fail
        _log.warning("the instructions for spoken answers are not known: %s", type(error).__name__)
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


@dataclass(frozen=True, slots=True)
class Wording:
    """How one answer is worded: in which language, with which lines; `may_continue` says if there is a button.

    Of its status lines the page shows the last one, cut to one line, and the others by a click. So only waits and the
    cost are status lines; waits go when they are over, unless `all` lines are to stay.
    """

    language: Language = ENGLISH
    shown: StatusLines = "important"
    may_continue: Callable[[], Awaitable[bool]] | None = None
    in_arena: bool = False
    """Whether nobody is to read who answered."""

    async def say(self, output: Output) -> Output | None:
        """Return what the user gets of an output: itself, its line in the user's words, or nothing."""
        if isinstance(output, Failed):
            return worded(output, self.language)
        if not isinstance(output, Notice):
            return output
        # who else learns something of an answer, no setting hides
        is_hidden = self.shown == "none" and not is_line(output.text, "recorded")
        if is_hidden or (self.in_arena and is_line(output.text, "answered_by_other")):
            return None
        matters = weight(output.text)
        if (
            self.shown == "important"
            and output.done
            and not matters
            and not is_line(output.text, "cost_line")
        ):
            return Notice("")
        text = without_button(output.text)
        if text != output.text and (self.may_continue is None or await self.may_continue()):
            text = output.text
        return replace(output, text=in_language(text, self.language), weight=matters if output.done else 0)


def worded(failed: Failed, language: Language) -> Failed:
    """Return a failure with its line in a language."""
    return replace(failed, message=in_language(failed.message, language))


def user_language(metadata: Mapping[str, Any] | None, request: Any) -> Language | None:
    """Return the language that the user reads: the page's own, or the first that their client accepts and we have.

    `request` is the host's web request. None where neither says anything.
    """
    variables = as_object((metadata or {}).get("variables"))
    if chosen := as_text(variables.get("{{USER_LANGUAGE}}")):
        return find_language([chosen])
    header = as_text(request.headers.get("accept-language")) if request is not None else ""
    if not header:
        return None
    weighted = []  # RFC 9110, section 12.5.4
    for part in header.split(","):
        tag, _, parameter = part.partition(";")
        name, _, value = parameter.partition("=")
        try:
            weight = float(value) if name.strip() == "q" else 1.0
        except ValueError:
            weight = 0.0
        weighted.append((weight, tag))
    weighted.sort(key=lambda each: -each[0])
    return find_language(tag for weight, tag in weighted if weight > 0)


def default_locale() -> str:
    """Return the language (BCP 47) of the host's page for who has chosen none, "" where that is not set."""
    from open_webui.config import DEFAULT_LOCALE

    return as_text(DEFAULT_LOCALE)


async def may_continue(call: Call) -> bool:
    """Whether the user has the button that continues the answer; True where the host does not say."""
    if call.in_channel:
        return False
    if call.is_admin:
        return True
    from open_webui.models.config import Config
    from open_webui.utils.access_control import has_permission

    try:
        permissions = await Config.get("user.permissions")
        return bool(await has_permission(call.user_id, "chat.continue_response", permissions))
    except Exception as error:  # noqa: BLE001 - a word in a status line is not worth an answer
        _log.warning("whether a user may continue answers is not known: %r", error)
        return True


async def name_chat(
    request: Any, metadata: Mapping[str, Any], user: Mapping[str, Any], emit: EventEmitter
) -> None:
    """Have the chat named by the message that is being answered, if a command is its title; never raises.

    The page has Open WebUI make title and tags of a chat's first message alone, so that a chat that begins with one is
    called "/context".
    The arguments are those of the pipe. Where the host makes no title, the message's beginning becomes it.
    """
    chat_id, asked = as_text(metadata.get("chat_id")), as_object(metadata.get("user_message"))
    shown = as_object(as_object(user.get("settings")).get("ui"))
    tasks = {
        "title_generation": as_object(shown.get("title")).get("auto", True),
        "tags_generation": shown.get("autoTags", True),
    }
    try:
        from open_webui.models.chats import Chats
        from open_webui.models.users import Users
        from open_webui.utils.middleware import background_tasks_handler

        if not read_command(await Chats.get_chat_title_by_id(chat_id) or ""):
            return
        await background_tasks_handler(
            {
                "request": request,
                "form_data": {},
                "user": await Users.get_user_by_id(user["id"]),
                "metadata": dict(metadata),
                "tasks": tasks,
                "event_emitter": emit,
                "model": None,  # before Open WebUI 0.12 it has to be named
            }
        )
        title = " ".join(as_text(asked.get("content")).split())[:_TITLE_CHARACTERS]
        if title and read_command(await Chats.get_chat_title_by_id(chat_id) or ""):
            await Chats.update_chat_title_by_id(chat_id, title)
            await emit({"type": "chat:title", "data": title})
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and a title is not worth an answer
        _log.warning("a chat was not named: %r", error)
