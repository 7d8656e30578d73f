"""A question about cost: a question about serving, with the shape of the day and what renting is compared with."""

from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from advisor.ask.levers import beside_of, with_levers
from advisor.ask.measures import parse_count, positive
from advisor.ask.names import names_of
from advisor.ask.need import peak_of_users, stated_need
from advisor.ask.options import (
    Audience,
    ExtraOptions,
    Levers,
    LoadOptions,
    ObjectiveOptions,
    SharedOptions,
    Where,
)
from advisor.ask.scenario import scenario_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.profiles import get_load_shape
from advisor.catalog.schema.economics import LoadShape
from advisor.catalog.units import DAY_S
from advisor.decide.scenario import Scenario
from advisor.economics.question import CostQuestion


class TypedCosts(Protocol):
    """A question about cost as it was typed."""

    @property
    def model(self) -> str: ...
    @property
    def tokens_per_day(self) -> str | None: ...
    @property
    def shape(self) -> str: ...
    @property
    def need(self) -> Audience: ...
    @property
    def load(self) -> LoadOptions: ...
    @property
    def levers(self) -> Levers: ...
    @property
    def objectives(self) -> ObjectiveOptions: ...
    @property
    def where(self) -> Where: ...
    @property
    def own(self) -> str | None: ...
    @property
    def purchase_price(self) -> float | None: ...
    @property
    def years(self) -> float | None: ...
    @property
    def electricity(self) -> float | None: ...
    @property
    def api(self) -> str: ...
    @property
    def api_price_file(self) -> Path | None: ...
    @property
    def assumptions(self) -> Path | None: ...
    @property
    def beside(self) -> ExtraOptions: ...
    @property
    def top(self) -> int: ...


def cost_question(asked: TypedCosts, shared: SharedOptions) -> tuple[CostQuestion, tuple[str, ...]]:
    """Return the whole question about cost, and notes on what was understood.

    A rate, or tokens per day, is the mean of a day whose busiest part is the demand; users send what `recommend` takes
    them to send, in their busiest minute and on the mean.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown, out of range or contradictory.
    """
    _check_volume(asked)
    where = replace(asked.where, own=asked.own)
    load, levels, needed = stated_need(asked.need, asked.load, asked.objectives)
    scenario, notes = scenario_of(asked.model, load, levels, where, asked.top, shared)
    scenario = with_levers(scenario, asked.levers, no_limit="")
    scenario = scenario.model_copy(update={"beside": beside_of(asked.beside)})
    return _question(scenario, asked, peak_of_users(asked.need, load)), (*needed, *notes)


def _check_volume(asked: TypedCosts) -> None:
    given = [
        name
        for name, value in (
            ("--tokens-per-day", asked.tokens_per_day),
            ("--users", asked.need.users),
            ("--rate", asked.load.rate),
            ("--concurrency", asked.load.concurrency),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise AdvisorError(
            f"{' and '.join(given)} exclude each other", why="each says the load", fix="give one"
        )
    if asked.shape != "flat" and (not given or given == ["--concurrency"]) and asked.load.trace is None:
        raise AdvisorError(
            f"--shape {asked.shape} needs a load to spread over the day",
            fix="add --tokens-per-day 50M, or a --rate",
        )


_PARTS_OF_USERS: Final = 168
"""Parts of the day of users, of which one is the busiest: the shortest that a shape of the day has."""


def _shape_of_users(peak: float) -> LoadShape:
    """Return a day whose load is even but for one short part with `peak` times the mean."""
    rest = (_PARTS_OF_USERS - peak) / (_PARTS_OF_USERS - 1)
    levels = (peak, *[rest] * (_PARTS_OF_USERS - 1))
    return LoadShape(id="users", levels=levels, source="busiest minute over the mean of the profile")


def _question(scenario: Scenario, asked: TypedCosts, peak_of_users: float) -> CostQuestion:
    """Return the question of a scenario, whose rate is taken as the mean of a day, but that of users as their peak."""
    if len(scenario.constraints.own) > 1:
        listed = [f"{count}x{id_}" for count, id_ in scenario.constraints.own]
        typed = asked.own or ""
        # A listing is named by what it holds; a typed list of kinds stays as typed.
        kinds = [part.strip() for part in typed.split(",")] if typed.count(",") == len(listed) - 1 else listed
        raise AdvisorError(
            f"--own {','.join(kinds)}: one kind of hardware at a time",
            why="owning is compared with renting and APIs by one price of purchase and its years",
            fix=f"--own {kinds[0]}, or advisor recommend --own {','.join(kinds)}, whose kinds serve together",
        )
    is_of_users = asked.shape == "flat" and peak_of_users > 1.0
    shape = _shape_of_users(peak_of_users) if is_of_users else get_load_shape(asked.shape)
    mean = scenario.traffic.rate_per_s
    if mean is not None:
        mean /= peak_of_users
    volume = None
    if asked.tokens_per_day is not None:
        volume = parse_count(asked.tokens_per_day, "--tokens-per-day")
        mean = volume / DAY_S / scenario.traffic.tokens_per_request
    peak = None if mean is None else mean * max(shape.relative)
    return CostQuestion(
        scenario=scenario.with_traffic(rate_per_s=peak),
        shape=shape,
        tokens_per_day=volume,
        apis=_apis(asked.api),
        api_price_file=asked.api_price_file,
        assumptions_file=asked.assumptions,
        purchase_usd=_purchase_usd(asked),
        years=asked.years,
        electricity_usd_per_kwh=asked.electricity,
    )


def _purchase_usd(asked: TypedCosts) -> float | None:
    if asked.purchase_price is None:
        return None
    if asked.own is None:
        raise AdvisorError(
            "--purchase-price names no hardware",
            why="it is the price of what --own names",
            fix="add --own 8xh100-sxm",
        )
    return positive(asked.purchase_price, "--purchase-price", example="9000")


def _apis(text: str) -> tuple[str, ...] | None:
    if text in ("all", "none"):
        return None if text == "all" else ()
    return names_of(text, "--api")
