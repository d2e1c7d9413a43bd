"""A release in the real page: imported from a URL, from its JSON and pasted, updated, set back, and verified."""

from __future__ import annotations

import http.server
import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By

from open_webui_openrouter_pipe import __version__
from scripts import build
from scripts.bundle import builder, verifier
from scripts.harness.openwebui import OpenWebUI
from scripts.launch import pipe
from scripts.paths import PACKAGE
from tests.support.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.browser]

MODEL = "openrouter.openai/gpt-5.2"
ID_FIELD = "input[aria-label='Function ID']"
NAME_FIELD = "input[placeholder='Function Name']"
DESCRIPTION_FIELD = "input[placeholder='Function Description']"


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Keep the test's output clean."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release, all but its wheel."""
    links = {"author_url": "https://example.org"}
    return build.build(tmp_path_factory.mktemp("release"), links=links).parent


@pytest.fixture(scope="module")
def address(release: Path) -> Iterator[str]:
    """Where a web server of the test's own has the release."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(release)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def empty_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWebUI]:
    """An Open WebUI of these tests' own."""
    server = OpenWebUI(tmp_path_factory.mktemp("release-host"))
    yield server
    server.close()


@pytest.fixture
def page(empty_host: OpenWebUI, tmp_path: Path) -> Iterator[Browser]:
    """A browser in which the administrator looks at the functions; none is installed."""
    for function in empty_host.admin.api.get("/api/v1/functions/"):
        empty_host.admin.api.delete(f"/api/v1/functions/id/{function['id']}/delete")
    with Browser(empty_host.url, tmp_path / "profile") as browser:
        browser.log_in(empty_host.admin)
        browser.driver.get(f"{empty_host.url}/admin/functions")
        browser.find(By.CSS_SELECTOR, "button[aria-label='Open create menu']")
        yield browser


def choose(page: Browser, entry: str) -> None:
    """Choose an entry of the menu beside Create."""
    page.click(By.CSS_SELECTOR, "button[aria-label='Open create menu']")
    page.click(By.XPATH, f"//button[normalize-space()='{entry}']")


def fields(page: Browser) -> list[str]:
    """Id, name and description, as the editor shows them."""
    return [
        str(page.find(By.CSS_SELECTOR, field).get_attribute("value"))
        for field in (ID_FIELD, NAME_FIELD, DESCRIPTION_FIELD)
    ]


def save(page: Browser) -> None:
    """Save & Create, and confirm the warning; returns when the list of functions is shown."""
    page.click(By.XPATH, "//button[normalize-space()='Save & Create']")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.find(By.CSS_SELECTOR, "button[aria-label='Open create menu']")


def installed(host: OpenWebUI) -> dict[str, Any]:
    """The one function that is there."""
    [listed] = host.admin.api.get("/api/v1/functions/")
    function: dict[str, Any] = host.admin.api.get(f"/api/v1/functions/id/{listed['id']}")
    return function


def assert_as_built(function: dict[str, Any]) -> None:
    """Whatever the page did to the text, it verifies."""
    verdict = verifier.verify(function["content"], builder.read_package(PACKAGE))
    assert (verdict.faults, verdict.differing) == ((), ())


def test_importing_from_a_url(page: Browser, address: str, empty_host: OpenWebUI, standin: StandIn) -> None:
    """The file's name gives the id, its frontmatter the rest; switched on, with a key, it answers."""
    choose(page, "Import from URL")
    page.find(By.CSS_SELECTOR, "input[type=url]").send_keys(f"{address}/openrouter.py")
    page.click(By.XPATH, "//button[@type='submit' and normalize-space()='Import']")
    assert fields(page) == ["openrouter", builder.PIPE.title, builder.PIPE.description]
    page.screenshot("release-import-from-url")
    save(page)
    page.screenshot("release-list")
    function = installed(empty_host)
    manifest = function["meta"]["manifest"]
    assert (function["id"], function["type"], function["is_active"]) == ("openrouter", "pipe", False)
    assert (manifest["version"], manifest["author_url"]) == (__version__, "https://example.org")
    assert_as_built(function)
    empty_host.admin.api.post("/api/v1/functions/id/openrouter/toggle")
    empty_host.admin.api.set_valves(
        "openrouter", {"API_KEY": pipe.STANDIN_KEY, "BASE_URL": standin.base_url, "COST_LINE": "off"}
    )
    assert MODEL in empty_host.admin.api.models()
    assert empty_host.admin.ask(MODEL, "hello")[1]["content"]


def test_importing_the_json(page: Browser, release: Path, empty_host: OpenWebUI) -> None:
    """The file holds id, name and description; its text arrives to the byte."""
    page.driver.find_element(By.ID, "documents-import-input").send_keys(str(release / "openrouter.json"))
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.find(By.XPATH, f"//a[normalize-space()='{builder.PIPE.title}']")
    page.screenshot("release-import-json")
    function = installed(empty_host)
    assert (function["id"], function["name"]) == ("openrouter", builder.PIPE.title)
    assert function["meta"]["description"] == builder.PIPE.description
    assert function["content"] == (release / "openrouter.py").read_text("utf-8")


def paste(page: Browser, text: str) -> None:
    """Paste a text over what is in the editor of functions."""
    page.find(By.CSS_SELECTOR, ".cm-content")
    script = """
    const [text] = arguments, field = document.querySelector('.cm-content');
    field.focus();
    document.execCommand('selectAll');
    const data = new DataTransfer();
    data.setData('text/plain', text);
    field.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));
    """
    page.driver.execute_script(script, text)
    page.wait(lambda: fields(page)[0] != "")


def test_pasting(page: Browser, release: Path, empty_host: OpenWebUI) -> None:
    """The editor takes id, name and description from the text that is pasted over its example."""
    page.click(By.XPATH, "//button[normalize-space()='Create']")
    paste(page, (release / "openrouter.py").read_text("utf-8"))
    page.screenshot("release-paste")
    assert fields(page)[0] == "openrouter"
    assert fields(page)[2] == builder.PIPE.description
    save(page)
    function = installed(empty_host)
    assert function["id"] == "openrouter"
    assert_as_built(function)


def test_an_older_open_webui_installs_nothing(page: Browser, release: Path, address: str) -> None:
    """Where the file requires a newer Open WebUI, the page says so and installs nothing."""
    text = (release / "openrouter.py").read_text("utf-8")
    needy = text.replace(f"version: {builder.OLDEST_OPEN_WEBUI}", "version: 99.0.0")
    (release / "needy.py").write_text(needy, "utf-8")
    choose(page, "Import from URL")
    page.find(By.CSS_SELECTOR, "input[type=url]").send_keys(f"{address}/needy.py")
    page.click(By.XPATH, "//button[@type='submit' and normalize-space()='Import']")
    page.click(By.XPATH, "//button[normalize-space()='Save & Create']")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.find(By.XPATH, "//*[contains(text(), 'is lower than required version (v99.0.0)')]")
    page.screenshot("release-too-new")


def test_an_update_in_place_and_back(empty_host: OpenWebUI, release: Path, standin: StandIn) -> None:
    """Valves and chats stay when its text is replaced by a later release, of the readable kind, and back again."""
    api = empty_host.admin.api
    text = (release / "openrouter.py").read_text("utf-8")
    package = builder.read_package(PACKAGE)
    line = f'__version__ = "{__version__}"'
    newer = {
        **package.files,
        "__init__.py": package.files["__init__.py"].replace(line, '__version__ = "9.9.9"'),
    }
    other = builder.readable(builder.Package(package.name, "9.9.9", newer))
    api.install_function("openrouter", "OpenRouter", text)
    api.set_valves(
        "openrouter", {"API_KEY": pipe.STANDIN_KEY, "BASE_URL": standin.base_url, "COST_LINE": "off"}
    )
    api.models()
    sent, _ = empty_host.admin.ask(MODEL, "one")
    valves = api.valves("openrouter")
    for version, content in (("9.9.9", other), (__version__, text)):
        api.install_function("openrouter", "OpenRouter", content)
        assert installed_version(api) == version
        assert api.valves("openrouter") == valves
        sent, answer = empty_host.admin.ask(MODEL, f"go on with {version}", after=sent)
        assert not answer.get("error")
        assert not answer.get("statusHistory")
    reasoning = [item for item in standin.responses[-1].body["input"] if item["type"] == "reasoning"]
    assert len(reasoning) == 2


def installed_version(api: Any) -> str:
    """The version that the host shows for the function."""
    function = api.get("/api/v1/functions/id/openrouter")
    return str(json.loads(json.dumps(function))["meta"]["manifest"]["version"])
