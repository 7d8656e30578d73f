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


def compile_kernels(target, folder, on_gpu):
    if on_gpu:
        pytest.skip("with a GPU the kernels run")
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(folder)}
    script = Path(__file__).with_name("compile_only.py")
    done = subprocess.run(
        [sys.executable, script, target], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def report(tmp_path_factory, on_gpu):
    if not all((TOOLS / name).exists() for name in ("ptxas", "cuobjdump", "nvdisasm")):
        pytest.skip("this Triton carries no CUDA tools")
    return compile_kernels("hopper", tmp_path_factory.mktemp("cache"), on_gpu)


@pytest.fixture(scope="module")
def on_mi300x(tmp_path_factory, on_gpu):
    if not (TOOLS.parents[1] / "amd").exists():
        pytest.skip("this Triton has no AMD backend")
    return compile_kernels("mi300x", tmp_path_factory.mktemp("cache"), on_gpu)


def test_what_is_compiled_ahead_is_what_the_quick_probe_launches(tmp_path, on_gpu):
    """To the letter of the compiler's cache; a kernel more would take time, a kernel less would be compiled late."""
    keys = compile_kernels("ahead", tmp_path, on_gpu)
    assert keys["ahead"] == sorted(set(keys["later"]))
    assert len(keys["ahead"]) == 6


def test_the_instruments_compile_for_mi300x(on_mi300x):
    """The contract; they never ran on one."""
    kernels = {name: max(k["MFMA"] for k in found) for name, found in on_mi300x.items()}
    assert {name for name, number in kernels.items() if number} >= {
        "gemm_bf16_0",
        "w8a8",
        "attention_128",
        "grouped",
    }
    assert all(k["shared_bytes"] <= 65536 for found in on_mi300x.values() for k in found)


def test_every_kernel_compiles_without_spilling(report):
    spills = {name: max(k["stack_bytes"] for k in kernels) for name, kernels in report.items()}
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


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("gemm_bf16_0", "HGMMA"),
        ("gemm_fp8_0", "QGMMA"),
        ("w8a8", "IGMMA"),
        ("attention_128", "HGMMA"),
        ("wgmma_128", "HGMMA"),
        ("grouped", "HGMMA"),
        ("attention_backward_128", "HGMMA"),
        ("wgmma_backward_128", "HGMMA"),
        ("packed", "HGMMA"),
        ("mla_decode", "HGMMA"),
        ("mla_decode_few", "HMMA"),
        ("fp8_block", "QGMMA"),
        ("grouped_fp8", "QGMMA"),
        ("linear_backward", "HGMMA"),
        ("cross_entropy", "HGMMA"),
        ("layouts", "HGMMA"),
        ("ssd", "HMMA"),
        ("wgmma_ssd", "HGMMA"),
        ("gated_delta", "HGMMA"),
        ("linear", "HGMMA"),
        ("decode", "HMMA"),
        ("w4a16_mma", "HMMA"),
        ("w4a16_row", "HMMA"),
    ],
)
def test_matrix_kernels_use_the_matrix_unit(report, name, instruction):
    assert max(kernel[instruction] for kernel in report[name]) > 0


def test_kernels_fit_the_shared_memory_of_a_multiprocessor(report):
    assert all(k["shared_bytes"] <= 232448 for kernels in report.values() for k in kernels)
