"""Fit the routed-experts model on measured kernels and write the catalog's records.

python tools/fit/fit_grouped_matmul.py --data ../shared/data/kernels
"""

from functools import cache
from pathlib import Path

import common
import numpy as np
import pandas as pd

from advisor.simulator.operators.grouped_matmul import (
    TILE_ROWS,
    ExpertLoad,
    ExpertShape,
    GroupedMatmulEfficiency,
    experts_s,
)

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
    common.Parameter("launch_s", 2e-5, 2e-6, 3e-4),
    common.Parameter("expert_s", 2e-8, 1e-10, 3e-6),
    common.Parameter("compute_fraction", 0.7, 0.05, 1.0),
    common.Parameter("memory_fraction", 0.8, 0.2, 0.95),
    common.Parameter("tile_half", 30.0, 0.1, 400.0),
    common.Parameter("ramp_depth", 200.0, 5.0, 3000.0),
    common.Parameter("wave_smoothing", 0.5, 0.02, 1.0),
    common.Parameter("sm_reach", 2.0, 0.5, 8.0),
    common.Parameter("overlap_norm", 2.0, 1.0, 8.0),
    common.Parameter("row_passes", 1.0, 0.02, 10.0),
)
SOURCE = {
    "kind": "measured",
    "title": "ai-dynamo/aiconfigurator MoE measurements (Apache-2.0)",
    "where": "systems data, moe tables of vLLM, SGLang and TensorRT-LLM",
    "accessed": "2026-11-20",
    "note": "parameters fitted by tools/fit/fit_grouped_matmul.py",
}
_NUM_DRAWS = 8


def load(data: Path) -> pd.DataFrame:
    """Measured layers, in seconds, without what is not the kernel that an engine runs."""
    table = pd.read_parquet(data / "moe.parquet")
    table["dtype"] = table.pop("moe_dtype").map(DTYPES)
    table["seconds"] = table.pop("latency").astype(float) * 1e-3
    source = table.kernel_source
    table["gated"] = ~(source.str.contains("nongated"))
    shapes_without_gate = set(map(tuple, table.loc[~table.gated, SHAPE].drop_duplicates().to_numpy()))
    unclear = np.array([row in shapes_without_gate for row in zip(*(table[c] for c in SHAPE), strict=True)])
    unclear &= (table.backend != "trtllm").to_numpy()
    # DeepSeek's group-limited routing sends every token of the balanced pattern to the same half of the experts.
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
    optional = source.str.contains("min_latency")
    table = table[~(unclear | folded | untuned | widened | optional) & (table.seconds > 0)]
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
    return table.groupby(keys, as_index=False, observed=True).seconds.min()


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
    missing = int(tokens * topk - loads.sum())
    order = np.argsort(loads)
    if missing > 0:
        loads[order[np.arange(missing) % num_experts]] += 1
        loads = np.minimum(loads, tokens)
    elif missing < 0:
        loads[order[::-1][:-missing]] -= 1
    per_rank = loads.reshape(ranks, -1)
    busiest = per_rank[per_rank.sum(axis=1).argmax()]
    return busiest[busiest > 0] if (busiest > 0).any() else np.ones(1)


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
        load_ = ExpertLoad(active_experts=mine[:, 0], rows=mine[:, 1], row_tiles=mine[:, 2:].T)
        prepared.append((index, system, shape, rows.num_tokens.to_numpy(dtype=float), load_))
    return prepared


def predict(prepared: list[tuple], devices: dict, dtype: str, parameters: dict[str, float]) -> np.ndarray:
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


def fit(table: pd.DataFrame, devices: dict, dtype: str, points: int) -> dict[str, float]:
    """Parameters of one group of measurements."""
    weight = weights(table)
    if len(table) > points:
        pick = np.random.default_rng(0).choice(len(table), points, replace=False, p=weight / weight.sum())
        table, weight = table.iloc[pick], np.ones(points)
    prepared = prepare(table)
    return common.fit_log_ratio(
        PARAMETERS, lambda values: predict(prepared, devices, dtype, values), table.seconds.to_numpy(), weight
    )


def main() -> None:
    options = common.arguments(__doc__ or "").parse_args()
    devices = common.devices(options.data)
    table = load(options.data)
    for architecture in dict.fromkeys(architecture for _, architecture in common.SYSTEMS.values()):
        if options.only and architecture not in options.only.split(","):
            continue
        systems = [s for s, (_, a) in common.SYSTEMS.items() if a == architecture]
        records = []
        for (dtype, engine), measured in common.by_engine(table[table.system.isin(systems)], "dtype"):
            parameters = fit(measured, devices, dtype, options.points)
            judged = measured[weights(measured) == 1.0]
            judged = judged.sample(min(len(judged), 8000), random_state=1)
            left = common.residual(
                predict(prepare(judged), devices, dtype, parameters), judged.seconds.to_numpy()
            )
            records.append(common.record(dtype, engine, measured, parameters, left))
            common.report(architecture, records[-1])
        if not options.dry_run:
            common.write_records(
                "grouped_matmul", architecture, records, SOURCE, "tools/fit/fit_grouped_matmul.py"
            )


if __name__ == "__main__":
    main()
