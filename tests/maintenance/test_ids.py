"""What model ids become under another function, and where they stand in the host's JSON."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.maintenance.commands import (
    Renaming,
    rename_choice,
    rename_ids,
    rename_setting,
)

OFFERED = frozenset({"openrouter.openai/gpt-5.2", "openrouter.z-ai/glm-4.6:free"})
FUNCTION = Renaming("old", "openrouter", OFFERED)
OUR_OWN = Renaming("old", "openrouter", OFFERED, same_pipe=True)
CONNECTION = Renaming("", "openrouter", OFFERED, of_connection=True)
PREFIXED = Renaming("or", "openrouter", OFFERED, of_connection=True)


@pytest.mark.parametrize(
    ("renaming", "old", "new"),
    [
        (FUNCTION, "old.openai/gpt-5.2", "openrouter.openai/gpt-5.2"),
        (FUNCTION, "old.openai.gpt-5.2", "openrouter.openai/gpt-5.2"),
        (FUNCTION, "old.z-ai.glm-4.6:free", "openrouter.z-ai/glm-4.6:free"),
        (FUNCTION, "old.gone/model", None),
        (OUR_OWN, "old.gone/model", "openrouter.gone/model"),
        (FUNCTION, "old.gone.model", None),
        (FUNCTION, "old.status", None),
        (FUNCTION, "older.openai/gpt-5.2", None),
        (FUNCTION, "openrouter.openai/gpt-5.2", None),
        (CONNECTION, "openai/gpt-5.2", "openrouter.openai/gpt-5.2"),
        (CONNECTION, "meta/another-provider", None),
        (CONNECTION, "openai.gpt-5.2", None),
        (PREFIXED, "or.openai/gpt-5.2", "openrouter.openai/gpt-5.2"),
        (PREFIXED, "or.gone/model", None),
    ],
)
def test_new_ids(renaming: Renaming, old: str, new: str | None) -> None:
    """What our function offers moves, and from the same pipe also what is gone."""
    assert renaming.new_id(old) == new


CHAT = {
    "models": ["old.openai/gpt-5.2", "other"],
    "history": {"messages": {"a": {"model": "old.openai/gpt-5.2", "content": "old.openai/gpt-5.2", "n": 1}}},
}


def test_ids_are_renamed_where_ids_stand() -> None:
    """Text that reads like an id stays."""
    renamed = rename_ids(CHAT, FUNCTION.new_id)
    new = "openrouter.openai/gpt-5.2"
    assert renamed["models"] == [new, "other"]
    assert renamed["history"]["messages"]["a"] == {"model": new, "content": "old.openai/gpt-5.2", "n": 1}


def test_only_the_choice_of_another_pipes_chat_is_renamed() -> None:
    """Its answers keep the name of who wrote them."""
    renamed = rename_choice(CHAT, FUNCTION.new_id)
    assert renamed == {**CHAT, "models": ["openrouter.openai/gpt-5.2", "other"]}
    assert rename_choice({}, FUNCTION.new_id) == {}


def test_settings_are_one_id_or_several_or_a_list() -> None:
    """As Open WebUI keeps default models, the order of models, and arenas."""
    old, new = "old.openai/gpt-5.2", "openrouter.openai/gpt-5.2"
    assert rename_setting(f"x,{old}", FUNCTION.new_id) == f"x,{new}"
    assert rename_setting([old, "x"], FUNCTION.new_id) == [new, "x"]
    arena = [{"id": "arena", "meta": {"model_ids": [old]}}]
    assert rename_setting(arena, FUNCTION.new_id) == [{"id": "arena", "meta": {"model_ids": [new]}}]
    assert rename_setting(None, FUNCTION.new_id) is None
