"""Performance of a set of cards with a model: engines, splits and formats that fit, through the serving simulator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from advisor.catalog import accelerators, engines
from advisor.catalog.architectures import class_support
from advisor.catalog.dtypes import EXL3_DTYPES, GGUF_DTYPES, bytes_per_element, dtype_of
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration, Model
from advisor.catalog.units import GB
from advisor.simulator.collectives.topology import PCIE_LANE_BYTES_PER_S
from advisor.simulator.deployment import Deployment, activation_dtype_of
from advisor.simulator.graph.model import is_moe, kv_bytes_per_token, parameter_count
from advisor.simulator.host_layers import (
    HOST_FRACTION,
    HOST_SPREAD,
    distinct_experts,
    host_read_s,
    without_experts,
)
from advisor.simulator.intervals import prediction_class, with_interval
from advisor.simulator.layout import refused_heads
from advisor.simulator.local_surface import local_element_bytes
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica, replica_memory
from advisor.simulator.serving import ClosedLoop, FixedLengths, Workload, simulate
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.step_cost import decode_iteration_s, prefill_s
from advisor.simulator.surface import decode_breakdown_s
from advisor.workstation.finetune import best_tuning
from advisor.workstation.hardware import Hardware, HardwareRun
from advisor.workstation.images import best_images
from advisor.workstation.offload import Offloaded, num_operations, offload_layers

PROMPT_OVER_DECODE: Final = 2.3
"""Rate of a prompt's tokens over that of output on a CPU alone, the lowest known: 10.3 and 4.5 tokens/s of DeepSeek-V3
in 4 bits under llama.cpp on two Xeon Gold 6454S (kvcache-ai/ktransformers, doc/en/DeepseekR1_V3_tutorial.md)."""
FOUR_BITS: Final = {"llama.cpp": "q4_k_m", "mlx": "q4_k_m", "vllm": "int4"}
"""Four-bit weight format that users run at home on each engine; taken if they name none."""
LADDER: Final = {
    "llama.cpp": ("bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m"),
    "mlx": ("bf16", "q8_0", "q4_k_m"),
    "vllm": ("bf16", "fp8", "int4"),
}
"""Weight formats by engine, from the most bits to the fewest."""
ENGINES: Final = ("llama.cpp", "vllm", "mlx")
OFFLOADING: Final = "llama.cpp"
"""Engine that runs layers on the CPU if they do not fit the cards."""
TENSOR_PARALLEL: Final = "vllm"
"""Engine that divides every layer among several cards; the others give each card layers of its own."""
IMAGES: Final = "images"
"""Use of a machine whose model makes images or videos."""
TOKEN_BUDGET: Final = 2048
"""Tokens of one iteration, as engines choose on cards of this size: more would take memory from the cache."""
_MEASURED_APART_LANES: Final = 8
"""Width of slot whose collectives were measured on cards of their own (fabric pcie5-x8)."""
LEAST_LINK_BYTES_PER_S: Final = 4 * PCIE_LANE_BYTES_PER_S[3]
"""Rate of a card's PCIe link from which engines divide layers over it [bytes/s]: four lanes of PCIe 3.0. Below it
(risers with one lane) no run was read, and two waits a layer are at the mercy of the host; layers in turn remain. Own
choice; without it eight cards on risers would seem twice as fast as they are in turn."""
UNIFIED_FRACTION: Final = 0.75
"""Bandwidth of unified memory at which engines of kernels that were measured on cards alone read weights, over what
those kernels predict (0.93 of the peak). Four dense models in vLLM, SGLang and TensorRT-LLM on a DGX Spark read 0.60,
0.70, 0.73 and 0.87 of 273 GB/s, median 0.71: llama-3.1-8b at 20.5 tokens/s in FP8 and 38.65 in NVFP4
(site-one-liart-13.vercel.app, 2026-05-24, of NVIDIA and forums), qwen3-8b at 13.1 and qwen3-32b at 3.7 in bf16
(lyb.re, 2026-03-10). Mixtures of experts keep what is predicted: gpt-oss-120b runs at 57 to 60 tokens/s in vLLM
(conselara.dev, 2026-05-02)."""
_LEAST_REQUESTS: Final = 40
"""Fewest requests of a simulated run."""
REMEMBERED_RUNS: Final = 4096
"""Sets of cards whose runs are remembered: a question asks for 500, and the same model with another budget asks for
them again. Each takes 1 kB."""
SYSTEM_MEMORY_BYTES: Final = 8 * GB
"""Main memory that the operating system and the engine's processes occupy [bytes]."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Model, its use and its load on the machine."""

    model: Model
    concurrency: int = 1
    input_tokens: int = 2048
    output_tokens: int = 512
    workload: str = "serve"
    """Kind of use: serve, finetune (QLoRA on sequences of input and output tokens), or images."""
    precision: str | None = None
    """Weight format; None means four bits, or the published format if that has fewer."""
    engine: str | None = None
    counts_prompts: bool = True
    """Whether runs are compared over whole requests; a target of output tokens per second counts decoding alone."""
    calibration: Calibration | None = None

    @property
    def context_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def cached_tokens(self) -> int:
        """Number of tokens in the cache when every stream is at the end of its output."""
        return self.concurrency * self.context_tokens


def formats(load: MachineLoad, engine: str) -> tuple[str, ...]:
    """Return the weight formats to try on an engine.

    Raises: UnknownNameError: the format asked for does not exist.
    """
    if load.precision is not None:
        asked = dtype_of(load.precision).id
        if asked in EXL3_DTYPES:
            return ()  # none of these engines reads exllamav3's files
        wants_gguf = asked in GGUF_DTYPES
        usable = wants_gguf == (engine != "vllm") or asked in ("bf16", "fp16", "mxfp4")
        return (asked,) if usable else ()
    native = load.model.weights
    if bytes_per_element(native) <= bytes_per_element("q4_k_m"):
        return (native,)
    return (FOUR_BITS[engine],)


def formats_to_try(load: MachineLoad, engine: str, vendor: str) -> tuple[str, ...]:
    """Return the weight formats to try on an engine and a vendor's cards: eight bits too where the engine has no
    four-bit kernel for that vendor, so that more bits may be faster.

    Source: published runs of R9700 and RX 7900 cards, catalog/data/efficiency/matmul; NVIDIA cards have Marlin.
    """
    found = formats(load, engine)
    is_free = load.precision is None and engine == TENSOR_PARALLEL and vendor != "nvidia"
    return (*found, "fp8") if is_free and found == (FOUR_BITS[engine],) else found


def best_run(hardware: Hardware, load: MachineLoad) -> HardwareRun | None:
    """Return the way to run the model on the hardware that is fastest over whole requests; None if it fits in none: a
    split that decodes fast and computes prompts slowly makes people wait.

    Source: simulator.replica_model for each engine, split and format.
    """
    if load.workload == "finetune":
        return best_tuning(hardware, load.model, load.context_tokens) if hardware.num else None
    if load.workload == IMAGES:
        return best_images(hardware, load.model, load.precision, load.concurrency) if hardware.num else None
    best: HardwareRun | None = None
    engines_of_cards = _engines(hardware, load) if hardware.num else []
    for engine in sorted(engines_of_cards, key=lambda name: name != TENSOR_PARALLEL):
        if best is not None and _bound_in_turn(hardware, load, engine) <= best.request_tokens_per_s:
            continue
        for links in _usable_links(hardware) if engine == TENSOR_PARALLEL else (hardware,):
            asked = replace(load, engine=None)
            # A calibration holds tables, which no key of what is remembered can.
            runs = (_remembered_runs if load.calibration is None else _runs)(links, asked, engine)
            best = max((*([best] if best else []), *runs), key=_speed_of, default=None)
    if best is None and hardware.host_bytes_per_s and _main_memory_holds(hardware, load):
        return next(iter(runs_on_cpu(hardware, load, (hardware.host_bytes_per_s,))), None)
    return best


def _speed_of(run: HardwareRun) -> float:
    return run.request_tokens_per_s


def _prompt_s_per_token(ttft_s: float, load: MachineLoad) -> float:
    return ttft_s / load.output_tokens if load.counts_prompts else 0.0


def _main_memory_holds(hardware: Hardware, load: MachineLoad) -> bool:
    """Whether main memory and cards hold the model together, next to the share of the system: rule model-memory."""
    cards_bytes = (hardware.record().memory_bytes or 0.0) * hardware.num if hardware.num else 0.0
    return ram_needed_bytes(load) <= (hardware.host_capacity_bytes + cards_bytes) * (1 + 1e-9)


def _roof(deployment: Deployment, load: MachineLoad, at_once: int) -> float:
    """Upper bound of the decode rate [tokens/s]: active weights and cache are read once at the peak bandwidth of the
    cards that divide a layer; infinite if the bandwidth is not known.

    Assumes: no time for kernels, copies or links; streams choose the same experts.
    """
    # The deployment's own record may have a bandwidth that is reached in practice.
    peak = accelerators.by_id(deployment.accelerator.id).bandwidth_bytes_per_s
    if peak is None:
        return math.inf
    context = int(load.input_tokens + load.output_tokens / 2.0)
    cache = kv_bytes_per_token(load.model).bytes_of(context) * at_once
    weights = parameter_count(load.model).active * bytes_per_element(deployment.weight_dtype)
    return at_once * peak * deployment.tensor_parallel / (weights + cache)


def _under_roof(rate: Quantity, roof: float) -> Quantity:
    """Return a rate whose interval does not reach above a physical bound; a prediction above it stays as it is."""
    return replace(rate, high=max(rate.value, min(rate.high, roof)))


def _bound_in_turn(hardware: Hardware, load: MachineLoad, engine: str) -> float:
    """Upper bound of the decode rate of cards that hold layers in turn [tokens/s]: active weights and cache are read at
    the peak bandwidth of one card; infinite for an engine that divides layers.

    Assumes: no time for kernels or copies.
    """
    peak = accelerators.by_id(hardware.accelerator).bandwidth_bytes_per_s
    if engine == TENSOR_PARALLEL or peak is None or divides_over_links(hardware, engine):
        return math.inf
    context = int(load.input_tokens + load.output_tokens / 2.0)
    cache = kv_bytes_per_token(load.model).bytes_of(context) * load.concurrency
    each = min(map(bytes_per_element, formats(load, engine)), default=math.inf)
    return load.concurrency * peak / (parameter_count(load.model).active * each + cache)


def _usable_links(hardware: Hardware) -> tuple[Hardware, ...]:
    """Return the hardware with the links as they are and, where cards read each other over eight lanes, with four: a
    wide link also carries what a narrow one does. Eight lanes were measured on other cards than sixteen, from which
    four are derived; links through host memory have one family of curves, which keeps the order."""
    staged = hardware.num > 1 and accelerators.by_id(hardware.accelerator).pcie_peer_to_peer is False
    if hardware.num < 2 or staged or hardware.pcie_lanes != _MEASURED_APART_LANES:
        return (hardware,)
    return hardware, replace(hardware, pcie_lanes=_MEASURED_APART_LANES // 2)


def finest_format(hardware: Hardware, load: MachineLoad) -> HardwareRun | None:
    """Return the run with the most bits per weight that fits with the cache of all streams, the fastest among equals;
    None if none fits."""
    if load.workload != "serve" or hardware.num == 0:
        return None
    best: HardwareRun | None = None
    hardware = replace(hardware, host_bytes_per_s=0.0)
    for engine in _engines(hardware, load):
        for weights in LADDER[engine]:
            if best is not None and bytes_per_element(weights) < bytes_per_element(best.weight_dtype):
                break
            found = best_run(hardware, replace(load, precision=weights, engine=engine))
            if found is not None and not found.num_waiting:
                better = best is None or (
                    bytes_per_element(weights) > bytes_per_element(best.weight_dtype)
                    or found.output_tokens_per_s.value > best.output_tokens_per_s.value
                )
                best = found if better else best
                break
    return best


def _engines(hardware: Hardware, load: MachineLoad) -> list[str]:
    """Return the engines that run on the cards, or on the CPU alone, and load the model's class."""
    if not hardware.num:
        return [OFFLOADING] if load.engine in (None, OFFLOADING) else []
    record = accelerators.by_id(hardware.accelerator)
    return [
        name
        for name in ENGINES
        if name in record.engines
        and load.engine in (None, name)
        and not class_support(engines.by_id(name), load.model, record).is_refused
    ]


def _runs(hardware: Hardware, load: MachineLoad, engine: str) -> tuple[HardwareRun, ...]:
    """Return the runs on an engine, whichever the load names, in all formats and splits."""
    return tuple(
        _run(replica, load, split)
        for weights in formats_to_try(load, engine, accelerators.by_id(hardware.accelerator).vendor)
        for split, tp, pp in _splits(hardware, engine, load.model)
        if (replica := _replica(hardware, load, engine, weights, tp, pp)) is not None
    )


_remembered_runs = lru_cache(maxsize=REMEMBERED_RUNS)(_runs)


def _splits(hardware: Hardware, engine: str, model: Model) -> list[tuple[str, int, int]]:
    """Return the ways to divide a model among cards, as (words, tensor parallel, stages).

    Where the heads do not divide among all cards, engines that divide layers take as many cards as divide them, in one
    or several stages, or hold layers in turn; they also hold them in turn where links are too slow.
    """
    num = hardware.num
    if num == 1:
        return [("one card", 1, 1)]
    divided = [("tensor parallel", num, 1)]
    in_turn = [("layers in turn", 1, num)]
    if engine != TENSOR_PARALLEL:
        return [*in_turn, *divided] if divides_over_links(hardware, engine) else in_turn
    if not _divides_over_pcie(hardware):
        return in_turn
    width = next(width for width in range(num, 0, -1) if not refused_heads(model, width))
    if width == num:
        return divided
    if width == 1:
        return in_turn
    stages = num // width
    used = f" over {width * stages} of {num} cards" if width * stages < num else ""
    words = f"tensor parallel {width} in {stages} stages" if stages > 1 else "tensor parallel"
    return [(f"{words}{used}", width, stages), *in_turn]


def widest_division(num: int, load: MachineLoad) -> int:
    """Return among how many of some equal cards a layer is divided at most: as many as the heads of the model divide
    among, or one where the engine holds layers in turn."""
    if load.engine not in (None, TENSOR_PARALLEL):
        return 1
    return next(width for width in range(num, 0, -1) if not refused_heads(load.model, width))


def _divides_over_pcie(hardware: Hardware) -> bool:
    """Whether links are fast enough to divide layers over them: links between the cards, or PCIe from
    `LEAST_LINK_BYTES_PER_S` on."""
    record = hardware.record()
    if record.scale_up is not None or hardware.pcie_lanes is None:
        return True
    rate = PCIE_LANE_BYTES_PER_S[record.pcie_generation or 3] * (record.pcie_lanes or 16)
    return rate >= LEAST_LINK_BYTES_PER_S


def divides_over_links(hardware: Hardware, engine: str) -> bool:
    """Whether llama.cpp also divides every layer (`--split-mode tensor`): over links between the cards, if the engine
    that does so elsewhere does not run on them."""
    has_links = hardware.record().scale_up is not None
    engines_of_card = accelerators.by_id(hardware.accelerator).engines
    return engine == OFFLOADING and has_links and TENSOR_PARALLEL not in engines_of_card


def _deployment(
    hardware: Hardware, load: MachineLoad, engine: str, weights: str, tp: int, pp: int
) -> Deployment | None:
    """Return the model on the cards; None if the engine has no such weight format on them."""
    record = engines.by_id(engine)
    accelerator = hardware.record(load.calibration)
    is_calibrated = load.calibration is not None and load.calibration.accelerator == accelerator.id
    peak = accelerator.bandwidth_bytes_per_s
    is_shared = accelerator.unified_memory and not is_calibrated and not is_moe(load.model)
    if engine == TENSOR_PARALLEL and is_shared and peak is not None:
        accelerator = accelerator.model_copy(update={"bandwidth_bytes_per_s": UNIFIED_FRACTION * peak})
    offered = record.vendor_weight_dtypes.get(accelerator.vendor, record.weight_dtypes)
    if weights not in offered:
        return None
    return Deployment(
        model=load.model,
        accelerator=accelerator,
        engine=record,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        weight_dtype=weights,
        activation_dtype=activation_dtype_of(load.model, weights, accelerator),
        is_calibrated=is_calibrated,
    )


def _settings_of(load: MachineLoad) -> EngineSettings:
    return EngineSettings(max_num_seqs=load.concurrency, max_num_batched_tokens=TOKEN_BUDGET)


def _fits(hardware: Hardware, load: MachineLoad, engine: str, weights: str, pp: int) -> bool:
    """Whether weights and cache fit the cards, each with layers of its own; its speed is not modelled."""
    deployment = _deployment(hardware, load, engine, weights, 1, pp)
    if deployment is None:
        return False
    mean_context = load.input_tokens + load.output_tokens / 2.0
    try:
        memory = replica_memory(deployment, _settings_of(load), load.context_tokens, mean_context)
    except (AdvisorError, ValueError, KeyError):
        return False
    return memory.kv_capacity_tokens >= load.cached_tokens


def _replica(
    hardware: Hardware, load: MachineLoad, engine: str, weights: str, tp: int, pp: int
) -> ReplicaModel | None:
    deployment = _deployment(hardware, load, engine, weights, tp, pp)
    if deployment is None:
        return None
    # Links are no part of operators: machines that differ in them alone share what matmuls of a format take.
    alike = replace(hardware, pcie_generation=None, pcie_lanes=None, bridged=False)
    held = _operators_of(alike, load.model.id, engine, weights, tp, pp, load.concurrency)
    try:
        found = model_replica(
            deployment,
            mean_input_tokens=load.input_tokens,
            mean_output_tokens=load.output_tokens,
            max_context_tokens=load.context_tokens,
            settings=_settings_of(load),
            library=held[0] if held and load.calibration is None else None,
        )
    except (AdvisorError, ValueError, KeyError):
        return None  # does not fit, or a figure of the record is missing
    held[:] = [found.library]
    return found


@lru_cache(maxsize=128)
def _operators_of(
    hardware: Hardware, model: str, engine: str, weights: str, tp: int, pp: int, num_streams: int
) -> list[OperatorLibrary]:
    """Return a place for the operators of a model on some cards, empty until they are known."""
    return []


def _run(replica: ReplicaModel, load: MachineLoad, split: str) -> HardwareRun:
    """Return the run of a replica; engines let streams wait whose context finds no place in the cache."""
    context = load.input_tokens + load.output_tokens / 2.0
    at_once = min(load.concurrency, replica.memory.kv_capacity_tokens // load.context_tokens)
    step_s = decode_iteration_s(replica.surface, at_once, context)
    budget = replica.policy.max_num_batched_tokens
    rate = with_interval(at_once / step_s, "throughput", class_of(replica), replica.basis)
    rate = _under_roof(rate, _roof(replica.deployment, load, at_once))
    ttft_s = prefill_s(replica.surface, load.input_tokens, budget)
    return HardwareRun(
        engine=replica.deployment.engine.id,
        split=split,
        weight_dtype=replica.deployment.weight_dtype,
        output_tokens_per_s=rate,
        ttft_s=ttft_s,
        weight_bytes_per_card=replica.memory.weight_bytes,
        kv_tokens=replica.memory.kv_capacity_tokens,
        tensor_parallel=replica.deployment.tensor_parallel,
        prompt_s_per_token=_prompt_s_per_token(ttft_s, load),
        num_waiting=load.concurrency - at_once,
    )


def runs_on_cpu(hardware: Hardware, load: MachineLoad, host_levels: Sequence[float]) -> list[HardwareRun]:
    """Return a run for each bandwidth of the main memory [bytes/s], with the layers that do not fit the cards on the
    CPU, or all of them on a machine without cards; none if nothing fits."""
    if load.workload != "serve" or OFFLOADING not in _engines(hardware, load):
        return []
    if not hardware.num:
        return [
            run
            for weights in formats(load, OFFLOADING)
            for run in _runs_alone(load, weights, host_levels, hardware.host_wait_s)
        ]
    for weights in formats(load, OFFLOADING):

        def num_stages(part: Model) -> int:
            return min(hardware.num, sum(group.count for group in part.layers))

        def fits(part: Model, weights: str = weights) -> bool:
            return _fits(hardware, replace(load, model=part), OFFLOADING, weights, num_stages(part))

        def build_model(part: Model, weights: str = weights) -> ReplicaModel | None:
            return _replica(hardware, replace(load, model=part), OFFLOADING, weights, 1, num_stages(part))

        context = load.input_tokens + load.output_tokens / 2.0
        used = (context, load.concurrency, load.input_tokens)
        found = offload_layers(load.model, hardware, weights, used, fits, build_model)
        if found is not None:
            return _runs_at(found, load, weights, host_levels)
    return []


def bound_on_cpu(hardware: Hardware, load: MachineLoad, host_bytes_per_s: float) -> float:
    """Upper bound of the decode rate with layers on the CPU [tokens/s]: full memories of the cards are read at their
    peak bandwidth, the rest of the active weights and of the cache from main memory.

    Assumes: no time for kernels or copies.
    """
    if load.workload != "serve" or OFFLOADING not in _engines(hardware, load):
        return 0.0
    record = accelerators.by_id(hardware.accelerator) if hardware.num else None
    memory = (record.memory_bytes or 0.0) * hardware.num if record is not None else 0.0
    peak = record.bandwidth_bytes_per_s or math.inf if record is not None else math.inf
    whole = parameter_count(load.model)
    bare = parameter_count(without_experts(load.model, 0))
    context = int(load.input_tokens + load.output_tokens / 2.0)
    cache = kv_bytes_per_token(load.model).bytes_of(context) * load.concurrency
    fastest = 0.0
    for weights in formats(load, OFFLOADING):
        each = bytes_per_element(weights)
        splits = [(0.0, 0.0)]  # bytes that stay on the cards whatever else does: held and read
        if is_moe(load.model) and bare.total * each + cache <= memory:
            splits.append((bare.total * each + cache, bare.active * each + cache))
        for kept, read in splits:
            held = min(1.0, (memory - kept) / max(whole.total * each + cache - kept, 1.0))
            rest = whole.active * each + cache - read
            on_cards_s = (read + held * rest) / peak
            step_s = on_cards_s + (1.0 - held) * rest / (host_bytes_per_s * HOST_FRACTION)
            fastest = max(fastest, load.concurrency / step_s if step_s else math.inf)
    return fastest


def _runs_alone(
    load: MachineLoad, weights: str, host_levels: Sequence[float], wait_s: float
) -> list[HardwareRun]:
    """Return the run of a machine without cards at each bandwidth of the main memory [bytes/s]: the CPU reads active
    weights and cache for every token, and threads of two CPUs wait for each other after each operation.

    Assumes: the time to first token is not predicted, for no record states the arithmetic rate of a CPU.
    Source: llama.cpp; own composition, host_read_s.
    """
    count = parameter_count(load.model)
    context = int(load.input_tokens + load.output_tokens / 2.0)
    dense = parameter_count(without_experts(load.model, 0)).active
    each, expert = (local_element_bytes(load.model, weights, part) for part in ("mixer", "experts"))
    dense_bytes = dense * each + kv_bytes_per_token(load.model).bytes_of(context) * load.concurrency
    expert_bytes = (count.active - dense) * distinct_experts(load.model, load.concurrency) * expert
    waited_s = wait_s * num_operations(load.model)
    return [
        _run_on_cpu(
            "all layers on the CPU",
            weights,
            load,
            host_read_s(dense_bytes, expert_bytes, host) + waited_s,
            is_of_two=wait_s > 0.0,
        )
        for host in host_levels
    ]


def _run_on_cpu(
    split: str,
    weights: str,
    load: MachineLoad,
    host_s: float,
    cards_s: float = 0.0,
    ttft_s: float | None = None,
    replica: ReplicaModel | None = None,
    *,
    is_of_two: bool = False,
) -> HardwareRun:
    """Return a run whose decode step takes some time on the CPU and, with a replica of the other layers, on cards;
    where two CPUs share the work, the low end of the interval is that of weights which one of them holds."""
    step_s = host_s + cards_s
    name = prediction_class(OFFLOADING, transferred=True)
    return HardwareRun(
        engine=OFFLOADING,
        split=split,
        weight_dtype=weights,
        output_tokens_per_s=with_interval(
            load.concurrency / step_s,
            "throughput",
            name,
            "assumed",
            sampling=(HOST_SPREAD[0] * (ONE_SIDED if is_of_two else 1.0), HOST_SPREAD[1]),
        ),
        ttft_s=ttft_s,
        weight_bytes_per_card=replica.memory.weight_bytes if replica is not None else 0.0,
        kv_tokens=replica.memory.kv_capacity_tokens if replica is not None else 0,
        host_fraction=host_s / step_s,
        prompt_s_per_token=_prompt_s_per_token(
            _slow_prompt_s(host_s, load) if ttft_s is None else ttft_s, load
        ),
    )


ONE_SIDED: Final = 0.6
"""Rate of two CPUs whose weights lie in the memory of one, over that of weights in both: 2.4 and 4.31 tokens/s on two
EPYC 9175F (ggml-org/llama.cpp#11744), 4 to 5 and 8 to 9 on two EPYC 9004 (#10981)."""


def _slow_prompt_s(step_s: float, load: MachineLoad) -> float:
    """Return the time of a prompt on a CPU alone by which machines are ranked, no better than the slowest known [s].

    Source: PROMPT_OVER_DECODE.
    """
    return load.input_tokens * step_s / load.concurrency / PROMPT_OVER_DECODE


def _runs_at(
    found: Offloaded, load: MachineLoad, weights: str, host_levels: Sequence[float]
) -> list[HardwareRun]:
    replica = found.replica
    context = load.input_tokens + load.output_tokens / 2.0
    cards_s = decode_iteration_s(replica.surface, load.concurrency, context)
    budget = replica.policy.max_num_batched_tokens
    prompt_s = prefill_s(replica.surface, load.input_tokens, budget) * found.prefill_factor + found.prefill_s
    return [
        _run_on_cpu(
            found.split,
            weights,
            load,
            found.step_s(host),
            cards_s,
            prompt_s,
            replica,
            is_of_two=found.wait_s > 0.0,
        )
        for host in host_levels
    ]


@dataclass(frozen=True, slots=True)
class CardPowerPoint:
    """Machine under one power limit of its cards."""

    power_fraction: float
    power_w: float
    """Power at the wall [W]."""
    output_tokens_per_s: float
    output_tokens_per_joule: float


@dataclass(frozen=True, slots=True)
class MachinePerformance:
    """Performance of a machine with the model."""

    run: HardwareRun
    output_tokens_per_s: Quantity
    """Output rate over whole requests, of streams that each wait for their output before the next [tokens/s]."""
    input_tokens_per_s: float
    ttft_s: Quantity | None
    tpot_s: Quantity | None
    bottleneck: str
    """Resource on which a decode step spends most time, in words."""
    other_runs: tuple[HardwareRun, ...] = ()
    """Best run of each other engine."""
    finest: HardwareRun | None = None
    """Run with the most bits per weight that fits."""
    qlora_bytes_per_card: float = 0.0
    """Memory of each card that QLoRA of the model takes [bytes]."""
    qlora_host_bytes: float = 0.0
    """Main memory that holds its weights beside the cards [bytes]."""
    qlora_split: str = ""
    """Plan of training that takes as much."""
    qlora_fits: bool = False
    largest_qlora: str = ""
    """Largest of a few dense models that QLoRA fits; empty if none does."""
    power_points: tuple[CardPowerPoint, ...] = ()
    num_machines: int = 1
    """Number of complete machines that hold the model together and that no record joins."""
    rate_of_kit: float = 0.0
    """Output rate while decoding if the modules run at the rating of their kit, which they usually do not [tokens/s]; 0
    where they do, or where no layer is read from them."""

    @property
    def decode_tokens_per_s(self) -> Quantity:
        """Output rate while all streams decode [tokens/s]."""
        return self.run.output_tokens_per_s


def simulate_run(
    hardware: Hardware, load: MachineLoad, run: HardwareRun, *, seed: int = 0
) -> MachinePerformance:
    """Simulate the run under its load, request by request.

    Raises: InfeasibleError: it does not fit after all.
    Source: simulator.serving, closed loop of fixed lengths; a training run is its step, repeated.
    """
    if load.workload in ("finetune", IMAGES):
        return MachinePerformance(
            run, run.output_tokens_per_s, 0.0, None, None, "the arithmetic rate of the cards"
        )
    if run.on_cpu:
        return _simulate_offloaded(run, load, hardware)
    stages = hardware.num // run.tensor_parallel
    replicas = (
        _replica(links, load, run.engine, run.weight_dtype, run.tensor_parallel, stages)
        for links in _usable_links(hardware)
    )
    replica = min(
        filter(None, replicas),
        key=lambda one: decode_iteration_s(one.surface, load.concurrency, load.context_tokens),
        default=None,
    )
    if replica is None:
        raise InfeasibleError(f"{load.model.id} does not fit {hardware.num} x {hardware.accelerator}")
    count = max(_LEAST_REQUESTS, 4 * load.concurrency)
    workload = Workload(
        ClosedLoop(load.concurrency), FixedLengths(load.input_tokens, load.output_tokens), count
    )
    result = simulate(replica.surface, replica.policy, workload, seed=seed)
    name = class_of(replica)
    basis = replica.basis
    return MachinePerformance(
        run,
        _under_roof(
            with_interval(result.output_tokens_per_s, "throughput", name, basis),
            _roof(replica.deployment, load, load.concurrency),
        ),
        result.total_tokens_per_s - result.output_tokens_per_s,
        with_interval(result.ttft.mean_s, "ttft", name, basis),
        with_interval(result.tpot.mean_s, "tpot", name, basis) if result.tpot.num_samples else None,
        _bottleneck_on_cards(replica, hardware, load),
    )


_RESOURCES: Final = {"collectives": "links", "attention": "cache"}
"""Resource that a part of the decode step waits for, by the part; others read weights."""


def _bottleneck_on_cards(replica: ReplicaModel, hardware: Hardware, load: MachineLoad) -> str:
    """Return what a decode step on the cards spends most time on, in words."""
    parts_s = decode_breakdown_s(
        replica.deployment, replica.library, replica.costs, load.concurrency, load.context_tokens
    )
    shares = dict.fromkeys(("links", "cache", "weights"), 0.0)
    for part, seconds in parts_s.items():
        shares[_RESOURCES.get(part, "weights")] += seconds
    largest = max(shares, key=lambda name: shares[name])
    record = replica.deployment.accelerator
    if largest == "links":
        link = "NVLink" if record.scale_up else f"PCIe {record.pcie_generation}.0 x{record.pcie_lanes}"
        return f"the links between the cards ({link})"
    what = "the cache" if largest == "cache" else "the weights"
    peak = hardware.record(load.calibration).bandwidth_bytes_per_s or 0.0
    rate = f"{peak / GB:,.0f} GB/s"
    if hardware.num == 1:
        return f"reading {what} at the {rate} of its memory"
    if replica.deployment.tensor_parallel > 1:
        return f"reading {what} at the {rate} of each card's memory"
    return f"reading {what} at the {rate} of one card's memory, for the cards work in turn"


def _simulate_offloaded(run: HardwareRun, load: MachineLoad, hardware: Hardware) -> MachinePerformance:
    """Return a run with layers on the CPU: prompt after prompt, then all streams decode together."""
    rate = run.output_tokens_per_s
    step_s = load.concurrency / rate.value
    per_s = 1.0 / (1.0 / rate.value + (run.ttft_s or 0.0) / load.output_tokens)
    whole = per_s / rate.value
    name = prediction_class(run.engine, transferred=True)
    return MachinePerformance(
        run,
        replace(rate, value=per_s, low=rate.low * whole, high=rate.high * whole),
        per_s * load.input_tokens / load.output_tokens,
        with_interval(run.ttft_s, "ttft", name, "assumed") if run.ttft_s is not None else None,
        with_interval(step_s, "tpot", name, "assumed"),
        f"the CPU reading its layers at the {hardware.host_bytes_per_s / GB:,.0f} GB/s of main memory"
        if run.host_fraction > 0.5
        else "the cards, which hold the rest of the layers",
    )


def model_file_bytes(load: MachineLoad) -> float:
    """Upper bound of the size of the model's files in the requested format [bytes]."""
    widest = max(
        (bytes_per_element(weights) for engine in ENGINES for weights in formats(load, engine)),
        default=bytes_per_element(load.model.weights),
    )
    return parameter_count(load.model).total * widest


def ram_needed_bytes(load: MachineLoad) -> float:
    """Main memory that loading takes [bytes]: the files pass through the page cache, next to the system's own share.

    Assumes: weights are read once through memory, as llama.cpp and safetensors map them; a smaller memory loads too,
    but reads files again whenever another process pushes them out.
    """
    return model_file_bytes(load) + SYSTEM_MEMORY_BYTES
