"""Every deployment that could answer: accelerator × engine × precision × layout, or the reason why there is none."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.engines import support, weight_formats
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.published import ServedCheckpoint, served_checkpoint
from advisor.catalog.schema import Accelerator, Engine, Model
from advisor.simulator.deployment import Deployment, activation_dtype_for
from advisor.simulator.graph.model import is_moe
from advisor.simulator.layout import check_layout
from advisor.simulator.memory import MemoryPlan, plan_memory
from advisor.simulator.replica_model import engine_defaults, token_budget
from advisor.simulator.speculation import ChosenSpeculation

_MAX_REPLICA = 64
"""Accelerators of one replica; larger serving replicas are not sold as one answer."""
_MAX_TENSOR_PARALLEL = 8


@dataclass(frozen=True, slots=True)
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
    """Its accelerator without the power limit to which it is held; None where it is held to none."""

    @property
    def power_limit_w(self) -> float | None:
        return self.deployment.accelerator.tdp_w if self.full_power else None

    @property
    def checkpoint(self) -> ServedCheckpoint:
        """What its engine loads."""
        run = self.deployment
        return served_checkpoint(run.model, run.engine, run.weight_dtype, run.accelerator)


def candidates_of(
    accelerator: Accelerator,
    model: Model,
    engines: Iterable[Engine],
    *,
    precisions: tuple[str, ...] = (),
    mean_context_tokens: float,
    max_context_tokens: float,
    max_accelerators: int = _MAX_REPLICA,
    is_calibrated: bool = False,
) -> tuple[list[Candidate], str]:
    """All feasible replicas on one accelerator, and, where there are none, the reason in words.

    A replica must hold one request of `max_context_tokens`. `is_calibrated` says that the record holds the figures
    of one machine.

    Source: own enumeration; layouts as the engines accept them.
    """
    if accelerator.unranked_reason:
        return [], accelerator.unranked_reason
    found: list[Candidate] = []
    size_limit = min(max_accelerators, _MAX_REPLICA)
    reason = f"no engine in the catalog runs {model.id} on it"
    for engine in engines:
        if engine.id not in accelerator.engines:
            continue
        for weight_dtype in usable_precisions(model, accelerator, engine, precisions):
            for layouts in (
                _layouts(accelerator, model, size_limit),
                _staged_layouts(accelerator, size_limit),
            ):
                fitting = []
                for tp, pp, dp, ep in layouts:
                    deployment = Deployment(
                        model, accelerator, engine, tp, pp, dp, ep, 1,
                        weight_dtype, activation_dtype_for(weight_dtype, accelerator), "bf16", is_calibrated,
                    )  # fmt: skip
                    try:
                        fitting.append(fitted(deployment, mean_context_tokens, max_context_tokens))
                    except InfeasibleError as error:
                        reason = error.why or error.what
                    if fitting and pp > 1:
                        break
                found += fitting
                if fitting:
                    break  # pipelines only where no single domain holds the model
        if not usable_precisions(model, accelerator, engine, precisions):
            reason = f"{engine.name} has no kernels for {'/'.join(precisions) or model.weights} on it"
    return found, "" if found else reason


def usable_precisions(
    model: Model, accelerator: Accelerator, engine: Engine, requested: tuple[str, ...]
) -> tuple[str, ...]:
    """Weight formats to consider: those asked for, else the checkpoint's own and every one of 8 bits or more that
    the chip multiplies in. Four-bit formats cost quality, so they are considered only if native or asked for.

    Source: own rule; formats by engine from the engine records.
    """
    wanted = requested or tuple(dict.fromkeys((model.weights, "fp8", "bf16")))
    usable = []
    for dtype in wanted:
        if dtype not in weight_formats(engine, accelerator):
            continue
        if support(engine.id, accelerator.architecture, dtype).verdict == "no":
            continue
        if (
            dtype == "fp8"
            and "fp8" not in accelerator.peak_flop_per_s
            and dtype not in (model.weights, *requested)
        ):
            continue
        # More bits than the published checkpoint has is money without quality.
        if not requested and bytes_per_element(dtype) > bytes_per_element(model.weights):
            continue
        usable.append(dtype)
    return tuple(usable)


def _layouts(accelerator: Accelerator, model: Model, largest: int) -> Iterator[tuple[int, int, int, int]]:
    """(tp, pp, dp, ep) worth considering inside one fast domain, small replicas first."""
    widest = min(_MAX_TENSOR_PARALLEL, accelerator.fast_group_size)
    mixture = is_moe(model)
    width = 1
    while width <= min(widest, largest):
        yield width, 1, 1, 1
        if mixture and width > 1:
            yield width, 1, 1, width
            yield 1, 1, width, width
        width *= 2


def _staged_layouts(accelerator: Accelerator, largest: int) -> Iterator[tuple[int, int, int, int]]:
    """Pipelines of full domains, for models that no single domain holds; shortest first."""
    widest = min(_MAX_TENSOR_PARALLEL, accelerator.fast_group_size)
    stages = 2
    while widest * stages <= largest:
        yield widest, stages, 1, 1
        stages *= 2


def fitted(deployment: Deployment, mean_context_tokens: float, max_context_tokens: float) -> Candidate:
    """A replica with its memory, that holds one request of `max_context_tokens`.

    Raises: InfeasibleError: the layout is refused, or it does not.
    Source: simulator.layout; simulator.memory.
    """
    check_layout(deployment)
    chosen = engine_defaults(deployment)
    num_batched_tokens = token_budget(deployment.engine, chosen.max_num_batched_tokens, max_context_tokens)
    memory = plan_memory(
        deployment,
        num_batched_tokens=num_batched_tokens,
        num_seqs=chosen.max_num_seqs,
        memory_fraction=chosen.memory_fraction,
        mean_context_tokens=mean_context_tokens,
    )
    per_rank = memory.kv_capacity_tokens / deployment.data_parallel
    if per_rank < max_context_tokens:
        raise InfeasibleError(
            "the KV cache is smaller than one request",
            why=f"{per_rank:,.0f} tokens fit beside the weights, the longest request has {max_context_tokens:,.0f}",
        )
    return Candidate(deployment, memory, chosen.max_num_seqs, num_batched_tokens)
