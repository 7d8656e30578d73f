"""Replica models: memory, step-cost surface and scheduler of one replica, from a deployment."""

import math
from dataclasses import dataclass, replace

from advisor.catalog.engines import EngineDefaults, defaults, graph_sizes
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Calibration, Engine, LatentAttention, ServerCalibration
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment, is_local
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import (
    EngineCosts,
    captured_prompt_tokens,
    engine_costs,
    engine_in_turns,
    era_kernels,
    on_slow_host,
    operator_library,
    release_costs,
    request_latency_s,
    taking_turns,
    with_era_kernels,
)
from advisor.simulator.graph.forward_pass import expert_format
from advisor.simulator.graph.model import has_state
from advisor.simulator.host_layers import (
    HostLayers,
    with_host_layers,
    with_offloaded_weights,
    with_wide_stage,
)
from advisor.simulator.layout import WIDEST_TENSOR_PARALLEL, check_generates, check_layout
from advisor.simulator.memory import MemoryPlan, TooLittleMemoryError, plan_memory, widest_fraction
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.quantity import Basis
from advisor.simulator.serving.policy import SchedulerPolicy
from advisor.simulator.step_cost import StepSurface, scale_steps
from advisor.simulator.surface import SurfaceInputs, build_surface
from advisor.simulator.terms import TermCase, find

_MINOR_OPERATORS = ("elementwise", "mla_absorb")
"""Operators that take a small part of a step: transferring their parameters from another architecture does not widen an
interval."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings that a user gives when starting the engine; None takes the engine's default."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    memory_fraction: float | None = None
    """Fraction of the memory that the engine may use, counted as the engine counts it (`Engine.memory_fraction_of`)."""
    kv_cache_bytes: float | None = None
    """Size of the KV cache on each accelerator [bytes], which overrides the fraction; None computes it."""
    kv_block_tokens: int | None = None
    """Tokens of a cache block (page); None takes the engine's."""
    enforce_eager: bool = False
    """Whether no decode graph is captured: every step is launched operator by operator."""
    slow_host: bool = False
    """Whether the host is as slow as the slowest that was measured."""
    micro_batch_tokens: int | None = None
    """Prompt tokens of one micro-batch, for engines that divide their batches (llama.cpp, -ub)."""
    prefix_caching: bool = True
    """False: the engine is started without the prefix cache that it has by default."""
    graphs_for_all_batches: bool = False
    """Whether decode graphs are captured for every batch that can run, as recipes for one kind of load do."""
    stage_fraction: float | None = None
    """Layers of the fullest pipeline stage over all layers; None for equal stages."""
    host: HostLayers | None = None
    """Layers or weights that stay in main memory; None where the accelerators hold the model."""
    version: str = ""
    """Release of the engine; empty takes the one that the engine's record names, else the newest that was read."""
    date: str = ""

    def on_accelerators(self, deployment: Deployment) -> Deployment:
        """Return the deployment with the part of its model that the accelerators hold."""
        if self.host is None:
            return deployment
        return replace(deployment, model=self.host.model_on_accelerators(deployment.model))

    def in_memory(self, deployment: Deployment) -> Deployment:
        """Return the deployment of which each stage holds what the fullest one holds."""
        held = self.on_accelerators(deployment)
        if self.stage_fraction is None:
            return held
        wide = self.stage_fraction * deployment.pipeline_parallel
        return replace(held, model=with_wide_stage(held.model, wide))

    def for_engine(self, engine: Engine) -> "EngineSettings":
        """Return the settings with the release that a question names for this engine, unless they name one."""
        return replace(self, version=engine.release) if engine.release and not self.version else self


@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """One replica ready to be simulated, with what an explanation needs in addition."""

    deployment: Deployment
    memory: MemoryPlan
    surface: StepSurface
    policy: SchedulerPolicy
    costs: EngineCosts
    library: OperatorLibrary
    cuda_graph_sizes: tuple[int, ...] = ()
    """Batch sizes with a captured decode graph."""
    transferred_operators: tuple[str, ...] = ()
    """Operators, minor ones excluded, whose parameters come from another architecture or format, and facts of the
    accelerator that its record lacks."""
    server: ServerCalibration | None = None
    """Calibration by a benchmark of this very server, which its step times follow; None without one."""
    reads_host: bool = False
    """Whether some of its layers stay in main memory, whose speed was not measured."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why intervals are wide, as sentences."""
        chip = self.deployment.accelerator
        unknown = device_of(self.deployment.accelerator).assumed
        kernels = [name for name in self.transferred_operators if name not in unknown]
        facts = [name for name in self.transferred_operators if name in unknown]
        lent = f"no kernels were measured on {chip.architecture}: {', '.join(kernels)} are taken from related hardware"
        lacking = f"{chip.id} is taken as a usual chip in what its record lacks: {', '.join(facts)}"
        return tuple(f"{said}, ranges are wide" for said, some in ((lent, kernels), (lacking, facts)) if some)

    @property
    def basis(self) -> Basis:
        """Basis of the predictions: parameters of related hardware outweigh a measured machine."""
        if (self.transferred_operators or self.reads_host) and self.server is None:
            return "assumed"
        return "calibrated" if self.deployment.is_calibrated or self.server else "modelled"


def model_replica(
    deployment: Deployment,
    *,
    mean_input_tokens: float,
    mean_output_tokens: float,
    max_context_tokens: int | None = None,
    context_spread: float = 0.0,
    settings: EngineSettings | None = None,
    costs: EngineCosts | None = None,
    library: OperatorLibrary | None = None,
    calibration: Calibration | None = None,
) -> ReplicaModel:
    """Return memory, surface and policy of one replica for the given lengths.

    `context_spread` is the standard deviation over the mean of the contexts that decode together, 0 where unknown.
    A calibration of the deployment's accelerator replaces the datasheet's figures; one of other hardware changes
    nothing. A library that is given is used as it is.

    Raises: InfeasibleError: the layout is refused, weights do not fit, or the cache is smaller than one request.
        AdvisorError: the model makes no text, or a figure of the calibration is implausible.
    Source: own composition.
    """
    check_generates(deployment.model)
    check_layout(deployment)
    settings = (settings or EngineSettings()).for_engine(deployment.engine)
    whole = _as_started(deployment, settings, calibration)
    deployment = settings.on_accelerators(whole)
    engine = deployment.engine
    costs = costs or engine_costs(engine, version=settings.version, date=settings.date)
    costs = release_costs(deployment, costs, version=settings.version, date=settings.date)
    if settings.slow_host:
        costs = on_slow_host(deployment, costs)
    library = library or _library(deployment, settings)
    library.transferred_operators.clear()  # what another replica looked up says nothing of this one
    chosen = engine_defaults(deployment, settings.version)
    needed = max_context_tokens or round(mean_input_tokens + mean_output_tokens)
    max_num_seqs, num_batched_tokens = engine_limits(deployment, settings, needed)
    mean_context = mean_input_tokens + mean_output_tokens / 2.0
    graphs = _decode_graphs(deployment, max_num_seqs, chosen, settings, mean_context)
    memory = replica_memory(whole, settings, needed, mean_context)
    _refuse_small_cache(deployment, memory, needed)
    captured = max(graphs or chosen.cuda_graph_sizes, default=0)
    inputs = SurfaceInputs(
        max_num_seqs, num_batched_tokens, mean_input_tokens, mean_context, graphs, captured, context_spread
    )
    surface = _surface(deployment, library, costs, inputs, settings)
    if settings.host is not None and settings.host.offloaded_bytes:
        surface = with_offloaded_weights(surface, deployment, settings.host)
    elif settings.host is not None:
        micro = micro_batch_of(engine, settings) or num_batched_tokens
        surface = with_host_layers(surface, whole, deployment, settings.host, micro)
    policy = policy_of(deployment, memory, costs, inputs)
    policy = _with_blocks(policy, memory, settings.kv_block_tokens)
    transferred = sorted(
        name for name in library.transferred_operators if not name.startswith(_MINOR_OPERATORS)
    )
    replica = ReplicaModel(
        deployment,
        memory,
        surface,
        policy,
        costs,
        library,
        graphs,
        tuple(transferred),
        reads_host=settings.host is not None,
    )
    return as_served(replica, calibration)


def replica_memory(
    deployment: Deployment, settings: EngineSettings, longest_request_tokens: int, mean_context_tokens: float
) -> MemoryPlan:
    """Return how an engine with these settings divides the memory of one replica, without modelling its speed.

    Source: `plan_memory`; limits as the engine is started with.
    Raises: InfeasibleError: the weights do not fit, or the cache that the user sets is larger than what is free.
    """
    settings = settings.for_engine(deployment.engine)
    deployment = settings.in_memory(deployment)
    max_num_seqs, num_batched_tokens = engine_limits(deployment, settings, longest_request_tokens)
    chosen = engine_defaults(deployment, settings.version)
    return plan_memory(
        deployment,
        num_batched_tokens=micro_batch_of(deployment.engine, settings) or num_batched_tokens,
        num_seqs=max_num_seqs,
        memory_fraction=settings.memory_fraction or chosen.memory_fraction,
        mean_context_tokens=mean_context_tokens,
        kv_cache_bytes=settings.kv_cache_bytes,
        has_graphs=not settings.enforce_eager,
        offloaded_bytes=settings.host.weights_in_host(deployment) if settings.host else 0.0,
        version=settings.version,
    )


def engine_limits(
    deployment: Deployment, settings: EngineSettings, longest_request_tokens: int
) -> tuple[int, int]:
    """Sequences at once and new tokens of one iteration, as started: the user's, else the engine's. Every sequence
    takes a token, so that where one of the two is stated the engine's default of the other gives way.

    Source: record of the engine's release.
    """
    engine = deployment.engine
    chosen = engine_defaults(deployment, settings.version)
    max_num_seqs = settings.max_num_seqs or chosen.max_num_seqs
    ranks = deployment.data_parallel if engine.token_budget_of == "rank" else 1
    budget = ranks * token_budget(engine, chosen.max_num_batched_tokens, longest_request_tokens)
    tokens = settings.max_num_batched_tokens or budget
    if settings.max_num_batched_tokens and not settings.max_num_seqs:
        max_num_seqs = min(max_num_seqs, tokens)
    return max_num_seqs, max(tokens, max_num_seqs, longest_request_tokens if _hands_on(deployment) else 1)


def as_served(replica: ReplicaModel, calibration: Calibration | None) -> ReplicaModel:
    """Return the replica with the step times of a server that was measured; as it is for any other deployment.

    Source: own definition; a server's settings, driver and host transfer to no other model or engine.
    """
    server = calibration.server if calibration is not None else None
    if server is None or calibration is None or replica.server is not None:
        return replica
    deployment = replica.deployment
    same = (
        deployment.accelerator.id == calibration.accelerator
        and deployment.engine.id == server.engine
        and deployment.model.id == server.model
        and deployment.weight_dtype == server.weight_dtype
        and deployment.tensor_parallel == server.tensor_parallel
        and deployment.pipeline_parallel == server.pipeline_parallel
        and deployment.data_parallel == server.data_parallel
    )
    if not same:
        return replica
    surface = scale_steps(replica.surface, server.decode_scale, server.prefill_scale)
    return replace(replica, surface=surface, server=server)


def _with_blocks(policy: SchedulerPolicy, memory: MemoryPlan, block_tokens: int | None) -> SchedulerPolicy:
    """Return the policy with cache blocks of the size that the user sets; as it is without one."""
    if block_tokens is None:
        return policy
    blocks = max(1, memory.kv_capacity_tokens // block_tokens)
    return replace(policy, block_tokens=block_tokens, kv_capacity_blocks=blocks)


def cache_block_tokens(deployment: Deployment) -> int:
    """Return the tokens of a cache block (page) that the engine takes for a model unless told otherwise.

    Source: kv_block_tokens and sparse_kv_block_tokens of the engine record.
    """
    engine = deployment.engine
    mixers = [group.mixer for group in deployment.model.layers]
    latent = [each for each in mixers if isinstance(each, LatentAttention) and not each.latent_only]
    has_indexer = any(each.sparse_top_k for each in latent)
    return (engine.sparse_kv_block_tokens if has_indexer else None) or engine.kv_block_tokens


def _refuse_small_cache(deployment: Deployment, memory: MemoryPlan, needed: int) -> None:
    """Refuse a cache that does not hold one request. Raises: InfeasibleError: it does not."""
    if memory.kv_capacity_tokens >= needed * deployment.data_parallel:
        return
    raise InfeasibleError(
        f"{deployment.model.id} on {deployment.accelerators_per_replica} × {deployment.accelerator.id}: "
        "the KV cache is smaller than one request",
        why=f"{memory.kv_capacity_tokens:,} tokens fit beside the weights, the longest request has {needed:,}",
        fix="more accelerators per replica, a smaller weight or KV format, or shorter requests",
    )


def micro_batch_of(engine: Engine, settings: EngineSettings) -> int:
    """Return the tokens of a micro-batch of an engine that divides its iterations into such; 0 for any other."""
    return settings.micro_batch_tokens or _micro_batch(engine)


def _micro_batch(engine: Engine) -> int:
    """Prompt tokens of one micro-batch of a local engine, which divides its batches [tokens]; 0 for other engines."""
    if not is_local(engine):
        return 0
    from advisor.simulator.local_surface import default_micro_batch

    return default_micro_batch(engine)


def replica_in_turns(
    replica: ReplicaModel,
    mean_input_tokens: float,
    mean_output_tokens: float,
    settings: EngineSettings | None = None,
) -> ReplicaModel:
    """Return the replica in turns with its device, if its engine composes no batch while the device runs one.

    Source: `in_turns` and `in_turns_guessing` of the engine's record, read in its source.
    """
    deployment = replica.deployment
    surface = replica.surface
    changed = model_replica(
        replace(deployment, engine=taking_turns(deployment.engine)),
        mean_input_tokens=mean_input_tokens,
        mean_output_tokens=mean_output_tokens,
        settings=replace(
            settings or EngineSettings(),
            max_num_seqs=len(surface.decode_base_ps) - 1,
            max_num_batched_tokens=len(surface.mixed_base_ps) - 1,
        ),
        costs=replica.costs,
        library=replica.library,
    )
    old = replica.policy
    policy = replace(
        changed.policy, kv_capacity_blocks=old.kv_capacity_blocks, prefix_caching=old.prefix_caching
    )
    return replace(changed, policy=policy)


def _as_started(
    deployment: Deployment, settings: EngineSettings, calibration: Calibration | None
) -> Deployment:
    """Return the deployment on hardware as measured, with its engine as these settings and this release run the
    model."""
    if calibration is not None:
        from advisor.simulator.calibrated_device import calibrated_deployment

        deployment = calibrated_deployment(deployment, calibration)
    engine = deployment.engine
    if not settings.prefix_caching:
        engine = engine.model_copy(update={"prefix_caching": False})
    engine = engine_in_turns(engine, deployment.model, version=settings.version, date=settings.date)
    captured = captured_prompt_tokens(deployment, version=settings.version, date=settings.date)
    if captured != engine.captured_prompt_tokens:
        engine = engine.model_copy(update={"captured_prompt_tokens": captured})
    return deployment if engine is deployment.engine else replace(deployment, engine=engine)


def _surface(
    deployment: Deployment,
    library: OperatorLibrary,
    costs: EngineCosts,
    inputs: SurfaceInputs,
    settings: EngineSettings,
) -> StepSurface:
    if is_local(deployment.engine):
        from advisor.simulator.local_surface import build_local_surface

        return build_local_surface(deployment, library, inputs, settings.micro_batch_tokens)
    surface = build_surface(deployment, library, costs, inputs)
    architecture = deployment.accelerator.architecture
    kernels = era_kernels(
        deployment.engine.id,
        architecture,
        version=settings.version,
        date=settings.date,
        weight_dtype=deployment.weight_dtype,
    )
    return surface if kernels is None else with_era_kernels(surface, deployment, kernels)


def _library(deployment: Deployment, settings: EngineSettings) -> OperatorLibrary:
    if is_local(deployment.engine):
        from advisor.simulator.local_surface import local_library

        return local_library(
            deployment.engine, deployment.accelerator, version=settings.version, date=settings.date
        )
    fused = _engine_value("fused_quantisation", deployment, settings, deployment.weight_dtype) > 0
    # Number of rows to which an engine pads each expert of a rank; 0 if experts without rows are left out.
    rows = _engine_value("expert_block_rows", deployment, settings, expert_format(deployment))
    ranks = deployment.engine.expert_blocks_below_ranks
    if rows > 1 and ranks and deployment.expert_tensor_parallel >= ranks:
        rows = 0.0
    library = operator_library(deployment, version=settings.version, date=settings.date)
    uneven = _engine_value("uneven_streams", deployment, settings, "")
    return replace(
        library,
        expert_block_rows=rows,
        fused_quantisation=fused,
        uneven_streams=uneven,
        latent_stream_share=_engine_value("latent_stream_share", deployment, settings, ""),
    )


def _engine_value(term: str, deployment: Deployment, settings: EngineSettings, dtype: str) -> float:
    """Value of a term of the engine's release on the deployment's accelerator; 0 if the table has no row."""
    engine = deployment.engine
    architecture = deployment.accelerator.architecture
    found = find(
        "engine", term, TermCase(engine.id, settings.version, settings.date, architecture, dtype=dtype)
    )
    return found.value if found else 0.0


def _hands_on(deployment: Deployment) -> bool:
    """Whether pipeline stages work at the same time on successive parts of one prompt."""
    return is_local(deployment.engine) and deployment.pipeline_parallel > 1


def engine_defaults(deployment: Deployment, version: str = "") -> EngineDefaults:
    """Return the default settings of the engine's release for this deployment.

    Without a version it is the release that a question names for the engine, else the newest.

    Source: catalog.engines.defaults.
    """
    accelerator = deployment.accelerator
    return defaults(
        deployment.engine,
        accelerator.memory_bytes or 0.0,
        accelerator.architecture,
        tp=deployment.tensor_parallel,
        pp=deployment.pipeline_parallel,
        dp=deployment.data_parallel,
        version=version or deployment.engine.release,
    )


_NO_GRAPHS = (0,)
"""Graph sizes that contain no batch: every decode step is launched operator by operator."""


def _decode_graphs(
    deployment: Deployment,
    max_num_seqs: int,
    chosen: EngineDefaults,
    settings: EngineSettings,
    mean_context_tokens: float,
) -> tuple[int, ...]:
    """Batch sizes of the replica with a captured decode graph [sequences]; empty if launch time never matters.

    Each attention data-parallel rank captures its own batches, so the replica's are that many times larger.

    Source: catalog.engines.graph_sizes; engines' data-parallel ranks run one graph of one padded size in lockstep.
    """
    if settings.enforce_eager:
        return _NO_GRAPHS
    if settings.graphs_for_all_batches:
        return ()
    ranks = deployment.data_parallel
    eager = deployment.engine.eager_with_data_parallel
    if ranks > 1 and eager is not None and eager.holds(settings.version, settings.date):
        return _NO_GRAPHS
    on = deployment.engine.eager_on
    if (
        on
        and deployment.accelerator.architecture in on.architectures
        and on.holds(settings.version, settings.date)
    ):
        return _NO_GRAPHS
    limit = deployment.engine.captured_context
    if limit and mean_context_tokens > limit.tokens and limit.holds(settings.version, settings.date):
        return _NO_GRAPHS
    largest = max(chosen.cuda_graph_sizes, default=0)
    sizes = graph_sizes(deployment.engine, -(-max_num_seqs // ranks), largest, model=deployment.model.id)
    return tuple(ranks * size for size in sizes)


def token_budget(engine: Engine, default_tokens: int, longest_request_tokens: float) -> int:
    """New tokens per iteration to configure for requests of the given length [tokens].

    An engine that processes prompts whole refuses those that exceed its budget, so there the budget must hold the
    longest request.

    Source: own rule; TensorRT-LLM documentation, max_num_tokens without chunked context.
    """
    if engine.chunked_prefill:
        return default_tokens
    return max(default_tokens, math.ceil(longest_request_tokens))


def policy_of(
    deployment: Deployment,
    memory: MemoryPlan,
    costs: EngineCosts,
    inputs: SurfaceInputs,
) -> SchedulerPolicy:
    """Return the scheduler of a deployment's engine with this cache, for the load that its surface is tabulated for.

    Source: engine records.
    """
    engine = deployment.engine
    stateful = has_state(deployment.model)
    state_slots = None
    if stateful and memory.state_bytes_per_sequence > 0:
        # The state of every running sequence is in the same pool as the cache.
        state_slots = (
            max(1, int(memory.kv_bytes / memory.state_bytes_per_sequence)) * deployment.data_parallel
        )
    return SchedulerPolicy(
        kind=engine.scheduler,
        max_num_seqs=inputs.max_num_seqs,
        max_num_batched_tokens=inputs.max_num_batched_tokens,
        chunked_prefill=engine.chunked_prefill,
        kv_capacity_blocks=max(1, memory.kv_capacity_tokens // cache_block_tokens(deployment)),
        block_tokens=cache_block_tokens(deployment),
        reserve_output_fraction=engine.reserve_output_fraction,
        max_sequences_by_state=state_slots,
        # The state of a recurrent layer cannot be cut at a block, so engines leave such models uncached by default.
        prefix_caching=engine.prefix_caching and not stateful,
        overlap_scheduling=engine.overlap_scheduling,
        # Each attention data-parallel rank has a front end of its own (vLLM, --api-server-count).
        delivery_ps=round(
            (costs.delivery_s + costs.message_s) / deployment.data_parallel * PICOSECONDS_PER_S
        ),
        api_overhead_ps=round(
            request_latency_s(deployment, costs, inputs.mean_input_tokens, inputs.chunk_tokens)
            * PICOSECONDS_PER_S
        ),
    )


_MOST_STAGES = 16


def nearest_layout(deployment: Deployment, request_tokens: int) -> Deployment | None:
    """Return the deployment with more tensor parallelism, then more pipeline stages, until it holds one request of
    `request_tokens`; None if none of up to 8 × 16 accelerators does.

    Source: own search over the layouts that engines accept.
    """
    tensor = deployment.tensor_parallel
    stages = deployment.pipeline_parallel
    widths = [width for width in (1, 2, 4, 8) if width > tensor]
    candidates = [replace(deployment, tensor_parallel=width) for width in widths]
    widest = max(tensor, WIDEST_TENSOR_PARALLEL)
    number = 2 * stages
    while number <= _MOST_STAGES:
        candidates.append(replace(deployment, tensor_parallel=widest, pipeline_parallel=number))
        number *= 2
    return next((each for each in candidates if _holds(each, request_tokens)), None)


def holds_request(
    deployment: Deployment, settings: EngineSettings, request_tokens: int, mean_context_tokens: float
) -> bool:
    """Whether the cache of a replica with these settings holds one request of `request_tokens`.

    Source: `replica_memory`.
    """
    try:
        memory = replica_memory(deployment, settings, request_tokens, mean_context_tokens)
    except InfeasibleError:
        return False
    return memory.kv_capacity_tokens >= request_tokens * deployment.data_parallel


def fraction_that_holds(
    deployment: Deployment, settings: EngineSettings, request_tokens: int, mean_context_tokens: float
) -> float | None:
    """Return a fraction of the memory, larger than the engine's own, with which a replica holds a request; None if no
    fraction lets it, or the engine has no option for it.

    Source: own search; `widest_fraction`.
    """
    if not deployment.engine.flags.memory_fraction or settings.kv_cache_bytes is not None:
        return None
    try:
        plan = replica_memory(deployment, settings, request_tokens, mean_context_tokens)
    except TooLittleMemoryError as error:
        plan = error.plan
    except InfeasibleError:
        return None
    fraction = widest_fraction(deployment, plan)
    own = settings.memory_fraction or engine_defaults(deployment, settings.version).memory_fraction
    wider = replace(settings, memory_fraction=fraction)
    is_enough = fraction > own and holds_request(deployment, wider, request_tokens, mean_context_tokens)
    return fraction if is_enough else None


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
