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
    search=QUERY                      url=                    a web search item before the answer
    image=PROMPT                                              an image_generation_call before the answer
    tool=NAME                         item={...}              a call of the router's tool before the answer, if the
                                                              request offers it; with these fields, or the usual ones
    refusal="..."                                             a refusal part instead of text
    echo                                                      the final answer is what asks for a summary
    mute                                                      no answer, whatever the model thinks
    incomplete=max_output_tokens|content_filter               the answer stops halfway
    deltas=N                                                  the final answer has N deltas
    slow=SECONDS                                              a long answer, ten deltas a second
    error=STATUS                      family= message= retry_after=                    instead of an answer
                                                              (family A, B, C or html)
    recorded={...}                    holds=TYPE              a recorded error, by its status, shape, and body or
                                                              message, if the input holds an item of this type
    refuse=PATH                       values=a,b              the provider takes no such parameter, such as
                                                              temperature or reasoning.effort, or no other values
    fail=failed|response.error|nested|flat|eof  after= code= message= type=            in mid-stream
    delay=SECONDS                     first=                  a pause before each delta, before the first byte
    hang                                                      no answer, and no header, until the client leaves
    late                                                      seals and arguments only in response.completed
    unknown=event|item|both                                   things that no client knows
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import validate_call

from . import plan as planned
from .errors import Family, RefusalError, documented, unsupported
from .media import pictures_of
from .plan import (
    Break,
    BreakKind,
    Directive,
    DirectiveError,
    Ending,
    Item,
    Plan,
    ReasoningKind,
    parse,
    plain_text,
)
from .prompt import ByteTokenizer, input_items, last_user, text_of
from .summaries import instruction, source_of, summary_of, task_answer

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
NOTE = re.compile(r"\[(?!\[standin:)")
"""How a message begins that a client has put beside the question, such as quotations."""
REFERENCE = re.compile(r"#\d{6}\b")


class ParsedRequest:
    """An accepted request, read once: its newest question, its abilities, the calls and outputs since then."""

    def __init__(self, body: dict[str, Any], model: Model) -> None:
        self.body, self.model, self.items = body, model, input_items(body)
        said = [text_of(item) for item in self.items if item.get("role") == "user"]
        self.text = next((text for text in reversed(said) if not NOTE.match(text)), said[-1] if said else "")
        turn = self.items[last_user(self.items) + 1 :]
        names = {item["call_id"]: item["name"] for item in self.items if item.get("type") == "function_call"}
        outputs = (item for item in turn if item.get("type") == "function_call_output")
        self.outputs = [(names[item["call_id"]], text_of(item)) for item in outputs]
        self.calls_done = sum(item.get("type") == "function_call" for item in turn)
        self.modalities = body.get("modalities") or ["text"]
        self.server_tools = {tool["type"] for tool in body.get("tools") or []}
        self.calls_nothing = body.get("tool_choice") == "none"

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


def plan_answer(
    body: dict[str, Any],
    model: Model,
    queued: str = "",
    *,
    summarizer: str = "",
    pace_seconds: float = 0.0,
    tokenizer: Tokenizer | None = None,
) -> Plan:
    """The plan for an accepted request to a model.

    Args:
        body: The request.
        model: Whom it is for.
        queued: Directives that stand before those of the text.
        summarizer: Directives on the way to a summary.
        pace_seconds: The pause between deltas of an answer whose directives set none.
        tokenizer: Counts what a summary may have.

    Raises:
        DirectiveError: A directive cannot be read.
    """
    request = ParsedRequest(body, model)
    draft = Draft(request, Plan(delay_seconds=pace_seconds))
    draft.obey(read_directives(queued))
    if instruction(body):
        if not draft.answered:
            draft.obey(read_directives(summarizer))
        draft.think(unasked=request.thinks)
        if not draft.answered:
            draft.text = draft.summary(tokenizer or ByteTokenizer())
        return draft.finished()
    task = task_answer(request.text) if "text" in request.modalities else None
    if not task and model.id != PLAIN_MODEL:
        draft.obey(read_directives(request.text))
    if task and draft.text is None:
        draft.text = task
        return draft.finished()
    if draft.text is None and not draft.calls and not draft.before:
        _go_online(draft)
    if _is_to_draw(draft):
        draft.before.append(request.image(plain_text(request.text)))
    draft.think(unasked=request.thinks)
    return draft.finished()


def read_directives(text: str) -> tuple[Directive, ...]:
    """The directives of a text.

    Raises:
        DirectiveError: One of them cannot be read, or there is no such.
    """
    found, _ = parse(text)
    for directive in found:
        if directive.name not in ORDERS:
            raise DirectiveError(f"unknown directive: {directive.name}")
    return found


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
    mute: bool = False
    citations: list[Item] = field(default_factory=list)
    commentary: list[Item] = field(default_factory=list)
    deltas: int = 0

    @property
    def answered(self) -> bool:
        """Whether a directive has said what the answer is."""
        return self.text is not None or self.mute or bool(self.calls) or self.plan.refusal is not None

    def obey(self, ordered: Iterable[Directive]) -> None:
        """Do what each directive says.

        Raises:
            DirectiveError: Its value or an option is none of its kind.
        """
        for directive in ordered:
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

    def summary(self, tokenizer: Tokenizer) -> str:
        """An honest summary, within what thinking has left of the output limit."""
        thought = sum(len(tokenizer.encode(planned.thought(item))) for item in self.reasoning)
        limit = self.request.body.get("max_output_tokens") or float("inf")
        return summary_of(source_of(self.request.body), tokenizer, limit - thought)

    def finished(self) -> Plan:
        """The plan: the next round of calls, or the answer."""
        rounds_done = self.request.calls_done // len(self.calls) if self.calls else 0
        if self.calls and rounds_done < self.rounds and not self.request.calls_nothing:
            calls = [
                self._numbered(call, rounds_done + 1, number) for number, call in enumerate(self.calls, 1)
            ]
            before = self.before if rounds_done == 0 else []
            self.plan.items = [*self.reasoning, *before, *self.commentary, *calls]
            return self.plan
        text = self.request.echo() if self.text is None else self.text
        words = text.split() or ["word"]
        text = " ".join(words[at % len(words)] for at in range(self.deltas)) if self.deltas else text
        message = planned.message(text, self.citations, refused=self.refused)
        answer = [message] if "text" in self.request.modalities and not self.mute else []
        self.plan.items = [*self.reasoning, *self.before, *answer]
        return self.plan

    def _numbered(self, call: Item, now: int, number: int) -> Item:
        arguments = call["arguments"]
        if "$reference" in arguments:
            found = REFERENCE.search("\n".join(map(text_of, self.request.items)))
            arguments = arguments.replace("$reference", found.group() if found else "")
        return {**call, "arguments": arguments.replace("$round", str(now)).replace("$n", str(number))}

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

    def _do_search(self, query: str, url: str = FOUND_URL) -> None:
        self.before.append(planned.search(query, url))

    def _do_image(self, prompt: str = "A square") -> None:
        self.before.append(self.request.image(prompt))

    def _do_tool(self, name: str, item: dict[str, Any] | None = None) -> None:
        if f"openrouter:{name}" in self.request.server_tools:
            made = {"result": self.request.image("A boat")["result"]} if name == "image_generation" else {}
            self.before.append(planned.server_call(name, **made, **(item or {})))

    def _do_refusal(self, text: str = "I cannot help with that.") -> None:
        self.refused, self.text = True, text

    def _do_echo(self) -> None:
        self.text = instruction(self.request.body)

    def _do_mute(self) -> None:
        self.mute = True

    def _do_incomplete(self, ending: Ending = "max_output_tokens") -> None:
        self.plan.ending = ending

    def _do_deltas(self, count: int) -> None:
        self.deltas = count

    def _do_slow(self, seconds: float) -> None:
        self.deltas = int(seconds * SLOW_DELTAS_PER_SECOND)
        self.plan.delay_seconds = 1 / SLOW_DELTAS_PER_SECOND

    def _do_error(
        self, status: int, family: Family | None = None, message: str = "", retry_after: str = ""
    ) -> None:
        refusal = documented(status)
        headers = {"Retry-After": retry_after} if retry_after else {}
        family, message = family or refusal.family, message or refusal.message
        if family == "C":  # a failed response with status 200
            self.plan.cut = Break("failed", 0, message=message, error_type=refusal.error_type)
        else:
            self.plan.refusal = replace(refusal, headers=headers, family=family, message=message)

    def _do_recorded(self, row: dict[str, Any], holds: str = "") -> None:
        if holds and holds not in {item.get("type") for item in self.request.items}:
            return
        body, message = row.get("body"), row.get("message", "")
        if row["shape"] != "sse event":
            self.plan.refusal = RefusalError(row["status"], message, whole=body)
            return
        error = (
            (body or {})
            .get("response", body or {})
            .get("error", {"code": "server_error", "message": message})
        )
        code = error.get("code", error.get("type"))
        self.plan.cut = Break("failed", 0, code, error["message"], error_type="unmapped")

    def _do_refuse(self, path: str, values: str = "") -> None:
        given: Any = self.request.body
        for name in path.split("."):
            given = given.get(name) if isinstance(given, dict) else None
        allowed = tuple(filter(None, values.split(",")))
        if given is not None and given not in allowed:
            self.plan.refusal = unsupported(path, given, allowed)

    def _do_fail(
        self,
        kind: BreakKind = "failed",
        after: int = Break.after_deltas,
        code: str = Break.code,
        message: str = Break.message,
        type: str = Break.error_type,  # noqa: A002 - as the service's field is called
    ) -> None:
        self.plan.cut = Break(kind, after, code, message, type)

    def _do_delay(self, seconds: float, first: float | None = None) -> None:
        self.plan.delay_seconds = seconds
        if first is not None:
            self.plan.first_delay_seconds = first

    def _do_hang(self) -> None:
        self.plan.silent = True

    def _do_late(self) -> None:
        self.plan.late = True

    def _do_unknown(self, what: Literal["event", "item", "both"] = "both") -> None:
        self.plan.unknown_event = what != "item"
        if what != "event":
            self.before.append({"type": "standin_novelty", "novelty": {"unforeseen": True}})


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
        text = {"title": "A page", "content": f"The text of {page[1]}.", "httpStatus": 200}
        draft.before.append({"type": FETCH_TOOL, "url": page[1], **text})
    can_search = SEARCH_TOOL in request.server_tools
    if not (request.must_search or (can_search and sought)):
        return
    if can_search:
        draft.before.append(planned.search(sought[1] if sought else words, FOUND_URL))
    draft.text = f"{request.echo()}\n\nAs [{FOUND_TITLE}]({FOUND_URL}) says."
    draft.citations.append(planned.citation(FOUND_URL, FOUND_TITLE))
