"""The ranking of simulated deployments: planning points, risks, roles and ties."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, TypeVar

from advisor.catalog.prices import PriceSpread
from advisor.catalog.schema import Price
from advisor.decide.candidates import Candidate
from advisor.decide.certainty import LIKELY
from advisor.decide.engine_classes import support_of
from advisor.decide.levers import APART, lacks_head
from advisor.decide.load_runs import sure_clients
from advisor.decide.measure import Capacity, PlanningPoint
from advisor.decide.offers import NO_SPREAD, ROUNDING, Placement, price_spread_of
from advisor.decide.option import Holds, Role
from advisor.decide.power import rate_factors
from advisor.decide.purchase import Demand, Purchase, planned_load, purchase_on
from advisor.decide.scenario import Scenario
from advisor.decide.trial import Found
from advisor.simulator.collectives.topology import UsualNetwork
from advisor.simulator.disaggregation import DisaggregatedModel
from advisor.simulator.intervals import LEVEL_80, LEVELS, factors, pair_class, pair_errors, prediction_class
from advisor.simulator.quantity import Z80
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving_prediction import class_of

Each = TypeVar("Each")
CHEAPER_IF_BELOW: Final = 0.97
"""Call A cheaper than B only if it costs less than 97 % of B; smaller gaps are within the 5 % error of a capacity."""
QUANTILES: Final = tuple((2 * i + 1) / 42 for i in range(21))
_NORMAL: Final = NormalDist()
QUANTILE_Z: Final = tuple(_NORMAL.inv_cdf(quantile) for quantile in QUANTILES)
SAMPLING_SIGMA: Final = 0.04
"""Standard error over seeds of the logarithm of a settled capacity: 1 to 7 % on nine deployments of three questions,
mostly 3 to 5."""
EQUAL_FACTOR: Final = math.exp(2.0 * SAMPLING_SIGMA)
"""Ratio of the expected costs of two deployments with one bill up to which the surer, then the simpler one is taken."""
_FRESH_SIGMA: Final = 0.2
"""Largest standard deviation of a price's logarithm since it was read at which the price is firm: that of a list
price of three months."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A deployment bought for a demand: what it may really cost, whether it will hold, and what it shows there."""

    found: Found
    """Bought for this demand alone."""
    demand: Demand
    load: float
    """Load of one replica [requests/s, or clients]."""
    chance: float
    """Probability that the bought replicas carry the load within the objectives, given the model's error: by their
    capacity, and at the planning point by the latency nearest to its objective too."""
    expected_cost: float
    """Mean over the errors of model and price of what the search minimises, as in Purchase.cost."""
    result: ServingResult
    """Simulated result at the planning point once `confirmed`; before that, at the capacity."""
    price_spread: PriceSpread
    """How far the price may have moved since it was read."""
    point: PlanningPoint | None = None
    """How `result` was simulated; None before the planning point is shown."""
    accepts_network: bool = False
    """Whether the question names pools, so that whoever asks has a network for them."""

    @property
    def holds(self) -> Holds:
        return "likely" if self.chance >= LIKELY else "marginal"

    @property
    def is_safe(self) -> bool:
        """Whether it is safe to take: known, likely to hold, and without a network that its machines may lack."""
        return self.is_known and self.holds == "likely" and not self.may_lack_network

    @property
    def is_known(self) -> bool:
        """Whether the option may be listed first: its kernels were measured on this hardware, its checkpoint
        exists, and its price is firm."""
        price = self.found.purchase.placement.price
        return self.is_measured and is_firm(price, self.price_spread)

    @property
    def network(self) -> UsualNetwork | None:
        """Network between machines that carries caches from one pool to the other; None without such pools."""
        fleet = self.found.fleet
        served = None if fleet is None else fleet.served
        return served.network if isinstance(served, DisaggregatedModel) else None

    @property
    def may_lack_network(self) -> bool:
        """Whether pools that the question does not name need a network that the machines may not have: parts of nodes,
        or of one accelerator."""
        fleet = self.found.fleet
        if self.accepts_network or fleet is None or self.network is None:
            return False
        sizes = (
            (part.placement.price.num_accelerators, part.candidate.deployment.accelerator.node_size)
            for part in fleet.parts
        )
        return not self.network.is_stated or any(node == 1 or number % node for number, node in sizes)

    @property
    def is_measured(self) -> bool:
        """Whether kernels were measured on this hardware, the engine has the model's class and the checkpoint exists,
        ignoring the price."""
        return (
            self.found.replica.basis != "assumed"
            and self.found.candidate.checkpoint.origin != "quantise first"
            and not lacks_head(self.found.candidate)
            and support_of(self.found.candidate.deployment).is_known
        )


def judge_purchase(scenario: Scenario, demand: Demand, found: Found) -> Planned:
    """Return a deployment judged by what is known of the model's errors: where the real capacity is smaller, a given
    load needs more replicas, and an open one gets less. It is never expected to cost less than it is bought for.
    """
    load = load_per_replica(scenario, demand, found)
    purchase = found.purchase
    capacity = found.capacity.load
    if demand.kind == "clients":
        capacity = min(capacity, sure_clients(demand.size, scenario.headroom_fraction))
    costs = []
    for factor in capacity_factors(found):
        if demand.kind in ("rate", "clients"):
            units = _units_needed(purchase, demand.size / (capacity * factor))
            costs.append(purchase.cost * units / purchase.num_units)
        else:
            costs.append(purchase.cost / factor)
    chance = chance_of_capacity(found, load / capacity)
    spread = price_spread_of(purchase.placement.price, scenario.as_of)
    expected = max(purchase.cost, sum(costs) / len(costs)) * spread.mean_factor
    return Planned(
        found,
        demand,
        load,
        chance,
        expected,
        found.capacity.result,
        spread,
        accepts_network=APART.name in scenario.levers,
    )


def buy_at_capacity(scenario: Scenario, demand: Demand, found: Found, capacity: Capacity) -> Planned | None:
    """Return a candidate bought of its offer for a demand, given the capacity of a replica, and judged; None beyond the
    budget and the units that can be had."""
    way = found.purchase.placement
    bought = purchase_on(scenario, demand, way, capacity.load, capacity.requests_per_s)
    if bought is None:
        return None
    return judge_purchase(scenario, demand, replace(found, capacity=capacity, purchase=bought))


def capacity_factors(found: Found) -> tuple[float, ...]:
    """Real over predicted capacity at 21 quantiles of the errors of model and sampling."""
    low, high = _throughput_factors(found)
    down = -math.log(low) / Z80
    up = math.log(high) / Z80
    return tuple(math.exp(z * (up if z > 0 else down)) for z in QUANTILE_Z)


def _units_needed(purchase: Purchase, num_loads: float) -> float:
    """Return the units that carry `num_loads` times the load of a replica; a fleet of unlike workers grows by one
    worker."""
    way = purchase.placement
    needed = max(math.ceil(num_loads * way.num_workers - ROUNDING), purchase.num_replicas * way.num_workers)
    return max(purchase.num_units, math.ceil(needed / way.replicas_per_unit) / way.num_workers)


def is_firm(price: Price, spread: PriceSpread) -> bool:
    """Whether a price is a recent list price or quote for dedicated hardware. Source: own policy."""
    listed = price.tenancy == "dedicated" and price.price_kind in ("list", "quote")
    return listed and spread.sigma <= _FRESH_SIGMA


def firm_ways(scenario: Scenario, ways: Sequence[Placement]) -> list[Placement]:
    """Return the placements at firm prices. Source: own policy."""
    return [way for way in ways if is_firm(way.price, price_spread_of(way.price, scenario.as_of))]


def load_per_replica(scenario: Scenario, demand: Demand, found: Found) -> float:
    """Return the load that one of the bought replicas carries [requests/s, or clients].

    Source: replicas behind a router share the load evenly.
    """
    if demand.kind == "rate":
        return demand.size / found.purchase.num_replicas
    if demand.kind == "clients":
        return float(math.ceil(demand.size / found.purchase.num_replicas))
    return planned_load(scenario, found.capacity.load)


def capacity_factor(found: Found, quantile: float) -> float:
    """Measured over predicted capacity of a deployment at a quantile of the model's error.

    Assumes: ln of the ratio is normal on either side of a median of 1, as wide as its class's 80 % interval of
    throughput.
    """
    low, high = _throughput_factors(found)
    z = _NORMAL.inv_cdf(quantile) / Z80
    return math.exp(z * (math.log(high) if z > 0 else -math.log(low)))


def chance_of_capacity(found: Found, part: float) -> float:
    """Chance that the real capacity is at least this part of the predicted one.

    Source: the distribution of capacity_factor.
    """
    low, high = _throughput_factors(found)
    side = math.log(low) if part < 1.0 else math.log(high)
    return 1.0 - _NORMAL.cdf(Z80 * math.log(part) / max(abs(side), ROUNDING))


def _throughput_factors(found: Found) -> tuple[float, float]:
    """80 % interval of measured over predicted throughput, around 1."""
    replica = found.replica
    class_name = class_of(replica, found.capacity.result.mean_batch)
    low, high = factors("throughput", class_name)
    low = min(low, 1.0)
    high = max(high, 1.0)
    sampled = math.exp(Z80 * found.capacity.sigma)
    errors = [(low, high), (1.0 / sampled, sampled)]
    if (guess := found.candidate.speculation) is not None:
        errors.append((1.0 / guess.time_factors[1], 1.0 / guess.time_factors[0]))
    if (chip := found.candidate.full_power) is not None:
        errors.append(rate_factors(chip))
    # Sampling, how many guesses are accepted and how fast boards are under a limit are errors of their own, which
    # add in squares # on the logarithm.
    slow, fast = (math.hypot(*map(math.log, side)) for side in zip(*errors, strict=True))
    return math.exp(-slow), math.exp(fast)


def sort_by_expected_cost(options: Sequence[Planned]) -> list[Planned]:
    """Options by expected cost; one that is assumed or marginal does not head the list while a safe one may
    cost no more, nor one of an old or foreign price while none is safe.
    """
    order = sorted(options, key=lambda option: option.expected_cost)
    safe = [option for option in order if option.is_safe] or [option for option in order if option.is_known]
    return move_to_front(order, safe[0], overlap) if safe else order


def cheapest_by_expectation(able: Sequence[Planned]) -> Planned:
    """Return the deployment of one accelerator that is expected to cost least. Of those with the same bill, that are
    expected to differ by less than capacities do by their seeds: one that is likely to hold, then the simpler one, then
    the surer, then the one whose engine is predicted best.
    """
    best = sort_by_expected_cost(able)[0]
    bill = best.found.purchase.cost * (1.0 + ROUNDING)
    expected = best.expected_cost * EQUAL_FACTOR
    equal = [
        plan
        for plan in able
        if plan.found.purchase.cost <= bill
        and plan.expected_cost <= expected
        and (plan.is_safe, plan.is_known) == (best.is_safe, best.is_known)
    ]

    def by_safety(plan: Planned) -> tuple[bool, int, int, float, float, str, str]:
        candidate = plan.found.candidate
        names = candidate.deployment.engine.id, candidate.deployment.weight_dtype
        surer = -round(plan.chance, 1), -least_throughput(candidate)
        return (plan.holds != "likely", *complexity(candidate), *surer, *names)

    return min(equal, key=by_safety, default=best)


def complexity(candidate: Candidate) -> tuple[int, int]:
    """How much a deployment has that differs from the simplest one, and the accelerators of a replica.

    Each kind of parallelism counts, and so do speculation, a power limit, batch limits other than the engine's, and
    weights in another format than the publisher's.
    """
    run = candidate.deployment
    differences = (
        run.tensor_parallel > 1,
        run.pipeline_parallel > 1,
        run.data_parallel > 1,
        run.expert_parallel > 1,
        candidate.speculation is not None,
        candidate.full_power is not None,
        candidate.has_own_limits,
        run.weight_dtype != run.model.weights,
    )
    return sum(differences), run.accelerators_per_replica


def least_throughput(candidate: Candidate) -> float:
    """Lower end of measured over predicted throughput of the candidate's engine."""
    deployment = candidate.deployment
    architecture = deployment.accelerator.architecture
    name = prediction_class(deployment.engine.id, transferred=False, architecture=architecture)
    return factors("throughput", name)[0]


def is_tie(chance_first_is_cheaper: float) -> bool:
    """Whether it is less than 75 % sure which of two options costs less."""
    return 1.0 - LIKELY < chance_first_is_cheaper < LIKELY


def move_to_front(order: Sequence[Each], leader: Each, overlaps: Callable[[Each, Each], bool]) -> list[Each]:
    """Return the order with `leader` first, if it may cost no more than the first option; else unchanged."""
    if order[0] is leader or not overlaps(order[0], leader):
        return list(order)
    return [leader, *(option for option in order if option is not leader)]


def overlap(first: Planned, second: Planned) -> bool:
    """Whether the 80 % intervals of what the search compares of two options overlap. Source: own definition."""
    most = first.found.purchase.cost * cost_factors(first)[1]
    return most >= second.found.purchase.cost * cost_factors(second)[0]


def highest_overlap(option: Planned) -> float:
    """Return the expected cost above which no variant at a firm price overlaps with an option of its accelerator."""
    capacity = math.log(capacity_factor(option.found, 0.9))
    most = option.found.purchase.cost * cost_factors(option)[1]
    return most * math.exp(math.hypot(capacity, Z80 * _FRESH_SIGMA) + 0.5 * _FRESH_SIGMA**2)


def cost_range(option: Planned) -> tuple[float, float]:
    """Return the 80 % interval of what an option costs [USD per million tokens]."""
    low, high = cost_factors(option)
    value = option.found.purchase.usd_per_million_tokens
    return value * low, value * high


def cost_factors(option: Planned) -> tuple[float, float]:
    """Return the 80 % interval of an option's real over its planned cost, by the errors of its capacity and its price.

    Source: capacity_factor; whole units where the load is given; price_age.
    """
    purchase = option.found.purchase
    demand = option.demand
    spread = option.price_spread
    logs = []
    for quantile in (0.9, 0.1):
        real = option.found.capacity.load * capacity_factor(option.found, quantile)
        if demand.kind in ("rate", "clients"):
            units = _units_needed(purchase, demand.size / real)
            logs.append(math.log(max(units, purchase.num_units) / purchase.num_units))
        else:
            logs.append(math.log(option.found.capacity.load / real))
    price = Z80 * spread.sigma
    low = -math.hypot(logs[0], price)
    high = math.hypot(logs[1], price)
    return math.exp(min(0.0, low + spread.drift)), math.exp(max(0.0, high + spread.drift))


def chance_cheaper(first: Planned, other: Planned) -> float:
    """Chance that the first of two options costs less, given the errors of model and prices.

    Assumes: ln of the ratio of costs is normal.
    """
    ratio = math.log(other.expected_cost / first.expected_cost)
    return _NORMAL.cdf(Z80 * ratio / max(log_error(first, other), ROUNDING))


def log_error(first: Planned, other: Planned) -> float:
    """Half the 80 % interval of the logarithm of the ratio of two costs.

    Assumes: errors that deployments share cancel as in published pairs where what is paid follows the throughput;
    replicas are whole where the load is given; prices move independently, one and the same not at all; of two
    capacities under the same arrivals the ratio errs by the seed as one of them does.
    Source: simulator.paired_intervals; cost_range.
    """
    if first.found.purchase.placement.price is other.found.purchase.placement.price:
        first = replace(first, price_spread=NO_SPREAD)
        other = replace(other, price_spread=NO_SPREAD)
    sampled = Z80 * SAMPLING_SIGMA
    if first.demand.kind in ("rate", "clients"):
        return math.hypot(sampled, Z80 * _log_sigma(first), Z80 * _log_sigma(other))
    name = pair_class(first.found.replica, other.found.replica)
    width = pair_errors(name, "throughput").quantiles[LEVELS.index(LEVEL_80)]
    return math.hypot(sampled, width, Z80 * first.price_spread.sigma, Z80 * other.price_spread.sigma)


def _log_sigma(option: Planned) -> float:
    low, high = cost_factors(option)
    return math.log(high / low) / (2.0 * Z80)


def roles(costs: Sequence[float], safe: int | None) -> list[Role]:
    """Return the role of each entry by what entries cost: the safe pick, whose place is given, and what costs least of
    all if it holds."""
    found: list[Role] = ["other"] * len(costs)
    cheapest = costs.index(min(costs))
    if safe is None or costs[cheapest] < costs[safe]:
        found[cheapest] = "cheapest_if_it_holds"
    if safe is not None:
        found[safe] = "safe_pick"
    return found
