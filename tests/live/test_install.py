"""From nothing to a chat in a real Open WebUI: scripts/start, a release in the page, its valves, models and updates.

The Open WebUI of these tests is their own, and asks who may use which model.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe import __version__
from open_webui_openrouter_pipe.conversation.slash import COMMANDS
from open_webui_openrouter_pipe.money.audit import Bill, bill_json
from open_webui_openrouter_pipe.valves import ADMIN_PROTECTIONS, Advanced, UserValves, Valves
from scripts import build
from scripts.bundle import builder, verifier
from scripts.bundle.loader import PACKED
from scripts.harness.browser import PHONE, Browser
from scripts.harness.openwebui import Account, OpenWebUI
from scripts.harness.servers import unused_port
from scripts.launch import session
from scripts.launch.api import Api, ApiError
from scripts.paths import PACKAGE, ROOT
from scripts.standin import StandIn, catalogue
from tests.live.items import error_of
from tests.live.models import CLAUDE, MODEL, SCRIPTED
from tests.support.host_source import is_older
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live

FUNCTIONS = "/api/v1/functions"
NO_REASON = "Error updating function"
"""All that an older Open WebUI says of code that it cannot load."""
STOP_SECONDS = 120.0
WITHHOLDING = (*ADMIN_PROTECTIONS, "MODELS", "MODEL_FILTERS")
"""Without these nothing is sent, or nothing offered."""
TITLE = "Advanced · More Settings"
MENU = (By.CSS_SELECTOR, "button[aria-label='Open create menu']")
FIELDS = (
    "[aria-label='Function ID']",
    "[placeholder='Function Name']",
    "[placeholder='Function Description']",
)
NAME, PLAIN_NAME = "OpenAI: GPT-5.2", "OpenAI: GPT-4o"
NAMES = ["Answer fast", "Think harder", "Web search"]
INTEGRATIONS = (By.ID, "integration-menu-button")
SWITCHES = (By.CSS_SELECTOR, "[role=menuitemcheckbox]")
ICONS = "return [...document.querySelectorAll('[role=option] img')].every(each => each.naturalWidth > 0)"
PASTE = """
const [selector, text] = arguments, field = document.querySelector(selector);
field.focus();
document.execCommand('selectAll');
const data = new DataTransfer();
data.setData('text/plain', text);
field.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
"""


def test_start_is_ready_to_chat_and_leaves_nothing_behind(tmp_path: Path, artifacts: Path) -> None:
    """The login that scripts/start prints works and the pipe's models are there; after Ctrl-C no server is."""
    variables = {name: value for name, value in os.environ.items() if name != "OPENROUTER_API_KEY"}
    options = f"--port {unused_port()} --standin-port {unused_port()} --data {tmp_path / 'data'}".split()
    command = [sys.executable, "-m", "scripts.start", *options]
    log = artifacts / "start.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or "Ctrl-C stops it" in log.read_text("utf-8"))
        said = log.read_text("utf-8")
        found = re.search(r"(http://\S+)\s+email\s+(\S+)\s+password\s+(\S+)", said)
        assert found is not None, said
        with Api(found[1]) as anyone, anyone.sign_in(found[2], found[3]) as admin:
            models = [model for model in admin.models() if model.startswith("openrouter.")]
        assert models
        assert f"ready, with {len(models)} models of the pipe" in said
        shown = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
        servers = shown.stdout.split()
        assert len(servers) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        left = ["ps", "-o", "pid=", "-p", ",".join(servers)]
        assert subprocess.run(left, capture_output=True, text=True, check=False).stdout == ""
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release, all but its wheel."""
    links = {"author_url": "https://example.org"}
    return build.build(tmp_path_factory.mktemp("release"), links=links).parent


@pytest.fixture(scope="module")
def text(release: Path) -> str:
    """The single file of the release."""
    return (release / "openrouter.py").read_text("utf-8")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWebUI]:
    """An Open WebUI without functions."""
    server = OpenWebUI(tmp_path_factory.mktemp("fresh"), {"BYPASS_MODEL_ACCESS_CONTROL": "false"})
    yield server
    server.close()


@pytest.fixture
def admin(host: OpenWebUI, text: str, standin: StandIn) -> Account:
    """The administrator, who has installed the release and set the key, and nothing else."""
    api = host.admin.api
    session.install(api, text, API_KEY=session.STANDIN_KEY, BASE_URL=standin.base_url)
    return host.admin


@pytest.fixture
def page(host: OpenWebUI, tmp_path: Path) -> Iterator[Browser]:
    """A browser in which the administrator looks at the functions."""
    with Browser(host.url, tmp_path / "profile") as browser:
        browser.log_in(host.admin)
        browser.driver.get(f"{host.url}/admin/functions")
        browser.find(*MENU)
        yield browser


# --- a release in the page ---


def press(page: Browser, *labels: str) -> None:
    """Press buttons, one after the other."""
    for label in labels:
        page.click(By.XPATH, f"//button[normalize-space()='{label}']")


def fields(page: Browser) -> list[str]:
    """Id, name and description, as the editor shows them."""
    return [str(page.find(By.CSS_SELECTOR, f"input{field}").get_attribute("value")) for field in FIELDS]


def taken(page: Browser, host: OpenWebUI) -> dict[str, Any]:
    """The one function that was installed; it is deleted again."""
    page.find(By.XPATH, f"//a[normalize-space()='{builder.PIPE.title}']")
    [listed] = host.admin.api.get(f"{FUNCTIONS}/")
    function: dict[str, Any] = host.admin.api.get(f"{FUNCTIONS}/id/{listed['id']}")
    host.admin.api.delete(f"{FUNCTIONS}/id/{listed['id']}/delete")
    page.driver.get(f"{host.url}/admin/functions")
    verdict = verifier.verify(function["content"], builder.read_package(PACKAGE))
    assert (verdict.faults, verdict.differing) == ((), ())
    return function


@pytest.mark.browser
def test_a_release_is_imported_from_its_json_and_pasted(
    host: OpenWebUI, page: Browser, release: Path, text: str
) -> None:
    """Id, name and description come from the file, and its text verifies."""
    page.driver.find_element(By.ID, "documents-import-input").send_keys(str(release / "openrouter.json"))
    press(page, "Confirm")
    function = taken(page, host)
    found = (function["id"], function["name"], function["meta"]["description"], function["content"])
    assert found == ("openrouter", builder.PIPE.title, builder.PIPE.description, text)

    press(page, "Create")
    page.find(By.CSS_SELECTOR, ".cm-content")
    page.driver.execute_script(PASTE, ".cm-content", text)
    page.wait(lambda: fields(page)[0] != "")
    page.screenshot("release-paste")
    assert fields(page)[::2] == ["openrouter", builder.PIPE.description]
    press(page, "Save & Create", "Confirm")
    assert taken(page, host)["id"] == "openrouter"


@pytest.mark.browser
def test_a_release_is_imported_from_a_url(host: OpenWebUI, page: Browser, release: Path, text: str) -> None:
    """Where the file requires a newer Open WebUI, the page says so and installs nothing."""
    needy = text.replace(f"version: {builder.OLDEST_OPEN_WEBUI}", "version: 99.0.0")
    (release / "needy.py").write_text(needy, "utf-8")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(release))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("needy", "openrouter"):
            page.click(*MENU)
            press(page, "Import from URL")
            url = f"http://127.0.0.1:{server.server_port}/{name}.py"
            page.find(By.CSS_SELECTOR, "input[type=url]").send_keys(url)
            page.click(By.XPATH, "//button[@type='submit' and normalize-space()='Import']")
            assert fields(page) == [name, builder.PIPE.title, builder.PIPE.description]
            press(page, "Save & Create", "Confirm")
            if name == "needy":
                page.find(By.XPATH, "//*[contains(text(), 'is lower than required version (v99.0.0)')]")
                page.screenshot("release-too-new")
                page.driver.get(f"{host.url}/admin/functions")
        server.shutdown()
    function = taken(page, host)
    manifest = function["meta"]["manifest"]
    assert (function["type"], function["is_active"]) == ("pipe", False)
    assert (manifest["version"], manifest["author_url"]) == (__version__, "https://example.org")


def test_it_needs_the_key_alone(host: OpenWebUI, admin: Account, standin: StandIn) -> None:
    """Without one the line says what to do; with one the first chat is answered."""
    stored = admin.api.valves("openrouter")
    admin.api.set_valves("openrouter", {"API_KEY": ""})
    _, refused = admin.ask(MODEL, "Hello")
    assert "Enter one in the function's valve API_KEY" in error_of(refused)
    assert standin.responses == []
    admin.api.set_valves("openrouter", stored)
    _, answer = admin.ask(MODEL, "Hello")
    assert "You said: Hello" in answer["content"]
    assert stored.keys() == {"API_KEY", "BASE_URL"}
    assert {each.status for each in standin.responses} == {200}
    assert session.STANDIN_KEY not in host.log.read_text("utf-8")


def test_an_update_in_place_and_back(admin: Account, text: str, standin: StandIn) -> None:
    """Valves and chats stay when its text is replaced by a later release, of the readable kind, and back again.

    An answer in flight ends on its own code. A damaged copy is refused, and what was installed still answers.
    """
    api, package = admin.api, builder.read_package(PACKAGE)
    line = '__version__ = "{}"'
    newer = package.files["__init__.py"].replace(line.format(__version__), line.format("9.9.9"))
    files = {**package.files, "__init__.py": newer}
    other = builder.readable(builder.Package(package.name, "9.9.9", files))
    sent, _ = admin.ask(MODEL, "one")
    valves = api.valves("openrouter")
    for version, content in (("9.9.9", other), (__version__, text)):
        with admin.session() as tab:
            in_flight = admin.send(SCRIPTED, "[[standin: slow=5]] count", session_id=tab.id)
            tab.wait_for("response:completion")
            api.install_function("openrouter", "OpenRouter", content)
            assert api.get(f"{FUNCTIONS}/id/openrouter")["meta"]["manifest"]["version"] == version
            assert api.valves("openrouter") == valves
            sent, answer = admin.ask(MODEL, f"go on with {version}", after=sent)
            assert [error_of(each) for each in (answer, admin.wait(in_flight))] == ["", ""]
    reason = NO_REASON if is_older() else "its packed lines were cut off or changed"
    for copy in (text[:-300], text.replace(f"# {PACKED}\n", f"# {PACKED}\n# edited\n")):
        with pytest.raises(ApiError, match=reason):
            api.install_function("openrouter", "OpenRouter", copy)
    if is_older():  # which has switched it off
        api.install_function("openrouter", "OpenRouter", text)
    admin.ask(MODEL, "and now?", after=sent)
    reasoning = [item for item in standin.responses[-1].body["input"] if item["type"] == "reasoning"]
    assert len(reasoning) == 3


class Releases:
    """A server of releases, and the maintenance function that asks it; `version` is that of what is published."""

    version = "9.9.9"

    def __init__(self, admin: Account, folder: Path) -> None:
        self.admin, self.folder, self.key = admin, folder, folder / "key.pem"
        self.public_key = build.new_key(self.key)
        package, line = builder.read_package(PACKAGE), '__version__ = "{}"'
        maintenance = builder.part_of(package, builder.MAINTENANCE)
        own = builder.pack(maintenance, builder.MAINTENANCE)
        admin.api.install_function(builder.MAINTENANCE.id, builder.MAINTENANCE.title, own)
        admin.api.models()
        init = package.files["__init__.py"].replace(line.format(__version__), line.format(self.version))
        pipe = replace(package, version=self.version, files={**package.files, "__init__.py": init})
        self.pipe = builder.pack(pipe, builder.PIPE)
        self.maintenance = builder.pack(replace(maintenance, version=self.version), builder.MAINTENANCE)
        handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def publish(self, pipe: str) -> None:
        """Sign a release with this text of the pipe."""
        (self.folder / "openrouter.py").write_text(pipe, "utf-8")
        (self.folder / "openrouter_maintenance.py").write_text(self.maintenance, "utf-8")
        build.sign(self.folder, self.key, changelog="- It is **faster**.", version=self.version)

    def set_valves(self, key: str) -> None:
        address = f"http://127.0.0.1:{self.server.server_port}/update.json"
        self.admin.api.set_valves(builder.MAINTENANCE.id, {"UPDATE_ADDRESS": address, "UPDATE_KEY": key})

    def answer(self, command: str) -> str:
        return str(self.admin.ask(builder.MAINTENANCE.id, command)[1]["content"])

    def installed(self) -> list[str]:
        """The versions of both functions."""
        functions = (builder.PIPE, builder.MAINTENANCE)
        found = (self.admin.api.get(f"{FUNCTIONS}/id/{each.id}") for each in functions)
        return [each["meta"]["manifest"]["version"] for each in found]


@pytest.fixture
def releases(admin: Account, tmp_path: Path) -> Iterator[Releases]:
    """Nothing is published yet."""
    releases = Releases(admin, tmp_path)
    yield releases
    releases.server.shutdown()
    releases.server.server_close()
    admin.api.delete(f"{FUNCTIONS}/id/{builder.MAINTENANCE.id}/delete")


def test_the_maintenance_function_installs_what_is_signed(releases: Releases) -> None:
    """Nothing without a key, nor what another key has signed, nor code that Open WebUI cannot load."""
    begin = "from __future__ import annotations\n"
    releases.publish(releases.pipe.replace(begin, f"{begin}raise ValueError('broken')\n", 1))
    digest = hashlib.sha256((releases.folder / "openrouter.py").read_bytes()).hexdigest()
    for key, said in (
        ("", digest),
        (build.new_key(releases.folder / "other.pem"), "not signed with the key"),
        (releases.public_key, NO_REASON if is_older() else "did not take the code of `openrouter`: broken"),
    ):
        releases.set_valves(key)
        assert said in releases.answer("update now")
        assert releases.installed() == [__version__] * 2


def test_an_update_by_the_maintenance_function_and_back(
    releases: Releases, admin: Account, text: str, standin: StandIn
) -> None:
    """It installs the pipe, and itself. Going back asks no server.

    Answers in flight end on their own code, valves stay, and the next answer comes from the other code.
    """
    releases.publish(releases.pipe)
    releases.set_valves(releases.public_key)
    sent, _ = admin.ask(MODEL, "one")
    valves = admin.api.valves("openrouter")
    assert "- It is **faster**." in releases.answer("update")
    assert releases.installed() == [__version__] * 2
    for command, version in (("update now", releases.version), ("update back now", __version__)):
        with admin.session() as tab:
            in_flight = admin.send(SCRIPTED, "[[standin: slow=5]] count", session_id=tab.id)
            tab.wait_for("response:completion")
            assert "**Done.** `openrouter` " in releases.answer(command)
            assert releases.installed() == [version] * 2
            sent, answer = admin.ask(MODEL, f"go on with {version}", after=sent)
            assert [each.get("error") for each in (answer, admin.wait(in_flight))] == [None, None]
        releases.server.shutdown()
    assert {each.status for each in standin.responses} == {200}
    assert admin.api.valves("openrouter") == valves
    assert admin.api.get(f"{FUNCTIONS}/id/openrouter")["content"] == text
    assert admin.api.valves(builder.MAINTENANCE.id)["UPDATE_KEY"] == releases.public_key


# --- its valves ---


def is_stored(admin: Account, advanced: str) -> bool:
    return admin.api.valves("openrouter").get("ADVANCED") == advanced


@pytest.mark.browser
def test_a_form_saves_what_is_typed(admin: Account, page: Browser) -> None:
    """Also what is wrong: it is in the form again, to be mended, and the first entry of the list names it."""
    page.driver.refresh()
    page.click(By.CSS_SELECTOR, "button[aria-label='Valves']")
    dialog = page.find(By.CSS_SELECTOR, "[role=dialog]")
    page.wait(lambda: TITLE in dialog.text)
    page.screenshot("admin-valves")
    page.click(By.XPATH, f"//*[@role='dialog']//div[normalize-space()='{TITLE}']/following-sibling::button")
    field = dialog.find_elements(By.CSS_SELECTOR, "textarea")[-1]
    for typed, is_wrong in (('{"RETRY_SECOND": 5}', True), ('{"RETRY_SECONDS": 5}', False)):
        field.clear()
        field.send_keys(typed)
        page.click(By.CSS_SELECTOR, "[role=dialog] button[type=submit]")
        page.wait(lambda: "Valves updated successfully" in page.driver.find_element(By.TAG_NAME, "body").text)
        wait_until(partial(is_stored, admin, typed))
        page.screenshot(f"admin-valves-{'wrong' if is_wrong else 'right'}")
        names = [model["name"] for model in admin.api.get("/api/models?refresh=true")["data"]]
        entry = "OpenRouter: wrong ADVANCED (RETRY_SECOND is not known; did you mean RETRY_SECONDS?)"
        assert (entry in names) == is_wrong


@pytest.mark.browser
def test_bills_of_the_log_are_entered_by_the_page(
    admin: Account, page: Browser, maintenance: Callable[[str], str]
) -> None:
    """Lines as they are pasted, whatever the page takes for Markdown, and `now` as the next message."""
    bill = Bill(
        id="b1",
        user_id="5c1d_2f_1a",
        model="~openai/gpt_*_latest:free",
        generation="gen-1_a_b",
        accounts=("user:5c1d_2f_1a", "group:x_y_z", "all"),
        cost=4.5e-05,
    )
    lines = [
        f"2026-11-28 04:23:20.824 | ERROR | bills:lose:115 - bill not written, the worker ends: {bill_json(each)}"
        for each in (bill, replace(bill, id="b2", cost=0.125))
    ]
    text = "\n".join(["enter bill", *lines])
    page.new_chat()
    page.pick_model(builder.MAINTENANCE.title)
    page.driver.execute_script(PASTE, "#chat-input", text)
    page.send("")
    assert "They come to $0.125045" in page.wait_for_answer()
    page.screenshot("enter-bill")
    page.send("now")
    assert page.wait_for_answer().startswith("Done: enter bill.")
    page.screenshot("enter-bill-now")
    assert "there is nothing to do" in maintenance(f"{text}\nnow")


@pytest.mark.browser
def test_administrators_read_what_is_wrong_on_the_page(admin: Account, page: Browser, release: Path) -> None:
    """In the list of models, in /help and of the maintenance function; never a key."""
    good = admin.api.valves("openrouter")
    wrong = {"MODEL_FILTERS": "vison", "SPENDING_LIMITS": "usr: 2/day", "NEW_MODEL_ACCESS": "Staf"}
    maintenance = (release / "openrouter_maintenance.py").read_text("utf-8")
    admin.api.install_function("openrouter_maintenance", "OpenRouter maintenance", maintenance)
    admin.api.set_valves("openrouter", {**good, **wrong, "COST_LINE": "lots", "RETRY_SECONDS": "soon"})
    names = [model["name"] for model in admin.api.get("/api/models?refresh=true")["data"]]
    entry = next(name for name in names if name.startswith("OpenRouter: "))
    assert entry.startswith("OpenRouter: wrong SPENDING_LIMITS (usr: 2/day cannot be read")
    page.new_chat()
    page.click(By.ID, "model-selector-model-button")
    page.find(By.CSS_SELECTOR, f"[role=option][aria-label='Select {entry} model']")
    page.screenshot("settings-wrong-selector")
    for model, text, shot in (
        ("Anthropic: Claude Sonnet 4.5", "/help", "help"),
        ("Anthropic: Claude Sonnet 4.5", "/context", "context"),
        (entry, "What is wrong?", "entry"),
        ("OpenRouter maintenance", "settings", "maintenance"),
    ):
        page.new_chat()
        page.pick_model(model)
        page.send(text)
        said = page.wait_for_answer()
        page.screenshot(f"settings-wrong-{shot}")
        for line in (
            "vison is not known; did you mean vision?",
            "Staf is not known",
            "usr: 2/day cannot be read",
        ):
            assert line in said, shot
        assert session.STANDIN_KEY not in said
    assert "RETRY_SECONDS" in said
    admin.api.delete(f"{FUNCTIONS}/id/openrouter_maintenance/delete")
    admin.api.set_valves("openrouter", {**dict.fromkeys([*wrong, "COST_LINE", "RETRY_SECONDS"]), **good})


def store(host: OpenWebUI, table: str, column: str, value: object, where: str) -> None:
    """Write what no form has checked into the host's database."""
    with closing(sqlite3.connect(host.data / "webui.db", timeout=30)) as database, database:
        changed = database.execute(
            f'UPDATE "{table}" SET {column} = ? WHERE id = ?', (json.dumps(value), where)
        )
        assert changed.rowcount == 1


def test_whatever_is_stored_of_valves_everything_goes_on(host: OpenWebUI, admin: Account, text: str) -> None:
    """Wrong values of all valves: the list, a chat, /help and an update of the code work, and say what is wrong."""
    api, good = admin.api, admin.api.valves("openrouter")
    user = api.get("/api/v1/auths/")["id"]
    wrong = {name: [1] for name in Valves.model_fields if name not in {*good, *WITHHOLDING, "ADVANCED"}}
    advanced = {name: "abc" if name in Valves.model_fields else [1] for name in Advanced.model_fields}
    advanced = {name: value for name, value in advanced.items() if name not in WITHHOLDING}
    cases: list[tuple[dict[str, Any], str]] = [
        (wrong, ""),
        ({"ADVANCED": json.dumps(advanced)}, ""),
        ({"ADVANCED": "{"}, ""),
        ({"SPENDING_LIMITS": "usr: 2/day"}, ""),
        *(
            ({"ADVANCED": json.dumps({name: [1]})}, name)
            for name in WITHHOLDING
            if name in Advanced.model_fields
        ),
        ({"SPENDING_LIMITS": [1]}, "SPENDING_LIMITS"),
        ({"MODELS": [1]}, "MODELS"),
    ]
    own = {name: {"a": 1} for name in UserValves.model_fields if name != "API_KEY"}
    store(host, "user", "settings", {"functions": {"valves": {"openrouter": own}}}, user)
    for stored, withheld in cases:
        store(host, "function", "valves", {**good, **stored}, "openrouter")
        listed = [each for each in api.get("/api/models?refresh=true")["data"] if "pipe" in each]
        assert listed[0]["id"] == "openrouter.status"
        api.install_function("openrouter", "OpenRouter", text)
        if withheld == "MODELS":
            assert len(listed) == 1
            continue
        (_, helped), (_, answer) = admin.ask(CLAUDE, "/help"), admin.ask(CLAUDE, "Hello")
        assert "`REASONING_EFFORT`: it cannot be read." in helped["content"]
        is_object = stored.get("ADVANCED", "").endswith("}")
        first = next(iter(json.loads(stored["ADVANCED"]) if is_object else stored))
        assert f"`{first}`: " in helped["content"]
        assert (withheld in error_of(answer)) if withheld else ("You said: Hello" in answer["content"])
    store(host, "user", "settings", {"ui": {"showChangelog": False}}, user)
    store(host, "function", "valves", good, "openrouter")


# --- its models ---


def shown(account: Account) -> dict[str, Any]:
    """The pipe's models as the page gets them for this account, by their id."""
    models = account.api.get("/api/models?refresh=true")["data"]
    return {model["id"]: model for model in models if model["id"].startswith("openrouter.")}


@pytest.mark.browser
def test_models_have_rows_and_are_opened_to_everybody(
    host: OpenWebUI, admin: Account, tmp_path: Path
) -> None:
    """The administrator sees names, icons and tags at once; a user nothing, until one valve opens all models."""
    eve = host.add_user("eve")
    eve.api.post("/api/v1/users/user/settings/update", {"ui": {"showChangelog": False}})
    models = wait_until(lambda: all("info" in each for each in shown(admin).values()) and shown(admin))
    names = (CLAUDE, "openrouter.deepseek/deepseek-v3.2")
    claude, deepseek = (models[name]["info"]["meta"] for name in names)
    assert (claude["capabilities"]["vision"], deepseek["capabilities"]["vision"]) == (True, False)
    assert "out per million tokens" in claude["description"]
    assert {"name": "Anthropic"} in models[CLAUDE]["tags"]
    assert shown(eve) == {}
    admin.api.set_valves("openrouter", {"NEW_MODEL_ACCESS": "public", "MODEL_ACCESS_APPLIES_TO": "all"})
    shown(admin)  # the list is asked for, which sets off the pass
    wait_until(lambda: shown(eve).keys() == models.keys())
    for account, name in ((admin, "models-as-administrator"), (eve, "models-as-user")):
        with Browser(host.url, tmp_path / name) as page:
            page.log_in(account)
            page.click(By.ID, "model-selector-model-button")
            page.find(By.CSS_SELECTOR, "[role=option]")
            page.wait(partial(page.driver.execute_script, ICONS))
            page.screenshot(name)
            assert "Anthropic" in page.find(By.CSS_SELECTOR, "[role=listbox]").text
            page.driver.refresh()
            page.pick_model(models[CLAUDE]["name"])
            page.send("Good morning")
            assert "You said: Good morning" in page.wait_for_answer()


# --- shortcuts


def typed(page: Browser, text: str, enters: int) -> str:
    """Type a message and press Enter so often; the answer."""
    before, field = page.message_ids()[-1:], page.find(By.ID, "chat-input")
    field.send_keys(text)
    if enters > 1:
        page.find(By.ID, "suggestions-container")
    for left in reversed(range(enters)):
        assert page.message_ids()[-1:] == before
        page.find(By.ID, "chat-input").send_keys(Keys.ENTER)
        if left:  # the last one sends, and the page may still look for what begins like the text
            page.wait(lambda: not page.driver.find_elements(By.ID, "suggestions-container"))
    page.wait(lambda: page.message_ids()[-1:] != before)  # of a long chat the page shows the end alone
    return page.wait_for_answer()


@pytest.fixture
def maintenance(admin: Account, release: Path) -> Iterator[Callable[[str], str]]:
    """What OpenRouter maintenance answers to a command; the function is deleted after the test."""
    content = (release / f"{builder.MAINTENANCE.id}.py").read_text("utf-8")
    admin.api.install_function(builder.MAINTENANCE.id, builder.MAINTENANCE.title, content)
    admin.api.models()

    def ask(text: str) -> str:
        messages = [{"role": "user", "content": text}]
        return str(admin.complete(builder.MAINTENANCE.id, messages)["choices"][0]["message"]["content"])

    yield ask
    ask("uninstall shortcuts now")
    admin.api.delete(f"/api/v1/functions/id/{builder.MAINTENANCE.id}/delete")
    admin.api.models()


@pytest.mark.browser
def test_every_command_arrives_and_is_listed_once_it_is_installed(
    admin: Account, maintenance: Callable[[str], str], page: Browser, standin: StandIn
) -> None:
    """Typed bare; then picked from the page's list with one more Enter. None costs anything; a question names it."""
    page.log_in(admin)
    page.pick_model(NAME)
    standin.reset()
    answers = {name: typed(page, f"/{name}", 1) for name in (*COMMANDS, "foo")}
    assert "There is no command" in answers["foo"]
    assert all(answers.values())
    assert "Done" in maintenance("install now")
    page.new_chat()
    field = page.find(By.ID, "chat-input")
    field.send_keys("/")
    page.wait(lambda: "OpenRouter: " in page.find(By.ID, "suggestions-container").text)
    shown = page.find(By.ID, "suggestions-container").text.splitlines()
    assert {*COMMANDS} <= {*shown}
    page.screenshot("shortcuts-commands")
    field.send_keys(Keys.BACKSPACE)
    picked = {name: typed(page, f"/{name}", 2) for name in COMMANDS}
    assert picked["help"] == answers["help"]
    assert [request.path for request in standin.responses] == []
    page.send("What do otters eat?")
    page.wait_for_answer()
    page.wait(lambda: "Otters" in page.driver.title)
    maintenance("uninstall shortcuts now")
    page.new_chat()
    page.find(By.ID, "chat-input").send_keys("/")
    page.find(By.ID, "suggestions-container")
    assert "OpenRouter: " not in page.find(By.ID, "suggestions-container").text


@pytest.mark.browser
def test_a_user_switches_beside_the_message_field(
    host: OpenWebUI, admin: Account, maintenance: Callable[[str], str], page: Browser, standin: StandIn
) -> None:
    """Where it is installed, and for models that think; what is on holds for the messages that are sent meanwhile."""
    admin.api.set_valves("openrouter", {"NEW_MODEL_ACCESS": "public", "MODEL_ACCESS_APPLIES_TO": "all"})
    admin.api.models()
    user = host.add_user("switcher")
    user.api.post("/api/v1/users/user/settings/update", {"ui": {"showChangelog": False}})
    wait_until(lambda: MODEL in user.api.models())
    assert "Done" in maintenance("install now")
    assert {each["command"] for each in user.api.get("/api/v1/prompts/")} == {*COMMANDS}
    page.log_in(user)

    def switches(name: str) -> list[str]:
        page.new_chat()
        page.pick_model(name)
        page.click(*INTEGRATIONS)
        page.find(*SWITCHES)
        return [each.text for each in page.driver.find_elements(*SWITCHES) if each.text in NAMES]

    assert switches(PLAIN_NAME) == NAMES[-1:]
    assert switches(NAME) == NAMES
    for each in page.driver.find_elements(*SWITCHES):
        if each.text in NAMES[1:]:
            each.click()
    page.screenshot("shortcuts-menu")
    standin.reset()
    page.send("What is new about otters?")
    page.wait_for_answer()
    page.screenshot("shortcuts-on")
    page.resize(PHONE)
    page.screenshot("shortcuts-on-phone")
    page.resize()
    for name in NAMES[1:]:
        page.click(By.XPATH, f"//button[.//img[@alt='{name}']]")
    page.send("And seals?")
    page.wait_for_answer()
    bodies = [each.body for each in standin.responses if "session_id" in each.body]
    assert [body["reasoning"].get("effort") for body in bodies] == ["high", None]
    searches = [any("web_search" in tool["type"] for tool in body["tools"]) for body in bodies]
    assert searches == [True, False]
    maintenance("uninstall shortcuts now")
    page.new_chat()
    assert not [each for each in page.driver.find_elements(*SWITCHES) if each.text in NAMES]


@pytest.mark.browser
def test_openrouters_tools_are_switched_on_and_shown(
    admin: Account, maintenance: Callable[[str], str], page: Browser, standin: StandIn
) -> None:
    """Those that are allowed have switches; their calls are cards while they run, after a reload, and sent again."""
    allowed = {"advisor": "Advisor", "image_generation": "Draw", "shell": "Shell"}
    admin.api.set_valves("openrouter", {"SERVER_TOOLS": ", ".join(allowed), "COST_LINE": "cost"})
    assert "Done" in maintenance("install now")
    page.log_in(admin)
    page.pick_model(PLAIN_NAME)
    page.click(*INTEGRATIONS)
    page.find(*SWITCHES)
    shown = [each for each in page.driver.find_elements(*SWITCHES) if each.text in allowed.values()]
    assert [each.text for each in shown] == ["Advisor", "Draw", "Shell"]
    for each in shown:
        each.click()
    page.screenshot("tools-menu")
    standin.reset()
    orders = " ".join(f"[[standin: tool={name}]]" for name in ("shell", "image_generation", "advisor"))
    page.send(f"{orders} [[standin: delay=4]] [[standin: text=Done.]] Please.")
    page.wait(lambda: "shell" in page.last_message())
    page.screenshot("tools-running")
    page.wait_for_answer()
    page.wait_for_pictures(1)
    page.wait(lambda: "Advisor $0.016" in page.last_message())
    page.screenshot("tools-done")
    chat = page.driver.current_url
    page.driver.get(chat)
    page.wait_for_pictures(1)
    page.wait(lambda: "advisor" in page.last_message())
    for inside in ("advisor", "View Result from"):
        page.driver.find_elements(By.XPATH, f"//*[contains(text(), '{inside}')]")[-1].click()
    page.screenshot("tools-reloaded")
    page.resize(PHONE)
    page.screenshot("tools-phone")
    page.resize()
    page.send("Thank you.")
    page.wait_for_answer()
    page.screenshot("tools-next-turn")
    asked = [each for each in standin.responses if "session_id" in each.body]
    assert [each.status for each in asked] == [200, 200]
    kinds = [item["type"] for item in asked[1].body["input"] if item["type"].startswith("openrouter:")]
    assert kinds == ["openrouter:shell", "openrouter:image_generation", "openrouter:advisor"]
    maintenance("uninstall shortcuts now")


@pytest.mark.browser
def test_a_chat_keeps_a_model_that_is_gone(
    admin: Account, standin: StandIn, page: Browser, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list hides it, and it says which one to take; one that only draws does so with all of the host's tools."""
    gone = "openrouter.openai/gpt-4o"
    sent, _ = admin.ask(gone, "Good morning")
    wait_until(lambda: "info" in shown(admin)[gone])
    left = tuple(model for model in catalogue.MODELS if f"openrouter.{model.id}" != gone)
    monkeypatch.setattr(catalogue, "MODELS", left)
    session.install(admin.api, f"{text}\n", API_KEY=session.STANDIN_KEY, BASE_URL=standin.base_url)
    wait_until(lambda: shown(admin)[gone].get("info", {}).get("meta", {}).get("hidden"))
    standin.reset()
    page.open_chat(sent.chat_id)
    page.send("And now?")
    page.wait_for_text("is not offered any more since")
    page.screenshot("model-that-is-gone")
    assert "Take OpenAI: GPT-5" in page.last_answer()
    assert standin.responses == []
    page.click(By.ID, "model-selector-model-button")
    page.find(By.ID, "model-search-input").send_keys("GPT-4")
    page.wait(lambda: "GPT-4.1 Mini" in page.find(By.CSS_SELECTOR, "[role=listbox]").text)
    assert not re.search("GPT-4o(?! mini)", page.find(By.CSS_SELECTOR, "[role=listbox]").text)

    page.new_chat()
    page.pick_model("Stand-in: pictures only")
    page.send("A lighthouse at dusk")
    page.wait_for_pictures(1)
    page.screenshot("model-that-draws")
    assert ["tools" in each.body for each in standin.responses] == [False]
