"""The borders at which others' input is read: what is damaged there, and the laws that hold all the same.

A border is a function of dice. It takes something recorded or written by hand, damages it, has it read by the code that
reads it, and judges. Only the errors that the code promises are caught; whatever else is raised is a finding.
"""

from __future__ import annotations

import asyncio
import csv
import json
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from html.parser import HTMLParser
from io import StringIO
from ipaddress import ip_address
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.report import context_text
from open_webui_openrouter_pipe.context.spending import spending_file, spending_page, spending_text
from open_webui_openrouter_pipe.conversation.facts import state_fact
from open_webui_openrouter_pipe.conversation.media import image_size, pdf_tokens
from open_webui_openrouter_pipe.conversation.slash import read_command
from open_webui_openrouter_pipe.errors import (
    AttachmentUnavailable,
    ConfigurationError,
    InvalidHistory,
    SealBroken,
    StreamBroken,
    UpdateRefused,
)
from open_webui_openrouter_pipe.history.artifacts import normalize_persisted_item
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.documents import without_excerpts
from open_webui_openrouter_pipe.host.model_rows import model_fields
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.maintenance import commands, updates
from open_webui_openrouter_pipe.media.choice import name_references
from open_webui_openrouter_pipe.media.download import _file_name, read_address
from open_webui_openrouter_pipe.media.kinds import is_binary, is_damaged, media_type_of
from open_webui_openrouter_pipe.openrouter import controls
from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.errors import retry_after, to_error
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings, offered_models
from open_webui_openrouter_pipe.openrouter.request import Composer, own_plugins
from open_webui_openrouter_pipe.openrouter.server_tools import ServerToolSettings, with_server_tools
from open_webui_openrouter_pipe.openrouter.wire import encode_body
from open_webui_openrouter_pipe.recall import tool as recall_tool
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL, RecallRefused
from open_webui_openrouter_pipe.replay.exports import (
    chat_state,
    read_artifacts,
    read_export,
    transform_messages_to_input,
)
from open_webui_openrouter_pipe.replay.recordings import read_recording
from open_webui_openrouter_pipe.responses.effects import Decoder, ItemFinished, ResponseFinished, parse_event
from open_webui_openrouter_pipe.responses.failure import read_failure
from open_webui_openrouter_pipe.responses.tools import SERVER_TOOLS
from open_webui_openrouter_pipe.responses.values import as_list, as_object, as_text, unescape
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.store.artifacts import unseal
from open_webui_openrouter_pipe.store.cache import decode_row, encode_row
from open_webui_openrouter_pipe.store.schema import SummaryRow
from open_webui_openrouter_pipe.store.sealing import (
    UNSEALED,
    ItemTooLarge,
    decode_item,
    encode_item,
    open_text,
    seal_row,
    seal_text,
    unpack,
)
from open_webui_openrouter_pipe.summaries.summary import (
    Summary,
    SummaryRefused,
    parse_model_summary,
    render_part,
    render_state,
)
from open_webui_openrouter_pipe.valves import HostValves, StoredUserValves
from scripts.paths import ROOT
from scripts.standin import sdk_schema, validate
from tests.fuzz import mutation
from tests.history.builders import (
    OPENAI,
    assistant,
    build,
    mark,
    reasoning,
    tool,
    tool_call,
    user,
)
from tests.media.test_addresses import HOSTILE, words
from tests.openrouter.test_fields import MODEL
from tests.responses.test_reducer import check_laws
from tests.store.contract import KEYRING, artifact, row
from tests.support import context_reports, spending_reports
from tests.support.wire import frames, reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

DATA: Final = ROOT / "tests" / "data"
NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)
KEY: Final = "sk-or-v1-fedcba9876543210"
LIMIT_BYTES: Final = 100_000
csv.field_size_limit(10_000_000)  # a name may be longer than what Python's reader takes by default


@cache
def _files(*patterns: str) -> tuple[bytes, ...]:
    """What is recorded, in the order of the names."""
    return tuple(path.read_bytes() for pattern in patterns for path in sorted(DATA.glob(pattern)))


@cache
def _json(pattern: str) -> Any:
    return [json.loads(content) for content in _files(pattern)]


def _writable(value: Any) -> None:
    """What goes to the host or into a request: JSON that everybody reads, in UTF-8."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@cache
def _fields(kind: str = "") -> frozenset[str]:
    """The names of the fields that the service knows, of items of this type, or of all items and their parts."""
    classes = sdk_schema._input_classes()
    models = classes.get(kind, ()) if kind else [model for each in classes.values() for model in each]
    schemas = [model.model_json_schema() for model in models]
    parts = [] if kind else [part for schema in schemas for part in schema.get("$defs", {}).values()]
    return frozenset(name for part in (*schemas, *parts) for name in part.get("properties", ()))


def _known(value: Any, kind: str = "") -> Any:
    """A value without fields that nobody knows, and formats of reasoning: what a provider adds goes back as it came."""
    if isinstance(value, dict):
        return {name: _known(each) for name, each in value.items() if name in _fields(kind) - {"format"}}
    return [_known(each) for each in value] if isinstance(value, list) else value


def _check_input(items: Any) -> None:
    """What is sent is valid for the strict stand-in, and JSON that everybody reads."""
    _writable(items)
    validate.check(
        {"model": OPENAI, "input": name_references([_known(each, each["type"]) for each in items])}
    )


# --- OpenRouter: streams, failures, the catalogue -------------------------------------------------------------


def stream(dice: Random) -> None:
    """The laws of effects hold; the host gets JSON, links into the web, and a history that can be sent again."""
    sent = dice.choice(_files("sse/*.sse", "openrouter/streams/*.sse"))
    if dice.random() < 0.5:
        decoder = Decoder()
        events = [json.loads(frame) for frame in (*decoder.feed(sent), *decoder.flush())]
        sent = frames(*filter(as_object, as_list(mutation.value(dice, events))))
    else:
        sent = mutation.data(dice, sent)
    decoder, found = Decoder(), list[dict[str, Any]]()
    cut = dice.choice((1, 7, 4096))
    with suppress(StreamBroken):
        for start in range(0, len(sent), cut):
            found += map(parse_event, decoder.feed(sent[start : start + cut]))
        found += map(parse_event, decoder.flush())
    effects = reduce(found)
    check_laws(effects)
    numbers = iter(range(1, 10_000))
    writer = NativeWriter(new_id=lambda: str(next(numbers)), clock=lambda: 0.0)
    shown = [event for effect in effects for event in writer.render(effect)]
    _writable(shown)
    _check_links(shown)
    kept = {
        number: item
        for number, effect in enumerate(effects, 1)
        if isinstance(effect, ItemFinished) and (item := normalize_persisted_item(effect.item))
    }
    _writable(list(kept.values()))
    output = (
        shown[-1].get("response", {}).get("output") if isinstance(effects[-1], ResponseFinished) else None
    )
    answer = {**assistant(mark(*kept)), "output": output or []}
    _sent([user("q"), answer, user("again")], kept)


def _check_links(value: Any) -> None:
    """No address that a page makes a link of leads elsewhere than into the web."""
    if isinstance(value, dict):
        if value.get("type") == "url_citation":
            assert str(value["url"]).lower().startswith(("http://", "https://"))
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        _check_links(each)


def failure(dice: Random) -> None:
    """What users read is text, and has no key; a wait is a number."""
    recorded = dice.choice(_json("openrouter/errors.json")[0])
    body = mutation.value(
        dice,
        recorded.get("body") or {"error": {"message": recorded.get("message"), "metadata": {"raw": "x"}}},
    )
    body = _with_key(body)
    given: Any = body
    if dice.random() < 0.5:
        given = mutation.text(dice, json.dumps(body))
    elif dice.random() < 0.3:
        given = mutation.text(dice, f"<html><title>502 {KEY}</title><body>&quot;{KEY}&quot;</body></html>")
    headers = {dice.choice(("retry-after", "retry-after-ms", "x-ratelimit-reset")): _header(dice)}
    wait = retry_after(headers, now=NOW)
    assert wait is None or wait >= 0
    error = to_error(
        read_failure(dice.choice((None, 200, 400, 429, 502)), given), retry_after_seconds=wait, api_key=KEY
    )
    _writable([error.user_message, str(error.detail)])
    assert KEY not in f"{error.user_message} {error.detail}"


def _with_key(value: Any) -> Any:
    """A key in every text of a value."""
    if isinstance(value, dict):
        return {name: _with_key(each) for name, each in value.items()}
    if isinstance(value, list):
        return [*map(_with_key, value)]
    return f"{value} {KEY} {value}" if isinstance(value, str) else value


def _header(dice: Random) -> str:
    known = ("5", "0.5", "Wed, 21 Oct 2026 07:28:00 GMT", "1795302384000", "-1")
    return mutation.text(dice, dice.choice(known)).encode("latin-1", "replace").decode("latin-1")


def catalogue(dice: Random) -> None:
    """A list is read whatever its rows are, and what is written of it into the host's rows is JSON without markup."""
    listed = [each["row"] for each in _json("openrouter/catalogue.json")[0]["rows"]]
    start = dice.randrange(max(1, len(listed) - 3))
    models = read_models(mutation.value(dice, {"data": listed[start : start + 3]})) or {}
    for model in offered_models(models.values(), OfferSettings(), zdr_ids=None):
        fields = model_fields(model, {})
        described = str(fields.get("description", ""))
        assert not re.search(r"<[a-z/!]|!\[", described, re.IGNORECASE)
        assert re.fullmatch(r"data:image/png;base64,[\w+/=]+", str(fields["profile_image_url"]))


# --- the host and its users: chats, pages, commands, valves --------------------------------------------------


_BLOCK: Final = (
    '<details type="tool_calls" done="true" id="c1" name="f" arguments="&quot;{}&quot;" result="&quot;out&quot;">\n'
    "<summary>Tool Executed</summary>\n</details>"
)
_CHATS: Final = (
    [user("q"), assistant(f"{mark(1)}\nanswer\n{mark(2)}"), user("again")],
    [user("q"), assistant(f"before\n{_BLOCK}\nafter"), user(f"> {_BLOCK}")],
    [user(_BLOCK.replace("c1", "c7")), assistant("answer"), user("again")],
    [user("q"), assistant(f"<think>hm</think>\n```\n{mark(1)}```\n`{mark(2)}`"), user("again")],
    [
        user(
            [
                {"type": "text", "text": "q"},
                {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            ]
        )
    ],
    [user("q"), assistant("a", tool_call("c1")), tool("c1", "out"), assistant("b"), user("again")],
)


def chat(dice: Random) -> None:
    """The input is valid; what users say stays; nothing that stands in a user's text is a call."""
    messages = mutation.value(dice, dice.choice((*_CHATS, *_exported())))
    if dice.random() < 0.5 and isinstance(messages, list):
        texts = [each for each in messages if isinstance(each, dict) and isinstance(each.get("content"), str)]
        for each in texts:
            each["content"] = mutation.text(dice, each["content"])
    _sent(
        messages,
        {1: reasoning("rs_1"), 2: {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}},
    )


@cache
def _exported() -> tuple[Any, ...]:
    """The messages of the chats that Open WebUI has exported."""
    lines = b"\n".join(_files("exports/*.ndjson")).splitlines()
    values = [*_json("exports/weather.json"), *map(json.loads, lines)]
    return tuple([*chat_state(each).messages] for value in values for each in read_export(value))


def _sent(messages: Any, artifacts: Mapping[int, Any]) -> None:
    """What is sent of a chat is valid for the strict stand-in, and acts on no user's text."""
    try:
        built = build(messages, artifacts)
    except InvalidHistory:
        return
    _check_input(built.items)
    others = [each for each in messages if isinstance(each, dict) and each.get("role") != "user"]
    written = "".join(_scalars(others))
    structured, own = (
        _letters(written + unescape(written)),
        {as_object(each).get("call_id") for each in artifacts.values()},
    )
    for item in built.items:
        if item["type"] == "function_call" and (name := cast("Any", item)["call_id"]) not in own:
            # one that stands twice has a number behind it, one that is too long or empty a name of its own
            given = _letters(re.sub(r"_\d+$", "", name))
            assert given in structured or re.fullmatch(r"call_[0-9a-f]{32}", name), name


def _scalars(value: Any) -> Iterator[str]:
    """All keys and values of what is sent as JSON."""
    if isinstance(value, dict | list):
        for each in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _scalars(each)
    else:
        yield str(value)


def _letters(text: str) -> str:
    """What neither cleaning nor escaping changes."""
    return re.sub(r"[^A-Za-z0-9]", "", text)


def call(dice: Random) -> None:
    """A call of any shape is read, whose it is too; what its parameters become is JSON."""
    body = {
        "model": "p.openai/gpt-5",
        "messages": dice.choice(_CHATS),
        "stream": True,
        **mutation.SEEDS["parameters"],
    }
    user_of = {"id": "ada", "role": "user"}
    given, metadata, user_of = (
        as_object(mutation.value(dice, each)) for each in (body, mutation.SEEDS["metadata"], user_of)
    )
    with suppress(InvalidHistory):
        read = read_call(given, user=user_of, metadata=metadata, task=dice.choice((None, "title_generation")))
        _writable([read.chat_id, read.message_id])
        assert (read.user_id, read.is_admin) == (as_text(user_of.get("id")), user_of.get("role") == "admin")
        _ = read.origin, read.continued_text, read.command, read.keeps, read.is_unsaved
        if isinstance(read.messages, list):
            without_excerpts(read, {"f"})
        parameters = read.parameters if read.task else _as_switched(dice, read.parameters)
        plugins = own_plugins("native", None, is_fitted=True)
        composer = Composer(
            parameters,
            model=dice.choice((None, MODEL)),
            model_id=OPENAI,
            plugins=plugins,
            own_tools=[RECALL_TOOL],
        )
        sent = asyncio.run(encode_body(composer.build([]).body))
        written = b"".join(sent.write())
        assert len(written) == sent.length_bytes
        _writable(json.loads(written))


def _as_switched(dice: Random, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a call's parameters a user may set, with what is switched, and with tools that OpenRouter runs."""
    of_admin = as_object(mutation.value(dice, mutation.SEEDS["parameters"]))
    mode: Any = dice.choice(("off", "auto", "on"))
    switched = controls.ControlSettings(
        provider={"only": ["openai"], "max_price": {"prompt": "1"}, "zdr": True},
        reasoning={"effort": "low"},
        router_tier="low",
        server_tools=ServerToolSettings(
            mode, host_switch_by="openrouter", tools=dict.fromkeys(SERVER_TOOLS, "")
        ),
    )
    model = dice.choice((None, MODEL))
    kept, _ = controls.permitted_parameters(parameters, of_admin, allowed={"plugins"}, offered={OPENAI})
    with suppress(ConfigurationError):
        kept = controls.routed(kept, switched)
    kept = controls.chat_parameters(
        kept, switched, identity={"user": "ada"}, offered=[MODEL], model=model, model_id=controls.AUTO_ROUTER
    )
    return with_server_tools(kept, switched.server_tools, "offered", model=model, model_id=OPENAI)


def tool_output(dice: Random) -> None:
    """A fact is the result, where that is small, or a shorter text that shows no secret."""
    given = dice.choice(_files("tool_outputs/*.txt")).decode("utf-8", "replace")
    start = dice.randrange(max(1, len(given) - 20_000))
    result = mutation.text(dice, mutation.text(dice, given[start : start + 20_000]))
    result += f"\nkey: {KEY}\n" if dice.random() < 0.5 else ""
    fact = state_fact(result)
    assert fact == result or (KEY not in fact and len(fact) < len(result))


def written(dice: Random) -> None:
    """A summary that a model writes is one that can be stored and sent, or none; so are the arguments of recall."""
    answer = mutation.value(dice, mutation.SEEDS["summary"])
    said = mutation.text(
        dice, f"<think>hm</think>\n```json\n{json.dumps(answer, ensure_ascii=dice.random() < 0.5)}\n```"
    )
    with suppress(SummaryRefused):
        found = parse_model_summary(said, source_tokens=10_000, count=len)
        summary = Summary(found, found.constraints)
        assert Summary.from_json(decode_item(encode_item(summary.as_json()))) == summary
        _writable([render_part(summary), render_state([summary])])
    asked = mutation.value(dice, {"query": "the ferry", "turn": "3-5", "reference": "#12345678", "page": "2"})
    with suppress(RecallRefused):
        request = recall_tool._read(
            mutation.text(dice, json.dumps(asked)) if dice.random() < 0.5 else json.dumps(asked)
        )
        assert (request.page > 0, len(request.turns) >= 0, len(request.reference) < 20) == (True, True, True)


class _Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found = list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Note it with its attributes' names."""
        self.found.append(" ".join([tag, *sorted(name for name, _ in attrs)]))


def page(dice: Random) -> None:
    """Whatever users and models are called, a page has the same elements, and a file no formula."""
    called = mutation.text(dice, dice.choice((context_reports.HOSTILE_TEXT, *mutation.TEXTS)))
    plain = replace(
        context_reports.SMALL, summaries=[replace(each, text="x") for each in context_reports.SMALL.summaries]
    )
    named = replace(plain, model=called, turns=[replace(each, text=called) for each in plain.turns])
    named = replace(named, summaries=[replace(each, text=called or "x") for each in plain.summaries])
    drawn = context_page(named)
    drawn.encode()
    assert _Elements(drawn).found == _Elements(context_page(plain)).found
    context_text(named).encode("utf-8", "surrogatepass")
    report = spending_reports.HOSTILE
    people = [(called, spent) for _, spent in report.users]
    told = replace(
        report, users=people, rows=[each._replace(user=called, model=called) for each in report.rows]
    )
    assert _Elements(spending_page(told)).found == _Elements(spending_page(report)).found
    spending_text(told).encode("utf-8", "surrogatepass")
    # the page hands the file over in a field, which makes each end of a line a \n
    lines = [*csv.reader(StringIO(spending_file(told).replace("\r", "\n")))]
    assert {*map(len, lines)} == {len(lines[0])}
    for cell in chain(*lines):
        assert not re.match(r"\s*[=+@-](?![\d.]+$)", cell), cell


def command(dice: Random) -> None:
    """Every text is a command or none, to users and to administrators."""
    known = (
        *(
            "/restore 3-8, 12",
            "/spending 2026-10",
            "/discard",
            "/aim thrifty",
            "/compact keep the names",
            "/help",
        ),
        *("record 60 now", "move connection openai now", "forget user ada", "update back", "`install`"),
        'enter bill\nbill not written: {"id":"01KBX","user_id":"ada","cost":0.0047}\nnow',
    )
    text = mutation.text(dice, dice.choice(known))
    read_command(text)
    _ = commands.read_command(text).text
    commands.is_confirmation(text)


def valves(dice: Random) -> None:
    """Whatever is stored is read, shows no key, and protects as it did where it cannot be read."""
    stored, own = (
        mutation.value(dice, each) for each in (mutation.SEEDS["valves"], mutation.SEEDS["user valves"])
    )
    stored, own = (each if isinstance(each, dict) else {} for each in (stored, own))
    read, mine = HostValves(**stored), StoredUserValves(**own)
    settings = read_settings(read, mine, user_id="ada")
    elsewhere = {name: each for name, each in {**own, **stored}.items() if name != "API_KEY"}
    assert KEY in str(elsewhere) or KEY not in f"{read!r} {mine!r} {settings!r}"
    said, limits = stored.get("SPENDING_LIMITS"), settings.spending.limits
    if said is not None and re.search(r"\w", str(said)):
        assert settings.refusal or limits.limits or limits.unreadable


# --- addresses and files ---------------------------------------------------------------------------------------


def address(dice: Random) -> None:
    """What may be asked is a host that two other readers read alike, and no address that is not public."""
    seeds = (
        *HOSTILE,
        *(f"https://{each}/a?b" for each in words("Public") if ":" not in each),
        "https://files.example.com/a b",
    )
    url = mutation.text(dice, dice.choice(seeds))
    _file_name(mutation.text(dice, "attachment; filename*=UTF-8''a%20b.txt; filename=\"a.txt\""), url)
    try:
        found = read_address(url, allow_http=dice.random() < 0.5)
    except AttachmentUnavailable:
        return
    assert found.scheme in {"http", "https"}
    assert found.target.isascii()
    assert found.target.startswith("/")
    assert not re.search(r"[\x00-\x20\x7f]", found.target + found.host)
    assert urlsplit(found.url).hostname == found.host == httpx.URL(found.url).raw_host.decode().strip("[]")
    assert "@" not in found.authority
    with suppress(ValueError):
        assert ip_address(found.host).is_global


_KINDS: Final = (
    *(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89",
        b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!",
    ),
    *(
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9",
        b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\1\0\0\1\0\0",
    ),
    *(
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x44\xac\0\0\x88\x58\1\0\2\0\x10\0data\0\0\0\0",
        b"%PDF-1.4\n%%EOF",
    ),
    *(
        b"PK\3\4" + bytes(26) + b"[Content_Types].xmlPK\1\2" + bytes(42) + b"word/PK\5\6" + bytes(18),
        b"ID3\4" + bytes(20),
    ),
    *(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(80),
        b"\x1aE\xdf\xa3webmA_OPUS",
        b"\0\0\0\x18ftypmp42" + bytes(20),
    ),
    *(
        b"<?xml version='1.0'?><!-- x --><svg onload='x'/>",
        b"\xff\xfe<\0s\0v\0g\0",
        b"plain text",
        b"\xff\xfb\x90\0" * 9,
    ),
    (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 3/Kids[]>>endobj\n"
        b"xref\n0 3\n0000000000 65535 f \n0000000009 00000 n \n0000000054 00000 n \ntrailer<</Size 3/Root 1 0 R>>\n"
        b"startxref\n99\n%%EOF"
    ),
)


def file(dice: Random) -> None:
    """A file has a kind, is whole or damaged, and takes a number of tokens; nothing of it is run."""
    content = mutation.data(dice, mutation.data(dice, dice.choice(_KINDS)))
    kind = media_type_of(content)
    assert re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", kind)
    is_damaged(content, kind)
    is_binary(content, kind)
    url = f"data:{kind};base64,{b64encode(content).decode()}"
    assert (image_size(url) or (1, 1)) > (0, 0)
    assert pdf_tokens(url, "openai") >= 0


# --- what is stored and handed on ---------------------------------------------------------------------------------


_ROW: Final = row(1, text="visible" * 2_000)
_SUMMARY: Final = seal_row(
    SummaryRow(
        "ada", "aa", "bb", 2, "chat-1", "openai/gpt-5", *UNSEALED, source_tokens=9, created=1, last_used=1
    ),
    encode_item({"prose": "they agreed"}),
    KEYRING,
    limit_bytes=LIMIT_BYTES,
)
_ROWS: Final = (_ROW, row(2), _SUMMARY)
_OWNED: Final = seal_text(KEY, "secret", purpose="own API key", owner="ada")


def sealed(dice: Random) -> None:
    """What opens is what was sealed, for its owner and under its names; all else is refused."""
    chosen = cast("Any", dice.choice(_ROWS))
    name = dice.choice([*chosen._fields, "payload", "payload"])
    before = getattr(chosen, name)
    after: Any = (
        mutation.data(dice, before) if isinstance(before, bytes) else mutation.value(dice, {"column": before})
    )
    after = after.get("column") if isinstance(after, dict) else after
    if type(after) is not type(before):
        return  # a database's columns have types
    altered = chosen._replace(**{name: after})
    with suppress(SealBroken, ItemTooLarge):
        if isinstance(altered, SummaryRow):
            unpack(altered, altered.bound_names, KEYRING, limit_bytes=LIMIT_BYTES)
        else:
            unseal(altered, KEYRING, limit_bytes=LIMIT_BYTES)
        assert altered.bound_names == chosen.bound_names
        assert altered.payload == chosen.payload
    cached = mutation.data(dice, encode_row(_ROW))
    found = decode_row(cached, user_id="ada", row_id=_ROW.id)
    if found is not None:
        assert (found.user_id, found.id) == ("ada", _ROW.id)
        with suppress(SealBroken, ItemTooLarge):
            assert (
                unseal(found, KEYRING, limit_bytes=LIMIT_BYTES)[0].item
                == artifact(1, {"type": "reasoning", "text": "visible" * 2_000}).item
            )
    with suppress(SealBroken):
        text = mutation.text(dice, _OWNED)
        assert open_text(text, "secret", purpose="own API key", owner=dice.choice(("ada", "bob"))) in {
            KEY,
            "",
        }


def export(dice: Random) -> None:
    """An export, artifacts and a recording are read, or refused as what they are not."""
    recorded = [json.loads(line) for line in _files("openrouter/recordings/*.jsonl")[0].splitlines()]
    if dice.random() < 0.3:
        with suppress(InvalidHistory):
            for number, exchange in enumerate(read_recording(mutation.value(dice, recorded)) or ()):
                _ = exchange.as_json(), exchange.as_stream(), exchange.row(number)
        return
    lines = b"\n".join(_files("exports/*.ndjson")).splitlines()
    exported = mutation.value(dice, dice.choice([*_json("exports/weather.json"), *map(json.loads, lines)]))
    with suppress(InvalidHistory):
        artifacts = read_artifacts(mutation.value(dice, _json("exports/weather_artifacts.json")[0]))
        for each in read_export(exported):
            with suppress(InvalidHistory):
                state = chat_state(each, dice.choice((None, "1", "2", "x")))
                built = asyncio.run(
                    transform_messages_to_input(list(state.messages), artifact_loader=artifacts)
                )
                _check_input(built.items)


_SIGNER: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_PUBLIC: Final = b64encode(_SIGNER.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def _release() -> dict[str, Any]:
    digest = {"openrouter.py": "ab" * 32}
    signature = b64encode(_SIGNER.sign(updates.signed_text("1.2.0", "new", digest))).decode()
    files = {name: {"bytes": 9, "sha256": each} for name, each in digest.items()}
    return {"version": "1.2.0", "changelog": "new", "files": files, "signature": signature}


def release(dice: Random) -> None:
    """What passes for a signed release says what was signed."""
    given = json.dumps(dice.choice((_release(), mutation.value(dice, _release()))))
    with suppress(UpdateRefused):
        read = updates.read_release(mutation.text(dice, given) if dice.random() < 0.5 else given)
        updates.check_signature(read, _PUBLIC)
        digests = {name: each.digest for name, each in read.files.items()}
        assert (read.version, read.changelog, digests) == ("1.2.0", "new", {"openrouter.py": "ab" * 32})


BORDERS: Final[Mapping[str, Callable[[Random], None]]] = {
    each.__name__: each
    for each in (
        stream,
        failure,
        catalogue,
        chat,
        call,
        written,
        tool_output,
        page,
        command,
        valves,
        address,
        file,
        sealed,
        export,
        release,
    )
}


def case(border: str, number: int) -> Callable[[], None]:
    """The case of this number, the same each time."""
    return partial(BORDERS[border], Random(f"{border}/{number}"))


def findings(border: str, numbers: Iterable[int]) -> Sequence[tuple[int, Exception]]:
    """What was raised, by the number of its case."""
    found = []
    for number in numbers:
        try:
            case(border, number)()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            found.append((number, error))
    return found
