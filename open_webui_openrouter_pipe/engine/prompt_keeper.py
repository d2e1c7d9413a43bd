"""Keeps the system prompt of a chat as its first request had it, for as long as only a few lines of it change.

What a few lines are is decided in `history`; here the kept prompt is found, kept and replaced. Whatever fails, the
present prompt is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ..history.steady_prompt import SteadyPrompt, steady_prompt
from ..ports import KeptPrompt, PromptOwner, Prompts

log = logging.getLogger(__name__)

TIME_LIMIT_SECONDS: Final = 5.0
"""How long a request waits for all of this; then it goes on without."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PromptKeeper:
    """Chooses which system prompt a chat sends; without `prompts` none is kept.

    `template` returns the digest of the prompt's texts as people wrote them, "" where that is unknown.
    """

    prompts: Prompts | None
    owner: PromptOwner
    template: Callable[[], Awaitable[str]]
    time_limit_seconds: float = TIME_LIMIT_SECONDS

    async def choose(self, present: str) -> SteadyPrompt:
        """Return what is sent, and keep it where it is new. Never raises; a chat without a prompt asks nobody."""
        if self.prompts is None or not present.strip():
            return SteadyPrompt(present)
        try:
            async with asyncio.timeout(self.time_limit_seconds):
                return await self._choose(self.prompts, present)
        except Exception as error:  # noqa: BLE001 - an answer without a kept prompt is worth more than none
            log.warning("a system prompt is sent as it is: %s: %s", type(error).__name__, error)
            return SteadyPrompt(present)

    async def _choose(self, prompts: Prompts, present: str) -> SteadyPrompt:
        """Of two workers that keep at once, the first decides for both."""
        kept = await prompts.find(self.owner)
        if kept and kept.text == present:
            return SteadyPrompt(present)
        now = KeptPrompt(present, await self.template())
        steady = _compared(kept, now)
        if kept and steady.change == "lines":
            return steady
        first = await prompts.keep(self.owner, now, instead_of=kept)
        if first == now:
            return steady
        result = _compared(first, now)
        return SteadyPrompt(present, change="new") if kept and result.change == "none" else result


def _compared(kept: KeptPrompt | None, now: KeptPrompt) -> SteadyPrompt:
    """Compare with what is kept. What somebody has written anew is a new prompt, however little of it has changed."""
    if kept is None:
        return SteadyPrompt(now.text)
    steady = steady_prompt(kept.text, now.text)
    was_edited = kept.template and now.template and kept.template != now.template
    return SteadyPrompt(now.text, change="new") if was_edited and steady.change == "lines" else steady
