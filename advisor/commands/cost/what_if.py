"""What-if data of a report on cost: controls, the terms of its formulas, and the error against new reports."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.units import DAY_S, HOURS_PER_DAY, MILLION
from advisor.decide.race import Report
from advisor.economics.question import CostQuestion
from advisor.economics.report import PricedReport, priced_report
from advisor.economics.result import Way
from advisor.economics.what_if import CostTerms, cheapest_rent_usd_per_month
from advisor.render.answer import Answer
from advisor.render.html_controls import number, slider
from advisor.render.numbers import digits, percent, usd

CHECKED: Final = (0.3, 3.0)
"""Volumes of the new reports against which the terms are held, over that of the question."""
_RANGE: Final = (0.1, 10.0)
_MOST_ROWS: Final = 6
"""Cheapest ways of each kind that are shown, so that a dozen APIs do not hide the rents; all that is owned is shown."""
_HEADERS: Final = ("way", "what", "$ a month", "$/Mtok", "used", "price of", "how")
_ABOUT: Final = (
    "Computed on this page by the formulas of the report. Deployments, offers, what a replica carries and the energy "
    "of a request stay as simulated."
)


@dataclass(frozen=True, slots=True)
class CostCheck:
    """A new report at another volume beside the terms."""

    million_tokens_per_day: float
    rent_error_fraction: float
    """Bill of the cheapest rented way by the terms over that of the new report, less one."""


def _select_ways(ways: Sequence[Way]) -> Iterator[Way]:
    """Yield the cheapest ways of each kind, and all that is owned."""
    counts = Counter[str]()
    for way in ways:
        counts[way.way] += 1
        if counts[way.way] <= _MOST_ROWS or way.way == "own":
            yield way


def check_what_if(question: CostQuestion) -> None:
    """Refuse a question whose ways cannot be computed at another volume.

    Raises: AdvisorError: it states no volume, or a budget.
    """
    if question.volume is None:
        raise AdvisorError(
            "a page that answers what-if questions needs a volume",
            why="it varies the tokens of a day, and what each way costs follows from them",
            fix="--tokens-per-day 50M, or --rate 10",
        )
    if question.scenario.objectives.budget_usd_per_hour is not None:
        raise AdvisorError(
            "--what-if and --budget exclude each other",
            why="a budget limits what may be rented, and the page changes volumes and prices",
            fix="leave --budget out",
        )


def with_what_if(answer: Answer, question: CostQuestion, priced: PricedReport, line: Report) -> Answer:
    """Return the answer with what its page needs to answer other volumes, hours and prices.

    Raises: AdvisorError: every deployment is a pool of unlike workers, which the terms leave out.
    """
    terms = priced.terms
    if terms is None or not terms.rented:
        raise AdvisorError(
            "no deployment of this answer can be computed at another volume",
            why="each is a pool of unlike workers",
            fix="leave --what-if out",
        )
    checks: list[CostCheck] = []
    for factor in CHECKED:
        line(f"holding the page against new report {len(checks) + 1} of {len(CHECKED)}")
        check = check_terms(terms, question, factor)
        if check is not None:
            checks.append(check)
    report = priced.report
    crossings = [each.sentence for each in report.break_even]
    data = {
        "kind": "cost",
        "about": f"{_ABOUT}{_shape_words(terms.shape)}",
        "controls": _controls(terms),
        "headers": _HEADERS,
        "rows": [_cells(way) for way in _select_ways(report.ways)],
        "answer": report.headline,
        "lists": [{"name": "crossings", "title": "Break-even points", "items": crossings}],
        "note": _error_words(checks),
        "checks": checks,
        "script": {"terms": terms, "most_rows": _MOST_ROWS},
    }
    return replace(answer, result={**answer.result, "what_if": data})


def check_terms(terms: CostTerms, question: CostQuestion, factor: float) -> CostCheck | None:
    """Return a new report at `factor` times the volume beside the terms; None where one of them has no rented way."""
    volume = terms.million_tokens_per_day * factor
    try:
        report = priced_report(with_volume(question, volume)).report
    except InfeasibleError:
        return None
    expected = cheapest_rent_usd_per_month(terms, volume)
    found = [way.usd_per_month for way in report.ways if way.way == "rent"]
    if expected is None or not found:
        return None
    return CostCheck(volume, expected / min(found) - 1.0)


def with_volume(question: CostQuestion, million_tokens_per_day: float) -> CostQuestion:
    """Return the question with another volume."""
    tokens = million_tokens_per_day * MILLION
    peak = tokens / DAY_S / question.tokens_per_request / question.mean_over_peak
    scenario = question.scenario.with_traffic(rate_per_s=peak)
    return question.model_copy(update={"scenario": scenario, "tokens_per_day": tokens})


def _controls(terms: CostTerms) -> list[dict[str, object]]:
    volume = terms.million_tokens_per_day
    controls = [
        slider("volume", "Million tokens a day", volume, volume * _RANGE[0], volume * _RANGE[1]),
        number("hours", "Hours a day with requests [h]", HOURS_PER_DAY, 1.0, HOURS_PER_DAY, 1.0),
        number("rent", "Change rents by [%]", 0.0, -90.0, 300.0, 5.0),
    ]
    if not terms.owned:
        return controls
    price = terms.electricity_usd_per_kwh
    decay = 100.0 * terms.resale_decay_per_year
    return [
        *controls,
        number("electricity", "Electricity [$/kWh]", price, 0.0, max(1.0, price), 0.0),
        number("years", "Years of owning", terms.life_years, 0.5, 20.0, 0.5),
        number("decay", "Loss of value a year [%]", decay, 0.0, 100.0, 0.0),
        number("buy", "Change purchase prices by [%]", 0.0, -90.0, 300.0, 5.0),
    ]


def _shape_words(shape: str) -> str:
    """Return how hours a day relate to a shape of the day that is not flat."""
    return "" if shape == "flat" else f" 24 hours a day have the shape {shape}; fewer hours have a flat load."


def _cells(way: Way) -> tuple[str, ...]:
    """Return a way as the page shows it before its script runs."""
    return (
        way.way,
        way.what,
        usd(way.usd_per_month),
        f"${digits(way.usd_per_million_tokens)}",
        percent(way.utilisation_fraction),
        way.price_observed_on,
        way.note,
    )


def _error_words(checks: list[CostCheck]) -> str:
    """Return how far the terms are from new reports at other volumes."""
    if not checks:
        return "Other volumes were not held against new runs: ask the command before you rent."
    largest = max(abs(each.rent_error_fraction) for each in checks)
    volumes = " and ".join(digits(each.million_tokens_per_day) for each in checks)
    return (
        f"Held against new runs at {volumes} million tokens a day, which may choose other deployments: the bill of the "
        f"cheapest rented way differed by at most {100.0 * largest:.1f} %. Ask the command before you rent."
    )
