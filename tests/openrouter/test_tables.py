"""The tables of this folder, each judging one step: see `bodies.txt` and `tables.txt`, which say what the cells are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, astuple, replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe import errors
from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.openrouter import controls
from open_webui_openrouter_pipe.openrouter.catalog import FetchFailure, read_key, read_models
from open_webui_openrouter_pipe.openrouter.controls import ControlSettings
from open_webui_openrouter_pipe.openrouter.errors import retry_after, to_error
from open_webui_openrouter_pipe.openrouter.fields import read_parameters
from open_webui_openrouter_pipe.openrouter.listing import Status
from open_webui_openrouter_pipe.openrouter.offer import family, is_offered, read_variants
from open_webui_openrouter_pipe.openrouter.problems import Checks, Problem
from open_webui_openrouter_pipe.openrouter.request import identity_parameters
from open_webui_openrouter_pipe.openrouter.server_tools import (
    ServerToolSettings,
    most_searches,
    search_mode,
    with_dollars_left,
    with_server_tools,
)
from open_webui_openrouter_pipe.openrouter.tasks import task_parameters
from open_webui_openrouter_pipe.planning.plan import CacheMarks
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.responses.failure import Failure, read_failure
from open_webui_openrouter_pipe.responses.tools import most_tool_dollars
from open_webui_openrouter_pipe.words.lines import for_admins
from tests.openrouter.test_catalog import DATA
from tests.openrouter.test_controls import CHEAP_READS, PRICED, SIZE, permitted
from tests.openrouter.test_errors import TABLES
from tests.openrouter.test_fields import BODIES, MODEL, MODELS, NAMES, read
from tests.openrouter.test_listing import KEY, NOON, listing_of
from tests.openrouter.test_offer import FREE, PAID, ids, offer, row
from tests.openrouter.test_request import ADA, MARK, SECRET, composer, names, text
from tests.support.rows import rows

OTHERS: Final = [Model("a/m", "M"), Model("a/n", "N")]
ADMIN: Final = {"provider": {"zdr": True}, "plugins": [{"id": "web"}], "tools": [NAMES["SERVER"]]}
CATALOGUE: Final = [
    row(case.values[0], **case.values[1])
    for case in rows(TABLES, "catalogue of the filters", {"PAID": PAID, "FREE": FREE})
]
SEARCHERS: Final = {
    "a/toolless": replace(MODEL, supported_parameters=frozenset({"temperature"})),
    "a/searches": replace(MODEL, prices=Prices(search=0.01)),
    "a/unknown": None,
}


def parameters(host: Any, model: str) -> Any:
    """What is renamed, coerced, clamped or dropped; the reasoning of a model that thinks comes sealed."""
    body = read(host, MODELS[model])
    assert (body.pop("model"), body.pop("input")) == ("a/m", ())
    may_think = "think" in model or model == "unknown"
    assert not may_think or body.pop("include") == ["reasoning.encrypted_content"]
    return body


def included(given: Any, model: str, model_id: str) -> Any:
    """OpenAI refuses sealed reasoning for a model that does not reason; nobody else does."""
    return read_parameters({"include": given}, model=MODELS[model], model_id=model_id).body.get("include")


def of_chat(given: Any, model: Any, model_id: str = "a/m", offered: Any = (), **switched: Any) -> Any:
    """What the parameters of a chat become."""
    facts: Any = {"identity": switched.pop("identity", {}), "offered": offered, "model_id": model_id}
    return controls.chat_parameters(given, ControlSettings(**switched), model=model, **facts)


def drawing(given: Any, outputs: Any, desired: Any) -> Any:
    """With a model of these outputs."""
    model = None if outputs is None else replace(MODEL, output_modalities=frozenset(outputs))
    return of_chat(given, model, image_config=desired)


def users(given: Any, allowed: Any) -> Any:
    """What the administrator set passes and is put back, also over a null; fallbacks are models that are offered."""
    kept, omitted = controls.permitted_parameters(given, ADMIN, allowed=allowed, offered={"a/x"})
    assert {"provider", "plugins"} <= kept.keys()
    return {name: value for name, value in kept.items() if value != ADMIN.get(name, ...)}, omitted


def pictures(given: Any, admin: Any) -> Any:
    """A size that only administrators set is theirs, or none."""
    kept, omitted = permitted({"image_config": given}, {"image_config": admin}, held={SIZE})
    return kept.get("image_config"), omitted


def summaries(provider: Any, model_id: str, writer_id: str, held: Any) -> Any:
    """Who may see the data holds for every model, the order of providers for the chat's own, limits as held."""
    given = {"provider": provider, "user": "u", "safety_identifier": "s", "temperature": 1, "session_id": "k"}
    sent = controls.summary_parameters(given, model_id=model_id, writer_id=writer_id, held=held)
    asker = {"user": "u", "safety_identifier": "s", "session_id": "k", "reasoning_effort": "low"}
    assert sent == {"provider": sent["provider"], **asker}
    return sent["provider"]


def thinking(model_id: str, reasons: Any, has_tools: Any) -> bool:
    """Never where the valve does not allow it, or the model is unknown."""
    model = replace(MODEL, id=model_id, reasons=reasons)
    off = ControlSettings(interleaves_thinking=False)
    assert controls.beta_features(off, model, has_tools=has_tools) == ()
    assert controls.beta_features(ControlSettings(), None, has_tools=has_tools) == ()
    sent = controls.beta_features(ControlSettings(), model, has_tools=has_tools)
    return sent == (controls.INTERLEAVED_THINKING,)


def summary_writer(setting: str, model_id: str, reads_cheaply: Any) -> Any:
    """Who writes, and whether in the chat's own request."""
    terms = ModelTerms(model_id, prices=CHEAP_READS if reads_cheaply else CachePrices())
    return controls.summary_model_id(setting, model_id), controls.shares_cache(setting, terms)


def providers(held: Any, wanted: Any) -> Any:
    """An empty list would restrict nothing: where nothing is left the request is not sent."""
    try:
        return controls.strictest(held, wanted)
    except ConfigurationError as error:
        return "nothing" if "no provider is left" in str(error) else error


def fallbacks(wanted: Any, asked: str) -> Any:
    """Each once, three at most, not the one that is asked, and one that draws where a picture is wanted."""
    offered = {f"a/{number}": Model(f"a/{number}", "M") for number in range(1, 6)}
    offered["a/draws"] = Model("a/draws", "D", output_modalities=frozenset({"image", "text"}))
    sent = of_chat({}, offered[asked], asked, fallback_models=tuple(wanted), offered=offered.values())
    return sent.get("models", [])


def own_key(status: int) -> Any:
    """Who owns a key is told what to do about it, whether they administrate anything or not."""
    error = to_error(Failure("m", status=status), is_own_key=True)
    assert status == 429 or for_admins(error.user_message) == error.user_message
    return type(error).__name__, error.user_message


def patterns(written: str) -> Any:
    """A pattern includes, one with an exclamation mark excludes; exclusions alone start from all."""
    offered = ids(offer(written), *map(row, ("a/m", "a/n", "b/m")))
    assert offered == [name for name in ("a/m", "a/n", "b/m") if is_offered(name, offer(written).patterns)]
    return offered


def variants(written: str) -> Any:
    """Of offered models, each once, and of those that only some models have the listed ones alone."""
    found = ids(offer("a/m, a/m-2", variants=written), *map(row, ("a/m", "a/m-2", "a/m:free", "b/m")))
    assert {"a/m", "a/m-2"} <= set(found)
    return [name for name in found if name not in {"a/m", "a/m-2"}]


def filtered_variants(filters: str) -> Any:
    """A free variant by its own row; of a preset alone nothing is known, so it does not pass."""
    models = (row("a/m", pricing=PAID, context_length=9), row("a/m:free", pricing=FREE, context_length=5))
    return ids(offer("*", filters, "a/m:nitro, a/m:free@preset/x, @preset/x"), *models)


def entries(written: str) -> Any:
    """What is read of an entry, and the entry itself where it is no variant."""
    read_ones, unknown = read_variants([written])
    return [list(astuple(each)) for each in read_ones], unknown


def model(row: Any) -> Any:
    """What is known of the model beside its id; an unreadable row is skipped, and the others are read."""
    read_ones = (read_models({"data": [row, {"id": "other"}]}) or {}).values()
    found = [each for each in read_ones if each.id != "other"]
    assert len(found) + 1 == len(read_ones)
    return {
        name: {field: price for field, price in value.items() if price not in {None, ()}}
        if isinstance(value, dict)
        else sorted(value)
        if isinstance(value, frozenset)
        else [*value]
        if isinstance(value, tuple)
        else value
        for each in found
        for name, value in asdict(each).items()
        if name != "id" and value != asdict(Model("", ""))[name]
    } or None


class Answers:
    """What was last fetched of something, and why the last attempt failed."""

    def __init__(self, value: Any, failure: str | None) -> None:
        self.value = value
        self.failure = failure and FetchFailure(getattr(errors, failure)("said"), NOON)


def troubles(known: str, changes: Any, filters: str) -> Any:
    """The entry that is shown, and whether it says since when."""
    all_known = {
        "key": KEY,
        "rows": {"a/m": Model("a/m", "M")},
        "zdr_ids": {"a/m"},
        "offered": 7,
        "has_key": True,
    }
    facts = (all_known if known == "well" else {"offered": 0, "has_key": True}) | changes
    listing: Any = listing_of({}, has_key=facts["has_key"])
    for name in ("rows", "zdr_ids", "key")[: 3 if listing.key else 2]:
        setattr(listing, name, Answers(facts.get(name), facts.get(f"{name}_failure")))
    settings = offer(facts.get("patterns", "*"), filters)
    checks = Checks(tuple(Problem(name, "it is wrong.") for name in facts.get("problems", ())))
    status = listing.status(settings, offered=facts["offered"], checks=checks)
    return status.kind, status.since == NOON


def identity(level: Any) -> Any:
    """Each level adds a name, and none shows an id of the host."""
    named = identity_parameters(level, ADA, SECRET)
    assert not any(each in str(named) for each in ("ada", "chat-1", "message-1"))
    return list(named)


def omitted_tools(choice: Any, omitted: Any) -> Any:
    """A provider refuses a choice of a tool that the request does not have; any other choice stays."""
    tools = [{"type": "function", "function": {"name": name}} for name in "bac"]
    body = composer({"tools": tools, "tool_choice": choice}).build([], omitted_tools={*omitted}).body
    assert names(body) == [each for each in "abc" if each not in omitted]
    return body.get("tool_choice")


def own_tools(supported: Any, tools: Any) -> bool:
    """Ours are offered to models that call tools, and not beside another tool of the same name."""
    served = replace(MODEL, supported_parameters=frozenset(supported))
    return composer({"tools": tools}, model=served, own_tools=[NAMES["OWN"]]).offers_own_tools


def summary_budget(effort: Any) -> Any:
    """Anthropic finds its cache by the choice of tools and the budget, of which an effort is a share."""
    given = {"tools": [NAMES["LOOK"]], "plugins": [{"id": "web"}], **effort}
    items: Any = [text("system", "brief"), text("user", "one")]
    claude = composer(given, "anthropic/claude")
    summary = claude.build_summary_request(items, CacheMarks(1, 1, 1, 1), output_tokens=900)
    assert summary["input"] == [text("system", "brief", **MARK), text("user", "one")]
    assert "tool_choice" not in summary
    return summary.get("max_output_tokens")


OF_BODIES: Final[dict[str, Callable[..., Any]]] = {
    "parameters": parameters,
    "included": included,
    "chat": lambda given, model_id, identity, lifetime: of_chat(
        given, None, model_id, identity=identity, cache_lifetime=lifetime
    ),
    "drawing": drawing,
    "users": users,
    "pictures": pictures,
    "tasks": lambda given, task, row: task_parameters(
        given, task, model=None if row is None else Model("a/m", "M", **row)
    ),
    "summaries": summaries,
    "near a limit": lambda given, model_id, near_limit: controls.cheaper_parameters(
        given, ControlSettings(), model_id=model_id, near_limit=near_limit
    ),
    "switched": lambda given, switched: of_chat(given, OTHERS[0], offered=OTHERS, **switched),
    "providers": providers,
    "fallbacks": fallbacks,
    "who searches": lambda mode, by, host: search_mode(ServerToolSettings(mode, host_switch_by=by), host),
    "searching": lambda given, settings, model_id: with_server_tools(
        given, ServerToolSettings(**settings), "", model=SEARCHERS.get(model_id, MODEL), model_id=model_id
    ),
    "searches of a request": most_searches,
    "dollars of tools": most_tool_dollars,
    "dollars left": with_dollars_left,
    "lifetimes": lambda minutes: ", ".join(
        {controls.cheapest_lifetime([60.0 * each for each in minutes], model) for model in (PRICED, None)}
    ),
    "thinking between calls": thinking,
    "who writes summaries": summary_writer,
    "zero data retention": lambda zdr: controls.keeps_nothing({"zdr": zdr}),
    "prices": controls.price_text,
}
OF_TABLES: Final[dict[str, Callable[..., Any]]] = {
    "words of failures": lambda code: read_failure(None, {"error": {"code": code, "message": "m"}}).status,
    "own key": own_key,
    "waits": lambda seconds: to_error(Failure("m", status=429), retry_after_seconds=seconds).user_message,
    "retry after": lambda headers: retry_after(headers, now=datetime(2026, 11, 21, 12, tzinfo=UTC)),
    "patterns": patterns,
    "filters": lambda filters: ids(offer(filters=filters), *CATALOGUE),
    "offers": lambda listed, filters, variants, zdr_ids: ids(
        offer("*", filters, variants), *listed, zdr_ids=None if zdr_ids is None else {*zdr_ids}
    ),
    "families": lambda of_one_family: ", ".join({family(model_id) for model_id in of_one_family}),
    "variants": variants,
    "filtered variants": filtered_variants,
    "entries": entries,
    "models": model,
    "endpoints": lambda fields: (
        next(iter((read_models({"data": [{"id": "a", **fields}]}) or {}).values())).endpoint
    ),
    "reasoning models": lambda fields: (read_models({"data": [{"id": "a", **fields}]}) or {})["a"].reasons,
    "keys": lambda wire: list(astuple(facts)) if (facts := read_key(wire)) else None,
    "troubles": troubles,
    "lines for users": lambda kind: Status(kind, NOON).answer(None, model_count=1, is_admin=False),
    "identity": identity,
    "omitted tools": omitted_tools,
    "own tools": own_tools,
    "budgets of summaries": summary_budget,
}


@pytest.mark.parametrize(
    ("step", "cells"),
    [
        pytest.param(step, case.values, id=f"{section}: {case.id}")
        for path, steps in ((BODIES, OF_BODIES), (TABLES, OF_TABLES))
        for section, step in steps.items()
        for case in rows(path, section, {**NAMES, "USED_UP": replace(KEY, remaining=0), "DATA": DATA})
    ],
)
def test_each_step_does_what_its_table_says(step: Callable[..., Any], cells: tuple[Any, ...]) -> None:
    """Behind the arrow stands what a step makes of the cells before it."""
    given = cells[: len(inspect.signature(step).parameters)]
    expected = cells[len(given) :]
    made = step(*given)
    shown = made if isinstance(made, tuple) else (made,)
    assert [list(each) if isinstance(each, tuple) else each for each in shown] == list(expected)
