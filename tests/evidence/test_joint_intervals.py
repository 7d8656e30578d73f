"""Intervals of one prediction agree with each other: rates allow what latencies allow, and no more."""

import pytest

from advisor.evidence.serving.prediction import predict_row

ROW = {
    "engine": "vllm",
    "engine_version": "0.20.2",
    "date": "2026-05",
    "model": "Qwen/Qwen3-8B",
    "gpu": "h100-sxm",
    "n_gpus": "1",
    "tp": "1",
    "weight_dtype": "bf16",
    "length_dist": "fixed",
}


@pytest.mark.parametrize("gpu", ["h100-sxm", "ascend-910b", "mi300x", "rtx-pro-6000-server"])
@pytest.mark.parametrize(
    ("load", "clients"), [("batch1", 1), ("closed", 1), ("closed", 16), ("static_batch", 8)]
)
@pytest.mark.parametrize(("isl", "osl"), [(128, 512), (4096, 64)])
def test_throughput_is_what_the_whole_time_of_requests_leaves(
    gpu: str, load: str, clients: int, isl: int, osl: int
) -> None:
    row = ROW | {"gpu": gpu, "load": load, "concurrency": str(clients), "isl": str(isl), "osl": str(osl)}
    found = predict_row(row, 2).metrics
    first, rest, rate = (found[name] for name in ("ttft_ms_mean", "tpot_ms_mean", "output_tok_s"))
    if clients == 1:
        slowest_s, fastest_s = (
            (getattr(first, side) + (osl - 1) * getattr(rest, side)) / 1e3 for side in ("high", "low")
        )
        assert rate.low <= 1.02 * osl / slowest_s
        assert rate.high >= 0.98 * osl / fastest_s
        assert rate.low == pytest.approx(osl / slowest_s, rel=0.025)  # lengths jitter by 5 %
    assert rate.low < rate.value < rate.high
    whole = found["e2e_ms_mean"]
    assert rate.high / rate.value == pytest.approx(whole.value / whole.low, rel=1e-6)


@pytest.mark.parametrize(
    ("engine", "gpu", "weights"), [("llama.cpp", "rtx-4090", "q4_k_m"), ("mlx", "m4-max-40-core", "int4")]
)
def test_rates_of_one_stream_are_one_over_its_times(engine: str, gpu: str, weights: str) -> None:
    row = ROW | {
        "engine": engine,
        "engine_version": "",
        "gpu": gpu,
        "weight_dtype": weights,
        "load": "batch1",
    }
    found = predict_row(row | {"isl": "512", "osl": "128", "concurrency": "1"}, 2).metrics
    rate = found["decode_tok_s"]
    each = found["tpot_ms_mean"]
    assert rate.high / rate.value == pytest.approx(each.value / each.low, rel=1e-6)
    assert rate.value / rate.low == pytest.approx(each.high / each.value, rel=1e-6)
