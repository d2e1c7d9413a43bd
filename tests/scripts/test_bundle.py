"""The single file of both kinds: what it holds, what becomes of a changed one, and several versions in one process."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.slash import COMMANDS
from open_webui_openrouter_pipe.errors import UpdateRefused
from open_webui_openrouter_pipe.host.model_rows import WRITTEN
from open_webui_openrouter_pipe.host.switches import AUTHOR, SWITCHES
from open_webui_openrouter_pipe.maintenance import pipe as maintenance
from open_webui_openrouter_pipe.maintenance import shortcuts
from open_webui_openrouter_pipe.maintenance.updates import check_file, check_signature, read_release
from scripts import build
from scripts.bundle import builder, loader, verifier
from scripts.bundle.builder import REWRITTEN_BY_HOST, BuildError, Package, pack, readable
from scripts.paths import PACKAGE, ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Write = Callable[[Package, builder.Function], str]

HERE = Path(__file__).parent
_PARTS = re.split(r"^=== (.+)\n", (HERE / "sample.txt").read_text("utf-8"), flags=re.MULTILINE)
FILES = dict(zip(_PARTS[1::2], _PARTS[2::2], strict=True))
"""A package with late imports, and with a text beside its modules."""

DAMAGED = "This copy of the file is damaged: its packed lines were cut off or changed"
KINDS = pytest.mark.parametrize("write", [pack, readable], ids=lambda write: write.__name__)
FUNCTIONS = pytest.mark.parametrize("function", [builder.PIPE, builder.MAINTENANCE], ids=lambda each: each.id)
_NUMBERS = count()


def sample(**texts: str) -> Package:
    """The sample with other texts in place of some of its modules."""
    return Package("sample", "1.2.3", {**FILES, **{f"{name}.py": text for name, text in texts.items()}})


def greeting_in(word: str) -> Package:
    """The sample with another greeting, another late word, and another text."""
    words = {"inner/words.py": FILES["inner/words.py"].replace("Hello", word), "inner/words.txt": word}
    return replace(sample(), files={**FILES, "late.py": f'WORD = "late {word} "\n', **words})


def load(text: str) -> type[Any]:
    """Execute a function's text the way Open WebUI does, with a file that is gone afterwards; return its Pipe."""
    module = ModuleType(f"function_sample_{next(_NUMBERS)}")
    sys.modules[module.__name__] = module
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "function")
            file.write_text(text, "utf-8", newline="")
            module.__dict__["__file__"] = str(file)
            exec(text, module.__dict__)
    finally:
        del sys.modules[module.__name__]
    pipe: type[Any] = module.Pipe
    return pipe


def finders() -> list[Any]:
    """The finders of all versions of a sample that can still be imported."""
    return [finder for finder in sys.meta_path if getattr(finder, "family", "").startswith("sample")]


@pytest.fixture(autouse=True)
def _forget_samples() -> Iterator[None]:
    """Leave the process as it was: no finder and no module of a sample."""
    yield
    for finder in finders():
        sys.meta_path.remove(finder)
        loader.forget(finder.package)


def write_folder(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files into a folder `sample`, and return it."""
    for inner, text in files.items():
        path = folder / "sample" / inner
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    return folder / "sample"


@KINDS
def test_a_bundle_runs_like_the_package(write: Write) -> None:
    """Its Pipe does what the package's does, with late imports, and with files read beside the modules.

    The order in which files were read does not show, and nothing that the host replaces is in the file.
    """
    text = write(sample(), builder.PIPE)
    pipe = load(text)()
    assert pipe.greet("Ada") == "Hello Ada"
    assert pipe.greet_late() == f"late one: {FILES['inner/words.txt']}"
    assert text == write(replace(sample(), files=dict(reversed(FILES.items()))), builder.PIPE)
    assert not [rewritten for rewritten in REWRITTEN_BY_HOST if rewritten in text]
    with pytest.raises(ValueError, match="asked to fail") as caught:
        pipe.fail()
    frame = traceback.extract_tb(caught.tb)[-1]
    assert (frame.filename.partition("/")[2], frame.lineno) == ("pipe.py", FILES["pipe.py"].count("\n"))
    assert frame.line == 'raise ValueError("asked to fail")'


def test_the_head_says_what_the_file_is() -> None:
    """Behind the three quotes alone come the fields that Open WebUI reads, then what this is and how to unpack it."""
    lines = pack(sample()).split("\n")[:17]
    assert lines.pop(8).startswith("icon_url: data:image/svg+xml;")
    head = (HERE / "head.txt").read_text("utf-8").replace("DIGEST", loader.digest_files(FILES))
    assert "\n".join(lines) == head


def test_the_modules_of_a_readable_file_stand_there_to_be_read() -> None:
    """Each text is in the file as it is, whatever quotes it holds; the page would lose one that is too large."""
    odd = 'PATTERN = r"\\d' + "'" * 3 + '+"  # \\n \u00e9\n'
    words = 'DOC = """a\n\tb"""\n'
    namespace: dict[str, Any] = {}
    exec(f"TEXT = {builder.quoted('late.py', odd)}", namespace)
    assert namespace["TEXT"] == odd
    text = readable(sample(late=odd, more=words))
    assert words in text
    assert odd.split("'''", maxsplit=1)[0] in text
    with pytest.raises(BuildError, match="characters, and the page takes 2,500,000"):
        readable(sample(late=f'WORD = "{"x" * builder.PAGE_CHARACTERS}"\n'))


def test_a_part_carries_what_it_imports() -> None:
    """The folder of a part, what it imports, the folders of that, and the other files in them; nothing else."""
    entry = "from ..inner.words import greeting\nfrom . import own\n\nclass Pipe:\n    say = staticmethod(greeting)\n"
    inner = ["inner/__init__.py", "inner/words.py", "inner/words.txt"]
    files = {"part/__init__.py": "", "part/own.py": "", "part/own.txt": "", "part/pipe.py": entry}
    function = builder.Function("sample_part", "Part", "A part", ".part.pipe")
    part = builder.part_of(replace(sample(), files={**FILES, **files}), function)
    assert (part.name, sorted(part.files)) == ("sample_part", ["__init__.py", *inner, *files])
    assert load(pack(part, function))().say("Ada") == "Hello Ada"
    whole = builder.part_of(replace(sample(), files={**FILES, **files}), builder.PIPE)
    assert sorted(whole.files) == sorted(FILES)
    texts = {"part/own.txt": "# head\nsaid = a\nother = b\nsaid_too = c\n", "part/more.txt": "other = d\n"}
    package = replace(sample(), files={**FILES, **files, **texts})
    part = builder.part_of(package, replace(function, lines=("said",)))
    assert [part.files.get(path) for path in texts] == ["said = a\nsaid_too = c\n", None]


def test_the_maintenance_function_carries_the_words_that_it_says() -> None:
    """What it installs is the same as from the whole package, in every language; it carries little else of the pipe."""
    text = pack(builder.part_of(builder.read_package(PACKAGE), builder.MAINTENANCE), builder.MAINTENANCE)
    loaded = sys.modules[load(text).__module__.replace(".pipe", ".shortcuts")]
    assert loaded is not shortcuts
    changing = {"id", "created_at", "updated_at"}

    def written(module: Any) -> list[dict[str, Any]]:
        rows = [*map(module._function, SWITCHES), *map(module._prompt, COMMANDS)]
        return [{key: value for key, value in row.items() if key not in changing} for row in rows]

    assert written(loaded) == written(shortcuts)
    assert len(text) < 110_000


def test_a_package_is_read_with_all_its_texts(tmp_path: Path) -> None:
    """Modules and other files come by their paths, but for the marker of types and what Python compiled."""
    folder = write_folder(tmp_path, {**FILES, "py.typed": "", "__pycache__/pipe.pyc": ""})
    assert builder.read_package(folder) == sample()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("late.py", "import sample.pipe\n", "late.py:1: imports sample by name; import relatively"),
        ("late.py", "\nfrom sample import x\n", "late.py:2: imports sample by name; import relatively"),
        ("table.bin", "\udcff", "table.bin: a bundle carries text alone"),
        *(("late.txt", f"# {text} x\n", f"late.txt:1: # {text} x") for text in REWRITTEN_BY_HOST),
        ("__init__.py", '"""No version."""\n', "sample/__init__.py has no line __version__ = ..."),
    ],
)
def test_what_cannot_be_bundled_is_refused(tmp_path: Path, path: str, text: str, message: str) -> None:
    """The builder names the file, and the line where there is one."""
    with pytest.raises(BuildError) as caught:
        builder.read_package(write_folder(tmp_path, {**FILES, path: text}))
    assert str(caught.value) == message


def test_a_damaged_packed_file_says_so() -> None:
    """Wherever its comments are cut off, and whatever of them is changed, also where the version runs already."""
    text = pack(sample())
    load(text)
    end = text.rindex(loader.PACKED)
    first, second, *_ = text[end:].splitlines()[1:]
    damaged = [text[:cut] for cut in range(end, len(text) - 1, 41)]
    changes = {
        first: second,
        f"{first}\n": "",
        second: second[:-1] + "~",
        loader.digest_files(FILES): "0" * 64,
    }
    for copy in (*damaged, *(text.replace(*change) for change in changes.items())):
        with pytest.raises(ImportError, match=rf"{DAMAGED}\. Take the whole file again"):
            load(copy)


def test_what_editors_do_to_a_packed_file_is_no_damage() -> None:
    """Line ends of Windows, and blanks at them, change nothing."""
    text = pack(sample())
    for changed in (text.replace("\n", "\r\n"), text.replace("\n#", "  \n#"), f"{text}\n\n", text.rstrip()):
        assert load(changed)().greet("Ada") == "Hello Ada"
        assert verifier.verify(changed, sample()).faults == ()


def test_an_edited_readable_copy_runs_and_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """An edit takes effect; the log tells of it, and whoever verifies the file hears what differs."""
    text = readable(sample())
    edited = text.replace("Hello", "Howdy")
    assert load(text)().greet("Ada") == "Hello Ada"
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        assert load(edited)().greet("Ada") == "Howdy Ada"
    [line] = caplog.messages
    assert line.startswith("sample is not as it was built: its modules were changed")
    verdict = verifier.verify(edited, sample())
    assert [fault.partition(":")[0] for fault in verdict.faults] == ["its files were changed"]
    assert verdict.differing == ("inner/words.py",)


def test_a_packed_file_unpacks_itself(tmp_path: Path) -> None:
    """A Python without packages writes the very files and runs none, into a new folder, and from no damaged copy."""

    def run(text: str, *arguments: str) -> str:
        (tmp_path / "openrouter.py").write_text(text, "utf-8")
        command = [sys.executable, "-I", "-S", "openrouter.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert bool(done.returncode) == bool(done.stderr)
        return done.stdout + done.stderr

    package = sample(__init__='raise SystemExit("it ran")\n')
    text = pack(package)
    assert run(text, "unpack", "here").startswith("6 files with the digest ")
    folder = tmp_path / "here" / "sample"
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths} == package.files
    assert "File exists" in run(text, "unpack", "here")
    assert run(text[:-9], "unpack", "there").startswith(f"error: {DAMAGED}")
    assert run(text) == "usage: python openrouter.py unpack FOLDER\n"


@KINDS
@FUNCTIONS
def test_a_file_verifies_until_it_is_changed(write: Write, function: builder.Function) -> None:
    """Other files and another loader are distinguished, and the files that differ are named."""
    package = builder.read_package(PACKAGE)
    part = builder.part_of(package, function)
    text = write(part, function)
    verdict = verifier.verify(text, package)
    digest = loader.digest_files(part.files)
    assert verdict == verifier.Verdict(package.version, digest, len(part.files), faults=(), differing=())
    assert verifier.verify(json.dumps([{"id": function.id, "content": text}]), package) == verdict
    other = replace(part, files={**part.files, "history/markers.py": ""})
    assert verifier.verify(write(other, function), package).differing == ("history/markers.py",)
    changes = {"KEPT_VERSIONS = 2": "KEPT_VERSIONS = 3", "license: MIT": "license: MIT\nrequirements: other"}
    for old, new in changes.items():
        changed = verifier.verify(text.replace(old, new, 1), package)
        assert [fault.partition(" ")[0] for fault in changed.faults] == ["what"]
    linked = replace(part, links=dict.fromkeys(builder.LINKS, "https://example.org"))
    assert verifier.verify(write(linked, function), package).faults == ()


@pytest.mark.parametrize("text", ["[]", '[{"id": "x"}]', "def", "x = 1\n", '[{"content": "x = 1"}, {}]'])
def test_what_is_no_single_file_is_not_judged(text: str) -> None:
    """Another file or export is an error, and not a fault."""
    with pytest.raises(BuildError):
        verifier.verify(text, sample())


@KINDS
def test_a_release_holds_what_can_be_imported(tmp_path: Path, write: Write) -> None:
    """The files are named by the functions' ids, which Open WebUI takes from them; the JSON holds the same text."""
    links = {"git_url": "https://example.org"}
    written = build.build(tmp_path, write=write, links=links)
    build.write_manifest(tmp_path, links=links)
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    functions = [f"openrouter{part}.{kind}" for kind in ("json", "py") for part in ("", "_maintenance")]
    assert names == sorted(["manifest.json", *functions, "pip/openrouter.py"])
    for name in ("openrouter", "openrouter_maintenance"):
        [function] = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert function["id"] == name
        assert function["content"] == (tmp_path / f"{name}.py").read_text("utf-8")
        assert function["meta"]["manifest"]["git_url"] == "https://example.org"
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert manifest["files"]["openrouter.py"]["bytes"] == written.stat().st_size
    assert sorted(manifest["files"]) == names[1:]
    assert write is readable or max(file["bytes"] for file in manifest["files"].values()) < 700_000


def test_the_command_judges_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what the file is, and ends with 0 only for one that is as it was built."""
    written = build.build(tmp_path)
    text = written.read_text("utf-8")
    monkeypatch.setattr(sys, "argv", ["build", "--verify", str(written)])
    for content, code, said in (
        (text, 0, "  as it was built\n  the same files as in this tree"),
        (text.replace("KEPT_VERSIONS = 2", "KEPT_VERSIONS = 3"), 1, "NOT as it was built"),
        (text[:-200], 1, f"error: {DAMAGED}"),
        ("x = 1\n", 1, "error: this is not a single file"),
    ):
        written.write_text(content, "utf-8")
        assert build.main() == code
        assert said in "".join(capsys.readouterr())


def test_a_signed_release_is_built_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The maintenance function takes both files with the public key that the command prints, and nothing cut off."""
    key, release = tmp_path / "key.pem", tmp_path / "release"
    monkeypatch.setattr(sys, "argv", ["build", "--new-key", str(key)])
    assert build.main() == 0
    public_key = capsys.readouterr().out.strip()
    build.build(release)
    path = build.sign(release, key, changelog="- New.", version=builder.read_package(PACKAGE).version)
    signed = read_release(path.read_text("utf-8"))
    check_signature(signed, public_key)
    for name in ("openrouter.py", "openrouter_maintenance.py"):
        content = (release / name).read_bytes()
        assert check_file(name, content, signed) == content.decode()
        with pytest.raises(UpdateRefused):
            check_file(name, content[:-1], signed)
    assert build.main() == 1
    assert "the key cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["files", pytest.param("whole", marks=pytest.mark.index)])
def test_a_release_is_the_same_bytes_wherever_it_is_built(tmp_path: Path, kind: str) -> None:
    """From two copies of the tree, with hashes of other seeds; signed with the key that the environment names."""
    key = tmp_path / "key.pem"
    public_key = build.new_key(key)
    command = ["-m", "scripts.build"]
    if kind == "files":  # without a wheel, for which the package index is asked
        code = "from scripts import build; build.build_wheel = lambda _: None; raise SystemExit(build.main())"
        command = ["-c", code]
    found = []
    for seed, name in (("1", "a"), ("2", "elsewhere/b")):
        tree = tmp_path / name
        for part in (PACKAGE.name, "scripts", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            tree.mkdir(parents=True, exist_ok=True)
            copy(ROOT / part, tree / part)
        (tree / VENV.name).symlink_to(VENV)
        variables = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            build.KEY_VARIABLE: str(key),
            "PYTHONPATH": str(tree),
        }
        subprocess.run([sys.executable, *command], cwd=tree, env=variables, check=True, capture_output=True)
        files = [path for path in sorted((tree / "dist").rglob("*")) if path.is_file()]
        found.append({path.relative_to(tree / "dist").as_posix(): path.read_bytes() for path in files})
    assert found[0] == found[1]
    check_signature(read_release(found[0]["update.json"].decode()), public_key)
    assert sum(name.endswith(".whl") for name in found[0]) == (kind == "whole")


@pytest.mark.index
def test_the_wheel_is_built_beside_the_files(tmp_path: Path) -> None:
    """One wheel of this version, in place of older ones."""
    (tmp_path / "open_webui_openrouter_pipe-0.0.1-py3-none-any.whl").touch()
    build.build_wheel(tmp_path)
    name = f"open_webui_openrouter_pipe-{builder.read_package(PACKAGE).version}-py3-none-any.whl"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_maintenance_knows_the_pipe_by_its_frontmatter() -> None:
    """Its author and title are those that the builder writes; what it reads of models' rows is what the pipe writes."""
    assert shortcuts.MARK == WRITTEN
    assert (builder.AUTHOR, builder.PIPE.title) == (AUTHOR, maintenance.TITLE)


def test_the_stub_imports_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package on the path the stub's Pipe is the package's own."""
    monkeypatch.syspath_prepend(write_folder(tmp_path, FILES).parent)
    try:
        assert load(builder.stub(sample())).__module__ == "sample.pipe"
    finally:
        loader.forget("sample")


def test_an_update_takes_effect_while_old_calls_keep_their_code() -> None:
    """After a second version is loaded the first answers as before, also from what it imports and reads late."""
    pipes = [load(pack(greeting_in("Hello")))(), load(readable(greeting_in("Bonjour")))()]
    assert [pipe.greet("Ada") for pipe in pipes] == ["Hello Ada", "Bonjour Ada"]
    assert [pipe.greet_late() for pipe in pipes] == ["late Hello Hello", "late Bonjour Bonjour"]


def test_old_versions_do_not_pile_up() -> None:
    """Of many versions the newest two stay importable; nothing of the others remains in the tables."""
    pipes = [load(pack(greeting_in(str(number))))() for number in range(5)]
    kept = {type(pipe).__module__.partition(".")[0] for pipe in pipes[-2:]}
    assert {finder.package for finder in finders()} == kept
    assert {name.partition(".")[0] for name in sys.modules if name.startswith("sample_")} == kept
    assert [pipe.greet("Ada") for pipe in pipes] == [f"{number} Ada" for number in range(5)]


def test_going_back_to_an_older_content_makes_it_the_newest() -> None:
    """A content that is loaded again, from a file of either kind, is not what the next update throws out."""
    first, second, third = (greeting_in(word) for word in ("A", "B", "C"))
    pipes = [load(text) for text in (pack(first), pack(second), readable(first), pack(third))]
    assert pipes[2] is pipes[0]
    kept = [pipe.__module__.partition(".")[0] for pipe in pipes[2:]]
    assert [finder.package for finder in finders()] == kept


def test_a_module_that_fails_to_load_may_be_loaded_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing dependency fails the first load alone; once it is there the same content works."""
    text = pack(sample(late="", pipe="from absent_dependency import Pipe\n"))
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        load(text)
    dependency = ModuleType("absent_dependency")
    dependency.__dict__["Pipe"] = str
    monkeypatch.setitem(sys.modules, "absent_dependency", dependency)
    assert load(text) is str
