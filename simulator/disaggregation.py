"""Disaggregated prefill and decode: pools of workers ready to be simulated, and the links that carry caches between
them."""

import math
from dataclasses import dataclass, replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.units import MILLISECOND_S, PICOSECONDS_PER_S
from advisor.simulator.collectives import topology_of
from advisor.simulator.collectives.fabric_text import join_nodes
from advisor.simulator.collectives.topology import UsualNetwork, usual_network
from advisor.simulator.deployment import Deployment
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.graph.model import kv_bytes_per_token
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving.disaggregated import KvLink
from advisor.simulator.serving.fleet import Pool
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.step_cost import decode_iteration_s

HANDSHAKE_S = 5.0 * MILLISECOND_S
"""Time to ask for blocks, exchange their addresses and tell the decode worker [s]: a round trip through the router."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Pool of equal workers: their deployment and number."""

    worker: Deployment
    num_workers: int


@dataclass(frozen=True, slots=True)
class DisaggregatedModel:
    """Disaggregated deployment of two pools, with all that the simulator needs."""

    prefill_worker: ReplicaModel
    decode_worker: ReplicaModel
    prefill: Pool
    decode: Pool
    link: KvLink
    network: UsualNetwork | None
    """Network between the pools; None if all workers are in one domain."""

    @property
    def transferred_operators(self) -> tuple[str, ...]:
        """Operators whose parameters come from another architecture or format."""
        return tuple(
            sorted({*self.prefill_worker.transferred_operators, *self.decode_worker.transferred_operators})
        )


def model_disaggregated(
    prefill: PoolPlan,
    decode: PoolPlan,
    *,
    mean_input_tokens: float,
    mean_output_tokens: float,
    context_spread: float = 0.0,
    concurrency: int | None = None,
    decode_slots: int | None = None,
    settings: EngineSettings | None = None,
    costs: EngineCosts | None = None,
) -> DisaggregatedModel:
    """Return surfaces, policies and links of two pools for the given lengths and concurrency.

    Each attention data-parallel rank of a prefill worker has a token budget of its own. A decode worker has slots and
    captured graphs for its share of the clients, or `decode_slots`, and sets blocks aside for whole answers.

    Raises: InfeasibleError: a pool without workers, pools of unlike models, or a worker that does not fit.
    Source: own composition.
    """
    settings = settings or EngineSettings()
    share = -(-concurrency // decode.num_workers) if concurrency else 0
    slots = decode_slots or settings.max_num_seqs or max(decode.worker.engine.max_num_seqs, share)
    return join_pools(
        prefill,
        decode,
        prefill_replica(prefill.worker, mean_input_tokens, settings, costs),
        decode_replica(
            decode.worker,
            mean_input_tokens,
            mean_output_tokens,
            slots,
            settings,
            costs,
            context_spread=context_spread,
        ),
    )


def prefill_replica(
    worker: Deployment, mean_input_tokens: float, settings: EngineSettings, costs: EngineCosts | None = None
) -> ReplicaModel:
    """Return the model of a worker that computes prompts and their first tokens.

    Raises: InfeasibleError: it does not fit.
    Source: own composition.
    """
    budget = max(
        settings.max_num_batched_tokens or 0,
        worker.engine.max_num_batched_tokens,
        math.ceil(mean_input_tokens),
    )
    graphs = tuple(each for each in worker.engine.prompt_graphs if each.prefill_pools)
    return model_replica(
        replace(worker, engine=worker.engine.model_copy(update={"prompt_graphs": graphs})),
        mean_input_tokens=mean_input_tokens,
        mean_output_tokens=1.0,
        settings=replace(
            settings,
            max_num_batched_tokens=budget * worker.data_parallel,
            max_num_seqs=min(settings.max_num_seqs or 256, 256),
        ),
        costs=costs,
    )


def decode_replica(
    worker: Deployment,
    mean_input_tokens: float,
    mean_output_tokens: float,
    slots: int,
    settings: EngineSettings,
    costs: EngineCosts | None = None,
    *,
    context_spread: float = 0.0,
) -> ReplicaModel:
    """Return the model of a worker that decodes after prefill elsewhere, with `slots` sequences and graphs for as many.

    Raises: InfeasibleError: it does not fit.
    Source: own composition.
    """
    return model_replica(
        worker,
        mean_input_tokens=mean_input_tokens,
        mean_output_tokens=mean_output_tokens,
        context_spread=context_spread,
        settings=replace(
            settings, max_num_seqs=slots, max_num_batched_tokens=None, graphs_for_all_batches=True
        ),
        costs=costs,
    )


def join_pools(
    prefill: PoolPlan, decode: PoolPlan, first: ReplicaModel, second: ReplicaModel
) -> DisaggregatedModel:
    """Return the disaggregated model of two pools of modelled workers, with their links.

    Raises: InfeasibleError: a pool without workers, or pools of unlike models.
    Source: own composition.
    """
    _check(prefill, decode)
    # Pools are behind a router with processes of its own, as many as it needs.
    prompts_only = replace(first.policy, delivery_ps=0)
    whole_answers = replace(second.policy, reserve_output_fraction=1.0, chunked_prefill=True, delivery_ps=0)
    return DisaggregatedModel(
        first,
        second,
        _pool("prefill", first, prompts_only, prefill),
        _pool("decode", second, whole_answers, decode),
        _with_handover(kv_link(prefill, decode), first, second),
        pool_network(prefill, decode),
    )


def _with_handover(link: KvLink, prefill: ReplicaModel, decode: ReplicaModel) -> KvLink:
    """Return the link with what the engine's way of handing requests over adds to it.

    Source: pool_handover of the engine record.
    """
    handover = decode.deployment.engine.pool_handover
    if handover == "layers":
        return link
    if handover == "chunks":
        tokens = prefill.policy.max_num_batched_tokens // prefill.deployment.data_parallel
        return replace(link, layer_wise=False, chunk_tokens=tokens)
    first_s = decode.policy.api_overhead_ps / PICOSECONDS_PER_S + decode_iteration_s(decode.surface, 1, 1)
    return replace(link, layer_wise=False, first_token_s=first_s)


def _pool(name: str, worker: ReplicaModel, policy: SchedulerPolicy, plan: PoolPlan) -> Pool:
    return Pool(name=name, surface=worker.surface, policy=policy, num_replicas=plan.num_workers)


def with_decode_worker(model: DisaggregatedModel, worker: ReplicaModel) -> DisaggregatedModel:
    """Return `model` with another surface and cache of the decode workers, e.g. those of speculative decoding.

    Source: own composition.
    """
    policy = replace(model.decode.policy, kv_capacity_blocks=worker.policy.kv_capacity_blocks)
    return replace(
        model, decode_worker=worker, decode=replace(model.decode, surface=worker.surface, policy=policy)
    )


def kv_link(prefill: PoolPlan, decode: PoolPlan) -> KvLink:
    """Return the links that carry caches between two kinds of workers.

    A cache moves between the accelerators of one attention rank on each side, tensor-parallel ones in parallel, over
    the scale-up fabric if all workers are in one domain of one kind, else over the network.

    Assumes: the slower side's accelerators set the rate; pages in the prefill worker's cache format.
    Source: own composition; TensorRT-LLM and SGLang documentation of disaggregated serving (NIXL, UCX).
    """
    sender = prefill.worker
    receiver = decode.worker
    lanes = min(
        sender.tensor_parallel * sender.pipeline_parallel,
        receiver.tensor_parallel * receiver.pipeline_parallel,
    )
    footprint = kv_bytes_per_token(sender.model, sender.kv_dtype)
    windowed = sum(per_token for _, per_token in footprint.windowed)
    return KvLink(
        bytes_per_token=footprint.full_bytes_per_token + windowed,
        bytes_per_s=lanes * _lane_bytes_per_s(prefill, decode),
        latency_s=HANDSHAKE_S,
        fixed_bytes=footprint.state_bytes_per_sequence,
        num_layers=sum(group.count for group in sender.model.layers),
        sender_channels=sender.data_parallel,
        receiver_channels=receiver.data_parallel,
    )


def _lane_bytes_per_s(prefill: PoolPlan, decode: PoolPlan) -> float:
    """Rate at which one accelerator can send to one of the other pool [bytes/s]."""
    network = pool_network(prefill, decode)
    if network is not None:
        return network.bytes_per_s
    fabric = prefill.worker.accelerator.scale_up
    assert fabric is not None  # workers without one are joined by a network
    return fabric.bytes_per_s


def pool_network(prefill: PoolPlan, decode: PoolPlan) -> UsualNetwork | None:
    """Return the network over which one accelerator sends to one of the other pool; None if all workers are in one
    domain of one kind. Of two kinds, the slower one's counts.

    Source: the network that the deployments state, else usual_network.
    """
    first = prefill.worker.accelerator
    second = decode.worker.accelerator
    num_accelerators = sum(
        plan.num_workers * plan.worker.accelerators_per_replica for plan in (prefill, decode)
    )
    domain = first.scale_up_domain if first.id == second.id else 1
    if prefill.worker.network or decode.worker.network:
        domain = min(domain, first.node_size)  # a rack of nodes with one fabric needs no network
    if num_accelerators <= domain and first.scale_up:
        return None
    found = []
    for worker in (prefill.worker, decode.worker):
        pair = topology_of(worker.accelerator, 2, ranks_per_node=1)
        if worker.network:
            joined = join_nodes(pair, worker.accelerator, None, worker.network)
            found.append(UsualNetwork(joined.inter_bytes_per_s, True, "as stated"))
        else:
            usual = usual_network(worker.accelerator, pair)
            assert usual is not None  # a pair in two nodes has a network
            found.append(usual)
    return min(found, key=lambda each: each.bytes_per_s)


def _check(prefill: PoolPlan, decode: PoolPlan) -> None:
    for plan, name, other in ((prefill, "prefill", "decode"), (decode, "decode", "prefill")):
        if plan.num_workers < 1:
            raise InfeasibleError(
                f"a {other} pool without {name} workers answers no request",
                why="prompts are computed in one pool and answered in the other",
                fix=f"at least one {name} worker, or aggregated serving",
            )
    if prefill.worker.model.id != decode.worker.model.id:
        raise InfeasibleError(
            f"prefill workers run {prefill.worker.model.id}, decode workers {decode.worker.model.id}",
            why="a cache means nothing to another model",
        )
