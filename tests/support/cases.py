"""How many generated cases the main laws are tried on, by `HYPOTHESIS_PROFILE`.

`quick` (the default) is for every run, `thorough` is what `./scripts/test --thorough` sets, and `full` takes ten
minutes.
"""

from __future__ import annotations

import os

_CHATS_AND_HISTORIES = {"quick": (50, 20), "thorough": (400, 200), "full": (4_000, 2_000)}

CHATS, HISTORIES = _CHATS_AND_HISTORIES[os.environ.get("HYPOTHESIS_PROFILE", "quick")]
"""Chats that each law of history, and histories that all laws of planning, are tried on, in each share."""

SHARES = range(5)
"""The main laws are tried this many times over, in shares that test processes can divide."""
