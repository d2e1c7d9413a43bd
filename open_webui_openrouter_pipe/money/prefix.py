"""Where a request differs from the last one of its chat, why, and what that costs. Pure.

A provider reads from its cache what a request shares with one before it, from its first byte on: tools, instructions,
then item by item. What the plan changes in that is announced, and the rest should stay. So what was sent is kept as
digests, no text among them, and compared with what is sent next.

Within one answer, each request has to begin with the whole one before. The next turn has to begin with all but what
stood there for one turn alone: the volatile text before the last question, what the host wrote behind its words, and
what is quoted behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import attrgetter, eq
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from ..conversation.conversation import DigestedItem, content_digest, digest_item
from ..history.artifacts import ANTHROPIC, model_family
from ..planning.plan import Plan
from ..responses.effects import Usage
from ..responses.items import Item, is_message, is_reasoning
from ..responses.values import as_list, as_object, once
from .prices import CacheRule, Cost, Prices, cacheable_tokens, next_input

BreakCause: TypeAlias = Literal["prompt", "tools", "settings", "edit", "plan"]
"""Why a prefix differs: the instructions; the tools; parameters that a cache depends on; earlier messages, as an edit,
another branch or a filter makes them; what the plan decides now of earlier turns."""

_NAME_BYTES: Final = 8
_MOST_ADDED: Final = 4
"""Parts that the host may have written behind a user's words for one turn alone."""

_FOR_ALL: Final = frozenset({"models", "provider", "session_id", "prompt_cache_key", "format"})
"""Parameters that lead to another provider or another of its machines, or stand before all else in the prompt."""
_FOR_MESSAGES: Final = frozenset({"reasoning", "tool_choice", "parallel_tool_calls", "thinking_tokens"})
"""Parameters without which Anthropic knows the tools and the system prompt, but no message."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a turn announces beside its plan: another system prompt, and that no later turn has its reasoning."""

    new_prompt: bool = False
    drops_reasoning: bool = False


NOTHING_ANNOUNCED: Final = Announced()


@dataclass(frozen=True, slots=True)
class Digests:
    """What was sent, as numbers that name it.

    `settings` are the parameters that caches depend on, `items` the input, of which `leading` ones are instructions.
    Before item `completed` stands what earlier turns have left; `openings` are the messages from there to the model's
    first item, each that can begin a turn by what it would be without its last parts. From item `lasting` on, the next
    turn finds nothing again. `tokens[n]` is the size of the tools and the first `n` items by our own count;
    `breakpoints` are numbers of items after which the provider has to cache. `turns` are the numbers of the chat's
    turns to which the items belong. `breaks` are the changes that the plan has announced so far, the last `own_breaks`
    of them for this request, where they begin at item `unchanged`. `answer` names the answer that is written, and
    `new_prompt` says that the instructions are announced to be others.
    """

    settings: Mapping[str, int]
    tools: Sequence[int]
    items: Sequence[int]
    leading: int
    completed: int
    openings: Sequence[Sequence[int]]
    lasting: int
    tokens: Sequence[float]
    breaks: tuple[tuple[int, int, str], ...]
    own_breaks: int
    unchanged: int
    omitted_tools: frozenset[str]
    answer: str
    turns: Sequence[int]
    new_prompt: bool = False
    breakpoints: Sequence[int] = ()

    def tokens_before(self, item: int) -> float:
        """The size of all that stands before an item."""
        return self.tokens[min(item, len(self.tokens) - 1)] if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class LastRequest:
    """What is sent to a model in a chat, and what it was billed as at these prices, or will be as far as is known.

    `preset` is the row of the model that the user chose. `was_read_once` says that the bill is for this input alone.
    """

    digests: Digests
    model: str
    preset: str
    prices: Prices
    rule: CacheRule
    usage: Usage
    was_read_once: bool
    sent_seconds: float
    """Epoch seconds."""

    @property
    def cached_until(self) -> float:
        """Until when the provider keeps it in its cache, in epoch seconds."""
        return self.sent_seconds + self.rule.kept_seconds

    @property
    def input_cost(self) -> float:
        """What its input costs, in dollars."""
        return self.cost_of(self.usage, self.sent_seconds).input

    def next_input_cost(self, *, is_cached: bool) -> float:
        """What the next request's input costs as long as this one is cached, or once it is not."""
        usage = next_input(self.usage, self.rule, is_cached=is_cached)
        return self.cost_of(usage, self.sent_seconds if is_cached else self.cached_until).input

    def cost_of(self, usage: Usage, seconds: float) -> Cost:
        """What a request costs that is billed like this, and kept as long.

        It is sent at `seconds` since the epoch.
        """
        long = self.rule.is_kept_long
        return self.prices.cost(usage, seconds=seconds, long=long)


@dataclass(frozen=True, slots=True)
class FoundBreak:
    """A change that nobody announced, and its price.

    `position` is "settings", "tools", "instructions", or "turn 3", counted from 1 by the user's messages in the chat.
    `names` are the parameters, where it is one of these. So many tokens would have been read from the cache and are
    not, which costs so many dollars.
    """

    position: str
    cause: BreakCause
    names: tuple[str, ...] = ()
    lost_tokens: int = 0
    lost_cost: float = 0.0


def digests_of(
    body: Mapping[str, Any],
    plan: Plan,
    tokens: Sequence[float],
    *,
    breakpoints: Sequence[int] = (),
    answer: str,
    announced: Announced = NOTHING_ANNOUNCED,
) -> Digests:
    """Name what is sent of a plan; `tokens` are the sizes of the tools and of all up to each item."""
    items, quoted, completed = plan.items, plan.recalled.entries, min(plan.marks.completed, len(plan.items))
    roles = [item["role"] if is_message(item) else "assistant" for item in items]
    said = [at for at in range(completed) if roles[at] in {"assistant", "user"}]
    opening = range(completed, [*roles, "assistant"].index("assistant", completed))
    lasting = plan.starts[plan.parts.current + 1] - len(quoted) if quoted else len(items)
    if announced.drops_reasoning:
        lasting = next((at for at in range(completed, lasting) if is_reasoning(items[at])), lasting)
    return Digests(
        settings={name: _number(content_digest(value)) for name, value in _settings_of(body)},
        tools=[_number(once(content_digest, tool)) for tool in as_list(body.get("tools"))],
        items=array("Q", [_number(entry.digest) for entry in plan.entries]),
        leading=min(said, default=completed),
        completed=completed,
        # a turn begins with its user's message, where anything stands before it
        openings=[
            [*_beginnings(plan.entries[at])] if at == completed or roles[at] == "user" else []
            for at in opening
        ],
        lasting=lasting,
        tokens=array("d", tokens),
        breaks=tuple([(each.request, each.turn, each.reason) for each in plan.prefix_breaks]),
        own_breaks=len(plan.new_breaks),
        unchanged=plan.marks.unchanged,
        omitted_tools=plan.omitted_tools,
        answer=answer,
        turns=array("L", _turns_of(plan)),
        new_prompt=announced.new_prompt,
        breakpoints=breakpoints,
    )


def _number(digest: bytes) -> int:
    return int.from_bytes(digest[:_NAME_BYTES])


def _beginnings(entry: DigestedItem) -> Iterator[int]:
    """Yield the names of a message without its last parts, which the host may have added, and with all."""
    parts = as_list(entry.item.get("content"))
    for end in range(max(1, len(parts) - _MOST_ADDED), len(parts)):
        yield _number(digest_item(cast("Item", {**entry.item, "content": parts[:end]})).digest)
    yield _number(entry.digest)


def _settings_of(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a cache depends on beside tools and input; how long it is kept changes nothing that is in it."""
    for name in (_FOR_ALL | _FOR_MESSAGES) & body.keys() - {"reasoning"}:
        yield name, body[name]
    if form := as_object(body.get("text")).get("format"):
        yield "format", form
    reasoning = {name: value for name, value in as_object(body.get("reasoning")).items() if name != "summary"}
    if reasoning:
        yield "reasoning", reasoning
        if "max_tokens" not in reasoning and "max_output_tokens" in body:
            yield "thinking_tokens", body["max_output_tokens"]  # an effort is a share of the output


def _turns_of(plan: Plan) -> Iterable[int]:
    """Return the number of each item's turn; what stands before all turns counts as the first that is sent."""
    parts, count = plan.parts.parts, len(plan.entries)
    if not parts:
        return [1] * count
    current = min(plan.parts.current, len(parts) - 1)
    sent = [bisect_right(plan.starts, item, hi=current) - 1 for item in range(count)]
    return [
        parts[max(0, sent[item]) if item < plan.marks.completed else current].turn + 1
        for item in range(count)
    ]


def expected_input(now: Digests, rule: CacheRule, last: LastRequest | None, *, now_seconds: float) -> Usage:
    """Return what a request's input will be billed as, if it is sent now.

    What the provider counted last time says how it counts this chat, and what it may still have of it.
    """
    scale, cached = 1.0, 0
    if last and last.digests.tokens and last.digests.tokens[-1]:
        scale = last.usage.input_tokens / last.digests.tokens[-1]
    if last and now_seconds < last.cached_until and list(now.tools) == list(last.digests.tools):
        end = min(len(now.items), len(last.digests.items))
        shared = _shared(last.digests.items, now.items, 0, 0, end)
        if rule.kind == "explicit":
            shared = max((each for each in last.digests.breakpoints if each <= shared), default=-1)
        cached = cacheable_tokens(now.tokens_before(shared) * scale, rule) if shared >= 0 else 0
    written = 0
    if rule.bills_writes and (rule.kind == "automatic" or now.breakpoints):
        end = len(now.items) if rule.kind == "automatic" else max(now.breakpoints)
        written = max(0, cacheable_tokens(now.tokens_before(end) * scale, rule) - cached)
    total = now.tokens[-1] if now.tokens else 0.0
    return Usage(input_tokens=round(total * scale), cached_tokens=cached, cache_write_tokens=written)


class _Comparison(NamedTuple):
    """How far a request begins like an earlier one: up to item `shared`.

    `reusable` items of the earlier one should be its beginning. `differs` says that it goes on otherwise before its own
    turn begins.
    """

    last: LastRequest
    shared: int
    reusable: int
    differs: bool


def find_break(earlier: Iterable[LastRequest], now: Digests, *, now_seconds: float) -> FoundBreak | None:
    """Return the first change that the plan did not announce, with what the provider still has and has to read anew.

    None where there is none before the current turn, or nothing to compare. Compared is the request of which most is
    shared: an answer that is written again, and another model of the chat, continue an older one than the last.
    """
    compared = max([_compare(last, now) for last in earlier], key=attrgetter("shared"), default=None)
    found = compared and _first_change(compared, now)
    if not (compared and found) or now_seconds >= compared.last.cached_until:
        return found
    last, rule = compared.last.digests, compared.last.rule
    kept = {"tools": 0.0, "settings": 0.0}.get(found.position, now.tokens_before(compared.shared))
    if found.position == "settings" and _FOR_ALL.isdisjoint(found.names):
        kept = now.tokens_before(now.leading)
    reusable = cacheable_tokens(last.tokens_before(compared.reusable), rule)
    lost = max(0, reusable - cacheable_tokens(kept, rule))
    total = now.tokens_before(len(now.items))
    prices = compared.last.prices.at(total, now_seconds)
    priced = replace(compared.last, prices=prices)
    read, plain, written = (
        priced.cost_of(usage, now_seconds).input
        for usage in (
            Usage(lost, cached_tokens=lost),
            Usage(lost),
            Usage(lost, cache_write_tokens=lost),
        )
    )
    dearer = max(plain, written) - read
    return replace(found, lost_tokens=lost, lost_cost=max(0.0, dearer))


def _compare(earlier: LastRequest, now: Digests) -> _Comparison:
    """Compare the items of two requests, past what stood in the earlier one for its turn alone."""
    last = earlier.digests
    if last.answer == now.answer != "":
        end = min(len(last.items), len(now.items))
        shared = _shared(last.items, now.items, 0, 0, end)
        return _Comparison(earlier, shared, len(last.items), shared < end)
    until = min(last.completed, now.completed)
    shared = _shared(last.items, now.items, 0, 0, until)
    # where nothing stood there for one turn alone, the next one begins with the whole of it
    question = last.items[last.completed : last.completed + 1]
    is_whole = bool({*question} & {*now.items[: now.completed]})
    reusable = last.lasting if is_whole else until
    if shared < until or now.completed <= last.completed:
        return _Comparison(earlier, shared, reusable, shared < until)
    openings = [at for at, parts in enumerate(last.openings, until) if now.items[until] in parts]
    if not openings:
        return _Comparison(earlier, until, reusable, differs=True)
    at = openings[0]
    end = min(last.lasting - at, now.completed - until)
    more = 1 + _shared(last.items, now.items, at + 1, until + 1, end - 1)
    return _Comparison(earlier, until + more, reusable, more < end)


def _first_change(compared: _Comparison, now: Digests) -> FoundBreak | None:
    last = compared.last.digests
    changed = {name for name, _ in now.settings.items() ^ last.settings.items()}
    if names := tuple(sorted(changed & _FOR_ALL)):
        return FoundBreak("settings", "settings", names)
    if list(last.tools) != list(now.tools):
        # the plan has left some out, or no longer does; or one came last as the plan announced a change
        added = len(now.tools) == len(last.tools) + 1 and list(now.tools[:-1]) == list(last.tools)
        is_announced = last.omitted_tools != now.omitted_tools or (added and _announces(last, now))
        return None if is_announced else FoundBreak("tools", "tools")
    if compared.differs and compared.shared < max(now.leading, last.leading):
        return None if now.new_prompt else FoundBreak("instructions", "prompt")
    names = tuple(sorted(changed & _FOR_MESSAGES))
    if names and model_family(compared.last.model) == ANTHROPIC:
        return FoundBreak("settings", "settings", names)
    return _change_in_turns(compared.shared, last, now) if compared.differs else None


def _shared(last: Sequence[int], now: Sequence[int], last_at: int, now_at: int, count: int) -> int:
    """Return how many of so many items are the same from these two places on."""
    same = map(eq, last[last_at : last_at + count], now[now_at : now_at + count])
    return sum(takewhile(bool, same))


def _announces(last: Digests, now: Digests) -> bool:
    """Whether the plan has announced a change since, and holds to those before."""
    return len(now.breaks) > len(last.breaks) and now.breaks[: len(last.breaks)] == last.breaks


def _change_in_turns(at: int, last: Digests, now: Digests) -> FoundBreak | None:
    position = f"turn {now.turns[min(at, len(now.turns) - 1)]}"
    if _announces(last, now):
        is_own = len(now.breaks) - len(last.breaks) == now.own_breaks
        return FoundBreak(position, "edit") if at < (now.unchanged if is_own else now.leading) else None
    return FoundBreak(position, "edit" if last.breaks == now.breaks else "plan")
