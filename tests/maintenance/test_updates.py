"""Updates from a server of releases: what is reported, what is installed, and everything that is refused.

The releases are signed as scripts/build does it; the host's functions are a dictionary.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import threading
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import UpdateRefused
from open_webui_openrouter_pipe.host.platform import HostFunctionCode
from open_webui_openrouter_pipe.host.switches import AUTHOR
from open_webui_openrouter_pipe.maintenance import updates
from open_webui_openrouter_pipe.maintenance.commands import read_command
from open_webui_openrouter_pipe.maintenance.pipe import MaintenanceValves, update
from open_webui_openrouter_pipe.maintenance.updates import UPDATE_FILE, Updates
from scripts import build
from scripts.bundle.builder import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytestmark = pytest.mark.anyio

FILES = ("openrouter.py", "openrouter_maintenance.py")


def function(name: str, version: str, *, needs: str = "0.11.4", code: str = "pass") -> str:
    """A function's text."""
    fields = {"id": name.removesuffix(".py"), "author": AUTHOR, "version": version}
    fields["required_open_webui_version"] = needs
    head = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f'"""\n{head}\nWords: none."""\n{code}\n'


class Functions(HostFunctionCode):
    """The host's functions: ours, under the id of their file and another, and somebody else's."""

    def __init__(self) -> None:
        super().__init__(None, "")
        self.held = {"openrouter": function(FILES[0], "1.0"), "other": '"""\nid: openrouter\n"""\n'}
        self.held["maintenance"] = function(FILES[1], "1.0")
        self.refused = ""
        self.messages: list[str] = []

    @property
    def host_version(self) -> str:
        return "0.12.4"

    async def contents(self) -> Mapping[str, str]:
        return dict(self.held)

    async def replace(self, function_id: str, content: str, *, message: str) -> None:
        if function_id == self.refused:
            raise UpdateRefused("[ERROR: no]")
        self.held[function_id] = content
        self.messages.append(message)


class Server:
    """Serves a folder with a release, and knows what was asked for. `answers` are statuses by path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()
        self.answers: dict[str, tuple[int, str]] = {}
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/")
                outer.asked.append(name)
                if name in outer.answers:
                    status, location = outer.answers[name]
                    self.send_response(status)
                    self.send_header("Location", location)
                    self.end_headers()
                else:
                    super().do_GET()

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *given: Handler(*given, directory=str(folder))
        )
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def publish(self, key_file: Path, version: str, *, needs: str = "0.11.4") -> None:
        """Put a release there, signed."""
        for name in FILES:
            (self.folder / name).write_text(function(name, version, needs=needs, code=version), "utf-8")
        build.sign(self.folder, key_file, changelog=f"What is new in {version}: **much**", version=version)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With an empty folder."""
    (tmp_path / "release").mkdir()
    server = Server(tmp_path / "release")
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file with a key, and its public half."""
    path = tmp_path_factory.mktemp("key") / "key.pem"
    return path, build.new_key(path)


@pytest.fixture
def functions() -> Functions:
    """As they are at first."""
    return Functions()


@pytest.fixture
def own(functions: Functions, server: Server, key: tuple[Path, str], tmp_path: Path) -> Updates:
    """What an administrator has set, who trusts the key; a release 1.1 is there."""
    server.publish(key[0], "1.1")
    return Updates(functions, tmp_path / "replaced", AUTHOR, f"{server.url}/{UPDATE_FILE}", key[1])


async def ask(own: Updates, text: str, **changes: Any) -> str:
    """What is answered to a command."""
    given = {name: getattr(own, name) for name in own.__slots__} | changes
    return await update(read_command(text), Updates(**given))


async def test_a_newer_release_is_reported_installed_and_taken_back(
    own: Updates, functions: Functions
) -> None:
    """Only with `now` is anything written, and of files nothing fetched before; going back asks no server."""
    before, asked = dict(functions.held), await ask(own, "update")
    assert "**Release 1.1 can be installed.** Installed: `maintenance` 1.0, `openrouter` 1.0." in asked
    assert "What is new in 1.1: **much**" in asked
    assert "`update now`" in asked
    assert await ask(own, "update back") == updates.NOTHING_KEPT
    assert functions.held == before

    steps = "`maintenance` 1.0 → 1.1, `openrouter` 1.0 → 1.1"
    assert await ask(own, "update now") == updates.INSTALLED.format(done=steps)
    newer = {"openrouter": function(FILES[0], "1.1", code="1.1"), "other": before["other"]}
    newer["maintenance"] = function(FILES[1], "1.1", code="1.1")
    assert functions.held == newer
    assert functions.messages == ["Version 1.1"] * 2
    assert "Nothing newer is at the address" in await ask(own, "update now")

    nowhere = {"address": "https://nowhere.invalid/update.json", "public_key": ""}
    steps = "`maintenance` 1.1 → 1.0, `openrouter` 1.1 → 1.0"
    assert await ask(own, "update back", **nowhere) == updates.WOULD_GO_BACK.format(done=steps)
    assert functions.held == newer
    assert await ask(own, "update back now", **nowhere) == updates.WENT_BACK.format(done=steps)
    assert functions.held == before
    await ask(own, "update back now", **nowhere)
    assert functions.held == newer


async def test_without_a_key_it_gives_links_and_digests_and_stops(
    own: Updates, functions: Functions, server: Server
) -> None:
    """Nobody knows who wrote the changelog, so it is shown as it is, with no link of its own."""
    before = dict(functions.held)
    said = await ask(own, "update now", public_key="")
    assert updates.WITHOUT_KEY in said
    assert "\n    What is new in 1.1: **much**" in said
    for name in FILES:
        digest = hashlib.sha256((server.folder / name).read_bytes()).hexdigest()
        assert f"- {server.url}/{name}, SHA-256 `{digest}`" in said
    assert (functions.held, server.asked) == (before, [UPDATE_FILE])


@pytest.mark.parametrize(
    ("installed", "version"), [("0.1.0", "1.0.0"), ("0.1.0", "1.0.1"), ("1.9.9", "1.10.0"), ("1.0.9", "1.1")]
)
async def test_a_higher_version_is_installed(
    own: Updates, functions: Functions, server: Server, key: tuple[Path, str], installed: str, version: str
) -> None:
    """By its numbers, of which each counts before those behind it; what is lower is not installed over it."""
    for name, file in zip(("openrouter", "maintenance"), FILES, strict=True):
        functions.held[name] = function(file, installed)
    server.publish(key[0], version)
    steps = f"`maintenance` {installed} → {version}, `openrouter` {installed} → {version}"
    assert await ask(own, "update now") == updates.INSTALLED.format(done=steps)
    server.publish(key[0], installed)
    assert "Nothing newer is at the address" in await ask(own, "update now")


def with_byte(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def edit(server: Server, **fields: Any) -> None:
    """Change what the release says of itself."""
    path = server.folder / UPDATE_FILE
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **fields}), "utf-8")


def other_key(server: Server) -> None:
    path = server.folder / "other.pem"
    build.new_key(path)
    server.publish(path, "1.1")


def exchanged(server: Server) -> None:
    """The digests of two files of the release, one for the other."""
    files = json.loads((server.folder / UPDATE_FILE).read_text("utf-8"))["files"]
    edit(server, files=dict(zip(FILES, reversed(files.values()), strict=True)))


def without_a_file(server: Server) -> None:
    files = json.loads((server.folder / UPDATE_FILE).read_text("utf-8"))["files"]
    edit(server, files={FILES[0]: files[FILES[0]]})


ATTACKS: dict[str, tuple[Callable[[Server], object], str]] = {
    "another key": (other_key, updates.NOT_SIGNED),
    "no signature": (lambda server: edit(server, signature=""), updates.NOT_SIGNED),
    "signature of no letters": (lambda server: edit(server, signature="é"), updates.NOT_SIGNED),
    "another changelog": (lambda server: edit(server, changelog="harmless"), updates.NOT_SIGNED),
    "a higher version": (lambda server: edit(server, version="1.2"), updates.NOT_SIGNED),
    "files exchanged": (exchanged, updates.NOT_SIGNED),
    "a file less": (without_a_file, updates.NOT_SIGNED),
    "a changed byte": (
        lambda server: with_byte(server.folder / FILES[0], lambda text: text.replace(b"1.1\n", b"1.2\n")),
        updates.CHANGED.format(name=FILES[0], what="its digest is another one"),
    ),
    "a truncated file": (
        lambda server: with_byte(server.folder / FILES[1], lambda text: text[:100]),
        updates.CHANGED.format(name=FILES[1], what="it has 100 bytes instead of 148"),
    ),
    "a longer file": (
        lambda server: with_byte(server.folder / FILES[1], lambda text: text + b"x"),
        "127.0.0.1 sent more than 148 bytes. Nothing was changed.",
    ),
    "no file": (
        lambda server: (server.folder / FILES[0]).unlink(),
        updates.UNREACHABLE.format(host="127.0.0.1", reason="it answered with the status 404"),
    ),
    "a redirect": (
        lambda server: server.answers.update({UPDATE_FILE: (302, "https://elsewhere.example/update.json")}),
        updates.UNREACHABLE.format(host="127.0.0.1", reason="it answered with the status 302"),
    ),
    "a release without end": (
        lambda server: edit(server, changelog="x" * 300_000),
        "127.0.0.1 sent more than 262,144 bytes. Nothing was changed.",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_is_not_signed_is_not_installed(
    own: Updates, functions: Functions, server: Server, attack: str
) -> None:
    """Each in one line; no function is touched, not even one whose own file is as it should be."""
    before = dict(functions.held)
    change, line = ATTACKS[attack]
    change(server)
    assert await ask(own, "update now") == line
    assert functions.held == before


@pytest.mark.parametrize("version", ["0.9", "1.0", "1", "1.0.0.0", "0.99999"])
async def test_an_old_release_that_is_sent_again_is_not_installed(
    own: Updates, functions: Functions, server: Server, key: tuple[Path, str], version: str
) -> None:
    """Its signature is valid; its version is not higher."""
    before = dict(functions.held)
    server.publish(key[0], version)
    said = await ask(own, "update now")
    assert said == updates.NOT_NEWER.format(installed="`maintenance` 1.0, `openrouter` 1.0", version=version)
    assert functions.held == before


@pytest.mark.parametrize(
    "text",
    [
        "<html>", "[]", "{}", '{"version": "1.1"}', "[" * 100_000,
        *(
            json.dumps({"version": version, "files": {name: {"bytes": size, "sha256": digest}}})
            for version, name, size, digest in (
                ("1.1\n", FILES[0], 1, "a" * 64),
                ("newest", FILES[0], 1, "a" * 64),
                ("1.1", "../openrouter.py", 1, "a" * 64),
                ("1.1", "//evil.example/a.py", 1, "a" * 64),
                ("1.1", FILES[0], "1", "a" * 64),
                ("1.1", FILES[0], 2**30, "a" * 64),
                ("1.1", FILES[0], -1, "a" * 64),
                ("1.1", FILES[0], 1, "A" * 64),
            )
        ),
    ],
)  # fmt: skip
async def test_what_is_no_release_is_one_line(own: Updates, server: Server, text: str) -> None:
    """Whatever stands there, and whether there is a key or not."""
    (server.folder / UPDATE_FILE).write_text(text, "utf-8")
    for public_key in ("", own.public_key):
        assert await ask(own, "update", public_key=public_key) == updates.UNREADABLE


@pytest.mark.parametrize(
    "address",
    ["http://example.org/update.json", "ftp://127.0.0.1/a", "update.json", "https://", "\0"],
)
async def test_addresses_without_tls_are_refused(own: Updates, address: str) -> None:
    """But for this server's own; nothing is sent."""
    assert await ask(own, "update", address=address) == updates.BAD_ADDRESS


async def test_a_file_of_another_version_is_not_installed(
    own: Updates, functions: Functions, server: Server, key: tuple[Path, str]
) -> None:
    """Even signed by mistake: the next update would compare with what it says of itself."""
    before = dict(functions.held)
    build.sign(server.folder, key[0], changelog="", version="1.2")
    what = "it says that it is version 1.1"
    assert await ask(own, "update now") == updates.CHANGED.format(name=FILES[0], what=what)
    assert functions.held == before


@pytest.mark.parametrize(
    "public_key", ["x", "é", b64encode(bytes(31)).decode(), b64encode(bytes(33)).decode()]
)
async def test_a_wrong_key_is_named(own: Updates, functions: Functions, public_key: str) -> None:
    """It is not taken for none."""
    before = dict(functions.held)
    assert await ask(own, "update now", public_key=public_key) == updates.NO_KEY
    assert functions.held == before


async def test_a_server_that_is_not_there_or_silent_holds_nobody_up(own: Updates) -> None:
    """Without an address nothing is asked; otherwise one line says what went wrong."""
    assert await ask(own, "update", address="") == updates.NO_ADDRESS
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/update.json"
        said = await ask(own, "update", address=address, fetch_seconds=0.05)
    assert said == updates.UNREACHABLE.format(host="127.0.0.1", reason="it took longer than 0.05 seconds")
    assert (await ask(own, "update", address=address)).startswith("127.0.0.1 did not send it: ")


async def test_what_the_host_does_not_take_is_said_with_what_was_done(
    own: Updates, functions: Functions
) -> None:
    """What is kept to go back to is still what ran before the last update."""
    before = dict(functions.held)
    functions.refused = "openrouter"
    said = await ask(own, "update now")
    assert said == (
        "Open WebUI did not take the code of `openrouter`: [ERROR: no]\n\nDone before: `maintenance` 1.0 → 1.1."
    )
    assert functions.held["openrouter"] == before["openrouter"]
    assert "`maintenance` 1.1 → 1.0. " in await ask(own, "update back")


async def test_what_cannot_be_kept_is_not_replaced(
    own: Updates, functions: Functions, tmp_path: Path
) -> None:
    """There is always a way back."""
    before, folder = dict(functions.held), tmp_path / "file"
    folder.touch()
    said = await ask(own, "update now", folder=folder)
    assert said == updates.NOT_KEPT.format(folder=folder, reason="File exists")
    assert functions.held == before


async def test_a_release_for_another_host_is_not_installed(
    own: Updates, functions: Functions, server: Server, key: tuple[Path, str]
) -> None:
    """Neither where Open WebUI is too old, nor where the package was installed with pip."""
    server.publish(key[0], "2.0", needs="0.12.5")
    assert await ask(own, "update now") == updates.TOO_OLD.format(needed="0.12.5", version="0.12.4")
    server.publish(key[0], "2.0", needs="0.12.4")
    functions.held["openrouter"] += "from open_webui_openrouter_pipe import Pipe\n"
    before = dict(functions.held)
    assert await ask(own, "update now") == updates.OF_PIP.format(id="openrouter")
    assert functions.held == before
    functions.held = {"other": before["other"]}
    assert await ask(own, "update now") == updates.NOTHING_INSTALLED


def test_the_signed_text_is_this() -> None:
    """Its form is public: whoever signs or checks elsewhere makes the same bytes."""
    digest = hashlib.sha256("Néw".encode()).hexdigest()
    text = updates.signed_text("1.2", "Néw", {"b.py": "0" * 64, "a.py": "1" * 64})
    lines = ["open-webui-openrouter-pipe release", "1.2", digest, f"a.py {'1' * 64}", f"b.py {'0' * 64}", ""]
    assert text.decode() == "\n".join(lines)


def test_a_key_is_written_once_for_its_owner_alone(key: tuple[Path, str], tmp_path: Path) -> None:
    """And what is no key signs nothing."""
    assert key[0].stat().st_mode & 0o777 == 0o600
    with pytest.raises(BuildError, match="cannot be written"):
        build.new_key(key[0])
    (tmp_path / "no.pem").write_text("no key", "utf-8")
    with pytest.raises(BuildError, match="cannot be read as a key"):
        build.sign(tmp_path, tmp_path / "no.pem", changelog="", version="1")


@pytest.mark.parametrize("stored", [5, None, ["x"], {"a": 1}, True])
def test_valves_can_be_made_of_whatever_is_stored(stored: Any) -> None:
    """What is no text counts as not set."""
    valves = MaintenanceValves(UPDATE_ADDRESS=stored, UPDATE_KEY=stored, GONE=stored)
    assert (valves.UPDATE_ADDRESS, valves.UPDATE_KEY) == ("", "")


def test_the_newest_changes_are_the_first_section() -> None:
    """Without its heading, and without what is older."""
    assert build.newest_changes("# C\n\nIntro\n\n## 2\n\n- b\n\n## 1\n- a\n") == "- b"
    assert build.newest_changes("# C\n") == ""
