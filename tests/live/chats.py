"""What live tests chat with: models, tools, presets, saved chats; and what stands in the requests and answers."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.history.markers import erase_markers
from scripts.harness.openwebui import Account, OpenWebUI, Sent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

Json = dict[str, Any]

MODEL = "openrouter.openai/gpt-5.2"
CLAUDE = "openrouter.anthropic/claude-sonnet-4.5"
GEMINI = "openrouter.google/gemini-3-pro"
SCRIPTED = "openrouter.standin/script"
SMALL = "openrouter.standin/small"
"""A model with a window of 16,384 tokens."""

WEATHER = '''
class Tools:
    def get_weather(self, city: str = "Paris") -> str:
        """
        Tell the weather of a city.

        :param city: The city.
        """
        return f"Weather in {city}: 20 degrees"
'''
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
ROUND = ["reasoning", "function_call", "function_call_output"]
REPLAYED = ["user", "reasoning", "assistant", "user"]
CUT_OFF = "[[standin: incomplete=max_output_tokens]]"

NO_TOOLS: Json = {"capabilities": {"builtin_tools": False}}
"""Of a preset without the host's many tools, whose tokens would count."""
EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
_MARKS_OF_CACHE = {"cache_control", "prompt_cache_breakpoint"}


@contextmanager
def preset(host: OpenWebUI, base: str = MODEL, *, meta: Json | None = None, **params: Any) -> Iterator[str]:
    """A workspace model for everybody on top of another; afterwards it is gone."""
    name = f"preset-{uuid.uuid4().hex[:6]}"
    form = {"id": name, "base_model_id": base, "name": name, "meta": meta or {}, "params": params}
    host.admin.api.post("/api/v1/models/create", {**form, "access_grants": EVERYBODY})
    host.admin.api.models()
    try:
        yield name
    finally:
        host.admin.api.post("/api/v1/models/model/delete", {"id": name})


def saved_chat(account: Account, model: str, turns: Iterable[tuple[str, str | Json]]) -> Sent:
    """A chat of these questions and answers, as if the last had just been sent; an answer's fields may be given."""
    messages: dict[str, Json] = {}
    parent: str | None = None
    for question, answer in turns:
        fields = answer if isinstance(answer, dict) else {"content": answer}
        of_user: Json = {"role": "user", "content": question, "models": [model]}
        of_model: Json = {"role": "assistant", "model": model, "modelName": model, "done": True, **fields}
        for said in (of_user, of_model):
            name = str(uuid.uuid4())
            if parent:
                messages[parent]["childrenIds"].append(name)
            of_all = {"id": name, "parentId": parent, "childrenIds": list[str](), "timestamp": 1_700_000_000}
            messages[name] = {**of_all, **said}
            parent = name
    history = {"messages": messages, "currentId": parent}
    chat = {"title": "Harbour", "models": [model], "history": history, "messages": list(messages.values())}
    return Sent(account.api.post("/api/v1/chats/new", {"chat": chat})["id"], str(parent))


def end_of(account: Account, chat_id: str) -> Sent:
    """The last answer on a chat's current branch."""
    return Sent(chat_id, account.chat(chat_id)["history"]["currentId"])


def copy_of(account: Account, chat: Sent, way: str = "clone") -> Sent:
    """A copy of a chat, by the host's own means."""
    return end_of(account, account.api.post(f"/api/v1/chats/{chat.chat_id}/{way}", {})["id"])


def repeat(account: Account, sent: Sent, model: str, *, message_id: str, **fields: Any) -> Json:
    """Have an answered question answered once more, as Regenerate and Continue do; gives the stored answer."""
    messages = account.chat(sent.chat_id)["history"]["messages"]
    question = messages[messages[sent.message_id]["parentId"]]
    body = {
        "stream": True,
        "model": model,
        "chat_id": sent.chat_id,
        "session_id": f"no-tab-{uuid.uuid4()}",
        "id": message_id,
        "message_ids": [{"model_id": model, "message_id": message_id, "modelIdx": 0}],
        "parent_id": question["parentId"],
        "user_message": question,
        **fields,
    }
    account.api.post("/api/chat/completions", body)
    return account.wait(Sent(sent.chat_id, message_id))


def statuses(answer: Json) -> list[str]:
    """What the pipe has said about an answer; the host's own lines are known by an action."""
    return [each["description"] for each in answer.get("statusHistory", ()) if "action" not in each]


def error_of(answer: Json) -> str:
    """The line of an answer's error."""
    return str(answer["error"]["content"]["message"])


def text_of(answer: Json) -> str:
    """An answer's text as the host stored it in its items, without markers; a broken answer has no other."""
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return "\n".join(erase_markers(part["text"]) for part in parts)


def answers(standin: StandIn) -> list[RecordedRequest]:
    """The requests for answers in chats, without those for summaries and the host's own tasks."""
    return [each for each in standin.responses if "session_id" in each.body and not each.is_summary]


def inputs(standin: StandIn) -> list[list[Json]]:
    """The inputs of these."""
    return [each.body["input"] for each in answers(standin)]


def given(requests: Sequence[RecordedRequest]) -> list[Json]:
    """All items that these were answered with."""
    return [item for request in requests for item in request.output]


def kinds(items: Sequence[Json]) -> list[str]:
    """Items by their types, messages by their roles; instructions aside."""
    found = [item.get("role") or item["type"] for item in items]
    return [kind for kind in found if kind not in {"system", "developer"}]


def wire(items: Sequence[Json], *types: str) -> list[str]:
    """The items of these types as they lie on the wire, key order included."""
    return [json.dumps(item) for item in items if item["type"] in types]


def arguments_of(items: Sequence[Json]) -> list[tuple[str, str]]:
    """The calls among items, each as its id and its arguments as they were written."""
    return [(item["call_id"], item["arguments"]) for item in items if item["type"] == "function_call"]


def outputs_of(items: Sequence[Json]) -> list[str]:
    """The tool results among items."""
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def texts_of(items: Sequence[Json], *roles: str) -> list[str]:
    """The texts of the messages among items in their order, of these roles or of all."""
    messages = [item for item in items if item["type"] == "message" and (not roles or item["role"] in roles)]
    return ["\n".join(part.get("text", "") for part in item["content"]) for item in messages]


def stored_rows(host: OpenWebUI, query: str, *values: str) -> list[tuple[Any, ...]]:
    """What a query finds in the host's database file."""
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def database_bytes(host: OpenWebUI) -> bytes:
    """The host's database file, with what is not yet moved into it."""
    files = [host.data / "webui.db", host.data / "webui.db-wal"]
    return b"".join(file.read_bytes() for file in files if file.exists())


def without_marks(item: Any) -> Any:
    """A value of a request without the marks for the cache, which move on from turn to turn."""
    if isinstance(item, dict):
        return {key: without_marks(value) for key, value in item.items() if key not in _MARKS_OF_CACHE}
    return [without_marks(each) for each in item] if isinstance(item, list) else item
