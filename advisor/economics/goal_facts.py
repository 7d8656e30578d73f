"""The facts about each family of hardware: the best deployment, its cost, its providers, and the engines that run
on it.
"""

import datetime
from dataclasses import dataclass

from advisor.catalog import accelerators as accelerator_catalog
from advisor.catalog import models as model_catalog
from advisor.catalog.api_prices import api_prices_as_of, endings_of, priced_models
from advisor.catalog.engines import all_engines
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership, purchase_price
from advisor.catalog.platforms import Platform
from advisor.catalog.prices import prices_as_of
from advisor.catalog.profiles import get_load_shape
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import MILLION
from advisor.decide.reason import NoAnswerError, NotForSale
from advisor.decide.recommend import search_scenario
from advisor.decide.scenario import Scenario
from advisor.decide.served_option import option_of
from advisor.economics.api_bill import models_alike, usd_per_request
from advisor.economics.owned import named_hardware
from advisor.economics.question import CostQuestion
from advisor.economics.row import tokens_of


@dataclass(frozen=True, slots=True)
class Deal:
    """The cheapest way to the model's tokens on a family."""

    what: str
    accelerator: str
    usd_per_million_tokens: float
    low: float
    high: float
    basis: str
    observed_on: str
    source: str


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """The facts that a score rests on, gathered once."""

    platform: Platform
    deal: Deal | None
    reason: str
    """Why there is none."""
    is_unpriced: bool
    """Whether only a price is missing, so that nothing was simulated."""
    kernels_measured: bool
    """The prediction rests on kernels measured on this architecture."""
    engines: tuple[str, ...]
    """Open engines that run on some accelerator of the family."""
    providers: tuple[str, ...]
    """Who rents it out, or the service itself."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Why a family has no deal."""

    text: str = ""
    is_unpriced: bool = False


def _gap_of(error: InfeasibleError) -> _Gap:
    """Why nothing of a family serves the model."""
    reasons = error.reasons if isinstance(error, NoAnswerError) else ()
    return _Gap(error.why or error.what, any(isinstance(reason, NotForSale) for reason in reasons))


def facts_of(platform: Platform, scenario: Scenario, known: Ownership) -> PlatformFacts:
    """Return the facts of one family for a scenario: simulated if the catalog can, priced if a provider sells it.

    Raises: UnknownNameError: the model or a provider is not known.
    Source: recommend.search; catalog records; data/platforms.toml.
    """
    members = [record for record in accelerator_catalog.all_accelerators() if platform.includes(record)]
    if platform.service:
        deal, gap = _service_deal(platform, scenario)
    else:
        deal, gap = _hardware_deal(platform, members, scenario, known)
    return PlatformFacts(
        platform=platform,
        deal=deal,
        reason=gap.text,
        is_unpriced=gap.is_unpriced,
        kernels_measured=deal is not None and deal.basis in ("modelled", "calibrated", "measured here"),
        engines=tuple(
            engine.id for engine in all_engines() if any(engine.id in record.engines for record in members)
        ),
        providers=_providers(platform, members, scenario.as_of),
    )


def _service_deal(platform: Platform, scenario: Scenario) -> tuple[Deal | None, _Gap]:
    """The service's list price of the model or of one with the same layers."""
    model = model_catalog.get(scenario.model)[0]
    alike = models_alike(model, priced_models())
    prices = api_prices_as_of(scenario.as_of, alike, providers=[platform.service])
    ended = endings_of(scenario.as_of, alike, providers=[platform.service])
    if not prices and ended:
        what = (
            f"{ended[0].model} at {platform.service}" if ended[0].model else f"the API of {platform.service}"
        )
        return None, _Gap(f"{what} ended on {ended[0].ended_on.isoformat()}")
    if not prices:
        return None, _Gap(f"{platform.name} lists neither {model.id} nor a model with the same layers")
    tokens = tokens_of(scenario.traffic)
    price = min(prices, key=lambda price: usd_per_request(price, tokens))
    usd = usd_per_request(price, tokens) * MILLION / (tokens.input + tokens.output)
    what = f"the service's list price of {price.model}"
    return Deal(what, "", usd, usd, usd, "listed", price.observed_on.isoformat(), price.url), _Gap()


def _hardware_deal(
    platform: Platform, members: list[Accelerator], scenario: Scenario, known: Ownership
) -> tuple[Deal | None, _Gap]:
    """The cheapest rented deployment of the family, else one that would be bought."""
    ids = tuple(record.id for record in members if record.is_ranked)
    try:
        done = search_scenario(scenario.with_limits(accelerators=ids), width=1)
    except InfeasibleError as error:
        return _owned_deal(platform, scenario, known, _gap_of(error))
    option = option_of(1, done.race.entries(-1, 1)[0], done.scenario)
    machine = option.machine
    layout = option.replica_layout
    offer = option.offer
    assert offer is not None
    sold = f"{machine.num_accelerators} x {machine.accelerator} from {offer.source_words}"
    what = f"{sold}, {layout.engine} {layout.weight_dtype}"
    usd = option.served.usd_per_million_tokens
    return Deal(
        what, machine.accelerator, usd.value, usd.low, usd.high, usd.basis, offer.read_words, offer.url
    ), _Gap()


def _owned_deal(
    platform: Platform, scenario: Scenario, known: Ownership, gap: _Gap
) -> tuple[Deal | None, _Gap]:
    for hardware in platform.own:
        record = accelerator_catalog.by_id(hardware.accelerator)
        bought = purchase_price(known, record)
        if bought is None:
            gap = _Gap(
                f"no provider in the catalog rents it out, and {record.id} has no purchase price",
                is_unpriced=True,
            )
            continue
        asked = scenario.with_limits(own=((hardware.count, record.id),), accelerators=())
        question = CostQuestion(scenario=asked, shape=get_load_shape("flat"))
        try:
            found, note = named_hardware(question, known, width=1)
        except InfeasibleError as error:
            gap = _gap_of(error)
            continue
        if found is None or found.row.tco is None:
            gap = _Gap(note)
            continue
        row = found.row
        life = found.row.tco.life_years
        cost = found.row.usd_per_million_tokens
        what = f"{hardware.count} x {record.id} of one's own for {life:g} years"
        return Deal(
            what, record.id, cost.value, cost.low, cost.high, cost.basis, row.priced_on, bought.url
        ), _Gap()
    return None, gap


def _providers(platform: Platform, members: list[Accelerator], as_of: datetime.date) -> tuple[str, ...]:
    if platform.service:
        return (platform.service,)
    offers = prices_as_of(
        as_of, terms=("on_demand", "spot", "reserved_1y", "reserved_3y"), accelerators=[r.id for r in members]
    )
    return tuple(sorted({offer.provider for offer in offers}))
