"""80 % intervals: by class, wider where kernels were transferred, wider in tails of short runs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import engines
from advisor.simulator.intervals import METRICS, _classes, factors, prediction_class, with_interval


def test_classes() -> None:
    assert prediction_class("vllm", transferred=True) == "transferred"
    assert prediction_class("no-such-engine", transferred=False) == "any"
    for engine in engines.all_ids():
        assert prediction_class(engine, transferred=False) in (engine, "any")


@pytest.mark.parametrize("metric", METRICS)
def test_every_class_holds_one_and_transfers_are_widest(metric: str) -> None:
    width = {name: math.log(high / low) for name in _classes() for low, high in [factors(metric, name)]}
    for name in width:
        low, high = factors(metric, name)
        assert 0 < low < high
    assert width["transferred"] == max(width.values())
    assert width["transferred"] > width["any"]


def test_one_stream_on_an_owners_machine_is_surer_than_a_server() -> None:
    local, server = (factors("throughput", name) for name in ("llama.cpp", "any"))
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
    samples=st.integers(1, 100_000),
    tail=st.floats(0.5, 0.999),
)
def test_sampling_error_only_widens(value: float, metric: str, samples: int, tail: float) -> None:
    model = with_interval(value, metric, "any", "modelled")
    both = with_interval(value, metric, "any", "modelled", num_samples=samples, tail_fraction=tail)
    assert both.low <= model.low <= value <= model.high <= both.high
    assert both.low > 0
    more = with_interval(value, metric, "any", "modelled", num_samples=100 * samples, tail_fraction=tail)
    assert both.low <= more.low
    assert more.high <= both.high


def test_tails_of_a_run_are_less_sure_than_its_middle() -> None:
    middle, tail = (
        with_interval(1.0, "ttft", "any", "modelled", num_samples=400, tail_fraction=part)
        for part in (0.5, 0.99)
    )
    assert tail.high > middle.high
    assert tail.low < middle.low


def test_errors_add_in_squares_on_the_logarithm() -> None:
    low, high = factors("tpot", "any")
    found = with_interval(2.0, "tpot", "any", "modelled", num_samples=100, tail_fraction=0.5)
    sampling = 1.2816 * math.sqrt(0.5 / (0.5 * 100))
    assert found.high == pytest.approx(2.0 * math.exp(math.hypot(math.log(max(high, 1.0)), sampling)))
    assert found.low == pytest.approx(2.0 * math.exp(-math.hypot(math.log(min(low, 1.0)), sampling)))
    assert found.basis == "modelled"
