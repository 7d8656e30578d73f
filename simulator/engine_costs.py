"""Engine costs: what an engine and its release add to the kernels (host, launches, delivery to the client, kernel
choice, era).

Operator records are fitted on recent kernels. An early engine on the same chip read shared keys and values once per
query head, multiplied few rows at a fraction of the matrix units' rate, or kept the device waiting longer between
steps. Each of these is a term of the step-cost surface.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.efficiencies import is_measured
from advisor.catalog.releases import is_before
from advisor.catalog.schema import Engine, KernelChoice, Model, MoeFeedForward
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.model import (
    has_state,
    layers_of,
    num_collectives,
    num_operators,
    parameter_count,
)
from advisor.simulator.operator_library import OperatorLibrary, matmul_peak_flop_per_s
from advisor.simulator.step_cost import StepSurface
from advisor.simulator.terms import TermCase, fill_record, find, value


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """Costs that an engine and its host add, by the names of the table of terms; the defaults add nothing.

    Source: catalog/data/terms.csv.
    """

    step_s: float = 0.0
    """Exposed host time of each iteration [s]: scheduling, input preparation, sampling, output handling."""
    sequence_s: float = 0.0
    """Time added per running sequence and iteration [s]."""
    mixed_step_s: float = 0.0
    """Time added to each iteration that carries prefill [s]: new requests, block tables, no captured graph to
    replay."""
    eager_launch_s: float = 0.0
    """Host time per operator of an iteration outside captured graphs [s]; hides behind longer kernels."""
    collective_launch_s: float = 0.0
    """Host time per collective of an iteration outside captured graphs [s], if the host runs ahead of the device."""
    eager_sequence_s: float = 0.0
    """Host time per sequence that decodes in an iteration outside captured graphs [s]: scheduling, inputs, outputs."""
    kernel_scale: float = 1.0
    """Ratio of kernel time inside the running engine to kernel time measured alone."""
    release_scale: float = 1.0
    """Factor of kernel time in a release that lacks a configuration which others have, on top of kernel_scale."""
    release_layers_s: float = 0.0
    """Decode time of kernels that a release runs and others do not, all layers together [s]."""
    prefill_scale: float = 1.0
    """Kernel time in iterations with prefill over kernel time measured alone, on top of kernel_scale: a pass that
    starts from rest takes longer than its kernels measured in bursts. The cost of a power limit comes on top, if
    matmuls are fast enough to reach it."""
    launch_scale: float = 1.0
    """Ratio of a kernel's launch time behind another kernel to the launch time of a kernel measured alone."""
    expert_scale: float = 1.0
    """Factor of the time of routed experts in decode iterations, on top of kernel_scale, if the model has many of them:
    real routing touches fewer than the measured kernels were given."""
    expert_prefill_scale: float = 1.0
    """Factor of the time of routed experts in iterations with prefill, on top of kernel_scale."""
    collective_wait_s: float = 0.0
    """Time added to each collective [s]: ranks do not arrive together, unlike in a measurement of the collective
    alone."""
    network_wait_s: float = 0.0
    """Time added to each sum over tensor-parallel ranks of several nodes, for each rank [s]."""
    hidden_exchange_fraction: float = 0.0
    """Part of the shorter of computation and exchange of experts that two micro-batches in turns hide behind the other,
    if the exchange crosses a network; 0 if the engine's release does not divide batches."""
    delivery_s: float = 0.0
    """Time of the process that turns tokens into text, per token [s]: it serves all sequences one after the other."""
    message_s: float = 0.0
    """Additional time of that process per message to a client [s]; a message carries one token unless the engine is
    asked to send several at once."""
    request_s: float = 0.0
    """Time from arrival to the scheduler and from the first token back [s]: HTTP, detokenizer."""
    intake_s: float = 0.0
    """Time of the process that takes requests in, per request [s]: it serves one after the other; part of request_s."""
    prompt_token_s: float = 0.0
    """Time of the tokenizer for each token of a prompt, beyond request_s [s]."""
    request_launch_s: float = 0.0
    """Latency of a first token per layer that the engine's own Python launches [s]."""
    slow_launch_s: float = 0.0
    """Value of request_launch_s on the slowest host that was measured, for experts that are launched kernel by kernel
    [s]; 0 if no other host was measured."""
    state_launch_s: float = 0.0
    """Additional first-token latency per layer with a recurrent state [s], on top of request_launch_s."""


def unmeasured_scale(architecture: str) -> float:
    """Ratio of kernel time on unmeasured hardware of another vendor to the time that its relative's record predicts.

    A relative lends the fractions of the datasheet that mature libraries reach, which other libraries do not.

    Source: catalog/data/terms.csv.
    """
    return 1.0 if is_measured(architecture) else value("engine", "unmeasured_scale", TermCase())


def engine_in_turns(engine: Engine, model: Model, *, version: str = "", date: str = "") -> Engine:
    """Return the engine as it schedules a model: a release that takes turns with the device does not overlap batches,
    nor does one from before the engine overlapped them by default.

    Without version and date the engine is the newest release, which overlaps them.

    Assumes: Kimi delta attention is served without a prefix cache, and therefore overlaps.
    Source: the engine's record; SGLang 0.5.9, server_args.py _handle_mamba_radix_cache.
    """
    if engine.overlaps_since and is_before(version, date, engine.overlaps_since):
        engine = engine.model_copy(update={"overlap_scheduling": False})
    turns = engine.in_turns_with_state
    if turns is None or not engine.prefix_caching:
        return engine
    if not any(layer.mixer is not None and layer.mixer.cached_state for layer in layers_of(model)):
        return engine
    return taking_turns(engine) if turns.holds(version, date) else engine


_WHOLE_ITERATION = 2**31 - 1
"""More tokens than any iteration carries."""


def captured_prompt_tokens(deployment: Deployment, *, version: str = "", date: str = "") -> int:
    """Highest number of tokens of an iteration with prefill that an engine's release replays from a captured graph
    [tokens].

    Without version and date the engine is the newest release.

    Assumes: no speculative decoding; with it, releases that capture in pieces do not replay.
    Source: the engine's record.
    """
    graphs = next((each for each in deployment.engine.prompt_graphs if each.holds(version, date)), None)
    if graphs is None:
        return 0
    model = deployment.model
    refused = (
        deployment.accelerator.vendor not in graphs.vendors
        or model.family in graphs.except_families
        or (model.vision is not None and model.family not in graphs.vision_families)
        or (
            deployment.accelerator.architecture in graphs.except_experts_on
            and any(layer.experts is not None for layer in layers_of(model))
            and model.family not in graphs.expert_families
        )
        or (deployment.data_parallel > 1 and not graphs.data_parallel)
        or (deployment.pipeline_parallel > 1 and not graphs.pipeline_parallel)
    )
    if refused:
        return 0
    return graphs.max_latent_tokens if _is_latent(model) else _WHOLE_ITERATION


def _is_latent(model: Model) -> bool:
    return any(layer.attention is not None and layer.attention.latent for layer in layers_of(model))


def taking_turns(engine: Engine) -> Engine:
    """Return the engine in turns with the device: it composes no batch while the device runs one."""
    return engine.model_copy(update={"overlap_scheduling": False, "prompt_launches": "in_turns"})


@cache
def default_costs() -> EngineCosts:
    """Return the costs of an engine without any known terms. Source: catalog/data/terms.csv."""
    return fill_record(EngineCosts, "engine", TermCase())


def engine_costs(engine: Engine, *, version: str = "", date: str = "") -> EngineCosts:
    """Return the costs of an engine's release on any hardware, for any model.

    Source: catalog/data/terms.csv.
    """
    return _engine_costs(engine.id, version, date)


@lru_cache(maxsize=512)
def _engine_costs(engine_id: str, version: str, date: str) -> EngineCosts:
    return fill_record(EngineCosts, "engine", TermCase(engine_id, version, date))


def prompt_launch_s(deployment: Deployment, costs: EngineCosts) -> float:
    """Host time to launch the layers of a prompt that the engine's own Python launches [s].

    Every layer counts. Only layers with routed experts count if the others are compiled or fused into a few operators,
    which the floor of an iteration with prefill holds.

    Source: engine costs, fitted by evidence/fit/engines.py; published dense prompts of TensorRT-LLM and vLLM wait for
    nothing, prompts with experts wait equally long whatever their length. TensorRT-LLM looks its tuned experts up in
    Python for every call (NVIDIA/TensorRT-LLM pull request 13116).
    """
    every = deployment.engine.prompt_launches in ("each", "in_turns")
    layers = layers_of(deployment.model)
    launched = sum(layer.count for layer in layers if every or layer.experts is not None)
    with_state = sum(layer.count for layer in layers if layer.mixer and layer.mixer.recurrence_kernel)
    return costs.request_launch_s * launched + costs.state_launch_s * with_state


def takes_turns(deployment: Deployment, costs: EngineCosts) -> bool:
    """Whether an engine whose release has micro-batches runs two of them in turns: tokens are dispatched to experts
    over a network, with kernels that exist for NVIDIA's chips.

    Source: vLLM, docs/design/dbo.md; SGLang pull request 4068.
    """
    if not costs.hidden_exchange_fraction or deployment.accelerator.vendor != "nvidia":
        return False
    return deployment.can_dispatch and deployment.group(deployment.ranks_per_stage).num_nodes > 1


_TYPICAL_STEPS = 3.0
"""Value of 1 + log2(ranks) for the four ranks at which the parameter is stated."""
_COMPILED_SHARE = 0.15
"""Launch cost of experts that are one operator in a compiled prompt, as a fraction of their launch cost elsewhere: the
wait of first tokens in published vLLM runs beyond that of dense models."""
_ONE_OPERATOR_EXPERTS = ("mxfp4", "nvfp4")


def launches_experts_apart(deployment: Deployment) -> bool:
    """Whether an engine whose host runs ahead of the device launches experts kernel by kernel from its own Python:
    routing, sorting, quantising, each matmul. Experts in four bits are one operator of FlashInfer where the device
    multiplies in four bits; elsewhere they are the kernels of Triton or Marlin, launched one by one.

    Source: vLLM 0.20.2 and 0.24.0, vllm/model_executor/layers/fused_moe (modular_kernel.py, experts, oracle/mxfp4.py).
    """
    routed = any(layer.experts is not None for layer in layers_of(deployment.model))
    is_one = (
        deployment.weight_dtype in _ONE_OPERATOR_EXPERTS and "fp4" in deployment.accelerator.peak_flop_per_s
    )
    return routed and not is_one


def launch_floor_s(deployment: Deployment, costs: EngineCosts) -> float:
    """Host time to launch one stage operator by operator [s].

    Source: engine costs.
    """
    operators = (
        num_operators(deployment.model, deployment.engine.expert_operators) / deployment.pipeline_parallel
    )
    return costs.eager_launch_s * operators


def eager_decode_s(
    deployment: Deployment, costs: EngineCosts, num_sequences: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Host time of a decode iteration without a graph, which the device cannot undercut [s].

    Source: engine costs.
    """
    sequences_s = costs.eager_sequence_s * num_sequences / deployment.data_parallel
    return np.asarray(launch_floor_s(deployment, costs) + sequences_s)


def launch_ahead_s(deployment: Deployment, costs: EngineCosts) -> float:
    """Host time to launch one stage that is not captured, if the host runs ahead of the device [s]; else 0.

    The host begins while the device is busy with the previous iteration, so this time counts from then.

    Source: measured, catalog/data/measured/h100-sxm-vllm-iterations-2026-11-26.json.
    """
    if deployment.engine.prompt_launches != "ahead":
        return 0.0
    launch_s = launch_floor_s(deployment, costs)
    if launches_experts_apart(deployment):
        launch_s = max(launch_s, prompt_launch_s(deployment, costs) / deployment.pipeline_parallel)
    if deployment.ranks_per_stage == 1:
        return launch_s
    collectives = num_collectives(deployment.model) / deployment.pipeline_parallel
    return launch_s + costs.collective_launch_s * collectives


def on_slow_host(deployment: Deployment, costs: EngineCosts) -> EngineCosts:
    """Return the costs on the slowest host that was measured, if it launches experts kernel by kernel.

    Source: engine costs, slow_launch_s.
    """
    if not launches_experts_apart(deployment):
        return costs
    return replace(costs, request_launch_s=max(costs.request_launch_s, costs.slow_launch_s))


def prompt_floor_s(deployment: Deployment, costs: EngineCosts, num_tokens: float) -> float:
    """Host time to launch one stage of an iteration with prefill over `num_tokens`, which the device cannot undercut
    [s].

    If an engine launches every layer of a prompt itself, the device has no other work until the launches are done:
    decode steps are captured, and at most one of them is queued. The time is 0 if the host runs ahead, or if the
    iteration is replayed from a captured graph.

    Source: engine costs.
    """
    how = deployment.engine.prompt_launches
    if how == "ahead" or num_tokens <= deployment.engine.captured_prompt_tokens:
        return 0.0
    floor_s = launch_floor_s(deployment, costs)
    if how == "in_step":
        return floor_s
    return max(floor_s, prompt_launch_s(deployment, costs) / deployment.pipeline_parallel)


def request_latency_s(
    deployment: Deployment, costs: EngineCosts, prompt_tokens: float, chunk_tokens: float
) -> float:
    """Time that a request waits outside the scheduler before its first token arrives [s].

    Its `prompt_tokens` pass the tokenizer and are computed in chunks of `chunk_tokens`. If ranks launch in step, n of
    them take (1 + log2 n) / 3 of the time of four ranks, and a single rank takes none: published first tokens of
    TensorRT-LLM come later with eight ranks than with two, although the prompt computes faster. Ranks wait less for
    each other if experts are one operator of a layer with few: published first tokens of gpt-oss-120b come after 80 to
    117 ms on H200s, and after 41 ms on B200s, whatever the number of ranks. If the host runs ahead and launches experts
    kernel by kernel, or launches each layer in turn, the time is part of the iteration. If each layer is launched while
    the device runs, a model with latent attention or a state, which has twice the kernels, waits once more than the
    iteration does. A prompt that is replayed from a captured graph waits for nothing.

    Source: engine costs, fitted by evidence/fit/engines.py; the form is empirical. An idle SGLang 0.5.17 on an H100
    answers 1 024 tokens of a dense model after 31 ms from a graph and after 40 without.
    """
    ranks = deployment.ranks_per_stage
    request_s = costs.request_s + costs.prompt_token_s * prompt_tokens
    many = _is_latent(deployment.model) or has_state(deployment.model)
    if deployment.engine.prompt_launches == "each":
        if chunk_tokens <= deployment.engine.captured_prompt_tokens:
            return request_s
        return request_s + (prompt_launch_s(deployment, costs) if many else 0.0)
    apart = launches_experts_apart(deployment)
    in_step = (1.0 + math.log2(ranks)) / _TYPICAL_STEPS if ranks > 1 else 0.0
    waits = {
        "ahead": 0.0 if apart else _COMPILED_SHARE,
        "in_turns": 0.0,
        "in_step": in_step * (1.0 if apart or many else _COMPILED_SHARE),
    }
    return request_s + waits[deployment.engine.prompt_launches] * prompt_launch_s(deployment, costs)


def release_costs(
    deployment: Deployment, costs: EngineCosts, *, version: str = "", date: str = ""
) -> EngineCosts:
    """Return an engine's costs in its release, on the deployment's accelerator and for its model.

    Assumes: kernels that are not tuned yet are slower by one factor whatever the batch; additional ones take the same
    time whatever the batch.
    Source: catalog/data/terms.csv.
    """
    engine = TermCase(deployment.engine.id, version, date, deployment.accelerator.architecture)
    for name in ("eager_launch_s", "eager_sequence_s"):
        host = find("engine", name, engine)
        if host is not None and host.name:
            costs = replace(costs, **{name: host.value})
    experts = find("engine", "request_launch_s", replace(engine, dtype=deployment.weight_dtype))
    if experts is not None and experts.name:
        costs = replace(costs, request_launch_s=experts.value)
    scale = 1.0
    layers_s = 0.0
    for group in deployment.model.layers:
        if group.mixer is not None:
            case = replace(engine, mixer=group.mixer.kind, dtype=deployment.weight_dtype)
            layer = find("engine", "layer_s", case)
            layers_s += group.count * (layer.value if layer else 0.0)
            slow = find("engine", "release_scale", case)
            scale = max(scale, slow.value if slow else 1.0)
    return replace(costs, release_scale=scale, release_layers_s=layers_s)


def chosen_kernels(deployment: Deployment, *, version: str = "", date: str = "") -> dict[str, str]:
    """Return the level of the efficiency records by operator, where the engine runs other kernels for this model.

    Without version and date the engine is the newest release.

    Source: the engine's record.
    """
    chosen: dict[str, str] = {}
    for choice in deployment.engine.kernel_choices:
        if choice.holds(version, date) and _applies(choice, deployment):
            for operator in choice.operators:
                chosen.setdefault(operator, choice.kernels)
    return chosen


def operator_library(deployment: Deployment, *, version: str = "", date: str = "") -> OperatorLibrary:
    """Return time functions of the deployment's accelerator under its engine, with the kernels that the model gets.

    Source: own composition.
    """
    kernels = chosen_kernels(deployment, version=version, date=date)
    return OperatorLibrary(device_of(deployment.accelerator), deployment.engine.id, kernels=kernels)


def _applies(choice: KernelChoice, deployment: Deployment) -> bool:
    family = deployment.model.family

    def shapes_here(shapes: Mapping[str, Sequence[str]]) -> Sequence[str]:
        return shapes.get(deployment.accelerator.id, ())

    return (
        deployment.accelerator.architecture in choice.architectures
        and (not choice.families or family in choice.families)
        and family not in choice.except_families
        and deployment.model.hidden_size > choice.above_hidden_size
        and (not choice.weight_dtypes or deployment.weight_dtype in choice.weight_dtypes)
        and (deployment.engine.prefix_caching or not choice.needs_prefix_cache)
        and (
            not choice.except_shapes
            or bool(_expert_shapes(deployment).difference(shapes_here(choice.except_shapes)))
        )
        and (not choice.shapes or bool(_expert_shapes(deployment).intersection(shapes_here(choice.shapes))))
    )


def _expert_shapes(deployment: Deployment) -> frozenset[str]:
    """Return the shapes of the routed experts of a rank: number x columns, `8x7168`."""
    slots = deployment.expert_slots
    ranks = deployment.expert_parallel
    return frozenset(
        f"{slots(part.num_experts) // ranks}x{part.intermediate_size // deployment.expert_tensor_parallel}"
        for group in deployment.model.layers
        if isinstance(part := group.feed_forward, MoeFeedForward)
    )


@dataclass(frozen=True, slots=True)
class EraKernels:
    """Terms of early releases on one architecture, `early_...` in the table of terms; the defaults change nothing.

    Source: evidence/fit/static.py.
    """

    step_s: float = 0.0
    """Time added to every iteration [s]."""
    sequence_s: float = 0.0
    """Time added per sequence and decode step [s]."""
    row_fraction: float = 0.0
    """Fraction of the peak of the weights' format at which further rows of a decode step multiply; 0 adds nothing."""
    attention_repeat: float = 0.0
    """Number of times that each further query head of a group reads the cache again."""
    prefill_scale: float = 1.0
    """Factor of the time of iterations with prefill, relative to the operators' records."""
    wait_s: float = 0.0
    """Time added to every iteration per sum over tensor-parallel ranks [s]."""


@lru_cache(maxsize=512)
def era_kernels(
    engine_id: str, architecture: str, *, version: str = "", date: str = "", weight_dtype: str = ""
) -> EraKernels | None:
    """Return the terms of an engine's release on an architecture, for weights of a format; None if it needs none.

    Source: catalog/data/terms.csv.
    """
    case = TermCase(engine_id, version, date, architecture, dtype=weight_dtype)
    found = fill_record(EraKernels, "engine", case, prefix="early_")
    return None if found == EraKernels() else found


def with_era_kernels(surface: StepSurface, deployment: Deployment, kernels: EraKernels) -> StepSurface:
    """Return the surface of a deployment under an earlier engine [integer ps].

    Assumes: the time added per row is matrix work that the stage's accelerators share.
    Source: own composition.
    """
    row_s = kernels.sequence_s
    if kernels.row_fraction > 0:
        flop = 2.0 * parameter_count(deployment.model).active / deployment.pipeline_parallel
        device = device_of(deployment.accelerator)
        peak = matmul_peak_flop_per_s(deployment.weight_dtype, deployment.activation_dtype, device)
        row_s += flop / (kernels.row_fraction * peak * deployment.ranks_per_stage)
    waits = num_collectives(deployment.model) if deployment.tensor_parallel > 1 else 0
    step_s = kernels.step_s + kernels.wait_s * waits / deployment.pipeline_parallel
    step_ps, row_ps = (round(seconds * PICOSECONDS_PER_S) for seconds in (step_s, row_s))
    attention = 1.0 + kernels.attention_repeat * (_mean_group_size(deployment) - 1.0)
    prefill = kernels.prefill_scale
    return replace(
        surface,
        decode_base_ps=[
            base + step_ps + row_ps * batch if batch else 0
            for batch, base in enumerate(surface.decode_base_ps)
        ],
        decode_context_ps=[round(slope * attention) for slope in surface.decode_context_ps],
        decode_window_ps=[round(slope * attention) for slope in surface.decode_window_ps],
        mixed_base_ps=[
            round(base * prefill) + step_ps if tokens else 0
            for tokens, base in enumerate(surface.mixed_base_ps)
        ],
        prefill_pair_ps=surface.prefill_pair_ps * prefill,
        prefill_window_pair_ps=surface.prefill_window_pair_ps * prefill,
    )


def _mean_group_size(deployment: Deployment) -> float:
    """Query heads per key-value head on one rank, averaged over layers of grouped-query attention."""
    tp = deployment.tensor_parallel
    sizes = [
        (layer.count, layer.attention.num_heads / tp / max(1, layer.attention.num_kv_heads // tp))
        for layer in layers_of(deployment.model)
        if layer.attention is not None and not layer.attention.latent
    ]
    return sum(count * size for count, size in sizes) / sum(count for count, _ in sizes) if sizes else 1.0
