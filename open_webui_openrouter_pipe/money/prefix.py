"""Where a request differs from the last one of its chat, and why. Pure.

A provider reads from its cache what a request shares with one before it, from its first byte on: tools, instructions,
then item by item. What the plan changes in that is announced, and the rest should stay. So what was sent is kept as
digests, no text among them, and compared with what is sent next.

Within one answer, each request has to begin with the whole one before. The next turn has to begin with all but what
stood there for one turn alone: the volatile text before the last question, and what the host wrote behind its words.
A question that is asked again or otherwise is a turn of its own, and changes nothing before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import Any, Final, Literal, TypeAlias

from ..conversation.conversation import content_digest
from ..history.artifacts import ANTHROPIC, model_family
from ..planning.plan import Plan
from ..responses.values import as_list, as_object, as_text
from .prices import CacheRule, Prices, RequestPieces, cacheable_tokens

BreakCause: TypeAlias = Literal["prompt", "tools", "settings", "edit", "plan"]
"""Why a prefix differs: the instructions; the tools; parameters that a cache depends on; earlier messages, as an edit,
another branch or a filter makes them; what the plan decides now of earlier turns."""

_NAME_BYTES: Final = 8
_BREAKPOINT: Final = "prompt_cache_breakpoint"
"""A field of a part that says where a cache may end; it is no part of what the cache is asked for."""

_FOR_ALL: Final = ("models", "provider", "session_id", "prompt_cache_key", "format")
"""Parameters that lead to another provider or another of its machines, or stand before all else in the prompt."""
_FOR_MESSAGES: Final = ("reasoning", "tool_choice", "parallel_tool_calls", "thinking_tokens")
"""Parameters without which Anthropic knows the tools and the system prompt, but no message."""


@dataclass(frozen=True, slots=True)
class RequestDigests:
    """What was sent, as numbers that name it.

    `settings` are the parameters that caches depend on, `items` the input without its breakpoints, `kinds` a letter
    for each of them: "s" for instructions, "u" for a user's message, "x" for any other. Before item `completed`
    stands what earlier turns have left; `openings` are the messages from there to the model's first item, each as the
    chain of its parts. `tokens[n]` is the size of the tools and the first `n` items by the plan's count; `turns` are
    the numbers of the chat's turns to which the items belong. `breaks` are the changes that the plan has announced so
    far, the last `own_breaks` of them for this request, where they begin at item `unchanged`. `answer` names the
    answer that is written, and `new_prompt` says that the instructions are announced to be others.
    """

    settings: Mapping[str, int]
    tools: Sequence[int]
    items: Sequence[int]
    kinds: str
    completed: int
    openings: Sequence[Sequence[int]]
    tokens: Sequence[float]
    breaks: tuple[tuple[int, int, str], ...]
    own_breaks: int
    unchanged: int
    omitted_tools: frozenset[str]
    answer: str
    turns: Sequence[int]
    new_prompt: bool = False
    sent_seconds: float = 0.0

    @property
    def leading(self) -> int:
        """How many items are instructions."""
        return len(list(takewhile(lambda kind: kind == "s", self.kinds[: self.completed])))

    def tokens_before(self, item: int) -> float:
        """The size of all that stands before an item."""
        return self.tokens[min(item, len(self.tokens) - 1)] if self.tokens else 0.0


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


def digest_request(
    body: Mapping[str, Any],
    plan: Plan,
    pieces: RequestPieces,
    *,
    answer: str,
    new_prompt: bool = False,
) -> RequestDigests:
    """Name what is sent; `pieces` are its tools and items with their sizes."""
    items = [as_object(item) for item in as_list(body.get("input"))]
    kinds = "".join(map(_kind_of, items))
    completed = min(plan.marks.completed, len(items))
    opening = list(takewhile(lambda at: kinds[at] in "su", range(completed, len(items))))
    return RequestDigests(
        settings={name: _name(value) for name, value in _settings_of(body)},
        tools=[_name(tool) for tool in as_list(body.get("tools"))],
        items=array("Q", (_parts_of(item)[-1] for item in items)),
        kinds=kinds,
        completed=completed,
        openings=[_parts_of(items[at]) for at in opening],
        tokens=array("d", pieces.tokens),
        breaks=tuple((each.request, each.turn, each.reason) for each in plan.prefix_breaks),
        own_breaks=len(plan.new_breaks),
        unchanged=plan.marks.unchanged,
        omitted_tools=plan.omitted_tools,
        answer=answer,
        turns=array("L", _turns_of(plan, len(items))),
        new_prompt=new_prompt,
    )


def _turns_of(plan: Plan, count: int) -> Iterator[int]:
    """Yield the number of each item's turn; what stands before all turns counts as the first that is sent."""
    parts = plan.parts.parts
    if not parts:
        yield from repeat(1, count)
        return
    current = min(plan.parts.current, len(parts) - 1)
    for item in range(count):
        sent = bisect_right(plan.starts, item, hi=current) - 1
        yield parts[max(0, sent) if item < plan.marks.completed else current].turn + 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far a request begins like an earlier one: up to item `shared`.

    `reusable` items of the earlier one should be its beginning. `differs` says that it goes on otherwise before its own
    turn begins.
    """

    last: RequestDigests
    shared: int
    reusable: int
    differs: bool


def nearest(earlier: Iterable[RequestDigests], now: RequestDigests) -> Comparison | None:
    """Return the comparison with the request of which most is shared; of several, with the first that is given.

    An answer that is written again, and another model of the same chat, continue an older request than the last one.
    """
    compared = [compare_items(last, now) for last in earlier]
    return max(compared, key=lambda each: each.shared, default=None)


def compare_items(last: RequestDigests, now: RequestDigests) -> Comparison:
    """Compare the items of two requests, past what stood in the earlier one for its turn alone."""
    if last.answer == now.answer != "":
        end = min(len(last.items), len(now.items))
        shared = _shared(last.items, now.items, 0, 0, end)
        return Comparison(last, shared, len(last.items), shared < end)
    until = min(last.completed, now.completed)
    shared = _shared(last.items, now.items, 0, 0, until)
    # where nothing stood there for one turn alone, the next one begins with the whole of it
    question = last.items[last.completed : last.completed + 1]
    is_whole = any(item in now.items[: now.completed] for item in question)
    reusable = len(last.items) if is_whole else until
    if shared < until or now.completed <= last.completed:
        return Comparison(last, shared, reusable, shared < until)
    opening = next((at for at, parts in enumerate(last.openings) if now.items[until] in parts), None)
    # a turn begins with its user's message, where anything stands before it
    if opening is None or (opening and last.kinds[until + opening] != "u"):
        return Comparison(last, until, reusable, differs=True)
    at = until + opening
    end = min(len(last.items) - at, now.completed - until)
    more = 1 + _shared(last.items, now.items, at + 1, until + 1, end - 1)
    return Comparison(last, until + more, reusable, more < end)


def find_break(found: Comparison | None, now: RequestDigests, model_id: str) -> FoundBreak | None:
    """Return the first change that the plan did not announce, None where there is none before the current turn.

    Behind the first change nothing more can be lost, so that only that one counts.
    """
    if found is None:
        return None
    last = found.last
    changed = sorted(
        name
        for name in now.settings.keys() | last.settings.keys()
        if now.settings.get(name) != last.settings.get(name)
    )
    if names := tuple(name for name in changed if name in _FOR_ALL):
        return FoundBreak("settings", "settings", names)
    if list(last.tools) != list(now.tools):
        return None if _tools_are_announced(last, now) else FoundBreak("tools", "tools")
    if found.differs and found.shared < max(now.leading, last.leading):
        return None if now.new_prompt else FoundBreak("instructions", "prompt")
    names = tuple(name for name in changed if name in _FOR_MESSAGES)
    if names and model_family(model_id) == ANTHROPIC:
        return FoundBreak("settings", "settings", names)
    return _break_in_turns(found, now) if found.differs else None


def price_break(
    broken: FoundBreak,
    found: Comparison,
    now: RequestDigests,
    *,
    rule: CacheRule,
    prices: Prices,
    now_seconds: float,
) -> FoundBreak:
    """Return the break with what is lost by it: what the provider still has, and has to read anew."""
    last = found.last
    if now_seconds - last.sent_seconds >= rule.kept_seconds:
        return broken
    kept = {"tools": 0.0, "settings": 0.0}.get(broken.position, now.tokens_before(found.shared))
    if broken.position == "settings" and not set(broken.names) & set(_FOR_ALL):
        kept = now.tokens_before(now.leading)
    reusable = cacheable_tokens(last.tokens_before(found.reusable), rule)
    lost = max(0, reusable - cacheable_tokens(kept, rule))
    dearer = max(prices.input or 0.0, prices.write or 0.0) * lost - prices.read_cost(lost)
    return FoundBreak(broken.position, broken.cause, broken.names, lost, max(0.0, dearer))


# --- what is compared


def _name(value: Any) -> int:
    return int.from_bytes(content_digest(value)[:_NAME_BYTES])


def _kind_of(item: Mapping[str, Any]) -> str:
    if item.get("type") != "message":
        return "x"
    return {"assistant": "x", "user": "u"}.get(as_text(item.get("role")), "s")


def _parts_of(item: Mapping[str, Any]) -> list[int]:
    """Return the chain of an item's parts: the name of its beginning up to each of them, the last one naming it all."""
    parts = item.get("content")
    if item.get("type") != "message" or not isinstance(parts, list) or not parts:
        return [_name(item)]
    names, chain = [], _name({name: value for name, value in item.items() if name != "content"})
    for part in parts:
        plain = {name: value for name, value in as_object(part).items() if name != _BREAKPOINT}
        names.append(chain := _name([chain, plain or part]))
    return names


def _settings_of(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a cache depends on beside tools and input; how long it is kept changes nothing that is in it."""
    for name in (
        "models",
        "provider",
        "session_id",
        "prompt_cache_key",
        "tool_choice",
        "parallel_tool_calls",
    ):
        if name in body:
            yield name, body[name]
    if form := as_object(body.get("text")).get("format"):
        yield "format", form
    reasoning = {name: value for name, value in as_object(body.get("reasoning")).items() if name != "summary"}
    if reasoning:
        yield "reasoning", reasoning
        if "max_tokens" not in reasoning and "max_output_tokens" in body:
            yield "thinking_tokens", body["max_output_tokens"]  # an effort is a share of the output


# --- how it is compared


def _shared(last: Sequence[int], now: Sequence[int], last_at: int, now_at: int, count: int) -> int:
    """Return how many of so many items are the same from these two places on."""
    same = (last[last_at + step] == now[now_at + step] for step in range(count))
    return sum(takewhile(bool, same))


def _tools_are_announced(last: RequestDigests, now: RequestDigests) -> bool:
    """Whether the plan has left some out, or no longer does; or one came last as the plan announced a change."""
    added = len(now.tools) == len(last.tools) + 1 and list(now.tools[:-1]) == list(last.tools)
    return last.omitted_tools != now.omitted_tools or (added and _announces(last, now))


def _announces(last: RequestDigests, now: RequestDigests) -> bool:
    """Whether the plan has announced a change since, and holds to those before."""
    return len(now.breaks) > len(last.breaks) and now.breaks[: len(last.breaks)] == last.breaks


def _break_in_turns(found: Comparison, now: RequestDigests) -> FoundBreak | None:
    last, at = found.last, found.shared
    position = f"turn {now.turns[min(at, len(now.turns) - 1)]}"
    if _announces(last, now):
        is_own = len(now.breaks) - len(last.breaks) == now.own_breaks
        if at >= (now.unchanged if is_own else now.leading):
            return None
    elif last.breaks != now.breaks:
        return FoundBreak(position, "plan")
    return FoundBreak(position, "edit")
