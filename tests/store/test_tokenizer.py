"""The vocabulary: used where it lies, never downloaded, never repaired."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from open_webui_openrouter_pipe.store.tokenizer import O200K, LocalTokenizer, Vocabulary, load

pytestmark = pytest.mark.anyio

FOLDER = Path(os.environ.get("TIKTOKEN_CACHE_DIR", ""))


@pytest.mark.skipif(not O200K.lies_in(FOLDER), reason="TIKTOKEN_CACHE_DIR holds no o200k_base")
async def test_a_vocabulary_that_is_there_counts() -> None:
    """Once loaded it is the same function for everyone."""
    vocabulary = LocalTokenizer(FOLDER)
    encode = await vocabulary.encode()
    assert encode is not None
    assert list(encode("hello world")) == [24912, 2375]
    assert await vocabulary.encode() is encode


async def test_nothing_is_there() -> None:
    """No folder, or an empty one, leaves the estimate."""
    assert await LocalTokenizer(None).encode() is None


async def test_a_damaged_file_is_left_as_it_is(tmp_path: Path) -> None:
    """Tiktoken would delete it and download another one."""
    damaged = tmp_path / O200K.file_name
    damaged.write_bytes(b"IQ== 0\n")
    assert await LocalTokenizer(tmp_path).encode() is None
    assert load(tmp_path) is None
    assert damaged.read_bytes() == b"IQ== 0\n"


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    """The name is that of tiktoken's cache, the hash that of the content."""
    small = Vocabulary("small", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    assert not small.lies_in(tmp_path)
    (tmp_path / small.file_name).write_bytes(b"hello")
    assert small.lies_in(tmp_path)
    assert O200K.file_name == "fb374d419588a4632f3f557e76b4b70aebbca790"
