"""The smallest layout that holds a model and one of its requests, for those who asked for one that does not."""

from dataclasses import replace

from advisor.catalog.errors import InfeasibleError
from advisor.simulator.deployment import Deployment
from advisor.simulator.layout import check_layout
from advisor.simulator.memory import plan_memory
from advisor.simulator.replica_model import engine_defaults, token_budget

_WIDEST_TENSOR_PARALLEL = 8
_MOST_STAGES = 16


def nearest_layout(deployment: Deployment, request_tokens: int) -> Deployment | None:
    """The deployment with more tensor parallelism, or then more pipeline stages, until it holds one request of so many
    tokens; None where none of up to 8 × 16 accelerators does.

    Source: own search over the layouts that engines accept.
    """
    tensor, stages = deployment.tensor_parallel, deployment.pipeline_parallel
    widths = [width for width in (1, 2, 4, 8) if width > tensor]
    candidates = [replace(deployment, tensor_parallel=width) for width in widths]
    widest = max(tensor, _WIDEST_TENSOR_PARALLEL)
    number = 2 * stages
    while number <= _MOST_STAGES:
        candidates.append(replace(deployment, tensor_parallel=widest, pipeline_parallel=number))
        number *= 2
    return next((each for each in candidates if _holds(each, request_tokens)), None)


def _holds(deployment: Deployment, request_tokens: int) -> bool:
    chosen = engine_defaults(deployment)
    try:
        check_layout(deployment)
        memory = plan_memory(
            deployment,
            num_batched_tokens=token_budget(deployment.engine, chosen.max_num_batched_tokens, request_tokens),
            num_seqs=chosen.max_num_seqs,
            memory_fraction=chosen.memory_fraction,
            mean_context_tokens=float(request_tokens),
        )
    except InfeasibleError:
        return False
    return memory.kv_capacity_tokens >= request_tokens * deployment.data_parallel
