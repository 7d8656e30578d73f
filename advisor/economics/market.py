"""One search on the market for a question about cost: deployments, their highest loads, their rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.catalog.engines import all_engines
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import Ownership
from advisor.catalog.schema import Model, Price
from advisor.decide.candidates import usable_precisions
from advisor.decide.decision import Counts, Rejected
from advisor.decide.race import Report, at_planned_load
from advisor.decide.recommend import Search, rejected_of, searched
from advisor.decide.scenario import Scenario
from advisor.decide.trial import Found
from advisor.economics.question import CostQuestion
from advisor.economics.result import CostRow
from advisor.economics.rows import Served, best_by_precision, founded_first, row_of, ways_by_provider

MAX_PROVIDERS = 6
"""Rows of one accelerator and format: the cheapest offers, one per provider and term."""


@dataclass(frozen=True, slots=True)
class Market:
    """What can be rented for the load, simulated and priced."""

    model: Model
    note: str
    best: tuple[Found, ...]
    """Of each accelerator its cheapest deployment, at its highest load within the objectives."""
    rows: tuple[CostRow, ...]
    """Cheapest first, behind the one to take."""
    found: Mapping[tuple[str, str, int], Found]
    """By accelerator, weight format and accelerators per replica."""
    served: Served | None
    offers: Mapping[str, tuple[Price, ...]]
    rejected: tuple[Rejected, ...]
    counts: Counts

    def found_of(self, row: CostRow) -> Found:
        """The simulated deployment behind a row."""
        size = row.tensor_parallel * row.pipeline_parallel * row.data_parallel
        return self.found[row.accelerator, row.weight_dtype, size]

    def rent_instead(self, accelerator: str, count: int) -> tuple[str, float] | None:
        """What it is to rent an accelerator instead of owning so many, in words, and USD per hour.

        For a given load it is the cheapest row of that accelerator, else as many of them at the cheapest price.
        """
        rows = [row for row in self.rows if row.accelerator == accelerator] if self.served else []
        if rows:
            row = min(rows, key=lambda row: row.usd_per_hour)
            return f"{row.num_accelerators} x {accelerator} from {row.provider}", row.usd_per_hour
        offers = [offer for offer in self.offers.get(accelerator, ()) if offer.term == "on_demand"]
        if not offers:
            return None
        each = min(offer.usd_per_accelerator_hour for offer in offers)
        return f"{count} x {accelerator} at ${each:.2f}/h each", each * count


def survey(
    question: CostQuestion, known: Ownership, progress: Report, *, own: tuple[int, str] | None = None
) -> Market:
    """Search, find the highest loads, and price every offer; with `own` only that hardware, for a load of its own.

    With a given load the search looks for the deployment that carries its peak at least cost in whole units.

    Raises: InfeasibleError: nothing serves the model within the objectives and limits.
    Source: recommend.search; own composition.
    """
    scenario = question.scenario
    mean, peak = question.mean_rate_per_s, question.peak_rate_per_s
    served = None if mean is None or peak is None else Served(mean, peak)
    asked = scenario
    if own is not None:
        limits = scenario.constraints.model_copy(update={"own": (own,), "accelerators": ()})
        asked = scenario.model_copy(update={"constraints": limits})
    elif peak is not None:
        asked = _with_rate(scenario, peak)
    done = searched(asked, progress=progress, suggests=True)
    best = [at_planned_load(scenario, plan.found) for plan in done.race.entries(-1, asked.top)]
    others = _other_precisions(done, scenario, best[0], served, progress) if own is None else []
    rows = [
        row_of(found, way, scenario, known, served=served)
        for found in (*best, *others)
        for way in ways_by_provider(found, done.offers[found.accelerator_id], largest=MAX_PROVIDERS)
        if _within_budget(scenario, way.usd_per_unit_hour)
    ]
    ordered = founded_first(rows)
    by_cost = {row.accelerator: place for place, row in reversed(list(enumerate(ordered)))}
    return Market(
        model=done.model,
        note="; ".join(done.notes),
        best=tuple(sorted(best, key=lambda found: by_cost.get(found.accelerator_id, len(ordered)))),
        rows=ordered,
        found={_key(found): found for found in (*others, *best)},
        served=served,
        offers=done.offers,
        rejected=rejected_of(
            done,
            {found.accelerator_id for found in best},
            max(row.usd_per_million_tokens.value for row in ordered),
        ),
        counts=done.counts(0.0),
    )


def _with_rate(scenario: Scenario, rate_per_s: float) -> Scenario:
    traffic = scenario.traffic.model_copy(update={"rate_per_s": rate_per_s})
    return scenario.model_copy(update={"traffic": traffic})


def _key(found: Found) -> tuple[str, str, int]:
    deployment = found.candidate.deployment
    return found.accelerator_id, deployment.weight_dtype, deployment.accelerators_per_replica


def _other_precisions(
    done: Search, scenario: Scenario, best: Found, served: Served | None, progress: Report
) -> list[Found]:
    """The best accelerator's deployments in the other weight formats that the user allows."""
    name, limits = best.accelerator_id, scenario.constraints
    accelerator = best.candidate.deployment.accelerator
    known = best_by_precision([plan.found for plan in done.race.others(-1, name)])
    usable = {
        dtype
        for engine in all_engines()
        if engine.id in accelerator.engines and (not limits.engines or engine.id in limits.engines)
        for dtype in usable_precisions(done.model, accelerator, engine, limits.precisions)
    }
    for dtype in sorted(usable - known.keys()):
        only = limits.model_copy(update={"accelerators": (name,), "precisions": (dtype,)})
        asked = scenario.model_copy(update={"constraints": only})
        asked = asked if served is None else _with_rate(asked, served.peak_per_s)
        try:
            done_there = searched(asked, progress=progress, width=1)
            known[dtype] = done_there.race.entries(-1, 1)[0].found
        except InfeasibleError:
            continue  # this format does not meet the objectives: the row is missing, the others stand
    del known[best.candidate.deployment.weight_dtype]
    return [at_planned_load(scenario, found) for found in known.values()]


def _within_budget(scenario: Scenario, usd_per_hour: float) -> bool:
    budget = scenario.objectives.budget_usd_per_hour
    return budget is None or usd_per_hour <= budget
