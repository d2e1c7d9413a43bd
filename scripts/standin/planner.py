"""From a request to the plan of its answer: directives first, then what a person would expect.

Owns the meaning of directives and of natural chat ("draw a cat"), and what comes before what: queued directives,
a summary, Open WebUI's own prompts, the directives of the text, natural chat. It sends nothing. The directives (syntax:
``plan``):

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
    image=PROMPT                                              an image_generation_call before the answer
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
    nodone                                                    no "data: [DONE]"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import validate_call

from . import plan as planned
from .errors import OWN_RATE_LIMIT, Family, documented, unsupported
from .media import pictures_of
from .plan import (
    Break,
    BreakKind,
    Delivery,
    Directive,
    DirectiveError,
    Ending,
    Item,
    Plan,
    ReasoningKind,
    SearchKind,
    bracketed,
    parse,
    plain_text,
)
from .prompt import ByteTokenizer, input_items, last_user, text_of
from .summaries import KINDS, SummaryRequest, SummaryTask, task_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .catalogue import Model
    from .prompt import Tokenizer

PLAIN_MODEL = "standin/plain"
SLOW_DELTAS_PER_SECOND = 10
QUOTED_OUTPUT_CHARS = 2000
NATURAL_DRAWING = re.compile(r"\b(?:draw|paint|picture|image|make it)\b", re.IGNORECASE)
NATURAL_SEARCH = re.compile(r"\b(?:search(?: the web)? for|look up)\s+(.+)", re.IGNORECASE)
NATURAL_FETCH = re.compile(r"\bread\s+(https?://\S+)", re.IGNORECASE)
SEARCH_TOOL, FETCH_TOOL = "openrouter:web_search", "openrouter:web_fetch"
FOUND_URL, FOUND_TITLE = "https://example.org/found", "What was found"
REFERENCE = re.compile(r"#\d{6}\b")
INPUT_ROLES = ("user", "system", "developer")


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What the plan depends on: the request read once, each turn's calls and outputs since its last user message."""

    body: dict[str, Any]
    model: Model
    items: list[dict[str, Any]]
    text: str
    tools: tuple[str, ...]
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
            tools=tuple(tool["name"] for tool in tools if "name" in tool),
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
    def calls_nothing(self) -> bool:
        """Whether the request forbids all tools."""
        return self.body.get("tool_choice") == "none"

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

    def image(self, prompt: str) -> Item:
        """A drawing in the form that the request asks for, from the last picture that it holds."""
        ratio = (self.body.get("image_config") or {}).get("aspect_ratio", "1:1")
        return planned.image(prompt, next(reversed([*pictures_of(self.body)]), None), ratio)

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
        elif directive.name in ORDERS:
            others.append(directive)
        else:
            raise DirectiveError(f"neither a kind of summarizer nor a directive: {directive.name}")
    return [*others, kind]


def _plan_summary(draft: Draft, asked: SummaryRequest, options: ReplyOptions) -> Plan:
    *others, kind = summarizer(options.summarizer)
    if not draft.answered:
        draft.obey(others)
    draft.think(unasked=draft.request.thinks or kind.name == "reasoning")
    if draft.answered:
        return draft.finished()
    thought = sum(len(options.tokenizer.encode(planned.thought(item))) for item in draft.reasoning)
    left = draft.request.body.get("max_output_tokens") or float("inf")
    task = SummaryTask(asked, kind, options.tokenizer, left - thought, draft.request.tools)
    plan = KINDS[kind.name](draft.plan, task)
    return replace(plan, items=(*draft.reasoning, *plan.items))


@dataclass(slots=True)
class Draft:
    """A plan in the making; a directive calls the method that has its name behind ``_do_``."""

    request: ParsedRequest
    plan: Plan
    reasoning: list[Item] = field(default_factory=list)
    before: list[Item] = field(default_factory=list)
    calls: list[Item] = field(default_factory=list)
    rounds: int = 1
    text: str | None = None
    refused: bool = False
    citations: list[Item] = field(default_factory=list)
    commentary: list[Item] = field(default_factory=list)
    deltas: int = 0

    @property
    def answered(self) -> bool:
        """Whether a directive has said what the answer is."""
        return self.text is not None or bool(self.calls) or self.plan.refusal is not None

    def obey(self, ordered: Iterable[Directive]) -> None:
        """Do what each directive says.

        Raises:
            DirectiveError: There is no such directive, or its value or an option is none of its kind.
        """
        for directive in ordered:
            if directive.name not in ORDERS:
                raise DirectiveError(f"unknown directive: {directive.name}")
            values = [] if directive.value is True else [directive.value]
            try:
                ORDERS[directive.name](self, *values, **directive.options)
            except (TypeError, ValueError) as error:
                raise DirectiveError(f"{directive.name}: {error}") from error

    def think(self, *, unasked: bool) -> None:
        """Think as the model's family does, unless a directive has said how."""
        if unasked and not self.reasoning:
            thought = f"**Reading the request**\n\nI have {self.request.count}; the last one matters most."
            kind: ReasoningKind = "raw" if self.request.model.family in {"anthropic", "raw"} else "summary"
            self.reasoning = [planned.reasoning(kind, thought)]

    def finished(self) -> Plan:
        """The plan: the next round of calls, or the answer."""
        rounds_done = self.request.calls_done // len(self.calls) if self.calls else 0
        if self.calls and rounds_done < self.rounds and not self.request.calls_nothing:
            calls = [
                self._numbered(call, rounds_done + 1, number) for number, call in enumerate(self.calls, 1)
            ]
            return replace(self.plan, items=(*self.reasoning, *self.commentary, *calls))
        text = self.request.echo() if self.text is None else self.text
        words = text.split() or ["word"]
        text = " ".join(words[at % len(words)] for at in range(self.deltas)) if self.deltas else text
        message = planned.message(text, self.citations, refused=self.refused)
        answer = [message] if "text" in self.request.modalities else []
        return replace(self.plan, items=(*self.reasoning, *self.before, *answer))

    def _numbered(self, call: Item, now: int, number: int) -> Item:
        arguments = call["arguments"]
        if "$reference" in arguments:
            found = REFERENCE.search("\n".join(map(text_of, self.request.items)))
            arguments = arguments.replace("$reference", found.group() if found else "")
        return {**call, "arguments": arguments.replace("$round", str(now)).replace("$n", str(number))}

    def _deliver(self, **changes: Any) -> None:
        self.plan = replace(self.plan, delivery=replace(self.plan.delivery, **changes))

    def _do_reasoning(
        self, kind: ReasoningKind = "summary", parts: int = 1, text: str = "Thinking it over.", items: int = 1
    ) -> None:
        texts = [text if parts == 1 else f"{text} ({number})" for number in range(1, parts + 1)]
        self.reasoning += [planned.reasoning(kind, *texts)] * items

    def _do_call(self, name: str, args: str | dict[str, Any] | None = None, times: int = 1) -> None:
        self.calls += [planned.call(name, args if isinstance(args, str) else json.dumps(args or {}))] * times

    def _do_rounds(self, count: int) -> None:
        self.rounds = count

    def _do_text(self, text: str) -> None:
        self.text = text

    def _do_quote(self, words: str) -> None:
        lines = (line for _, text in self.request.outputs for line in text.splitlines())
        self.text = next((line for line in lines if words in line), f"Nothing says {words}.")

    def _do_say(self, text: str) -> None:
        self.commentary.append(planned.message(text, phase="commentary"))

    def _do_cite(self, url: str, title: str = "A source") -> None:
        self.citations.append(planned.citation(url, title))

    def _do_search(self, query: str, kind: SearchKind = "server", url: str = FOUND_URL) -> None:
        self.before.append(planned.search(query, kind, url))

    def _do_image(self, prompt: str = "A square") -> None:
        self.before.append(self.request.image(prompt))

    def _do_refusal(self, text: str = "I cannot help with that.") -> None:
        self.refused, self.text = True, text

    def _do_incomplete(self, ending: Ending = "max_output_tokens") -> None:
        self.plan = replace(self.plan, ending=ending)

    def _do_deltas(self, count: int) -> None:
        self.deltas = count

    def _do_slow(self, seconds: float) -> None:
        self.deltas = int(seconds * SLOW_DELTAS_PER_SECOND)
        self._deliver(delay_seconds=1 / SLOW_DELTAS_PER_SECOND)

    def _do_error(
        self,
        status: int,
        family: Family | None = None,
        message: str = "",
        retry_after: str = "",
        own: bool = False,  # noqa: FBT001, FBT002 - an option of a directive
    ) -> None:
        refusal = OWN_RATE_LIMIT if own else documented(status)
        headers = {**refusal.headers, **({"Retry-After": retry_after} if retry_after else {})}
        family, message = family or refusal.family, message or refusal.message
        refusal = replace(refusal, headers=headers, family=family, message=message)
        self.plan = replace(self.plan, refusal=refusal)

    def _do_refuse(self, path: str, values: str = "") -> None:
        given: Any = self.request.body
        for name in path.split("."):
            given = given.get(name) if isinstance(given, dict) else None
        allowed = tuple(filter(None, values.split(",")))
        if given is not None and given not in allowed:
            self.plan = replace(self.plan, refusal=unsupported(path, given, allowed))

    def _do_fail(
        self,
        kind: BreakKind = "failed",
        after: int = Break.after_deltas,
        code: str = Break.code,
        message: str = Break.message,
        type: str = Break.error_type,  # noqa: A002 - as the service's field is called
    ) -> None:
        self.plan = replace(self.plan, cut=Break(kind, after, code, message, type))

    def _do_delay(self, seconds: float, first: float | None = None) -> None:
        now = self.plan.delivery.first_delay_seconds
        self._deliver(delay_seconds=seconds, first_delay_seconds=now if first is None else first)

    def _do_wire(
        self,
        ending: Literal["lf", "crlf"] = "lf",
        split: int = 0,
        comments: int = 2,
        bare: bool = False,  # noqa: FBT001, FBT002 - an option of a directive
        every: int = 0,
    ) -> None:
        framing = {"split_bytes": split, "comments": comments, "bare_comments": bare, "comment_every": every}
        self._deliver(newline={"lf": "\n", "crlf": "\r\n"}[ending], **framing)

    def _do_late(self, what: Literal["seal", "arguments", "both"] = "both") -> None:
        self._deliver(late_seals=what != "arguments", late_arguments=what != "seal")

    def _do_unknown(self, what: Literal["event", "item", "both"] = "both") -> None:
        self._deliver(unknown_event=what != "item")
        self.before += [planned.unknown()] * (what != "event")

    def _do_nodone(self) -> None:
        self._deliver(done=False)


ORDERS: dict[str, Callable[..., None]] = {
    name.removeprefix("_do_"): validate_call(method)
    for name, method in vars(Draft).items()
    if name.startswith("_do_")
}
"""What each directive does; its options are read as their types say, and no others are taken."""


# --- what happens without directives ---


def _is_to_draw(draft: Draft) -> bool:
    """Whether the model is asked for a picture: one that only draws always is, another one in so many words."""
    wanted, has_one = draft.request.modalities, any("result" in item for item in draft.before)
    if "image" not in wanted or has_one or draft.calls or draft.refused:
        return False
    return "text" not in wanted or bool(NATURAL_DRAWING.search(draft.request.text))


def _go_online(draft: Draft) -> None:
    """Search or read where the request lets the model and its user wants it, or where it must; cite what is found."""
    request = draft.request
    if request.calls_nothing:
        return
    words = plain_text(request.text)
    sought, page = NATURAL_SEARCH.search(words), NATURAL_FETCH.search(words)
    if FETCH_TOOL in request.server_tools and page:
        draft.before.append(planned.fetch(page[1]))
    can_search = SEARCH_TOOL in request.server_tools
    if not (request.must_search or (can_search and sought)):
        return
    if can_search:
        draft.before.append(planned.search(sought[1] if sought else words, "server", FOUND_URL))
    draft.text = f"{request.echo()}\n\nAs [{FOUND_TITLE}]({FOUND_URL}) says."
    draft.citations.append(planned.citation(FOUND_URL, FOUND_TITLE))


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
