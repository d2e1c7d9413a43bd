"""The single file: what it holds, and how several versions of it live in one process."""

from __future__ import annotations

import sys
import traceback
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from scripts.bundle import builder, loader
from scripts.check import REWRITTEN_BY_HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Write = Callable[[Mapping[str, str]], Path]

INIT = '''"""A package to bundle."""

from .pipe import Pipe

__version__ = "1.2.3"
__all__ = ["Pipe"]
'''

PIPE = '''"""The entry."""

from dataclasses import dataclass

from .inner.words import greeting


@dataclass(frozen=True, slots=True)
class Named:
    name: str


class Pipe:
    def greet(self, name: str) -> str:
        return greeting(Named(name).name)

    def greet_late(self) -> str:
        from .late import WORD

        return WORD

    def fail(self) -> None:
        raise ValueError("asked to fail")
'''

SOURCES = {
    "__init__.py": INIT,
    "pipe.py": PIPE,
    "late.py": 'WORD = "late one"\n',
    "inner/__init__.py": "",
    "inner/words.py": 'def greeting(name: str) -> str:\n    return f"Hello {name}"\n',
    "py.typed": "",
}

_NUMBERS = count()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a package of the given files under the name `sample` and returns its directory."""

    def _write(sources: Mapping[str, str]) -> Path:
        directory = tmp_path / str(next(_NUMBERS)) / "sample"
        for inner, text in sources.items():
            path = directory / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return directory

    return _write


@pytest.fixture(autouse=True)
def _forget_samples() -> Iterator[None]:
    """Leave the process as it was: no finder and no module of a sample."""
    yield
    for finder in [finder for finder in sys.meta_path if getattr(finder, "family", None) == "sample"]:
        sys.meta_path.remove(finder)
        loader.forget(finder.package)  # type: ignore[attr-defined]  # a finder of ours has it


def load(text: str) -> type[Any]:
    """Execute a function's text the way Open WebUI does, and return its Pipe."""
    module = ModuleType(f"function_sample_{next(_NUMBERS)}")
    sys.modules[module.__name__] = module
    try:
        exec(text, module.__dict__)
    finally:
        del sys.modules[module.__name__]
    pipe: type[Any] = module.Pipe
    return pipe


def finders() -> list[str]:
    """The package names of all sample versions that can still be imported."""
    return [finder.package for finder in sys.meta_path if getattr(finder, "family", None) == "sample"]  # type: ignore[attr-defined]  # a finder of ours has it


def greeting_in(word: str) -> dict[str, str]:
    """The sample's files with another greeting and another late word."""
    words = f'def greeting(name: str) -> str:\n    return f"{word} {{name}}"\n'
    return {**SOURCES, "inner/words.py": words, "late.py": f'WORD = "late {word}"\n'}


def test_a_bundle_runs_like_the_package(write: Write) -> None:
    """The Pipe of a bundle does what the package's does, late imports included."""
    pipe = load(builder.bundle(builder.read_package(write(SOURCES))))()
    assert (pipe.greet("Ada"), pipe.greet_late()) == ("Hello Ada", "late one")


def test_the_frontmatter_opens_the_file(write: Write) -> None:
    """The first line is the three quotes alone, and the fields follow as `key: value`."""
    text = builder.bundle(builder.read_package(write(SOURCES)))
    assert text.split("\n")[:8] == [
        '"""',
        "title: OpenRouter",
        "author: the open-webui-openrouter-pipe authors",
        "description: Every OpenRouter model, over the Responses API",
        "version: 1.2.3",
        "license: MIT",
        "required_open_webui_version: 0.11.4",
        '"""',
    ]


def test_the_same_tree_gives_the_same_bytes(write: Write) -> None:
    """Neither the directory nor the order in which files were written shows in the bundle."""
    backwards = dict(reversed(list(SOURCES.items())))
    first, second = (builder.bundle(builder.read_package(write(tree))) for tree in (SOURCES, backwards))
    assert first == second


def test_a_bundle_holds_nothing_that_the_host_would_rewrite(
    write: Write,
) -> None:
    """Even when the sources speak of imports that Open WebUI replaces, the bundle's text does not."""
    talkative = {**SOURCES, "late.py": "\n".join(f'"""taken {text}"""' for text in REWRITTEN_BY_HOST)}
    text = builder.bundle(builder.read_package(write(talkative)))
    assert [found for found in REWRITTEN_BY_HOST if found in text] == []


def test_an_update_takes_effect_while_old_calls_keep_their_code(
    write: Write,
) -> None:
    """After a second version is loaded the first answers as before, also from modules it imports late."""
    old = load(builder.bundle(builder.read_package(write(SOURCES))))()
    new = load(builder.bundle(builder.read_package(write(greeting_in("Bonjour")))))()
    assert [pipe.greet("Ada") for pipe in (old, new)] == ["Hello Ada", "Bonjour Ada"]
    assert [pipe.greet_late() for pipe in (old, new)] == ["late one", "late Bonjour"]


def test_loading_the_same_content_twice_gives_the_same_code(
    write: Write,
) -> None:
    """Open WebUI executes a content more than once; the modules are imported once."""
    text = builder.bundle(builder.read_package(write(SOURCES)))
    assert load(text) is load(text)


def test_old_versions_do_not_pile_up(write: Write) -> None:
    """Of many versions the newest two stay importable; nothing of the others remains in the tables."""
    texts = [builder.bundle(builder.read_package(write(greeting_in(str(number))))) for number in range(5)]
    pipes = [load(text)() for text in texts]
    kept = {type(pipe).__module__.partition(".")[0] for pipe in pipes[-2:]}
    assert set(finders()) == kept
    assert {name.partition(".")[0] for name in sys.modules if name.startswith("sample_")} == kept
    assert [pipe.greet("Ada") for pipe in pipes] == [f"{number} Ada" for number in range(5)]


def test_going_back_to_an_older_content_makes_it_the_newest(
    write: Write,
) -> None:
    """A content that is loaded again counts as new, so the next update does not throw it out."""
    first, second, third = (
        builder.bundle(builder.read_package(write(greeting_in(word)))) for word in ("A", "B", "C")
    )
    pipes = [load(text) for text in (first, second, first, third)]
    assert finders() == [pipe.__module__.partition(".")[0] for pipe in (pipes[2], pipes[3])]


def test_a_module_that_fails_to_load_may_be_loaded_later(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing dependency fails the first load alone; once it is there the same content works."""
    needy = {**SOURCES, "inner/words.py": "from absent_dependency import greeting\n"}
    text = builder.bundle(builder.read_package(write(needy)))
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        load(text)
    dependency = ModuleType("absent_dependency")
    dependency.__dict__["greeting"] = str.upper
    monkeypatch.setitem(sys.modules, "absent_dependency", dependency)
    assert load(text)().greet("Ada") == "ADA"


def test_tracebacks_show_file_and_line(write: Write) -> None:
    """The last frame names the module's path inside the package and shows the line that failed."""
    pipe = load(builder.bundle(builder.read_package(write(SOURCES))))()
    with pytest.raises(ValueError, match="asked to fail") as caught:
        pipe.fail()
    frame = traceback.extract_tb(caught.tb)[-1]
    assert frame.filename.partition("/")[2] == "pipe.py"
    assert frame.line == 'raise ValueError("asked to fail")'


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("late.py", "import sample.pipe\n", "late.py:1: imports sample by name; import relatively"),
        ("late.py", "\nfrom sample import x\n", "late.py:2: imports sample by name; import relatively"),
        ("table.json", "{}", "table.json: a bundle carries modules only"),
        ("__init__.py", '"""No version."""\n', "sample/__init__.py has no line __version__ = ..."),
    ],
)
def test_what_cannot_be_bundled_is_refused(write: Write, path: str, text: str, message: str) -> None:
    """The builder names the file, and the line where there is one."""
    with pytest.raises(builder.BuildError) as caught:
        builder.read_package(write({**SOURCES, path: text}))
    assert str(caught.value) == message


def test_the_stub_imports_the_installed_package(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package on the path the stub's Pipe is the package's own."""
    directory = write(SOURCES)
    monkeypatch.syspath_prepend(directory.parent)
    try:
        assert load(builder.stub(builder.read_package(directory))).__module__ == "sample.pipe"
    finally:
        loader.forget("sample")
