"""A pipe reads the same valves once, and notices each change of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.settings import bound_key
from open_webui_openrouter_pipe.valves import UserValves

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's secret, by which users' keys are sealed."""
    for module in ("settings", "valves"):
        monkeypatch.setattr(f"open_webui_openrouter_pipe.{module}.host_secret", lambda: "secret")


class Asked:
    """An app that answers nothing, and keeps the settings that it was called with."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []

    def replace_user_valve(self, *_: object) -> None:
        """Nothing is stored."""

    async def answer(self, _: object, settings: Settings) -> AsyncGenerator[object]:
        """Nothing."""
        self.settings.append(settings)
        nothing: tuple[object, ...] = ()
        for output in nothing:
            yield output


async def asked(pipe: Pipe, user_id: str, valves: UserValves) -> None:
    """Ask with a user's valves."""
    user = {"id": user_id, "role": "user", "valves": valves}
    messages = [{"role": "user", "content": "Hello"}]
    await pipe.pipe({"model": "openrouter.a/m", "messages": messages, "stream": False}, __user__=user)


async def test_settings_are_read_anew_when_a_valve_has_changed() -> None:
    """The administrator's, the user's, those of another user, and those that can no longer be read."""
    app = Asked()
    pipe = Pipe(lambda: cast("App", app))
    quiet, loud = UserValves(STATUS_LINES="important"), UserValves(STATUS_LINES="all")
    await asked(pipe, "ada", quiet)
    await asked(pipe, "ada", quiet)
    pipe.valves = Pipe.Valves(BASE_URL="https://example.com")
    await asked(pipe, "ada", quiet)
    await asked(pipe, "ada", loud)
    pipe.valves = Pipe.Valves(BASE_URL="https://example.com", ZDR="who knows")
    await asked(pipe, "ada", loud)
    first, same, moved, shown, refused = app.settings
    assert same is first
    assert (moved.client.base_url, moved.status_lines) == ("https://example.com", "important")
    assert (shown.status_lines, shown.refusal) == ("all", "")
    assert refused.refusal


async def test_a_key_that_was_sealed_for_another_user_is_not_opened_from_memory() -> None:
    """The same sealed text opens for its owner alone."""
    app = Asked()
    pipe = Pipe(lambda: cast("App", app))
    sealed = UserValves(API_KEY="sk-or-v1-of-ada").API_KEY
    owned = bound_key(sealed, "ada")
    own = UserValves.model_construct({"API_KEY"}, API_KEY=owned)
    for user_id in ("ada", "bob"):
        await asked(pipe, user_id, own)
    assert [each.controls.own_api_key for each in app.settings] == ["sk-or-v1-of-ada", ""]
