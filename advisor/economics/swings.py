"""Which assumptions of a cost per token matter most: those of a rented deployment, and those of an owned one."""

from collections.abc import Mapping, Sequence

from advisor.catalog.ownership import Ownership
from advisor.catalog.schema.economics import PurchasePrice
from advisor.decide.trial import Found
from advisor.economics.owned import whole_life
from advisor.economics.result import CostRow, OwnedOption
from advisor.economics.sensitivity import Parameter, Swing, tornado

_LEAST_LOAD = 0.4
"""Own assumption: a service that people use by day carries its mean load at this part of its peak or more."""
_OWNED = (
    "life_years", "resale_decay_per_year", "interest_per_year", "electricity_usd_per_kwh", "pue",
    "colocation_usd_per_kw_month", "server_usd_per_accelerator", "workstation_usd_per_accelerator",
    "staff_hours_per_node_month", "staff_hours_per_workstation_month",
)  # fmt: skip
_PRICE, _CAPACITY, _LOAD, _PURCHASE = "hourly price", "throughput", "load", "purchase price"


def rented_swings(row: CostRow, rivals: Sequence[CostRow]) -> tuple[Swing, ...]:
    """The cost of a rented token when price, throughput or load go to their ends, widest first.

    `rivals` are rows of the same accelerator: their prices are the range of the hourly price.

    Source: cost is price over throughput and load.
    """
    each = row.usd_per_hour / row.num_accelerators
    prices = [rival.usd_per_hour / rival.num_accelerators for rival in rivals] + [each]
    parameters = (
        Parameter(
            _PRICE, each, min(prices), max(prices), "USD per accelerator and hour",
            f"what {len({rival.provider for rival in rivals})} providers ask",
        ),
        _capacity_of(row),
        _load_of(row),
    )  # fmt: skip

    def evaluate(values: Mapping[str, float]) -> float:
        return _scaled(row, values) * values[_PRICE] / each

    return tornado(evaluate, parameters)


def owned_swings(
    option: OwnedOption, found: Found, bought: PurchasePrice, known: Ownership
) -> tuple[Swing, ...]:
    """The cost of an owned token when each assumption of ownership goes to its ends, widest first.

    Source: recommend.ownership at the ends of the catalog's ranges.
    """
    row = option.row
    busy = min(1.0, found.capacity.result.busy_fraction * row.load_fraction)
    parameters = [
        Parameter(_PURCHASE, bought.usd, bought.low, bought.high, "USD per accelerator", bought.source),
        _capacity_of(row),
        _load_of(row),
    ]
    for name in _OWNED:
        figure = known.assumptions[name]
        parameters.append(Parameter(name, figure.value, figure.low, figure.high, figure.unit, figure.source))

    def evaluate(values: Mapping[str, float]) -> float:
        changed = known
        for name in _OWNED:
            changed = changed.replaced(name, values[name])
        price = bought.model_copy(update={"usd": values[_PURCHASE]})
        cost = whole_life(found, price, changed, num_accelerators=row.num_accelerators, busy_fraction=busy)
        return _scaled(row, values) * cost.usd_per_hour / option.tco.usd_per_hour

    return tornado(evaluate, tuple(parameters))


def _capacity_of(row: CostRow) -> Parameter:
    cost = row.usd_per_million_tokens
    return Parameter(
        _CAPACITY,
        1.0,
        cost.value / cost.high,
        cost.value / cost.low,
        "of the prediction",
        "80 % interval of the simulator on published measurements",
    )


def _load_of(row: CostRow) -> Parameter:
    value = row.load_fraction
    return Parameter(
        _LOAD, value, min(_LEAST_LOAD, value), 1.0, "of the highest load within the objectives",
        "own assumption: mean over peak of a day",
    )  # fmt: skip


def _scaled(row: CostRow, values: Mapping[str, float]) -> float:
    at_load = row.usd_per_million_tokens.value * row.load_fraction / values[_LOAD]
    return at_load / values[_CAPACITY]
