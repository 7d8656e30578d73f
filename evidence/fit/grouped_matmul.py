"""Fit the routed-experts model on measured kernels and write the catalog's records.

python -m advisor.evidence.fit.grouped_matmul --data ../shared/data/kernels
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.efficiencies import efficiency
from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit import kernel_data
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
    kernel_data.Parameter("launch_s", 2e-5, 2e-6, 3e-4),
    kernel_data.Parameter("expert_s", 2e-8, 1e-10, 3e-6),
    kernel_data.Parameter("compute_fraction", 0.7, 0.05, 1.0),
    kernel_data.Parameter("memory_fraction", 0.8, 0.2, 0.95),
    kernel_data.Parameter("tile_half", 30.0, 0.1, 400.0),
    kernel_data.Parameter("ramp_depth", 200.0, 5.0, 3000.0),
    kernel_data.Parameter("wave_smoothing", 0.5, 0.02, 1.0),
    kernel_data.Parameter("depth_cycles", 1.0, 0.02, 20.0),
    kernel_data.Parameter("overlap_norm", 2.0, 1.0, 8.0),
    kernel_data.Parameter("row_passes", 1.0, 0.02, 10.0),
    kernel_data.Parameter("foreign_passes", 0.1, 0.001, 10.0),
)
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator MoE measurements (Apache-2.0)",
    "where": "systems data, moe tables of vLLM, SGLang and TensorRT-LLM",
    "accessed": "2026-11-20",
    "note": "parameters fitted by evidence/fit/grouped_matmul.py",
}
MODELS = {
    "gpt-oss-120b": (2880, 2880, 4, 128),
    "gpt-oss-20b": (2880, 2880, 4, 32),
    "deepseek-r1": (7168, 2048, 8, 256),
    "kimi-k2.5": (7168, 2048, 8, 384),
    "qwen3-235b": (4096, 1536, 8, 128),
    "qwen3-30b": (2048, 768, 8, 128),
    "qwen3.5-397b": (4096, 1024, 10, 512),
    "mixtral-8x7b": (4096, 14336, 2, 8),
}
Devices = dict[str, Device]
_UNMEASURED_FOREIGN = 1.0
"""Passes over other ranks' rows where none were measured: SGLang's and vLLM's kernels skip their products, but write
zeros, activate them and sum them like the rest."""
_NUM_DRAWS = 8
_UNTUNED = 3.0
_GENERATED_SYSTEMS = ("b200_sxm", "gb200", "b300_sxm", "gb300")
_WARM_L2_SHARE = 1.2


def load(data: Path, devices: Devices) -> pd.DataFrame:
    """Measured layers, in seconds, without what is not the kernel that an engine runs."""
    table = pd.read_parquet(data / "moe.parquet")
    table["dtype"] = table.pop("moe_dtype").map(DTYPES)
    table["seconds"] = table.pop("latency").astype(float) * MILLISECOND_S
    table = _with_generated_kernels(table)
    source = table.kernel_source
    table["gated"] = ~(source.str.contains("nongated"))
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
    fallback = (triton & (table.dtype != "bf16")) | source.str.contains("w4a4mxfp4moe_marlin")
    # In 16 bits SGLang runs them for most models: a level of its own.
    table["backend"] = table.backend.where(~triton, kernel_data.SGLANG_TRITON)
    table = table[~(unclear | folded | untuned | widened | optional | fallback) & (table.seconds > 0)]
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
    table = table.groupby(keys, as_index=False, observed=True).seconds.min()
    table = table[~_warm(table, devices)]
    # A call more than three times slower than another engine's on the same work ran a kernel that was not tuned.
    same_work = [key for key in keys if key != "backend"]
    fastest = table.groupby(same_work, observed=True).seconds.transform("min")
    slow = (table.seconds > _UNTUNED * fastest) & (table.backend != kernel_data.SGLANG_TRITON)
    # With expert parallelism this sweep takes as long as without, whatever the degree, where every other one falls
    # with it: the rows of all ranks were multiplied, which the engine's own kernels skip.
    whole = (table.system == "a100_sxm") & (table.backend == "sglang") & (table.moe_ep_size > 1)
    return table[~whole & ~slow]


def _with_generated_kernels(table: pd.DataFrame) -> pd.DataFrame:
    """nvfp4 and block-scaled fp8 experts of TensorRT-LLM on Blackwell as its recipes run them: generated kernels, of
    which SGLang's sweep (through FlashInfer) timed far more shapes than its own."""
    blackwell = table.system.isin(_GENERATED_SYSTEMS) & table.dtype.isin(("nvfp4", "fp8_block"))
    own = blackwell & (table.backend == "trtllm") & ~table.kernel_source.str.contains("min_latency")
    shared = table[blackwell & (table.kernel_source == "sglang_flashinfer_trtllm_moe")]
    return pd.concat([table[~own], shared.assign(backend="trtllm")], ignore_index=True)


def _warm(table: pd.DataFrame, devices: Devices) -> np.ndarray:
    """Rows whose active weights stay in the L2 between repetitions; in serving every layer's weights are cold."""
    experts = np.minimum(
        np.maximum(table.num_tokens * table.topk / table.moe_ep_size, 1.0),
        table.num_experts / table.moe_ep_size,
    )
    # The power law repeats five different routings; while pairs are fewer than experts they share most experts.
    varied = (table.distribution != "balanced") & (table.num_tokens * table.topk > table.num_experts)
    touched = experts * np.where(varied, 3.0, 1.0)
    elements = 3.0 * table.hidden_size * table.inter_size / table.moe_tp_size
    num_bytes = touched * elements * table.dtype.map(lambda dtype: FORMATS[dtype].weight_bytes)
    l2_bytes = table.system.map({system: device.l2_bytes for system, device in devices.items()})
    return (num_bytes < _WARM_L2_SHARE * l2_bytes).to_numpy()


@cache
def measured_load(
    tokens: int, topk: int, num_experts: int, ranks: int, distribution: str
) -> tuple[float, ...]:
    """(active experts, rows, row tiles per tile size...) of rank 0 in the measured load patterns."""
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


def _busiest_rank(tokens: int, topk: int, num_experts: int, ranks: int, draw: int) -> np.ndarray:
    """Loads of the busiest rank's active experts under the power law of the measurements (exponent 1.2)."""
    exponent = 1.0 - 1.2
    low, high = (1.0, tokens * 0.8) if tokens * topk > num_experts else (0.01, 2.0)
    uniform = np.random.default_rng(draw).random(num_experts)
    sizes = ((high**exponent - low**exponent) * uniform + low**exponent) ** (1.0 / exponent)
    loads = np.minimum(np.round(sizes / sizes.sum() * tokens * topk), tokens)
    per_rank = loads.reshape(ranks, -1)
    _settle(per_rank, int(tokens * topk - loads.sum()), tokens)
    busiest = per_rank[per_rank.sum(axis=1).argmax()]
    return busiest[busiest > 0] if (busiest > 0).any() else np.ones(1)


def _settle(per_rank: np.ndarray, missing: int, most: int) -> None:
    """Give (or take) the pairs that rounding lost, rank by rank, to the least (from the most) loaded experts."""
    step = 1 if missing > 0 else -1
    for turn in range(abs(missing)):
        loads = per_rank[turn % len(per_rank)]
        expert = loads.argmin() if step > 0 else loads.argmax()
        if 0 <= loads[expert] + step <= most:
            loads[expert] += step


def prepare(table: pd.DataFrame) -> list[tuple]:
    """Per system: row numbers and what the model needs, so that a fit only evaluates."""
    patterns = zip(
        table.num_tokens, table.topk, table.num_experts, table.moe_ep_size, table.distribution, strict=True
    )
    loads = np.array([measured_load(*pattern) for pattern in patterns])
    prepared = []
    for system, index in table.reset_index(drop=True).groupby("system", observed=True).indices.items():
        rows = table.iloc[index]
        inner = (rows.inter_size / rows.moe_tp_size).to_numpy(dtype=float)
        shape = ExpertShape(
            hidden_size=rows.hidden_size.to_numpy(dtype=float),
            intermediate_size=inner,
            up_columns=inner * np.where(rows.gated, 2.0, 1.0),
            num_local_experts=(rows.num_experts / rows.moe_ep_size).to_numpy(dtype=float),
        )
        mine = loads[index]
        all_rows = (rows.num_tokens * rows.topk).to_numpy(dtype=float)
        load_ = ExpertLoad(mine[:, 0], mine[:, 1], all_rows, mine[:, 2:].T)
        prepared.append((index, system, shape, rows.num_tokens.to_numpy(dtype=float), load_))
    return prepared


def predict(prepared: list[tuple], devices: Devices, dtype: str, parameters: dict[str, float]) -> np.ndarray:
    """Predicted seconds of every row."""
    efficiency = GroupedMatmulEfficiency(dtype=dtype, **parameters)
    out = np.empty(sum(len(index) for index, *_ in prepared))
    for index, system, shape, tokens, load_ in prepared:
        out[index] = experts_s(tokens, shape, load_, devices[system], efficiency)
    return out


def weights(table: pd.DataFrame) -> np.ndarray:
    """Deployments that people run count fully, the rest a little."""
    usual = (table.moe_tp_size * table.moe_ep_size <= 16) & (table.num_tokens <= 16384)
    return np.where(usual, 1.0, 0.2)


def fit(table: pd.DataFrame, devices: Devices, dtype: str, points: int) -> dict[str, float]:
    """Parameters of one group of measurements."""
    weight = weights(table)
    if len(table) > points:
        pick = np.random.default_rng(0).choice(len(table), points, replace=False, p=weight / weight.sum())
        table, weight = table.iloc[pick], np.ones(points)
    prepared = prepare(table)
    rate = {"sm_flop_per_cycle": kernel_data.sm_flop_per_cycle(table, devices, dtype)}
    found = kernel_data.fit_log_ratio(
        PARAMETERS,
        lambda values: predict(prepared, devices, dtype, {**values, **rate}),
        table.seconds.to_numpy(),
        weight,
    )
    if (table.moe_ep_size == 1).all():
        found["foreign_passes"] = _UNMEASURED_FOREIGN
    return found | rate


def report_models(operator: kernel_data.Operator, table: pd.DataFrame) -> None:
    """Print errors of the written records on well-known models: 1 to 8192 tokens, up to 8 accelerators."""
    usual = table[(table.moe_tp_size * table.moe_ep_size <= 8) & (table.num_tokens <= 8192)]
    for (system, backend, dtype), of_engine in usual.groupby(["system", "backend", "dtype"]):
        architecture = kernel_data.SYSTEMS[system][1]
        record = efficiency(architecture, "grouped_matmul", dtype, kernel_data.ENGINES[backend]).record
        for model, sizes in MODELS.items():
            rows = of_engine[(of_engine[SHAPE].to_numpy() == sizes).all(axis=1)]
            if len(rows):
                predicted = operator.predict(rows, dtype, record.parameters)
                print(model, system, backend, dtype, kernel_data.residual(predicted, rows.seconds.to_numpy()))


def main() -> None:
    parser = kernel_data.arguments(__doc__ or "")
    parser.add_argument(
        "--models", action="store_true", help="report errors by model of the records as they are"
    )
    options = parser.parse_args()
    devices = kernel_data.devices()
    operator = kernel_data.Operator(
        name="grouped_matmul",
        program="evidence/fit/grouped_matmul.py",
        source=SOURCE,
        fit=lambda table, dtype: fit(table, devices, dtype, options.points),
        predict=lambda table, dtype, parameters: predict(prepare(table), devices, dtype, parameters),
        judged=lambda table: table[weights(table) == 1.0],
        not_for_any=(kernel_data.SGLANG_TRITON,),
    )
    table = load(options.data, devices)
    if options.models:
        report_models(operator, table)
    else:
        kernel_data.fit_operator(operator, table, options.only, options.dry_run)


if __name__ == "__main__":
    main()
