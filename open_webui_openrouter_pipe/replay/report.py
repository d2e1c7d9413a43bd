"""What a replayed chat shows: as a table for people, as JSON for programs.

Owns the value that a replay ends with and its two forms. It must not read files or write to a terminal, and what it
gives for a terminal holds nothing that a terminal would obey.

What a plan does to a chat, in lines for people.

Owns the wording. It must not decide or count anything: the figures are the plan's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..history.build import Transformed
from ..history.entries import ArtifactRef, History, Origin, Repair
from ..planning.plan import Plan
from ..responses.items import Item, is_function_call_output
from .conformance import Issue
from .exports import Chat, ChatState

LINE_CHARACTERS = 100

_GIST_CHARACTERS = 400
_ITEM_HEAD = ("#", "turn", "tokens", "from", "marker", "repairs", "item")
_MENDED_TYPES = {
    "message": "message",
    "call_id": "function_call",
    "call_name": "function_call",
    "output": "function_call_output",
}
"""The type of item that a repair changed, where it did not leave one out."""

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Replay:
    """What would be sent at one point of a chat. `tokens` are estimates, made without a vocabulary."""

    chat: Chat
    moment: ChatState
    model_id: str
    history: History
    built: Transformed
    tokens: tuple[int, ...]

    @property
    def turns(self) -> list[int]:
        """The turn of each item, counted from 1 as `--turn` counts."""
        return [turn + 1 + self.moment.earlier_turns for turn in self.built.turns]


def as_json(replayed: Replay, issues: Sequence[Issue] | None = None) -> str:
    """Everything that is known, as JSON; `issues` are the judge's, None when nobody judged."""
    built = replayed.built
    told = {
        "chat": {"id": replayed.chat.id, "title": replayed.chat.title},
        "model": replayed.model_id,
        "items": built.items,
        "turns": replayed.turns,
        "tokens": replayed.tokens,
        "origins": [_told(origin) for origin in built.origins],
        "messages": replayed.moment.ids,
        "missing": built.missing,
        "repairs": [
            {"kind": repair.kind, "origin": _told(repair.origin), "detail": repair.detail}
            for repair in built.repairs
        ],
    }
    judged = {} if issues is None else {"issues": [asdict(issue) for issue in issues]}
    return json.dumps({**told, **judged}, ensure_ascii=False, indent=2)


def as_text(replayed: Replay, issues: Sequence[Issue] | None = None) -> str:
    """A table of the items, then the holes and repairs, in lines of at most 100 characters."""
    missing = replayed.built.missing
    repairs = [repair for repair in replayed.built.repairs if repair.origin.marker not in missing]
    blocks = [
        _head(replayed),
        _table(_item_rows(replayed, repairs), _ITEM_HEAD),
        _section("holes: markers whose item is not at hand", _hole_rows(replayed)),
        _section("repairs", [_repair_row(number, repair) for number, repair in enumerate(repairs, 1)]),
    ]
    if issues is not None:
        blocks.append(
            _section("issues", [(printable(issue.path), printable(issue.message)) for issue in issues])
        )
    return "\n\n".join("\n".join(_cut(block)) for block in blocks)


def list_as_json(chats: Sequence[Chat]) -> str:
    """The ids and titles of several chats."""
    return json.dumps([{"id": chat.id, "title": chat.title} for chat in chats], ensure_ascii=False, indent=2)


def list_as_text(chats: Sequence[Chat]) -> str:
    """A table of several chats, numbered from 1."""
    rows = [
        (str(number), str(len(chat.branch(chat.current))), printable(chat.id), printable(chat.title))
        for number, chat in enumerate(chats, 1)
    ]
    return "\n".join(_cut(_table(rows, ("#", "messages", "id", "title"))))


def _head(replayed: Replay) -> list[str]:
    chat, built = replayed.chat, replayed.built
    name = printable(f"{chat.title or 'chat without a title'} ({chat.id or 'no id'})")
    messages, summarised = len(replayed.moment.messages), replayed.moment.earlier_turns
    counted = f"{messages} messages -> {len(built.items)} items, about {sum(replayed.tokens):,} tokens"
    lines = [name, f"for {printable(replayed.model_id) or 'an unknown model'}: {counted}"]
    return [*lines, f"the host's summary stands for {summarised} earlier turns"] if summarised else lines


def _item_rows(replayed: Replay, repairs: Sequence[Repair]) -> list[Row]:
    built = replayed.built
    columns = zip(built.items, built.origins, replayed.turns, replayed.tokens, strict=True)
    return [
        (
            str(index),
            str(turn),
            str(tokens),
            _place(origin),
            origin.marker or "",
            ",".join(str(number) for number, repair in enumerate(repairs, 1) if _mends(repair, item, origin)),
            printable(_ITEM_GISTS.get(item["type"], _other_gist)(item)),
        )
        for index, (item, origin, turn, tokens) in enumerate(columns)
    ]


def _mends(repair: Repair, item: Mapping[str, Any], origin: Origin) -> bool:
    """An artifact's marker names one item; a message may hold several."""
    if repair.origin != origin:
        return False
    return origin.marker is not None or _MENDED_TYPES.get(repair.kind) == item["type"]


def _hole_rows(replayed: Replay) -> list[Row]:
    marked = (entry for turn in replayed.history.turns for entry in turn if isinstance(entry, ArtifactRef))
    missing = replayed.built.missing
    return [
        (entry.ulid, _place(entry.origin), printable(missing[entry.ulid] or "kind unknown"))
        for entry in marked
        if entry.ulid in missing
    ]


def _repair_row(number: int, repair: Repair) -> Row:
    marker = repair.origin.marker or ""
    return (str(number), repair.kind, _place(repair.origin), marker, printable(repair.detail))


def _told(origin: Origin) -> dict[str, Any]:
    return {
        "message": origin.message,
        "role": origin.role,
        "marker": origin.marker,
        "part": origin.part,
    }


def _place(origin: Origin) -> str:
    """The index of the message, with that of its part if it unfolds into several, and its role."""
    part = f".{origin.part}" if origin.part else ""
    return f"{origin.message}{part} {printable(origin.role)}"


def _section(title: str, rows: Sequence[Row]) -> list[str]:
    return [f"{title} ({len(rows)})", *(f"  {line}" for line in _table(rows))] if rows else [f"{title}: none"]


def _table(rows: Sequence[Row], head: Row | None = None) -> list[str]:
    """Align the columns, numbers to the right; a column in which nothing stands is left out."""
    columns = [index for index in range(len(rows[0])) if any(row[index] for row in rows)]
    shown = [[row[index] for index in columns] for row in ([head] if head else []) + list(rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(columns))]
    aligns = [">" if all(row[index].isdecimal() for row in rows) else "<" for index in columns]
    formats = [f"{align}{width}" for align, width in zip(aligns, widths, strict=True)]
    return ["  ".join(map(format, row, formats)).rstrip() for row in shown]


def _cut(lines: Sequence[str]) -> list[str]:
    return [line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 3]}..." for line in lines]


def printable(text: str) -> str:
    """The beginning of a text on one line, without what a terminal would obey."""
    shown = "".join(character if character.isprintable() else " " for character in text[:_GIST_CHARACTERS])
    return " ".join(shown.split())


def _message_gist(item: Mapping[str, Any]) -> str:
    return f"{item['role']}: {_texts(item['content'])}"


def _reasoning_gist(item: Mapping[str, Any]) -> str:
    return f"reasoning: {_texts(item.get('summary') or item.get('content') or '[sealed]')}"


def _call_gist(item: Mapping[str, Any]) -> str:
    return f"function_call {item['name']} {item['arguments']}"


def _output_gist(item: Mapping[str, Any]) -> str:
    return f"function_call_output: {_texts(item['output'])}"


def _other_gist(item: Mapping[str, Any]) -> str:
    return str(item["type"])


def _texts(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or f"[{part['type']}]" for part in content)


_ITEM_GISTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "message": _message_gist,
    "reasoning": _reasoning_gist,
    "function_call": _call_gist,
    "function_call_output": _output_gist,
}


def plan_report(plan: Plan, items: Sequence[Item], turns: Sequence[int]) -> str:
    """Tell budget, steps, epochs and what is left out; `items` are the whole chat's, `turns` the turn of each."""
    return "\n".join((*_figures(plan), *_epochs(plan, turns), *_losses(plan, items, turns)))


def _figures(plan: Plan) -> Iterator[str]:
    budget = plan.budget
    yield (
        f"plan for a window of {budget.window_tokens:,} tokens: {budget.output_reserve_tokens:,} for the answer, "
        f"{budget.overhead_reserve_tokens:,} in reserve, at most {plan.limit_tokens:,} of input"
    )
    yield f"  {plan.tokens_before:>11,}  everything"
    for step in plan.steps:
        changed = ", changed in this request" if step.triggered else ""
        yield f"  {step.tokens:>11,}  after {step.name}{changed}"


def _epochs(plan: Plan, turns: Sequence[int]) -> Iterator[str]:
    """The changes of the prefix so far."""
    numbers = list(dict.fromkeys(turns))
    yield f"changes of what was sent before: {len(plan.prefix_breaks) or 'none'}"
    for epoch in plan.prefix_breaks:
        yield f"  turn {numbers[epoch.turn]}: {epoch.reason}, {epoch.freed_tokens:,} tokens won"


def _losses(plan: Plan, items: Sequence[Item], turns: Sequence[int]) -> Iterator[str]:
    """What is not sent, or not as it is in the chat; an item that is sent as it is, is the same object."""
    sent = {id(item) for item in plan.items}
    calls = {item["call_id"] for item in plan.items if is_function_call_output(item)}
    changed = [(item, turn) for item, turn in zip(items, turns, strict=True) if id(item) not in sent]
    shortened = [turn for item, turn in changed if is_function_call_output(item) and item["call_id"] in calls]
    gone = [
        turn for item, turn in changed if not is_function_call_output(item) or item["call_id"] not in calls
    ]
    yield f"outputs shortened: {_counted(shortened)}"
    yield f"items left out: {_counted(gone)}"


def _counted(turns: Sequence[int]) -> str:
    if not turns:
        return "none"
    first, last = min(turns), max(turns)
    return f"{len(turns):,} (turn {first})" if first == last else f"{len(turns):,} (turns {first} to {last})"
