"""Matmuls on AMD's accelerators against times of AMD's tuner: the fastest kernel of each shape (ROCm/aiter@e404860).

The record of CDNA4 is fitted on the times of an MI355X. No record is fitted on those of a CDNA3 board of 80 compute
units: they judge how far that record holds for CDNA3. Twelve shapes of each system and format stand here, from small
products to large ones.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency
from advisor.catalog.units import MICROSECOND_S
from advisor.evidence.fit.anchor_published import TUNED, tuned_products
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.matmul import MatmulEfficiency, matmul_s

CUT_UNITS = 80
"""Compute units of the CDNA3 board of the tuner."""
TIMES: Final = (
    ("gfx942", "bf16", 4, 64, 4096, 4.2146),
    ("gfx942", "bf16", 1, 2048, 4096, 13.037),
    ("gfx942", "bf16", 24, 160, 6144, 9.2424),
    ("gfx942", "bf16", 16, 800, 5120, 12.496),
    ("gfx942", "bf16", 128, 256, 4096, 10.149),
    ("gfx942", "bf16", 128, 512, 4096, 14.571),
    ("gfx942", "bf16", 512, 160, 6144, 22.271),
    ("gfx942", "bf16", 336, 384, 7168, 29.568),
    ("gfx942", "bf16", 80, 7168, 2048, 42.831),
    ("gfx942", "bf16", 112, 7168, 2048, 49.875),
    ("gfx942", "bf16", 640, 512, 7168, 50.224),
    ("gfx942", "bf16", 16384, 256, 6144, 336.86),
    ("gfx942", "fp8", 2, 2048, 2048, 5.3846),
    ("gfx942", "fp8", 16, 1024, 7168, 11.306),
    ("gfx942", "fp8", 48, 6144, 1536, 9.3954),
    ("gfx942", "fp8", 256, 2048, 2048, 12.417),
    ("gfx942", "fp8", 64, 9216, 4096, 25.07),
    ("gfx942", "fp8", 10240, 64, 7168, 42.983),
    ("gfx942", "fp8", 1024, 4096, 2048, 54.133),
    ("gfx942", "fp8", 288, 7168, 9216, 142.18),
    ("gfx942", "fp8", 352, 18432, 7168, 301.02),
    ("gfx942", "fp8", 4096, 7168, 4608, 756.39),
    ("gfx942", "fp8", 14336, 7168, 4608, 2586.2),
    ("gfx942", "fp8", 98304, 20480, 1536, 19088.0),
    ("mi355x", "bf16", 1, 1024, 4096, 5.8023),
    ("mi355x", "bf16", 1, 8448, 7168, 22.862),
    ("mi355x", "bf16", 1, 16384, 13312, 67.532),
    ("mi355x", "bf16", 480, 256, 4096, 9.8411),
    ("mi355x", "bf16", 1024, 200, 5120, 153.97),
    ("mi355x", "bf16", 128, 2624, 6144, 18.301),
    ("mi355x", "bf16", 320, 6144, 2048, 15.542),
    ("mi355x", "bf16", 512, 5120, 3200, 31.329),
    ("mi355x", "bf16", 1536, 2048, 7168, 56.925),
    ("mi355x", "bf16", 4096, 3072, 6144, 138.03),
    ("mi355x", "bf16", 960, 64640, 4096, 440.44),
    ("mi355x", "bf16", 32768, 6144, 12288, 3207.5),
    ("mi355x", "fp8", 24, 64, 4096, 5.3641),
    ("mi355x", "fp8", 184, 64, 4096, 5.7202),
    ("mi355x", "fp8", 504, 64, 4096, 7.2953),
    ("mi355x", "fp8", 16, 6400, 5120, 9.0378),
    ("mi355x", "fp8", 5504, 64, 4096, 9.4679),
    ("mi355x", "fp8", 88, 8704, 4096, 14.008),
    ("mi355x", "fp8", 368, 4096, 4096, 15.207),
    ("mi355x", "fp8", 1024, 1280, 8192, 27.033),
    ("mi355x", "fp8", 2048, 2112, 7168, 44.717),
    ("mi355x", "fp8", 4096, 6144, 3072, 74.254),
    ("mi355x", "fp8", 8192, 16384, 2048, 292.99),
    ("mi355x", "fp8", 32768, 4608, 16384, 1778.3),
)
"""System, format, rows, columns, depth, and time of the fastest kernel [us]."""
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
    rows = np.array([row[2:] for row in TIMES if row[:2] == (system, dtype)])
    m, n, k, microseconds = rows.T
    return float(np.median(np.abs(matmul_s(m, n, k, device, known) / (microseconds * MICROSECOND_S) - 1.0)))


@pytest.mark.parametrize(("dtype", "most"), [("bf16", 0.15), ("fp8", 0.1)])
def test_matmuls_take_as_long_as_the_fastest_kernels_of_amds_tuner(dtype: str, most: float) -> None:
    assert median_error(TUNED, device_of(by_id(TUNED)), dtype) < most


@pytest.mark.parametrize(("dtype", "most"), [("bf16", 0.2), ("fp8", 0.12)])
def test_matmuls_of_a_board_that_no_fit_has_seen_are_within_the_transfer(dtype: str, most: float) -> None:
    """With the records of Hopper and Blackwell in their place, 16 bits were 41 % off."""
    assert median_error("gfx942", cut_board(), dtype) < most


def test_the_fastest_kernel_of_each_shape_is_read_in_the_tuners_files(tmp_path: Path) -> None:
    (tmp_path / "model_configs").mkdir()
    head = "gfx,cu_num,M,N,K,dtype,us"
    (tmp_path / "bf16_tuned_gemm.csv").write_text(f"{head}\ngfx950,256,8,64,32,torch.bfloat16,5.0\n")
    rows = ("gfx950,256,8,64,32,torch.bfloat16,4.0", "gfx942,304,8,64,32,torch.bfloat16,1.0")
    (tmp_path / "model_configs" / "some_bf16_tuned_gemm.csv").write_text("\n".join((head, *rows)) + "\n")
    found = tuned_products(tmp_path, TUNED, "bf16")
    assert found.to_numpy().tolist() == [[8.0, 64.0, 32.0, pytest.approx(4e-6)]]
