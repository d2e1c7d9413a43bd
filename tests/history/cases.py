"""How many cases the laws are tried on: a few hundred, or tens of thousands with `HYPOTHESIS_PROFILE=full`."""

from __future__ import annotations

import os

CASES = {"full": 4_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 100)
"""Cases of each law."""

SHARES = range(5)
"""The main law is tried this many times over, in shares that workers can divide among them."""
