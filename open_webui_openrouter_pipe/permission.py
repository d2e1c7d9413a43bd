"""What of a call may be sent: parameters that its user may set, what is switched for it, and what it may cost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .engine.recorder import Persistence
from .engine.spending import Payer
from .errors import SpendingLimitReached
from .host.call import Call
from .notices import notice
from .openrouter import controls, policy
from .openrouter.own_key import require_usable
from .openrouter.search import with_search
from .ports import Model
from .settings import Settings
from .worker import Worker

log = logging.getLogger(__name__)

NO_PERSISTENCE: Final = Persistence(reasoning="disabled", tools=False)


@dataclass(frozen=True, slots=True)
class PermittedCall:
    """A call as it may be sent, with its settings, its model (None where unknown), and who pays for it."""

    call: Call
    settings: Settings
    model: Model | None
    payer: Payer


async def permit(worker: Worker, call: Call, settings: Settings) -> PermittedCall | None:
    """The call as it may be sent; None for a task that its model cannot do. Raises what it is refused with."""
    listing = worker.listing(settings.client)
    # A worker that was never asked for its models knows none, and would not ask for sealed reasoning.
    await listing.catalog.list()
    call, omitted = await _permitted(worker, call, settings)
    model = listing.catalog.find(call.model_id)
    call = _controlled(call, settings, await listing.offered(settings.offer), model)
    if call.task and model and not model.writes:
        return None
    call, settings, payer = await _affordable(worker, call, settings)
    lines = (*settings.notices, *omitted)
    if not (settings.store.passphrases or worker.host.secret_key):
        settings = replace(settings, persistence=NO_PERSISTENCE)
        lines = (*lines, notice("no_encryption_key"))
    return PermittedCall(call, replace(settings, notices=lines), model, payer)


async def _permitted(worker: Worker, call: Call, settings: Settings) -> tuple[Call, tuple[str, ...]]:
    """The call with what this user may set alone, and a line about the rest; a task is written by the host."""
    if call.task or call.is_admin:
        return call, ()
    read = worker.host.model_parameters
    permitted, omitted = policy.permitted_parameters(
        call.parameters,
        await read(call) if read else {},
        allowed=settings.user_parameters,
        offered={model.id for model in await worker.listing(settings.client).offered(settings.offer)},
    )
    call, names = replace(call, parameters=permitted), ", ".join(omitted)
    if not omitted:
        return call, ()
    log.info("parameters that users may not set were omitted: %s", names)
    return call, (notice("parameters_omitted", names=names),)


def _controlled(call: Call, settings: Settings, offered: Sequence[Model], model: Model | None) -> Call:
    """The call with what is switched for it; a task only with the preferences of providers.

    Raises ConfigurationError where they exclude each other, or the user's own key cannot be used.
    """
    switched = settings.controls
    require_usable(switched.own_api_key)
    parameters = controls.routed(call.parameters, switched)
    if call.task is None:
        parameters = controls.controlled(
            parameters,
            switched,
            offered=offered,
            model=model,
            model_id=call.model_id,
        )
    if call.in_chat:
        parameters = with_search(
            parameters, switched.search, call.host_search, model=model, model_id=call.model_id
        )
    return replace(call, parameters=parameters)


async def _affordable(worker: Worker, call: Call, settings: Settings) -> tuple[Call, Settings, Payer]:
    """The call as it may be sent at its price, and who pays; near a limit it goes the cheaper way.

    Raises SpendingLimitReached, also for the tasks of a message that the user has declined.
    """
    services, spending, lines = worker.spending, settings.spending, settings.notices
    if call.task and services.was_declined(call.user_id, call.chat_id):
        raise SpendingLimitReached(notice("task_of_declined"))
    payer = await services.admit(call.user_id, spending, is_admin=call.is_admin, zone=call.time_zone)
    if spending.limits.unreadable:
        lines = (*lines, notice("limits_unreadable_admin", part=spending.limits.unreadable))
    if payer.state and payer.state.is_near:
        lines = (*lines, services.limit_line("limit_near", payer.state, call.time_zone))
        settings = replace(settings, context=replace(settings.context, context_aim="thrifty"))
        near = spending.near_limit
        cheaper = policy.cheaper_parameters(call.parameters, model_id=call.model_id, near_limit=near)
        call = replace(call, parameters=cheaper)
    return call, replace(settings, notices=lines), payer
