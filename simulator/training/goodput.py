"""Goodput: the part of a training run that failures leave; failure rates by scale, checkpoints, the best interval,
restart, spot, shrink."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

from advisor.catalog.units import DAY_S, GB, HOUR_S, MICROSECOND_S

ACCELERATOR_MTBF_S: Final = 50_000.0 * HOUR_S
"""Mean time between interruptions of one accelerator with its share of host and network [s]: 419 unexpected ones in 54
days on 16 384 H100s are one per 50 700 h (Llama Team 2024, arXiv:2407.21783, section 3.3.4)."""
RESTART_S: Final = 600.0
"""Time of detecting, isolating, rescheduling and starting again, without loading [s]: under ten minutes (MegaScale,
arXiv:2402.15627, section 6.3)."""
STORAGE_BYTES_PER_S_PER_NODE: Final = 1.0 * GB
"""Sustained write rate of one node [bytes/s]: 2 TB/s over about 2 000 nodes (Llama Team 2024, section 3.3.1)."""
HOST_COPY_BYTES_PER_S: Final = 20.0 * GB
"""Copy rate of one accelerator's state to host memory over PCIe 4 or 5 from pinned buffers, several copying at a time
[bytes/s]."""
SPOT_INTERRUPTIONS_PER_NODE_S: Final = 1.0 / DAY_S
"""Spot interruptions per node [1/s]: one a day and node. Own assumption; providers publish monthly bands at most."""
REPLACEMENT_S: Final = 1800.0
"""Time until a lost node is back if training goes on without it [s]."""
_LEAST_STALL_FRACTION: Final = 0.001
"""Smallest stall of an asynchronous checkpoint, as a fraction of its write time (contention)."""
SNAPSHOT_S: Final = 5.0
"""Time for which an asynchronous checkpoint stops training beyond the copy of the state [s]: ranks agree on who writes
what and build the record of it. A 7B model stopped for 6.3 s (PyTorch blog, Reducing Model Checkpointing Times by Over
10x, 2024-06-12), of which the copy at HOST_COPY_BYTES_PER_S is below 1.5 s."""
WRITING_FRACTION: Final = 0.1
"""Fraction of the time in which checkpoints may occupy the storage, which also reads data, deletes old checkpoints and
serves other jobs. Own assumption; at 0.2 the goodput of 405B on 512 accelerators rises by 0.1 %."""


@dataclass(frozen=True, slots=True)
class CheckpointMethod:
    """Way in which the state of a run is saved."""

    state_bytes: float
    """Size of the whole state [bytes]: master weights, moments, and the copy in the format of the computation."""
    num_nodes: int
    num_accelerators: int
    asynchronous: bool = True
    """Whether a checkpoint is written during computation: training stops only while the state is copied to host
    memory."""
    sharded: bool = True
    """Whether every node writes its part; otherwise one node writes all."""
    storage_bytes_per_s_per_node: float = STORAGE_BYTES_PER_S_PER_NODE
    storage_bytes_per_s: float = math.inf
    """Rate that the file system takes from all nodes together [bytes/s]."""

    @property
    def write_s(self) -> float:
        """Time until the state is safe [s]: bytes over the rate that the writing nodes and the file system carry."""
        nodes = self.num_nodes if self.sharded else 1
        rate = min(nodes * self.storage_bytes_per_s_per_node, self.storage_bytes_per_s)
        return self.state_bytes / rate

    @property
    def stall_s(self) -> float:
        """Time for which training stops for a checkpoint [s]: the whole write, or a snapshot and the copy to the host.

        A snapshot costs no more than the write that it replaces.
        """
        if not self.asynchronous:
            return self.write_s
        writers = self.num_accelerators if self.sharded else 1
        return min(self.write_s, SNAPSHOT_S + self.state_bytes / (writers * HOST_COPY_BYTES_PER_S))

    @property
    def least_interval_s(self) -> float:
        """Shortest time between checkpoints that the storage bears [s]: it writes for WRITING_FRACTION of the time."""
        return self.write_s / WRITING_FRACTION


@dataclass(frozen=True, slots=True)
class FailureModel:
    """Failures of a run, and the cost of an interruption."""

    mtbf_s: float
    """Mean time between failures of the whole cluster [s]."""
    checkpoint_stall_s: float
    checkpoint_write_s: float = 0.0
    """Time until a checkpoint is safe [s]; the stall if it is synchronous."""
    restart_s: float = RESTART_S
    """Time from the failure to the first new step, loading included [s]."""
    least_interval_s: float = 0.0
    """Shortest time between checkpoints that the storage bears [s]; 0 is that of a write."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """Fraction of the time that becomes progress, and the fractions of all losses; the fractions add up to 1."""

    goodput_fraction: float
    checkpoint_fraction: float
    replay_fraction: float
    """Fraction of the time in work done twice, because it was lost."""
    restart_fraction: float
    lost_capacity_fraction: float
    """Fraction of the capacity missing while training goes on without some nodes."""
    interval_s: float
    """Time between checkpoints [s]."""
    mtbf_s: float
    num_interruptions_per_day: float


def cluster_mtbf_s(num_accelerators: int, accelerator_mtbf_s: float = ACCELERATOR_MTBF_S) -> float:
    """Mean time between failures of a cluster [s]: that of one accelerator over their number.

    Assumes: independent exponential failures, each stopping the whole job.
    Source: minimum of exponential variables; the scale of Llama Team 2024, arXiv:2407.21783.
    """
    return accelerator_mtbf_s / num_accelerators


def young_interval_s(mtbf_s: float, checkpoint_s: float) -> float:
    """Checkpoint interval that wastes least, to first order [s]: √(2 · checkpoint · MTBF).

    Source: Young 1974, A first order approximation to the optimum checkpoint interval, CACM 17(9).
    """
    return math.sqrt(2.0 * checkpoint_s * mtbf_s)


def daly_interval_s(mtbf_s: float, checkpoint_s: float) -> float:
    """Checkpoint interval that wastes least, to higher order [s].

    √(2δM) · (1 + √(δ/2M)/3 + (δ/2M)/9) − δ for δ < 2M, else M.

    Source: Daly 2006, A higher order estimate of the optimum checkpoint interval, FGCS 22, equation 37.
    """
    if checkpoint_s >= 2.0 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2.0 * mtbf_s)
    return (
        young_interval_s(mtbf_s, checkpoint_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - checkpoint_s
    )


def expected_wall_s(work_s: float, interval_s: float, model: FailureModel) -> float:
    """Expected time of `work_s` of work under random failures [s].

    Every interval τ and its stall δ must pass without a failure; a failure costs the restart R, which can fail too,
    and the work that was not yet safe. With synchronous checkpoints, M e^{R/M} (e^{(τ + δ)/M} − 1) per interval. A
    checkpoint that is being written during computation when a failure strikes (w beyond the stall) is lost as well:
    w / M more per interval.

    Assumes: exponential failures of mean M; a checkpoint is complete before the next begins.
    Raises: ValueError: an interval that is not positive.
    Source: Daly 2006, equation 20; the term of asynchronous writing is its first-order addition.
    """
    if not interval_s > 0:
        raise ValueError(f"interval_s must be positive, not {interval_s}")
    mean = model.mtbf_s
    segment_s = interval_s + model.checkpoint_stall_s
    exponent = (segment_s + model.restart_s) / mean
    if exponent > 500.0:
        return math.inf
    whole = mean * math.exp(model.restart_s / mean) * math.expm1(segment_s / mean)
    behind_s = max(0.0, model.checkpoint_write_s - model.checkpoint_stall_s)
    return work_s / interval_s * whole * (1.0 + behind_s / mean)


def best_interval_s(model: FailureModel) -> float:
    """Checkpoint interval with the least expected time [s]: Daly's, or longer if a write takes longer or the storage
    bears no more.

    Source: daly_interval_s.
    """
    stall_s = max(model.checkpoint_stall_s, _LEAST_STALL_FRACTION * model.checkpoint_write_s, MICROSECOND_S)
    return max(daly_interval_s(model.mtbf_s, stall_s), model.checkpoint_write_s, model.least_interval_s)


def goodput(model: FailureModel, interval_s: float | None = None) -> Goodput:
    """Return the fraction of the time that becomes progress, at the best interval unless one is given [fraction].

    Source: expected_wall_s; the shares of checkpoints and restarts counted, replay as the remainder.
    """
    interval = interval_s or best_interval_s(model)
    wall_s = expected_wall_s(interval, interval, model)
    if math.isinf(wall_s):
        return Goodput(0.0, 0.0, 0.0, 1.0, 0.0, interval, model.mtbf_s, DAY_S / model.mtbf_s)
    useful = interval / wall_s
    checkpoint = model.checkpoint_stall_s / wall_s
    # Failures during restarts repeat them: e^{R/M} − 1 restarts' worth of time per failure-free segment.
    failures = math.exp(model.restart_s / model.mtbf_s) * math.expm1(
        (interval + model.checkpoint_stall_s) / model.mtbf_s
    )
    restart = min(failures * model.restart_s / wall_s, max(0.0, 1.0 - useful - checkpoint))
    return Goodput(
        goodput_fraction=useful,
        checkpoint_fraction=checkpoint,
        replay_fraction=max(0.0, 1.0 - useful - checkpoint - restart),
        restart_fraction=restart,
        lost_capacity_fraction=0.0,
        interval_s=interval,
        mtbf_s=model.mtbf_s,
        num_interruptions_per_day=DAY_S / model.mtbf_s,
    )


def with_spot(model: FailureModel, num_nodes: int, interruptions_per_node_s: float) -> FailureModel:
    """Return the model with nodes that the provider takes back: both rates add up.

    Source: superposition of Poisson processes.
    """
    rate = 1.0 / model.mtbf_s + num_nodes * interruptions_per_node_s
    return replace(model, mtbf_s=1.0 / rate)


def elastic_goodput(
    model: FailureModel,
    num_nodes: int,
    nodes_per_replica: float,
    *,
    replacement_s: float = REPLACEMENT_S,
    reshape_s: float = 60.0,
) -> Goodput:
    """Return the fraction of the time that becomes progress if training goes on without the lost replica [fraction].

    A failure costs a reshaping and, until the node is back, the data-parallel replica it belongs to: on average rate ·
    replacement time nodes are out, each taking a whole replica. No work is lost except the step under way, as the other
    replicas hold the state.

    Assumes: at least one whole replica remains; losses are few enough not to meet in one replica.
    Source: Little's law for the nodes that are out; elastic data parallelism as in TorchFT.
    """
    out = replacement_s / model.mtbf_s
    lost = min(1.0, out * max(1.0, nodes_per_replica) / num_nodes)
    reshaping = min(1.0, reshape_s / model.mtbf_s)
    interval = best_interval_s(model)
    checkpoint = model.checkpoint_stall_s / (interval + model.checkpoint_stall_s)
    useful = (1.0 - reshaping) * (1.0 - checkpoint) * (1.0 - lost)
    return Goodput(
        goodput_fraction=useful,
        checkpoint_fraction=(1.0 - reshaping) * checkpoint,
        replay_fraction=0.0,
        restart_fraction=reshaping,
        lost_capacity_fraction=(1.0 - reshaping) * (1.0 - checkpoint) * lost,
        interval_s=interval,
        mtbf_s=model.mtbf_s,
        num_interruptions_per_day=DAY_S / model.mtbf_s,
    )


def straggler_factor(num_ranks: int, spread_fraction: float) -> float:
    """Ratio of the time of a synchronous step to that of a mean rank: the step waits for the slowest of n ranks.

    1 + spread · E[max of n standard normals] with Blom's approximation Φ⁻¹((n − 0.375)/(n + 0.25)).

    Assumes: ranks differ normally with this standard deviation relative to the mean, for the whole run.
    Source: Blom 1958, Statistical Estimates and Transformed Beta-Variables.
    """
    if num_ranks <= 1 or spread_fraction <= 0:
        return 1.0
    return 1.0 + spread_fraction * NormalDist().inv_cdf((num_ranks - 0.375) / (num_ranks + 0.25))
