"""The command line: what it shows of exports, and how it fails."""

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
from open_webui_openrouter_pipe.summaries.summary import summary_message
from open_webui_openrouter_pipe.turn.fit import Fitter, FitTerms
from open_webui_openrouter_pipe.valves import Valves
from tests.history.builders import CLAUDE, OPENAI, assistant, mark, reasoning, tool, tool_call, ulid, user
from tests.support.services import FakeServices, ShownNotices

_EXPORTS = Path(__file__).parents[1] / "data" / "exports"
_WEATHER = str(_EXPORTS / "weather.json")
_CHATS = str(_EXPORTS / "all.ndjson")
_ARTIFACTS = ("--artifacts", str(_EXPORTS / "weather_artifacts.json"))

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


def written(tmp_path: Path, value: Any) -> str:
    path = tmp_path / "export.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items with their turns and origins, missing artifacts, and repairs with the items that they changed."""
    assert (
        shown(capsys, written(tmp_path, _MESSAGES))
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
    """Artifacts stand beside their markers, and the repairs say what another family of models wrote."""
    assert shown(capsys, _WEATHER, "--turn", "3", *_ARTIFACTS, "--check") == (
        (_EXPORTS / "weather_turn_3.txt").read_text("utf-8")
    )


def test_the_page_shows_the_same_table() -> None:
    """The example of docs/development.md is what the command prints."""
    page = (Path(__file__).parents[2] / "docs" / "development.md").read_text("utf-8")
    assert (_EXPORTS / "weather_turn_3.txt").read_text("utf-8") in page


def test_lines_have_at_most_a_hundred_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the items hold."""
    lines = shown(capsys, _WEATHER, *_ARTIFACTS).splitlines()
    assert max(map(len, lines)) == 100


def test_json_holds_what_the_library_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Items, origins, missing artifacts and repairs come back from the text as they were."""
    report = json.loads(shown(capsys, written(tmp_path, _MESSAGES), "--json", "--model", OPENAI))
    built = build_input(read_history(_MESSAGES), {}, Options(model_id=OPENAI))
    origins = [
        {"message": at.message, "role": at.role, "marker": at.marker, "part": at.part} for at in built.origins
    ]
    del report["tokens"]
    repairs = report.pop("repairs")
    assert [(found["kind"], found["detail"]) for found in repairs] == [
        (repair.kind, repair.detail) for repair in built.repairs
    ]
    assert report == {
        "chat": {"id": "", "title": ""},
        "model": OPENAI,
        "items": built.items,
        "turns": [turn + 1 for turn in built.turns],
        "origins": origins,
        "messages": [f"#{index}" for index in range(len(_MESSAGES))],
        "missing": {
            ulid(1): {"kind": None, "reason": "missing"},
            ulid(2): {"kind": None, "reason": "missing"},
        },
    }


def test_turns_after_a_summary_keep_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers are those that --turn takes."""
    summarized = user("q2") | {"contextSummary": "They met."}
    export = written(tmp_path, [user("q1"), assistant("a1"), summarized])
    lines = shown(capsys, export).splitlines()
    assert lines[2] == "the host's summary stands for 1 earlier turns"
    assert lines[6].split() == ["1", "2", "5", "1", "user", "user:", "q2"]
    assert json.loads(shown(capsys, export, "--json"))["turns"] == [2, 2]


def test_a_summary_of_the_host_is_shown_as_the_engine_sends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one user message, with and without a window, and not a system message."""
    export = written(tmp_path, [user("q1"), assistant("a1"), user("q2") | {"contextSummary": "They met."}])
    report = json.loads(shown(capsys, export, "--json", "--window", "10000"))
    assert report["items"][0] == summary_message((), ["They met."])
    assert report["sent"] == report["items"]


def test_another_model_gets_no_reasoning_of_other_families(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--model decides which artifacts can be sent."""
    export = written(tmp_path, [user("q"), assistant(f"{mark(1)}\na")])
    artifacts = tmp_path / "artifacts.json"
    artifacts.write_text(json.dumps({ulid(1): {"item": reasoning("rs_1"), "model": OPENAI}}), "utf-8")
    options = ("--json", "--artifacts", str(artifacts), "--model")
    kinds = [
        [item["type"] for item in json.loads(shown(capsys, export, *options, model))["items"]]
        for model in (OPENAI, CLAUDE)
    ]
    assert kinds == [["message", "reasoning", "message"], ["message", "message"]]


def test_several_chats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One has to be chosen; the list is the output, the request an error."""
    assert main([_CHATS]) == 2
    assert capsys.readouterr() == (
        (_EXPORTS / "all.txt").read_text("utf-8"),
        "replay: the export has 2 chats: choose with --chat NUMBER, ID or TITLE\n",
    )
    titles = [chat["title"] for chat in json.loads(shown(capsys, _CHATS, "--json", code=2))]
    assert titles == ["New Chat", "The weather in Paris"]


def test_a_chosen_chat(capsys: pytest.CaptureFixture[str]) -> None:
    """It is shown as if it had been exported alone."""
    chosen = shown(capsys, _CHATS, "--chat", "The weather in Paris")
    assert chosen == shown(capsys, _WEATHER)


def test_a_window_shows_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the error output, as on the page: budget, steps, prefix breaks, what is shortened or omitted."""
    talk = [said for at in range(1, 17) for said in (user(f"q{at}"), assistant(f"a{at} " + "word " * 300))]
    export = written(tmp_path, [*talk, user("q4")])
    table = shown(capsys, export)
    assert main([export, "--window", "2000"]) == 0
    output = capsys.readouterr()
    page = (Path(__file__).parents[2] / "docs" / "development.md").read_text("utf-8")
    assert output.out == table
    assert f"```text\n{output.err}```" in page
    assert output.err.splitlines()[-2:] == [
        "items shortened: 9 (turns 6 to 14)",
        "items omitted: 10 (turns 1 to 5)",
    ]


def test_a_window_shows_what_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says of how many passages and turns; `sent` has the message that quotes them."""
    secret = "The password of the wifi is marmalade-otter-91."
    talk = [said for at in range(1, 40) for said in (user(f"q{at}"), assistant(f"a{at} " + "word " * 300))]
    export = written(
        tmp_path, [user("Remember this."), assistant(secret), *talk, user("Which wifi password?")]
    )
    sent = json.loads(shown(capsys, export, "--window", "8000", "--json"))["sent"]
    assert secret in str(sent[-2])
    assert main([export, "--window", "8000"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "passages of earlier turns quoted: 1 (turn 1)"


CHATS = {
    "long": [said for at in range(9) for said in (user(f"q{at}"), assistant(f"a{at} " + "word " * 400))],
    "with tools": [
        message
        for at in range(6)
        for message in (
            user(f"q{at}"),
            assistant("", tool_call(f"call_{at}")),
            tool(f"call_{at}", "row\n" * 600),
            assistant(f"a{at}"),
        )
    ],
    "with a summary of the host": [
        user("q1"),
        assistant("a1"),
        user("q2") | {"contextSummary": "They met."},
        assistant("word " * 1200),
        user("q3"),
        assistant("word " * 1200),
    ],
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"CONTEXT_STRATEGY": "prune", "TOOL_OUTPUT_RETENTION_TURNS": 3, "TOOL_OUTPUT_PRUNING": "every_turn"},
    {"CONTEXT_STRATEGY": "clip", "CLIP_LAST_MESSAGES": 2, "CLIP_MIN_MESSAGES": 3},
]


@pytest.mark.anyio
@pytest.mark.parametrize("settings", SETTINGS, ids=["defaults", "prune", "clip"])
@pytest.mark.parametrize("chat", CHATS)
async def test_sent_is_what_the_engine_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], chat: str, settings: dict[str, Any]
) -> None:
    """With the same window, prices and settings, item by item."""
    messages = [*CHATS[chat], user("and now?")]
    export = written(tmp_path, messages)
    valves = tmp_path / "settings.json"
    valves.write_text(json.dumps(settings), "utf-8")
    arguments = (export, "--json", "--window", "4000", "--model", OPENAI)
    sent = json.loads(shown(capsys, *arguments, "--settings", str(valves)))["sent"]

    state = chat_state(read_export(messages)[0])
    built = build_input(read_history(state.messages), {}, Options(model_id=OPENAI))
    terms = FitTerms(
        read_settings(Valves(**settings)).context, ModelTerms(OPENAI, 4000, prices=ASSUMED_PRICES)
    )
    fitter = Fitter(FakeServices().planner(), terms, RequestOrigin("user", "chat", "message", OPENAI))
    plan = await fitter.fit(built.conversation, ShownNotices())
    assert sent == list(plan.items)
    assert sent != built.items


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("[]", "is not a JSON object of settings"),
        ('{"CONTEXT_STRATEGIE": "prune", "A": 1}', "has unknown settings: A, CONTEXT_STRATEGIE"),
        (
            '{"CLIP_MIN_MESSAGES": 0}',
            "has a wrong value: ADVANCED: CLIP_MIN_MESSAGES takes a whole number, 1 or more",
        ),
        (
            '{"CONTEXT_STRATEGY": "shrink"}',
            "has a wrong value: CONTEXT_STRATEGY takes one of summarize, prune",
        ),
        ("{", "is not JSON"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, words: str
) -> None:
    """One line on the error output, and exit code 2."""
    path = tmp_path / "settings.json"
    path.write_text(settings, "utf-8")
    assert main([written(tmp_path, [user("q")]), "--window", "4000", "--settings", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"replay: {path} {words}")


def test_settings_need_a_window(tmp_path: Path) -> None:
    """Without one, nothing is planned."""
    with pytest.raises(SystemExit) as ended:
        main([written(tmp_path, [user("q")]), "--settings", "settings.json"])
    assert ended.value.code == 2


def test_a_chat_that_cannot_fit_its_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's own line, and exit code 2."""
    assert main([written(tmp_path, [user("word " * 5000)]), "--window", "4000"]) == 2
    assert "context_budget_exceeded" in capsys.readouterr().err


def test_check_shows_what_is_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An artifact that the schema refuses leads to exit code 1 and is named by its path."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "guess"}}
    export = written(tmp_path, [user("q"), assistant(f"{mark(1)}\na")])
    artifacts = tmp_path / "artifacts.json"
    artifacts.write_text(json.dumps({ulid(1): search}), "utf-8")
    options = (export, "--artifacts", str(artifacts), "--check")
    text = shown(capsys, *options, code=1)
    (issue,) = {line.split()[0] for line in text.partition("issues (")[2].splitlines()[1:]}
    assert issue.startswith("input[1].action")
    assert json.loads(shown(capsys, *options, "--json", code=1))["issues"]


def test_check_without_the_sdk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It cannot judge, and says what is missing."""
    monkeypatch.setitem(sys.modules, "openrouter.components.inputs_union", None)
    assert main([_WEATHER, "--check"]) == 2
    assert capsys.readouterr() == (
        "",
        "replay: --check needs OpenRouter's official SDK, which is not installed: pip install openrouter\n",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes in line 1"),
        ('{"a": 1}\n{"b"', "is not JSON: Expecting ':' delimiter in line 1"),
        ("", "is not JSON: Expecting value in line 1"),
        ('{"mapping": {}}', "This is not a chat of Open WebUI and not a list of messages."),
        ("[]", "The export is an empty list."),
        ("[" * 100_000, "is nested too deeply"),
        ("1" * 5_000, "is not JSON: not UTF-8, or with a number too long to read"),
        ('[{"role": "assistant", "content": ""}]', "There is nothing in this chat that could be sent."),
    ],
)
def test_broken_and_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    """One line on the error output, and exit code 2."""
    path = written(tmp_path, text)
    assert main([path]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err.removeprefix("replay: ").removeprefix(f"{path} ")) == ("", f"{words}\n")


def test_files_that_are_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, a folder, and bytes that are not UTF-8."""
    path = tmp_path / "bytes.json"
    path.write_bytes(b'"\xff"')
    codes = [main([str(wrong)]) for wrong in (tmp_path / "absent", tmp_path, path)]
    assert codes == [2, 2, 2]
    assert capsys.readouterr().err == (
        f"replay: {tmp_path}/absent cannot be read: No such file or directory\n"
        f"replay: {tmp_path} cannot be read: Is a directory\n"
        f"replay: {path} is not JSON: not UTF-8, or with a number too long to read\n"
    )


def test_a_byte_order_mark_does_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some editors write one."""
    assert "user: hello" in shown(capsys, written(tmp_path, "\ufeff" + json.dumps([user("hello")])))


def test_it_runs_as_a_module_without_open_webui() -> None:
    """Nothing of the host is imported, and the output is UTF-8 whatever the locale."""
    script = (
        "import sys; from open_webui_openrouter_pipe.replay.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit(code or any(name.split('.')[0] == 'open_webui' for name in sys.modules))"
    )
    for command in (["-m", "open_webui_openrouter_pipe.replay"], ["-c", script]):
        ran = subprocess.run(
            [sys.executable, *command, _WEATHER, "--turn", "3", *_ARTIFACTS, "--check"],
            cwd=Path(__file__).parents[2],
            env={"PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        expected = (_EXPORTS / "weather_turn_3.txt").read_bytes()
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, expected, b"")
