"""What the host shares: its database, its secret and its Redis, the groups of a user, and the valves that it stores."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.host.lookups import group_names, groups_of, people
from open_webui_openrouter_pipe.host.platform import (
    SECRET_FILE,
    SharedRedis,
    own_secret,
    platform,
    replace_user_valve,
    shared_redis,
    stored_user_valves,
    stored_valves,
)
from open_webui_openrouter_pipe.settings import bound_key, read_settings
from open_webui_openrouter_pipe.store.cache import CachedRows, GuardedRedis
from open_webui_openrouter_pipe.valves import UserValves, Valves
from scripts.harness.servers import RedisNodes, RedisServer
from tests.host.tables import PEOPLE
from tests.store.contract import row
from tests.store.fakes import MemoryRows
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY = "sk-or-v1-0123456789abcdef"


# --- a user's valves and groups


def user(stored: Any) -> dict[str, Any]:
    """What the host passes of a user who has valves of two functions."""
    return {"id": "ada", "settings": {"ui": {}, "functions": {"valves": {"other": {}, "openrouter": stored}}}}


def key_of(user_id: str, valves: UserValves, **fields: Any) -> str:
    """The key as a text that can be written; "none" for none."""
    key = read_settings(Valves(**fields), valves, user_id=user_id).controls.own_api_key
    return "none" if key is None else "".join(key)


def test_a_function_finds_its_own_valves() -> None:
    """Where nothing is stored, there is nothing to read."""
    assert stored_user_valves(user({"ZDR": True}), "openrouter") == {"ZDR": True}
    without: list[dict[str, Any]] = [{}, {"settings": None}, {"settings": {"functions": []}}]
    for nothing in (user(None), user({}), user(""), *without):
        assert stored_user_valves(nothing, "openrouter") == {}


async def look() -> dict[str, Any]:
    """The groups of two users; ada's key after her first request, and what it is for others."""
    from open_webui.internal import db
    from open_webui.models import functions
    from open_webui.models.functions import Functions
    from open_webui.models.groups import GroupForm, Groups

    group = await Groups.insert_new_group("admin", GroupForm(name="Students", description=""))
    assert group
    await Groups.add_users_to_group(group.id, ["ada"])
    groups = [[each.name for each in await groups_of(user_id)] for user_id in ("ada", "eve")]
    everybody = {
        user_id: (each.name, each.is_admin, [group.name for group in each.groups])
        for user_id, each in (await people()).items()
    }
    failing = sa.exc.OperationalError("", {}, OSError())
    with patch.object(db, "get_async_db_context", side_effect=failing), suppress(StoreUnavailable):
        everybody = {user_id: ("", False, []) for user_id in await people()}
    names = [await group_names()]
    with patch.object(Groups, "get_all_groups", side_effect=RuntimeError):
        names.append(await group_names())
    with patch.object(Groups, "get_groups_by_member_id", side_effect=RuntimeError):
        try:
            groups.append([str(await groups_of("ada"))])
        except StoreUnavailable as error:
            groups.append([error.detail or ""])
    form = UserValves(API_KEY=KEY, ZDR=True)
    valves = form.model_dump(exclude_unset=True)
    await Functions.update_user_valves_by_id_and_user_id("openrouter", "ada", valves)
    bound = bound_key(form.API_KEY, "ada")
    await replace_user_valve("openrouter", "ada", "API_KEY", ("another", "x"))
    await replace_user_valve("openrouter", "ada", "API_KEY", (form.API_KEY, bound))
    await replace_user_valve("openrouter", "nobody", "API_KEY", (form.API_KEY, bound))
    offered = [await stored_valves("openrouter")]
    with patch.object(functions, "decrypt_valves", side_effect=failing):
        offered.append(await stored_valves("openrouter"))
    stored = UserValves(**await Functions.get_user_valves_by_id_and_user_id("openrouter", "ada"))
    return {
        "groups": groups,
        "people": {user_id: everybody[user_id] for user_id in PEOPLE},
        "names": names,
        "offered": offered,
        "stored": (bound == stored.API_KEY, stored.ZDR),
        "keys": [key_of("ada", stored), key_of("bob", stored), key_of("bob", form)],
        "bound again": [bound_key(*each) for each in ((bound, "ada"), (bound, "bob"), ("", "ada"))],
        "bound to nobody": [bound_key(form.API_KEY, ""), bound_key("sealed:x:y", "ada")],
    }


@pytest.mark.live
def test_a_key_is_bound_to_its_user(seen: dict[str, Any]) -> None:
    """With the first request. Copied into another user's valves it opens nothing; one that is not bound still opens."""
    assert seen[__name__] == {
        "groups": [["Students"], [], ["RuntimeError()"]],
        "people": {
            "ada": ("ada", False, ["Students"]),
            "eve": ("eve", False, []),
            "root": ("root", True, []),
        },
        "names": [["Students"], None],
        "offered": [{}, None],
        "stored": (True, True),
        "keys": [KEY, "", KEY],
        "bound again": ["", "", ""],
        "bound to nobody": ["", ""],
    }


def visit(key: str, encrypted: str) -> dict[str, Any]:
    """What is stored of a key, also when it is sent back; what requests use; and what is read of encrypted valves."""
    from open_webui.utils.valves import encrypt_valves

    first = UserValves(API_KEY=key).model_dump(exclude_unset=True)
    second = UserValves(**first)
    whole = [encrypt_valves({"ZDR": True}), encrypt_valves({}), encrypted]
    return {
        "stored": "".join(first["API_KEY"]),
        "again": "".join(second.model_dump(exclude_unset=True)["API_KEY"]),
        "used": [
            key_of("", second),
            key_of("", second, USER_CONTROLS="WEB_SEARCH"),
            UserValves(API_KEY="").API_KEY,
        ],
        "encrypted": whole[0],
        "read": [stored_user_valves(user(each), "openrouter") for each in whole],
    }


@pytest.mark.live
def test_another_secret_opens_nothing(tmp_path: Path) -> None:
    """A key is stored sealed; valves that cannot be decrypted are not taken for empty, as the host takes them."""
    encrypting = {"ENABLE_VALVE_ENCRYPTION": "true"}
    found = inside_open_webui(tmp_path, encrypting, visit, f" {KEY}\n", "x")
    stored = found["stored"]
    assert stored.startswith("sealed:")
    assert KEY[:12] not in stored
    assert (found["again"], found["used"]) == (stored, [KEY, "none", ""])
    other = {**encrypting, "WEBUI_SECRET_KEY": "another"}
    elsewhere = inside_open_webui(tmp_path, other, visit, stored, found["encrypted"])
    assert (elsewhere["stored"], elsewhere["used"][0]) == (stored, "")
    assert found["read"] == elsewhere["read"] == [{"ZDR": True}, {}, None]


@pytest.mark.parametrize("key", [[KEY], KEY.encode() + b"\xff"])
def test_no_error_of_the_form_repeats_a_key(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The host writes them to its log."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ValueError, match="API_KEY") as refused:
        UserValves(API_KEY=key)
    assert KEY not in f"{refused.value!r} {refused.value}"


# --- a secret of our own


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    """By one of the workers that start at once; nobody else may read it, and nothing else is left in the folder."""
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        with ThreadPoolExecutor(8) as workers:
            (secret,) = set(workers.map(own_secret, [folder] * 8))
        assert len(secret) >= 43
        assert [path.name for path in folder.iterdir()] == [SECRET_FILE]
        assert stat.S_IMODE((folder / SECRET_FILE).stat().st_mode) == 0o600


def test_without_a_folder_there_is_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing raises; the log says once why nothing is sealed."""
    assert own_secret(tmp_path / "missing") == ""
    (tmp_path / SECRET_FILE).write_bytes(b"\xff")
    assert own_secret(tmp_path) == ""
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def visit_platform() -> dict[str, Any]:
    """Everything that is shared where there are no accounts and nothing but the data directory was configured."""
    shared = platform()
    return {
        "database": str(shared.engine.url),
        "schema": shared.schema,
        "redis": shared.redis,
        "secret": json.loads(json.dumps(shared.secret_key)),  # it is masked where it is pickled
        "folder": str(shared.cache_folder),
    }


@pytest.mark.live
def test_without_configuration_there_is_only_a_database(tmp_path: Path) -> None:
    """SQLite in the data directory, no schema, no Redis, and in place of the host's secret one of ours."""
    found = inside_open_webui(tmp_path, {"WEBUI_SECRET_KEY": "", "WEBUI_AUTH": "False"}, visit_platform)
    assert found == {
        "database": f"sqlite+aiosqlite:///{tmp_path}/webui.db",
        "schema": None,
        "redis": None,
        "secret": (tmp_path / SECRET_FILE).read_text("utf-8"),
        "folder": f"{tmp_path}/cache",
    }


# --- the host's Redis


async def use(shared: SharedRedis) -> None:
    """Let the store's cache use the Redis for all that it uses one for."""
    one, memory = row(1), MemoryRows()
    cached = CachedRows(memory, GuardedRedis(shared.client, prefix=shared.prefix), asyncio.create_task)
    await cached.put([one])
    await memory.delete("ada", [one.id])
    assert await cached.load("ada", [one.id]) == {one.id: one}
    await cached.delete("ada", [one.id])
    assert await cached.load("ada", [one.id]) == {}


def visit_redis(settings: list[Mapping[str, Any]]) -> list[str | None]:
    """Use the Redis of each setting; its prefix, or None where there is no Redis."""
    from open_webui import env

    async def look(setting: Mapping[str, Any]) -> str | None:
        none = dict.fromkeys(("REDIS_URL", "REDIS_SENTINEL_HOSTS", "REDIS_SENTINEL_PORT"), "")
        for name, value in {**none, "REDIS_CLUSTER": False, **setting}.items():
            setattr(env, name, value)
        shared, again = shared_redis(), shared_redis()
        if shared is None or again is None:
            return None
        assert again.client is shared.client
        await use(shared)
        return shared.prefix

    async def look_at_all() -> list[str | None]:
        return [await look(setting) for setting in settings]

    return asyncio.run(look_at_all())


class Sentinel(RedisServer):
    """One that watches a Redis."""

    watched_port = 0

    def command(self) -> list[str]:
        configuration = self._directory / "sentinel.conf"
        configuration.write_text(f"sentinel monitor mymaster 127.0.0.1 {self.watched_port} 1", "utf-8")
        program, *words = super().command()
        return [program, str(configuration), "--sentinel", *words[:-4]]


@pytest.mark.live
@pytest.mark.servers
def test_redis_of_each_kind_serves_the_store(tmp_path: Path, redis_server: RedisServer) -> None:
    """Plain, behind Sentinel, or a cluster; the client is created once, and a wrong address means no Redis."""
    folders = [tmp_path / "sentinel", tmp_path / "cluster"]
    for folder in folders:
        folder.mkdir()
    with ExitStack() as running:
        Sentinel.watched_port = redis_server._port
        sentinel, node = Sentinel(folders[0]), RedisNodes(folders[1])
        running.callback(sentinel.stop)
        running.callback(node.stop)
        behind = {"REDIS_SENTINEL_HOSTS": "127.0.0.1", "REDIS_SENTINEL_PORT": str(sentinel._port)}
        settings: list[dict[str, Any]] = [
            {"REDIS_URL": redis_server.url},
            {"REDIS_URL": "redis://mymaster:6379/0", **behind, "REDIS_KEY_PREFIX": "elsewhere"},
            {"REDIS_URL": node.url, "REDIS_CLUSTER": True},
            {"REDIS_URL": "http://127.0.0.1"},
            {},
        ]
        found = inside_open_webui(tmp_path, {"REDIS_KEY_PREFIX": "here"}, visit_redis, settings)
    ours = "elsewhere:openrouter_pipe"
    assert found == ["here:openrouter_pipe", ours, ours, None, None]
