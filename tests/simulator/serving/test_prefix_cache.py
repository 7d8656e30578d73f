"""Prompts that begin alike: the cache against a plain one, jumping against stepping, laws, published hit rates."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import model_replica
from advisor.simulator.serving import (
    ClosedLoop,
    EmpiricalLengths,
    FixedLengths,
    Poisson,
    SchedulerPolicy,
    TraceArrivals,
    UniformLengths,
    Workload,
    simulate,
)
from advisor.simulator.serving.batch import MicroBatch
from advisor.simulator.serving.cache import PrefixCache
from advisor.simulator.serving.caching_replica import CachingReplica
from advisor.simulator.serving.content import (
    ROOT,
    Contents,
    ContentTree,
    SharedPrefixes,
    hashed_contents,
    infinite_cache_hit_fraction,
)
from advisor.simulator.serving.pipeline import step_tables
from advisor.simulator.step_cost import StepSurface

MAX_SEQS = 12
MAX_TOKENS = 40
TRACES = Path(os.environ.get("ADVISOR_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")) / "traces"


@st.composite
def surfaces(draw, num_stages=1):
    slope = draw(st.integers(0, 3))
    base = draw(st.integers(1, 50))
    windowed = draw(st.booleans())
    return StepSurface(
        decode_base_ps=[0] + [base + d * draw(st.integers(0, 2)) for d in range(1, MAX_SEQS + 1)],
        decode_context_ps=[0] + [slope + d % 2 for d in range(1, MAX_SEQS + 1)],
        mixed_base_ps=[0] + [base + 2 * t for t in range(1, MAX_TOKENS + 1)],
        prefill_pair_ps=draw(st.sampled_from([0.0, 0.5, 1.3])),
        prefill_sequence_ps=draw(st.integers(0, 5)),
        window_tokens=draw(st.integers(1, 20)) if windowed else None,
        decode_window_ps=[0] + [2] * MAX_SEQS if windowed else (),
        prefill_window_pair_ps=0.7 if windowed else 0.0,
        num_stages=num_stages,
        stage_transfer_ps=draw(st.integers(0, 7)) if num_stages > 1 else 0,
    )


@st.composite
def policies(draw):
    block = draw(st.integers(1, 5))
    return SchedulerPolicy(
        kind=draw(st.sampled_from(["mixed", "mixed", "prefill_first", "static", "single_stream"])),
        max_num_seqs=draw(st.integers(1, MAX_SEQS)),
        max_num_batched_tokens=draw(st.integers(MAX_SEQS, MAX_TOKENS)),
        chunked_prefill=draw(st.booleans()),
        kv_capacity_blocks=draw(st.one_of(st.none(), st.integers(40 // block + 1, 200 // block))),
        block_tokens=block,
        watermark_blocks=draw(st.integers(0, 2)),
        reserve_output_fraction=draw(st.sampled_from([0.0, 0.0, 0.4, 1.0])),
        prefix_caching=True,
        overlap_scheduling=draw(st.booleans()),
        api_overhead_ps=draw(st.sampled_from([0, 0, 37])),
        admission_ps=draw(st.sampled_from([0, 3])),
        delivery_ps=draw(st.sampled_from([0, 0, 11])),
    )


@st.composite
def workloads(draw):
    """Requests whose prompts are nodes of a random tree; some continue the answer of an earlier one."""
    tree = ContentTree()
    prompts = []
    answers = {}
    pairs = []
    nodes = [ROOT]
    for index in range(draw(st.integers(1, 30))):
        start = draw(st.sampled_from(nodes[-12:]))
        leaf = start
        for _ in range(draw(st.integers(0, 2))):
            leaf = tree.add(leaf, draw(st.integers(1, 14)))
            nodes.append(leaf)
        own = draw(st.integers(0 if tree.ends[leaf] else 1, 9))
        output = draw(st.integers(1, 25))
        if not own and draw(st.booleans()) and tree.ends[leaf] + output < 70:
            answers[index] = tree.add(leaf, output)
            nodes.append(answers[index])
        prompts.append(leaf)
        pairs.append((tree.ends[leaf] + own, output))
    num = len(pairs)
    arrivals = draw(
        st.one_of(
            st.builds(ClosedLoop, st.integers(1, 14)),
            st.builds(Poisson, st.sampled_from([1e9, 5e9, 3e10])),
            st.lists(st.integers(0, 400), min_size=num, max_size=num).map(
                lambda gaps: TraceArrivals([sum(gaps[: i + 1]) * 1e-12 for i in range(num)])
            ),
        )
    )
    return Workload(arrivals, EmpiricalLengths(pairs, in_order=True), num, Contents(tree, prompts, answers))


def table(result):
    records = result.records
    return [tuple(int(getattr(records, name)[i]) for name in records.__slots__) for i in range(len(records))]


SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(surfaces(), policies(), workloads())
def test_jumping_and_stepping_equal_the_plain_cache(plain, surface, policy, workload):
    truth = plain(surface, policy, workload, 0)
    jumped = simulate(surface, policy, workload, records=True)
    stepped = simulate(surface, policy, workload, records=True, jump=False)
    assert table(jumped) == sorted(truth.rows)
    assert table(stepped) == sorted(truth.rows)
    assert jumped.num_iterations == stepped.num_iterations == stepped.num_events == truth.iterations
    assert jumped.prefix_hit_fraction == stepped.prefix_hit_fraction


@SETTINGS
@given(st.integers(2, 4).flatmap(surfaces), policies(), workloads())
def test_jumping_equals_stepping_in_a_pipeline(surface, policy, workload):
    jumped = simulate(surface, policy, workload, records=True)
    stepped = simulate(surface, policy, workload, records=True, jump=False)
    assert jumped.records.equals(stepped.records)
    assert jumped.num_iterations == stepped.num_iterations == stepped.num_events
    assert jumped.prefix_hit_fraction == stepped.prefix_hit_fraction


@settings(max_examples=100, deadline=None)
@given(surfaces(), policies(), workloads())
def test_blocks_in_use_and_idle_never_exceed_the_cache(surface, policy, workload):
    """After every commit; and once all requests have ended, nothing is pinned."""
    if policy.kind == "static" or policy.kv_capacity_blocks is None:
        return
    replica = CachingReplica(step_tables(surface, policy), policy, workload.contents)
    largest = policy.largest_request_tokens
    largest_prompt = policy.largest_prompt_tokens
    for index, (inputs, outputs) in enumerate(workload.lengths.pairs):
        if inputs + outputs <= largest and (largest_prompt is None or inputs <= largest_prompt):
            replica.submit((17 * index, index, inputs, outputs))
    now = replica.resume(0)
    while now < 1 << 62:
        replica.advance(now)
        held = sum(batch.held_blocks() for batch in replica.batches)
        assert held - replica.sum_covered + replica.cache.num_pinned >= 0
        assert replica.cache.num_pinned + replica.cache.num_idle == sum(replica.cache.extents.values())
        now = replica.resume(now)
        replica._make_space(replica.batches[0])
        held = sum(batch.held_blocks() for batch in replica.batches)
        used = held - replica.sum_covered + replica.cache.num_pinned
        assert used + replica.cache.num_idle <= policy.kv_capacity_blocks
    assert replica.cache.num_pinned == replica.sum_covered == 0
    assert replica.cache.pins == {ROOT: 1}


@given(st.data())
def test_counted_blocks_are_the_blocks(data):
    batch = MicroBatch(data.draw(st.integers(1, 9)), None)
    live = {}
    for order in range(25):
        what = data.draw(st.sampled_from(["join", "leave", "tick"]))
        if what == "join":
            live[order] = data.draw(st.integers(1, 40))
            batch.compute(order, live[order])
        elif what == "leave" and live:
            gone = data.draw(st.sampled_from(sorted(live)))
            batch.leave(gone, live.pop(gone))
        else:
            ticks = data.draw(st.integers(1, 30))
            batch.tick += ticks
            batch.context_sum += ticks * batch.num_decoding
            live = {number: context + ticks for number, context in live.items()}
        batch.running = batch.ticking = data.draw(st.booleans())
        batch.num_iterations = data.draw(st.integers(1, 30))
        ahead = batch.num_iterations - 1 if batch.running else 0
        assert batch.held_blocks() == sum(
            -(-(context + ahead) // batch.block_tokens) for context in live.values()
        )
        batch.running = False


def test_least_recently_left_goes_first_and_ends_before_beginnings():
    """Two texts with a common beginning of two blocks, left one after the other; then room is needed."""
    tree = ContentTree()
    common = tree.add(ROOT, 8)
    first = tree.add(common, 8)
    second = tree.add(common, 12)
    cache = PrefixCache(tree, 4)
    for node, blocks in ((first, 4), (second, 5)):
        cache.pin(node)
        cache.extend(node, 0, blocks)
    assert (cache.num_pinned, cache.num_idle) == (7, 0)
    cache.unpin(first)
    cache.unpin(second)
    assert (cache.num_pinned, cache.num_idle) == (0, 7)
    cache.evict(1)
    assert (cache.match(first)[0], cache.match(second)[0]) == (3, 5)
    cache.evict(2)
    assert (cache.match(first)[0], cache.match(second)[0]) == (2, 4)
    cache.pin(second)
    assert cache.match(first) == (2, 2)
    cache.evict(99)
    assert cache.match(second) == (4, 4)


def machine() -> StepSurface:
    """About Llama-3.1-8B on one H200: 5 ms a step, 25 µs a prompt token."""
    return StepSurface(
        decode_base_ps=[0] + [5_000_000_000 + 20_000_000 * d for d in range(1, 129)],
        decode_context_ps=[27_000] * 129,
        mixed_base_ps=[0] + [5_000_000_000 + 25_000_000 * t for t in range(1, 2049)],
        prefill_pair_ps=100.0,
    )


POLICY = SchedulerPolicy(max_num_seqs=128, max_num_batched_tokens=2048, prefix_caching=True)


def test_a_hit_saves_exactly_its_tokens():
    """Two equal prompts of 1 024 tokens, the second long after the first: it computes its last block anew."""
    contents = hashed_contents([[1, 2], [1, 2]], [1024, 1024], 512)
    load = Workload(TraceArrivals([0.0, 9.0]), FixedLengths(1024, 1), 2, contents)
    records = simulate(machine(), POLICY, load, records=True).records
    ttft = (records.first_token_ps - records.arrived_ps).tolist()
    hit = 1024 - 16
    assert ttft[0] == 5_000_000_000 + 25_000_000 * 1024 + 50 * 1024**2
    assert ttft[1] == 5_000_000_000 + 25_000_000 * 16 + 50 * 16 * (2 * hit + 16)


def test_a_common_system_prompt_is_held_once():
    """48 running requests of 1 000 common and 24 own tokens need 62 + 48 · 4 blocks, not 48 · 66."""
    load = Workload(ClosedLoop(48), FixedLengths(24, 24), 480, SharedPrefixes(1000))
    tight = replace(POLICY, kv_capacity_blocks=62 + 48 * 4 + 8)
    run = simulate(machine(), tight, load)
    assert run.num_preemptions == 0
    assert run.mean_batch > 40
    assert run.prefix_hit_fraction == pytest.approx(992 / 1024 * 479 / 480, rel=1e-3)
    alone = simulate(machine(), replace(tight, prefix_caching=False), load)
    assert alone.mean_batch < 4
    assert run.output_tokens_per_s > 8 * alone.output_tokens_per_s


def test_without_common_content_caching_changes_nothing():
    load = Workload(Poisson(20.0), UniformLengths(512, 64, 0.2), 400)
    on, off = (
        simulate(machine(), replace(POLICY, prefix_caching=caching), load, records=True)
        for caching in (True, False)
    )
    assert on.records.equals(off.records)
    assert on.prefix_hit_fraction is None


def test_a_static_batch_computes_every_prompt():
    contents = hashed_contents([[1]] * 20, [512] * 20, 512)
    load = Workload(ClosedLoop(4), FixedLengths(512, 8), 20, contents)
    policy = replace(POLICY, kind="static")
    assert simulate(machine(), policy, load).prefix_hit_fraction is None


def test_more_room_hits_more():
    load = Workload(ClosedLoop(8), FixedLengths(32, 16), 800, SharedPrefixes(640, 40, skew=1.0))
    hits = [
        simulate(machine(), replace(POLICY, kv_capacity_blocks=blocks), load).prefix_hit_fraction
        for blocks in (400, 800, 1200, 1600, 4000)
    ]
    assert hits == sorted(hits)
    assert hits[0] < 0.8 * hits[-1]


def test_engines_cache_prefixes_as_their_records_say():
    def caches(model: str, gpu: str, engine: str) -> bool:
        deployment = named_deployment(model, gpu, engine)
        return model_replica(deployment, mean_input_tokens=500, mean_output_tokens=100).policy.prefix_caching

    assert caches("llama-3.1-8b", "h100-sxm", "vllm")
    assert caches("llama-3.1-8b", "h100-sxm", "sglang")
    assert not caches("llama-3.1-8b", "mi300x", "atom")
    assert not caches("mamba2-2.7b", "h100-sxm", "vllm")


def mooncake(name: str):
    path = TRACES / name
    if not path.exists():
        pytest.skip("../shared/data/traces is not here")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "published"),
    [("mooncake_conversation_first4000.jsonl", 0.326), ("mooncake_synthetic.jsonl", 0.64)],
)
def test_an_endless_cache_hits_as_published(name, published):
    """The simulated hits equal the count over the trace, but for the last block of prompts that are all known."""
    rows = mooncake(name)
    ids = [row["hash_ids"] for row in rows]
    inputs = [row["input_length"] for row in rows]
    assert infinite_cache_hit_fraction(ids) == pytest.approx(published, abs=5e-4)
    seen = set()
    num_tokens = 0
    for chain, tokens in zip(ids, inputs, strict=True):
        known = sum(identity in seen for identity in chain)
        num_tokens += min(512 * known, (tokens - 1) // 16 * 16)
        seen.update(chain)
    load = Workload(
        TraceArrivals([row["timestamp"] / 1000 for row in rows]),
        EmpiricalLengths([(row["input_length"], row["output_length"]) for row in rows], in_order=True),
        len(rows),
        hashed_contents(ids, inputs, 512),
    )
    run = simulate(machine(), replace(POLICY, kv_capacity_blocks=None), load)
    assert run.prefix_hit_fraction == pytest.approx(num_tokens / sum(inputs), rel=2e-4)


def test_what_is_shared_fills_the_cache_once():
    """48 requests of 1 047 tokens at most would be 50 000 tokens; with their beginning in common they are 4 000."""
    load = Workload(ClosedLoop(48), FixedLengths(24, 24), 480, SharedPrefixes(1000))
    run = simulate(machine(), replace(POLICY, kv_capacity_blocks=1000), load)
    assert 62 + 48 * 3 < run.max_kv_tokens / 16 <= 62 + 48 * 4
    stepped = simulate(machine(), replace(POLICY, kv_capacity_blocks=1000), load, jump=False)
    assert stepped.max_kv_tokens == run.max_kv_tokens


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_what_is_kept_is_what_requests_leave(data):
    """Kept at once, or pinned, computed and left as a request does: the same blocks, in the same order."""
    tree = ContentTree()
    for _ in range(data.draw(st.integers(1, 12))):
        tree.add(data.draw(st.integers(0, len(tree.parents) - 1)), data.draw(st.integers(1, 40)))
    kept = PrefixCache(tree, 8)
    left = PrefixCache(tree, 8)
    for node in data.draw(st.lists(st.integers(1, len(tree.parents) - 1), min_size=1, max_size=8)):
        kept.keep(node)
        left.pin(node)
        left.extend(node, 0, tree.ends[node] // 8)
        left.unpin(node)
    assert kept.extents == left.extents
    assert (kept.num_idle, kept.num_pinned) == (left.num_idle, left.num_pinned)
    assert list(kept.idle) == list(left.idle)
