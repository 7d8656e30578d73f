"""Robust fits of the α–β parameters: rings and exchanges, in-switch sums, engines' kernels, expert exchange."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from advisor.catalog.units import MICROSECOND_S
from advisor.evidence.fit.base import FloatArray, Options
from advisor.evidence.fit.collective_rows import accelerator_ids, add_fabrics, medians
from advisor.evidence.fit.kernels import groups
from advisor.simulator.collectives.alpha_beta import PROTOCOLS, AlphaBeta, alpha_beta, group_s
from advisor.simulator.collectives.expert_parallel import (
    FP8_SCALED_BYTES,
    TokenExchange,
    Mode,
    exchange_times,
)
from advisor.simulator.collectives.operations import custom_wire_factors
from advisor.simulator.collectives.topology import Topology

NVLS_FACTS = {
    "nvlink4": {"min_ranks": 5.0, "loss_per_doubling": 0.05},
    "nvlink5": {"min_ranks": 6.0, "loss_per_doubling": 0.05},
}
"""Number of ranks from which NCCL uses the switch (stas00/ml-engineering, network), and the loss of wider domains
(published 72-rank results against 8-rank ones)."""
SMS = 20
"""DeepEP's default number of SMs in normal mode."""
NETWORK_PORT = 50e9
STARTS = 8
LARGE_BYTES = 64 * 2**20
LARGE_WEIGHT = 2.0
"""Weight of large messages, which carry training; without it the many small sizes would decide the slope."""


@dataclass
class Fit:
    """One record to be written."""

    fabric: str
    operation: str
    algorithm: str
    num_ranks: int
    parameters: dict[str, float]
    errors: FloatArray
    fitted_on: list[str]


def best_fit(
    predicted: Callable[[FloatArray], FloatArray], measured: FloatArray, weight: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the parameters with the least robust squared log error over several starts."""
    low = np.full(len(start), -19.0)
    high = np.full(len(start), 6.0)
    best = start
    cost = np.inf
    for seed in range(STARTS):
        noise = np.random.default_rng(seed).normal(0.0, 0.4 if seed else 0.0, len(start))
        found = least_squares(
            lambda x: weight * np.log(predicted(x) / measured),
            np.clip(start + noise, low + 0.1, high - 0.1),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=0.05,
            max_nfev=300,
        )
        if found.cost < cost:
            best = found.x
            cost = found.cost
    return np.asarray(best)


def between(x: FloatArray | float, low: float, high: float) -> FloatArray:
    """Return a free number mapped into (low, high)."""
    return np.asarray(low + (high - low) / (1.0 + np.exp(-np.asarray(x))))


def weights(sizes: FloatArray) -> FloatArray:
    return np.where(sizes >= LARGE_BYTES, LARGE_WEIGHT, 1.0)


def fit_library(rows: pd.DataFrame) -> Iterable[Fit]:
    """Yield fits of rings and pairwise exchange, per fabric and operation, from rows without in-switch sums."""
    rings = rows[~rows.in_switch.astype(bool) | (rows.operation != "all_reduce")]
    for (fabric, operation), group in rings.groupby(["fabric", "operation"]):
        if len(group) >= 8:
            yield fit_protocols(str(fabric), str(operation), group)


def fit_protocols(fabric: str, operation: str, rows: pd.DataFrame) -> Fit:
    table = medians(rows)
    passes = 2 if operation == "all_reduce" else 1
    sizes = table.num_bytes.to_numpy(float)
    ranks = table.num_gpus.to_numpy()
    parts = groups(table, ["num_gpus", "rate"])
    places = [(int(n), float(rate), part.index.to_numpy()) for (n, rate), part in parts]

    def predict(x: FloatArray) -> FloatArray:
        curve = protocols(x, fabric)
        result = np.empty(len(sizes))
        for n, rate, here in places:
            wire = sizes[here] * (1.0 if operation == "broadcast" else passes * (n - 1) / n)
            result[here] = group_s(wire, passes * (n - 1), rate, curve, n)
        return result

    start = np.array([np.log(5e-6), np.log(3e-6), np.log(8e-6), np.log(2e-5), np.log(7e-7)])
    start = np.concatenate([start, np.log([2e-7, 1e-6, 1e-6]), [1.0, 0.5, 0.0, 0.0, 0.0]])
    times = table.time_s.to_numpy()
    x = best_fit(predict, times, weights(sizes), start)
    curve = protocols(x, fabric)
    errors = predict(x) / times - 1.0
    parameters = protocol_parameters(curve)
    return Fit(fabric, operation, "nccl", int(ranks.max()), parameters, errors, accelerator_ids(rows))


def protocols(x: FloatArray, fabric: str) -> AlphaBeta:
    """Return branches that each start later and run faster than the one before.

    Over PCIe, wider groups cross sockets: there the loss may be a gain of small groups.
    """
    pcie = fabric.startswith("pcie")
    base = np.cumsum(np.exp(x[0:4]))
    step = np.cumsum(np.exp(x[4:8]))
    bulk = between(x[8], 0.15 if pcie else 0.5, 0.97)
    simple = bulk * between(x[9], 0.5, 1.0)
    ll128 = simple * between(x[10], 0.2, 0.95)
    ll = ll128 * between(x[11], 0.03, 0.6)
    loss = float(between(x[12], -1.5, 1.0) if pcie else between(x[12], 0.0, 1.0))
    return AlphaBeta(tuple(base), tuple(step), (float(ll), float(ll128), float(simple), float(bulk)), loss)


def protocol_parameters(curve: AlphaBeta) -> dict[str, float]:
    result: dict[str, float] = {}
    for i, name in enumerate(PROTOCOLS):
        result[f"base_{name}_s"] = float(curve.base_s[i])
        result[f"step_{name}_s"] = float(curve.step_s[i])
        result[f"efficiency_{name}"] = float(curve.efficiency[i])
    return result | {"small_group_loss": curve.small_group_loss}


def fit_switches(rows: pd.DataFrame, rings: Mapping[tuple[str, str], AlphaBeta]) -> Iterable[Fit]:
    """Yield fits of in-switch sums, in the groups large enough for NCCL to use the switch."""
    chosen = rows[rows.in_switch.astype(bool) & (rows.operation == "all_reduce")]
    for fabric, group in chosen[chosen.fabric.isin(NVLS_FACTS)].groupby("fabric"):
        group = group[group.num_gpus >= NVLS_FACTS[str(fabric)]["min_ranks"]]
        yield fit_switch(str(fabric), group, rings[(str(fabric), "all_reduce")])


def fit_switch(fabric: str, rows: pd.DataFrame, ring: AlphaBeta) -> Fit:
    table = medians(rows)
    rate = rows.rate.iloc[0]
    sizes = table.num_bytes.to_numpy(float)
    ranks = table.num_gpus.to_numpy()
    by_ring = ring_times(sizes, ranks, rate, ring)

    def parameters(x: FloatArray) -> dict[str, float]:
        bulk = float(between(x[3], 0.4, 0.9))
        return {
            "base_simple_s": float(np.exp(x[0])),
            "efficiency_simple": bulk * float(between(x[2], 0.3, 1.0)),
            "base_bulk_s": float(np.exp(x[0]) + np.exp(x[1])),
            "efficiency_bulk": bulk,
        }

    def predict(x: FloatArray) -> FloatArray:
        return np.minimum(by_ring, switch_times(sizes, ranks, rate, parameters(x)))

    times = table.time_s.to_numpy()
    x = best_fit(predict, times, weights(sizes), np.array([np.log(4e-5), np.log(5e-5), 0.0, -0.5]))
    errors = predict(x) / times - 1.0
    found = parameters(x) | NVLS_FACTS[fabric]
    return Fit(fabric, "all_reduce", "nvls", int(ranks.max()), found, errors, accelerator_ids(rows))


def ring_times(sizes: FloatArray, ranks: FloatArray, rate: float, ring: AlphaBeta) -> FloatArray:
    result = np.empty(len(sizes))
    for n in np.unique(ranks):
        here = ranks == n
        result[here] = group_s(sizes[here] * (2 * (n - 1) / n), 2 * (n - 1), rate, ring, int(n))
    return result


def switch_times(
    sizes: FloatArray, ranks: FloatArray, rate: float, switch: Mapping[str, float]
) -> FloatArray:
    wire = sizes * (1.0 + 1.0 / ranks) / rate
    kinds = ("simple", "bulk")
    times = [switch[f"base_{k}_s"] + wire / switch[f"efficiency_{k}"] for k in kinds]
    return np.asarray(np.minimum.reduce(times))


def fit_engines(
    rows: pd.DataFrame,
    rings: Mapping[tuple[str, str], AlphaBeta],
    switches: Mapping[str, Mapping[str, float]],
) -> Iterable[Fit]:
    """Yield fits of engines' own all-reduce, per engine and over all; the library takes over where it is faster."""
    rack = rows.system.isin(("gb200", "gb300")) & (rows.num_gpus > 4)
    rows = rows[~rack & ~(rows.fabric.str.startswith("pcie") & (rows.num_gpus > 2))]
    for fabric, group in rows.groupby("fabric"):
        for engine in ("any", *sorted(group.engine.unique())):
            level = group if engine == "any" else group[group.engine == engine]
            if len(level):
                yield fit_engine(
                    str(fabric), engine, level, rings[(str(fabric), "all_reduce")], switches.get(str(fabric))
                )


def fit_engine(
    fabric: str, engine: str, rows: pd.DataFrame, ring: AlphaBeta, switch: Mapping[str, float] | None
) -> Fit:
    table = medians(rows)
    rate = rows.rate.iloc[0]
    sizes = table.num_bytes.to_numpy(float)
    ranks = table.num_gpus.to_numpy()
    library = ring_times(sizes, ranks, rate, ring)
    if switch is not None:
        in_switch = switch_times(sizes, ranks, rate, switch)
        library = np.where(ranks >= switch["min_ranks"], np.minimum(library, in_switch), library)
    kinds = ("one_shot", "two_shot", "multicast") if switch is not None else ("one_shot", "two_shot")
    wires = {kind: np.array([custom_wire_factors(int(n))[kind] for n in ranks]) for kind in kinds}

    def parameters(x: FloatArray, kind: str) -> tuple[float, float, float]:
        i = 3 * kinds.index(kind)
        return float(np.exp(x[i])), float(np.exp(x[i + 1])), float(between(x[i + 2], 0.05, 0.97))

    def branch(x: FloatArray, kind: str) -> FloatArray:
        base, step, efficiency = parameters(x, kind)
        return np.asarray(base + (ranks - 1) * step + sizes * wires[kind] / (rate * efficiency))

    def predict(x: FloatArray) -> FloatArray:
        return np.asarray(np.minimum.reduce([library, *(branch(x, kind) for kind in kinds)]))

    start = [
        np.log(4e-6),
        np.log(1e-7),
        0.5,
        np.log(8e-6),
        np.log(3e-7),
        0.5,
        np.log(9e-6),
        np.log(1e-7),
        0.5,
    ]
    times = table.time_s.to_numpy()
    x = best_fit(predict, times, np.ones(len(times)), np.array(start[: 3 * len(kinds)]))
    found: dict[str, float] = {}
    for kind in kinds:
        if np.any(branch(x, kind) <= predict(x)):
            names = (f"base_{kind}_s", f"step_{kind}_s", f"efficiency_{kind}")
            found |= dict(zip(names, parameters(x, kind), strict=True))
    errors = predict(x) / times - 1.0
    return Fit(
        fabric, "all_reduce", f"custom-{engine}", int(ranks.max()), found, errors, accelerator_ids(rows)
    )


def fit_expert_exchange(options: Options) -> Iterable[Fit]:
    """Yield fits of dispatch and combine inside a domain, then of the network's addition."""
    rows = pd.read_parquet(options.kernels("deepep"))
    rows = add_fabrics(rows[rows.kernel_source == "deepep"])
    ranks = rows.system.map({"gb200": 4, "gb300": 4}).fillna(8).astype(int) * rows.node_num.astype(int)
    rows = rows.assign(num_gpus=ranks)
    normal = rows[(rows.op_name == "normal") & (rows.dispatch_sms == SMS) & (rows.combine_sms == SMS)]
    low = rows[rows.op_name == "ll"]
    for operation, element in (("moe_dispatch", FP8_SCALED_BYTES), ("moe_combine", 2.0)):
        column = operation.removeprefix("moe_")
        tables: tuple[tuple[Mode, pd.DataFrame, str], ...] = (
            ("low_latency", low, "avg_t_us"),
            ("normal", normal, "transmit_us"),
        )
        for mode, table, suffix in tables:
            timed = table.assign(time_s=table[f"{column}_{suffix}"] * MICROSECOND_S)
            timed = timed[timed.time_s > 0]
            # Eight-node rows of normal mode run at half the four-node rate on every setting: a shared spine.
            yield from fit_exchange(
                operation, mode, timed[(timed.node_num < 8) | (mode == "low_latency")], element
            )


def fit_exchange(operation: str, mode: Mode, rows: pd.DataFrame, element: float) -> Iterable[Fit]:
    algorithm = f"deepep-{mode.replace('_', '-')}"
    local: dict[str, dict[str, float]] = {}
    for fabric, group in rows[rows.node_num == 1].groupby("fabric"):
        local[str(fabric)], errors = fit_shapes(group, element, mode, None)
        yield Fit(str(fabric), operation, algorithm, 8, local[str(fabric)], errors, accelerator_ids(group))
    across = rows[rows.node_num > 1]
    parameters, errors = fit_shapes(across, element, mode, local["nvlink4"])
    yield Fit("network", operation, algorithm, 64, parameters, errors, accelerator_ids(across))


def inside_parameters(x: FloatArray, mode: Mode) -> dict[str, float]:
    found = {"base_s": np.exp(x[0]), "copy_s": np.exp(x[1] - 7.0), "efficiency": between(x[2], 0.1, 0.97)}
    found["extra_copies"] = between(x[3], 0.0, 3.0)
    if mode == "low_latency":
        found |= {"expert_s": np.exp(x[4]), "full_experts": np.exp(x[5])}
    return {name: float(value) for name, value in found.items()}


def network_parameters(x: FloatArray, mode: Mode) -> dict[str, float]:
    forward = 1.0 if mode == "low_latency" else between(x[3], 0.2, 1.0)
    found = {"base_s": np.exp(x[0]), "level_s": np.exp(x[1]), "efficiency": between(x[2], 0.1, 0.99)}
    return {name: float(value) for name, value in (found | {"forward_fraction": forward}).items()}


def fit_shapes(
    rows: pd.DataFrame, element: float, mode: Mode, local: dict[str, float] | None
) -> tuple[dict[str, float], FloatArray]:
    """Return parameters over all shapes; if `local` is given, those of the network are fitted."""
    keys = ("system", "num_gpus", "node_num", "rate", "hidden_size", "num_topk", "num_experts", "num_token")
    table = medians(rows, keys)
    shapes = [
        ([float(value) for value in values], part.index.to_numpy())
        for values, part in groups(table, keys[1:7])
    ]
    tokens = table.num_token.to_numpy(float)
    times = table.time_s.to_numpy()
    unpack = inside_parameters if local is None else network_parameters

    def predict(x: FloatArray) -> FloatArray:
        found = unpack(x, mode)
        result = np.empty(len(table))
        for (ranks, nodes, rate, hidden, top_k, experts), here in shapes:
            place = Topology(int(ranks), int(ranks // nodes), "nvlink4", rate, NETWORK_PORT)
            exchange = TokenExchange(hidden * element, int(top_k), int(experts), mode)
            inside, across = (found, None) if local is None else (local, found)
            start_s, token_s = exchange_times(inside, across, exchange, place)
            result[here] = start_s + tokens[here] * token_s
        return result

    one_node = [np.log(1e-5), np.log(1e-9) + 7.0, 0.5, -1.0, np.log(2e-7), np.log(60.0)]
    start = np.array(one_node if local is None else [np.log(5e-6), np.log(5e-6), 1.5, 1.0])
    x = best_fit(predict, times, np.ones(len(times)), start)
    return unpack(x, mode), predict(x) / times - 1.0


def all_fits(library: pd.DataFrame, engines: pd.DataFrame) -> list[Fit]:
    """Return fits of library and engines, without expert exchange."""
    fits = list(fit_library(library))
    rings = {(fit.fabric, fit.operation): alpha_beta(fit.parameters) for fit in fits}
    fits.extend(fit_switches(library, rings))
    switches = {fit.fabric: fit.parameters for fit in fits if fit.algorithm == "nvls"}
    return [*fits, *fit_engines(engines, rings, switches)]
