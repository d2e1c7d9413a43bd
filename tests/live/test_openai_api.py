"""The official OpenAI client at Open WebUI's own API, as phone apps use it: a stream without a page's socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.standin/script"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather by city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture
def client(open_webui: OpenWebUI) -> Iterator[openai.OpenAI]:
    api = open_webui.admin.api
    with openai.OpenAI(base_url=f"{api.base_url}/api", api_key=api.token, max_retries=0) as client:
        yield client


def asked(text: str) -> Any:
    return [{"role": "user", "content": text}]


def stream(client: openai.OpenAI, text: str, **options: Any) -> list[Any]:
    return [*client.chat.completions.create(model=MODEL, messages=asked(text), stream=True, **options)]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("", "stop"),
        ("[[standin: incomplete=max_output_tokens]]", "length"),
        ('[[standin: call=get_weather args={"city":"Paris"}]]', "tool_calls"),
    ],
)
def test_a_stream_ends_with_its_one_reason_and_its_usage(
    client: openai.OpenAI, order: str, reason: str
) -> None:
    """The host adds no end of its own."""
    text = f'[[standin: text="one two three"]] {order}'
    *chunks, last = stream(client, text, tools=[TOOL], stream_options={"include_usage": True})
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert (reasons, last.choices, last.usage.prompt_tokens > 0) == ([reason], [], True)


def test_a_whole_answer_has_text_and_usage(client: openai.OpenAI) -> None:
    """Without a stream."""
    answer = client.chat.completions.create(model=MODEL, messages=asked('[[standin: text="one two"]]'))
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one two", "stop")
    assert answer.usage
    assert answer.usage.total_tokens > 0


def test_errors_are_raised(client: openai.OpenAI) -> None:
    """With their status where nothing has begun, and in the middle of a stream as well."""
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=MODEL, messages=asked("[[standin: error=402]]"))
    assert caught.value.status_code == 402
    with pytest.raises(openai.APIError, match="reference"):
        stream(client, '[[standin: text="one two three"]] [[standin: fail=failed after=2]]')
