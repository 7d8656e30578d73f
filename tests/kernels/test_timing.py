import time

import pytest

from advisor.kernels.timing import ColdCache, summarize, time_calls, time_graph


def test_percentiles_interpolate():
    timing = summarize([float(i) for i in range(101)])
    assert (timing.p5_s, timing.median_s, timing.p95_s) == (5.0, 50.0, 95.0)
    assert summarize([2.0]).variation == 0.0


def test_no_samples_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_a_sleep_takes_its_time_on_the_host(device, on_gpu):
    if on_gpu:
        pytest.skip("host timing is for devices without events")
    timing = time_calls(lambda: time.sleep(0.002), device, num_warmup=0, num_samples=3)
    assert 0.002 <= timing.median_s < 0.1
    graph = time_graph([lambda: time.sleep(0.002)], device, num_repeats=2, num_samples=2)
    assert 0.002 <= graph.median_s < 0.1


def test_flush_reads_its_whole_buffer(device):
    flush = ColdCache(device, num_bytes=4096)
    flush()
    assert float(flush._sum) == 1024.0
