"""Refusals: why no run keeps the limits of a question about training, and the options that give one."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, HOUR_S, duration_words, usd_words
from advisor.decide.purchase import budget_option
from advisor.decide.reason import (
    FailsTooOften,
    LayoutRefused,
    NoFramework,
    NoLayout,
    NoOptions,
    NotForSale,
    NotSoldAsCluster,
    NotSupported,
    NotWorthCommitting,
    NoUnits,
    OverJobBudget,
    Reason,
    TakesTooLong,
    most_common,
)
from advisor.decide.training.market import MarketOutcome, best_runs, cheapest_run, shortfall
from advisor.decide.training.runs import TrainingRun
from advisor.decide.training.scenario import DEFAULT_LORA_RANK, TrainingScenario
from advisor.decide.training.simulate_args import step_args
from advisor.decide.training.space import RULES, family_asked, program_asked
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.job import Method
from advisor.simulator.training.plan_check import plan_words

_WIDER: Final = (1.0, 1.15, 1.5)
"""Time of a step for which a deadline and a budget are tried, over that of the run that misses them least."""
_MOST_DOUBLINGS: Final = 3
"""Doublings of a deadline that are tried for clusters that fail too often, and halvings of sequences for jobs that do
not fit."""
_MOST_COUNT_DOUBLINGS: Final = 10
"""Doublings of accelerators that are tried for jobs that do not fit: 8 become 8,192."""
_LARGE_LORA_RANK: Final = 64
"""Rank of adapters above which a smaller one is advised if memory is short: QLoRA's experiments use 64
(arXiv:2305.14314, section 5)."""


def nothing_found(scenario: TrainingScenario, model: Model, outcome: MarketOutcome) -> AdvisorError:
    """Why there is no answer: the most common reasons, and the nearest question that has one, which was asked."""
    told = most_common(outcome.reasons, is_sold=True)
    first = told[0][0] if told else None
    nearest_count = _nearest_count(scenario, outcome)
    fix = ""
    run: TrainingRun | None = None
    if isinstance(first, OverJobBudget):
        run = cheapest_run(scenario, model) or cheapest_run(scenario.with_limits(deadline_s=None), model)
        fix = " ".join(_limits_for(scenario, run)) if run is not None else ""
    others = chain(_wider_limits(scenario, outcome), _other_questions(scenario, first))
    if isinstance(first, NoLayout) and (not first.fix or scenario.limits.own):
        others = chain(_other_frameworks(scenario), () if nearest_count else _smaller_questions(scenario))
    elif isinstance(first, NoOptions | NoFramework | NoUnits | LayoutRefused):
        others = chain(others, _others_that_have(scenario, first))
    while run is None and (change := next(others, None)) is not None:
        fix = change[0]
        run = next(chain.from_iterable(best_runs(change[1], model)), None)
    if run is not None and isinstance(first, NoLayout) and first.fix:
        fix += f", or {first.fix}"  # memory for the host is bought where accelerators are not
    return InfeasibleError(
        f"nothing trains {model.id} within these limits",
        why="; ".join(words for _, words in told),
        fix=_fix(scenario, first, nearest_count) if run is None else fix,
        hint=nearest_hint(scenario, outcome) if run is None else f"with it: {_run_words(run)}",
    )


def _wider_limits(
    scenario: TrainingScenario, outcome: MarketOutcome
) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the limits that the run which misses them least needs, each with the question that they make: event graphs
    may hold its plan in more time than its closed form."""
    able = [run for run in outcome.near if run.infeasible is None]
    for nearest in sorted(able, key=partial(shortfall, scenario))[:1]:
        for factor in _WIDER:
            options = _limits_for(scenario, replace(nearest, step_s=factor * nearest.step_s))
            yield " ".join(options), scenario.with_limits(**dict(options.values()))


def _limits_for(scenario: TrainingScenario, run: TrainingRun) -> dict[str, tuple[str, float]]:
    """Return the limits that a run needs in place of those that it misses: options with the field and its value."""
    limits = scenario.limits
    found: dict[str, tuple[str, float]] = {}
    if limits.deadline_s is not None and run.wall_s > limits.deadline_s:
        unit, length_s = ("d", DAY_S) if run.days > 2.0 else ("h", HOUR_S)
        count = math.ceil(run.wall_s / length_s)
        found[f"--deadline {count}{unit}"] = "deadline_s", count * length_s
    if limits.budget_usd is not None and run.usd > limits.budget_usd:
        found[budget_option(run.usd, per="")] = "budget_usd", run.usd
    return found


def _other_questions(
    scenario: TrainingScenario, reason: Reason | None
) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the options that may remove a reason of failures or of a term, each with the question that it makes: fewer
    accelerators fail less often, and longer deadlines take fewer."""
    limits = scenario.limits
    tunes = scenario.task.method != "full" and scenario.is_narrow
    if isinstance(reason, NoOptions) and reason.by_model and not reason.elsewhere and tunes:
        yield "--method full", scenario.with_task(method="full", lora_rank=0)
    if isinstance(reason, NoOptions | NoFramework) and scenario.task.frameworks and not reason.elsewhere:
        free = scenario.with_task(frameworks=(), programs=())
        yield "drop --framework", free
        if tunes:
            whole = free.with_task(method="full", lora_rank=0)
            yield "drop --framework, with --method full", whole
    is_of_term = isinstance(reason, NotWorthCommitting) or (
        isinstance(reason, FailsTooOften) and reason.is_spot
    )
    if is_of_term and "on_demand" not in limits.terms:
        yield "--term on-demand", scenario.with_limits(terms=("on_demand",))
    if not isinstance(reason, FailsTooOften) or reason.is_spot:
        return
    if not scenario.reliability.elastic:
        elastic = scenario.reliability.model_copy(update={"elastic": True})
        yield "--elastic", scenario.model_copy(update={"reliability": elastic})
    if limits.num_accelerators is not None:
        for halvings in range(1, limits.num_accelerators.bit_length()):
            count = limits.num_accelerators >> halvings
            yield f"--gpus {count}", scenario.with_limits(num_accelerators=count)
    elif limits.deadline_s is not None:
        for doublings in range(1, _MOST_DOUBLINGS + 1):
            days = math.ceil(limits.deadline_s / DAY_S) << doublings
            yield f"--deadline {days}d", scenario.with_limits(deadline_s=days * DAY_S)


def _others_that_have(
    scenario: TrainingScenario, reason: NoOptions | NoFramework | NoUnits | LayoutRefused
) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the options of what has all that is lacking, each with the question that it makes: formats, optimizers,
    releases and frameworks, then adapters in the framework that was named and in others, and at last the first of them
    for a smaller job: a framework with options for a job may hold no plan of it."""
    if not scenario.is_narrow:
        return
    match reason:
        case NoUnits(usable=usable):
            for dtype in usable:
                yield f"--precision {dtype}", scenario.with_task(compute_dtypes=(dtype,))
        case LayoutRefused(month=month) if month:
            yield f"--framework-version {month}", scenario.with_task(framework_version=month)
        case NoOptions(optimizers=optimizers) if not reason.elsewhere:
            for optimizer in optimizers:
                yield f"--optimizer {optimizer}", scenario.with_task(optimizer=optimizer)
    elsewhere = () if isinstance(reason, NoUnits) else reason.elsewhere
    asked = [(f"--framework {name}", _in_framework(scenario, name)) for name in elsewhere]
    yield from asked
    task = scenario.task
    if task.method == "full" and scenario.workload in ("finetune", "rl"):
        adapted = scenario.with_task(method="lora", lora_rank=DEFAULT_LORA_RANK)
        own = next((program for _, program in task.programs), next(iter(task.frameworks), ""))
        yield "--method lora", _in_framework(adapted, own) if own else adapted
        for name in elsewhere:
            yield f"--framework {name} --method lora", _in_framework(adapted, name)
    for option, other in asked[:1]:
        for smaller, question in _smaller_questions(other):
            yield f"{option} {smaller}", question


def _in_framework(scenario: TrainingScenario, name: str) -> TrainingScenario:
    """Return the question with another framework, in no stated release."""
    loop_method = scenario.task.method if scenario.rollout is not None else None
    family, _ = family_asked(name, loop_method=loop_method)
    program = program_asked(name)
    programs = ((family, program),) if program else ()
    return scenario.with_task(frameworks=(family,), programs=programs, framework_version="")


def _other_frameworks(scenario: TrainingScenario) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the families of frameworks that a job which fits nowhere did not name, those with the same models first:
    one may divide or offload more."""
    task = scenario.task
    if not task.frameworks or task.framework_version or not scenario.is_narrow:
        return
    is_same = task.frameworks[0] in OF_TRANSFORMERS
    for name in sorted(RULES, key=lambda family: (family in OF_TRANSFORMERS) != is_same):
        if name not in task.frameworks:
            yield f"--framework {name}", scenario.with_task(frameworks=(name,))


def _smaller_questions(scenario: TrainingScenario) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the options that may make a job fit which no plan holds, each with the question that it makes: an optimizer
    or a method that holds less, more accelerators, shorter sequences.

    None are yielded where many accelerators would have to be searched again.
    """
    task = scenario.task
    limits = scenario.limits
    if not scenario.is_narrow:
        return
    if task.optimizer != "adamw":
        yield "--optimizer adamw", scenario.with_task(optimizer="adamw")
    if task.lora_rank > _LARGE_LORA_RANK:
        yield f"--lora-rank {_LARGE_LORA_RANK}", scenario.with_task(lora_rank=_LARGE_LORA_RANK)
    if limits.num_accelerators is not None and not limits.own:
        for doublings in range(1, _MOST_COUNT_DOUBLINGS + 1):
            count = limits.num_accelerators << doublings
            yield f"--gpus {count}", scenario.with_limits(num_accelerators=count)
    if scenario.workload == "finetune" and task.method != "qlora":
        methods: tuple[Method, ...] = ("lora", "qlora") if task.method == "full" else ("qlora",)
        for method in methods:
            rank = task.lora_rank or DEFAULT_LORA_RANK
            yield f"--method {method}", scenario.with_task(method=method, lora_rank=rank)
    if scenario.workload != "rl":
        for halvings in range(1, _MOST_DOUBLINGS + 1):
            sequence = task.sequence_tokens >> halvings
            yield f"--sequence {sequence}", scenario.with_task(sequence_tokens=sequence)


def _run_words(run: TrainingRun) -> str:
    where = f"{run.num_accelerators} x {run.found.cluster.accelerator.id}"
    return f"{where}, {plan_words(run.found.plan)}, {duration_words(run.days)} for {usd_words(run.usd)}"


def _nearest_count(scenario: TrainingScenario, outcome: MarketOutcome) -> int:
    """Return the number of accelerators nearest to the stated one on which a plan works; 0 if none is known."""
    wanted = scenario.limits.num_accelerators or 0
    sold = (count for count in outcome.nearest_sold.values() if count)
    return min(sold, key=lambda count: abs(count - wanted), default=0)


def _less_to_hold(scenario: TrainingScenario) -> str:
    """Return the options that would let a job hold less than it does as it is asked."""
    task = scenario.task
    found = {"full": "--method lora or qlora", "lora": "--method qlora", "dora": "--method qlora"}
    method = found.get(task.method, "") if scenario.workload != "train" else ""
    holds_whole_states = task.method == "full" and task.optimizer != "adamw_8bit"
    optimizer = "--optimizer adamw_8bit" if method and holds_whole_states else ""
    rank = "a smaller --lora-rank" if task.lora_rank > _LARGE_LORA_RANK else ""
    sequence = "" if scenario.workload == "rl" else "a shorter --sequence"
    return ", ".join(filter(None, (method, optimizer, rank, sequence, "a smaller --model")))


def _pricing_command(scenario: TrainingScenario) -> str:
    """Return the command that prices a plan for which no framework has options, with what that means."""
    limits = scenario.limits
    named = [name for _, name in limits.own] or limits.accelerators
    words = ["advisor simulate train", f"--model {scenario.model}", *(f"--gpu {name}" for name in named[:1])]
    return f"{' '.join((*words, *step_args(scenario.task)))}, which prices a plan without a command"


def _fix(scenario: TrainingScenario, reason: Reason | None, nearest: int) -> str:
    """Return the options to type instead, chosen by the first reason against; `nearest` is a number of accelerators
    that works, or 0."""
    is_apart = scenario.rollout is not None and scenario.rollout.placement == "disaggregated"
    match reason:
        case NoLayout() | NotSupported() if nearest:
            return f"--gpus {nearest}"
        case NotSupported() if is_apart:
            return "--placement colocated"
        case NoLayout(fix=fix) if fix:
            return fix
        case NoLayout(last_fix=fix) if fix:
            return fix
        case NoLayout():
            return f"more --gpus, or less to hold: {_less_to_hold(scenario)}"
        case NotForSale():
            count = scenario.limits.num_accelerators or 8
            names = scenario.limits.accelerators
            return f"--own {count}x{names[0]}, or another --gpu" if names else "--own NxID, or fewer limits"
        case NotSupported() if not scenario.task.layout.is_free:
            return "fix less of the plan (--tp, --pp, --schedule, ...)"
        case NoUnits(usable=(first, *_)):
            return f"--precision {first}, and fewer other limits"
        case NoOptions(elsewhere=(first, *_)) | NoFramework(elsewhere=(first, *_)):
            return f"--framework {first}, and less to hold: {_less_to_hold(scenario)}"
        case NoOptions(optimizers=(first, *_)):
            return f"--optimizer {first}, and less to hold: {_less_to_hold(scenario)}"
        case NoOptions(by_model=True, sibling=sibling):
            near = f"--model {sibling}, which Transformers builds" if sibling else "another --model"
            return f"{_pricing_command(scenario)}, or {near}"
        case NoFramework() | NoOptions():
            framework = "no --framework, or " if scenario.task.frameworks else ""
            instead = " in place of --own" if scenario.limits.own else ""
            other = f"{framework}another accelerator, such as --gpu h100{instead}"
            return f"{other}, or {_pricing_command(scenario)}"
        case LayoutRefused():
            return reason.fix
        case TakesTooLong():
            return "more --gpus, or fewer --tokens"
        case OverJobBudget():
            return "fewer limits, or a smaller job: no budget that was tried is enough"
        case FailsTooOften(is_spot=False):
            elastic = "" if scenario.reliability.elastic else "--elastic, "
            return f"{elastic}a faster --storage-gb-s, or machines that fail less often (--mtbf-hours)"
        case NotSoldAsCluster(near=near) if near:
            return f"--gpus {near}"
        case _:
            return "a later --deadline, a larger --budget, more --gpus, or fewer limits"


def nearest_hint(scenario: TrainingScenario, outcome: MarketOutcome) -> str:
    """The nearest that would do: the run that misses a limit least, or the largest cluster that is sold."""
    limits = scenario.limits
    if outcome.near:
        return f"the nearest plan: {_run_words(min(outcome.near, key=lambda run: shortfall(scenario, run)))}"
    sold = {name: count for name, count in outcome.nearest_sold.items() if count}
    if sold and limits.num_accelerators is not None:
        wanted = limits.num_accelerators
        name = min(sold, key=lambda key: abs(sold[key] - wanted))
        return f"the nearest cluster that works: {sold[name]} x {name}"
    if outcome.bounds:
        name = min(outcome.bounds, key=lambda key: outcome.bounds[key])
        return f"the least that perfect computation would cost: {usd_words(outcome.bounds[name])} on {name}"
    return ""
