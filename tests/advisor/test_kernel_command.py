"""`advisor kernel`: the model anywhere, and what it says of measured times."""

import json
from typing import get_args

import pytest

from advisor.catalog import accelerators
from advisor.commands.kernel import run as kernel_run
from advisor.commands.kernel.options import KernelName
from advisor.kernels.gemm_tiles import CONFIGS
from advisor.kernels.work import WORKS
from advisor.probes.kernel_process import KernelTime

NAMES = get_args(KernelName)


@pytest.fixture
def on_an_h100(monkeypatch):
    """A machine with an H100 whose measurement answers with these times."""

    def use(*times):
        monkeypatch.setattr(kernel_run, "missing_here", lambda: ())
        monkeypatch.setattr(kernel_run, "local_accelerator", lambda: "h100-sxm")
        monkeypatch.setattr(kernel_run, "measure_kernel", lambda *a, **o: list(times))

    return use


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gpu", ["h100-sxm", "l40s", "mi300x"])
def test_without_a_gpu_every_operator_has_its_roof(cli, name, gpu):
    found = json.loads(cli(f"advisor kernel {name} --gpu {gpu} --json").out)
    assert found["floor_s"] > 0
    assert found["measured"] == []
    assert "NVIDIA GPU" in found["needs"][0]
    assert found["bound"] in ("compute", "memory")


def test_without_a_name_of_a_gpu_one_is_assumed_and_said(cli):
    run = cli("advisor kernel softmax")
    assert run.code == 0
    assert "modelled for h100-sxm" in run.err
    assert "Not measured" in run.out


def test_a_sweep_shows_every_tile_shape_with_waves_and_occupancy(cli):
    run = cli("advisor kernel gemm --shape 2048x6144x4096 --gpu h100-sxm --sweep tiles --json")
    tiles = json.loads(run.out)["tiles"]
    assert len(tiles) == sum(config.pieces == 1 for config in CONFIGS[2])
    for tile in tiles:
        assert tile["num_tiles"] == (2048 // tile["tile_rows"]) * (6144 // tile["tile_columns"])
        assert tile["waves"] == pytest.approx(tile["num_tiles"] / 132)
        assert 0 < tile["busy_fraction"] <= 1
        assert tile["programs_per_sm"] >= 1
    assert "░" in cli("advisor kernel gemm --shape 2048x6144x4096 --gpu h100-sxm --sweep tiles").out


def test_a_tile_that_does_not_fit_an_sm_is_said(cli):
    """Ada has 100 KiB of shared memory per SM, and the large tiles need 224."""
    run = cli("advisor kernel gemm --gpu rtx-4090 --sweep tiles --json")
    tiles = json.loads(run.out)["tiles"]
    assert {tile["programs_per_sm"] for tile in tiles} == {0}
    assert all("shared memory" in tile["limited_by"] for tile in tiles)


def test_measured_times_become_rates_shares_and_errors(cli, on_an_h100):
    on_an_h100(
        KernelTime("advisor", 1.45e-3, 1.7e-3, 1.9e9),
        KernelTime("torch", 1.40e-3, 1.7e-3, 1.9e9),
        KernelTime("tiles 0", 1.5e-3, 1.7e-3, tile=(128, 256)),
    )
    command = "advisor kernel gemm --shape 8192x8192x8192 --sweep tiles"
    found = json.loads(cli(f"{command} --json").out)
    own, peer = found["measured"]
    assert own["rate"] == pytest.approx(2 * 8192**3 / 1.45e-3)
    assert own["roof_fraction"] == pytest.approx(found["floor_s"] / 1.45e-3)
    assert (own["unit"], peer["instrument"], peer["error"]) == ("flop/s", "torch", 1.7e-3)
    assert found["tiles"][0]["time_s"] == 1.5e-3
    assert found["tiles"][1]["time_s"] is None
    text = cli(command).out
    assert "96.6 % of the rate of" in text
    assert "error against fp64" in text


def test_a_peer_that_does_not_run_gives_its_reason(cli, on_an_h100):
    on_an_h100(KernelTime("advisor", 1e-3, 1e-3), KernelTime("cudnn", reason="No available kernel"))
    run = cli("advisor kernel attention --shape 1x32x4096x128 --against cudnn")
    assert run.code == 0
    assert "cudnn: No available kernel" in run.out


def test_another_gpu_than_this_machines_is_modelled(cli, on_an_h100):
    on_an_h100()
    run = cli("advisor kernel gelu --gpu h200-sxm")
    assert "modelled, not measured" in run.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gemm --shape 4096x4096", "rows x columns x depth"),
        ("gemm --shape 4096x4096x-1", "each a whole number"),
        ("gemm --shape axbxc", "each a whole number"),
        ("softmax --shape 1x2x3", "rows x columns"),
        ("gemm --shape 1000000x1000000x10", "is too large"),
        ("attention --shape 1x32x4096x100", "multiples of 8"),
        ("attention --shape 1x32x4096x512", "multiples of 8"),
        ("softmax --dtype fp8", "16 bits"),
        ("softmax --sweep tiles", "gemm alone"),
        ("gemm --against cudnn", "cudnn computes attention, attention_backward"),
        ("gemm --against marlin", "marlin computes w4a16"),
        ("gemm --against cutlass", "no peer is called cutlass"),
        ("gemm --against ,", "no peer is called so"),
        ("gemm --gpu h101", "To fix"),
        ("conv", ""),
    ],
)
def test_what_no_kernel_takes_is_refused(cli, words, told):
    run = cli(f"advisor kernel {words}")
    assert run.code == 2
    assert told in run.err
    assert "To fix" in run.err or words == "conv"


def test_every_counted_kernel_has_a_name_of_the_command():
    assert set(WORKS) < set(NAMES)


@pytest.mark.parametrize("name", WORKS)
def test_floors_of_counted_kernels_follow_from_their_counts(cli, name):
    found = json.loads(cli(f"advisor kernel {name} --gpu h100-sxm --json").out)
    work = WORKS[name]
    assert found["flop"] == work.flop(work.example)
    assert found["num_bytes"] == work.num_bytes(work.example)
    assert found["floor_s"] >= work.num_bytes(work.example) / 3.36e12
    assert found["predicted_s"] is None


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("attention_backward", "1x2x64x300", "up to 256"),
        ("gated_delta", "1x64x2x100x128", "multiples of 8"),
        ("ssd", "1x64x2x64x512", "up to 256"),
        ("fp8_block_gemm", "64x64x24", "multiples of 16"),
        ("mxfp4", "64x40", "multiples of 32"),
        ("rms_norm_backward", "64x20000", "up to 16,384"),
        ("rope", "4x4", "tokens x heads x size"),
        ("linear_cross_entropy", "1000000x1x1000000", "elements"),
    ],
)
def test_shapes_that_a_kernel_refuses_are_refused_before_it_starts(cli, name, shape, reason):
    run = cli(f"advisor kernel {name} --shape {shape}")
    assert run.code != 0
    assert reason in run.err
    assert "To fix:" in run.err


def test_kernels_of_one_format_say_it(cli):
    assert "in fp8 on" in cli("advisor kernel fp8_block_gemm --gpu h100-sxm").out
    assert "in int8 on" in cli("advisor kernel w8a8 --gpu h100-sxm").out
    assert "no time is predicted" in cli("advisor kernel ssd --gpu h100-sxm").out


UNITS = {"fp8_block_gemm": "fp8", "grouped_gemm_fp8": "fp8", "w8a8": "int8"}
VECTOR = {name for name in NAMES if name in WORKS and WORKS[name].unit == "vector"} | {
    "rms_norm",
    "layer_norm",
    "softmax",
    "gelu",
    "swiglu",
    "transpose",
}


@pytest.mark.parametrize(
    "gpu", ["v100-sxm2-16gb", "rtx-3090", "a100-sxm-80gb", "t4", "l40s", "mi300x", "b200-sxm"]
)
def test_a_product_is_multiplied_by_units_of_its_format_or_refused(cli, gpu):
    """A roof by the units of another format would be that of another product."""
    peaks = accelerators.get(gpu).record.peak_flop_per_s
    for name in NAMES:
        for dtype in (None, "bf16", "fp16", "fp8") if name in ("gemm", "attention") else (None,):
            if dtype == "fp8" and name != "gemm":
                continue
            run = cli(f"advisor kernel {name} --gpu {gpu} --json {f'--dtype {dtype}' if dtype else ''}")
            wanted = UNITS.get(name) or dtype or ("bf16" if "bf16" in peaks else "fp16")
            has_units = name in VECTOR or wanted in peaks
            assert (run.code == 0) == has_units, (name, dtype)
            if has_units:
                assert json.loads(run.out)["dtype"] == wanted
            else:
                assert f"has no {wanted} units" in run.err
                assert "To fix: --dtype" in run.err if dtype else "To fix: --gpu" in run.err


def test_attention_says_that_it_is_causal(cli):
    run = cli("advisor kernel attention --gpu a100 --shape 1x32x4096x128")
    assert "causal" in run.out
    found = json.loads(cli("advisor kernel attention --gpu a100 --shape 1x32x4096x128 --json").out)
    assert found["causal"]
    assert found["flop"] == pytest.approx(2 * 32 * 4096**2 * 128, rel=0.01)
    assert "causal" not in cli("advisor kernel decode_attention --gpu a100").out
