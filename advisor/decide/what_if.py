"""Response surfaces: the load that deployments carry at a grid of latency limits.

From a surface other loads, limits, prices and terms are ranked without a simulation, by the rules of a search.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist
from typing import Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.prices import price_age_days
from advisor.catalog.schema import Price
from advisor.catalog.units import HOUR_S, MEGA
from advisor.decide.certainty import LIKELY
from advisor.decide.changes import measurements_of
from advisor.decide.effort import SEARCH_WORK, limit_effort
from advisor.decide.measure import Capacity
from advisor.decide.offers import ROUNDING, market, placements, price_spread_of
from advisor.decide.option import Option, with_terms
from advisor.decide.purchase import Demand, pareto_placements, purchase_on
from advisor.decide.ranking import (
    QUANTILE_Z,
    SAMPLING_SIGMA,
    capacity_factor,
    complexity,
    firm_ways,
    is_firm,
    judge_purchase,
    least_throughput,
    move_to_front,
)
from advisor.decide.recommend import Search, search_scenario
from advisor.decide.scenario import Scenario
from advisor.decide.starting import layout_of, levers_of
from advisor.decide.trial import Found, Trial
from advisor.simulator.intervals import factors
from advisor.simulator.quantity import Z80, Basis
from advisor.simulator.serving_prediction import class_of

LOAD_FACTORS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Loads of the searches, over the load that was asked for."""
LIMIT_FACTORS: Final = (0.5, 0.7, 1.0, 1.4, 2.0)
"""p99 TPOT limits at which capacities are measured, over the limit that was asked for."""
SEARCHED_LIMITS: Final = (0.5, 1.0, 2.0)
"""Limits at which a search looks for deployments, over the limit that was asked for."""
_NORMAL: Final = NormalDist()
TERMS: Final = ("on_demand", "spot", "reserved_1y", "reserved_3y")
MOST_PER_ACCELERATOR: Final = 8
"""Deployments of one accelerator that a surface keeps."""


@dataclass(frozen=True, slots=True)
class WhatIfOffer:
    """One way to buy a deployment: a unit of an offer."""

    provider: str
    sku: str
    region: str
    term: str
    age_days: int | None
    usd_per_unit_hour: float
    replicas_per_unit: int
    accelerators_per_unit: int
    min_units: int
    max_units: int | None
    drift: float
    """Expected change of the logarithm of the price since it was read."""
    sigma: float
    """Standard deviation of that change."""
    is_firm: bool
    source_words: str
    """Provider with region and term."""


@dataclass(frozen=True, slots=True)
class WhatIfDeployment:
    """One deployment: what a replica carries at each limit of the grid, and how to buy it."""

    accelerator: str
    words: str
    """Engine, format and layout of a replica."""
    is_shown: bool
    """Whether the answer shows it: of deployments at an equal cost it comes first, as it does there."""
    weight_dtype: str
    basis: Basis
    capacities: tuple[float | None, ...]
    """Requests per second that a replica carries, by limit; None where it misses the limit at every load."""
    log_low: float
    """Natural logarithm of the lower end of the 80 % interval of real over predicted capacity; negative."""
    log_high: float
    log_slower: float
    """Natural logarithm of the upper end of the 80 % interval of real over predicted TPOT."""
    is_measured: bool
    complexity: tuple[int, int]
    least_throughput: float
    offers: tuple[WhatIfOffer, ...]


@dataclass(frozen=True, slots=True)
class WhatIfSurface:
    """Everything that ranks the deployments of one question at another load, limit, price or term."""

    rate_per_s: float
    tokens_per_request: int
    headroom_fraction: float
    tpot_limits_s: tuple[float, ...]
    precisions: tuple[str, ...]
    terms: tuple[str, ...]
    deployments: tuple[WhatIfDeployment, ...]


@dataclass(frozen=True, slots=True)
class WhatIfSetting:
    """A question that a surface answers."""

    rate_per_s: float
    tpot_limit_s: float
    term: str = "on_demand"
    precision: str | None = None
    """None allows every format of the surface."""
    price_factors: Mapping[str, float] | None = None
    """Price over the price that was read, by accelerator; None where no price changes."""


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """An accelerator in the answer to a setting."""

    deployment: WhatIfDeployment
    offer: WhatIfOffer
    num_replicas: int
    num_units: int
    usd_per_hour: float
    usd_per_million_tokens: float
    expected_cost: float
    low_usd_per_million_tokens: float
    high_usd_per_million_tokens: float
    chance: float

    @property
    def is_known(self) -> bool:
        """Whether kernels were measured and the price is firm."""
        return self.deployment.is_measured and self.offer.is_firm

    @property
    def is_safe(self) -> bool:
        """Whether the row is safe to take: known, and likely to hold."""
        return self.is_known and self.chance >= LIKELY


Report = Callable[[str], None]


def build_surface(
    scenario: Scenario, shown: Sequence[Option] = (), *, progress: Report = lambda line: None
) -> WhatIfSurface:
    """Return the surface of a question with a rate: searches gather its deployments, runs measure each at every limit.

    `shown` are the options of its answer.

    Raises: AdvisorError: the question states no rate or no limit of the p99 TPOT. InfeasibleError: nothing answers it.
    """
    rate = scenario.traffic.rate_per_s
    limit_s = scenario.objectives.tpot_p99_s
    if rate is None or limit_s is None or scenario.constraints.own:
        raise AdvisorError(
            "a page that answers what-if questions needs a rate, a p99 TPOT and hardware to rent",
            why="it varies the load and that limit around those of the question",
            fix="--rate 10 --tpot-p99 50ms, without --own",
        )
    searches = list(_searches(scenario, rate, limit_s, progress))
    trials = _gather(searches)
    limits = tuple(limit_s * factor for factor in LIMIT_FACTORS)
    base = next(each for each in searches if each.scenario.objectives.tpot_p99_s == limit_s)
    offers = {term: _market(scenario, term) for term in TERMS}
    chosen = {_key_of_option(option) for option in shown if option.layout is not None}
    deployments = []
    for number, trial in enumerate(trials, start=1):
        progress(f"measuring deployment {number} of {len(trials)} at {len(limits)} limits")
        found = _deployment(trial, base, limits, offers, is_shown=_key(trial, base.scenario) in chosen)
        if found is not None:
            deployments.append(found)
    return WhatIfSurface(
        rate_per_s=rate,
        tokens_per_request=scenario.traffic.tokens_per_request,
        headroom_fraction=scenario.headroom_fraction,
        tpot_limits_s=limits,
        precisions=tuple(sorted({each.weight_dtype for each in deployments})),
        terms=tuple(
            term for term in TERMS if any(o.term == term for each in deployments for o in each.offers)
        ),
        deployments=tuple(deployments),
    )


def _searches(scenario: Scenario, rate: float, limit_s: float, progress: Report) -> Iterable[Search]:
    """Yield searches at several limits and for each format on each term: each answers all loads of the grid."""
    loads = tuple(rate * factor for factor in LOAD_FACTORS)
    ladder = scenario.with_traffic(rate_per_s=None).model_copy(update={"ladder_per_s": loads})
    done = []
    for factor in SEARCHED_LIMITS:
        progress(f"searching deployments at {factor:g} times the limit of TPOT")
        asked = ladder.with_objectives(tpot_p99_s=limit_s * factor)
        quick = asked.model_copy(update={"screened_only": scenario.screened_only or factor != 1.0})
        try:
            done.append(search_scenario(quick, progress=progress))
        except InfeasibleError:
            if factor == 1.0:
                raise
    yield from done
    formats = {
        trial.candidate.deployment.weight_dtype for each in done for trial in each.race.trials.values()
    }
    for name, term in product(sorted(formats), TERMS):
        progress(f"searching deployments in {name}, {term.replace('_', ' ')}")
        asked = ladder.with_limits(precisions=(name,), terms=(term,))
        quick = asked.model_copy(update={"screened_only": True})
        try:
            yield search_scenario(quick, progress=progress)
        except InfeasibleError:
            continue


def _key(trial: Trial, scenario: Scenario) -> tuple[object, ...]:
    candidate = trial.candidate
    return (
        trial.accelerator_id,
        layout_of(candidate, 1, None, scenario.constraints),
        str(levers_of(candidate, scenario)),
    )


def _key_of_option(option: Option) -> tuple[object, ...]:
    """Return the key of the trial that an option shows."""
    layout = replace(option.replica_layout, num_replicas=1, max_model_len=None)
    return option.machine.accelerator, layout, str(option.levers)


def _gather(searches: Sequence[Search]) -> list[Trial]:
    """Return the measured deployments of several searches, those that a search found best first, a few of each
    accelerator."""
    ranked: dict[tuple[object, ...], tuple[float, Trial]] = {}
    for search in searches:
        race = search.race
        by_candidate = {id(trial.candidate): trial for trial in race.trials.values()}
        for place in range(len(race.demands)):
            for name in {trial.accelerator_id for trial in race.trials.values()}:
                for rank, plan in enumerate(race.others(place, name)):
                    trial = by_candidate[id(plan.found.candidate)]
                    key = _key(trial, search.scenario)
                    if key not in ranked or rank < ranked[key][0]:
                        ranked[key] = float(rank), trial
    kept: dict[str, int] = {}
    found = []
    for _, trial in sorted(ranked.values(), key=lambda each: each[0]):
        kept[trial.accelerator_id] = kept.get(trial.accelerator_id, 0) + 1
        if kept[trial.accelerator_id] <= MOST_PER_ACCELERATOR:
            found.append(trial)
    return found


def _market(scenario: Scenario, term: str) -> Mapping[str, tuple[Price, ...]]:
    limits = scenario.constraints.model_copy(update={"terms": (term,)})
    try:
        offers, _ = market(limits, scenario.as_of, None)
    except InfeasibleError:
        return {}
    return offers


def _deployment(
    trial: Trial,
    base: Search,
    limits: Sequence[float],
    offers: Mapping[str, Mapping[str, tuple[Price, ...]]],
    *,
    is_shown: bool,
) -> WhatIfDeployment | None:
    """Return a deployment measured at every limit; None if it carries no load at any, or is not offered."""
    run = trial.candidate.deployment
    capacities = [_capacity(trial, base.scenario.with_objectives(tpot_p99_s=limit_s)) for limit_s in limits]
    known = [each for each in capacities if each is not None]
    sold = tuple(_offers(trial, base.scenario, offers))
    if not known or not sold:
        return None
    middle = known[len(known) // 2]
    way = trial.ways[0]
    bought = purchase_on(
        base.scenario, Demand("rate", middle.load * 0.5), way, middle.load, middle.requests_per_s
    )
    assert trial.replica is not None
    if bought is None:
        return None
    found = Found(trial.candidate, trial.replica, middle, bought, trial.ways)
    plan = judge_purchase(base.scenario, Demand("rate", middle.load * 0.5), found)
    layout = layout_of(trial.candidate, 1, None, base.scenario.constraints)
    degrees = {
        "TP": run.tensor_parallel,
        "PP": run.pipeline_parallel,
        "EP": run.expert_parallel,
        "DP": run.data_parallel,
    }
    degree = [f"{name}{size}" for name, size in degrees.items() if size > 1]
    return WhatIfDeployment(
        accelerator=trial.accelerator_id,
        words=" ".join((layout.engine, layout.weight_dtype, *degree)),
        is_shown=is_shown,
        weight_dtype=layout.weight_dtype,
        basis=trial.replica.basis,
        capacities=tuple(None if each is None else each.load for each in capacities),
        log_low=math.log(capacity_factor(found, 0.1)),
        log_high=math.log(capacity_factor(found, 0.9)),
        log_slower=max(0.0, math.log(factors("tpot", class_of(trial.replica, middle.result.mean_batch))[1])),
        is_measured=plan.is_measured,
        complexity=complexity(trial.candidate),
        least_throughput=least_throughput(trial.candidate),
        offers=sold,
    )


def _capacity(trial: Trial, scenario: Scenario) -> Capacity | None:
    """Return the capacity of a replica within the objectives of a scenario; None where it misses them at any load."""
    assert trial.replica is not None
    runs = measurements_of(scenario, trial.replica)
    with limit_effort(SEARCH_WORK):
        return runs.capacity("confirmed") if runs else None


def _offers(
    trial: Trial, scenario: Scenario, offers: Mapping[str, Mapping[str, tuple[Price, ...]]]
) -> Iterable[WhatIfOffer]:
    """Yield the ways to buy a deployment on each term of which none is better in every respect, firm ones besides."""
    run = trial.candidate.deployment
    for term, sold in offers.items():
        ways = placements(run.accelerators_per_replica, sold.get(trial.accelerator_id, ()), run.accelerator)
        firm = firm_ways(scenario, ways)
        kept = dict.fromkeys(
            (
                *pareto_placements(ways, scenario.as_of, scenario.beside),
                *pareto_placements(firm, scenario.as_of, scenario.beside),
            )
        )
        for way in kept:
            spread = price_spread_of(way.price, scenario.as_of)
            price = way.price
            yield WhatIfOffer(
                provider=price.provider,
                sku=price.sku,
                region=price.region,
                term=term,
                age_days=price_age_days(price, scenario.as_of),
                usd_per_unit_hour=way.usd_per_unit_hour,
                replicas_per_unit=way.replicas_per_unit,
                accelerators_per_unit=way.accelerators_per_unit,
                min_units=way.min_units,
                max_units=way.max_units,
                drift=spread.drift,
                sigma=spread.sigma,
                is_firm=is_firm(price, spread),
                source_words=with_terms(price.provider, price.region, term),
            )


def capacity_at(surface: WhatIfSurface, deployment: WhatIfDeployment, limit_s: float) -> float | None:
    """Return what a replica carries at a limit [requests/s], interpolated on logarithmic scales; None outside of the
    grid, and where a neighbouring limit of the grid is missed at every load.
    """
    grid = surface.tpot_limits_s
    if not grid[0] * (1 - 1e-9) <= limit_s <= grid[-1] * (1 + 1e-9):
        return None
    place = next((i for i, each in enumerate(grid) if limit_s <= each * (1 + 1e-9)), len(grid) - 1)
    above = deployment.capacities[place]
    if above is None or abs(limit_s / grid[place] - 1.0) < 1e-9 or place == 0:
        return above
    below = deployment.capacities[place - 1]
    if below is None:
        return None
    part = math.log(limit_s / grid[place - 1]) / math.log(grid[place] / grid[place - 1])
    return float(below * (above / below) ** part)


def tpot_at(surface: WhatIfSurface, deployment: WhatIfDeployment, load_per_s: float) -> float:
    """Return the p99 TPOT of a replica under a load that it carries [s]: the limit at which that load is its capacity,
    interpolated as `capacity_at` does; the lowest limit of the grid where it carries more there.
    """
    grid = surface.tpot_limits_s
    below = None
    for place, capacity in enumerate(deployment.capacities):
        if capacity is not None and capacity >= load_per_s:
            if below is None or below == capacity:
                return grid[place]
            part = math.log(load_per_s / below) / math.log(capacity / below)
            return float(grid[place - 1] * (grid[place] / grid[place - 1]) ** part)
        below = capacity
    return grid[-1]


def rank_setting(surface: WhatIfSurface, setting: WhatIfSetting) -> list[WhatIfRow]:
    """Return the best deployment of each accelerator for a setting, in the order in which a search lists them."""
    entries = []
    for name in dict.fromkeys(each.accelerator for each in surface.deployments):
        able = [
            row
            for each in surface.deployments
            if each.accelerator == name and setting.precision in (None, each.weight_dtype)
            for row in _ways_of(surface, each, setting)
        ]
        if able:
            entries.append(_best_of(able))
    return _sort(entries)


def _ways_of(surface: WhatIfSurface, deployment: WhatIfDeployment, setting: WhatIfSetting) -> list[WhatIfRow]:
    """Return the cheapest expected way to buy a deployment, and the cheapest that is safe."""
    capacity = capacity_at(surface, deployment, setting.tpot_limit_s)
    if capacity is None:
        return []
    rows = [
        row
        for offer in deployment.offers
        if offer.term == setting.term
        and (row := buy(surface, deployment, offer, setting, capacity)) is not None
    ]
    safe = [row for row in rows if row.is_safe]
    cheapest = [min(each, key=lambda row: row.expected_cost) for each in (rows, safe) if each]
    return list({id(row): row for row in cheapest}.values())


def buy(
    surface: WhatIfSurface,
    deployment: WhatIfDeployment,
    offer: WhatIfOffer,
    setting: WhatIfSetting,
    capacity: float,
) -> WhatIfRow | None:
    """Return a deployment bought of one offer for a setting, judged as a search does; None beyond what is offered."""
    rate = setting.rate_per_s
    planned = capacity * (1.0 - surface.headroom_fraction)
    num_replicas = max(1, math.ceil(rate / planned - ROUNDING))
    num_units = max(offer.min_units, math.ceil(num_replicas / offer.replicas_per_unit))
    if offer.max_units is not None and num_units > offer.max_units:
        return None
    factor = (setting.price_factors or {}).get(deployment.accelerator, 1.0)
    usd_per_hour = num_units * offer.usd_per_unit_hour * factor
    usd = usd_per_hour / (rate * surface.tokens_per_request * HOUR_S) * MEGA

    def units_at(capacity_factor: float) -> int:
        needed = max(num_replicas, math.ceil(rate / (capacity * capacity_factor) - ROUNDING))
        return max(num_units, math.ceil(needed / offer.replicas_per_unit))

    grown = [units_at(_capacity_factor(deployment, z)) / num_units for z in QUANTILE_Z]
    expected = usd * max(1.0, sum(grown) / len(grown)) * math.exp(offer.drift + offer.sigma**2 / 2.0)
    part = rate / num_replicas / capacity
    side = deployment.log_low if part < 1.0 else deployment.log_high
    chance = 1.0 - _NORMAL.cdf(Z80 * math.log(part) / max(abs(side), ROUNDING))
    room = math.log(setting.tpot_limit_s / tpot_at(surface, deployment, rate / num_replicas))
    chance = min(chance, _NORMAL.cdf(Z80 * room / max(deployment.log_slower, ROUNDING)))
    price = Z80 * offer.sigma
    low = math.log(units_at(_capacity_factor(deployment, Z80)) / num_units)
    high = math.log(units_at(_capacity_factor(deployment, -Z80)) / num_units)
    return WhatIfRow(
        deployment,
        offer,
        num_replicas,
        num_units,
        usd_per_hour,
        usd,
        expected,
        usd * math.exp(min(0.0, offer.drift - math.hypot(low, price))),
        usd * math.exp(max(0.0, offer.drift + math.hypot(high, price))),
        chance=chance,
    )


def _capacity_factor(deployment: WhatIfDeployment, z: float) -> float:
    """Real over predicted capacity at a quantile of the standard normal."""
    return math.exp(z / Z80 * (deployment.log_high if z > 0.0 else -deployment.log_low))


def _sort(rows: Sequence[WhatIfRow]) -> list[WhatIfRow]:
    """Return rows by expected cost; the first safe one heads the list if it may cost no more than the cheapest."""
    order = sorted(rows, key=lambda row: row.expected_cost)
    safe = [row for row in order if row.is_safe] or [row for row in order if row.is_known]
    if not safe:
        return order
    return move_to_front(
        order,
        safe[0],
        lambda first, second: first.high_usd_per_million_tokens >= second.low_usd_per_million_tokens,
    )


def _best_of(able: Sequence[WhatIfRow]) -> WhatIfRow:
    """Return the deployment of one accelerator that a search would show; see `cheapest_by_expectation`."""
    best = _sort(able)[0]
    bill = best.usd_per_million_tokens * (1.0 + ROUNDING)
    expected = best.expected_cost * math.exp(2.0 * SAMPLING_SIGMA)
    equal = [
        row
        for row in able
        if row.usd_per_million_tokens <= bill
        and row.expected_cost <= expected
        and (row.is_safe, row.is_known) == (best.is_safe, best.is_known)
    ]
    return min(
        equal,
        key=lambda row: (
            not row.deployment.is_shown,
            -round(row.chance, 1),
            *row.deployment.complexity,
            -row.deployment.least_throughput,
            row.deployment.words,
        ),
        default=best,
    )
