"""The single file in a real Open WebUI: it installs, answers, and is replaced while the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.bundle import builder

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.openwebui import OpenWebUI

pytestmark = pytest.mark.live

PIPE = '''"""Says a word for ever, or once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

from .words import WORD


class Pipe:
    class Valves(BaseModel):
        MARK: str = "!"

    def __init__(self) -> None:
        self.valves = self.Valves()

    def pipes(self) -> list[dict[str, str]]:
        return [{"id": "once", "name": "Once"}, {"id": "slowly", "name": "Slowly"}]

    async def pipe(self, body: dict[str, Any]) -> str | AsyncIterator[str]:
        return self.slowly() if body["model"].endswith("slowly") else WORD + self.valves.MARK

    async def slowly(self) -> AsyncIterator[str]:
        for _ in range(40):
            yield f"{WORD} "
            await asyncio.sleep(0.05)
        from .late import LATE

        yield LATE
'''


def single_file(directory: Path, word: str) -> str:
    """The bundle of a small package that says the word."""
    package = directory / word / "worded"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('from .pipe import Pipe\n\n__version__ = "1.0.0"\n', "utf-8")
    (package / "pipe.py").write_text(PIPE, "utf-8")
    (package / "words.py").write_text(f'WORD = "{word}"\n', "utf-8")
    (package / "late.py").write_text(f'LATE = "{word} late"\n', "utf-8")
    return builder.bundle(builder.read_package(package))


def test_an_update_takes_effect_while_the_server_runs(open_webui: OpenWebUI, tmp_path: Path) -> None:
    """A call in flight ends on its own code, late import included; the next call runs the new code."""
    admin = open_webui.admin
    admin.api.install_function("worded", "Worded", single_file(tmp_path, "old"))
    admin.api.set_valves("worded", {"MARK": "?"})
    admin.api.models()
    assert admin.ask("worded.once", "say it")[1]["content"] == "old?"
    with admin.session() as session:
        in_flight = admin.send("worded.slowly", "say it slowly", session_id=session.id)
        session.wait_for("response:completion")
        admin.api.install_function("worded", "Worded", single_file(tmp_path, "new"))
        assert admin.ask("worded.once", "say it")[1]["content"] == "new?"
        assert admin.wait(in_flight)["content"] == "old " * 40 + "old late"
