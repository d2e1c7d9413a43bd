"""What a run is made of: moments with pauses between them, each with steps of users and faults. Plain JSON.

All that is left to chance is drawn here, but for what lies inside one moment: that has a seed of its own. So a story
whose moments, steps or faults are dropped does the same with the others, and a long one that fails becomes short.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from . import faults, users

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

MESSAGES_PER_YEAR = 4_000
"""Of one user, at least."""
USERS = 4
WORKERS = 2
_PAUSES = ((45, 3, 120), (30, 120, 3_600), (17, 3_600, 40_000), (7, 40_000, 200_000), (1, 200_000, 1_800_000))
"""How often a pause is between so many seconds: a reply, an hour, a night, days, weeks."""
_STEPS = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)
"""How many things happen at once."""
FAULT_SHARE = 0.12
"""Of the moments have a fault."""
SETTINGS: tuple[Json, ...] = (
    {},
    {"CONTEXT_AIM": "thrifty"},
    {"CONTEXT_STRATEGY": "prune"},
    {"CONTEXT_STRATEGY": "off"},
    {"COST_LINE": "all"},
    {"PERSIST_REASONING_TOKENS": "next_reply"},
    {"PERSIST_REASONING_TOKENS": "disabled"},
    {"TOOL_OUTPUT_RETENTION_TURNS": 2},
    {"PERSIST_TOOL_RESULTS": False},
    {"TOOL_EXECUTION": "pipe"},
    {"TOOL_EXECUTION": "pipe", "TOOL_OUTPUT_RETENTION_TURNS": 2},
    {"CACHE_TTL": "1h"},
    {"RECALL": False},
    {"SUMMARY_TURN_TRIGGER": 6},
    {"SPENDING_LIMITS": "user: 500/day 5000/month; all: 20000/month"},
    {"SPENDING_LIMITS": "user: 0.02/day"},
    {"SPENDING_LIMITS": "user: 0.03/day; each of Keepers: 0.02/day; group Keepers: 0.3/month; all: 0.1/day"},
    {"SPENDING_LIMITS": "all: 0.06/day 1/month", "TIME_ZONE": "America/New_York", "NEAR_LIMIT": "floor"},
)
"""What the administrator may choose, beside what a world has anyway."""


def draw(seed: int, years: float = 1.0) -> Json:
    """The story of a seed, of so many years of one user's messages."""
    chance = Random(f"story {seed}")  # noqa: S311 - no secret
    story: Json = {
        "seed": seed,
        "users": USERS,
        "workers": WORKERS,
        "valves": chance.choice(SETTINGS),
        "moments": [],
    }
    drawn = users.Drawn(USERS)
    while drawn.messages < MESSAGES_PER_YEAR * years:
        story["moments"].append(_moment(chance, drawn))
    return story


def _moment(chance: Random, drawn: users.Drawn) -> Json:
    ranges = chance.choices(_PAUSES, [share for share, *_ in _PAUSES])[0]
    moment: Json = {
        "after": round(chance.uniform(*ranges[1:]), 1),
        "seed": chance.getrandbits(32),
        "steps": [],
    }
    for number in range(chance.choice(_STEPS)):
        step = users.draw(chance, drawn)
        if number:
            step["offset"] = round(chance.choice((0, chance.uniform(0, 0.2), chance.uniform(0, 8))), 3)
        moment["steps"].append(step)
    if chance.random() < FAULT_SHARE:
        moment["faults"] = [faults.draw(chance, [f"w{at}" for at in range(WORKERS)], sorted({*users.MODELS}))]
    if chance.random() < 0.004:
        moment["valves"] = chance.choice(SETTINGS)
    return moment


def shrunk(story: Json, fails: Callable[[Json], bool]) -> Json:
    """The shortest story that is found to fail still: without as many moments, then steps and faults, as can go."""
    for user in range(story["users"]):
        without = {**story, "moments": [_without_user(moment, user) for moment in story["moments"]]}
        story = without if fails(without) else story
    moments = _without(story["moments"], lambda rest: fails({**story, "moments": rest}))
    story = {**story, "moments": moments}
    for at in range(len(moments)):
        for name in ("steps", "faults"):
            parts = _without(story["moments"][at].get(name, []), partial(_fails_with, story, at, name, fails))
            story = _with(story, at, name, parts)
    return story


def _with(story: Json, at: int, name: str, parts: list[Any]) -> Json:
    """The story with these steps or faults of a moment."""
    moments = story["moments"]
    return {**story, "moments": [*moments[:at], {**moments[at], name: parts}, *moments[at + 1 :]]}


def _fails_with(story: Json, at: int, name: str, fails: Callable[[Json], bool], parts: list[Any]) -> bool:
    return fails(_with(story, at, name, parts))


def _without_user(moment: Json, user: int) -> Json:
    return {**moment, "steps": [step for step in moment["steps"] if step["user"] != user]}


def _without(parts: list[Any], fails: Callable[[list[Any]], bool]) -> list[Any]:
    """Drop halves, then smaller pieces, as long as what is left fails (delta debugging)."""
    size = len(parts)
    while size >= 1:
        at = 0
        while at < len(parts):
            rest = [*parts[:at], *parts[at + size :]]
            if fails(rest):
                parts = rest
            else:
                at += size
        size //= 2
    return parts
