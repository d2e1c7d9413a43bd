"""Placeholders in what is recorded: what is kept, what is replaced (`placeholders.txt`), and that no secret is left."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.openrouter.errors import to_error
from open_webui_openrouter_pipe.openrouter.placeholders import Placeholders, Said
from open_webui_openrouter_pipe.responses.failure import read_failure
from scripts.paths import ROOT
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = Path(__file__).with_suffix("").with_name("placeholders.txt")

REQUEST: Any = {
    "model": "anthropic/claude-sonnet-4.5",
    "instructions": "a",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "c", "detail": "d"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_file", "filename": "e", "file_data": "f"}],
        },
        {
            "type": "reasoning",
            "id": "g",
            "encrypted_content": "h",
            "signature": "i",
            "format": "j",
            "summary": [],
        },
        {
            "type": "function_call",
            "id": "k",
            "call_id": "l",
            "name": "m",
            "arguments": "n",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "o", "output": "p"},
    ],
    "tools": [
        {
            "type": "function",
            "name": "q",
            "description": "r",
            "parameters": {
                "type": "object",
                "properties": {"s": {"type": "t", "enum": ["u"], "description": "v"}},
                "required": ["w"],
            },
        }
    ],
    "provider": {"only": ["x"], "order": ["y"]},
    "session_id": "z",
    "user": "aa",
    "trace": {"trace_name": "ab"},
    "plugins": [{"id": "ac", "pdf": {"engine": "ad"}}],
    "models": ["ae"],
    "stop": ["af"],
    "metadata": {"ag": "ah"},
}
ANSWER: Any = {
    "type": "response.completed",
    "response": {
        "id": "a",
        "model": "b",
        "output": [
            {
                "type": "message",
                "id": "c",
                "content": [
                    {
                        "type": "output_text",
                        "text": "d",
                        "annotations": [{"url": "e", "title": "f", "type": "g"}],
                    }
                ],
            },
            {
                "type": "openrouter:web_search",
                "action": {"query": "h", "sources": [{"url": "i"}]},
                "status": "j",
            },
            {"type": "k", "result": "l", "revised": "m"},
        ],
        "error": {
            "code": "n",
            "message": "o",
            "metadata": {"raw": "p", "provider_name": "q", "flagged_input": "r", "reasons": ["s"]},
        },
        "user_id": "t",
        "openrouter_metadata": {
            "requested": "u",
            "summary": "v",
            "pipeline": [{"name": "w", "data": {"x": "y"}}],
        },
    },
}
SECRETS = st.from_regex(r"[A-Za-zéß]{3}zq[A-Za-z0-9 @.:/'\"{\[é漢_-]{0,20}zq", fullmatch=True)
"""Whatever stands in it, two of its words are no words of the API; and no id begins so."""


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts stand in a JSON value."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(each, (*path, key))
    else:
        yield path


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def with_text(value: Any, path: tuple[Any, ...], text: Any, *, as_key: bool = False) -> Any:
    """The value with another text at a place, or under it as the name of a field."""
    copy = json.loads(json.dumps(value))
    holder = at(copy, path[:-1])
    if as_key and isinstance(holder, dict):
        holder[text] = holder.pop(path[-1])
    else:
        holder[path[-1]] = text
    return copy


@pytest.mark.parametrize("value", rows(TABLES, "kept"))
def test_what_says_nothing_of_anybody_is_kept(value: Any) -> None:
    """In requests and in answers."""
    assert Placeholders().request(value) == value
    assert Placeholders().answer(value, Said({})) == value


@pytest.mark.parametrize(("value", "replaced"), rows(TABLES, "replaced"))
def test_everything_else_is_replaced(value: Any, replaced: Any) -> None:
    """By placeholders of the same length; a name has the same one wherever it stands."""
    assert Placeholders().request(value) == replaced


@pytest.mark.parametrize(("line", "said", "kept"), rows(TABLES, "errors"))
def test_of_an_error_the_wording_is_kept_and_nothing_that_it_quotes(line: Any, said: str, kept: Any) -> None:
    """A provider's own error is JSON in a text."""
    line, kept = (
        each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in (line, kept)
    )
    answer = Placeholders().answer({"error": {"message": line}}, Said({"input": said}))
    assert answer["error"]["message"].rstrip() == kept.rstrip()


def test_a_recorded_error_is_still_known_for_what_it_is() -> None:
    """Every error that others have met is classified the same with placeholders in it."""
    seen = json.loads((ROOT / "tests" / "data" / "openrouter" / "errors.json").read_text("utf-8"))
    differing = []
    for row in seen:
        body = row.get("body", {"error": {"message": row.get("message", "")}})
        # indexes that were replaced by letters
        body = json.loads(re.sub(r"\[[NM]\]", "[1]", json.dumps(body)))
        written = Placeholders().answer({"raw": body}, Said({}))["raw"]
        kinds = [type(to_error(read_failure(row.get("status"), each))) for each in (body, written)]
        if kinds[0] is not kinds[1]:
            differing.append((kinds, body))
    assert differing == []
    assert len(seen) > 100


def test_a_very_long_error_is_a_text_like_any_other() -> None:
    """Nothing of it is looked at word by word."""
    texts = ["a " * 10_000, "a " * 10_000 + "a"]
    answers = [
        Placeholders().answer({"error": {"message": text}}, Said({}))["error"]["message"] for text in texts
    ]
    assert answers == [texts[0], "x" * 20_001]


class Counted(list[Any]):
    """Counts how often it is read."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_a_request_is_read_once_for_all_errors_of_an_exchange() -> None:
    """For its numbers and for its phrases, and not at all where there is nothing to compare."""
    request = Counted(["one two"])
    said = Said({"input": request})
    for message, times in (("too big", 0), ("limit is 5", 1), ("the limit is 5 tokens", 2)):
        Placeholders().answer({"issues": [{"message": message}] * 40}, said)
        assert request.times == times


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("encrypted_content", "the limit is reached"),
        ("signature", "the limit is reached"),
        ("image_url", "data:image/png;base64,the/limit/is/reached"),
    ],
)
def test_what_nobody_can_read_is_not_compared(field: str, text: str) -> None:
    """What is sealed, and files."""
    error = {"error": {"message": "the limit is reached"}}
    assert Placeholders().answer(error, Said({"input": [{field: text}]})) == error
    assert Placeholders().answer(error, Said({"input": [{"text": f" {text}"}]})) != error


NUMBERS = st.integers(min_value=10_000_000).map(str) | st.from_regex(
    r"[2-9]\d{2}[.-]\d{3}[.-]\d{4}|1\d\d(\.1\d\d){3}|\+49 \d{3} \d{5}|-\d{4}", fullmatch=True
)
"""Of telephones, addresses and accounts."""


@given(st.data(), NUMBERS)
def test_no_number_of_anybody_is_left_of_an_error(data: st.DataObject, number: str) -> None:
    """Whatever stands around it, even a unit."""
    around = data.draw(st.sampled_from(["{}", "limit {} tokens", "call ({}), user", "org{}", "> {} tokens"]))
    said = Said(data.draw(st.sampled_from([{}, REQUEST])))
    written = Placeholders().answer({"error": {"message": around.format(number)}}, said)
    assert not re.search(r"\d", json.dumps(written))


@given(st.data(), st.sampled_from([4711, 47.11, 10**400, float("inf"), "low", "completed"]))
def test_nothing_is_left_of_what_people_fill_in(data: st.DataObject, filled_in: Any) -> None:
    """Even in fields that are called like those of the API."""
    key = data.draw(
        st.sampled_from(["default", "enum", "const", "examples", "metadata", "arguments", "result"])
    )
    field = data.draw(st.sampled_from(["role", "status", "code", "cost", "index", "id", "output", "items"]))
    value = data.draw(st.sampled_from([{field: filled_in}, [{field: [filled_in]}]]))
    for whole in ({key: value}, {"tools": [{"parameters": {key: value}}]}):
        texts = [Placeholders().request(whole), Placeholders().answer(whole, Said({}))]
        assert not any(re.search(r"[02-9]|low|completed|Inf", json.dumps(each)) for each in texts)


@given(st.data(), SECRETS)
def test_no_secret_is_left(data: st.DataObject, secret: str) -> None:
    """Wherever it stands in a request or an answer: as a text, as the name of a field, or quoted by an error."""
    placeholders = Placeholders()
    whole = data.draw(st.sampled_from([REQUEST, ANSWER]), "which")
    path = data.draw(st.sampled_from([*paths(whole)]), "where")
    text = data.draw(
        st.sampled_from([secret, f"It is {secret}.", json.dumps({"message": secret, secret: 1})]), "how"
    )
    value = with_text(whole, path, text, as_key=data.draw(st.booleans(), "as the name of a field"))
    written = placeholders.request(value) if whole is REQUEST else placeholders.answer(value, Said(REQUEST))
    assert "zq" not in json.dumps(written, ensure_ascii=False)


@given(st.data(), st.text(min_size=1, max_size=30))
def test_a_placeholder_is_as_long_as_what_it_stands_for(data: st.DataObject, text: str) -> None:
    """And the structure is the same."""
    path = data.draw(st.sampled_from([*paths(REQUEST)]))
    value = with_text(REQUEST, path, text)
    written = Placeholders().request(value)
    assert [*map(len, paths(written))] == [*map(len, paths(value))]
    ours, theirs = ([at(each, path) for path in paths(each)] for each in (written, value))
    assert [len(each) for each in ours] == [len(each) for each in theirs]


@given(st.lists(st.text(max_size=9)))
def test_the_placeholders_of_deltas_are_that_of_the_whole(deltas: list[str]) -> None:
    """So what a reader makes of a recorded stream is what it made of the stream."""
    placeholders = Placeholders()
    parts = [placeholders.answer({"delta": delta}, Said({}))["delta"] for delta in deltas]
    assert "".join(parts) == placeholders.answer({"text": "".join(deltas)}, Said({}))["text"]


def test_names_are_told_apart() -> None:
    """As many as there are, however short they are; with the longest, the lengths stay."""
    names = [f"{number:x}" for number in range(3000)]
    given_names = [Placeholders().request({"name": name})["name"] for name in names[:1]]
    placeholders = Placeholders()
    given_names = [placeholders.request({"name": name})["name"] for name in names]
    assert len(set(given_names)) == len(names)
    assert [len(name) for name in given_names[-2000:]] == [3] * 2000
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in given_names)
