"""80 % intervals: by class, wider where kernels were transferred, wider in tails of short runs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import engines
from advisor.simulator.intervals import (
    METRICS,
    _classes,
    as_rate,
    class_names,
    factors,
    load_of,
    prediction_class,
    with_interval,
)


def test_classes() -> None:
    assert prediction_class("vllm", transferred=True) == "transferred"
    assert prediction_class("no-such-engine", transferred=False) == "any"
    for engine in engines.all_ids():
        assert prediction_class(engine, transferred=False) in (engine, "any")


@pytest.mark.parametrize("metric", METRICS)
def test_every_class_holds_one_and_transfers_hold_what_measured_hardware_does(metric: str) -> None:
    width = {name: math.log(high / low) for name in _classes() for low, high in [factors(metric, name)]}
    for name in width:
        low, high = factors(metric, name)
        assert 0 < low < high
        for found in (with_interval(2.0, metric, name, "modelled"), as_rate(2.0, (low, high), "modelled")):
            assert found.low <= 2.0 <= found.high
    assert width["transferred"] > width["stranger any"] > width["any"]
    low, high = factors(metric, "transferred")
    measured_low, measured_high = factors(metric, "stranger any")
    assert low <= measured_low < measured_high <= high


def test_one_stream_on_an_owners_machine_is_surer_than_a_server() -> None:
    local, server = (factors("throughput", name) for name in ("llama.cpp", "stranger any"))
    assert math.log(local[1] / local[0]) < math.log(server[1] / server[0])
    assert local[0] < 1.0 < local[1]


def test_the_time_per_token_of_one_stream_is_as_sure_as_its_rate() -> None:
    (low, high), (least, most) = (factors(metric, "llama.cpp") for metric in ("tpot", "throughput"))
    assert (low, high) == pytest.approx((1.0 / most, 1.0 / least), rel=0.01)


def test_unknown_classes_take_the_common_one_and_unknown_metrics_fail() -> None:
    assert factors("tpot", "no-such-class") == factors("tpot", "any")
    with pytest.raises(KeyError):
        factors("power", "any")


@given(
    value=st.floats(1e-6, 1e6),
    metric=st.sampled_from(METRICS),
    low=st.floats(0.01, 1.0),
    high=st.floats(1.0, 100.0),
)
def test_sampling_error_only_widens(value: float, metric: str, low: float, high: float) -> None:
    model = with_interval(value, metric, "any", "modelled")
    both = with_interval(value, metric, "any", "modelled", sampling=(low, high))
    rounding = 1.0 + 1e-9
    assert both.low <= model.low * rounding
    assert model.low <= value <= model.high <= both.high * rounding
    assert 0 < both.low <= value * low * rounding
    assert both.high * rounding >= value * high


def test_errors_add_in_squares_on_the_logarithm() -> None:
    low, high = factors("tpot", "any")
    found = with_interval(2.0, "tpot", "any", "modelled", sampling=(0.8, 1.3))
    high_log = math.log(max(high, 1.0))
    low_log = math.log(min(low, 1.0))
    assert found.high == pytest.approx(2.0 * math.exp(math.hypot(high_log, math.log(1.3))))
    assert found.low == pytest.approx(2.0 * math.exp(-math.hypot(low_log, math.log(0.8))))
    assert found.basis == "modelled"


def test_the_most_special_class_that_is_known_counts() -> None:
    names = class_names("vllm", "hopper", "few", transferred=False)
    assert names == ("vllm hopper few", "vllm hopper", "vllm", "any")
    known = prediction_class("vllm", transferred=False, architecture="hopper", sequences=4.0)
    assert known == next(name for name in names if name in _classes())
    assert prediction_class("vllm", transferred=False, architecture="no-such") == "vllm"
    assert prediction_class("vllm", transferred=True, architecture="no-such") == "transferred"
    assert (load_of(16.0), load_of(17.0), load_of(None)) == ("few", "many", "many")
