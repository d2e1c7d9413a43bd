"""What administrators have set for a model, as it arrives in a body."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.model_rows import admin_parameters, merge_parameters
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

TIERS = {
    "default": "cheap",
    "options": {
        "cheap": {"params": {"service_tier": "flex"}},
        "fast": {"params": {"service_tier": "priority", "provider": {"sort": "latency"}}},
    },
}


@pytest.mark.parametrize(
    ("defaults", "row", "choices", "expected"),
    [
        ({}, {}, {}, {}),
        ({"custom_params": {"provider": '{"zdr": true}'}}, {}, {}, {"provider": {"zdr": True}}),
        (
            {"custom_params": {"provider": {"zdr": True}, "plugins": []}},
            {"custom_params": {"provider": {"sort": "price"}}, "max_tokens": 5},
            {},
            {"provider": {"sort": "price"}, "plugins": [], "max_tokens": 5},
        ),
        (
            {},
            {"provider": {"a": 1}, "custom_params": {"provider": {"b": 2}}},
            {},
            {"provider": {"a": 1, "b": 2}},
        ),
        (
            {},
            {"custom_params": {"service_tier": "flex", "odd": "{"}},
            {},
            {"service_tier": "flex", "odd": "{"},
        ),
        ({}, {"model_controls": {"tier": TIERS}}, {}, {"service_tier": "flex"}),
        (
            {},
            {"model_controls": {"tier": TIERS}, "custom_params": {"provider": {"zdr": True}}},
            {"tier": "fast"},
            {"service_tier": "priority", "provider": {"zdr": True, "sort": "latency"}},
        ),
        ({}, {"model_controls": {"tier": TIERS, "odd": None}}, {"tier": ["fast"], "x": "y"}, {}),
    ],
    ids=["nothing", "for all", "the model's win", "custom wins", "texts", "default", "choice", "odd"],
)
def test_parameters_are_merged_as_the_host_does(
    defaults: dict[str, Any], row: dict[str, Any], choices: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Custom parameters win over fields, the model's over those for all, and a chosen option adds its own."""
    merged = merge_parameters(defaults, row, choices)
    sources = ("custom_params", "model_controls")
    assert {key: value for key, value in merged.items() if key not in sources} == expected


PRESETS = ({"zdr": True}, {"sort": "latency"})


def call_of(model: str, *, arena: bool = False, **parameters: Any) -> Call:
    """A user's call of a model, on its own or picked by an arena."""
    metadata = {"model": {"id": "arena", "owned_by": "arena"}} if arena else {}
    return read_call({"model": model, "messages": [], **parameters}, user={}, metadata=metadata, task=None)


def visit_rows() -> list[tuple[dict[str, Any], Any]]:
    """What the host makes of parameters, and what we read of them."""
    from open_webui.models.config import Config
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models
    from open_webui.utils.misc import merge_model_params
    from open_webui.utils.payload import apply_model_controls, apply_params_to_form_data

    row = {"custom_params": {"provider": '{"sort": "price"}', "service_tier": "flex"}}
    defaults = {"custom_params": {"provider": {"zdr": True}, "plugins": [{"id": "web"}]}}

    async def look() -> list[tuple[dict[str, Any], Any]]:
        await Config.upsert({"models.default_params": defaults})
        form = ModelForm(id="f.a/m", name="M", meta=ModelMeta(), params=ModelParams(**row))
        await Models.insert_new_model(form, "admin")
        pairs = []
        for row_id, params in (("f.a/m", row), ("f.b/n", {})):
            merged = apply_model_controls(merge_model_params(defaults, params), {}, {})
            body = apply_params_to_form_data({"params": merged}, {})
            ours = await admin_parameters(call_of(row_id))
            pairs.append((body, {key: value for key, value in ours.items() if key in body}))
        for number, provider in enumerate(PRESETS):
            params = ModelParams(custom_params={"provider": provider})
            preset = ModelForm(
                id=f"preset{number}", base_model_id="f.b/n", name="P", meta=ModelMeta(), params=params
            )
            await Models.insert_new_model(preset, "admin")
        for provider in PRESETS:
            ours = await admin_parameters(call_of("f.b/n", arena=True, provider=provider))
            pairs.append((provider, ours["provider"]))
        return pairs

    return asyncio.run(look())


@pytest.mark.live
def test_the_rows_are_read_as_the_host_reads_them(tmp_path: Path) -> None:
    """Of a model with a row, of one without, and of the presets among which an arena picks."""
    variables = {"FROM_INIT_PY": "true", "STATIC_DIR": str(tmp_path / "static")}
    pairs = inside_open_webui(tmp_path, variables, visit_rows)
    assert [host for host, _ in pairs] == [ours for _, ours in pairs]
    assert [host.get("plugins") for host, _ in pairs] == [[{"id": "web"}]] * 2 + [None] * 2
    assert [host for host, _ in pairs[2:]] == list(PRESETS)
