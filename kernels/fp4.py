"""Dequantisation of weights in four-bit floating point, MXFP4 and NVFP4, to 16 bits.

Both store numbers of one sign, two exponent and one mantissa bit (0, 0.5, 1, 1.5, 2, 3, 4, 6), two per byte, the
first in the low half. MXFP4 has a power of two for every 32 numbers; NVFP4 an fp8 number for every 16, and one fp32
number for the matrix.

This kernel runs on any GPU. Products in these formats on the matrix unit need a chip that has them (Blackwell and
later); none was at hand, so this project has no such kernel.

Tiled: blocks of neighbouring bytes. A number's three bits, put at the top of an fp32 mantissa, are a tiny fp32 whose
multiple by 2¹²⁶ is the number: the hardware's own rule for exponent and mantissa, subnormals included, decodes it.

Source: OCP Microscaling Formats (MX) specification 1.0, sections 5.3.3 and 5.4.1; NVFP4 as in NVIDIA's cuDNN
documentation, block scaling.
"""

from typing import Final, Literal

import torch
import triton
import triton.language as tl

from advisor.kernels.backend import HALVES, check_operands

Fp4 = Literal["mxfp4", "nvfp4"]
GROUPS: Final[dict[Fp4, int]] = {"mxfp4": 32, "nvfp4": 16}
"""Number of weights with one scale."""
VALUES: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Numbers of the format by their three lower bits."""
_BYTES: Final = 2048
_NUM_WARPS: Final = 4
_TO_NUMBER = tl.constexpr(2.0**126)


@triton.jit
def _number(code):
    """Return the number of four bits, as fp32: the sign moves to the top, the rest to the top of the mantissa."""
    sign = (code & 8).to(tl.int32) << 28
    return (sign | ((code & 7) << 22)).to(tl.float32, bitcast=True) * _TO_NUMBER


@triton.jit
def _dequantize_kernel(
    codes_ptr,
    scale_ptr,
    global_ptr,
    out_ptr,
    numel,
    BYTES: tl.constexpr,
    GROUP: tl.constexpr,
    IS_MX: tl.constexpr,
):
    step = tl.full((), BYTES, tl.int64)
    places = tl.program_id(0) * step + tl.arange(0, BYTES)
    inside = places < numel
    pair = tl.load(codes_ptr + places, mask=inside, other=0).to(tl.int32)
    groups = places // (GROUP // 2)
    if IS_MX:
        power = tl.load(scale_ptr + groups, mask=inside, other=127).to(tl.int32)
        # 2^(power − 127): the bits of an fp32's exponent; the smallest power is a subnormal fp32, 255 is no number.
        bits = tl.where(power == 0, 0x00400000, power << 23)
        bits = tl.where(power == 255, 0x7FC00000, bits)
        scale = bits.to(tl.float32, bitcast=True)
    else:
        scale = tl.load(scale_ptr + groups, mask=inside, other=0.0).to(tl.float32) * tl.load(global_ptr)
    low = _number(pair & 15) * scale
    high = _number(pair >> 4) * scale
    both = tl.reshape(tl.join(low, high), (2 * BYTES,))
    numbers = tl.program_id(0) * (2 * step) + tl.arange(0, 2 * BYTES)
    tl.store(out_ptr + numbers, both, mask=numbers < 2 * numel)


def decode(codes: torch.Tensor) -> torch.Tensor:
    """Return the numbers of packed codes in fp64.

    Shapes: codes [N, K / 2] uint8 -> [N, K].
    """
    halves = torch.stack((codes & 15, codes >> 4), dim=-1).reshape(*codes.shape[:-1], -1).long()
    table = torch.tensor(VALUES, dtype=torch.float64, device=codes.device)
    return table[halves & 7] * torch.where(halves >= 8, -1.0, 1.0)


def reference(
    kind: Fp4, codes: torch.Tensor, scale: torch.Tensor, factor: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the weights in fp64.

    Shapes: codes [N, K / 2] uint8, scale [N, K / group] uint8 (mxfp4) or fp8 (nvfp4), factor [1] (nvfp4) -> [N, K].
    """
    if kind == "mxfp4":
        wide = torch.pow(2.0, scale.double() - 127.0)
        wide = wide.masked_fill(scale == 255, float("nan"))
    else:
        wide = scale.float().double() * (1.0 if factor is None else factor.double())
    return decode(codes) * wide.repeat_interleave(GROUPS[kind], dim=-1)


def run(
    kind: Fp4,
    codes: torch.Tensor,
    scale: torch.Tensor,
    factor: torch.Tensor | None = None,
    dtype: torch.dtype = torch.bfloat16,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the weights in 16 bits.

    Shapes: codes [N, K / 2] uint8, scale [N, K / group] uint8 (mxfp4) or fp8 e4m3 (nvfp4), factor [1] fp32 (nvfp4),
    contiguous -> [N, K].
    Raises: ValueError: K does not divide into groups, nvfp4 has no factor or mxfp4 has one, or operands that
        `check_operands` refuses.
    """
    group = GROUPS[kind]
    if codes.dim() != 2 or codes.shape[1] * 2 % group:
        raise ValueError(f"codes {tuple(codes.shape)} do not divide into groups of {group} weights of a row")
    if (kind == "nvfp4") != (factor is not None):
        raise ValueError(f"{kind} {'needs' if kind == 'nvfp4' else 'takes no'} factor")
    shape = (codes.shape[0], codes.shape[1] * 2)
    check_operands((torch.uint8,), codes=codes)
    check_operands(None, codes=codes, scale=scale, factor=factor, out=out)
    scale_format = torch.uint8 if kind == "mxfp4" else torch.float8_e4m3fn
    check_operands((scale_format,), scale=(scale, (shape[0], shape[1] // group)))
    check_operands((torch.float32,), factor=(factor, (1,)))
    check_operands(HALVES, out=(out, shape))
    out = torch.empty(shape, dtype=dtype, device=codes.device) if out is None else out
    check_operands(HALVES, out=out)
    programs = triton.cdiv(codes.numel(), _BYTES)
    _dequantize_kernel[(programs,)](
        codes,
        scale,
        factor,
        out,
        codes.numel(),
        BYTES=_BYTES,
        GROUP=group,
        IS_MX=kind == "mxfp4",
        num_warps=_NUM_WARPS,
    )
    return out


def flop(n: int, k: int) -> int:
    """Floating-point operations [flop]: two products per weight."""
    return 2 * n * k


def bytes(kind: Fp4, n: int, k: int) -> int:
    """Traffic at device memory [bytes]: half a byte of code per weight, one of scale per group, two of result."""
    return n * k // 2 + n * k // GROUPS[kind] + 2 * n * k


def make_inputs(
    kind: Fp4, n: int, k: int, seed: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return random codes and scales around one.

    Shapes: codes [n, k / 2] uint8, scale [n, k / group], factor [1] (nvfp4) or None.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    codes = torch.randint(0, 256, (n, k // 2), generator=generator, device=device, dtype=torch.uint8)
    groups = (n, k // GROUPS[kind])
    if kind == "mxfp4":
        return (
            codes,
            torch.randint(120, 130, groups, generator=generator, device=device, dtype=torch.uint8),
            None,
        )
    scale = torch.rand(groups, generator=generator, device=device) * 4.0 + 0.1
    return codes, scale.to(torch.float8_e4m3fn), torch.tensor([0.25], device=device)
