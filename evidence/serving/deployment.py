"""Deployment and replica of a published serving case: stated values, then those of its scripts, then usual ones.

A row with a power limit is taken for a machine of its owner: whoever rents one cannot set it.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import CACHE_DTYPES, DTYPES, EXL3_DTYPES, cache_halves
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.named_formats import is_quantised
from advisor.catalog.published import loadable_checkpoints, served_model, with_storage
from advisor.catalog.schema import Accelerator, Calibration, Engine, Model
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.client import mean_share, spread_of_contexts
from advisor.evidence.serving.recipe import (
    as_started,
    as_stored,
    costs_of,
    recipe_for,
    with_admission_wait,
    with_recipe,
)
from advisor.evidence.serving.speculation import speculating, speculation_of
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.deployment import Deployment, activation_dtype_for, cache_dtype_of, is_local
from advisor.simulator.device import with_power_cap
from advisor.simulator.engine_costs import EngineCosts
from advisor.simulator.graph.model import is_moe
from advisor.simulator.local_surface import back_end, divides_batches, micro_batch_tokens
from advisor.simulator.replica_model import (
    EngineSettings,
    ReplicaModel,
    as_served,
    engine_defaults,
    model_replica,
)

_RAISED_MEMORY_FRACTION: Final = 0.97
"""Memory fraction that users set if the weights leave no room below an engine's default."""
_LEAST_SEQUENCES: Final = 32
"""Number of requests that the cache of a replica must hold before a submitter would call a layout good."""
_DEGREES: Final = (1, 2, 4, 8, 16, 32, 64)
_GRAPHICS_LANES: Final = 16
"""PCIe lanes that a desktop processor gives to graphics cards."""
_FEWEST_LANES: Final = 4
"""Fewest lanes that boards and risers leave to each card if more than four share them."""


def replica_of(
    case: ServingCase, *, costs: EngineCosts | None = None, calibration: Calibration | None = None
) -> ReplicaModel:
    """Return the replica that a case describes.

    Raises: AdvisorError: a name is unknown, a mechanism is not modelled, or it does not fit.
    """
    deployment = deployment_of(case, calibration)
    chosen = speculation_of(case, deployment)
    settings = EngineSettings(
        max_num_seqs=_max_num_seqs(case, deployment),
        max_num_batched_tokens=case.max_num_batched_tokens,
        micro_batch_tokens=_micro_batch_tokens(case, deployment),
        memory_fraction=case.memory_fraction,
        enforce_eager=case.enforce_eager,
        slow_host=case.slow_host,
        prefix_caching=not case.prefix_cache_off,
        version=case.engine_version,
        date=case.date,
    )
    recipe = recipe_for(case, deployment)
    deployment = as_started(deployment, recipe)
    settings = with_recipe(settings, case, deployment, recipe)
    scale = mean_share(case)
    own_costs = costs_of(case, deployment, costs, recipe)

    def start_replica(settings: EngineSettings) -> ReplicaModel:
        return model_replica(
            deployment,
            mean_input_tokens=max(1.0, scale * case.isl),
            mean_output_tokens=max(1.0, scale * case.osl),
            context_spread=spread_of_contexts(case),
            settings=settings,
            costs=own_costs,
        )

    try:
        replica = start_replica(settings)
    except InfeasibleError:
        if not case.weights_stated and deployment.weight_dtype == "bf16":
            # The measured run did fit, so its weights had fewer bits: the 16 bits only stand for an unstated format.
            eight = replace(case, weight_dtype="fp8", weights_stated=True)
            return replica_of(eight, costs=costs, calibration=calibration)
        # A published run did fit: its memory fraction was raised, where that is an option and not computed.
        if case.view == "stranger" or not _memory_is_an_option(deployment.engine):
            raise
        replica = start_replica(replace(settings, memory_fraction=_RAISED_MEMORY_FRACTION))
    replica = as_served(replica, calibration)
    started = with_admission_wait(speculating(replica, case, chosen, settings), case, recipe)
    return _with_intake(started, scale * case.isl)


def _with_intake(replica: ReplicaModel, mean_input_tokens: float) -> ReplicaModel:
    """Return a replica whose server takes requests in one after the other, since a benchmark's clients begin at once.
    Each attention data-parallel rank has a front end of its own.

    Source: engine costs, intake_s and prompt_token_s; vLLM, --api-server-count.
    """
    intake_s = replica.costs.intake_s + replica.costs.prompt_token_s * max(1.0, mean_input_tokens)
    intake_ps = round(intake_s / replica.deployment.data_parallel * PICOSECONDS_PER_S)
    return replace(replica, policy=replace(replica.policy, intake_ps=intake_ps))


def _memory_is_an_option(engine: Engine) -> bool:
    return engine.memory_fraction < _RAISED_MEMORY_FRACTION


def deployment_of(case: ServingCase, calibration: Calibration | None = None) -> Deployment:
    """Return the deployment that a case describes.

    Raises: UnknownNameError: model, accelerator or engine is not in the catalog.
    """
    model, found, engine = _records(case.model, case.gpu, case.engine)
    accelerator = calibrated_accelerator(found, calibration)
    weight = case.weight_dtype
    if weight not in DTYPES:
        raise AdvisorError(f"weight format {weight} is not modelled")
    if weight in EXL3_DTYPES and weight not in engine.weight_dtypes:
        raise AdvisorError(f"weight format {weight} is not read by {engine.id}")
    if case.kv_dtype != "auto" and not set(cache_halves(case.kv_dtype)) <= set(CACHE_DTYPES):
        raise AdvisorError(f"cache format {case.kv_dtype} is not modelled")
    served = served_model(by_its_publisher(model, engine, weight), engine, weight, found)
    deployment = Deployment(
        model=with_storage(model, served),  # a row states the format of its activations itself
        accelerator=with_power_cap(
            in_own_machine(accelerator, case.num_gpus, case.power_cap_w), case.power_cap_w
        ),
        engine=engine,
        tensor_parallel=case.tp,
        pipeline_parallel=case.pp,
        data_parallel=case.dp,
        expert_parallel=_expert_parallel(case, model),
        weight_dtype=weight,
        activation_dtype=activation_dtype_for(weight, accelerator),
        kv_dtype=_cache_dtype(case, served, engine, found),
        is_calibrated=accelerator is not found,
        ranks_per_node=_ranks_per_node(case),
    )
    return as_stored(deployment, case)


@lru_cache(maxsize=1024)
def _records(model: str, gpu: str, engine: str) -> tuple[Model, Accelerator, Engine]:
    record = models.get(model).record
    if record.repository and not is_quantised(record.repository):
        # A table names a family by one of its repositories, and the format of what was served in another column.
        record = models.by_id(record.id)
    return record, accelerators.by_id(gpu), engines.get(engine).record


def by_its_publisher(model: Model, engine: Engine, weight_dtype: str) -> Model:
    """Return the model without the checkpoints of others if the engine loads one of its own publisher in the weight
    format: a table names a model by its publisher, and a vendor's checkpoint by the vendor.

    Source: hf_ids of the model record, of which the first is its publisher's; data/support/checkpoints.csv.
    """
    publisher = model.hf_ids[0].partition("/")[0] if model.hf_ids else ""
    own = tuple(name for name in model.hf_ids if name.partition("/")[0] == publisher)
    loads = {one.repository for one in loadable_checkpoints(model, weight_dtype, engine.id)}
    return model.model_copy(update={"hf_ids": own}) if loads & set(own) else model


def _cache_dtype(case: ServingCase, served: Model, engine: Engine, accelerator: Accelerator) -> str:
    """Return the cache's format of a row; where the row states none, the one that the engine gives the checkpoint.

    Source: cache_dtype_of.
    """
    if case.kv_dtype == "auto":
        return cache_dtype_of(served, engine, accelerator)
    return "bf16" if case.kv_dtype == "fp16" else case.kv_dtype


def _expert_parallel(case: ServingCase, model: Model) -> int:
    if not is_moe(model):
        return 1
    ranks = case.tp * case.dp
    return case.ep if ranks % case.ep == 0 else 1


def _ranks_per_node(case: ServingCase) -> int | None:
    """Number of accelerators of each machine if one replica is spread over all machines of a row; None otherwise."""
    spread = case.mode != "disagg" and case.tp * case.pp * case.dp == case.num_gpus
    if not spread or case.num_nodes == 1 or case.num_gpus % case.num_nodes:
        return None
    return case.num_gpus // case.num_nodes


def _micro_batch_tokens(case: ServingCase, deployment: Deployment) -> int | None:
    engine = deployment.engine
    vendor = deployment.accelerator.vendor
    if not is_local(engine):
        return None
    if case.micro_batch_tokens and divides_batches(engine):
        return case.micro_batch_tokens
    return micro_batch_tokens(engine, back_end(case.engine_version, vendor), case.context_depth)


def _max_num_seqs(case: ServingCase, deployment: Deployment) -> int | None:
    if case.max_num_seqs or case.view == "stranger":
        return case.max_num_seqs
    usual = engine_defaults(deployment, case.engine_version).max_num_seqs
    if case.load in ("closed", "static_batch", "step") and (case.concurrency or 0) > usual:
        # Benchmarks start the engine with room for their highest concurrency.
        return case.concurrency
    return None


def in_own_machine(accelerator: Accelerator, num_gpus: int, power_cap_w: float | None) -> Accelerator:
    """Return the accelerator in its slot: desktop cards under a power limit share the 16 lanes of a desktop processor.

    Servers give every card all of its lanes. Cards that read each other over PCIe are made for servers and
    workstations, where lanes are not scarce.

    Assumes: boards divide lanes evenly: 8 for each of two cards, 4 for each of four, never fewer.
    Raises: ValueError: there is no accelerator.
    Source: Intel Core and AMD Ryzen datasheets: one x16, two x8 or, by risers, four x4 for graphics.
    """
    if num_gpus < 1:
        raise ValueError(f"a machine needs at least one accelerator, not {num_gpus}")
    if power_cap_w is None or accelerator.pcie_peer_to_peer or accelerator.pcie_lanes is None:
        return accelerator
    lanes = max(_FEWEST_LANES, _GRAPHICS_LANES // num_gpus)
    return accelerator.model_copy(update={"pcie_lanes": min(lanes, accelerator.pcie_lanes)})


def as_submitted(case: ServingCase) -> ServingCase:
    """Return a case without a published layout as contest submitters run it: weights in few bits come with an 8-bit
    cache, which holds twice the requests. A third-party server keeps the defaults of its release.

    Source: MLPerf Inference v5.1 and v6.1 submissions of Llama-2-70B and Llama-3.1-8B.
    """
    accelerator = accelerators.by_id(case.gpu)
    engine = engines.get(case.engine).record
    few_bits = case.weight_dtype not in ("bf16", "fp16", "fp32")
    native = "fp8" in accelerator.peak_flop_per_s and "fp8" in engine.kv_dtypes
    if case.view == "stranger" or case.kv_dtype != "auto" or not (few_bits and native):
        return case
    return replace(case, kv_dtype="fp8")


def smallest_layout(
    case: ServingCase, *, costs: EngineCosts | None = None, calibration: Calibration | None = None
) -> tuple[ServingCase, ReplicaModel]:
    """Return the smallest replica that holds the weights and a useful number of requests, as a case and as a model.

    Assumes: submitters of throughput runs divide a model no further than they must.

    Raises: InfeasibleError: no layout fits.

    Source: MLPerf Inference v5.1 submissions of Llama-2-70B run so.
    """
    tried: list[tuple[int, ServingCase, ReplicaModel]] = []
    refused: InfeasibleError | None = None
    for tp in _DEGREES:
        if case.num_gpus % tp:
            continue
        layout = replace(case, tp=tp)
        try:
            replica = replica_of(layout, costs=costs, calibration=calibration)
        except InfeasibleError as error:
            refused = error
            continue
        room = replica.memory.kv_capacity_tokens // max(1, case.isl + case.osl)
        if room >= _LEAST_SEQUENCES:
            return layout, replica
        tried.append((room, layout, replica))
    if not tried:
        raise refused or InfeasibleError(f"{case.case_id}: no layout fits")
    return max(tried, key=lambda entry: entry[0])[1:]


def share_of(case: ServingCase, num_replicas: int) -> ServingCase:
    """Return the load of one of equal replicas.

    Assumes: requests are dealt out evenly.
    """

    def part(number: int | None) -> int | None:
        return None if number is None else max(1, round(number / num_replicas))

    rate = None if case.request_rate is None else case.request_rate / num_replicas
    return replace(
        case,
        concurrency=part(case.concurrency),
        num_requests=part(case.num_requests),
        request_rate=rate,
    )
