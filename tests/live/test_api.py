"""OpenAI's client with an API key at a real Open WebUI: a caller's own tools, formats, images, streams and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from scripts.harness.openwebui import Account
from scripts.standin import StandIn
from tests.live.items import texts_of
from tests.live.models import MODEL, SCRIPTED
from tests.support.files import PICTURES, data_url

pytestmark = pytest.mark.live

CONFIG = "/api/v1/auths/admin/config"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STRICT = {**SCHEMA, "additionalProperties": False}
TOOL: Any = {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": SCHEMA}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": STRICT}}


@pytest.fixture(scope="module")
def ask(admin: Account) -> Iterator[Callable[..., Any]]:
    """Sends messages as a program does, with an API key of the administrator's."""
    api = admin.api
    before = api.get(CONFIG)
    api.post(CONFIG, {**before, "ENABLE_API_KEYS": True})
    key = api.post("/api/v1/auths/api_key")["api_key"]

    def ask(text: Any, *, model: str = MODEL, **options: Any) -> Any:
        messages: Any = text if isinstance(text, list) else [{"role": "user", "content": text}]
        answer: Any = client.chat.completions.create(model=model, messages=messages, **options)
        return [*answer] if options.get("stream") else answer

    with openai.OpenAI(base_url=f"{api.base_url}/api", api_key=key, max_retries=0) as client:
        yield ask
    api.delete("/api/v1/auths/api_key")
    api.post(CONFIG, before)


def sent(standin: StandIn) -> dict[str, Any]:
    """The last request, valid to the letter."""
    request = standin.responses[-1]
    assert (request.status, request.warnings) == (200, [])
    return dict(request.body)


def deltas(chunks: list[Any]) -> list[Any]:
    """What a stream adds, piece by piece."""
    return [choice.delta for chunk in chunks for choice in chunk.choices]


def written(chunks: list[Any]) -> str:
    """The text of a stream."""
    return "".join(delta.content or "" for delta in deltas(chunks))


@pytest.mark.parametrize("stream", [True, False])
def test_the_callers_own_tools_are_called_by_the_caller(
    ask: Callable[..., Any], standin: StandIn, *, stream: bool
) -> None:
    """None of the host's stand beside them; the result that the caller sends back reaches the model."""
    asked: Any = [{"role": "user", "content": '[[standin: call=get_weather args={"city":"Paris"}]] Weather?'}]
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    answer = ask(asked, tools=[TOOL], tool_choice=choice, stream=stream)
    said = deltas(answer) if stream else [choice.message for choice in answer.choices]
    (call,) = [call for each in said for call in each.tool_calls or []]
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
    ask(asked, tools=[TOOL], stream=stream)
    output = sent(standin)["input"][-1]
    assert (output["call_id"], output["output"]) == (call.id, "20 degrees")


def test_parameters_formats_and_pictures_arrive_as_those_of_responses(
    ask: Callable[..., Any], standin: StandIn
) -> None:
    """The answer is one completion with text, reason and usage."""
    url = data_url("image/png", PICTURES["image/png"])
    picture = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    question = {"role": "user", "content": [{"type": "text", "text": "Where is it?"}, picture]}
    options = {"max_tokens": 500, "reasoning_effort": "high", "seed": 1, "response_format": FORMAT}
    answer = ask([{"role": "system", "content": "Be brief."}, question], **options)
    body = sent(standin)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens > answer.usage.prompt_tokens > 0
    assert (body["max_output_tokens"], body["reasoning"]["effort"]) == (500, "high")
    assert {"max_tokens", "reasoning_effort", "seed"}.isdisjoint(body)
    assert [item["role"] for item in body["input"]] == ["system", "user"]
    assert body["input"][1]["content"][1] == {"type": "input_image", "detail": "low", "image_url": url}
    assert body["text"]["format"] == {"type": "json_schema", **FORMAT["json_schema"]}


def test_a_stream_has_one_end_and_nothing_of_a_chat(ask: Callable[..., Any], standin: StandIn) -> None:
    """Neither a marker nor a name of a chat in the request; thinking stands apart, and the host adds no end."""
    orders = "[[standin: reasoning=summary]] [[standin: incomplete=max_output_tokens]] one two three four"
    *chunks, last = ask(orders, model=SCRIPTED, stream=True, stream_options={"include_usage": True})
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert (reasons, last.choices, last.usage.prompt_tokens > 0) == (["length"], [], True)
    assert written(chunks).startswith("You said")
    assert "]: #" not in written(chunks)
    assert any(getattr(delta, "reasoning_content", None) for delta in deltas(chunks))
    assert {"session_id", "prompt_cache_key"}.isdisjoint(sent(standin))


def test_an_error_keeps_its_status(ask: Callable[..., Any], standin: StandIn) -> None:
    """So that a program knows whether to try again; in a stream it is the last chunk, after text or without."""
    with pytest.raises(openai.APIError, match="reference"):
        ask('[[standin: text="one two three"]] [[standin: fail=failed after=2]]', model=SCRIPTED, stream=True)
    standin.script("error=402", times=9)
    with pytest.raises(openai.APIStatusError) as whole:
        ask("one")
    with pytest.raises(openai.APIError) as streamed:
        ask("one", stream=True)
    assert (whole.value.status_code, streamed.value.code) == (402, "insufficient_quota")


def test_commands_are_answered_in_plain_text(ask: Callable[..., Any], standin: StandIn) -> None:
    """With streaming and without; what the caller sends back is known as ours."""
    whole = ask("/help").choices[0].message.content
    assert whole == written(ask("/help", stream=True))
    assert whole.startswith(f"{ANSWER_MARK}Type one of these commands")
    assert standin.responses == []
    command, answer = {"role": "user", "content": "/help"}, {"role": "assistant", "content": whole}
    ask([command, answer, {"role": "user", "content": "Hi."}])
    assert texts_of(sent(standin)["input"]) == ["Hi."]
