"""Compile every kernel to machine code of Hopper or of MI300X without a GPU and print what it needs, as JSON.

A stand-in for the driver names the target; launches are turned into compilations. Run as a program, since a process
whose kernels are interpreted cannot compile them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import ty_to_cpp
from triton.runtime import driver
from triton.runtime.jit import JITFunction

CPU = torch.device("cpu")
MATRIX_INSTRUCTIONS = ("HGMMA", "QGMMA", "IGMMA", "HMMA", "IMMA")


class _Properties:
    @staticmethod
    def get_device_properties(device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}


TARGETS = {"hopper": GPUTarget("cuda", 90, 32), "mi300x": GPUTarget("hip", "gfx942", 64)}
NVIDIA_ALONE = ("gemm_fp8", "w4a16_mma", "w4a16_ring", "w4a16_row", "scan_registers", "wgmma")
"""Kernels that the probe starts on NVIDIA's GPUs alone, or that need more shared memory than an MI300X has."""


class _DriverWithoutGpu:
    utils = _Properties

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def map_python_to_cpp_type(self, kind: str) -> str:
        return str(ty_to_cpp(kind))


def compile_only(compiled: list[tuple[str, Any]], target: GPUTarget) -> None:
    """Let every launch compile its kernel and stop there."""
    driver.set_active(_DriverWithoutGpu(target))
    launch = JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = launch(self, *arguments, grid=grid, warmup=True, **options)
        compiled.append((self.__name__, kernel))
        return kernel

    JITFunction.run = run


def configured_calls() -> dict[str, Callable[[], object]]:
    """Kernels with several configurations, each of them."""
    from advisor.kernels import attention, attention_wgmma, copy, gemm

    fp8 = torch.float8_e4m3fn
    found: dict[str, Callable[[], object]] = {
        pattern: lambda pattern=pattern: copy.run(pattern, *copy.make_inputs(1 << 16, 0, CPU))
        for pattern in ("read", "copy", "triad")
    }
    for name, dtype in (("bf16", torch.bfloat16), ("fp8", fp8)):
        for number, config in enumerate(gemm.CONFIGS[dtype.itemsize]):
            inputs = gemm.make_inputs(256, 512, 1024, 0, CPU, dtype)
            found[f"gemm_{name}_{number}"] = lambda i=inputs, c=config: gemm.run(*i, config=c)
    for head_dim in attention.CONFIGS:
        inputs = attention.make_inputs(1, 512, 512, 4, 1, head_dim, 0, CPU)
        found[f"attention_{head_dim}"] = lambda i=inputs: attention.run(*i)
    for head_dim in (64, 96, 128, 256):
        inputs = attention.make_inputs(1, 512, 512, 4, 1, head_dim, 0, CPU)
        # A causal mask takes registers more; the other loop is compiled once, for heads that compile soonest.
        masks = (True, False) if head_dim == 64 else (True,)
        found[f"wgmma_{head_dim}"] = lambda i=inputs, m=masks: [
            attention_wgmma.run(*i, causal=causal) for causal in m
        ]
    small = attention.make_inputs(1, 512, 512, 4, 1, 64, 0, CPU)
    found["wgmma_small"] = lambda: attention_wgmma.run(*small, config=attention_wgmma.SMALL_TILES)
    return found


def training_calls() -> dict[str, Callable[[], object]]:
    """Backward passes, by name."""
    from advisor.kernels import activations_backward as ab
    from advisor.kernels import (
        attention,
        attention_backward,
        attention_backward_wgmma,
        gemm_layouts,
        layer_norm_backward,
        linear_cross_entropy,
        linear_gelu_backward,
        rms_norm_backward,
        rope,
        softmax_backward,
    )

    words = linear_cross_entropy.make_inputs(256, 512, 1024, 0, CPU)
    rows = torch.zeros(256)
    found: dict[str, Callable[[], object]] = {
        "rms_norm_backward": lambda: rms_norm_backward.run(*rms_norm_backward.make_inputs(64, 8192, 0, CPU)),
        "layer_norm_backward": lambda: layer_norm_backward.run(
            *layer_norm_backward.make_inputs(64, 8192, 0, CPU)
        ),
        "softmax_backward": lambda: softmax_backward.run(*softmax_backward.make_inputs(64, 8192, 0, CPU)),
        "softmax_backward_wide": lambda: softmax_backward.run(
            *softmax_backward.make_inputs(8, 65536, 0, CPU)
        ),
        "gelu_backward": lambda: ab.run("gelu", *ab.make_inputs("gelu", 64, 4096, 0, CPU)),
        "swiglu_backward": lambda: ab.run("swiglu", *ab.make_inputs("swiglu", 64, 8192, 0, CPU)),
        "rope": lambda: rope.run(*rope.make_inputs(64, 40, 128, 0, CPU)),
        "layouts": lambda: gemm_layouts.run(*gemm_layouts.make_inputs(2048, 4096, 512, 0, CPU)),
        "linear_backward": lambda: linear_gelu_backward.run(
            *linear_gelu_backward.make_inputs(256, 512, 1024, 0, CPU)
        ),
        "cross_entropy": lambda: linear_cross_entropy.run(*words),
        "cross_entropy_backward": lambda: linear_cross_entropy.run_backward(*words, rows, rows),
    }
    for head_dim in (64, 128):
        q, k, v = attention.make_inputs(1, 512, 512, 4, 1, head_dim, 0, CPU)
        logs = torch.zeros(1, 4, 512)
        operands = (q, k, v, q, logs, q)
        found[f"attention_backward_{head_dim}"] = lambda i=operands: attention_backward.run(*i)
        masks = (True, False) if head_dim == 64 else (True,)
        found[f"wgmma_backward_{head_dim}"] = lambda i=operands, m=masks: [
            attention_backward_wgmma.run(*i, causal=causal) for causal in m
        ]
    return found


def newer_calls() -> dict[str, Callable[[], object]]:
    """Attention's variants, low precision and chunked scans, by name."""
    from advisor.kernels import (
        attention_packed,
        attention_wgmma,
        causal_conv1d,
        decode_attention,
        decode_attention_fp8,
        fp4,
        fp8_block_gemm,
        fp8_block_gemm_wgmma,
        gated_delta,
        grouped_gemm_fp8,
        mla_decode,
        ssd,
        ssd_wgmma,
    )

    q, k, v, *rest = decode_attention.make_inputs(32, 8, 128, [256] * 2, 16, 0, CPU)
    k_pages, k_scale = decode_attention.quantize(k)
    v_pages, v_scale = decode_attention.quantize(v)

    def fp8_cache(heads: int, size: int) -> list[torch.Tensor]:
        q, k, v, *rest = decode_attention.make_inputs(heads, 8, size, [256] * 2, 32, 0, CPU)
        return [q, decode_attention.quantize(k)[0], decode_attention.quantize(v)[0], *rest]

    packed = attention_packed.make_inputs([512], 4, 1, 128, 0, CPU)
    sinks = torch.zeros(4)
    blocks = fp8_block_gemm.make_inputs(256, 512, 1024, 0, CPU)
    return {
        "wgmma_packed_128": lambda: attention_wgmma.run_packed(
            *packed, window=256, soft_cap=50.0, sinks=sinks
        ),
        "packed": lambda: attention_packed.run(*packed),
        "packed_window": lambda: attention_packed.run(*packed, window=256),
        "decode_fp8": lambda: decode_attention.run(q, k_pages, v_pages, *rest, scales=(k_scale, v_scale)),
        "decode_fp8_mma": lambda: [
            decode_attention_fp8.run(*fp8_cache(heads, size), scales=(k_scale, v_scale))
            for heads, size in ((32, 64), (32, 128), (128, 128), (64, 256))
        ],
        "mla_decode": lambda: mla_decode.run(*mla_decode.make_inputs(128, [512], 64, 0, CPU)),
        "mla_decode_few": lambda: mla_decode.run(*mla_decode.make_inputs(16, [512], 64, 0, CPU)),
        "fp8_block": lambda: fp8_block_gemm.run(*blocks),
        "wgmma_fp8_block": lambda: fp8_block_gemm_wgmma.run(*blocks),
        "wgmma_grouped_fp8": lambda: fp8_block_gemm_wgmma.run_grouped(
            *grouped_gemm_fp8.make_inputs(2048, 4, 512, 512, 0, CPU)
        ),
        "grouped_fp8": lambda: grouped_gemm_fp8.run(*grouped_gemm_fp8.make_inputs(2048, 4, 512, 512, 0, CPU)),
        "mxfp4": lambda: fp4.run("mxfp4", *fp4.make_inputs("mxfp4", 256, 512, 0, CPU)),
        "nvfp4": lambda: fp4.run("nvfp4", *fp4.make_inputs("nvfp4", 256, 512, 0, CPU)),
        "ssd": lambda: ssd.run(*ssd.make_inputs(1, 512, 4, 64, 1, 128, 0, CPU), num_segments=2),
        "wgmma_ssd": lambda: [
            ssd_wgmma.run(*ssd.make_inputs(1, 512, heads, 64, 1, states, 0, CPU))
            for heads, states in ((4, 128), (1, 16))
        ],
        "gated_delta": lambda: gated_delta.run(*gated_delta.make_inputs(1, 256, 2, 128, 128, 0, CPU)),
        "conv": lambda: causal_conv1d.run(*causal_conv1d.make_inputs(1, 256, 256, 4, 0, CPU)),
    }


def calls() -> dict[str, Callable[[], object]]:
    """A launch of every kernel, by name."""
    from advisor.kernels import activations as ac
    from advisor.kernels import (
        attention_wgmma,
        decode_attention,
        decode_attention_fp8,
        empty,
        fp8_block_gemm_wgmma,
        gather,
        grouped_gemm,
        layer_norm,
        linear_gelu_residual,
        pointer_chase,
        rms_norm,
        selective_scan,
        selective_scan_registers,
        softmax,
        ssd_wgmma,
        transpose,
        w4a16,
        w4a16_mma,
        w4a16_ring,
        w4a16_row,
        w4a16_row_int8,
        w8a8,
    )

    others = configured_calls() | training_calls() | newer_calls()
    for name in list(sys.modules):
        module = sys.modules[name]
        if name.startswith("advisor.kernels.") and hasattr(module, "persistent_programs"):
            module.persistent_programs = lambda device: 132
    attention_wgmma.num_sms = lambda index: 132
    fp8_block_gemm_wgmma.num_sms = lambda index: 132
    ssd_wgmma.num_sms = lambda index: 132
    decode_attention_fp8.num_sms = lambda index: 132
    w4a16_mma.num_sms = lambda index: 132
    w4a16_ring.num_sms = lambda index: 132
    w4a16_row_int8.num_sms = lambda index: 132
    selective_scan_registers.num_sms = lambda index: 132
    scan_inputs = selective_scan.make_inputs(1, 64, 64, 16, 0, CPU)
    return others | {
        "empty": lambda: empty.run(*empty.make_inputs(0, CPU)),
        "rms_norm": lambda: rms_norm.run(*rms_norm.make_inputs(64, 8192, 0, CPU)),
        "layer_norm": lambda: layer_norm.run(*layer_norm.make_inputs(64, 8192, 0, CPU)),
        "softmax": lambda: softmax.run(*softmax.make_inputs(64, 8192, 0, CPU)),
        "softmax_wide": lambda: softmax.run(*softmax.make_inputs(8, 65536, 0, CPU)),
        "gelu": lambda: ac.run("gelu", *ac.make_inputs(64, 4096, 0, CPU)),
        "swiglu": lambda: ac.run("swiglu", *ac.make_inputs(64, 8192, 0, CPU)),
        "transpose": lambda: transpose.run(*transpose.make_inputs(256, 512, 0, CPU)),
        "gather": lambda: gather.run(*gather.make_inputs(64, 1024, 32, 0, CPU)),
        "strided": lambda: gather.run_strided(torch.zeros(1 << 16), 8),
        "chase": lambda: pointer_chase.run(*pointer_chase.make_inputs(4096, 0, CPU), 16),
        "decode": lambda: decode_attention.run(
            *decode_attention.make_inputs(32, 8, 128, [256] * 2, 16, 0, CPU)
        ),
        "w4a16": lambda: [w4a16.run(*w4a16.make_inputs(rows, 512, 2048, 0, CPU)) for rows in (1, 16)],
        "w4a16_mma": lambda: (
            [w4a16_mma.run(*w4a16.make_inputs(1, 512, 2048, 0, CPU), early=early) for early in (False, True)]
            + [
                w4a16_mma.run(*w4a16.make_inputs(rows, 512, 2048, 0, CPU), plan=plan)
                for rows, plan in ((16, w4a16_mma.TALL), (32, w4a16_mma.TALL_WIDE))
            ]
        ),
        "w4a16_row": lambda: [
            w4a16_row.run(*w4a16.make_inputs(1, 512, 4096, 0, CPU), plan=plan, early=early)
            for plan in w4a16_row.PLANS
            for early in ((False, True) if plan is w4a16_row.PLANS[0] else (True,))
        ],
        "w4a16_ring": lambda: [
            w4a16_ring.run(*w4a16.make_inputs(rows, 512, 2048, 0, CPU), early=True) for rows in (8, 16, 32)
        ],
        "w4a16_row_int8": lambda: [
            w4a16_row_int8.run(*w4a16.make_inputs(1, 512, k, 0, CPU), early=early)
            for k, early in ((4096, True), (8192, True), (5120, False))
        ],
        "w8a8": lambda: w8a8.run(*w8a8.make_inputs(256, 512, 1024, 0, CPU)),
        "grouped": lambda: grouped_gemm.run(*grouped_gemm.make_inputs(2048, 8, 512, 1024, 0, CPU)),
        "linear": lambda: linear_gelu_residual.run(*linear_gelu_residual.make_inputs(256, 512, 1024, 0, CPU)),
        "scan_registers": lambda: selective_scan_registers.run(*scan_inputs),
        "scan": lambda: selective_scan.run(*scan_inputs),
    }


def instruments() -> dict[str, Callable[[], object]]:
    """A launch of every kernel that the probe of an MI300X starts, by name."""
    others = {*training_calls(), *newer_calls()}
    return {
        name: call
        for name, call in calls().items()
        if name not in others and not name.startswith(NVIDIA_ALONE)
    }


def matrix_instructions(kernel: Any) -> dict[str, int]:
    """Number of matrix instructions by the name that the assembler gives them, which follows from their operands."""
    wide = re.findall(r"wgmma\.mma_async\S*\.(bf16|f16|tf32|e4m3|e5m2|s8)\s", kernel.asm["ptx"])
    found = Counter(
        {"bf16": "HGMMA", "f16": "HGMMA", "tf32": "HGMMA", "s8": "IGMMA"}.get(each, "QGMMA") for each in wide
    )
    found["HMMA"] = len(re.findall(r"\bmma\.sync\S*\.(?:bf16|f16|tf32)\.", kernel.asm["ptx"]))
    found["IMMA"] = len(re.findall(r"\bmma\.sync\S*\.s8\.", kernel.asm["ptx"]))
    return {name: found[name] for name in MATRIX_INSTRUCTIONS}


def resources(kernel: Any, folder: Path) -> dict[str, int]:
    """Registers, spilled bytes, shared memory and matrix instructions of one kernel."""
    if "amdgcn" in kernel.asm:
        return {"shared_bytes": kernel.metadata.shared, "MFMA": kernel.asm["amdgcn"].count("v_mfma")}
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    file = folder / "kernel.cubin"
    file.write_bytes(kernel.asm["cubin"])
    usage = subprocess.run(
        [tools / "cuobjdump", "--dump-resource-usage", file], capture_output=True, text=True, check=True
    ).stdout
    numbers = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert numbers is not None
    found = {
        "registers": int(numbers[1]),
        "stack_bytes": int(numbers[2]),
        "shared_bytes": kernel.metadata.shared,
    }
    return found | matrix_instructions(kernel)


def keys_of(launches: Callable[[], object]) -> list[str]:
    """Keys of Triton's cache, for each kernel that would be compiled."""
    keys = []
    triton.knobs.runtime.jit_cache_hook = lambda key, **others: keys.append(key) or True
    launches()
    return sorted(keys)


def as_the_probe_launches() -> None:
    """The launches of a quick probe's steps, on tensors that are there."""
    from advisor.kernels import copy, empty, gemm

    x = torch.empty(1 << 24)
    sums = torch.empty((1 << 14) + 1)
    for pattern in ("read", "copy", "triad"):
        copy.run(pattern, x, x.clone(), sums if pattern == "read" else torch.empty_like(x))
    for dtype, scale in ((torch.bfloat16, None), (torch.float8_e4m3fn, torch.ones(1))):
        a, b = (torch.empty((8192, 8192), dtype=dtype) for _ in range(2))
        out = gemm.run(a, b, scale)
        gemm.run(a, b, scale, out)
    empty.run(torch.zeros(1))


def ahead_and_later() -> dict[str, list[str]]:
    """Keys of what the probe compiles ahead, and of what its steps launch."""
    from advisor.kernels import backend
    from advisor.probes import ahead

    driver.set_active(_DriverWithoutGpu(TARGETS["hopper"]))
    backend.num_sms = lambda index: 132
    ahead.launches_compile_alone()
    compiled = keys_of(ahead.compile_kernels)
    for module in ("copy", "gemm"):
        sys.modules[f"advisor.kernels.{module}"].persistent_programs = lambda device: 132
    return {"ahead": compiled, "later": keys_of(as_the_probe_launches)}


def main() -> None:
    compiled: list[tuple[str, Any]] = []
    name_of_target = sys.argv[1]
    if name_of_target == "ahead":
        json.dump(ahead_and_later(), sys.stdout)
        return
    compile_only(compiled, TARGETS[name_of_target])
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in (calls() if name_of_target == "hopper" else instruments()).items():
            compiled.clear()
            call()
            report[name] = [{"kernel": k, **resources(kernel, Path(folder))} for k, kernel in compiled]
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
