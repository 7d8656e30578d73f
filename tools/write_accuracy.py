"""Write docs/accuracy.md: how far predictions are from published measurements, seen and left out.

    python tools/write_accuracy.py --truth ../shared/data/truth --left-out out/left_out.json
    python tools/write_accuracy.py --truth ../shared/data/truth --blind 1 --date 2026-11-22 --commit 71038af \\
        --predictions FOLDER

`--left-out` is the dump of evidence/fit/engines.py: each row predicted by engine parameters that were fitted
without its whole campaign (archive of runs); without it those tables stay as they are. `--blind` adds one round to the
ledger, evidence/data/blind_rounds.csv, and writes nothing else: FOLDER holds what
`advisor validate KIND KIND_blind1.csv --predictions` wrote with the code of that commit.
"""

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from compare_calibration import judged_rows, predict_rows
from compare_calibration import table as calibration_rows
from engine_order import order_table
from first_tokens import first_token_tables

from advisor.commands.validate.serving_accuracy_view import (
    METRIC_NAMES,
    SCORE_HEADS,
    score_cells,
    serving_accuracy_tables,
    stranger_tables,
)
from advisor.evidence.collectives import prediction as collectives
from advisor.evidence.scores import JudgedRow, MeasuredPrediction, comparisons, measured_value, score
from advisor.evidence.serving.accuracy import CORE_METRICS, copied_cases, is_core, serving_accuracy
from advisor.evidence.serving.case import View
from advisor.evidence.serving.prediction import predict_row
from advisor.evidence.training import prediction as training
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.render.answer import Table
from advisor.simulator.quantity import Quantity

LEFT_OUT = "Left out: whole campaigns unseen by the fit"
BLIND_NOW = "Blind round 1: as shipped, and today with its campaigns left out"
ROUNDS = Path(__file__).resolve().parents[1] / "evidence" / "data" / "blind_rounds.csv"
LEFT_OUT_NAMES = ("tpot", "ttft", "throughput")
"""Names of the core metrics in the dump of the fit."""
Ratios = dict[str, float | None]
HEADER = """# Accuracy

This page is for everyone who asks how wrong a prediction can be. Its tables give the errors of serving, training and
collectives against published measurements, overall and by engine, accelerator and model, so that the row of your own
deployment can be found. Start with *Left out*: it holds the errors on runs that the fit has not seen.

| word | meaning |
|---|---|
| error | absolute value of predicted / measured − 1; a row without a prediction counts as 100 % |
| median, p90 | over rows |
| macro | mean over groups (accelerator, model, engine) of the median of each; large ones hide no small ones |
| bias | median of predicted / measured − 1; negative: predicted too low |
| inside 80 % interval | rows whose measured value lies in the predicted interval; 80 % is right, less is too narrow |
| campaign | published runs that share scripts and machines; left out of a fit as a whole |
| core | aggregated serving without speculative decoding, all conditions published |

`python tools/write_accuracy.py` writes this page. `advisor validate serving serving.csv` prints the serving tables,
except *Left out*, for which the parameters are fitted again. The measurements are public and not shipped:
InferenceX points and internal runs in NVIDIA's AIConfigurator repository, performance pages of TensorRT-LLM and
GPUStack, SGLang's cookbook, Argonne's LLM-Inference-Bench, llama.cpp benchmarks, training logs and papers,
nccl-tests outputs, and our own runs on H200s. [validation.md](validation.md) says how rows are read.

Limitations: the same configuration measured again differs by a few percent in serving, and by 6 % in training
between releases of one container; smaller errors mean nothing. All tables except *Left out* contain rows that the
parameters were fitted on. *Left out* is of the last time that the fit was run, and can be older than the other tables:
where a row is read better since, it still shows the error of before.

# Serving

The core is aggregated serving without speculative decoding, all conditions published: the rows that engines'
parameters are fitted on, under any load. All tables but *Left out* are of the shipped parameters. Tiers: A are
benchmarks of vendors and archives (A1 and A3 with their start-up scripts known), OWN our own runs; B are measurements
of servers as people set them up, some with a client's or a server's limit in place of the load: their throughput is
usable, their latencies are doubtful. A closed loop whose latencies are so short that more than half of its clients
would be idle at its own throughput (Little's law) counts with its throughput alone. *Left out* covers rows of earlier
tables and of blind rounds that are over: a campaign is an archive of runs that share scripts and machines, and is
predicted by what the others say; the 80 % intervals are those of the same predictions.
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
of 7 %, on one node too: [training-time.md](training-time.md) has that table, and
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

Measurements that were unseen until the code was finished, predicted once with that code
(`evidence/data/blind_rounds.csv`). Lines are added, never rewritten. Per cell: median error, a missing prediction
counting as 100 %, and in brackets the share inside the 80 % interval where it was counted. Of round 2 a part of the
rows was released afterwards; its lines are those of the whole, but *released*. Own SGLang: 19 loads of SGLang 0.5.17 on
an H100, predicted before they were measured. Of training's first unseen set 76 % lay inside their intervals with
71038af and 68 % with f2ece87a.
"""
LEDGER_METRICS = {
    "serving": {"TPOT": "tpot_ms_mean", "TTFT": "ttft_ms_mean", "throughput": "output_tok_s"},
    "training": {"tokens per second": "tokens_per_s_per_gpu", "peak memory": "peak_mem_gb"},
}
LEDGER_SECTIONS = {kind: tuple(metrics) for kind, metrics in LEDGER_METRICS.items()} | {
    "local": ("decode", "prompts"),
    "collectives": ("bus bandwidth",),
    "own SGLang": ("TPOT p50", "TTFT p50", "throughput"),
}
"""Metrics of a round by kind, as its sections show them; only LEDGER_METRICS are added by this program."""
LEDGER_CELL = ("metric", "median_error_percent", "inside_percent")
CALIBRATION_HEADER = """
## With and without a calibration

Rows of H200s, from the data sheet and with what `advisor calibrate` makes of two of the catalog's recordings: one H200,
and a machine of eight.

"""
MECHANISMS = "Mechanisms and their sources"
"""Section that is written by hand: what led to a mechanism cannot be computed."""
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


def judge_rows(path: Path, view: View = "replay") -> list[JudgedRow]:
    """Every row of the serving measurements that is no copy, with its prediction."""
    rows = cells(path)
    copied = copied_cases(rows)
    return [
        JudgedRow(row, predict_row(row, number, view=view).metrics)
        for number, row in enumerate(rows, start=2)
        if row["case_id"] not in copied
    ]


def markdown(found: Table) -> str:
    """A table of an answer, as a section."""
    return table(found.title, list(found.rows), tuple(column.header for column in found.columns))


def left_out_rows(path: Path) -> list[tuple[str, str, Ratios]]:
    """(engine and campaign, case, predicted / measured by metric) of the dump."""
    dumped = json.loads(path.read_text(encoding="utf-8"))
    return [
        (f"{engine}, {campaign.split(',')[0]}", case_id, found) for engine, campaign, case_id, found in dumped
    ]


def left_out_table(
    dumped: Sequence[tuple[str, str, Ratios]], groups: dict[str, str]
) -> list[tuple[str, ...]]:
    """Median error by engine and campaign over rows whose campaign was left out of the fit, and over all of them."""
    by_campaign: dict[str, list[Ratios]] = defaultdict(list)
    by_group: dict[str, list[Ratios]] = defaultdict(list)
    for name, case_id, found in dumped:
        by_campaign[name].append(found)
        by_group[groups[case_id]].append(found)
    lines = [median_errors(name, found) for name, found in sorted(by_campaign.items())]
    lines.append(median_errors("all", [found for _, _, found in dumped]))
    lines.append(macro_errors("all, mean over groups", list(by_group.values())))
    return lines


def blind_now_table(
    truth: Sequence[dict[str, str]], dumped: Sequence[tuple[str, str, Ratios]]
) -> list[tuple[str, ...]]:
    """Median error on the core of the blind table by tier: as shipped, and today without its campaigns."""
    shipped = {
        (line["tier"], line["metric"]): f"{line['median_error_percent']} %"
        for line in cells(ROUNDS)
        if (line["round"], line["kind"]) == ("1", "serving")
    }
    now = {case_id: found for _, case_id, found in dumped}
    core = [row for row in truth if is_core(row)]
    lines = []
    for tier in ("core", *sorted({row["tier"] for row in core})):
        mine = [row for row in core if tier in ("core", row["tier"])]
        of_tier = []
        for metric, column in zip(LEFT_OUT_NAMES, CORE_METRICS, strict=True):
            measured = [row["case_id"] for row in mine if measured_value(row, column)]
            ratios = [now.get(case_id, {}).get(metric) for case_id in measured]
            before = shipped.get((tier, METRIC_NAMES[column]), "–")
            of_tier += [before, f"{100 * median_error(ratios):.1f} %" if ratios else "–"]
        lines.append((tier, str(len(mine)), *of_tier))
    return lines


def left_out_tables(dump: Path, truth: Path) -> str:
    """Errors of campaigns that were left out: of all core rows, and of the blind table beside what was shipped."""
    tables = [truth / "serving.csv", *sorted(truth.glob("serving_blind*.csv"))]
    groups = {row["case_id"]: row["group"] for path in tables for row in cells(path)}
    dumped = left_out_rows(dump)
    names = list(METRIC_NAMES.values())
    text = table(LEFT_OUT, left_out_table(dumped, groups), ("engine, campaign", "rows", *names))
    head = [f"{name}, {when}" for name in names for when in ("as shipped", "left out")]
    found = blind_now_table(cells(truth / "serving_blind1.csv"), dumped)
    return text + table(BLIND_NOW, found, ("tier", "rows", *head))


def median_errors(name: str, found: list[Ratios]) -> tuple[str, ...]:
    """A line of median errors."""
    values = ([one[metric] for one in found if metric in one] for metric in LEFT_OUT_NAMES)
    return (name, str(len(found)), *(f"{100 * median_error(some):.1f} %" if some else "–" for some in values))


def macro_errors(name: str, groups: list[list[Ratios]]) -> tuple[str, ...]:
    """A line of means over groups of their median errors."""
    errors = []
    for metric in LEFT_OUT_NAMES:
        known = [[one[metric] for one in group if metric in one] for group in groups]
        errors.append(f"{100 * np.mean([median_error(values) for values in known if values]):.1f} %")
    return (name, str(sum(len(group) for group in groups)), *errors)


def score_table(title: str, column: str, compared: Sequence[MeasuredPrediction]) -> str:
    """Errors over all comparisons, then over those of each value of a column as they first appear."""
    by_value: dict[str, list[MeasuredPrediction]] = defaultdict(list)
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
    for title, column in (("Tokens per second", "tokens_per_s_per_gpu"), ("Peak memory", "peak_mem_gb")):
        compared = comparisons(rows, column)
        sizes = Counter(one.groups["source"] for one in compared)
        order = {source: place for place, (source, _) in enumerate(sizes.most_common())}
        text += score_table(title, "source", sorted(compared, key=lambda one: order[one.groups["source"]]))
    return text


def calibration_table(path: Path) -> str:
    """H200 rows before and after calibration."""
    known = {name: calibration_of(read_probe(Path(name))) for name in PROBES}
    rows = judged_rows(path, next(iter(known.values())).accelerator)
    found = {name: predict_rows(rows, used) for name, used in ({"datasheet": None} | known).items()}
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


def round_lines(kind: str, rows: Sequence[JudgedRow]) -> list[dict[str, str]]:
    """Errors and coverage of a blind table by tier and metric, as lines of the ledger."""
    groups: dict[str, list[JudgedRow]] = {"all": list(rows)}
    if kind == "serving":
        groups["core"] = [row for row in rows if is_core(row.cells)]
    for tier in sorted({row.cells["tier"] for row in rows}):
        groups[tier] = [row for row in rows if row.cells["tier"] == tier]
    lines = []
    for tier, some in groups.items():
        share = sum(1 for row in some if row.predicted) / max(1, len(some))
        common = {
            "kind": kind,
            "tier": tier,
            "rows": str(len(some)),
            "predicted_percent": f"{100 * share:.0f}",
        }
        found = {name: comparisons(some, column) for name, column in LEDGER_METRICS[kind].items()}
        for name, compared in found.items():
            if compared:
                one = score(compared)
                error = one.median_ape_missing_as_1
                inside = one.interval_coverage or 0.0
                cell = (name, f"{100 * error:.1f}", f"{100 * inside:.0f}")
                lines.append(common | dict(zip(LEDGER_CELL, cell, strict=True)))
        if some and not any(found.values()):
            lines.append(common | dict.fromkeys(LEDGER_CELL, ""))
    return lines


def ledger(path: Path) -> str:
    """All rounds as sections of a page."""
    text = LEDGER_HEADER
    lines = cells(path)
    for number in sorted({line["round"] for line in lines}, key=int):
        of_round = [line for line in lines if line["round"] == number]
        text += f"\n## Round {number}\n\nCommit {of_round[0]['commit']}, {of_round[0]['date']}.\n"
        for kind, metrics in LEDGER_SECTIONS.items():
            by_tier: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
            for line in of_round:
                if line["kind"] == kind:
                    shown = f"{line['median_error_percent']} %"
                    if line["inside_percent"]:
                        shown += f" ({line['inside_percent']} %)"
                    share = f"{line['predicted_percent']} %" if line["predicted_percent"] else "–"
                    by_tier[line["tier"], line["rows"] or "–", share][line["metric"]] = shown
            if not by_tier:
                continue
            rows = [(*key, *(found.get(name, "–") for name in metrics)) for key, found in by_tier.items()]
            section = table(kind[0].upper() + kind[1:], rows, ("tier", "rows", "predicted", *metrics))
            text += section.replace("\n## ", "\n### ", 1)
    return text


def kept_section(page: Path, title: str) -> str:
    """A section of a page as it stands, heading and all; nothing where it has none."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    start = old.find(f"\n## {title}\n")
    return "" if start < 0 else old[start : old.index("\n## ", start + 1)]


def add_round(path: Path, number: int, date: str, commit: str, truth: Path, predictions: Path) -> None:
    """Add a round to the ledger.

    Raises: ValueError: it has a kind of this round of which there are predictions.
    """
    lines = cells(path) if path.exists() else []
    for kind in LEDGER_METRICS:
        if not (predictions / f"{kind}_blind{number}.csv").exists():
            continue
        if any((line["round"], line["kind"]) == (str(number), kind) for line in lines):
            raise ValueError(f"{path} has {kind} of round {number}: a ledger is never rewritten")
        name = f"{kind}_blind{number}.csv"
        common = {"round": str(number), "date": date, "commit": commit}
        lines += [common | line for line in round_lines(kind, as_predicted(truth / name, predictions / name))]
    columns = (*common, "kind", "tier", "rows", "predicted_percent", *LEDGER_CELL)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


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
            ROUNDS,
            arguments.blind,
            arguments.date,
            arguments.commit,
            arguments.truth,
            arguments.predictions,
        )
        return
    rows = judge_rows(arguments.truth / "serving.csv")
    accuracy = serving_accuracy(rows)
    stranger = serving_accuracy(judge_rows(arguments.truth / "serving.csv", "stranger"))
    if accuracy is None or stranger is None:
        parser.error("no serving run of the core in the measurements")
    everything, *others = serving_accuracy_tables(accuracy)
    text = HEADER + markdown(everything)
    if arguments.left_out:
        text += left_out_tables(arguments.left_out, arguments.truth)
    else:
        text += "".join(kept_section(arguments.output, title) for title in (LEFT_OUT, BLIND_NOW))
    text += "".join(markdown(one) for one in others)
    text += order_table([*rows, *judge_rows(arguments.truth / "serving_blind1.csv")])
    tables = (arguments.truth / "serving.csv", *sorted(arguments.truth.glob("serving_blind*.csv")))
    text += first_token_tables(rows, [row for path in tables for row in cells(path)])
    text += kept_section(arguments.output, MECHANISMS)
    text += calibration_table(arguments.truth / "serving.csv")
    text += STRANGER_HEADER + "".join(markdown(one) for one in stranger_tables(stranger))
    text += TRAINING_HEADER + training_tables(arguments.truth / "training.csv")
    text += COLLECTIVES_HEADER + collective_table(arguments.truth / "collectives.csv")
    arguments.output.write_text(text.rstrip() + "\n" + ledger(ROUNDS), encoding="utf-8")
    for line in everything.rows:
        print(*line, sep="\t")


if __name__ == "__main__":
    main()
