"""What Open WebUI passes to a pipe, parsed once into a value.

Open WebUI calls a pipe for four reasons: a chat turn in the web frontend (with a chat and a message), a turn of a
temporary chat or a channel (which must not leave anything behind), a bare API call (neither), and its own tasks such
as titles. Source: `functions.py` and `utils/chat_id.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..conversation.slash import Command
from ..errors import InvalidHistory
from ..history.markers import erase_markers
from ..history.reading import erase_commands, find_commands
from ..ports import HostTools, RequestOrigin
from ..responses.values import as_count, as_list, as_object, as_text, clean_text
from ..words.lines import Language, notice
from .native import FAILED, NOTICE

_CHANNEL_PREFIX = "channel:"
_UNSAVED_CHAT_PREFIXES = ("temporary:", "local:", _CHANNEL_PREFIX)
_NOT_PARAMETERS = frozenset({"model", "messages", "stream", "metadata", "chat_id", "session_id", "id"})
_CHOSEN_TOOLS = frozenset(
    {
        *("search_web", "fetch_url", "generate_image", "edit_image", "execute_code", "play_animation"),
        *("search_tools", "call_tool", "view_skill", "read_skill_file", "grep_skill_files"),
        *("list_chat_files", "query_chat_files", "grep_chat_files", "list_knowledge"),
    }
)
"""Built-in tools that the host offers only where the chat has a feature, a file or a skill that they are for."""
_KNOWLEDGE_TOOLS = frozenset(
    {
        *("kb_exec", "query_knowledge_files", "search_knowledge_files", "grep_knowledge_files"),
        *("view_knowledge_file", "view_file", "view_note"),
    }
)
"""Built-in tools that read knowledge where some is attached; most of them are offered without any as well."""
_GIVING_WAY = (
    *("calendar", "automation", "channel", "skill", "note", "task", "timer", "notify", "chat"),
    *("knowledge", "file", "memor", "timestamp", "ask_user"),
)
"""Words in the names of built-in tools, in the order in which they give way in a small window; others go first."""
_MARKS_OF_KNOWLEDGE = frozenset({"collection", "directory_id", "knowledge", "legacy"})
"""Keys of items that were picked from a knowledge collection, as the page and the host write them."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of the host's storage that the user attached to the chat, and that is not a raster image.

    `media_type` is in lower case and without parameters, "" where it is unknown.
    """

    id: str
    name: str
    media_type: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """What the host wrote into the prompt of one thing; `file_id` is "" where that is not a single file."""

    file_id: str
    excerpts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the host. Ids are "" where the host names none; `parameters` is the rest of the body.

    `messages` are as the host sent them, of any shape. `model_row_id` is the id of the model, or of the preset of one,
    that the user chose, or that an arena was based on, `model_controls` what they chose of the options that its
    administrator offers there.
    """

    model_id: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any]
    model_row_id: str
    in_arena: bool
    model_controls: Mapping[str, Any]
    stream: bool
    task: str | None
    user_id: str
    is_admin: bool
    chat_id: str
    message_id: str
    base_system_prompt: str | None
    base_user_prompt: str | None
    optional_tools: tuple[str, ...] = ()
    """Names of the host's built-in tools that come with every chat, the first to give way first: nobody chose them."""
    builtin_tools: frozenset[str] = frozenset()
    """Names of all tools that are the host's own."""
    user_message_id: str = ""
    """The message that is answered."""
    user_text: str = ""
    """Its words, before the host or a filter added any."""
    documents: tuple[AttachedFile, ...] = ()
    """What is attached to the chat; knowledge and retrieved pages are not."""
    latest_document_ids: tuple[str, ...] = ()
    """Those that are attached to the message that is answered."""
    has_attachments: bool = False
    """Whether anything is attached to that message: files, notes, chats, pages, knowledge."""
    sources: tuple[Source, ...] = ()
    """What the host retrieved, in the order in which it wrote it into the prompt."""
    host_search: Literal["", "offered", "done"] = ""
    """What the host's own switch for web search did for this message: nothing, gave the model tools, or searched."""
    is_spoken: bool = False
    """Whether the user is in a call, in which the answer is read aloud."""
    ask: Callable[[str, str], Awaitable[bool | None]] | None = None
    """Asks the user a question on the page; None where there is no page."""
    name_chat: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Has the chat named by the message that is answered, where it began with a command; None where no page asks."""
    time_zone: str = ""
    """The user's time zone by its IANA name, as their browser gives it."""
    written_prompts: tuple[str, ...] = ()
    """The chat's own system prompts as the user wrote them, before the host filled variables or added anything."""
    is_moot: bool = False
    """Whether a task of the host is about a command of ours, which no model sees, or about a turn that failed."""
    is_internal: bool = False
    """Whether the host itself asks, for an automation or a sub-agent, and looks for an error in a field of its own."""
    tools: HostTools | None = None
    """Those of the host, where they may run here."""
    runs_tagged_code: bool = False
    """Whether the host runs code that the model writes between tags."""
    language: Language | None = None
    """In which the user reads status lines and errors; None where nothing says that."""

    @property
    def origin(self) -> RequestOrigin:
        """Whose call it is."""
        return RequestOrigin(
            self.user_id, self.chat_id, self.message_id, self.model_id, self.model_row_id, self.is_admin
        )

    @property
    def in_chat(self) -> bool:
        """Whether a web page shows the answer, so that it wants native events rather than chunks."""
        return bool(self.chat_id and self.message_id) and self.task is None

    @property
    def in_channel(self) -> bool:
        """Whether it is answered in a channel, with a message of its own."""
        return self.chat_id.startswith(_CHANNEL_PREFIX)

    @property
    def continued_text(self) -> str:
        """The text of the answer that is to go on: the chat then ends with it."""
        last = as_object(self.messages[-1]) if self.messages else {}
        return as_text(last.get("content")) if last.get("role") == "assistant" else ""

    @property
    def command(self) -> Command | None:
        """The command of ours that the message is, None where it is none."""
        prompt = "" if self.has_attachments else self.base_user_prompt
        return find_commands(self.messages, prompt=prompt, of_program=not self.in_chat).asked

    @property
    def keeps(self) -> bool:
        """Whether artifacts may be kept: a saved chat of a known user, and not a task."""
        return self.in_chat and bool(self.user_id) and is_saved(self.chat_id)

    @property
    def is_unsaved(self) -> bool:
        """Whether it is a turn of a known user in a chat that the host does not save: a temporary one, or a channel."""
        return self.in_chat and bool(self.user_id) and not self.keeps


def read_call(
    body: Mapping[str, Any],
    *,
    user: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
    task: str | None,
    ask: Callable[[str, str], Awaitable[bool | None]] | None = None,
) -> Call:
    """Parse what the host passed.

    `base_system_prompt` is "" when there was none before the host added to it, None when the host does not say.

    Raises:
        InvalidHistory: There is no model, or the messages are not a list.
    """
    messages, model = body.get("messages"), body.get("model")
    if not isinstance(messages, list) or not isinstance(model, str) or not model:
        raise InvalidHistory(notice("no_messages"))
    metadata, user = metadata or {}, user or {}
    chosen, asked, features, parameters, variables = (
        as_object(metadata.get(name)) for name in ("model", "user_message", "features", "params", "variables")
    )
    in_arena = chosen.get("owned_by") == "arena"
    row_id = model if in_arena else as_text(chosen.get("id")) or model
    knowledge = as_object(as_object(chosen.get("info")).get("meta")).get("knowledge")
    base = "" if "system_prompt" in metadata else "base_"  # since 0.12
    system_prompt = f"{base}system_prompt"
    tools = as_object(metadata.get("tools")).items()
    builtin_tools = frozenset(name for name, tool in tools if as_object(tool).get("type") == "builtin")
    # `routers/tasks.py` names the chat beside the prompt that quotes it
    quoted = as_list(as_object(metadata.get("task_body")).get("messages"))
    return Call(
        model_id=strip_function_prefix(model),
        messages=[_without_markers(message) for message in messages] if task else messages,
        parameters={key: value for key, value in body.items() if key not in _NOT_PARAMETERS},
        model_row_id=row_id,
        in_arena=in_arena,
        model_controls=as_object(as_object(parameters.get("model_controls")).get(row_id)),
        stream=body.get("stream") is True,
        task=task,
        user_id=as_text(user.get("id")),
        is_admin=user.get("role") == "admin",
        chat_id=clean_text(as_text(metadata.get("chat_id"))),
        message_id=clean_text(as_text(metadata.get("message_id"))),
        base_system_prompt=as_text(metadata[system_prompt]) if system_prompt in metadata else None,
        base_user_prompt=as_text(metadata.get(f"{base}user_prompt")) or None,
        optional_tools=_optional_tools(builtin_tools, metadata, knowledge),
        builtin_tools=builtin_tools,
        user_message_id=as_text(metadata.get("user_message_id")),
        user_text=as_text(asked.get("content")),
        documents=_documents(metadata, knowledge),
        latest_document_ids=tuple(file_ids(asked.get("files"))),
        has_attachments=bool(as_list(asked.get("files"))),
        sources=tuple(map(_source, map(as_object, as_list(metadata.get("sources"))))),
        host_search=_host_search(metadata),
        is_spoken=features.get("voice") is True,
        ask=ask,
        time_zone=as_text(variables.get("{{CURRENT_TIMEZONE}}")),
        written_prompts=_written_prompts(as_object(metadata.get("chat_context"))),
        is_moot=bool(task) and (find_commands(quoted).asked is not None or _has_failed(quoted)),
        # `utils/automations.py` and `utils/subagents.py`
        is_internal=bool(metadata.get("automation_id") or metadata.get("internal")),
        # The prompt then asks for code between tags: `process_chat_payload` in `utils/middleware.py`, since 0.12.
        runs_tagged_code=parameters.get("function_calling") == "legacy"
        and features.get("code_interpreter") is True,
    )


def _has_failed(messages: Sequence[Any]) -> bool:
    """Whether the last answer of a chat, as the host keeps it, says why there is no whole one."""
    items = as_list(as_object(messages[-1]).get("output")) if messages else []
    last = as_object(items[-1]) if items else {}  # an answer that failed may have gone on
    return last.get("type") == NOTICE and FAILED in last


def strip_function_prefix(model: str) -> str:
    """Return a model's OpenRouter id without the id of the function that offers it."""
    function, dot, model_id = model.partition(".")
    return model_id if dot and function.isidentifier() else model


def is_saved(chat_id: str) -> bool:
    """Whether the host keeps the chat."""
    return bool(chat_id) and not chat_id.startswith(_UNSAVED_CHAT_PREFIXES)


def file_ids(items: Any) -> list[str]:
    """Return the ids of the files among what is attached to a message or a chat, in their order."""
    files = (item for item in map(as_object, as_list(items)) if item.get("type") == "file")
    return [file_id for item in files if (file_id := as_text(item.get("id")))]


def plain_media_type(value: Any) -> str:
    """Return a media type in lower case and without parameters, "" where there is none."""
    return as_text(value).partition(";")[0].strip().lower()


def _without_markers(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task's prompt quotes the chat as text, and the model should not see what the user does not."""
    content = as_object(message).get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": erase_markers(erase_commands(content))}


def _optional_tools(builtin: frozenset[str], metadata: Mapping[str, Any], knowledge: Any) -> tuple[str, ...]:
    """The names of the built-in tools that the host adds to every chat, the first to give way first.

    `get_builtin_tools` in its `utils/tools.py`.
    """
    has_knowledge = metadata.get("files") or metadata.get("folder_knowledge") or knowledge
    optional = builtin - _CHOSEN_TOOLS - (_KNOWLEDGE_TOOLS if has_knowledge else frozenset())

    def place(name: str) -> tuple[int, str]:
        return next((at for at, word in enumerate(_GIVING_WAY) if word in name), -1), name

    return tuple(sorted(optional, key=place))


def _host_search(metadata: Mapping[str, Any]) -> Literal["", "offered", "done"]:
    """What the switch did: `process_chat_payload` in `utils/middleware.py`, `get_builtin_tools` in `utils/tools.py`.

    The switch is the client's word; only the tool, or the results, show that the user has the permission for it.
    """
    if any(as_object(file).get("type") == "web_search" for file in as_list(metadata.get("files"))):
        return "done"
    tool = as_object(as_object(metadata.get("tools")).get("search_web"))
    switched_on = as_object(metadata.get("features")).get("web_search") is True
    return "offered" if switched_on and tool.get("type") == "builtin" else ""


def _written_prompts(context: Mapping[str, Any]) -> tuple[str, ...]:
    """What the page sent of system prompts: `chat_context` in `main.py: chat_completion`, since 0.12."""
    messages = map(as_object, as_list(context.get("messages")))
    texts = [as_text(message.get("content")) for message in messages if message.get("role") == "system"]
    return tuple(filter(None, (*texts, as_text(as_object(context.get("params")).get("system")))))


def _documents(metadata: Mapping[str, Any], knowledge: Any) -> tuple[AttachedFile, ...]:
    """The user's own files, each once, without raster images: the host has already put these into the messages.

    The host adds those of the model's knowledge to the same list.
    """
    items = map(as_object, as_list(metadata.get("files")))
    own = [item for item in items if _MARKS_OF_KNOWLEDGE.isdisjoint(item)]
    files = {name: _attached_file(name, item) for item in own for name in file_ids([item])}
    known = file_ids(knowledge)
    return tuple(
        file
        for file in files.values()
        if file.id not in known
        and (not file.media_type.startswith("image/") or file.media_type == "image/svg+xml")
    )


def _attached_file(file_id: str, item: Mapping[str, Any]) -> AttachedFile:
    """An item as the page wrote it when the file was uploaded, with the file's row in it."""
    row = as_object(as_object(item.get("file")).get("meta"))
    size_bytes = as_count(item.get("size"))
    return AttachedFile(
        id=file_id,
        name=as_text(item.get("name")) or as_text(row.get("name")),
        media_type=plain_media_type(item.get("content_type")) or plain_media_type(row.get("content_type")),
        size_bytes=as_count(row.get("size")) if size_bytes is None else size_bytes,
    )


def _source(source: Mapping[str, Any]) -> Source:
    """One of the host's sources, with as many excerpts as it writes: `get_source_context` in `utils/middleware.py`."""
    pairs = zip(as_list(source.get("document")), as_list(source.get("metadata")), strict=False)
    named = file_ids([source.get("source")])
    return Source(named[0] if named else "", tuple(str(excerpt) for excerpt, _ in pairs))
