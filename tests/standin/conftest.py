"""One running stand-in and one connection for all tests of this folder; its log starts empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from scripts.standin import StandIn
from scripts.standin.prompt import ByteTokenizer
from tests.standin.client import KEY, Client

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def running() -> Iterator[StandIn]:
    with StandIn(tokenizer=ByteTokenizer()) as standin:
        yield standin


@pytest.fixture(scope="session")
def http(running: StandIn) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.base_url, headers={"Authorization": f"Bearer {KEY}"}) as http:
        yield http


@pytest.fixture
def standin(running: StandIn) -> StandIn:
    running.reset()
    return running


@pytest.fixture
def client(standin: StandIn, http: httpx.Client) -> Client:
    return Client(standin, http)
