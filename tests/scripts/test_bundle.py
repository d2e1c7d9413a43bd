"""The single file: what it holds, and how several versions of it live in one process."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.maintenance import pipe as maintenance
from scripts import build
from scripts.bundle import builder, loader, verifier
from scripts.bundle.builder import REWRITTEN_BY_HOST
from scripts.paths import PACKAGE

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
    lines = text.split("\n")[:10]
    assert lines.pop(8).startswith("icon_url: data:image/svg+xml;")
    assert lines == [
        '"""',
        "title: OpenRouter",
        "id: openrouter",
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


def test_the_modules_stand_there_to_be_read(write: Write) -> None:
    """Each text is in the file as it is, whatever quotes it holds."""
    odd = 'PATTERN = r"\\d' + "'" * 3 + '+"  # \\n \u00e9\n'
    words = SOURCES["inner/words.py"] + 'DOC = """a\n\tb"""\n'
    package = builder.read_package(write({**SOURCES, "late.py": odd, "inner/words.py": words}))
    namespace: dict[str, Any] = {}
    exec(f"TEXT = {builder.quoted('late.py', odd)}", namespace)
    assert namespace["TEXT"] == odd
    assert words in builder.bundle(package)
    assert odd.split("'''", maxsplit=1)[0] in builder.bundle(package)


def test_a_file_that_is_too_large_for_the_page_is_refused(write: Write) -> None:
    """Browsers keep only so much for a tab, and the page would lose the file without a word."""
    huge = {**SOURCES, "late.py": f'WORD = "{"x" * builder.PAGE_CHARACTERS}"\n'}
    with pytest.raises(builder.BuildError, match="characters, and the page takes 2,500,000"):
        builder.bundle(builder.read_package(write(huge)))


def test_the_log_says_when_a_copy_was_changed(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    """What an administrator edits takes effect, and the log names the digest that it no longer has."""
    text = builder.bundle(builder.read_package(write(SOURCES)))
    assert load(text)().greet("Ada") == "Hello Ada"
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        assert load(text.replace("Hello", "Howdy"))().greet("Ada") == "Howdy Ada"
    [line] = caplog.messages
    assert line.startswith("sample is not as it was built: its modules were changed")


def test_a_part_carries_what_it_imports(write: Write) -> None:
    """The folder of a part, what it imports, and the folders of that; nothing else."""
    entry = "from ..inner.words import greeting\nfrom . import own\n\nclass Pipe:\n    say = staticmethod(greeting)\n"
    sources = {**SOURCES, "part/__init__.py": "", "part/pipe.py": entry, "part/own.py": ""}
    part = builder.part_of(builder.read_package(write(sources)), ".part.pipe")
    inner = ["inner/__init__.py", "inner/words.py", "part/__init__.py", "part/own.py", "part/pipe.py"]
    assert (part.name, sorted(part.sources)) == ("sample_part", ["__init__.py", *inner])
    function = builder.Function("sample_part", "Part", "A part", ".part.pipe")
    try:
        assert load(builder.bundle(part, function))().say("Ada") == "Hello Ada"
    finally:
        for finder in [each for each in sys.meta_path if getattr(each, "family", None) == part.name]:
            sys.meta_path.remove(finder)
            loader.forget(finder.package)  # type: ignore[attr-defined]  # a finder of ours has it


@pytest.mark.parametrize("function", [builder.PIPE, builder.MAINTENANCE], ids=lambda function: function.id)
def test_a_file_verifies_until_it_is_changed(function: builder.Function) -> None:
    """Changed modules and a changed loader are distinguished, and the modules that differ are named."""
    package = builder.read_package(PACKAGE)
    part = builder.part_of(package, function.entry) if function.entry else package
    text = builder.bundle(part, function)
    verdict = verifier.verify(text, package)
    assert (verdict.version, verdict.faults, verdict.differing) == (package.version, (), ())
    assert verifier.verify(json.dumps([{"id": function.id, "content": text}]), package) == verdict
    changed = verifier.verify(text.replace("Owns their encoding", "Owned their encoding"), package)
    assert [fault.partition(":")[0] for fault in changed.faults] == ["its modules were changed"]
    assert changed.differing == ("history/markers.py",)
    other_loader = verifier.verify(text.replace("KEPT_VERSIONS = 2", "KEPT_VERSIONS = 3", 1), package)
    assert [fault.partition(" ")[0] for fault in other_loader.faults] == ["what"]
    requiring = verifier.verify(text.replace("license: MIT", "license: MIT\nrequirements: other", 1), package)
    assert [fault.partition(" ")[0] for fault in requiring.faults] == ["what"]
    linked = builder.bundle(
        replace(part, links=dict.fromkeys(builder.LINKS, "https://example.org")), function
    )
    assert verifier.verify(linked, package).faults == ()


@pytest.mark.parametrize("text", ["[]", '[{"id": "x"}]', "def", "x = 1\n", '[{"content": "x = 1"}, {}]'])
def test_what_is_no_single_file_is_not_judged(text: str) -> None:
    """Another file or export is an error, and not a fault."""
    with pytest.raises(builder.BuildError):
        verifier.verify(text, builder.Package("sample", "1", {}))


def test_a_release_holds_what_can_be_imported(tmp_path: Path) -> None:
    """The files are named by the functions' ids, which Open WebUI takes from them; the JSON holds the same text."""
    links = {"git_url": "https://example.org"}
    written = build.build(target=tmp_path, links=links)
    build.write_manifest(tmp_path, links=links)
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert names == [
        "manifest.json",
        "openrouter.json",
        "openrouter.py",
        "openrouter_maintenance.json",
        "openrouter_maintenance.py",
        "pip/openrouter.py",
    ]
    for name in ("openrouter", "openrouter_maintenance"):
        [function] = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert function["id"] == name
        assert function["content"] == (tmp_path / f"{name}.py").read_text("utf-8")
        assert function["meta"]["manifest"]["git_url"] == "https://example.org"
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert manifest["files"]["openrouter.py"]["bytes"] == written.stat().st_size
    assert sorted(manifest["files"]) == names[1:]


def test_the_command_judges_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what the file is, and ends with 0 only for one that is as it was built."""
    written = build.build(target=tmp_path)
    monkeypatch.setattr(sys, "argv", ["build", "--verify", str(written)])
    assert build.main() == 0
    assert "as it was built" in capsys.readouterr().out
    written.write_text(
        written.read_text("utf-8").replace("Owns their encoding", "Owned their encoding"), "utf-8"
    )
    assert build.main() == 1
    assert "NOT as it was built" in capsys.readouterr().out
    written.write_text("x = 1\n", "utf-8")
    assert build.main() == 1
    assert "error: this is not a single file" in capsys.readouterr().err


@pytest.mark.index
def test_the_wheel_is_built_beside_the_files(tmp_path: Path) -> None:
    """One wheel of this version, in place of older ones."""
    (tmp_path / "open_webui_openrouter_pipe-0.0.1-py3-none-any.whl").touch()
    build.build_wheel(tmp_path)
    version = builder.read_package(PACKAGE).version
    assert [path.name for path in tmp_path.iterdir()] == [
        f"open_webui_openrouter_pipe-{version}-py3-none-any.whl"
    ]


def test_maintenance_knows_the_pipe_by_its_frontmatter() -> None:
    """Its author and title are those that the builder writes."""
    assert (builder.AUTHOR, builder.PIPE.title) == (maintenance.AUTHOR, maintenance.TITLE)


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
        *(("late.py", f"# {text} x\n", f"late.py:1: # {text} x") for text in REWRITTEN_BY_HOST),
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
