"""From a deployment to memory, surface and scheduler: settings, refusals, state slots, transfers."""

import dataclasses

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import InfeasibleError
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import default_costs, prompt_launch_s
from advisor.simulator.replica_model import (
    EngineSettings,
    ReplicaModel,
    engine_defaults,
    model_replica,
    token_budget,
)
from advisor.simulator.serving_prediction import predicted_rate
from advisor.simulator.step_cost import prefill_iteration_s

COMMON = default_costs()


def deployment(
    model: str = "llama-3.1-8b", gpu: str = "h100-sxm", engine: str = "vllm", **layout: object
) -> Deployment:
    return Deployment(
        models.by_id(model),
        accelerators.by_id(gpu),
        engines.by_id(engine),
        **layout,  # type: ignore[arg-type]
    )


def replica(chosen: Deployment, settings: EngineSettings | None = None, **options: float) -> ReplicaModel:
    lengths = {"mean_input_tokens": 500.0, "mean_output_tokens": 100.0} | options
    return model_replica(chosen, settings=settings, **lengths)  # type: ignore[arg-type]


def test_defaults_are_the_engines_own() -> None:
    large = replica(deployment())
    small = replica(deployment(gpu="l4"))
    assert (large.policy.max_num_seqs, large.policy.max_num_batched_tokens) == (1024, 8192)
    assert (small.policy.max_num_seqs, small.policy.max_num_batched_tokens) == (256, 2048)
    assert len(large.surface.decode_base_ps) == 1025
    assert len(large.surface.mixed_base_ps) == 8193
    assert large.policy.kind == "mixed"
    assert large.policy.kv_capacity_blocks == large.memory.kv_capacity_tokens // 16
    assert max(large.cuda_graph_sizes) == 512
    assert engine_defaults(deployment()).max_num_seqs == 1024


def test_settings_win() -> None:
    settings = EngineSettings(
        max_num_seqs=32, max_num_batched_tokens=16, memory_fraction=0.5, version="0.8.0"
    )
    found = replica(deployment(), settings)
    base = replica(deployment())
    assert found.policy.max_num_seqs == 32
    assert found.policy.max_num_batched_tokens == 32  # every running sequence needs a token of the budget
    assert found.memory.kv_bytes < base.memory.kv_bytes - 0.35 * base.memory.total_bytes
    assert max(found.cuda_graph_sizes) == 64


@pytest.mark.parametrize("tokens", [256, 1000, 1024, 4096])
def test_a_stated_token_budget_stays_and_the_usual_number_of_sequences_bows_to_it(tokens: int) -> None:
    policy = replica(deployment(), EngineSettings(max_num_batched_tokens=tokens)).policy
    assert policy.max_num_batched_tokens == tokens
    assert policy.max_num_seqs == min(tokens, 1024)


def test_given_costs_win_over_the_engines() -> None:
    slow = model_replica(
        deployment(),
        mean_input_tokens=500,
        mean_output_tokens=100,
        costs=dataclasses.replace(COMMON, step_s=1.0),
    )
    assert slow.surface.decode_base_ps[1] > 10**12
    assert slow.costs.step_s == 1.0


def test_a_cache_smaller_than_a_request_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="the KV cache is smaller than one request") as caught:
        replica(deployment(gpu="l4"), mean_input_tokens=120_000.0)
    assert "the longest request has 120,100" in caught.value.why
    assert "more accelerators" in caught.value.fix
    with pytest.raises(InfeasibleError, match="smaller than one request"):
        replica(deployment(gpu="l4"), max_context_tokens=120_000)


def test_a_rank_must_hold_a_request_of_its_own() -> None:
    spread = deployment("qwen3-30b-a3b", "h100-sxm", data_parallel=8, expert_parallel=8)
    capacity = replica(spread).memory.kv_capacity_tokens
    with pytest.raises(InfeasibleError):
        replica(spread, max_context_tokens=capacity // 4)
    replica(spread, max_context_tokens=capacity // 10)


def test_refusals_pass_through() -> None:
    with pytest.raises(InfeasibleError, match="do not divide"):
        replica(deployment(tensor_parallel=3))
    with pytest.raises(InfeasibleError, match="does not fit"):
        replica(deployment("llama-3.1-70b"))


def test_recurrent_state_limits_sequences() -> None:
    hybrid = replica(deployment("qwen3-next-80b-a3b", "h100-sxm", tensor_parallel=4))
    assert hybrid.policy.max_sequences_by_state is not None
    slots = hybrid.policy.max_sequences_by_state
    assert slots == int(hybrid.memory.kv_bytes / hybrid.memory.state_bytes_per_sequence)
    assert replica(deployment()).policy.max_sequences_by_state is None


def test_engines_that_take_prompts_whole_get_a_budget_that_holds_them() -> None:
    whole = engines.by_id("tensorrt-llm")
    chunked = engines.by_id("vllm")
    assert not whole.chunked_prefill
    assert token_budget(whole, 8192, 20_000.5) == 20_001
    assert token_budget(whole, 8192, 100) == 8192
    assert token_budget(chunked, 8192, 20_000) == 8192
    found = replica(deployment(engine="tensorrt-llm"), mean_input_tokens=20_000.0)
    assert found.policy.largest_request_tokens is not None
    assert found.policy.largest_request_tokens >= 20_100


def test_what_was_not_measured_is_named() -> None:
    assert replica(deployment()).transferred_operators == ()
    foreign = replica(deployment(gpu="gaudi3")).transferred_operators
    assert foreign == tuple(sorted(foreign))
    assert any(entry.startswith("matmul: ") for entry in foreign)


@pytest.mark.parametrize(
    ("gpu", "formats"),
    [
        ("a100-sxm-80gb", ({"kv_dtype": "fp8"}, {"kv_dtype": "bf16"})),
        ("gaudi3", ({"tensor_parallel": 2}, {})),
        ("mi300x", ({"tensor_parallel": 4}, {"kv_dtype": "fp8"})),
        ("l40s", ({"weight_dtype": "fp8", "kv_dtype": "fp8"}, {"weight_dtype": "fp8"})),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_a_library_that_others_used_names_nothing_of_theirs(
    gpu: str, formats: tuple[dict[str, object], ...], turn: int
) -> None:
    known = None
    for layout in (*formats[::turn], *formats[::turn]):
        chosen = deployment("qwen3-30b-a3b", gpu, **layout)
        lengths = {"mean_input_tokens": 500.0, "mean_output_tokens": 100.0}
        shared = model_replica(chosen, library=known, **lengths)  # type: ignore[arg-type]
        known = shared.library
        alone = replica(chosen)
        assert (shared.transferred_operators, shared.basis) == (alone.transferred_operators, alone.basis)


def test_the_way_to_the_client_is_part_of_the_policy() -> None:
    fast, slow = (
        model_replica(
            deployment(),
            mean_input_tokens=500,
            mean_output_tokens=100,
            costs=dataclasses.replace(COMMON, request_s=seconds),
        )
        for seconds in (0.0, 0.05)
    )
    assert slow.policy.api_overhead_ps - fast.policy.api_overhead_ps == 50_000_000_000


def test_a_prompt_waits_longer_for_the_tokenizer_the_longer_it_is() -> None:
    costs = dataclasses.replace(COMMON, prompt_token_s=4e-6)
    short, long = (
        model_replica(deployment(), mean_input_tokens=tokens, mean_output_tokens=100, costs=costs)
        for tokens in (1_000, 21_000)
    )
    assert long.policy.api_overhead_ps - short.policy.api_overhead_ps == 80_000_000_000


def test_a_release_that_pads_experts_decodes_few_sequences_as_slowly_as_many() -> None:
    layout = deployment(
        "qwen3-235b-a22b", "h200-sxm", tensor_parallel=4, weight_dtype="fp8", activation_dtype="fp8"
    )
    steps = {
        version: replica(layout, EngineSettings(version=version)).surface.decode_base_ps
        for version in ("0.12.0", "0.17.0")
    }
    assert steps["0.12.0"][16] < 1.05 * steps["0.12.0"][2]
    assert steps["0.17.0"][16] > 1.5 * steps["0.17.0"][2]
    assert steps["0.12.0"][2] > 2.0 * steps["0.17.0"][2]


def test_launches_of_a_prompt_stop_everybody_where_the_engine_launches_every_layer() -> None:
    """All tokens wait for a short prompt's launches; its own once more where they run beside the device."""
    hybrid = deployment("qwen3-next-80b-a3b", "b200-sxm", "sglang", tensor_parallel=2)
    compiled = deployment("qwen3-next-80b-a3b", "b200-sxm", "vllm", tensor_parallel=2)
    turns = replica(hybrid, EngineSettings(version="0.5.9"))
    overlapping = replica(hybrid, EngineSettings(version="0.5.9", prefix_caching=False))
    launches_s = prompt_launch_s(hybrid, turns.costs)
    assert launches_s == pytest.approx(48 * turns.costs.request_launch_s + 36 * turns.costs.state_launch_s)
    prompts_s = [prefill_iteration_s(found.surface, 500) for found in (turns, overlapping)]
    assert prompts_s == pytest.approx([prompts_s[0]] * 2, rel=0.01)
    assert prompts_s[0] > launches_s > 1.5 * prefill_iteration_s(replica(compiled).surface, 500)
    assert turns.policy.api_overhead_ps == round(turns.costs.request_s * 1e12)
    assert overlapping.policy.api_overhead_ps == round((turns.costs.request_s + launches_s) * 1e12)
    assert (turns.policy.overlap_scheduling, overlapping.policy.overlap_scheduling) == (False, True)
    # Without a prefix cache attention of decodes gets other kernels, too.
    assert turns.surface.decode_base_ps == pytest.approx(overlapping.surface.decode_base_ps, rel=0.02)
    # A prompt that keeps a slower device busy for longer hides them.
    slower = deployment(
        "qwen3-next-80b-a3b", "h200-sxm", "sglang", weight_dtype="fp8", activation_dtype="fp8"
    )
    hidden, without = (
        prefill_iteration_s(
            replica(slower, EngineSettings(version="0.5.9", prefix_caching=kept)).surface, 8192
        )
        for kept in (True, False)
    )
    assert hidden == pytest.approx(without, rel=1e-9)


def test_facts_that_a_record_lacks_are_assumed_and_widen_the_range() -> None:
    known = named_deployment("llama-3.1-8b", "h100-sxm")
    lacking = known.accelerator.model_copy(update={"clock_hz": None, "l2_bytes": None})
    full, less = (
        model_replica(
            dataclasses.replace(known, accelerator=record), mean_input_tokens=500, mean_output_tokens=100
        )
        for record in (known.accelerator, lacking)
    )
    assert device_of(known.accelerator).assumed == ()
    assert device_of(lacking).assumed == ("clock_hz", "l2_bytes")
    assert (full.basis, less.basis) == ("modelled", "assumed")
    assert full.doubts == ()
    assert less.doubts == (
        "h100-sxm is taken as a usual chip in what its record lacks: clock_hz, l2_bytes, ranges are wide",
    )
    sure, unsure = (predicted_rate(1.0, replica) for replica in (full, less))
    assert unsure.high / unsure.low > 1.5 * sure.high / sure.low


def test_kernels_that_ask_for_no_missing_fact_stay_modelled() -> None:
    chip = named_deployment("llama-3.1-8b", "m2-max", "llama.cpp", weight_dtype="q4_k_m")
    assert device_of(chip.accelerator).assumed
    assert model_replica(chip, mean_input_tokens=500, mean_output_tokens=100).basis == "modelled"
