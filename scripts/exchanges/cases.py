"""What is asked: small exchanges, as data.

A case has questions that a page asks the pipe, a body that is sent as it stands, or a path that is read. In a body `$0`
and `$1` are the ids of the models that the case needs, and `$long5` is a long text five times. The directive of a
question orders from the stand-in what a model does by itself.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.host.switches import CHOSEN
from open_webui_openrouter_pipe.openrouter.tasks import THINKING_TOKENS
from scripts.exchanges.models import Need
from scripts.standin.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from open_webui_openrouter_pipe.ports import Model

Json = dict[str, Any]

CHARACTERS_PER_TOKEN = 3.0
ATTACHMENT_TOKENS = 2_500
"""As much as one is taken to be."""
SEARCH_DOLLARS = 0.05
SEARCH_TOKENS = 12_000
WRITE_FACTOR = 2.0
"""Of the price of input, what is kept for an hour costs."""

LONG_TEXT = "".join(
    f"Paragraph {number}: the keeper of lock {number * 7 % 91} notes the level of the water at noon. "
    for number in range(60)
)
"""About 1,500 tokens, the same each time."""


def _pdf(text: str) -> bytes:
    """A document of one page, as small as it can be."""
    stream = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources 6 0 R >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Font << /F1 5 0 R >> >>",
    )
    written, offsets = "%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{each}\nendobj\n"
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    return (written + table + end).encode()


def _url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


PICTURE = _url("image/png", draw("A square"))
DOCUMENT = _url("application/pdf", _pdf("The lock opens at noon."))
TOOLS = {"get_weather": lambda _: "It is 20 degrees and sunny."}
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@dataclass(frozen=True, slots=True)
class Question:
    """One message of a chat; `model` is the number of the model that is asked, in braces."""

    text: str
    directive: str = ""
    model: str = "{0}"


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `key` takes the place of the side's own, "" is none. With `stops` a stream is left early.

    A body goes to /responses, unless there is a path beside it.
    """

    name: str
    group: str
    needs: tuple[Need, ...] = ()
    questions: tuple[Question, ...] = ()
    has_tools: bool = False
    valves: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    attached: Sequence[Json] = ()
    system: str = ""
    body: Json | None = None
    path: str = ""
    key: str | None = None
    is_task: bool = False
    stops: bool = False
    searches: bool = False

    def most_dollars(self, models: Sequence[Model]) -> float:
        """Return what it costs at most, by the list of prices."""
        if not models:
            return 0.0
        prices = [(model.prices.input or 0.0, model.prices.output or 0.0) for model in models]
        dearest_input, dearest_output = (max(each) for each in zip(*prices, strict=True))
        said = json.dumps([self.body, self.system, [each.text for each in self.questions]])
        characters = len(said) + len(LONG_TEXT) * sum(map(int, re.findall(r"\$long(\d+)", said)))
        tokens = characters / CHARACTERS_PER_TOKEN + ATTACHMENT_TOKENS * len(self.attached) + 500
        tokens += SEARCH_TOKENS if self.searches else 0
        asked = len(self.questions) * (ROUNDS if self.has_tools else 1) + self.is_task
        requests = ATTEMPTS * (asked + (self.body is not None))
        body = self.body or {}
        output_tokens: int = (
            self.parameters.get("max_tokens") or body.get("max_output_tokens") or OUTPUT_TOKENS
        )
        output_tokens += THINKING_TOKENS if self.is_task else 0
        each_dollars = tokens * WRITE_FACTOR * dearest_input + min(output_tokens, 8_000) * dearest_output
        dollars: float = requests * each_dollars + (ATTEMPTS * SEARCH_DOLLARS if self.searches else 0.0)
        return dollars


OUTPUT_TOKENS = 600
ROUNDS = 2
"""Of a question with tools: the call, and the answer."""
ATTEMPTS = 2
"""Of a request, as many as may have a bill: the first, and one that is sent otherwise."""
SHORT = {"max_tokens": 300}
THINKING = {"max_tokens": 2_000}
"""Room for thinking, which counts as output."""

OPENAI, CLAUDE = Need("openai", reasons=True, tools=True), Need("anthropic", reasons=True, tools=True)
GEMINI, GROK = Need("google", reasons=True, tools=True), Need("x-ai", reasons=True, tools=True)
OPEN = Need("deepseek", reasons=True, tools=True)
MAKERS = {"openai": OPENAI, "anthropic": CLAUDE, "google": GEMINI, "xai": GROK, "open": OPEN}
PLAIN = Need("openai", reasons=False, tools=True)
CALL = Question(
    "What is the weather in Paris? Call the tool get_weather first, then answer in one short sentence.",
    '[[standin: call=get_weather args={"city": "Paris"}]]',
)
AND_THEN = Question("Is that warm? Answer in one word.")
HELLO = Question("Say hello in one word.")


def _reasoning() -> list[Case]:
    """Each maker's reasoning over two turns, the first with a tool."""
    chat = (CALL, AND_THEN)
    low = {**THINKING, "reasoning": {"effort": "low"}}
    cases = [
        Case(f"reasoning {name}", "reasoning", (need,), chat, has_tools=True, parameters=low)
        for name, need in MAKERS.items()
    ]
    off = {**SHORT, "reasoning": {"effort": "none"}}
    return [
        *cases,
        *(
            Case(f"reasoning off {name}", "reasoning", (need,), (HELLO,), parameters=off)
            for name, need in (("anthropic", CLAUDE), ("google", GEMINI), ("open", OPEN))
        ),
        Case("reasoning without a summary", "reasoning", (OPENAI,), (HELLO,), valves={"REASONING_SUMMARY": "off"},
             parameters=low),
        Case("no reasoning kept", "reasoning", (OPENAI,), chat, has_tools=True, parameters=low,
             valves={"PERSIST_REASONING_TOKENS": "disabled"}),
    ]  # fmt: skip


def _replay() -> list[Case]:
    """Reasoning of one model, and then a question to another."""
    pairs = (
        ("openai to openai", OPENAI, OPENAI),
        ("anthropic to anthropic", CLAUDE, CLAUDE),
        ("google to google", GEMINI, GEMINI),
        ("openai to anthropic", OPENAI, CLAUDE),
        ("anthropic to google", CLAUDE, GEMINI),
        ("google to openai", GEMINI, OPENAI),
        ("openai to one that does not reason", OPENAI, PLAIN),
    )
    chat = (CALL, Question(AND_THEN.text, model="{1}"))
    return [
        Case(name, "replay", (first, second), chat, has_tools=True, parameters=THINKING)
        for name, first, second in pairs
    ]


def _caching() -> list[Case]:
    """A long beginning twice: it is written, then read."""
    twice = (HELLO, Question("Say goodbye in one word."))
    long = LONG_TEXT * 5
    claude, off = Need("anthropic", tools=True, caches=True), {"reasoning": {"effort": "none"}}
    body = {
        "model": "$0",
        "input": [{"type": "message", "role": "system", "content": "$long5"},
                  {"type": "message", "role": "user", "content": "Say hello."}],
        "max_output_tokens": 100,
        "cache_control": {"type": "ephemeral"},
        "session_id": "contract",
    }  # fmt: skip
    return [
        Case("breakpoints", "caching", (claude,), twice, system=long, parameters={**SHORT, **off}),
        Case("breakpoints for an hour", "caching", (claude,), twice, system=f"For an hour. {long}",
             parameters={**SHORT, **off}, valves={"CACHE_TTL": "1h"}),
        Case("cache_control, first", "caching", (claude,), body=body),
        Case("cache_control, second", "caching", (claude,), body=body),
        Case("automatic openai", "caching", (Need("openai", tools=True, caches=True),), twice, system=long,
             parameters=THINKING),
        Case("automatic google", "caching", (Need("google", tools=True, caches=True),), twice, system=long,
             parameters=THINKING),
        Case("automatic open", "caching", (Need("deepseek", tools=True, caches=True),), twice, system=long,
             parameters=THINKING),
    ]  # fmt: skip


def _media() -> list[Case]:
    """Pictures and documents, read by the model or for it; and searches."""
    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    document = {"type": "file", "file": {"filename": "lock.pdf", "file_data": DOCUMENT}}
    see, read = Question("What is this? One word."), Question("When does the lock open? One word.")
    search = Question("Search the web for the height of the Eiffel tower. One short sentence.")
    return [
        *(
            Case(f"picture {name}", "media", (Need(maker, tools=True, reads=("image",)),), (see,),
                 parameters=THINKING, attached=(picture,))
            for name, maker in (("openai", "openai"), ("anthropic", "anthropic"), ("google", "google"))
        ),
        Case("document read by the model", "media", (Need("openai", tools=True, reads=("file",)),), (read,),
             parameters=THINKING, attached=(document,)),
        Case("document read for the model", "media", (Need(tools=True, lacks=("file",)),), (read,),
             parameters=THINKING, attached=(document,)),
        Case("search by the provider", "search", (PLAIN,), (search,), parameters=SHORT, searches=True,
             valves={"WEB_SEARCH": "on", "WEB_SEARCH_BY": "openrouter", "WEB_SEARCH_ENGINE": "native"}),
        Case("search by Exa", "search", (OPEN,), (search,), parameters=THINKING, searches=True,
             valves={"WEB_SEARCH": "on", "WEB_SEARCH_BY": "openrouter", "WEB_SEARCH_ENGINE": "exa"}),
    ]  # fmt: skip


def _tools() -> list[Case]:
    """A call of each tool that OpenRouter runs, and the next turn, which has its item."""
    asks = {
        "web_fetch": "Read https://example.org/ and say its title.",
        "datetime": "What time is it?",
        "image_generation": "Draw a small square.",
        "shell": "Run `echo 42` in the shell and say what it prints.",
        "advisor": "Ask the advisor whether 7 is prime.",
        "subagent": "Have the subagent count to three.",
        "fusion": "Let several models say whether 7 is prime.",
    }
    return [
        Case(f"tool {name}", "tools", (PLAIN,), (Question(text, f"[[standin: tool={name}]]"), AND_THEN),
             parameters={**SHORT, CHOSEN: {name: "on"}}, searches=True,
             valves={"SERVER_TOOLS": name, "SERVER_TOOL_DOLLARS": SEARCH_DOLLARS})
        for name, text in asks.items()
    ]  # fmt: skip


def _routing() -> list[Case]:
    """Who answers, by the model's name and by settings."""

    def chat(name: str, model: str = "{0}", **valves: Any) -> Case:
        return Case(
            name, "routing", (PLAIN,), (Question(HELLO.text, model=model),), parameters=SHORT, valves=valves
        )

    return [
        chat("router auto", "openrouter/auto"),
        Case("router auto, cheap", "routing", body=_request("openrouter/auto", stream=True,
             plugins=[{"id": "auto-router", "cost_tier": "low"}])),
        chat("variant nitro", "{0}:nitro"),
        chat("variant floor", "{0}:floor"),
        chat("unknown preset", "{0}@preset/there-is-none"),
        chat("one provider", PROVIDER_ONLY="openai"),
        chat("a provider that does not serve it", PROVIDER_ONLY="deepinfra"),
        chat("a price that nobody has", MAX_PRICE_INPUT=0.0001, MAX_PRICE_OUTPUT=0.0001),
        chat("no data kept", ZDR=True),
        chat("cheaper tier", SERVICE_TIER="flex"),
        Case("fallback models", "routing", (PLAIN, OPEN), body={
            "model": "$0", "models": ["$1"], "input": "Say hello in one word.", "max_output_tokens": 100,
            "stream": True,
        }),
    ]  # fmt: skip


def _request(name: str = "$0", **fields: Any) -> Json:
    return {"model": name, "input": "Say hello.", "max_output_tokens": 100, **fields}


def _item(role: str = "user", content: Any = "Say hello.") -> Json:
    return {"type": "message", "role": role, "content": content}


def _call(call_id: str = "call_a1b2c3d4") -> Json:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "get_weather",
            "arguments": "{}", "status": "completed"}  # fmt: skip


def _output(call_id: str = "call_a1b2c3d4") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": "Sunny."}


def _refusals() -> list[Case]:
    """Errors on purpose."""
    image = {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    broken = {"type": "input_text", "text": "Say hello.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    sealed = {
        "type": "reasoning",
        "id": "rs_0123456789abcdef",
        "summary": [],
        "encrypted_content": "gAAAAABforeign==",
    }
    signed = {"type": "reasoning", "id": "rs_0123456789abcdef", "summary": [], "format": "anthropic-claude-v1",
              "content": [{"type": "reasoning_text", "text": "Hm."}], "signature": "EqQBforeign=="}  # fmt: skip
    thinks: Json = {"reasoning": {"max_tokens": 100}, "max_output_tokens": 2_000}
    big: Json = {"reasoning": {"max_tokens": 3_000}, "max_output_tokens": 2_000}
    bodies: tuple[tuple[str, Need | None, Json], ...] = (
        ("unknown model", None, _request("nobody/nothing-1")),
        ("a model without an author", None, _request("nothing")),
        ("no input", PLAIN, _request(input=[])),
        ("too long", Need(most_window_tokens=200_000), _request(input="$long200")),
        ("foreign reasoning", OPENAI, _request(input=[_item(), sealed, _item("assistant", "Hello."), _item()])),
        ("foreign signature", CLAUDE,
         _request(input=[_item(), signed, _call(), _output()], tools=[TOOL], reasoning={"effort": "low"})),
        ("a result without its call", PLAIN, _request(input=[_item(), _output()], tools=[TOOL])),
        ("a call without its result", PLAIN, _request(input=[_item(), _call()], tools=[TOOL])),
        ("a call twice", PLAIN, _request(input=[_item(), _call(), _call(), _output()], tools=[TOOL])),
        ("a result twice", PLAIN, _request(input=[_item(), _call(), _output(), _output()], tools=[TOOL])),
        ("too small an answer", OPENAI, _request(max_output_tokens=8)),
        ("too large an answer", CLAUDE, _request(max_output_tokens=9_000_000)),
        ("too small a budget of thinking", CLAUDE, _request(**thinks)),
        ("a budget of thinking above the answer", CLAUDE, _request(**big)),
        ("thinking and a forced tool", CLAUDE,
         _request(tools=[TOOL], tool_choice={"type": "function", "name": "get_weather"}, reasoning={"effort": "low"})),
        ("tools where there are none", Need(tools=False), _request(tools=[TOOL])),
        ("a picture where none is read", Need(lacks=("image",)), _request(input=[_item(content=[image])])),
        ("five breakpoints", CLAUDE, _request(input=[_item(content=[broken])] * 5)),
        ("a tool with a wrong name", PLAIN, _request(tools=[{**TOOL, "name": "get weather!"}])),
        ("two tools of one name", PLAIN, _request(tools=[TOOL, TOOL])),
        ("an unknown effort", OPENAI, _request(reasoning={"effort": "enormous"})),
        ("reasoning that cannot be off", Need(reasons=True, is_mandatory=True), _request(reasoning={"effort": "none"})),
        ("too hot", PLAIN, _request(temperature=3)),
        ("an earlier response", PLAIN, _request(previous_response_id="resp_0123456789")),
        ("a choice of no tool", PLAIN, _request(tool_choice={"type": "function", "name": "get_weather"})),
    )  # fmt: skip
    return [
        Case("wrong key", "errors", (PLAIN,), body=_request(), key="sk-or-bad"),
        Case("no key", "errors", (PLAIN,), body=_request(), key=""),
        *(Case(name, "errors", (need,) if need else (), body=body) for name, need, body in bodies),
        *(
            Case(f"an unknown model at {path}", "errors", body={"model": "nobody/nothing", **body}, path=path)
            for path, body in (
                ("/audio/speech", {"input": "Hi"}),
                ("/audio/transcriptions", {"input_audio": {"data": "UklGRg==", "format": "wav"}}),
                ("/images", {"prompt": "A square"}),
            )
        ),
    ]


def _rest() -> list[Case]:
    """Titles, streams that are left, and lists."""
    stream = _request(input="Count from 1 to 200 in words.", max_output_tokens=800, stream=True)
    return [
        *(
            Case(f"title {name}", "tasks", (need,), is_task=True, parameters=SHORT)
            for name, need in MAKERS.items() if name != "xai"
        ),
        Case("a stream that is left", "cancel", (PLAIN,), body=stream, stops=True),
        Case("the list of models", "lists", path="/models"),
        Case("the models of the account", "lists", path="/models/user"),
        Case("the models that make videos", "lists", path="/videos/models"),
        Case("the models of the image API", "lists", path="/images/models"),
        Case("a video that there is not", "lists", path="/videos/gen-vid-0000000000-00000000000000000000"),
        Case("the content of a video that there is not", "lists",
             path="/videos/gen-vid-0000000000-00000000000000000000/content?index=0"),
        Case("the key", "lists", path="/key"),
        Case("a wrong key", "lists", path="/key", key="sk-or-bad"),
        Case("endpoints that keep nothing", "lists", path="/endpoints/zdr"),
        Case("models that speak", "lists", path="/models?output_modalities=speech"),
        Case("models that transcribe", "lists", path="/models?output_modalities=transcription"),
        Case("models that only draw", "lists", path="/images/models"),
        Case("a generation that there is not", "lists", path="/generation?id=gen-0000000000-nothing"),
    ]  # fmt: skip


CASES: tuple[Case, ...] = (
    *_reasoning(), *_replay(), *_caching(), *_media(), *_tools(), *_routing(), *_refusals(), *_rest(),
)  # fmt: skip
