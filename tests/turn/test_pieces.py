"""The bill of several responses, of which not each says its cost; `tests/app/test_pieces.py` has the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.responses.effects import Usage
from open_webui_openrouter_pipe.turn.creation import PieceRunner, _Piece


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ([1.0, 2.0, 4.0], [7.0]),
        # each that is silent is asked for, and until all are known the estimate counts
        ([1.0, None, 4.0], [None, 7.0]),
        ([None, 2.0], [None, 7.0]),
        ([], [None, 7.0]),
    ],
)
def test_the_bill_is_that_of_all_responses(told: list[float | None], written: list[float | None]) -> None:
    """Told with them or later, and each once."""
    costs, later = {"gen-a": 1.0, "gen-b": 2.0, "gen-c": 4.0}, list[Any]()
    bills = list[float | None]()
    late = SimpleNamespace(ask=lambda _, name, found: later.append((name, found)))
    runner: Any = SimpleNamespace(
        spending=SimpleNamespace(
            settle_piece=lambda _, usage: bills.append(usage and usage.cost),
            generations=object(),
            services=SimpleNamespace(late=late),
        )
    )
    piece = _Piece(Bill(id="b", cost=9.0))
    for cost in told:
        piece.note({} if cost is None else {"cost": cost, "input_tokens": 1, "output_tokens": 1})
    PieceRunner._settle(runner, piece, [*costs], None)
    for name, found in later:
        found(Usage(cost=costs[name]))
    assert bills == written
