"""What of a call may be sent: parameters that its user may set, what is switched for it, and what it may cost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .conversation.slash import Compact
from .errors import ConfigurationError, SpendingLimitReached
from .host.call import Call
from .money.limits import period_end
from .openrouter import controls
from .openrouter.client import require_usable
from .openrouter.server_tools import may_search
from .ports import Model
from .responses.tools import SEARCH
from .responses.values import as_object
from .settings import Settings
from .threads import apart
from .turn.bill import Payer
from .turn.recorder import Persistence
from .words.lines import notice
from .worker import Worker

log = logging.getLogger(__name__)

NO_PERSISTENCE: Final = Persistence(reasoning="disabled", tools=False)


@dataclass(frozen=True, slots=True)
class Permitted:
    """A call as it may be sent, with its settings, its model (None where unknown), and who pays for it.

    `find` returns a model of the catalogue, `offered` are those that the administrator offers, and `lines` what the
    user is to know beforehand, by names under which it is said once.
    """

    call: Call
    settings: Settings
    model: Model | None
    payer: Payer
    find: Callable[[str], Model | None]
    offered: Sequence[Model]
    lines: Mapping[str, str]


async def permit(worker: Worker, call: Call, settings: Settings) -> Permitted | None:
    """The call as it may be sent; None for a task that its model cannot do, or that is about nothing.

    Raises what it is refused with. Near a spending limit it goes the cheaper way. The tasks of a message that the user
    has declined are declined too.
    """
    if settings.refusal:
        raise ConfigurationError(settings.refusal)
    listing, model_id = worker.listing(settings.client), call.model_id
    # A worker that was never asked for its models knows none, and would not ask for sealed reasoning.
    offered, find = await listing.offered(settings.offer), listing.find
    model = find(model_id)
    parameters, omitted = await _of_user(worker, call, settings, offered)
    parameters = controls.routed(parameters, settings.controls)
    if controls.keeps_nothing(as_object(parameters.get("provider"))):
        settings = _without_third_parties(call, settings, model)
    # Also of a task, the user's own key must be usable.
    require_usable(settings.controls.own_api_key)
    if call.task and (call.is_moot or (model and not model.writes)):
        return None
    if call.task and worker.memory.declined.contains(call.user_id, call.chat_id):
        raise SpendingLimitReached(notice("answer_stopped"), detail="its chat's message was declined")
    spending, lines = settings.spending, _named(settings.notices)
    payer = await worker.spending.admit(
        call.user_id,
        spending,
        is_admin=call.is_admin,
        zone=call.time_zone,
        may_be_paid=model is not None and model.endpoint == "videos",
    )
    if payer.state and payer.state.is_near:
        end = period_end(payer.state.limit.period, worker.memory.clock(), payer.state.zone)
        lines[f"near {payer.state.account} until {end}"] = worker.spending.limit_line(
            "limit_near", payer.state, call.time_zone
        )
        settings = replace(settings, context=replace(settings.context, context_aim="thrifty"))
        parameters = controls.cheaper_parameters(
            parameters, settings.controls, model_id=model_id, near_limit=spending.near_limit
        )
    lines |= _named(omitted)
    if not (settings.store.passphrases or worker.host.secret_key):
        settings = replace(settings, persistence=NO_PERSISTENCE)
        lines |= _named([notice("no_encryption_key")])
    return Permitted(replace(call, parameters=parameters), settings, model, payer, find, offered, lines)


def sends_nothing(call: Call) -> bool:
    """Whether a call is a command that asks no model."""
    return not (call.task or isinstance(call.command, Compact | None))


async def permit_command(worker: Worker, call: Call, settings: Settings) -> Permitted | None:
    """A call that was refused, as far as it is a command that sends nothing; None for any other."""
    if not await apart(call.messages, lambda: sends_nothing(call)):
        return None
    listing = worker.listing(settings.client)
    offered, find = await listing.offered(settings.offer), listing.find
    return Permitted(call, settings, find(call.model_id), Payer(), find, offered, _named(settings.notices))


def _named(lines: Iterable[str]) -> dict[str, str]:
    """Lines that are their own names."""
    return {line: line for line in lines}


async def _of_user(
    worker: Worker, call: Call, settings: Settings, offered: Sequence[Model]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The parameters that this user may set, and a line about the others; a task is written by the host."""
    if call.task or call.is_admin:
        return call.parameters, ()
    of_admin = await worker.host.model_parameters(call)
    permitted, omitted = controls.permitted_parameters(
        call.parameters,
        of_admin,
        allowed=settings.user_parameters,
        held=settings.held_parameters,
        offered={model.id for model in offered},
    )
    if not omitted:
        return permitted, ()
    names = ", ".join(omitted)
    log.info("parameters that users may not set were omitted: %s", names)
    return permitted, (notice("parameters_omitted", names=names),)


def _without_third_parties(call: Call, settings: Settings, model: Model | None) -> Settings:
    """The settings of a call whose data nobody may keep: only its provider searches and reads PDFs.

    Zero data retention binds providers of models alone, neither search engines nor OpenRouter's parser and its tools.
    """
    tools = replace(settings.controls.server_tools, keeps_nothing=True)
    searches = not call.host_search and tools.mode != "off" and not may_search(tools, model)
    lost = [*([SEARCH.name] if searches else []), *tools.forbidden] if call.in_chat else []
    names = tuple(notice(f"switch_{name}") for name in lost)
    return replace(
        settings,
        controls=replace(settings.controls, server_tools=tools),
        media=replace(settings.media, parses_pdf=False),
        pdf_engine="native",
        notices=(*settings.notices, *([notice("tools_keep_data", names=names)] if names else [])),
    )
