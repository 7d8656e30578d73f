"""Run one stated deployment under one load."""

import time
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.errors import InfeasibleError
from advisor.cli.measures import parse_seconds
from advisor.cli.scenario_input import LoadInput
from advisor.cli.serve_input import DeploymentInput, LoadPlan, as_inputs, deployment_of, load_of
from advisor.render.answer import Answer
from advisor.render.atomic import check_writable, write_text
from advisor.render.files import csv_text
from advisor.render.serve_view import ServeRun, serve_answer
from advisor.simulator.deployment import Deployment
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving import ServingResult, Slo, simulate
from advisor.simulator.serving_prediction import predicted


@dataclass(frozen=True, slots=True)
class RunInput:
    """How to run it, as typed."""

    length_dist: str | None
    num_requests: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    ttft: str | None
    tpot: str | None
    step_by_step: bool
    records: Path | None


def run_serving(typed: DeploymentInput, load: LoadInput, how: RunInput, seed: int) -> Answer:
    """Simulate one replica under its share of the load; writes the request records if asked.

    Raises: AdvisorError and its kinds: something typed is malformed or unknown, the model does not fit, or no
        request can be served.
    """
    if how.records is not None:
        check_writable(how.records)
    slo = _slo(how)
    deployment, notes = deployment_of(typed)
    plan = load_of(load, how.length_dist, how.num_requests, deployment.num_replicas)
    replica = _replica(deployment, plan, how)
    started = time.perf_counter()
    result = simulate(
        replica.surface,
        replica.policy,
        plan.workload,
        jump=not how.step_by_step,
        records=how.records is not None,
        seed=seed,
        slo=slo,
    )
    wall_s = time.perf_counter() - started
    _check_served(result)
    if how.records is not None and result.records is not None:
        write_text(how.records, csv_text(result.records.rows()))
        notes = (*notes, f"wrote {how.records}")
    prediction = predicted(result, replica, num_replicas=deployment.num_replicas)
    run = ServeRun(replica, result, prediction, wall_s)
    return serve_answer(run, plan.traffic, as_inputs(deployment, plan), notes)


def _slo(how: RunInput) -> Slo | None:
    ttft_s = parse_seconds(how.ttft, "--ttft") if how.ttft else None
    tpot_s = parse_seconds(how.tpot, "--tpot") if how.tpot else None
    return Slo(ttft_s=ttft_s, tpot_s=tpot_s) if ttft_s or tpot_s else None


def _replica(deployment: Deployment, plan: LoadPlan, how: RunInput) -> ReplicaModel:
    return model_replica(
        deployment,
        mean_input_tokens=plan.mean_input_tokens,
        mean_output_tokens=plan.mean_output_tokens,
        max_context_tokens=plan.longest_request_tokens,
        settings=EngineSettings(how.max_num_seqs, how.max_num_batched_tokens),
    )


def _check_served(result: ServingResult) -> None:
    if not result.num_finished:
        raise InfeasibleError(
            f"none of {result.num_requests} requests can be served",
            why="each is longer than the KV cache or the engine's longest context",
            fix="more accelerators per replica, a smaller format, or shorter requests",
        )
