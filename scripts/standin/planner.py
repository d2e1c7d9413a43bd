"""From a request to the plan of its answer: directives first, then what a person would expect.

Owns the meaning of directives, of the ``standin/...`` model names and of natural chat ("call get_weather"),
and what comes before what: queued directives, a summary, Open WebUI's own prompts, the directives of the
text, natural chat. It sends nothing. The directives (syntax: ``plan``):

    reasoning=summary|raw|encrypted   text= parts= items=     reasoning before calls and before the answer
    text="..."                                                the final answer
    say="..."                                                 a commentary message before the calls
    call=NAME                         args={...} times=       one call, or several in parallel; "$round" and
                                                              "$n" inside the arguments become numbers
                                                              "$reference" becomes the first reference of a
                                                              shortened text, such as #482913, in the input
    rounds=N                                                  call again after the outputs, N rounds in all
    quote="..."                                               the final answer is the line of an output of this turn
                                                              that has these words, or that there is none
    cite=URL                          title=                  a url_citation on the final answer
    search=QUERY                      kind=server|native url= a web search item before the answer
    fetch=URL                                                 a web page read before the answer
    image=PROMPT                                              an image_generation_call before the answer
    parsed                                                    the parser's annotations of the PDFs in the input
    refusal="..."                                             a refusal part instead of text
    incomplete=max_output_tokens|content_filter               the answer stops halfway
    deltas=N                                                  the final answer has N deltas
    slow=SECONDS                                              a long answer, ten deltas a second
    error=STATUS                      family= message= retry_after= own=1              instead of an answer
                                                              (family A, B, C, html, text or empty)
    refuse=PATH                       values=a,b              the provider takes no such parameter, such as
                                                              temperature or reasoning.effort, or no other values
    fail=failed|response.error|nested|flat|eof  after= code= message= type=            in mid-stream
    delay=SECONDS                     first=                  a pause before each delta, before the first byte
    wire=lf|crlf                      split=BYTES comments=N bare=1 every=N            framing
    late=seal|arguments|both                                  real values only in response.completed
    unknown=event|item|both                                   things that no client knows
    big=BYTES                                                 a very large response.created
    nodone                                                    no "data: [DONE]"
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from .errors import documented, own_rate_limit, unsupported
from .media import documents_of, pictures_of
from .plan import (
    Break,
    BreakKind,
    Call,
    Citation,
    Delivery,
    Directive,
    DirectiveError,
    Document,
    Ending,
    Fetch,
    Image,
    Message,
    Plan,
    Reasoning,
    ReasoningKind,
    Search,
    SearchKind,
    Unknown,
    bracketed,
    parse,
    plain_text,
)
from .prompt import ByteTokenizer, input_items, last_user, text_of
from .summaries import KINDS, SummaryRequest, SummaryTask, task_answer

if TYPE_CHECKING:
    from .catalogue import Model
    from .plan import Step
    from .prompt import Tokenizer

PLAIN_MODEL = "standin/plain"
SLOW_MODEL_SECONDS = 20.0
SLOW_DELTAS_PER_SECOND = 10
QUOTED_OUTPUT_CHARS = 2000
NATURAL_DRAWING = re.compile(r"\b(?:draw|paint|picture|image|make it)\b", re.IGNORECASE)
NATURAL_SEARCH = re.compile(r"\b(?:search(?: the web)? for|look up)\s+(.+)", re.IGNORECASE)
NATURAL_FETCH = re.compile(r"\bread\s+(https?://\S+)", re.IGNORECASE)
NATURAL_CALL = re.compile(r"\bcall\s+`?([A-Za-z0-9_-]+)`?", re.IGNORECASE)
SEARCH_TOOL, FETCH_TOOL = "openrouter:web_search", "openrouter:web_fetch"
FOUND_URL, FOUND_TITLE = "https://example.org/found", "What was found"
REFERENCE = re.compile(r"#\d{6}\b")
INPUT_ROLES = ("user", "system", "developer")
EXAMPLES: dict[str, Any] = {
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
"""Arguments by the type that a tool's schema names; of any other type it is a word."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What the plan depends on: the request read once, each turn's calls and outputs since its last user message."""

    body: dict[str, Any]
    model: Model
    items: list[dict[str, Any]]
    text: str
    schemas: dict[str, dict[str, Any]]
    choice: str
    calls_done: int
    outputs: tuple[tuple[str, str], ...]
    modalities: tuple[str, ...]
    server_tools: frozenset[str]

    @classmethod
    def of(cls, body: dict[str, Any], model: Model) -> ParsedRequest:
        """Read an accepted request."""
        items, tools = input_items(body), body.get("tools") or []
        turn = items[last_user(items) + 1 :]
        names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
        outputs = [item for item in turn if item.get("type") == "function_call_output"]
        return cls(
            body=body,
            model=model,
            items=items,
            text=_last_user_text(items),
            schemas={tool["name"]: tool["parameters"] or {} for tool in tools if "name" in tool},
            choice=_choice(body.get("tool_choice", "auto")),
            calls_done=sum(item.get("type") == "function_call" for item in turn),
            outputs=tuple((names[item["call_id"]], text_of(item)) for item in outputs),
            modalities=tuple(body.get("modalities") or ["text"]),
            server_tools=frozenset(tool["type"] for tool in tools),
        )

    @property
    def thinks(self) -> bool:
        """Whether the model thinks unasked: one that can does, unless the request switches it off."""
        asked = self.body.get("reasoning") or {}
        off = asked.get("enabled") is False or asked.get("effort") == "none"
        return self.model.thinking is not None and self.model.id != "standin/script" and not off

    @property
    def must_search(self) -> bool:
        """By a choice of the tool, or by the plugin, which always searches."""
        given = self.body.get("tool_choice")
        choice = given if isinstance(given, dict) else {}
        named = any(tool.get("type") == SEARCH_TOOL for tool in choice.get("tools", []))
        plugins = [plugin["id"] for plugin in self.body.get("plugins") or []]
        return (named and choice.get("mode") == "required") or "web" in plugins

    @property
    def count(self) -> str:
        """How many input items there are, in words."""
        return f"{len(self.items)} input item{'' if len(self.items) == 1 else 's'}"

    def image(self, prompt: str) -> Image:
        """A drawing in the form that the request asks for, from the last picture that it holds."""
        ratio = (self.body.get("image_config") or {}).get("aspect_ratio", "1:1")
        return Image(prompt, next(reversed([*pictures_of(self.body)]), None), ratio)

    def echo(self) -> str:
        """The answer where nothing else was ordered."""
        lines = [f"You said: {plain_text(self.text)}"]
        if self.outputs:
            said = [f"- `{name}`: {text[:QUOTED_OUTPUT_CHARS]}" for name, text in self.outputs]
            lines += ["The tools answered:", "\n".join(said)]
        return "\n\n".join([*lines, f"*{self.model.id}* saw {self.count}."])


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """What stands outside the chat: how this stand-in answers.

    ``queued`` are directives that a test has queued; they stand before those of the text. ``summarizer`` is how
    a summary is made: a kind of ``summaries``, or directives to obey on the way to an honest one.
    ``pace_seconds`` is the pause between deltas of an answer whose directives set none.
    """

    queued: str = ""
    summarizer: str = "keep"
    pace_seconds: float = 0.0
    tokenizer: Tokenizer = field(default_factory=ByteTokenizer)


def plan_answer(body: dict[str, Any], model: Model, options: ReplyOptions | None = None) -> Plan:
    """The plan for an accepted request to a model.

    Raises:
        DirectiveError: A directive cannot be read.
    """
    options = options or ReplyOptions()
    request = ParsedRequest.of(body, model)
    draft = Draft(request, plan=Plan(delivery=Delivery(delay_seconds=options.pace_seconds)))
    draft.obey(parse(options.queued)[0])
    if asked := SummaryRequest.of(body):
        return _plan_summary(draft, asked, options)
    task = task_answer(request.text) if "text" in request.modalities else None
    if not task and model.id != PLAIN_MODEL:
        draft.obey(parse(request.text)[0])
    if task and draft.text is None:
        draft.text = task
        return draft.finished()
    _by_model_name(draft)
    if not draft.calls and draft.text is None:
        draft.calls = _natural_calls(request)
    if draft.text is None and not draft.calls and not draft.before:
        _go_online(draft)
    if _is_to_draw(draft):
        draft.before.append(request.image(plain_text(request.text)))
    draft.think(unasked=request.thinks)
    return draft.finished()


def summarizer(text: str) -> list[Directive]:
    """The directives for answering requests for summaries, the last one a kind.

    Raises:
        DirectiveError: One of them is neither a kind nor a directive.
    """
    kind, others = Directive("keep"), []
    for directive in parse(bracketed(text))[0]:
        if directive.name in KINDS:
            kind = directive
        elif hasattr(Draft, f"_do_{directive.name}"):
            others.append(directive)
        else:
            raise DirectiveError(f"neither a kind of summarizer nor a directive: {directive.name}")
    return [*others, kind]


def _plan_summary(draft: Draft, asked: SummaryRequest, options: ReplyOptions) -> Plan:
    *others, kind = summarizer(options.summarizer)
    draft.fail_by_name()
    if not draft.answered:
        draft.obey(others)
    draft.think(unasked=draft.request.thinks or kind.name == "reasoning")
    if draft.answered:
        return draft.finished()
    thought = sum(len(options.tokenizer.encode(item.text())) for item in draft.reasoning)
    left = draft.request.body.get("max_output_tokens") or float("inf")
    task = SummaryTask(asked, kind, options.tokenizer, left - thought, tuple(draft.request.schemas))
    plan = KINDS[kind.name](draft.plan, task)
    return replace(plan, steps=(*draft.reasoning, *plan.steps))


@dataclass(slots=True)
class Draft:
    """A plan in the making; a directive calls the method that has its name behind ``_do_``."""

    request: ParsedRequest
    plan: Plan
    reasoning: list[Reasoning] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    rounds: int = 1
    text: str | None = None
    refused: bool = False
    citations: list[Citation] = field(default_factory=list)
    documents: tuple[Document, ...] = ()
    commentary: list[Message] = field(default_factory=list)
    deltas: int = 0

    @property
    def answered(self) -> bool:
        """Whether a directive has said what the answer is."""
        return self.text is not None or bool(self.calls) or self.plan.refusal is not None

    def obey(self, ordered: list[Directive] | tuple[Directive, ...]) -> None:
        """Do what each directive says.

        Raises:
            DirectiveError: There is no such directive, or its value is none of its kind.
        """
        for directive in ordered:
            meaning = getattr(self, f"_do_{directive.name}", None)
            if meaning is None:
                raise DirectiveError(f"unknown directive: {directive.name}")
            try:
                meaning(directive)
            except (TypeError, ValueError) as error:
                raise DirectiveError(f"{directive.name}: {error}") from error

    def think(self, *, unasked: bool) -> None:
        """Think as the model's family does, unless a directive has said how."""
        if unasked and not self.reasoning:
            thought = f"**Reading the request**\n\nI have {self.request.count}; the last one matters most."
            kind: ReasoningKind = "raw" if self.request.model.family in {"anthropic", "raw"} else "summary"
            self.reasoning = [Reasoning(kind, (thought,))]

    def fail_by_name(self) -> None:
        """Fail where the model's name says so, and no directive says how."""
        fails = self.request.model.id == "standin/failing"
        if fails and self.plan.cut is None and self.plan.refusal is None:
            self.plan = replace(self.plan, refusal=documented(503))

    def finished(self) -> Plan:
        """The plan: the next round of calls, or the answer."""
        rounds_done = self.request.calls_done // len(self.calls) if self.calls else 0
        if self.calls and rounds_done < self.rounds and self.request.choice != "none":
            calls = [
                self._numbered(call, rounds_done + 1, number) for number, call in enumerate(self.calls, 1)
            ]
            return replace(self.plan, steps=(*self.reasoning, *self.commentary, *calls))
        text = self.request.echo() if self.text is None else self.text
        words = text.split() or ["word"]
        text = " ".join(words[at % len(words)] for at in range(self.deltas)) if self.deltas else text
        message = Message(text, tuple(self.citations), self.documents, self.refused)
        answer = [message] if "text" in self.request.modalities else []
        return replace(self.plan, steps=(*self.reasoning, *self.before, *answer))

    def _numbered(self, call: Call, now: int, number: int) -> Call:
        arguments = call.arguments
        if "$reference" in arguments:
            found = REFERENCE.search("\n".join(map(text_of, self.request.items)))
            arguments = arguments.replace("$reference", found.group() if found else "")
        return replace(call, arguments=arguments.replace("$round", str(now)).replace("$n", str(number)))

    def _deliver(self, **changes: Any) -> None:
        self.plan = replace(self.plan, delivery=replace(self.plan.delivery, **changes))

    def _do_reasoning(self, said: Directive) -> None:
        parts, text = said.option("parts", 1), said.option("text", "Thinking it over.")
        texts = [text if parts == 1 else f"{text} ({number})" for number in range(1, parts + 1)]
        item = Reasoning(said.one_of(ReasoningKind, "summary"), tuple(texts))
        self.reasoning.extend([item] * said.option("items", 1))

    def _do_call(self, said: Directive) -> None:
        args = said.options.get("args", {})
        call = Call(said.said(), args if isinstance(args, str) else json.dumps(args))
        self.calls.extend([call] * said.option("times", 1))

    def _do_rounds(self, said: Directive) -> None:
        self.rounds = int(said.value)

    def _do_text(self, said: Directive) -> None:
        self.text = said.said()

    def _do_quote(self, said: Directive) -> None:
        words = said.said()
        lines = (line for _, text in self.request.outputs for line in text.splitlines())
        self.text = next((line for line in lines if words in line), f"Nothing says {words}.")

    def _do_say(self, said: Directive) -> None:
        self.commentary.append(Message(said.said(), phase="commentary"))

    def _do_cite(self, said: Directive) -> None:
        self.citations.append(Citation(said.said(), said.option("title", "A source")))

    def _do_search(self, said: Directive) -> None:
        kind = said.one_of(SearchKind, "server", "kind")
        self.before.append(Search(said.said(), kind, said.option("url", FOUND_URL)))

    def _do_fetch(self, said: Directive) -> None:
        self.before.append(Fetch(said.said()))

    def _do_image(self, said: Directive) -> None:
        self.before.append(self.request.image(said.said("A square")))

    def _do_parsed(self, _said: Directive) -> None:
        self.documents = tuple(
            Document(name, hashlib.sha256(content).hexdigest())
            for name, content in documents_of(self.request.body)
        )

    def _do_refusal(self, said: Directive) -> None:
        self.refused, self.text = True, said.said("I cannot help with that.")

    def _do_incomplete(self, said: Directive) -> None:
        self.plan = replace(self.plan, ending=said.one_of(Ending, "max_output_tokens"))

    def _do_deltas(self, said: Directive) -> None:
        self.deltas = int(said.value)

    def _do_slow(self, said: Directive) -> None:
        self.deltas = int(float(said.value) * SLOW_DELTAS_PER_SECOND)
        self._deliver(delay_seconds=1 / SLOW_DELTAS_PER_SECOND)

    def _do_error(self, said: Directive) -> None:
        refusal = own_rate_limit() if said.options.get("own") else documented(int(said.value))
        changes = {key: said.option(key, getattr(refusal, key)) for key in ("family", "message")}
        if "retry_after" in said.options:
            changes["headers"] = {**refusal.headers, "Retry-After": said.option("retry_after", "")}
        self.plan = replace(self.plan, refusal=replace(refusal, **changes))

    def _do_refuse(self, said: Directive) -> None:
        path, values = said.said(), tuple(filter(None, said.option("values", "").split(",")))
        given: Any = self.request.body
        for name in path.split("."):
            given = given.get(name) if isinstance(given, dict) else None
        if given is not None and given not in values:
            self.plan = replace(self.plan, refusal=unsupported(path, given, values))

    def _do_fail(self, said: Directive) -> None:
        cut = Break(said.one_of(BreakKind, "failed"))
        names = {"after_deltas": "after", "code": "code", "message": "message", "error_type": "type"}
        changes = {name: said.option(key, getattr(cut, name)) for name, key in names.items()}
        self.plan = replace(self.plan, cut=replace(cut, **changes))

    def _do_delay(self, said: Directive) -> None:
        first = said.option("first", self.plan.delivery.first_delay_seconds)
        self._deliver(delay_seconds=float(said.value), first_delay_seconds=first)

    def _do_wire(self, said: Directive) -> None:
        now = self.plan.delivery
        self._deliver(
            newline={"lf": "\n", "crlf": "\r\n"}[said.one_of(Literal["lf", "crlf"], "lf")],
            split_bytes=said.option("split", now.split_bytes),
            comments=said.option("comments", now.comments),
            bare_comments=bool(said.options.get("bare")),
            comment_every=said.option("every", now.comment_every),
        )

    def _do_late(self, said: Directive) -> None:
        what = said.one_of(Literal["seal", "arguments", "both"], "both")
        self._deliver(late_seals=what != "arguments", late_arguments=what != "seal")

    def _do_unknown(self, said: Directive) -> None:
        what = said.one_of(Literal["event", "item", "both"], "both")
        self._deliver(unknown_event=what != "item")
        if what != "event":
            self.before.append(Unknown())

    def _do_big(self, said: Directive) -> None:
        self._deliver(big_bytes=int(said.value))

    def _do_nodone(self, _said: Directive) -> None:
        self._deliver(done=False)


# --- what happens without directives ---


def _by_model_name(draft: Draft) -> None:
    model = draft.request.model.id
    if model == "standin/slow" and not draft.deltas:
        draft.obey([Directive("slow", SLOW_MODEL_SECONDS)])
    draft.fail_by_name()
    if model == "standin/tools" and not draft.calls:
        draft.calls = [_example_call(name, schema) for name, schema in draft.request.schemas.items()][:1]


def _is_to_draw(draft: Draft) -> bool:
    """Whether the model is asked for a picture: one that only draws always is, another one in so many words."""
    wanted, has_one = draft.request.modalities, any(isinstance(step, Image) for step in draft.before)
    if "image" not in wanted or has_one or draft.calls or draft.refused:
        return False
    return "text" not in wanted or bool(NATURAL_DRAWING.search(draft.request.text))


def _go_online(draft: Draft) -> None:
    """Search or read where the request lets the model and its user wants it, or where it must; cite what is found."""
    request = draft.request
    words = plain_text(request.text)
    sought, page = NATURAL_SEARCH.search(words), NATURAL_FETCH.search(words)
    if request.choice == "none":
        return
    if FETCH_TOOL in request.server_tools and page:
        draft.before.append(Fetch(page[1]))
    can_search = SEARCH_TOOL in request.server_tools
    if not (request.must_search or (can_search and sought)):
        return
    if can_search:
        draft.before.append(Search(sought[1] if sought else words, "server", FOUND_URL))
    draft.text = f"{request.echo()}\n\nAs [{FOUND_TITLE}]({FOUND_URL}) says."
    draft.citations.append(Citation(FOUND_URL, FOUND_TITLE))


def _natural_calls(request: ParsedRequest) -> list[Call]:
    forced = "" if request.calls_done else request.choice
    asked = [name for name in NATURAL_CALL.findall(request.text) if name in request.schemas]
    if forced in request.schemas:
        asked = [forced]
    elif forced == "required" and not asked:
        asked = list(request.schemas)[:1]
    return [_example_call(name, request.schemas[name]) for name in dict.fromkeys(asked)]


def _example_call(name: str, schema: dict[str, Any]) -> Call:
    """A call of a tool with made-up arguments that fit its schema's required properties."""
    properties = schema.get("properties", {})
    wanted = schema.get("required") or []
    return Call(name, json.dumps({key: _example(properties.get(key, {})) for key in wanted}))


def _example(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    return EXAMPLES.get(kind[0] if isinstance(kind, list) else kind, "example")


# --- reading the request ---


def _last_user_text(items: list[dict[str, Any]]) -> str:
    """The text of the user's last run of messages; instructions that stand among them do not end the run."""
    run: list[str] = []
    for item in reversed(items):
        role = item.get("role")
        if role == "user":
            run.append(text_of(item))
        elif run and role not in INPUT_ROLES:
            break
    return "\n".join(reversed(run))


def _choice(choice: Any) -> str:
    if isinstance(choice, str):
        return choice
    if not any(tool.get("type") == "function" for tool in choice.get("tools", [choice])):
        return "auto"  # a server tool, whose calls are no function's
    return str(choice.get("name", choice.get("mode", "auto")))
