"""Ratios of predictions: by what two deployments differ in, narrower than if errors had nothing in common."""

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.simulator.deployment import named_deployment
from advisor.simulator.intervals import (
    LEVELS,
    chance_above_one,
    class_of_pair,
    pair_class,
    pair_errors,
    paired_intervals,
)
from advisor.simulator.replica_model import model_replica

AT_50 = LEVELS.index(0.5)
AT_80 = LEVELS.index(0.8)


def replica(accelerator: str, engine: str = "vllm", **layout: object):  # type: ignore[no-untyped-def]
    deployment = named_deployment("llama-3.1-8b", accelerator, engine, **layout)  # type: ignore[arg-type]
    return model_replica(deployment, mean_input_tokens=512, mean_output_tokens=128)


def test_classes_by_what_differs() -> None:
    base = replica("h100-sxm")
    others = {
        "layout": replica("h100-sxm", tensor_parallel=2),
        "format": replica("h100-sxm", weight_dtype="fp8"),
        "accelerator": replica("h200-sxm", weight_dtype="fp8"),
        "engine": replica("h200-sxm", "sglang"),
        "transferred": replica("gaudi3"),
    }
    for expected, other in others.items():
        assert pair_class(base, other) == pair_class(other, base) == expected


def test_shared_errors_cancel() -> None:
    """Same engine: the ratio is surer than if both errors had nothing in common.

    Of few combinations, as of formats, a higher quantile is taken, so that only the middle tells; so it does of
    accelerators, as the published rows of one repeat another's (GLM-4.5-Air on H100 and A100).
    """
    known = paired_intervals()
    assert known.classes["layout"]["throughput"].quantiles[AT_80] < known.unpaired["throughput"]
    middle = known.unpaired["throughput"] * NormalDist().inv_cdf(0.75) / NormalDist().inv_cdf(0.9)
    for name in ("accelerator", "format", "layout"):
        assert known.classes[name]["throughput"].quantiles[AT_50] < middle
    assert known.levels == LEVELS


def test_intervals_hold_on_models_left_out() -> None:
    for by_metric in paired_intervals().classes.values():
        for errors in by_metric.values():
            assert list(errors.quantiles) == sorted(errors.quantiles)
            assert errors.num_cells >= 5
            # Few cells call for a higher quantile, which holds at least what it promises.
            assert errors.left_out >= 0.72
            if errors.num_cells > 12:
                assert errors.left_out <= 0.88


def test_an_unknown_class_takes_the_widest() -> None:
    widths = [by["throughput"].quantiles[AT_80] for by in paired_intervals().classes.values()]
    assert pair_errors("no-such-class", "throughput").quantiles[AT_80] == max(widths)
    with pytest.raises(KeyError):
        pair_errors("layout", "power")


@given(st.floats(-3, 3), st.sampled_from(["accelerator", "engine", "layout", "format", "transferred"]))
def test_chances_are_complements_and_grow_with_the_ratio(log_ratio: float, name: str) -> None:
    chance = chance_above_one(log_ratio, name, "throughput")
    assert 0.0 < chance < 1.0
    assert chance + chance_above_one(-log_ratio, name, "throughput") == pytest.approx(1.0)
    assert chance_above_one(log_ratio + 0.1, name, "throughput") >= chance


def test_the_edge_of_the_interval_is_ten_percent_sure_to_be_beyond() -> None:
    edge = pair_errors("accelerator", "throughput").quantiles[AT_80]
    assert chance_above_one(edge, "accelerator", "throughput") == pytest.approx(0.9)
    assert chance_above_one(0.0, "accelerator", "throughput") == pytest.approx(0.5)


def test_unmeasured_hardware_comes_before_all_else() -> None:
    same = {"same_accelerator": True, "same_engine": True, "same_format": True}
    assert class_of_pair(**same, transferred=True) == "transferred"
    assert class_of_pair(**same, transferred=False) == "layout"
