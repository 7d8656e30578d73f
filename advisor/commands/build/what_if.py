"""What-if data of an answer about workstations: how machines are used, and what that makes them cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.ownership import ownership
from advisor.catalog.units import HOUR_S, MILLION
from advisor.commands.build.view import payback_words
from advisor.render.answer import Answer
from advisor.render.html_controls import number
from advisor.render.numbers import digits, usd
from advisor.workstation.plan import Build, Question

_HEADERS: Final = (
    "#",
    "machine",
    "rent instead",
    "price",
    "own $/h",
    "rent $/h",
    "own $/Mtok",
    "rent $/Mtok",
    "pays off",
)
_ABOUT: Final = (
    "Computed on this page by the formulas of the answer; parts, speeds and powers stay as planned. The cheapest to "
    "own per token comes first; # is the place in the answer, which depends on price and speed alone."
)
_NOTE: Final = (
    "How a machine is used changes neither its parts nor its speed, so a new run with the same use gives these "
    "figures. A change of rents applies to all of them."
)


@dataclass(frozen=True, slots=True)
class MachineTerms:
    """The terms from which the cost of owning a machine, and of renting instead, follows."""

    rank: int
    name: str
    total_usd: float
    power_w: float
    """Power at the wall while it works."""
    tokens_per_s: float
    """Prompt and output tokens."""
    rent_usd_per_hour: float | None
    """The cheapest hardware to rent that is as fast; None where no provider rents it out."""
    rent_words: str


def with_what_if(answer: Answer, builds: Sequence[Build], question: Question, resale: float | None) -> Answer:
    """Return the answer with what its page needs for other uses; `resale` is the resale value that was typed.

    Raises: InfeasibleError: no machine of the answer runs the model.
    """
    machines = [
        (_machine(rank, build), build)
        for rank, build in enumerate(builds, start=1)
        if build.economics is not None and build.economics.own_usd_per_million_tokens is not None
    ]
    if not machines:
        raise InfeasibleError(
            "no machine of this answer runs the model",
            why="what-if computes the cost of its tokens",
            fix="leave --what-if out, or a larger --budget",
        )
    machines.sort(key=lambda each: _own_usd_per_million(each[1]))
    data = {
        "kind": "build",
        "about": _ABOUT,
        "controls": _controls(question, resale),
        "headers": _HEADERS,
        "rows": [_cells(terms, build) for terms, build in machines],
        "answer": (
            f"At {digits(question.use.hours_per_day)} hours a day for {digits(question.use.years)} years, "
            f"{machines[0][0].name} costs least to own: {usd(_own_usd_per_million(machines[0][1]))} per million tokens."
        ),
        "note": _NOTE,
        "script": {"terms": {"machines": [terms for terms, _ in machines]}},
    }
    return replace(answer, result={**answer.result, "what_if": data})


def _own_usd_per_million(build: Build) -> float:
    assert build.economics is not None
    return build.economics.own_usd_per_million_tokens or 0.0


def _machine(rank: int, build: Build) -> MachineTerms:
    costs = build.economics
    assert costs is not None
    rent = costs.rent
    tokens_per_s = costs.own_usd_per_hour / _own_usd_per_million(build) * MILLION / HOUR_S
    return MachineTerms(
        rank=rank,
        name=build.name,
        total_usd=build.total_usd,
        power_w=build.power_w,
        tokens_per_s=tokens_per_s,
        rent_usd_per_hour=None if rent is None else rent.usd_per_hour,
        rent_words="-" if rent is None else f"{rent.num} x {rent.accelerator} ({rent.offer})",
    )


def _controls(question: Question, resale: float | None) -> list[dict[str, object]]:
    use = question.use
    decay = ownership(question.as_of).value("resale_decay_per_year")
    left = (
        number("decay", "Loss of value a year [%]", 100.0 * decay, 0.0, 100.0, 0.0)
        if resale is None
        else number("resale", "Resale value at the end [% of the price]", 100.0 * resale, 0.0, 100.0, 0.0)
    )
    price = use.usd_per_kwh
    return [
        number("hours", "Hours of work a day [h]", use.hours_per_day, 0.1, 24.0, 0.0),
        number("years", "Years until it is sold", use.years, 0.25, 15.0, 0.25),
        number("electricity", "Electricity [$/kWh]", price, 0.0, max(1.0, price), 0.0),
        left,
        number("rent", "Change rents by [%]", 0.0, -90.0, 300.0, 5.0),
    ]


def _cells(terms: MachineTerms, build: Build) -> tuple[str, ...]:
    """Return a machine as the page shows it before its script runs."""
    costs = build.economics
    assert costs is not None
    return (
        str(terms.rank),
        terms.name,
        terms.rent_words,
        usd(terms.total_usd),
        usd(costs.own_usd_per_hour),
        usd(terms.rent_usd_per_hour),
        usd(costs.own_usd_per_million_tokens),
        usd(costs.rent_usd_per_million_tokens),
        payback_words(costs.break_even_days),
    )
