"""Terms of early engines: each changes the part of the surface that its name says, and nothing else."""

from dataclasses import replace

import pytest

from advisor.simulator.deployment import named_deployment
from advisor.simulator.engine_costs import EraKernels, era_kernels, with_era_kernels
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s

LAYOUT = named_deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4)
SURFACE = model_replica(LAYOUT, mean_input_tokens=512, mean_output_tokens=128).surface


def era_seconds(**terms: float) -> tuple[float, float, float]:
    """Seconds added to a decode step of 32 short sequences, to one of long ones, and to a prompt."""
    surface = with_era_kernels(SURFACE, LAYOUT, EraKernels(**terms))
    return (
        decode_iteration_s(surface, 32, 1) - decode_iteration_s(SURFACE, 32, 1),
        decode_iteration_s(surface, 32, 4096) - decode_iteration_s(SURFACE, 32, 4096),
        prefill_iteration_s(surface, 512) - prefill_iteration_s(SURFACE, 512),
    )


def test_no_terms_change_nothing() -> None:
    assert era_seconds() == (0.0, 0.0, 0.0)


def test_host_terms_count_per_step_and_per_sequence() -> None:
    assert era_seconds(step_s=2e-3) == pytest.approx((2e-3, 2e-3, 2e-3))
    assert era_seconds(sequence_s=1e-4) == pytest.approx((3.2e-3, 3.2e-3, 0.0))


def test_rows_multiply_at_a_fraction_of_the_peak() -> None:
    row_s = 2 * parameter_count(LAYOUT.model).active / (0.05 * 989.4e12 * 4)
    short, long, prompt = era_seconds(row_fraction=0.05)
    assert (short, long) == pytest.approx((32 * row_s, 32 * row_s), rel=1e-6)
    assert prompt == 0.0


def test_rows_multiply_at_the_rate_of_their_format() -> None:
    eight = replace(LAYOUT, weight_dtype="fp8", activation_dtype="fp8")
    surface = with_era_kernels(SURFACE, eight, EraKernels(row_fraction=0.05))
    added_s = decode_iteration_s(surface, 32, 1) - decode_iteration_s(SURFACE, 32, 1)
    assert added_s == pytest.approx(era_seconds(row_fraction=0.05)[0] / 2.0, rel=1e-3)


def test_heads_of_a_group_read_their_cache_again() -> None:
    short, long, prompt = era_seconds(attention_repeat=1.0)
    attention_s = decode_iteration_s(SURFACE, 32, 4096) - decode_iteration_s(SURFACE, 32, 1)
    assert long - short == pytest.approx(7 * attention_s, rel=1e-3)  # 64 query heads, 8 key-value heads
    assert prompt == 0.0


def test_ranks_wait_once_per_sum_and_a_single_one_never() -> None:
    assert era_seconds(wait_s=1e-5) == pytest.approx((160 * 1e-5,) * 3)  # two sums in each of 80 layers
    alone = named_deployment("llama-3.1-8b", "h100-sxm")
    surface = model_replica(alone, mean_input_tokens=512, mean_output_tokens=128).surface
    waiting = with_era_kernels(surface, alone, EraKernels(wait_s=1e-5))
    assert decode_iteration_s(waiting, 32, 1) == decode_iteration_s(surface, 32, 1)


def test_prompts_scale_by_themselves() -> None:
    short, long, prompt = era_seconds(prefill_scale=1.5)
    assert short == long == 0.0
    assert prompt == pytest.approx(0.5 * prefill_iteration_s(SURFACE, 512), rel=0.05)


def test_a_release_without_terms_has_none_and_architectures_of_a_vendor_share_theirs() -> None:
    assert era_kernels("vllm", "hopper", version="0.20.0") is None
    hopper, ampere, ada = (era_kernels("vllm", name, version="0.2.0") for name in ("hopper", "ampere", "ada"))
    assert hopper == ada == ampere
    recent = era_kernels("vllm", "hopper", version="0.6.3", weight_dtype="fp8")
    untuned = era_kernels("vllm", "cdna3", version="0.6.3", weight_dtype="fp16")
    assert untuned != recent
    assert era_kernels("vllm", "cdna3", version="0.6.3", weight_dtype="fp8") == recent
    assert era_kernels("vllm", "cdna3", version="0.6.4", weight_dtype="fp16") == recent
    assert hopper is not None
    assert hopper.step_s == pytest.approx(15.5e-3)


@pytest.mark.parametrize("version", ["0.2.7", "0.6.3", "0.8.5", ""])
@pytest.mark.parametrize("chip", ["rtx-2080-ti", "t4", "v100-sxm2-32gb"])
def test_chips_without_bf16_run_every_release(chip: str, version: str) -> None:
    layout = named_deployment("tinyllama-1.1b", chip, "vllm")
    settings = EngineSettings(version=version)
    replica = model_replica(layout, mean_input_tokens=512, mean_output_tokens=128, settings=settings)
    assert decode_iteration_s(replica.surface, 8, 512) > 0.0
