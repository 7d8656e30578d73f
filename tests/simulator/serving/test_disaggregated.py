"""Two pools: what a transfer takes, what prompts no longer disturb, and that nothing gets lost."""

from dataclasses import replace

import pytest

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    FixedLengths,
    LognormalLengths,
    Poisson,
    SchedulerPolicy,
    ServingResult,
    Slo,
    TraceArrivals,
    Workload,
    simulate,
)
from advisor.simulator.serving.content import SharedPrefixes
from advisor.simulator.serving.disaggregated import (
    Channels,
    DecodeReplica,
    KvLink,
    simulate_disaggregated,
    transferred_ps,
)
from advisor.simulator.serving.fleet import Pool
from advisor.simulator.serving.pipeline import step_tables
from advisor.simulator.step_cost import StepSurface, decode_iteration_s, prefill_iteration_s

MS = PICOSECONDS_PER_S // 1000
SLOTS = 64
BUDGET = 4096
SURFACE = StepSurface(
    decode_base_ps=[0, *(5 * MS + batch * MS // 100 for batch in range(1, SLOTS + 1))],
    decode_context_ps=[MS // 100_000] * (SLOTS + 1),
    mixed_base_ps=[0, *(6 * MS + tokens * MS // 50 for tokens in range(1, BUDGET + 1))],
    prefill_pair_ps=1.0,
)
POLICY = SchedulerPolicy(max_num_seqs=SLOTS, max_num_batched_tokens=BUDGET, reserve_output_fraction=1.0)
FAST = KvLink(bytes_per_token=1.0, bytes_per_s=1e15)


def serve(
    workload: Workload,
    link: KvLink = FAST,
    *,
    prefill: int = 1,
    decode: int = 1,
    policy: SchedulerPolicy = POLICY,
) -> ServingResult:
    return simulate_disaggregated(
        pool("prefill", POLICY, prefill), pool("decode", policy, decode), link, workload, records=True
    )


def pool(name: str, policy: SchedulerPolicy, num_replicas: int = 1) -> Pool:
    return Pool(name=name, surface=SURFACE, policy=policy, num_replicas=num_replicas)


def one(tokens: tuple[int, int] = (1000, 50)) -> Workload:
    return Workload(ClosedLoop(1), FixedLengths(*tokens), 1)


def test_one_request_takes_its_prompt_its_transfer_and_its_decode_iterations() -> None:
    link = KvLink(bytes_per_token=1000.0, bytes_per_s=1e8, latency_s=0.003, layer_wise=False)
    result = serve(one(), link)
    prompt_s = prefill_iteration_s(SURFACE, 1000)
    assert result.ttft.mean_s == pytest.approx(prompt_s + 0.01 + 0.003, rel=1e-9)
    decode_s = sum(decode_iteration_s(SURFACE, 1, 1000 + token) for token in range(1, 50))
    assert result.e2e.mean_s == pytest.approx(result.ttft.mean_s + decode_s, rel=1e-9)


def test_layers_that_leave_early_hide_all_but_the_last() -> None:
    whole = KvLink(bytes_per_token=1.0, bytes_per_s=1000.0, layer_wise=False)
    early = replace(whole, layer_wise=True, num_layers=10)
    seconds = [
        transferred_ps(link, Channels(1), Channels(1), 1000, 0, 2 * PICOSECONDS_PER_S) / PICOSECONDS_PER_S
        for link in (whole, early)
    ]
    assert seconds == [3.0, 2.1]  # a second of bytes after two of computing; a tenth of it for the last layer
    slow = replace(early, bytes_per_s=100.0)
    exposed = transferred_ps(slow, Channels(1), Channels(1), 1000, 0, 2 * PICOSECONDS_PER_S)
    assert exposed == round(10.2 * PICOSECONDS_PER_S)  # ten seconds of bytes from the first layer on


def test_chunks_leave_once_they_are_computed() -> None:
    """SGLang sends the pages of a chunk when its batch is done, the last chunk's after the prompt."""
    link = KvLink(bytes_per_token=1.0, bytes_per_s=1000.0, layer_wise=False, chunk_tokens=250)
    assert [link.num_pieces(tokens) for tokens in (1, 250, 251, 1000)] == [1, 1, 2, 4]
    ends_s = [
        transferred_ps(each, Channels(1), Channels(1), 1000, 0, 2 * PICOSECONDS_PER_S) / PICOSECONDS_PER_S
        for each in (link, replace(link, chunk_tokens=0), replace(link, layer_wise=True, num_layers=100))
    ]
    assert ends_s == [2.25, 3.0, 2.01]


def test_caches_share_a_link_one_after_the_other() -> None:
    link = KvLink(bytes_per_token=1.0, bytes_per_s=1000.0, layer_wise=False, sender_channels=2)
    sender = Channels(2)
    others = [Channels(1) for _ in range(3)]
    ends = [transferred_ps(link, sender, receiver, 1000, 0, 0) // PICOSECONDS_PER_S for receiver in others]
    assert ends == [1, 1, 2]  # two at once, the third when a channel is free
    receiver = Channels(1)
    ends = [transferred_ps(link, Channels(2), receiver, 1000, 0, 0) // PICOSECONDS_PER_S for _ in range(2)]
    assert ends == [1, 2]


def test_prompts_no_longer_stall_decoding() -> None:
    load = Workload(ClosedLoop(32), LognormalLengths(2000, 100, 0.3), 400)
    together = simulate(SURFACE, POLICY, load)
    apart = serve(load, prefill=2)
    assert apart.tpot.mean_s < 0.5 * together.tpot.mean_s
    assert apart.itl.quantile_s(0.99) < 0.01 < together.itl.quantile_s(0.99)


def test_a_slow_link_costs_first_tokens_not_the_others() -> None:
    load = Workload(ClosedLoop(1), FixedLengths(1000, 100), 10)
    fast, slow = (serve(load, KvLink(1000.0, rate, layer_wise=False)) for rate in (1e12, 2e7))
    assert slow.ttft.mean_s == pytest.approx(fast.ttft.mean_s + 0.05, abs=1e-5)
    assert slow.tpot.mean_s == fast.tpot.mean_s


def test_more_decode_workers_share_the_sequences_and_everything_is_accounted_for() -> None:
    load = Workload(ClosedLoop(48), LognormalLengths(200, 200, 0.2), 960)
    few, many = (serve(load, decode=number) for number in (1, 3))
    assert many.tpot.mean_s < few.tpot.mean_s
    for result in (few, many):
        assert result.num_finished == result.num_requests == 960
        assert result.records is not None
        assert (result.records.first_token_ps <= result.records.finished_ps).all()
        assert (result.records.arrived_ps < result.records.first_token_ps).all()
        in_flight = result.e2e.mean_s * result.requests_per_s
        assert in_flight == pytest.approx(48, rel=0.1)  # Little's law but for ramp-up and drain


def test_answers_of_one_token_never_reach_the_decode_pool() -> None:
    result = serve(Workload(ClosedLoop(4), FixedLengths(500, 1), 20))
    assert result.num_finished == 20
    assert result.tpot.num_samples == 0
    assert result.ttft.mean_s == result.e2e.mean_s


def test_a_small_decode_cache_holds_requests_back_instead_of_evicting() -> None:
    load = Workload(ClosedLoop(16), FixedLengths(480, 32), 64)
    roomy = serve(load)
    tight = serve(load, policy=replace(POLICY, kv_capacity_blocks=4 * 512 // POLICY.block_tokens))
    assert tight.num_preemptions == 0
    assert tight.num_finished == 64
    assert tight.ttft.mean_s > roomy.ttft.mean_s


@pytest.mark.parametrize("policy", [POLICY, replace(POLICY, overlap_scheduling=True)])
def test_jumping_gives_the_same_records_as_stepping(policy: SchedulerPolicy) -> None:
    runs = []
    for jump in (True, False):
        replica = DecodeReplica(step_tables(SURFACE, policy), policy, jump=jump)
        for index in range(40):
            replica.submit((index * 17 * MS, index, 100 + 13 * index, 5 + index % 9))
        now = 0
        while (then := replica.resume(now)) < 1 << 62:
            now = then
            replica.advance(now)
        runs.append((replica.finished, replica.num_iterations))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("prefill", "decode", "named"), [(0, 1, "prefill"), (1, 0, "decode")])
def test_a_pool_without_workers_is_refused(prefill: int, decode: int, named: str) -> None:
    with pytest.raises(
        AdvisorError, match=f"pool {named}: num_replicas must be a whole number of at least 1"
    ):
        serve(one(), prefill=prefill, decode=decode)


@pytest.mark.parametrize(
    "values", [{"bytes_per_s": 0.0}, {"latency_s": -1.0}, {"num_layers": 0}, {"receiver_channels": 0}]
)
def test_a_link_needs_plausible_numbers(values: dict[str, float]) -> None:
    with pytest.raises(AdvisorError, match="a KV link needs"):
        replace(FAST, **values)


def test_prefill_workers_keep_common_beginnings() -> None:
    """Prompts of 900 common and 100 own tokens: after the first, a prompt takes about a tenth of the time."""
    workload = Workload(
        TraceArrivals([float(k) for k in range(20)]), FixedLengths(100, 5), 20, SharedPrefixes(900)
    )
    ttft = {}
    for caching in (True, False):
        prompts = pool("prefill", replace(POLICY, prefix_caching=caching))
        answers = pool("decode", replace(POLICY, reserve_output_fraction=1.0))
        run = simulate_disaggregated(prompts, answers, FAST, workload)
        ttft[caching] = run.ttft.p50_s
        assert (run.prefix_hit_fraction is not None) == caching
    assert ttft[True] < 0.6 * ttft[False]


def test_prompts_that_no_prefill_worker_holds_are_refused_and_violations_end_a_run() -> None:
    prompts = pool("prefill", replace(POLICY, max_num_batched_tokens=2048, chunked_prefill=False))
    lengths = EmpiricalLengths([(4000, 5), (100, 5)], in_order=True)
    run = simulate_disaggregated(prompts, pool("decode", POLICY), FAST, Workload(Poisson(1.0), lengths, 2))
    assert (run.num_refused, run.num_finished) == (1, 1)
    strict = Workload(Poisson(1000.0), FixedLengths(100, 50), 4000)
    given_up = simulate_disaggregated(
        pool("prefill", POLICY),
        pool("decode", POLICY),
        FAST,
        strict,
        slo=Slo(ttft_s=1e-9),
        give_up_after_violations=10,
    )
    assert given_up.gave_up
    assert 10 < given_up.num_finished < 4000
