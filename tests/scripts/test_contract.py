"""The command that compares OpenRouter with the stand-in: what it finds, what it spends, and when it does not begin.

The service is here another stand-in, behind a server that changes a handful of its answers.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.ports import Model
from scripts import contract
from scripts.exchanges.cases import CASES, Case, Question
from scripts.exchanges.models import Need, cheapest
from scripts.exchanges.run import Purse
from scripts.exchanges.run import run as run_cases
from scripts.exchanges.shape import Shape
from scripts.standin import StandIn
from scripts.standin.server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request

    from scripts.exchanges.service import Service

KEY = "sk-or-v1-of-the-account"
Json = dict[str, Any]
Change = Callable[[Json, Json], Json]
"""From a request and a JSON value of its answer to another one."""


class Changed(LoopbackServer):
    """A service that answers as a stand-in does, but for what `change` makes of each JSON value and status."""

    def __init__(
        self,
        standin: StandIn,
        change: Change = lambda _, value: value,
        statuses: dict[str, int] | None = None,
    ) -> None:
        self._change, self._statuses, self._target = change, statuses or {}, standin.url
        self.requests = 0
        super().__init__(Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])]))
        self.base_url = f"{self.url}/api/v1"

    async def _answer(self, request: Request) -> Response:
        self.requests += 1
        content = await request.body()
        address = f"{self._target}{request.url.path}?{request.url.query}"
        kept = {
            name: value
            for name, value in request.headers.items()
            if name.startswith(("x-", "auth", "content-type"))
        }
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.request(request.method, address, content=content, headers=kept)
        asked = json.loads(content) if content else {"path": request.url.path}
        kind = answer.headers["content-type"]
        if kind.startswith("text/event-stream"):
            text = "\n".join(self._line(asked, line) for line in answer.text.split("\n"))
        else:
            text = json.dumps(self._change(asked, answer.json()))
        headers = {name: value for name, value in answer.headers.items() if name == "x-generation-id"}
        status = self._statuses.get(asked.get("model", ""), answer.status_code)
        return Response(text, status, headers, media_type=kind)

    def _line(self, asked: Json, line: str) -> str:
        if not line.startswith("data: {"):
            return line
        return f"data: {json.dumps(self._change(asked, json.loads(line.removeprefix('data: '))))}"


def another(asked: Json, value: Json) -> Json:
    """Five differences, and one in wording alone, which is none."""
    model, response = asked.get("model", ""), value.get("response", value)
    if model.startswith("x-ai/") and response.get("usage"):
        response["usage"]["cost"] *= 1.1
    if asked.get("session_id") == "contract" and response.get("usage"):
        response["usage"]["input_tokens_details"]["cached_tokens"] = 0
    if asked.get("path", "").endswith("/key") and "data" in value:
        del value["data"]["limit_reset"]
    if asked.get("temperature") == 3:
        value["error"]["metadata"] = {"provider_name": "OpenAI"}
    if "error" in value and "Duplicate output" in str(value["error"]):
        value["error"]["message"] = "There is a second output for this call."
    return value


EXPECTED = {
    "reasoning xai": [
        f"exchange {number}: bill: not as listed there, as listed here" for number in (1, 2, 3)
    ],
    "cache_control, second": [
        "bill: not as listed there, as listed here",
        "fields only here: read from the cache",
    ],
    "the key": ["fields only here: limit_reset"],
    "unknown model": ["status: 422 there, 400 here"],
    "too hot": ["fields only there: error.metadata, error.metadata.provider_name"],
}


@dataclass
class Outcome:
    """What the command ended with, printed and wrote."""

    code: int
    out: str
    err: str
    written: Json = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        return {row["case"]: row["verdict"] for row in self.written["cases"]}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Runs the command with a key, as from a terminal that says yes, if it is asked."""
    monkeypatch.setenv(contract.KEY_VARIABLE, KEY)

    def run(*words: str) -> Outcome:
        written = tmp_path / "results.json"
        code = contract.main([*words, "--json", str(written)])
        captured = capsys.readouterr()
        found = json.loads(written.read_text("utf-8")) if written.exists() else {}
        assert KEY not in captured.out + captured.err + json.dumps(found)
        return Outcome(code, captured.out, captured.err, found)

    return run


@pytest.fixture
def service() -> Iterator[StandIn]:
    with StandIn() as standin:
        yield standin


def test_each_difference_is_named_and_nothing_else(service: StandIn, run: Callable[..., Outcome]) -> None:
    """All cases, against a service that differs in a handful of things; another wording of one kind is none of them."""
    with Changed(service, another, {"nobody/nothing-1": 422}) as changed:
        outcome = run("--yes", "--limit", "100", "--base-url", changed.base_url)
    found = {row["case"]: row["details"] for row in outcome.written["cases"] if row["verdict"] != "same"}
    assert found == EXPECTED
    assert outcome.code == contract.DIFFERENT
    assert all(detail in outcome.out for details in EXPECTED.values() for detail in details)
    assert (
        f"{len(CASES)} cases: {len(CASES) - len(EXPECTED)} the same, {len(EXPECTED)} different" in outcome.out
    )
    assert outcome.written["dollars"] == pytest.approx(
        sum(row["dollars"] for row in outcome.written["cases"])
    )


def test_the_stand_in_does_not_differ_from_itself(service: StandIn, run: Callable[..., Outcome]) -> None:
    """Some of each kind; the bill is the sum of what the service billed."""
    outcome = run(
        "--yes", "--base-url", service.base_url, "--only", "reasoning openai", "tasks", "errors", "lists"
    )
    assert set(outcome.verdicts.values()) == {"same"}
    assert outcome.code == contract.SAME
    billed = sum((request.usage or {}).get("cost", 0.0) for request in service.responses)
    assert outcome.written["dollars"] == pytest.approx(billed)
    assert f"Billed: ${billed:.4f}." in outcome.out


def test_no_case_begins_that_could_exceed_the_limit(service: StandIn, run: Callable[..., Outcome]) -> None:
    """What costs nothing is asked all the same; of the rest, as much as the limit holds."""
    outcome = run("--yes", "--limit", "0.05", "--base-url", service.base_url, "--only", "caching", "lists")
    verdicts = outcome.verdicts
    assert {verdicts[case.name] for case in CASES if case.group == "lists"} == {"same"}
    skipped = [row for row in outcome.written["cases"] if row["verdict"] == "skipped"]
    assert skipped
    assert all("could cost" in row["details"][0] for row in skipped)
    assert 0 < sum((request.usage or {}).get("cost", 0.0) for request in service.responses) <= 0.05
    assert (outcome.code, "Limit: $0.05." in outcome.out) == (contract.SAME, True)


def test_no_case_costs_more_than_was_said(service: StandIn, run: Callable[..., Outcome]) -> None:
    """By the bills of the stand-in, whose prices are those of its list."""
    outcome = run(
        "--yes", "--base-url", service.base_url, "--only", "reasoning", "caching", "media", "search"
    )
    said = {
        line.split()[0]: float(line.rpartition("$")[2])
        for line in outcome.out.splitlines()
        if "at most" in line
    }
    for group in ("reasoning", "caching", "media", "search"):
        billed = sum(row["dollars"] for row in outcome.written["cases"] if row["group"] == group)
        assert 0 < billed <= said[group]


def test_a_service_that_is_busy_is_asked_again_and_is_no_difference(
    service: StandIn, run: Callable[..., Outcome]
) -> None:
    """A raw request by the command, another one by the pipe; what stays busy is skipped."""
    busy = "error=429 retry_after=0"
    service.script(busy, "text=Hello", busy, "text=Hello")
    outcome = run("--yes", "--base-url", service.base_url, "--only", "fallback models", "one provider")
    assert (set(outcome.verdicts.values()), len(service.responses)) == ({"same"}, 4)
    service.script(busy, times=20)
    outcome = run("--yes", "--base-url", service.base_url, "--only", "fallback models", "one provider")
    assert set(outcome.verdicts.values()) == {"skipped"}
    assert "the service was busy" in outcome.out
    assert outcome.code == contract.SAME


def test_a_case_that_breaks_does_not_end_the_run(
    service: StandIn, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as much as it could have cost; as when a model calls a tool with what is no JSON."""
    service.script('call=get_weather args="no JSON"')
    outcome = run("--yes", "--base-url", service.base_url, "--only", "reasoning openai", "the key")
    assert outcome.verdicts == {"reasoning openai": "skipped", "the key": "same"}
    assert outcome.written["dollars"] > 0


@dataclass
class Side:
    """A side on which every case costs two dollars; `breaks` at a case of that name."""

    name: str
    breaks: str = ""

    def choose(self, _: Case) -> list[Model]:
        return []

    async def make(self, case: Case, _: list[Model]) -> list[Shape]:
        if case.name == self.breaks:
            raise ValueError(case.name)
        return [Shape(cost=2.0)]


@pytest.mark.anyio
async def test_a_stand_in_that_breaks_does_not_end_the_run() -> None:
    """What the service has billed for that case counts."""
    real, ours = (cast("Service", each) for each in (Side("the service"), Side("the stand-in", "first")))
    purse = Purse(10.0)
    await run_cases(real, ours, [Case("first", "g"), Case("second", "g")], purse, lambda _: None)
    found = [(each.verdict, each.details, each.dollars) for each in purse.results]
    assert found == [("skipped", ("the stand-in: ValueError",), 2.0), ("same", (), 2.0)]


def test_an_interrupted_run_says_what_there_is(service: StandIn, run: Callable[..., Outcome]) -> None:
    """The case that was running counts as much as it could have cost; no case follows."""

    def interrupt(asked: Json, value: Json) -> Json:
        if asked.get("model", "").startswith("anthropic/"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return value

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with Changed(service, interrupt) as changed:
            outcome = run("--yes", "--base-url", changed.base_url, "--only", "title")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (outcome.code, "interrupted" in outcome.err) == (contract.NOT_BEGUN, True)
    assert outcome.verdicts == {"title openai": "same", "title anthropic": "skipped"}
    assert all(row["dollars"] > 0 for row in outcome.written["cases"])
    assert "2 cases: 1 the same, 1 skipped. Billed: $" in outcome.out


@pytest.mark.parametrize(
    ("case", "output_tokens"),
    [
        (Case("a question", "g", questions=(Question(""),), parameters={"max_tokens": 10}), 20),
        (
            Case("with tools", "g", questions=(Question(""),), has_tools=True, parameters={"max_tokens": 10}),
            40,
        ),
        (Case("a title", "g", is_task=True, parameters={"max_tokens": 10}), 2 * (10 + 4_096)),
        (Case("a body", "g", body={"max_output_tokens": 10}), 20),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_request_is_priced_as_sent_twice(case: Case, output_tokens: int) -> None:
    """A question with tools has two, and a title may think; in tokens of output, at a dollar each."""
    assert case.most_dollars([row("a/m", 0.0, 1.0)]) == output_tokens


def test_each_case_limits_its_answer_and_its_rounds(service: StandIn, run: Callable[..., Outcome]) -> None:
    """Also where the model goes on calling, and for titles."""
    service.script("call=get_weather args={}", times=9)
    run("--yes", "--base-url", service.base_url, "--only", "reasoning openai")
    assert len(service.responses) == 4
    service.reset()
    run("--yes", "--base-url", service.base_url, "--only", "title", "reasoning", "replay", "caching", "media")
    assert all(request.body["max_output_tokens"] for request in service.responses)


def test_what_has_no_bill_counts_as_much_as_it_could_cost(
    service: StandIn, run: Callable[..., Outcome]
) -> None:
    """A stream that is left is billed, and does not say how much."""
    outcome = run("--yes", "--base-url", service.base_url, "--only", "a stream that is left")
    said = next(line for line in outcome.out.splitlines() if line.startswith("cancel"))
    assert outcome.verdicts == {"a stream that is left": "same"}
    assert f"{outcome.written['dollars']:.4f}" == said.rpartition("$")[2] != "0.0000"


@pytest.mark.parametrize("answer", ["", "n", None])
def test_nothing_is_sent_unless_somebody_agrees(
    service: StandIn, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    """The price is said before; nobody to ask is a no."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: answer is not None, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    outcome = run("--base-url", service.base_url)
    assert (outcome.code, service.responses) == (contract.NOT_BEGUN, [])
    assert "at most $" in outcome.out


def test_it_begins_when_somebody_agrees(
    service: StandIn, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked with what it costs at most."""
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    assert run("--base-url", service.base_url, "--only", "the key").code == contract.SAME
    assert asked == ["Spend up to $0.00? [y/N] "]


def test_without_a_key_it_says_how_to_set_one(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks nobody anything."""
    monkeypatch.setenv(contract.KEY_VARIABLE, " ")
    outcome = run()
    assert (outcome.code, contract.KEY_VARIABLE in outcome.err) == (contract.NOT_BEGUN, True)


def test_what_makes_it_end_before_it_begins_is_said(
    service: StandIn, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network, something else at the address, a key that is refused, a name that is none."""
    nobody = run("--base-url", "http://127.0.0.1:9")
    assert (nobody.code, "cannot be reached" in nobody.err) == (contract.NOT_BEGUN, True)
    other = run("--base-url", f"{service.url}/elsewhere")
    assert (other.code, "has no list of models" in other.err) == (contract.NOT_BEGUN, True)
    assert run("--only", "nothing of that name").code == contract.NOT_BEGUN
    monkeypatch.setenv(contract.KEY_VARIABLE, "sk-or-bad")
    refused = contract.main(["--yes", "--base-url", service.base_url])
    assert (refused, service.responses) == (contract.NOT_BEGUN, [])


def test_the_cases_can_be_named(run: Callable[..., Outcome]) -> None:
    """Each has a name of its own, and there are enough of them; without any request."""
    outcome = run("--list")
    assert len(outcome.out.splitlines()) == len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("only", [(), ("errors",), ("picture", "lists")])
def test_cases_are_chosen_by_groups_and_by_beginnings_of_names(
    run: Callable[..., Outcome], only: tuple[str, ...]
) -> None:
    """Without names all of them."""
    outcome = run("--list", *(("--only", *only) if only else ()))
    groups = {line.split()[0] for line in outcome.out.splitlines()}
    expected = (
        {"errors"} if only == ("errors",) else {"media", "lists"} if only else {case.group for case in CASES}
    )
    assert groups == expected


def row(id_: str, input_price: float | None, output_price: float | None = 1e-6, **more: Any) -> Model:
    prices = Prices(input=input_price, output=output_price, read=more.pop("read", None))
    return Model(
        id_, id_, more.pop("window", 128_000), output_modalities=frozenset({"text"}), prices=prices, **more
    )


ROWS = (
    row("openai/dear", 9e-6, reasons=True, supported_parameters=frozenset({"tools"})),
    row(
        "openai/cheap",
        2e-6,
        supported_parameters=frozenset({"tools"}),
        input_modalities=frozenset({"text", "image"}),
    ),
    row("openai/long-answers", 1e-6, 90e-6, supported_parameters=frozenset({"tools"})),
    row("openai/free", 0.0, 0.0),
    row("openai/cheap:free", 1e-9),
    row("openai/unknown", None),
    row("openai/leaving", 1e-9, expires="2026-12-31"),
    row("openai/small", 1e-9, window=4_000),
    row("openrouter/auto", 1e-9),
    row("google/cached", 4e-6, read=1e-7, reasons=True, reasoning_is_mandatory=True, window=1_000_000),
)


@pytest.mark.parametrize(
    ("need", "chosen"),
    [
        (Need(), "openai/cheap"),
        (Need("openai", reasons=True), "openai/dear"),
        (Need(tools=False), "google/cached"),
        (Need(lacks=("image",), tools=True), "openai/dear"),
        (Need(reads=("image",)), "openai/cheap"),
        (Need(caches=True), "google/cached"),
        (Need("openai", caches=True), None),
        (Need(is_mandatory=True), "google/cached"),
        (Need(is_mandatory=True, most_window_tokens=200_000), None),
        (Need("x-ai"), None),
    ],
)
def test_the_cheapest_model_that_fits_is_asked(need: Need, chosen: str | None) -> None:
    """Not one that is free, has no price, is on its way out, or chooses among others."""
    model = cheapest(ROWS, need)
    assert (model.id if model else None) == chosen


def test_a_second_model_is_another_one() -> None:
    """So that reasoning can be given to somebody else."""
    model = cheapest(ROWS, Need("openai", tools=True), but=["openai/cheap"])
    assert model is not None
    assert model.id == "openai/dear"
