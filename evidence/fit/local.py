"""Fit decode and prompts of llama.cpp and exllamav3 on published single streams, by architecture, format and level.

First one set of parameters per level (back end of llama.cpp, era of exllamav3) and family of formats, then one per
architecture held by it; whole accelerators are left out in turn, or formats and degrees where an engine was measured
on one accelerator. Writes the records of the operators local_decode and local_prefill; llama_graphs.py writes those of
captured steps on CUDA boards. With --only ENGINE those of one engine, and the others stay. Quantiles of what was left
out become local_intervals.toml. Prints the rate of exllamav3's sums on the host, which its engine record holds.
"""

import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import least_squares

from advisor.catalog.efficiencies import efficiency
from advisor.catalog.errors import AdvisorError
from advisor.catalog.files import DATA_DIR, read_toml, toml_names
from advisor.evidence.fit.base import FloatArray, Options, cauchy, errors_in_words, published_rows
from advisor.evidence.fit.kernels import EFFICIENCY_DIR, record_of, residual, write_records
from advisor.evidence.own_server import LOCAL_ENGINES
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.deployment import deployment_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.device import device_of
from advisor.simulator.local_surface import (
    HOST_SUM_BYTES,
    back_end,
    build_local_surface,
    format_family,
    kernel_level,
    micro_batch_tokens,
)
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.operators.local import LocalDecodeEfficiency, LocalPrefillEfficiency
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s
from advisor.simulator.surface import SurfaceInputs
from advisor.simulator.terms import TermCase, find

GRAPHS = "llama.cpp-cuda-graphs"
FUSED = "llama.cpp-cuda-fused"
CAPTURED_LEVELS = (GRAPHS, FUSED)
"""Levels of captured steps on CUDA boards, whose records llama_graphs.py writes. FUSED holds since 2025-10-26, when
attention is fused by default (llama.cpp pull request 15434), and so are routing and gates (16130, 16715)."""
NEVER_LAUNCHED = ("blackwell-geforce",)
"""Architectures whose runs all have captured steps: what is fitted on them stands for both kinds."""
EXPERT_TILE_ROWS = 128.0
"""Columns of the widest tile of quantised products on CUDA boards, which the tokens of a micro-batch choose, not those
of an expert (ggml-cuda/mmq.cuh, mul_mat_q_case; pull request 26977)."""
METAL_TILE_ROWS = 32.0
"""Rows of a tile of Metal's matmuls, with experts or without (ggml-metal.metal, kernel_mul_mm_id; pull request
13388)."""
WIDE_SUM_FRACTION = 0.5
"""Scores are summed in 32 bits, outputs in 16 (ggml-cuda/fattn-mma-f16.cuh)."""
PROMPT_ROWS = 512.0
"""Queries of a micro-batch, whose tiles meet keys and values in the L2 (ggml-cuda/fattn-common.cuh, stream-k)."""
TIERS = ("C2", "C3")
LOADS = ("batch1", "static_batch")
DECODE = {
    "memory_fraction": 0.75,
    "element_flop": 10.0,
    "layer_s": 40e-6,
    "cache_fraction": 0.8,
    "cache_repeat": 0.2,
    "sync_s": 60e-6,
}
PREFILL = {
    "compute_fraction": 0.35,
    "expert_fraction": 0.15,
    "attention_fraction": 0.2,
    "attention_rows": 20.0,
}
START = DECODE | PREFILL
SHARED = (
    "layer_s",
    "cache_fraction",
    "cache_repeat",
    "sync_s",
    "attention_fraction",
    "attention_rows",
    "expert_fraction",
)
"""Parameters that do not depend on the format of weights, as far as few measurements can tell."""
SIGMA = dict.fromkeys(START, 0.8) | {
    "memory_fraction": 0.25,
    "element_flop": 1.0,
    "layer_s": 1.0,
    "cache_fraction": 0.2,
    "cache_repeat": 1.0,
}
"""Standard deviation of the logarithm around START, by which back ends differ."""
ARCHITECTURE_SHARE = 0.5
"""Fraction of that deviation by which architectures of one back end differ."""
ROBUST = 0.12
SOURCE = {
    "kind": "measured",
    "title": "published llama-bench and exllamav3 runs, parameters fitted by evidence/fit/local.py",
    "where": "XiongjieDai/GPU-Benchmarks-on-LLM-Inference, kyuz0/amd-strix-halo-toolboxes, ggml-org/llama.cpp "
    "dgx-spark.md, a rig of four RTX 3090",
    "accessed": "2026-11-20",
    "note": "left_out_median_abs_error: parameters without the accelerator itself",
}


@dataclass(frozen=True)
class LocalPoint:
    """Measured rate with the inputs of its prediction."""

    case: ServingCase
    deployment: Deployment
    back_end: str
    """Level of the kernels, without the engine's name for llama.cpp: cuda, rocm; exllamav3-v1."""
    family: str
    is_decode: bool
    seconds: float

    @property
    def architecture(self) -> str:
        return self.deployment.accelerator.architecture

    @property
    def place(self) -> tuple[str, str]:
        return self.back_end, self.architecture


def read_points(options: Options) -> list[LocalPoint]:
    """Return single streams and static batches of these engines with a measured rate."""
    points = []
    for number, raw in published_rows(options.published_table("serving")):
        engine = raw["engine"]
        if (
            raw["tier"] not in TIERS
            or engine not in LOCAL_ENGINES
            or raw["load"] not in LOADS
            or not options.wants(engine)
        ):
            continue
        try:
            case = parse_case(raw, number)
            deployment = deployment_of(case)
        except AdvisorError:
            continue
        level = kernel_level(
            deployment.engine, deployment.accelerator, version=case.engine_version, date=case.date
        )
        if level in CAPTURED_LEVELS:
            if deployment.accelerator.architecture not in NEVER_LAUNCHED:
                continue
            level = f"llama.cpp-{back_end('', deployment.accelerator.vendor)}"
        end = level.removeprefix("llama.cpp-")
        family = format_family(case.weight_dtype)
        batch = case.concurrency or 1
        if raw["decode_tok_s"] and case.osl:
            points.append(LocalPoint(case, deployment, end, family, True, batch / float(raw["decode_tok_s"])))
        if raw["prefill_tok_s"] and case.isl and batch == 1:
            seconds = case.isl / float(raw["prefill_tok_s"])
            points.append(LocalPoint(case, deployment, end, family, False, seconds))
    return points


def predicted_s(point: LocalPoint, values: dict[str, float]) -> float:
    """Time of one decode step, or of the whole prompt [s]."""
    library = OperatorLibrary(device_of(point.deployment.accelerator), "")
    library.assume("local_decode", point.family, LocalDecodeEfficiency(*(values[name] for name in DECODE)))
    library.assume(
        "local_prefill", point.family, prompts_of(point.back_end, point.architecture, point.family, values)
    )
    case = point.case
    batch = point.case.concurrency or 1
    tokens = 1 if point.is_decode else case.isl
    context = max(case.isl, case.context_depth) + case.osl / 2.0
    inputs = SurfaceInputs(batch, tokens, tokens, context)
    most = micro_batch_tokens(point.deployment.engine, point.back_end, case.context_depth)
    surface = build_local_surface(point.deployment, library, inputs, most)
    if point.is_decode:
        return decode_iteration_s(surface, batch, context)
    return prefill_iteration_s(surface, case.isl, case.context_depth)


def prompts_of(end: str, architecture: str, family: str, values: dict[str, float]) -> LocalPrefillEfficiency:
    """Return the parameters of prompts from fitted ones, and what the source of a back end says of all its runs."""
    fitted = LocalPrefillEfficiency(*(values[name] for name in PREFILL))
    if end == "metal":
        return with_one_expert_kernel(fitted, METAL_TILE_ROWS)
    if architecture not in NEVER_LAUNCHED:
        return fitted
    if family != "bf16":
        fitted = with_one_expert_kernel(fitted, EXPERT_TILE_ROWS)
    return with_fused_attention(fitted, architecture)


def with_one_expert_kernel(stored: LocalPrefillEfficiency, tile_rows: float) -> LocalPrefillEfficiency:
    """Return the parameters of a release that multiplies all experts of a prompt in one kernel, that of dense
    matrices."""
    return replace(stored, expert_fraction=stored.compute_fraction, expert_tile_rows=tile_rows)


def with_fused_attention(stored: LocalPrefillEfficiency, architecture: str) -> LocalPrefillEfficiency:
    """Return the parameters of a release that fuses attention."""
    attention = PrefillEfficiency.from_record(efficiency(architecture, "attention_prefill", "bf16").record)
    return replace(
        stored,
        attention_fraction=attention.peak_fraction,
        attention_rows=PROMPT_ROWS,
        wide_sum_fraction=WIDE_SUM_FRACTION,
    )


def host_sum_rates(points: list[LocalPoint]) -> FloatArray:
    """Rates of the host's sums [bytes/s], for engines that sum on the host: one per prompt that ran on one card and on
    several.

    ranks · bytes summed / (time over several ranks - time on one / ranks)
    """
    on_host = [name for name in LOCAL_ENGINES if find("engine", "host_sum_bytes_per_s", TermCase(name))]
    prompts = [point for point in points if point.case.engine in on_host and not point.is_decode]
    alone = defaultdict(list)
    for point in prompts:
        if point.deployment.tensor_parallel == 1:
            alone[point.back_end, point.case.weight_dtype, point.case.isl].append(point.seconds)
    rates = []
    for point in prompts:
        ranks = point.deployment.tensor_parallel
        case = point.case
        one_s = alone.get((point.back_end, case.weight_dtype, case.isl))
        if ranks == 1 or not one_s:
            continue
        model = point.deployment.model
        num_sums = 2 * sum(group.count for group in model.layers)
        addends = ranks * num_sums * case.isl * model.hidden_size * HOST_SUM_BYTES
        rates.append(addends / (point.seconds - float(np.median(one_s)) / ranks))
    return np.array(rates)


LEAST_POINTS = 20
HEADER = """# (low, high) of measured / predicted that hold 80 % of points left out of the fit, by engine and metric.
# One accelerator at a time is left out, or one format and degree where an engine was measured on one accelerator.
# Written by evidence/fit/local.py.
"""
Values = dict[tuple[str, str], float]
"""Parameters by (name, family); the family is '' if it does not matter."""


def key_of(name: str, family: str) -> tuple[str, str]:
    return (name, "" if name in SHARED else family)


def of_family(values: Values, family: str) -> dict[str, float]:
    """Return the parameters of one family of formats."""
    return {name: values.get(key_of(name, family), START[name]) for name in START}


def fit(points: list[LocalPoint], center: Values, share: float) -> Values:
    """Return the parameters that bring predictions closest to the points, held to a center, or to START."""
    keys = sorted({key_of(name, point.family) for point in points for name in START})
    middle = np.log([center.get(key, START[key[0]]) for key in keys])
    sigma = np.array([SIGMA[name] * share for name, _ in keys])
    measured = np.log([point.seconds for point in points])
    count = Counter(group_of(point) for point in points)
    weight = np.array([count[group_of(point)] ** -0.25 for point in points])

    def loss(shifted: FloatArray) -> FloatArray:
        x = shifted - 1.0  # steps of a derivative are relative, so a start at zero would not move
        values = dict(zip(keys, np.exp(middle + x * sigma).tolist(), strict=True))
        miss = np.log([predicted_s(point, of_family(values, point.family)) for point in points]) - measured
        return np.concatenate([weight * cauchy(miss / ROBUST), x])

    found = least_squares(loss, np.ones(len(keys)), diff_step=0.02, max_nfev=12)
    return dict(zip(keys, np.exp(middle + (found.x - 1.0) * sigma).tolist(), strict=True))


def group_of(point: LocalPoint) -> tuple[str, ...]:
    """Return the key of points that are almost the same measurement."""
    case = point.case
    return (
        case.gpu,
        case.model,
        case.engine_version,
        case.weight_dtype,
        str(case.num_gpus),
        str(point.is_decode),
    )


def fit_all(points: list[LocalPoint]) -> dict[tuple[str, str], Values]:
    """Return parameters by (back end, architecture)."""
    found = {}
    for end in sorted({point.back_end for point in points}):
        mine = [point for point in points if point.back_end == end]
        common = fit(mine, {}, 1.0)
        found[end, ""] = common
        architectures = sorted({point.architecture for point in mine})
        for architecture in architectures:
            own = [point for point in mine if point.architecture == architecture]
            if len(architectures) == 1:
                found[end, architecture] = common
            else:
                found[end, architecture] = fit(own, common, ARCHITECTURE_SHARE)
    return found


def predictions(points: Iterable[LocalPoint], fitted: dict[tuple[str, str], Values]) -> FloatArray:
    """Predicted times [s], from the back end if the architecture has no parameters."""
    out = []
    for point in points:
        values = fitted.get(point.place) or fitted.get((point.back_end, "")) or {}
        out.append(predicted_s(point, of_family(values, point.family)))
    return np.array(out)


def set_aside(point: LocalPoint) -> str:
    """Return the name of the group that is left out together: an accelerator, or a format and degree of an engine that
    ran on one accelerator only."""
    case = point.case
    if case.engine == "llama.cpp":
        return case.gpu
    return f"{case.gpu} {case.weight_dtype} tp{case.tp}"


def left_out(points: list[LocalPoint]) -> dict[str, FloatArray]:
    """Return predicted / measured of each group's points by a fit without them, by group."""
    groups = sorted({set_aside(point) for point in points})
    with multiprocessing.Pool() as pool:
        return dict(zip(groups, pool.map(partial(unseen, points), groups, chunksize=1), strict=True))


def unseen(points: list[LocalPoint], group: str) -> FloatArray:
    """Return predicted / measured of a group's points by a fit without them."""
    test = [point for point in points if set_aside(point) == group]
    ends = {point.back_end for point in test}
    train = [point for point in points if set_aside(point) != group and point.back_end in ends]
    return np.asarray(predictions(test, fit_all(train)) / np.array([point.seconds for point in test]))


def report(title: str, points: list[LocalPoint], ratios: FloatArray) -> None:
    """Print the errors of decode steps and prompts, in terms of the published rate."""
    for name, is_decode in (("decode", True), ("prefill", False)):
        chosen = ratios[[point.is_decode == is_decode for point in points]]
        print(f"{title:24s} {name:8s} {errors_in_words(1.0 / chosen)}", flush=True)


def write(
    points: list[LocalPoint],
    fitted: dict[tuple[str, str], Values],
    blind: dict[str, FloatArray],
    options: Options,
) -> None:
    """Write the records of both operators, one file per architecture."""
    records: dict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for place, common in fitted.items():
        mine = [point for point in points if point.place == place]
        for family in sorted({point.family for point in mine}):
            values = of_family(common, family)
            for operator, names in (("local_decode", DECODE), ("local_prefill", PREFILL)):
                judged = [p for p in mine if p.family == family and p.is_decode == (names is DECODE)]
                if not judged:
                    continue
                seconds = np.array([predicted_s(point, values) for point in judged])
                left = residual(seconds, np.array([point.seconds for point in judged]))
                left |= blind_error(points, judged, blind)
                gpus = sorted({point.case.gpu for point in judged})
                chosen = {name: values[name] for name in names}
                if names is PREFILL:
                    chosen = asdict(prompts_of(*place, family, values))
                records[operator, place[1]].append(record_of(family, level_of(judged[0]), gpus, chosen, left))
    for (operator, architecture), found in records.items():
        kept = others(operator, architecture, {(each["dtype"], each["engine"]) for each in found})
        write_records(operator, architecture, [*found, *kept], SOURCE, "local", options)


def others(operator: str, architecture: str, fitted: set[tuple[object, object]]) -> list[dict[str, object]]:
    """Return the records of a file for other formats and levels than these; they stay as they are."""
    if f"{operator}/{architecture}" not in toml_names(EFFICIENCY_DIR):
        return []
    stored = read_toml(EFFICIENCY_DIR / operator / f"{architecture}.toml")["records"]
    return [record for record in stored if (record["dtype"], record["engine"]) not in fitted]


def level_of(point: LocalPoint) -> str:
    """Return the engine of a record: the vendor's own back end, and an engine's newest era, stand for all."""
    engine = point.deployment.engine
    accelerator = point.deployment.accelerator
    level = kernel_level(engine, accelerator, version=point.case.engine_version, date=point.case.date)
    if engine.id == "llama.cpp":
        usual = (f"llama.cpp-{back_end('', accelerator.vendor)}", *CAPTURED_LEVELS)
        return "any" if level in usual else level
    return "any" if level == kernel_level(engine, accelerator) else level


def blind_error(
    points: list[LocalPoint], judged: list[LocalPoint], blind: dict[str, FloatArray]
) -> dict[str, float]:
    """Return the median error of these points by fits without their groups; empty if it was not requested."""
    ratios = []
    for gpu, found in blind.items():
        mine = [point for point in points if set_aside(point) == gpu]
        ratios += [ratio for point, ratio in zip(mine, found, strict=True) if point in judged]
    return (
        {"left_out_median_abs_error": round(float(np.median(np.abs(np.array(ratios) - 1.0))), 4)}
        if ratios
        else {}
    )


def interval_lines(kinds: Sequence[tuple[str, bool]], ratios: FloatArray) -> str:
    """Return TOML of 10th and 90th percentiles, from predicted / measured seconds of (engine, whether it is a decode
    step)."""
    lines = [HEADER]
    for engine in sorted({name for name, _ in kinds}):
        steps, prompts = (
            ratios[[index for index, kind in enumerate(kinds) if kind == (engine, decode)]]
            for decode in (True, False)
        )
        if min(len(steps), len(prompts)) < LEAST_POINTS:
            continue
        lines.append(f'["{engine}"]')
        for metric, values in {"ttft": 1.0 / prompts, "tpot": 1.0 / steps, "throughput": steps}.items():
            low, high = np.quantile(values, (0.1, 0.9))
            lines.append(f"{metric} = [{low:.3f}, {high:.3f}]")
        lines.append("")
    return "\n".join(lines)


def write_intervals(kinds: Sequence[tuple[str, bool]], ratios: FloatArray) -> None:
    """Replace catalog/data/local_intervals.toml."""
    (DATA_DIR / "local_intervals.toml").write_text(interval_lines(kinds, ratios), encoding="utf-8")


def run(options: Options) -> None:
    """Fit, judge on accelerators that were left out, and write."""
    points = read_points(options)
    rates = host_sum_rates(points)
    if len(rates):
        middle = float(np.median(rates))
        print(f"host sums: {middle:.3g} bytes/s, {errors_in_words(rates / middle)}")
    fitted = fit_all(points)
    report("seen", points, predictions(points, fitted) / np.array([point.seconds for point in points]))
    for place, values in fitted.items():
        print(place, {" ".join(key).strip(): float(f"{value:.3g}") for key, value in values.items()})
    blind = left_out(points)
    for gpu, ratios in blind.items():
        report(f"left out {gpu}", [point for point in points if set_aside(point) == gpu], ratios)
    ordered = [point for gpu in blind for point in points if set_aside(point) == gpu]
    together = np.concatenate(list(blind.values()))
    report("left out", ordered, together)
    if options.write and not options.only:
        write_intervals([(point.case.engine, point.is_decode) for point in ordered], together)
    write(points, fitted, blind, options)
