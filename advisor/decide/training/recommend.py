"""Pre-training and fine-tuning: a scenario in; accelerators, counts, plans, days and dollars out."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog import models as model_catalog
from advisor.catalog.ownership import Ownership, ownership
from advisor.catalog.resolve import drop_separators
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, duration_words, usd_words
from advisor.decide.decision import Counts, Rejected
from advisor.decide.offers import OWN, seller_words, stale_price_warnings
from advisor.decide.reason import CostsMore
from advisor.decide.safe_picks import SAFE, is_doubtful, order_by_trust, trust_of, with_safest
from advisor.decide.training.fixed_layout import batch_near, check_layout
from advisor.decide.training.market import (
    MarketOutcome,
    Progress,
    best_runs,
    candidates,
    firm_runs,
    goal_of,
    offers_of,
    ranked_runs,
    search_training,
)
from advisor.decide.training.money import ClusterOffer, cluster_offers
from advisor.decide.training.option import offloaded_states, option_of
from advisor.decide.training.refusal import nothing_found
from advisor.decide.training.result import (
    ParetoPoint,
    TermCost,
    TrainingOption,
    TrainingRecommendation,
)
from advisor.decide.training.runs import ESTIMATED_RESERVATION, TrainingRun
from advisor.decide.training.scenario import TrainingScenario, TrainingTask
from advisor.decide.training.space import training_job
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.flop import (
    CHINCHILLA,
    FLOP_PER_PARAMETER_AND_TOKEN,
    model_flop_per_token,
    training_flop,
)
from advisor.simulator.training.job import Method, TrainingJob
from advisor.simulator.training.plan_check import plan_words
from advisor.simulator.workloads.lora import USUAL_RANK

_LESS_TIME = 0.95
"""Name another batch or cluster only if it takes less than 95 % of the time. Own choice: step times err by 8 %."""
_SMALLER_METHODS: Final[Mapping[str, tuple[Method, ...]]] = {
    "full": ("lora", "qlora"),
    "lora": ("qlora",),
    "dora": ("qlora",),
}
"""Methods of fine-tuning with smaller states, by method, those that change it least first."""
_DENSE_FRACTION = 0.8
"""Fraction of all parameters that are active below which a model counts as a mixture of experts, for which the loss
law was not fitted."""


def recommend_training(
    scenario: TrainingScenario, *, progress: Progress = lambda message: None
) -> TrainingRecommendation:
    """Return the accelerators, their number and the layout for a training run, with its days and dollars.

    Accelerators are searched in the order of an optimistic bound on their dollars until none that is left can enter
    the answer; for each, cluster sizes upwards from the smallest that could meet the deadline.

    Raises: UnknownNameError: a name is in no record. InfeasibleError: nothing satisfies the scenario; with reasons and
        the nearest that would.
    """
    started = time.perf_counter()
    model, note = model_catalog.get(scenario.model)
    task = scenario.task
    if scenario.rollout is not None and task.loop is None:
        task = task.model_copy(update={"loop": scenario.rollout.algorithm})
        scenario = scenario.model_copy(update={"task": task})
    if not task.layout.is_free:
        widest = max(TrainingCluster(chip).domain for chip in candidates(scenario).values() if chip.is_ranked)
        job = training_job(model, task.sequence_tokens, task.global_batch, "bf16", "megatron")
        check_layout(task.layout, job, widest, scenario.limits, partial(_has_answer, scenario, model))
    known = ownership(scenario.as_of)
    outcome = search_training(scenario, model, progress)
    ranked = ranked_runs(scenario, outcome)
    if not ranked:
        raise nothing_found(scenario, model, outcome)
    options = order_by_trust(
        [_option(rank, runs, scenario, known, outcome) for rank, runs in enumerate(ranked, 1)],
        [runs[0].offer.price for runs in ranked],
        lambda option: option.usd,
        scenario.as_of,
    )
    options, safe_pick = _with_safest(options, firm_runs(scenario, model, outcome), scenario, known)
    options = options[: scenario.top]
    shown = {option.machine.accelerator for option in options}
    ages = [option.offer.age_days if option.offer else 0 for option in options]
    return TrainingRecommendation(
        kind="plan",
        model=model.id,
        workload=scenario.workload,
        headline=headline(options[0], model),
        options=options,
        safe_pick=safe_pick,
        pareto=pareto(outcome),
        rejected=rejected_accelerators(outcome, shown, options[-1]),
        what_would_change=what_would_change(scenario, options),
        compute=compute_of(scenario, model),
        counts=Counts(
            num_candidates=outcome.effort.num_considered,
            num_simulated=outcome.effort.num_simulated,
            num_clusters=outcome.num_clusters,
            num_evaluated=outcome.effort.num_evaluated,
            num_feasible=outcome.effort.num_feasible,
            wall_s=time.perf_counter() - started,
        ),
        warnings=(*stale_price_warnings(ages), *_other_models(model)),
        notes=tuple(
            filter(
                None,
                (
                    _without_host_memory(scenario, model, ranked[0][0]),
                    note,
                    _undivided_batch(scenario, model, ranked[0][0]),
                    _other_line(task, options[0]),
                ),
            )
        ),
    )


_OWN_LINES: Final = ("nemo", "torchtitan", "megatronlm")
"""Frameworks of which a family has several, by the names that people type."""


def _other_line(task: TrainingTask, option: TrainingOption) -> str:
    """Return the note that the first option is said by other frameworks than the one that is named; empty if it is said
    by that one."""
    said = {drop_separators(name) for name in option.launch.flags}
    lacking = [
        name for name in task.named if (word := drop_separators(name)) in _OWN_LINES and word not in said
    ]
    others = ", ".join(option.launch.flags)
    return (
        f"no line of {' and '.join(lacking)} says option 1; these do: {others}" if lacking and others else ""
    )


def _has_answer(scenario: TrainingScenario, model: Model, num_accelerators: int) -> bool:
    """Whether a question has an answer on another number of accelerators; taken for granted where many accelerators
    would have to be searched."""
    if not scenario.is_narrow:
        return True
    return bool(best_runs(scenario.with_limits(num_accelerators=num_accelerators), model))


def _undivided_batch(scenario: TrainingScenario, model: Model, best: TrainingRun) -> str:
    """Return the note that stated accelerators share few factors with the batch, with the near batch and the smaller
    cluster that take less time; empty if neither does."""
    limits = scenario.limits
    task = scenario.task
    count = limits.num_accelerators or (limits.own[0][0] if len(limits.own) == 1 else 1)
    near = batch_near(task.global_batch, count)
    if scenario.rollout is not None or not task.layout.is_free or near == task.global_batch:
        return ""
    searched = () if limits.own else (best.found.cluster.accelerator.id,)
    same = scenario.with_limits(accelerators=searched)
    fewer = next(size for size in range(count - 1, 0, -1) if task.global_batch % size == 0)
    others = {f"--global-batch {near}": same.with_task(global_batch=near)}
    if limits.num_accelerators is not None:
        others[f"--gpus {fewer}"] = same.with_limits(num_accelerators=fewer)
    told = []
    for option, other in others.items():
        found = best_runs(other, model)
        if found and found[0][0].wall_s < _LESS_TIME * best.wall_s:
            run = found[0][0]
            told.append(f"{option} takes {duration_words(run.days)} for {usd_words(run.usd)}")
    if not told:
        return ""
    idle = count - best.num_accelerators
    left = f", and {idle} of them stay idle" if idle else ""
    return (
        f"a batch of {task.global_batch} is divided by at most {math.gcd(task.global_batch, count)} of "
        f"{count} accelerators{left}: {'; '.join(told)}"
    )


def _without_host_memory(scenario: TrainingScenario, model: Model, best: TrainingRun) -> str:
    """Return the note that a method with smaller states keeps all of them on the accelerators of a plan which needs
    host memory, with its time and dollars; empty if none does, or the plan needs none."""
    kept = offloaded_states(best.found.plan)
    if scenario.workload != "finetune" or not kept:
        return ""
    searched = () if scenario.limits.own else (best.found.cluster.accelerator.id,)
    same = scenario.with_limits(accelerators=searched)
    for method in _SMALLER_METHODS.get(scenario.task.method, ()):
        other = same.with_task(method=method, lora_rank=scenario.task.lora_rank or USUAL_RANK)
        runs = next(iter(best_runs(other, model)), ())
        run = next((each for each in runs if not offloaded_states(each.found.plan)), None)
        if run is not None:
            return (
                f"option 1 keeps {' and '.join(kept)} in host memory: --method {method} keeps all on "
                f"{run.num_accelerators} × {run.found.cluster.accelerator.id}, in {duration_words(run.days)} for "
                f"{usd_words(run.usd)}{_other_framework(run, best)}"
            )
    return ""


def _other_framework(run: TrainingRun, best: TrainingRun) -> str:
    """Return the clause that two runs are those of different programs, whose speeds differ besides the method; empty
    for one program."""
    own, other = (each.found.job.framework for each in (best, run))
    if own == other:
        return ""
    return f" under {other}, as no faster program with adapters is modelled; option 1 runs under {own}"


def _with_safest(
    options: tuple[TrainingOption, ...],
    runs: Iterable[TrainingRun],
    scenario: TrainingScenario,
    known: Ownership,
) -> tuple[tuple[TrainingOption, ...], TrainingOption | None]:
    """The options and the safe pick: the best run at a firm price, where no safe option of the list is as good."""
    able = (
        made
        for run in runs
        for made in (option_of(0, run, scenario, known, _every_term(scenario, run)),)
        if trust_of(made.usd.basis, run.offer.price, scenario.as_of) == SAFE and not is_doubtful(made)
    )
    return with_safest(options, next(able, None), partial(_goal, scenario))


def _goal(scenario: TrainingScenario, option: TrainingOption) -> tuple[float, float]:
    """Sort key of a plan, rounded to 9 digits: a plan is not better by an error of rounding."""
    per_hour = option.usd_per_accelerator_hour * option.machine.num_accelerators
    first, second = goal_of(scenario, option.usd.value, option.performance.days.value * DAY_S, per_hour)
    return float(f"{first:.9g}"), float(f"{second:.9g}")


def _option(
    rank: int,
    runs: Sequence[TrainingRun],
    scenario: TrainingScenario,
    known: Ownership,
    outcome: MarketOutcome,
) -> TrainingOption:
    """The best run of an accelerator with its other cluster sizes as variants."""

    def one(run: TrainingRun) -> TrainingOption:
        every_term = _every_term(scenario, run)
        return option_of(rank, run, scenario, known, every_term)

    return replace(one(runs[0]), variants=tuple(one(run) for run in runs[1:4]))


def _every_term(scenario: TrainingScenario, run: TrainingRun) -> list[ClusterOffer]:
    """The run's cluster at all terms, whatever terms the question allows."""
    if scenario.limits.own:
        return [run.offer]
    accelerator = run.found.cluster.accelerator
    terms = ("on_demand", "spot", "reserved_1y", "reserved_3y")
    asked = scenario.with_limits(terms=terms, accelerators=(accelerator.id,))
    prices = offers_of(asked, {accelerator.id: accelerator})
    ways = cluster_offers(run.num_accelerators, prices.get(accelerator.id, ()), accelerator)
    return [way for way in ways if way.has_host_memory(run.found.host_bytes)]


def headline(option: TrainingOption, model: Model) -> str:
    """The answer in one sentence."""
    offer = option.offer
    machine = option.machine
    where = "your own" if offer is None else f"from {seller_words(offer)}"
    name = accelerators.by_id(machine.accelerator).name
    return (
        f"{model.name}: {machine.num_accelerators} × {name} ({where}; {option.plan.words}), "
        f"{duration_words(option.performance.days.value)}, {usd_words(option.usd.value)}"
    )


def _term_words(bill: TermCost) -> str:
    if bill.provider == "own":
        return "bought and used all its life"
    if bill.term == ESTIMATED_RESERVATION:
        return f"committed for a year at {bill.provider}, at the usual discount,"
    return f"{bill.term.replace('_', ' ')} at {bill.provider}"


def pareto(outcome: MarketOutcome) -> tuple[ParetoPoint, ...]:
    """Clusters that none beats in days and dollars, fastest first.

    Source: definition of Pareto efficiency.
    """
    runs = sorted(
        (run for group in outcome.runs.values() for run in group), key=lambda run: (run.days, run.usd)
    )
    found = []
    cheapest = math.inf
    for run in runs:
        if run.usd < cheapest:
            cheapest = run.usd
            accelerator = run.found.cluster.accelerator.id
            words = f"{run.found.job.framework} {plan_words(run.found.plan)}"
            found.append(ParetoPoint(accelerator, run.num_accelerators, run.days, run.usd, words))
    return tuple(found)


def rejected_accelerators(
    outcome: MarketOutcome, shown: set[str], last: TrainingOption
) -> tuple[Rejected, ...]:
    """Every accelerator that is not an option, those that only cost more first."""
    dearer = sorted(
        [(min(run.usd for run in runs), name, False) for name, runs in outcome.runs.items() if runs]
        + [(bound, name, True) for name, bound in outcome.bounds.items()]
    )
    first = [
        Rejected(name, CostsMore(usd, last.usd.value, last.rank, is_bound=is_bound, per="for the run"))
        for usd, name, is_bound in dearer
        if name not in shown
    ]
    others = (Rejected(name, reason) for name, reason in outcome.reasons.items() if name not in shown)
    return (*first, *others)


def what_would_change(scenario: TrainingScenario, options: Sequence[TrainingOption]) -> tuple[str, ...]:
    """Short sentences: break-even prices, other terms, a longer deadline.

    Source: own definition; dollars are linear in the hourly price.
    """
    first = options[0]
    found = []
    for option in options[1:3]:
        price = option.usd_per_accelerator_hour * first.usd.value / option.usd.value
        found.append(
            f"{option.machine.accelerator} wins below ${price:.2f} per accelerator and hour "
            f"(now ${option.usd_per_accelerator_hour:.2f} at {option.offer.source_words if option.offer else OWN})"
        )
    known = [
        (bill.usd, bill.days, bill) for bill in first.bills if bill.usd is not None and bill.days is not None
    ]
    cheaper = [
        entry
        for entry in known
        if entry[0] < 0.95 * first.usd.value and (first.offer is None or entry[2].term != first.offer.term)
    ]
    found += [
        f"{_term_words(bill)} it costs {usd_words(usd)} and takes {duration_words(days)}"
        for usd, days, bill in sorted(cheaper, key=lambda entry: entry[0])[:2]
    ]
    if scenario.limits.deadline_s and first.variants:
        other = min(first.variants, key=lambda variant: variant.performance.days.value)
        takes = duration_words(other.performance.days.value)
        costs = usd_words(other.usd.value)
        found.append(f"{other.machine.num_accelerators} of them finish in {takes} for {costs}")
    return tuple(found)


def compute_of(scenario: TrainingScenario, model: Model) -> Mapping[str, float]:
    """6ND, of adapters 4ND, with the attention that MFU counts too, and what they rest on; for pre-training of a dense
    model also what the loss law says."""
    count = parameter_count(model)
    task = scenario.task
    tokens = task.tokens
    job = TrainingJob(model, task.sequence_tokens, task.global_batch, method=task.method)
    flop = training_flop(model, tokens, task.method)
    found = {
        "parameters": count.total,
        "active_parameters": count.active,
        "tokens": tokens,
        "flop": flop,
        "flop_with_attention": model_flop_per_token(job) * tokens,
        "tokens_per_parameter": tokens / count.total,
    }
    if scenario.workload != "train" or count.active < _DENSE_FRACTION * count.total:
        return found
    best_tokens = CHINCHILLA.best_tokens(flop)
    return found | {
        "expected_loss_nats": CHINCHILLA.loss(count.total, tokens),
        "best_parameters_for_flop": flop / (FLOP_PER_PARAMETER_AND_TOKEN * best_tokens),
        "best_tokens_for_flop": best_tokens,
    }


def _other_models(model: Model) -> tuple[str, ...]:
    """Return the note on what is not modelled for a model that is no language model, or has a vision tower; empty for
    others. Source: TRL 1.16.0, sft_trainer.py, which refuses to pack a data set with images."""
    if model.workload == "decoder":
        if model.vision is None:
            return ()
        return (
            f"images are not counted: {model.id} is priced on text, without its vision tower; trainers pack no data "
            "set with images, so leave out the option that packs and state --mean-length",
        )
    return (
        f"{model.id} is no language model: tokens are what passes its layers; its loss, frozen encoders and data "
        "preparation are not modelled",
    )
