"""Predict published collective times from their conditions, with 80 % intervals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import GIGA, MICROSECOND_S
from advisor.simulator.collectives.expert_parallel import (
    FP8_SCALED_BYTES,
    distinct_holders,
    moe_combine_s,
    moe_dispatch_s,
)
from advisor.simulator.collectives.operations import bus_factor
from advisor.simulator.collectives.prediction import Operation, candidates_s
from advisor.simulator.collectives.spread import interval_factor, spread
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.validation.collective_case import (
    EXPERT_EXCHANGES,
    PEAK_BYTES,
    CollectiveCase,
    UnsupportedCaseError,
    parse_case,
)

_EP_TOKENS: Final = 4096
_EP_HIDDEN: Final = 7168
_EP_EXPERTS_PER_TOKEN: Final = 8
"""The setting in which DeepEP publishes its bandwidths."""
_EXCHANGE_FACTOR: Final = 1.9
"""Half width of the interval of expert exchange: library generations differ by that much."""


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
    time_s = _time_s(case, size)
    factor = interval_factor(case.collective, size, case.topology)
    rate = spread(size / time_s / GIGA, factor, basis)
    metrics = {
        "algbw_gbs": rate,
        "busbw_gbs": rate.scaled(bus_factor(case.collective, case.topology.num_ranks)),
    }
    if case.num_bytes is not None:
        metrics["time_us"] = spread(time_s / MICROSECOND_S, factor, basis)
    return metrics


def _time_s(case: CollectiveCase, size: float) -> float:
    """As nccl-tests would time it [s]: the library's algorithms only."""
    times = candidates_s(cast(Operation, case.collective), np.asarray([size]), case.topology, "nccl")
    return float(min(time[0] for time in times.values()))


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
    return spread(num_bytes / time_s / GIGA, _EXCHANGE_FACTOR, basis)
