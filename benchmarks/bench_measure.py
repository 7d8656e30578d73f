"""How far capacities of short runs are from those of very long ones, and what the constants of the race cost and
change.

    python benchmarks/bench_measure.py                        every table, in about eight CPU minutes
    python benchmarks/bench_measure.py --tables optimism      one of optimism, sigma, start, rivals

Deployments are drawn from those that can be bought for usual questions; requests are counted, not seconds, so that
figures are the same on every machine.
"""

import argparse
import datetime
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from advisor.ask.options import Load
from advisor.ask.traffic import traffic_of
from advisor.catalog import engines as engine_catalog
from advisor.catalog import models
from advisor.decide import measure, race
from advisor.decide.bounds import surface_requests_per_s, too_long_a_prompt
from advisor.decide.levers import replica_of
from advisor.decide.load_runs import odds_of_missing, run_at
from advisor.decide.measure import STAGES, Measurements, Stage
from advisor.decide.offers import market
from advisor.decide.recommend import searched
from advisor.decide.scenario import Constraints, Scenario, windowed
from advisor.decide.screening import screen
from advisor.simulator.serving.metrics import pooled

DAY: Final = datetime.date(2026, 11, 20)
QUESTIONS: Final = (
    ("llama-3.1-8b", "chat"),
    ("qwen3-32b", "code"),
    ("llama-3.1-70b", "chat"),
    ("llama-3.1-8b", "rag"),
    ("gpt-oss-120b", "agent"),
)
PER_QUESTION: Final = 8
LONG_REQUESTS: Final = 40_000
LONG_SEEDS: Final = range(7001, 7009)
MOST_STEPS: Final = 10
LED: Final = QUESTIONS[:4]
PER_LED: Final = 3
SEEDS: Final = 8
STEP: Final = 0.97
"""Ratio of the loads between which very long runs decide."""


def scenario_of(model: str, profile: str, **more: Any) -> Scenario:
    """A usual question about a model."""
    return Scenario(model=model, traffic=traffic_of(Load(profile=profile, **more)), as_of=DAY)


@lru_cache
def deployments() -> list[tuple[str, Scenario, Any, float]]:
    """Deployments of each question by name: the scenario, the replica and its bound."""
    found = []
    for model_id, profile in QUESTIONS:
        model = models.by_id(model_id)
        scenario, _ = windowed(scenario_of(model_id, profile), model)
        offers, accelerators = market(Constraints(), DAY, None)
        trials, _ = screen(scenario, model, accelerators, tuple(engine_catalog.all_engines()), offers)
        random.Random(7).shuffle(trials)
        own = 0
        for trial in trials:
            replica = replica_of(trial.candidate, scenario)
            bound = surface_requests_per_s(replica, scenario.traffic, scenario.objectives)
            if bound <= 0.0 or too_long_a_prompt(replica, scenario.traffic, scenario.objectives):
                continue
            if (
                Measurements(replica, scenario.traffic, scenario.objectives, bound, 0).capacity("screened")
                is None
            ):
                continue
            run = trial.candidate.deployment
            name = (
                f"{model_id} {profile} {trial.accelerator_id} x{run.accelerators_per_replica} {run.engine.id}"
            )
            found.append((name, scenario, replica, bound))
            own += 1
            if own == PER_QUESTION:
                break
    return found


@lru_cache
def leaders() -> list[tuple[str, Scenario, Any, float]]:
    """The first deployments of each question, as answers show them."""
    found = []
    for model_id, profile in LED:
        done = searched(scenario_of(model_id, profile), width=PER_LED)
        for plan in done.race.entries(-1, PER_LED):
            assert plan.found.measurements is not None
            run = plan.found.candidate.deployment
            name = (
                f"{model_id} {profile} {run.accelerator.id} x{run.accelerators_per_replica} {run.engine.id}"
            )
            found.append((name, done.scenario, plan.found.replica, plan.found.measurements.bound_per_s))
    return found


def fresh(deployment: tuple[str, Scenario, Any, float], seed: int = 0) -> Measurements:
    """Measurements of a deployment that has no run yet."""
    _, scenario, replica, bound = deployment
    return Measurements(replica, scenario.traffic, scenario.objectives, bound, seed)


def measurements(place: int) -> Measurements:
    """Fresh measurements of one of the deployments."""
    return fresh(deployments()[place])


@contextmanager
def having(module: ModuleType, **values: Any) -> Iterator[None]:
    """Other values of constants for a while."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def optimism() -> None:
    """Confirmed over raw screened capacity."""
    ratios = []
    for place, (name, *_) in enumerate(deployments()):
        runs = measurements(place)
        screened = runs.capacity("screened")
        confirmed = runs.capacity("confirmed")
        if screened is None or confirmed is None:
            print(f"  {name}: nothing confirmed")
            continue
        ratios.append(confirmed.load / (screened.load / measure._OPTIMISM))
    values = np.array(ratios)
    low, lower, middle, upper, high = np.quantile(values, (0.0, 0.1, 0.5, 0.9, 1.0))
    print(f"optimism: confirmed over raw screened capacity, {len(values)} deployments")
    print(f"  mean {values.mean():.3f}, geometric {math.exp(np.log(values).mean()):.3f}, median {middle:.3f}")
    print(f"  least {low:.3f}, 10 % {lower:.3f}, 90 % {upper:.3f}, most {high:.3f}")


def truth(deployment: tuple[str, Scenario, Any, float]) -> float:
    """Capacity of a deployment by runs of 320,000 requests: where, between loads 3 % apart, as many of them miss an
    objective as may."""
    _, scenario, replica, bound = deployment
    start = fresh(deployment).capacity("settled")
    assert start is not None

    def log_odds(load: float) -> float:
        runs = [
            run_at(replica, scenario.traffic, load, LONG_REQUESTS, seed, spacing_s=1.0 / bound)
            for seed in LONG_SEEDS
        ]
        return math.log(odds_of_missing(pooled(runs), scenario.objectives)[0])

    load = start.load
    odds = log_odds(load)
    for _ in range(MOST_STEPS):
        other = load * STEP if odds > 0.0 else load / STEP
        known = log_odds(other)
        if (known > 0.0) != (odds > 0.0):
            return math.exp(math.log(load) + math.log(other / load) * odds / (odds - known))
        load = other
        odds = known
    return load


def sigma() -> None:
    """Capacities of each stage by several seeds, against runs of 320,000 requests."""
    errors: dict[Stage, list[list[float]]] = {stage: [] for stage in STAGES}
    requests: dict[Stage, list[int]] = {stage: [] for stage in STAGES}
    for deployment in leaders():
        name = deployment[0]
        known = truth(deployment)
        told = []
        for stage in STAGES:
            logs = []
            for seed in range(SEEDS):
                runs = fresh(deployment, seed)
                found = runs.capacity(stage)
                if found is not None:
                    logs.append(math.log(found.load / known))
                    requests[stage].append(runs.num_requests)
            errors[stage].append(logs)
            told.append(f"{stage} {np.mean(logs):+.3f} ± {np.std(logs):.3f}" if logs else f"{stage} none")
        print(f"  {name} ({known:.3g}/s): {', '.join(told)}")
    print(
        f"sigma: ln(capacity / that of {len(LONG_SEEDS) * LONG_REQUESTS} requests), {len(leaders())} deployments, "
        f"{SEEDS} seeds each; requests include those of earlier stages"
    )
    for stage in STAGES:
        every = np.concatenate([np.array(logs) for logs in errors[stage]])
        own = math.sqrt(np.mean([np.var(logs) for logs in errors[stage] if logs]))
        print(
            f"  {stage}: root mean square {math.sqrt(np.mean(every**2)):.3f}, mean {every.mean():+.3f}, "
            f"by seed {own:.3f}, stated {measure.SIGMA[stage]}, requests {np.mean(requests[stage]):.0f}"
        )


def compared_settled(**values: Any) -> tuple[float, float]:
    """Requests with other constants over those with the constants as they are, and how far capacities move."""
    requests = [0, 0]
    moves = []
    for place in range(0, len(deployments()), 2):
        usual = measurements(place)
        before = usual.capacity("settled")
        with having(measure, **values):
            other = measurements(place)
            after = other.capacity("settled")
        requests[0] += usual.num_requests
        requests[1] += other.num_requests
        if before is not None and after is not None:
            moves.append(math.log(after.load / before.load))
    return requests[1] / requests[0], math.sqrt(np.mean(np.array(moves) ** 2))


def start() -> None:
    """Print the requests that other first loads take."""
    print("start: requests of settled capacities over those of now, with other first loads")
    for stage, value in (
        ("screened", 0.8),
        ("screened", 1.0),
        ("confirmed", 1.0),
        ("confirmed", 1.2),
        ("settled", 0.97),
        ("settled", 1.03),
    ):
        ratio, moved = compared_settled(_START=measure._START | {stage: value})
        print(f"  {stage} {value}: {ratio:.2f} times the requests, capacities move by {moved:.3f}")


RACES: Final = (("llama-3.1-70b", "chat", "5"), ("qwen3-32b", "code", "20"))


def rivals() -> None:
    """Print what it costs and changes to measure rivals again."""
    print("rivals: requests, and lowest expected cost, over those of now")
    settings = (
        {},
        {"RIVAL_SIGMAS": 0.0},
        {"RIVAL_SIGMAS": 1.0},
        {"RIVAL_SIGMAS": 3.0},
        {"RIVAL_MARGIN": 0.94},
        {"RIVAL_MARGIN": 1.0},
    )
    known: dict[tuple[str, str], tuple[float, list[float]]] = {}
    for values in settings:
        told = []
        for model, profile, rate in RACES:
            with having(race, **values):
                done = searched(scenario_of(model, profile, rate=rate), work=20_000_000)
            entries = done.race.entries(-1, race.WIDTH)
            costs = [plan.expected_cost for plan in entries]
            requests, first = known.setdefault((model, profile), (done.race.num_requests, costs))
            change = max(abs(math.log(one / other)) for one, other in zip(costs, first, strict=True))
            told.append(
                f"{model} {profile}: {done.race.num_requests / requests:.2f}, "
                f"first {costs[0] / first[0]:.3f}, largest of five {change:.3f}"
            )
        print(f"  {values or 'now'}: {'; '.join(told)}")


TABLES: Final[dict[str, Callable[[], None]]] = {
    "optimism": optimism,
    "sigma": sigma,
    "start": start,
    "rivals": rivals,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join(TABLES), help="names, joined by commas")
    for name in parser.parse_args().tables.split(","):
        began = time.process_time()
        TABLES[name]()
        print(f"  ({time.process_time() - began:.0f} CPU seconds)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
