"""The subjects of `scale` that need no server: chats, windows, streams and catalogues of a size.

Each takes a size and what measures its stages. Owns what is measured, and no figures.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.history.build import Options, build_input, present_prompt
from open_webui_openrouter_pipe.history.markers import item_id, leading_markers
from open_webui_openrouter_pipe.history.reading import answers_without_items, read_history
from open_webui_openrouter_pipe.host.model_rows import RowInfo, icon, model_fields, updated_row
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.money.prefix import digests_of
from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.listing import ModelListing
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings
from open_webui_openrouter_pipe.openrouter.problems import NamedModels, example
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.openrouter.wire import encode_body
from open_webui_openrouter_pipe.planning.planner import (
    AvailableSummaries,
    ModelTerms,
    PlanCaches,
    may_be_shortened,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.responses.effects import Decoder, join_deltas, parse_event
from open_webui_openrouter_pipe.responses.reducer import Reducer
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.store.table import SqlRows
from scripts.benchmarks._chats import answer, message
from scripts.harness.database import open_database
from scripts.harness.page import PipeInProcess
from scripts.standin.catalogue import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    Stages = Callable[[str], AbstractContextManager[None]]

MODEL: Final = "anthropic/claude-sonnet-4.5"
ROOMY: Final = ModelTerms(MODEL, 10**9, prices=CachePrices(0.1, 1.25))
SETTINGS: Final = ContextSettings(recall_tool=True)
QUESTION: Final = "What did the keeper of the lighthouse write about the storm of that night? " * 40
ANSWER: Final = "He wrote that the light had gone out twice, and that nobody had seen it from the sea. " * 75
"""With the question and what is kept of the reasoning 10 KB a turn: 2,000 turns are a chat of 20 MB."""
TURN_TOKENS: Final = 2_200
_REASONING: Final = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo" * 64}
_KEPT_AT_ONCE: Final = 50
_BASE: Final = "https://example.org/api/v1"


def host_chat(turns: int) -> tuple[list[dict[str, Any]], list[Artifact]]:
    """The host's messages, each answer with a marker, and the artifacts that they name."""
    messages, artifacts = list[dict[str, Any]](), list[Artifact]()
    for turn in range(turns):
        ulid, item = item_id(turn * 10**9, turn % 1024), {**_REASONING, "id": f"rs_{turn}"}
        artifacts.append(Artifact(ulid, "ada", "chat", f"m{turn}", "reasoning", MODEL, item))  # type: ignore[arg-type]
        said = leading_markers([ulid]) + f"{turn}. {ANSWER}"
        messages += [
            {"role": "user", "content": f"{turn}. {QUESTION}"},
            {"role": "assistant", "content": said},
        ]
    return [*messages, {"role": "user", "content": "Why?"}], artifacts


async def chat(turns: int, stage: Stages) -> None:
    """The stages of a turn of a chat that fits, in a worker that does not know it; a plan also in one that does."""
    messages, artifacts = host_chat(turns)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        async with aclosing(open_database(f"sqlite:///{folder}/rows.db")) as database:
            store = SealedArtifacts(SqlRows(database), Keyring(["a passphrase"]))
            with stage("store the artifacts of all turns"):
                for start in range(0, turns, _KEPT_AT_ONCE):
                    await store.put(artifacts[start : start + _KEPT_AT_ONCE])
            with stage("read"):
                folded = answers_without_items(messages)
                history = read_history(messages, prompt="Why?", without_items=folded)
                present_prompt(history, "")
            with stage("resolve artifacts"):
                found = await store.load("ada", history.wanted)
        loaded = {ulid: each for ulid, each in found.items() if isinstance(each, Artifact)}
        assert len(loaded) == turns
        with stage("build"):
            options = Options(MODEL, base_system_prompt="", base_user_prompt="Why?")
            conversation = build_input(history, loaded, options).conversation()
        counter, caches = TokenCounter(ContentCache()), PlanCaches()
        for name in ("plan, cold", "plan, warm"):
            with stage(name):
                may_be_shortened(conversation, SETTINGS, model=ROOMY, counter=counter, caches=caches)
                summaries = AvailableSummaries({}, "skip")
                sent = plan(
                    conversation, SETTINGS, model=ROOMY, counter=counter, caches=caches, summaries=summaries
                )
        with stage("compose"):
            body = Composer({}, model=None, model_id=MODEL).build(sent.items, sent.marks).body
        with stage("write the request"):
            await encode_body(body)
        with stage("name the prefix"):
            digests_of(body, sent, [0.0] * (len(sent.items) + 1), answer="1")


class OneModel(httpx.AsyncBaseTransport):
    """Lists one model with a large window, and answers each request with a word."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Read the whole request, and answer."""
        if request.url.path.endswith("/responses"):
            async for _ in request.stream:  # type: ignore[union-attr]  # that of an AsyncClient
                await asyncio.sleep(0)
            content = [{"type": "output_text", "text": "Yes.", "annotations": []}]
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
            response = {"status": "completed", "output": [{**item, "content": content}]}
            data = json.dumps({"type": "response.completed", "response": response})
            head = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=head, content=f"data: {data}\n\n".encode())
        if "/models" in request.url.path:
            row = {**MODELS[0].wire(), "id": MODEL, "canonical_slug": MODEL, "context_length": 10**8}
            row["top_provider"] = {"context_length": 10**8, "max_completion_tokens": 64_000}
            return httpx.Response(200, json={"data": [row]})
        return httpx.Response(200, json={"data": []})


async def turn(turns: int, stage: Stages) -> None:
    """Two whole turns of a worker in the same chat, the first of which finds it unknown."""
    messages, _ = host_chat(turns)
    body = {"model": f"openrouter.{MODEL}", "stream": True}
    metadata = {"chat_id": "chat", "message_id": "m"}
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        driver = PipeInProcess(Path(folder), base_url=_BASE, transport=OneModel())
        first = ("", messages[-1:])  # the first request of a worker imports and compiles
        async with driver as pipe:
            for name, given in (first, ("cold", messages), ("warm", messages)):
                asked = pipe.pipe({**body, "messages": given}, __user__={"id": "ada"}, __metadata__=metadata)
                with stage(name) if name else nullcontext():
                    shown = [event async for event in await asked]
                assert "response.completed" in str(shown), shown


async def window(tokens: int, stage: Stages) -> None:
    """A plain chat that fits into a window of this size, and one of twice its size."""
    for name, size in (("fits", tokens * 6 // 10), ("is twice as large", tokens * 2)):
        turns = size // TURN_TOKENS
        items = [
            item
            for turn in range(turns)
            for item in (message("user", f"{turn}. {QUESTION}"), answer(f"m{turn}", f"{turn}. {ANSWER}"))
        ]
        asked = [*items, message("user", "Why?")], [at // 2 for at in range(len(items) + 1)]
        conversation = build_conversation(*asked, instructions=[message("system", QUESTION)])
        counter, caches = TokenCounter(ContentCache()), PlanCaches()
        terms: dict[str, Any] = {"model": ModelTerms(MODEL, tokens, prices=CachePrices(0.1, 1.25))}
        terms |= {"counter": counter, "caches": caches}
        for when in ("cold", "warm"):
            with stage(f"a chat that {name}, {when}"):
                may_be_shortened(conversation, SETTINGS, **terms)
                plan(conversation, SETTINGS, **terms, summaries=AvailableSummaries({}, "skip"))


async def stream(deltas: int, stage: Stages) -> None:
    """An answer of so many deltas, of which sixteen arrive together."""
    where = {"output_index": 0, "item_id": "m", "content_index": 0}
    head = {"type": "message", "id": "m", "role": "assistant"}
    whole = {**head, "status": "completed", "content": [{"type": "output_text", "text": "word " * deltas}]}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**head, "content": []}},
        *({"type": "response.output_text.delta", **where, "delta": "word "} for _ in range(deltas)),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"status": "completed", "output": [whole]}},
    ]
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    portions = [b"".join(frames[start : start + 16]) for start in range(0, len(frames), 16)]
    decoder, reducer, native = Decoder(), Reducer(), NativeWriter(new_id=str, clock=float)
    with stage("decode"):
        read = [[*join_deltas(map(parse_event, decoder.feed(portion)))] for portion in portions]
    with stage("reduce"):
        effects = [effect for some in read for event in some for effect in reducer.feed(event)]
        effects += reducer.close()
    with stage("write for the host"):
        for effect in effects:
            native.render(effect)


async def catalogue(models: int, stage: Stages) -> None:
    """A list of so many models, made of the stand-in's: what is offered of it, and the rows that the host keeps."""
    recorded = [each.wire() for each in MODELS]
    rows = [
        {
            **recorded[at % len(recorded)],
            "id": f"maker-{at % 50}/model-{at}",
            "canonical_slug": f"model-{at}-1",
        }
        for at in range(models)
    ]
    with stage("read"):
        found = read_models({"data": rows}) or {}
    assert len(found) == models

    async def fetch(path: str) -> Any:
        return {"data": rows} if path.startswith("/models") else {"data": []}

    listing = ModelListing(fetch, fetch, start=asyncio.ensure_future, base_url=_BASE, api_key="")
    offer = OfferSettings(patterns=("*", "!maker-7/*"))
    if fetching := listing.rows.refresh():
        await fetching
    with stage("choose"):
        await listing.entries(offer)
    with stage("list again"):
        await listing.entries(offer)
    with stage("find one by another name"):
        listing.find(f"model-{models - 1}-1")
    named = NamedModels("MODELS", ("maker-1/*", "maker-3/model-x"), takes=example("x/y"), are_patterns=True)
    with stage("check settings"):
        listing.unmatched((named,))
    icon.cache_clear()
    with stage("rows with icons"):
        made = [updated_row(RowInfo("", {}), model_fields(model, {})) for model in found.values()]
    with stage("rows that are there"):
        again = [updated_row(row, model_fields(model, {})) for row, model in _both(made, found.values())]
    assert not any(again)


def _both(rows: Sequence[RowInfo | None], models: Any) -> list[tuple[RowInfo, Any]]:
    return [(row, model) for row, model in zip(rows, models, strict=True) if row]
