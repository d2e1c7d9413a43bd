"""What a request is answered with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.standin import catalogue
from scripts.standin.directives import DirectiveError
from scripts.standin.plan import Break, Call, Citation, Delivery, Message, Plan, Reasoning
from scripts.standin.planner import ReplyOptions, plan_answer
from tests.standin.client import CLOCK, WEATHER, output, user

PLAIN = catalogue.BY_ID["standin/plain"]
SCRIPT = catalogue.BY_ID["standin/script"]
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}


def steps(given: Any, model: catalogue.Model = SCRIPT, **fields: Any) -> tuple[Any, ...]:
    """The steps of the plan for an input."""
    return plan_answer({"input": given, **fields}, model).steps


def test_plain_text_gets_a_default_answer() -> None:
    """Without an order the answer repeats the words and counts the items."""
    assert steps("Hello", PLAIN) == (Message("You said: Hello\n\n*standin/plain* saw 1 input item."),)


def test_the_plain_model_ignores_directives() -> None:
    """It leaves directives out of its echo and obeys none."""
    assert steps("Hi [[standin: text=x]]", PLAIN)[0].text.startswith("You said: Hi\n")


def test_reasoning_models_think_first_unless_it_is_off() -> None:
    """Effort none and enabled false switch thinking off."""
    model = catalogue.BY_ID["openai/gpt-5.2"]
    counts = [
        len(steps("Hi", model, reasoning=config))
        for config in (None, {"effort": "low"}, {"effort": "none"}, {"enabled": False})
    ]
    assert counts == [2, 2, 1, 1]


def test_several_directives_make_one_answer() -> None:
    """Their order in the text does not matter."""
    ask = (
        '[[standin: cite=https://a.example title=A]] [[standin: text="Done"]] '
        '[[standin: reasoning=raw text="Hm" parts=2]]'
    )
    assert steps(ask) == (
        Reasoning("raw", ("Hm (1)", "Hm (2)")),
        Message("Done", (Citation("https://a.example", "A"),)),
    )


def test_calls_come_in_rounds() -> None:
    """Two rounds of two parallel calls, numbered, then the answer."""
    ask = user(
        '[[standin: call=get_weather times=2 args={"round": "$round", "n": "$n"}]] [[standin: rounds=2]]'
    )
    calls = [{**CALL, "call_id": f"c{number}"} for number in range(4)]
    outputs = [output(call) for call in calls]
    grouped = [*calls[:2], *outputs[:2], *calls[2:], *outputs[2:]]
    mixed = [calls[0], outputs[0], calls[1], outputs[1]]
    second = (
        Call("get_weather", '{"round": "2", "n": "1"}'),
        Call("get_weather", '{"round": "2", "n": "2"}'),
    )
    assert [step.arguments for step in steps([ask])] == [
        '{"round": "1", "n": "1"}',
        '{"round": "1", "n": "2"}',
    ]
    assert steps([ask, *grouped[:4]]) == second
    assert steps([ask, *mixed]) == second
    (answer,) = steps([ask, *grouped])
    assert answer.text.count("`get_weather`: sunny") == 4


def test_an_answer_may_be_a_line_of_an_output() -> None:
    """As a model's is that reads what it has looked up."""
    ask = user('[[standin: call=get_weather]] [[standin: quote="Rome"]]')
    said = {**output(CALL), "output": "Oslo 5\nRome 21"}
    assert steps([ask, CALL, said]) == (Message("Rome 21"),)
    assert steps([ask, CALL, output(CALL)]) == (Message("Nothing says Rome."),)


def test_a_call_may_name_what_was_shortened() -> None:
    """The first reference in the input, wherever it stands."""
    fact = {**output(CALL), "output": "[Tool: 9 rows] [#482913]"}
    ask = user('[[standin: call=get_weather args={"city": "$reference"}]]')
    (named,) = steps([user("Hi"), CALL, fact, ask])
    assert named.arguments == '{"city": "#482913"}'


def test_arguments_may_be_any_text() -> None:
    """A string is sent as it stands, broken JSON too."""
    assert steps('[[standin: call=get_weather args="{broken"]]') == (Call("get_weather", "{broken"),)


@pytest.mark.parametrize(
    ("text", "choice", "names"),
    [
        ("Please call get_weather and call `get_time`", "auto", ["get_weather", "get_time"]),
        ("Please call my mother", "auto", []),
        ("call get_weather", "none", []),
        ("Hi", "required", ["get_weather"]),
        ("Hi", {"type": "function", "name": "get_time"}, ["get_time"]),
    ],
)
def test_tools_are_called_when_asked_for(text: str, choice: Any, names: list[str]) -> None:
    """In words, or by tool_choice."""
    planned = steps(text, tools=[WEATHER, CLOCK], tool_choice=choice)
    assert [step.name for step in planned if isinstance(step, Call)] == names


def test_a_forced_tool_is_called_once() -> None:
    """After its output the answer comes, though tool_choice still demands a call."""
    planned = steps([user("Hi"), CALL, output(CALL)], tools=[WEATHER], tool_choice="required")
    assert [type(step) for step in planned] == [Message]


def test_example_arguments_fit_the_schema() -> None:
    """Required properties get a value of their type."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"enum": ["x", "y"]},
            "c": {"type": ["array", "null"]},
            "d": {"type": "string"},
        },
        "required": ["a", "b", "c"],
    }
    (call,) = steps("call get", tools=[{**CLOCK, "name": "get", "parameters": schema}])
    assert json.loads(call.arguments) == {"a": 1, "b": "x", "c": []}


def test_only_the_last_run_of_user_messages_counts() -> None:
    """ReplyOptions of earlier turns are past; developer messages at the end do not hide the order."""
    items = [
        user("[[standin: text=old]]"),
        {"role": "assistant", "content": "old"},
        user("[[standin: text=new]]"),
        {"role": "developer", "content": "Context"},
        user("Context for you."),
    ]
    assert steps(items) == (Message("new"),)
    assert steps([*items[:2], user("Hi")])[0].text.startswith("You said: Hi")


TASKS = {
    "title": (
        '### Task:\nGenerate a concise title\nJSON format: { "title": "your concise title here" }\n'
        "<chat_history>\nUSER: [[standin: error=500]] how do whales sleep at night\n</chat_history>"
    ),
    "tags": '### Task:\nGenerate tags\nJSON format: { "tags": ["tag1", "tag2"] }',
    "follow_ups": '### Task:\nSuggest\nJSON format: { "follow_ups": ["1", "2"] }',
    "queries": '### Task:\nAnalyze\nrespond in the format: { "queries": ["1"] }',
}


@pytest.mark.parametrize("name", TASKS)
def test_task_prompts_get_json(name: str) -> None:
    """Directives in the history of such a prompt are not orders."""
    (message,) = steps(TASKS[name])
    assert list(json.loads(message.text)) == [name]
    assert plan_answer({"input": TASKS[name]}, SCRIPT).refusal is None


def test_a_queued_answer_stands_above_a_task() -> None:
    """A test that queues an answer gets it, whatever the prompt."""
    plan = plan_answer({"input": TASKS["title"]}, SCRIPT, ReplyOptions(queued="[[standin: text=Mine]]"))
    assert plan.steps == (Message("Mine"),)


def test_a_title_is_made_of_what_was_said() -> None:
    """The first words of the last question, without its directives."""
    (message,) = steps(TASKS["title"])
    assert json.loads(message.text) == {"title": "How Do Whales Sleep"}


def test_retrieval_prompts_are_not_tasks() -> None:
    """Open WebUI's template for retrieved context begins the same way."""
    text = "### Task:\nRespond to the user query using the provided context\n[[standin: text=ok]]"
    assert steps(text) == (Message("ok"),)


@pytest.mark.parametrize(
    ("ask", "plan"),
    [
        ("fail=eof after=5", Plan(cut=Break("eof", 5))),
        ("incomplete=content_filter", Plan(ending="content_filter")),
        ("wire=crlf split=3 comments=0 bare=1 every=4", Plan(delivery=Delivery(0, 0, "\r\n", 3, 0, True, 4))),  # noqa: FBT003
        ("delay=0.5 first=2", Plan(delivery=Delivery(2, 0.5))),
        ("late=seal", Plan(delivery=Delivery(late_seals=True))),
        ("nodone", Plan(delivery=Delivery(done=False))),
        ("big=10", Plan(delivery=Delivery(big_bytes=10))),
        ("slow=3", Plan(delivery=Delivery(delay_seconds=0.1))),
    ],
)
def test_delivery_directives_change_the_plan(ask: str, plan: Plan) -> None:
    """Each of these changes one thing of the plan."""
    planned = plan_answer({"input": f"[[standin: {ask}]]"}, SCRIPT)
    assert (planned.cut, planned.ending, planned.delivery) == (plan.cut, plan.ending, plan.delivery)


def test_the_number_of_deltas_can_be_set() -> None:
    """So many words."""
    (message,) = steps('[[standin: deltas=5]] [[standin: text="a b"]]')
    assert message.text == "a b a b a"


@pytest.mark.parametrize(
    "ask", ["dance", "reasoning=loud", "rounds=many", "fail=softly", "wire=cr", "late=never", "error=x"]
)
def test_unknown_directives_are_errors(ask: str) -> None:
    """A test with a misspelt order must not pass by accident."""
    with pytest.raises(DirectiveError):
        plan_answer({"input": f"[[standin: {ask}]]"}, SCRIPT)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("refuse=temperature", "Unsupported parameter: 'temperature' is not supported with this model."),
        (
            "refuse=reasoning.effort values=low,medium",
            "Unsupported value: 'xhigh' is not supported with this model. Supported values are: 'low', 'medium'.",
        ),
        ("refuse=top_p", None),
        ("refuse=reasoning.effort values=low,xhigh", None),
    ],
)
def test_a_parameter_can_be_refused(order: str, said: str | None) -> None:
    """In OpenAI's words, while the request holds it, and if values are named while it has another one."""
    body = {"input": f"[[standin: {order}]]", "temperature": 0.5, "reasoning": {"effort": "xhigh"}}
    refusal = plan_answer(body, SCRIPT).refusal
    raw = json.loads((refusal.metadata or {})["raw"])["error"] if refusal else None
    assert (raw and raw["message"], refusal and refusal.status) == (said, said and 400)


@pytest.mark.parametrize(("family", "body"), [("text", "Bad gateway"), ("empty", "")])
def test_an_error_can_have_no_form_at_all(family: str, body: str) -> None:
    """What stands before the service may answer with a line of text, or with nothing."""
    refusal = plan_answer(
        {"input": f'[[standin: error=502 family={family} message="Bad gateway"]]'}, SCRIPT
    ).refusal
    assert refusal is not None
    assert (refusal.body(), refusal.content_type()) == (body, "text/plain")
