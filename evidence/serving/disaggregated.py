"""Published measurements of disaggregated serving as two pools and a load."""

from dataclasses import replace

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.client import REQUESTS_PER_CLIENT, mean_share, spread_of_contexts
from advisor.evidence.serving.columns import Measured, columns_of, sampling_of
from advisor.evidence.serving.recipe import costs_of, decode_slots_for, recipe_for
from advisor.simulator.deployment import Deployment
from advisor.simulator.disaggregation import DisaggregatedModel, PoolPlan, model_disaggregated
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.graph.model import is_moe
from advisor.simulator.layout import with_copies
from advisor.simulator.replica_model import EngineSettings
from advisor.simulator.serving import ClosedLoop, Workload
from advisor.simulator.serving.disaggregated import simulate_disaggregated
from advisor.simulator.serving.lengths import Lengths

_RECIPE_MEMORY_FRACTION = 0.95
_MOST_REQUESTS = 4000
"""Most requests to simulate, but never fewer than _LEAST_PER_CLIENT per client: a long run repeats itself."""
_LEAST_PER_CLIENT = 3


def disaggregated_model(
    case: ServingCase, decode_worker: Deployment, *, costs: EngineCosts | None = None
) -> DisaggregatedModel:
    """Return the pools that a case describes; `decode_worker` is the deployment of its tp, pp, dp and ep.

    Raises: AdvisorError: a pool's size is not stated, or does not divide among its workers.
    Source: own composition; columns as in docs/validation.md.
    """
    decode_worker = with_copies(_decode_worker(case, decode_worker))
    decode_workers = _num_workers(case.num_decode_workers, case.decode_gpus, decode_worker, "decode")
    prefill_worker = with_copies(_prefill_worker(case, decode_worker))
    prefill_workers = _num_workers(case.num_prefill_workers, case.prefill_gpus, prefill_worker, "prefill")
    scale = mean_share(case)
    settings = EngineSettings(
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        prefix_caching=not case.prefix_cache_off,
        version=case.engine_version,
        date=case.date,
    )
    own_costs = costs_of(case, decode_worker, costs, recipe_for(case, decode_worker))

    def model(settings: EngineSettings) -> DisaggregatedModel:
        return model_disaggregated(
            PoolPlan(prefill_worker, prefill_workers),
            PoolPlan(decode_worker, decode_workers),
            mean_input_tokens=max(1.0, scale * case.isl),
            mean_output_tokens=max(1.0, scale * case.osl),
            context_spread=spread_of_contexts(case),
            concurrency=case.concurrency,
            decode_slots=decode_slots_for(case, decode_worker, decode_workers),
            settings=settings,
            costs=own_costs,
        )

    try:
        return model(settings)
    except InfeasibleError:
        if case.view == "stranger":
            raise
        # The measured run did fit: if weights leave no room, recipes give the engine nearly all memory.
        return model(replace(settings, memory_fraction=_RECIPE_MEMORY_FRACTION))


def disaggregated_loop(case: ServingCase, model: DisaggregatedModel, lengths: Lengths, seed: int) -> Measured:
    """Return the columns of a closed loop over both pools.

    Raises: AdvisorError: another load, or no concurrency.
    """
    if case.load != "closed" or not case.concurrency:
        raise AdvisorError("disaggregated serving is simulated for closed loops of at least one client")
    asked = case.num_requests or REQUESTS_PER_CLIENT * case.concurrency
    num_requests = min(asked, max(_MOST_REQUESTS, _LEAST_PER_CLIENT * case.concurrency))
    workload = Workload(ClosedLoop(case.concurrency), lengths, max(num_requests, case.concurrency))
    result = simulate_disaggregated(model.prefill, model.decode, model.link, workload, seed=seed)
    return columns_of(result), sampling_of(result)


def _decode_worker(case: ServingCase, stated: Deployment) -> Deployment:
    """Return the decode worker with the stated degrees, or else tensor parallelism over its accelerators, the default
    of engines."""
    size = (case.decode_gpus or 0) // (case.num_decode_workers or 1) // stated.pipeline_parallel
    if case.layout_stated or size < 1:
        return stated
    ep = case.ep if is_moe(stated.model) and size % case.ep == 0 else 1
    return replace(stated, tensor_parallel=size, expert_parallel=ep)


def _prefill_worker(case: ServingCase, decode_worker: Deployment) -> Deployment:
    """Return the prefill worker with the stated degrees, or else with the attention split of the decode workers."""
    degrees = (case.prefill_tp, case.prefill_pp, case.prefill_dp)
    if any(degree is not None for degree in degrees):
        tp, pp, dp = (degree or 1 for degree in degrees)
    else:
        if not case.prefill_gpus or not case.num_prefill_workers:
            raise AdvisorError("disaggregated serving needs the prefill workers' number and accelerators")
        size = case.prefill_gpus // case.num_prefill_workers
        tp, pp, dp = (1, 1, size) if decode_worker.data_parallel > 1 else (size, 1, 1)
    whole = dp > 1 or decode_worker.expert_parallel > 1
    ep = (case.prefill_ep or (tp * dp if whole else 1)) if is_moe(decode_worker.model) else 1
    return replace(
        decode_worker,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        expert_parallel=ep if (tp * dp) % ep == 0 else 1,
    )


def _num_workers(stated: int | None, gpus: int | None, worker: Deployment, name: str) -> int:
    if stated is not None:
        return stated
    size = worker.accelerators_per_replica
    if not gpus or gpus % size:
        raise AdvisorError(f"{gpus or 'no'} {name} accelerators do not divide among workers of {size}")
    return gpus // size
