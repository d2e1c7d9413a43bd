"""Tool servers for Open WebUI, one of each kind that an administrator connects: MCP and OpenAPI."""

from __future__ import annotations

import json
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import uvicorn
from fastapi import FastAPI

from scripts.harness.servers import unused_port
from tests.support.waiting import wait_until

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # of the package's first version, which comes with Open WebUI before 0.12
    from mcp.server.fastmcp import FastMCP as MCPServer  # type: ignore[no-redef, attr-defined]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from scripts.harness.openwebui import Account

SETTINGS = "/api/v1/configs/tool_servers"
INSTRUCTIONS = "Ask the library before you answer about books."
MCP_TOOLS, OPENAPI_TOOLS = "server:mcp:library", "server:counter"
SERVERS = [MCP_TOOLS, OPENAPI_TOOLS]
"""What a chat names to have their tools."""
MCP_TOOL, OPENAPI_TOOL = "library_find_book", "borrow_book"
"""Their tools, as models see them."""


def _application() -> Starlette:
    """Both servers in one: MCP at `/mcp`, OpenAPI below `/counter`."""
    with catch_warnings():
        simplefilter("ignore")  # of the first version
        library = MCPServer("library", instructions=INSTRUCTIONS)
    counter = FastAPI(title="Counter")

    @library.tool(description="Find a book by its title.")
    def find_book(title: str) -> str:
        return f"The book {title} stands on floor 42."

    @counter.post("/borrow", operation_id=OPENAPI_TOOL, summary="Borrow a book by its title.")
    def borrow(title: str) -> dict[str, str]:
        return {"title": title, "return_by": "2027-01-31"}

    application = library.streamable_http_app()
    application.mount("/counter", counter)
    return application


def _connection(kind: str, url: str, name: str) -> dict[str, object]:
    return {
        "url": url,
        "path": "openapi.json",
        "type": kind,
        "auth_type": "none",
        "key": "",
        "config": {"enable": True, "access_control": {}},
        "info": {"id": name, "name": name, "description": name},
    }


@contextmanager
def tool_servers(admin: Account) -> Iterator[None]:
    """Let the host have them; afterwards it has those that it had before."""
    before = admin.api.get(SETTINGS)
    port = unused_port()
    server = uvicorn.Server(uvicorn.Config(_application(), host="127.0.0.1", port=port, log_level="error"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        address = f"http://127.0.0.1:{port}"
        connections = [
            _connection("mcp", f"{address}/mcp", "library"),
            _connection("openapi", f"{address}/counter", "counter"),
        ]
        admin.api.post(SETTINGS, {"TOOL_SERVER_CONNECTIONS": connections})
        yield
    finally:
        admin.api.post(SETTINGS, before)
        server.should_exit = True
        thread.join()


def call_of(tool: str, **arguments: str) -> str:
    """What makes the stand-in call a tool with these arguments."""
    return f"[[standin: call={tool} args={json.dumps(arguments, separators=(',', ':'))}]]"
