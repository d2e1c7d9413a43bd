"""All groups of cases."""

from __future__ import annotations

from tests.golden import bodies, names, seals, streams, words
from tests.golden.cases import Group

GROUPS = (
    Group("bodies", bodies.texts, quick_shares=1),
    Group("names", names.names),
    Group("markers", names.carriers),
    Group("seals", seals.texts),
    Group("events", streams.texts, quick_shares=2),
    Group("texts", words.texts),
    Group("counts", words.counts),
)
