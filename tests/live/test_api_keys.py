"""Programs at the API of a real Open WebUI with an API key: the caller's own tools, formats, images and errors."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.support.files import PICTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.openai/gpt-5.2"
CONFIG = "/api/v1/auths/admin/config"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
STRICT = {**SCHEMA, "additionalProperties": False}
TOOL: Any = {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": SCHEMA}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": STRICT}}
WEATHER: Any = [{"role": "user", "content": 'Weather? [[standin: call=get_weather args={"city":"Paris"}]]'}]


@pytest.fixture(scope="module")
def client(open_webui: OpenWebUI) -> Iterator[openai.OpenAI]:
    """OpenAI's client with an API key of the administrator's."""
    api = open_webui.admin.api
    before = api.get(CONFIG)
    api.post(CONFIG, {**before, "ENABLE_API_KEYS": True})
    key = api.post("/api/v1/auths/api_key")["api_key"]
    with openai.OpenAI(base_url=f"{api.base_url}/api", api_key=key, max_retries=0) as client:
        yield client
    api.delete("/api/v1/auths/api_key")
    api.post(CONFIG, before)


def sent(standin: StandIn) -> dict[str, Any]:
    """The last request, valid to the letter."""
    request = standin.responses[-1]
    assert (request.status, request.warnings) == (200, [])
    body: dict[str, Any] = request.body
    return body


@pytest.mark.parametrize("stream", [True, False])
def test_the_callers_own_tools_are_called_by_the_caller(
    client: openai.OpenAI, standin: StandIn, *, stream: bool
) -> None:
    """None of the host's stand beside them; the result that the caller sends back reaches the model."""
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    options: Any = {"model": MODEL, "tools": [TOOL], "messages": WEATHER, "stream": stream}
    answer = client.chat.completions.create(**options, tool_choice=choice)
    if stream:
        deltas = [choice.delta for chunk in answer for choice in chunk.choices]
        (call,) = [call for delta in deltas for call in delta.tool_calls or []]
    else:
        (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    body = sent(standin)
    assert [tool["name"] for tool in body["tools"]] == ["get_weather"]
    assert body["tool_choice"] == {"type": "function", "name": "get_weather"}
    called = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": call.function.arguments},
    }
    options["messages"] = [
        *WEATHER,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": call.id, "content": "20 degrees"},
    ]
    answer = client.chat.completions.create(**options)
    assert not stream or [*answer]
    output = sent(standin)["input"][-1]
    assert (output["call_id"], output["output"]) == (call.id, "20 degrees")


def test_a_format_reaches_the_model(client: openai.OpenAI, standin: StandIn) -> None:
    """In the form of Responses."""
    client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Where?"}], response_format=FORMAT
    )
    assert sent(standin)["text"]["format"] == {
        "type": "json_schema",
        "name": "place",
        "strict": True,
        "schema": STRICT,
    }


def test_a_picture_reaches_the_model(client: openai.OpenAI, standin: StandIn) -> None:
    """Byte for byte, with its detail; the usage counts it."""
    url = f"data:image/png;base64,{base64.b64encode(PICTURES['image/png']).decode()}"
    content: Any = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}])
    part = sent(standin)["input"][-1]["content"][1]
    assert part == {"type": "input_image", "detail": "low", "image_url": url}
    assert answer.usage
    assert answer.usage.prompt_tokens > 0


@pytest.mark.parametrize("status", [400, 401, 402, 403])
def test_an_error_keeps_its_status(client: openai.OpenAI, standin: StandIn, status: int) -> None:
    """So that a program knows whether to try again."""
    standin.script({"do": f"error={status}", "times": 9})
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "one"}])
    assert caught.value.status_code == status


def test_without_a_chat_nothing_is_kept(client: openai.OpenAI, standin: StandIn) -> None:
    """Neither a marker in the text nor a name of a chat in the request."""
    chunks = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "one"}], stream=True
    )
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text.startswith("You said: one")
    assert "]: #" not in text
    assert {"session_id", "prompt_cache_key"}.isdisjoint(sent(standin))
