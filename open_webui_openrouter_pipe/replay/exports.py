"""Reads a chat that Open WebUI exported, and rebuilds the messages that it hands to a pipe at one point of it.

Owns the shapes of exports: chats as trees of messages, alone or in lists, and plain lists of messages. What the host
adds as it sends is in no export: retrieved sources, memories, what filters change, the system prompts of models and
users, images that it keeps as files. Sources: `load_messages_from_db`, `process_chat_payload` and
`_apply_latest_summary_checkpoint` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..errors import InvalidHistory
from ..history.additions import SUMMARY_HEADING
from ..history.artifacts import Artifacts, LoadedArtifact
from ..history.build import Options, build_input
from ..history.reading import Origin, UserMessage, answers_without_items, read_history
from ..history.turn import BuiltHistory
from ..host.call import strip_function_prefix
from ..media.choice import name_references
from ..responses.values import as_list, as_object, as_text, clean_text
from ..summaries.summary import summary_message

_NOT_A_CHAT = "This is not a chat of Open WebUI and not a list of messages."


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of an export: its messages by id, the parent of each, and where the current branch ends.

    The messages of a plain list have the ids `#0`, `#1` and so on. `model` is the host's id of the chosen model,
    `system` the chat's own system prompt. Texts are "" where the export has none.
    """

    id: str
    title: str
    model: str
    system: str
    messages: Mapping[str, Any]
    parents: Mapping[str, str]
    current: str

    def branch(self, end: str) -> list[str]:
        """The ids of the messages from the first to `end`."""
        ids: dict[str, None] = {}
        while end in self.messages and end not in ids:
            ids[end] = None
            end = self.parents.get(end, "")
        return list(reversed(ids))


@dataclass(frozen=True, slots=True)
class ChatState:
    """The messages at one point of a chat as the host sends them, with the id of each ("": it has none).

    `model` is the host's id of the model that answers there, "" when unknown. `earlier_turns` counts the turns that
    the host's own summary stands for.
    """

    messages: tuple[Any, ...]
    ids: tuple[str, ...]
    model: str
    earlier_turns: int


def read_export(value: Any) -> tuple[Chat, ...]:
    """Find the chats in the JSON of an export: one chat, a list of chats, or the messages of one.

    Raises:
        InvalidHistory: It is none of these.
    """
    if not isinstance(value, list) or any(isinstance(member, dict) and "role" in member for member in value):
        return (_read_chat({"messages": value} if isinstance(value, list) else value),)
    if not value:
        raise InvalidHistory("The export is an empty list.")
    return tuple(_read_chat(member) for member in value)


def chat_state(chat: Chat, at: str | None = None, *, model_id: str | None = None) -> ChatState:
    """Rebuild the messages at one point of a chat.

    `at` is the number of a turn of the current branch, counted from 1, or the id of the message that ends a branch;
    None takes the whole current branch. `model_id` stands for the model that the chat chose: the host keeps from
    each model what is bound to another.

    Raises:
        InvalidHistory: There is no such point, or no message.
    """
    ids = _ids_until(chat, at)
    messages = [chat.messages[id_] for id_ in ids]
    model = next(filter(None, map(_model_of, reversed(messages))), chat.model)
    start, summary = _checkpoint(messages)
    target = strip_function_prefix(model_id or model)
    kept = [_as_sent(message, target) for message in messages[start:]]
    instructions = "\n".join(filter(None, (chat.system, summary)))
    added = [{"role": "system", "content": instructions}] if instructions else []
    return ChatState(
        messages=(*added, *kept),
        ids=(*("" for _ in added), *ids[start:]),
        model=model,
        earlier_turns=len(_turn_starts(messages[:start])),
    )


def choose_chat(chats: Sequence[Chat], name: str) -> Chat:
    """Find a chat by its number, counted from 1, its id or its title.

    Raises:
        InvalidHistory: There is none, or there are several of this title.
    """
    if name.isdecimal() and 1 <= int(name) <= len(chats):
        return chats[int(name) - 1]
    found = [chat for chat in chats if name == chat.id] or [chat for chat in chats if name == chat.title]
    if len(found) != 1:
        count = f"{len(found)} chats are" if found else "No chat is"
        raise InvalidHistory(f"{count} called {name!r}.")
    return found[0]


def read_artifacts(value: Any) -> Artifacts:
    """Read items by the ULIDs of their markers, each alone or as `{"item": ..., "model": ...}`.

    Raises:
        InvalidHistory: It is not an object.
    """
    if not isinstance(value, dict):
        raise InvalidHistory("These are not items by the ULIDs of their markers.")
    return {
        ulid: LoadedArtifact(stored["item"], _text(stored.get("model")) or None)
        if "item" in stored and "type" not in stored
        else stored
        for ulid, stored in value.items()
        if as_object(stored)
    }


def _read_chat(value: Any) -> Chat:
    """Read one chat: as the host's interface gives it, as its page keeps it, or a plain list of messages."""
    if not isinstance(value, dict):
        raise InvalidHistory(_NOT_A_CHAT)
    inner = as_object(value.get("chat")) or value
    history, listed = as_object(inner.get("history")), inner.get("messages")
    tree = history.get("messages")
    if not isinstance(tree, dict):
        if not isinstance(listed, list):
            raise InvalidHistory(_NOT_A_CHAT)
        tree = {f"#{index}": message for index, message in enumerate(listed)}
        parents = {f"#{index + 1}": f"#{index}" for index in range(len(listed))}
    else:
        parents = {id_: _text(as_object(message).get("parentId")) for id_, message in tree.items()}
    ends = (history.get("currentId"), value.get("current_message_id"), *reversed(tree))
    return Chat(
        id=_text(value.get("id")) or _text(inner.get("id")),
        title=_text(value.get("title")) or _text(inner.get("title")),
        model=_model_of(inner),
        system=_text(as_object(inner.get("params")).get("system")),
        messages=tree,
        parents=parents,
        current=next((end for end in ends if isinstance(end, str) and end in tree), ""),
    )


def _ids_until(chat: Chat, at: str | None) -> list[str]:
    if at is not None and not at.isdecimal():
        if at not in chat.messages:
            raise InvalidHistory(f"This chat has no message {at}.")
        return chat.branch(at)
    ids = chat.branch(chat.current)
    if not ids:
        raise InvalidHistory("This chat has no messages.")
    if at is None:
        return ids
    starts = _turn_starts([chat.messages[name] for name in ids])
    if not 1 <= int(at) <= len(starts):
        raise InvalidHistory(f"There is no turn {at}: the current branch has {len(starts)}.")
    return ids[: starts[int(at) - 1] + 1]


def _turn_starts(messages: Sequence[Any]) -> list[int]:
    """The indexes of the messages with which turns begin."""
    turns = read_history(messages).turns if messages else ()
    return [entry.origin.message for turn in turns for entry in turn if isinstance(entry, UserMessage)]


def _checkpoint(messages: Sequence[Any]) -> tuple[int, str]:
    """Where the messages begin that the host still sends, and the summary that it sends for those before."""
    for index in reversed(range(len(messages))):
        message = as_object(messages[index])
        summary = _text(message.get("contextSummary")) or _text(message.get("context_summary"))
        if summary.strip():
            return index, f"{SUMMARY_HEADING}\n{summary}"
    return 0, ""


def _as_sent(message: Any, target: str) -> Any:
    """What the host makes of a stored message for the model `target`, before it unfolds its output.

    Details of reasoning are bound to the model that wrote them.
    """
    fields = as_object(message)
    role, content, images = fields.get("role"), fields.get("content", ""), _image_urls(fields.get("files"))
    if role == "user" and images and isinstance(content, str):
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in images]
        return {**fields, "content": [{"type": "text", "text": content}, *shown]}
    writer, output = strip_function_prefix(_text(fields.get("model"))), fields.get("output")
    if role == "assistant" and isinstance(output, list) and writer and target not in {"", writer}:
        unbound = [
            {key: value for key, value in item.items() if key != "reasoning_details"}
            if isinstance(item, dict)
            else item
            for item in output
        ]
        return {**fields, "output": unbound}
    return message


def _image_urls(files: Any) -> list[str]:
    """The URLs of the images among a message's files; SVG is text to the host."""
    urls = []
    for file in map(as_object, as_list(files)):
        kind = _text(file.get("content_type")).partition(";")[0].strip().lower()
        if file.get("type") == "image" or (kind.startswith("image/") and kind != "image/svg+xml"):
            urls.append(_text(file.get("url")))
    return list(filter(None, urls))


def _model_of(source: Any) -> str:
    fields = as_object(source)
    models = fields.get("models")
    return _text(fields.get("model")) or next(map(_text, as_list(models)), "")


def _text(value: Any) -> str:
    return clean_text(as_text(value))


ArtifactLoader: TypeAlias = Callable[[str | None, str | None, Sequence[str]], Awaitable[Artifacts]]
"""Loads artifacts by `(chat_id, message_id, ulids)`; the result lacks what was not found."""


async def transform_messages_to_input(
    messages: Any,
    *,
    artifact_loader: ArtifactLoader | Artifacts | None,
    chat_id: str | None = None,
    message_id: str | None = None,
    options: Options | None = None,
) -> BuiltHistory:
    """Turn a chat into valid input, asking the loader once for all markers, and only if there are any.

    The loader may also be a mapping from ULID to artifact. The summaries of others are among the items.

    Raises:
        InvalidHistory: The messages are not a chat, or hold nothing that could be sent.
    """
    history = read_history(messages, without_items=answers_without_items(messages))
    artifacts: Artifacts = {}
    if isinstance(artifact_loader, Mapping):
        artifacts = artifact_loader
    elif artifact_loader is not None and history.wanted:
        artifacts = await artifact_loader(chat_id, message_id, history.wanted)
    built = build_input(history, artifacts, options or Options())
    return with_summary_message(replace(built, items=name_references(built.items)))


def with_summary_message(built: BuiltHistory) -> BuiltHistory:
    """Return the input with the summaries of others as one message behind the instructions."""
    message = summary_message((), built.external_summaries)
    if message is None:
        return built
    index = built.instruction_count
    return replace(
        built,
        items=[*built.items[:index], message, *built.items[index:]],
        turns=[*built.turns[:index], built.turns[0], *built.turns[index:]],
        origins=[*built.origins[:index], Origin(0, "system"), *built.origins[index:]],
        instruction_count=index + 1,
        volatile=range(built.volatile.start + 1, built.volatile.stop + 1),
        external_summaries=(),
    )
