"""What is tried when a request was refused and nothing was shown: it is sent otherwise, each way once.

Owns which refusal is answered by which change. Texts of refusals are read in `openrouter.errors` alone: here a kind
counts, and where nothing explains a refusal, what the request holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from ..errors import ContextTooLong, ProviderError, ReasoningRejected, RequestTooLarge
from ..history.artifacts import model_family
from ..history.turn import BuiltHistory, result_in_words
from ..responses.items import Item, is_function_call, is_function_call_output, is_message
from ..responses.values import as_list, as_object

NEARLY_FULL_SHARE: Final = 0.9
"""Of the limit: what a request must fill for a refusal that nothing explains to be taken for "too long"."""
_MARK: Final = "prompt_cache_breakpoint"
_TEXTS: Final = frozenset({"input_text", "output_text", "refusal"})
_UNUSABLE: Final = {"type": "input_text", "text": "[An attachment that the provider did not accept.]"}
_NO_REASONING_NEEDED: Final = "openai"
"""The family whose models go on thinking in a turn that has lost its reasoning."""

InWords: TypeAlias = Literal["", "earlier turns", "calls"]
"""Nothing, earlier turns, or the current turn's calls as well, where their reasoning is lost or another provider's."""


@dataclass(frozen=True, slots=True)
class Sending:
    """How a request is sent: whether the model may think, what of it `in_words` alone, and whether with tools."""

    thinks: bool = True
    in_words: InWords = ""
    may_shorten: bool = True
    with_tools: bool = True


def may_be_too_long(error: ProviderError, tokens: int, limit_tokens: int) -> bool:
    """Whether less of the chat may help: where the error says that, or nothing says anything and it is nearly full."""
    if isinstance(error, ContextTooLong | RequestTooLarge):
        return True
    return error.remedy == "any" and error.status < 500 and tokens >= NEARLY_FULL_SHARE * limit_tokens


def may_be_reasoning(error: ProviderError, built: BuiltHistory) -> bool:
    """Whether it may help to send the chat without its reasoning."""
    if isinstance(error, ReasoningRejected) and error.is_missing:
        return True
    return bool(built.replayed) and (isinstance(error, ReasoningRejected) or error.remedy == "any")


def may_think_without(error: ProviderError, built: BuiltHistory, model: str) -> bool:
    """Whether the model may go on thinking without the reasoning that it had in this turn.

    Anthropic and DeepSeek refuse a turn with tool calls that lacks its thinking while thinking is on.
    """
    if isinstance(error, ReasoningRejected) and error.is_missing:
        return False
    current = (item for item, turn in zip(built.items, built.turns, strict=True) if turn == built.turns[-1])
    return model_family(model) == _NO_REASONING_NEEDED or not any(map(is_function_call, current))


def may_be_history(error: ProviderError, built: BuiltHistory) -> bool:
    """Whether it may help to send earlier turns in words alone."""
    if error.remedy == "words":
        return True
    earlier = [item for item, turn in zip(built.items, built.turns, strict=True) if turn < built.turns[-1]]
    may_help = error.remedy == "any" or isinstance(error, ReasoningRejected)
    return may_help and in_words(earlier, len(earlier)) != earlier


def in_words(items: Sequence[Item], current: int, *, tells_calls: bool = False) -> list[Item]:
    """Return an input with nothing but words before the item `current`, and without the marks of caches.

    Reasoning and tool calls are omitted, a note stands for attachments. Behind `current` the user says what calls have
    returned if it `tells_calls`.
    """
    earlier = [_with_parts(item, _words) for item in items[:current] if is_message(item)]
    rest = _told(items[current:]) if tells_calls else items[current:]
    return [*earlier, *(_with_parts(item, _unmarked) for item in rest)]


def _told(items: Sequence[Item]) -> Iterator[Item]:
    calls = {each["call_id"]: each for each in items if is_function_call(each)}
    for item in items:
        if is_function_call_output(item):
            yield result_in_words(calls[item["call_id"]], item)
        elif is_message(item):
            yield item


def _with_parts(item: Item, change: Any) -> Item:
    parts = cast("Mapping[str, Any]", item).get("content")
    return cast("Item", {**item, "content": change(parts)}) if isinstance(parts, list) else item


def _unmarked(parts: Sequence[Any]) -> list[Any]:
    return [{key: value for key, value in as_object(part).items() if key != _MARK} for part in as_list(parts)]


def _words(parts: Sequence[Any]) -> list[Any]:
    words = [part for part in _unmarked(parts) if part.get("type") in _TEXTS]
    return words or [_UNUSABLE]
