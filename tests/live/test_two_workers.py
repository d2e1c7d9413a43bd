"""Two servers of Open WebUI on one PostgreSQL and one Redis: whichever answers, a chat goes on as if there were one."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from scripts.harness.openwebui import OpenWebUI
from tests.live.chats import MODEL, error_of, preset
from tests.support.fixtures import SERVED_SCHEMA
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.servers import PostgresServer, RedisServer
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.servers]

CLOCK = '''
class Tools:
    def tell(self) -> str:
        """
        Tell the time.
        """
        return "noon"
'''


@pytest.fixture(scope="module")
def second(
    served_session: OpenWebUI,
    postgres_session: PostgresServer,
    redis_session: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OpenWebUI]:
    """Another server beside the one of `served`, with the same login and keys."""
    directory = tmp_path_factory.mktemp("second")
    shutil.copy(served_session.data / "login.json", directory / "login.json")
    variables = {
        "DATABASE_URL": postgres_session.url.replace("postgresql:", "postgresql+psycopg:"),
        "DATABASE_SCHEMA": SERVED_SCHEMA,
        "ENABLE_VALVE_ENCRYPTION": "true",
        "REDIS_URL": redis_session.url,
        "REDIS_KEY_PREFIX": SERVED_SCHEMA,
    }
    server = OpenWebUI(directory, variables)
    try:
        assert MODEL in server.admin.api.models()
        yield server
    finally:
        server.close()


def sent(standin: StandIn) -> list[list[Any]]:
    """The inputs of all requests, which were valid to the letter."""
    verdicts = [(request.status, request.warnings) for request in standin.responses]
    assert verdicts == [(200, [])] * len(verdicts)
    return [[json.dumps(item) for item in request.body["input"]] for request in standin.responses]


def test_a_chat_is_answered_by_both_in_turn(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """Each request begins with the whole one before, reasoning and calls among it, and is read from the cache."""
    served.add_tool("noon", CLOCK)
    answer = None
    for turn in range(4):
        host = (served, second)[turn % 2]
        call = "[[standin: call=tell]] " if turn == 0 else ""
        answer, message = host.admin.ask(MODEL, f"{call}turn {turn}", after=answer, tool_ids=["noon"])
        assert "statusHistory" not in message
    requests = sent(standin)
    assert len(requests) == 5
    assert all(now[: len(before)] == before for before, now in pairwise(requests))
    usages = [request.usage or {} for request in standin.responses]
    assert all(usage["input_tokens_details"]["cached_tokens"] for usage in usages[1:])


def test_a_clock_in_the_prompt_moves_nothing(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """Both send the chat's first prompt again, and a note of what it reads now."""
    answer = None
    with preset(served, system="It is {{CURRENT_DATETIME}}.") as name:
        for turn in range(3):
            host = (served, second)[turn % 2]
            host.admin.api.models()
            variables = {"{{CURRENT_DATETIME}}": f"10:0{turn}"}
            answer, _ = host.admin.ask(name, f"turn {turn}", after=answer, variables=variables)
    fronts = [request[0] for request in sent(standin)]
    assert "It is 10:00." in fronts[0]
    assert len({*fronts}) == 1
    assert "It is 10:02." in sent(standin)[-1][-2]


def test_stop_reaches_the_other_one(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """The answer ends, OpenRouter is left, and the chat goes on there."""
    with served.admin.session() as tab:
        answer = served.admin.send(MODEL, "[[standin: slow=600]] one", session_id=tab.id)
        tab.wait_for("response:completion", count=20)
        second.admin.stop(answer)
        served.admin.wait(answer)
    wait_until(lambda: standin.responses[0].disconnected)
    _, message = second.admin.ask(MODEL, "two", after=answer)
    assert "error" not in message
    assert sent(standin)[1][0] == sent(standin)[0][0]


def test_what_one_spends_counts_for_the_other(served: OpenWebUI, second: OpenWebUI, standin: StandIn) -> None:
    """A limit that is set at one holds at both."""
    user = served.add_user("penny")
    elsewhere = second.sign_in("penny@localhost")
    served.admin.api.set_valves("openrouter", {"SPENDING_LIMITS": "user: 0.003/day"})
    try:
        user.ask(MODEL, "one")
        _, refused = elsewhere.ask(MODEL, "two")
    finally:
        served.admin.api.set_valves("openrouter", {"SPENDING_LIMITS": None})
    assert "spending limit" in error_of(refused)
    assert len(standin.responses) == 1
