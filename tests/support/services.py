"""What a request fitter needs, in memory: audit, calibrations, a tokenizer without a vocabulary, a user's page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

from open_webui_openrouter_pipe.context.report import ChatCost, ChatRecord
from open_webui_openrouter_pipe.context.spending import SpendingReport, report_spending
from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.turn.bill import Payer, Spending, SpendingServices, SpendingSettings
from open_webui_openrouter_pipe.turn.fit import PlannerServices
from open_webui_openrouter_pipe.turn.late_bills import LateBills
from open_webui_openrouter_pipe.turn.memory import Memory

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.ports import Encode, Notice, RequestOrigin


class FakeServices:
    """Keeps what is recorded and learned; `known` is the calibration of every model."""

    def __init__(self) -> None:
        self.written: list[Bill] = []
        self.learned: list[tuple[str, int]] = []
        self.known = Calibration()

    def write(self, bill: Bill) -> None:
        self.written.append(bill)

    async def find(self, _model_id: str) -> Calibration:
        return self.known

    stored = find

    def learn(self, model_id: str, _counts: TokenCounts, billed_tokens: int) -> None:
        self.learned.append((model_id, billed_tokens))

    async def encode(self) -> Encode | None:
        return None

    def planner(self, clock: Callable[[], float] = time.time) -> PlannerServices:
        """These as a fitter takes them; `clock` returns epoch seconds."""
        return PlannerServices(self.write, self, self.encode, lambda: f"id{len(self.written)}", Memory(clock))


def spending_of(planner: PlannerServices, origin: RequestOrigin) -> Spending:
    """What a call spends by these services, without limits and questions; there is always room."""
    room = {"sums": AsyncMock(return_value={}), "hold": AsyncMock(return_value=True)}
    ledger = Mock(**room, write=planner.write)
    services = SpendingServices(ledger, planner, AsyncMock(return_value=()), LateBills(asyncio.ensure_future))
    return Spending(services, SpendingSettings(), Payer(), origin, origin.chat_id, None)


async def no_template() -> str:
    """Nobody knows who wrote a prompt."""
    return ""


async def read_nothing(_plan: Plan) -> ChatRecord:
    """Nothing is known of a chat's requests."""
    return ChatRecord(0)


async def spend_nothing(_period: str) -> SpendingReport:
    """Nothing was spent on a day."""
    days = (date(2026, 11, 28), date(2026, 11, 28))
    return report_spending((), {}, days=days, zone="UTC", of_all=False)


class ShownNotices:
    """Collects the status lines that a user would see."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, notice: Notice) -> None:
        self.lines.append(notice.text)


async def read_no_cost() -> ChatCost:
    """Nothing is counted."""
    return ChatCost(None)
