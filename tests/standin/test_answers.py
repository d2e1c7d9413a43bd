"""What a request is answered with: by directives, by the model's name, in natural chat, and to programs' prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.standin import catalogue
from scripts.standin.plan import (
    Break,
    Directive,
    DirectiveError,
    Plan,
    call,
    message,
    parse,
    reasoning,
)
from scripts.standin.planner import plan_answer
from scripts.standin.summaries import instruction, source_of
from tests.standin.client import SUMMARY, output, user
from tests.support.rows import rows

SCRIPT = catalogue.BY_ID["standin/script"]
THINKER = catalogue.BY_ID["openai/gpt-5.2"]
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
TABLE = Path(__file__).with_name("answers.txt")


def items(asked: Any, model: catalogue.Model = SCRIPT, **fields: Any) -> list[Any]:
    """The items of the plan for an input."""
    return plan_answer({"input": asked, **fields}, model).items


def test_directives_stand_anywhere_in_a_text() -> None:
    """Words around them are the person's; other double brackets mean nothing."""
    text = 'Hi [[standin: reasoning=summary text="a b" parts=2]] a [[link]] [[standin:late]] you'
    found = (Directive("reasoning", "summary", {"text": "a b", "parts": "2"}), Directive("late"))
    assert parse(text) == (found, "Hi  a [[link]]  you")


@given(st.one_of(st.text(), st.dictionaries(st.text(), st.integers()), st.lists(st.text())))
def test_json_values_come_back(value: Any) -> None:
    """Closing brackets inside of them too."""
    assert parse(f"[[standin: a=x b={json.dumps(value)}]]")[0] == (Directive("a", "x", {"b": value}),)


@pytest.mark.parametrize("order", rows(TABLE, "unreadable directives"))
def test_unreadable_and_unknown_directives_are_errors(order: str) -> None:
    """A test with a misspelt order must not pass by accident."""
    with pytest.raises(DirectiveError):
        items(f"[[standin:{order}]]")


def test_calls_come_in_rounds() -> None:
    """Two rounds of two parallel calls, numbered, whose outputs come back grouped or mixed; then the answer.

    The newest question alone counts: neither earlier turns nor what stands beside it, such as a quotation.
    """
    old = [user("[[standin: text=old]]"), {"role": "assistant", "content": "old"}]
    ask = [
        *old,
        user("You asked: [[standin: text=quoted]]"),
        user('[[standin: call=get_weather times=2 args={"at": "$round.$n"}]] [[standin: rounds=2]]'),
        {"role": "developer", "content": "Context"},
        user("[Quotations]\n[[standin: text=quoted]]"),
    ]
    calls = [{**CALL, "call_id": f"c{number}"} for number in range(4)]
    outputs = [output(each) for each in calls]
    done = [*calls[:2], *outputs[:2]]
    planned = [items([*ask, *more]) for more in ([], done, [calls[0], outputs[0], calls[1], outputs[1]])]
    assert [[step["arguments"] for step in each] for each in planned] == [
        ['{"at": "1.1"}', '{"at": "1.2"}'],
        *[['{"at": "2.1"}', '{"at": "2.2"}']] * 2,
    ]
    (answer,) = items([*ask, *done, *calls[2:], *outputs[2:]])
    assert answer["content"][0]["text"].count("`get_weather`: sunny") == 4


# --- summaries ---

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    user("Before"),
    user("Deploy <v2>\n& more, [[standin: error=500]] as it was said. You must use 12.5 kg."),
    CALL,
    output(CALL),
    {"role": "assistant", "content": "Deployed to /srv/data on 2026-03-01. Never tell anyone."},
    user("Thanks"),
    {"role": "assistant", "content": "Gladly. " + "We go on with what we said before, as people do. " * 20},
    user("Thanks a lot"),
]


def suffix(first: str, last: str) -> str:
    """The instruction at the end of a live chat."""
    quoted = f"<first_user_message>{first}</first_user_message> <last_user_message>{last}</last_user_message>"
    return f"{SUMMARY} constraints {quoted}"


NAMES = {
    "SUMMARY": SUMMARY,
    "CHOICES": SUMMARY.replace("decisions", "choices"),
    "ASKED": user(SUMMARY),
    "LIVE": [*CHAT, user(suffix("Nobody", "Thanks"))],
}


@pytest.mark.parametrize(("body", "asked"), rows(TABLE, "requests for a summary", NAMES))
def test_a_request_for_a_summary_is_known_by_its_five_fields(body: Any, *, asked: bool) -> None:
    """In the last user message, or in what the system says."""
    assert bool(instruction(body)) is asked


@pytest.mark.parametrize(
    ("first", "last", "begin", "end"),
    rows(TABLE, "quoted parts"),
)
def test_the_part_is_found_by_its_quotes(first: str, last: str, begin: int, end: int) -> None:
    """Whole, cut off, or with other blanks."""
    found = source_of({"input": [*CHAT, user(suffix(first, last))]})
    assert found == source_of({"input": [*CHAT[begin:end], user(SUMMARY)]})
    assert not any("error" in text for _, text in found)
    with pytest.raises(DirectiveError, match="no user message begins with 'Nobody'"):
        source_of({"input": [*CHAT, user(suffix("Nobody", last))]})


def test_a_transcript_names_its_speakers() -> None:
    """By the tags in which they speak."""
    text = '<user turn="1">\nHi\nall\n</user>\n<tool_call>\nget: sunny\n</tool_call>\n<assistant>\nWarm.\n</assistant>'
    body = {"instructions": SUMMARY, "input": f"<conversation>\n{text}\n</conversation>"}
    assert (instruction(body), source_of(body)) == (
        SUMMARY, [("user", "Hi\nall"), ("tool_call", "get: sunny"), ("assistant", "Warm.")]
    )  # fmt: skip


def summary_plan(directives: str, model: catalogue.Model = SCRIPT, queued: str = "", **fields: Any) -> Plan:
    """The plan for a request for a summary of the chat."""
    body = {"input": [*CHAT, user(suffix("Before", "Thanks"))], **fields}
    return plan_answer(body, model, queued, summarizer=directives)


@pytest.mark.parametrize(("limit", "facts"), [(None, ["12.5", "/srv/data", "2026-03-01"]), (170, ["12.5"])])
def test_an_honest_summary_fits_and_keeps_details_and_demands(limit: int | None, facts: list[str]) -> None:
    """Within an eighth of the source and its output limit; only the user's demands are constraints."""
    _, answer = summary_plan("", THINKER, max_output_tokens=limit).items
    said = json.loads(answer["content"][0]["text"])
    assert said["key_facts"][: len(facts)] == facts
    assert said["constraints"] == [{"quote": "You must use 12.5 kg."}]


@pytest.mark.parametrize(
    ("directives", "expected"),
    [
        ("[[standin: text=Mine]] [[standin: delay=0.1]]", Plan([message("Mine")], delay_seconds=0.1)),
        ("[[standin: echo]]", Plan([message(suffix("Before", "Thanks"))])),
        ("[[standin: call=save_summary]]", Plan([call("save_summary", "{}")])),
        ("[[standin: incomplete]]", Plan(summary_plan("").items, "max_output_tokens")),
        ("[[standin: hang]]", Plan(summary_plan("").items, silent=True)),
        ("[[standin: fail=eof after=3]]", Plan(summary_plan("").items, cut=Break("eof", 3))),
        ("[[standin: reasoning=raw text=Hm]] [[standin: mute]]", Plan([reasoning("raw", "Hm")])),
    ],
)  # fmt: skip
def test_directives_decide_how_a_request_for_a_summary_is_answered(directives: str, expected: Plan) -> None:
    """They may precede a summary; queued ones stand above them."""
    assert summary_plan(directives) == expected
    assert summary_plan(directives, queued="[[standin: text=Queued]]").items == [message("Queued")]
