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

from ..conversation.budget import ContextSettings
from ..conversation.content_cache import ContentCache
from ..conversation.media import family_of
from ..conversation.tokens import TokenCounter
from ..engine.fit import conversation_of
from ..errors import ConfigurationError, InvalidHistory, PipeError
from ..history.artifacts import Artifacts
from ..history.build import Options, build_input, with_summaries
from ..history.reading import read_history
from ..planning.plan import ModelTerms, plan
from ..planning.simulate import CachePrices
from .conformance import sdk_judge
from .exports import Chat, chat_state, choose_chat, openrouter_id, read_artifacts, read_export
from .report import Replay, as_json, as_text, list_as_json, list_as_text, plan_report, printable

DONE, NOT_VALID, NOT_REPLAYED = 0, 1, 2

ASSUMED_PRICES = CachePrices(read=0.1)
"""An export holds no prices: cached input at a tenth, as several large providers have it."""

_NOT_INSTALLED = "--check needs OpenRouter's official SDK, which is not installed: pip install openrouter"


def replay(
    chat: Chat, at: str | None = None, *, model: str | None = None, artifacts: Artifacts | None = None
) -> Replay:
    """Rebuild the input at one point of a chat; see `moment` for `at`. `model` stands for the chat's own.

    Raises:
        InvalidHistory: There is no such point, or nothing that could be sent.
    """
    found = chat_state(chat, at, model_id=model)
    model_id = openrouter_id(model or found.model)
    history = read_history(found.messages)
    options = Options(model_id=model_id or None, chat_id=chat.id or None)
    built = with_summaries(build_input(history, artifacts or {}, options))
    counter = TokenCounter(ContentCache(), family=family_of(model_id))
    tokens = tuple(counter.item(item).tokens for item in built.items)
    return Replay(chat, found, model_id, history, built, tokens)


def planned(replayed: Replay, window_tokens: int) -> str:
    """What would be done to make the replayed chat fit a window, with the default settings and no summaries.

    Raises:
        ContextBudgetExceeded: It cannot be made to fit.
    """
    made = plan(
        conversation_of(replayed.built, ()),
        ContextSettings(context_strategy="prune"),
        model=ModelTerms(replayed.model_id, window_tokens, prices=ASSUMED_PRICES),
        counter=TokenCounter(ContentCache(), family=family_of(replayed.model_id)),
        facts=ContentCache(),
    )
    return plan_report(made, replayed.built.items, replayed.turns)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; give the exit code."""
    options = _options().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        return _run(options)
    except PipeError as error:
        sys.stderr.write(f"replay: {printable(error.user_message)}\n")
        return NOT_REPLAYED


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m open_webui_openrouter_pipe.replay",
        description="Show the input that the pipe would send to OpenRouter at one point of an exported chat.",
    )
    parser.add_argument(
        "export", metavar="EXPORT", type=Path, help="a chat's export, or its messages, as JSON"
    )
    parser.add_argument("--chat", metavar="CHAT", help="number, id or title, if the export has several chats")
    parser.add_argument("--turn", metavar="N", help="as sent at turn N; or the id of the message to end with")
    parser.add_argument("--model", metavar="ID", help="as sent to this model instead of the chat's own")
    parser.add_argument(
        "--window", metavar="TOKENS", type=int, help="tell on the error output how the chat is fitted into it"
    )
    parser.add_argument(
        "--artifacts", metavar="FILE", type=Path, help="JSON: the items by their markers' ULIDs"
    )
    parser.add_argument("--json", action="store_true", help="items, origins, repairs and all else as JSON")
    parser.add_argument(
        "--check", action="store_true", help="let the official SDK judge; exit code 1 if invalid"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    judge = sdk_judge() if options.check else None
    if options.check and judge is None:
        raise ConfigurationError(_NOT_INSTALLED)
    chats = read_export(_read_json(options.export))
    artifacts = read_artifacts(_read_json(options.artifacts)) if options.artifacts else {}
    if options.chat is None and len(chats) > 1:
        _write(list_as_json(chats) if options.json else list_as_text(chats))
        raise ConfigurationError(f"the export has {len(chats)} chats: choose with --chat NUMBER, ID or TITLE")
    chat = chats[0] if options.chat is None else choose_chat(chats, options.chat)
    replayed = replay(chat, options.turn, model=options.model, artifacts=artifacts)
    issues = judge.issues(replayed.built.items) if judge else None
    _write(as_json(replayed, issues) if options.json else as_text(replayed, issues))
    if options.window is not None:
        sys.stderr.write(f"{planned(replayed, options.window)}\n")
    return NOT_VALID if issues else DONE


def _read_json(path: Path) -> Any:
    try:
        return _parsed(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidHistory(f"{path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InvalidHistory(f"{path} is no JSON: {error.msg} in line {error.lineno}") from error
    except ValueError as error:
        raise InvalidHistory(f"{path} is no JSON: not UTF-8, or with a number too long to read") from error
    except RecursionError as error:
        raise InvalidHistory(f"{path} is nested too deeply") from error


def _parsed(text: str) -> Any:
    """JSON; or one JSON value a line, as the host's interface gives all chats of a user."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        return [json.loads(line) for line in text.split("\n") if line.strip()]


def _write(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except (
        BrokenPipeError
    ):  # the reader has seen enough, as head does; the interpreter flushes again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
