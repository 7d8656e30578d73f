"""Operator libraries: the time functions of one accelerator under one engine, with their fitted parameters looked up
once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import accelerators
from advisor.catalog.dtypes import FILE_DTYPES, bytes_per_element
from advisor.catalog.efficiencies import efficiency
from advisor.catalog.schema import EfficiencyRecord
from advisor.simulator.device import Device, device_of
from advisor.simulator.operators.attention_kernels import DecodeEfficiency, PrefillEfficiency
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s
from advisor.simulator.operators.grouped_matmul import (
    TYPICAL_SKEW,
    GroupedMatmulEfficiency,
    moe_s,
    rate_fraction,
)
from advisor.simulator.operators.latent_attention import AbsorbEfficiency, LatentDecodeEfficiency
from advisor.simulator.operators.local import LocalDecodeEfficiency
from advisor.simulator.operators.matmul import (
    DTYPE_ALIASES,
    FORMATS,
    SPARSE,
    SPARSE_UNITS,
    MatmulEfficiency,
    datasheet_peak_flop_per_s,
    matmul_s,
    of_one_warp,
    peak_flop_per_s,
    relative_sm_rate,
)

FloatArray = NDArray[np.float64]

_BETWEEN_WIDTHS = 0.75
"""Bytes per weight from which a file format is unpacked like 8-bit weights instead of 4-bit ones."""
_WITHOUT_FACTS = "local_"
"""Prefix of the names of operators that do not depend on SMs, clock and L2."""
_WEIGHT_ONLY = {
    "fp8": "int8_wo",
    "int8": "int8_wo",
    "int4": "int4_wo",
    "nf4": "nf4",
    "w4a8": "int4_wo",
    "aqlm-2bit": "codebook_wo",
    "quip-2bit": "codebook_wo",
    "sparse24": "sparse24",
    "nvfp4": "int4_wo",
    "mxfp4": "mxfp4_wo",
    "fp6": "int8_wo",
    **{name: "int8_wo" if bytes_per_element(name) > _BETWEEN_WIDTHS else "int4_wo" for name in FILE_DTYPES},
}
_SPARSE_FRACTION = 0.8
"""Fraction of a sparse unit's twofold rate over that of a dense one: large matrices gain 1.6 (Mishra et al. 2021,
arXiv:2104.08378, figure 3)."""
MARLIN = "marlin"
_STREAMED_BYTES_PER_S = 3.35e12 / 132
"""Bandwidth per SM of the H100 on which kernels that unpack weights were measured [bytes/s]."""


def matmul_key(weight_dtype: str, activation_dtype: str, *, block_scaled: bool = False) -> str:
    """Return the operator format of a weight format with an activation format: the kernel family that multiplies them.

    Source: kernel choice of vLLM and TensorRT-LLM: equal low-bit formats use the low-bit unit, unequal ones
    dequantise weights on the fly.
    """
    if weight_dtype in ("fp32", "tf32"):
        return weight_dtype
    if weight_dtype in ("bf16", "fp16"):
        return "bf16"
    if weight_dtype == activation_dtype:
        return "fp8_block" if weight_dtype == "fp8" and block_scaled else weight_dtype
    if weight_dtype == "w4a8" and activation_dtype in ("fp8", "int8"):
        return "w4a8"
    if weight_dtype == "mxfp4" and activation_dtype == "fp8":
        return "w4a8_mxfp4"
    return _WEIGHT_ONLY[weight_dtype]


def matmul_peak_flop_per_s(weight_dtype: str, activation_dtype: str, device: Device) -> float:
    """Return the dense peak of the unit that multiplies a weight format with an activation format [flop/s].

    Source: `matmul_key` and `peak_flop_per_s`.
    """
    key = matmul_key(weight_dtype, activation_dtype)
    return peak_flop_per_s(DTYPE_ALIASES.get(key, key), device)


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """Shape and split of the routed experts of one layer."""

    hidden_size: int
    intermediate_size: int
    num_experts: int
    experts_per_token: int
    tensor_parallel: int
    expert_parallel: int
    gated: bool
    is_balanced: bool = False
    """Whether copies of popular experts even out the loads of the ranks."""


class _FromRecord(Protocol):
    """Parameter set that a catalog record can fill."""

    @classmethod
    def from_record(cls, record: EfficiencyRecord) -> Self: ...


EfficiencyT = TypeVar("EfficiencyT", bound=_FromRecord)


@dataclass(slots=True)
class OperatorLibrary:
    """Time functions bound to a device and an engine, with the names of transferred parameters."""

    device: Device
    engine: str
    transferred_operators: set[str] = field(default_factory=set)
    """Names of what was looked up so far and was not measured on this device; whoever shares a library between replicas
    clears it before each."""
    expert_block_rows: float = 0.0
    """Number of rows to which the engine pads the rows of each expert that a rank holds; 0 if experts without a row are
    left out."""
    expert_skew: float = TYPICAL_SKEW
    """Coefficient of variation of the popularity of experts; 0 if copies or a balancer make them equal."""
    uneven_streams: float = 0.0
    """Fraction of its time that decode attention loses to contexts of unequal length, in the worst case on an H200."""
    latent_stream_share: float = 0.0
    """Fraction of the SMs over which the engine splits one sequence of latent attention, if it splits further than the
    measured kernels; 0 if it does not."""
    sustained_flop_per_s: Mapping[str, float] = field(default_factory=dict)
    """Rate of dense matmuls by the format of the unit [flop/s], in place of the kernel model; empty: use the kernel
    model."""
    fused_quantisation: bool = False
    """Whether the operator in front of a matmul writes its fp8 input, if scales cover a token or less."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Level of the records by operator, where it is not the engine's own."""
    launch_scale: float = 1.0
    """Ratio of an operator's launch time to that of a kernel measured alone, which waits for the one before."""
    _resolved: dict[tuple[str, str], tuple[object, tuple[str, ...]]] = field(default_factory=dict)
    """Parameters by operator and format, with the names of those that were not measured."""
    _queued: dict[float, "OperatorLibrary"] = field(default_factory=dict)
    _products: dict[tuple[int, int, str, bool], tuple[FloatArray, FloatArray]] = field(
        default_factory=dict, init=False
    )
    """Cache of the tokens and times of the last matmul of each shape."""

    def with_launch_scale(self, launch_scale: float) -> "OperatorLibrary":
        """Return a copy of the library with launch times multiplied by `launch_scale`, as seen for kernels queued on
        the device.

        Source: own design; the fraction is an engine's, see EngineCosts.launch_scale.
        """
        if launch_scale == self.launch_scale:
            return self
        if launch_scale not in self._queued:
            library = replace(self, launch_scale=launch_scale, _resolved={}, _queued={})
            for key, (parameters, names) in self._resolved.items():
                library._resolved[key] = _with_launches(parameters, launch_scale / self.launch_scale), names
            self._queued[launch_scale] = library
        return self._queued[launch_scale]

    def on_device(self, device: Device) -> "OperatorLibrary":
        """Return a copy of the library for another device, whose parameters are looked up again.

        Source: own design.
        """
        return replace(self, device=device, _resolved={}, _queued={})

    def sustaining(self, flop_per_s: Mapping[str, float]) -> "OperatorLibrary":
        """Return a copy of the library whose matmuls run at a fixed FLOP/s per number format instead of by kernel
        model.

        Source: own design.
        """
        return replace(self, sustained_flop_per_s=flop_per_s)

    @property
    def sums_take_norms(self) -> bool:
        """Whether the engine's sums over ranks take the residual and the norm behind them along."""
        return self.kernels.get("norm") == "sum"

    def wide_format(self, name: str) -> str:
        """Return the format of a matmul with unquantised weights: 16 bits, or fp32 if the engine keeps a router so.

        Source: the engine's record.
        """
        return self.kernels.get(name, "bf16")

    def matmul_s(
        self, tokens: FloatArray, columns: int, depth: int, dtype: str, *, behind_kernel: bool = True
    ) -> FloatArray:
        """Time of the dense matmul of one layer [s], per entry of tokens.

        `behind_kernel`: the input comes from a small operator, which may quantise it on the way, not from attention.

        Source: operators.matmul.
        """
        key = (columns, depth, dtype, behind_kernel)
        known, seconds = self._products.get(key, (tokens, None))
        # A surface asks for prefill first, then for decode, whose token counts are the first of these.
        if seconds is None or not np.array_equal(known[: len(tokens)], tokens):
            rate = self.sustained_flop_per_s.get(FORMATS[dtype].peak[0])
            if rate is None:
                seconds = self._product_s(tokens, columns, depth, dtype, behind_kernel=behind_kernel)
            else:
                seconds = 2.0 * tokens * columns * depth / rate
            seconds.flags.writeable = False
            self._products[key] = tokens, seconds
        else:
            self._note_product(dtype, behind_kernel=behind_kernel)
        return seconds[: len(tokens)]

    def _note_product(self, dtype: str, *, behind_kernel: bool) -> None:
        """Add the names of what a matmul that was computed before looked up."""
        if FORMATS[dtype].peak[0] in self.sustained_flop_per_s:
            return
        unpacking = self.kernels.get("weight_only") if FORMATS[dtype].is_unpacked else None
        first = unpacking or ("sgemm" if dtype == "fp32" else "matmul")
        wide = unpacking is not None or (self.fused_quantisation and dtype == "fp8" and behind_kernel)
        for used in ((first, dtype), ("matmul", "bf16"))[: 1 + wide]:
            self.transferred_operators.update(self._resolved[used][1])

    def _product_s(
        self, tokens: FloatArray, columns: int, depth: int, dtype: str, *, behind_kernel: bool
    ) -> FloatArray:
        unpacking = self.kernels.get("weight_only") if FORMATS[dtype].is_unpacked else None
        if dtype == SPARSE:
            return self._sparse_s(tokens, columns, depth)
        if unpacking is not None:
            return self._unpacked_s(tokens, columns, depth, dtype, unpacking)
        efficiency = self.parameters(MatmulEfficiency, "sgemm" if dtype == "fp32" else "matmul", dtype)
        if self.fused_quantisation and dtype == "fp8" and behind_kernel:
            launch_s = min(efficiency.launch_s, self.parameters(MatmulEfficiency, "matmul", "bf16").launch_s)
            efficiency = replace(efficiency, launch_s=launch_s, quantize_bytes=0.0, quantize_row_cycles=0.0)
        return matmul_s(tokens, columns, depth, self.device, efficiency)

    def _sparse_s(self, tokens: FloatArray, columns: int, depth: int) -> FloatArray:
        """Time of a matmul with two of four weights, by a unit that skips the others [s].

        Assumes: units without sparse instructions multiply the zeros.
        Source: operators.matmul.peak_flop_per_s.
        """
        efficiency = self.parameters(MatmulEfficiency, "matmul", SPARSE)
        if self.device.architecture in SPARSE_UNITS:
            efficiency = replace(efficiency, compute_fraction=_SPARSE_FRACTION * efficiency.compute_fraction)
        return matmul_s(tokens, columns, depth, self.device, efficiency)

    def _unpacked_s(
        self, tokens: FloatArray, columns: int, depth: int, dtype: str, kernel: str
    ) -> FloatArray:
        """Time of a dense matmul by a kernel that unpacks weights on their way to a 16-bit product [s].

        Assumes: unpacked weights multiply no faster than 16-bit ones where reading these would cost nothing, and come
        no faster than an SM streams them where it was measured, so that a transferred record keeps the chip's limits.
        """
        efficiency = self.parameters(MatmulEfficiency, kernel, dtype)
        plain = self.parameters(MatmulEfficiency, "matmul", "bf16")
        device = of_one_warp(self.device) if kernel == MARLIN else self.device
        streamed = _STREAMED_BYTES_PER_S * device.num_sms / device.bandwidth_bytes_per_s
        fraction = min(plain.memory_fraction, efficiency.memory_fraction * streamed)
        own_s = matmul_s(tokens, columns, depth, device, replace(efficiency, memory_fraction=fraction))
        endless = replace(self.device, bandwidth_bytes_per_s=math.inf)
        return np.maximum(own_s, matmul_s(tokens, columns, depth, endless, plain))

    def experts_s(
        self, tokens: FloatArray, dtype: str, shape: ExpertLayer, *, dispatched: bool = False
    ) -> FloatArray:
        """Time of the routed experts of one layer on one accelerator [s], where every rank holds all tokens or each was
        `dispatched` to the ranks of its experts. Source: operators.grouped_matmul."""
        return moe_s(
            tokens,
            shape.hidden_size,
            shape.intermediate_size,
            shape.num_experts,
            shape.experts_per_token,
            self.device,
            self.parameters(GroupedMatmulEfficiency, "grouped_matmul", dtype),
            tensor_parallel=shape.tensor_parallel,
            expert_parallel=shape.expert_parallel,
            gated=shape.gated,
            skew=0.0 if shape.is_balanced else self.expert_skew,
            block_rows=self.expert_block_rows,
            dispatched=dispatched,
        )

    def elementwise_s(self, num_bytes: FloatArray) -> FloatArray:
        """Time of one memory-bound small operator [s]. Source: operators.elementwise."""
        return elementwise_s(
            num_bytes, self.device, self.parameters(ElementwiseEfficiency, "elementwise", "bf16")
        )

    def assume(self, operator: str, dtype: str, parameters: object) -> None:
        """Use these parameters instead of the catalog's; programs that fit them call it. Source: own design."""
        self._resolved[(operator, dtype)] = parameters, ()
        self._queued.clear()
        self._products.clear()

    def parameters(self, kind: type[EfficiencyT], operator: str, dtype: str) -> EfficiencyT:
        """Return the fitted parameters of an operator in a format on this device, transferred if they were not
        measured.

        Raises: UnknownNameError: the operator has no records at all.
        """
        key = (operator, dtype)
        if key not in self._resolved:
            level = self.kernels.get(operator, self.engine)
            found = efficiency(self.device.architecture, operator, dtype, level)
            names = () if operator.startswith(_WITHOUT_FACTS) else tuple(self.device.assumed)
            if found.transferred_from:
                names = (*names, f"{operator}: {found.transferred_from}")
            # A record of a related format lends its efficiencies; bytes and peak stay those of the format asked for.
            own = kind.from_record(found.record.model_copy(update={"dtype": dtype}))
            alone = _on_other_memory(_on_cut_units(own, found.record, self.device), found.record, self.device)
            self._resolved[key] = _with_launches(alone, self.launch_scale), names
        parameters, names = self._resolved[key]
        self.transferred_operators.update(names)
        return cast(EfficiencyT, parameters)


_UNIT_FRACTIONS: Final = {
    PrefillEfficiency: "peak_fraction",
    DecodeEfficiency: "compute_fraction",
    LatentDecodeEfficiency: "compute_fraction",
    AbsorbEfficiency: "peak_fraction",
}
"""Fraction of the matrix unit's peak that kernels of a kind reach; matmuls have the law in their own form."""


_WHOLE_UNIT: Final = 0.95
"""Rate of an SM, relative to the measured one, from which its matrix unit is not cut: clocks are rounded."""


def _on_cut_units(parameters: object, record: EfficiencyRecord, device: Device) -> object:
    """Return the parameters of an attention kernel on a chip whose matrix unit is cut below that of the measured one.

    Everything beside the unit runs as fast as before, so that the kernel comes nearer to a lower peak: FlashMLA reaches
    87 % of an H20's (deepseek-ai/FlashMLA issue 30) and 60 to 67 % of an H800's, whose unit is four times as fast.

    Source: operators.grouped_matmul.rate_fraction.
    """
    name = _UNIT_FRACTIONS.get(type(parameters))
    is_own = device.architecture == record.architecture and device.id not in record.fitted_on
    if name is None or not is_own or not record.fitted_on:
        return parameters
    own = cast(Any, parameters)
    measured = device_of(accelerators.by_id(record.fitted_on[0]))
    peak = datasheet_peak_flop_per_s("bf16", device)
    reference = datasheet_peak_flop_per_s("bf16", measured) / (measured.num_sms * measured.clock_hz)
    relative = relative_sm_rate(peak, device, reference)
    if relative > _WHOLE_UNIT:
        return parameters
    return replace(own, **{name: rate_fraction(min(1.0, getattr(own, name)), relative)})


_MEMORY_FRACTIONS: Final = {
    MatmulEfficiency: ("memory_fraction",),
    GroupedMatmulEfficiency: ("memory_fraction",),
    ElementwiseEfficiency: ("memory_fraction",),
    DecodeEfficiency: ("bandwidth_fraction",),
    LatentDecodeEfficiency: ("bandwidth_fraction",),
    LocalDecodeEfficiency: ("memory_fraction", "cache_fraction"),
}
"""Fractions of the memory's bandwidth that kernels of a kind reach."""


def _on_other_memory(parameters: object, record: EfficiencyRecord, device: Device) -> object:
    """Return the parameters of a kernel on memory of which another fraction carries data than on the measured chips of
    its architecture.

    Llama-3-8B in 16 bits reads 0.81 of an L40S's bandwidth with llama.cpp, whose memory holds codes for error
    correction between its data, and 0.87 of that of an RTX 6000 Ada, the same chip without codes.

    Assumes: a record of several chips was fitted to as many points of each; what a kernel of another architecture
    reaches is less certain than that.
    Source: data_fraction; GPU-Benchmarks-on-LLM-Inference.
    """
    is_own = device.architecture == record.architecture
    names = _MEMORY_FRACTIONS.get(type(parameters), ()) if is_own else ()
    known = [accelerators.by_id(name).data_fraction for name in record.fitted_on] if names else []
    if not known:
        return parameters
    factor = device.data_fraction * len(known) / sum(known)
    own = cast(Any, parameters)
    return replace(own, **{name: min(1.0, factor * getattr(own, name)) for name in names})


def _with_launches(parameters: object, fraction: float) -> object:
    """Return the parameters of an operator with all launch times multiplied by `fraction`."""
    if fraction == 1.0:
        return parameters
    record = cast(Any, parameters)
    names = [entry.name for entry in fields(record) if entry.name.endswith("launch_s")]
    return replace(record, **{name: fraction * getattr(record, name) for name in names})
