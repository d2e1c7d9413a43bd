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
    Call,
    Citation,
    Delivery,
    Directive,
    DirectiveError,
    Message,
    Plan,
    Reasoning,
    parse,
)
from scripts.standin.planner import ReplyOptions, plan_answer
from scripts.standin.summaries import KINDS, PROSE, SummaryRequest, is_summary_request, task_answer
from tests.standin.client import CLOCK, SUMMARY, WEATHER, output, user
from tests.support.rows import rows

PLAIN, SCRIPT = catalogue.BY_ID["standin/plain"], catalogue.BY_ID["standin/script"]
THINKER = catalogue.BY_ID["openai/gpt-5.2"]
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
SEARCH, FETCH = {"type": "openrouter:web_search"}, {"type": "openrouter:web_fetch"}
TABLE = Path(__file__).with_name("answers.txt")


def steps(asked: Any, model: catalogue.Model = SCRIPT, **fields: Any) -> tuple[Any, ...]:
    """The steps of the plan for an input."""
    return plan_answer({"input": asked, **fields}, model).steps


def test_directives_stand_anywhere_in_a_text() -> None:
    """Words around them are the person's; other double brackets mean nothing."""
    text = 'Hi [[standin: reasoning=summary text="a b" parts=2]] a [[link]] [[standin:nodone]] you'
    found = (Directive("reasoning", "summary", {"text": "a b", "parts": "2"}), Directive("nodone"))
    assert parse(text) == (found, "Hi  a [[link]]  you")


@given(st.one_of(st.text(), st.dictionaries(st.text(), st.integers()), st.lists(st.text())))
def test_json_values_come_back(value: Any) -> None:
    """Closing brackets inside of them too."""
    assert parse(f"[[standin: a=x b={json.dumps(value)}]]")[0] == (Directive("a", "x", {"b": value}),)


@pytest.mark.parametrize("order", rows(TABLE, "unreadable directives"))
def test_unreadable_and_unknown_directives_are_errors(order: str) -> None:
    """A test with a misspelt order must not pass by accident."""
    with pytest.raises(DirectiveError):
        steps(f"[[standin:{order}]]")


# --- answers ---


def test_plain_text_gets_a_default_answer() -> None:
    """It repeats the words and counts the items; the plain model leaves directives out and obeys none."""
    assert steps("Hi [[standin: text=x]]", PLAIN) == (
        Message("You said: Hi\n\n*standin/plain* saw 1 input item."),
    )


def test_reasoning_models_think_first_unless_it_is_off() -> None:
    """Effort none and enabled false switch thinking off."""
    configs: list[Any] = [None, {"effort": "low"}, {"effort": "none"}, {"enabled": False}]
    assert [len(steps("Hi", THINKER, reasoning=config)) for config in configs] == [2, 2, 1, 1]


def test_several_directives_make_one_answer() -> None:
    """Their order in the text does not matter; those of earlier turns are past."""
    ask = "[[standin: cite=https://a.example title=A]] [[standin: text=Done]][[standin: reasoning=raw text=Hm parts=2]]"
    items = [user("[[standin: text=old]]"), {"role": "assistant", "content": "old"}, user(ask)]
    assert steps([*items, {"role": "developer", "content": "Context"}, user("Context for you.")]) == (
        Reasoning("raw", ("Hm (1)", "Hm (2)")),
        Message("Done", (Citation("https://a.example", "A"),)),
    )


def test_calls_come_in_rounds() -> None:
    """Two rounds of two parallel calls, numbered, whose outputs come back grouped or mixed; then the answer."""
    ask = user('[[standin: call=get_weather times=2 args={"at": "$round.$n"}]] [[standin: rounds=2]]')
    calls = [{**CALL, "call_id": f"c{number}"} for number in range(4)]
    outputs = [output(call) for call in calls]
    done = [*calls[:2], *outputs[:2]]
    planned = [steps([ask, *items]) for items in ([], done, [calls[0], outputs[0], calls[1], outputs[1]])]
    assert [[step.arguments for step in each] for each in planned] == [
        ['{"at": "1.1"}', '{"at": "1.2"}'],
        *[['{"at": "2.1"}', '{"at": "2.2"}']] * 2,
    ]
    (answer,) = steps([ask, *done, *calls[2:], *outputs[2:]])
    assert answer.text.count("`get_weather`: sunny") == 4


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ('call=get_weather args={"city": "$reference"}', Call("get_weather", '{"city": "#482913"}')),
        ('call=get_weather args="{broken"', Call("get_weather", "{broken")),
        ('quote="Rome"', Message("Rome 21 [#482913]")),
        ("quote=Paris", Message("Nothing says Paris.")),
        ('deltas=5]] [[standin: text="a b"', Message("a b a b a")),
    ],
)
def test_orders_may_refer_to_what_the_request_holds(order: str, expected: Any) -> None:
    """To the first reference of a shortened text, or to a line of an output of this turn."""
    said = {**output(CALL), "output": "Oslo 5\nRome 21 [#482913]"}
    ask = user(f"[[standin: {order}]] [[standin: rounds=2]]")
    assert steps([ask, CALL, said]) == (expected,)


@pytest.mark.parametrize(("text", "choice", "names"), rows(TABLE, "called tools"))
def test_tools_are_called_when_asked_for(text: str, choice: Any, names: list[str]) -> None:
    """In words, or by tool_choice, which forces no second call after the output."""
    planned = steps(text, tools=[WEATHER, CLOCK], tool_choice=choice)
    assert [step.name for step in planned if isinstance(step, Call)] == names
    answered = steps([user("Hi"), CALL, output(CALL)], tools=[WEATHER, CLOCK], tool_choice=choice)
    assert [type(step) for step in answered] == [Message]


def test_example_arguments_fit_the_schema() -> None:
    """Required properties get a value of their type."""
    properties = {"a": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"type": ["array", "null"]}, "d": {}}
    schema = {"type": "object", "properties": properties, "required": ["a", "b", "c"]}
    (call,) = steps("call get", tools=[{**CLOCK, "name": "get", "parameters": schema}])
    assert json.loads(call.arguments) == {"a": 1, "b": "x", "c": []}


@pytest.mark.parametrize(
    ("fields", "kinds"),
    rows(
        TABLE,
        "server tools",
        {"SEARCH": SEARCH, "FETCH": FETCH, "WEATHER": WEATHER},
    ),
)
def test_server_tools_run_inside(fields: dict[str, Any], kinds: list[str]) -> None:
    """Before the answer, which names what was found; the plugin always searches and shows citations alone."""
    planned = steps("Read https://a.example and search for cats.", **fields)
    assert [type(step).__name__ for step in planned] == kinds
    assert len(planned[-1].citations) == ("Search" in kinds or "plugins" in fields)


@pytest.mark.parametrize(
    ("ask", "ending", "cut", "unusual"),
    rows(TABLE, "deliveries"),
)
def test_delivery_directives_change_the_plan(ask: str, ending: str, cut: Any, unusual: Any) -> None:
    """Each of these changes one thing of it."""
    planned = plan_answer({"input": f"[[standin: {ask}]]"}, SCRIPT)
    assert (planned.ending, planned.cut) == (ending, Break(*cut) if cut else None)
    assert planned.delivery == Delivery(**unusual)


# --- Open WebUI's own prompts ---

TITLE = (
    '### Task:\nGenerate a concise title\nJSON format: { "title": "your concise title here" }\n'
    "<chat_history>\nUSER: [[standin: error=500]] how do whales sleep at night\n</chat_history>"
)
COMPACTION = (
    "### Task:\nSummarize the conversation history that will be compacted out.\n\n### Previous Summary:\nFish.\n\n"
    "### Messages Being Compacted:\n{messages}\n\n### Recent Messages Kept In Context:\nUSER: And now?"
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (TITLE, {"title": "How Do Whales Sleep"}),
        ('### Task:\nTags\nJSON format: { "tags": ["tag1"] }', {"tags": ["General", "Testing"]}),
        ('### Task:\nAnalyze\nin the format: { "queries": ["1"] }', {"queries": ["New chat"]}),
        ("### Task:\nRespond to the user query using the provided context\n[[standin: text={}]]", {}),
    ],
)
def test_task_prompts_get_json(text: str, answer: dict[str, Any]) -> None:
    """Directives in their history are no orders; a prompt for retrieval, which begins the same way, is no task."""
    (message,) = steps(text)
    assert json.loads(message.text) == answer
    queued = plan_answer({"input": text}, SCRIPT, ReplyOptions("[[standin: text=1]]"))
    assert queued.steps[0] in (Message("1"), message)


def test_a_compaction_is_answered_with_prose() -> None:
    """What was summarised before, and how the last five compacted messages of the user began."""
    lines = [f"USER: [[standin: error=500]] Question {number}\nASSISTANT: Yes." for number in range(7)]
    said = [f'The user said: "Question {number}".' for number in range(2, 7)]
    text = COMPACTION.format(messages="\n".join(lines))
    assert task_answer(text) == " ".join(["Fish.", *said, "The assistant answered."])


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
    assert is_summary_request(body) is asked


@pytest.mark.parametrize(
    ("first", "last", "begin", "end"),
    rows(TABLE, "quoted parts"),
)
def test_the_part_is_found_by_its_quotes(first: str, last: str, begin: int, end: int) -> None:
    """Whole, cut off, escaped or with other blanks; an exact match goes before a beginning."""
    asked = SummaryRequest.of({"input": [*CHAT, user(suffix(first, last))]})
    alone = SummaryRequest.of({"input": [*CHAT[begin:end], user(SUMMARY)]})
    assert asked
    assert alone
    assert asked.source == alone.source
    assert "error" not in asked.text()
    with pytest.raises(DirectiveError, match="no user message begins with 'Nobody'"):
        SummaryRequest.of({"input": [*CHAT, user(suffix("Nobody", last))]})


def test_a_transcript_names_its_speakers() -> None:
    """By the marks at the beginning of a line; before the first one it is anyone's."""
    text = "42 GB\nuser: Hi\nall\n[tool get] sunny\n<assistant>Warm.\n### User:\nIs tool use on?"
    asked = SummaryRequest.of({"instructions": SUMMARY, "input": f"<conversation>\n{text}\n</conversation>"})
    assert asked
    assert asked.source == (
        ("", "42 GB"), ("user", "Hi\nall"), ("tool", "sunny"), ("assistant", "Warm."), ("user", "Is tool use on?"),
    )  # fmt: skip
    assert (asked.instruction, asked.said_by("tool")) == (SUMMARY, ["42 GB", "sunny"])


def summary_plan(kind: str, model: catalogue.Model = SCRIPT, queued: str = "", **fields: Any) -> Plan:
    """The plan for a request for a summary of the chat."""
    body = {"input": [*CHAT, user(suffix("Before", "Thanks a"))], **fields}
    return plan_answer(body, model, ReplyOptions(queued, kind))


@pytest.mark.parametrize("limit", [None, 150])
def test_an_honest_summary_fits_and_keeps_details_and_demands(limit: int | None) -> None:
    """Within an eighth of the source and its output limit; only the user's demands are constraints."""
    thought, message = summary_plan("keep", THINKER, max_output_tokens=limit).steps
    assert isinstance(thought, Reasoning)
    assert isinstance(message, Message)
    said = json.loads(message.text)
    facts = ["12.5", "/srv/data", "2026-03-01"]
    assert said["key_facts"][: limit and 1] == facts[: limit and 1]
    assert said["constraints"] == [{"quote": "You must use 12.5 kg."}]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("junk", Plan((Message(PROSE),))),
        ("empty", Plan((Message(""),))),
        ("echo", Plan((Message(suffix("Before", "Thanks a")),))),
        ("calls", Plan((Call("save_summary", '{"summary_text": "A talk."}'),))),
        ("truncated", Plan(summary_plan("keep").steps, "max_output_tokens")),
        ("hang", Plan(delivery=Delivery(silent=True))),
        ("slow=2.5", Plan(summary_plan("keep").steps, delivery=Delivery(first_delay_seconds=2.5))),
        ("fail=eof after=3", Plan(summary_plan("keep").steps, cut=Break("eof", 3))),
        ("text=Mine", Plan((Message("Mine"),))),
        (
            "[[standin: junk]] [[standin: delay=0.1]]",
            Plan((Message(PROSE),), delivery=Delivery(delay_seconds=0.1)),
        ),
    ],
)
def test_each_kind_of_summarizer_answers_in_its_way(kind: str, expected: Plan) -> None:
    """Directives may precede a summary; queued ones stand above its kind."""
    assert summary_plan(kind) == expected
    assert summary_plan(kind, queued="[[standin: text=Queued]]").steps == (Message("Queued"),)
    assert summary_plan(kind, catalogue.BY_ID["standin/failing"]).refusal is not None


def test_the_reasoning_kind_only_reasons() -> None:
    """Whether or not its model does otherwise; and there are no kinds but these."""
    for model in (SCRIPT, THINKER, PLAIN):
        assert [type(step) for step in summary_plan("reasoning", model).steps] == [Reasoning]
    assert " ".join(sorted(KINDS)) == "calls echo empty hang junk keep reasoning slow truncated"
    for kind in ("forget", "slow=soon"):
        with pytest.raises(DirectiveError):
            summary_plan(kind)
