"""Models that fit a machine or a budget: the answer of `advisor recommend` without a model."""

from typing import Final

from advisor.ask.acts import option_of
from advisor.ask.levers import largest_of
from advisor.ask.need import stated_need
from advisor.ask.options import SharedOptions
from advisor.ask.scenario import constraints_of, objectives_of
from advisor.ask.traffic import traffic_of
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.model_quality import sources_of
from advisor.catalog.units import GB
from advisor.commands.recommend.options import RecommendInput
from advisor.decide.models_that_fit import FittingModel, models_that_fit
from advisor.decide.offers import market
from advisor.decide.scenario import Scenario
from advisor.render.answer import Answer, Paragraph, Table, bullet_list, columns
from advisor.render.numbers import LEGEND, MISSING, digits, show_quantity

_IN_TIME: Final = frozenset(
    f"{metric}_{level}" for metric in ("ttft", "tpot", "itl", "e2e") for level in ("p50", "p95", "p99")
)
"""Options with objectives: where one is given, models that miss it even for one request at a time are left out."""
_ACTING: Final = _IN_TIME | frozenset(
    (
        "use_case",
        "own",
        "budget",
        "profile",
        "input_tokens",
        "output_tokens",
        "gpu",
        "provider",
        "region",
        "residency",
        "tenancy",
        "term",
        "max_price_age",
        "price_file",
        "power_budget",
        "engine",
        "precision",
        "top",
        "workload",
        "seed",
        "as_of",
        "calibration",
        "offline",
        "json",
        "output",
        "quiet",
        "verbose",
        "no_input",
    )
)
"""Options that act without a model."""


def fitting(asked: RecommendInput, shared: SharedOptions) -> Answer:
    """Return the models that hardware of one's own or a budget serves, by published quality.

    Raises: AdvisorError and its kinds: something typed is malformed or says nothing without a model, or nothing fits.
    """
    idle = sorted(shared.given - _ACTING)
    if idle:
        option = option_of(idle[0])
        raise AdvisorError(
            f"{option} says nothing without a model",
            why="without --model the answer lists the models that fit",
            fix=f"--model NAME, or no {option}",
        )
    scenario, notes = question_without_model(asked, shared)
    scenario, unsold = _with_unsold_owned(scenario)
    notes = (*notes, *unsold)
    # A machine that is there runs what it holds: only a budget buys what a use case asks for.
    in_time = bool(shared.given & _IN_TIME) or ("use_case" in shared.given and not scenario.constraints.own)
    found, number = models_that_fit(scenario, asked.shown.top, in_time=in_time)
    if not found and number:
        raise InfeasibleError(
            f"none of the {number} models that fit meets the objectives",
            why="one request alone already takes longer on the machines that hold them",
            fix="a larger --budget, faster hardware, or looser objectives: --ttft-p99, --tpot-p99",
        )
    if not found:
        mend = "more of it (--own)" if scenario.constraints.own else "a larger --budget or another --gpu"
        raise InfeasibleError(
            "no model of the catalog fits",
            why=f"weights and one request of {scenario.traffic.longest_request_tokens:,} tokens exceed every machine",
            fix=f"{mend}, or shorter requests: --input-tokens",
        )
    return Answer(
        result={"models": [_record(one) for one in found], "num_models_that_fit": number},
        inputs={
            "own": [f"{count}x{name}" for count, name in scenario.constraints.own],
            "budget_usd_per_hour": scenario.objectives.budget_usd_per_hour,
            "traffic": scenario.traffic,
            "top": asked.shown.top,
        },
        blocks=(
            Paragraph(_headline(found[0], number), emphasis=True),
            _table(found),
            Paragraph(
                "Speed is that of one request at the mean context. Models without a sourced score follow those with "
                f"one, the newest first: that order says nothing of their quality.{_left_out(in_time)}\n{LEGEND}"
            ),
            bullet_list("Sources of quality", sources_of(one.quality for one in found)),
        ),
        records="models",
        notes=notes,
    )


def _with_unsold_owned(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """Return a question about accelerators that no provider rents out as one about one of each that is there, with a
    note on that; any other as it is."""
    limits = scenario.constraints
    named = limits.accelerators
    offers, _ = market(limits, scenario.as_of, scenario.calibration)
    if limits.own or not named or any(offers.values()):
        return scenario, ()
    own = tuple((1, name) for name in named)
    owned = limits.model_copy(update={"own": own, "accelerators": ()})
    words = ",".join(f"1x{name}" for name in named)
    note = f"no provider rents out {' or '.join(named)}: one that is there is taken, as --own {words} says"
    return scenario.model_copy(update={"constraints": owned}), (note,)


def question_without_model(asked: RecommendInput, shared: SharedOptions) -> tuple[Scenario, tuple[str, ...]]:
    """Return traffic, objectives and limits of a question that names no model, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown.
    """
    constraints, notes = constraints_of(asked.where)
    stated, levels, needed = stated_need(asked.need, asked.load, asked.objectives)
    load, _ = largest_of(stated)
    scenario = Scenario(
        model="",
        traffic=traffic_of(load),
        objectives=objectives_of(levels),
        constraints=constraints,
        as_of=shared.as_of,
        seed=shared.seed,
    )
    return scenario, (*needed, *notes)


def _left_out(in_time: bool) -> str:
    """Return a sentence on the models that are not shown because they are too slow."""
    if in_time:
        return " Models that miss the objectives even for one request at a time are left out."
    return " --ttft-p99 and --tpot-p99 leave out models that are slower."


def _headline(first: FittingModel, number: int) -> str:
    """Return the number of models and the first of them."""
    known = f", {first.quality.benchmark} {first.quality.words}" if first.quality else ""
    where = f"{first.machine.count} x {first.machine.accelerator.id}"
    what = f"{first.model.id} in {first.deployment.weight_dtype} on {where}{known}"
    return f"{number} models of the catalog fit. First: {what}"


def _table(found: tuple[FittingModel, ...]) -> Table:
    rows = tuple(
        (
            one.model.id,
            one.quality.words if one.quality else "unknown",
            f"{one.deployment.engine.id} {one.deployment.weight_dtype}",
            f"{one.machine.count} x {one.machine.accelerator.id}",
            f"${digits(one.machine.usd_per_hour)}",
            show_quantity(one.tokens_per_s) if one.tokens_per_s else MISSING,
            digits(one.memory.weight_bytes / GB),
            f"{one.memory.num_fitting:,}",
        )
        for one in found
    )
    heads = "model | quality> | engine, weights | machine~ | $/h> | tokens/s> | GB each> | requests at once>?"
    return Table(columns(heads), rows, title="Models that fit, by published quality")


def _record(found: FittingModel) -> dict[str, object]:
    """Return one model as a record for scripts."""
    return {
        "model": found.model.id,
        "checkpoint": found.checkpoint,
        "engine": found.deployment.engine.id,
        "weight_dtype": found.deployment.weight_dtype,
        "kv_dtype": found.deployment.kv_dtype,
        "accelerator": found.machine.accelerator.id,
        "num_accelerators": found.machine.count,
        "tensor_parallel": found.deployment.tensor_parallel,
        "pipeline_parallel": found.deployment.pipeline_parallel,
        "provider": found.machine.provider,
        "usd_per_hour": found.machine.usd_per_hour,
        "output_tokens_per_s": found.tokens_per_s,
        "weight_bytes": found.memory.weight_bytes,
        "num_sequences_that_fit": found.memory.num_fitting,
        "quality": None if found.quality is None else found.quality._asdict(),
    }
