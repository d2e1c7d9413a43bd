"""A user's valves as the host has stored them, also where it hands on the defaults in their place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.platform import function_of, replace_user_valve, stored_user_valves
from open_webui_openrouter_pipe.settings import bound_key, read_settings
from open_webui_openrouter_pipe.valves import UserValves, Valves
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-or-v1-0123456789abcdef"


def user(stored: Any) -> dict[str, Any]:
    """What the host passes of a user who has valves of two functions."""
    return {"id": "ada", "settings": {"ui": {}, "functions": {"valves": {"other": {}, "openrouter": stored}}}}


def test_a_function_finds_its_own() -> None:
    """By the beginning of the model's id; where nothing is stored, there is nothing to read."""
    stored = {"ZDR": True}
    assert stored_user_valves(user(stored), function_of("openrouter.a/b.c")) == stored
    without: list[dict[str, Any]] = [{}, {"settings": None}, {"settings": {"functions": []}}]
    for nothing in (user(None), user({}), user(""), *without):
        assert stored_user_valves(nothing, function_of("openrouter.a/b")) == {}


def visit_encrypted(written: str) -> Any:
    """What is read of encrypted valves, of empty ones, and of those that another key has encrypted."""
    from open_webui.utils.valves import encrypt_valves

    found = [
        stored_user_valves(user(stored), "openrouter")
        for stored in (encrypt_valves({"ZDR": True}), encrypt_valves({}), written)
    ]
    return found, encrypt_valves({"ZDR": True})


@pytest.mark.live
def test_what_cannot_be_decrypted_is_not_taken_for_empty(tmp_path: Path) -> None:
    """The host does; a user who asked for zero data retention would not have it after a change of the secret."""
    encrypting = {"ENABLE_VALVE_ENCRYPTION": "true"}
    found, written = inside_open_webui(tmp_path, encrypting, visit_encrypted, "x")
    assert found == [{"ZDR": True}, {}, None]
    other = {**encrypting, "WEBUI_SECRET_KEY": "another"}
    assert inside_open_webui(tmp_path, other, visit_encrypted, written)[0] == [{"ZDR": True}, {}, None]


def visit_bound() -> dict[str, Any]:
    """Ada's key after her first request, with what she has set since, and what it is for others."""

    async def look() -> dict[str, Any]:
        from open_webui.internal.db import async_engine
        from open_webui.models.functions import Functions
        from open_webui.models.users import User, Users

        async with async_engine.begin() as connection:
            await connection.run_sync(User.__table__.create)
        await Users.insert_new_user("ada", "Ada", "ada@example.org")
        form = UserValves(API_KEY=KEY, ZDR=True)
        await Functions.update_user_valves_by_id_and_user_id(
            "openrouter", "ada", form.model_dump(exclude_unset=True)
        )
        bound = bound_key(form.API_KEY, "ada")
        await replace_user_valve("openrouter", "ada", "API_KEY", ("another", "x"))
        await replace_user_valve("openrouter", "ada", "API_KEY", (form.API_KEY, bound))
        await replace_user_valve("openrouter", "nobody", "API_KEY", (form.API_KEY, bound))
        stored = UserValves(**await Functions.get_user_valves_by_id_and_user_id("openrouter", "ada"))

        def key_of(user_id: str, valves: UserValves) -> str | None:
            return read_settings(Valves(), valves, user_id=user_id).controls.own_api_key

        return {
            "stored": (bound == stored.API_KEY, stored.ZDR),
            "keys": [key_of("ada", stored), key_of("bob", stored), key_of("bob", form)],
            "again": [bound_key(bound, "ada"), bound_key(bound, "bob"), bound_key("", "ada")],
            "unknown": [bound_key(form.API_KEY, ""), bound_key("sealed:x:y", "ada")],
        }

    return asyncio.run(look())


@pytest.mark.live
def test_a_key_is_bound_to_its_user(tmp_path: Path) -> None:
    """With the first request. Copied into another user's valves it opens nothing; one that is not bound still opens."""
    assert inside_open_webui(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}, visit_bound) == {
        "stored": (True, True),
        "keys": [KEY, "", KEY],
        "again": ["", "", ""],
        "unknown": ["", ""],
    }
