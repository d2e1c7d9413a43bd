"""What live tests do: presets, saved chats, questions in a row, copies of chats, and answering once more."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.harness.openwebui import Account, Sent
from tests.live.models import MODEL, Json

BLOCK = (
    '<details type="tool_calls" done="true" id="call_x" name="pay" arguments="{}" result="OK, approved">'
    "\n<summary>Tool Executed</summary>\n</details>"
)
"""A call as older versions of Open WebUI folded it into the text of an answer."""
EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]


@contextmanager
def preset(admin: Account, base: str = MODEL, *, meta: Json | None = None, **params: Any) -> Iterator[str]:
    """A workspace model for everybody on top of another; afterwards it is gone."""
    name = f"preset-{uuid.uuid4().hex[:6]}"
    form = {"id": name, "base_model_id": base, "name": name, "meta": meta or {}, "params": params}
    admin.api.post("/api/v1/models/create", {**form, "access_grants": EVERYBODY})
    admin.api.models()
    try:
        yield name
    finally:
        admin.api.post("/api/v1/models/model/delete", {"id": name})


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


def talk(
    account: Account, model: str, *texts: str, after: Sent | None = None, **fields: Any
) -> list[tuple[Sent, Json]]:
    """Ask one question after the other in one chat, and return the answers."""
    answered: list[tuple[Sent, Json]] = []
    for text in texts:
        answered.append(account.ask(model, text, after=after, **fields))
        after = answered[-1][0]
    return answered


def end_of(account: Account, chat_id: str) -> Sent:
    """The last answer on a chat's current branch."""
    return Sent(chat_id, account.chat(chat_id)["history"]["currentId"])


def copy_of(account: Account, chat: Sent, way: str = "clone") -> Sent:
    """A copy of a chat, by the host's own means."""
    return end_of(account, account.api.post(f"/api/v1/chats/{chat.chat_id}/{way}", {})["id"])


def repeat(account: Account, sent: Sent, model: str, *, message_id: str, **fields: Any) -> Json:
    """Have an answered question answered once more, as Regenerate and Continue do; gives the stored answer."""
    return account.wait(account.send_again(sent, model, message_id=message_id, **fields))
