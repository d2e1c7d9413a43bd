"""What chats become, as cases in files."""

from __future__ import annotations

import pytest

from tests.history.builders import items
from tests.history.cases import Case, read_cases

CASES = list(read_cases("built"))


@pytest.mark.parametrize("case", CASES, ids=[case.title.partition(":")[0] for case in CASES])
def test_a_chat_becomes_these_items(case: Case) -> None:
    """All of them, valid, in their order."""
    assert items(case.messages, case.stored, **case.options) == case.expected
