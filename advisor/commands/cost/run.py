"""Answers of `advisor cost`: from typed options to the report."""

from dataclasses import replace

from advisor.ask.levers import beside_of, with_levers
from advisor.ask.measures import parse_count, positive
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import names_of, scenario_of
from advisor.catalog.errors import AdvisorError
from advisor.catalog.profiles import get_load_shape
from advisor.catalog.units import DAY_S
from advisor.cli.notes import progress
from advisor.commands.cost.options import CostInput
from advisor.commands.cost.view import cost_answer
from advisor.decide.scenario import Scenario
from advisor.economics.question import CostQuestion
from advisor.economics.report import cost_report
from advisor.render.answer import Answer
from advisor.render.calibration_view import with_calibration


def cost(asked: CostInput, shared: SharedOptions) -> Answer:
    """Return the report as an answer.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, a file is wrong, or nothing serves
        the model within the objectives.
    """
    _check_volume(asked)
    where = replace(asked.where, own=asked.own)
    scenario, notes = scenario_of(asked.model, asked.load, asked.objectives, where, asked.top, shared)
    scenario = with_levers(scenario, asked.levers, no_limit="")
    question = _question(scenario.model_copy(update={"beside": beside_of(asked.beside)}), asked)
    with progress(quiet=shared.quiet) as line:
        report = cost_report(question, progress=line)
    answer = cost_answer(report, question, notes)
    return with_calibration(answer, scenario.calibration, scenario.constraints.accelerators)


def _check_volume(asked: CostInput) -> None:
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


def _question(scenario: Scenario, asked: CostInput) -> CostQuestion:
    """Return the question: a rate, or tokens per day, is the mean of a day whose busiest part is the demand."""
    if len(scenario.constraints.own) > 1:
        first = (asked.own or "").split(",")[0].strip()
        raise AdvisorError(f"--own {asked.own}: one kind of hardware at a time", fix=f"e.g. --own {first}")
    shape = get_load_shape(asked.shape)
    traffic = scenario.traffic
    mean = traffic.rate_per_s
    volume = None
    if asked.tokens_per_day is not None:
        volume = parse_count(asked.tokens_per_day, "--tokens-per-day")
        mean = volume / DAY_S / (traffic.mean_input_tokens + traffic.mean_output_tokens)
    peak = None if mean is None else mean * max(shape.relative)
    traffic = traffic.model_copy(update={"rate_per_s": peak})
    return CostQuestion(
        scenario=scenario.model_copy(update={"traffic": traffic}),
        shape=shape,
        tokens_per_day=volume,
        apis=_apis(asked.api),
        api_price_file=asked.api_price_file,
        assumptions_file=asked.assumptions,
        purchase_usd=_purchase_usd(asked),
    )


def _purchase_usd(asked: CostInput) -> float | None:
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
