"""The golden bytes are those of the files of digests: a tenth of the bodies in a quick run, all in a thorough one."""

from __future__ import annotations

import os

import pytest

from tests.golden.cases import FOUND, SHARES, Group
from tests.golden.groups import GROUPS

PARTS = 5
"""How many test processes may divide the largest groups in a thorough run."""
_IS_QUICK = os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick"


def parts_of(group: Group) -> list[range]:
    """The shares of a group's cases that each test makes."""
    if _IS_QUICK:
        return [range(group.quick_shares)]
    return (
        [range(part, SHARES, PARTS) for part in range(PARTS)]
        if group.quick_shares < SHARES
        else [range(SHARES)]
    )


@pytest.mark.parametrize(
    ("group", "shares"),
    [
        pytest.param(group, shares, id=f"{group.name}-{shares.start}")
        for group in GROUPS
        for shares in parts_of(group)
    ],
)
def test_bytes_are_as_before(group: Group, shares: range) -> None:
    """Where they differ, the texts are kept to be compared with those of `python -m tests.golden --texts` before."""
    wrong = group.differing(shares)
    assert not wrong, (
        f"{len(wrong)} cases differ, their texts are in {FOUND / group.name}: {', '.join(wrong)}"
    )
