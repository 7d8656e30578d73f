"""Matmuls on AMD's accelerators against times of AMD's tuner: the fastest kernel of each shape (ROCm/aiter@e404860).

The record of CDNA4 is fitted on the times of an MI355X. No record is fitted on those of a CDNA3 board of 80 compute
units: they judge how far that record holds for CDNA3.
"""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency
from advisor.evidence.fit.anchor_published import TUNED, tuned_products
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s

CUT_UNITS = 80
"""Compute units of the CDNA3 board of the tuner."""
WITHOUT_QUANTISATION = {"quantize_bytes": 0.0, "quantize_row_cycles": 0.0}


def cut_board() -> Device:
    """Return a CDNA3 board of 80 compute units with the memory of an MI300X."""
    whole = device_of(by_id("mi300x"))
    share = CUT_UNITS / whole.num_sms
    rates = {name: share * rate for name, rate in whole.peak_flop_per_s.items()}
    return replace(whole, num_sms=CUT_UNITS, peak_flop_per_s=rates)


def median_error(system: str, device: Device, dtype: str) -> float:
    """Median of |predicted / measured - 1| over the tuner's shapes, without the quantisation that it does not time."""
    found = efficiency(device.architecture, "matmul", dtype).record
    plain = efficiency(device.architecture, "matmul", "bf16").record.parameters["launch_s"]
    known = MatmulEfficiency.from_record(found, dtype)
    known = replace(known, launch_s=min(known.launch_s, plain), **WITHOUT_QUANTISATION)
    table = tuned_products(system, dtype)
    sizes = (table[name].to_numpy(float) for name in "mnk")
    return float(np.median(np.abs(matmul_s(*sizes, device, known) / table["time_s"].to_numpy() - 1.0)))


@pytest.mark.parametrize(("dtype", "most"), [("bf16", 0.15), ("fp8", 0.1)])
def test_matmuls_take_as_long_as_the_fastest_kernels_of_amds_tuner(dtype: str, most: float) -> None:
    assert median_error(TUNED, device_of(by_id(TUNED)), dtype) < most


@pytest.mark.parametrize(("dtype", "most"), [("bf16", 0.2), ("fp8", 0.12)])
def test_matmuls_of_a_board_that_no_fit_has_seen_are_within_the_transfer(dtype: str, most: float) -> None:
    """With the records of Hopper and Blackwell in their place, 16 bits were 41 % off."""
    assert median_error("gfx942", cut_board(), dtype) < most
