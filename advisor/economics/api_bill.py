"""The cost of the same tokens through an API provider, and the models that do the same work per token."""

from collections.abc import Collection
from dataclasses import dataclass

from advisor.catalog import models as model_catalog
from advisor.catalog.schema import Model
from advisor.catalog.schema.economics import ApiPrice
from advisor.catalog.units import MILLION
from advisor.economics.token_split import RequestTokens


@dataclass(frozen=True, slots=True)
class ApiCost:
    """One provider's list price and what the load costs there."""

    provider: str
    model: str
    usd_per_million_input_tokens: float
    usd_per_million_cached_tokens: float
    usd_per_million_output_tokens: float
    usd_per_million_tokens: float
    """Price of the load's mix of prompt and output tokens [USD per million tokens]."""
    price_observed_on: str
    price_age_days: int
    price_url: str
    note: str


def usd_per_request(price: ApiPrice, tokens: RequestTokens) -> float:
    """Cost of one mean request at list price [USD].

    Source: definition; a provider without a price for cached tokens charges the full one.
    """
    cached = price.usd_per_million_cached_input
    usd = (
        tokens.new_input * price.usd_per_million_input
        + tokens.cached_input * (price.usd_per_million_input if cached is None else cached)
        + tokens.output * price.usd_per_million_output
    )
    return usd / MILLION


def api_cost(price: ApiPrice, tokens: RequestTokens, age_days: int) -> ApiCost:
    """A provider's price for a kind of request."""
    cached = price.usd_per_million_cached_input
    return ApiCost(
        provider=price.provider,
        model=price.model,
        usd_per_million_input_tokens=price.usd_per_million_input,
        usd_per_million_cached_tokens=price.usd_per_million_input if cached is None else cached,
        usd_per_million_output_tokens=price.usd_per_million_output,
        usd_per_million_tokens=usd_per_request(price, tokens) * MILLION / (tokens.input + tokens.output),
        price_observed_on=price.observed_on.isoformat(),
        price_age_days=age_days,
        price_url=price.url,
        note=price.note,
    )


def models_alike(model: Model, priced: Collection[str]) -> tuple[str, ...]:
    """The model's id and those of the priced models of the catalog that have its shape. The id of a local folder counts
    only with the shape of that model, as a folder may have any name.

    Serving one costs what serving another costs, so the price list of one speaks for the other.

    Source: own definition: same layers, hidden size, vocabulary and native format.
    """
    known = set(model_catalog.all_ids())
    own = () if model.folder and model.id in known else (model.id,)
    others = sorted(set(priced) & known - set(own))
    return (*own, *(each for each in others if _shape(model_catalog.by_id(each)) == _shape(model)))


def _shape(model: Model) -> tuple[object, ...]:
    return (model.layers, model.hidden_size, model.vocab_size, model.weights)
