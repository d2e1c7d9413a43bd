"""Prompts as blocks of tokens."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from scripts.standin import catalogue
from scripts.standin.prompt import IMAGE_TOKENS, Prompt, PromptReader, conversation
from scripts.standin.seal import Sealed
from scripts.standin.tokens import VOCABULARY_URL, ByteTokenizer, VocabularyTokenizer, local_tokenizer
from tests.standin.client import CLOCK, user

if TYPE_CHECKING:
    from pathlib import Path

READER = PromptReader(ByteTokenizer())
MARK = {"mode": "explicit"}


def read(given: Any, **fields: Any) -> Prompt:
    """The prompt of an input."""
    return READER.read({"input": given, **fields}, {})


def part(text: str, **more: Any) -> dict[str, Any]:
    """A text part."""
    return {"type": "input_text", "text": text, **more}


def test_the_order_is_tools_instructions_items() -> None:
    """As the providers serialize it; a content part is a block of its own."""
    message = {"role": "user", "content": [part("a"), part("b")]}
    whole = read([message, user("c")], tools=[CLOCK], instructions="Be brief")
    pieces = [
        read([], tools=[CLOCK]),
        read([], instructions="Be brief"),
        read([message]),
        read([user("c")]),
    ]
    assert whole.segments == tuple(segment for piece in pieces for segment in piece.segments)
    assert [len(piece.segments) for piece in pieces] == [1, 1, 2, 1]
    assert whole.tool_tokens == pieces[0].tokens


def test_breakpoints_are_those_of_parts_and_of_the_request() -> None:
    """A marked part ends at a breakpoint; cache_control marks the end."""
    items = [{"role": "user", "content": [part("a", prompt_cache_breakpoint=MARK), part("b")]}, user("c")]
    marks = [
        [segment.breakpoint for segment in read(items, **fields).segments]
        for fields in ({}, {"cache_control": {"type": "ephemeral"}})
    ]
    assert marks == [[True, False, False], [True, False, True]]


FORM = {"type": "json_schema", "name": "summary", "schema": {"type": "object"}}
SYSTEM = {"role": "system", "content": "Be kind"}


def blocks(slug: str, **fields: Any) -> list[tuple[int, bytes]]:
    """Tokens and keys of the blocks of one tool, instructions, a system and a user message."""
    body = {"input": [SYSTEM, user("Hi")], "instructions": "Be brief", "tools": [CLOCK], **fields}
    segments = READER.read(body, {}, catalogue.BY_ID[slug]).segments
    return [(len(segment.tokens), segment.keyed_with) for segment in segments]


@pytest.mark.parametrize(
    ("slug", "index"),
    [("openai/gpt-5.2", 0), ("anthropic/claude-sonnet-4.5", 1), ("deepseek/deepseek-v3.2", None)],
)
def test_the_form_of_an_answer_is_part_of_the_prompt(slug: str, index: int | None) -> None:
    """Before everything for OpenAI, behind the tools for Anthropic; plain text is no form."""
    plain = blocks(slug)
    formed = blocks(slug, text={"format": FORM})
    assert blocks(slug, text={"format": {"type": "text"}}) == blocks(slug, text={"verbosity": "low"}) == plain
    assert len(formed) - len(plain) == (0 if index is None else 1)
    if index is not None:
        assert formed.pop(index)[0] > 15
    assert formed == plain


CLAUDE = "anthropic/claude-sonnet-4.5"


def keys(**fields: Any) -> list[bytes]:
    """The keys of a Claude prompt's blocks."""
    return [key for _, key in blocks(CLAUDE, **fields)]


def test_claude_keys_its_messages_alone() -> None:
    """Tool, instructions and system message have no key; other models have none at all."""
    assert [bool(key) for key in keys()] == [False, False, False, True]
    assert not any(
        key for _, key in blocks("openai/gpt-5.2", tool_choice="none", reasoning={"effort": "low"})
    )


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        ({}, {"tool_choice": "auto"}),
        ({"tools": [], "tool_choice": "none"}, {"tools": []}),
        ({"reasoning": {"effort": "none"}}, {"reasoning": {"enabled": False}}),
        ({"reasoning": {"effort": "medium"}}, {"reasoning": {"enabled": True}}),
        ({"reasoning": {"max_tokens": 32_000}}, {"reasoning": {"effort": "medium"}}),
        ({"reasoning": {"effort": "medium"}}, {"reasoning": {"effort": "low"}, "max_output_tokens": 160_000}),
        ({"max_output_tokens": 500}, {"reasoning": {"summary": "auto"}}),
        (
            {"reasoning": {"effort": "low"}, "max_output_tokens": 500},
            {"reasoning": {"effort": "high"}, "max_output_tokens": 1000},
        ),
    ],
)
def test_claude_knows_messages_by_choice_and_budget(fields: dict[str, Any], others: dict[str, Any]) -> None:
    """Not by how these were said: an effort is a share of the output limit, at least 1024 tokens."""
    assert keys(**fields)[-1] == keys(**others)[-1]


def test_another_choice_or_budget_is_another_key() -> None:
    """Each of these starts the messages anew, though their text is the same."""
    changes: list[dict[str, Any]] = [
        {},
        {"tool_choice": "none"},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "name": "get_time"}},
        {"reasoning": {"effort": "none"}},
        {"reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "high"}, "max_output_tokens": 4000},
        {"reasoning": {"max_tokens": 2000}},
    ]
    assert len({keys(**change)[-1] for change in changes}) == len(changes)


def test_images_count_the_same_whatever_their_bytes() -> None:
    """A thousand times the base64 costs no token more."""
    counts = [
        read(
            [{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": url}]}]
        ).tokens
        for url in ("data:image/png;base64,AAAA", "data:image/png;base64," + "A" * 400_000)
    ]
    assert counts[0] == counts[1] > IMAGE_TOKENS


def test_files_count_by_their_bytes() -> None:
    """One token for eight bytes behind the base64."""
    data = "data:application/pdf;base64,"
    counts = [
        read([{"role": "user", "content": [{"type": "input_file", "file_data": data + "A" * size}]}]).tokens
        for size in (0, 32_000)
    ]
    assert counts[1] - counts[0] == 3000


def test_sealed_reasoning_counts_what_it_was_billed() -> None:
    """Not the characters of its encrypted content."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 50_000}
    sealed = Sealed("rs_1", "openai", "e", 1, "digest", 77, None, ())
    assert READER.read({"input": [item]}, {"rs_1": sealed}).tokens == 77


@pytest.mark.parametrize(
    ("fields", "header", "name"),
    [
        ({"session_id": "a", "prompt_cache_key": "b"}, "c", "a"),
        ({"prompt_cache_key": "b"}, "c", "c"),
        ({"prompt_cache_key": "b"}, "", "b"),
    ],
)
def test_a_conversation_is_named_by_its_ids(fields: dict[str, Any], header: str, name: str) -> None:
    """The body's session id wins over the header, and both over the cache key."""
    assert conversation({"input": "Hi", **fields}, header) == name


def test_a_nameless_conversation_is_known_by_its_beginning() -> None:
    """The first system and user texts make the name; what follows does not."""
    names = [
        conversation({"input": [user("Hi")], "instructions": "A"}, ""),
        conversation({"input": [user("Hi"), user("More")], "instructions": "A"}, ""),
        conversation({"input": [user("Ho")], "instructions": "A"}, ""),
        conversation({"input": [user("Hi")], "instructions": "B"}, ""),
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_bytes_are_counted_in_fours() -> None:
    """The stated rule: a started group of four UTF-8 bytes is a token."""
    assert [len(ByteTokenizer().encode(text)) for text in ("", "a", "abcd", "abcde", "ééé")] == [
        0,
        1,
        1,
        2,
        2,
    ]


def test_no_vocabulary_is_ever_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the file in the cache folder, or with a damaged one, the rule counts."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert isinstance(local_tokenizer(), ByteTokenizer)
    name = hashlib.sha1(VOCABULARY_URL.encode()).hexdigest()
    (tmp_path / name).write_bytes(b"damaged")
    assert isinstance(local_tokenizer(), ByteTokenizer)


def test_a_vocabulary_is_asked_for_plain_text() -> None:
    """Special tokens in a text are only words; what was counted once is remembered."""
    asked: list[str] = []

    class Encoding:
        def encode_ordinary(self, text: str) -> list[int]:
            asked.append(text)
            return [1, 2]

    tokenizer = VocabularyTokenizer(Encoding())
    assert [tokenizer.encode("<|endoftext|>") for _ in range(2)] == [(1, 2), (1, 2)]
    assert asked == ["<|endoftext|>"]
