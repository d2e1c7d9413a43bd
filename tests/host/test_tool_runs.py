"""What becomes of tools' results, beside what the host itself makes of the same; and which arguments fit no tool."""

from __future__ import annotations

import base64
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from open_webui_openrouter_pipe.host.tool_runs import HostToolRunner, middleware
from open_webui_openrouter_pipe.responses.items import FunctionCall
from tests.host.tables import insert
from tests.support.files import PICTURES
from tests.support.host_tools import FakeMiddleware

PNG = base64.b64encode(PICTURES["image/png"]).decode()
URI = f"data:image/png;base64,{PNG}"
SOURCE = {"id": "f1", "filename": "otters.txt", "content": "They swim."}
CASES: dict[str, dict[str, Any]] = {
    "text": {"result": "It rains."},
    "number": {"result": 42},
    "object": {"result": {"city": "Zürich", "people": [1, 2]}},
    "list": {"result": ["a", "b"]},
    "empty list": {"result": []},
    "error": {"result": {"error": "no such city"}},
    "error in words": {"result": "Error: no."},
    "failure": {"result": ValueError("no such city")},
    "picture": {"result": URI},
    "pictures inside": {"result": {"left": URI, "right": [URI, "text"]}},
    "mcp": {"type": "mcp", "result": [{"type": "text", "text": '{"a": 1}'}, {"type": "text", "text": "b"}]},
    "mcp picture": {"type": "mcp", "result": [{"type": "image", "mimeType": "image/png", "data": PNG}]},
    "openapi": {"type": "external", "result": ({"due": "2027"}, {"Content-Type": "application/json"})},
    "openapi page": {
        "type": "external",
        "result": ("<b>x</b>", {"Content-Disposition": "inline", "Content-Type": "text/html"}),
    },
    "fetch_url": {"name": "fetch_url", "result": "The page is empty.", "arguments": '{"city": "x"}'},
    "view_file": {"name": "view_file", "result": SOURCE},
    "terminal": {
        "name": "display_file",
        "type": "terminal",
        "tool_id": "terminal:one",
        "result": ({"path": "/a.txt", "exists": True}, {}),
    },
    "another argument": {"result": "It rains.", "arguments": '{"city": "x", "more": 1}'},
    "null": {"result": "It rains.", "arguments": '{"city": null}'},
}


@pytest.mark.parametrize("name", CASES)
def test_a_result_becomes_what_the_host_makes_of_it(seen: dict[str, Any], name: str) -> None:
    """The item of its output, the events beside it, and what the tool was called with."""
    ours, hosts = seen[__name__][name]
    assert ours == hosts
    assert hosts["output"][0]["text"] or name == "empty list"


def test_the_model_sees_the_picture_itself(seen: dict[str, Any]) -> None:
    """As the host will send it in the next turn."""
    assert seen[__name__]["pictures"] == {"picture": [URI], "pictures inside": [URI, URI], "text": []}


def test_the_host_has_all_that_is_needed(seen: dict[str, Any]) -> None:
    """Of the version that is tested."""
    assert seen[__name__]["has middleware"] is True


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "maximum": 9},
        "unit": {"enum": ["C", "F"]},
        "hours": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["city"],
}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "kind", "schema", "complaint"),
    [
        ('{"city": "Rome"}', "", SCHEMA, ""),
        ('{"city": "Rome", "days": null, "more": {}}', "", SCHEMA, ""),
        ('{"city": 12, "days": "3"}', "", SCHEMA, ""),
        ('{"city": "Rome", "hours": "3"}', "", SCHEMA, ""),
        ('{"city": "Rome", "hours": [3]}', "", SCHEMA, "$.hours: [3] is not valid under any"),
        ("", "", SCHEMA, "$: 'city' is a required property"),
        ('{"city": null}', "", SCHEMA, "$.city: None is not of type 'string'"),
        ('{"city": "x"}', "", SCHEMA, "$.city: 'x' is too short"),
        ('{"city": "Rome", "days": [1]}', "", SCHEMA, "$.days: [1] is not of type 'integer'"),
        (
            '{"city": "Rome", "days": 10, "unit": "K"}',
            "",
            SCHEMA,
            "$.days: 10 is greater than the maximum of 9; $.unit: 'K' is not one of ['C', 'F']",
        ),
        ('{"city": "Rome", "days": "3"}', "mcp", SCHEMA, "$.days: '3' is not of type 'integer'"),
        (
            '{"city": "Rome", "more": 1}',
            "mcp",
            {**SCHEMA, "additionalProperties": False},
            "Additional properties",
        ),
        ('{"city": "Rome"}', "", {"properties": {"city": {"$ref": "https://example.org/city"}}}, ""),
        ('{"city": "Rome"}', "", {"properties": {"city": {"type": "town"}}}, ""),
    ],
)
async def test_arguments_that_do_not_fit_are_said_to_the_model(
    arguments: str, kind: str, schema: Any, complaint: str
) -> None:
    """And the tool is not called; what the host itself puts right, and a schema that is none, is no reason."""
    ran = []

    async def look(**given: Any) -> str:
        ran.append(given)
        return "seen"

    tools = {"look": {"callable": look, "type": kind, "spec": {"name": "look", "parameters": schema}}}
    runner = HostToolRunner(FakeMiddleware(), {"tools": tools}, None, {"id": "u"}, [{}], say_nothing)
    call = FunctionCall(type="function_call", call_id="c", name="look", arguments=arguments)
    answered = await runner.run(call)
    assert (complaint in str(answered.output), bool(ran)) == (True, not complaint)
    assert answered.shown["status"] == ("failed" if complaint else "completed")
    assert len(str(answered.output)) <= 1_000


@pytest.mark.anyio
async def test_the_page_opens_what_a_terminal_has_it_open() -> None:
    """As the host says it, from the result."""
    emitted = []

    async def display_file(path: str) -> str:
        return f"{path}: shown"

    async def emit(event: dict[str, Any]) -> None:
        emitted.append(event)

    tools = {"display_file": {"callable": display_file, "spec": {"name": "display_file", "parameters": {}}}}
    runner = HostToolRunner(FakeMiddleware(), {"tools": tools}, None, {"id": "u"}, [{}], emit)
    call = FunctionCall(
        type="function_call", call_id="c", name="display_file", arguments='{"path": "/a.txt"}'
    )
    assert (await runner.run(call)).shown["status"] == "completed"
    assert emitted == [{"type": "terminal:display_file", "data": {"path": "/a.txt"}}]


@pytest.mark.parametrize(("of_agent", "most"), [({}, 256), ({"max_tool_call_iterations": 5}, 5)])
def test_the_limit_of_rounds_is_the_hosts(of_agent: dict[str, int], most: int) -> None:
    """For all, unless the request is one of its agents'."""
    host = SimpleNamespace(CHAT_RESPONSE_MAX_TOOL_CALL_ITERATIONS=256)
    request = SimpleNamespace(state=SimpleNamespace(**of_agent))
    assert HostToolRunner(host, {}, request, {}, [], say_nothing).most_rounds == most


async def say_nothing(_: Any) -> None:
    pass


# --- in the host


async def look() -> dict[str, Any]:
    from open_webui.models.chat_messages import ChatMessage  # noqa: F401 - makes its table known
    from open_webui.models.users import Users

    user = await Users.get_user_by_id("ada")
    seen: dict[str, Any] = {"has middleware": middleware() is not None, "pictures": {}}
    for number, name in enumerate(CASES):
        ours, pictures = await run_here(f"tools-{number}", CASES[name], user)
        seen[name] = [ours, await run_by_host(f"tools-{number}", CASES[name], user)]
        if name in {"text", "picture", "pictures inside"}:
            seen["pictures"][name] = pictures
    return seen


def prepared(chat_id: str, case: dict[str, Any], events: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata of a call with its tool, and the call."""

    async def run(**given: Any) -> Any:
        events.append(given)
        if isinstance(result := case["result"], Exception):
            raise result
        return [*result] if isinstance(result, list) else result

    name = case.get("name", "look")
    spec = {"name": name, "parameters": {"properties": {"city": {"type": "string"}}}}
    more = {key: case[key] for key in ("type", "tool_id") if key in case}
    metadata: dict[str, Any] = {
        "chat_id": chat_id,
        "message_id": "answer",
        "tools": {name: {"callable": run, "spec": spec, **more}},
        "params": {"tool_approval_mode": "full"},
    }
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": name, "status": "pending"}
    return metadata, {**call, "arguments": case.get("arguments", "{}")}


def described(item: dict[str, Any], events: list[Any]) -> dict[str, Any]:
    """The item and the events, without ids of files."""
    text = re.sub(r"files/[\w-]+/content", "files/ID/content", repr({**item, "events": events}))
    found: dict[str, Any] = eval(text)
    return {key: value for key, value in found.items() if key not in {"id", "call_id", "type"}}


async def run_here(chat_id: str, case: dict[str, Any], user: Any) -> tuple[dict[str, Any], list[str]]:
    events = list[Any]()
    metadata, call = prepared(chat_id, case, events)

    async def emit(event: Any) -> None:
        events.append(event)

    given = (metadata, request(), {**user.model_dump(), "valves": None}, [{"role": "user"}], emit)
    answered = await HostToolRunner(middleware(), *given).run(cast("FunctionCall", call))
    text, *pictures = cast("list[Any]", answered.output)
    assert text == answered.shown["output"][0]
    return described(dict(answered.shown), events), [each["image_url"] for each in pictures]


async def run_by_host(chat_id: str, case: dict[str, Any], user: Any) -> dict[str, Any]:
    """The host runs calls of its own accord where they were approved: what it stores of this one."""
    from open_webui.models.chats import Chat, Chats
    from open_webui.utils import middleware as host

    events = list[Any]()
    metadata, call = prepared(chat_id, case, events)
    message: dict[str, Any] = {
        "id": "answer",
        "role": "assistant",
        "content": "",
        "output": [call],
        "model": "m",
    }
    history = {"messages": {"answer": message}, "currentId": "answer"}
    row = {"id": chat_id, "user_id": "ada", "title": "", "created_at": 1, "updated_at": 1}
    await insert(Chat, {**row, "chat": {"history": history}})
    await Chats.upsert_message_to_chat_by_id_and_message_id(chat_id, "answer", message)

    async def emit(event: Any) -> None:
        if event["type"] != "chat:completion":
            events.append(event)

    async def both(_: Any) -> Any:
        return emit, None

    host.get_event_emitter_and_caller = both
    form_data = {"messages": [{"role": "user", "content": "Hi"}]}
    await host.resume_tool_calls(request(), form_data, user, {"id": "m"}, metadata, message)
    (item,) = [each for each in message["output"] if each["type"] == "function_call_output"]
    return described(item, events)


def request() -> Any:
    """A request as far as the host looks at it."""
    state = SimpleNamespace(redis=None, MODELS={}, FUNCTIONS={}, FUNCTION_CONTENTS={})
    app = SimpleNamespace(state=state, url_path_for=path_of)
    return SimpleNamespace(app=app, state=SimpleNamespace(), headers={}, cookies={})


def path_of(_: str, **names: str) -> str:
    return f"/api/v1/files/{names['id']}/content"
