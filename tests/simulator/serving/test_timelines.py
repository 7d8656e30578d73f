"""Small cases worked out by hand, instant by instant [ps].

Decode with d sequences takes 10 + d + Σ context; an iteration with prompt tokens 20 + T + Σ context of the decodes
+ 2 A + 3 per prompt, where A = Σ n (c + n/2).
"""

from dataclasses import replace

import pytest

from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    SchedulerPolicy,
    TraceArrivals,
    Workload,
    simulate,
)
from advisor.simulator.serving.pipeline import step_tables
from advisor.simulator.serving.policy import Slo
from advisor.simulator.serving.replica import Replica
from advisor.simulator.step_cost import StepSurface


def surface(pair: float = 2.0, per_prompt: int = 3, num_stages: int = 1, transfer: int = 0) -> StepSurface:
    return StepSurface(
        decode_base_ps=[0] + [10 + d for d in range(1, 9)],
        decode_context_ps=[1] * 9,
        mixed_base_ps=[0] + [20 + t for t in range(1, 33)],
        prefill_pair_ps=pair,
        prefill_sequence_ps=per_prompt,
        num_stages=num_stages,
        stage_transfer_ps=transfer,
    )


def run(policy, requests, costs=None, **options):
    """Requests are (arrival [ps], input, output)."""
    workload = Workload(
        TraceArrivals([arrival * 1e-12 for arrival, _, _ in requests]),
        EmpiricalLengths([(inputs, outputs) for _, inputs, outputs in requests], in_order=True),
        len(requests),
    )
    return simulate(costs or surface(), policy, workload, records=True, **options)


def instants(result):
    """(admitted, first token, finished) of each request."""
    records = result.records
    columns = (records.admitted_ps, records.first_token_ps, records.finished_ps)
    return list(zip(*(column.tolist() for column in columns), strict=True))


A = (0, 5, 2)
B = (0, 3, 1)
C = (30, 2, 3)


def test_mixed_chunks_fill_the_budget_of_four_tokens():
    """
    0    A's first 4 of 5 tokens: 24 + 2·8 + 3 = 43
    43   A's last token (c = 4: A = 4.5) and B's 3 (4.5): 24 + 2·9 + 6 = 48; A's first token, B is done
    91   A decodes on 6 tokens, C's 2 tokens ride (A = 2): 23 + 6 + 4 + 3 = 36; A is done, C's first token
    127  C decodes on 3, then on 4 tokens: 14 + 15
    """
    policy = SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=4)
    result = run(policy, [A, B, C])
    assert instants(result) == [(0, 91, 127), (43, 91, 91), (91, 127, 156)]
    assert (result.num_iterations, result.num_events) == (5, 4)
    assert result.ttft.mean_s == pytest.approx((91 + 91 + 97) / 3 * 1e-12)
    assert result.tpot.num_samples == 2
    assert result.tpot.mean_s == pytest.approx((36 + 29 // 2) / 2 * 1e-12)
    assert result.itl.mean_s == pytest.approx((36 + 14 + 15) / 3 * 1e-12)
    assert result.mean_batch == 3 / 5
    assert result.busy_fraction == 1.0
    assert result.output_tokens_per_s == pytest.approx(6 / 156e-12)


def test_prefill_first_lets_decoding_wait():
    """
    0, 43 as above
    91   C's 2 tokens alone: 22 + 4 + 3 = 29; A waits
    120  A on 6 and C on 3 tokens: 12 + 9 = 21; A is done 50 after its first token
    141  C on 4 tokens: 15
    """
    policy = SchedulerPolicy(kind="prefill_first", max_num_seqs=3, max_num_batched_tokens=4)
    result = run(policy, [A, B, C])
    assert instants(result) == [(0, 91, 141), (43, 91, 91), (91, 120, 156)]
    assert result.itl.max_s == pytest.approx(50e-12)
    assert result.itl.mean_s == pytest.approx((50 + 21 + 15) / 3 * 1e-12)


def test_static_batch_pads_to_its_longest():
    """
    0, 43 as above; the batch {A, B} is closed when decoding begins
    91   A on 6 tokens, B padded on 4: 12 + 10 = 22; A and the batch are done
    113  C's prompt: 29; then 14 + 15
    """
    policy = SchedulerPolicy(kind="static", max_num_seqs=2, max_num_batched_tokens=4)
    assert instants(run(policy, [A, B, C])) == [(0, 91, 113), (43, 91, 91), (113, 142, 171)]


def test_single_stream_serves_one_after_the_other():
    """
    0    A: 24 + 16 + 3 = 43, then its last token 21 + 9 + 3 = 33, then one decode on 6 tokens: 17
    93   B: 23 + 9 + 3 = 35
    128  C: 22 + 4 + 3 = 29, 14, 15
    """
    policy = SchedulerPolicy(kind="single_stream", max_num_batched_tokens=4)
    assert instants(run(policy, [A, B, C])) == [(0, 76, 93), (93, 128, 128), (128, 157, 186)]


def test_without_chunks_a_prompt_waits_until_the_budget_holds_it():
    """
    0    A's 5 tokens: 25 + 2·12.5 + 3 = 53; B's 3 do not fit beside them
    53   A decodes on 6, B's 3 and, within the budget of 6, C's 2: 26 + 6 + 2·6.5 + 6 = 51
    """
    policy = SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=6, chunked_prefill=False)
    assert instants(run(policy, [A, B, C]))[:2] == [(0, 53, 104), (53, 104, 104)]


def test_exhausted_blocks_preempt_the_last_admitted():
    """
    Blocks of one token, eight of them; two prompts of 2 tokens with 4 tokens to come.
    0    both prompts: 24
    24   contexts 3 + 3: 18, then 4 + 4: 20; now 5 + 5 do not fit: the second goes, having generated 3
    62   the first alone on 5: 16, done
    78   the second recomputes 2 + 3 tokens: 25, which yields its last token
    """
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8, kv_capacity_blocks=8, block_tokens=1)
    result = run(policy, [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
    assert instants(result) == [(0, 24, 78), (0, 24, 103)]
    assert result.records.num_preemptions.tolist() == [0, 1]
    assert result.num_preemptions == 1
    assert result.max_kv_tokens == 8
    assert result.itl.num_samples == 6
    assert result.itl.mean_s == pytest.approx((18 + 20 + 16 + 18 + 20 + 41) / 6 * 1e-12)


TIGHT = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8, kv_capacity_blocks=8, block_tokens=1)


def test_a_swapped_sequence_continues_where_it_stopped():
    """
    The two of test_exhausted_blocks_preempt_the_last_admitted; at 62 the second leaves 4 tokens of cache on the host.
    62   the first alone on 5: 16, and 4 copies out of 1: 20, done
    82   the second decodes on 5: 16, and 4 copies in of 2: 24; nothing is computed again
    """
    policy = replace(TIGHT, host_blocks=4, copy_out_ps=1, copy_in_ps=2)
    result = run(policy, [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
    assert instants(result) == [(0, 24, 82), (0, 24, 106)]
    assert result.num_preemptions == result.num_swaps == 1
    assert result.preempted_tokens == 5
    assert result.itl.num_samples == 6


def test_a_cache_that_host_memory_does_not_hold_is_computed_again():
    few = run(replace(TIGHT, host_blocks=3), [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
    none = run(TIGHT, [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
    assert instants(few) == instants(none)
    assert few.num_swaps == 0


def test_an_urgent_request_takes_the_slot_of_one_that_runs():
    """
    One slot. The first, of rank 1, decodes when the second comes at 30.
    0    the first's 2 tokens: 20 + 2 + 2·2 + 3 = 29, then on 3: 14
    43   the second's 2 tokens: 29, then on 3: 14, done at 86; the first recomputes 4 tokens: 20 + 4 + 16 + 3 = 43
    129  and its last token on 5: 16
    """
    requests = [(0, 2, 4), (30, 2, 2)]
    one = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=8)
    ranks = {0: 1, 1: 0}
    result = run(replace(one, preempts_to_admit=True), requests, rank=lambda request: ranks[request[1]])
    assert instants(result) == [(0, 29, 145), (43, 72, 86)]
    waits = run(one, requests, rank=lambda request: ranks[request[1]])
    assert waits.num_preemptions == 0
    assert instants(waits)[1][0] == 29 + 14 + 15 + 16


def test_a_full_cache_preempts_the_least_urgent():
    """The first of two is the less urgent one: it goes, although the second was admitted last."""
    policy = TIGHT
    ranks = {0: 1, 1: 0}
    result = run(
        policy,
        [(0, 2, 4), (0, 2, 4)],
        surface(pair=0.0, per_prompt=0),
        rank=lambda request: ranks[request[1]],
    )
    assert result.records.num_preemptions.tolist() == [1, 0]


def test_reserving_the_output_queues_instead_of_preempting():
    """The same two: 5 blocks each are set aside, so the second waits for the first: 22, 14, 15, 16, again."""
    policy = SchedulerPolicy(
        max_num_seqs=4,
        max_num_batched_tokens=8,
        kv_capacity_blocks=8,
        block_tokens=1,
        reserve_output_fraction=1.0,
    )
    result = run(policy, [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
    assert instants(result) == [(0, 22, 67), (67, 89, 134)]
    assert result.num_preemptions == 0


def test_watermark_keeps_blocks_free_for_those_who_decode():
    """
    Seven blocks of one token. The second prompt needs 2 beside the first one's 2: it joins at once without a
    watermark, and has to wait with one of 4.
    """
    for watermark, admitted in ((0, 0), (4, 67)):
        policy = SchedulerPolicy(
            max_num_seqs=4,
            max_num_batched_tokens=8,
            kv_capacity_blocks=7,
            block_tokens=1,
            watermark_blocks=watermark,
        )
        result = run(policy, [(0, 2, 4), (0, 2, 4)], surface(pair=0.0, per_prompt=0))
        assert instants(result)[1][0] == admitted


def test_overlapped_scheduling_admits_one_iteration_late():
    """
    0    A's prompt of 1: 21
    21   B has arrived at 5, but this batch was composed at 0: A alone on 2 tokens, 13
    34   A on 3, B's prompt of 2: 23 + 3 = 26
    """
    for overlap, admitted in ((False, 21), (True, 34)):
        policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8, overlap_scheduling=overlap)
        result = run(policy, [(0, 1, 5), (5, 2, 1)], surface(pair=0.0, per_prompt=0))
        assert instants(result)[1][0] == admitted


def test_overlapped_scheduling_frees_a_slot_one_iteration_late():
    """
    Two slots. 0: prompts of A and B, 22. 22: both on 2 tokens, 16; A is done at 38, but C, there since 1, joins only
    after B's next iteration on 3 tokens, 14.
    """
    for overlap, admitted in ((False, 38), (True, 52)):
        policy = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=8, overlap_scheduling=overlap)
        result = run(policy, [(0, 1, 2), (0, 1, 9), (1, 2, 1)], surface(pair=0.0, per_prompt=0))
        assert instants(result)[2][0] == admitted


def test_api_overhead_counts_once_per_request_and_admission_once_per_iteration_with_newcomers():
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8, api_overhead_ps=100, admission_ps=7)
    result = run(policy, [(0, 1, 2), (0, 1, 2)], surface(pair=0.0, per_prompt=0))
    assert instants(result) == [(100, 136, 152)] * 2
    assert result.ttft.mean_s == pytest.approx(136e-12)
    assert result.e2e.mean_s == pytest.approx(152e-12)
    assert result.records.arrived_ps.tolist() == [0, 0]


def test_window_caps_the_attended_context():
    """
    Window of 4 tokens, 1 ps per windowed token of context and 2 per windowed pair; prompt of 6 tokens.
    0    20 + 6 + 2·(Σ min(q + ½, 4) = ½ + 1½ + 2½ + 3½ + 4 + 4 = 16) = 58
    58   each decode: 10 + 1 + 4
    """
    windowed = StepSurface(
        decode_base_ps=[0, 11],
        decode_context_ps=[0, 0],
        mixed_base_ps=[0] + [20 + t for t in range(1, 33)],
        prefill_pair_ps=0.0,
        window_tokens=4,
        decode_window_ps=[0, 1],
        prefill_window_pair_ps=2.0,
    )
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=32)
    assert instants(run(policy, [(0, 6, 4)], windowed)) == [(0, 58, 58 + 3 * 15)]
    growing = run(policy, [(0, 1, 6)], windowed)
    assert instants(growing) == [(0, 22, 22 + 13 + 14 + 15 + 15 + 15)]
    assert (growing.num_iterations, growing.num_events) == (6, 3)


def test_one_sequence_passes_every_stage_of_a_pipeline():
    """Two stages, 1 ps between them: 2·(21 + 1), then 2·(13 + 1), then 2·(14 + 1)."""
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    result = run(policy, [(0, 1, 3)], surface(0.0, 0, num_stages=2, transfer=1))
    assert instants(result) == [(0, 44, 102)]
    assert result.num_events == 2
    assert result.busy_fraction == pytest.approx((21 + 13 + 14) / 102)


def test_iterations_queue_for_the_stages_of_a_pipeline():
    """
    0    A's prompt in stage 0 until 21, in stage 1 from 22 to 43, out at 44
    21   B, there since 10, enters: stage 0 until 42, stage 1 from 43 to 64, out at 65
    44   A on 2 tokens: stage 0 until 57; stage 1 is B's until 64: 64 to 77, out at 78
    65   B on 2 tokens: stage 0 until 78, stage 1 from 79 to 92, out at 93 and done
    78   A on 3 tokens: stage 0 until 92, stage 1 from 93 to 107, out at 108
    """
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    result = run(policy, [(0, 1, 3), (10, 1, 2)], surface(0.0, 0, num_stages=2, transfer=1))
    assert instants(result) == [(0, 44, 108), (21, 65, 93)]


def test_requests_that_never_fit_are_refused_and_the_rest_served():
    policy = SchedulerPolicy(
        max_num_seqs=4, max_num_batched_tokens=8, kv_capacity_blocks=2, block_tokens=4, max_context_tokens=30
    )
    result = run(policy, [(0, 4, 5), (0, 5, 5), (1, 2, 1)])
    assert (result.num_requests, result.num_finished, result.num_refused) == (3, 2, 1)
    assert result.records.index.tolist() == [0, 2]


def test_a_closed_loop_starts_with_a_burst_and_sends_when_answered():
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    lengths = EmpiricalLengths([(1, 2), (1, 4), (1, 3), (1, 1)], in_order=True)
    result = simulate(surface(0.0, 0), policy, Workload(ClosedLoop(2), lengths, 4), records=True)
    arrived = result.records.arrived_ps.tolist()
    finished = result.records.finished_ps.tolist()
    assert arrived[:2] == [0, 0]
    assert arrived[2] == finished[0]
    assert arrived[3] == min(finished[1], finished[2])


def test_staggered_clients_start_evenly_over_the_ramp():
    result = simulate(
        surface(),
        SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8),
        Workload(ClosedLoop(4, "staggered", 400e-12), EmpiricalLengths([(1, 1)]), 4),
        records=True,
    )
    assert result.records.arrived_ps.tolist() == [0, 100, 200, 300]


def test_goodput_counts_requests_that_meet_every_objective():
    policy = SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=4)
    for slo, good in (
        (Slo(ttft_s=91e-12), 2),
        (Slo(tpot_s=20e-12), 2),
        (Slo(e2e_s=126.5e-12), 2),
        (Slo(ttft_s=91e-12, tpot_s=20e-12), 1),
        (Slo(ttft_s=1.0), 3),
    ):
        result = run(policy, [A, B, C], slo=slo)
        assert result.goodput_fraction == pytest.approx(good / 3)
        assert result.num_violations == 3 - good


def test_the_clock_of_a_replica_does_not_run_backwards():
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    replica = Replica(step_tables(surface(), policy), policy)
    replica.submit((50, 0, 4, 2))
    assert replica.resume(0) == 50
    assert replica.resume(50) > 50
    with pytest.raises(ValueError, match="backwards"):
        replica.resume(49)


def test_a_request_submitted_during_a_run_ends_it_at_the_next_iteration():
    """
    0    prompt of 1: 21; then iterations of 13, 14, 15, ... on 2, 3, 4, ... tokens: ends at 34, 48, 63, ...
    40   a request arrives: the run that was to end at 34 + ... is cut to the boundary at 48
    """
    policy = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    replica = Replica(step_tables(surface(0.0, 0), policy), policy)
    replica.submit((0, 0, 1, 9))
    assert replica.resume(0) == 21
    replica.advance(21)
    assert replica.resume(21) == 21 + sum(range(13, 21))
    assert replica.submit((40, 1, 2, 1))
    assert replica.resume(40) == 48
    replica.advance(48)
    assert replica.num_iterations == 3
    assert replica.resume(48) == 48 + 23 + 4
