"""A conversation as values: turns of items, each named by its content.

Owns the division of items into turns and rounds, the digests of items, and the chain digests that name a prefix of a
conversation. It must not count, prune or reorder. Whoever makes a conversation guarantees that each tool call has its
output, directly or further behind it in the same turn.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ..responses.items import Item, is_function_call_output, is_message, is_reasoning
from ..responses.values import Kept, once
from .slash import ChatCommand

REFERENCE_DIGITS: Final = 6
"""Tokenizers read three digits as one token; two of a chat's items rarely share a name, which then means both."""


def reference_of(digest: bytes) -> str:
    """Return the name of the item with this digest, such as "#482913"."""
    return f"#{int.from_bytes(digest) % 10**REFERENCE_DIGITS:0{REFERENCE_DIGITS}}"


Value = TypeVar("Value")

KEPT_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES: Final = 256 * 1024
"""What is larger is not kept: an inline image is worth less than the messages that it would displace."""
ENTRY_BYTES: Final = 3072
COPIES: Final = 3
"""What an object takes: so much, and so many times its content, as it is, in bytes, and in what is made of it."""
_FORM: Final = 2
"""Of `marshal`: the last one whose bytes follow from content alone."""


class ContentCache(Generic[Value]):
    """Values by key, in two generations: when the young one is full, the old one is dropped.

    Several threads may use it at once; at worst a value is computed twice.
    """

    def __init__(self, limit: int = 32_768, size_of: Callable[[Value], int] | None = None) -> None:
        """Hold values of at most `limit` in all: so many of them, or of such a size by `size_of`."""
        self._half = max(1, limit // 2)
        self._size_of = size_of
        self._young_size = self._old_size = 0
        self._young: dict[bytes, Value] = {}
        self._old: dict[bytes, Value] = {}

    @property
    def size(self) -> int:
        """The size of both generations."""
        return self._young_size + self._old_size

    def evict(self, size: int) -> None:
        """Forget at least so much, the old generation first."""
        is_enough = self._old_size >= size
        self._old, self._old_size = {}, 0
        if not is_enough:
            self._young, self._young_size = {}, 0

    def get(self, key: bytes) -> Value | None:
        """Return the value of a key, None when it is not cached."""
        young, old = self._young, self._old
        if (found := young.get(key)) is not None:
            return found
        return None if (found := old.get(key)) is None else self.put(key, found)

    def put(self, key: bytes, value: Value) -> Value:
        """Cache a value and return it."""
        size = 1 if self._size_of is None else self._size_of(value)
        if self._young_size + size > self._half:
            self._old, self._old_size = self._young, self._young_size
            self._young, self._young_size = {}, 0
        self._young_size += size
        self._young[key] = value
        return value

    def get_or_compute(self, key: bytes, compute: Callable[[], Value]) -> Value:
        """Return the cached value of a key, computing and caching it if needed."""
        found = self.get(key)
        return self.put(key, compute()) if found is None else found


class KeptObjects(ContentCache[Kept]):
    """The messages and tools that a worker has seen, by content, within a number of bytes.

    A chat is sent again with each of its turns. What was not used for long is forgotten.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        super().__init__(limit_bytes, lambda kept: kept.size_bytes)

    def of(self, value: Any) -> Any:
        """Return the kept object of the same content and order of keys; what cannot be kept is returned itself."""
        if type(value) is not dict:
            return value
        try:
            content = marshal.dumps(value, _FORM)
        except ValueError:  # no plain JSON
            return value
        if len(content) > MAX_BYTES:
            return value
        name = sha256(content).digest()
        return self.get_or_compute(name, lambda: Kept(value, ENTRY_BYTES + COPIES * len(content)))


def cache_key(*parts: str) -> bytes:
    """Return a key of names that have no line breaks, such as ids; any text is taken."""
    return "\n".join(parts).encode("utf-8", "surrogatepass")


Tool: TypeAlias = Mapping[str, Any]

DIGEST_BYTES = 16
CHAIN_START = b"open_webui_openrouter_pipe.chain.1"
LONG_CHARACTERS = 256 * 1024
"""A text of more is named in windows of so many, without a copy of all of it."""
UNNAMED_FIELDS = frozenset({"id", "status"})
"""Fields that say nothing about the content: the same item may come back with another id."""


@dataclass(frozen=True, slots=True)
class DigestedItem:
    """An item with the name of its content."""

    item: Item
    digest: bytes


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and all that follows until the next one.

    `rounds` divides the entries: first what the user said, then one run of entries for each response of the
    model together with the outputs of its calls. `chain` names the conversation from its beginning through
    this turn, whatever is shown of its attachments, without reasoning, which comes and goes without changing what was
    said; `sent_chain` names it as it is sent.
    """

    rounds: tuple[tuple[DigestedItem, ...], ...]
    chain: bytes
    sent_chain: bytes

    @property
    def entries(self) -> Iterator[DigestedItem]:
        """All entries in their order."""
        return (entry for part in self.rounds for entry in part)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request is made of, oldest first.

    `instructions` stand before everything, `external_summaries` (summaries that others made of turns before `turns`)
    follows them, and `volatile` (text that changes from request to request, such as retrieved sources) comes
    directly before the current turn, which is the last.
    """

    instructions: tuple[DigestedItem, ...]
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    volatile: tuple[DigestedItem, ...] = ()
    external_summaries: tuple[str, ...] = ()
    optional_tools: tuple[str, ...] = ()
    """Names of tools that the user did not choose, in the order in which they give way."""
    corrections: int = 0
    """How many of `volatile`, its first, say what the instructions now read: they are never cut or omitted."""
    has_additions: bool = False
    """Whether the host wrote something into the last question that later requests will not find there."""
    commands: tuple[ChatCommand, ...] = ()
    """What the user has commanded, oldest first."""

    @property
    def chains(self) -> list[bytes]:
        """The chain digest before each turn, and at the end."""
        return [CHAIN_START, *[turn.chain for turn in self.turns]]

    @property
    def retrieved(self) -> tuple[DigestedItem, ...]:
        """What of `volatile` may be cut and omitted."""
        return self.volatile[self.corrections :]


def build_conversation(
    items: Sequence[Item],
    turn_of_item: Sequence[int],
    *,
    unfilled: Sequence[Item] | None = None,
    bound: Sequence[str] = (),
    instructions: Sequence[Item] = (),
    volatile: Sequence[Item] = (),
) -> Conversation:
    """Divide the items into turns; `turn_of_item` names the turn of each item and never decreases.

    `unfilled` are the items before their attachments were put in place, which chains name. A turn goes without
    reasoning where any of it is `bound` to another chain, in hexadecimal digits, than stands before; "" is to none.
    """
    turns: list[Turn] = []
    chain = sent_chain = CHAIN_START
    numbered = zip(turn_of_item, items, unfilled or items, bound or [""] * len(items), strict=True)
    for _, group in groupby(numbered, key=itemgetter(0)):
        entries: list[DigestedItem] = []
        named: list[DigestedItem] = []
        parts = [*group]
        elsewhere = {*map(itemgetter(3), parts)} - {"", chain.hex()}
        for _, item, before, _ in parts:
            if not (elsewhere and is_reasoning(item)):
                entries.append(digest_item(item))
                named.append(entries[-1] if item is before else digest_item(before))
        said = [entry for entry in named if not is_reasoning(entry.item)]
        chain, sent_chain = _extended(chain, said), _extended(sent_chain, entries)
        turns.append(Turn(tuple(_rounds(entries)), chain, sent_chain))
    return Conversation(
        tuple(map(digest_item, instructions)), tuple(turns), volatile=tuple(map(digest_item, volatile))
    )


def _extended(chain: bytes, entries: Iterable[DigestedItem]) -> bytes:
    return sha256(b"".join([chain, *[entry.digest for entry in entries]])).digest()[:DIGEST_BYTES]


def digest_item(item: Item) -> DigestedItem:
    """Name an item by its content, without its id and status."""
    return DigestedItem(item, once(item_digest, item))


def item_digest(item: Item) -> bytes:
    """Return the name of an item."""
    return content_digest({name: value for name, value in item.items() if name not in UNNAMED_FIELDS})


def content_digest(value: Any) -> bytes:
    """Name any JSON value by its content; the order of keys counts, as it does for the provider's cache."""
    pieces: list[bytes] = []
    _write(value, pieces)
    return sha256(b"".join(pieces)).digest()[:DIGEST_BYTES]


def _write(value: Any, pieces: list[bytes]) -> None:
    """Write a JSON value without escaping: each text is preceded by its length, which is what makes this fast."""
    kind = type(value)
    if kind is str and len(value) > LONG_CHARACTERS:
        pieces += (b"'%d:" % len(value), _long_digest(value))
    elif kind is str:
        raw = value.encode("utf-8", "surrogatepass")
        pieces += (b'"%d:' % len(raw), raw)
    elif kind is dict or kind is Kept:
        pieces.append(b"{%d:" % len(value))
        for name, inner in value.items():
            _write(name, pieces)
            _write(inner, pieces)
    elif kind is list or kind is tuple:
        pieces.append(b"[%d:" % len(value))
        for inner in value:
            _write(inner, pieces)
    else:
        pieces.append(repr(value).encode() + b";")


def _long_digest(text: str) -> bytes:
    found = sha256()
    for start in range(0, len(text), LONG_CHARACTERS):
        found.update(text[start : start + LONG_CHARACTERS].encode("utf-8", "surrogatepass"))
    return found.digest()


def _rounds(entries: Sequence[DigestedItem]) -> Iterator[tuple[DigestedItem, ...]]:
    """Divide before each response of the model: where something that it wrote follows something that it read."""
    current: list[DigestedItem] = []
    for entry in entries:
        if current and is_model_input(current[-1].item) and not is_model_input(entry.item):
            yield tuple(current)
            current = []
        current.append(entry)
    if current:
        yield tuple(current)


def is_model_input(item: Item) -> bool:
    """Whether the model did not write the item itself: messages of others, and outputs of calls."""
    if is_message(item):
        return item["role"] != "assistant"
    return is_function_call_output(item)
