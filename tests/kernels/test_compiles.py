"""Machine code made without a GPU: nothing spills on Hopper, and products use the matrix units there and on MI300X."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
pytestmark = pytest.mark.slow


@pytest.fixture
def compile_kernels(on_gpu):
    """Compile the kernels for a target and return what each needs. Triton's cache keeps what was compiled by an earlier
    run, in whatever checkout: its keys are the source, the target and the compiler."""
    if on_gpu:
        pytest.skip("with a GPU the kernels run")

    def compile_for(target):
        env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        env["PYTHONPATH"] = str(ROOT)
        script = Path(__file__).with_name("compile_only.py")
        done = subprocess.run(
            [sys.executable, script, target], env=env, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return compile_for


def test_what_is_compiled_ahead_is_what_the_quick_probe_launches(compile_kernels):
    """To the letter of the compiler's cache; a kernel more would take time, a kernel less would be compiled late."""
    keys = compile_kernels("ahead")
    assert keys["ahead"] == sorted(set(keys["later"]))
    assert len(keys["ahead"]) == 6


def test_the_instruments_compile_for_mi300x(compile_kernels):
    """The contract; they never ran on one."""
    if not (TOOLS.parents[1] / "amd").exists():
        pytest.skip("this Triton has no AMD backend")
    report = compile_kernels("mi300x")
    kernels = {name: max(k["MFMA"] for k in found) for name, found in report.items()}
    assert {name for name, number in kernels.items() if number} >= {
        "gemm_bf16_0",
        "w8a8",
        "attention_128",
        "grouped",
    }
    assert all(k["shared_bytes"] <= 65536 for found in report.values() for k in found)


def test_every_kernel_compiles_for_hopper_and_uses_its_matrix_units_without_spilling(compile_kernels):
    """One test, since one compilation of all kernels tells everything."""
    if not all((TOOLS / name).exists() for name in ("ptxas", "cuobjdump")):
        pytest.skip("this Triton carries no CUDA tools")
    report = compile_kernels("hopper")
    used = {name: max(kernel[unit] for kernel in report[name]) for name, unit in UNITS.items()}
    assert [name for name, number in used.items() if not number] == []
    assert all(k["shared_bytes"] <= 232448 for kernels in report.values() for k in kernels)
    check_spills({name: max(k["stack_bytes"] for k in kernels) for name, kernels in report.items()})


def check_spills(spills):
    """Refuse kernels that keep registers on the stack, but for those that are known for it and keep no more."""
    spilled = {name: size for name, size in spills.items() if size}
    # A few words, outside the loop's critical path: they buy a seventh program per multiprocessor, or the next row.
    few = ("w4a16_mma", "w4a16_row", "layer_norm_backward", "wgmma_packed_128")
    assert max(spilled.pop(name, 0) for name in few) <= 64
    # These are faster than configurations without spilling, or have none; each configuration says by how much.
    assert max(spilled.pop(name, 0) for name in ("attention_backward_128", "gated_delta")) <= 512
    assert max(spilled.pop(name, 0) for name in ("attention_backward_64", "wgmma_backward_128")) <= 160
    # Outside the loop over chunks.
    assert spilled.pop("wgmma_ssd", 0) <= 512
    assert spilled == {}


UNITS = {
    "gemm_bf16_0": "HGMMA",
    "gemm_fp8_0": "QGMMA",
    "w8a8": "IGMMA",
    "attention_128": "HGMMA",
    "wgmma_128": "HGMMA",
    "grouped": "HGMMA",
    "attention_backward_128": "HGMMA",
    "wgmma_backward_128": "HGMMA",
    "packed": "HGMMA",
    "mla_decode": "HGMMA",
    "mla_decode_few": "HMMA",
    "fp8_block": "QGMMA",
    "grouped_fp8": "QGMMA",
    "linear_backward": "HGMMA",
    "cross_entropy": "HGMMA",
    "layouts": "HGMMA",
    "ssd": "HMMA",
    "wgmma_ssd": "HGMMA",
    "gated_delta": "HGMMA",
    "linear": "HGMMA",
    "decode": "HMMA",
    "decode_fp8_mma": "HMMA",
    "w4a16_mma": "HMMA",
    "w4a16_ring": "HMMA",
    "w4a16_row": "HMMA",
    "w4a16_row_int8": "IMMA",
}
"""Matrix instruction of each kernel that multiplies matrices."""
