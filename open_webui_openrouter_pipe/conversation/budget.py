"""How much of a model's window is left for input, the settings by which a conversation is fitted to it, and refusals.

The catalog's windows are passed in; whoever builds the settings has merged and checked them. An unknown window limits
nothing until the provider has named it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any, Literal

from ..errors import ContextBudgetExceeded
from ..words.lines import notice
from .slash import Aim
from .tokens import TokenCounts

MIN_RATIO_TOKENS = 4_000
"""Of text: in the bills of smaller requests, the constant weighs more than any difference of tokenizers."""
MAX_CONSTANT_TOKENS = 1_000
"""What vendors add unseen is some tens to some hundreds of tokens, most of it with tools."""
CONSTANT_GAIN = 0.5
PRIOR_TOKENS = 2_000
"""How much text is taken to have been billed as counted, before the first bill."""
MAX_KNOWN_TOKENS = 50_000
"""How much billed text outweighs a smaller new bill; a larger one weighs at least as much as all before it."""
EXACT_SHARE = 0.02
"""Two bills that are no farther apart are exact."""
MIN_TEXT_SHARE = 0.5
"""Of what was counted: bills of requests with less text say little about the ratio of text."""
RATIO_RANGE = (0.4, 2.5)
"""Between which a tokenizer's ratio lies; other bills are for something else than the input alone."""
UPPER_DEVIATIONS = 3.0
MIN_MARGIN = 0.03
"""Within which the ratio of a growing chat moves from one bill to the next, however exact they were before."""
MAX_UPPER_RATIO = 4.0
"""Smaller chats need no calibration, as far apart as a model's first bills may be."""
MIN_BILLS_BELOW_ONE = 6
"""From so many bills on, a ratio below one is believed: by then 95 % of the errors are under 5 %."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Tokens billed with every request, and billed per counted token of text, with the mean deviation of that ratio.

    `known_tokens` is how much text the ratio rests on, `bills` how many bills of large requests were seen.
    `last_constant_tokens` and `last_ratio` are what the newest bills would say by themselves.
    """

    constant_tokens: float = 0.0
    ratio: float = 1.0
    deviation: float = 0.0
    known_tokens: float = PRIOR_TOKENS
    bills: int = 0
    last_constant_tokens: float = 0.0
    last_ratio: float = 1.0

    @property
    def upper_ratio(self) -> float:
        """What a large request will hardly exceed, as a share of its counted text; 1 as long as nothing is sure."""
        if not self.bills:
            return 1.0
        upper = self.ratio + max(UPPER_DEVIATIONS * self.deviation, MIN_MARGIN)
        upper = min(upper, MAX_UPPER_RATIO)
        return upper if self.bills >= MIN_BILLS_BELOW_ONE else max(1.0, upper)

    def upper_tokens(self, counts: TokenCounts) -> int:
        """Return what the provider will hardly exceed."""
        return math.ceil(self.constant_tokens + counts.text * self.upper_ratio) + counts.media + counts.sealed

    def is_beyond(self, other: Calibration) -> bool:
        """Whether it limits requests more than another, or less by as much as the overhead reserve."""
        less_tokens = other.constant_tokens - self.constant_tokens
        less_ratio = other.upper_ratio - self.upper_ratio
        return not (0 <= less_tokens <= MIN_OVERHEAD_TOKENS and 0 <= less_ratio <= OVERHEAD_SHARE)

    def observed(self, counts: TokenCounts, billed_tokens: int) -> Calibration:
        """Return what is known after a request with these counts was billed; itself when the bill says nothing."""
        billed_text_tokens = billed_tokens - counts.media - counts.sealed
        if billed_text_tokens <= 0 or counts.text < MIN_TEXT_SHARE * counts.tokens:
            return self
        if counts.text < MIN_RATIO_TOKENS:
            last = billed_text_tokens - self.ratio * counts.text
            steady = median((last, self.last_constant_tokens, self.constant_tokens))
            moved = self.constant_tokens + CONSTANT_GAIN * (steady - self.constant_tokens)
            constant_tokens = min(max(moved, 0.0), MAX_CONSTANT_TOKENS)
            return replace(self, constant_tokens=constant_tokens, last_constant_tokens=last)
        ratio = (billed_text_tokens - self.constant_tokens) / counts.text
        low, high = RATIO_RANGE
        return self._with_ratio(ratio, counts.text) if low <= ratio <= high else self

    def _with_ratio(self, ratio: float, text_tokens: int) -> Calibration:
        """Average by size; two exact bills that no constant explains take the place of all that was known before."""
        seen = replace(self, bills=self.bills + 1, last_ratio=ratio)
        steady = median((ratio, self.last_ratio, self.ratio))
        surprise = abs(steady - self.ratio)
        if surprise * text_tokens > MAX_CONSTANT_TOKENS and abs(ratio - self.last_ratio) <= EXACT_SHARE:
            return replace(seen, ratio=steady, known_tokens=text_tokens)
        known_tokens = min(self.known_tokens, max(text_tokens, MAX_KNOWN_TOKENS))
        gain = text_tokens / (known_tokens + text_tokens)
        return replace(
            seen,
            ratio=self.ratio + gain * (steady - self.ratio),
            deviation=self.deviation + gain * (surprise - self.deviation),
            known_tokens=known_tokens + text_tokens,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the calibration as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Calibration:
        """Read what `as_json` returned; a fresh calibration when it cannot be read."""
        try:
            read = cls(**{field.name: state[field.name] for field in fields(cls)})
            is_sound = all(math.isfinite(value) for value in asdict(read).values())
        except (KeyError, TypeError, ValueError):
            return cls()
        low, high = RATIO_RANGE
        return read if is_sound and low <= read.ratio <= high else cls()


MOST_TAUGHT = Calibration(MAX_CONSTANT_TOKENS, MAX_UPPER_RATIO, bills=1)
"""What limits a request most."""

UNKNOWN_WINDOW_TOKENS = 1_000_000_000
"""Stands for a window that nobody has named: more than any model has."""
MAX_OUTPUT_SHARE = 0.25
"""Of the window: the most that is reserved for an answer, whatever the model could write."""
UNNAMED_OUTPUT_TOKENS = 16_384
"""Stands for the output limit of a model that names none: the thinking and the answer of a hard question."""
OVERHEAD_SHARE = 0.05
"""Of the window: what our count may be too low by."""
MIN_OVERHEAD_TOKENS = 256
"""And in a small window, what its template adds to the messages and around tools."""
VERBATIM_SHARE = 0.4
"""Of what the budget leaves beside what is never dropped: what completed turns hold word for word, the newest first."""
SMALL_WINDOW_TOKENS = 10_000
SMALL_VERBATIM_SHARE = 1 / 3
"""The same in windows below that size."""
CLIP_RANGE_MESSAGES = (1, 50)

Strategy = Literal["summarize", "prune", "clip", "refuse", "off"]
"""What happens when a chat outgrows its window.

`prune` is `summarize` without summaries; `off` sends everything and lets the provider decide.
"""

Pruning = Literal["batched", "every_turn", "off"]
"""When old tool outputs become facts: in batches, as the aim has it, or at once, or never."""


BUILT_IN_TOOLS = "built-in tools"
"""Of Open WebUI: nobody can shorten them, so no line is about them."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A window and what of it is reserved, in tokens."""

    window_tokens: int
    output_reserve_tokens: int
    overhead_reserve_tokens: int

    @property
    def input_tokens(self) -> int:
        """What is left for the input."""
        return self.window_tokens - self.output_reserve_tokens - self.overhead_reserve_tokens

    @property
    def verbatim_share(self) -> float:
        """How much of the room completed turns hold word for word."""
        return SMALL_VERBATIM_SHARE if self.window_tokens < SMALL_WINDOW_TOKENS else VERBATIM_SHARE

    def with_half_reserves(self, *, output_tokens: int | None = None) -> Budget:
        """Return the same window with half as much reserved: what a request may use before it is refused.

        Output that the request itself asks for stays reserved: providers count it with the input.
        """
        halved = self.output_reserve_tokens // 2
        return Budget(
            self.window_tokens,
            max(halved, min(output_tokens or 0, self.output_reserve_tokens)),
            self.overhead_reserve_tokens // 2,
        )


class WindowTooSmall(ContextBudgetExceeded):
    """The window leaves no room for any input, whatever the request holds."""

    def __init__(self, budget: Budget) -> None:
        """Name the window."""
        self.budget = budget
        self.limit_tokens = self.needed_tokens = 0
        reason = notice("window_too_small", window_tokens=budget.window_tokens)
        self.advice = notice("window_too_small_advice")
        super().__init__(notice("sentences", first=reason, second=self.advice), detail=str(budget))


@dataclass(frozen=True, slots=True)
class ContextShare:
    """What one kind of content takes, and whether it may be dropped."""

    name: str
    tokens: int
    droppable: bool


class ContextOverflow(ContextBudgetExceeded):
    """What has to be sent is over the limit.

    `needed_tokens` is what remains when all that may be dropped is dropped, `limit_tokens` the most that the request
    may take, `shares` what takes how much, largest first. The advice is about the largest that the user can change, if
    changing all of these can help.
    """

    def __init__(self, budget: Budget, limit_tokens: int, shares: Sequence[ContextShare]) -> None:
        """Name one share in the line for the user, and all of them in the detail."""
        self.budget = budget
        self.limit_tokens = limit_tokens
        self.shares = tuple(sorted(shares, key=lambda share: -share.tokens))
        self.needed_tokens = sum(share.tokens for share in self.shares)
        changeable = [share for share in self.shares if share.name != BUILT_IN_TOOLS]
        can_help = self.needed_tokens - sum(share.tokens for share in changeable) <= limit_tokens
        listed = (
            f"{share.name} {share.tokens:,}{'' if share.droppable else ' (kept)'}" for share in self.shares
        )
        reason = notice(
            "overflow",
            needed_tokens=self.needed_tokens,
            limit_tokens=limit_tokens,
            window_tokens=budget.window_tokens,
        )
        self.advice = notice("window_too_small_advice")
        if changeable and can_help:
            largest = changeable[0]
            name = largest.name.partition(" on ")[0].replace(" ", "_")
            part = notice(f"context_part_{name}" if name in {"tools", "summaries"} else f"part_{name}")
            found = notice("overflow_largest", largest=part, tokens=largest.tokens)
            name = "earlier_turns" if name in {"summaries", "note"} else name
            reason, self.advice = notice("sentences", first=reason, second=found), notice(f"overflow_{name}")
        super().__init__(notice("sentences", first=reason, second=self.advice), detail=", ".join(listed))


def split_window(window_tokens: int, *, output_tokens: int | None = None) -> Budget:
    """Divide a window; `output_tokens` is the most that an answer may be, 0 or None where nobody names that."""
    return Budget(
        window_tokens,
        min(output_tokens or UNNAMED_OUTPUT_TOKENS, int(window_tokens * MAX_OUTPUT_SHARE)),
        max(MIN_OVERHEAD_TOKENS, int(window_tokens * OVERHEAD_SHARE)),
    )


def smallest_known(sizes_tokens: Iterable[int | None]) -> int | None:
    """Return the smallest known window, or output limit, of all models that may serve; None when none is known."""
    return min((tokens for tokens in sizes_tokens if tokens and tokens > 0), default=None)


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How a conversation is fitted to its window. Ratios are shares of the input budget.

    From `summary_ahead_ratio` on the next summary is made ahead of time; at `summary_trigger_ratio` it is due,
    whatever `context_aim` is.
    """

    tool_output_retention_turns: int = 10
    tool_output_pruning: Pruning = "batched"
    context_strategy: Strategy = "summarize"
    context_aim: Aim = "faithful"
    context_max_output_tokens: int = 0
    summary_trigger_ratio: float = 0.70
    summary_ahead_ratio: float = 0.60
    summary_turn_trigger: int = 0
    prune_trigger_ratio: float = 0.90
    protected_recent_turns: int = 4
    clip_last_messages: int = 4
    clip_minimum_messages: int = 5
    clip_user_limit: int | None = None
    clip_bypass: bool = False
    recall_tool: bool = False
    """Whether the model can look up what was removed, by a tool of ours; what stands for that then has names."""
    recall: bool = False
    """Whether what is removed is looked up for each question."""

    @property
    def clip_limit(self) -> int | None:
        """Messages to keep, the user's own limit first; None when clipping does not apply."""
        if self.context_strategy != "clip" or self.clip_bypass:
            return None
        low, high = CLIP_RANGE_MESSAGES
        limit = self.clip_last_messages if self.clip_user_limit is None else self.clip_user_limit
        return min(max(limit, low), high)

    @property
    def may_recall(self) -> bool:
        """Whether something is removed that may come back: where the last messages alone are wanted, nothing does."""
        return self.context_strategy != "off" and self.clip_limit is None

    @property
    def protected_turns(self) -> int:
        """Newest turns that are left alone; the current one is always among them."""
        return max(1, self.protected_recent_turns)

    @property
    def retention_turns(self) -> int:
        """Newest turns whose tool outputs stay verbatim; the current one is always among them."""
        return max(1, self.tool_output_retention_turns)

    @property
    def kept_turns(self) -> int:
        """Newest turns that summaries replace only when nothing else is left."""
        kept = self.protected_turns
        return kept if self.context_aim == "thrifty" else max(kept, self.retention_turns)
