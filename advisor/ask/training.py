"""A question about training, as typed, turned into a scenario: defaults by workload and size are resolved here."""

import math
from dataclasses import replace
from typing import Final, cast

from advisor.ask.levers import beside_of
from advisor.ask.measures import parse_bytes, parse_count, parse_seconds, parse_usd, positive
from advisor.ask.names import names_of
from advisor.ask.options import LoadOptions, SharedOptions, Where
from advisor.ask.own_data import given_calibration
from advisor.ask.scenario import constraints_of, needed_model
from advisor.ask.topology import check_network
from advisor.ask.training_options import TrainingInput
from advisor.ask.work import WorkQuestion
from advisor.catalog import models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.regions import DEFAULT_REGION, get_region
from advisor.catalog.resolve import drop_separators, known_value
from advisor.catalog.schema import Model
from advisor.catalog.units import DAY_S, GB, GIGA, HOUR_S, MEGA, TERA
from advisor.decide.scenario import Market
from advisor.decide.training.conditions import checked_host_bytes
from advisor.decide.training.fixed_layout import batch_near
from advisor.decide.training.scenario import (
    LAYOUT_OPTIONS,
    FixedLayout,
    MachineConditions,
    Reliability,
    RolloutTask,
    TrainingLimits,
    TrainingScenario,
    TrainingTask,
    Workload,
)
from advisor.decide.training.space import COMPUTE_DTYPES, family_asked, program_asked, release_note
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.training.flop import compute_optimal_tokens
from advisor.simulator.training.reinforcement import RULES as RULES_OF_LOOPS
from advisor.simulator.training.release_months import check_release_name

_DEADLINES_S: Final[dict[Workload, float]] = {
    "train": 30.0 * DAY_S,
    "finetune": 7.0 * DAY_S,
    "rl": 7.0 * DAY_S,
}
_PRETRAIN_SEQUENCE: Final = 8192
_FINETUNE_SEQUENCE: Final = 4096
_FINETUNE_TOKENS: Final = 100.0 * MEGA
_FINETUNE_BATCH: Final = 64
"""Default sequences of a step of fine-tuning, as far as they have no more tokens than a step of pre-training: long
contexts are tuned with 4 M tokens a step too (ProLong, arXiv:2410.02660, section 4)."""
_LARGEST_WITH_SMALL_BATCH: Final = 200.0 * GIGA
_BATCH_TOKENS: Final = 4.0 * MEGA
"""Tokens of a step: Llama 2, all sizes (arXiv:2307.09288, section 2.2)."""
_LARGE_BATCH_TOKENS: Final = 16.0 * MEGA
"""Default batch of models beyond 200B [tokens]: Llama 3 405B (arXiv:2407.21783, section 3.4.1)."""
_MOST_TOKENS: Final = 1000.0 * TERA
_RESPONSE_TOKENS: Final = 2048
_GIVEN_RESPONSE_TOKENS: Final = 512
"""Tokens of an answer that a data set holds: 1,024 tokens, as TRL's trainers of preferences cut them, less a prompt
(trl, DPOConfig: max_length). Answers that a policy generates are longer."""
_PROMPT_TOKENS: Final = 512


def training_question(asked: WorkQuestion, shared: SharedOptions) -> tuple[TrainingScenario, tuple[str, ...]]:
    """Return the whole question about training, and notes on what was understood.

    Raises: AdvisorError and its kinds: something typed is malformed, unknown, out of range or contradictory.
    """
    model = needed_model(asked.model)
    workload = cast(Workload, asked.workload)
    typed = asked.training
    load = asked.load
    found = models.get(model)
    rollout = _rollout(typed, load) if workload == "rl" else None
    within, more = _limits(workload, asked, total_budget(asked))
    task, notes = _task(found.record, workload, typed, asked.where, rollout, within)
    scenario = TrainingScenario(
        model=models.reference(model, found.record),
        workload=workload,
        task=task,
        rollout=rollout,
        limits=within,
        reliability=_reliability(typed),
        conditions=conditions_of(typed.network, typed.host_memory, typed.power_cap_w),
        as_of=shared.as_of,
        seed=shared.seed,
        calibration=given_calibration(shared.calibration),
        top=asked.shown.top,
    )
    return scenario, tuple(filter(None, (found.note, *notes, *more)))


def _task(
    model: Model,
    workload: Workload,
    typed: TrainingInput,
    where: Where,
    rollout: RolloutTask | None,
    limits: TrainingLimits,
) -> tuple[TrainingTask, tuple[str, ...]]:
    if workload == "train" and typed.method != "full":
        raise AdvisorError(
            f"--method {typed.method} does not go with --workload train",
            why="adapters are trained beside weights that exist already",
            fix="--workload finetune",
        )
    sequence = _sequence(model, workload, typed, rollout)
    if rollout is not None:
        batch = rollout.prompts * rollout.samples_per_prompt
    else:
        batch = typed.global_batch or _default_batch(model, workload, sequence, _ranks(typed, limits))
    tokens, notes = _tokens(model, workload, typed, rollout)
    precisions = names_of(where.precision, "--precision")
    for name in precisions:
        known_value(name, COMPUTE_DTYPES, "precision")
    named = names_of(typed.framework, "--framework")
    asked = [family_asked(name, loop_method=typed.method if rollout else None) for name in named]
    frameworks = tuple(dict.fromkeys(family for family, _ in asked))
    programs = [(family, program_asked(name)) for name, (family, _) in zip(named, asked, strict=True)]
    notes = (*notes, *(note for _, note in asked))
    layout = _layout(typed)
    if workload == "finetune" and layout.micro_batch is None and named and all(map(_packs_alone, named)):
        layout = layout.model_copy(update={"micro_batch": 1})
        notes = (*notes, "recipes of NeMo tune one packed sequence at a time: --micro-batch 1 is taken")
    version = typed.framework_version or ""
    if version and len(frameworks) != 1:
        raise AdvisorError(
            "--framework-version needs one --framework",
            why="a release is one framework's",
            fix="--framework megatron",
        )
    if version:
        check_release_name(frameworks[0], version)
        notes = (*notes, *filter(None, (release_note(program, version) for _, program in programs)))
    task = TrainingTask(
        tokens=tokens,
        sequence_tokens=sequence,
        global_batch=batch,
        compute_dtypes=precisions,
        method=typed.method,
        lora_rank=typed.lora_rank if typed.method in ("lora", "qlora", "dora") else 0,
        optimizer=typed.optimizer,
        frameworks=frameworks,
        programs=tuple(dict.fromkeys(programs)) if any(program for _, program in programs) else (),
        named=named,
        compute_optimal=typed.compute_optimal,
        loop=rollout.algorithm if rollout is not None else None,
        may_offload=workload == "finetune" or rollout is not None,
        mean_sequence_tokens=float(typed.mean_length or 0),
        layout=layout,
        framework_version=version,
    )
    return task, notes


def _packs_alone(framework: str) -> bool:
    """Whether a framework's tuning recipes pass one packed sequence at a time.

    Source: Megatron-Bridge 0.3.0, recipes.
    """
    return "nemo" in drop_separators(framework)


def _layout(typed: TrainingInput) -> FixedLayout:
    names = FixedLayout.model_fields
    return FixedLayout(**{name: getattr(typed, LAYOUT_OPTIONS.get(name, name)) for name in names})


def conditions_of(
    network: str | None, host_memory: str | None, power_cap_w: float | None
) -> MachineConditions:
    """Return the conditions of machines that were typed, or that a plan file states.

    Raises: AdvisorError and its kinds: a network is not understood, or more host memory than nodes are sold with.
    """
    if network:
        check_network(network)
    host_bytes = None
    if host_memory is not None:
        host_bytes = checked_host_bytes(parse_bytes(host_memory, "--host-memory"), host_memory)
    return MachineConditions(network=network or "", host_bytes=host_bytes, power_cap_w=power_cap_w)


def _sequence(model: Model, workload: Workload, typed: TrainingInput, rollout: RolloutTask | None) -> int:
    if rollout is not None:
        return rollout.prompt_tokens + rollout.response_tokens
    if typed.sequence is not None:
        return typed.sequence
    usual = _PRETRAIN_SEQUENCE if workload == "train" else _FINETUNE_SEQUENCE
    return min(usual, model.max_context_tokens or usual)


def _default_batch(model: Model, workload: Workload, sequence: int, num_ranks: int) -> int:
    """Return the usual batch of a size of model that `num_ranks` data-parallel ranks divide [sequences]."""
    large = workload == "train" and parameter_count(model).total > _LARGEST_WITH_SMALL_BATCH
    tokens = _LARGE_BATCH_TOKENS if large else _BATCH_TOKENS
    usual = int(2 ** max(0, round(math.log2(tokens / sequence))))
    return batch_near(min(usual, _FINETUNE_BATCH) if workload == "finetune" else usual, num_ranks)


def _ranks(typed: TrainingInput, limits: TrainingLimits) -> int:
    """Return the data-parallel ranks that the stated accelerators and degrees leave, or that machines of one's own
    have at most; 1 if none are stated."""
    own = limits.own[0][0] if len(limits.own) == 1 else 1
    count = limits.num_accelerators or own
    layout = _layout(typed)
    whole, rest = divmod(count, layout.replica_ranks)
    return layout.data_parallel or (1 if rest else whole)


def _tokens(
    model: Model, workload: Workload, typed: TrainingInput, rollout: RolloutTask | None
) -> tuple[float, tuple[str, ...]]:
    if rollout is not None:
        per_step = rollout.prompts * rollout.samples_per_prompt
        return float(rollout.num_steps * per_step * (rollout.prompt_tokens + rollout.response_tokens)), ()
    if typed.tokens is not None and typed.compute_optimal:
        raise AdvisorError(
            "--tokens and --compute-optimal exclude each other",
            why="compute-optimal sets the tokens: 20 per parameter",
            fix="give one of them",
        )
    if typed.tokens is not None:
        return _plausible_tokens(parse_count(typed.tokens, "--tokens")), ()
    if typed.compute_optimal:
        return compute_optimal_tokens(model), ()
    if workload == "finetune":
        return _FINETUNE_TOKENS, ("100M tokens are taken as the data set; --tokens says otherwise",)
    raise AdvisorError(
        "the number of training tokens is missing",
        why="days and dollars are proportional to the tokens",
        fix="--tokens 1T, or --compute-optimal",
    )


def _plausible_tokens(tokens: float) -> float:
    if tokens > _MOST_TOKENS:
        raise AdvisorError(
            f"--tokens {tokens:g}: more than any published training set",
            why="the largest published run read 36 T tokens (Qwen3, arXiv:2505.09388)",
            fix=f"--tokens {_MOST_TOKENS / TERA:.0f}T or fewer",
        )
    return tokens


def _rollout(typed: TrainingInput, load: LoadOptions) -> RolloutTask:
    if typed.tokens is not None or typed.compute_optimal:
        raise AdvisorError(
            "--tokens does not go with --workload rl",
            why="its tokens follow from steps, prompts, samples and their lengths",
            fix="--rl-steps, --prompts, --samples, --input-tokens, --output-tokens",
        )
    if RULES_OF_LOOPS[typed.algorithm].compares_answers and typed.samples == 1:
        raise AdvisorError(
            f"--samples 1 teaches nothing with {typed.algorithm}",
            why="an output's reward counts relative to the other outputs of its prompt",
            fix="--samples 2 or more, or --algorithm ppo",
        )
    reward_s = parse_seconds(typed.reward_time, "--reward-time") if typed.reward_time else 0.0
    reward = models.get(typed.reward_model).record.id if typed.reward_model else ""
    given = RULES_OF_LOOPS[typed.algorithm].given_answers
    return RolloutTask(
        algorithm=typed.algorithm,
        prompts=typed.prompts,
        samples_per_prompt=given or typed.samples,
        prompt_tokens=load.input_tokens or _PROMPT_TOKENS,
        response_tokens=load.output_tokens or (_GIVEN_RESPONSE_TOKENS if given else _RESPONSE_TOKENS),
        num_steps=typed.rl_steps,
        placement=typed.placement,
        steps_off_policy=typed.off_policy,
        reward_s=reward_s,
        reward_model=reward,
    )


def total_budget(asked: WorkQuestion) -> float | None:
    """Return dollars of a whole job; None where none are given.

    Raises: AdvisorError: not a sum of dollars.
    """
    return None if asked.objectives.budget is None else parse_usd(asked.objectives.budget, example="500000")


def _limits(
    workload: Workload, asked: WorkQuestion, budget_usd: float | None
) -> tuple[TrainingLimits, tuple[str, ...]]:
    typed = asked.training
    where = asked.where
    constraints, notes = constraints_of(replace(where, precision=None, engine=None, region=None))
    deadline_s = parse_seconds(typed.deadline, "--deadline") if typed.deadline else None
    open_ended = typed.gpus is None and budget_usd is None and not where.own
    if deadline_s is None and open_ended:
        deadline_s = _DEADLINES_S[workload]
        days = f"{deadline_s / DAY_S:.0f} days"
        notes = (*notes, f"no --deadline, --gpus or --budget: done within {days} is taken")
    budget = positive(budget_usd, "--budget", example="500000") if budget_usd is not None else None
    region, note = get_region(where.region or DEFAULT_REGION)
    market = {name: getattr(constraints, name) for name in Market.model_fields}
    found = TrainingLimits(
        **market,
        num_accelerators=typed.gpus,
        deadline_s=deadline_s,
        budget_usd=budget,
        beside=beside_of(asked.beside),
        region=region.id,
    )
    return found, (*notes, note)


def _reliability(typed: TrainingInput) -> Reliability:
    values: dict[str, float] = {}
    if typed.mtbf_hours is not None:
        values["accelerator_mtbf_s"] = positive(typed.mtbf_hours, "--mtbf-hours", example="50000") * HOUR_S
    if typed.spot_losses_per_day < 0:
        raise AdvisorError(
            f"--spot-losses-per-day {typed.spot_losses_per_day:g} is negative", fix="0 or more"
        )
    if typed.storage_gb_s is not None:
        values["storage_bytes_per_s"] = typed.storage_gb_s * GB
        # A stated rate is that of the storage, whatever the nodes could send.
        values["storage_bytes_per_s_per_node"] = typed.storage_gb_s * GB
    return Reliability(
        **values,
        restart_s=parse_seconds(typed.restart, "--restart"),
        asynchronous_checkpoints=typed.checkpoints == "async",
        spot_interruptions_per_node_hour=typed.spot_losses_per_day / 24.0,
        elastic=typed.elastic,
        straggler_spread=typed.stragglers,
    )
