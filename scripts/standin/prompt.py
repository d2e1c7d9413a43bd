"""A request's prompt as the provider sees it: blocks of tokens, in order.

Owns the serialized order tools, instructions, input items, the counting rules for what is not text, what
beside the text decides whether a cache knows a block, the key of a conversation, and the choice of a tokenizer,
which never downloads anything. It must not judge the request; that has happened.

Counting: text by the tokenizer; an image IMAGE_TOKENS; audio and video MEDIA_TOKENS; a data-URL file one
token per FILE_BYTES_PER_TOKEN decoded bytes; sealed reasoning the tokens it was billed at, whatever its
characters.

What beside the text decides (the vendors' guides to prompt caching and structured outputs): the schema of a
structured answer is part of the prompt, for OpenAI before everything, for Anthropic before the system prompt.
At Anthropic another ``tool_choice`` or another thinking budget keeps tools and system cached, but no message.
The budget follows from the effort and the output limit, so another output limit counts as another budget.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tiktoken

from .cache import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .catalogue import Model
    from .seal import Sealed

BYTES_PER_TOKEN = 4
CACHED_TEXTS = 4096
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
IMAGE_TOKENS = 768
MEDIA_TOKENS = 1500
FILE_BYTES_PER_TOKEN = 8
BASE64_BYTES_PER_CHAR = 3 / 4
SYSTEM_ROLES = frozenset({"system", "developer"})
EFFORT_SHARES = {"max": 0.95, "xhigh": 0.95, "high": 0.8, "medium": 0.5, "low": 0.2, "minimal": 0.1}
LEAST_THINKING_TOKENS = 1024
MOST_THINKING_TOKENS = 128_000
HEAVY_KEYS = ("image_url", "file_data", "video_url", "data")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The blocks of a prompt, and how many tokens of it are tool definitions."""

    segments: tuple[Segment, ...]
    tool_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(len(segment.tokens) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Turns request bodies into prompts with one tokenizer."""

    tokenizer: Tokenizer

    def read(self, body: dict[str, Any], seals: Mapping[str, Sealed], model: Model | None = None) -> Prompt:
        """The prompt of an accepted request.

        Args:
            body: The request.
            seals: The verified seals of its reasoning items.
            model: Whose prompt it is; None for a provider that looks at tools, instructions and items alone.
        """
        items = input_items(body)
        opening = len(list(takewhile(lambda item: item.get("role") in SYSTEM_ROLES, items)))
        tools = [self._segment(tool) for tool in body.get("tools") or []]
        instructions = [self._segment({"instructions": text}) for text in [body.get("instructions")] if text]
        system = [*instructions, *self._items(items[:opening], seals)]
        chat = list(self._items(items[opening:], seals))
        form = self._form(body)
        family = model.family if model else None
        if model and family == "anthropic" and chat:
            chat[0] = replace(chat[0], keyed_with=_message_key(body, model))
        before, between = {"openai": (form, []), "anthropic": ([], form)}.get(family or "", ([], []))
        segments = [*before, *tools, *between, *system, *chat]
        if body.get("cache_control") and segments:
            segments[-1] = replace(segments[-1], breakpoint=True)
        return Prompt(tuple(segments), sum(len(segment.tokens) for segment in tools))

    def _form(self, body: dict[str, Any]) -> list[Segment]:
        """The form that the answer must have, where it is not plain text."""
        form = (body.get("text") or {}).get("format") or {"type": "text"}
        return [] if form["type"] == "text" else [self._segment({"format": form})]

    def _items(self, items: Sequence[dict[str, Any]], seals: Mapping[str, Sealed]) -> Iterator[Segment]:
        for item in items:
            yield from self._item(item, seals)

    def _item(self, item: dict[str, Any], seals: Mapping[str, Sealed]) -> Iterator[Segment]:
        if item.get("type") == "reasoning":
            yield self._reasoning(item, seals)
            return
        parts = item.get("content")
        if not isinstance(parts, list):
            yield self._segment(item)
            return
        head = {key: value for key, value in item.items() if key != "content"}
        for index, part in enumerate(parts):
            text = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
            marked = part.get("prompt_cache_breakpoint") is not None
            yield self._segment([head, text] if index == 0 else text, marked=marked)

    def _reasoning(self, item: dict[str, Any], seals: Mapping[str, Sealed]) -> Segment:
        sealed = seals.get(item["id"])
        if sealed is None:
            return self._segment(item)
        seed = int.from_bytes(hashlib.sha256(sealed.digest.encode()).digest()[:4], "big")
        return Segment(tuple(range(seed, seed + sealed.tokens)))

    def _segment(self, value: Any, *, marked: bool = False) -> Segment:
        weights: list[int] = []
        light = _light(value, weights)
        text = json.dumps(light, ensure_ascii=False, separators=(",", ":"))
        return Segment((*self.tokenizer.encode(text), *(0 for _ in range(sum(weights)))), breakpoint=marked)


def input_items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The input as items; a bare string is a user message."""
    given = body["input"]
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given


def last_user(items: Sequence[dict[str, Any]]) -> int:
    """Where the last user message stands; -1 without one."""
    return max((at for at, item in enumerate(items) if item.get("role") == "user"), default=-1)


def text_of(item: dict[str, Any]) -> str:
    """The readable text of a message or of a call's output."""
    content = item["output"] if item.get("type") == "function_call_output" else item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if "text" in part)


def _message_key(body: dict[str, Any], model: Model) -> bytes:
    """What Anthropic's cache of messages depends on beside their text."""
    choice = body.get("tool_choice", "auto") if body.get("tools") else None
    return json.dumps([choice, thinking_tokens(body, model)], sort_keys=True).encode()


def thinking_tokens(body: dict[str, Any], model: Model) -> int | None:
    """The budget for thinking that the router asks Anthropic for: 0 when off, None when nothing was said."""
    asked = body.get("reasoning") or {}
    effort, enabled, tokens = (asked.get(key) for key in ("effort", "enabled", "max_tokens"))
    if enabled is False or effort == "none":
        return 0
    if tokens:
        return int(tokens)
    if not effort and not enabled:
        return None
    limit = body.get("max_output_tokens") or model.max_output_tokens or 0
    wanted = int(limit * EFFORT_SHARES[effort or "medium"])
    return max(min(wanted, MOST_THINKING_TOKENS), LEAST_THINKING_TOKENS)


def conversation(body: dict[str, Any], session_header: str) -> str:
    """What names the conversation: session id, prompt_cache_key, or its first system and user messages."""
    named = body.get("session_id") or session_header or body.get("prompt_cache_key")
    if named:
        return str(named)
    items = input_items(body)
    system = body.get("instructions") or next((text_of(i) for i in items if i.get("role") == "system"), "")
    first = next((text_of(item) for item in items if item.get("role") == "user"), "")
    return hashlib.sha256(json.dumps([system, first]).encode()).hexdigest()


def _light(value: Any, weights: list[int], key: str = "") -> Any:
    """The value with heavy payloads replaced by their digests; their tokens are added to ``weights``."""
    if isinstance(value, list):
        return [_light(member, weights) for member in value]
    if isinstance(value, dict):
        return {name: _light(member, weights, name) for name, member in value.items()}
    if key not in HEAVY_KEYS or not isinstance(value, str):
        return value
    decoded_bytes = len(value.partition(",")[2]) * BASE64_BYTES_PER_CHAR
    rules = {"image_url": IMAGE_TOKENS, "file_data": int(decoded_bytes / FILE_BYTES_PER_TOKEN)}
    weights.append(rules.get(key, MEDIA_TOKENS))
    return hashlib.sha256(value.encode()).hexdigest()[:16]


# --- tokens ---


class Tokenizer(Protocol):
    """Turns a text into the integers that a prompt cache compares and a bill counts."""

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text; equal texts have equal tokens."""


class ByteTokenizer:
    """The rule without a vocabulary: each started group of four UTF-8 bytes is a token."""

    def encode(self, text: str) -> Sequence[int]:
        """The groups of bytes as big-endian integers, at most 2**32 - 1."""
        raw = text.encode("utf-8", "surrogatepass")
        whole, rest = divmod(len(raw), BYTES_PER_TOKEN)
        tokens = struct.unpack_from(f">{whole}I", raw)
        return (*tokens, int.from_bytes(raw[-rest:], "big")) if rest else tokens


class VocabularyTokenizer:
    """An encoding of tiktoken, special tokens read as plain text; the texts seen last are remembered."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encode = lru_cache(CACHED_TEXTS)(lambda text: tuple(encoding.encode_ordinary(text)))

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text."""
        return self._encode(text)


def local_tokenizer() -> Tokenizer:
    """The best tokenizer that this machine has without a download.

    That is tiktoken's o200k_base when its vocabulary file is there and whole, since tiktoken would replace a damaged
    one by a download.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    name = hashlib.sha1(VOCABULARY_URL.encode(), usedforsecurity=False).hexdigest()
    vocabulary = Path(folder) / name
    content = vocabulary.read_bytes() if folder and vocabulary.is_file() else b""
    if hashlib.sha256(content).hexdigest() == VOCABULARY_SHA256:
        return VocabularyTokenizer(tiktoken.get_encoding("o200k_base"))
    return ByteTokenizer()
