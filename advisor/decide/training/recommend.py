"""Pre-training and fine-tuning: a scenario in; accelerators, counts, plans, days and dollars out."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog import models as model_catalog
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.ownership import Ownership, ownership
from advisor.catalog.resolve import drop_separators
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, HOUR_S, MINUTE_S, plain_number, usd_words
from advisor.decide.decision import Counts, Rejected
from advisor.decide.offers import OWN, seller_words, stale_price_warnings
from advisor.decide.reason import (
    CostsMore,
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
    name_accelerators,
)
from advisor.decide.safe_picks import SAFE, is_doubtful, order_by_trust, trust_of, with_safest
from advisor.decide.training.fixed_layout import batch_near, check_layout
from advisor.decide.training.market import (
    MarketOutcome,
    Progress,
    candidates,
    firm_runs,
    goal_of,
    misses,
    offers_of,
    ranked_runs,
    search_training,
    shortfall,
)
from advisor.decide.training.money import ClusterOffer, cluster_offers
from advisor.decide.training.option import option_of
from advisor.decide.training.result import (
    ParetoPoint,
    TermCost,
    TrainingOption,
    TrainingRecommendation,
)
from advisor.decide.training.runs import ESTIMATED_RESERVATION, TrainingRun
from advisor.decide.training.scenario import DEFAULT_LORA_RANK, TrainingScenario, TrainingTask
from advisor.decide.training.simulate_args import step_args
from advisor.decide.training.space import RULES, family_asked, program_asked, training_job
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.families import OF_TRANSFORMERS
from advisor.simulator.training.flop import (
    CHINCHILLA,
    FLOP_PER_PARAMETER_AND_TOKEN,
    model_flop_per_token,
    training_flop,
)
from advisor.simulator.training.job import Method, TrainingJob
from advisor.simulator.training.plan_check import plan_words

_BUDGET_STEP_USD = 100.0
"""Steps in which a budget that would do is named [USD], upwards."""
_MOST_DOUBLINGS = 3
"""Doublings of a deadline that are tried for clusters that fail too often, and halvings of sequences for jobs that do
not fit."""
_MOST_COUNT_DOUBLINGS = 10
"""Doublings of accelerators that are tried for jobs that do not fit: 8 become 8,192."""
_MOST_SEARCHED_AGAIN = 2
"""Accelerators that a question may name for other questions to be tried in its place: each try searches them all."""
_LESS_TIME = 0.95
"""Name another batch or cluster only if it takes less than 95 % of the time. Own choice: step times err by 8 %."""
_LARGE_LORA_RANK = 64
"""Rank of adapters above which a smaller one is advised if memory is short: QLoRA's experiments use 64
(arXiv:2305.14314, section 5)."""
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
                (note, _undivided_batch(scenario, model, ranked[0][0]), _other_line(task, options[0])),
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
    if not _is_narrow(scenario):
        return True
    other = scenario.with_limits(num_accelerators=num_accelerators)
    return bool(ranked_runs(other, search_training(other, model, lambda message: None)))


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
    others = {f"--global-batch {near}": _with_task(same, global_batch=near)}
    if limits.num_accelerators is not None:
        others[f"--gpus {fewer}"] = same.with_limits(num_accelerators=fewer)
    told = []
    for option, other in others.items():
        found = ranked_runs(other, search_training(other, model, lambda message: None))
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
    return cluster_offers(run.num_accelerators, prices.get(accelerator.id, ()), accelerator)


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


def duration_words(days: float) -> str:
    """Days as people say them: hours below one, minutes below an hour, seconds below a minute."""
    hours = days * DAY_S / HOUR_S
    if hours >= 24.0:
        return "1 day" if days == 1.0 else f"{plain_number(days)} days"
    minutes = hours * HOUR_S / MINUTE_S
    if minutes < 1.0:
        return f"{plain_number(minutes * MINUTE_S, 2)} s"
    return f"{plain_number(hours, 2)} h" if hours >= 1.0 else f"{plain_number(minutes, 2)} min"


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


def nothing_found(scenario: TrainingScenario, model: Model, outcome: MarketOutcome) -> AdvisorError:
    """Why there is no answer: the run that misses a limit least, the most common reasons, and what would help."""
    nearest = min(outcome.near, key=lambda run: shortfall(scenario, run), default=None)
    missed = nearest and (nearest.infeasible or misses(scenario, nearest))
    alike: dict[Reason, list[str]] = {}
    for name, reason in outcome.reasons.items():
        alike.setdefault(reason, []).append(name)
    common = sorted(alike.items(), key=lambda item: (not item[0].by_limits, -len(item[1])))
    told = [(f"{nearest.found.cluster.accelerator.id} {missed}", missed)] if nearest and missed else []
    told += [
        (name_accelerators(reason, names), reason)
        for reason, names in common
        if not (nearest and isinstance(reason, TakesTooLong | OverJobBudget))
    ]
    why = "; ".join(words for words, _ in told[:3])
    first = told[0][1] if told else None
    nearest_count = _nearest_count(scenario, outcome)
    if isinstance(first, OverJobBudget) and first.count is None and _is_narrow(scenario):
        free = scenario.with_limits(budget_usd=None)
        runs = ranked_runs(free, search_training(free, model, lambda message: None))
        if runs:
            least = min((run for each in runs for run in each), key=lambda run: run.usd)
            first = OverJobBudget(least.usd, first.budget_usd, least.num_accelerators)
            outcome.near.append(least)
    others = _other_questions(scenario, first)
    if isinstance(first, NoLayout) and not first.fix:
        others = chain(_other_frameworks(scenario), () if nearest_count else _smaller_questions(scenario))
    elif isinstance(first, NoOptions | NoFramework | NoUnits | LayoutRefused):
        others = chain(others, _others_that_have(scenario, first))
    for fix, other in others:
        ranked = ranked_runs(other, search_training(other, model, lambda message: None))
        if ranked:
            return InfeasibleError(
                f"nothing trains {model.id} within these limits",
                why=why,
                fix=fix,
                hint=f"with it: {_run_words(ranked[0][0])}",
            )
    return InfeasibleError(
        f"nothing trains {model.id} within these limits",
        why=why,
        fix=_fix(scenario, first, nearest_count),
        hint=nearest_hint(scenario, outcome),
    )


def _other_questions(
    scenario: TrainingScenario, reason: Reason | None
) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the options that may remove a reason of failures or of a term, each with the question that it makes: fewer
    accelerators fail less often, and longer deadlines take fewer."""
    limits = scenario.limits
    tunes = scenario.task.method != "full" and _is_narrow(scenario)
    if isinstance(reason, NoOptions) and reason.by_model and not reason.elsewhere and tunes:
        yield "--method full", _with_task(scenario, method="full", lora_rank=0)
    if isinstance(reason, NoOptions | NoFramework) and scenario.task.frameworks and not reason.elsewhere:
        free = _with_task(scenario, frameworks=(), programs=())
        yield "drop --framework", free
        if tunes:
            whole = _with_task(free, method="full", lora_rank=0)
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
    if not _is_narrow(scenario):
        return
    match reason:
        case NoUnits(usable=usable):
            for dtype in usable:
                yield f"--precision {dtype}", _with_task(scenario, compute_dtypes=(dtype,))
        case LayoutRefused(month=month) if month:
            yield f"--framework-version {month}", _with_task(scenario, framework_version=month)
        case NoOptions(optimizers=optimizers) if not reason.elsewhere:
            for optimizer in optimizers:
                yield f"--optimizer {optimizer}", _with_task(scenario, optimizer=optimizer)
    elsewhere = () if isinstance(reason, NoUnits) else reason.elsewhere
    asked = [(f"--framework {name}", _in_framework(scenario, name)) for name in elsewhere]
    yield from asked
    task = scenario.task
    if task.method == "full" and scenario.workload in ("finetune", "rl"):
        adapted = _with_task(scenario, method="lora", lora_rank=DEFAULT_LORA_RANK)
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
    return _with_task(scenario, frameworks=(family,), programs=programs, framework_version="")


def _is_narrow(scenario: TrainingScenario) -> bool:
    """Whether a question names so few accelerators that searching them again takes little time."""
    limits = scenario.limits
    return len(limits.own or limits.accelerators) in range(1, _MOST_SEARCHED_AGAIN + 1)


def _with_task(scenario: TrainingScenario, **changes: object) -> TrainingScenario:
    return scenario.model_copy(update={"task": scenario.task.model_copy(update=changes)})


def _other_frameworks(scenario: TrainingScenario) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the families of frameworks that a job which fits nowhere did not name, those with the same models first:
    one may divide or offload more."""
    task = scenario.task
    if not task.frameworks or task.framework_version or not _is_narrow(scenario):
        return
    is_same = task.frameworks[0] in OF_TRANSFORMERS
    for name in sorted(RULES, key=lambda family: (family in OF_TRANSFORMERS) != is_same):
        if name not in task.frameworks:
            yield f"--framework {name}", _with_task(scenario, frameworks=(name,))


def _smaller_questions(scenario: TrainingScenario) -> Iterator[tuple[str, TrainingScenario]]:
    """Yield the options that may make a job fit which no plan holds, each with the question that it makes: an optimizer
    or a method that holds less, more accelerators, shorter sequences.

    None are yielded where many accelerators would have to be searched again.
    """
    task = scenario.task
    limits = scenario.limits
    if not _is_narrow(scenario):
        return
    if task.optimizer != "adamw":
        yield "--optimizer adamw", _with_task(scenario, optimizer="adamw")
    if task.lora_rank > _LARGE_LORA_RANK:
        yield f"--lora-rank {_LARGE_LORA_RANK}", _with_task(scenario, lora_rank=_LARGE_LORA_RANK)
    if limits.num_accelerators is not None and not limits.own:
        for doublings in range(1, _MOST_COUNT_DOUBLINGS + 1):
            count = limits.num_accelerators << doublings
            yield f"--gpus {count}", scenario.with_limits(num_accelerators=count)
    if scenario.workload == "finetune" and task.method != "qlora":
        methods: tuple[Method, ...] = ("lora", "qlora") if task.method == "full" else ("qlora",)
        for method in methods:
            rank = task.lora_rank or DEFAULT_LORA_RANK
            yield f"--method {method}", _with_task(scenario, method=method, lora_rank=rank)
    if scenario.workload != "rl":
        for halvings in range(1, _MOST_DOUBLINGS + 1):
            sequence = task.sequence_tokens >> halvings
            yield f"--sequence {sequence}", _with_task(scenario, sequence_tokens=sequence)


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
        case TakesTooLong(deadline_days=float()):
            return f"--deadline {math.ceil(reason.days)}d, or fewer limits"
        case TakesTooLong():
            return "more --gpus, or fewer --tokens"
        case OverJobBudget(count=None):
            return f"a --budget well above {usd_words(reason.usd)}, or fewer limits"
        case OverJobBudget():
            return (
                f"--budget {math.ceil(reason.usd / _BUDGET_STEP_USD) * _BUDGET_STEP_USD:.0f}, or fewer limits"
            )
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
