"""Predictions of published collective times from their conditions, with 80 % intervals."""

from collections.abc import Iterable, Mapping
from typing import Final, cast

import numpy as np

from advisor.catalog.collectives import collective
from advisor.catalog.schema import Calibration
from advisor.catalog.units import GIGA, MICROSECOND_S
from advisor.evidence.collectives.case import EXPERT_EXCHANGES, PEAK_BYTES, CollectiveCase, parse_case
from advisor.evidence.prediction import Prediction, predict_or_report
from advisor.simulator.collectives.alpha_beta import curve_of
from advisor.simulator.collectives.operations import bus_factor
from advisor.simulator.collectives.prediction import Operation, candidates_s, interval_factor, spread
from advisor.simulator.quantity import Basis, Quantity

_EXCHANGE_FACTOR: Final = 1.4
"""Half width of the interval of expert exchange, as a factor: library generations differ by that much."""


def predict_rows(rows: Iterable[Mapping[str, str]]) -> list[Prediction]:
    """Return predictions of all rows, in order; a bad row is reported by its number and does not stop the others."""
    return [predict_row(row, number) for number, row in enumerate(rows, 2)]


def predict_row(
    row: Mapping[str, str], row_number: int, calibration: Calibration | None = None
) -> Prediction:
    """Return the prediction of one row; no content of a row raises an error.

    A calibration counts for rows of its accelerator alone.
    """

    def predict(case: CollectiveCase) -> Prediction:
        reason = f"assumed {', '.join(case.assumptions)}" if case.assumptions else ""
        return Prediction(case.case_id, "ok", reason, _basis(case), predict_case(case))

    return predict_or_report(row, row_number, lambda: parse_case(row, row_number, calibration), predict)


def predict_case(case: CollectiveCase) -> dict[str, Quantity]:
    """Return time_us, algbw_gbs and busbw_gbs of a case [µs, GB/s]."""
    basis = _basis(case)
    if case.collective in EXPERT_EXCHANGES:
        return {"busbw_gbs": _exchange_bandwidth(case, basis)}
    size = case.num_bytes or float(PEAK_BYTES)
    time_s = _time_s(case, size)
    factor = interval_factor(case.collective, size, case.topology)
    rate = spread(size / time_s / GIGA, factor, basis)
    metrics = {
        "algbw_gbs": rate,
        "busbw_gbs": rate.scale(bus_factor(case.collective, case.topology.num_ranks)),
    }
    if case.num_bytes is not None:
        metrics["time_us"] = spread(time_s / MICROSECOND_S, factor, basis)
    return metrics


def _basis(case: CollectiveCase) -> Basis:
    return "assumed" if case.assumptions else "modelled"


def _time_s(case: CollectiveCase, size: float) -> float:
    """Time that nccl-tests would report [s]: the library's algorithms only."""
    times = candidates_s(cast(Operation, case.collective), np.asarray([size]), case.topology, "nccl")
    return float(min(time[0] for time in times.values()))


def _exchange_bandwidth(case: CollectiveCase, basis: Basis) -> Quantity:
    """Best bandwidth of an expert exchange as libraries state it: bytes of all copies, the local ones too.

    At its best, with as many SMs as it needs, an exchange runs its links like an all-to-all: k/(k − 1) of the rate at
    which copies leave a rank, or nodes/(nodes − 1) of the rate at which they leave through its port.
    """
    place = case.topology
    if place.num_nodes > 1:
        operation = case.collective.replace("ep_", "moe_")
        fraction = collective("network", operation, "deepep-normal").record.parameters["efficiency"]
        rate = place.inter_bytes_per_s * fraction * place.num_nodes / (place.num_nodes - 1)
    else:
        k = place.num_ranks
        fraction = curve_of(place.fit_fabric, "all_to_all", "nccl").rate_fraction(k)
        rate = place.intra_bytes_per_s * fraction * k / (k - 1)
    return spread(rate / GIGA, _EXCHANGE_FACTOR, basis)
