"""OpenAI's client with an API key at a real Open WebUI: a caller's own tools, formats, images, streams and errors."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from open_webui_openrouter_pipe.history.reading import ANSWER_MARK
from tests.live.chats import MODEL, SCRIPTED, texts_of
from tests.support.files import PICTURES, data_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

CONFIG = "/api/v1/auths/admin/config"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STRICT = {**SCHEMA, "additionalProperties": False}
TOOL: Any = {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": SCHEMA}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": STRICT}}
ORDER = '[[standin: call=get_weather args={"city":"Paris"}]]'
BROKEN = '[[standin: text="one two three"]] [[standin: fail=failed after=2]]'


class Program:
    """A caller of the API, by one of its models."""

    def __init__(self, client: openai.OpenAI) -> None:
        self.client = client

    def ask(self, text: Any, *, model: str = MODEL, **options: Any) -> Any:
        """Send one message, or several."""
        messages: Any = text if isinstance(text, list) else [{"role": "user", "content": text}]
        return self.client.chat.completions.create(model=model, messages=messages, **options)

    def stream(self, text: Any, **options: Any) -> list[Any]:
        """The chunks of a streamed answer."""
        return [*self.ask(text, stream=True, **options)]


@pytest.fixture(scope="module")
def program(open_webui: OpenWebUI) -> Iterator[Program]:
    """A program with an API key of the administrator's."""
    api = open_webui.admin.api
    before = api.get(CONFIG)
    api.post(CONFIG, {**before, "ENABLE_API_KEYS": True})
    key = api.post("/api/v1/auths/api_key")["api_key"]
    with openai.OpenAI(base_url=f"{api.base_url}/api", api_key=key, max_retries=0) as client:
        yield Program(client)
    api.delete("/api/v1/auths/api_key")
    api.post(CONFIG, before)


def sent(standin: StandIn) -> dict[str, Any]:
    """The last request, valid to the letter."""
    request = standin.responses[-1]
    assert (request.status, request.warnings) == (200, [])
    body: dict[str, Any] = request.body
    return body


def written(chunks: list[Any]) -> str:
    """The text of a stream."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


@pytest.mark.parametrize("stream", [True, False])
def test_the_callers_own_tools_are_called_by_the_caller(
    program: Program, standin: StandIn, *, stream: bool
) -> None:
    """None of the host's stand beside them; the result that the caller sends back reaches the model."""
    asked: Any = [{"role": "user", "content": f"Weather? {ORDER}"}]
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    answer = program.ask(asked, tools=[TOOL], tool_choice=choice, stream=stream)
    if stream:
        deltas = [choice.delta for chunk in answer for choice in chunk.choices]
        (call,) = [call for delta in deltas for call in delta.tool_calls or []]
    else:
        (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    body = sent(standin)
    assert [tool["name"] for tool in body["tools"]] == ["get_weather"]
    assert body["tool_choice"] == {"type": "function", "name": "get_weather"}
    function = {"name": call.function.name, "arguments": call.function.arguments}
    called = {"id": call.id, "type": "function", "function": function}
    asked += [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": call.id, "content": "20 degrees"},
    ]
    answer = program.ask(asked, tools=[TOOL], stream=stream)
    assert not stream or [*answer]
    output = sent(standin)["input"][-1]
    assert (output["call_id"], output["output"]) == (call.id, "20 degrees")


def test_parameters_and_formats_arrive_as_those_of_responses(program: Program, standin: StandIn) -> None:
    """The answer is one completion with text, reason and usage."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    options = {"max_tokens": 500, "reasoning_effort": "high", "seed": 1, "response_format": FORMAT}
    answer = program.ask(messages, **options)
    body = sent(standin)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens > 0
    assert (body["max_output_tokens"], body["reasoning"]["effort"]) == (500, "high")
    assert {"max_tokens", "reasoning_effort", "seed"}.isdisjoint(body)
    assert [item["role"] for item in body["input"]] == ["system", "user"]
    schema = {"type": "json_schema", "name": "place", "strict": True, "schema": STRICT}
    assert body["text"]["format"] == schema


def test_a_picture_reaches_the_model(program: Program, standin: StandIn) -> None:
    """Byte for byte, with its detail; the usage counts it."""
    url = data_url("image/png", PICTURES["image/png"])
    picture = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    answer = program.ask([message])
    part = sent(standin)["input"][-1]["content"][1]
    assert part == {"type": "input_image", "detail": "low", "image_url": url}
    assert base64.b64decode(url.partition(",")[2]) == PICTURES["image/png"]
    assert answer.usage.prompt_tokens > 0


def test_without_a_chat_nothing_is_kept(program: Program, standin: StandIn) -> None:
    """Neither a marker in the text nor a name of a chat in the request; thinking stands apart."""
    chunks = program.stream("one")
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert written(chunks).startswith("You said: one")
    assert "]: #" not in written(chunks)
    assert any(getattr(delta, "reasoning_content", None) for delta in deltas)
    assert {"session_id", "prompt_cache_key"}.isdisjoint(sent(standin))


@pytest.mark.parametrize(
    ("order", "reason"),
    [("", "stop"), ("[[standin: incomplete=max_output_tokens]]", "length"), (ORDER, "tool_calls")],
)
def test_a_stream_ends_with_its_one_reason_and_its_usage(program: Program, order: str, reason: str) -> None:
    """The host adds no end of its own."""
    text, usage = f'[[standin: text="one two three"]] {order}', {"include_usage": True}
    *chunks, last = program.stream(text, model=SCRIPTED, tools=[TOOL], stream_options=usage)
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert (reasons, last.choices, last.usage.prompt_tokens > 0) == ([reason], [], True)


@pytest.mark.parametrize("status", [400, 401, 402, 403])
def test_an_error_keeps_its_status(program: Program, standin: StandIn, status: int) -> None:
    """So that a program knows whether to try again."""
    standin.script({"do": f"error={status}", "times": 9})
    with pytest.raises(openai.APIStatusError) as caught:
        program.ask("one")
    assert caught.value.status_code == status


def test_an_error_in_a_stream_is_its_last_chunk(program: Program, standin: StandIn) -> None:
    """In the form of OpenAI's API, whether the answer had begun or not."""
    with pytest.raises(openai.APIError, match="reference"):
        program.stream(BROKEN, model=SCRIPTED)
    standin.script({"do": "error=402", "times": 9})
    with pytest.raises(openai.APIError) as caught:
        program.stream("one")
    assert caught.value.code == "insufficient_quota"


def test_commands_are_answered_in_plain_text(program: Program, standin: StandIn) -> None:
    """With streaming and without; what the caller sends back is known as ours."""
    whole = program.ask("/help").choices[0].message.content
    assert whole == written(program.stream("/help"))
    assert whole.startswith(f"{ANSWER_MARK}Type one of these commands")
    assert standin.responses == []
    command, answer = {"role": "user", "content": "/help"}, {"role": "assistant", "content": whole}
    program.ask([command, answer, {"role": "user", "content": "Hi."}])
    assert texts_of(sent(standin)["input"]) == ["Hi."]
