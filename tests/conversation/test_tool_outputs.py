"""The law of tool facts, over outputs of real programs: `tests/data/tool_outputs`, one file a kind.

It judges by means of its own: by the words of an output, and by counting again what a fact has counted.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pytest

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.facts import state_fact
from scripts.benchmarks.context import vocabulary
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUTPUTS: Final = {
    (path.stem, number): text.removesuffix("\n")
    for path in sorted((ROOT / "tests" / "data" / "tool_outputs").glob("*.txt"))
    for number, text in enumerate(re.split(r"^={8} \d+\n", path.read_text("utf-8"), flags=re.MULTILINE)[1:])
}
LARGE: Final = {name: text for name, text in OUTPUTS.items() if estimate_tokens(text) >= 200}
HEADER: Final = re.compile(
    r"\[Tool: (\w[\w ]*?)(?: \(([^()]*)\))?(?: \| (.+): (\w[\w ]*?)(?: \(([^()]*)\))?)?\]"
)
COUNTED: Final = re.compile(r"^(.+) \(((?:rows|characters|added): \d+(?:, \w+: \d+)*)\)", re.MULTILINE)
UNSPACED: Final = re.compile(r"([\u0e00-\u0eff\u2e80-\u9fff\uff00-\uff9f])")
HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
KINDS: Final = {
    "JSON": "arrays envelopes geojson json_lines json_objects json_tool openwebui sqlite",
    "table": "csv tsv sqlite markdown_tables df ps",
    "log": "logs pytest tracebacks mypy",
    "output": "logs pytest tracebacks mypy",
    "diff": "git_diff difflib",
    "SQL": "sql",
    "code": "code",
    "Markdown": "markdown",
}
"""What facts call the outputs of these files, if not texts."""


def counters() -> Iterator[Callable[[str], int]]:
    """The ways in which the pipe counts tokens: by the estimate, and by a vocabulary where there is one."""
    yield estimate_tokens
    if encode := vocabulary("o200k_base"):
        yield lambda text: len(encode(text))


def opened(text: str) -> str:
    """The text that is wrapped in HTML escapes and layers of JSON strings."""
    text = html.unescape(text) if "&quot;" in text else text
    return opened(json.loads(text)) if text.startswith('"') and text.endswith('"') else text


def value_of(text: str) -> Any:
    """The JSON in a text: all from its first bracket to the last, or one value a line."""
    begin, end = re.search(r"[\[{]", text), re.search(r"[\]}][^\]}]*$", text)
    try:
        return json.loads(text[begin.start() : end.start() + 1]) if begin and end else None
    except ValueError:
        return [json.loads(line) for line in text.split("\n")]


def words(text: str) -> set[str]:
    """All that stands between spaces, quotes and brackets, without marks at its ends; ideographs one by one."""
    pieces = re.split(r"[\s\"'`,;(){}\[\]<>=|]+", UNSPACED.sub(r" \1 ", text))
    return {piece.strip(".:!?…") for piece in pieces} | {""}


def names(value: Any) -> Iterator[str]:
    """The names of all fields."""
    yield from value if isinstance(value, dict) else ()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from chain.from_iterable(map(names, inner))


def found(value: Any, path: str) -> Any:
    """What is at a path of an object, whose names are joined by dots."""
    if path in value:
        return value[path]
    name = next(name for name in value if path.startswith(f"{name}."))
    return found(value[name], path.removeprefix(f"{name}."))


def changes(text: str) -> list[tuple[str, int, int]]:
    """Files of a diff with the lines that are added and removed, within the lengths that its hunks say they have."""
    files: list[tuple[str, int, int]] = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if hunk := HUNK.match(line):
            old, new = (int(length or 1) for length in hunk.groups())
            if lines[at - 1].startswith("+++ "):
                header = lines[at - 1 - (lines[at - 1] == "+++ /dev/null")][4:]
                files.append((re.sub("^[ab]/", "", header.split("\t")[0]), 0, 0))
            name, added, removed = files.pop()
            for sign in (each[:1] for each in lines[at + 1 :]):
                if old <= 0 and new <= 0:
                    break
                old, new = old - (sign != "+"), new - (sign != "-")
                added, removed = added + (sign == "+"), removed + (sign == "-")
            files.append((name, added, removed))
    return files


def counted_again(text: str, kind: str, value: Any) -> dict[str, int]:
    """What the header of a fact may count."""
    lines, rows = text.removesuffix("\n").split("\n"), value if isinstance(value, list) else []
    written = [line for part in text.split("```")[::2] for line in part.split("\n")]
    return {
        "characters": len(text),
        "lines": len(lines),
        "rows": len(rows) if kind == "JSON" else sum(bool(re.search(r"\w", line)) for line in lines) - 1,
        "errors": sum(isinstance(row, dict) and bool(row.get("error") or row.get("errors")) for row in rows),
        "headings": sum(line.startswith("#") and line.lstrip("#")[:1] == " " for line in written),
        "files": len(changes(text)),
        "added": sum(added for _, added, _ in changes(text)),
        "removed": sum(removed for *_, removed in changes(text)),
    }


def agree(written: str, again: dict[str, int]) -> bool:
    return all(int(number) == again[unit] for unit, number in re.findall(r"(\w+): (\d+)", written))


@pytest.mark.parametrize("name", OUTPUTS, ids=str)
def test_a_fact_is_short_and_says_only_what_stands_in_the_output(name: tuple[str, int]) -> None:
    """A quarter of the tokens and 150 at most, from 200 tokens on; whole words, and counts that are right."""
    for tokens in counters():
        text = OUTPUTS[name]
        fact = state_fact(text, tokens)
        if tokens(text) < 200:
            assert fact == text
            continue
        assert tokens(fact) <= min(150, tokens(text) / 4)
        header = HEADER.match(fact)
        assert header, fact
        kind, counts, path, inner_kind, inner_counts = header.groups()
        whole = opened(text)
        value = value_of(whole) if kind == "JSON" else None
        main = found(value, path) if path else ""
        inner = value_of(main) if inner_kind == "JSON" else None
        assert agree(counts or "", counted_again(whole, kind, value)), fact
        assert agree(inner_counts or "", counted_again(main, inner_kind, inner)), fact
        body, files = fact[header.end() :], changes(whole)
        for shown in [each for each in COUNTED.finditer(body) if each[0] not in whole]:
            if kind == "diff":
                file, added, removed = files.pop(0)
                assert shown[1] == file
                assert agree(shown[2], {"added": added, "removed": removed})
                main += f" {file}"
            else:
                size = len(found(value, shown[1]))
                errors = counted_again("", "JSON", found(value, shown[1]))["errors"]
                assert agree(shown[2], {"rows": size, "characters": size, "errors": errors})
            body = body.replace(shown[0], shown[1])
        said = json.dumps(value, ensure_ascii=False).replace("\\n", " ").replace('\\"', '"')
        unknown = words(body) - words(f"{text} {whole} {said} {main} columns first")
        assert {word for word in unknown if not {*word.split(".")} <= {*names(value)}} == set(), fact


def kept(kind: str, text: str) -> list[str]:
    """What a fact of a large output holds: counts and cursors, errors and ends, headings, files, columns."""
    lines = text.split("\n")
    scalar = r'"(\w*total_?count|total|has_?\w+|\w*cursor|incomplete_results)": ("[^"]*"|\w+)'
    shown = {
        "envelopes": [": ".join(each).replace('"', "") for each in re.findall(scalar, text, re.IGNORECASE)],
        "logs": [*[line for line in lines if "ERROR" in line][:1], lines[-1]],
        "markdown": [line for line in re.sub(r"```[^`]*```", "", text).split("\n") if line[:1] == "#"][:9],
        "csv": [*re.split("[,;]", lines[0].strip()), *re.split("[,;]", "".join(lines[1:2]))[:1]],
        **dict.fromkeys(("pytest", "mypy", "tracebacks"), lines[-1:]),
        **dict.fromkeys(("git_diff", "difflib"), re.findall(r"^\+\+\+ (?:b/)?(\S+)", text, re.MULTILINE)),
        **dict.fromkeys(("code", "sql"), lines[:3]),
    }
    return shown.get(kind, [])


@pytest.mark.parametrize("name", LARGE, ids=str)
def test_a_fact_keeps_what_a_model_needs_to_go_on(name: tuple[str, int]) -> None:
    """Of each kind its own, in a large output; and it is called by no other kind's name."""
    kind, fact = name[0], state_fact(LARGE[name])
    called = re.split(r" \(|\]| \|", fact.removeprefix("[Tool: "))[0]
    own = {name for name, kinds in KINDS.items() if kind in kinds.split()}
    assert called in {*(own or {called}), "text"}
    if called != "text" and estimate_tokens(LARGE[name]) > 600:
        assert [each for each in kept(kind, LARGE[name]) if each not in fact] == []


def test_most_outputs_are_recognized() -> None:
    """Four of five in the files of kinds that have a form of their own."""
    stated = [state_fact(text) for (kind, _), text in LARGE.items() if kind in " ".join(KINDS.values())]
    assert len(OUTPUTS) >= 150
    assert len({kind for kind, _ in OUTPUTS}) >= 30
    assert sum(fact.startswith("[Tool: text") for fact in stated) < 0.2 * len(stated)


@pytest.mark.parametrize(("least", "most"), [(200, 600), (600, 1_000_000)])
def test_what_is_not_recognized_takes_its_room(least: int, most: int) -> None:
    """Three quarters of a quarter, or of 150 tokens, in the mean."""
    sizes = {text: estimate_tokens(text) for text in LARGE.values() if text.count(" ") > 50}
    facts = {text: state_fact(text) for text, size in sizes.items() if least <= size < most}
    texts = {text: fact for text, fact in facts.items() if fact.startswith("[Tool: text")}
    shares = [estimate_tokens(fact) / min(150, sizes[text] / 4) for text, fact in texts.items()]
    assert sum(shares) > 0.75 * len(shares) > 0


def test_facts_are_the_same_in_each_process() -> None:
    """Whatever its hash seed."""
    code = "from tests.conversation.test_tool_outputs import *; print(ascii([*map(state_fact, OUTPUTS.values())]))"
    for seed in "12":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        other = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, check=True
        )
        assert other.stdout.decode().strip() == ascii([*map(state_fact, OUTPUTS.values())])
