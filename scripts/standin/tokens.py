"""Counting tokens without ever downloading anything.

Owns the choice of tokenizer: tiktoken's o200k_base when its vocabulary file is present, else a stated rule
(four UTF-8 bytes are one token). It must not reach the network, so tiktoken is called only after its file
is seen.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import tiktoken

if TYPE_CHECKING:
    from collections.abc import Sequence

BYTES_PER_TOKEN = 4
CACHED_TEXTS = 4096
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


class Tokenizer(Protocol):
    """Turns a text into the integers that a prompt cache compares and a bill counts."""

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text; equal texts have equal tokens."""


class Encoding(Protocol):
    """What is used of a tiktoken encoding."""

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens of a text in which special tokens are plain text."""


class ByteTokenizer:
    """The rule without a vocabulary: each started group of four UTF-8 bytes is a token."""

    def encode(self, text: str) -> Sequence[int]:
        """The groups of bytes as big-endian integers, at most 2**32 - 1."""
        raw = text.encode("utf-8", "surrogatepass")
        starts = range(0, len(raw), BYTES_PER_TOKEN)
        return tuple(int.from_bytes(raw[at : at + BYTES_PER_TOKEN], "big") for at in starts)


class VocabularyTokenizer:
    """An encoding of tiktoken; the texts seen last are remembered, as histories repeat them."""

    def __init__(self, encoding: Encoding) -> None:
        self._encode = lru_cache(CACHED_TEXTS)(lambda text: tuple(encoding.encode_ordinary(text)))

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text, special tokens read as plain text."""
        return self._encode(text)


def local_tokenizer() -> Tokenizer:
    """The best tokenizer that this machine has without a download."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    name = hashlib.sha1(VOCABULARY_URL.encode(), usedforsecurity=False).hexdigest()
    if folder and _intact(Path(folder) / name):
        return VocabularyTokenizer(tiktoken.get_encoding("o200k_base"))
    return ByteTokenizer()


def _intact(vocabulary: Path) -> bool:
    """Whether the file is there and whole; tiktoken would replace a damaged one by a download."""
    if not vocabulary.is_file():
        return False
    return hashlib.sha256(vocabulary.read_bytes()).hexdigest() == VOCABULARY_SHA256
