"""One side of the comparison: OpenRouter's service or the stand-in, at an address, with a key.

Makes the exchanges of a case. What the pipe sends is sent by the pipe itself, in this process, through a transport that
watches; what no pipe would send is sent as it stands. A stand-in is known by its models, and gets the directives of a
case, which say what a model does by itself.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.recorder import Exchange, WatchingTransport
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.responses.values import as_object, as_text, read_json
from scripts.exchanges import shape
from scripts.exchanges.cases import LONG_TEXT, ROUNDS, TOOLS
from scripts.exchanges.models import cheapest
from scripts.harness.page import Page, PipeInProcess
from scripts.standin.endpoints import MAKERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from open_webui_openrouter_pipe.ports import Model
    from scripts.exchanges.cases import Case
    from scripts.exchanges.shape import Shape

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 3
MAX_WAIT_SECONDS = 20.0
PASSING = frozenset({"RateLimited", "ProviderUnavailable", "ConnectionFailed"})
"""Failures after which the pipe asks again; what came of that counts."""
RECORD_SECONDS = 8.0
"""How long a record of a generation may be in coming."""


class NotReachable(Exception):
    """The service does not answer, or not as it should; says why."""


@dataclass(slots=True)
class Service:
    """A side that is open; `models` are by their ids."""

    name: str
    base_url: str
    key: str = field(repr=False)
    http: httpx.AsyncClient
    driver: PipeInProcess
    models: dict[str, Model]
    exchanges: list[Exchange]
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))
    """Begins what shall not be in a cache by an earlier run."""

    @property
    def is_standin(self) -> bool:
        """Whether directives are followed here."""
        return "standin/plain" in self.models

    def choose(self, case: Case) -> list[Model] | None:
        """Return the models of a case, None where one is missing here."""
        chosen: list[Model] = []
        for need in case.needs:
            model = cheapest(self.models.values(), need, [each.id for each in chosen])
            if model is None:
                return None
            chosen.append(model)
        return chosen

    async def make(self, case: Case, models: Sequence[Model]) -> list[Shape]:
        """Make the exchanges of a case, and return the shape of each."""
        self.exchanges.clear()
        if case.path and case.body is None:
            return [await self._get(case)]
        if case.body is not None:
            await self._post(case, models)
        else:
            await self._chat(case, models)
        exchanges = [
            each for each in self.exchanges if each is self.exchanges[-1] or each.answer().kind not in PASSING
        ]
        shapes = [shape.of_exchange(each, self._model_of(each)) for each in exchanges]
        if case.stops:
            shapes = [shape.of_left_stream(shapes[-1], await self._record(exchanges[-1]))]
        return shapes

    async def _get(self, case: Case) -> Shape:
        headers = {"Authorization": f"Bearer {case.key or self.key}"}
        response = await self.http.get(f"{self.base_url}{case.path}", headers=headers)
        try:
            body = response.json()
        except ValueError:
            body = None
        return shape.of_list(response.status_code, body)

    async def _post(self, case: Case, models: Sequence[Model]) -> None:
        """Send a body as it stands, but for the models in it; a stream may be left before its end."""
        body = self._filled(case.body, [model.id for model in models])
        key = self.key if case.key is None else case.key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        for attempt in range(ATTEMPTS):
            await self._send(case, body, headers)
            last = self.exchanges[-1]
            if attempt + 1 == ATTEMPTS or last.answer().kind not in PASSING:
                break
            seconds = last.headers.get("retry-after", "")
            await asyncio.sleep(
                min(float(seconds) if seconds.isdecimal() else 2.0**attempt, MAX_WAIT_SECONDS)
            )

    async def _send(self, case: Case, body: Any, headers: Mapping[str, str]) -> None:
        async with self.http.stream(
            "POST", f"{self.base_url}{case.path or '/responses'}", json=body, headers=headers
        ) as response:
            async for portion in response.aiter_text():
                if case.stops and ".delta" in portion:
                    break

    async def _chat(self, case: Case, models: Sequence[Model]) -> None:
        """Ask the pipe, as a page would; each question of the model that it names."""
        valves = {"API_KEY": self.key, "BASE_URL": self.base_url, "COST_LINE": "off", "RETRY_SECONDS": 20}
        self.driver.pipe.valves = Pipe.Valves(**{**valves, **case.valves})
        tools, chat_id = TOOLS if case.has_tools else {}, f"{case.name}-{time.time()}"
        page = Page(self.driver.pipe, "", tools=tools, chat_id=chat_id)
        page.max_rounds = ROUNDS
        page.user["role"] = "admin"  # who may set any parameter
        page.attached, page.parameters = case.attached, case.parameters
        page.system = f"{self.nonce} {case.system}" if case.system else ""
        for question in case.questions:
            page.model = f"{question.model.format(*(model.id for model in models))}"
            await page.ask(f"{question.directive} {question.text}" if self.is_standin else question.text)
        if case.is_task:
            page.model = models[0].id
            await page.title()

    async def _record(self, exchange: Exchange) -> Shape:
        """What the service keeps of a generation, as soon as it has it."""
        name, until = exchange.headers.get("x-generation-id", ""), time.monotonic() + RECORD_SECONDS
        headers = {"Authorization": f"Bearer {self.key}"}
        while True:
            response = await self.http.get(
                f"{self.base_url}/generation", params={"id": name}, headers=headers
            )
            if response.status_code != httpx.codes.NOT_FOUND or self.is_standin or time.monotonic() > until:
                break
        found = (
            response.json()
            if response.headers.get("content-type", "").startswith("application/json")
            else None
        )
        return shape.of_list(response.status_code, found)

    def _filled(self, value: Any, models: Sequence[str]) -> Any:
        """A body with the models in the place of $0 and $1, and a long text in that of $longN."""
        if isinstance(value, dict):
            return {name: self._filled(each, models) for name, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, models) for each in value]
        if isinstance(value, str) and value.startswith("$long"):
            return f"{self.nonce} {LONG_TEXT * int(value.removeprefix('$long'))}"
        if isinstance(value, str) and value.startswith("$"):
            return models[int(value[1:])]
        return value

    def _model_of(self, exchange: Exchange) -> Model | None:
        """Whose prices are billed: of the model that answered, or else that was asked, whatever its variant."""
        asked = as_text(as_object(read_json(exchange.content)).get("model"))
        names = (shape.response_of(exchange.answer()).get("model"), asked)
        ids = (as_text(name).partition("@")[0].partition(":")[0] for name in names)
        return next((self.models[name] for name in ids if name in self.models), None)


@asynccontextmanager
async def opened(name: str, base_url: str, key: str, folder: Path) -> AsyncIterator[Service]:
    """Open a side, with a folder for the pipe's database.

    Raises:
        NotReachable: There is no list of models, or the key is refused.
    """
    base_url = base_url.rstrip("/")
    exchanges: list[Exchange] = []

    def keep(exchange: Exchange) -> None:
        if exchange.request.url.path.endswith(("/responses", *MAKERS)):
            exchanges.append(exchange)

    async with AsyncExitStack() as stack:
        below = await stack.enter_async_context(httpx.AsyncClient(timeout=TIMEOUT_SECONDS))
        models = await _models(below, base_url, key)
        transport = WatchingTransport(below, keep)
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, timeout=TIMEOUT_SECONDS)
        )
        driver = PipeInProcess(folder, base_url=base_url, transport=transport, API_KEY=key)
        await stack.enter_async_context(driver)
        yield Service(name, base_url, key, http, driver, models, exchanges)


async def _models(http: httpx.AsyncClient, base_url: str, key: str) -> dict[str, Model]:
    try:
        listed = await http.get(f"{base_url}/models")
        checked = await http.get(f"{base_url}/key", headers={"Authorization": f"Bearer {key}"})
    except httpx.HTTPError as error:
        raise NotReachable(f"{base_url} cannot be reached: {type(error).__name__}.") from error
    if checked.status_code in {401, 403}:
        raise NotReachable(f"{base_url} refuses the key ({checked.status_code}).")
    try:
        models = read_models(listed.json())
    except ValueError:
        models = None
    if not models:
        raise NotReachable(f"{base_url} has no list of models ({listed.status_code}).")
    return models
