"""Fit the routed-experts model on measured kernels and write the catalog's records."""

from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.catalog import engines
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.kernels import (
    SGLANG_TRITON,
    KernelParameter,
    OperatorFit,
    Values,
    by_system,
    convert_table,
    devices,
    fit_operators,
    measured_devices,
    sm_flop_per_cycle,
    source_of,
)
from advisor.simulator.device import Device
from advisor.simulator.operators.grouped_matmul import (
    TILE_ROWS,
    ExpertLoad,
    ExpertShape,
    GroupedMatmulEfficiency,
    experts_s,
)
from advisor.simulator.operators.matmul import FORMATS

DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4_wo",
    "w4a16_mxfp4": "mxfp4_wo",
    "w4a8_mxfp4_mxfp8": "w4a8_mxfp4",
}
SHAPE = ["hidden_size", "inter_size", "topk", "num_experts"]
PARAMETERS = (
    KernelParameter("launch_s", 2e-5, 2e-6, 3e-4),
    KernelParameter("expert_s", 2e-8, 1e-10, 3e-6),
    KernelParameter("compute_fraction", 0.7, 0.05, 1.0),
    KernelParameter("memory_fraction", 0.8, 0.2, 0.95),
    KernelParameter("tile_half", 30.0, 0.1, 400.0),
    KernelParameter("ramp_depth", 200.0, 5.0, 3000.0),
    KernelParameter("wave_smoothing", 0.5, 0.02, 1.0),
    KernelParameter("depth_cycles", 1.0, 0.02, 20.0),
    KernelParameter("overlap_norm", 2.0, 1.0, 8.0),
    KernelParameter("row_passes", 1.0, 0.02, 10.0),
    KernelParameter("foreign_passes", 0.1, 0.001, 10.0),
)
_UNMEASURED_FOREIGN = 1.0
"""Passes over other ranks' rows if none were measured: SGLang's and vLLM's kernels skip their matmuls, but write
zeros, activate them and sum them like the rest."""
_NUM_DRAWS = 8
_UNTUNED = 3.0
_GENERATED_SYSTEMS = ("b200_sxm", "gb200", "b300_sxm", "gb300")
_TRITON_DTYPES = ("bf16", "fp8_block")
_WARM_L2_SHARE = 1.2


def load(options: Options) -> pd.DataFrame:
    """Return measured layers, in seconds, without kernels that engines do not run."""
    table = pd.read_parquet(options.kernels("moe"))
    table["dtype"] = table.pop("moe_dtype").map(DTYPES)
    table = _with_generated_kernels(table)
    source = table.kernel_source
    table["gated"] = ~source.str.contains("nongated")
    shapes_without_gate = set(map(tuple, table.loc[~table.gated, SHAPE].drop_duplicates().to_numpy()))
    unclear = np.array([row in shapes_without_gate for row in zip(*(table[c] for c in SHAPE), strict=True)])
    unclear &= (table.backend != "trtllm").to_numpy()
    # DeepSeek's group-limited routing sends the whole balanced pattern to one half of the experts.
    grouped = (table.num_experts == 256) & (table.topk == 8) & (table.hidden_size == 7168)
    folded = (
        grouped
        & (table.distribution == "balanced")
        & (source != "moe_torch_flow_cutlass")
        & (source != "deepgemm")
    )
    # The sweep of this kernel ran up to ten times slower than any other on the same shapes: not tuned.
    untuned = (table.backend == "vllm") & source.str.contains("modeloptfp8moe_flashinfer_cutlass")
    # Triton without mxfp4 support: the weights were read in 16 bits.
    widened = (table.dtype == "mxfp4_wo") & source.str.contains("sglang_fused_moe_triton")
    main_is_trtllm = table.system.isin(_GENERATED_SYSTEMS)
    optional = source.str.contains("min_latency") & ~(main_is_trtllm & (table.dtype == "nvfp4"))
    # Fallbacks for shapes or checkpoint formats that the engine's main kernel did not take.
    triton = main_is_trtllm & source.str.contains("sglang_fused_moe_triton")
    fallback = (triton & ~table.dtype.isin(_TRITON_DTYPES)) | source.str.contains("w4a4mxfp4moe_marlin")
    # In 16 bits, and in fp8 with scales per block, SGLang runs them for most families: a level of its own.
    table["backend"] = table.backend.where(~triton, SGLANG_TRITON)
    table = table[~(unclear | folded | untuned | widened | optional | fallback) & (table.latency > 0)]
    keys = [
        "system",
        "backend",
        "dtype",
        "num_tokens",
        *SHAPE,
        "moe_tp_size",
        "moe_ep_size",
        "distribution",
        "gated",
    ]
    table = table.groupby(keys, observed=True)["latency"].min().reset_index()
    table = convert_table(table[~_warm(table)])
    # A call more than three times slower than another engine's on the same work ran a kernel that was not tuned.
    same_work = [key for key in keys if key != "backend"]
    fastest = table.groupby(same_work, observed=True)["time_s"].transform("min")
    slow = (table["time_s"] > _UNTUNED * fastest) & (table.backend != SGLANG_TRITON)
    # With expert parallelism this sweep takes as long as without, whatever the degree, where every other one falls
    # with it: the rows of all ranks were multiplied, which the engine's own kernels skip.
    whole = (table.system == "a100_sxm") & (table.backend == "sglang") & (table.moe_ep_size > 1)
    return with_loads(table[~whole & ~slow & ~_has_tuned_tiles(table)])


def _has_tuned_tiles(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of rows of SGLang in 16 bits whose shapes have tuned tiles: the engine's record names them, and they run as
    vLLM's do."""
    experts = table.num_experts // table.moe_ep_size
    columns = table.inter_size // table.moe_tp_size
    shapes = {
        (accelerator, shape)
        for choice in engines.by_id("sglang").kernel_choices
        for accelerator, named in choice.shapes.items()
        for shape in named
    }
    rows = zip(table.accelerator, experts, columns, strict=True)
    named = np.array([(accelerator, f"{each}x{width}") in shapes for accelerator, each, width in rows])
    return np.asarray(named & (table.backend == "sglang") & (table.dtype == "bf16"))


def _with_generated_kernels(table: pd.DataFrame) -> pd.DataFrame:
    """Return nvfp4 and block-scaled fp8 experts of TensorRT-LLM on Blackwell as its recipes run them: generated
    kernels, of which SGLang's sweep (through FlashInfer) timed far more shapes than TensorRT-LLM's own."""
    blackwell = table.system.isin(_GENERATED_SYSTEMS) & table.dtype.isin(("nvfp4", "fp8_block"))
    own = blackwell & (table.backend == "trtllm") & ~table.kernel_source.str.contains("min_latency")
    shared = table[blackwell & (table.kernel_source == "sglang_flashinfer_trtllm_moe")]
    return pd.concat([table[~own], shared.assign(backend="trtllm")], ignore_index=True)


def _warm(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of rows whose active weights stay in the L2 between repetitions; in serving the weights of each layer are
    cold."""
    experts = np.minimum(
        np.maximum(table.num_tokens * table.topk / table.moe_ep_size, 1.0),
        table.num_experts / table.moe_ep_size,
    )
    # The power law repeats five different routings; while pairs are fewer than experts they share most experts.
    varied = (table.distribution != "balanced") & (table.num_tokens * table.topk > table.num_experts)
    touched = experts * np.where(varied, 3.0, 1.0)
    elements = 3.0 * table.hidden_size * table.inter_size / table.moe_tp_size
    num_bytes = (
        touched * elements * table["dtype"].map({dtype: each.weight_bytes for dtype, each in FORMATS.items()})
    )
    l2_bytes = table.system.map({system: device.l2_bytes for system, device in devices().items()})
    return np.asarray(num_bytes < _WARM_L2_SHARE * l2_bytes)


@cache
def measured_load(
    tokens: int, topk: int, num_experts: int, ranks: int, distribution: str
) -> tuple[float, ...]:
    """Return (active experts, rows, row tiles per tile size...) of rank 0 in the measured load patterns."""
    if distribution == "balanced":
        # Pair j of token i goes to expert (i + j stride) mod experts: as even as whole tokens allow.
        pairs = tokens * topk / ranks
        local = num_experts / ranks
        active = min(max(pairs, 1.0), local)
        draws = [np.full(round(active), pairs / active)]
    else:
        draws = [_busiest_rank(tokens, topk, num_experts, ranks, draw) for draw in range(_NUM_DRAWS)]
    active = float(np.mean([len(d) for d in draws]))
    rows = float(np.mean([d.sum() for d in draws]))
    tiles = [float(np.mean([np.ceil(d / size).sum() for d in draws])) for size in TILE_ROWS]
    return (active, rows, *tiles)


def _busiest_rank(tokens: int, topk: int, num_experts: int, ranks: int, draw: int) -> FloatArray:
    """Return the loads of the busiest rank's active experts under the power law of the measurements (exponent 1.2)."""
    exponent = 1.0 - 1.2
    low, high = (1.0, tokens * 0.8) if tokens * topk > num_experts else (0.01, 2.0)
    uniform = np.random.default_rng(draw).random(num_experts)
    sizes = ((high**exponent - low**exponent) * uniform + low**exponent) ** (1.0 / exponent)
    loads = np.minimum(np.round(sizes / sizes.sum() * tokens * topk), tokens)
    per_rank = loads.reshape(ranks, -1)
    _settle(per_rank, int(tokens * topk - loads.sum()), tokens)
    busiest = per_rank[per_rank.sum(axis=1).argmax()]
    return busiest[busiest > 0] if (busiest > 0).any() else np.ones(1)


def _settle(per_rank: FloatArray, missing: int, most: int) -> None:
    """Give (or take) the pairs that rounding lost, rank by rank, to the least (from the most) loaded experts."""
    step = 1 if missing > 0 else -1
    for turn in range(abs(missing)):
        loads = per_rank[turn % len(per_rank)]
        expert = loads.argmin() if step > 0 else loads.argmax()
        if 0 <= loads[expert] + step <= most:
            loads[expert] += step


def with_loads(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns for each row's load, so that a fit only evaluates."""
    names = ["num_tokens", "topk", "num_experts", "moe_ep_size", "distribution"]
    loads = np.array([measured_load(*pattern) for pattern in zip(*(table[n] for n in names), strict=True)])
    columns = ("active", "rows", *(f"tiles_{size}" for size in TILE_ROWS))
    return table.assign(**{name: loads[:, place] for place, name in enumerate(columns)})


def predict(parameters: Values, rows: pd.DataFrame, dtype: str) -> FloatArray:
    """Predicted times of every row [s]."""
    efficiency = GroupedMatmulEfficiency(dtype=dtype, **parameters)

    def price(device: Device, _: tuple[str, ...], rows: pd.DataFrame) -> FloatArray:
        inner = (rows["inter_size"] / rows["moe_tp_size"]).to_numpy(float)
        shape = ExpertShape(
            hidden_size=rows["hidden_size"].to_numpy(float),
            intermediate_size=inner,
            up_columns=inner * np.where(rows["gated"], 2.0, 1.0),
            num_local_experts=(rows["num_experts"] / rows["moe_ep_size"]).to_numpy(float),
        )
        tiles = rows[[f"tiles_{size}" for size in TILE_ROWS]].to_numpy(float).T
        pairs = (rows["num_tokens"] * rows["topk"]).to_numpy(float)
        load = ExpertLoad(rows["active"].to_numpy(float), rows["rows"].to_numpy(float), pairs, tiles)
        return experts_s(rows["num_tokens"].to_numpy(float), shape, load, device, efficiency)

    return by_system(rows, [], price)


def usual(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of deployments that users run."""
    return np.asarray((table["moe_tp_size"] * table["moe_ep_size"] <= 16) & (table["num_tokens"] <= 16384))


def known_values(rows: pd.DataFrame, dtype: str) -> Values:
    """Return the rate of the devices, and passes over other ranks' rows if there were none."""
    alone = bool((rows["moe_ep_size"] == 1).all())
    return ({"foreign_passes": _UNMEASURED_FOREIGN} if alone else {}) | sm_flop_per_cycle(
        measured_devices(rows), dtype
    )


def operator(options: Options) -> OperatorFit:
    """Return the operator with its measurements."""
    source = source_of("systems data, moe tables of vLLM, SGLang and TensorRT-LLM", title="MoE measurements")
    return OperatorFit(
        "grouped_matmul",
        load(options),
        predict,
        PARAMETERS,
        source,
        lambda rows: np.where(usual(rows), 1.0, 0.2),
        usual,
        known_values,
        drawn_by_weight=True,
        not_for_any=(SGLANG_TRITON,),
    )


def run(options: Options) -> None:
    """Fit routed experts."""
    fit_operators([operator(options)], options, "grouped_matmul")
