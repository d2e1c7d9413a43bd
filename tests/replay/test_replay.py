"""The command line: what it shows of exports, and how it fails; the table is in `exports.txt`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.ports import RequestOrigin
from open_webui_openrouter_pipe.replay.__main__ import ASSUMED_PRICES, main
from open_webui_openrouter_pipe.replay.exports import chat_state, read_export
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.turn.fit import Fitter, FitTerms
from open_webui_openrouter_pipe.valves import Valves
from tests.history.builders import OPENAI, assistant, mark, tool, tool_call, ulid, user
from tests.support.rows import rows
from tests.support.services import FakeServices, ShownNotices

_ROOT = Path(__file__).parents[2]
_EXPORTS = _ROOT / "tests" / "data" / "exports"
_WEATHER = str(_EXPORTS / "weather.json")
_CHATS = str(_EXPORTS / "all.ndjson")
_WEATHER_AT_TURN_3 = (
    *(_WEATHER, "--turn", "3", "--check"),
    *("--artifacts", str(_EXPORTS / "weather_artifacts.json")),
)

_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    user("Find it.\n\x1b[2Jnow"),
    assistant(
        f"{mark(1)}\nLet me look.\n{mark(2)}",
        tool_call("call_1", '{"q": 1}', "find it"),
        tool_call("call_2"),
    ),
    tool("call_1", "found"),
    assistant("Here it is. " * 20),
    {"role": "robot", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
]


def written(tmp_path: Path, value: Any, name: str = "export.json") -> str:
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def page() -> str:
    return (_ROOT / "docs" / "development.md").read_text("utf-8")


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items with their turns and origins, missing artifacts, and repairs with the items that they changed."""
    assert (
        shown(capsys, written(tmp_path, "\ufeff" + json.dumps(_MESSAGES)))
        == f"""\
chat without a title (no id)
for an unknown model: 6 messages -> 7 items, about 1,518 tokens

#  turn  tokens  from         repairs  item
0     1       5  0 system              system: Be brief.
1     1       9  1 user                user: Find it. [2Jnow
2     1       6  2 assistant           assistant: Let me look.
3     1      23  2 assistant  2        function_call find_it_8ca89c96 {{"q": 1}}
4     1      11  3 tool                function_call_output: found
5     1      61  4 assistant           assistant: Here it is. Here it is. Here it is. Here it is....
6     2    1403  5 robot      1        user: [input_image]

missing artifacts (2)
  {ulid(1)}  2 assistant  kind unknown  missing
  {ulid(2)}  2 assistant  kind unknown  missing

repairs (3)
  1  message    5 robot      unknown role, read as the user's
  2  call_name  2 assistant  'find it' is sent as find_it_8ca89c96
  3  call       2 assistant  a call without its output
"""
    )


def test_the_table_of_a_real_chat(capsys: pytest.CaptureFixture[str]) -> None:
    """Artifacts stand beside their markers, repairs say what other models wrote; docs/development.md shows it."""
    expected = (_EXPORTS / "weather_turn_3.txt").read_text("utf-8")
    assert shown(capsys, *_WEATHER_AT_TURN_3) == expected
    assert expected in page()
    assert max(map(len, shown(capsys, _WEATHER).splitlines())) == 100


def test_json_holds_what_the_library_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items, origins, missing artifacts and repairs come back from the text as they were."""
    report = json.loads(shown(capsys, written(tmp_path, _MESSAGES), "--json", "--model", OPENAI))
    built = build_input(read_history(_MESSAGES), {}, Options(model_id=OPENAI))
    assert report == {
        "chat": {"id": "", "title": ""},
        "model": OPENAI,
        "items": built.items,
        "turns": [turn + 1 for turn in built.turns],
        "tokens": report["tokens"],
        "origins": [origin._asdict() for origin in built.origins],
        "messages": [f"#{index}" for index in range(len(_MESSAGES))],
        "missing": {ulid(number): {"kind": None, "reason": "missing"} for number in (1, 2)},
        "repairs": [
            {"kind": repair.kind, "origin": repair.origin._asdict(), "detail": repair.detail}
            for repair in built.repairs
        ],
    }


def test_turns_after_a_summary_keep_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers are those that --turn takes."""
    summarized = user("q2") | {"contextSummary": "They met."}
    export = written(tmp_path, [user("q1"), assistant("a1"), summarized])
    lines = shown(capsys, export).splitlines()
    assert lines[2] == "the host's summary stands for 1 earlier turns"
    assert lines[6].split() == ["1", "2", "5", "1", "user", "user:", "q2"]
    assert json.loads(shown(capsys, export, "--json"))["turns"] == [2, 2]


def test_the_help_names_the_command_and_its_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are typed; the page has the same lines."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["--help"])
    usage = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
    assert usage == (
        "usage: python -m open_webui_openrouter_pipe.replay [-h] [--chat CHAT] [--turn N] [--model ID] "
        "[--window TOKENS] [--settings FILE] [--artifacts FILE] [--json] [--check] [--stream] EXPORT"
    )


def test_several_chats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One has to be chosen, which is shown as if it were alone; the list is the output, the request an error."""
    assert main([_CHATS]) == 2
    assert capsys.readouterr() == (
        (_EXPORTS / "all.txt").read_text("utf-8"),
        "replay: the export has 2 chats: choose with --chat NUMBER, ID or TITLE\n",
    )
    titles = [chat["title"] for chat in json.loads(shown(capsys, _CHATS, "--json", code=2))]
    assert titles == ["New Chat", "The weather in Paris"]
    assert shown(capsys, _CHATS, "--chat", "The weather in Paris") == shown(capsys, _WEATHER)


def test_a_window_shows_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the error output, as on the page: budget, steps, prefix breaks, what is shortened, omitted or quoted."""
    talk = [said for at in range(1, 40) for said in (user(f"q{at}"), assistant(f"a{at} " + "word " * 300))]
    export = written(tmp_path, [*talk[:32], user("q4")])
    table = shown(capsys, export)
    assert main([export, "--window", "2000"]) == 0
    output = capsys.readouterr()
    assert output.out == table
    assert f"```text\n{output.err}```" in page()
    assert output.err.splitlines()[-2:] == [
        "items shortened: none",
        "items omitted: 24 (turns 1 to 12)",
    ]
    secret = "The password of the wifi is marmalade-otter-91."
    chat = [user("Remember this."), assistant(secret), *talk, user("Which wifi password?")]
    assert main([written(tmp_path, chat), "--window", "8000", "--json"]) == 0
    output = capsys.readouterr()
    assert secret in str(json.loads(output.out)["sent"][-1])
    assert output.err.splitlines()[-1] == "passages of earlier turns quoted: 2 (turn 1)"


SETTINGS: list[dict[str, Any]] = [
    {},
    {"CONTEXT_STRATEGY": "prune", "CONTEXT_AIM": "thrifty"},
    {"CONTEXT_STRATEGY": "clip", "CLIP_LAST_MESSAGES": 2, "CLIP_MIN_MESSAGES": 3},
]


@pytest.mark.anyio
@pytest.mark.parametrize("settings", SETTINGS, ids=["defaults", "prune", "clip"])
async def test_sent_is_what_the_engine_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, Any]
) -> None:
    """With the same window, prices and settings, item by item; a summary of the host stays."""
    messages = [
        *(user("q1"), assistant("a1"), user("q2") | {"contextSummary": "They met."}),
        *(assistant("", tool_call("call_1")), tool("call_1", "row\n" * 600), assistant("word " * 1200)),
        *(user("q3"), assistant("word " * 1200), user("and now?")),
    ]
    files = written(tmp_path, messages), "--settings", written(tmp_path, settings, "settings.json")
    sent = json.loads(shown(capsys, *files, "--json", "--window", "4000", "--model", OPENAI))["sent"]
    state = chat_state(read_export(messages)[0])
    built = build_input(read_history(state.messages), {}, Options(model_id=OPENAI))
    model = ModelTerms(OPENAI, 4000, prices=ASSUMED_PRICES)
    terms = FitTerms(read_settings(Valves(**settings)).context, model)
    fitter = Fitter(FakeServices().planner(), terms, RequestOrigin("user", "chat", "message", OPENAI))
    plan = await fitter.fit(built.conversation(), ShownNotices())
    assert sent == list(plan.items)
    assert sent != built.items


def test_check_shows_what_is_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An artifact that the schema refuses leads to exit code 1 and is named by its path."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "guess"}}
    export = written(tmp_path, [user("q"), assistant(f"{mark(1)}\na")])
    options = export, "--artifacts", written(tmp_path, {ulid(1): search}, "artifacts.json"), "--check"
    text = shown(capsys, *options, code=1)
    (issue,) = {line.split()[0] for line in text.partition("issues (")[2].splitlines()[1:]}
    assert issue.startswith("input[1].action")
    assert json.loads(shown(capsys, *options, "--json", code=1))["issues"]


def test_check_without_the_sdk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not a dependency of the pipe: nothing is judged, and the line says what is missing."""
    monkeypatch.setitem(sys.modules, "openrouter.components.inputs_union", None)
    assert main([_WEATHER, "--check"]) == 2
    assert capsys.readouterr() == (
        "",
        "replay: --check needs OpenRouter's official SDK, which is not installed: pip install openrouter\n",
    )


_LONG_TEXTS = {
    "deeply nested": "[" * 100_000,
    "a long number": "1" * 5_000,
    "too long": json.dumps([user("word " * 5_000)]),
    "question": json.dumps([user("q")]),
}


@pytest.mark.parametrize(
    ("text", "words", "settings"), rows(Path(__file__).with_name("exports.txt"), "failures", _LONG_TEXTS)
)
def test_broken_and_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str, settings: Any
) -> None:
    """One line on the error output, and exit code 2."""
    export, values = written(tmp_path, text), written(tmp_path, settings, "settings.json")
    limits = () if settings is None else ("--window", "4000", "--settings", values)
    line = words.replace("EXPORT", export).replace("SETTINGS", values, words.startswith("SETTINGS"))
    assert main([export, *limits]) == 2
    output = capsys.readouterr()
    first, _, last = line.partition("...")
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert output.err.startswith(f"replay: {first}")
    assert last in output.err


def test_files_that_are_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, a folder, and bytes that are not UTF-8; settings that nothing is planned for."""
    path = tmp_path / "bytes.json"
    path.write_bytes(b'"\xff"')
    codes = [main([str(wrong)]) for wrong in (tmp_path / "absent", tmp_path, path)]
    assert codes == [2, 2, 2]
    assert capsys.readouterr().err == (
        f"replay: {tmp_path}/absent cannot be read: No such file or directory\n"
        f"replay: {tmp_path} cannot be read: Is a directory\n"
        f"replay: {path} is not JSON: not UTF-8, or with a number too long to read\n"
    )
    with pytest.raises(SystemExit, match="2"):
        main([_WEATHER, "--settings", "settings.json"])


def test_it_runs_as_a_module_without_open_webui() -> None:
    """Nothing of the host is imported, and the output is UTF-8 whatever the locale."""
    script = (
        "import sys; from open_webui_openrouter_pipe.replay.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit(code or any(name.split('.')[0] == 'open_webui' for name in sys.modules))"
    )
    for command in (["-m", "open_webui_openrouter_pipe.replay"], ["-c", script]):
        ran = subprocess.run(
            [sys.executable, *command, *_WEATHER_AT_TURN_3],
            cwd=_ROOT,
            env={"PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        expected = (_EXPORTS / "weather_turn_3.txt").read_bytes()
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, expected, b"")
