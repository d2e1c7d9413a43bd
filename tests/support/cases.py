"""How many generated cases the laws are tried on: some dozens, or thousands with `HYPOTHESIS_PROFILE=full`."""

from __future__ import annotations

import os

IS_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
"""`./scripts/test` sets it, `./scripts/test --quick` does not."""

CHATS = 4_000 if IS_FULL else 50
"""Chats that each law of history is tried on."""

SHARES = range(5)
"""The main laws of history and context are tried this many times over, in shares that workers can divide."""

HISTORIES = 2_000 if IS_FULL else 20
"""Histories that all laws of context are tried on, in each share."""
