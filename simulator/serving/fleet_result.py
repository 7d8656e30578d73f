"""Results of a simulated fleet: by pool, by tenant, over time, and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.catalog.units import HOUR_S, MILLION, PICOSECONDS_PER_S
from advisor.simulator.serving.distribution import Distribution
from advisor.simulator.serving.fleet import Pool
from advisor.simulator.serving.fleet_control import FleetEvent
from advisor.simulator.serving.fleet_loop import FleetSite
from advisor.simulator.serving.fleet_recorder import Timeline
from advisor.simulator.serving.load import Tenant
from advisor.simulator.serving.metrics import Recorder, Records
from advisor.simulator.serving.pipeline import NEVER


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """Service that a group of requests got: counts, latencies and tokens."""

    name: str
    num_finished: int
    num_good: int
    """Number of requests within the objective of their tenants."""
    input_tokens: int
    output_tokens: int
    ttft: Distribution
    tpot: Distribution
    e2e: Distribution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolResult(Served):
    """Service and bill of one pool."""

    num_preemptions: int
    num_iterations: int
    num_events: int
    prefix_hit_fraction: float | None
    replica_hours: float
    """Paid hours of all replicas: from the beginning of each start to its end, or to the end of the run."""
    busy_fraction: float
    """Fraction of the paid time in which replicas computed."""
    num_replicas_started: int
    """Number of replicas started after the beginning."""
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantResult(Served):
    """Service that one tenant got."""

    num_turned_away: int
    goodput_fraction: float | None
    """Fraction of this tenant's requests, those turned away included, that met the objective."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One interval of the timeline: its requests, and the mean number of replicas that served."""

    from_s: float
    arrived_per_s: float
    finished_per_s: float
    good_per_s: float
    output_tokens_per_s: float
    mean_ttft_s: float | None
    """Mean time to first token of the requests that arrived in the interval [s]."""
    num_ready: float
    num_paid: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetResult:
    """Result of a fleet that served a load to its last request."""

    num_requests: int
    """Number of requests sent: finished, refused and rejected."""
    num_finished: int
    num_refused: int
    """Number of requests longer than any pool that accepts them can hold."""
    num_rejected: int
    """Number of requests turned away because every replica was at its limit."""
    num_retried: int
    """Number of times that a request lost its replica and began again on another."""
    duration_s: float
    """Time from the beginning to the last completion [s]."""
    mean_in_system: float
    """Mean number of requests under way over the duration; Little's law has been checked."""
    goodput_fraction: float
    """Fraction of all requests that finished within their tenant's objective."""
    pools: tuple[PoolResult, ...]
    tenants: tuple[TenantResult, ...]
    timeline: tuple[TimelineRow, ...]
    events: tuple[FleetEvent, ...]
    usd: float
    records: Records | None

    @property
    def output_tokens(self) -> int:
        """Number of output tokens of all requests."""
        return sum(pool.output_tokens for pool in self.pools)

    @property
    def total_tokens(self) -> int:
        """Number of prompt and output tokens of all requests."""
        return self.output_tokens + sum(pool.input_tokens for pool in self.pools)

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Whole bill per million input and output tokens [$]; None without tokens."""
        return MILLION * self.usd / self.total_tokens if self.total_tokens else None

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Whole bill per million output tokens [$]; None without tokens."""
        return MILLION * self.usd / self.output_tokens if self.output_tokens else None


@dataclass(frozen=True, slots=True)
class SiteTally:
    """Service of one replica, and the time for which it existed [ps]."""

    pool_number: int
    started_ps: int
    opened_ps: int
    stopped_ps: int
    """Instant at which the replica stopped [ps]; NEVER if it was still there at the end."""
    num_preemptions: int
    num_iterations: int
    num_events: int
    busy_ps: int
    num_prompt_tokens: int
    num_cached_tokens: int


_WORK = SiteTally.__slots__[4:]


def site_tally(site: FleetSite) -> SiteTally:
    """Return the service of a site so far.

    Source: own definition.
    """
    stopped_ps = NEVER if site.stopped_ps < 0 else site.stopped_ps
    work = {field: getattr(site.replica, field) for field in _WORK}
    return SiteTally(site.pool_number, site.started_ps, site.opened_ps, stopped_ps, **work)


def pool_result(pool: Pool, own: Recorder, sites: Sequence[SiteTally], end_ps: int) -> PoolResult:
    """Return service and bill of a pool.

    Source: own definition.
    """
    paid_ps = sum(min(site.stopped_ps, end_ps) - site.started_ps for site in sites)
    prompts = sum(site.num_prompt_tokens for site in sites)
    return PoolResult(
        **_tenant_figures(pool.name, own),
        num_preemptions=sum(site.num_preemptions for site in sites),
        num_iterations=sum(site.num_iterations for site in sites),
        num_events=sum(site.num_events for site in sites),
        prefix_hit_fraction=sum(site.num_cached_tokens for site in sites) / prompts if prompts else None,
        replica_hours=paid_ps / PICOSECONDS_PER_S / HOUR_S,
        busy_fraction=sum(site.busy_ps for site in sites) / paid_ps if paid_ps else 0.0,
        num_replicas_started=len(sites) - pool.num_replicas,
        usd=paid_ps / PICOSECONDS_PER_S / HOUR_S * pool.usd_per_hour,
    )


def tenant_result(tenant: Tenant, own: Recorder, num_turned_away: int) -> TenantResult:
    """Return the service that a tenant got.

    Source: own definition.
    """
    asked = own.num_finished + num_turned_away
    good = own.num_finished - own.num_violations
    return TenantResult(
        **_tenant_figures(tenant.name, own),
        num_turned_away=num_turned_away,
        goodput_fraction=good / asked if tenant.slo is not None and asked else None,
    )


def _tenant_figures(name: str, own: Recorder) -> dict[str, Any]:
    return {
        "name": name,
        "num_good": own.num_finished - own.num_violations,
        **{
            field: getattr(own, field)
            for field in ("num_finished", "input_tokens", "output_tokens", "ttft", "tpot", "e2e")
        },
    }


def timeline_rows(timeline: Timeline, sites: Sequence[SiteTally], end_ps: int) -> tuple[TimelineRow, ...]:
    """Return the counts of each interval as rates, with the replicas that served in it.

    Source: own definition.
    """
    width = timeline.interval_ps
    width_s = width / PICOSECONDS_PER_S
    rows = []
    for number in range(end_ps // width + 1):
        start = number * width
        stop = min((number + 1) * width, end_ps)
        if stop <= start and number:
            break
        arrived, finished, good, away, tokens, ttft_ps = (int(sums[number]) for sums in timeline.sums)
        length_s = max(stop - start, 1) / PICOSECONDS_PER_S
        ready = sum(_overlap(site.opened_ps, site.stopped_ps, start, stop) for site in sites)
        paid = sum(_overlap(site.started_ps, site.stopped_ps, start, stop) for site in sites)
        rows.append(
            TimelineRow(
                from_s=number * width_s,
                arrived_per_s=arrived / length_s,
                finished_per_s=finished / length_s,
                good_per_s=good / length_s,
                output_tokens_per_s=tokens / length_s,
                mean_ttft_s=ttft_ps / (arrived - away) / PICOSECONDS_PER_S if arrived > away else None,
                num_ready=ready / max(stop - start, 1),
                num_paid=paid / max(stop - start, 1),
            )
        )
    return tuple(rows)


def _overlap(begin: int, end: int, start: int, stop: int) -> int:
    return max(0, min(end, stop) - max(begin, start)) if begin >= 0 else 0
