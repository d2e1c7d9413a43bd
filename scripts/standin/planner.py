"""From a request to the plan of its answer: directives first, then what a person would expect.

Owns the meaning of directives, of the ``standin/...`` model names and of natural chat ("call get_weather"),
and what comes before what: queued directives, a summary, Open WebUI's own prompts, the directives of the
text, natural chat. It sends nothing. The directives (syntax: ``directives``):

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
from typing import TYPE_CHECKING, Any, TypeVar

from . import directives, host_prompts
from .errors import documented, own_rate_limit, unsupported
from .media import documents_of, pictures_of
from .plan import (
    Break,
    Call,
    Citation,
    Delivery,
    Document,
    Fetch,
    Image,
    Message,
    Plan,
    Reasoning,
    Search,
    Unknown,
)
from .prompt import input_items, text_of
from .summaries import KINDS, SummaryRequest, SummaryTask
from .tokens import ByteTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .catalogue import Family, Model
    from .directives import Directive
    from .plan import BreakKind, Ending, Newline, ReasoningKind, SearchKind, Step
    from .tokens import Tokenizer

PLAIN_MODEL = "standin/plain"
SLOW_MODEL_SECONDS = 20.0
SLOW_DELTAS_PER_SECOND = 10
QUOTED_OUTPUT_CHARS = 2000
NATURAL_DRAWING = re.compile(r"\b(?:draw|paint|picture|image|make it)\b", re.IGNORECASE)
NATURAL_SEARCH = re.compile(r"\b(?:search(?: the web)? for|look up)\s+(.+)", re.IGNORECASE)
NATURAL_FETCH = re.compile(r"\bread\s+(https?://\S+)", re.IGNORECASE)
SEARCH_TOOL, FETCH_TOOL = "openrouter:web_search", "openrouter:web_fetch"
FOUND_URL, FOUND_TITLE = "https://example.org/found", "What was found"
REFERENCE = re.compile(r"#\d{6}\b")
NATURAL_CALL = re.compile(r"\bcall\s+`?([A-Za-z0-9_-]+)`?", re.IGNORECASE)
INPUT_ROLES = ("user", "system", "developer")
KIND_OF_FAMILY: dict[Family, ReasoningKind] = {"anthropic": "raw", "raw": "raw"}
REASONING_KINDS: tuple[ReasoningKind, ...] = ("summary", "raw", "encrypted")
SEARCH_KINDS: tuple[SearchKind, ...] = ("server", "native")
ENDINGS: tuple[Ending, ...] = ("max_output_tokens", "content_filter")
BREAK_KINDS: tuple[BreakKind, ...] = ("failed", "response.error", "nested", "flat", "eof")
NEWLINES: dict[str, Newline] = {"lf": "\n", "crlf": "\r\n"}
T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What the plan depends on: the request read once."""

    model: Model
    text: str
    items: int
    schemas: dict[str, dict[str, Any]]
    choice: str
    calls_done: int
    outputs: tuple[tuple[str, str], ...]
    thinks: bool
    modalities: tuple[str, ...] = ("text",)
    pictures: tuple[bytes, ...] = ()
    documents: tuple[Document, ...] = ()
    aspect_ratio: str = "1:1"
    server_tools: frozenset[str] = frozenset()
    must_search: bool = False
    """By a choice of the tool, or by the plugin, which always searches."""
    body: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, body: dict[str, Any], model: Model) -> ParsedRequest:
        """Read an accepted request."""
        items = input_items(body)
        start = _current_turn(items)
        names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
        outputs = [item for item in items[start:] if item.get("type") == "function_call_output"]
        return cls(
            model=model,
            text=_last_user_text(items),
            items=len(items),
            schemas={
                tool["name"]: tool["parameters"] or {} for tool in body.get("tools") or [] if "name" in tool
            },
            choice=_choice(body.get("tool_choice", "auto")),
            calls_done=sum(1 for item in items[start:] if item.get("type") == "function_call"),
            outputs=tuple((names[item["call_id"]], text_of(item)) for item in outputs),
            thinks=_thinks(body.get("reasoning") or {}, model),
            modalities=tuple(body.get("modalities") or ["text"]),
            pictures=tuple(pictures_of(body)),
            documents=tuple(
                Document(name, hashlib.sha256(content).hexdigest()) for name, content in documents_of(body)
            ),
            aspect_ratio=(body.get("image_config") or {}).get("aspect_ratio", "1:1"),
            server_tools=frozenset(tool["type"] for tool in body.get("tools") or []),
            must_search=_must_search(body),
            body=body,
        )

    def first_reference(self) -> str:
        """The first reference of a shortened text in the input, "" where there is none."""
        found = REFERENCE.search("\n".join(map(text_of, input_items(self.body))))
        return found.group() if found else ""

    def image(self, prompt: str) -> Image:
        """A drawing in the form that the request asks for, from the last picture that it holds."""
        return Image(prompt, self.pictures[-1] if self.pictures else None, self.aspect_ratio)


@dataclass(slots=True)
class Draft:
    """A plan in the making; each directive changes one thing in it."""

    request: ParsedRequest
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
    plan: Plan = field(default_factory=Plan)

    @property
    def answered(self) -> bool:
        """Whether a directive has said what the answer is."""
        return self.text is not None or bool(self.calls) or self.plan.refusal is not None

    @property
    def rounds_done(self) -> int:
        """Rounds of calls that this turn has behind it; parallel calls may come back interleaved or not."""
        return self.request.calls_done // len(self.calls) if self.calls else 0

    def deliver(self, **changes: Any) -> None:
        """Change how the bytes travel."""
        self.plan = replace(self.plan, delivery=replace(self.plan.delivery, **changes))


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """What stands outside the chat: how this stand-in answers.

    ``queued`` are directives that a test has queued; they stand before those of the text. ``summarizer`` is how
    a summary is made: a kind of ``summarizers``, or directives to obey on the way to an honest one.
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
    for directive in directives.parse(options.queued):
        _obey(draft, directive)
    asked = SummaryRequest.of(body)
    if asked:
        return _plan_summary(draft, asked, options, body.get("max_output_tokens"))
    task = host_prompts.answer(request.text) if "text" in request.modalities else None
    if not task and model.id != PLAIN_MODEL:
        for directive in directives.parse(request.text):
            _obey(draft, directive)
    if task and draft.text is None:
        draft.text = task
        return _final_plan(draft)
    _by_model_name(draft)
    if not draft.calls and draft.text is None and not draft.refused:
        draft.calls = _natural_calls(request)
    if draft.text is None and not draft.calls and not draft.before:
        _go_online(draft)
    if _is_to_draw(draft):
        draft.before.append(request.image(directives.plain_text(request.text)))
    if not draft.reasoning and request.thinks:
        draft.reasoning = [_default_reasoning(request)]
    return _final_plan(draft)


def summarizer(text: str) -> list[Directive]:
    """The directives for answering requests for summaries, the last one a kind.

    Raises:
        DirectiveError: One of them is neither a kind nor a directive.
    """
    chosen = directives.parse(directives.bracketed(text))
    for directive in chosen:
        if directive.name not in KINDS and directive.name not in MEANINGS:
            raise directives.DirectiveError(f"neither a kind of summarizer nor a directive: {directive.name}")
    kinds = [directive for directive in chosen if directive.name in KINDS]
    others = [directive for directive in chosen if directive.name not in KINDS]
    return [*others, *(kinds[-1:] or [directives.Directive("keep", None, {})])]


def _plan_summary(
    draft: Draft, asked: SummaryRequest, options: ReplyOptions, limit_tokens: int | None
) -> Plan:
    *others, kind = summarizer(options.summarizer)
    _fail_by_name(draft)
    for directive in () if draft.answered else others:
        _obey(draft, directive)
    if not draft.reasoning and (draft.request.thinks or kind.name == "reasoning"):
        draft.reasoning = [_default_reasoning(draft.request)]
    if draft.answered:
        return _final_plan(draft)
    left = limit_tokens
    if left is not None:
        left -= sum(len(options.tokenizer.encode(item.text())) for item in draft.reasoning)
    given = SummaryTask(asked, kind, options.tokenizer, left, tuple(draft.request.schemas))
    plan = KINDS[kind.name](draft.plan, given)
    return replace(plan, steps=(*draft.reasoning, *plan.steps))


def _obey(draft: Draft, directive: Directive) -> None:
    meaning = MEANINGS.get(directive.name)
    if meaning is None:
        raise directives.DirectiveError(f"unknown directive: {directive.name}")
    try:
        meaning(draft, directive)
    except (TypeError, ValueError) as error:
        raise directives.DirectiveError(f"{directive.name}: {error}") from error


def _final_plan(draft: Draft) -> Plan:
    if draft.calls and draft.rounds_done < draft.rounds and draft.request.choice != "none":
        return replace(draft.plan, steps=(*draft.reasoning, *draft.commentary, *_numbered_calls(draft)))
    text = _default_text(draft.request) if draft.text is None else draft.text
    words = text.split() or ["word"]
    text = " ".join(words[at % len(words)] for at in range(draft.deltas)) if draft.deltas else text
    if "text" not in draft.request.modalities:
        return replace(draft.plan, steps=(*draft.reasoning, *draft.before))
    message = Message(text, tuple(draft.citations), draft.documents, draft.refused)
    return replace(draft.plan, steps=(*draft.reasoning, *draft.before, message))


def _numbered_calls(draft: Draft) -> list[Call]:
    now, reference = str(draft.rounds_done + 1), draft.request.first_reference()
    return [
        replace(
            call,
            arguments=call.arguments.replace("$reference", reference)
            .replace("$round", now)
            .replace("$n", str(number)),
        )
        for number, call in enumerate(draft.calls, 1)
    ]


# --- what each directive means ---


def _reasoning(draft: Draft, directive: Directive) -> None:
    parts = directive.count("parts", 1)
    text = directive.text("text", "Thinking it over.")
    texts = [text if parts == 1 else f"{text} ({number})" for number in range(1, parts + 1)]
    kind = directive.value_text("summary")
    item = Reasoning(_one_of(REASONING_KINDS, kind), tuple(texts))
    draft.reasoning.extend([item] * directive.count("items", 1))


def _call(draft: Draft, directive: Directive) -> None:
    args = directive.options.get("args", {})
    arguments = args if isinstance(args, str) else json.dumps(args)
    draft.calls.extend([Call(directive.value_text(), arguments)] * directive.count("times", 1))


def _rounds(draft: Draft, directive: Directive) -> None:
    draft.rounds = int(directive.value)


def _text(draft: Draft, directive: Directive) -> None:
    draft.text = directive.value_text()


def _quote(draft: Draft, directive: Directive) -> None:
    words = directive.value_text()
    lines = (line for _, text in draft.request.outputs for line in text.splitlines())
    draft.text = next((line for line in lines if words in line), f"Nothing says {words}.")


def _say(draft: Draft, directive: Directive) -> None:
    draft.commentary.append(Message(directive.value_text(), phase="commentary"))


def _cite(draft: Draft, directive: Directive) -> None:
    draft.citations.append(Citation(directive.value_text(), directive.text("title", "A source")))


def _search(draft: Draft, directive: Directive) -> None:
    kind = _one_of(SEARCH_KINDS, directive.text("kind", "server"))
    draft.before.append(
        Search(directive.value_text(), kind, directive.text("url", "https://example.org/found"))
    )


def _fetch(draft: Draft, directive: Directive) -> None:
    draft.before.append(Fetch(directive.value_text()))


def _image(draft: Draft, directive: Directive) -> None:
    draft.before.append(draft.request.image(directive.value_text("A square")))


def _parsed(draft: Draft, _directive: Directive) -> None:
    draft.documents = draft.request.documents


def _refusal(draft: Draft, directive: Directive) -> None:
    draft.refused = True
    draft.text = directive.value_text("I cannot help with that.")


def _incomplete(draft: Draft, directive: Directive) -> None:
    draft.plan = replace(draft.plan, ending=_one_of(ENDINGS, directive.value_text("max_output_tokens")))


def _deltas(draft: Draft, directive: Directive) -> None:
    draft.deltas = int(directive.value)


def _slow(draft: Draft, directive: Directive) -> None:
    draft.deltas = int(float(directive.value) * SLOW_DELTAS_PER_SECOND)
    draft.deliver(delay_seconds=1 / SLOW_DELTAS_PER_SECOND)


def _error(draft: Draft, directive: Directive) -> None:
    status = int(directive.value)
    refusal = own_rate_limit() if directive.options.get("own") else documented(status)
    if "retry_after" in directive.options:
        refusal = replace(
            refusal, headers={**refusal.headers, "Retry-After": directive.text("retry_after", "")}
        )
    family = directive.options.get("family", refusal.family)
    changes = {"family": family, "message": directive.text("message", refusal.message)}
    draft.plan = replace(draft.plan, refusal=replace(refusal, **changes))


def _refuse(draft: Draft, directive: Directive) -> None:
    path = directive.value_text("")
    values = tuple(filter(None, directive.text("values", "").split(",")))
    given: Any = draft.request.body
    for name in path.split("."):
        given = given.get(name) if isinstance(given, dict) else None
    if given is not None and given not in values:
        draft.plan = replace(draft.plan, refusal=unsupported(path, given, values))


def _fail(draft: Draft, directive: Directive) -> None:
    kind = _one_of(BREAK_KINDS, directive.value_text("failed"))
    plain = Break(kind)
    draft.plan = replace(
        draft.plan,
        cut=Break(
            kind,
            directive.count("after", plain.after_deltas),
            directive.text("code", plain.code),
            directive.text("message", plain.message),
            directive.text("type", plain.error_type),
        ),
    )


def _delay(draft: Draft, directive: Directive) -> None:
    first = draft.plan.delivery.first_delay_seconds
    draft.deliver(delay_seconds=float(directive.value), first_delay_seconds=directive.number("first", first))


def _wire(draft: Draft, directive: Directive) -> None:
    now = draft.plan.delivery
    draft.deliver(
        newline=NEWLINES[_one_of(("lf", "crlf"), directive.value_text("lf"))],
        split_bytes=directive.count("split", now.split_bytes),
        comments=directive.count("comments", now.comments),
        bare_comments=bool(directive.options.get("bare")),
        comment_every=directive.count("every", now.comment_every),
    )


def _late(draft: Draft, directive: Directive) -> None:
    what = _one_of(("seal", "arguments", "both"), directive.value_text("both"))
    draft.deliver(late_seals=what in {"seal", "both"}, late_arguments=what in {"arguments", "both"})


def _unknown(draft: Draft, directive: Directive) -> None:
    what = _one_of(("event", "item", "both"), directive.value_text("both"))
    draft.deliver(unknown_event=what in {"event", "both"})
    if what in {"item", "both"}:
        draft.before.append(Unknown())


def _big(draft: Draft, directive: Directive) -> None:
    draft.deliver(big_bytes=int(directive.value))


def _nodone(draft: Draft, _directive: Directive) -> None:
    draft.deliver(done=False)


def _one_of(allowed: tuple[T, ...], word: str) -> T:
    for one in allowed:
        if one == word:
            return one
    raise directives.DirectiveError(f"{word!r} is none of {', '.join(allowed)}")


MEANINGS: dict[str, Callable[[Draft, Directive], None]] = {
    "reasoning": _reasoning,
    "call": _call,
    "rounds": _rounds,
    "text": _text,
    "quote": _quote,
    "say": _say,
    "cite": _cite,
    "search": _search,
    "fetch": _fetch,
    "image": _image,
    "parsed": _parsed,
    "refusal": _refusal,
    "incomplete": _incomplete,
    "deltas": _deltas,
    "slow": _slow,
    "error": _error,
    "refuse": _refuse,
    "fail": _fail,
    "delay": _delay,
    "wire": _wire,
    "late": _late,
    "unknown": _unknown,
    "big": _big,
    "nodone": _nodone,
}

# --- what happens without directives ---


def _by_model_name(draft: Draft) -> None:
    model = draft.request.model.id
    if model == "standin/slow" and not draft.deltas:
        _slow(draft, directives.Directive("slow", SLOW_MODEL_SECONDS, {}))
    _fail_by_name(draft)
    if model == "standin/tools" and not draft.calls:
        draft.calls = [example_call(name, schema) for name, schema in draft.request.schemas.items()][:1]


def _fail_by_name(draft: Draft) -> None:
    fails = draft.request.model.id == "standin/failing"
    if fails and draft.plan.cut is None and draft.plan.refusal is None:
        draft.plan = replace(draft.plan, refusal=documented(503))


def _is_to_draw(draft: Draft) -> bool:
    """Whether the model is asked for a picture: one that only draws always is, another one in so many words."""
    wanted, has_one = draft.request.modalities, any(isinstance(step, Image) for step in draft.before)
    if "image" not in wanted or has_one or draft.calls or draft.refused:
        return False
    return "text" not in wanted or bool(NATURAL_DRAWING.search(draft.request.text))


def _go_online(draft: Draft) -> None:
    """Search or read where the request lets the model and its user wants it, or where it must; cite what is found."""
    request = draft.request
    words = directives.plain_text(request.text)
    sought, page = NATURAL_SEARCH.search(words), NATURAL_FETCH.search(words)
    if request.choice == "none":
        return
    if FETCH_TOOL in request.server_tools and page:
        draft.before.append(Fetch(page.group(1)))
    wants_to = SEARCH_TOOL in request.server_tools and sought is not None
    if not (wants_to or request.must_search):
        return
    if SEARCH_TOOL in request.server_tools:
        draft.before.append(Search(sought.group(1) if sought else words, "server", FOUND_URL))
    draft.text = f"{_default_text(request)}\n\nAs [{FOUND_TITLE}]({FOUND_URL}) says."
    draft.citations.append(Citation(FOUND_URL, FOUND_TITLE))


def _must_search(body: dict[str, Any]) -> bool:
    given = body.get("tool_choice")
    choice = given if isinstance(given, dict) else {}
    named = any(tool.get("type") == SEARCH_TOOL for tool in choice.get("tools", []))
    forced = named and choice.get("mode") == "required"
    return forced or any(plugin["id"] == "web" for plugin in body.get("plugins") or [])


def _natural_calls(request: ParsedRequest) -> list[Call]:
    forced = "" if request.calls_done else request.choice
    if forced in request.schemas:
        return [example_call(forced, request.schemas[forced])]
    asked = [name for name in NATURAL_CALL.findall(request.text) if name in request.schemas]
    if asked:
        return [example_call(name, request.schemas[name]) for name in dict.fromkeys(asked)]
    if forced == "required":
        return [example_call(name, schema) for name, schema in request.schemas.items()][:1]
    return []


def example_call(name: str, schema: dict[str, Any]) -> Call:
    """A call of a tool with made-up arguments that fit its schema's required properties."""
    properties = schema.get("properties", {})
    wanted = schema.get("required") or []
    return Call(name, json.dumps({key: _example(properties.get(key, {})) for key in wanted}))


def _example(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    first = kind[0] if isinstance(kind, list) else kind
    examples: dict[str, Any] = {
        "integer": 1,
        "number": 1.5,
        "boolean": True,
        "array": [],
        "object": {},
        "null": None,
    }
    return examples.get(first, "example")


def _default_reasoning(request: ParsedRequest) -> Reasoning:
    kind = KIND_OF_FAMILY.get(request.model.family, "summary")
    thought = f"**Reading the request**\n\nI have {_count_of(request.items)}; the last one matters most."
    return Reasoning(kind, (thought,))


def _default_text(request: ParsedRequest) -> str:
    lines = [f"You said: {directives.plain_text(request.text)}"]
    if request.outputs:
        lines.append("The tools answered:")
        lines.append("\n".join(f"- `{name}`: {text[:QUOTED_OUTPUT_CHARS]}" for name, text in request.outputs))
    lines.append(f"*{request.model.id}* saw {_count_of(request.items)}.")
    return "\n\n".join(lines)


def _count_of(items: int) -> str:
    return f"{items} input item{'' if items == 1 else 's'}"


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


def _current_turn(items: list[dict[str, Any]]) -> int:
    return max((at for at, item in enumerate(items) if item.get("role") == "user"), default=-1) + 1


def _choice(choice: Any) -> str:
    if isinstance(choice, str):
        return choice
    if not any(tool.get("type") == "function" for tool in choice.get("tools", [choice])):
        return "auto"  # a server tool, whose calls are no function's
    return str(choice.get("name", choice.get("mode", "auto")))


def _thinks(reasoning: dict[str, Any], model: Model) -> bool:
    asked = reasoning.get("enabled") is not False and reasoning.get("effort") != "none"
    return model.thinking is not None and model.id != "standin/script" and asked
