"""Replay a published run as its benchmark started the engine: budgets, graphs, and when new requests are seen."""

import math
from dataclasses import replace

import numpy as np

from advisor.catalog import accelerators, models
from advisor.catalog.recipes import decode_slots_of, layout_of, recipe_of
from advisor.catalog.schema.recipe import BenchmarkRecipe, PublishedRun
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.evidence.serving.admission_wait import gathering_wait_steps, polling_wait_steps
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.lengths import JITTER_SIGMA
from advisor.simulator.deployment import Deployment
from advisor.simulator.engine_costs import EngineCosts, default_costs, engine_costs
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.serving import FixedLengths, LognormalLengths
from advisor.simulator.serving.content import ROOT, Contents, ContentTree
from advisor.simulator.step_cost import decode_iteration_s

INFERENCEX = "inferencex"
_AICONFIGURATOR = "aiconfigurator"
_VULTR = "vultr"
_LMDEPLOY = "lmdeploy"
_VULTR_LENGTHS = (2048, 512)
_INFERENCEX_SPREAD = 0.8
_INFERENCEX_REQUESTS_PER_CLIENT = 10
_NO_SPREAD = 1e-9


def recipe_for(case: ServingCase, deployment: Deployment) -> BenchmarkRecipe | None:
    """The recipe of the benchmark that a case's protocol identifies; None where it is none that is known.

    Source: catalog/data/recipes.toml.
    """
    protocols = {
        INFERENCEX: is_inferencex,
        _AICONFIGURATOR: is_aiconfigurator,
        _VULTR: is_vultr,
        _LMDEPLOY: is_profile_generation,
    }
    benchmark = next((name for name, matches in protocols.items() if matches(case)), None)
    if benchmark is None:
        return None
    return recipe_of(
        published_run(benchmark, case, deployment.model.id, deployment.accelerator.architecture),
        input_tokens=case.isl,
        output_tokens=case.osl,
        concurrency=case.concurrency or 0,
        tensor_parallel=case.tp,
        data_parallel=case.dp,
    )


def as_laid_out(case: ServingCase) -> ServingCase:
    """A case with the layout that its benchmark's scripts chose, where its table had no columns for one.

    Raises: UnknownNameError: model or accelerator is not in the catalog.
    Source: catalog/data/unstated_layouts.toml.
    """
    if not is_inferencex(case) or case.mode != "agg" or (case.ep, case.dp) != (1, 1):
        return case
    model, architecture = models.get(case.model).record.id, accelerators.by_id(case.gpu).architecture
    layout = layout_of(
        published_run(INFERENCEX, case, model, architecture),
        tensor_parallel=case.tp,
        input_tokens=case.isl,
        output_tokens=case.osl,
    )
    clients = case.concurrency or 0
    if layout is None or clients < layout.whole_experts_from:
        return case
    if layout.data_parallel_from is not None and clients >= layout.data_parallel_from:
        return replace(case, tp=1, dp=case.tp, ep=case.tp)
    return replace(case, ep=case.tp)


def published_run(benchmark: str, case: ServingCase, model: str, architecture: str) -> PublishedRun:
    """What a benchmark's start-up scripts went by in a case. Source: own definition."""
    return PublishedRun(
        benchmark, case.engine, model, architecture, case.weight_dtype, case.date, case.engine_version
    )


def is_inferencex(case: ServingCase) -> bool:
    """Whether a case's protocol is InferenceX's: lengths from U(0.8, 1) of the nominal ones, ten requests per client.

    Source: SemiAnalysisAI/InferenceX, benchmark scripts.
    """
    drawn = case.length_dist == "uniform" and case.length_spread in (None, _INFERENCEX_SPREAD)
    asked = _INFERENCEX_REQUESTS_PER_CLIENT * (case.concurrency or 0)
    return drawn and case.load == "closed" and case.num_requests == asked


def is_aiconfigurator(case: ServingCase) -> bool:
    """Whether a case is one of AIConfigurator's own runs: equal lengths, a release, a number of clients, and
    nothing of requests, date or cache.

    Source: ai-dynamo/aiconfigurator, templates of its generator.
    """
    return _is_equal_and_unsaid(case) and not case.date and case.engine_version != ""


def is_vultr(case: ServingCase) -> bool:
    """Whether a case is one of Vultr's cookbook: vLLM, 2 048 tokens in and 512 out, a day, a release, a number of
    clients, and nothing of requests or cache.

    Source: docs.vultr.com/inference-cookbook/cuda/benchmarks/methodology.
    """
    dated = case.engine == "vllm" and case.date != "" and case.engine_version != ""
    return _is_equal_and_unsaid(case) and dated and (case.isl, case.osl) == _VULTR_LENGTHS


def is_profile_generation(case: ServingCase) -> bool:
    """Whether a case comes from LMDeploy's own script for equal lengths: they and the clients, of which there may be
    one, are all that is said.

    Source: InternLM/lmdeploy, benchmark/profile_generation.py.
    """
    several = replace(case, load="closed") if case.load == "batch1" else case
    return _is_equal_and_unsaid(several) and case.engine == "lmdeploy"


def _is_equal_and_unsaid(case: ServingCase) -> bool:
    """Whether a closed loop states equal lengths, but neither requests nor cache, on a machine that may be rented."""
    equal = case.length_dist == "fixed" and case.lengths_stated and case.load == "closed"
    return equal and case.num_requests is None and not case.prefix_cache_stated and case.power_cap_w is None


def as_started(deployment: Deployment, recipe: BenchmarkRecipe | None) -> Deployment:
    """A deployment whose engine schedules as the recipe starts it.

    Source: catalog/data/recipes.toml.
    """
    if recipe is None or not recipe.mixed_chunks:
        return deployment
    return replace(deployment, engine=deployment.engine.model_copy(update={"scheduler": "mixed"}))


def client_lengths(
    case: ServingCase, recipe: BenchmarkRecipe | None
) -> FixedLengths | LognormalLengths | None:
    """Lengths of a client that asks for equal ones and of which is known how it stays in step; None where it is not.

    Assumes: what puts clients out of step (HTTP, tokenizer, the client's own processes) happens once per request, so
    that it is a number of decode steps, not a share of the answer; no more than the usual jitter of short answers.
    Source: catalog/data/recipes.toml, jitter_tokens, chosen on mean TTFT of runs with answers of 100 to 2 000 tokens
    under vLLM and SGLang.
    """
    if recipe is not None and recipe.equal_lengths:
        return FixedLengths(case.isl, case.osl)
    if recipe is None or recipe.jitter_tokens is None or case.length_dist != "fixed":
        return None
    sigma = min(JITTER_SIGMA, recipe.jitter_tokens / max(1, case.osl))
    return LognormalLengths(case.isl, case.osl, _NO_SPREAD, output_sigma=sigma)


def repeated_prompts(case: ServingCase, distinct_prompts: int, num_requests: int, seed: int) -> Contents:
    """Contents of a client that sends a few prompts again and again, each pass in another order.

    Source: aiperf, whose clients shuffle the prompts that they have made.
    """
    tree = ContentTree()
    prompts = [tree.add(ROOT, case.isl) for _ in range(distinct_prompts)]
    rng = np.random.default_rng(seed)
    order: list[int] = []
    while len(order) < num_requests:
        order += rng.permutation(prompts).tolist()
    return Contents(tree, order[:num_requests])


def decode_slots_for(case: ServingCase, deployment: Deployment, decode_workers: int) -> int | None:
    """Sequences that one decode worker of a case of two pools takes at once; None where its script is not known.

    Source: catalog/data/decode_slots.toml.
    """
    if not is_inferencex(case) or case.max_num_seqs is not None:
        return None
    return decode_slots_of(
        INFERENCEX,
        case.engine,
        deployment.model.id,
        deployment.accelerator.id,
        weight_dtype=case.weight_dtype,
        input_tokens=case.isl,
        output_tokens=case.osl,
        clients=case.concurrency or 0,
        decode_workers=decode_workers,
    )


def costs_of(
    case: ServingCase, deployment: Deployment, costs: EngineCosts | None, recipe: BenchmarkRecipe | None
) -> EngineCosts:
    """The given costs, or without any those of a case's release, as the recipe starts the engine.

    Source: the engine's record; costs_as_started.
    """
    if costs is None:
        costs = engine_costs(deployment.engine, version=case.engine_version, date=case.date)
    return costs_as_started(costs, recipe)


def costs_as_started(costs: EngineCosts, recipe: BenchmarkRecipe | None) -> EngineCosts:
    """Costs of an engine that a recipe lets hand on several tokens at once, or prepare its next step while the device
    runs, which its release does not by itself.

    Source: catalog/data/recipes.toml, stream_interval and async_scheduling.
    """
    if recipe is None:
        return costs
    costs = replace(costs, message_s=costs.message_s / recipe.stream_interval)
    if not recipe.async_scheduling:
        return costs
    common = default_costs()
    return replace(
        costs,
        step_s=min(costs.step_s, common.step_s),
        sequence_s=min(costs.sequence_s, common.sequence_s),
    )


def with_recipe(
    settings: EngineSettings, case: ServingCase, deployment: Deployment, recipe: BenchmarkRecipe | None
) -> EngineSettings:
    """Settings of a case with those of a recipe where the case states none itself.

    Source: catalog/data/recipes.toml.
    """
    if recipe is None:
        return settings
    tokens = settings.max_num_batched_tokens or _budget_tokens(case, recipe)
    if tokens and not settings.max_num_batched_tokens and deployment.engine.token_budget_of == "rank":
        tokens *= deployment.data_parallel
    slots = settings.max_num_seqs
    if recipe.idle_slots and case.concurrency and not case.max_num_seqs:
        slots = max(1, case.concurrency - recipe.idle_slots)
    return replace(
        settings,
        max_num_seqs=slots,
        max_num_batched_tokens=tokens,
        graphs_for_all_batches=recipe.graphs_for_all_batches,
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
    """A replica whose requests wait as the recipe makes the engine look at its queue.

    Assumes: the mean wait, in decode steps of the full batch, counts like time before the scheduler.
    Source: simulator.admission_wait.
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
