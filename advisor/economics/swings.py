"""The assumptions of a cost per token that matter most: those of a rented deployment, and those of an owned one."""

from collections.abc import Mapping

from advisor.catalog.ownership import Ownership, purchase_price
from advisor.decide.ranking import Planned, capacity_factor
from advisor.economics.owned import life_of
from advisor.economics.result import CostRow
from advisor.economics.row import Priced
from advisor.economics.sensitivity import SensitivityInput, Swing, tornado

_LEAST_LOAD = 0.4
"""Lowest mean load of a service with daytime use, as a fraction of its peak. Own assumption."""
_OWNED = (
    "life_years",
    "resale_decay_per_year",
    "interest_per_year",
    "electricity_usd_per_kwh",
    "pue",
    "colocation_usd_per_kw_month",
    "server_usd_per_accelerator",
    "workstation_usd_per_accelerator",
    "staff_hours_per_node_month",
    "staff_hours_per_workstation_month",
)
_PRICE = "hourly price"
_CAPACITY = "throughput"
_LOAD = "load"
_PURCHASE = "purchase price"


def rented_swings(priced: Priced) -> tuple[Swing, ...]:
    """Return the cost of a rented token when price, throughput or load go to their ends, widest first.

    What other providers ask for the same deployment on as many accelerators is the range of the hourly price: a larger
    machine than the load needs is no other price of it.

    Source: cost is price over throughput and load.
    """
    row = priced.row
    here = row.option.served.usd_per_million_tokens.value
    each = row.usd_per_hour / row.option.machine.num_accelerators
    count = row.option.machine.num_accelerators
    rivals = [rival for rival in row.providers if rival.num_accelerators == count]
    prices = [each, *(each * rival.usd_per_million_tokens / here for rival in rivals)]
    sellers = {rival.provider for rival in rivals}
    if row.option.offer is not None:
        sellers.add(row.option.offer.provider)
    parameters = (
        SensitivityInput(
            _PRICE,
            each,
            min(prices),
            max(prices),
            "USD per accelerator and hour",
            f"what {len(sellers)} providers ask",
        ),
        _capacity_of(priced.plan),
        _load_of(row),
    )

    def evaluate(values: Mapping[str, float]) -> float:
        return _scale_to_load(row, values) * values[_PRICE] / each

    return tornado(evaluate, parameters)


def owned_swings(priced: Priced, known: Ownership) -> tuple[Swing, ...]:
    """Return the cost of an owned token when each assumption of ownership goes to its ends, widest first.

    Source: decide.ownership at the ends of the catalog's ranges.
    """
    row = priced.row
    plan = priced.plan
    bought = purchase_price(known, plan.found.candidate.deployment.accelerator)
    cost = row.tco
    power_w = row.mean_power_w
    if bought is None or cost is None or power_w is None:
        return ()
    parameters = [
        SensitivityInput(
            _PURCHASE, bought.usd, bought.low, bought.high, "USD per accelerator", bought.source
        ),
        _capacity_of(priced.plan),
        _load_of(row),
    ]
    for name in _OWNED:
        figure = known.assumptions[name]
        parameters.append(
            SensitivityInput(name, figure.value, figure.low, figure.high, figure.unit, figure.source)
        )

    def evaluate(values: Mapping[str, float]) -> float:
        changed = known
        for name in _OWNED:
            changed = changed.with_assumption(name, values[name])
        price = bought.model_copy(update={"usd": values[_PURCHASE]})
        life = life_of(plan, cost.num_accelerators, power_w, price, changed)
        beside = row.usd_per_hour - cost.usd_per_hour
        return _scale_to_load(row, values) * (life.usd_per_hour + beside) / row.usd_per_hour

    return tornado(evaluate, tuple(parameters))


def _capacity_of(plan: Planned) -> SensitivityInput:
    return SensitivityInput(
        _CAPACITY,
        1.0,
        capacity_factor(plan.found, 0.1),
        capacity_factor(plan.found, 0.9),
        "of the prediction",
        "80 % interval of the simulator on published measurements",
    )


def _load_of(row: CostRow) -> SensitivityInput:
    value = row.load_fraction
    return SensitivityInput(
        _LOAD,
        value,
        min(_LEAST_LOAD, value),
        1.0,
        "of the highest load within the objectives",
        "own assumption: mean over peak of a day",
    )


def _scale_to_load(row: CostRow, values: Mapping[str, float]) -> float:
    at_load = row.usd_per_million_tokens.value * row.load_fraction / values[_LOAD]
    return at_load / values[_CAPACITY]
