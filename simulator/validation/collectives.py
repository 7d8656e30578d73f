"""Predict published collective times from their conditions, with 80 % intervals."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor.catalog.collectives import collective
from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import GIGA, MIB, MICROSECOND_S
from advisor.simulator.collectives.expert_parallel import (
    FP8_SCALED_BYTES,
    distinct_holders,
    moe_combine_s,
    moe_dispatch_s,
)
from advisor.simulator.collectives.operations import (
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    bus_factor,
    reduce_scatter_s,
    send_recv_s,
)
from advisor.simulator.collectives.topology import Topology
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.validation.collective_case import (
    EXPERT_EXCHANGES,
    PEAK_BYTES,
    CollectiveCase,
    UnsupportedCaseError,
    parse_case,
)

_OPERATIONS: Final = {
    "all_gather": all_gather_s,
    "reduce_scatter": reduce_scatter_s,
    "all_to_all": all_to_all_s,
    "broadcast": broadcast_s,
    "send_recv": send_recv_s,
}
_EP_TOKENS: Final = 4096
_EP_HIDDEN: Final = 7168
_EP_EXPERTS_PER_TOKEN: Final = 8
"""The setting in which DeepEP publishes its bandwidths."""
_LARGE_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True)
class CollectivePrediction:
    """The answer to one case, or why there is none."""

    case_id: str
    status: str
    """ok, unsupported or error."""
    reason: str = ""
    basis: Basis = "modelled"
    metrics: Mapping[str, Quantity] = field(default_factory=dict)
    """By the truth's columns and in their units; time only where a message size is given."""


def predict_rows(rows: Iterable[Mapping[str, str]], first_row: int = 2) -> list[CollectivePrediction]:
    """Predictions of all rows, in order; a bad row is reported by its number and does not stop the others.

    Source: own composition of simulator.collectives.
    """
    return [predict_row(row, number) for number, row in enumerate(rows, first_row)]


def predict_row(row: Mapping[str, str], row_number: int) -> CollectivePrediction:
    """Prediction of one row; never raises for what a row can contain.

    Source: own composition of simulator.collectives.
    """
    case_id = (row.get("case_id") or "").strip()
    try:
        case = parse_case(row, row_number)
        metrics = predict_case(case)
    except UnsupportedCaseError as error:
        return CollectivePrediction(case_id, "unsupported", str(error))
    except AdvisorError as error:
        return CollectivePrediction(case_id, "error", error.what)
    reason = f"assumed {', '.join(case.assumptions)}" if case.assumptions else ""
    return CollectivePrediction(case_id, "ok", reason, "assumed" if case.assumptions else "modelled", metrics)


def predict_case(case: CollectiveCase) -> dict[str, Quantity]:
    """time_us, algbw_gbs and busbw_gbs of a case [µs, GB/s].

    Source: own composition of simulator.collectives.
    """
    basis: Basis = "assumed" if case.assumptions else "modelled"
    if case.collective in EXPERT_EXCHANGES:
        return {"busbw_gbs": _exchange_bandwidth(case, basis)}
    size = case.num_bytes or float(PEAK_BYTES)
    time_s = collective_s(case.collective, size, case.topology)
    spread = interval_factor(case.collective, size, case.topology)
    rate = _between(size / time_s / GIGA, spread, basis)
    metrics = {
        "algbw_gbs": rate,
        "busbw_gbs": rate.scaled(bus_factor(case.collective, case.topology.num_ranks)),
    }
    if case.num_bytes is not None:
        metrics["time_us"] = _between(time_s / MICROSECOND_S, spread, basis)
    return metrics


def collective_s(operation: str, num_bytes: float, topology: Topology) -> float:
    """Time of a collective as nccl-tests would time it [s].

    Raises: KeyError: the operation is unknown.
    Source: simulator.collectives.
    """
    if operation == "all_reduce":
        return float(all_reduce_s(num_bytes, topology, algorithm="nccl"))
    return float(_OPERATIONS[operation](num_bytes, topology))


def interval_factor(operation: str, num_bytes: float, topology: Topology) -> float:
    """Factor f such that 80 % of measurements lie in [t / f, t · f].

    Assumes: log-normal errors, one width per class of fabric and size.
    Error: coverage in docs/collectives.md.
    Source: residuals against published measurements, whole sources left out.
    """
    large = num_bytes >= _LARGE_BYTES
    if topology.num_nodes > 1:
        sigma = 0.14 if large else 0.25
        sigma += 0.1 if operation == "all_to_all" else 0.0
    elif topology.intra_fabric.startswith("pcie"):
        sigma = 0.25
    else:
        sigma = 0.07 if large else 0.4
    if collective(topology.fit_fabric, "all_reduce", "nccl").transferred_from:
        sigma += 0.1
    return math.exp(1.2816 * sigma)


def _exchange_bandwidth(case: CollectiveCase, basis: Basis) -> Quantity:
    """Bottleneck bandwidth as DeepEP states it: bytes of all copies, the local ones too, over the time.

    Across nodes the copies are those sent over the network, one per node.
    """
    topology = case.topology
    dispatch = case.collective == "ep_dispatch"
    exchange = moe_dispatch_s if dispatch else moe_combine_s
    time_s = float(exchange(_EP_TOKENS, _EP_HIDDEN, _EP_EXPERTS_PER_TOKEN, topology, mode="normal"))
    holders = topology.num_nodes if topology.num_nodes > 1 else topology.num_ranks
    copies = _EP_TOKENS * distinct_holders(holders, _EP_EXPERTS_PER_TOKEN)
    num_bytes = copies * _EP_HIDDEN * (FP8_SCALED_BYTES if dispatch else 2.0)
    return _between(num_bytes / time_s / GIGA, math.exp(1.2816 * 0.5), basis)


def _between(value: float, factor: float, basis: Basis) -> Quantity:
    return Quantity(value, value / factor, value * factor, basis)
