"""Tools of MCP and OpenAPI servers in a real Open WebUI: called by the model, answered by the host, sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_servers import (
    INSTRUCTIONS,
    MCP_TOOL,
    MCP_TOOLS,
    OPENAPI_TOOL,
    OPENAPI_TOOLS,
    call_of,
    tool_servers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "servers")]

MODEL = "openrouter.anthropic/claude-sonnet-4.5"
TOOL_IDS = [MCP_TOOLS, OPENAPI_TOOLS]


@pytest.fixture(scope="module")
def servers(open_webui: OpenWebUI) -> Iterator[None]:
    """The host has an MCP server and an OpenAPI server."""
    with tool_servers(open_webui):
        yield


@pytest.mark.parametrize(("tool", "answer"), [(MCP_TOOL, "stands on floor 42"), (OPENAPI_TOOL, "2027-01-31")])
def test_a_server_s_tool_is_called_and_its_result_is_sent_again(
    open_webui: OpenWebUI, standin: StandIn, tool: str, answer: str
) -> None:
    """The model reads the result in the same turn; the next turn begins with the same bytes."""
    sent, _ = open_webui.admin.ask(MODEL, f"{call_of(tool, title='Emma')} Where is it?", tool_ids=TOOL_IDS)
    open_webui.admin.ask(MODEL, "Thank you.", after=sent, tool_ids=TOOL_IDS)
    first, second, third = (each.body for each in standin.responses if each.body.get("tools"))
    names = {each.get("name") for each in first["tools"]}
    assert {MCP_TOOL, OPENAPI_TOOL} <= names
    assert INSTRUCTIONS in str(first["input"][0])
    (call,), (output,) = of_type(second, "function_call"), of_type(second, "function_call_output")
    assert call["name"] == tool
    assert output["call_id"] == call["call_id"]
    assert answer in str(output["output"])
    assert first["tools"] == second["tools"] == third["tools"]
    assert [stripped(each) for each in third["input"]][: len(second["input"])] == [
        stripped(each) for each in second["input"]
    ]


def of_type(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The items of one type among the input."""
    return [item for item in body["input"] if item.get("type") == kind]


def stripped(item: Any) -> Any:
    """An item without the marks for the cache, which move on from turn to turn."""
    if isinstance(item, dict):
        return {key: stripped(value) for key, value in item.items() if key != "prompt_cache_breakpoint"}
    return [stripped(each) for each in item] if isinstance(item, list) else item
