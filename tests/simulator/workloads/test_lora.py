"""Adapters: sizes, occupancy, the cache of adapters, and longer steps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.catalog.errors import AdvisorError, InfeasibleError
from advisor.simulator.replica_model import model_replica
from advisor.simulator.step_cost import decode_iteration_s
from advisor.simulator.workloads.lora import (
    Adapters,
    distinct_adapters,
    lora_replica,
    lru_hit_fraction,
    sequences_within,
    slot_bytes,
)


@pytest.fixture
def replica(placed: Any) -> Any:
    deployment, _ = placed("llama-2-7b", "a100-sxm-80gb")
    return model_replica(deployment, mean_input_tokens=512, mean_output_tokens=256)


def test_an_adapter_on_all_layers(replica: Any) -> None:
    hidden = 4096
    inner = 11008
    rank = 16
    by_hand = (
        32 * rank * 2 * ((3 * hidden + hidden) + (hidden + hidden) + (2 * inner + hidden) + (hidden + inner))
    )
    assert slot_bytes(replica.deployment, rank) == pytest.approx(by_hand)
    assert slot_bytes(replica.deployment, 32) == pytest.approx(2 * by_hand)


def test_a_slot_has_room_for_every_expert(placed: Any) -> None:
    """Source: shapes of w13_lora_a, w13_lora_b, w2_lora_a and w2_lora_b, vLLM 0.33.0, lora/layers/fused_moe.py."""
    deployment, _ = placed("qwen3-30b-a3b", "h100-sxm")
    attention = 48 * 16 * 2 * ((2048 + 4096 + 2 * 512) + (4096 + 2048))
    experts = 48 * 16 * 2 * 128 * 3 * (2048 + 768)
    assert slot_bytes(deployment, 16) == pytest.approx(attention + experts, rel=0.01)
    for changes in ({"expert_parallel": 4}, {}):
        cut = replace(deployment, tensor_parallel=4, **changes)
        assert experts / 4 < slot_bytes(cut, 16) < attention + experts


def test_different_adapters_in_a_batch() -> None:
    uniform = Adapters(100, 16, 10, popularity=0.0).probabilities
    assert distinct_adapters(uniform, np.array([1.0]))[0] == pytest.approx(1.0)
    draws = np.random.default_rng(0).integers(0, 100, (4000, 50))
    seen = np.mean([len(set(row)) for row in draws])
    assert distinct_adapters(uniform, np.array([50.0]))[0] == pytest.approx(seen, rel=0.01)
    skewed = Adapters(100, 16, 10, popularity=1.0).probabilities
    assert distinct_adapters(skewed, np.array([50.0]))[0] < seen


def test_the_cache_of_adapters_against_a_simulated_one() -> None:
    adapters = Adapters(200, 16, 20, popularity=0.9)
    draws = np.random.default_rng(1).choice(200, 60_000, p=adapters.probabilities)
    held: dict[int, None] = {}
    hits = 0
    for chosen in map(int, draws):
        hits += chosen in held
        held.pop(chosen, None)
        held[chosen] = None
        if len(held) > adapters.slots:
            held.pop(next(iter(held)))
    assert lru_hit_fraction(adapters.probabilities, 20) == pytest.approx(hits / len(draws), abs=0.01)
    assert lru_hit_fraction(adapters.probabilities, 200) == 1.0


def test_steps_get_dearer_with_rank_and_variety_within_what_was_published(replica: Any) -> None:
    plain = decode_iteration_s(replica.surface, 32, 768)
    few, many, wide = (
        decode_iteration_s(lora_replica(replica, Adapters(count, rank, 64, 0.0)).surface, 32, 768)
        for count, rank in ((4, 16), (64, 16), (64, 64))
    )
    assert plain < few < many < wide
    # Punica, arXiv:2310.18547: about 2 ms a token on an A100 at rank 16, whatever the mix.
    assert 0.5e-3 < many - plain < 4e-3


def test_slots_take_room_from_the_cache_and_limit_the_batch(replica: Any) -> None:
    adapted = lora_replica(replica, Adapters(1000, 64, 32, 0.0))
    assert adapted.policy.kv_capacity_blocks < replica.policy.kv_capacity_blocks
    assert adapted.policy.max_num_seqs == sequences_within(Adapters(1000, 64, 32, 0.0), 256) < 40
    with pytest.raises(InfeasibleError, match="no room"):
        lora_replica(replica, Adapters(1000, 256, 1000, 0.0))


def test_impossible_adapters_are_refused() -> None:
    for bad in ((0, 16, 1, 1.0), (1, 0, 1, 1.0), (1, 16, 0, 1.0), (1, 16, 1, -1.0)):
        with pytest.raises(AdvisorError):
            Adapters(*bad)


def test_a_million_adapters_cost_little_memory_and_the_same_numbers() -> None:
    ranks = np.arange(1.0, 20_001.0)
    probabilities = ranks**-1.0 / (ranks**-1.0).sum()
    sizes = np.arange(0.0, 1000.0)
    some = [1, 7, 64, 999]
    exact = [1.0 - (1.0 - probabilities) ** size for size in sizes[some]]
    assert distinct_adapters(probabilities, sizes)[some] == pytest.approx([e.sum() for e in exact], rel=2e-3)
