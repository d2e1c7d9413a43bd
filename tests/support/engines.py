"""A server of pictures and of web searches for Open WebUI, as an administrator connects one."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scripts.standin.drawing import draw
from tests.support.answering import Reply, answering, json_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account

IMAGES = "/api/v1/images/config"
SEARCH = "/api/v1/retrieval/config"
FOUND = {"link": "https://example.org/tower", "title": "Tower", "snippet": "The tower has 42 floors."}


def engine(path: str, _asked: Any) -> Reply:
    """The same picture for every prompt, as OpenAI has it, and the same page for every query of the host's search."""
    drawn = {"data": [{"b64_json": base64.b64encode(draw("a boat")).decode()}]}
    return json_reply(drawn if path.endswith("/images/generations") else [FOUND])


@contextmanager
def drawing(admin: Account) -> Iterator[None]:
    """Let the host draw pictures; afterwards it draws none."""
    wanted = {"ENABLE_IMAGE_GENERATION": True, "IMAGE_GENERATION_MODEL": "painter"}
    before = admin.api.get(IMAGES)
    with answering(engine) as address:
        connection = {"IMAGES_OPENAI_API_BASE_URL": address, "IMAGES_OPENAI_API_KEY": "none"}
        admin.api.post(f"{IMAGES}/update", {**before, **wanted, **connection})
        try:
            yield
        finally:
            admin.api.post(f"{IMAGES}/update", before)


@contextmanager
def searching(admin: Account) -> Iterator[None]:
    """Let the host search the web; afterwards it does not."""
    wanted = {
        "ENABLE_WEB_SEARCH": True,
        "WEB_SEARCH_ENGINE": "external",
        "BYPASS_WEB_SEARCH_WEB_LOADER": True,
        "BYPASS_WEB_SEARCH_EMBEDDING_AND_RETRIEVAL": True,
    }
    before = admin.api.get(SEARCH)["web"]
    with answering(engine) as address:
        connection = {"EXTERNAL_WEB_SEARCH_URL": address, "EXTERNAL_WEB_SEARCH_API_KEY": "none"}
        admin.api.post(f"{SEARCH}/update", {"web": {**before, **wanted, **connection}})
        try:
            yield
        finally:
            admin.api.post(f"{SEARCH}/update", {"web": before})
