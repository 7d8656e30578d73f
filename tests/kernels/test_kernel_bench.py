"""The process behind `advisor kernel`: each operator's kernel against fp64, at small shapes."""

import importlib
import sys

import pytest

from advisor.kernels import (
    activations_backward,
    attention_backward,
    attention_packed,
    causal_conv1d,
    decode_attention,
    fp4,
    linear_cross_entropy,
    mla_decode,
    ssd,
)
from advisor.kernels.peers import PEERS, peers_of
from advisor.kernels.work import QUERIES_PER_KV, WORKS
from advisor.probes import kernel_bench
from advisor.probes.bench import Bench

SHAPES = {"gemm": (64, 96, 64), "attention": (1, 2, 64, 64)}
NAMES = ("gemm", "attention", "rms_norm", "layer_norm", "softmax", "gelu", "swiglu", "transpose")


def error_of(case, instrument):
    """Return the error of an instrument against fp64; zero for a peer whose library is not installed."""
    try:
        return kernel_bench.relative_error(case, case.calls[instrument])
    except ModuleNotFoundError:
        assert instrument in PEERS
        return 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_kernels_and_peers_are_near_fp64(name, dtype, device, on_gpu):
    case = kernel_bench.make_case(name, SHAPES.get(name, (48, 64)), dtype, device)
    limit = {"bf16": 8e-3, "fp16": 1.5e-3}[dtype]
    for instrument in case.calls:
        if name == "attention" and not on_gpu and instrument != "advisor":
            continue  # torch's attention of these names needs a GPU
        assert error_of(case, instrument) < limit, instrument


def test_a_wrong_kernel_shows_its_error(device):
    case = kernel_bench.make_case("softmax", (48, 64), "fp16", device)
    right = case.calls["advisor"]
    assert kernel_bench.relative_error(case, lambda: right() * 1.1) == pytest.approx(0.1, rel=0.05)


def test_fp8_products_are_near_fp64(device):
    from advisor.kernels.backend import has_fp8

    if not has_fp8(device):
        pytest.skip("no fp8 matrix unit")
    case = kernel_bench.make_case("gemm", (64, 96, 64), "fp8", device)
    assert kernel_bench.relative_error(case, case.calls["advisor"]) < 8e-3


SMALL = {
    "attention_backward": (1, 2, 48, 64),
    "attention_packed": (2, 2, 40, 64, 9),
    "decode_attention": (2, 1, 40, 64),
    "decode_attention_fp8": (2, 1, 40, 64),
    "mla_decode": (2, 4, 30),
    "rope": (6, 2, 64),
    "grouped_gemm": (20, 2, 32, 32),
    "grouped_gemm_fp8": (20, 2, 32, 32),
    "w4a16": (1, 64, 256),
    "ssd": (1, 40, 2, 16, 16),
    "gated_delta": (1, 40, 2, 16, 16),
    "selective_scan": (1, 20, 16, 8),
    "causal_conv1d": (2, 20, 16),
    "linear_cross_entropy": (16, 32, 96),
    "linear_cross_entropy_backward": (16, 32, 96),
    "mxfp4": (8, 64),
    "nvfp4": (8, 64),
}
NEEDS_GPU = {"attention_backward", "grouped_gemm", "grouped_gemm_fp8", "fp8_block_gemm", "w8a8"}
"""Kernels whose peers torch has on GPUs only."""


@pytest.mark.parametrize("name", WORKS)
def test_newer_kernels_and_peers_are_near_fp64(name, device, on_gpu):
    default = (48, 64, 32) if len(WORKS[name].dimensions) == 3 else (48, 64)
    case = kernel_bench.make_case(name, SMALL.get(name, default), "fp16", device)
    for instrument in case.calls:
        if instrument != "advisor" and (name in NEEDS_GPU or "scale per row" in instrument):
            continue  # sizes that torch's kernels take are larger than this
        assert error_of(case, instrument) < 8e-3, instrument


@pytest.mark.parametrize("name", [*NAMES, *WORKS])
def test_a_kernel_has_the_peers_that_the_command_names(name, device):
    default = (48, 64, 32) if name in WORKS and len(WORKS[name].dimensions) == 3 else (48, 64)
    case = kernel_bench.make_case(name, {**SHAPES, **SMALL}.get(name, default), "fp16", device)
    libraries = {peer for peer in peers_of(name) if peer not in ("torch", "cudnn")}
    assert {peer for peer in case.calls if peer in PEERS and peer not in ("torch", "cudnn")} == libraries


def test_a_peer_that_is_not_installed_names_its_package(device, monkeypatch):
    case = kernel_bench.make_case("softmax", (48, 64), "fp16", device)
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    found = kernel_bench.measure("liger", case, Bench(device, 0, quick=True))
    assert "package liger-kernel" in found["reason"]


@pytest.mark.parametrize("name", WORKS)
def test_work_by_shape_is_that_of_the_kernels_module(name):
    """Counts without torch repeat those of the modules: both for the example and for a shape with remainders."""
    work = WORKS[name]
    odd = tuple(size + 8 for size in work.example)
    for shape in (work.example, odd):
        flop, num_bytes = counts_of_module(name, shape)
        assert work.flop(shape) == flop
        assert work.num_bytes(shape) == num_bytes


def counts_of_module(name, s):
    """FLOP and bytes of a kernel at a shape of `advisor kernel`, from its module."""
    if name == "attention_backward":
        sizes = (s[0], s[2], s[2], s[1])
        return attention_backward.flop(*sizes, s[3], True), attention_backward.bytes(*sizes, s[1], s[3], 2)
    if name == "attention_packed":
        lengths = [s[2]] * s[0]
        return (
            attention_packed.flop(lengths, s[1], s[3], True, s[4]),
            attention_packed.bytes(lengths, s[1], s[1], s[3], 2),
        )
    if name.startswith("decode_attention"):
        tokens = s[0] * s[2]
        element = 1 if name.endswith("fp8") else 2
        return (
            decode_attention.flop(QUERIES_PER_KV * s[1], s[3], tokens),
            decode_attention.bytes(s[1], s[3], tokens, element),
        )
    if name == "mla_decode":
        return mla_decode.flop(s[1], s[0] * s[2]), mla_decode.bytes(s[0], s[1], s[0] * s[2], 2)
    if name in ("gelu_backward", "swiglu_backward"):
        kind = name.removesuffix("_backward")
        outputs = s[0] * s[1]
        return activations_backward.flop(kind, outputs), activations_backward.bytes(kind, outputs, 2)
    if name.startswith("linear_cross_entropy"):
        backward = name.endswith("backward")
        return linear_cross_entropy.flop(*s, backward), linear_cross_entropy.bytes(*s, 2, backward)
    if name in ("mxfp4", "nvfp4"):
        return fp4.flop(*s), fp4.bytes(name, *s)
    if name == "ssd":
        return ssd.flop(*s[:4], 1, s[4], ssd.choose_config(s[4]).chunk), ssd.bytes(*s[:4], 1, s[4], 2)
    if name == "causal_conv1d":
        return causal_conv1d.flop(*s, 4), causal_conv1d.bytes(*s, 2)
    if name.startswith("grouped_gemm"):
        module = importlib.import_module(f"advisor.kernels.{name}")
        sizes = (s[0], s[2], s[3], min(s[0], s[1]))
        return module.flop(s[0], *s[2:]), module.bytes(*sizes, *((2,) if name == "grouped_gemm" else ()))
    module = importlib.import_module(f"advisor.kernels.{name}")
    has_format = name not in ("w8a8", "fp8_block_gemm")
    return module.flop(*s), module.bytes(*s, *((2,) if has_format else ()))
