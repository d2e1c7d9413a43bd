"""A host that has tools: what its middleware does with them, in short, and a chat page that offers them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.host.tool_runs import HostToolRunner
from scripts.harness.page import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from open_webui_openrouter_pipe.pipe import Pipe

Json = dict[str, Any]


class FakeMiddleware:
    """`utils/middleware.py` of Open WebUI 0.12, as far as results go: texts, objects, pictures, failures."""

    CITATION_TOOL_NAMES = ("fetch_url",)
    UserModel = SimpleNamespace

    async def execute_tool_call(self, form_data: Json, metadata: Json, _: None, tool_call: Json) -> Any:
        name, given = tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"])
        assert form_data["messages"]
        tool = metadata["tools"][name]
        try:
            result = await tool["callable"](**given)
        except Exception as error:  # noqa: BLE001 - as the host
            result = {"error": str(error)}
        return given, result, tool, tool.get("type", ""), False

    async def process_tool_result(self, _: Any, name: str, result: Any, *rest: Any) -> Any:
        if isinstance(result, str) and result.startswith("data:image/"):
            return f"{name}: Image file read successfully.", [{"type": "image", "url": result}], []
        is_page = isinstance(result, str) and result.startswith("<html>")
        text = result if isinstance(result, str) else json.dumps(result, indent=2)
        return ("Shown.", [], [result]) if is_page else (text, [], [])

    async def store_tool_result_image(self, _: Any, url: str, *rest: Any) -> str:
        return url

    async def convert_url_images_to_base64(self, form_data: Json, user: Any) -> Json:
        assert user.id
        return form_data

    async def terminal_event_handler(self, name: str, given: Json, result: str, emit: Any) -> None:
        if name == "display_file":
            await emit({"type": "terminal:display_file", "data": {"path": given["path"]}})

    def build_terminal_file_tool_result(self, *_: Any) -> None:
        return None

    def get_citation_source_from_tool_result(self, **given: Any) -> list[Json]:
        return [{"source": {"name": given["tool_params"]["url"]}, "document": [given["tool_result"]]}]

    def tool_result_content(self, result: Any) -> str:
        return str(result)

    def _is_tool_result_error(self, text: str) -> bool:
        return '"error"' in text or text.startswith("Error:")


class ToolPage(Page):
    """A page whose tools are coroutine functions, which run one after the other where the host runs them."""

    def __init__(self, pipe: Pipe, model: str, tools: Mapping[str, Any], **options: Any) -> None:
        """A tool is a function, or a whole entry of the host's tools."""
        super().__init__(pipe, model, tools=dict.fromkeys(tools), **options)  # type: ignore[arg-type]
        entries = {
            name: tool if isinstance(tool, dict) else {"callable": tool} for name, tool in tools.items()
        }
        for name, tool in entries.items():
            tool.setdefault(
                "spec", {"name": name, "parameters": {"properties": {"city": {"type": "string"}}}}
            )
        self.metadata = {"tools": entries}
        self.emitted: list[Json] = []
        self.run_by_host: list[str] = []
        self.emit = self._keep

    async def _keep(self, event: Json) -> None:
        self.emitted.append(event)

    async def run_tool(self, call: Json) -> Json:
        self.run_by_host.append(call["name"])
        given = (FakeMiddleware(), self.metadata, None, self.user, self.messages(), self._keep)
        return dict((await HostToolRunner(*given).run(call)).shown)  # type: ignore[arg-type]
