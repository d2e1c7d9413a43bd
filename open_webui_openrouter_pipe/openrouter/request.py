"""Builds the requests of a call: parameters read once, joined with each input.

Owns where the provider caches, and the names by which it knows chat and user.

Only families that cache at explicit breakpoints (Anthropic, Alibaba) get any. They do not change what the model
reads: a breakpoint is a field beside a text.

Sources: OpenRouter's `prompt_cache_breakpoint` on `input_text` parts; Anthropic's limit of four breakpoints.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args

from ..conversation.conversation import Tool
from ..conversation.media import holds_pdf
from ..money.prices import needs_breakpoints
from ..planning.plan import CacheMarks
from ..ports import Model, Request, RequestBody, RequestOrigin
from ..responses.items import Item, is_function_call, is_message
from ..responses.tools import STOPS
from ..responses.values import as_list, as_object, as_text, wire_name
from .fields import BEFORE_TOOLS, PARAMETERS, read_parameters, read_tools
from .server_tools import has_to_search, most_searches, with_dollars_left

NAME_CHARACTERS: Final = 48
"""Of what stands for a chat, a user or a message; OpenAI takes at most 64 as `prompt_cache_key`."""

IdentityLevel = Literal["none", "session", "user", "trace"]
"""How much is sent beside the chat's `session_id`; each level includes those before it."""

_LEVELS: Final[tuple[IdentityLevel, ...]] = get_args(IdentityLevel)
_PARSER: Final = "file-parser"
_COMPRESSION: Final = "context-compression"
COMPRESSED_WINDOW_TOKENS: Final = 8_192
"""Up to a window of so many, OpenRouter removes the middle of what is too long without a word, unless it is told not
to (https://openrouter.ai/docs/guides/features/plugins)."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_NOT_FOR_SUMMARIES: Final = frozenset(each.name for each in PARAMETERS if each.summaries == "none")


# --- where the provider caches


def with_breakpoints(items: Sequence[Item], marks: CacheMarks) -> tuple[Item, ...]:
    """Set at most three breakpoints: after the instructions, the frontier and the last completed turn.

    The fourth that a provider takes is left to it, for the end of the request. When the prefix changes, the first
    breakpoint moves to where the change begins, so that what was cached before it is read once more.

    Only messages that the model did not write carry breakpoints. Where a block ends with something else, the next
    such message carries it, or else the one before. But nothing is found again behind what changes from request to
    request: with such text before the current turn, the last two messages before it carry breakpoints, the later one
    for the next request, the earlier one for what the request before has left.
    """
    parts = {at: part for at, item in enumerate(items) if (part := _last_text_part(item)) is not None}
    carriers = list(parts)
    first = marks.instructions if marks.unchanged == marks.frontier else marks.unchanged
    lasting = [at for at in carriers if at < marks.completed]
    if marks.has_volatile:
        chosen = {*lasting[-2:], *(_carrier_of(lasting, end) for end in [first] if end)}
    else:
        chosen = {_carrier_of(carriers, end) for end in (first, marks.frontier, marks.completed) if end}
    return tuple(_with_breakpoint(item, parts[at]) if at in chosen else item for at, item in enumerate(items))


def _carrier_of(carriers: Sequence[int], end: int) -> int | None:
    """Return the index of the item that carries the breakpoint of the block before `end`."""
    if end - 1 in carriers:
        return end - 1
    later = next((at for at in carriers if at >= end), None)
    return later if later is not None else next((at for at in reversed(carriers) if at < end), None)


def _last_text_part(item: Item) -> int | None:
    """Return the index of a message's last text that is not empty; providers refuse a breakpoint on an empty text."""
    if not is_message(item) or item["role"] == "assistant":
        return None
    parts = cast("list[dict[str, Any]]", item["content"])
    texts = [at for at, part in enumerate(parts) if part["type"] == "input_text" and part["text"]]
    return texts[-1] if texts else None


def _with_breakpoint(item: Item, index: int) -> Item:
    parts = list(cast("list[dict[str, Any]]", item.get("content")))
    parts[index] = {**parts[index], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return cast("Item", {**item, "content": parts})


# --- the names of chat and user


def cache_key(secret: str, user_id: str, chat_id: str) -> str:
    """Return the `session_id` and `prompt_cache_key` of a chat: the same for all its branches."""
    name = b"%d:%b%b" % (len(user_id), user_id.encode(), chat_id.encode())
    return hmac.new(secret.encode("utf-8", "surrogatepass"), name, sha256).hexdigest()[:NAME_CHARACTERS]


def identity_parameters(
    level: IdentityLevel, origin: RequestOrigin, secret: str, *, task: str | None = None
) -> dict[str, Any]:
    """Return the parameters that name the chat (`session_id`, `prompt_cache_key`), the user and the message.

    By its `session_id` OpenRouter keeps a chat with one provider, where alone some signatures hold: each request of a
    chat has it. What belongs to none, such as a title, has nothing that a provider would know again.
    """
    included = _LEVELS[: _LEVELS.index(level) + 1]
    named: dict[str, Any] = {}
    if origin.chat_id and task is None:
        key = cache_key(secret, origin.user_id, origin.chat_id)
        named["session_id"] = key
        if "session" in included:
            named["prompt_cache_key"] = key
    if "user" in included and origin.user_id:
        named["user"] = _pseudonym(secret, "user", origin.user_id)
    if "trace" in included:
        parts = (origin.user_id, origin.chat_id, origin.message_id)
        traced = {"trace_id": _pseudonym(secret, "message", *parts)} if origin.message_id else {}
        named["trace"] = {**traced, "trace_name": task or "chat"}
    return named


def _pseudonym(secret: str, kind: str, *ids: str) -> str:
    name = "".join(f"{len(part)}:{part}" for part in (kind, *ids)).encode("utf-8", "surrogatepass")
    return hmac.new(secret.encode("utf-8", "surrogatepass"), name, sha256).hexdigest()[:NAME_CHARACTERS]


# --- the body


class Composer:
    """The port `Requests`: builds the bodies of one call's requests to one model."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        model: Model | None,
        model_id: str,
        summary_parameters: Mapping[str, Any] = _NONE,
        plugins: Sequence[Mapping[str, Any]] = (),
        own_tools: Sequence[Tool] = (),
    ) -> None:
        """`model` is the catalogue's entry, None when unknown; `model_id` is asked for, variant included.

        `summary_parameters` replace parameters in requests for summaries. `plugins` are those of `own_plugins`.
        `own_tools` are offered beside tools of the parameters, unless one has the same name, and to models that are
        known to take tools: others would be found nowhere.
        """
        self._parameters, self._summary_parameters = parameters, summary_parameters
        self._model, self._model_id, self._plugins = model, model_id, plugins
        request = read_parameters(parameters, model=model, model_id=model_id)
        given = request.body.get("tools", ())
        taken = {tool.get("name") for tool in given}
        takes_tools = bool(given) or (model is not None and "tools" in model.supported_parameters)
        offered = [tool for tool in own_tools if takes_tools and tool["name"] not in taken]
        self._own_tools, _ = read_tools(offered)
        self._request = replace(request, body=self._with_own_tools(request.body))
        body = self._request.body
        self.model_ids: tuple[str, ...] = (model_id, *body.get("models", ()))
        """The models that may answer: the requested one, then its fallbacks."""
        self.tools: tuple[Tool, ...] = tuple(body.get("tools", ()))
        """The tools that each request carries, as they are sent."""
        self.offers_own_tools = bool(offered)
        self.max_output_tokens: int | None = body.get("max_output_tokens")
        """The limit of output that each request sets, None without one."""
        self.reasoning: Mapping[str, Any] = as_object(body.get("reasoning"))
        """How much the model thinks, as each request says it."""
        self.most_searches = most_searches(body, model_id)
        """How often each request may search the web."""
        self.has_added_input = "plugins" in body or self.most_searches > 0 or STOPS in body
        """Whether OpenRouter adds to the input, and bills that, too: by plugins, or by its tools."""

    def build(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        omitted_tools: Collection[str] = (),
        thinks: bool = True,
        spent: Callable[[], float] = lambda: 0.0,
    ) -> Request:
        """Join the parameters with an input; what is omitted cannot be the choice."""
        body = self._with_input(self._request.body, items, marks)
        model = self._model
        if not thinks and (
            model.reasons and not model.reasoning_is_mandatory if model else "reasoning" in body
        ):
            body["reasoning"] = {"effort": "none"}
        if not has_to_search(body.get("tool_choice"), items):
            del body["tool_choice"]
        if STOPS in body:
            body = with_dollars_left(body, spent())
        return replace(self._request, body=_without_tools(body, omitted_tools))

    def build_summary_request(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        output_tokens: int,
        omitted_tools: Collection[str] = (),
    ) -> RequestBody:
        """Build the body of a request for a summary, with all that the cache of the chat's requests depends on."""
        kept = {name: value for name, value in self._parameters.items() if name not in _NOT_FOR_SUMMARIES}
        changed: dict[str, Any] = {"tool_choice": "none", "max_output_tokens": output_tokens}
        if marks is not None and needs_breakpoints(self._model_id):
            # Anthropic's models do not find what they have cached when the choice of tools differs, or how much they
            # think, of which an effort is a share of the output limit
            reasoning = as_object(kept.get("reasoning"))
            thinks = kept.get("reasoning_effort") or reasoning.get("effort") or reasoning.get("enabled")
            changed = {} if thinks else {"max_output_tokens": output_tokens}
        parameters = {**kept, **self._summary_parameters, **changed}
        read = read_parameters(parameters, model=self._model, model_id=self._model_id)
        body = self._with_input(self._with_own_tools(read.body), items, marks)
        return _without_tools(body, omitted_tools)

    def _with_own_tools(self, body: RequestBody) -> RequestBody:
        """Add our own tools, which stand behind all others."""
        if not self._own_tools:
            return body
        first = {name: value for name, value in body.items() if name in BEFORE_TOOLS}
        tools = [*body.get("tools", ()), *self._own_tools]
        return {**first, "tools": tools, **body} | {"tools": tools}

    def _with_input(
        self, body: RequestBody, items: Sequence[Item], marks: CacheMarks | None
    ) -> dict[str, Any]:
        """Put the input in its place, with breakpoints and with the engine that reads its PDFs.

        There are no breakpoints where the whole is kept an hour: Anthropic takes no longer lifetime after these. With
        text before the current turn that changes, nothing would be found again without them: such a request is kept
        five minutes. Calls name their function as the tools do.
        """
        changed: dict[str, Any] = {}
        is_kept_long = Request(body).is_kept_long
        if (
            marks is not None
            and needs_breakpoints(self._model_id)
            and not (is_kept_long and not marks.has_volatile)
        ):
            items = with_breakpoints(items, marks)
            changed = {"cache_control": {"type": "ephemeral"}} if is_kept_long else {}
        changed["input"] = [
            {**item, "name": name}
            if is_function_call(item) and (name := wire_name(item["name"])) != item["name"]
            else item
            for item in items
        ]
        plugins = as_list(body.get("plugins"))
        named = {as_text(as_object(each).get("id")) for each in plugins}
        named |= set() if self._plugins and holds_pdf(items) else {_PARSER}
        if added := [each for each in self._plugins if each["id"] not in named]:
            changed["plugins"] = [*plugins, *added]
        return {**body, **changed}


def own_plugins(engine: str | None, window_tokens: int | None, *, is_fitted: bool) -> list[dict[str, Any]]:
    """Return the plugins that requests have beside those of their parameters.

    `engine` is what OpenRouter reads PDFs with, None where it chooses. What is too long for a small window is refused,
    where requests are fitted: then less is sent.
    """
    plugins: list[Any] = [{"id": _PARSER, "pdf": {"engine": engine}}] if engine else []
    is_cut = is_fitted and (window_tokens or math.inf) <= COMPRESSED_WINDOW_TOKENS
    return [*plugins, {"id": _COMPRESSION, "enabled": False}] if is_cut else plugins


def _without_tools(body: dict[str, Any], omitted: Collection[str]) -> dict[str, Any]:
    """Return a body without the tools of these names, and without what only makes sense beside them."""
    offered = body.get("tools", ())
    tools = [tool for tool in offered if tool.get("name") not in omitted]
    if len(tools) == len(offered):
        return body
    choice = as_object(body.get("tool_choice"))
    dropped = set() if tools else {"tools", "tool_choice"}
    dropped |= {"tool_choice"} if choice.get("name") in omitted else set()
    body = {name: value for name, value in body.items() if name not in dropped}
    return {**body, **({"tools": tools} if tools else {})}
