"""Every deployment that could answer: accelerator × engine × precision × layout, or the reason why there is none."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from advisor.catalog.architectures import (
    ClassLimit,
    can_make_weights,
    class_lacks,
    class_support,
    refuses_cache,
    repository_of,
)
from advisor.catalog.context_scaling import can_open
from advisor.catalog.dtypes import bytes_per_element, cache_halves
from advisor.catalog.engines import plans_on, support, weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.launch import spans_machines, unsaid_parallelism
from advisor.catalog.published import (
    ServedCheckpoint,
    is_block_scaled,
    method_of,
    reads_checkpoint,
    served_checkpoint,
    served_model,
)
from advisor.catalog.releases import is_before
from advisor.catalog.schema import Accelerator, Engine, LatentAttention, Model
from advisor.catalog.units import GB, PICOSECONDS_PER_S
from advisor.decide.engine_classes import refusal
from advisor.decide.reason import (
    DoesNotFit,
    NoCacheFormat,
    NoEngine,
    NoKernels,
    NotRanked,
    NotSupported,
    Reason,
)
from advisor.decide.scenario import Scenario
from advisor.simulator.deployment import Deployment, activation_dtype_of, cache_dtype_of
from advisor.simulator.graph.model import is_moe
from advisor.simulator.layout import WIDEST_TENSOR_PARALLEL, check_layout
from advisor.simulator.memory import MemoryPlan, plan_memory, weight_bytes
from advisor.simulator.replica_model import (
    EngineSettings,
    ReplicaModel,
    engine_defaults,
    fraction_that_holds,
    token_budget,
)
from advisor.simulator.speculation import ChosenSpeculation

_MAX_REPLICA = 64
"""Accelerators of one replica; larger serving replicas are not sold as one answer."""
_REMEMBERED_ACCELERATORS: Final = 1024
"""Accelerators whose candidates a process remembers: those of three questions about the whole catalog. A search that
changes the load, the limits or the offers of a question has the same candidates."""


@dataclass(frozen=True)
class Candidate:
    """One replica's deployment and its memory."""

    deployment: Deployment
    memory: MemoryPlan
    max_num_seqs: int
    max_num_batched_tokens: int
    caches_prefixes: bool = True
    """Whether it keeps the cache of prompts for others that begin alike."""
    speculation: ChosenSpeculation | None = None
    full_power: Accelerator | None = None
    """The candidate's accelerator without its power limit; None without a power limit."""
    has_own_limits: bool = False
    """Whether sequences and tokens of an iteration are limited otherwise than by the engine's defaults."""
    memory_fraction: float | None = None
    """Fraction of the memory that the engine is told to use; None leaves its own."""

    @property
    def power_limit_w(self) -> float | None:
        return self.deployment.accelerator.tdp_w if self.full_power else None

    @cached_property
    def checkpoint(self) -> ServedCheckpoint:
        """Return the checkpoint that the candidate's engine loads."""
        run = self.deployment
        return served_checkpoint(run.model, run.engine, run.weight_dtype, run.accelerator)


def candidates_of(
    accelerator: Accelerator,
    model: Model,
    engines: Iterable[Engine],
    *,
    precisions: tuple[str, ...] = (),
    kv_dtype: str = "",
    mean_context_tokens: float,
    max_context_tokens: float,
    max_accelerators: int = _MAX_REPLICA,
    is_calibrated: bool = False,
) -> tuple[list[Candidate], Reason | None]:
    """Return all feasible replicas on one accelerator, or the reason why there are none.

    A replica must hold one request of `max_context_tokens`. `is_calibrated` says that the record holds the figures
    of one machine.

    Source: own enumeration; layouts as the engines accept them.
    """
    if accelerator.unranked_reason:
        return [], NotRanked(accelerator.unranked_reason)
    found, reason = _candidates_of(
        accelerator,
        model,
        tuple(engines),
        precisions,
        kv_dtype,
        mean_context_tokens,
        max_context_tokens,
        min(max_accelerators, _MAX_REPLICA),
        is_calibrated,
    )
    return list(found), reason


@lru_cache(maxsize=_REMEMBERED_ACCELERATORS)
def _candidates_of(
    accelerator: Accelerator,
    model: Model,
    engines: tuple[Engine, ...],
    precisions: tuple[str, ...],
    kv_dtype: str,
    mean_context_tokens: float,
    max_context_tokens: float,
    size_limit: int,
    is_calibrated: bool,
) -> tuple[tuple[Candidate, ...], Reason | None]:
    """Return what `candidates_of` returns for a ranked accelerator."""
    found: list[Candidate] = []
    reason: Reason = refusal(model, engines, accelerator) or NoEngine(model.id)
    if accelerator.engines and not any(plans_on(engine, accelerator) for engine in engines):
        reason = NotSupported(
            f"plans on it are made with {', '.join(accelerator.engines)} only, not with "
            f"{', '.join(one.id for one in engines)}"
        )
    for engine in engines:
        if not plans_on(engine, accelerator) or class_support(engine, model, accelerator).is_refused:
            continue
        if not can_open(engine, model, max_context_tokens):
            reason = NotSupported(
                f"no option is known by which {engine.name} serves {model.id} beyond its native context window"
            )
            continue
        usable = usable_precisions(model, accelerator, engine, precisions)
        if not usable:
            nearest = "" if precisions else _nearest_format(model, accelerator, engine)
            if "bf16" in precisions:
                nearest = next(iter(usable_precisions(model, accelerator, engine, ("fp16",))), "")
            reason = NoKernels(engine.name, precisions or (model.weights,), nearest)
        for weight_dtype in usable:
            served = served_model(model, engine, weight_dtype, accelerator)
            cache = cache_format(kv_dtype, served, engine, accelerator)
            if not cache:
                reason = NoCacheFormat(engine.name, kv_dtype)
                continue
            if why := _unreadable(served, engine, weight_dtype, accelerator):
                reason = why
                continue
            deployment = Deployment(
                served,
                accelerator,
                engine,
                weight_dtype=weight_dtype,
                activation_dtype=activation_dtype_of(served, weight_dtype, accelerator),
                kv_dtype=cache,
                is_calibrated=is_calibrated,
            )
            fitting, why = _fitting(deployment, size_limit, mean_context_tokens, max_context_tokens)
            found += fitting
            reason = why or reason
    return tuple(found), None if found else reason


_FORMATS_OF_CLASSES: Final[tuple[ClassLimit, ...]] = ("int4", "nf4")
"""Weight formats that an engine may have for some of its classes only."""


def _unreadable(model: Model, engine: Engine, dtype: str, accelerator: Accelerator) -> Reason | None:
    """Return why an engine reads no weights of a model in a format on an accelerator, published or made; else None."""
    checkpoint = served_checkpoint(model, engine, dtype, accelerator)
    repository = checkpoint.repository
    if not reads_checkpoint(repository, dtype, engine, accelerator):
        where = "" if accelerator.vendor == "nvidia" else f" on accelerators of {accelerator.vendor}"
        return NotSupported(
            f"{engine.name} does not read {dtype} weights of the method {method_of(repository)}{where}, which "
            f"{repository} names"
        )
    for limit in _FORMATS_OF_CLASSES:
        if dtype == limit and (lack := class_lacks(engine, model, limit)):
            return NotSupported(lack)
    if checkpoint.origin == "quantise first" and not can_make_weights(engine, model, dtype):
        return NotSupported(
            f"no {dtype} checkpoint of {model.id} is known that {engine.name} reads, nor a tool that makes one"
        )
    return None


def cache_format(kv_dtype: str, model: Model, engine: Engine, accelerator: Accelerator) -> str:
    """Return the format of the KV cache under an engine: the one that the question names, in the engine's word for it,
    or else that of checkpoint or engine; empty if the engine does not keep the named one.

    Source: engine records; data/support/engines.csv where it says otherwise.
    """
    own = _on_chip(cache_dtype_of(model, engine, accelerator), engine, accelerator)
    wanted = _on_chip(kv_dtype, engine, accelerator)
    if refuses_cache(engine, model, accelerator, own):
        # The engine would choose a format with which it does not start, and is told 16 bits instead.
        wanted = wanted or _on_chip("bf16", engine, accelerator)
    elif not wanted or wanted == own:
        return own
    if own not in _SIXTEEN_BITS and engine.keeps_declared_cache:
        return ""
    if wanted in _SIXTEEN_BITS:
        return wanted if own in _SIXTEEN_BITS or "bf16" in engine.flags.kv else ""
    verdict = support(engine.id, accelerator.architecture, f"kv:{kv_dtype}").verdict
    is_refused = verdict == "no" or refuses_cache(engine, model, accelerator, kv_dtype)
    halves = cache_halves(kv_dtype)
    if halves[0] != halves[1]:
        is_kept = engine.flags.kv_halves and set(halves) <= set(engine.kv_dtypes)
        return kv_dtype if is_kept else ""
    names = (kv_dtype, *_LIKE_FORMATS.get(kv_dtype, ()))
    return "" if is_refused else next((name for name in names if name in engine.kv_dtypes), "")


def _on_chip(kv_dtype: str, engine: Engine, accelerator: Accelerator) -> str:
    """Return a cache format, if of 16 bits that which the accelerator and the engine have."""
    if kv_dtype not in _SIXTEEN_BITS:
        return kv_dtype
    wanted = accelerator.sixteen_bit_dtype if kv_dtype == "bf16" else kv_dtype
    return wanted if wanted in engine.kv_dtypes else _SIXTEEN_BITS[0]


_SIXTEEN_BITS: Final = ("bf16", "fp16")
_LIKE_FORMATS: Final = {"int8": ("q8_0",), "q8_0": ("int8",), "int4": ("q4_0",), "q4_0": ("int4",)}
"""Formats of a cache of integers, as engines call them."""


def candidates_within(
    scenario: Scenario,
    accelerator: Accelerator,
    model: Model,
    engines: Iterable[Engine],
    *,
    is_calibrated: bool = False,
) -> tuple[list[Candidate], Reason | None]:
    """Return `candidates_of` an accelerator for the traffic and within the limits of a scenario."""
    return candidates_of(
        accelerator,
        model,
        engines,
        precisions=scenario.constraints.precisions,
        kv_dtype=scenario.constraints.kv_dtype,
        mean_context_tokens=scenario.traffic.mean_context_tokens,
        max_context_tokens=float(scenario.traffic.longest_request_tokens),
        max_accelerators=scenario.constraints.max_accelerators,
        is_calibrated=is_calibrated,
    )


def _fitting(
    deployment: Deployment, size_limit: int, mean_context_tokens: float, max_context_tokens: float
) -> tuple[list[Candidate], Reason | None]:
    """Return a deployment in all layouts that fit, and why the last one that was tried does not.

    Pipelines are taken only where no single domain holds the model, and layouts over several machines only with a
    known way to start them.
    """
    accelerator = deployment.accelerator
    model = deployment.model
    engine = deployment.engine
    run = (model, engine, deployment.weight_dtype, accelerator)
    served = served_checkpoint(*run)
    is_block = engine.needs_whole_blocks and is_block_scaled(*run)
    loads_whole = _loads_whole(engine) and served.origin == "quantised on loading"
    needs = repository_of(served.repository)
    num_parts = needs.tensor_parallel
    reason: Reason | None = None
    widest = size_limit if spans_machines(deployment.engine) else min(size_limit, accelerator.node_size)
    staged = _staged_layouts(accelerator, model, widest, in_turn=engine.holds_layers_in_turn)
    for layouts in (_layouts(accelerator, model, widest), staged):
        found: list[Candidate] = []
        for tp, pp, dp, ep in layouts:
            if _is_held_without(found, accelerator, pp, tp * pp * dp):
                continue
            if num_parts and (tp, pp, dp, ep) != (num_parts, 1, 1, 1):
                reason = reason or DoesNotFit(
                    f"the files of {served.repository} are cut for tensor parallelism {num_parts} and load in no other "
                    "layout"
                )
                continue
            placed = replace(
                deployment, tensor_parallel=tp, pipeline_parallel=pp, data_parallel=dp, expert_parallel=ep
            )
            if unsaid := unsaid_parallelism(engine, tp=tp, pp=pp, dp=dp, ep=ep):
                reason = reason or DoesNotFit(f"{engine.name} has no words for {unsaid} parallelism")
                continue
            try:
                _check_loading(
                    placed, is_block_scaled=is_block, loads_whole=loads_whole, inner_size=needs.inner_size
                )
                found.append(fit_memory(placed, mean_context_tokens, max_context_tokens))
            except InfeasibleError as error:
                reason = DoesNotFit(error.why or error.what)
        if found:
            return found, reason
    return [], reason


def _loads_whole(engine: Engine) -> bool:
    """Whether an engine holds all 16-bit weights before it quantises any; its newest release if none is named."""
    since = engine.quantises_layers_since
    is_later = bool(since) and not is_before(engine.release, "", since)
    return engine.quantises_whole_models and not is_later


_LOADING_FRACTION = 0.95
"""Part of the memory that 16-bit weights may take before they are quantised: the rest is the driver's and the copy of a
layer. Own assumption; a larger part would plan replicas that run out of memory while they load."""
_SCALED_BLOCK = 128
"""Rows and columns of the weights that share a scale in fp8 checkpoints with scales of blocks; rows in 4-bit ones."""


def _check_loading(
    deployment: Deployment, *, is_block_scaled: bool, loads_whole: bool, inner_size: int
) -> None:
    """Refuse layouts in which an engine cannot load the weights, although it could run them.

    `loads_whole` says that the engine quantises weights when it has loaded all of them; `inner_size` is the width to
    which the checkpoint pads dense feed-forward matrices, or 0.

    Assumes: 4-bit weights have groups of 128 rows; kernels of experts take parts of a group.

    Raises: InfeasibleError: ranks would cut blocks of weights that share a scale, or weights that load whole alone, or
        weights that are quantised on loading do not fit before they are.
    Source: vLLM, quantization/fp8.py, "not divisible by weight quantization block_n", and auto_awq.py and gptq.py, "not
        aligned with the quantized weight shape", moe_wna16.py; SGLang, quantization/fp8.py,
        validate_block_quant_shapes, and weights of params_dtype where the checkpoint is not serialised in fp8.
    """
    model = deployment.model
    name = deployment.engine.name
    num_cuts = deployment.tensor_parallel * deployment.data_parallel
    if num_cuts > 1 and deployment.weight_dtype in deployment.engine.uncut_weights:
        raise InfeasibleError(
            f"{name} loads {deployment.weight_dtype} weights without tensor parallelism alone"
        )
    has_groups = (
        deployment.engine.needs_whole_blocks and deployment.weight_dtype == "int4" and not is_moe(model)
    )
    width = _narrowest_cut(deployment, inner_size) if is_block_scaled or has_groups else 0
    if width:
        raise InfeasibleError(
            f"{name} loads no parts of {width} columns of {model.id}, whose {deployment.weight_dtype} scales are those "
            f"of {_SCALED_BLOCK}"
        )
    if loads_whole:
        needed = weight_bytes(replace(deployment, weight_dtype=model.weights, activation_dtype=model.weights))
        if needed > _LOADING_FRACTION * (deployment.accelerator.memory_bytes or math.inf):
            raise InfeasibleError(
                f"{name} quantises weights after it has loaded {needed / GB:.1f} GB of them per accelerator"
            )


def _narrowest_cut(deployment: Deployment, inner_size: int) -> int:
    """Width of a rank's part of a feed-forward matrix that is no whole number of blocks; 0 if all are whole. Dense
    matrices are padded to `inner_size` if it is not 0."""
    tp = deployment.tensor_parallel
    for group in deployment.model.layers:
        part = group.feed_forward
        if part is None:
            continue
        if part.kind == "dense":
            widths = [(inner_size or part.intermediate_size, tp)]
        else:
            widths = [
                (part.intermediate_size, deployment.expert_tensor_parallel),
                (part.shared_intermediate_size, tp),
            ]
        for width, ranks in widths:
            if ranks > 1 and width % (ranks * _SCALED_BLOCK):
                return width // ranks
    return 0


def usable_precisions(
    model: Model, accelerator: Accelerator, engine: Engine, requested: tuple[str, ...]
) -> tuple[str, ...]:
    """Weight formats to consider: those asked for, else the checkpoint's own, 16 bits, and fp8 where the chip
    multiplies in it or the engine is known to widen its weights. Four-bit formats cost quality, so they are considered
    only if native or asked for.

    Source: own rule; formats by engine from the engine records.
    """
    usual = (
        accelerator.sixteen_bit_dtype if name == "bf16" else name for name in (model.weights, "fp8", "bf16")
    )
    wanted = requested or tuple(dict.fromkeys(usual))
    usable = []
    for dtype in wanted:
        if dtype == "bf16" and accelerator.sixteen_bit_dtype != dtype:
            continue
        if dtype not in weight_formats(engine, accelerator):
            continue
        served = support(engine.id, accelerator.architecture, dtype)
        if served.verdict == "no":
            continue
        is_unasked = dtype == "fp8" and dtype not in (model.weights, *requested)
        if is_unasked and not served.is_usable and dtype not in accelerator.peak_flop_per_s:
            continue
        experts = support(engine.id, accelerator.architecture, f"{dtype}-experts").verdict
        if experts == "no" and is_moe(model):
            continue
        # More bits than the published checkpoint has is money without quality.
        if not requested and bytes_per_element(dtype) > bytes_per_element(model.weights):
            continue
        usable.append(dtype)
    return tuple(usable)


_ABOUT_AS_WIDE: Final = 1.1
"""Bytes per weight of a format that is about as wide as another, over the other's: q8_0 has 6 % more than fp8."""


def _nearest_format(model: Model, accelerator: Accelerator, engine: Engine) -> str:
    """Return the widest weight format that an engine serves and that is about as wide as the model's own, or narrower;
    empty if there is none."""
    widest = _ABOUT_AS_WIDE * bytes_per_element(model.weights)
    formats = usable_precisions(model, accelerator, engine, weight_formats(engine, accelerator))
    able = [dtype for dtype in formats if bytes_per_element(dtype) <= widest]
    return max(able, key=bytes_per_element, default="")


def _is_held_without(found: Iterable[Candidate], accelerator: Accelerator, stages: int, size: int) -> bool:
    """Whether a shorter pipeline, or one fabric alone, holds what a pipeline of `stages` would; or fewer machines what
    `size` accelerators of several machines without stages would."""
    runs = [one.deployment for one in found]
    reach = accelerator.scale_up_domain
    if stages > 1:
        return any(run.pipeline_parallel > 1 or run.accelerators_per_replica <= reach for run in runs)
    is_wide = size > max(reach, accelerator.fast_group_size)
    return is_wide and any(run.pipeline_parallel == 1 for run in runs)


def _layouts(accelerator: Accelerator, model: Model, largest: int) -> Iterator[tuple[int, int, int, int]]:
    """(tp, pp, dp, ep) worth considering without a network, small replicas first; last those of bridged cards that
    send sums over bridges, and between them only what passes from stage to stage over PCIe."""
    widest = min(WIDEST_TENSOR_PARALLEL, accelerator.fast_group_size)
    mixture = is_moe(model)
    width = 1
    while width <= min(widest, largest):
        yield width, 1, 1, 1
        if mixture and width > 1:
            yield width, 1, 1, width
            yield 1, 1, width, width
        width *= 2
    fabric = accelerator.scale_up
    if fabric and fabric.is_bridge:
        yield from _stages(model, fabric.max_domain, min(accelerator.fast_group_size, largest))


def _staged_layouts(
    accelerator: Accelerator, model: Model, largest: int, *, in_turn: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Pipelines of full domains, or of any number of accelerators where an engine lets them hold layers `in_turn`, for
    models that no single domain holds; shortest first, with whole experts where parts of them cannot be loaded. As
    many domains also hold a mixture with latent attention without stages, each rank with a share of the experts."""
    if in_turn:
        yield from ((1, stages, 1, 1) for stages in range(2, largest + 1))
    else:
        yield from _stages(model, min(WIDEST_TENSOR_PARALLEL, accelerator.fast_group_size), largest)


def _stages(model: Model, width: int, largest: int) -> Iterator[tuple[int, int, int, int]]:
    stages = 2
    # Tensor parallelism repeats a latent cache on every rank, attention by ranks of their own does not.
    is_latent = any(isinstance(group.mixer, LatentAttention) for group in model.layers)
    while width * stages <= largest:
        yield width, stages, 1, 1
        if is_moe(model) and width > 1:
            yield width, stages, 1, width
        if is_moe(model) and width > 1 and is_latent:
            yield 1, 1, width * stages, width * stages
        stages *= 2


def fit_memory(deployment: Deployment, mean_context_tokens: float, max_context_tokens: float) -> Candidate:
    """A replica with its memory, that holds one request of `max_context_tokens`.

    Raises: InfeasibleError: the layout is refused, or it does not.
    Source: simulator.layout; simulator.memory.
    """
    check_layout(deployment)
    chosen = engine_defaults(deployment)
    num_batched_tokens = token_budget(deployment.engine, chosen.max_num_batched_tokens, max_context_tokens)

    def fit(fraction: float | None) -> Candidate:
        memory = plan_memory(
            deployment,
            num_batched_tokens=num_batched_tokens,
            num_seqs=chosen.max_num_seqs,
            memory_fraction=fraction or chosen.memory_fraction,
            mean_context_tokens=mean_context_tokens,
            version=deployment.engine.release,
        )
        _check_room(memory, deployment, max_context_tokens)
        return Candidate(
            deployment, memory, chosen.max_num_seqs, num_batched_tokens, memory_fraction=fraction
        )

    try:
        return fit(None)
    except InfeasibleError:
        # What an engine reserves for the graphs of many ranks is more than they take.
        if deployment.engine.memory_reserve is None or deployment.data_parallel == 1:
            raise
        lengths = math.ceil(max_context_tokens), mean_context_tokens
        fraction = fraction_that_holds(deployment, EngineSettings(), *lengths)
        if fraction is None:
            raise
    return fit(fraction)


_LEAST_CHUNK = 256
"""Tokens of an iteration below which prompts are cut no further: every chunk reads all weights."""
_LARGEST_CHUNK = 32_768
_CHUNK_PART = 0.8
"""Part of an objective on gaps that a chunk's matrices may take; attention to long contexts takes up to a quarter."""
_CHUNK_FACTOR = 4
"""Ratio of the tokens of an iteration that are tried one after the other."""
_FEW_SLOTS = 64
"""Sequences at once below which an engine's default is small, so that larger numbers are candidates of their own."""
_SLOT_FACTORS = (4, 16, 64)


def batch_variants(
    candidate: Candidate, replica: ReplicaModel, binding: str, scenario: Scenario
) -> Iterator[Candidate]:
    """Yield a candidate with other tokens of an iteration: fewer where tokens are late, more where first tokens are.

    A gap between tokens is as long as the iteration with prompt tokens between them, so that the largest chunk whose
    iteration is within its objective is taken.
    """
    tokens = candidate.max_num_batched_tokens
    size = tokens
    if binding == "itl":
        limit_s = min(each.limit_s for each in scenario.objectives.levels if each.metric == "itl")
        most_ps = _CHUNK_PART * limit_s * PICOSECONDS_PER_S
        while size > _LEAST_CHUNK and replica.surface.mixed_base_ps[size] > most_ps:
            size //= 2
    elif binding == "tpot":
        size = max(_LEAST_CHUNK, tokens // _CHUNK_FACTOR)
    elif binding in ("ttft", "e2e"):
        size = min(_LARGEST_CHUNK, tokens * _CHUNK_FACTOR)
    if size != tokens:
        with contextlib.suppress(InfeasibleError):
            yield with_limits(candidate, min(candidate.max_num_seqs, size), size, scenario)


def slot_variants(candidate: Candidate, scenario: Scenario) -> Iterator[Candidate]:
    """Yield a candidate with more sequences at once, where its engine's default is small and its cache holds more."""
    traffic = scenario.traffic
    most = candidate.memory.kv_capacity_tokens / traffic.mean_context_tokens
    if candidate.max_num_seqs >= _FEW_SLOTS:
        return
    for factor in _SLOT_FACTORS:
        slots = factor * candidate.max_num_seqs
        if slots <= most:
            with contextlib.suppress(InfeasibleError):
                tokens = max(slots, candidate.max_num_batched_tokens)
                yield with_limits(candidate, slots, tokens, scenario)


def with_limits(candidate: Candidate, num_seqs: int, num_tokens: int, scenario: Scenario) -> Candidate:
    """Return a candidate that runs other numbers of sequences, and of tokens in an iteration.

    Raises: InfeasibleError: the KV cache that is left is smaller than one request.
    """
    traffic = scenario.traffic
    deployment = candidate.deployment
    memory = plan_memory(
        deployment,
        num_batched_tokens=num_tokens,
        num_seqs=num_seqs,
        memory_fraction=candidate.memory_fraction or engine_defaults(deployment).memory_fraction,
        mean_context_tokens=traffic.mean_context_tokens,
        version=deployment.engine.release,
    )
    _check_room(memory, deployment, float(traffic.longest_request_tokens))
    return replace(
        candidate,
        memory=memory,
        max_num_seqs=num_seqs,
        max_num_batched_tokens=num_tokens,
        has_own_limits=True,
    )


def _check_room(memory: MemoryPlan, deployment: Deployment, max_context_tokens: float) -> None:
    """Refuse a KV cache that is smaller than one request.

    Raises: InfeasibleError: it is.
    """
    per_rank = memory.kv_capacity_tokens / deployment.data_parallel
    if per_rank < max_context_tokens:
        raise InfeasibleError(
            "the KV cache is smaller than one request",
            why=f"{per_rank:,.0f} tokens fit beside the weights, the longest request has {max_context_tokens:,.0f}",
        )
