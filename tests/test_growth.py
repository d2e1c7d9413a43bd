"""Time grows with the length of a text and not with its square: for each pattern, and each pure function of a text.

Anyone's text reaches them (a web page that a tool has read, an error that quotes the user), and no other request is
served while one of them runs. Processor time is compared between sizes, so that a busy or a slow machine changes
nothing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import open_webui_openrouter_pipe
from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.facts import state_fact
from open_webui_openrouter_pipe.conversation.media import count_pdf_pages
from open_webui_openrouter_pipe.conversation.record import UserRecord, stands_in_own_words
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, truncate_to_tokens
from open_webui_openrouter_pipe.history.additions import split_prompt, split_user_parts
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.history.parts import take_images
from open_webui_openrouter_pipe.history.reading import erase_commands, find_commands, read_history
from open_webui_openrouter_pipe.history.steady import steady_prompt
from open_webui_openrouter_pipe.host.tagged_code import find_code
from open_webui_openrouter_pipe.maintenance.removal import cleaned_text
from open_webui_openrouter_pipe.media.download import read_address
from open_webui_openrouter_pipe.media.kinds import media_type_of
from open_webui_openrouter_pipe.money.prefix import digests_of
from open_webui_openrouter_pipe.openrouter.errors import to_error
from open_webui_openrouter_pipe.recall.search import (
    ChatPassage,
    SourceText,
    gather_turns,
    make_query,
    new_index,
    search,
    texts_of_turns,
)
from open_webui_openrouter_pipe.recall.tool import LookUp, SentTexts, excerpts_message
from open_webui_openrouter_pipe.recall.words import TermsOfWords
from open_webui_openrouter_pipe.responses.failure import read_failure
from open_webui_openrouter_pipe.summaries.summary import parse_model_summary
from open_webui_openrouter_pipe.valves import gather_advanced, readable_advanced
from scripts.paths import PACKAGE
from tests.support.chats import call, history, output, planned, system, user
from tests.support.context_reports import SMALL
from tests.support.growth import LARGEST, MAX_GROWTH, growth

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS: defaultdict[str, list[str]] = defaultdict(list)
"""Texts that are repeated: for all subjects, and for some calls by their names."""
for line in Path(__file__).with_name("growth.txt").read_text("utf-8").splitlines():
    if line and not line.startswith("#"):
        subject_name, _, listed = line.partition(" => ")
        TOKENS[subject_name] += json.loads(listed)
FRAMES = (("", ""), ("x", "!"), ('{"a": "', "\n"))
"""What stands before and after the repeated token: with it, a match fails only at the end."""


def _look_up(text: str, **asked: object) -> str:
    """What the recall tool answers about a chat of this text."""
    items = [user(text), user(f"a {text} b")]
    return LookUp(build_conversation(items, [0, 1]), (), len, new_index()).answer(json.dumps(asked))


CALLS: Mapping[str, Callable[[str], object]] = {
    "split_prompt": lambda text: split_prompt(text, "base"),
    "split_user_parts": lambda text: split_user_parts([{"type": "input_text", "text": text}], "base"),
    "steady_prompt with a clock": lambda text: steady_prompt(
        f"10:00\n{text}\n10:00", f"10:05\n{text}\n10:05"
    ),
    "steady_prompt of a text that moved": lambda text: steady_prompt(text, text[1:]),
    "steady_prompt of one line": lambda text: steady_prompt(f"{text}. Now. {text}", f"{text}. No. {text}"),
    "state_fact of a table": lambda text: state_fact(f"Name|Price\n{text}|"),
    "stands_in_own_words": lambda text: stands_in_own_words(text[:80], text),
    "the user's record": lambda text: UserRecord(
        build_conversation([user(text)], [0]).turns, TokenCounter(ContentCache())
    ).text(range(1), 100),
    "truncate_to_tokens": lambda text: truncate_to_tokens(text, 10, len),
    "build_input": lambda text: build_input(
        read_history([{"role": "user", "content": text}, {"role": "assistant", "content": text}]),
        {},
        Options("a/b"),
    ),
    "find_commands": lambda text: find_commands(
        [{"role": "user", "content": f"/{text}"}, {"role": "assistant", "content": text}] * 2
    ),
    "erase_commands": lambda text: erase_commands(f"USER: /help\nASSISTANT: {ANSWER_MARK}{text}"),
    "erase_commands of many": lambda text: erase_commands(
        f"USER: /help\nASSISTANT: {ANSWER_MARK}\n{text}".replace("\n", f"\nUSER: /\nASSISTANT: {ANSWER_MARK}")
    ),
    "texts_of_turns": lambda text: [
        *texts_of_turns(build_conversation([user(text), call("c", text), output("c", text)], [0] * 3).turns)
    ],
    "search": lambda text: search(
        [*gather_turns(new_index(), [SourceText(0, "user", text, b"")], TermsOfWords())],
        make_query(text),
        limit=99,
    ),
    "excerpts_message": lambda text: excerpts_message([ChatPassage(0, "user", text, b"", 0)]),
    "SentTexts": lambda text: SentTexts([text]).contain(text[:600]),
    "read_failure": lambda text: to_error(read_failure(500, text)),
    "to_error": lambda text: to_error(read_failure(400, {"error": {"message": text}})),
    "context_page": lambda text: context_page(
        replace(SMALL, model=text, summaries=[replace(SMALL.summaries[0], text=text)])
    ),
    "count_pdf_pages": lambda text: count_pdf_pages(
        f"%PDF-1.4\n{text}\nstartxref\n9\n%%EOF\n".encode("utf-8", "replace")
    ),
    "media_type_of": lambda text: media_type_of(text.encode("utf-8", "replace")),
    "media_type_of behind a document type": lambda text: media_type_of(
        f"<!doctype a [{text}".encode("utf-8", "replace")
    ),
    "digests_of": lambda text: digests_of(
        {}, planned(history([system(f"<memory_context>\n{text}"), user(text)])), (), answer="1"
    ),
    "gather_advanced": lambda text: gather_advanced({"ADVANCED": text, "WEB_FETCH": False}),
    "readable_advanced": lambda text: readable_advanced({"ADVANCED": f'{{"{text}": 1}}', "WEB_FETCH": False}),
    "read_address": lambda text: read_address(f"https://{text}"),
    "take_images of one": lambda text: take_images(f"![x](data:image/png;base64,{text}"),
    "find_code": lambda text: find_code(f"<code_interpreter>{text}"),
    "cleaned_text": lambda text: cleaned_text(text, {text[1:21]}),
    "LookUp.answer to a query": lambda text: _look_up(text, query=text),
    "LookUp.answer to a reference": lambda text: _look_up("short", reference=text),
    "LookUp.answer to a turn": lambda text: _look_up(text, turn=1),
    "parse_model_summary": lambda text: parse_model_summary(
        f'{{"summary_text": "{text}', source_tokens=LARGEST, count=len
    ),
}
"""Functions of a text and more: by their names, how they are called."""


_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class Subject(NamedTuple):
    """Something that reads a text, and texts that are its own."""

    name: str
    read: Callable[[str], object]
    tokens: tuple[str, ...] = ()
    frames: tuple[tuple[str, str], ...] = FRAMES[:2]


# --- what is judged ---


def _modules() -> Iterator[tuple[str, Any]]:
    prefix = f"{open_webui_openrouter_pipe.__name__}."
    for module in pkgutil.walk_packages(open_webui_openrouter_pipe.__path__, prefix):
        if not module.name.endswith("__main__"):
            yield module.name.removeprefix(prefix), importlib.import_module(module.name)


def functions() -> Iterator[Subject]:
    """The public functions that take one text."""
    for name, module in _modules():
        for function in vars(module).values():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            if inspect.iscoroutinefunction(function) or function.__name__.startswith("_"):
                continue
            given = inspect.signature(function).parameters.values()
            if [each.annotation for each in given if each.default is each.empty] == ["str"]:
                own = tuple(TOKENS.get(function.__name__, ()))
                yield Subject(f"{name}.{function.__name__}", function, own)


def patterns() -> Iterator[Subject]:
    """All compiled patterns, and those that are given to `re` as a literal; with the methods by which they are used."""
    for name, module in _modules():
        if not hasattr(module, "__file__") or not str(module.__file__).startswith(str(PACKAGE)):
            continue
        source = inspect.getsource(module)
        for variable, value in vars(module).items():
            for pattern in _patterns_in(value):
                used = re.findall(rf"\b{variable}(?:\[[^\n]*\])?\.({'|'.join(_METHODS)})\b", source)
                for method in sorted(set(used or ["finditer"])):
                    yield _pattern_subject(f"{name}.{variable}.{method}", pattern, method)
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(str(literal)), *_]):
                    if method in _METHODS:
                        where = f"{name}:{node.lineno}.{method}"
                        yield _pattern_subject(where, re.compile(literal), method)


def _pattern_subject(name: str, pattern: re.Pattern[Any], method: str) -> Subject:
    matching = getattr(pattern, "findall" if method in {"finditer", "sub"} else method)

    def read(text: str) -> object:
        return matching(text if isinstance(pattern.pattern, str) else text.encode())

    return Subject(name, read, tuple(_own_tokens(pattern)), FRAMES)


def _patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    inner: Any = ()
    match value:
        case re.Pattern():
            yield value
        case Mapping():
            inner = value.values()
        case tuple() | list() | set() | frozenset():
            inner = value
        case type(__module__=module) if module.startswith(open_webui_openrouter_pipe.__name__):
            inner = [each for name, each in vars(value).items() if not name.startswith("__")]
    for each in inner if depth < 4 else ():
        yield from _patterns_in(each, depth + 1)


# --- texts by the pattern itself ---

_parser: Any = importlib.import_module("re._parser")


def _own_tokens(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Texts that the pattern nearly matches: for each of its branches an example, whole and cut short."""
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    examples = {_example(parsed, branch, {}) for branch in range(8)}
    for example in sorted(examples):
        yield from {example, example[:-1], example[: len(example) // 2]} - {""}


def _example(parsed: Any, branch: int, groups: dict[int, str]) -> str:
    """A short text that the pattern matches, but for what it asserts; of alternatives the one of this number."""
    pieces = []
    for operation, argument in parsed:
        match str(operation):
            case "LITERAL":
                pieces.append(chr(argument))
            case "ANY" | "NOT_LITERAL":
                pieces.append("x" if argument != ord("x") else "y")
            case "IN":
                pieces.append(_member(argument))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, repeated = argument
                pieces.append(_example(repeated, branch, groups) * max(low, min(1, high)))
            case "SUBPATTERN":
                groups[argument[0]] = _example(argument[-1], branch, groups)
                pieces.append(groups[argument[0]])
            case "ATOMIC_GROUP":
                pieces.append(_example(argument, branch, groups))
            case "BRANCH":
                pieces.append(_example(argument[1][branch % len(argument[1])], branch, groups))
            case "GROUPREF":
                pieces.append(groups.get(argument, ""))
    return "".join(pieces)


def _member(choices: Any) -> str:
    """A character of a set."""
    kinds = {str(kind) for kind, _ in choices}
    if "NEGATE" in kinds:
        excluded = {chr(value) for kind, value in choices if str(kind) == "LITERAL"}
        return next(each for each in "x7 -" if each not in excluded)
    kind, value = choices[0]
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(value[0])
    return {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "7"}.get(str(value), "x")


# --- the law ---


def slow_text(subject: Subject) -> tuple[str, str, str] | None:
    """What stands before a token, the repeated token, and what stands after it, if the time grows too fast."""
    for token, (before, after) in product(dict.fromkeys((*subject.tokens, *TOKENS["all"])), subject.frames):

        def text(size: int, token: str = token, before: str = before, after: str = after) -> str:
            return before + token * (size // len(token)) + after

        if growth(subject.read, text) >= MAX_GROWTH:
            return before, token, after
    return None


SUBJECTS = (
    *patterns(),
    *functions(),
    *(Subject(name, call, tuple(TOKENS.get(name, ()))) for name, call in CALLS.items()),
)


@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_time_grows_with_the_length_of_a_text(subject: Subject) -> None:
    """No repeated token, whatever stands around it, makes the time grow by the square."""
    assert slow_text(subject) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?\s*",
        r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)",
        r'("(?:[^"\\]|\\.)*+")|,(?=\s*+[}\]])',
        r"[a-z0-9._%+-]+ ?@ ?[a-z0-9-]+(?:\.[a-z0-9-]+)+",
        r"<title[^>]*>(.*?)</title>",
    ],
)
def test_the_law_finds_what_grows_by_the_square(pattern: str) -> None:
    """Blanks, backslashes, letters and openings that never close, as patterns once met them."""
    compiled = re.compile(pattern, re.DOTALL)
    assert any(slow_text(_pattern_subject(pattern, compiled, method)) for method in ("fullmatch", "finditer"))
