"""Caches of preempted requests in host memory: what an engine's release offers, and how long copies take."""

from dataclasses import dataclass, replace

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Engine, HostCache, LatentAttention, Model, PriorityRule
from advisor.catalog.units import GIB, PICOSECONDS_PER_S
from advisor.simulator.graph.model import has_state, kv_bytes_per_token
from advisor.simulator.host_link import host_link_bytes_per_s
from advisor.simulator.intervals import with_interval
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import EngineSettings, ReplicaModel
from advisor.simulator.serving import ServingResult
from advisor.simulator.serving_prediction import class_of
from advisor.simulator.step_cost import prefill_s
from advisor.simulator.workloads.tiers import LINK_RANGE


def find_host_cache(engine: Engine, settings: EngineSettings) -> HostCache | None:
    """Return how a release keeps the cache of preempted requests in host memory; None if it computes them again.

    Source: the engine's record.
    """
    version = settings.version or engine.release
    return next((way for way in engine.host_caches if way.holds(version, settings.date)), None)


def host_cache_of(engine: Engine, settings: EngineSettings) -> HostCache:
    """Return how a release keeps the cache of preempted requests in host memory.

    Raises: InfeasibleError: it computes preempted requests again.
    Source: the engine's record.
    """
    found = find_host_cache(engine, settings)
    if found is not None:
        return found
    why = "its scheduler computes preempted requests again"
    if engine.reserve_output_fraction == 1.0:
        why = "it admits a request only if its whole output has room, so that none is preempted"
    newer = max((way.since.split()[0] for way in engine.host_caches if way.since), default="")
    releases = f"--engine-version {newer}" if newer else "--engine vllm"
    raise InfeasibleError(
        f"{_release_name(engine, settings)} does not swap the cache of preempted requests to host memory",
        why=why,
        fix=f"{releases}, or drop --swap-space",
    )


def priority_rule_of(engine: Engine, settings: EngineSettings) -> PriorityRule:
    """Return how a release serves requests by priority.

    Raises: InfeasibleError: it serves them in order of arrival.
    Source: the engine's record.
    """
    for rule in engine.priority_rules:
        if rule.holds(settings.version or engine.release, settings.date):
            return rule
    first = engine.priority_rules[0].since.split()[0] if engine.priority_rules else ""
    raise InfeasibleError(
        f"{_release_name(engine, settings)} serves requests in order of arrival",
        why="the catalog knows no option of it that ranks them",
        fix=f"--engine-version {first}, or drop --urgent" if first else "--engine vllm, or drop --urgent",
    )


def _release_name(engine: Engine, settings: EngineSettings) -> str:
    version = settings.version or engine.release
    return f"{engine.name} {version}" if version else engine.name


def copy_pieces(model: Model, way: HostCache) -> int:
    """Number of separate copies that move one cache block.

    One if a block's layers lie together; else one for the keys and one for the values of each layer, or one for both
    where a latent vector holds them.

    Source: vLLM, Inside vLLM's New KV Offloading Connector, 2026-01-08: 32 KB against 2 MB for Llama-3.1-8B.
    """
    if way.copies == "block":
        return 1
    return sum(group.count * (1 if isinstance(group.mixer, LatentAttention) else 2) for group in model.layers)


def copy_block_s(replica: ReplicaModel, way: HostCache | None) -> float:
    """Time to copy one cache block of every accelerator over its link to the host, one way [s].

    pieces · launch + bytes / rate; bytes / rate without a way of the engine

    Assumes: accelerators copy their parts at the same time, each over its own link.
    Raises: InfeasibleError: how the accelerator is attached to its host is not recorded.
    Source: `host_link_bytes_per_s`; the launch time is the record's.
    """
    deployment = replica.deployment
    num_bytes = replica.memory.kv_bytes_per_token * replica.policy.block_tokens
    rate = host_link_bytes_per_s(deployment.accelerator)
    if way is None:
        return num_bytes / rate
    pieces = copy_pieces(deployment.model, way) / deployment.pipeline_parallel
    return pieces * way.copy_launch_s + num_bytes / rate


def with_host_cache(replica: ReplicaModel, host_bytes: float, way: HostCache) -> ReplicaModel:
    """Return the replica with host memory of each accelerator for the cache of preempted requests.

    Assumes: the iteration in which a sequence returns waits for its cache; an engine that copies in the background
    lets others go on meanwhile, so there it is an upper bound. The cache of a sequence is written to the host once.
    Raises: InfeasibleError: layers keep a state that no source says how to swap, the link is not recorded, or the
        memory does not hold one block.
    Source: the engine's record.
    """
    model = replica.deployment.model
    if has_state(model):
        raise InfeasibleError(
            f"the cache of {model.id} is not swapped",
            why="its recurrent layers keep a state, and no source says how an engine moves it to the host and back",
            fix="drop --swap-space",
        )
    block_bytes = replica.memory.kv_bytes_per_token * replica.policy.block_tokens
    if host_bytes < block_bytes:
        raise InfeasibleError(
            f"--swap-space of {host_bytes:,.0f} B holds no block of the cache",
            why=f"a block of {replica.policy.block_tokens} tokens takes {block_bytes:,.0f} B",
            fix="--swap-space 4GiB",
        )
    copy_ps = round(copy_block_s(replica, way) * PICOSECONDS_PER_S)
    policy = replace(
        replica.policy,
        host_blocks=int(host_bytes / block_bytes) * replica.deployment.data_parallel,
        copy_out_ps=copy_ps if way.blocks_engine else 0,
        copy_in_ps=copy_ps,
    )
    return replace(replica, policy=policy)


def flag_of(way: HostCache, host_bytes: float, num_accelerators: int) -> str:
    """Return the engine's option for this much host memory of each accelerator.

    Source: the engine's record.
    """
    gib = host_bytes / GIB
    return way.flag.format(gib=f"{gib:g}", total_gib=f"{gib * num_accelerators:g}")


@dataclass(frozen=True, slots=True)
class PreemptionCost:
    """Preemptions of a run, and what one of mean length costs either way."""

    num_preemptions: int
    num_swaps: int
    """Number of them after which host memory kept the cache."""
    mean_tokens: float
    bytes_of_cache: float
    """Cache of a sequence of that length, all accelerators together [bytes]."""
    recompute_s: Quantity
    """Time to compute its tokens again [s]."""
    swap_s: Quantity | None
    """Time to copy its cache to host memory and back [s]; None if the link to the host is not recorded."""


def preemption_cost(
    result: ServingResult, replica: ReplicaModel, way: HostCache | None = None
) -> PreemptionCost | None:
    """Return what preemptions of a run cost; None if there were none.

    Source: prefill in chunks of the step-cost surface; `copy_block_s`.
    """
    if not result.num_preemptions:
        return None
    tokens = result.preempted_tokens / result.num_preemptions
    chunk = max(1, replica.policy.max_num_batched_tokens)
    again_s = prefill_s(replica.surface, max(1, round(tokens)), chunk)
    try:
        copies_s = 2.0 * tokens / replica.policy.block_tokens * copy_block_s(replica, way)
        swap_s = Quantity(copies_s, copies_s * LINK_RANGE[0], copies_s * LINK_RANGE[1], "modelled")
    except InfeasibleError:
        swap_s = None
    footprint = kv_bytes_per_token(replica.deployment.model, replica.deployment.kv_dtype)
    return PreemptionCost(
        result.num_preemptions,
        result.num_swaps,
        tokens,
        footprint.bytes_of(round(tokens)),
        with_interval(again_s, "ttft", class_of(replica), replica.basis),
        swap_s,
    )
