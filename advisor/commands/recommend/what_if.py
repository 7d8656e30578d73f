"""What-if data of a recommendation: a response surface, its ranking of the question, and its error against new runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from advisor.ask.options import SharedOptions
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import HOURS_PER_MONTH, MILLISECOND_S
from advisor.cli.notes import progress
from advisor.decide.certainty import LIKELY
from advisor.decide.option import Option
from advisor.decide.ranking import QUANTILE_Z, SAMPLING_SIGMA
from advisor.decide.recommend import recommend
from advisor.decide.scenario import Scenario
from advisor.decide.what_if import (
    LOAD_FACTORS,
    WhatIfRow,
    WhatIfSetting,
    WhatIfSurface,
    build_surface,
    rank_setting,
)
from advisor.render.answer import Answer
from advisor.render.numbers import digits
from advisor.simulator.quantity import Z80

CHECKED: Final = ((0.4, 0.8), (2.5, 1.25), (0.2, 1.6), (6.0, 0.6))
"""Loads and limits of the new runs against which a surface is held, over those of the question."""
MOST_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class WhatIfCheck:
    """A new run of another setting, and the ranking that the surface gives it."""

    rate_per_s: float
    tpot_limit_s: float
    accelerator: str
    """First accelerator of the new run."""
    surface_accelerator: str
    is_same: bool
    """Whether both put the same accelerator first, or the new run calls the two a tie."""
    cost_error_fraction: float
    """Expected cost of the first option on the surface over that of the new run, less one."""


def with_what_if(answer: Answer, scenario: Scenario, shared: SharedOptions) -> Answer:
    """Return the answer with what its page needs to answer other loads, limits, prices and terms.

    Raises: AdvisorError: the question has no rate, no limit of the p99 TPOT, or hardware of its own.
    """
    with progress(quiet=shared.quiet) as line:
        surface = build_surface(scenario, cast("Sequence[Option]", answer.result["options"]), progress=line)
        checks: list[WhatIfCheck] = []
        for load, limit in CHECKED:
            line(f"holding the surface against new run {len(checks) + 1} of {len(CHECKED)}")
            check = check_surface(surface, scenario, load, limit)
            if check is not None:
                checks.append(check)
    limit_s = scenario.objectives.tpot_p99_s
    assert limit_s is not None
    term = scenario.constraints.terms[0]
    rows = rank_setting(surface, WhatIfSetting(surface.rate_per_s, limit_s, term))
    data = {
        "surface": surface,
        "loads_per_s": (surface.rate_per_s * LOAD_FACTORS[0], surface.rate_per_s * LOAD_FACTORS[-1]),
        "tpot_limit_s": limit_s,
        "term": term,
        "quantile_z": QUANTILE_Z,
        "z80": Z80,
        "likely": LIKELY,
        "sampling_sigma": SAMPLING_SIGMA,
        "accelerators": sorted({each.accelerator for each in surface.deployments}),
        "answer": _words(rows, surface, limit_s),
        "rows": [_cells(place, row) for place, row in enumerate(rows[:MOST_ROWS], start=1)],
        "checks": checks,
    }
    return replace(answer, result={**answer.result, "what_if": data})


def check_surface(
    surface: WhatIfSurface, scenario: Scenario, load: float, limit: float
) -> WhatIfCheck | None:
    """Return a new run beside the surface; None where neither has an answer."""
    assert scenario.objectives.tpot_p99_s is not None
    setting = WhatIfSetting(
        surface.rate_per_s * load, scenario.objectives.tpot_p99_s * limit, scenario.constraints.terms[0]
    )
    rows = rank_setting(surface, setting)
    asked = scenario.with_traffic(rate_per_s=setting.rate_per_s)
    try:
        found = recommend(asked.with_objectives(tpot_p99_s=setting.tpot_limit_s), whole=False)
    except InfeasibleError:
        return None
    best = found.options[0]
    if not rows:
        return None
    tied = {option.machine.accelerator for option in found.options if option.rank in best.tie_with}
    first = rows[0].deployment.accelerator
    expected = best.served.expected_usd_per_million_tokens
    return WhatIfCheck(
        setting.rate_per_s,
        setting.tpot_limit_s,
        best.machine.accelerator,
        first,
        first == best.machine.accelerator or first in tied,
        rows[0].expected_cost / expected - 1.0,
    )


def _words(rows: list[WhatIfRow], surface: WhatIfSurface, limit_s: float) -> str:
    if not rows:
        return "Nothing in this surface meets the question."
    cells = _cells(1, rows[0])
    return (
        f"At {digits(surface.rate_per_s)} requests/s and {digits(limit_s / MILLISECOND_S)} ms: {cells[1]} from "
        f"{rows[0].offer.source_words}, {cells[4]}/h, {cells[5]} a month."
    )


def _cells(place: int, row: WhatIfRow) -> tuple[str, ...]:
    """Return a row as the page shows it before its script runs."""
    offer = row.offer
    age = "undated" if offer.age_days is None else f"{offer.age_days}d"
    return (
        str(place),
        f"{row.num_units * offer.accelerators_per_unit} x {row.deployment.accelerator}",
        row.deployment.words,
        f"{offer.source_words}, {age}",
        f"${digits(row.usd_per_hour)}",
        f"${digits(row.usd_per_hour * HOURS_PER_MONTH)}",
        f"${digits(row.usd_per_million_tokens)} "
        f"({digits(row.low_usd_per_million_tokens)}-{digits(row.high_usd_per_million_tokens)})",
        "likely" if row.chance >= LIKELY else "marginal",
    )
