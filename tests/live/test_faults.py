"""Two workers of a real Open WebUI whose database and Redis fail, and which are killed."""

from __future__ import annotations

import pytest

from scripts.faults.run import Size, run

pytestmark = [pytest.mark.live, pytest.mark.servers]


def test_each_request_is_billed_once_and_each_answer_kept_whatever_fails() -> None:
    """A small run of `./scripts/audit-faults`: no bill without its row, no sum that differs, no hold that is left.

    And no question or answer that is lost, doubled or another chat's.
    """
    report = run(Size(turns=60, faults=16, users=6, seconds=240.0))
    assert report.violations == []
    assert report.figures["requests billed"] > 0
