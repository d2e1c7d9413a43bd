"""Counting what a request costs in tokens, item by item.

Owns the counter and the tally by content class. It must not load a vocabulary (that reads files): whoever
has one hands in its `encode`; without one the estimate counts. Counts are remembered by content digest, so
a long chat is counted once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from ..responses.items import Item
from . import media
from .content_cache import ContentCache
from .conversation import DigestedItem, Tool, content_digest
from .estimate import CLASS_OF_BYTE, estimate_tokens

TextClass = Literal["prose", "code", "data", "wide"]

MESSAGE_OVERHEAD_TOKENS = 4
CALL_OVERHEAD_TOKENS = 10
TOOL_OVERHEAD_TOKENS = 8
CHUNK_CHARACTERS = 32_768
SAMPLE_CHARACTERS = 2_000
WIDE_SHARE = 0.20
DATA_SHARE = 0.22
CODE_SHARE = 0.10

SEALED_HEADER_BYTES = 650
SEALED_BYTES_PER_TOKEN = 4


class TokenCounts(NamedTuple):
    """Tokens by content class: vendors' tokenizers differ by class, so calibration weighs each by itself.

    `prose`, `code`, `data` and `wide` (scripts beyond Latin) are text; `media` is pictures, documents,
    sound and film; `sealed` is encrypted reasoning; `tools` is tool definitions.
    """

    prose: int = 0
    code: int = 0
    data: int = 0
    wide: int = 0
    media: int = 0
    sealed: int = 0
    tools: int = 0

    @property
    def tokens(self) -> int:
        """All classes together."""
        return sum(self)

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Add class by class."""
        return TokenCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NO_TOKENS = TokenCounts()


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts items for one family of models.

    `encode` is the `encode_ordinary` of a vocabulary that is at hand, or None. `counts` remembers what was
    counted: counters of different families or vocabularies must not share it.
    """

    counts: ContentCache[TokenCounts]
    encode: Callable[[str], Sequence[int]] | None = None
    family: media.Family = "other"

    def text(self, text: str) -> int:
        """The tokens of a text; a vocabulary that fails on it gives way to the estimate."""
        if self.encode is None:
            return estimate_tokens(text)
        return sum(
            self._chunk(text[at : at + CHUNK_CHARACTERS]) for at in range(0, len(text), CHUNK_CHARACTERS)
        )

    def entry(self, entry: DigestedItem) -> TokenCounts:
        """The tokens of an item, remembered by its content."""
        found = self.counts.get(entry.digest)
        return self.counts.put(entry.digest, self.item(entry.item)) if found is None else found

    def tools(self, tools: Sequence[Tool]) -> TokenCounts:
        """The tokens of all tool definitions."""
        return TokenCounts(tools=sum(self._tool(tool) for tool in tools))

    def _tool(self, tool: Tool) -> int:
        def count() -> TokenCounts:
            return TokenCounts(tools=self.text(json.dumps(tool, ensure_ascii=False)) + TOOL_OVERHEAD_TOKENS)

        return self.counts.get_or_compute(content_digest(tool), count).tools

    def _chunk(self, text: str) -> int:
        assert self.encode is not None
        try:
            return len(self.encode(text))
        except Exception:  # noqa: BLE001 - any failure of a foreign tokenizer leaves the estimate, never no answer
            return estimate_tokens(text)

    def item(self, item: Item) -> TokenCounts:
        """The tokens of an item, counted anew."""
        count: ItemRule = _ITEM_RULES.get(item["type"], _opaque)
        return count(self, item)


ItemRule: TypeAlias = Callable[[TokenCounter, Any], TokenCounts]
PartRule: TypeAlias = Callable[[TokenCounter, Mapping[str, Any]], int]


def _text(counter: TokenCounter, text: str, overhead_tokens: int = 0) -> TokenCounts:
    return NO_TOKENS._replace(**{class_of(text): counter.text(text) + overhead_tokens})


def _content(counter: TokenCounter, content: Any, overhead_tokens: int) -> TokenCounts:
    if isinstance(content, str):
        return _text(counter, content, overhead_tokens)
    total = TokenCounts(prose=overhead_tokens)
    for part in content:
        total = total.plus(_part(counter, part))
    return total


def _part(counter: TokenCounter, part: Mapping[str, Any]) -> TokenCounts:
    if count := _PART_RULES.get(part.get("type", "")):
        return TokenCounts(media=count(counter, part))
    return _text(counter, str(part.get("text") or part.get("refusal") or ""))


def _message(counter: TokenCounter, item: Mapping[str, Any]) -> TokenCounts:
    return _content(counter, item.get("content") or "", MESSAGE_OVERHEAD_TOKENS)


def _call(counter: TokenCounter, item: Mapping[str, Any]) -> TokenCounts:
    return _text(counter, f"{item['name']} {item['arguments']}", CALL_OVERHEAD_TOKENS)


def _output(counter: TokenCounter, item: Mapping[str, Any]) -> TokenCounts:
    return _content(counter, item["output"], CALL_OVERHEAD_TOKENS)


def _reasoning(counter: TokenCounter, item: Mapping[str, Any]) -> TokenCounts:
    """Sealed reasoning by a ratio of its bytes; open reasoning as text."""
    if sealed := item.get("encrypted_content"):
        hidden = max(0, len(sealed) * 3 // 4 - SEALED_HEADER_BYTES)
        return TokenCounts(sealed=hidden // SEALED_BYTES_PER_TOKEN + MESSAGE_OVERHEAD_TOKENS)
    return _content(counter, item.get("content") or item.get("summary") or "", MESSAGE_OVERHEAD_TOKENS)


def _opaque(counter: TokenCounter, item: Mapping[str, Any]) -> TokenCounts:
    """Any other item: its fields as text, what is sealed by the ratio, and the picture that it made."""
    shown = {name: value for name, value in item.items() if name not in {"encrypted_content", "result"}}
    sealed = _reasoning(counter, {"encrypted_content": item.get("encrypted_content")})
    made = item.get("result")
    picture = media.image_tokens(made, "auto", counter.family) if isinstance(made, str) else 0
    return _text(counter, json.dumps(shown, ensure_ascii=False)).plus(sealed).plus(TokenCounts(media=picture))


def _image(counter: TokenCounter, part: Mapping[str, Any]) -> int:
    return media.image_tokens(part.get("image_url") or "", part.get("detail") or "auto", counter.family)


def _file(counter: TokenCounter, part: Mapping[str, Any]) -> int:
    data = part.get("file_data") or part.get("file_url") or ""
    text = media.embedded_text(data)
    return media.pdf_tokens(data, counter.family) if text is None else counter.text(text)


def _audio(_counter: TokenCounter, part: Mapping[str, Any]) -> int:
    spoken = part.get("input_audio") or {}
    return media.audio_tokens(spoken.get("data") or "", spoken.get("format") or "")


def _video(_counter: TokenCounter, part: Mapping[str, Any]) -> int:
    return media.video_tokens(part.get("video_url") or "")


_ITEM_RULES: Mapping[str, ItemRule] = MappingProxyType(
    {"message": _message, "reasoning": _reasoning, "function_call": _call, "function_call_output": _output}
)
_PART_RULES: Mapping[str, PartRule] = MappingProxyType(
    {"input_image": _image, "input_file": _file, "input_audio": _audio, "input_video": _video}
)


def class_of(text: str) -> TextClass:
    """What kind of text it is, by the bytes of its beginning and its middle."""
    middle = len(text) // 2
    sample = text[:SAMPLE_CHARACTERS] + text[max(SAMPLE_CHARACTERS, middle) : middle + SAMPLE_CHARACTERS]
    classes = sample.encode("utf-8", "surrogatepass").translate(CLASS_OF_BYTE)
    length = len(classes) or 1
    dense = sum(classes.count(name) for name in (b"d", b"p", b"q")) / length
    if (classes.count(b".") + classes.count(b"G")) / length > WIDE_SHARE:
        return "wide"
    if dense > DATA_SHARE:
        return "data"
    return "code" if dense > CODE_SHARE else "prose"
