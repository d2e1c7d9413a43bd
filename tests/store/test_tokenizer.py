"""The local tokenizer: used where its vocabulary is, never downloaded, never repaired."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tiktoken

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.store.tokens import VOCABULARIES, LocalTokenizer, vocabulary_file

pytestmark = pytest.mark.anyio

FOLDER = Path(os.environ.get("TIKTOKEN_CACHE_DIR", ""))
NAMES = list(VOCABULARIES)
HELLO_WORLD = {"o200k_base": [24912, 2375], "cl100k_base": [15339, 1917]}

needs_vocabularies = pytest.mark.skipif(
    not all((FOLDER / vocabulary_file(name)).exists() for name in NAMES),
    reason="TIKTOKEN_CACHE_DIR does not hold both vocabularies",
)


def folder_with(path: Path, *names: str) -> Path:
    """A folder that holds these vocabularies."""
    for name in names:
        (path / vocabulary_file(name)).symlink_to((FOLDER / vocabulary_file(name)).resolve())
    return path


@needs_vocabularies
@pytest.mark.parametrize(
    ("whole", "damaged", "used"),
    [
        (["o200k_base"], [], "o200k_base"),
        (["cl100k_base"], [], "cl100k_base"),
        (NAMES[::-1], [], "o200k_base"),
        (["cl100k_base"], ["o200k_base"], "cl100k_base"),
        ([], ["o200k_base"], None),
        ([], ["cl100k_base"], None),
        ([], [], None),
    ],
)
async def test_the_best_whole_vocabulary_of_the_folder_is_used(
    tmp_path: Path, whole: list[str], damaged: list[str], used: str | None
) -> None:
    """Once loaded it is the same function for every caller; tiktoken would delete a damaged file and download one."""
    files = [tmp_path / vocabulary_file(name) for name in damaged]
    for file in files:
        file.write_bytes(b"IQ== 0\n")
    tokenizer = LocalTokenizer(folder_with(tmp_path, *whole))
    encode = await tokenizer.encode()
    assert (encode and list(encode("hello world"))) == (HELLO_WORLD[used] if used else None)
    assert await tokenizer.encode() is encode
    assert [file.read_bytes() for file in files] == [b"IQ== 0\n"] * len(files)


async def test_without_a_folder_there_is_no_tokenizer() -> None:
    """The estimate counts."""
    assert await LocalTokenizer(None).encode() is None


@needs_vocabularies
async def test_a_tiktoken_that_fails_leaves_the_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says which vocabulary it was, and what happened."""

    def fail(name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    assert await LocalTokenizer(folder_with(tmp_path, "o200k_base")).encode() is None
    (record,) = caplog.records
    assert record.getMessage() == "tiktoken's vocabulary o200k_base cannot be used"
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


@needs_vocabularies
@pytest.mark.parametrize(
    "text", ["Das Wetter ist heute schön. " * 20, "मुझे बाज़ार जाना है। " * 20, "ხვალ ერთად ვიმუშავებთ. " * 20]
)
async def test_an_older_vocabulary_counts_no_more_than_the_estimate(tmp_path: Path, text: str) -> None:
    """It would count other languages than English up to five times: a chat would be shortened far too early."""
    older = await LocalTokenizer(folder_with(tmp_path, "cl100k_base")).encode()
    assert older is not None
    assert len(older(text)) == estimate_tokens(text)
    english = "The weather is fine today, and nobody has to work. " * 20
    assert len(older(english)) <= estimate_tokens(english)
