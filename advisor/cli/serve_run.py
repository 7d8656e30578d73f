"""Run one stated deployment under one load."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration
from advisor.cli.calibration_file import given_calibration
from advisor.cli.measures import parse_seconds
from advisor.cli.options import Shared
from advisor.cli.pools_run import Pools, PoolsInput, pools_of
from advisor.cli.scenario_input import LoadInput
from advisor.cli.serve_input import DeploymentInput, LoadForm, LoadPlan, as_inputs, deployment_of, load_of
from advisor.cli.speculation_run import SpeculationInput, gain_of, speculating_replica
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable, write_text
from advisor.render.calibration_view import with_calibration
from advisor.render.files import csv_text
from advisor.render.serve_view import ServeRun, serve_answer
from advisor.simulator.deployment import Deployment
from advisor.simulator.disaggregation import DisaggregatedModel, with_decode_worker
from advisor.simulator.nearest_layout import nearest_layout
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ServingResult, Slo, Workload, simulate
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.serving.disaggregated import simulate_disaggregated
from advisor.simulator.serving.fleet import RouterRule
from advisor.simulator.serving.trace_files import read_trace
from advisor.simulator.serving_prediction import predicted
from advisor.simulator.speculation_choice import with_acceptance_range


@dataclass(frozen=True, slots=True)
class RunInput:
    """How to run it, as typed."""

    form: LoadForm
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    prefix_caching: bool | None
    ttft: str | None
    tpot: str | None
    router: RouterRule
    step_by_step: bool
    records: Path | None
    speculation: SpeculationInput
    pools: PoolsInput


def run_serving(typed: DeploymentInput, load: LoadInput, how: RunInput, shared: Shared) -> Answer:
    """Simulate a deployment under a load; writes the request records if asked.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the model does not fit, or no
        request can be served.
    """
    if how.records is not None:
        check_writable(how.records)
    slo, calibration = _slo(how), given_calibration(shared.calibration)
    deployment, notes = deployment_of(typed)
    if load.trace is not None:
        model = deployment.model
        read_trace(load.trace).check_fits(model.max_context_tokens, model.id, load.trace)
    plan = load_of(load, how.form)
    pools, plain = _modelled(deployment, plan, how, calibration)
    speculating = speculating_replica(how.speculation, plain, plan, _settings(how))
    replica = plain if speculating is None else speculating.replica
    started = time.perf_counter()
    result = (
        _run(replica, plan.workload, how, shared.seed, slo)
        if pools is None
        else _run_pools(with_decode_worker(pools.model, replica), plan.workload, how, shared.seed, slo)
    )
    wall_s = time.perf_counter() - started
    check_served(result)
    if how.records is not None and result.records is not None:
        write_text(how.records, csv_text(result.records.rows()))
        notes = (*notes, f"wrote {how.records}")
    chosen = None if speculating is None else speculating.chosen
    run = ServeRun(
        replica,
        result,
        with_acceptance_range(predicted(result, replica), chosen),
        wall_s,
        None if speculating is None else gain_of(speculating, plain, plan, result),
        "" if pools is None else pools.words,
    )
    inputs = as_inputs(replica.deployment, plan) | {
        "pools": how.pools if how.pools.is_given else None,
        "router": how.router,
        "prefix_caching": replica.policy.prefix_caching,
        "contents": _contents_of(plan.workload),
    }
    answer = serve_answer(run, plan.traffic, inputs, notes)
    return with_calibration(answer, calibration, (deployment.accelerator.id,))


def _modelled(
    deployment: Deployment, plan: LoadPlan, how: RunInput, calibration: Calibration | None
) -> tuple[Pools | None, ReplicaModel]:
    """Two pools, if any, and the replica or decode worker."""
    if not how.pools.is_given:
        return None, _replica(deployment, plan, how, calibration)
    if how.step_by_step or how.prefix_caching or how.router != "least_outstanding":
        raise AdvisorError(
            "--step-by-step, --prefix-caching and --router are for one pool",
            why="two pools are stepped by events, keep no prefixes here, and send to whoever has least to do",
            fix="drop them, or the options of pools",
        )
    pools = pools_of(how.pools, deployment, plan, _settings(how), calibration)
    return pools, pools.model.decode_worker


def _run_pools(
    model: DisaggregatedModel, workload: Workload, how: RunInput, seed: int, slo: Slo | None
) -> ServingResult:
    records = how.records is not None
    return simulate_disaggregated(
        model.prefill, model.decode, model.link, workload, records=records, seed=seed, slo=slo
    )


def _run(
    replica: ReplicaModel, workload: Workload, how: RunInput, seed: int, slo: Slo | None
) -> ServingResult:
    """One replica needs no router, and is simulated faster without; both give the same records."""
    count = replica.deployment.num_replicas
    return simulate(
        replica.surface,
        replica.policy,
        workload,
        num_replicas=count,
        router=how.router if count > 1 else None,
        jump=not how.step_by_step,
        records=how.records is not None,
        seed=seed,
        slo=slo,
    )


def _contents_of(workload: Workload) -> object:
    """What the prompts have in common, as it is echoed."""
    contents = workload.contents
    return contents if contents is None or isinstance(contents, SharedPrefixes) else "trace"


def _slo(how: RunInput) -> Slo | None:
    ttft_s = parse_seconds(how.ttft, "--ttft") if how.ttft else None
    tpot_s = parse_seconds(how.tpot, "--tpot") if how.tpot else None
    return Slo(ttft_s=ttft_s, tpot_s=tpot_s) if ttft_s or tpot_s else None


def _replica(
    deployment: Deployment, plan: LoadPlan, how: RunInput, calibration: Calibration | None
) -> ReplicaModel:
    try:
        replica = model_replica(
            deployment,
            mean_input_tokens=plan.mean_input_tokens,
            mean_output_tokens=plan.mean_output_tokens,
            max_context_tokens=plan.longest_request_tokens,
            settings=_settings(how),
            calibration=calibration,
        )
    except InfeasibleError as error:
        raise with_nearest_layout(error, deployment, plan.longest_request_tokens) from None
    if how.prefix_caching is None:
        return replica
    return replace(replica, policy=replace(replica.policy, prefix_caching=how.prefix_caching))


def _settings(how: RunInput) -> EngineSettings:
    return EngineSettings(how.max_num_seqs, how.max_num_batched_tokens)


def with_nearest_layout(
    error: InfeasibleError, deployment: Deployment, request_tokens: int
) -> InfeasibleError:
    """The error of a deployment that does not fit, with the smallest layout that does; others as they are."""
    if "--" in (error.fix or ""):
        return error
    found = nearest_layout(deployment, request_tokens)
    if found is None:
        return error
    stages = f" --pp {found.pipeline_parallel}" if found.pipeline_parallel > 1 else ""
    return InfeasibleError(
        error.what,
        why=error.why,
        fix=f"--tp {found.tensor_parallel}{stages}, or {error.fix}",
        hint=error.hint,
    )


def check_served(result: ServingResult) -> None:
    """Refuse a run in which nothing was served.

    Raises: InfeasibleError: no request finished.
    """
    if not result.num_finished:
        raise InfeasibleError(
            f"none of {result.num_requests} requests can be served",
            why="each is longer than the KV cache or the engine's longest context",
            fix="more accelerators per replica, a smaller format, or shorter requests",
        )
