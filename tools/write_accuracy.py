"""Write docs/accuracy.md: how far predictions are from published measurements, seen and left out.

    python tools/write_accuracy.py --truth ../shared/data/truth --left-out out/left_out.json
    python tools/write_accuracy.py --truth ../shared/data/truth --blind 1 --date 2026-11-22 --commit 71038af \\
        --predictions FOLDER

`--left-out` is the dump of evidence/fit/engines.py: each row predicted by engine parameters that were fitted
without its whole group (accelerator, model, engine); without it that table stays as it is. `--blind` adds one round to
the ledger and writes nothing else: FOLDER holds what `advisor validate KIND KIND_blind1.csv --predictions` wrote with
the code of that commit.
"""

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from compare_calibration import judged_rows, predicted
from compare_calibration import table as calibration_rows

from advisor.commands.validate.serving_accuracy_view import (
    METRIC_NAMES,
    SCORE_HEADS,
    score_cells,
    serving_accuracy_tables,
    stranger_tables,
)
from advisor.evidence.collectives import prediction as collectives
from advisor.evidence.scores import Comparison, JudgedRow, comparisons, measured_value, score
from advisor.evidence.serving.accuracy import CORE_METRICS, is_core, serving_accuracy
from advisor.evidence.serving.case import View
from advisor.evidence.serving.prediction import predict_row
from advisor.evidence.training import prediction as training
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.render.answer import Table
from advisor.simulator.quantity import Quantity

LEFT_OUT = "Left out: whole groups unseen by the fit"
LEFT_OUT_NAMES = ("tpot", "ttft", "throughput")
"""Of the same metrics in the dump of the fit."""
Ratios = dict[str, float | None]
HEADER = """# Accuracy

How far predictions are from published measurements. Errors are |predicted / measured − 1|; *median* is over rows,
*macro* first takes the median of each group (accelerator, model, engine) and then their mean, so that large groups do
not drown small ones. A row without a prediction counts as 100 %. Noise: the same configuration measured again differs
by a few percent in serving, by 6 % in training between releases of one container.

Made by `python tools/write_accuracy.py`; `advisor validate serving serving.csv` prints the serving tables (all but
*Left out*, which needs the parameters fitted anew). The measurements are public (InferenceX points and internal runs in
NVIDIA's AIConfigurator repository, TensorRT-LLM's and GPUStack's performance pages, SGLang's cookbook, Argonne's
LLM-Inference-Bench, llama.cpp benchmarks, training logs and papers, nccl-tests outputs, own runs on H200s) and are not
shipped. How rows are read is in [validation.md](validation.md).

# Serving

The core is aggregated serving without speculative decoding, all conditions published: the rows that engines'
parameters are fitted on, under any load. All tables but *Left out* are of the shipped parameters. Tiers: A are
benchmarks of vendors and archives (A1 and A3 with their start-up scripts known), OWN our own runs; B are measurements
of servers as people set them up, some with a client's or a server's limit in place of the load: their throughput is
usable, their latencies are doubtful. Left out of the fit are groups on hardware with measured kernels; a few numbers
of MI300X, MI355X and TPU v7 ([serving mechanisms](serving-mechanisms.md#other-vendors-hardware)) come from runs that
are among these rows.
"""
STRANGER_HEADER = """
# Serving, as a stranger's server

The same rows without what scripts say: no recipe, no format or layout that a row does not state, engines on the
defaults of their release. This is how a server is predicted of which only its table is known; what stands above is how
well engines are understood where their command line is known too.
"""
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
LEDGER_HEADER = """
# Ledger of blind rounds

Measurements that nobody had seen before the code was finished, predicted once with that code. Lines are added, never
rewritten. Per cell: median error, a missing prediction counting as 100 %, and in brackets the share inside the 80 %
interval.
"""
LEDGER_METRICS = {
    "serving": {"TPOT": "tpot_ms_mean", "TTFT": "ttft_ms_mean", "throughput": "output_tok_s"},
    "training": {"tokens per second": "tokens_per_s_per_gpu", "peak memory": "peak_mem_gb"},
}
CALIBRATION_HEADER = """
## With and without a calibration

Rows of H200s, from the data sheet and with what `advisor calibrate` makes of two of the catalog's recordings: one H200,
and a machine of eight.

"""
PROBES = ("h200-sxm-x1", "h200-sxm-x8")


def median_error(values: Iterable[float | None]) -> float:
    """Median of |ratio − 1|, a missing one counting as 100 %."""
    return float(np.median([1.0 if value is None else abs(value - 1.0) for value in values]))


def table(title: str, rows: list[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table."""
    lines = [f"\n## {title}\n", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def cells(path: Path) -> list[dict[str, str]]:
    """The rows of a table of measurements."""
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def judged(path: Path, view: View = "replay") -> list[JudgedRow]:
    """Every row of the serving measurements with its prediction."""
    return [
        JudgedRow(row, predict_row(row, number, view=view).metrics)
        for number, row in enumerate(cells(path), start=2)
    ]


def markdown(found: Table) -> str:
    """A table of an answer, as a section."""
    return table(found.title, list(found.rows), tuple(column.header for column in found.columns))


def left_out_table(path: Path, rows: Sequence[JudgedRow]) -> list[tuple[str, ...]]:
    """Median error by engine era over rows whose group was left out of the fit, and over all core rows."""
    by_era: dict[str, list[Ratios]] = defaultdict(list)
    left_out: dict[str, Ratios] = {}
    for (engine, era), case_id, found in json.loads(path.read_text(encoding="utf-8")):
        by_era[f"{engine} {era}"].append(found)
        left_out[case_id] = found
    by_group: dict[str, list[Ratios]] = defaultdict(list)
    core = [row for row in rows if is_core(row.cells)]
    for row in core:
        if row.cells["case_id"] in left_out:
            by_group[row.cells["group"]].append(left_out[row.cells["case_id"]])
    everything = [left_out.get(row.cells["case_id"]) or shipped(row) for row in core]
    lines = [median_errors(name, found) for name, found in sorted(by_era.items())]
    lines.append(median_errors("all", list(left_out.values())))
    lines.append(macro_errors("all, mean over groups", list(by_group.values())))
    lines.append(median_errors("and other hardware, as shipped", everything))
    return lines


def shipped(row: JudgedRow) -> Ratios:
    """Predicted / measured of a row by metric; None without a prediction."""
    found: Ratios = {}
    for name, column in zip(LEFT_OUT_NAMES, CORE_METRICS, strict=True):
        if measured := measured_value(row.cells, column):
            quantity = row.predicted.get(column)
            found[name] = quantity.value / measured if quantity else None
    return found


def median_errors(name: str, found: list[Ratios]) -> tuple[str, ...]:
    """A line of median errors."""
    values = ([one[metric] for one in found if metric in one] for metric in LEFT_OUT_NAMES)
    return (name, str(len(found)), *(f"{100 * median_error(some):.1f} %" if some else "–" for some in values))


def macro_errors(name: str, groups: list[list[Ratios]]) -> tuple[str, ...]:
    """A line of means over groups of their median errors."""
    cells = []
    for metric in LEFT_OUT_NAMES:
        known = [[one[metric] for one in group if metric in one] for group in groups]
        cells.append(f"{100 * np.mean([median_error(values) for values in known if values]):.1f} %")
    return (name, str(sum(len(group) for group in groups)), *cells)


def score_table(title: str, column: str, compared: Sequence[Comparison]) -> str:
    """Errors over all comparisons, then over those of each value of a column as they first appear."""
    by_value: dict[str, list[Comparison]] = defaultdict(list)
    for one in compared:
        by_value[one.groups[column]].append(one)
    lines = [("all", *score_cells(score(compared)))]
    lines += [(name, *score_cells(score(some))) for name, some in by_value.items()]
    return table(title, lines, (column, *SCORE_HEADS))


def training_tables(path: Path) -> str:
    """Throughput and memory of training runs by source, the largest first, with the shipped parameters."""
    rows = [
        JudgedRow(row, training.predict_row(row, number).metrics)
        for number, row in enumerate(cells(path), start=2)
    ]
    text = ""
    for title, column in (
        ("Tokens per second", "tokens_per_s_per_gpu"),
        ("Peak memory", "peak_mem_gb"),
    ):
        compared = comparisons(rows, column)
        sizes = Counter(one.groups["source"] for one in compared)
        order = {source: place for place, (source, _) in enumerate(sizes.most_common())}
        text += score_table(title, "source", sorted(compared, key=lambda one: order[one.groups["source"]]))
    return text


def calibration_table(path: Path) -> str:
    """H200 rows before and after calibration."""
    known = {name: calibration_of(read_probe(Path(name))) for name in PROBES}
    rows = judged_rows(path, next(iter(known.values())).accelerator)
    found = {name: predicted(rows, used) for name, used in ({"datasheet": None} | known).items()}
    return CALIBRATION_HEADER + calibration_rows(rows, found) + "\n"


def collective_table(path: Path) -> str:
    """Bus bandwidth by collective."""
    rows = cells(path)
    large = [
        JudgedRow(row, prediction.metrics)
        for row, prediction in zip(rows, collectives.predict_rows(rows), strict=True)
        if float(row["msg_bytes"] or "inf") > LEAST_COLLECTIVE_BYTES
    ]
    return score_table("Bus bandwidth", "collective", comparisons(large, "busbw_gbs"))


def as_predicted(truth: Path, predictions: Path) -> list[JudgedRow]:
    """Rows of a table with the predictions that a file holds for them."""
    found = []
    for row, predicted_row in zip(cells(truth), cells(predictions), strict=True):
        metrics = {
            name.removeprefix("pred_"): Quantity(
                *(
                    float(predicted_row[part + name.removeprefix("pred_")])
                    for part in ("pred_", "low_", "high_")
                ),
                "modelled",
            )
            for name, value in predicted_row.items()
            if name.startswith("pred_") and value
        }
        found.append(JudgedRow(row, metrics))
    return found


def ledger_table(kind: str, rows: Sequence[JudgedRow]) -> str:
    """Errors and coverage of a blind table by tier, as one round of the ledger."""
    metrics = LEDGER_METRICS[kind]
    groups: dict[str, list[JudgedRow]] = {"all": list(rows)}
    if kind == "serving":
        groups["core"] = [row for row in rows if is_core(row.cells)]
    for tier in sorted({row.cells["tier"] for row in rows}):
        groups[tier] = [row for row in rows if row.cells["tier"] == tier]
    lines = []
    for name, some in groups.items():
        if not some:
            continue
        scores = [
            score(found) if (found := comparisons(some, column)) else None for column in metrics.values()
        ]
        shown = (
            f"{100 * one.median_ape_missing_as_1:.1f} % ({100 * (one.interval_coverage or 0.0):.0f} %)"
            if one
            else "–"
            for one in scores
        )
        predicted_share = sum(1 for row in some if row.predicted) / len(some)
        lines.append((name, str(len(some)), f"{100 * predicted_share:.0f} %", *shown))
    return table(kind.capitalize(), lines, ("tier", "rows", "predicted", *metrics)).replace(
        "\n## ", "\n### ", 1
    )


def kept_section(page: Path, title: str) -> str:
    """A section of a page as it stands, heading and all; nothing where it has none."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    start = old.find(f"\n## {title}\n")
    return "" if start < 0 else old[start : old.index("\n## ", start + 1)]


def ledger_of(page: Path) -> str:
    """The ledger of a page as it stands, or an empty one."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    mark = LEDGER_HEADER.strip().splitlines()[0]
    return f"\n{mark}{old.split(mark)[1]}" if mark in old else LEDGER_HEADER


def add_round(page: Path, number: int, date: str, commit: str, truth: Path, predictions: Path) -> None:
    """Add a round to a page's ledger.

    Raises: ValueError: the page has this round.
    """
    ledger, title = ledger_of(page), f"## Round {number}"
    if title in ledger:
        raise ValueError(f"{page} has round {number}: a ledger is never rewritten")
    text = f"\n{title}\n\nCommit {commit}, {date}.\n"
    for kind in LEDGER_METRICS:
        name = f"{kind}_blind{number}.csv"
        text += ledger_table(kind, as_predicted(truth / name, predictions / name))
    old = page.read_text(encoding="utf-8").split(ledger.strip())[0].rstrip()
    page.write_text(f"{old}\n{ledger.rstrip()}\n{text}", encoding="utf-8")


def main() -> None:
    """Predict, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", type=Path, default=Path("../shared/data/truth"))
    parser.add_argument("--left-out", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--blind", type=int, help="add this round to the ledger and do nothing else")
    parser.add_argument("--date", default="", help="of the round")
    parser.add_argument("--commit", default="", help="whose code predicted")
    parser.add_argument("--predictions", type=Path, help="folder with the round's predictions")
    arguments = parser.parse_args()
    if arguments.blind:
        if not (arguments.date and arguments.commit and arguments.predictions):
            parser.error("a round needs --date, --commit and --predictions")
        add_round(
            arguments.output, arguments.blind, arguments.date, arguments.commit,
            arguments.truth, arguments.predictions,
        )  # fmt: skip
        return
    rows = judged(arguments.truth / "serving.csv")
    accuracy = serving_accuracy(rows)
    stranger = serving_accuracy(judged(arguments.truth / "serving.csv", "stranger"))
    if accuracy is None or stranger is None:
        parser.error("no serving run of the core in the measurements")
    everything, *others = serving_accuracy_tables(accuracy)
    text = HEADER + markdown(everything)
    if arguments.left_out:
        head = ("engine and era", "rows", *METRIC_NAMES.values())
        text += table(LEFT_OUT, left_out_table(arguments.left_out, rows), head)
    else:
        text += kept_section(arguments.output, LEFT_OUT)
    text += "".join(markdown(one) for one in others)
    text += calibration_table(arguments.truth / "serving.csv")
    text += STRANGER_HEADER + "".join(markdown(one) for one in stranger_tables(stranger))
    text += TRAINING_HEADER + training_tables(arguments.truth / "training.csv")
    text += COLLECTIVES_HEADER + collective_table(arguments.truth / "collectives.csv")
    arguments.output.write_text(text.rstrip() + "\n" + ledger_of(arguments.output), encoding="utf-8")
    for line in everything.rows:
        print(*line, sep="\t")


if __name__ == "__main__":
    main()
