"""Fit the α–β parameters of collectives on measured kernel tables and write
catalog/data/efficiency/collectives.toml.

    python tools/fit/fit_collectives.py [--data ../shared/data] [--out
    catalog/data/efficiency/collectives.toml]

Every record is one (fabric, operation, algorithm); group size and link rate enter by formula, so that it
serves every group. Rows are first reduced to the median over library versions per (system, ranks, bytes).
"""

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from advisor.simulator.collectives.alpha_beta import PROTOCOLS, AlphaBeta, alpha_beta, group_s
from advisor.simulator.collectives.custom import custom_wire_factors
from advisor.simulator.collectives.expert_parallel import (
    FP8_SCALED_BYTES,
    network_exchange,
    scale_up_exchange,
)
from advisor.simulator.collectives.topology import Topology

SYSTEMS = {  # system id of the tables: (fabric, bytes/s one direction per rank, accelerator id)
    "a100_sxm": ("nvlink3", 300e9, "a100-sxm-80gb"),
    "h100_sxm": ("nvlink4", 450e9, "h100-sxm"),
    "h200_sxm": ("nvlink4", 450e9, "h200-sxm"),
    "b200_sxm": ("nvlink5", 900e9, "b200-sxm"),
    "b300_sxm": ("nvlink5", 900e9, "b300-sxm"),
    "gb200": ("nvlink5", 900e9, "gb200"),
    "gb300": ("nvlink5", 900e9, "gb300"),
    "l40s": ("pcie4-x16", 31.508e9, "l40s"),
    "rtx_pro_6000_server": ("pcie5-x16", 63.015e9, "rtx-pro-6000-server"),
    "b60": ("pcie5-x8", 31.508e9, "arc-pro-b60"),
}
OPERATIONS = {"all_reduce": "all_reduce", "all_gather": "all_gather"}
OPERATIONS |= {"reduce_scatter": "reduce_scatter", "alltoall": "all_to_all"}
HEALTHY_HOST = {"l40s": ("0.5.12",), "rtx_pro_6000_server": ("0.5.14", "0.24.0", "1.3.0rc20")}
"""Versions swept on a host whose PCIe works: the other L40S sweeps reach 1.4 GB/s over eight GPUs, below one PCIe 3
x2 link, and the other RTX PRO 6000 sweeps 15 GB/s between two, the rate of PCIe 3."""
NVLS_FACTS = {
    "nvlink4": {"min_ranks": 5.0, "loss_per_doubling": 0.05},
    "nvlink5": {"min_ranks": 6.0, "loss_per_doubling": 0.05},
}
"""Where NCCL starts to use the switch (stas00/ml-engineering, network), and what wider domains lose (published
72-rank results against 8-rank ones)."""
SMS = 20
"""DeepEP's default share of SMs in normal mode."""
NETWORK_PORT = 50e9
STARTS = 10
LARGE_BYTES = 64 * 2**20
LARGE_WEIGHT = 2.0


@dataclass
class Fit:
    """One record to be written."""

    fabric: str
    operation: str
    algorithm: str
    num_ranks: int
    parameters: dict[str, float]
    errors: np.ndarray
    fitted_on: list[str]
    source: str
    left_out: float | None = None
    constants: dict[str, float] = field(default_factory=dict)


def main() -> None:
    arguments = parser().parse_args()
    nccl = nccl_rows(arguments.data)
    custom = custom_rows(arguments.data)
    fits = list(fit_nccl(pd.concat([nccl, library_rows(custom)])))
    curves = {(fit.fabric, fit.operation): alpha_beta(fit.parameters) for fit in fits}
    fits.extend(fit_nvls(pd.concat([nccl, library_rows(custom)]), curves))
    switches = {fit.fabric: fit.parameters for fit in fits if fit.algorithm == "nvls"}
    fits.extend(fit_custom(custom, lambda *place: library_s(curves, switches, *place)))
    fits.extend(fit_deepep(arguments.data))
    write(fits, arguments.out, arguments.fixed)
    for fit in fits:
        print(
            f"{fit.fabric:10} {fit.operation:15} {fit.algorithm:20} n={len(fit.errors):5}"
            f" median {np.median(np.abs(fit.errors)):.3f} p90 {np.quantile(np.abs(fit.errors), 0.9):.3f}"
        )


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = os.environ.get("ADVISOR_SHARED_DATA", "../shared/data")
    result.add_argument("--data", type=Path, default=Path(shared))
    result.add_argument("--out", type=Path, default=Path("catalog/data/efficiency/collectives.toml"))
    result.add_argument("--fixed", type=Path, default=Path("tools/fit/collectives_fixed.toml"))
    return result


def nccl_rows(data: Path) -> pd.DataFrame:
    rows = pd.read_parquet(data / "kernels" / "nccl.parquet")
    rows = rows[rows.latency > 0]
    size = rows.message_size * rows.nccl_dtype.map({"half": 2, "int8": 1})
    rows = rows.assign(num_bytes=size, time_s=rows.latency * 1e-3, operation=rows.op_name.map(OPERATIONS))
    return located(rows[rows.system != "l40s"])


def custom_rows(data: Path) -> pd.DataFrame:
    """All-reduce as engines call it, from captured graphs; eager rows hold Python time."""
    rows = pd.read_parquet(data / "kernels" / "custom_allreduce.parquet")
    backend = rows.ar_backend.fillna("trtllm")
    rows = rows[(rows.latency > 0) & ~backend.str.contains("eager")]
    for system, versions in HEALTHY_HOST.items():
        rows = rows[(rows.system != system) | rows.version.isin(versions)]
    engine = rows.kernel_source.str.lower().map(engine_of)
    return located(rows.assign(num_bytes=rows.message_size * 2, time_s=rows.latency * 1e-3, engine=engine))


def library_rows(custom: pd.DataFrame) -> pd.DataFrame:
    """Engine rows in which the engine has handed over to the library: 1 GiB, and PCIe groups above two."""
    pcie = custom.fabric.str.startswith("pcie")
    handed_over = (custom.num_bytes > 2**29) | (
        pcie & ((custom.num_gpus > 2) | (custom.fabric == "pcie4-x16"))
    )
    return custom[handed_over].assign(operation="all_reduce", nccl_dtype="half")


def engine_of(kernel_source: str) -> str:
    return {"vll": "vllm", "sgl": "sglang", "trt": "tensorrt-llm"}[kernel_source[:3]]


def located(rows: pd.DataFrame) -> pd.DataFrame:
    fabric = rows.system.map(lambda system: SYSTEMS[system][0])
    return rows.assign(fabric=fabric, rate=rows.system.map(lambda system: SYSTEMS[system][1]))


def medians(rows: pd.DataFrame, keys: Iterable[str] = ("system", "num_gpus", "num_bytes")) -> pd.DataFrame:
    return rows.groupby(list(keys)).time_s.median().reset_index()


def fit_nccl(rows: pd.DataFrame) -> Iterable[Fit]:
    """Rings and pairwise exchange. Int8 sums cannot use the switch, so they show the ring at every size."""
    for (fabric, operation), group in rows.groupby(["fabric", "operation"]):
        if operation == "all_reduce" and fabric in ("nvlink4", "nvlink5"):
            group = group[(group.num_gpus <= 4) | (group.nccl_dtype == "int8")]
        table = medians(group)
        rate = group.rate.iloc[0]
        yield fit_curve(fabric, operation, rate, table, sorted(group.system.unique()))


def fit_curve(fabric: str, operation: str, rate: float, table: pd.DataFrame, systems: list[str]) -> Fit:
    passes = 2 if operation == "all_reduce" else 1
    sizes, times = table.num_bytes.to_numpy(float), table.time_s.to_numpy()
    ranks = table.num_gpus.to_numpy()

    def predicted(x: np.ndarray) -> np.ndarray:
        curve = curve_from(x, fabric)
        result = np.empty(len(sizes))
        for n in np.unique(ranks):
            here = ranks == n
            wire = sizes[here] * (passes * (n - 1) / n)
            result[here] = group_s(wire, passes * (n - 1), rate, curve, int(n))
        return result

    start = np.concatenate(
        [np.log([5e-6, 8e-6, 15e-6, 4e-5]), np.log([6e-7, 1e-6, 2e-6, 3e-6]), [-2.0, -0.5, 0.5, 1.3], [0.0]]
    )
    # Large messages carry training; without weight the many small sizes decide the slope.
    weight = np.where(sizes >= LARGE_BYTES, LARGE_WEIGHT, 1.0)
    x = best_fit(lambda x: weight * np.log(predicted(x) / times), start)
    errors = predicted(x) / times - 1.0
    return Fit(
        fabric,
        operation,
        "nccl",
        int(ranks.max()),
        protocol_parameters(curve_from(x, fabric)),
        errors,
        [SYSTEMS[s][2] for s in systems],
        "kernels",
    )


def curve_from(x: np.ndarray, fabric: str) -> AlphaBeta:
    """Branches in the order of their efficiency; the loss of small groups may be a gain over PCIe's
    switches."""
    k = len(PROTOCOLS)
    efficiency = 1.0 / (1.0 + np.exp(-x[2 * k : 3 * k]))
    order = np.argsort(efficiency)
    loss = 1.5 * np.tanh(x[-1]) if fabric.startswith("pcie") else 1.0 / (1.0 + np.exp(-x[-1]))
    base, step = np.exp(x[:k])[order], np.exp(x[k : 2 * k])[order]
    return AlphaBeta(tuple(base), tuple(step), tuple(efficiency[order]), float(loss))


def protocol_parameters(curve: AlphaBeta) -> dict[str, float]:
    result: dict[str, float] = {}
    for i, name in enumerate(PROTOCOLS):
        result[f"base_{name}_s"] = curve.base_s[i]
        result[f"step_{name}_s"] = curve.step_s[i]
        result[f"efficiency_{name}"] = curve.efficiency[i]
    return result | {"small_group_loss": curve.small_group_loss}


def best_fit(residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    best = None
    for seed in range(STARTS):
        noise = np.random.default_rng(seed).normal(0.0, 0.4 if seed else 0.0, len(start))
        bounded = (np.full(len(start), -19.0), np.full(len(start), 6.0))
        found = least_squares(
            residuals,
            np.clip(start + noise, -18.9, 5.9),
            bounds=bounded,
            loss="soft_l1",
            f_scale=0.05,
            max_nfev=300,
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return np.asarray(best.x)


def fit_nvls(rows: pd.DataFrame, ring: dict[tuple[str, str], AlphaBeta]) -> Iterable[Fit]:
    """In-switch sums of 16-bit floats, in the groups large enough for NCCL to use the switch."""
    chosen = rows[(rows.operation == "all_reduce") & (rows.nccl_dtype == "half") & (rows.num_gpus == 8)]
    for fabric, group in chosen[chosen.fabric.isin(NVLS_FACTS)].groupby("fabric"):
        yield fit_switch(str(fabric), group, ring[(fabric, "all_reduce")])


def fit_switch(fabric: str, rows: pd.DataFrame, ring: AlphaBeta) -> Fit:
    table, rate = medians(rows), rows.rate.iloc[0]
    sizes, times = table.num_bytes.to_numpy(float), table.time_s.to_numpy()
    by_ring = group_s(sizes * 1.75, 14, rate, ring, 8)

    def predicted(x: np.ndarray) -> np.ndarray:
        inverse = 1.0 + np.exp(-x[2:])
        in_switch = [np.exp(x[i]) + sizes * (9 / 8) * inverse[i] / rate for i in (0, 1)]
        return np.minimum.reduce([by_ring, *in_switch])

    weight = np.where(sizes >= LARGE_BYTES, LARGE_WEIGHT, 1.0)
    start = np.array([np.log(4e-5), np.log(9e-5), -0.7, 0.2])
    x = best_fit(lambda x: weight * np.log(predicted(x) / times), start)
    efficiency = 1.0 / (1.0 + np.exp(-x[2:]))
    low, high = np.argsort(efficiency)
    parameters = {"base_simple_s": float(np.exp(x[low])), "efficiency_simple": float(efficiency[low])}
    parameters |= {"base_bulk_s": float(np.exp(x[high])), "efficiency_bulk": float(efficiency[high])}
    systems = [SYSTEMS[s][2] for s in sorted(rows.system.unique())]
    errors = predicted(x) / times - 1.0
    return Fit(fabric, "all_reduce", "nvls", 8, parameters | NVLS_FACTS[fabric], errors, systems, "kernels")


def fit_custom(rows: pd.DataFrame, floor: Callable[..., np.ndarray]) -> Iterable[Fit]:
    """Engines' own all-reduce, per engine and over all of them; the library takes over where it is faster."""
    rack = rows.system.isin(("gb200", "gb300")) & (rows.num_gpus > 4)
    rows = rows[~rack & ~(rows.fabric.str.startswith("pcie") & (rows.num_gpus > 2))]
    for fabric, group in rows.groupby("fabric"):
        for engine in ("any", "vllm", "sglang", "tensorrt-llm"):
            level = group if engine == "any" else group[group.engine == engine]
            if len(level):
                yield fit_engine(str(fabric), engine, level, floor)


def fit_engine(fabric: str, engine: str, rows: pd.DataFrame, floor: Callable[..., np.ndarray]) -> Fit:
    table, rate = medians(rows), rows.rate.iloc[0]
    sizes, times = table.num_bytes.to_numpy(float), table.time_s.to_numpy()
    ranks = table.num_gpus.to_numpy()
    by_library = floor(fabric, sizes, ranks, rate)
    kinds = ["one_shot", "two_shot"] + (["multicast"] if fabric in ("nvlink4", "nvlink5") else [])
    wires = {kind: np.array([custom_wire_factors(int(n))[kind] for n in ranks]) for kind in kinds}

    def branches(x: np.ndarray) -> dict[str, np.ndarray]:
        return {
            kind: np.exp(x[3 * i])
            + (ranks - 1) * np.exp(x[3 * i + 1])
            + sizes * wires[kind] * (1.0 + np.exp(-x[3 * i + 2])) / rate
            for i, kind in enumerate(kinds)
        }

    def predicted(x: np.ndarray) -> np.ndarray:
        return np.minimum.reduce([by_library, *branches(x).values()])

    start = np.array(
        [np.log(4e-6), np.log(1e-7), 0.5, np.log(8e-6), np.log(3e-7), 0.5, np.log(9e-6), np.log(1e-7), 0.5]
    )
    x = best_fit(lambda x: np.log(predicted(x) / times), start[: 3 * len(kinds)])
    used = {kind for kind, t in branches(x).items() if np.any(t <= predicted(x))}
    parameters: dict[str, float] = {}
    for i, kind in enumerate(kinds):
        if kind in used:
            parameters[f"base_{kind}_s"] = float(np.exp(x[3 * i]))
            parameters[f"step_{kind}_s"] = float(np.exp(x[3 * i + 1]))
            parameters[f"efficiency_{kind}"] = float(1.0 / (1.0 + np.exp(-x[3 * i + 2])))
    errors = predicted(x) / times - 1.0
    systems = [SYSTEMS[s][2] for s in sorted(rows.system.unique())]
    return Fit(
        fabric, "all_reduce", f"custom-{engine}", int(ranks.max()), parameters, errors, systems, "kernels"
    )


def library_s(
    curves: dict[tuple[str, str], AlphaBeta],
    switches: dict[str, dict[str, float]],
    fabric: str,
    sizes: np.ndarray,
    ranks: np.ndarray,
    rate: float,
) -> np.ndarray:
    """NCCL's own time on these points, from the fits just made."""
    result = np.empty(len(sizes))
    curve = curves.get((fabric, "all_reduce"), curves[("pcie5-x16", "all_reduce")])
    for n in np.unique(ranks):
        here = ranks == n
        times = group_s(sizes[here] * (2 * (n - 1) / n), 2 * (n - 1), rate, curve, int(n))
        if fabric in switches and n > 5:
            wire = sizes[here] * (1 + 1 / n) / rate
            for kind in ("simple", "bulk"):
                switch = switches[fabric]
                in_switch = switch[f"base_{kind}_s"] + wire / switch[f"efficiency_{kind}"]
                times = np.minimum(times, in_switch)
        result[here] = times
    return result


def fit_deepep(data: Path) -> Iterable[Fit]:
    """Dispatch and combine inside a domain, then what the network adds."""
    rows = pd.read_parquet(data / "kernels" / "deepep.parquet")
    rows = located(rows[rows.kernel_source == "deepep"])
    ranks = rows.system.map({"gb200": 4, "gb300": 4}).fillna(8).astype(int) * rows.node_num.astype(int)
    rows = rows.assign(num_gpus=ranks)
    normal = rows[(rows.op_name == "normal") & (rows.dispatch_sms == SMS) & (rows.combine_sms == SMS)]
    low = rows[rows.op_name == "ll"]
    for operation, column, element in (
        ("moe_dispatch", "dispatch", FP8_SCALED_BYTES),
        ("moe_combine", "combine", 2.0),
    ):
        for mode, table, suffix in (("low_latency", low, "avg_t_us"), ("normal", normal, "transmit_us")):
            timed = table.assign(time_s=table[f"{column}_{suffix}"] * 1e-6)
            timed = timed[timed.time_s > 0]
            # Eight-node rows of normal mode run at half of the four-node rate on every setting: a shared
            # spine. med = timed[(timed.node_num < 8) | (mode == "low_latency")]
            yield from fit_exchange(operation, mode, timed, element)


def fit_exchange(operation: str, mode: str, rows: pd.DataFrame, element: float) -> Iterable[Fit]:
    algorithm = f"deepep-{mode.replace('_', '-')}"
    local: dict[str, dict[str, float]] = {}
    for fabric, group in rows[rows.node_num == 1].groupby("fabric"):
        names = ("base_s", "copy_s", "efficiency")
        start = np.array([np.log(2e-5), np.log(1e-9), 0.5])
        parameters, errors = fit_shapes(group, element, mode, names, start, None)
        local[str(fabric)] = parameters
        systems = [SYSTEMS[s][2] for s in sorted(group.system.unique())]
        yield Fit(str(fabric), operation, algorithm, 8, parameters, errors, systems, "kernels")
    across = rows[rows.node_num > 1]
    start = np.array([np.log(5e-6), np.log(5e-6), 1.5])
    names = ("base_s", "level_s", "efficiency")
    parameters, errors = fit_shapes(across, element, mode, names, start, local["nvlink4"])
    yield Fit("network", operation, algorithm, 64, parameters, errors, ["h100-sxm", "h200-sxm"], "kernels")


def fit_shapes(
    rows: pd.DataFrame,
    element: float,
    mode: str,
    names: tuple[str, ...],
    start: np.ndarray,
    local: dict[str, float] | None,
) -> tuple[dict[str, float], np.ndarray]:
    """Parameters over all shapes; `local` given means that the network's are sought."""
    keys = ["system", "num_gpus", "node_num", "rate", "hidden_size", "num_topk", "num_token"]
    table = medians(rows, keys)
    shapes = table.groupby(keys[1:6])
    times = table.time_s.to_numpy()

    def predicted(x: np.ndarray) -> np.ndarray:
        parameters = unpacked(x, names)
        result = np.empty(len(table))
        for (ranks, nodes, rate, hidden, top_k), index in shapes.indices.items():
            place = Topology(int(ranks), int(ranks // nodes), "nvlink4", float(rate), NETWORK_PORT)
            size = float(hidden) * element
            inside = parameters if local is None else local
            base, token = scale_up_exchange(inside, size, int(top_k), place, mode)
            if local is not None:
                extra, network = network_exchange(parameters, size, int(top_k), place, mode)
                base, token = base + extra, max(token, network)
            result[index] = base + token * table.num_token.to_numpy()[index]
        return result

    x = best_fit(lambda x: np.log(predicted(x) / times), start)
    return unpacked(x, names), predicted(x) / times - 1.0


def unpacked(x: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    return {
        name: float(1.0 / (1.0 + np.exp(-value)) if name == "efficiency" else np.exp(value))
        for name, value in zip(names, x, strict=True)
    }


def write(fits: list[Fit], out: Path, fixed: Path) -> None:
    """The fitted records after the hand-written ones, which come from single published facts."""
    lines = [fixed.read_text(encoding="utf-8").rstrip(), ""]
    for fit in fits:
        lines += ["[[records]]", f'fabric = "{fit.fabric}"', f'operation = "{fit.operation}"']
        lines += [
            f'algorithm = "{fit.algorithm}"',
            f"num_ranks = {fit.num_ranks}",
            f'source = "{fit.source}"',
        ]
        lines.append(
            f"fitted_on = [{', '.join(repr(name).replace(chr(39), chr(34)) for name in fit.fitted_on)}]"
        )
        parameters = ", ".join(f"{name} = {value:.4g}" for name, value in fit.parameters.items())
        lines.append(f"parameters = {{ {parameters} }}")
        error = np.abs(fit.errors)
        residual = f"num_points = {len(error)}, median_abs_error = {np.median(error):.3f}"
        residual += f", p90_abs_error = {np.quantile(error, 0.9):.3f}, bias = {np.median(fit.errors):.3f}"
        lines += [f"residual = {{ {residual} }}", ""]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
