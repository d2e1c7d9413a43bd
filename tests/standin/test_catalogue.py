"""The catalogue's data."""

from __future__ import annotations

from typing import Any

import pytest
from openrouter import operations
from openrouter.components.modelslistresponse import ModelsListResponse

from scripts.standin import catalogue, sdk_schema


def test_the_listing_is_valid() -> None:
    """The official SDK accepts every model, strictly."""
    assert sdk_schema.against(ModelsListResponse, catalogue.listing(0, 1000), ()) == []


@pytest.mark.parametrize("model", catalogue.MODELS, ids=lambda model: model.id)
def test_the_endpoints_of_each_model_are_valid(model: catalogue.Model) -> None:
    """The official SDK accepts them, strictly."""
    assert sdk_schema.against(operations.ListEndpointsResponse, model.endpoints(), ()) == []


def test_the_catalogue_is_varied() -> None:
    """It holds the cases that a client must cope with."""
    shown = {model.id: model.wire() for model in catalogue.MODELS}
    real = [name for name in shown if not name.startswith("standin/")]
    assert len(real) >= 16
    assert {name.partition("/")[0] for name in real} >= {
        "anthropic", "openai", "google", "deepseek", "x-ai", "mistralai", "meta-llama",
    }  # fmt: skip
    assert any(name.endswith(":free") for name in real)
    assert any("image" in model["architecture"]["output_modalities"] for model in shown.values())
    assert any(model["expiration_date"] for model in shown.values() if "expiration_date" in model)
    assert any("input_cache_read" not in model["pricing"] for model in shown.values())
    assert any("input_cache_write_1h" in model["pricing"] for model in shown.values())
    assert any("reasoning" not in model for model in shown.values())
    assert any("description" not in model for model in shown.values())
    assert any(model["top_provider"]["max_completion_tokens"] is None for model in shown.values())
    lengths = [model["context_length"] for model in shown.values()]
    assert min(lengths) <= 8_192
    assert max(lengths) >= 1_000_000


def test_prices_are_decimal_texts() -> None:
    """Dollars per token, or per search where the provider has one, never in scientific notation."""
    assert catalogue.BY_ID["anthropic/claude-sonnet-4.5"].wire()["pricing"] == {
        "prompt": "0.000003",
        "completion": "0.000015",
        "input_cache_read": "0.0000003",
        "input_cache_write": "0.00000375",
        "input_cache_write_1h": "0.000006",
        "web_search": "0.01",
    }
    assert "web_search" not in catalogue.BY_ID["deepseek/deepseek-v3.2"].wire()["pricing"]


def test_pages_link_to_the_next() -> None:
    """Offset and limit walk through all models once."""
    pages: list[dict[str, Any]] = [catalogue.listing(offset, 10) for offset in range(0, 40, 10)]
    listed = [model["id"] for page in pages for model in page["data"]]
    assert listed == [model.id for model in catalogue.MODELS if "text" in model.outputs]
    assert [page["links"]["next"] for page in pages] == [
        "/api/v1/models?offset=10&limit=10",
        "/api/v1/models?offset=20&limit=10",
        "/api/v1/models?offset=30&limit=10",
        None,
    ]


def test_models_without_text_are_listed_on_request() -> None:
    """The service leaves out what does not write, unless the outputs are named."""

    def listed(*outputs: str) -> set[str]:
        given = (outputs,) if outputs else ()
        return {model["id"] for model in catalogue.listing(0, 1000, (), *given)["data"]}

    every = {model.id for model in catalogue.MODELS}
    without_text = {"standin/pictures-only", "standin/video-only", "standin/embeddings-only"}
    assert every - listed() == without_text
    assert every - listed("text", "image") == without_text - {"standin/pictures-only"}
    assert (listed("video"), listed("all")) == ({"standin/video-only"}, every)


def test_models_can_be_chosen_by_parameter() -> None:
    """Only models that support all named parameters are listed."""
    listed = catalogue.listing(0, 1000, ("tools", "reasoning"))["data"]
    assert all({"tools", "reasoning"} <= set(model["supported_parameters"]) for model in listed)
    assert 0 < len(listed) < len(catalogue.MODELS)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai/gpt-5.2", "openai/gpt-5.2"),
        ("openai/gpt-5.2:nitro", "openai/gpt-5.2"),
        ("openai/gpt-5.2-20260709", "openai/gpt-5.2"),
        ("meta-llama/llama-3.3-70b-instruct:free", "meta-llama/llama-3.3-70b-instruct:free"),
        ("openai/gpt-5.2:free", None),
        ("openai/gpt-9", None),
        ("@preset/thrifty", "openai/gpt-4.1-mini"),
        ("openai/gpt-4o@preset/team", "openai/gpt-4o"),
        ("openai/gpt-4o:nitro@preset/team", "openai/gpt-4o"),
        ("@preset/unheard-of", None),
        ("openai/gpt-4o@preset/unheard-of", None),
        ("@team", None),
        ("openai/gpt-9@preset/team", None),
    ],
)
def test_models_have_several_names(name: str, found: str | None) -> None:
    """Routing variants, presets and canonical slugs name a model; free variants are models of their own."""
    model = catalogue.find(name)
    assert (model.id if model else None) == found
