"""Replay of a published run with its benchmark's engine start: budgets, graphs, and times at which new requests are
seen."""

import math
from dataclasses import replace

from advisor.catalog import accelerators, models
from advisor.catalog.schema import GatedDeltaNet, Mamba2, Mixer, Model
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.scripts import (
    BenchmarkRecipe,
    PublishedRun,
    all_decode_slots,
    all_formats,
    all_layouts,
    all_pool_layouts,
    all_recipes,
    first_of,
)
from advisor.simulator.deployment import Deployment
from advisor.simulator.engine_costs import EngineCosts, default_costs, engine_costs
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.step_cost import decode_iteration_s

INFERENCEX = "inferencex"
_INFERENCEX_SPREAD = 0.8
_INFERENCEX_REQUESTS_PER_CLIENT = 10


def script_of(case: ServingCase) -> str:
    """Return the benchmark whose scripts made a case: the stated one, or InferenceX's if its whole protocol is stated.

    The result is empty if the benchmark is not known, and for a third-party server. Blank cells of a row decide
    nothing.

    See docs/validation.md.
    """
    if case.view == "stranger":
        return ""
    return case.script or (INFERENCEX if is_inferencex(case) else "")


def run_of(case: ServingCase, model: str, architecture: str) -> PublishedRun:
    """Return the conditions on which a benchmark's start-up scripts chose their settings in a case."""
    return PublishedRun(
        script_of(case),
        case.engine,
        model,
        architecture,
        case.weight_dtype,
        case.date,
        case.engine_version,
        case.isl,
        case.osl,
        case.concurrency or 0,
        case.tp,
        case.dp,
    )


def recipe_for(case: ServingCase, deployment: Deployment) -> BenchmarkRecipe | None:
    """Return the recipe of the benchmark whose scripts made a case; None if no recipe is known.

    Source: evidence/data/recipes.toml.
    """
    return first_of(all_recipes(), _published_run(case, deployment))


def _published_run(case: ServingCase, deployment: Deployment) -> PublishedRun:
    return run_of(case, deployment.model.id, deployment.accelerator.architecture)


def as_laid_out(case: ServingCase) -> ServingCase:
    """Return a case with the layout that its benchmark's scripts chose, if its table had no columns for one.

    Raises: UnknownNameError: model or accelerator is not in the catalog.
    Source: evidence/data/layouts.toml.
    """
    if not script_of(case):
        return case
    if case.mode == "disagg":
        return _as_pools_laid_out(case)
    if (case.ep, case.dp) != (1, 1):
        return case
    run = run_of(case, models.get(case.model).record.id, accelerators.by_id(case.gpu).architecture)
    layout = first_of(all_layouts(), run)
    clients = case.concurrency or 0
    if layout is None or clients < layout.whole_experts_from:
        return case
    if layout.data_parallel_from is not None and clients >= layout.data_parallel_from:
        return replace(case, tp=1, dp=case.tp, ep=case.tp)
    return replace(case, ep=case.tp)


def _as_pools_laid_out(case: ServingCase) -> ServingCase:
    """Return a case whose table states the accelerators of its workers, but no degrees, with small decode workers laid
    out as scripts did."""
    stated = (case.prefill_tp, case.prefill_pp, case.prefill_dp) != (None, None, None)
    if stated or not (case.decode_gpus and case.num_decode_workers):
        return case
    run = run_of(case, models.get(case.model).record.id, accelerators.by_id(case.gpu).architecture)
    layout = first_of(all_pool_layouts(), run)
    size = case.decode_gpus // case.num_decode_workers
    if layout is None or size > layout.tensor_parallel_up_to:
        return case
    return replace(case, tp=size, dp=1, ep=1)


def as_stored(deployment: Deployment, case: ServingCase) -> Deployment:
    """Return the deployment with its benchmark's formats of cache and states, if the case states no format of its
    cache.

    Source: evidence/data/formats.toml.
    """
    if case.kv_dtype != "auto":
        return deployment
    formats = first_of(all_formats(), _published_run(case, deployment))
    if formats is None:
        return deployment
    model = with_states(deployment.model, formats.state_dtype) if formats.state_dtype else deployment.model
    return replace(deployment, model=model, kv_dtype=formats.kv_dtype)


def with_states(model: Model, state_dtype: str) -> Model:
    """Return a model whose mixers with a constant state keep it in `state_dtype`."""

    def store_formats(mixer: Mixer | None) -> Mixer | None:
        if isinstance(mixer, GatedDeltaNet | Mamba2):
            return mixer.model_copy(update={"state_dtype": state_dtype})
        return mixer

    layers = tuple(group.model_copy(update={"mixer": store_formats(group.mixer)}) for group in model.layers)
    return model.model_copy(update={"layers": layers})


def is_inferencex(case: ServingCase) -> bool:
    """Whether a case's protocol is InferenceX's: lengths from U(0.8, 1) of the nominal ones, ten requests per client.

    Source: SemiAnalysisAI/InferenceX, benchmark scripts.
    """
    drawn = case.length_dist == "uniform" and case.length_spread in (None, _INFERENCEX_SPREAD)
    asked = _INFERENCEX_REQUESTS_PER_CLIENT * (case.concurrency or 0)
    return drawn and case.load == "closed" and case.num_requests == asked


def as_started(deployment: Deployment, recipe: BenchmarkRecipe | None) -> Deployment:
    """Return a deployment whose engine schedules as the recipe starts it.

    Source: evidence/data/recipes.toml.
    """
    if recipe is None:
        return deployment
    changes: dict[str, str] = {}
    if recipe.mixed_chunks:
        changes["scheduler"] = "mixed"
    if recipe.async_scheduling:
        changes["overlaps_since"] = ""
    return replace(deployment, engine=deployment.engine.model_copy(update=changes)) if changes else deployment


def decode_slots_for(case: ServingCase, deployment: Deployment, decode_workers: int) -> int | None:
    """Number of sequences that one decode worker of a case with two pools takes at once; None if its script is not
    known.

    Source: evidence/data/decode_slots.toml.
    """
    if case.max_num_seqs is not None:
        return None
    run = _published_run(case, deployment)
    return all_decode_slots().of(run, deployment.accelerator.id, decode_workers)


def costs_of(
    case: ServingCase, deployment: Deployment, costs: EngineCosts | None, recipe: BenchmarkRecipe | None
) -> EngineCosts:
    """Return the given costs, or without any those of a case's release, as the recipe starts the engine.

    Source: the engine's record; costs_as_started.
    """
    if costs is None:
        costs = engine_costs(deployment.engine, version=case.engine_version, date=case.date)
    return costs_as_started(costs, recipe)


def costs_as_started(costs: EngineCosts, recipe: BenchmarkRecipe | None) -> EngineCosts:
    """Return the costs of an engine with those options of a recipe that its release does not set by default: sending
    several tokens at once, taking requests in with several processes, fusing the operators between large kernels, and
    preparing the next iteration while the device runs.

    Source: evidence/data/recipes.toml, stream_interval, front_ends, fused_launches and async_scheduling.
    """
    if recipe is None:
        return costs
    common = default_costs()
    costs = replace(
        costs,
        message_s=costs.message_s / recipe.stream_interval,
        intake_s=costs.intake_s / recipe.front_ends,
    )
    if recipe.fused_launches:
        costs = replace(costs, launch_scale=min(costs.launch_scale, common.launch_scale))
    if not recipe.async_scheduling:
        return costs
    return replace(
        costs,
        step_s=min(costs.step_s, common.step_s),
        sequence_s=min(costs.sequence_s, common.sequence_s),
    )


def with_recipe(
    settings: EngineSettings, case: ServingCase, deployment: Deployment, recipe: BenchmarkRecipe | None
) -> EngineSettings:
    """Return the settings of a case, completed with those of a recipe that the case does not state.

    Source: evidence/data/recipes.toml.
    """
    if recipe is None:
        return settings
    tokens = settings.max_num_batched_tokens or _budget_tokens(case, recipe)
    if tokens and not settings.max_num_batched_tokens and deployment.engine.token_budget_of == "rank":
        tokens *= deployment.data_parallel
    return replace(
        settings, max_num_batched_tokens=tokens, graphs_for_all_batches=recipe.graphs_for_all_batches
    )


def _budget_tokens(case: ServingCase, recipe: BenchmarkRecipe) -> int | None:
    """New tokens of one iteration under a recipe; None leaves the engine's default."""
    if recipe.max_num_batched_tokens:
        return recipe.max_num_batched_tokens
    if recipe.tokens_per_input:
        return round(recipe.tokens_per_input * case.isl)
    if recipe.spare_tokens:
        needed = (case.concurrency or 0) + case.isl + recipe.spare_tokens
        step = recipe.budget_step_tokens
        return max(recipe.min_num_batched_tokens, math.ceil(needed / step) * step)
    return None


def with_admission_wait(
    replica: ReplicaModel, case: ServingCase, recipe: BenchmarkRecipe | None
) -> ReplicaModel:
    """Return a replica whose requests wait until the engine looks at its queue, as the recipe sets it.

    Assumes: the mean wait, in decode steps of the full batch, counts like time before the scheduler.
    """
    steps = 0.0 if recipe is None else _wait_steps(replica, case, recipe)
    if not steps or not case.concurrency:
        return replica
    batch = min(case.concurrency, replica.policy.num_slots)
    step_s = decode_iteration_s(replica.surface, batch, case.isl + case.osl / 2.0)
    waited_ps = replica.policy.api_overhead_ps + round(steps * step_s * PICOSECONDS_PER_S)
    return replace(replica, policy=replace(replica.policy, api_overhead_ps=waited_ps))


def _wait_steps(replica: ReplicaModel, case: ServingCase, recipe: BenchmarkRecipe) -> float:
    clients = case.concurrency or 1
    polls = [entry.value for entry in recipe.poll_steps if clients >= entry.concurrency]
    steps = polling_wait_steps(polls[-1]) if polls else 0.0
    if not recipe.gather_steps:
        return steps
    scale = (1.0 + _INFERENCEX_SPREAD) / 2.0
    rate = clients / max(1.0, scale * case.osl)
    enough = 1.0
    if recipe.gather_for_each_rank:
        enough = float(replica.deployment.data_parallel)
    elif recipe.gather_token_fraction:
        tokens = recipe.gather_token_fraction * (_budget_tokens(case, recipe) or 0)
        enough = tokens / (scale * case.isl)
    return steps + gathering_wait_steps(rate, min(enough, clients), recipe.gather_steps)


def polling_wait_steps(interval_steps: int) -> float:
    """Mean wait of a request that arrives while an engine looks at its queue every `interval_steps` steps [decode
    steps].

    (k - 1) / 2: with an engine that looks at every step no request waits. All releases do so unless an option says
    otherwise.

    Assumes: arrivals fall anywhere in the interval; decoding never pauses, as an idle engine looks at once.

    Source: own derivation; SGLang's scheduler_recv_interval and num_continuous_decode_steps.
    """
    return (interval_steps - 1) / 2.0


def gathering_wait_steps(arrivals_per_step: float, enough: float, most_steps: int) -> float:
    """Mean wait of prompts that are held until enough of them can compute together [decode steps].

    The first prompt opens a window of T = min(most_steps, (enough - 1) / rate) steps; it waits T, those that join it
    wait T / 2 on average: (T + rate T · T / 2) / (1 + rate T).

    Assumes: arrivals at a constant rate; the wait of the burst that opens a benchmark is small against the run.
    Source: own derivation; TensorRT-LLM's batch_wait_timeout_iters and attention_dp_config.timeout_iters.
    """
    if enough <= 1.0 or most_steps <= 0:
        return 0.0
    steps = min(float(most_steps), (enough - 1.0) / arrivals_per_step)
    joined = arrivals_per_step * steps
    return (steps + joined * steps / 2.0) / (1.0 + joined)
