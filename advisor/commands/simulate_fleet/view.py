"""A simulated fleet as an answer."""

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.catalog.schema.record import Record
from advisor.catalog.units import HOUR_S
from advisor.commands.simulate_fleet.charts import fleet_charts
from advisor.decide.bounds import capacity_per_s
from advisor.decide.scenario import Traffic
from advisor.render.answer import Answer, Block, Paragraph, Table, columns
from advisor.render.document import fields_of, pick_attributes
from advisor.render.numbers import (
    LEGEND,
    TIME,
    digits,
    layout_words,
    percent,
    show,
    show_quantity,
    term_words,
    usd,
)
from advisor.render.serve_view import overload_blocks
from advisor.simulator.quantity import Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving.fleet_control import EventKind
from advisor.simulator.serving.fleet_result import FleetResult, PoolResult, TenantResult, TimelineRow
from advisor.simulator.serving.overload import Overload, overload_of_fleet
from advisor.simulator.serving_prediction import (
    predicted_latencies,
    predicted_rate,
    sent_factors,
    with_factors,
)

_ROWS = 16
"""Number of rows of the time series for people; the JSON document has all."""


@dataclass(frozen=True, slots=True)
class ReplicaBill:
    """The cost of one replica of a pool, and the source of the price."""

    usd_per_hour: float
    provider: str
    sku: str
    term: str
    observed_on: datetime.date | None


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A finished run of a fleet, with what each pool's replicas are and cost."""

    result: FleetResult
    replicas: tuple[ReplicaModel, ...]
    bills: tuple[ReplicaBill, ...]
    wall_s: float

    @property
    def overload(self) -> Overload | None:
        """Overload of the fleet at the end of its load; None if it keeps up."""
        return overload_of_fleet(self.result)

    def latencies(self, of: PoolResult | TenantResult, replica: ReplicaModel) -> dict[str, Any]:
        """Return the latencies of a pool or tenant, without those that only say how long an overloaded run was."""
        found = predicted_latencies(of.ttft, of.tpot, of.e2e, replica)
        return found if self.overload is None else {**found, "ttft_s": {}, "e2e_s": {}}

    def rate(self, amount: float) -> Quantity:
        """Return requests or tokens of the whole run per second, with an interval that the load limits [1/s]."""
        result = self.result
        first = self.replicas[0]
        served = predicted_rate(result.num_finished / result.duration_s, first)
        sent_per_s = result.num_finished / self._arrivals_s()
        slower = predicted_rate(1.0, first)
        whole_s = Quantity(1.0, 1.0 / slower.high, 1.0 / slower.low, slower.basis)
        span = sent_factors(
            served,
            sent_per_s,
            whole_s,
            is_overloaded=self.overload is not None,
            capacity_per_s=self._capacity_per_s(),
        )
        return with_factors(predicted_rate(amount / result.duration_s, first), span)

    def _arrivals_s(self) -> float:
        """Return the time in which requests come, to the end of the last interval with an arrival [s]."""
        rows = self.result.timeline
        last = max((at for at, row in enumerate(rows) if row.arrived_per_s > 0.0), default=len(rows) - 1)
        return rows[last + 1].from_s if last + 1 < len(rows) else self.result.duration_s

    def _capacity_per_s(self) -> float:
        """Return the most requests per second of the replicas that were paid for, each pool at its own lengths."""
        hours = self.result.duration_s / HOUR_S
        total = 0.0
        for pool, replica in zip(self.result.pools, self.replicas, strict=True):
            if pool.num_finished:
                traffic = Traffic(
                    mean_input_tokens=max(1, round(pool.input_tokens / pool.num_finished)),
                    mean_output_tokens=max(1, round(pool.output_tokens / pool.num_finished)),
                )
                total += pool.replica_hours / hours * capacity_per_s(replica, traffic)
        return total


def fleet_answer(run: FleetRun, file: Record, notes: tuple[str, ...]) -> Answer:
    """Return latencies, goodput, cost and time series of a fleet."""
    result = run.result
    first = run.replicas[0]
    pools = [
        _pool_record(run, pool, replica, bill)
        for pool, replica, bill in zip(result.pools, run.replicas, run.bills, strict=True)
    ]
    tenants = [_tenant_record(run, tenant) for tenant in result.tenants]
    return Answer(
        result={
            "metrics": {
                "goodput_fraction": result.goodput_fraction,
                "goodput_requests_per_s": result.goodput_fraction * result.num_requests / result.duration_s,
                "requests_per_s": run.rate(result.num_finished),
                "output_tokens_per_s": run.rate(result.output_tokens),
                **pick_attributes(
                    result, "mean_in_system num_finished num_refused num_rejected num_retried usd"
                ),
                "usd_per_hour": HOUR_S * result.usd / result.duration_s,
                "usd_per_million_tokens": _per_token(result.usd_per_million_tokens, first),
                "usd_per_million_output_tokens": _per_token(result.usd_per_million_output_tokens, first),
            },
            "pools": pools,
            "tenants": tenants,
            "overload": run.overload
            and fields_of(run.overload) | {"queue_growth_per_s": run.overload.queue_growth_per_s},
            **pick_attributes(result, "timeline events"),
            "simulation": {
                "num_requests": result.num_requests,
                "num_iterations": sum(pool.num_iterations for pool in result.pools),
                "num_events": sum(pool.num_events for pool in result.pools),
                "duration_s": result.duration_s,
                "wall_s": run.wall_s,
            },
        },
        inputs={"fleet": file},
        blocks=_blocks(run),
        records="timeline",
        warnings=_warnings(run),
        notes=notes,
    )


def _per_token(usd_per_million: float | None, replica: ReplicaModel) -> Quantity | None:
    """Return dollars per token; they err as the tokens do, the other way round."""
    if usd_per_million is None:
        return None
    rate = predicted_rate(1.0, replica)
    return Quantity(usd_per_million, usd_per_million / rate.high, usd_per_million / rate.low, replica.basis)


def _pool_record(
    run: FleetRun, pool: PoolResult, replica: ReplicaModel, bill: ReplicaBill
) -> dict[str, object]:
    deployment = replica.deployment
    return {
        "name": pool.name,
        "accelerator": deployment.accelerator.id,
        "accelerators_per_replica": deployment.accelerators_per_replica,
        "weight_dtype": deployment.weight_dtype,
        "engine": deployment.engine.id,
        "price": bill,
        **pick_attributes(pool, "num_finished num_good num_preemptions num_replicas_started replica_hours"),
        "utilisation": pool.busy_fraction,
        **pick_attributes(pool, "prefix_hit_fraction usd"),
        **run.latencies(pool, replica),
    }


def _tenant_record(run: FleetRun, tenant: TenantResult) -> dict[str, object]:
    names = ("name", "num_finished", "num_turned_away", "output_tokens", "goodput_fraction")
    return pick_attributes(tenant, *names) | run.latencies(tenant, run.replicas[0])


def _blocks(run: FleetRun) -> tuple[Block, ...]:
    result = run.result
    blocks: list[Block] = [
        *overload_blocks(run.overload),
        Paragraph(_headline(run), emphasis=True),
        _pool_table(run),
    ]
    if len(result.tenants) > 1 or result.tenants[0].goodput_fraction is not None:
        blocks.append(_tenant_table(run))
    blocks += [_time_table(result), *fleet_charts(result.timeline)]
    blocks.append(Paragraph("\n".join([*_sentences(result), LEGEND])))
    return tuple(blocks)


def _headline(run: FleetRun) -> str:
    result = run.result
    first = run.replicas[0].deployment
    parts = []
    for pool, replica in zip(result.pools, run.replicas, strict=True):
        deployment = replica.deployment
        words = layout_words(deployment, deployment.accelerator.id, deployment.num_replicas)
        parts.append(f"{pool.name} {words}")
    rate = result.num_requests / result.duration_s
    return (
        f"{first.model.id}: {'; '.join(parts)}; {digits(rate)} requests/s for {show(result.duration_s, TIME)}, "
        f"{usd(HOUR_S * result.usd / result.duration_s)} per hour, "
        f"{usd(result.usd_per_million_tokens)} per million tokens"
    )


def _pool_table(run: FleetRun) -> Table:
    rows = []
    for pool, replica, bill in zip(run.result.pools, run.replicas, run.bills, strict=True):
        latencies = run.latencies(pool, replica)
        rows.append(
            (
                pool.name,
                f"{usd(bill.usd_per_hour)} {term_words(bill.term)}",
                digits(pool.replica_hours),
                percent(pool.busy_fraction),
                percent(pool.num_finished / max(1, run.result.num_finished)),
                percent(pool.prefix_hit_fraction),
                show_quantity(latencies["ttft_s"].get("p99"), TIME),
                show_quantity(latencies["tpot_s"].get("p99"), TIME),
                usd(pool.usd),
            )
        )
    header = (
        "pool | replica/h~ | replica h> | busy> | of requests> | cached>? | p99 TTFT~ | p99 TPOT~ | bill>"
    )
    return Table(columns(header), tuple(rows))


def _tenant_table(run: FleetRun) -> Table:
    rows = []
    for tenant in run.result.tenants:
        latencies = run.latencies(tenant, run.replicas[0])
        rows.append(
            (
                tenant.name,
                f"{tenant.num_finished + tenant.num_turned_away:,}",
                percent(tenant.goodput_fraction),
                show_quantity(latencies["ttft_s"].get("p50"), TIME),
                show_quantity(latencies["ttft_s"].get("p99"), TIME),
                show_quantity(latencies["tpot_s"].get("p99"), TIME),
                f"{tenant.num_turned_away:,}",
            )
        )
    header = "tenant | requests> | kept promise> | p50 TTFT~ | p99 TTFT~ | p99 TPOT~ | turned away>"
    return Table(columns(header), tuple(rows))


def _time_table(result: FleetResult) -> Table:
    """Return the time series in at most _ROWS rows."""
    every = -(-len(result.timeline) // _ROWS)
    rows = []
    for start in range(0, len(result.timeline), every):
        part = result.timeline[start : start + every]
        ttft = [(row.mean_ttft_s, row.arrived_per_s) for row in part if row.mean_ttft_s is not None]
        weight = sum(arrived for _, arrived in ttft)
        mean_ttft = sum(time * arrived for time, arrived in ttft) / weight if weight else None
        rows.append(
            (
                show(part[0].from_s, TIME) if part[0].from_s else "0 s",
                digits(_mean(part, "arrived_per_s")),
                digits(_mean(part, "good_per_s")),
                digits(_mean(part, "output_tokens_per_s")),
                show(mean_ttft, TIME),
                digits(_mean(part, "num_ready")),
                digits(_mean(part, "num_paid")),
            )
        )
    header = "from | requests/s> | kept/s> | tokens/s> | mean TTFT> | serving> | paid>"
    return Table(columns(header), tuple(rows))


def _mean(rows: Sequence[TimelineRow], name: str) -> float:
    values: list[float] = [getattr(row, name) for row in rows]
    return sum(values) / len(values)


def _sentences(result: FleetResult) -> list[str]:
    """Return sentences on the outcome of the requests and of the replicas."""
    found = [
        f"{digits(result.mean_in_system)} requests under way on average; {percent(result.goodput_fraction)} of all "
        f"kept their promise; {usd(result.usd)} in all, {usd(result.usd_per_million_output_tokens)} per million "
        "output tokens."
    ]
    counts = Counter(event.kind for event in result.events)
    words: dict[EventKind, str] = {
        "start": "started",
        "drain": "drained",
        "notice": "given notice",
        "lost": "lost",
        "failed": "failed",
    }
    changes = [f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind]]
    if changes:
        found.append(f"Replicas: {', '.join(changes)}; {result.num_retried} requests began again elsewhere.")
    return found


def _warnings(run: FleetRun) -> tuple[str, ...]:
    found = []
    result = run.result
    if result.num_refused:
        found.append(
            f"{result.num_refused} of {result.num_requests} requests are longer than the KV cache of every pool that "
            "takes them and were refused"
        )
    found += [doubt for replica in run.replicas for doubt in replica.doubts]
    return tuple(dict.fromkeys(found))
