"""Recordings at the command line: the table, the results, one exchange, and what is no recording."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.openrouter.placeholders import Placeholders, Said
from open_webui_openrouter_pipe.replay.__main__ import NOT_REPLAYED, NOT_VALID, main
from open_webui_openrouter_pipe.replay.recordings import read_recording
from open_webui_openrouter_pipe.responses.effects import Decoder, Effect, parse_event
from open_webui_openrouter_pipe.responses.reducer import Reducer
from scripts.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CALL = {
    "type": "function_call",
    "id": "fc_1a2b3c4d",
    "call_id": "call_1a2b3c4d",
    "name": "n0xx",
    "arguments": "xx",
    "status": "completed",
}
LINE: dict[str, Any] = {
    "format": 1,
    "path": "responses",
    "seconds": 0.5,
    "request_headers": {},
    "request": {"model": "openai/gpt-5.2", "input": [{"type": "message", "role": "user", "content": "xxx"}]},
    "status": 200,
    "headers": {},
    "ending": "complete",
    "kind": None,
}
USAGE = {"input_tokens": 30, "output_tokens": 7, "cost": 0.0021}
RESPONSE = {"id": "gen-1-a2b3c4", "status": "completed", "output": [CALL], "usage": USAGE}
STREAMED = {**LINE, "events": [{"type": "response.completed", "response": RESPONSE}]}
WHOLE = {**LINE, "body": RESPONSE}
FAILED = {
    **LINE,
    "status": 429,
    "kind": "RateLimited",
    "body": {"error": {"code": 429, "message": "Rate limit exceeded: xxx"}},
}
LOST = {**LINE, "status": None, "ending": "ConnectError", "request": 9_000_000}
BROKEN = {**LINE, "ending": "closed", "events": [{"type": "response.output_text.delta", "delta": "xxx"}]}


RECORDINGS = sorted((ROOT / "tests" / "data" / "openrouter" / "recordings").glob("*.jsonl"))


def shown(
    path: Path, capsys: pytest.CaptureFixture[str], *lines: Any, options: tuple[str, ...] = (), code: int = 0
) -> str:
    file = path / "recording.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    assert main([str(file), *options]) == code
    return capsys.readouterr().out


def test_a_recording_is_a_table_of_its_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what a reader makes of each answer, and how a failure was classified."""
    table = shown(tmp_path, capsys, STREAMED, WHOLE, FAILED, LOST, BROKEN).splitlines()
    assert [" ".join(line.split()) for line in table] == [
        "# model sent status ended events answer tokens cost failure",
        "1 openai/gpt-5.2 1 200 complete 1 function_call 30+7 $0.002100",
        "2 openai/gpt-5.2 1 200 complete 0 function_call 30+7 $0.002100",
        "3 openai/gpt-5.2 1 429 complete 0 RateLimited",
        "4 0 - ConnectError 0",
        "5 openai/gpt-5.2 1 200 closed 1",
    ]


def test_one_exchange_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON with its result; a number that there is not is an error."""
    (exchange,) = json.loads(shown(tmp_path, capsys, FAILED, STREAMED, options=("--turn", "2", "--json")))
    items = [{"type": "function_call", "call_id": "call_1a2b3c4d"}]
    assert [{name: item[name] for name in ("type", "call_id")} for item in exchange["items"]] == items
    assert exchange["usage"]["cost"] == USAGE["cost"]
    assert exchange["request"] == LINE["request"]
    shown(tmp_path, capsys, STREAMED, options=("--turn", "2"), code=NOT_REPLAYED)


@pytest.mark.parametrize("line", [STREAMED, WHOLE])
def test_an_answer_becomes_a_stream_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: Any
) -> None:
    """Such as the tests of streams read; its events are those that were recorded."""
    decoder = Decoder()
    frames = decoder.feed(shown(tmp_path, capsys, line, options=("--stream",)).encode())
    assert decoder.done
    assert [parse_event(frame) for frame in frames] == STREAMED["events"]


def test_the_sdk_judges_what_was_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An input without faults has none, and a call without its result is one."""
    pytest.importorskip("openrouter")
    assert "issues: none" in shown(tmp_path, capsys, STREAMED, options=("--check",))
    faulty = {**STREAMED, "request": {**LINE["request"], "input": [CALL]}}
    assert "has no output" in shown(tmp_path, capsys, faulty, options=("--check",), code=NOT_VALID)


def test_another_version_is_refused_and_other_files_are_no_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than misread; a chat is still a chat."""
    shown(tmp_path, capsys, {**LINE, "format": 2}, options=(), code=NOT_REPLAYED)
    assert read_recording([{"role": "user", "content": "Hello"}]) is None
    assert read_recording([]) is None


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_each_recording_has_the_results_beside_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To keep another one, drop it there, with what `--json` prints without the requests once that was found right."""
    assert main([str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = json.loads(file.with_suffix(".json").read_text("utf-8"))
    for result, wanted in zip(printed, expected, strict=True):
        counted = {name: result["usage"][name] for name in wanted["usage"] or ()}
        assert {**result, "usage": counted or None, "request": None} == {**wanted, "request": None}


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_recorded_answer_is_read_the_same_wherever_its_bytes_are_cut(file: Path) -> None:
    """As over the network, byte by byte."""
    exchanges = read_recording([json.loads(line) for line in file.read_text("utf-8").splitlines()])
    assert exchanges
    for exchange in exchanges:
        decoder, reducer, effects = Decoder(), Reducer(), list[Effect]()
        for byte in exchange.as_stream().encode() if exchange.events else b"":
            for frame in decoder.feed(bytes([byte])):
                effects += reducer.feed(parse_event(frame))
        if exchange.events:
            assert [*effects, *reducer.close()][-1] == exchange.result()


def test_the_page_shows_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/report.md: its line is one, with nothing that would be replaced, and its table is that of the command."""
    page = (ROOT / "docs" / "report.md").read_text("utf-8")
    line, table = re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
    value = json.loads(line)
    assert value.keys() == STREAMED.keys()
    placeholders = Placeholders()
    assert placeholders.request(value["request"]) == value["request"]
    assert [placeholders.answer(event, Said({})) for event in value["events"]] == value["events"]
    assert shown(tmp_path, capsys, value).rstrip("\n") == table
