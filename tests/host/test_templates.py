"""Whether anybody has edited a system prompt: a digest of its texts as they were written, and of nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.lookups import template_digest
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = {
    "messages": [{"role": "system", "content": "It is {{CURRENT_TIME}}."}, {"role": "user", "content": "x"}],
    "params": {"system": "Be brief."},
}


def call_with(context: Any, *, row: str = "f.a/m", prompt: str = "It is 10:00.") -> Call:
    """A call of a chat, with what the host keeps of the request's own prompts."""
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": "hi"}]
    metadata = {"chat_context": context, "model": {"id": row}}
    return read_call({"model": "f.a/m", "messages": messages}, user={}, metadata=metadata, task=None)


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        (WRITTEN, ("It is {{CURRENT_TIME}}.", "Be brief.")),
        ({"messages": []}, ()),
        (None, ()),
        ({"messages": {"role": "system"}, "params": ["system"]}, ()),
    ],
)
def test_the_chats_own_prompts_are_read_as_they_were_written(context: Any, texts: tuple[str, ...]) -> None:
    """Before the host has filled their variables; older versions do not say."""
    assert call_with(context).written_prompts == texts


def visit_prompts() -> list[str]:
    """The digests as texts are edited, one after the other."""
    import open_webui.config  # makes the tables
    from open_webui.models.config import Config
    from open_webui.models.models import ModelForm, ModelMeta, ModelParams, Models

    assert open_webui.config

    async def look() -> list[str]:
        def form(system: str, **params: Any) -> ModelForm:
            params = {"system": system, **params}
            return ModelForm(id="f.a/m", name="M", meta=ModelMeta(), params=ModelParams(**params))

        found = [await template_digest(call_with(WRITTEN))]
        await Models.insert_new_model(form("Be kind."), "admin")
        found.append(await template_digest(call_with(WRITTEN)))
        found.append(await template_digest(call_with(WRITTEN, prompt="It is 10:05.")))
        await Models.update_model_by_id("f.a/m", form("Be kind.", temperature=1))
        found.append(await template_digest(call_with(WRITTEN)))
        await Models.update_model_by_id("f.a/m", form("Be cruel."))
        found.append(await template_digest(call_with(WRITTEN)))
        found.append(await template_digest(call_with({**WRITTEN, "params": {}})))
        await Config.upsert({"models.default_params": {"system": "Be all."}})
        found.append(await template_digest(call_with({**WRITTEN, "params": {}})))
        return found

    return asyncio.run(look())


@pytest.mark.live
def test_an_edit_of_any_text_is_seen_and_nothing_else_is(tmp_path: Path) -> None:
    """Neither the time of day nor another parameter of the model."""
    variables = {"FROM_INIT_PY": "true", "STATIC_DIR": str(tmp_path / "static")}
    none, kind, later, warmer, cruel, shorter, for_all = inside_open_webui(tmp_path, variables, visit_prompts)
    assert kind == later == warmer
    assert len({none, kind, cruel, shorter, for_all}) == 5
