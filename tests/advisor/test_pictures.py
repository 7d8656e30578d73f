"""Pictures and traces of simulated runs: they hold every request and pass, and agree with the run's own figures."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]
SERVE = "advisor simulate serve --model 8b --gpu l40s --rate 4 --requests 120 --seed 3"
TRAIN = "advisor simulate train --model 8b --tp 2 --pp 4 --gpus 32 --global-batch 64"


def overlapping(events: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return slices of one row of which the second begins before the first has ended."""
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    pairs = []
    for row in rows.values():
        row.sort(key=lambda event: event["ts"])
        pairs += [(a, b) for a, b in pairwise(row) if a["ts"] + a["dur"] > b["ts"] + 0.01]
    return pairs


@pytest.mark.parametrize("options", ["", "--replicas 2", "--concurrency 8 --rate 0"])
def test_a_trace_of_serving_holds_every_request(cli: Cli, tmp_path: Path, options: str) -> None:
    line = SERVE.replace("--rate 4 ", "") if "concurrency" in options else SERVE
    file = tmp_path / "trace.json"
    run = cli(f"{line} {options.replace('--rate 0', '')} --chrome-trace {file} --json")
    assert run.code == 0, run.err
    trace = json.loads(file.read_text())
    events = trace["traceEvents"]
    decoded = {event["args"]["request"] for event in events if event["name"] == "decode"}
    assert len(decoded) == 120
    assert overlapping(events) == []
    counters = [event for event in events if event["ph"] == "C"]
    assert counters[-1]["args"] == {"waiting": 0, "running": 0}
    assert all(min(event["args"].values()) >= 0 for event in counters)
    assert trace["otherData"]["accelerator"] == "l40s"
    metrics = json.loads(run.out)["metrics"]
    ttft = [0.0] * 120
    for event in events:
        if event["name"] in ("queue", "prefill"):
            ttft[event["args"]["request"]] += event["dur"] / 1e6
    assert sum(ttft) / len(ttft) == pytest.approx(metrics["ttft_s"]["mean"]["value"], rel=0.05)


def test_a_trace_changes_no_answer(cli: Cli, tmp_path: Path) -> None:
    plain, traced = (
        json.loads(cli(f"{SERVE} {more} --json").out)
        for more in ("", f"--chrome-trace {tmp_path / 't.json'}")
    )
    for document in (plain, traced):
        del document["simulation"]["wall_s"]
    assert plain == traced


def test_a_trace_of_a_step_holds_every_pass(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    told = json.loads(cli(f"{TRAIN} --chrome-trace {file} --json").out)
    events = json.loads(file.read_text())["traceEvents"]
    passes = [event for event in events if event["ph"] == "X" and event["pid"] == 2]
    stages = {event["tid"] for event in passes}
    micro_batches = {event["args"]["micro_batch"] for event in passes}
    assert stages == set(range(told["pipeline"]["num_stages"]))
    assert len(micro_batches) == told["pipeline"]["num_micro_batches"]
    ends_s = max(event["ts"] + event["dur"] for event in passes) / 1e6
    assert ends_s == pytest.approx(told["pipeline"]["makespan_s"], rel=1e-6)
    parts_s = sum(event["dur"] for event in events if event["ph"] == "X" and event["pid"] == 1) / 1e6
    assert parts_s == pytest.approx(told["step_time_s"]["value"], rel=0.01)
    assert overlapping(events) == []


def test_charts_of_a_run_agree_with_it(cli: Cli, tmp_path: Path) -> None:
    import advisor

    page = tmp_path / "page.html"
    assert cli(f"{SERVE} -q -o {page}").code == 0
    text = page.read_text()
    for title in ("Latency of the simulated requests", "Requests over time", "KV cache over time"):
        assert title in text
    run = advisor.simulate.serve(
        "8b", gpu="l40s", rate=4, requests=120, seed=3, chrome_trace=tmp_path / "t.json"
    )
    assert run.charts == ()  # a page alone has them


def test_a_saved_probe_is_drawn_against_expectations(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "probe.html"
    assert cli(f"advisor probe show h200-sxm-x8 -q -o {page}").code == 0
    assert "Measured against expected" in page.read_text()


def test_a_fleet_is_drawn_over_its_day(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    assert cli(f"advisor simulate fleet autoscaling -q -o {page}").code == 0
    text = page.read_text()
    for title in ("Requests over time", "Replicas over time", "Time to first token over time"):
        assert title in text


STUDY = """command = "simulate serve"
[base]
model = "8b"
gpu = "l40s"
requests = 20
[grid]
rate = [1, 2, 3, 4]
max_num_seqs = [4, 8, 16, 32]
"""


def test_a_page_of_a_study_has_every_point(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert (
        cli(f"advisor sweep {tmp_path / 'study.toml'} -q -o {tmp_path / 'points.csv'} --workers 1").code == 0
    )
    page = tmp_path / "page.html"
    assert cli(f"advisor sweep {tmp_path / 'points.csv'} -q -o {page}").code == 0
    text = page.read_text()
    assert "16 points" in text
    every = text.split("All points</h2>")[1].split("<h2")[0]
    assert every.count('<tr class="row"') == 16
    assert 'data-kind="scatter"' in text
