"""A small client of the stand-in: what the tests send, and the events they get back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from scripts.standin import StandIn

KEY = "sk-or-test"
SUMMARY = "Write summary_text, key_facts, open_questions, decisions and action_items."
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather by city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CLOCK = {"type": "function", "name": "get_time", "parameters": None}


def user(text: str) -> dict[str, Any]:
    """A user message."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def output(call: dict[str, Any], text: str = "sunny") -> dict[str, Any]:
    """The output of a call."""
    return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


def events_of(body: str) -> list[dict[str, Any]]:
    """The events of a stream's text, without comments and [DONE]."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def said(answer: httpx.Response) -> str:
    """The words of a refusal: the provider's own, where it is one of a provider, else the router's."""
    error = answer.json()["error"]
    raw = (error.get("metadata") or {}).get("raw")
    return str((json.loads(raw)["error"] if raw and error["code"] != "invalid_prompt" else error)["message"])


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests with a good key."""

    standin: StandIn
    http: httpx.Client

    def post(self, given: Any, **fields: Any) -> httpx.Response:
        """POST /responses; the model is ``standin/script`` unless the fields name another."""
        body = {"model": "standin/script", "input": given, **fields}
        return self.http.post("/responses", json=body)

    def done(self, given: Any, **fields: Any) -> dict[str, Any]:
        """The finished response object of an unstreamed request."""
        answer = self.post(given, **{"include": ["reasoning.encrypted_content"], **fields})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def stream(self, given: Any, **fields: Any) -> list[dict[str, Any]]:
        """The events of a streamed request."""
        answer = self.post(given, stream=True, include=["reasoning.encrypted_content"], **fields)
        assert answer.status_code == 200, answer.text
        return events_of(answer.text)
