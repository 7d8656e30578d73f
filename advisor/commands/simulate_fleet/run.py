"""Simulate the fleet of a file under its load."""

import datetime
import os
import time
from dataclasses import replace

import numpy as np

from advisor.ask.deployment import deployment_of
from advisor.ask.options import LayoutOptions, SharedOptions
from advisor.ask.own_data import given_calibration, kept_prices
from advisor.catalog import accelerators, models
from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.catalog.schema import Calibration
from advisor.commands.simulate_fleet.fleet_file import (
    ColdStartTable,
    FleetFile,
    PoolTable,
    file_text,
    read_fleet,
)
from advisor.commands.simulate_fleet.load import load_of_file
from advisor.commands.simulate_fleet.options import FleetInput
from advisor.commands.simulate_fleet.view import FleetRun, ReplicaBill, fleet_answer
from advisor.decide.offers import cheapest_placement
from advisor.render.answer import Answer, Figure
from advisor.render.atomic import check_writable, write_text
from advisor.render.calibration_view import with_calibration
from advisor.render.frame import csv_text
from advisor.simulator.deployment import Deployment
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.serving.fleet import ColdStart, Deploy, Failures, Fleet, Pool, Scaling, SpotLoss
from advisor.simulator.serving.fleet_result import FleetResult
from advisor.simulator.serving.fleet_simulation import is_separable, simulate_fleet, simulate_in_parts
from advisor.simulator.serving.lengths import spread_while_decoding
from advisor.simulator.serving.load import FleetLoad

_MANY = 200_000
"""Requests from which on starting further processes pays."""
_LONGEST_PERCENT = 99.9
"""Percentile of a pool's request lengths that a replica must be able to hold; longer ones may be refused."""


def fleet(asked: FleetInput, shared: SharedOptions) -> Answer:
    """Simulate a fleet, writing the request records if asked; or show its file.

    Raises: AdvisorError and its kinds: the file is wrong, a model does not fit, or nothing can be served.
    """
    if asked.show:
        text = file_text(asked.description)
        return Answer(
            result={"file": text}, inputs={"fleet": asked.description}, blocks=(Figure(text.rstrip()),)
        )
    if asked.records is not None:
        check_writable(asked.records)
    file, path = read_fleet(asked.description)
    calibration = given_calibration(shared.calibration)
    load = load_of_file(file.load, shared.seed, path.parent, models.get(file.model).record)
    built = [_pool(file, table, load, shared.as_of, calibration) for table in file.pools]
    planned = Fleet(pools=tuple(pool for pool, _, _ in built), router=file.router)
    started = time.perf_counter()
    result = _simulate(planned, load, file, asked, shared.seed)
    wall_s = time.perf_counter() - started
    if not sum(pool.num_finished for pool in result.pools):
        raise InfeasibleError(
            f"none of {result.num_requests} requests can be served",
            why="each is longer than the KV cache of every pool that takes it, or was rejected",
            fix="more accelerators per replica, a smaller format, or shorter requests",
        )
    notes = tuple(dict.fromkeys(_notes(file)))
    if asked.records is not None and result.records is not None:
        write_text(asked.records, csv_text(result.records.rows()))
        notes = (*notes, f"wrote {asked.records}")
    run = FleetRun(
        result, tuple(replica for _, replica, _ in built), tuple(bill for *_, bill in built), wall_s
    )
    answer = fleet_answer(run, file, notes)
    return with_calibration(
        answer, calibration, tuple(replica.deployment.accelerator.id for _, replica, _ in built)
    )


def _simulate(fleet: Fleet, load: FleetLoad, file: FleetFile, asked: FleetInput, seed: int) -> FleetResult:
    """Simulate in several processes if replicas are independent and it saves time; the records are the same."""
    records = asked.records is not None
    separable = is_separable(fleet, load) and not asked.step_by_step
    processes = asked.processes or (min(8, os.cpu_count() or 1) if separable and len(load) >= _MANY else 1)
    if processes > 1 and not separable:
        raise AdvisorError(
            f"--processes {processes}: the replicas of this fleet depend on each other",
            why="only one pool with router round_robin, without scaling, losses, deploys, limits or sessions",
            fix="--processes 1",
        )
    if separable:
        return simulate_in_parts(
            fleet, load, num_processes=processes, records=records, interval_s=file.interval
        )
    return simulate_fleet(
        fleet, load, jump=not asked.step_by_step, records=records, seed=seed, interval_s=file.interval
    )


def _pool(
    file: FleetFile, table: PoolTable, load: FleetLoad, as_of: datetime.date, calibration: Calibration | None
) -> tuple[Pool, ReplicaModel, ReplicaBill]:
    """Return a pool, what one of its replicas is, and what that costs."""
    names = ("tp", "pp", "ep", "dp", "replicas", "precision", "kv_precision", "engine")
    layout = LayoutOptions(**{name: getattr(table, name) for name in names})
    deployment, _ = deployment_of(file.model, table.gpu, layout)
    mean_input, mean_output, longest, spread = _traffic(table, load)
    replica = model_replica(
        deployment,
        mean_input_tokens=mean_input,
        mean_output_tokens=mean_output,
        max_context_tokens=longest,
        context_spread=spread,
        settings=EngineSettings(table.max_num_seqs, table.max_num_batched_tokens),
        calibration=calibration,
    )
    if table.prefix_caching is not None:
        policy = replace(replica.policy, prefix_caching=table.prefix_caching)
        replica = replace(replica, policy=policy)
    bill = _bill(table, deployment, as_of)
    pool = Pool(
        name=table.name,
        surface=replica.surface,
        policy=replica.policy,
        num_replicas=table.replicas,
        usd_per_hour=bill.usd_per_hour,
        min_input_tokens=table.prompts_from,
        max_input_tokens=table.prompts_to,
        tenants=table.tenants,
        spill_above=table.spill_above,
        max_outstanding=table.max_outstanding,
        order=table.order,
        cold_start=_cold_start(table.cold_start, replica),
        scaling=_scaling(table),
        failures=_failures(table),
        spot=_spot(table),
        deploys=tuple(
            Deploy(at_s=deploy.at, at_a_time=deploy.at_a_time, surge=deploy.surge) for deploy in table.deploys
        ),
    )
    return pool, replica, bill


def _scaling(table: PoolTable) -> Scaling | None:
    said = table.scaling
    if said is None:
        return None
    return Scaling(
        metric=said.metric,
        target=said.target,
        min_replicas=said.min,
        max_replicas=said.max,
        interval_s=said.interval,
        tolerance=said.tolerance,
        down_window_s=said.down_after,
    )


def _failures(table: PoolTable) -> Failures | None:
    said = table.failures
    return None if said is None else Failures(mtbf_s=said.mtbf, repair_s=said.repair)


def _spot(table: PoolTable) -> SpotLoss | None:
    said = table.spot
    if said is None:
        return None
    return SpotLoss(mean_life_s=said.mean_life, notice_s=said.notice, wait_s=said.wait)


def _cold_start(table: ColdStartTable, replica: ReplicaModel) -> ColdStart:
    """Return the cold start of a replica; all its accelerators read the weights at once, each its part."""
    return ColdStart(
        provision_s=table.provision,
        image_bytes=table.image,
        image_bytes_per_s=table.image_per_s or 1.0,
        weight_bytes=replica.memory.weight_bytes if table.weights_per_s else 0.0,
        weight_bytes_per_s=table.weights_per_s or 1.0,
        engine_start_s=table.engine,
    )


def _traffic(table: PoolTable, load: FleetLoad) -> tuple[float, float, int, float]:
    """Return mean prompt, mean output and a high percentile of the length of the requests that a pool takes [tokens],
    and the spread of the contexts that decode together."""
    taken = load.input_tokens >= table.prompts_from
    if table.prompts_to is not None:
        taken &= load.input_tokens <= table.prompts_to
    if table.tenants and load.tenant_of is not None:
        own = [k for k, tenant in enumerate(load.tenants) if tenant.name in table.tenants]
        taken &= np.isin(load.tenant_of, own)
    if not taken.any():
        raise AdvisorError(
            f"pool {table.name}: no request of the load comes here",
            why="none has the prompt length and tenant that it takes",
            fix="other prompts_from, prompts_to or tenants",
        )
    inputs = load.input_tokens[taken]
    outputs = load.output_tokens[taken]
    longest = np.percentile(inputs.astype(np.int64) + outputs, _LONGEST_PERCENT)
    spread = spread_while_decoding(inputs, outputs)
    return float(inputs.mean()), float(outputs.mean()), int(np.ceil(longest)), spread


def _bill(table: PoolTable, deployment: Deployment, as_of: datetime.date) -> ReplicaBill:
    """Return the bill of one replica: as the file states, or the cheapest offer of the catalog."""
    if table.usd_per_hour is not None:
        return ReplicaBill(table.usd_per_hour, table.provider or "stated", "", table.term, None)
    best = cheapest_placement(
        deployment, as_of, term=table.term, provider=table.provider, price_cache=kept_prices()
    )
    if best is None:
        who = table.provider or "anybody"
        raise AdvisorError(
            f"pool {table.name}: no {table.term} price of {deployment.accelerator.id} from {who}",
            why="the catalog has no such offer that holds a replica",
            fix="usd_per_hour of a replica, another provider or another term",
        )
    price = best.price
    return ReplicaBill(best.usd_per_replica_hour, price.provider, price.sku, price.term, price.observed_on)


def _notes(file: FleetFile) -> list[str]:
    notes = [models.get(file.model).note]
    notes += [accelerators.get(table.gpu).note for table in file.pools]
    return [note for note in notes if note]
