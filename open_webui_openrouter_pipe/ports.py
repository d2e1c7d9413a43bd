"""What a turn needs from outside, as Protocols with the values that cross them.

The adapters implement these, and `app` chooses the implementations. Methods raise the errors named here alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import date, tzinfo
from typing import Any, Final, Literal, Protocol, TypeAlias

from .conversation.budget import Calibration
from .conversation.conversation import ContentCache, cache_key
from .conversation.tokens import TokenCounts
from .errors import PipeError
from .history.artifacts import MissingArtifact
from .money.audit import Bill, UsageRow
from .money.limits import AccountLimit, AccountSums
from .money.prices import NO_PRICES, Prices
from .planning.plan import CacheMarks
from .responses.effects import Effect, Usage
from .responses.failure import Failure
from .responses.items import FunctionCall, Item
from .responses.values import as_list, as_object
from .summaries.segments import Segment
from .summaries.summary import Summary


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Whose request it is: the user, the host's chat and message ("" where there is none), and the OpenRouter model.

    `preset` is the id under which the host offers the model. System prompts are kept by user, chat and preset.
    """

    user_id: str
    chat_id: str
    message_id: str
    model: str
    preset: str = ""
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Artifact:
    """An item that we keep sealed because the host does not keep it, or not whole; found only by its `user_id`.

    `id` is the 20-character ULID of its marker, `kind` the item's type, `model` the id of the model that wrote it,
    `provider` who served that, `prompt` the name of the system prompt that it was written under, and `before` of the
    chat before its turn ("" for unknown).
    """

    id: str
    user_id: str
    chat_id: str
    message_id: str
    kind: str
    model: str
    item: Item
    provider: str = ""
    prompt: str = ""
    before: str = ""


LoadedArtifacts: TypeAlias = Mapping[str, Artifact | MissingArtifact]
"""The answer to one load, by id: what was found, and why the rest is missing."""


class ArtifactStore(Protocol):
    """Durable, sealed, owned artifacts."""

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        """Make all of them durable, or none; the same id of the same user is replaced. Raises StoreError."""

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        """Find the user's artifacts in one query. Never raises: what cannot be loaded is missing."""

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete them, everywhere. Raises StoreUnavailable; absent ids are not an error."""


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary of a segment of `source_tokens`; found by its `user_id` and the ends of its `segment` alone."""

    user_id: str
    chat_id: str
    segment: Segment
    summary: Summary
    model: str
    source_tokens: int


class Summaries(Protocol):
    """Summaries of segments of the users' conversations, made once and found by content."""

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find the user's summaries whose both ends are among the chain digests; never raises, and returns fewer.

        `chat_id` is the chat that uses them from now on, empty when it is not kept.
        """

    async def keep(self, stored: StoredSummary) -> None:
        """Make a summary durable; the first one of a segment stays. Raises StoreError."""

    async def discard(self, user_id: str, segment: Segment, unwanted: Summary) -> None:
        """Delete a segment's summary, unless another one has taken its place. Raises StoreError."""

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Return whether this caller may make the summary now; a claim ends by itself. Raises StoreError."""

    async def release(self, user_id: str, segment: Segment) -> None:
        """Release a claim of this worker; never raises."""


SEARCH_VARIANT: Final = ":online"
"""The variant of a model that reads search results with each request."""


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    """A system prompt that a chat keeps sending; `template` is the digest of its texts as people wrote them, or ""."""

    text: str
    template: str = ""


class Prompts(Protocol):
    """The system prompts that chats keep sending; the same for all workers."""

    async def find(self, origin: RequestOrigin) -> KeptPrompt | None:
        """Return what is kept. Raises StoreError."""

    async def keep(
        self, origin: RequestOrigin, prompt: KeptPrompt, *, instead_of: KeptPrompt | None
    ) -> KeptPrompt:
        """Keep a prompt in the place of one, and return what is kept: another, if somebody came first.

        Raises StoreError.
        """


Endpoint = Literal["responses", "videos", "images", "speech", "transcriptions", ""]
"""Which endpoint of OpenRouter's serves a model; "" for none that answers a chat, such as batches."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the catalogue; sizes in tokens, None where unknown.

    `created` is in epoch seconds, `expires` the day on which it is withdrawn (ISO 8601), empty where none is known;
    `gone_since` is the day since when it is not listed any more, empty for a model that is.
    """

    id: str
    name: str
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    input_modalities: frozenset[str] = frozenset()
    output_modalities: frozenset[str] = frozenset()
    supported_parameters: frozenset[str] = frozenset()
    prices: Prices = NO_PRICES
    reasons: bool = False
    supported_efforts: tuple[str, ...] | None = None
    description: str = ""
    created: int = 0
    expires: str = ""
    gone_since: str = ""
    reasoning_is_mandatory: bool | None = None
    canonical_id: str = ""
    """Its name with its release, which does not change: "a/m-20260709"; empty where none is known."""
    alias_of: str = ""
    """The model that this name stands for at present; empty for a name of its own."""
    endpoint: Endpoint = "responses"
    row: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The catalogue's row of a model that another endpoint than /responses serves, for `creation` to read."""

    @property
    def real_id(self) -> str:
        """Its own id, or that of the model that it stands for."""
        return self.alias_of or self.id

    @property
    def never_reasons(self) -> bool:
        """Whether the catalogue says that it does not reason; one that lists no parameters may."""
        return bool(self.supported_parameters) and not self.reasons

    @property
    def writes(self) -> bool:
        """Whether it answers with text; one of which the catalogue says nothing is taken to."""
        return "text" in (self.output_modalities or {"text"})

    @property
    def calls_tools(self) -> bool:
        """Whether it calls tools; one that writes and lists no parameters is taken to."""
        return "tools" in self.supported_parameters if self.supported_parameters else self.writes

    @property
    def draws(self) -> bool:
        """Whether it answers with pictures."""
        return "image" in self.output_modalities

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing.

        The catalogue also gives no price by the token where each picture or
        song has one. A variant that searches costs as much as its searches.
        """
        name = self.id.partition("@")[0]
        by_piece = bool(self.output_modalities - {"text"}) and not name.endswith(":free")
        most = self.prices.dearest()
        has_price = most.request or name.endswith(SEARCH_VARIANT) or by_piece
        return most.input == most.output == 0 and not has_price

    def reads(self, modality: str) -> bool:
        """Whether it takes this kind of input; one that lists none is taken to."""
        return not self.input_modalities or modality in self.input_modalities


FindModel: TypeAlias = Callable[[str], Model | None]
"""Returns a model of the catalogue by its id or canonical id; of a variant without a row, the model's."""


def other_model(asked: str, served: str, find: FindModel) -> str:
    """Return the id of the model that answered where it is not the one that was asked for, otherwise "".

    So it is behind routers, presets, variants and aliases, and with fallbacks. A model's dated name is the model.
    """
    row, wanted = find(served) if served else None, find(asked)
    if wanted and served == wanted.canonical_id and asked == wanted.id:
        return ""
    name = row.id if row and served == row.canonical_id else served
    return "" if name == asked else name


def name_of(model_id: str, find: FindModel) -> str:
    """Return the name of a model, or its id where the catalogue does not have it itself."""
    row = find(model_id)
    return row.name if row and row.id == model_id else model_id


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it is: its name, its media type (lower case, without parameters), its bytes."""

    name: str
    media_type: str
    content: bytes


class Room(Protocol):
    """Where one file is read into; it may have `max_bytes`."""

    max_bytes: int

    def ask(self) -> object:
        """Count a request to an address. Raises AttachmentUnavailable where there were too many."""

    async def take(self, size_bytes: int) -> None:
        """Wait until a file of this size may be in memory. Raises AttachmentUnavailable if it is larger, TooBusy."""


class Files(Protocol):
    """The host's file storage."""

    async def read(self, user_id: str, file_id: str, room: Room) -> FileContent:
        """Return a file that the user may read, once there is room for it. Raises AttachmentUnavailable, TooBusy."""

    def id_of(self, user_id: str, key: str) -> str:
        """Return the id of what is stored for a user under a key."""

    async def store(
        self, user_id: str, chat_id: str, message_id: str, file: FileContent, *, key: str | None = None
    ) -> str:
        """Store a file under a key, its content where none is given, and return its id.

        Under the same key of one user there is one file, the first. Raises AttachmentUnavailable.
        """


class Downloads(Protocol):
    """Files on the web."""

    async def fetch(self, url: str) -> FileContent:
        """Return what is at a public address. Raises AttachmentUnavailable."""


@dataclass(frozen=True, slots=True)
class FilledItems:
    """As many items as were given, with nothing but what can be sent, and lines for the user about what cannot.

    Each line has a name under which it is said once in a chat: what it counts may grow from turn to turn.
    """

    items: Sequence[Item]
    notices: Mapping[str, str] = field(default_factory=dict)


Fill: TypeAlias = Callable[[Sequence[Item], Sequence[int]], Awaitable[FilledItems]]
"""Puts the attachments of a chat in the place of references, and a note in that of what the model does not read.

The second argument are the numbers of the items' turns. Raises TooBusy alone.
"""


RequestBody = Mapping[str, Any]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """POST /responses: its body in the order of its bytes, and the host's name of each tool that had to be renamed."""

    body: RequestBody
    host_tool_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_kept_long(self) -> bool:
        """Whether it asks for an hour in the provider's cache."""
        return as_object(self.body.get("cache_control")).get("ttl") == "1h"

    @property
    def breakpoints(self) -> list[int]:
        """After which pieces its provider has to cache it: the tools are the first one, then comes each item."""
        items = as_list(self.body.get("input"))
        ends = [
            at
            for at, item in enumerate(items, 2)
            if any("prompt_cache_breakpoint" in part for part in as_list(item.get("content")))
        ]
        return [*ends, len(items) + 1] if self.body.get("cache_control") else ends


MAX_REMEMBERED: Final = 4_096
"""Names that have failed; of more, those that failed longest ago are forgotten."""


class Pauses:
    """What fails repeatedly is left alone for a while, for twice as long each time; by name, and bounded."""

    def __init__(
        self, *, clock: Callable[[], float], failures: int, first_seconds: float, longest_seconds: float
    ) -> None:
        """`clock` gives monotonic seconds; so many `failures` in a row begin the first pause."""
        self._clock = clock
        self._to_pause = failures
        self._first_seconds, self._longest_seconds = first_seconds, longest_seconds
        self._failed: ContentCache[tuple[int, float, str]] = ContentCache(limit=MAX_REMEMBERED)
        """How often in a row, when it may be tried again, and with whom it failed last."""

    def failures(self, name: str) -> int:
        """Return how many failures there were in a row."""
        return (self._failed.get(cache_key(name)) or (0,))[0]

    def remaining_seconds(self, name: str) -> float:
        """Return for how long it is to be left alone, 0 where it may be tried."""
        failed = self._failed.get(cache_key(name))
        return max(0.0, failed[1] - self._clock()) if failed else 0.0

    def record_success(self, *names: str) -> None:
        """Forget earlier failures."""
        for name in names:
            if self.failures(name):
                self._failed.put(cache_key(name), (0, 0.0, ""))

    def record_failure(self, name: str, *, pauses: bool = False, by: str = "") -> None:
        """Count a failure; one that `pauses` begins a pause although it is the first.

        Several in a row `by` the same user are one.
        """
        if by and (failed := self._failed.get(cache_key(name))) and failed[2] == by:
            return
        failures = max(self._to_pause if pauses else 1, self.failures(name) + 1)
        doublings = min(failures - self._to_pause, 10)
        seconds = min(self._first_seconds * 2.0**doublings, self._longest_seconds) if doublings >= 0 else 0.0
        self._failed.put(cache_key(name), (failures, self._clock() + seconds, by))


class Requests(Protocol):
    """Builds the body of POST /responses for one call of the host."""

    def build(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        omitted_tools: Collection[str] = (),
        thinks: bool = True,
        spent: Callable[[], float] = lambda: 0.0,
    ) -> Request:
        """Build it from the input and all else that the host asked for, but for the tools of these names.

        `marks` is None when nothing is cached. A model that is not to think does so where it cannot be told. `spent`
        returns how many dollars the answer has cost so far: less is left for OpenRouter's tools.
        """

    def build_summary_request(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        output_tokens: int,
        omitted_tools: Collection[str] = (),
    ) -> RequestBody:
        """Build the same for a summary, which is answered by text alone, of at most so many tokens."""


WAITED: Final = "nothing was being answered"
"""The argument of a cancellation between two attempts of a request."""


class Responses(Protocol):
    """POST /responses."""

    def stream(self, body: RequestBody) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Open a stream.

        Entering and reading raise the error tree's provider errors, reading
        also StreamBroken. A cancellation between two attempts says `WAITED`.
        """

    def explain(self, failure: Failure) -> PipeError:
        """Turn a failure that arrived inside a stream into the error tree's error."""


class CreationService(Protocol):
    """The endpoints that make something by the piece. All raise the error tree's errors of OpenRouter."""

    async def post(self, path: str, body: RequestBody) -> Mapping[str, Any]:
        """Return the JSON object that answers a body, such as that of "/videos"."""

    async def post_for_file(self, path: str, body: RequestBody, room: Room) -> FileContent:
        """Return the bytes that answer a body, once there is room. Raises AttachmentUnavailable and TooBusy, too."""

    def stream(self, path: str, body: RequestBody) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Open the events that answer a body, such as those of "/images"."""

    async def get(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at a path."""

    async def get_file(self, path: str, room: Room) -> FileContent:
        """Return the bytes at a path, once there is room. Raises AttachmentUnavailable and TooBusy, too."""

    def explain(self, said: str) -> PipeError:
        """Turn what an answer says of a failure into the error tree's error."""


class Generations(Protocol):
    """What OpenRouter calls the responses of one call of the host, and what it says of their bills."""

    named: list[str]
    """The ids of the responses that have begun, in their order; "" where one has none."""

    async def usage_of(self, generation: str) -> Usage | None:
        """Return what a generation was billed, None where that is not said. Raises the error tree's errors."""


class Ledger(Protocol):
    """What all requests have cost, by chat and by account; the same for all workers."""

    def write(self, bill: Bill, /) -> None:
        """Have a bill written beside the request; never waits, never raises."""

    def release(self, bill: Bill) -> None:
        """End what was held for a request that is not sent; never waits, never raises."""

    async def sums(self, accounts: Sequence[str], zone: tzinfo) -> Mapping[str, AccountSums]:
        """Return what accounts have spent in a zone's day and month. Raises StoreError."""

    async def usage(self, days: tuple[date, date], zone: tzinfo, account: str) -> Sequence[UsageRow]:
        """Add up what was spent from one day to another, by an account or, for "", all users. Raises StoreError."""

    async def hold(self, bill: Bill, amount: float, under: Sequence[AccountLimit]) -> bool:
        """Hold the most that a request may cost, if it may begin under these limits, until the bill with this id.

        `bill` is what it is estimated to cost where none comes. Raises StoreError.
        """


class Calibrations(Protocol):
    """How each model's own tokenizer counts, compared with ours."""

    async def find(self, model_id: str) -> Calibration:
        """Return what the bills so far have taught; never raises."""

    async def stored(self, model_id: str) -> Calibration:
        """Ask for what all workers limit requests by; never raises."""

    def learn(self, model_id: str, counts: TokenCounts, billed_tokens: int) -> None:
        """Learn from what was billed for a request with these counts; never waits, never raises."""


Encode: TypeAlias = Callable[[str], Sequence[int]]
"""Turns text into tokens."""


@dataclass(frozen=True, slots=True)
class StoredMarkers:
    """Durable artifacts whose markers may now be shown.

    `before` is the output index of the message whose text begins with them; None at the end of what is shown so far.
    `of_calls` are those that the ids of calls name, and perhaps others.
    """

    ids: tuple[str, ...]
    before: int | None = None
    of_calls: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolsBegan:
    """Calls of the host's tools that run here from this moment on."""

    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A call with its answer: the host, which is handed a call of our own tools only now, has nothing to run.

    `output` is what the model gets, a text or parts; `shown` has the fields of the host's item that are not as for a
    text.
    """

    call: FunctionCall
    output: str | Sequence[Mapping[str, Any]]
    shown: Mapping[str, Any] = field(default_factory=dict)


class HostTools(Protocol):
    """The host's own tools, as one call of the host may use them."""

    @property
    def most_rounds(self) -> int | None:
        """How many responses of an answer may call tools, None for any number."""

    def can_run(self, calls: Sequence[FunctionCall]) -> bool:
        """Return whether all of these can run here: none of them needs what the host alone can do."""

    async def run(self, call: FunctionCall) -> ToolAnswered:
        """Run the tool of a call as the host would; a failure is an answer, too."""


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round whose calls were all answered here; the next one follows in the same answer, its indexes from 0."""

    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for the user; one that is not `done` is a wait, and followed by another.

    Whoever words it gives it its `weight`: 0 for a status line, where an empty text ends a wait and says nothing; any
    other stands in the answer, the heaviest first.
    """

    text: str
    done: bool = True
    weight: int = 0


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """What an answer has cost so far, in all calls and requests for it; told before the end of each request.

    `usage` has what was paid, which OpenRouter may not have said, `last` the same of the last request alone. `seconds`
    are those of its requests and tools, `others` the ids of the models that have answered in place of the one that was
    asked for, `tools` what of it was paid for OpenRouter's tools, by the names of those that a request has called.
    """

    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    seconds: float = 0.0
    others: tuple[str, ...] = ()
    last: Usage = field(default_factory=Usage)
    tools: tuple[tuple[tuple[str, ...], float], ...] = ()
    waits_since: float | None = None
    """The event loop's seconds since which its tools run; None where none does."""
    if_stopped: str = ""
    """What is said where its user stops it, "" for the usual line."""


Show: TypeAlias = Callable[[Notice], Awaitable[None]]
"""Shows the user a line while the answer is being prepared."""


@dataclass(frozen=True, slots=True)
class Embed:
    """A whole HTML page that the host shows with the answer; callers without a web page read the answer alone."""

    html: str


@dataclass(frozen=True, slots=True)
class Sketch:
    """A picture that is not finished, as a data URL, shown until another output brings pictures; "" takes it away."""

    url: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn cannot go on; `message` is one line for the user. What was shown stays, and nothing follows.

    `error` is where it comes from, None when it is a fault of ours.
    """

    message: str
    error: PipeError | None = field(default=None, compare=False)


Output: TypeAlias = (
    Effect
    | StoredMarkers
    | ToolsBegan
    | ToolAnswered
    | RoundEnded
    | AnswerCost
    | Notice
    | Embed
    | Sketch
    | Failed
)
"""What the engine sends to whoever renders the answer, in order."""
