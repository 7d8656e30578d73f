"""Programs that fit the catalog's numbers: one command line, and fits that find what made their measurements."""

import math
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.terms import all_terms
from advisor.evidence.fit import engine_intervals, kernels, training_parameters
from advisor.evidence.fit.__main__ import NAMES
from advisor.evidence.fit.base import Options, cauchy, errors_in_words, merge_terms
from advisor.evidence.fit.engine_intervals import METRICS, Error
from advisor.evidence.fit.engine_rows import EngineRow
from advisor.evidence.fit.engine_solver import PRIORS, FittedRow, chosen_levels, shifted_log_ratio, solve
from advisor.evidence.fit.engines import rows_of
from advisor.evidence.prediction import Prediction
from advisor.evidence.serving.case import parse_case
from advisor.simulator.operators.elementwise import ElementwiseEfficiency, elementwise_s
from advisor.simulator.quantity import Basis, Quantity

OPTIONS = Options(Path(), None, False, "", 5000, None)


@pytest.mark.parametrize("name", NAMES)
def test_every_program_runs_with_the_same_options(name: str) -> None:
    program = import_module(f"advisor.evidence.fit.{name}")
    assert program.__doc__
    assert callable(program.run)


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "advisor.evidence.fit", "engine"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "elementwise" in run.stderr


def measure_kernels(launch_s: float, *systems: str) -> pd.DataFrame:
    """Elementwise kernels as a device with these launches runs them, under two engines."""
    sizes = np.geomspace(1e4, 1e9, 40)
    parts = []
    for system in systems:
        truth = ElementwiseEfficiency("bf16", launch_s, 0.8, 20.0, 0.7)
        seconds = elementwise_s(sizes, kernels.devices()[system], truth)
        parts += [
            pd.DataFrame({"system": system, "backend": engine, "latency": 1e3 * seconds, "bytes": sizes})
            for engine in ("vllm", "trtllm")
        ]
    return kernels.convert_table(pd.concat(parts, ignore_index=True).assign(dtype="bf16"))


def operator(table: pd.DataFrame) -> kernels.OperatorFit:
    from advisor.evidence.fit.elementwise import PARAMETERS, predict

    return kernels.OperatorFit("elementwise", table, predict, PARAMETERS, {})


def test_a_fit_finds_the_parameters_that_made_its_measurements() -> None:
    table = measure_kernels(5e-6, "h100_sxm", "h200_sxm")
    found = kernels.record(operator(table), table, "bf16", "any", points=5000)
    parameters = found["parameters"]
    residual = found["residual"]
    assert isinstance(parameters, dict)
    assert isinstance(residual, dict)
    assert parameters["launch_s"] == pytest.approx(5e-6, rel=1e-3)
    assert parameters["memory_fraction"] == pytest.approx(0.8, rel=1e-3)
    assert residual["median_abs_error"] < 1e-3
    assert residual["left_out_median_abs_error"] < 1e-3
    assert found["fitted_on"] == ["h100-sxm", "h200-sxm"]


def test_every_engine_has_a_record_beside_that_of_all() -> None:
    table = measure_kernels(5e-6, "h100_sxm")
    assert [engine for _, engine, _ in kernels.by_engine(table)] == ["any", "tensorrt-llm", "vllm"]
    kept = {engine: len(rows) for _, engine, rows in kernels.by_engine(table, ("vllm",))}
    assert kept["any"] == kept["tensorrt-llm"] == len(table) / 2


def test_records_are_printed_and_written_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "EFFICIENCY_DIR", tmp_path)
    fit = operator(measure_kernels(5e-6, "h100_sxm"))
    kernels.fit_operators([fit], OPTIONS, "elementwise")
    assert capsys.readouterr().out.count("elementwise hopper") == 3
    assert not list(tmp_path.rglob("*.toml"))
    kernels.fit_operators([fit], Options(Path(), None, True, "hopper", 5000, None), "elementwise")
    assert (tmp_path / "elementwise" / "hopper.toml").read_text().count("[[records]]") == 3


def test_what_is_far_off_counts_little() -> None:
    near, far = cauchy(np.array([0.1, 100.0]))
    assert near == pytest.approx(0.1, rel=0.01)
    assert far < 4.0
    assert errors_in_words([1.1, 0.9, 1.2]) == "n    3 median 0.100 p90 0.180 bias +0.100"
    assert errors_in_words([]) == "-"


def test_a_fit_replaces_rows_of_the_table_of_terms_and_keeps_their_sources() -> None:
    found = training_parameters.rows_of(parameter.prior for parameter in training_parameters.PARAMETERS)
    found += rows_of(
        {("sglang", ""): {"request_launch_s": 0.7}, ("vllm", ""): {"request_launch_s": 0.7}},
        [SimpleNamespace(source="a campaign"), SimpleNamespace(source="another")],
        [{"ttft": 1.1}],
    )
    before = all_terms()
    after = merge_terms(before, found)
    assert len(after) == len(before)
    assert [row.source for row in after] == [row.source for row in before]
    changed = [row for row, other in zip(after, before, strict=True) if row.value != other.value]
    of_engines = [row for row in changed if row.scope == "engine"]
    assert [(row.name, row.term, row.fitted_on) for row in of_engines] == [
        ((), "request_launch_s", "a campaign; another")
    ]
    assert of_engines[0].value == pytest.approx(PRIORS["request_launch_s"][0] * np.exp(0.7), rel=0.01)


def line(campaign: str, engine: str, miss: float) -> FittedRow:
    return FittedRow(campaign, (engine, ""), "tpot", miss, {"request_launch_s": 1.0}, 1.0)


def test_a_level_stays_only_where_campaigns_that_were_left_out_are_predicted_better() -> None:
    agree = [line(campaign, engine, -0.3) for campaign in "abcd" for engine in ("vllm", "sglang")]
    assert chosen_levels(agree) == {"request_launch_s": (1.0, 0.0, 0.0)}
    apart = [
        line(campaign, engine, miss)
        for campaign in "abcd"
        for engine, miss in (("vllm", -0.3), ("sglang", 0.3))
    ]
    assert chosen_levels(apart)["request_launch_s"][1] > 0.0
    strangers = [
        line(campaign, "vllm", miss) for campaign, miss in (("a", 0.3), ("b", -0.3), ("c", 0.3), ("d", -0.3))
    ]
    assert chosen_levels(strangers) == {}


def test_an_era_that_nobody_ran_is_as_its_kin() -> None:
    shifts = solve([line("a", "vllm", -0.3), line("b", "vllm", -0.3)], {"request_launch_s": (1.0, 0.3, 0.0)})
    unseen = FittedRow("c", ("vllm", "0.14.0"), "tpot", -0.3, {"request_launch_s": 1.0}, 1.0)
    assert abs(shifted_log_ratio(unseen, shifts)) < 0.1
    assert shifted_log_ratio(unseen, {}) == -0.3


def error(metric: str, group: int, value: float, load: str = "few") -> Error:
    names = (f"vllm hopper {load}", "vllm hopper", "vllm", "any")
    return Error(names, metric, f"group {group}", f"campaign {group % 3}", value)


def test_thin_classes_of_intervals_are_drawn_towards_their_parents() -> None:
    rng = np.random.default_rng(0)
    many = [error(m, g, v, "many") for m in METRICS for g in range(20) for v in rng.normal(0.0, 0.1, 20)]
    few = [error(m, g, v) for m in METRICS for g in range(2) for v in rng.normal(0.0, 0.5, 20)]
    found = engine_intervals.fit_quantiles(many + few)
    wide = found["vllm hopper few"]["tpot"]
    middle = found["vllm hopper"]["tpot"]
    alone = engine_intervals.quantiles([each for each in few if each.metric == "tpot"])
    assert alone[0] < wide[0] < middle[0]
    assert middle[1] < wide[1] < alone[1]


def test_campaigns_left_out_are_inside_in_three_of_four_runs_and_no_more_than_nine_of_ten() -> None:
    """Campaigns err by a factor of their own, and groups and runs within them by others."""
    rng = np.random.default_rng(1)
    runs = [
        Error(("vllm hopper many", "vllm hopper", "vllm", "stranger any"), m, f"{c} {g}", str(c), sum(parts))
        for c in range(20)
        for m in METRICS
        for own in rng.normal(0.0, 0.15, 1)
        for g in range(5)
        for group in rng.normal(0.0, 0.15, 1)
        for parts in ((own, group, run) for run in rng.normal(0.0, 0.1, 12))
    ]
    found = engine_intervals.coverage(runs, engine_intervals.GROUPS_OF_PARENT, lambda each: each.campaign)
    assert all(0.75 <= found[metric] <= 0.9 for metric in METRICS)


@pytest.mark.parametrize(("gpu", "name"), [("h100-sxm", "stranger any"), ("ascend-910b", "transferred")])
def test_an_error_counts_in_the_class_that_its_prediction_has(gpu: str, name: str) -> None:
    case = parse_case({"engine": "vllm", "model": "llama-3.1-8b", "gpu": gpu, "load": "batch1"}, 2)
    row = EngineRow(case, "group", "B4", "source", {"tpot": 20.0})
    basis: Basis = "assumed" if name == "transferred" else "modelled"
    predicted = Quantity(10.0, 9.0, 11.0, basis)
    found = engine_intervals.errors_of(
        [row], [Prediction("a", "ok", basis=basis, metrics={"tpot_ms_mean": predicted})]
    )
    assert [each.classes[-1] for each in found] == [name]
    assert found[0].value == pytest.approx(math.log(2.0))
