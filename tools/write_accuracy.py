"""Write docs/accuracy.md: how far predictions are from published measurements, seen and left out.

    python tools/write_accuracy.py --truth ../shared/data/truth --left-out out/left_out.json

`--left-out` is the dump of tools/fit/fit_engines.py: each row predicted by engine parameters that were fitted
without its whole group (accelerator, model, engine).
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from compare_calibration import judged_rows, predicted
from compare_calibration import table as calibration_rows

from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.simulator.validation import collectives, training
from advisor.simulator.validation.serving import Prediction, predict_row

CORE_TIERS = ("A1", "A2", "A3", "B2", "B4", "B5", "OWN")
METRICS = {"TPOT": "tpot_ms_mean", "TTFT": "ttft_ms_mean", "throughput": "output_tok_s"}
NEEDED = ("model", "gpu", "tp", "isl", "osl", "load", "weight_dtype")
HEADER = """# Accuracy

How far predictions are from published measurements. Errors are |predicted / measured − 1|; *median* is over rows,
*macro* first takes the median of each group (accelerator, model, engine) and then their mean, so that large groups do
not drown small ones. A row without a prediction counts as 100 %. Noise: the same configuration measured again differs
by a few percent in serving, by 6 % in training between releases of one container.

Made by `python tools/write_accuracy.py`; the measurements are public (InferenceX points and internal runs in NVIDIA's
AIConfigurator repository, TensorRT-LLM's and GPUStack's performance pages, SGLang's cookbook, Argonne's
LLM-Inference-Bench, llama.cpp benchmarks, training logs and papers, nccl-tests outputs, own runs on H200s) and are not
shipped. How rows are read is in [validation.md](validation.md).

# Serving

Aggregated serving without speculative decoding, all conditions published: the rows that engines' parameters are
fitted on, under any load. Tiers: A are benchmarks of vendors and archives (A1 and A3 with their start-up scripts
known), OWN our own runs; B are measurements of servers as people set them up, some with a client's or a server's limit
in place of the load: their throughput is usable, their latencies are doubtful. Left out of the fit are groups on
hardware with measured kernels; a few numbers of MI300X, MI355X and TPU v7
([serving mechanisms](serving-mechanisms.md#other-vendors-hardware)) come from runs that are among these rows.
"""
OTHER_LOADS = (
    ("B1", "offline, highest throughput (TensorRT-LLM)", "output_tok_s"),
    ("C1", "static batches, engines of 2024", "output_tok_s"),
    ("C2", "decode on local machines (llama.cpp)", "decode_tok_s"),
    ("C2", "prompts on local machines (llama.cpp)", "prefill_tok_s"),
    ("C3", "decode on RTX 3090s with capped power", "decode_tok_s"),
    ("C3", "prompts on RTX 3090s with capped power", "prefill_tok_s"),
    ("D1", "prefill and decode apart: TPOT", "tpot_ms_mean"),
    ("D1", "prefill and decode apart: TTFT", "ttft_ms_mean"),
    ("D1", "prefill and decode apart: throughput", "output_tok_s"),
    ("M", "MLPerf Inference: layouts unknown, the smallest assumed", "output_tok_s"),
)
TRAINING_HEADER = """
# Training

With the shipped parameters. With whole sources left out of the fit in turn, runs on several nodes are off by a median
of 7 %, on one node by 12 %: [training-time.md](training-time.md) has that table, and
[training-memory.md](training-memory.md) the one of memory.
"""
COLLECTIVES_HEADER = """
# Collectives

Bus bandwidth above 64 KiB against published nccl-tests outputs; [collectives.md](collectives.md) has the errors with
whole sources left out (8 %).
"""
LEAST_COLLECTIVE_BYTES = 65536
CALIBRATION_HEADER = """
## With and without a calibration

Rows of H200s, from the data sheet and with what `advisor calibrate` makes of two of the catalog's recordings: one H200,
and a machine of eight.

"""
PROBES = ("h200-sxm-x1", "h200-sxm-x8")


def read(path: Path) -> list[dict[str, str]]:
    """The rows that are judged."""
    with path.open(encoding="utf-8") as stream:
        return [
            row
            for row in csv.DictReader(stream)
            if row["mode"] == "agg"
            and row["spec_decode"] in ("", "none")
            and row["tier"] in CORE_TIERS
            and all(row[name] for name in NEEDED)
        ]


def ratios(
    rows: list[dict[str, str]], predictions: list[Prediction], column: str
) -> list[tuple[dict[str, str], float | None]]:
    """(row, predicted / measured) where the column was measured; None without a prediction."""
    found = []
    for row, prediction in zip(rows, predictions, strict=True):
        if row[column]:
            quantity = prediction.metrics.get(column)
            found.append((row, quantity.value / float(row[column]) if quantity else None))
    return found


def median_error(values: Iterable[float | None]) -> float:
    """Median of |ratio − 1|, a missing one counting as 100 %."""
    return float(np.median([1.0 if value is None else abs(value - 1.0) for value in values]))


def table(title: str, rows: list[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table."""
    lines = [f"\n## {title}\n", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def by_column(
    rows: list[dict[str, str]], predictions: list[Prediction], column: str
) -> list[tuple[str, ...]]:
    """One line per value of a column: rows, then median error of each metric."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[row[column]].append(number)
    lines = []
    for name, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        chosen, found = [rows[i] for i in members], [predictions[i] for i in members]
        cells = [name, str(len(members))]
        for metric in METRICS.values():
            values = [value for _, value in ratios(chosen, found, metric)]
            cells.append(f"{100 * median_error(values):.1f} %" if values else "–")
        lines.append(tuple(cells))
    return lines


def overall(rows: list[dict[str, str]], predictions: list[Prediction]) -> list[tuple[str, ...]]:
    """Median, macro, 90th percentile, bias and interval coverage of each metric."""
    lines = []
    for name, column in METRICS.items():
        pairs = ratios(rows, predictions, column)
        known = [value for _, value in pairs if value is not None]
        groups = defaultdict(list)
        for row, value in pairs:
            groups[row["group"]].append(value)
        macro = float(np.mean([median_error(values) for values in groups.values()]))
        inside = [
            quantity.low <= float(row[column]) <= quantity.high
            for row, prediction in zip(rows, predictions, strict=True)
            if row[column] and (quantity := prediction.metrics.get(column)) is not None
        ]
        errors = np.abs(np.array(known) - 1.0)
        lines.append(
            (
                name,
                str(len(pairs)),
                f"{100 * len(known) / len(pairs):.1f} %",
                f"{100 * median_error(value for _, value in pairs):.1f} %",
                f"{100 * macro:.1f} %",
                f"{100 * np.quantile(errors, 0.9):.0f} %",
                f"{100 * (np.median(known) - 1.0):+.1f} %",
                f"{100 * np.mean(inside):.0f} %",
            )
        )
    return lines


def left_out_table(path: Path) -> list[tuple[str, ...]]:
    """Median error by engine era over rows whose group was left out of the fit."""
    by_era: dict[str, list[dict[str, float]]] = defaultdict(list)
    for (engine, era), _, found in json.loads(path.read_text(encoding="utf-8")):
        by_era[f"{engine} {era}"].append(found)
        by_era["all"].append(found)
    lines = []
    for name, found in sorted(by_era.items(), key=lambda item: (item[0] == "all", item[0])):
        cells = [name, str(len(found))]
        for metric in ("tpot", "ttft", "throughput"):
            values = [ratio[metric] for ratio in found if metric in ratio]
            cells.append(f"{100 * median_error(values):.1f} %" if values else "–")
        lines.append(tuple(cells))
    return lines


def other_loads(path: Path) -> list[tuple[str, ...]]:
    """One line per tier outside the core and what was measured there."""
    with path.open(encoding="utf-8") as stream:
        rows = [
            row
            for row in csv.DictReader(stream)
            if row["tier"] in {tier for tier, _, _ in OTHER_LOADS} and row["spec_decode"] in ("none", "")
        ]
    predictions = [predict_row(row, number) for number, row in enumerate(rows, start=2)]
    lines = []
    for tier, words, column in OTHER_LOADS:
        chosen = [i for i, row in enumerate(rows) if row["tier"] == tier]
        pairs = ratios([rows[i] for i in chosen], [predictions[i] for i in chosen], column)
        lines.append((words, *summary([value for _, value in pairs])))
    return lines


def summary(values: list[float | None]) -> tuple[str, ...]:
    """Rows, part predicted, median error, 90th percentile and bias of ratios."""
    known = np.array([value for value in values if value is not None])
    return (
        str(len(values)),
        f"{100 * len(known) / len(values):.0f} %",
        f"{100 * median_error(values):.1f} %",
        f"{100 * np.quantile(np.abs(known - 1.0), 0.9):.0f} %",
        f"{100 * (np.median(known) - 1.0):+.1f} %",
    )


def training_tables(path: Path) -> str:
    """Throughput and memory of training runs by source, with the shipped parameters."""
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    predictions = [training.predict_row(row, number) for number, row in enumerate(rows, start=2)]
    text = ""
    for title, column in (
        ("Tokens per second", "tokens_per_s_per_gpu"),
        ("Peak memory", "peak_mem_gb"),
    ):
        by_source: dict[str, list[float | None]] = defaultdict(list)
        for row, prediction in zip(rows, predictions, strict=True):
            if row[column]:
                quantity = prediction.metrics.get(column)
                by_source[row["source"]].append(quantity.value / float(row[column]) if quantity else None)
        everything = [value for values in by_source.values() for value in values]
        lines = [("all", *summary(everything))]
        lines += [
            (name, *summary(values))
            for name, values in sorted(by_source.items(), key=lambda item: -len(item[1]))
            if any(value is not None for value in values)
        ]
        text += table(title, lines, ("source", "rows", "predicted", "median", "p90", "bias"))
    return text


def calibration_table(path: Path) -> str:
    """H200 rows before and after calibration."""
    known = {name: calibration_of(read_probe(Path(name))) for name in PROBES}
    rows = judged_rows(path, next(iter(known.values())).accelerator)
    found = {name: predicted(rows, used) for name, used in ({"datasheet": None} | known).items()}
    return CALIBRATION_HEADER + calibration_rows(rows, found) + "\n"


def collective_table(path: Path) -> str:
    """Bus bandwidth by collective."""
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    by_name: dict[str, list[float | None]] = defaultdict(list)
    for row, prediction in zip(rows, collectives.predict_rows(rows), strict=True):
        size = float(row["msg_bytes"] or "inf")
        if row["busbw_gbs"] and size > LEAST_COLLECTIVE_BYTES:
            quantity = prediction.metrics.get("busbw_gbs")
            by_name[row["collective"]].append(quantity.value / float(row["busbw_gbs"]) if quantity else None)
    everything = [value for values in by_name.values() for value in values]
    lines = [("all", *summary(everything)), *((name, *summary(values)) for name, values in by_name.items())]
    return table("Bus bandwidth", lines, ("collective", "rows", "predicted", "median", "p90", "bias"))


def main() -> None:
    """Predict, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", type=Path, default=Path("../shared/data/truth"))
    parser.add_argument("--left-out", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/accuracy.md"))
    arguments = parser.parse_args()
    rows = read(arguments.truth / "serving.csv")
    predictions = [predict_row(row, number) for number, row in enumerate(rows, start=2)]
    text = HEADER
    head = ("metric", "rows", "predicted", "median", "macro", "p90", "bias", "inside 80 % interval")
    text += table("All rows, with the shipped parameters", overall(rows, predictions), head)
    if arguments.left_out:
        head = ("engine and era", "rows", *METRICS)
        text += table("Left out: whole groups unseen by the fit", left_out_table(arguments.left_out), head)
    for title, column in (
        ("By engine", "engine"),
        ("By accelerator", "gpu"),
        ("By model", "model"),
        ("By tier", "tier"),
    ):
        text += table(
            f"{title} (shipped parameters, median)",
            by_column(rows, predictions, column),
            (column, "rows", *METRICS),
        )
    head = ("rows of", "rows", "predicted", "median", "p90", "bias")
    text += table("Other loads", other_loads(arguments.truth / "serving.csv"), head)
    text += calibration_table(arguments.truth / "serving.csv")
    text += TRAINING_HEADER + training_tables(arguments.truth / "training.csv")
    text += COLLECTIVES_HEADER + collective_table(arguments.truth / "collectives.csv")
    arguments.output.write_text(text, encoding="utf-8")
    for line in overall(rows, predictions):
        print(*line, sep="\t")


if __name__ == "__main__":
    main()
