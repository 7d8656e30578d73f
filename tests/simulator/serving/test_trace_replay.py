"""Traces as workloads: replayed, shared among replicas, fitted, and drawn anew from the fit."""

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError, InputFileError
from advisor.simulator.serving import (
    Gamma,
    LognormalLengths,
    SchedulerPolicy,
    Workload,
    simulate,
)
from advisor.simulator.serving.trace_files import Trace, read_trace
from advisor.simulator.serving.trace_replay import (
    fit_trace,
    replay,
    share_of_replay,
    synthetic,
)
from advisor.simulator.serving.workload import draw_arrivals, draw_length_chunks
from advisor.simulator.step_cost import StepSurface

SURFACE = StepSurface(
    decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, 65)],
    decode_context_ps=[27_000] * 65,
    mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, 2049)],
    prefill_pair_ps=100.0,
)
POLICY = SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=2048, prefix_caching=True)


def drawn_trace(count: int = 6000, rate: float = 3.0, cv: float = 2.0) -> Trace:
    workload = Workload(Gamma(rate, cv), LognormalLengths(1500, 200, sigma=0.8, output_sigma=0.6), count)
    instants = draw_arrivals(workload, 4)
    times = [next(instants) * 1e-12 for _ in range(count)]
    inputs = []
    outputs = []
    for chunk in draw_length_chunks(workload, 4):
        inputs += chunk[0].tolist()
        outputs += chunk[1].tolist()
        if len(inputs) >= count:
            break
    pairs = tuple(zip(inputs[:count], outputs[:count], strict=True))
    return Trace(tuple(at - times[0] for at in times), pairs)


def hashed_trace() -> Trace:
    """Forty documents of 1 024 tokens, asked about in turn."""
    ids = tuple((2 * (k % 40), 2 * (k % 40) + 1, 1000 + k) for k in range(800))
    return Trace(tuple(0.1 * k for k in range(800)), ((1300, 40),) * 800, ids)


def test_a_fit_finds_what_a_trace_was_drawn_from():
    fit = fit_trace(drawn_trace())
    assert fit.lengths == "lognormal"
    assert fit.rate_per_s == pytest.approx(3.0, rel=0.06)
    assert fit.burstiness_cv == pytest.approx(2.0, rel=0.08)
    assert fit.inputs.mean_tokens == pytest.approx(1500, rel=0.04)
    assert fit.inputs.sigma == pytest.approx(0.8, rel=0.03)
    assert fit.outputs.sigma == pytest.approx(0.6, rel=0.03)
    assert abs(fit.length_correlation) < 0.05
    assert fit.inputs.distance < 0.03


def test_two_kinds_of_requests_are_not_lognormal():
    trace = Trace(tuple(map(float, range(400))), ((100, 10), (8000, 10)) * 200)
    assert fit_trace(trace).lengths == "empirical"


def test_traffic_drawn_from_a_fit_has_the_fit_of_its_trace():
    trace = drawn_trace()
    workload = synthetic(trace, fit_trace(trace), 6000)
    instants = draw_arrivals(workload, 9)
    gaps = np.diff([next(instants) * 1e-12 for _ in range(6000)])
    assert 1 / gaps.mean() == pytest.approx(3.0, rel=0.08)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.1)
    chunk = next(draw_length_chunks(workload, 9))
    assert chunk[0].mean() == pytest.approx(1500, rel=0.06)


def test_traffic_drawn_from_a_fit_hits_as_often():
    trace = hashed_trace()
    fit = fit_trace(trace)
    assert fit.num_shared_prefixes == 40
    assert fit.prefix_hit_fraction == pytest.approx(1024 * 760 / (1300 * 800))
    run = simulate(SURFACE, POLICY, synthetic(trace, fit, 3000))
    assert run.prefix_hit_fraction == pytest.approx(fit.prefix_hit_fraction, rel=0.03)


def test_a_replay_is_the_trace():
    trace = hashed_trace()
    run = simulate(SURFACE, POLICY, replay(trace), records=True)
    assert (run.records.arrived_ps * 1e-12).tolist() == pytest.approx(list(trace.times_s))
    assert run.records.input_tokens.tolist() == [1300] * 800
    assert run.prefix_hit_fraction == pytest.approx(1024 * 760 / (1300 * 800))
    assert len(simulate(SURFACE, POLICY, replay(trace, 50), records=True).records) == 50


def test_faster_is_the_same_in_less_time():
    trace = hashed_trace()
    fast = trace.sped_up(4.0)
    assert fast.duration_s == pytest.approx(trace.duration_s / 4)
    assert fast.rate_per_s == pytest.approx(4 * trace.rate_per_s)
    assert fast.pairs == trace.pairs
    with pytest.raises(AdvisorError):
        trace.sped_up(0.0)


def day_trace(num_requests=20_000):
    """A day whose nights have a seventh of the traffic of its afternoons."""
    rng = np.random.default_rng(3)
    hours = np.linspace(0.0, 24.0, 1_000)
    rates = 0.15 + 0.85 * np.maximum(0.0, np.sin((hours - 6.0) / 12.0 * np.pi)) ** 1.5
    parts = np.concatenate([[0.0], np.cumsum(rates[1:])]) / rates[1:].sum()
    times = np.sort(np.interp(rng.random(num_requests), parts, hours * 3600.0))
    return Trace(tuple(times.tolist()), tuple((place + 1, 5) for place in range(num_requests)))


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.9, 7.0])
def test_a_share_has_its_rate_and_every_nth_request(rate):
    trace = drawn_trace(3000)
    share = share_of_replay(trace, rate, 400)
    every = max(1, round(trace.rate_per_s / rate))
    times = np.array(share.arrivals.times_s)
    assert share.num_requests == 400
    assert 399 / times[-1] == pytest.approx(rate, rel=0.2)
    assert set(share.lengths.pairs) <= set(trace.pairs[::every])
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize("rate", [0.01, 0.2, 1.3])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_share_has_the_hours_of_a_day_in_their_proportion(rate, seed):
    trace = day_trace()
    share = share_of_replay(trace, rate, 300, seed)
    places = np.array([prompt - 1 for prompt, _ in share.lengths.pairs])
    sixths = np.bincount(places * 6 // len(trace.pairs), minlength=6)
    assert len(set(places.tolist())) == 300
    assert np.all(np.abs(sixths - 50) <= 25)
    assert 299 / share.arrivals.times_s[-1] == pytest.approx(rate, rel=0.3)


def test_seeds_move_what_is_replayed():
    trace = day_trace()
    shares = [share_of_replay(trace, 0.2, 300, seed).lengths.pairs for seed in range(4)]
    assert len({pairs[0] for pairs in shares}) == 4


def test_a_stretch_is_replayed_behind_the_prompts_before_it():
    trace = hashed_trace()
    share = share_of_replay(trace, trace.rate_per_s, 100)
    whole = share_of_replay(trace, trace.rate_per_s, 10_000)
    assert share.num_requests == 100
    assert whole.num_requests == len(trace.pairs) - len(trace.pairs) // 3
    assert len(share.contents.kept) == 50


def test_shares_add_up_to_the_trace():
    trace = drawn_trace(1000)
    share = share_of_replay(trace, trace.rate_per_s / 4, 5000)
    assert sorted(share.lengths.pairs) == sorted(trace.pairs)


def test_all_at_once_has_no_rate():
    trace = Trace((0.0, 0.0), ((10, 1), (10, 1)))
    assert trace.rate_per_s is None
    assert fit_trace(trace).rate_per_s is None
    with pytest.raises(AdvisorError, match="no rate"):
        share_of_replay(trace, 1.0, 2)
    with pytest.raises(AdvisorError, match="no rate"):
        synthetic(trace, fit_trace(trace), 2)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('"hash_ids": [1]', "1 ids for 600 tokens"),
        ('"hash_ids": [1, "x"]', "0 ids for 600 tokens"),
        ('"hash_ids": 7', "0 ids for 600 tokens"),
    ],
)
def test_hashes_that_do_not_cover_a_prompt(tmp_path, row, what):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, ' + row + "}\n")
    with pytest.raises(InputFileError, match=what):
        read_trace(path)


def test_hashes_in_a_csv_file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at_s,input_tokens,output_tokens,hash_ids\n0,600,5,4 5\n1,600,5,4 6\n")
    assert read_trace(path).hash_ids == ((4, 5), (4, 6))
    assert fit_trace(read_trace(path)).prefix_hit_fraction == pytest.approx(512 / 1200)


def test_cells_without_a_title_are_refused_unless_they_are_empty(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,10,\n1,200,20,,\n")
    assert read_trace(file).pairs == ((100, 10), (200, 20))
    file.write_text("arrived_at_s,input_tokens,output_tokens\n0,100,10,7\n")
    with pytest.raises(InputFileError, match="row 2 has more cells"):
        read_trace(file)
