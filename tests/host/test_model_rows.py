"""The rows of models in the host's tables: what they say, who may use them, when they are written, and parameters."""

from __future__ import annotations

import base64
import io
import string
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, patch

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.model_rows import (
    SIZE_PIXELS,
    WRITTEN,
    AccessFor,
    ModelRows,
    ModelRowSettings,
    RowInfo,
    admin_parameters,
    function_id,
    icon,
    merge_parameters,
    model_fields,
    updated_row,
    write_model_rows,
)
from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.ports import Model
from tests.host.tables import nothing_where_older
from tests.support.host_source import is_older
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

TIERS = {
    "default": "cheap",
    "options": {
        "cheap": {"params": {"service_tier": "flex"}},
        "fast": {"params": {"service_tier": "priority", "provider": {"sort": "latency"}}},
    },
}


def cases(section: str) -> list[Any]:
    return rows(Path(__file__).with_name("model_rows.txt"), section, {"TIERS": TIERS})


# --- what a row says

EVERYTHING = ("vision", "file_upload", "image_generation", "web_search", "code_interpreter", "builtin_tools")
ABLE = dict.fromkeys(EVERYTHING, True)
MODEL = Model(
    id="anthropic/claude-opus-5",
    name="Anthropic: Claude Opus 5",
    context_tokens=1_000_000,
    max_output_tokens=64_000,
    input_modalities=frozenset({"text", "image"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset({"tools", "reasoning"}),
    prices=Prices(0.000005, 0.000025),
    reasons=True,
    description="Writes [well](https://example.com).\n\n![A picture](https://example.com/x.png) Thinks.",
)


def fields_of(changes: dict[str, Any], defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of the model with changes, whose lists are sets."""
    sets: dict[str, Any] = {
        key: frozenset(value) if isinstance(value, list) else value for key, value in changes.items()
    }
    sets |= {"prices": Prices(**sets["prices"])} if "prices" in sets else {}
    return dict(model_fields(replace(MODEL, **sets), defaults or {}))


def changed(row: RowInfo, fields: dict[str, Any]) -> RowInfo:
    """The row after an update that changes something."""
    updated = updated_row(row, fields)
    assert updated is not None
    return updated


FIELDS = fields_of({})
ROW = changed(RowInfo("", {}), FIELDS)


def edited(name: str = ROW.name, **meta: Any) -> RowInfo:
    """The row after an administrator has saved other values."""
    if meta.get("capabilities"):
        meta["capabilities"] = {**ABLE, **meta["capabilities"]}
    return RowInfo(name, {**ROW.meta, **meta})


@pytest.mark.parametrize(
    ("changes", "defaults", "expected"),
    [
        *cases("Fields"),
        *(
            ({"context_tokens": None, "prices": {}, "description": text}, {}, {"description": kept})
            for text, kept in [
                *(row.values for row in cases("Texts")),
                ("One sentence here. " * 40, "One sentence here. " * 14 + "One sentence here."),
                ("words " * 100, "words " * 48 + "words…"),
                ("x" * 500, "x" * 299 + "…"),
            ]
        ),
    ],
)
def test_the_fields_of_a_model(
    changes: dict[str, Any], defaults: dict[str, Any], expected: dict[str, Any]
) -> None:
    """What is known is said in plain words, what is not is not claimed, and nothing makes a browser fetch."""
    fields = fields_of(changes, defaults)
    found: dict[str, Any] = {name: fields.get(name) for name in ("name", "description")}
    found["description"] = found["description"] and found["description"].replace("$\u2060", "#")
    found["tags"] = [tag["name"] for tag in fields["tags"]]
    found["off"] = [name for name in EVERYTHING if not fields[f"capabilities.{name}"]]
    assert {name: found[name] for name in expected} == expected
    slug = changes.get("id", MODEL.id).lstrip("~").partition("/")[0]
    assert fields["profile_image_url"] == icon(slug, found["tags"][0])


@pytest.mark.parametrize("edit", cases("Not worth writing"))
def test_a_row_is_not_written_again(edit: dict[str, Any]) -> None:
    """As long as the catalogue says the same, whatever else the page has saved."""
    assert ROW.meta["capabilities"] == ABLE
    assert updated_row(edited(**edit), FIELDS) is None


@pytest.mark.parametrize("edit", cases("Edits that stay"))
def test_what_an_administrator_has_edited_stays(edit: dict[str, Any]) -> None:
    """That field alone: all others go on following the catalogue, and what is not ours stays as it is."""

    def shown(row: RowInfo) -> dict[str, Any]:
        meta = {key: value for key, value in row.meta.items() if key not in {WRITTEN, "capabilities"}}
        return {"name": row.name, **meta, **(row.meta["capabilities"] or dict.fromkeys(EVERYTHING))}

    news = {"id": "openai/x", "name": "OpenAI: X", "description": "New."}
    fields = fields_of({**news, "input_modalities": ["text"], "supported_parameters": ["seed"]})
    updated = changed(edited(**edit), fields)
    kept = {key: value for key, value in edit.items() if key != "capabilities"}
    if "capabilities" in edit:
        kept |= edit["capabilities"] or dict.fromkeys(EVERYTHING)
    assert shown(updated) == {**shown(changed(RowInfo("", {}), fields)), **kept}
    assert updated_row(updated, fields) is None


def test_what_is_gone_is_hidden_until_it_is_back() -> None:
    """As often as that happens; where an administrator has hidden it, or shown it again, that stays."""
    gone = fields_of({"gone_since": "2026-11-01"})
    hidden = changed(ROW, gone)
    assert hidden.meta["hidden"] is True
    assert updated_row(hidden, gone) is None
    assert changed(hidden, FIELDS) == ROW
    assert changed(ROW, gone) == hidden
    shown = RowInfo(ROW.name, {**hidden.meta, "hidden": False})
    assert updated_row(shown, gone) is None
    assert changed(shown, FIELDS) == ROW
    by_admin = edited(hidden=True)
    assert [updated_row(by_admin, fields) for fields in (gone, FIELDS)] == [None, None]
    assert "hidden" not in changed(hidden, {}).meta  # also where nothing is written into rows any longer


def test_a_row_that_was_there_before_is_only_filled_up() -> None:
    """Its name and what else an administrator has set stay; what was empty is ours from then on."""
    row = RowInfo("Mine", {"description": "", "tags": [{"name": "mine"}], "capabilities": {"vision": False}})
    updated = changed(row, FIELDS)
    written = updated.meta[WRITTEN]
    assert sorted(written) == sorted(set(FIELDS) - {"name", "tags", "capabilities.vision"})
    capabilities = {**ABLE, "vision": False}
    meta = {**ROW.meta, "tags": [{"name": "mine"}], "capabilities": capabilities, WRITTEN: written}
    assert updated == RowInfo("Mine", meta)


@pytest.mark.parametrize("default", cases("The page's own icon"))
def test_the_pages_own_default_icon_is_nobodys_choice(default: str | None) -> None:
    """Where it has it from does not matter."""
    assert updated_row(edited(profile_image_url=default), FIELDS) == ROW


def test_a_row_of_which_everything_was_edited_is_never_touched() -> None:
    """Not even to keep book."""
    meta = {"description": "x", "tags": [{"name": "x"}], "profile_image_url": "https://x.example/y"}
    row = RowInfo("Mine", {**meta, "capabilities": dict.fromkeys(EVERYTHING, False)})
    assert updated_row(row, FIELDS) is None


# --- icons


def pixels_of(url: str) -> list[list[Any]]:
    """The colours of an icon, row by row."""
    pictures = pytest.importorskip("PIL.Image")
    content = base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True)
    with pictures.open(io.BytesIO(content)) as image:
        assert (image.format, image.size) == ("PNG", (SIZE_PIXELS, SIZE_PIXELS))
        seen = image.convert("RGB")
    return [[seen.getpixel((x, y)) for x in range(SIZE_PIXELS)] for y in range(SIZE_PIXELS)]


@pytest.mark.parametrize(
    ("provider", "name", "colour"),
    [
        ("anthropic", "Anthropic", (0xD0, 0x72, 0x50)),
        ("x-ai", "xAI", (0x3A, 0x3A, 0x3C)),
        ("z-ai", "Z.AI", (0x2D, 0x5B, 0xFF)),
    ],
)
def test_a_known_provider_has_its_colour(provider: str, name: str, colour: tuple[int, int, int]) -> None:
    """The letter is white, in the middle, and leaves the edges to the colour."""
    pixels = pixels_of(icon(provider, name))
    edges = [*pixels[0], *pixels[-1], *(row[0] for row in pixels), *(row[-1] for row in pixels)]
    assert set(edges) == {colour}
    white = [(x, y) for y, row in enumerate(pixels) for x, seen in enumerate(row) if seen == (255,) * 3]
    assert 50 < len(white) < 400
    assert {offset for pair in white for offset in pair} <= set(range(8, 40))


def test_a_letter_has_smooth_edges() -> None:
    """Each pixel is as white as the letter covers it, to a fifteenth."""
    pytest.importorskip("PIL.Image")
    from PIL import Image, ImageDraw, ImageFont

    drawn, middle = Image.new("L", (SIZE_PIXELS, SIZE_PIXELS)), (SIZE_PIXELS / 2, SIZE_PIXELS / 2)
    ImageDraw.Draw(drawn).text(middle, "A", fill=255, font=ImageFont.load_default(30), anchor="mm")
    pixels = pixels_of(icon("anthropic", "A"))
    red = pixels[0][0][0]
    covered = [[(pixel[0] - red) / (255 - red) * 255 for pixel in row] for row in pixels]
    off = [
        abs(covered[y][x] - drawn.getpixel((x, y))) for x in range(SIZE_PIXELS) for y in range(SIZE_PIXELS)
    ]
    assert max(off) <= 255 / 15 + 5


def test_each_letter_has_its_shape_and_each_provider_its_colour() -> None:
    """A name without letters has a dash; colours are dark enough for white; an icon has few bytes."""
    names = [*string.ascii_uppercase, *string.digits, "…"]
    shapes = {icon("someone", name) for name in names}
    assert len(shapes) == len(names)
    assert max(map(len, shapes)) < 600
    assert icon("someone", "(m)") == icon("someone", "Mistral")
    backgrounds = {pixels_of(icon(f"provider-{number}", "P"))[0][0] for number in range(40)}
    assert len(backgrounds) > 30
    assert max(sum(colour) for colour in backgrounds) < 480


def test_without_pillow_there_is_no_icon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows its own; the package does not depend on it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    icon.cache_clear()
    assert icon("openai", "OpenAI") == ""
    icon.cache_clear()


# --- parameters


@pytest.mark.parametrize(("defaults", "row", "choices", "expected"), cases("Parameters"))
def test_parameters_are_merged_as_the_host_does(
    defaults: dict[str, Any], row: dict[str, Any], choices: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Custom parameters win over fields, the model's over those for all, and a chosen option adds its own."""
    merged = merge_parameters(defaults, row, choices)
    sources = ("custom_params", "model_controls")
    assert {key: value for key, value in merged.items() if key not in sources} == expected


# --- when they are written


def settings(*access: str, access_for: AccessFor = "new", sync_info: bool = True) -> ModelRowSettings:
    return ModelRowSettings(sync_info, access or ("private",), access_for)


class FakeClaims:
    """A claim that this worker gets, or another one has."""

    def __init__(self) -> None:
        self.free = True
        self.calls: list[str] = []

    async def take(self, name: str, seconds: float) -> bool:
        self.calls.append("take")
        return self.free

    async def release(self, name: str) -> None:
        self.calls.append("release")


@pytest.mark.anyio
@pytest.mark.parametrize(("steps", "expected", "claimed"), cases("Passes"))
async def test_an_offer_is_written_once(
    steps: list[dict[str, Any]], expected: list[Any], claimed: str
) -> None:
    """Another pass comes with another list, other models, other settings, or another function."""
    now: dict[str, Any] = {"seconds": 0, "listing": 1, "models": 3, "access": "private", "by": "ours"}
    claims, written, tasks = FakeClaims(), list[Any](), list[Any]()

    async def write(by: str, models: Sequence[Model], settings: ModelRowSettings) -> None:
        written[-1] = [by, len(models), *settings.access]
        if now.get("fails"):
            raise OSError("the database is away")

    model_rows = ModelRows(claims, tasks.append, lambda: now["seconds"], write)
    for step in steps:
        now |= step
        claims.free = now.get("free", True)
        written.append(None)
        model_rows.offer(now["by"], [MODEL] * now["models"], settings(now["access"]), listing=now["listing"])
        while tasks:
            await tasks.pop()
    assert (written, claims.calls) == (expected, claimed.split())


def test_the_functions_id_is_that_of_the_loaded_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two functions with the same code each finds its own; a replaced one and one without a host find none."""
    first, second, replaced = object(), object(), object()
    assert function_id(first) is None
    loaded = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(FUNCTIONS={"a": first, "b": second})))
    monkeypatch.setitem(sys.modules, "open_webui.main", loaded)
    assert [function_id(each) for each in (first, second, replaced)] == ["a", "b", None]


# --- in the host

MODELS = [replace(MODEL, id=f"maker{number % 40}/m{number}", name=f"M {number}") for number in range(700)]
EVERYBODY = ("user", "*", "read")


class Function:
    """A function of an administrator, whose models have rows of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ids = [f"{name}.{model.id}" for model in MODELS]
        self.statements = Counter[str]()

    async def install(self) -> Function:
        import sqlalchemy as sa
        from open_webui.internal.db import async_engine
        from open_webui.models.functions import FunctionForm, FunctionMeta, Functions

        form = FunctionForm(id=self.name, name="OpenRouter", content="pass", meta=FunctionMeta())
        await Functions.insert_new_function("the admin", "pipe", form)
        sa.event.listen(async_engine.sync_engine, "before_cursor_execute", self._count)
        return self

    def _count(self, connection: object, cursor: object, statement: str, *_: object) -> None:
        self.statements[statement.split(maxsplit=1)[0]] += 1

    async def write(self, models: Sequence[Model], *access: str, **fields: Any) -> dict[str, int]:
        """A pass; how many statements of each kind it took."""
        self.statements.clear()
        await write_model_rows(self.name, models, settings(*access, **fields))
        return dict(self.statements)

    async def row(self, number: int) -> dict[str, Any]:
        from open_webui.models.models import Models

        row = await Models.get_model_by_id(self.ids[number])
        assert row is not None
        return dict(row.model_dump())

    async def values(self, *names: str, count: int = 1) -> list[Any]:
        """Values of the first rows by their paths; of a text the beginning."""
        found = []
        for number in range(count):
            for name in names:
                value: Any = await self.row(number)
                for part in name.split("."):
                    value = value.get(part)
                found.append(value[:32] if isinstance(value, str) else value)
        return found

    async def edit(self, number: int, meta: dict[str, Any], **changes: Any) -> None:
        """Save a row as the host's editor does."""
        from open_webui.models.models import ModelForm, Models

        row = await self.row(number)
        content = {**row, **changes, "meta": {**row["meta"], **meta}, "access_grants": None}
        await Models.update_model_by_id(self.ids[number], ModelForm.model_validate(content))

    async def grants(self, count: int) -> list[set[tuple[str, str, str]]]:
        from open_webui.models.access_grants import AccessGrants

        found = await AccessGrants.get_grants_by_resources("model", self.ids[:count])
        return [
            {(each.principal_type, each.principal_id, each.permission) for each in found[row_id]}
            for row_id in self.ids[:count]
        ]


async def insert(row_id: str, name: str, base: str | None = None, **params: Any) -> None:
    """Create a row as the host does."""
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models

    fields = {"id": row_id, "name": name, "base_model_id": base}
    await Models.insert_new_model(
        ModelForm(**fields, meta=ModelMeta(), params=ModelParams(**params)), "admin"
    )


async def look_at_many(function: Function) -> dict[str, Any]:
    names = ("user_id", "name", "access_grants", "meta.description", "meta.profile_image_url")
    return {
        "seven hundred models": await function.write(MODELS),
        "the second time": await function.write(MODELS),
        "a row": await function.values(*names, "meta.capabilities.vision"),
    }


async def look_at_edited(function: Function) -> dict[str, Any]:
    """Rows that an administrator has edited, hidden or disabled, and a catalogue that has changed since."""
    from open_webui.models.models import Models

    await function.write(MODELS[:20])
    await function.edit(0, {"description": "Ask Ada.", "toolIds": ["calculator"]}, name="Ours")
    await function.edit(1, {"hidden": True}, params={"temperature": 0.1})
    await Models.toggle_model_by_id(function.ids[2])
    unchanged = await function.write(MODELS[:20])
    cheaper = [replace(model, prices=Prices(0.0, 0.0)) for model in MODELS[:3]]
    updated = await function.write([*cheaper, *MODELS[3:10]])
    names = ("name", "meta.description", "meta.toolIds", "meta.hidden", "params.temperature", "is_active")
    base_models = await Models.get_base_models()
    return {
        "edited": unchanged,
        "updated": {name: updated.get(name, 0) for name in ("INSERT", "UPDATE", "DELETE")},
        "edited rows": await function.values(*names, count=3),
        "a tag beside an edit": {"name": "free"} in (await function.row(0))["meta"]["tags"],
        "rows of models that are gone": sum(row.id.startswith(f"{function.name}.") for row in base_models),
    }


async def look_at_access(function: Function) -> dict[str, Any]:
    """New models with each access; then all of them, after an administrator has opened one to a single user."""
    from open_webui.models.access_grants import AccessGrants
    from open_webui.models.groups import GroupForm, Groups

    forms = [GroupForm(name=name, description="") for name in ("A", "B b")]
    groups = [await Groups.insert_new_group("admin", form) for form in forms]
    await function.write(MODELS[:1])
    await function.write(MODELS[:2], "public")
    await function.write(MODELS[:3], "A", "B b", "nobody")
    await function.write(MODELS[:4], "nobody")
    await function.write(MODELS[:5], "public", sync_info=False)
    await function.write(MODELS[:6], sync_info=False)
    first, second, third, *new = await function.grants(5)
    bare = (await function.row(4))["meta"]["description"]
    own = {"principal_type": "user", "principal_id": "ada", "permission": "read"}
    await AccessGrants.set_access_grants("model", function.ids[0], [own])
    await function.write(MODELS[:5], "public")
    edited = await function.grants(1)
    await function.write(MODELS[:5], "public", access_for="all")
    found = {
        "access of new ones": [first, second, *new, bare],
        "access of groups": third == {("group", group.id, "read") for group in groups if group},
        "access that was edited": edited,
        "opened": await function.grants(5),
        "opened again": await function.write(MODELS[:5], "public", access_for="all"),
    }
    await function.write(MODELS[:5], access_for="all")
    return {**found, "closed": await function.grants(5)}


async def look_at_empty(function: Function) -> dict[str, Any]:
    """Rows of bare models that were open to everybody, and are not any more; an administrator has written to some."""
    from open_webui.models.access_grants import AccessGrants
    from open_webui.models.models import Models

    async def left() -> list[int]:
        found = [await Models.get_model_by_id(row_id) for row_id in function.ids[:8]]
        return [number for number, row in enumerate(found) if row]

    await function.write(MODELS[:7], sync_info=False)
    seen = [await left()]
    await function.write(MODELS[:7], "public", sync_info=False)
    await function.edit(0, {"description": "Ask Ada."})
    await function.edit(1, {}, params={"temperature": 0.1})
    await function.edit(2, {}, name="Ours")
    await Models.toggle_model_by_id(function.ids[3])
    for number in range(7):
        own = {"principal_type": "user", "principal_id": "ada", "permission": "read"}
        await AccessGrants.set_access_grants("model", function.ids[number], [own] if number == 4 else [])
    await insert(function.ids[7], MODELS[7].name, "x")
    for access in (["public"], []):
        await function.write(MODELS[:8], *access, sync_info=False)
        seen.append(await left())
    await function.write(MODELS[:8], sync_info=False, access_for="all")
    return {"rows that say nothing": [*seen, await left()]}


async def look_at_creation(function: Function) -> dict[str, Any]:
    """One of the rows is created by somebody else at that very moment; another id belongs to a workspace's model."""
    from open_webui.models.functions import Functions
    from open_webui.models.models import Models

    await insert(function.ids[3], "Preset", "x")
    find = Functions.get_function_by_id

    async def find_late(name: str) -> Any:
        if (await Models.get_model_by_id(function.ids[1])) is None:
            await insert(function.ids[1], "Saved")
        return await find(name)

    with patch.object(Functions, "get_function_by_id", find_late):
        await function.write(MODELS[:4], "public")
        missing = await Models.get_model_by_id(function.ids[0])
        await function.write(MODELS[:4], "public")
    await function.write(MODELS[:4], "public", access_for="all")
    names = await function.values("name", count=4)
    return {"created by somebody else": [missing, *names], "access then": await function.grants(4)}


async def look_at_unversioned(function: Function) -> dict[str, Any]:
    """A row that is created in an Open WebUI that keeps no versions of rows."""
    with patch.dict(sys.modules, {"open_webui.models.model_history": None}):
        await function.write(MODELS[:1], "public")
    return {"without versions": await function.values("name", "version_id", "meta.capabilities.vision")}


async def look_at_conflict(function: Function) -> dict[str, Any]:
    """An administrator saves a row at the very moment in which it is being updated."""
    import sqlalchemy as sa
    from open_webui.models.models import Model as Row
    from open_webui.models.models import Models

    await function.write(MODELS[:3])
    write = Models._write_model

    async def write_late(session: Any, form: Any, user_id: str, current: Any = None, *rest: Any) -> Any:
        if form.id == function.ids[0]:
            saving = sa.update(Row).filter_by(id=form.id).values(version_id="another", name="Saved")
            await session.execute(saving.execution_options(synchronize_session=False))
        return await write(session, form, user_id, current, *rest)

    with patch.object(Models, "_write_model", write_late):
        await function.write([replace(model, name="New") for model in MODELS[:3]])
    names = await function.values("name", count=3)
    return {"a conflict": [name == "New" for name in names]}


async def look_at_parameters(_: Function) -> dict[str, Any]:
    """What the host makes of parameters, and what is read of them: of a row, of none, and of an arena's presets."""
    from open_webui.models.config import Config
    from open_webui.models.models import Models
    from open_webui.utils.misc import merge_model_params
    from open_webui.utils.payload import apply_model_controls, apply_params_to_form_data
    from sqlalchemy.exc import OperationalError

    async def ours(model: str, chosen: dict[str, Any], **parameters: Any) -> dict[str, Any]:
        body = {"model": model, "messages": [], **parameters}
        return dict(await admin_parameters(read_call(body, user={}, metadata={"model": chosen}, task=None)))

    row = {"provider": '{"sort": "price"}', "service_tier": "flex"}
    defaults = {"custom_params": {"provider": {"zdr": True}, "plugins": [{"id": "web"}]}}
    await Config.upsert({"models.default_params": defaults})
    await insert("g.a/m", "M", custom_params=row)
    pairs: list[Any] = []
    for row_id, params in (("g.a/m", {"custom_params": row}), ("g.b/n", {})):
        merged = apply_model_controls(merge_model_params(defaults, params), {}, {})
        body = apply_params_to_form_data({"params": merged}, {})
        found = await ours(row_id, {})
        pairs.append((body, {key: value for key, value in found.items() if key in body}))
    presets = ({"zdr": True}, {"sort": "latency"})
    for number, provider in enumerate(presets):
        await insert(f"preset{number}", "P", "g.b/n", custom_params={"provider": provider})
    arena = {"id": "arena", "owned_by": "arena"}
    picked = [(await ours("g.b/n", arena, provider=each))["provider"] for each in presets]
    await Config.upsert({"models.default_params": {}})
    with patch.object(Models, "get_model_by_id", AsyncMock(side_effect=OperationalError("", {}, OSError()))):
        try:
            without: Any = await ours("g.a/m", {})
        except StoreUnavailable as error:
            without = type(error).__name__
    return {
        "parameters without a database": without,
        "parameters of rows": [host == ours for host, ours in pairs],
        "parameters for all": [host["plugins"] for host, _ in pairs],
        "parameters of an arena": picked,
    }


async def look() -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name in [name for name in globals() if name.startswith("look_at_")]:
        with nothing_where_older():
            seen |= await globals()[name](await Function(name).install())
    return seen


VERSIONS = 0 if is_older() else 1
"""How many the host keeps of each change of a row."""

KNOWN: dict[str, Any] = {
    # what there is, with each switch; fifty rows at once, and their first versions
    "seven hundred models": {"SELECT": 4, "INSERT": (1 + VERSIONS) * 700 / 50},
    "the second time": {"SELECT": 2},
    "a row": [
        "the admin",
        "M 0",
        [],
        "$\u2060$\u2060$\u2060 · 1M · $5 in, $25 out per",
        "data:image/png;base64,iVBORw0KGg",
        True,
    ],
    "edited": {"SELECT": 2},
    "updated": {"INSERT": 3 * VERSIONS, "UPDATE": 3, "DELETE": 0},
    "edited rows": [
        *("Ours", "Ask Ada.", ["calculator"], None, None, True),
        *("M 1", "free · 1M. Writes well. A pictur", None, True, 0.1, True),
        *("M 2", "free · 1M. Writes well. A pictur", None, None, None, False),
    ],
    "a tag beside an edit": True,
    "rows of models that are gone": 20,
    "access of new ones": [set(), {EVERYBODY}, set(), {EVERYBODY}, None],
    "access of groups": True,
    "access that was edited": [{("user", "ada", "read")}],
    "opened": [{EVERYBODY}] * 5,
    "opened again": {"SELECT": 3},
    "closed": [set()] * 5,
    "rows that say nothing": [[], [*range(8)], [*range(8)], [0, 1, 2, 3, 7]],
    "created by somebody else": [None, "M 0", "Saved", "M 2", "Preset"],
    "access then": [{EVERYBODY}, {EVERYBODY}, {EVERYBODY}, set()],
    "without versions": ["M 0", None, True],
    "a conflict": [False, True, True],
    "parameters without a database": "StoreUnavailable",
    "parameters of rows": [True, True],
    "parameters for all": [[{"id": "web"}]] * 2,
    "parameters of an arena": [{"zdr": True}, {"sort": "latency"}],
}


@pytest.mark.live
@pytest.mark.parametrize("asked", KNOWN)
def test_rows_are_written_and_read_in_the_host(seen: dict[str, Any], asked: str) -> None:
    """Only what nobody has edited follows the catalogue; access is set once for a new model, for all only if chosen."""
    assert seen[__name__][asked] == KNOWN[asked]
