"""The single file in a real Open WebUI: it installs, answers, and is replaced while the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.bundle import builder
from scripts.bundle.loader import PACKED
from scripts.launch.api import ApiError

if TYPE_CHECKING:
    from scripts.harness.openwebui import OpenWebUI

pytestmark = pytest.mark.live

PIPE = '''"""Says a word for ever, or once."""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

WORD = pkgutil.get_data(__package__, "words/word.txt").decode()


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


def worded(word: str) -> builder.Package:
    """A small package that says the word."""
    files = {
        "__init__.py": 'from .pipe import Pipe\n\n__version__ = "1.0.0"\n',
        "pipe.py": PIPE,
        "late.py": f'LATE = "{word} late"\n',
        "words/word.txt": word,
    }
    return builder.Package("worded", "1.0.0", files)


def test_an_update_takes_effect_while_the_server_runs(open_webui: OpenWebUI) -> None:
    """A call in flight ends on its own code, late import included; the next call runs the new code."""
    admin = open_webui.admin
    admin.api.install_function("worded", "Worded", builder.pack(worded("old")))
    admin.api.set_valves("worded", {"MARK": "?"})
    admin.api.models()
    assert admin.ask("worded.once", "say it")[1]["content"] == "old?"
    with admin.session() as session:
        in_flight = admin.send("worded.slowly", "say it slowly", session_id=session.id)
        session.wait_for("response:completion")
        admin.api.install_function("worded", "Worded", builder.readable(worded("new")))
        assert admin.ask("worded.once", "say it")[1]["content"] == "new?"
        assert admin.wait(in_flight)["content"] == "old " * 40 + "old late"


def test_a_damaged_copy_is_refused_and_the_old_one_goes_on(open_webui: OpenWebUI) -> None:
    """Saving it says what is wrong, and what to do; what was installed still answers."""
    admin = open_webui.admin
    text = builder.pack(worded("whole"))
    admin.api.install_function("damaged", "Damaged", text)
    for copy in (text[:-300], text.replace(f"# {PACKED}\n", f"# {PACKED}\n# edited\n")):
        with pytest.raises(ApiError, match="its packed lines were cut off or changed"):
            admin.api.install_function("damaged", "Damaged", copy)
    admin.api.models()
    assert admin.ask("damaged.once", "say it")[1]["content"] == "whole!"
