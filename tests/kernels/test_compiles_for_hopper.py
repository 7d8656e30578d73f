"""Machine code for Hopper, made without a GPU: nothing spills, and matrix kernels use Hopper's matrix units."""

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


@pytest.fixture(scope="module")
def report(tmp_path_factory, on_gpu):
    if on_gpu:
        pytest.skip("with a GPU the kernels run")
    if not all((TOOLS / name).exists() for name in ("ptxas", "cuobjdump", "nvdisasm")):
        pytest.skip("this Triton carries no CUDA tools")
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    script = Path(__file__).with_name("compile_for_hopper.py")
    done = subprocess.run(
        [sys.executable, script], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_kernel_compiles_without_spilling(report):
    spills = {name: max(k["stack_bytes"] for k in kernels) for name, kernels in report.items()}
    spilled = {name: size for name, size in spills.items() if size}
    # A few words, outside the loop's critical path: it buys a seventh program per multiprocessor.
    assert max(spilled.pop(name, 0) for name in ("w4a16_mma", "w4a16_row")) <= 64
    assert spilled == {}


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("gemm_bf16_0", "HGMMA"),
        ("gemm_fp8_0", "QGMMA"),
        ("w8a8", "IGMMA"),
        ("attention_128", "HGMMA"),
        ("grouped", "HGMMA"),
        ("linear", "HGMMA"),
        ("decode", "HMMA"),
        ("w4a16_mma", "HMMA"),
        ("w4a16_row", "HMMA"),
    ],
)
def test_matrix_kernels_use_the_matrix_unit(report, name, instruction):
    assert report[name][0][instruction] > 0


def test_kernels_fit_the_shared_memory_of_a_multiprocessor(report):
    assert all(k["shared_bytes"] <= 232448 for kernels in report.values() for k in kernels)
