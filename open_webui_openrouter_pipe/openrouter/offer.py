"""Which models are offered: patterns, filters, variants and presets, and the order and names in which they are shown.

Pure. Owns the words of these valves, and which of the offered models to take: in the place of one that is gone, and as
a default for new users. What is not known of a model does not pass a filter that asks for it.
"""

from __future__ import annotations

import fnmatch
import math
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ..ports import Model
from ..words.lines import notice
from .problems import nearest

ZDR: Final = "zdr"
MOST_MEANT: Final = 20
"""For so many unknown words of a valve it is found out what was meant; nobody types more of them."""
FREE: Final = "free"
NEWEST: Final = "newest"

_MILLION = 1_000_000
_UNITS = {"": 1, "k": 1_000, "m": _MILLION}
_PASSES: Final[Mapping[str, Callable[[Model], bool]]] = MappingProxyType(
    {
        FREE: lambda model: model.is_free,
        "tools": lambda model: "tools" in model.supported_parameters,
        "vision": lambda model: "image" in model.input_modalities,
        "no-expiring": lambda model: not model.expires,
    }
)
FILTER_WORDS: Final = (*_PASSES, ZDR, NEWEST)
"""The words of `MODEL_FILTERS`, beside the two limits `context>=N` and `price<=N`."""

_LIMIT = re.compile(r"(?P<name>context>=|price<=)(?P<number>\d+(?:\.\d+)?)(?P<unit>[km]?)")
_ALMOST_LIMIT = re.compile(r"(?P<name>context|price)\W*(?P<number>\d+(?:\.\d+)?)?(?P<unit>[km]?)\W*")

_LISTED_VARIANTS: Final = frozenset({"free", "extended", "thinking", "beta"})
"""Variants that only some models have; the catalogue lists these as models. Others can be asked of any model."""
_PRESET: Final = "@preset/"
_VARIANT = re.compile(r"(?P<base>[^:@]*)(?P<variant>:[a-z0-9-]+)?(?P<preset>@preset/[\w.-]+)?")

_SIZE = re.compile(r"(?:\d+x)?[ae]?\d+(?:\.\d+)?[bkm]")
"""A word of a model's name that is a size, such as "70b", "8x7b", "a22b" or "128k"."""
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_STAGES = frozenset({"preview", "exp", "experimental", "beta", "alpha", "latest"})

LEAST_CONTEXT_TOKENS: Final = 100_000
"""The window of a model that is proposed as a default."""
LARGEST_AUTHORS: Final = frozenset(
    {
        *("amazon", "anthropic", "deepseek", "google", "meta-llama", "microsoft"),
        *("mistralai", "moonshotai", "openai", "qwen", "x-ai", "z-ai"),
    }
)
"""Whose models are proposed first: people know them."""
_NO_PRICE: Final = 1e-9
"""Dollars a token: what a price is compared as that is zero, or unknown."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a model must fulfil: words of `FILTER_WORDS`, the smallest window, the highest input price.

    The price is in dollars per million tokens; None sets no limit. `unknown` are the words that mean nothing, each with
    the one that counts in its place, "" where none does.
    """

    words: frozenset[str] = frozenset()
    min_context_tokens: float = 0
    max_price: float | None = None
    unknown: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant, a preset or both of the models that match a pattern; with an empty pattern a preset alone."""

    pattern: str
    variant: str
    preset: str


@dataclass(frozen=True, slots=True)
class OfferSettings:
    """Which models are offered; `shows_status` says that the entry about how things stand always is."""

    patterns: tuple[str, ...] = ("*",)
    filters: Filters = Filters()
    variants: tuple[Variant, ...] = ()
    shows_status: bool = False


def read_filters(words: Iterable[str]) -> Filters:
    """Read the words of `MODEL_FILTERS`; of a limit that is set twice the last one counts.

    A word that means nothing counts as the one that it is close to: too few models are mended sooner than too many.
    """
    known, unknown = set[str](), list[tuple[str, str]]()
    limits: dict[str, float] = {}
    for word in ("".join(word.lower().split()) for word in words):
        meant = word if word in FILTER_WORDS or _LIMIT.fullmatch(word) else ""
        if not meant and len(unknown) < MOST_MEANT:
            meant = _meant_filter(word)
        if meant != word:
            unknown.append((word, meant))
        if limit := _LIMIT.fullmatch(meant):
            limits[limit["name"]] = float(limit["number"]) * _UNITS[limit["unit"]]
        elif meant:
            known.add(meant)
    return Filters(frozenset(known), limits.get("context>=", 0), limits.get("price<="), tuple(unknown))


def _meant_filter(word: str) -> str:
    """The filter that was meant. A price that cannot be read lets only free models pass."""
    found = _ALMOST_LIMIT.fullmatch(word)
    if found and found["number"]:
        sign = "<=" if found["name"] == "price" else ">="
        return f"{found['name']}{sign}{found['number']}{found['unit']}"
    return FREE if word.startswith("price") else nearest(word, FILTER_WORDS)


def read_variants(entries: Iterable[str]) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Read the entries of `VARIANTS`: those that name a variant or a preset, and those that do not."""
    read, unknown = list[Variant](), list[str]()
    for entry in entries:
        found = _VARIANT.fullmatch(entry)
        if found is None or not (found["preset"] or (found["base"] and found["variant"])):
            unknown.append(entry)
        else:
            read.append(Variant(found["base"], found["variant"] or "", found["preset"] or ""))
    return tuple(read), tuple(unknown)


def offered_models(
    models: Iterable[Model], offer: OfferSettings, *, zdr_ids: Collection[str] | None
) -> tuple[Model, ...]:
    """Return the models that are offered, with the names that are shown: by provider, then the newest first.

    Only models that answer in a chat with what it shows are offered, and none that keeps data where the filter `zdr` is
    set; `zdr_ids` None says that it is not known which those are.
    """
    known = {
        model.id: model
        for model in models
        if model.endpoint and (model.writes or model.draws or model.endpoint != "responses")
    }
    chosen = [
        model
        for model in known.values()
        if is_offered(model.id, offer.patterns) and _passes(model, offer.filters, zdr_ids)
    ]
    if NEWEST in offer.filters.words:  # of two of the same second, the one whose id sorts last
        by_age = sorted(chosen, key=lambda model: (model.created, model.id))
        chosen = [*{family(model.id): model for model in by_age}.values()]
    offered = {model.id: model for model in chosen}
    chosen_ids = frozenset(offered)
    for variant in offer.variants:
        for model, row in _variants_of(variant, chosen_ids, known):
            if _passes(row, offer.filters, zdr_ids) and (model.is_free or FREE not in offer.filters.words):
                offered.setdefault(model.id, model)
    return tuple(map(_as_shown, sorted(offered.values(), key=_order)))


def gone_models(models: Iterable[Model], offer: OfferSettings) -> tuple[Model, ...]:
    """Return what would be offered of the models that are listed no more, but for what only lists of today say."""
    words = offer.filters.words - {ZDR, NEWEST}
    offer = replace(offer, filters=replace(offer.filters, words=words))
    gone = offered_models((model for model in models if model.gone_since), offer, zdr_ids=None)
    return tuple(model for model in gone if model.gone_since)  # of a preset alone nothing is known


def _as_shown(model: Model) -> Model:
    if model.gone_since:
        return replace(model, name=notice("model_gone", name=model.name))
    if model.expires:
        return replace(model, name=notice("model_expires", name=model.name, date=model.expires))
    return model


def is_offered(model_id: str, patterns: Sequence[str]) -> bool:
    """Return whether the patterns offer a model.

    The last pattern that matches its id decides; one with a leading `!` excludes. Exclusions alone start from all
    models.
    """
    offered = all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        if fnmatch.fnmatchcase(model_id, pattern.removeprefix("!")):
            offered = not pattern.startswith("!")
    return offered


def family(model_id: str) -> str:
    """Return what the releases of a model have in common: its id without versions, dates and stages such as preview.

    Sizes, and the names of kinds such as "mini", stay: "openai/gpt-5.2-mini" is of the family "openai/gpt-mini". A
    variant that is listed as a model (`:free`) is a family of its own.
    """
    author, _, rest = model_id.rpartition("/")
    slug, colon, variant = rest.partition(":")
    words = [word if _SIZE.fullmatch(word) else _VERSION.sub("", word) for word in slug.split("-")]
    kept = "-".join(word for word in words if word and word not in _STAGES)
    return f"{author}/{kept}{colon}{variant}"


def _passes(model: Model, filters: Filters, zdr_ids: Collection[str] | None) -> bool:
    if not all(_PASSES[word](model) for word in filters.words & _PASSES.keys()):
        return False
    if ZDR in filters.words:  # the list has ids or canonical ones; a free variant has endpoints of its own
        canonical_id = model.canonical_id.partition(":")[0] + "".join(model.id.partition(":")[1:])
        if not {model.id, canonical_id} & set(zdr_ids or ()):
            return False
    if filters.min_context_tokens and (model.context_tokens or 0) < filters.min_context_tokens:
        return False
    if filters.max_price is None:
        return True
    price = model.prices.input
    return price is not None and price * _MILLION <= filters.max_price * (1 + 1e-9)


def _variants_of(
    variant: Variant, chosen: frozenset[str], known: Mapping[str, Model]
) -> Iterator[tuple[Model, Model]]:
    """What a variant adds to the chosen ids, each with its row: the catalogue's own, otherwise that of its model.

    Of a preset alone, which names its own model, nothing else is known.
    """
    kind, preset = variant.variant.removeprefix(":"), variant.preset.removeprefix(_PRESET)
    if not variant.pattern:
        alone = Model(variant.preset, notice("preset", preset=preset))
        yield alone, alone
        return
    for model in known.values():
        if (
            ":" in model.id
            or model.endpoint != "responses"
            or not fnmatch.fnmatchcase(model.id, variant.pattern)
        ):
            continue
        listed = known.get(model.id + variant.variant)
        if chosen.isdisjoint((model.id, listed.id if listed else "")):
            continue
        if listed is None and kind in _LISTED_VARIANTS:
            continue
        name = listed.name if listed else notice("model_variant", name=model.name, variant=kind)
        if variant.preset:
            name = notice("model_preset", name=name, preset=preset)
        row = listed or model
        yield replace(row, id=model.id + variant.variant + variant.preset, name=name), row


def _order(model: Model) -> tuple[str, int, str, str]:
    """By the provider's name, then the newest first; variants follow their model."""
    provider, colon, _ = model.name.partition(": ")
    if not colon:
        provider = model.id.partition("/")[0]
    return provider.casefold(), -model.created, re.split("[:@]", model.id)[0], model.id


def nearest_model(gone: Model, offered: Sequence[Model]) -> Model | None:
    """Return the offered model that is nearest to one: of those that answer in the same form.

    What was free stays so; then by what it can do, family, author, and price, and of two that are as near the newer.
    """
    price = gone.prices.input or _NO_PRICE

    def distance(model: Model) -> tuple[object, ...]:
        lacking = sum(
            (
                gone.reads("image") and not model.reads("image"),
                gone.calls_tools and not model.calls_tools,
                model.is_free and not gone.is_free,
            )
        )
        octaves = abs(math.log2(max(model.prices.input or 0.0, _NO_PRICE) / max(price, _NO_PRICE)))
        return (
            gone.is_free and not model.is_free,
            lacking,
            family(model.id) != family(gone.id),
            _author(model) != _author(gone),
            round(octaves),
            -model.created,
            model.id,
        )

    same_form = [
        model
        for model in offered
        if (model.writes, model.draws) == (gone.writes, gone.draws)
        and (_is_plain(model) or (gone.is_free and model.id.endswith(":free")))
    ]
    return min(same_form, key=distance, default=None)


def default_model(offered: Sequence[Model]) -> Model | None:
    """Return a good model that costs little: the newest that writes, calls tools, and has a large window.

    Its input costs less than that of half the offered models, and something; those of the largest authors that read
    images come first. None that will be withdrawn, and no variant, router or moving name.
    """
    priced = [model for model in offered if model.writes and model.prices.input]
    if not priced:
        return None
    median = statistics.median(model.prices.input or 0.0 for model in priced)
    fitting = [
        model
        for model in priced
        if "tools" in model.supported_parameters
        and (model.context_tokens or 0) >= LEAST_CONTEXT_TOKENS
        and (model.prices.input or 0.0) < median
        and not model.expires
        and _is_plain(model)
    ]

    def rank(model: Model) -> tuple[bool, bool, int, str]:
        return _author(model) in LARGEST_AUTHORS, "image" in model.input_modalities, model.created, model.id

    return max(fitting, key=rank, default=None)


def _author(model: Model) -> str:
    return model.id.partition("/")[0].removeprefix("~")


def _is_plain(model: Model) -> bool:
    """Whether it is a model of its own."""
    return not (
        model.alias_of or model.id.startswith(("~", "openrouter/")) or ":" in model.id or "@" in model.id
    )
