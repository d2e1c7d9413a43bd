"""Writes the tables of docs/privacy.md from what the stand-in's log holds: `python -m scripts.privacy_page`.

A field or header that is sent and not explained here, or explained and not sent, is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scripts import privacy_session
from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from scripts.privacy_session import Kind
    from scripts.standin.state import RecordedRequest

PAGE = ROOT / "docs" / "privacy.md"
BEGIN, END = "<!-- {}: written by `python -m scripts.privacy_page` -->", "<!-- end of {} -->"

_CHAT = "a parameter of the chat, the model or the caller"
_ROUTING = "the routing settings, or the parameter `provider`"


class Explained(NamedTuple):
    """What is in a field, and what makes the pipe send it: "" where an ordinary session has it."""

    content: str
    cause: str = ""


REQUESTS: Final[Mapping[str, tuple[str, str]]] = {
    "GET /models?output_modalities=text,image": ("the list of models", "at the first use, then every hour"),
    "GET /key": (
        "what the API key may spend",
        "at the start and after each change, at most every five minutes",
    ),
    "GET /endpoints/zdr": ("which models keep no data", "with `zdr` in `MODEL_FILTERS`, every hour"),
    "POST /responses": ("an answer, a task or a summary", "see below"),
}
"""Request → what it asks for, and when."""

HEADERS: Final[Mapping[str, Explained]] = {
    "authorization": Explained("the API key: the administrator's, or a user's own for their own requests"),
    "x-openrouter-title": Explained("`APP_TITLE`, by default `Open WebUI`"),
    "http-referer": Explained("`HTTP_REFERER`", "every request, where that is set"),
    "x-anthropic-beta": Explained(
        "that the model may think between calls of tools", "`POST /responses` to a model of Anthropic"
    ),
    "user-agent": Explained("the name and version of the HTTP library, `python-httpx`"),
    "host": Explained("OpenRouter's host name"),
    "accept": Explained("the format of the answer"),
    "accept-encoding": Explained("which compressions the server reads"),
    "connection": Explained("`keep-alive`"),
    "content-type": Explained("`application/json`"),
    "content-length": Explained("the size of the body"),
}

FIELDS: Final[Mapping[str, Explained]] = {
    "model": Explained("the model's id"),
    "models": Explained("other models that may answer", "`FALLBACK_MODELS`, or the parameter `models`"),
    "stream": Explained("whether the answer is streamed"),
    "input[message].role": Explained("`system`, `developer`, `user` or `assistant`"),
    "input[message].content[input_text].text": Explained(
        "what the user wrote; system prompts; what Open WebUI has put into either: excerpts of documents, memories, "
        "variables such as the user's name where a prompt uses them"
    ),
    "input[message].content[input_text].prompt_cache_breakpoint.mode": Explained(
        "up to where the provider should cache", "a model that caches up to marks, such as Anthropic's"
    ),
    "input[message].content[input_image].image_url": Explained("a picture, whole, as base64"),
    "input[message].content[input_image].detail": Explained("how closely to look at it"),
    "input[message].content[input_file].filename": Explained("a document's name"),
    "input[message].content[input_file].file_data": Explained("a document, whole, as base64"),
    "input[message].content[input_audio].input_audio.data": Explained(
        "a recording, whole, as base64", "a recording"
    ),
    "input[message].content[input_audio].input_audio.format": Explained("its format", "a recording"),
    "input[message].content[input_video].video_url": Explained("a video, whole, as base64", "a video"),
    "input[message].content[output_text].text": Explained("what a model has answered"),
    "input[message].content[output_text].annotations": Explained("an empty list"),
    "input[message].id": Explained("a digest of an answer's text"),
    "input[message].status": Explained("`completed`"),
    "input[message].phase": Explained("whether the text was commentary or the final answer"),
    "input[reasoning].id": Explained("the provider's id of a piece of reasoning"),
    "input[reasoning].status": Explained("`completed`"),
    "input[reasoning].summary": Explained("an empty list", "a model that shows its thinking itself"),
    "input[reasoning].summary[summary_text].text": Explained(
        "the summary of its reasoning that a model has shown"
    ),
    "input[reasoning].content[reasoning_text].text": Explained(
        "the thinking that a model has shown", "a model that shows its thinking itself"
    ),
    "input[reasoning].encrypted_content": Explained("reasoning that the provider has encrypted"),
    "input[reasoning].signature": Explained("the provider's signature of it", "a model of Anthropic"),
    "input[reasoning].format": Explained("the form of the reasoning"),
    "input[function_call].id": Explained("the provider's id of a tool call"),
    "input[function_call].call_id": Explained("the id by which call and result belong together"),
    "input[function_call].name": Explained("the tool that was called"),
    "input[function_call].arguments": Explained("what the model gave to the tool"),
    "input[function_call].status": Explained("`completed`"),
    "input[function_call_output].call_id": Explained("the call's id"),
    "input[function_call_output].output": Explained("what the tool returned"),
    "input[other]": Explained(
        "what a tool of the provider's own did, such as a search, as it came", "web search"
    ),
    "tools[function].name": Explained("a tool's name"),
    "tools[function].description": Explained("its description"),
    "tools[function].parameters": Explained("the schema of its arguments"),
    "tools[openrouter:web_search].parameters": Explained(
        "who searches, how often, how many results", "web search"
    ),
    "tools[openrouter:web_fetch].parameters": Explained("how many pages may be read", "web search"),
    "tool_choice": Explained("that no tool be called"),
    "tool_choice.mode": Explained("that the model has to search", "web search"),
    "tool_choice.tools[openrouter:web_search]": Explained("with which tool", "web search"),
    "include": Explained("that encrypted reasoning shall come with the answer"),
    "reasoning.effort": Explained("how much to think: little for titles and the like, and for summaries"),
    "reasoning.summary": Explained("how to sum up what is thought"),
    "reasoning.context": Explained("which reasoning the provider goes by", _CHAT),
    "reasoning.mode": Explained("the mode of reasoning", _CHAT),
    "text.format.name": Explained("`summary`, or the name of a wanted format"),
    "text.format.schema": Explained("the form of a summary, or a wanted one"),
    "text.format.strict": Explained("whether the format is binding"),
    "text.verbosity": Explained("how wordy to be", _CHAT),
    "max_output_tokens": Explained("the largest answer"),
    "max_tool_calls": Explained("how many calls of the provider's own tools", _CHAT),
    "stop_server_tools_when[step_count_is].step_count": Explained("when the provider's own tools end", _CHAT),
    "parallel_tool_calls": Explained("whether several tools may be called at once", _CHAT),
    "temperature": Explained("how freely to choose words", _CHAT),
    "top_p": Explained("among how many", _CHAT),
    "top_k": Explained("among how many", _CHAT),
    "top_logprobs": Explained("how many likelihoods to return", _CHAT),
    "presence_penalty": Explained("how much to avoid what was said", _CHAT),
    "frequency_penalty": Explained("how much to avoid repetition", _CHAT),
    "stop": Explained("where to stop", _CHAT),
    "truncation": Explained("whether the provider may shorten the input", _CHAT),
    "modalities": Explained("that pictures are wanted", "a model that draws"),
    "image_config.aspect_ratio": Explained("the shape of a picture", "the user's valve `IMAGE_ASPECT_RATIO`"),
    "image_config.image_size": Explained("its size", "the user's valve `IMAGE_SIZE`"),
    "plugins[].id": Explained("a plugin of OpenRouter's", "a PDF and a model that reads none, or `plugins`"),
    "plugins[].pdf.engine": Explained(
        "what reads PDFs", "a PDF and a model that reads none, or `PDF_ENGINE`"
    ),
    "provider.order": Explained("`PROVIDER_ORDER`", _ROUTING),
    "provider.only": Explained("`PROVIDER_ONLY`", _ROUTING),
    "provider.ignore": Explained("`PROVIDER_IGNORE`", _ROUTING),
    "provider.sort": Explained("`PROVIDER_SORT`", _ROUTING),
    "provider.quantizations": Explained("`QUANTIZATIONS`", _ROUTING),
    "provider.max_price.prompt": Explained("`MAX_PRICE_INPUT`", _ROUTING),
    "provider.max_price.completion": Explained("`MAX_PRICE_OUTPUT`", _ROUTING),
    "provider.data_collection": Explained("`DATA_COLLECTION`", _ROUTING),
    "provider.require_parameters": Explained("`REQUIRE_PARAMETERS`", _ROUTING),
    "provider.zdr": Explained("`ZDR`, the administrator's or the user's", _ROUTING),
    "service_tier": Explained("`SERVICE_TIER`", "`SERVICE_TIER`, `NEAR_LIMIT`, or the parameter"),
    "cache_control": Explained("that the provider shall cache the chat", "a model of Anthropic"),
    "cache_control.ttl": Explained("for how long", "a model of Anthropic and `CACHE_TTL`"),
    "prompt_cache_options.mode": Explained("how OpenAI caches", _CHAT),
    "prompt_cache_key": Explained("the chat's pseudonym; with `SEND_IDENTITY` = `none` it is not sent"),
    "session_id": Explained("the same"),
    "user": Explained("the user's pseudonym", "`SEND_IDENTITY` = `user` or `trace`"),
    "trace": Explained("the message's pseudonym, and `chat` or the task's name", "`SEND_IDENTITY` = `trace`"),
    "safety_identifier": Explained("what the caller sends under this name", _CHAT),
}
"""Field → what is in it. An object in a list is named by its `type`, which is sent with it."""


def render(text: str, ordinary: list[RecordedRequest], everything: list[RecordedRequest]) -> str:
    """The page with its tables written anew from the requests of both sessions.

    Raises:
        ValueError: What is sent, and what is explained above, differ.
    """
    requests = [*ordinary, *everything]
    _compare("requests", set(REQUESTS), {_line(each) for each in requests})
    _compare_explained("headers", HEADERS, *map(set, map(privacy_session.headers_of, (ordinary, requests))))
    ordinary_fields, all_fields = map(privacy_session.fields_of, (ordinary, requests))
    _compare_explained("fields", FIELDS, set(ordinary_fields), set(all_fields))
    for name, lines in (
        ("requests", _requests()),
        ("headers", _headers(privacy_session.headers_of(requests))),
        ("fields", _fields(ordinary_fields)),
        ("further fields", _further_fields()),
    ):
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin)
        text = "\n".join([f"{before}{begin}\n", *lines, f"\n{end}{rest.split(end)[1]}"])
    return text


def sessions() -> tuple[list[RecordedRequest], list[RecordedRequest]]:
    """The requests of the ordinary session, and of the one that switches everything on."""
    return privacy_session.run(privacy_session.ORDINARY), privacy_session.run(privacy_session.EVERYTHING)


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(PAGE.read_text("utf-8"), *sessions()), "utf-8")


def _line(request: RecordedRequest) -> str:
    return f"{request.method} {request.path}{'?' if request.query else ''}{request.query}"


def _compare(what: str, explained: AbstractSet[str], sent: AbstractSet[str]) -> None:
    if explained != sent:
        unexplained, unsent = sorted(sent - explained), sorted(explained - sent)
        raise ValueError(f"{what}: sent and not explained: {unexplained}; explained and not sent: {unsent}")


def _compare_explained(
    what: str, table: Mapping[str, Explained], ordinary: AbstractSet[str], all_sent: AbstractSet[str]
) -> None:
    _compare(what, set(table), all_sent)
    _compare(f"{what} of an ordinary session", {name for name in table if not table[name].cause}, ordinary)


def _requests() -> Iterator[str]:
    yield from ("| request | asks for | when |", "|---|---|---|")
    for line, (what, when) in REQUESTS.items():
        yield f"| `{line}` | {what} | {when} |"


def _headers(paths: Mapping[str, AbstractSet[str]]) -> Iterator[str]:
    yield from ("| header | what is in it | sent with |", "|---|---|---|")
    for name, (content, cause) in HEADERS.items():
        where = "every request" if "/models" in paths[name] else "`POST /responses`"
        yield f"| `{name}` | {content} | {cause or where} |"


def _fields(kinds: Mapping[str, Iterable[Kind]]) -> Iterator[str]:
    yield from ("| field | what is in it | sent with |", "|---|---|---|")
    for name, (content, cause) in FIELDS.items():
        if not cause:
            yield f"| `{name}` | {content} | {', '.join(sorted(kinds[name]))} |"


def _further_fields() -> Iterator[str]:
    yield from ("| field | what is in it | sent because of |", "|---|---|---|")
    for name, (content, cause) in FIELDS.items():
        if cause:
            yield f"| `{name}` | {content} | {cause} |"


if __name__ == "__main__":
    main()
