"""What the pipe sends in a session, as the stand-in's log has it: the requests, and the name of each field.

Two sessions: an ordinary one, in which only the key is set, and one that switches on whatever adds something to a
request. Owns what is done in them; what the fields are for stands in docs/privacy.md.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from open_webui_openrouter_pipe.host.switches import CHOSEN
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Page, PipeInProcess
from scripts.standin import StandIn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scripts.standin.state import RecordedRequest

Json = dict[str, Any]
Kind = Literal["answer", "task", "summary"]

SENT = {200, 202}
SOON_SECONDS = 0.1
USER_ID = "the-id-of-the-user"
CHAT_ID = "the-id-of-the-chat"
OPENAI = "openai/gpt-5.2"
UNCACHED = "mistralai/mistral-large-2512"
"""Has no cache, so that a summary is asked for by itself."""
LONG = "Explain how the lock of a canal works. " * 1200
"""A question that is long enough to be summarized, with an answer that repeats it."""
AFTER = ("And then?", "Why?", "How deep?", "How old?")
"""The newest turns, which are not."""
FORMS = frozenset({"message", "reasoning", "function_call", "function_call_output"})
"""Items that the pipe writes or reads field by field; what others hold is their tool's own."""
OPAQUE = ("].parameters", "text.format.schema", "trace")
"""Fields whose names inside are those of a tool, a schema or a caller."""

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n1 0 obj <</Type /Page>> endobj\n%%EOF"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)
MP4 = b"\x00\x00\x00\x18ftypisom" + bytes(24)


def data_url(kind: str, content: bytes) -> str:
    """Content as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


PICTURE: Json = {"type": "image_url", "image_url": {"url": data_url("image/png", PNG)}}
DOCUMENT: Json = {
    "type": "file",
    "file": {"filename": "minutes.pdf", "file_data": data_url("application/pdf", PDF)},
}
RECORDING: Json = {
    "type": "input_audio",
    "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"},
}
FILM: Json = {"type": "video_url", "video_url": {"url": data_url("video/mp4", MP4)}}


@dataclass(frozen=True, slots=True)
class Visit:
    """One chat: its settings, its model, what is attached to its first message, and the messages."""

    model: str
    messages: tuple[str, ...]
    attached: tuple[Json, ...] = ()
    has_tools: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    valves: Mapping[str, Any] = field(default_factory=dict)
    advanced: Mapping[str, Any] = field(default_factory=dict)
    user_valves: Mapping[str, Any] = field(default_factory=dict)
    is_cut: bool = False
    """Whether another answer follows that is cut, so that its bill is asked for later."""


ORDINARY = (
    Visit(
        OPENAI,
        (
            '[[standin: reasoning=summary]] [[standin: call=get_weather args={"city": "Paris"}]] Is it warm?',
            LONG,
            *AFTER,
            "/summarize",
            "And now?",
        ),
        attached=(PICTURE, DOCUMENT),
    ),
    Visit(UNCACHED, (LONG, *AFTER, "/summarize", "And now?")),
)
ROUTING = {
    "PROVIDER_ORDER": "openai",
    "PROVIDER_ONLY": "openai, azure",
    "PROVIDER_IGNORE": "deepinfra",
    "PROVIDER_SORT": "price",
    "QUANTIZATIONS": "bf16, unknown",
    "DATA_COLLECTION": "deny",
    "REQUIRE_PARAMETERS": True,
    "MAX_PRICE_INPUT": 20,
    "MAX_PRICE_OUTPUT": 40,
}
PARAMETERS: Json = {
    "temperature": 1,
    "top_p": 1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "stop": ["END"],
    "max_tokens": 4000,
    "max_tool_calls": 4,
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "context": "auto", "mode": "standard"},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": {"type": "object"}},
    },
    "truncation": "disabled",
    "safety_identifier": "somebody",
    "prompt_cache_options": {"mode": "explicit"},
    "stop_server_tools_when": [{"type": "step_count_is", "step_count": 4}],
    "plugins": [{"id": "response-healing"}],
}
EVERYTHING = (
    Visit(
        OPENAI,
        ("Hello", "And now?"),
        parameters=PARAMETERS,
        valves={"SEND_IDENTITY": "trace"},
        advanced={
            **ROUTING,
            "HTTP_REFERER": "https://chat.example",
            "APP_TITLE": "Chat",
            "SERVICE_TIER": "flex",
            "FALLBACK_MODELS": "openai/gpt-4o",
        },
    ),
    Visit(
        "standin/plain",
        ("Search the web for tall cats.", "Thank you."),
        valves={"WEB_SEARCH": "on"},
        advanced={"WEB_SEARCH_ENGINE": "exa"},
        attached=(RECORDING, FILM),
    ),
    Visit(
        OPENAI,
        ("[[standin: tool=advisor]] Which one?", "Thank you."),
        parameters={CHOSEN: dict.fromkeys(("advisor", "datetime", "image_generation"), "on")},
        advanced={"SERVER_TOOLS": "advisor, datetime, image_generation=openai/gpt-5-image"},
    ),
    Visit(
        "standin/pictures-only",
        ("Draw a cat.",),
        has_tools=False,
        parameters={"top_k": 40, "top_logprobs": 2},
        user_valves={"IMAGE_ASPECT_RATIO": "16:9", "IMAGE_SIZE": "2K"},
    ),
    Visit("openrouter/auto", ("Hello",), user_valves={"ROUTER_TIER": "low"}),
    Visit("mistralai/mistral-small-8k", ("Hello",), has_tools=False),
    Visit(
        "standin/film",
        ("It moves. [[video: polls=0 url=https://10.0.0.1/film.mp4]]",),
        has_tools=False,
        attached=(PICTURE,),
    ),
    Visit("openai/gpt-4o-mini-tts", ("Hello",), has_tools=False),
    Visit("openai/whisper-large-v3", ("Hello",), attached=(RECORDING,), has_tools=False),
    Visit("openai/gpt-image-2", ("Draw a cat.",), has_tools=False),
    Visit("deepseek/deepseek-v3.2", ("What does it say?",), attached=(DOCUMENT,)),
    Visit(
        "anthropic/claude-sonnet-4.5",
        ("[[standin: call=get_weather]] Is it warm?", "And now?"),
        valves={"ZDR": True, "MODEL_FILTERS": "zdr"},
    ),
    Visit(
        "anthropic/claude-sonnet-4.5",
        ("Hello",),
        parameters={"verbosity": "low"},
        advanced={"CACHE_TTL": "1h"},
        is_cut=True,
    ),
)


def sessions() -> tuple[list[RecordedRequest], list[RecordedRequest]]:
    """The requests of the ordinary session, and of the one that switches everything on."""
    return run(ORDINARY), run(EVERYTHING)


def run(visits: Iterable[Visit]) -> list[RecordedRequest]:
    """Make the visits, each with a pipe and a stand-in of its own, and return all that was asked of the stand-in.

    Raises:
        RuntimeError: The stand-in refused a request, which would not be in the log as it is with OpenRouter.
    """
    requests = [request for visit in visits for request in asyncio.run(_visit(visit))]
    # a bill is asked for until it is there
    asked = [request for request in requests if not request.path.endswith("/generation")]
    if refused := [f"{request.status} {request.error}" for request in asked if request.status not in SENT]:
        raise RuntimeError(f"the stand-in refused a request: {refused}")
    return requests


def kind_of(request: RecordedRequest) -> Kind:
    """What a request to /responses is for."""
    if request.is_summary:
        return "summary"
    last = request.body["input"][-1]
    return "task" if "### Task" in str(last.get("content")) else "answer"


def fields_of(requests: Iterable[RecordedRequest]) -> dict[str, set[Kind]]:
    """The names of all fields in the bodies, with the kinds of requests that have them."""
    found = defaultdict[str, set[Kind]](set)
    for request in requests:
        if request.path == "/responses":
            for path in _paths(request.body, ""):
                found[path].add(kind_of(request))
    return dict(found)


def headers_of(requests: Iterable[RecordedRequest]) -> dict[str, set[str]]:
    """The names of all headers, with the paths of the requests that have them."""
    found = defaultdict[str, set[str]](set)
    for request in requests:
        for name in request.headers:
            found[name].add(request.path)
    return dict(found)


def _paths(value: Any, path: str) -> Iterator[str]:
    """The paths of the fields in a JSON value; an object in a list is named by its type: `input[message].role`."""
    if path.endswith(OPAQUE):
        yield path
    elif isinstance(value, dict) and value.keys() != {"type"}:
        for name, inner in value.items():
            if name != "type":
                yield from _paths(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for each in value:
            kind = str(each.get("type", ""))
            if path == "input" and kind not in FORMS:
                yield "input[other]"
            else:
                yield from _paths(each, f"{path}[{kind}]")
    else:
        yield path


async def _visit(visit: Visit) -> list[RecordedRequest]:
    with tempfile.TemporaryDirectory() as folder, StandIn(telling_seconds=0) as standin:
        host = PipeInProcess(
            Path(folder), base_url=standin.base_url, **visit.valves, ADVANCED=json.dumps(dict(visit.advanced))
        )
        async with host as pipe:
            tools = {"get_weather": lambda _: "20 degrees"} if visit.has_tools else {}
            page = Page(pipe, visit.model, tools=tools, chat_id=CHAT_ID)
            page.system, page.attached, page.parameters = "You are kind.", visit.attached, visit.parameters
            page.metadata = {"variables": {"{{CURRENT_TIMEZONE}}": "Europe/Berlin"}}
            page.user = {"id": USER_ID, "role": "admin", "valves": UserValves(**visit.user_valves)}
            for text in visit.messages:
                answer = await page.ask(text)
                if answer.error:
                    raise RuntimeError(answer.error)
            await page.title()
            if visit.is_cut:
                host.app.worker.own.late_bills.waits_seconds = (0.0,)
                await page.ask("[[standin: fail=eof after=2]]")
                await asyncio.sleep(SOON_SECONDS)
        return standin.requests
