"""What the router and each model's maker refuse, whatever a client knows of it.

Owns what breaks each rule of ``rules.txt``, which has the rest: whose a rule is, where it was seen, and its answer.
The first rule that a request breaks answers it. Whose rules hold follows from the model's entry in the catalogue.
``seal`` finds what is wrong with replayed reasoning; ``validate`` judges what depends on no model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cache import MAX_BREAKPOINTS
from .errors import RefusalError, router_error, vendor_error
from .media import pictures_of
from .prompt import LEAST_THINKING_TOKENS, SYSTEM_ROLES, last_user, thinking_tokens

if TYPE_CHECKING:
    from .catalogue import Model
    from .prompt import Prompt
    from .seal import TroubleError
    from .state import Credit

Item = dict[str, Any]
Fields = dict[str, Any]
"""What the words of a rule name."""

ROUTER, ANY = "router", "any"
LIMITED = 402
IMPLICIT_COMPRESSION_TOKENS = 8192
"""The context-compression plugin is on up to a window of so many, unless a request switches it off."""
MAX_TOOLS = {"openai": 128, "x-ai": 200}
LEAST_OUTPUT_TOKENS = 16
MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_ID_CHARS = 64
ID_PREFIXES = {"message": "msg_", "function_call": "fc_", "reasoning": "rs_"}
ENCRYPTED_CONTENT = "reasoning.encrypted_content"
OF_ROUTER = frozenset(
    {
        *("model", "models", "input", "instructions", "stream", "store", "provider", "plugins", "include"),
        *(
            "metadata",
            "session_id",
            "user",
            "safety_identifier",
            "background",
            "trace",
            "prompt_cache_key",
            "prompt_cache_options",
        ),
        *("cache_control", "service_tier", "modalities", "parallel_tool_calls", "truncation"),
        *("previous_response_id", "max_tool_calls", "stop_server_tools_when", "image_config"),
    }
)
"""Parameters that no endpoint has to know."""
NAMES_OF_CHAT = {"max_output_tokens": "max_tokens", "text": "response_format"}
"""What the catalogue calls parameters."""


@dataclass(frozen=True)
class Asked:
    """A request as the rules read it: whom it is for, its prompt, its reasoning's trouble, its account's credit."""

    body: dict[str, Any]
    model: Model
    items: list[Item]
    prompt: Prompt
    trouble: TroubleError | None = None
    credit: Credit | None = None

    @cached_property
    def limit(self) -> int:
        """The tokens that the answer may have; 0 where the request does not say."""
        return self.body.get("max_output_tokens") or 0

    @cached_property
    def output(self) -> int:
        """The tokens that the router reserves for the answer."""
        return self.limit or self.model.max_output_tokens or 0

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """The tools of the request."""
        return self.body.get("tools") or []

    @cached_property
    def reasoning(self) -> dict[str, Any]:
        """What is asked of its reasoning."""
        return self.body.get("reasoning") or {}

    @cached_property
    def budget(self) -> int:
        """The tokens that the model may think where the request switches its thinking on; else 0."""
        return (thinking_tokens(self.body, self.model) or 0) if self.model.thinking is not None else 0

    @cached_property
    def thinks(self) -> bool:
        """Whether the model thinks, asked or by itself."""
        off = self.reasoning.get("enabled") is False or self.reasoning.get("effort") == "none"
        return self.model.thinking is not None and not off

    @cached_property
    def rounds(self) -> list[list[tuple[int, Item]]]:
        """What the model said and called since the last user message, by rounds, each item with its place."""
        start = last_user(self.items) + 1
        turn = [pair for pair in enumerate(self.items) if pair[0] >= start and _is_of_model(pair[1])]
        grouped = groupby(turn, lambda pair: _kind(pair[1]).endswith("_output"))
        return [list(items) for is_output, items in grouped if not is_output]

    @cached_property
    def chosen_tools(self) -> list[dict[str, Any]]:
        """The tools that the request's choice names."""
        choice = self.body.get("tool_choice")
        if not isinstance(choice, dict):
            return []
        return choice["tools"] if choice["type"] == "allowed_tools" else [choice]

    @property
    def is_compressed(self) -> bool:
        """Whether the prompt is too long, but its middle may be left out."""
        plugins = self.body.get("plugins") or []
        plugin = next((one for one in plugins if one["id"] == "context-compression"), None)
        is_small = self.model.context_tokens <= IMPLICIT_COMPRESSION_TOKENS
        may = is_small if plugin is None else plugin.get("enabled", True)
        return may and self.prompt.tokens + self.limit > self.model.context_tokens

    def block(self, place: int) -> Fields:
        """In which message a provider of messages sees an item, and as which block of it."""
        message, block, before = -1, 0, None
        for item in self.items[: place + 1]:
            if item.get("role") not in SYSTEM_ROLES:
                is_said = item.get("role") != "user" and not _kind(item).endswith("_output")
                message, block = (message, block + 1) if is_said is before else (message + 1, 0)
                before = is_said
        return {"message": message, "block": block}


def _kind(item: Item) -> str:
    return str(item.get("type", "message"))


def _is_of_model(item: Item) -> bool:
    """Whether it is neither a tool of the router's nor an instruction."""
    return not _kind(item).startswith("openrouter:") and item.get("role") not in SYSTEM_ROLES


def _if(holds: object, **fields: Any) -> list[Fields]:
    return [fields] if holds else []


# --- what breaks each rule: the fields of its words for each fault ---


def _breaks_batch(asked: Asked) -> list[Fields]:
    return _if(asked.model.id.endswith(":batch"), id=asked.model.id)


def _breaks_tools(asked: Asked) -> list[Fields]:
    names = [tool["name"] for tool in asked.tools if "name" in tool]
    hint = f'Try disabling "{names[0]}". ' if names else ""
    return _if(asked.tools and "tools" not in asked.model.parameters, hint=hint)


def _breaks_tool_choice(asked: Asked) -> list[Fields]:
    is_asked = asked.tools and asked.body.get("tool_choice") not in (None, "auto", "none")
    return _if(is_asked and "tool_choice" not in asked.model.parameters)


def _breaks_cache_control(asked: Asked) -> list[Fields]:
    return _if(asked.body.get("cache_control") and asked.model.rule.kind == "none")


def _breaks_modalities(asked: Asked) -> list[Fields]:
    wanted = asked.body.get("modalities") or ["text"]
    return _if(not set(wanted) <= set(asked.model.outputs), names=", ".join(sorted(wanted)))


def _breaks_parameters(asked: Asked) -> list[Fields]:
    given = {NAMES_OF_CHAT.get(name, name) for name, value in asked.body.items() if value is not None}
    insists = (asked.body.get("provider") or {}).get("require_parameters")
    return _if(insists and given - OF_ROUTER - set(asked.model.parameters))


def _breaks_mandatory(asked: Asked) -> list[Fields]:
    return _if((asked.model.thinking or {}).get("mandatory") and not asked.thinks)


def _breaks_unknown_choice(asked: Asked) -> Iterator[Fields]:
    keys = ("type", "name")
    offered = [{key: tool.get(key) for key in keys} for tool in asked.tools]
    yield from ({"tool": one} for one in asked.chosen_tools if {k: one.get(k) for k in keys} not in offered)


def _breaks_prompt_above_credit(asked: Asked, *, of_key: bool = False) -> list[Fields]:
    price = asked.model.cached.prices.prompt
    if asked.credit is None or asked.credit.is_of_key is not of_key or not price:
        return []
    most = int(asked.credit.dollars / price)
    return _if(asked.prompt.tokens > most, tokens=asked.prompt.tokens, most=most)


def _breaks_answer_above_credit(asked: Asked, *, of_key: bool = False) -> list[Fields]:
    if asked.credit is None or asked.credit.is_of_key is not of_key:
        return []
    most = asked.credit.affordable(asked)
    return _if(asked.output > most, tokens=asked.output, most=most)


def _breaks_prompt_above_key(asked: Asked) -> list[Fields]:
    return _breaks_prompt_above_credit(asked, of_key=True)


def _breaks_answer_above_key(asked: Asked) -> list[Fields]:
    return _breaks_answer_above_credit(asked, of_key=True)


def _breaks_in_flight(asked: Asked) -> list[Fields]:
    """What the account lacks is what its other requests may still cost."""
    return _if(asked.credit and asked.output > asked.credit.affordable(asked, beside_others=True))


def _breaks_duplicates(asked: Asked) -> Iterator[Fields]:
    ids = Counter(item["id"] for item in asked.items if item.get("id"))
    yield from ({"id": name, "param": "input"} for name, count in ids.items() if count > 1)


def _breaks_odd_ids(asked: Asked) -> Iterator[Fields]:
    for at, item in enumerate(asked.items):
        prefix, name = ID_PREFIXES.get(_kind(item)), item.get("id")
        if prefix and name and not name.startswith(prefix):
            yield {"at": at, "id": name, "prefix": prefix, "param": f"input[{at}].id"}


def _breaks_long_ids(asked: Asked) -> Iterator[Fields]:
    for at, item in enumerate(asked.items):
        if (count := len(item.get("id") or "")) > MAX_ID_CHARS:
            yield {"at": at, "most": MAX_ID_CHARS, "count": count, "param": f"input[{at}].id"}


def _breaks_developers(asked: Asked) -> Iterator[Fields]:
    yield from ({"at": at} for at, item in enumerate(asked.items) if item.get("role") == "developer")


def _breaks_unanswered(asked: Asked) -> Iterator[Fields]:
    """Between a call and its output stands something that was said; only OpenAI's models take that."""
    waiting: dict[str, int] = {}
    for at, item in enumerate(asked.items):
        if _kind(item) == "function_call":
            waiting[item["call_id"]] = at
        elif _kind(item) == "function_call_output":
            waiting.pop(item["call_id"], None)
        elif item.get("role") in {"user", "assistant"} and asked.model.maker != "openai":
            yield from ({**asked.block(place), "id": name} for name, place in waiting.items())
    yield from ({**asked.block(place), "id": name, "param": "input"} for name, place in waiting.items())


def _breaks_too_many_tools(asked: Asked) -> list[Fields]:
    most, count = MAX_TOOLS[asked.model.maker], len(asked.tools)
    return _if(count > most, most=most, count=count, param="tools")


def _breaks_odd_names(asked: Asked) -> Iterator[Fields]:
    odd = (at for at, tool in enumerate(asked.tools) if re.match("[^A-Za-z_]", tool.get("name", "")))
    yield from ({"at": at} for at in odd)


def _breaks_loose_schemas(asked: Asked) -> Iterator[Fields]:
    """A strict function requires all its fields."""
    for at, tool in enumerate(asked.tools):
        schema = tool.get("parameters") or {}
        required = schema.get("required", [])
        for missing in schema.get("properties", {}):
            if tool.get("strict") and missing not in required:
                yield {"name": tool["name"], "missing": missing, "param": f"tools[{at}].parameters"}


def _breaks_forced_thinking(asked: Asked) -> list[Fields]:
    choice = asked.body.get("tool_choice")
    forced = choice.get("mode", "required") if isinstance(choice, dict) else choice
    return _if(asked.budget and forced == "required")


def _breaks_unread_reasoning(asked: Asked) -> list[Fields]:
    is_replayed = any(_kind(item) == "reasoning" for item in asked.items)
    return _if(is_replayed and "reasoning" not in asked.model.parameters)


def _breaks_unread_seals(asked: Asked) -> list[Fields]:
    is_wanted = ENCRYPTED_CONTENT in (asked.body.get("include") or [])
    wanted = _if(is_wanted and "reasoning" not in asked.model.parameters, param="include")
    return wanted or _breaks_unread_reasoning(asked)


def _breaks_open_thoughts(asked: Asked) -> Iterator[Fields]:
    for at, item in enumerate(asked.items):
        if _kind(item) == "reasoning" and (content := item.get("content")):
            yield {"at": at, "count": len(content), "param": f"input[{at}].content"}


def _breaks_without_thinking(asked: Asked) -> list[Fields]:
    """A turn with calls begins with its thinking while thinking is on."""
    calls = [item for one in asked.rounds for _, item in one if _kind(item) == "function_call"]
    if not (asked.budget and calls):
        return []
    place, first = asked.rounds[0][0]
    found = {"reasoning": "thinking", "function_call": "tool_use"}.get(_kind(first), "text")
    return _if(found != "thinking", found=found, **asked.block(place))


def _breaks_without_reasoning(asked: Asked) -> list[Fields]:
    kinds = [{_kind(item) for _, item in one} for one in asked.rounds]
    return _if(asked.thinks and any("function_call" in one and "reasoning" not in one for one in kinds))


def _breaks_small_budget(asked: Asked) -> list[Fields]:
    return _if(0 < asked.budget < LEAST_THINKING_TOKENS)


def _breaks_budget_above_limit(asked: Asked) -> list[Fields]:
    return _if(asked.limit and asked.budget >= asked.limit)


def _breaks_limit_above_most(asked: Asked) -> list[Fields]:
    most = asked.model.max_output_tokens or asked.limit
    return _if(asked.limit > most, limit=asked.limit, most=most, slug=_slug(asked))


def _breaks_small_limit(asked: Asked) -> list[Fields]:
    return _if(0 < asked.limit < LEAST_OUTPUT_TOKENS, limit=asked.limit, param="max_output_tokens")


def _breaks_unknown_effort(asked: Asked) -> list[Fields]:
    known, effort = asked.model.efforts, asked.reasoning.get("effort")
    quoted, plain = (", ".join(f"{q}{one}{q}" for one in known or ()) for q in ("'", ""))
    is_unknown = known is not None and effort not in {None, "none", *known}
    fields = {"effort": effort, "quoted": quoted, "plain": plain, "slug": _slug(asked)}
    return _if(is_unknown, **fields, param="reasoning.effort")


def _breaks_breakpoints(asked: Asked) -> list[Fields]:
    count = sum(segment.breakpoint for segment in asked.prompt.segments)
    return _if(count > MAX_BREAKPOINTS, count=count)


def _breaks_late_hour(asked: Asked) -> list[Fields]:
    lasts = (asked.body.get("cache_control") or {}).get("ttl") == "1h"
    return _if(lasts and sum(segment.breakpoint for segment in asked.prompt.segments) > 1)


def _breaks_large_images(asked: Asked) -> Iterator[Fields]:
    sizes = map(len, pictures_of(asked.body))
    yield from ({"bytes": size, "most": MAX_IMAGE_BYTES} for size in sizes if size > MAX_IMAGE_BYTES)


def _breaks_too_long(asked: Asked) -> list[Fields]:
    tools, total = asked.prompt.tool_tokens, asked.prompt.tokens + asked.limit
    counts = {
        "text": asked.prompt.tokens - tools,
        "tools": f", {tools} of tool input" if tools else "",
        "prompt": asked.prompt.tokens,
        "output": asked.limit,
        "total": total,
        "window": asked.model.context_tokens,
    }
    return _if(total > asked.model.context_tokens and not asked.is_compressed, **counts, param="input")


def _breaks_prompt_too_long(asked: Asked) -> list[Fields]:
    """The provider says it of its own models; for those that only the stand-in has, the router does."""
    is_real = not asked.model.id.startswith("standin/")
    return _breaks_too_long(asked) if is_real and asked.prompt.tokens > asked.model.context_tokens else []


def _slug(asked: Asked) -> str:
    return asked.model.id.partition("/")[2]


BREAKS: dict[str, Callable[[Asked], Iterable[Fields]]] = {
    name.removeprefix("_breaks_"): function
    for name, function in list(globals().items())
    if name.startswith("_breaks_")
}


# --- the table ---


@dataclass(frozen=True, slots=True)
class Rule:
    """One refusal: what breaks it, whose it is, its status and code, where it was seen, and its words."""

    names: tuple[str, ...]
    makers: frozenset[str]
    status: int
    code: str
    seen: str
    words: str

    def refusal(self, asked: Asked) -> RefusalError | None:
        """The answer to a request that breaks this rule; None where it holds."""
        maker = asked.model.maker
        if self.makers.isdisjoint({ROUTER, ANY, maker}):
            return None
        broken = next(iter(self._faults(asked)), None)
        if broken is None:
            return None
        said = self.words.format_map(broken)
        if ROUTER not in self.makers:
            param = broken.get("param")
            return vendor_error(
                maker, asked.model.provider, said, status=self.status, code=self.code, param=param
            )
        metadata = {"limit_source": self.code} if self.code else {}
        if self.status == 404:
            return router_error(self.status, said)
        refusal = router_error(self.status, said, provider_name=None, **metadata)
        refusal.headers = {"Retry-After": "1"} if "in_flight" in self.names else {}
        return refusal

    def _faults(self, asked: Asked) -> Iterable[Fields]:
        if self.names[0] in BREAKS:
            return BREAKS[self.names[0]](asked)
        if asked.trouble is None or asked.trouble.kind not in self.names:
            return ()
        return [{"param": "input", **asked.block(asked.trouble.place), **asked.trouble.fields}]


def _read_rules() -> Iterator[Rule]:
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            names, makers, answer, seen, words = (cell.strip() for cell in f"{line} ".split(" | ", 4))
            status, _, code = answer.partition(" ")
            yield Rule(tuple(names.split()), frozenset(makers.split()), int(status), code, seen, words)


RULES = tuple(_read_rules())


def judge(asked: Asked) -> None:
    """Accept a request that breaks no rule.

    Raises:
        RefusalError: The answer of the first rule that it breaks.
    """
    for rule in RULES:
        if refusal := rule.refusal(asked):
            raise refusal
