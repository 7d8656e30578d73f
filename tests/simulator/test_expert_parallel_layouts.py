"""Attention data parallelism in lockstep, experts over many ranks, copies of experts."""

import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import engines
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.collectives import all_gather_s, reduce_scatter_s, topology_of
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import EngineCosts, default_costs, engine_costs, takes_turns
from advisor.simulator.graph.forward_pass import busiest_rank_tokens, token_costs
from advisor.simulator.layout import check_layout, with_copies
from advisor.simulator.memory import weight_bytes
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.grouped_matmul import GroupedMatmulEfficiency, expert_load, moe_s
from advisor.simulator.replica_model import EngineSettings, ReplicaModel, model_replica
from advisor.simulator.surface import decode_breakdown_s


def wide(ranks: int, engine: str = "tensorrt-llm", **changes: object) -> Deployment:
    layout = named_deployment("deepseek-r1", "gb200", engine, weight_dtype="nvfp4", data_parallel=ranks)
    return replace(layout, expert_parallel=ranks, **changes)  # type: ignore[arg-type]


def build_model(
    deployment: Deployment, sequences: int, costs: EngineCosts | None = None, **settings: object
) -> ReplicaModel:
    return model_replica(
        deployment,
        mean_input_tokens=1024,
        mean_output_tokens=1024,
        costs=costs,
        settings=EngineSettings(max_num_seqs=sequences, **settings),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("tokens", "prompt", "busiest"),
    [(8, 1, 1), (9, 1, 2), (1000, 1000, 1000), (300, 1000, 300), (8000, 1000, 1000), (8001, 1000, 2000)],
)
def test_a_prompt_lies_on_one_of_eight_ranks(tokens: int, prompt: int, busiest: int) -> None:
    assert busiest_rank_tokens(np.array([float(tokens)]), 8, prompt) == busiest


def test_ranks_wait_for_the_one_with_the_prompt_unless_prompts_are_balanced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout = wide(8, "tensorrt-llm")
    assert layout.engine.balances_prompts
    # Launches would outlast what ranks compute.
    monkeypatch.setattr("advisor.simulator.engine_costs.find", lambda *_: None)
    alone = replace(layout, engine=layout.engine.model_copy(update={"balances_prompts": False}))
    no_host = dataclasses.replace(default_costs(), step_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0)
    steps = [
        found.mixed_base_ps[8 * 1024] / found.mixed_base_ps[1024]
        for found in (build_model(chosen, 64, no_host).surface for chosen in (layout, alone))
    ]
    assert steps[1] < 2.0  # seven more prompts ride along on idle ranks
    assert steps[0] > 1.3 * steps[1]


def test_tokens_go_to_the_ranks_of_their_experts_not_to_all() -> None:
    layout = wide(32)
    library = OperatorLibrary(device_of(layout.accelerator), layout.engine.id)
    tokens = np.array([32.0 * 128])
    routed = token_costs(layout, library, tokens, decode=True).seconds["exchange"]
    group = topology_of(layout.accelerator, 32)
    moved = tokens * layout.model.hidden_size * 2.0
    gathered = 58 * (all_gather_s(moved, group) + reduce_scatter_s(moved, group))
    assert routed < 0.4 * gathered
    split = token_costs(replace(layout, expert_parallel=1), library, tokens, decode=True)
    assert split.seconds["exchange"] >= 0.99 * gathered  # every rank holds a slice of every expert


def over_network(ranks: int, engine: str, **changes: object) -> Deployment:
    layout = named_deployment("deepseek-v3", "h100-sxm", engine, data_parallel=ranks, expert_parallel=ranks)
    return replace(layout, **changes)  # type: ignore[arg-type]


def decode_parts_s(
    layout: Deployment, sequences_each: int, costs: EngineCosts | None = None
) -> dict[str, float]:
    library = OperatorLibrary(device_of(layout.accelerator), layout.engine.id)
    costs = costs or engine_costs(layout.engine)
    return decode_breakdown_s(layout, library, costs, sequences_each * layout.data_parallel, 4096)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("sequences", [16, 64, 256])
def test_even_experts_take_no_longer_on_more_ranks_with_as_many_sequences_each(
    engine: str, sequences: int
) -> None:
    even = [
        decode_parts_s(over_network(ranks, engine, redundant_experts=ranks), sequences)["experts"]
        for ranks in (16, 32, 64, 128)
    ]
    # Chance makes the busiest of more ranks busier.
    assert all(more <= 1.2 * fewer for fewer, more in itertools.pairwise(even))


def test_dispatched_tokens_leave_no_rows_of_other_ranks() -> None:
    layout = over_network(32, "sglang")
    library = OperatorLibrary(device_of(layout.accelerator), "sglang")
    record = library.parameters(GroupedMatmulEfficiency, "grouped_matmul", "fp8_block")
    tokens = np.array([1.0, 64.0, 4096.0, 65536.0])
    idle, busy = (
        {
            way: moe_s(
                tokens, 7168, 2048, 256, 8, library.device, kernels, expert_parallel=32, dispatched=way
            )
            for way in (True, False)
        }
        for kernels in (replace(record, foreign_passes=0.0), replace(record, foreign_passes=2.0))
    )
    assert np.all(idle[True] == busy[True])
    assert np.all(busy[True] <= busy[False])


@pytest.mark.parametrize("sequences", [1, 16, 64, 256, 1024])
def test_micro_batches_hide_the_exchange_behind_work_but_no_more(sequences: int) -> None:
    layout = over_network(64, "sglang")
    costs = engine_costs(layout.engine)
    whole, half, all_hidden = (
        decode_parts_s(layout, sequences, replace(costs, hidden_exchange_fraction=fraction))
        for fraction in (0.0, 0.5, 1.0)
    )
    assert sum(all_hidden.values()) <= sum(half.values()) <= sum(whole.values())
    waiting_s = whole["collectives"]
    assert sum(all_hidden.values()) >= 0.99 * max(sum(whole.values()) - waiting_s, waiting_s)


def test_only_exchanges_over_a_network_are_hidden_and_only_by_releases_that_can() -> None:
    assert takes_turns(over_network(64, "vllm"), engine_costs(engines.by_id("vllm")))
    early = engine_costs(engines.by_id("vllm"), version="0.10.0")
    assert not takes_turns(over_network(64, "vllm"), early)
    assert not takes_turns(over_network(8, "vllm"), engine_costs(engines.by_id("vllm")))
    assert not takes_turns(wide(32, "sglang"), engine_costs(engines.by_id("sglang")))
    assert not takes_turns(over_network(64, "tensorrt-llm"), engine_costs(engines.by_id("tensorrt-llm")))


def test_copies_of_experts_make_odd_groups_possible_and_cost_memory() -> None:
    with pytest.raises(InfeasibleError, match="256 experts do not divide among expert parallelism 48"):
        check_layout(wide(48))
    check_layout(with_copies(wide(48)))
    assert (with_copies(wide(48)).redundant_experts, with_copies(wide(32)).redundant_experts) == (32, 0)
    plain, copied = (weight_bytes(wide(32, redundant_experts=copies)) for copies in (0, 32))
    expert_share = 256 * 44.04e6 * 58 * 4.5 / 8 / 32
    assert copied - plain == pytest.approx(expert_share * 32 / 256, rel=0.01)


def test_a_rank_captures_graphs_for_its_own_batch() -> None:
    replica = build_model(wide(8), 2048)
    assert max(replica.cuda_graph_sizes) == 8 * 128
    step = replica.surface.decode_base_ps
    assert step[1024] < 1.5 * step[8 * 32]  # 128 per rank still run from a graph


def test_schedulers_of_ranks_work_side_by_side() -> None:
    costs = build_model(wide(8), 1024).costs
    slow = replace(costs, sequence_s=1e-3)
    layout = wide(8)
    surfaces = [
        model_replica(
            layout,
            mean_input_tokens=1024,
            mean_output_tokens=1024,
            settings=EngineSettings(max_num_seqs=1024),
            costs=chosen,
        ).surface
        for chosen in (costs, slow)
    ]
    added_s = (surfaces[1].decode_base_ps[800] - surfaces[0].decode_base_ps[800]) / 1e12
    assert added_s == pytest.approx(100 * (1e-3 - costs.sequence_s), rel=1e-6)


def test_vllm_of_2025_launches_every_operator_under_data_parallelism() -> None:
    layout = named_deployment("qwen3-235b-a22b", "h200-sxm", "vllm", weight_dtype="fp8", data_parallel=4)
    old, new = (build_model(layout, 64, version=version) for version in ("0.12.0", "0.20.0"))
    assert old.surface.decode_base_ps[4] > 1.5 * new.surface.decode_base_ps[4]


def test_skew_loads_the_busiest_rank_and_chance_evens_out_with_more_tokens() -> None:
    tokens = np.array([64.0, 4096.0])
    even = expert_load(tokens, 256, 8, 32, skew=0.0)
    skewed = expert_load(tokens, 256, 8, 32, skew=0.7)
    share = skewed.rows / (skewed.all_rows / 32)
    assert (skewed.rows > even.rows).all()
    assert share[1] > 1.3
    assert even.rows[0] / (even.all_rows[0] / 32) > even.rows[1] / (even.all_rows[1] / 32) > 1.0
