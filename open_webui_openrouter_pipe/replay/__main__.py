"""From the command line: an exported chat → the `input[]` that would be sent, and why.

    python -m open_webui_openrouter_pipe.replay EXPORT.json
    python -m open_webui_openrouter_pipe.replay RECORDING.jsonl     what was sent and what came, see docs/report.md

Owns the options, the files and the exit codes: 0 done, 1 the input is not valid (`--check`), 2 nothing could be
replayed. It sends nothing and needs neither Open WebUI nor a network. `docs/development.md` explains the output.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..conversation.budget import ContextSettings
from ..conversation.conversation import ContentCache
from ..conversation.media import family_of
from ..conversation.tokens import TokenCounter
from ..errors import ConfigurationError, InvalidHistory, PipeError
from ..history.artifacts import Artifacts
from ..history.build import Options, build_input
from ..history.reading import ArtifactRef, History, Origin, Repair, answers_without_items, read_history
from ..history.turn import BuiltHistory
from ..host.call import strip_function_prefix
from ..media.choice import name_references
from ..planning.plan import Plan
from ..planning.planner import ModelTerms, PlanCaches, plan
from ..planning.simulate import CachePrices
from ..settings import read_settings
from ..valves import Advanced, HostValves, Valves
from .conformance import Issue, Judge, sdk_judge
from .exports import (
    Chat,
    ChatState,
    chat_state,
    choose_chat,
    read_artifacts,
    read_export,
    with_summary_message,
)
from .recordings import HEAD as RECORDING_HEAD
from .recordings import RecordedExchange, read_recording

LINE_CHARACTERS = 100

_GIST_CHARACTERS = 400
_KEPT_CHARACTERS = 24
"""Of the head of a message that is shortened, with its role."""
_ITEM_HEAD = ("#", "turn", "tokens", "from", "marker", "repairs", "item")
_REPAIRED_TYPES = {
    "message": "message",
    "call_id": "function_call",
    "call_name": "function_call",
    "output": "function_call_output",
}
"""The type of item that a repair changed, where it did not omit one."""

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Replay:
    """What would be sent at one point of a chat if everything fits, and `unfitted`, what a plan would fit.

    `tokens` are estimated without a vocabulary.
    """

    chat: Chat
    state: ChatState
    model_id: str
    history: History
    built: BuiltHistory
    unfitted: BuiltHistory
    tokens: tuple[int, ...]

    @property
    def turns(self) -> list[int]:
        """The turn of each item, counted from 1 as `--turn` counts."""
        return [self.turn_number(turn) for turn in self.built.turns]

    def turn_number(self, turn: int) -> int:
        """Return the number of a turn of the history, counted from 1 over the whole chat."""
        return turn + 1 + self.state.earlier_turns


def as_json(replayed: Replay, issues: Sequence[Issue] | None = None, plan: Plan | None = None) -> str:
    """Return everything that is known as JSON; with a plan also the input that it sends, with a judge its issues."""
    built = replayed.built
    report: dict[str, Any] = {
        "chat": {"id": replayed.chat.id, "title": replayed.chat.title},
        "model": replayed.model_id,
        "items": built.items,
        "turns": replayed.turns,
        "tokens": replayed.tokens,
        "origins": [origin._asdict() for origin in built.origins],
        "messages": replayed.state.ids,
        "missing": {ulid: asdict(missing) for ulid, missing in built.missing.items()},
        "repairs": [
            {"kind": repair.kind, "origin": repair.origin._asdict(), "detail": repair.detail}
            for repair in built.repairs
        ],
    }
    if plan is not None:
        report["sent"] = plan.items
    if issues is not None:
        report["issues"] = [asdict(issue) for issue in issues]
    return json.dumps(report, ensure_ascii=False, indent=2)


def as_text(replayed: Replay, issues: Sequence[Issue] | None = None) -> str:
    """Return a table of the items, then the missing artifacts and repairs, in lines of at most 100 characters."""
    chat, built, state = replayed.chat, replayed.built, replayed.state
    counted = (
        f"{len(state.messages)} messages -> {len(built.items)} items, about {sum(replayed.tokens):,} tokens"
    )
    head = [
        printable(f"{chat.title or 'chat without a title'} ({chat.id or 'no id'})"),
        f"for {printable(replayed.model_id) or 'an unknown model'}: {counted}",
    ]
    if state.earlier_turns:
        head.append(f"the host's summary stands for {state.earlier_turns} earlier turns")
    repairs = [repair for repair in built.repairs if repair.origin.marker not in built.missing]
    marked = (entry for turn in replayed.history.turns for entry in turn if isinstance(entry, ArtifactRef))
    missing_rows = [
        (entry.ulid, _source(entry.origin), printable(lost.kind or "kind unknown"), lost.reason)
        for entry in marked
        if (lost := built.missing.get(entry.ulid))
    ]
    repair_rows = [
        (str(number), fixed.kind, _source(fixed.origin), fixed.origin.marker or "", printable(fixed.detail))
        for number, fixed in enumerate(repairs, 1)
    ]
    blocks = [
        head,
        _table([_ITEM_HEAD, *_item_rows(replayed, repairs)]),
        _section("missing artifacts", missing_rows),
        _section("repairs", repair_rows),
    ]
    if issues is not None:
        rows = [(printable(issue.path), printable(issue.message)) for issue in issues]
        blocks.append(_section("issues", rows))
    return "\n\n".join("\n".join(_cut(block)) for block in blocks)


def list_chats(chats: Sequence[Chat], *, as_json: bool) -> str:
    """Return the ids and titles of several chats as JSON, or as a table that numbers them from 1."""
    if as_json:
        named = [{"id": chat.id, "title": chat.title} for chat in chats]
        return json.dumps(named, ensure_ascii=False, indent=2)
    rows = [
        (str(number), str(len(chat.branch(chat.current))), printable(chat.id), printable(chat.title))
        for number, chat in enumerate(chats, 1)
    ]
    return "\n".join(_cut(_table([("#", "messages", "id", "title"), *rows])))


def plan_report(plan: Plan, replayed: Replay) -> str:
    """Return budget, steps, breaks, omissions and quotations of a plan; an item that is sent as it is, is the same."""
    budget, items = plan.budget, replayed.unfitted.items
    turns = [replayed.turn_number(turn) for turn in replayed.unfitted.turns]
    numbers = list(dict.fromkeys(turns))
    sent, known = set(map(id, plan.items)), set(map(id, items))
    changed = {_identity(item) for item in plan.items if id(item) not in known}
    unsent = [(item, turn) for item, turn in zip(items, turns, strict=True) if id(item) not in sent]
    shortened = [turn for item, turn in unsent if _identity(item) in changed]
    omitted = [turn for item, turn in unsent if _identity(item) not in changed]
    recalled = [numbers[passage.turn] for passage in plan.recalled.passages]
    reserved = (
        f"{budget.output_reserve_tokens:,} for the answer, {budget.overhead_reserve_tokens:,} in reserve"
    )
    breaks = plan.prefix_breaks
    lines = [
        f"plan for a window of {budget.window_tokens:,} tokens: {reserved}, at most {plan.limit_tokens:,} of input",
        f"  {plan.tokens_before:>11,}  everything",
        *(
            f"  {step.tokens:>11,}  after {step.name}{', changed in this request' if step.triggered else ''}"
            for step in plan.steps
        ),
        f"prefix breaks: {len(breaks) or 'none'}",
        *(f"  turn {numbers[one.turn]}: {one.reason}, {one.freed_tokens:,} tokens saved" for one in breaks),
        f"items shortened: {_count(shortened)}",
        f"items omitted: {_count(omitted)}",
        *([f"passages of earlier turns quoted: {_count(recalled)}"] if recalled else []),
    ]
    return "\n".join(lines)


def _identity(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a shortened item keeps: its kind, and its call's id or how its text begins."""
    return item["type"], item.get("call_id") or _gist(item)[:_KEPT_CHARACTERS]


def printable(text: str) -> str:
    """Return the beginning of a text on one line, without what a terminal would obey."""
    shown = "".join(character if character.isprintable() else " " for character in text[:_GIST_CHARACTERS])
    return " ".join(shown.split())


def _item_rows(replayed: Replay, repairs: Sequence[Repair]) -> Iterator[Row]:
    built = replayed.built
    columns = zip(built.items, built.origins, replayed.turns, replayed.tokens, strict=True)
    for index, (item, origin, turn, tokens) in enumerate(columns):
        # An artifact's marker names one item; a message may hold several.
        numbers = [
            str(number)
            for number, repair in enumerate(repairs, 1)
            if repair.origin == origin
            and (origin.marker is not None or _REPAIRED_TYPES.get(repair.kind) == item["type"])
        ]
        source, marker, gist = _source(origin), origin.marker or "", printable(_gist(item))
        yield str(index), str(turn), str(tokens), source, marker, ",".join(numbers), gist


def _source(origin: Origin) -> str:
    """The index of the message, with that of its part if it unfolds into several, and its role."""
    part = f".{origin.part}" if origin.part else ""
    return f"{origin.message}{part} {printable(origin.role)}"


def _section(title: str, rows: Sequence[Row]) -> list[str]:
    return [f"{title} ({len(rows)})", *(f"  {line}" for line in _table(rows))] if rows else [f"{title}: none"]


def _table(rows: Sequence[Row]) -> list[str]:
    """Align the columns, numbers to the right; a column in which nothing stands below its head is omitted."""
    body = rows[1:] if rows[0][0] == "#" else rows
    columns = [index for index in range(len(rows[0])) if any(row[index] for row in body)]
    formats = []
    for index in columns:
        align = ">" if all(row[index].isdecimal() for row in body) else "<"
        formats.append(f"{align}{max(len(row[index]) for row in rows)}")
    return ["  ".join(map(format, (row[index] for index in columns), formats)).rstrip() for row in rows]


def _cut(lines: Sequence[str]) -> Iterator[str]:
    return (line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 3]}..." for line in lines)


def _gist(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "message":
            return f"{item['role']}: {_texts(item['content'])}"
        case "reasoning":
            return f"reasoning: {_texts(item.get('summary') or item.get('content') or '[sealed]')}"
        case "function_call":
            return f"function_call {item['name']} {item['arguments']}"
        case "function_call_output":
            return f"function_call_output: {_texts(item['output'])}"
        case kind:
            return str(kind)


def _texts(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or f"[{part['type']}]" for part in content)


def _count(turns: Sequence[int]) -> str:
    if not turns:
        return "none"
    first, last = min(turns), max(turns)
    return f"{len(turns):,} (turn {first})" if first == last else f"{len(turns):,} (turns {first} to {last})"


DONE, NOT_VALID, NOT_REPLAYED = 0, 1, 2

ASSUMED_PRICES = CachePrices(read=0.1)
"""An export holds no prices: cached input at a tenth, as several large providers have it."""

_NOT_INSTALLED = "--check needs OpenRouter's official SDK, which is not installed: pip install openrouter"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    options = _read_options(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        return _run(options)
    except PipeError as error:
        code = f" ({error.code})" if error.code else ""
        sys.stderr.write(f"replay: {printable(error.user_message)}{code}\n")
        return NOT_REPLAYED


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m open_webui_openrouter_pipe.replay",
        description="Show the input that the pipe would send to OpenRouter at one point of an exported chat.",
    )
    add = parser.add_argument
    add("export", metavar="EXPORT", type=Path, help="a chat's export, its messages, or a recording")
    add("--chat", metavar="CHAT", help="number, id or title, if the export has several chats")
    add(
        "--turn",
        metavar="N",
        help="as sent at turn N, or the id of the message to end with; the Nth exchange",
    )
    add("--model", metavar="ID", help="as sent to this model instead of the chat's own")
    add("--window", metavar="TOKENS", type=int, help="fit the chat into it; the error output says how")
    add("--settings", metavar="FILE", type=Path, help="JSON: valves by name, for --window")
    add("--artifacts", metavar="FILE", type=Path, help="JSON: the items by their markers' ULIDs")
    add("--json", action="store_true", help="items, origins, repairs and all else as JSON")
    add("--check", action="store_true", help="let the official SDK judge; exit code 1 if invalid")
    add("--stream", action="store_true", help="a recorded answer as the stream that came")
    options = parser.parse_args(arguments)
    if options.settings and options.window is None:
        parser.error("--settings needs --window")
    return options


def _run(options: argparse.Namespace) -> int:
    judge = sdk_judge() if options.check else None
    if options.check and judge is None:
        raise ConfigurationError(_NOT_INSTALLED)
    value = _read_json(options.export)
    if (exchanges := read_recording(value)) is not None:
        return _show_recording(exchanges, options, judge)
    chats = read_export(value)
    artifacts = read_artifacts(_read_json(options.artifacts)) if options.artifacts else {}
    settings = _read_context_settings(options.settings)
    if options.chat is None and len(chats) > 1:
        _write(list_chats(chats, as_json=options.json))
        raise ConfigurationError(f"the export has {len(chats)} chats: choose with --chat NUMBER, ID or TITLE")
    chat = chats[0] if options.chat is None else choose_chat(chats, options.chat)
    replayed = _replay(chat, options.turn, options.model, artifacts)
    planned = None
    if options.window is not None:
        planned = plan(
            replayed.unfitted.conversation(),
            settings,
            model=ModelTerms(replayed.model_id, options.window, prices=ASSUMED_PRICES),
            counter=TokenCounter(ContentCache(), family=family_of(replayed.model_id)),
            caches=PlanCaches(),
        )
        sys.stderr.write(f"{plan_report(planned, replayed)}\n")
    issues = judge.issues(replayed.built.items) if judge else None
    _write(as_json(replayed, issues, planned) if options.json else as_text(replayed, issues))
    return NOT_VALID if issues else DONE


def _show_recording(
    exchanges: Sequence[RecordedExchange], options: argparse.Namespace, judge: Judge | None
) -> int:
    """Show what was recorded: a table, or as JSON or as a stream the exchange of this number, or all."""
    numbered = [*enumerate(exchanges, 1)]
    if options.turn is not None:
        numbered = [each for each in numbered if str(each[0]) == options.turn]
    if not numbered:
        raise InvalidHistory(f"There is no exchange {options.turn}: the recording has {len(exchanges)}.")
    shown = [exchange for _, exchange in numbered]
    issues = {number: judge.issues(exchange.input) for number, exchange in numbered} if judge else {}
    if options.stream:
        _write("".join(exchange.as_stream() for exchange in shown).rstrip("\n") + "\n")
    elif options.json:
        _write(json.dumps([exchange.as_json() for exchange in shown], ensure_ascii=False, indent=2))
    else:
        table = _table([RECORDING_HEAD, *(exchange.row(number) for number, exchange in numbered)])
        rows = [
            (str(number), printable(f"{issue.path} {issue.message}"))
            for number in issues
            for issue in issues[number]
        ]
        _write("\n".join([*table, *(["", *_section("issues", rows)] if judge else [])]))
    return NOT_VALID if any(issues.values()) else DONE


def _replay(chat: Chat, at: str | None, model: str | None, artifacts: Artifacts) -> Replay:
    """Rebuild the input at one point of a chat, see `chat_state`, without tools and without any summary of ours."""
    state = chat_state(chat, at, model_id=model)
    model_id = strip_function_prefix(model or state.model)
    history = read_history(state.messages, without_items=answers_without_items(state.messages))
    options = Options(model_id=model_id or None)
    unfitted = build_input(history, artifacts, options)
    unfitted = replace(unfitted, items=name_references(unfitted.items))
    built = with_summary_message(unfitted)
    counter = TokenCounter(ContentCache(), family=family_of(model_id))
    tokens = tuple(counter.item(item).tokens for item in built.items)
    return Replay(chat, state, model_id, history, built, unfitted, tokens)


def _read_context_settings(path: Path | None) -> ContextSettings:
    """Read a JSON object of valves by name; the others have their defaults."""
    value = _read_json(path) if path else {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} is not a JSON object of settings")
    if unknown := sorted(value.keys() - Valves.model_fields.keys() - Advanced.model_fields.keys()):
        raise ConfigurationError(f"{path} has unknown settings: {', '.join(unknown)}")
    valves = HostValves(**value)
    if valves.problems:
        wrong = " ".join(each.line for each in valves.problems)
        raise ConfigurationError(f"{path} has a wrong value: {wrong}")
    return read_settings(valves).context


def _read_json(path: Path) -> Any:
    """JSON; or one JSON value a line, as the host's interface exports all chats of a user."""
    try:
        text = path.read_text("utf-8-sig")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            return [json.loads(line) for line in text.split("\n") if line.strip()]
    except OSError as error:
        raise InvalidHistory(f"{path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InvalidHistory(f"{path} is not JSON: {error.msg} in line {error.lineno}") from error
    except ValueError as error:
        raise InvalidHistory(f"{path} is not JSON: not UTF-8, or with a number too long to read") from error
    except RecursionError as error:
        raise InvalidHistory(f"{path} is nested too deeply") from error


def _write(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed early, as head does; the interpreter flushes again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
