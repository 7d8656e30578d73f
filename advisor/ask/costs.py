"""A question about cost: a question about serving, with the shape of the day and what renting is compared with."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from advisor.ask.levers import beside_of, with_levers
from advisor.ask.measures import parse_count, positive
from advisor.ask.names import names_of
from advisor.ask.options import ExtraOptions, Levers, LoadOptions, ObjectiveOptions, SharedOptions, Where
from advisor.ask.scenario import scenario_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.profiles import get_load_shape
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

    A rate, or tokens per day, is the mean of a day whose busiest part is the demand.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown, out of range or contradictory.
    """
    _check_volume(asked)
    where = replace(asked.where, own=asked.own)
    scenario, notes = scenario_of(asked.model, asked.load, asked.objectives, where, asked.top, shared)
    scenario = with_levers(scenario, asked.levers, no_limit="")
    return _question(scenario.model_copy(update={"beside": beside_of(asked.beside)}), asked), notes


def _check_volume(asked: TypedCosts) -> None:
    given = [
        name
        for name, value in (
            ("--tokens-per-day", asked.tokens_per_day),
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


def _question(scenario: Scenario, asked: TypedCosts) -> CostQuestion:
    """Return the question of a scenario, whose rate is taken as the mean of a day."""
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
    shape = get_load_shape(asked.shape)
    mean = scenario.traffic.rate_per_s
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
