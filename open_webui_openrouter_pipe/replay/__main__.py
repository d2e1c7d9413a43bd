"""From the command line: an exported chat → the `input[]` that would be sent, and why.

    python -m open_webui_openrouter_pipe.replay EXPORT.json

Owns the options, the files and the exit codes: 0 done, 1 the input is not valid (`--check`), 2 nothing could be
replayed. It sends nothing and needs neither Open WebUI nor a network. `docs/replay.md` explains the output.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..advanced import Advanced
from ..conversation.budget import ContextSettings
from ..conversation.content_cache import ContentCache
from ..conversation.media import family_of
from ..conversation.tokens import TokenCounter
from ..errors import ConfigurationError, InvalidHistory, PipeError
from ..history.artifacts import Artifacts
from ..history.build import BuiltHistory, Options, build_input, read_history
from ..host.call import strip_function_prefix
from ..planning.plan import Plan
from ..planning.planner import ModelTerms, PlanCaches, plan
from ..planning.simulate import CachePrices
from ..settings import read_settings
from ..valve_fields import explain
from ..valves import Valves
from .conformance import sdk_judge
from .exports import Chat, chat_state, choose_chat, read_artifacts, read_export
from .report import Replay, as_json, as_text, list_chats, plan_report, printable
from .transform import with_named_files, with_summary_message

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
    add("export", metavar="EXPORT", type=Path, help="a chat's export, or its messages, as JSON")
    add("--chat", metavar="CHAT", help="number, id or title, if the export has several chats")
    add("--turn", metavar="N", help="as sent at turn N; or the id of the message to end with")
    add("--model", metavar="ID", help="as sent to this model instead of the chat's own")
    add("--window", metavar="TOKENS", type=int, help="fit the chat into it; the error output says how")
    add("--settings", metavar="FILE", type=Path, help="JSON: valves by name, for --window")
    add("--artifacts", metavar="FILE", type=Path, help="JSON: the items by their markers' ULIDs")
    add("--json", action="store_true", help="items, origins, repairs and all else as JSON")
    add("--check", action="store_true", help="let the official SDK judge; exit code 1 if invalid")
    options = parser.parse_args(arguments)
    if options.settings and options.window is None:
        parser.error("--settings needs --window")
    return options


def _run(options: argparse.Namespace) -> int:
    judge = sdk_judge() if options.check else None
    if options.check and judge is None:
        raise ConfigurationError(_NOT_INSTALLED)
    chats = read_export(_read_json(options.export))
    artifacts = read_artifacts(_read_json(options.artifacts)) if options.artifacts else {}
    settings = _read_context_settings(options.settings)
    if options.chat is None and len(chats) > 1:
        _write(list_chats(chats, as_json=options.json))
        raise ConfigurationError(f"the export has {len(chats)} chats: choose with --chat NUMBER, ID or TITLE")
    chat = chats[0] if options.chat is None else choose_chat(chats, options.chat)
    replayed, built = _replay(chat, options.turn, options.model, artifacts)
    planned = None
    if options.window is not None:
        planned = _plan_window(built, replayed.model_id, options.window, settings)
        sys.stderr.write(f"{plan_report(planned, replayed, built.items, built.turns)}\n")
    issues = judge.issues(replayed.built.items) if judge else None
    _write(as_json(replayed, issues, planned) if options.json else as_text(replayed, issues))
    return NOT_VALID if issues else DONE


def _replay(
    chat: Chat, at: str | None, model: str | None, artifacts: Artifacts
) -> tuple[Replay, BuiltHistory]:
    """Rebuild the input at one point of a chat, see `chat_state`; as it is sent when it fits, and for planning."""
    state = chat_state(chat, at, model_id=model)
    model_id = strip_function_prefix(model or state.model)
    history = read_history(state.messages)
    options = Options(model_id=model_id or None, chat_id=chat.id or None)
    built = with_named_files(build_input(history, artifacts, options))
    sent = with_summary_message(built)
    counter = TokenCounter(ContentCache(), family=family_of(model_id))
    tokens = tuple(counter.item(item).tokens for item in sent.items)
    return Replay(chat, state, model_id, history, sent, tokens), built


def _plan_window(built: BuiltHistory, model_id: str, window_tokens: int, settings: ContextSettings) -> Plan:
    """Fit a chat into a window as the engine does, without tools and without any summary of ours."""
    return plan(
        built.conversation,
        settings,
        model=ModelTerms(model_id, window_tokens, prices=ASSUMED_PRICES),
        counter=TokenCounter(ContentCache(), family=family_of(model_id)),
        caches=PlanCaches(),
    )


def _read_context_settings(path: Path | None) -> ContextSettings:
    """Read a JSON object of valves by name; the others have their defaults."""
    value = _read_json(path) if path else {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} is not a JSON object of settings")
    if unknown := sorted(value.keys() - Valves.model_fields.keys() - Advanced.model_fields.keys()):
        raise ConfigurationError(f"{path} has unknown settings: {', '.join(unknown)}")
    try:
        return read_settings(Valves(**value)).context
    except ValidationError as error:
        raise ConfigurationError(f"{path} has a wrong value: {explain(error, Valves)}") from error


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
