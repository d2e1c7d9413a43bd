"""A server of embeddings for Open WebUI, which keeps no memory without one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.answering import Reply, answering, json_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account

SETTINGS = "/api/v1/retrieval/embedding"


def embed(_path: str, asked: Any) -> Reply:
    """A vector for every text by its letters, in OpenAI's form."""
    vectors = [[1.0, *(float(text.count(letter)) for letter in "abcdefg")] for text in asked["input"]]
    return json_reply({"data": [{"embedding": vector} for vector in vectors]})


@contextmanager
def embeddings(admin: Account) -> Iterator[None]:
    """Let the host embed what it keeps; afterwards it cannot any more, and its administrator has no memories."""
    before = admin.api.get(SETTINGS)
    with answering(embed) as address:
        config = {"url": address, "key": "none"}
        admin.api.post(f"{SETTINGS}/update", {**before, "openai_config": config})
        try:
            yield
        finally:
            admin.api.delete("/api/v1/memories/delete/user")
            admin.api.post(f"{SETTINGS}/update", before)
