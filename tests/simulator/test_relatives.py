"""Records that stand in where nothing was measured: a chip of the same family before another vendor's."""

import pytest

from advisor.catalog.efficiencies import efficiency
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_s


@pytest.mark.parametrize(
    ("chip", "family"),
    [
        ("apple-m4", "apple"),
        ("apple-m5", "apple"),
        ("rdna4", "rdna"),
        ("rdna3", "rdna"),
    ],
)
@pytest.mark.parametrize("operator", ["local_decode", "local_prefill"])
@pytest.mark.parametrize("dtype", ["q4_k_m", "q8_0", "bf16", "mxfp4"])
def test_a_chip_borrows_from_its_family_first(chip: str, family: str, operator: str, dtype: str) -> None:
    assert efficiency(chip, operator, dtype).record.architecture.startswith(family)


@pytest.mark.parametrize("operator", ["local_decode", "local_prefill"])
@pytest.mark.parametrize("chip", ["pascal", "volta", "ampere", "ampere-geforce", "ada", "hopper"])
@pytest.mark.parametrize("dtype", ["q8_0", "mxfp4", "q4_k_m"])
def test_block_formats_borrow_from_one_another_before_16_bits_where_one_kernel_runs_them(
    operator: str, chip: str, dtype: str
) -> None:
    lent = efficiency(chip, operator, dtype).record
    assert lent.dtype in ("q4_k_m", "q8_0", "mxfp4")
    assert lent.architecture == efficiency(chip, operator, "bf16").record.architecture


def test_metal_widens_8_bits_like_16() -> None:
    assert efficiency("apple-m3", "local_decode", "q8_0").record.dtype == "bf16"
    assert efficiency("apple-m3", "local_decode", "mxfp4").record.dtype == "q4_k_m"


def rates(model: str, weights: str, chip: str, engine: str, context: int) -> tuple[float, float]:
    """Tokens per second of a prompt of so many tokens, and of one stream behind it."""
    replica = model_replica(
        named_deployment(model, chip, engine, weight_dtype=weights),
        mean_input_tokens=context,
        mean_output_tokens=128,
        settings=EngineSettings(max_num_batched_tokens=2048),
    )
    prompt_s = prefill_s(replica.surface, context, 2048)
    return context / prompt_s, 1.0 / decode_iteration_s(replica.surface, 1, context)


@pytest.mark.parametrize(
    ("model", "weights", "prompt", "decode"),
    [
        ("qwen3-8b", "int4", 557, 51.9),
        ("glm-4.7-flash", "int4", 515, 46.6),
        ("gpt-oss-120b", "mxfp4", 702, 58.3),
    ],
)
def test_mlx_answers_as_an_m4_max_was_measured(
    model: str, weights: str, prompt: float, decode: float
) -> None:
    """mlx-lm behind 21 000 tokens; itsmostafa/inference-speed-tests."""
    assert rates(model, weights, "m4-max-40-core", "mlx", 21_000) == pytest.approx((prompt, decode), rel=0.15)


@pytest.mark.parametrize("chip", ["m1-max", "m3-ultra", "m4-max-40-core", "m5-max-40-core"])
def test_mlx_never_reads_weights_faster_than_memory(chip: str) -> None:
    from advisor.catalog import accelerators

    decoded = rates("qwen3-8b", "int4", chip, "mlx", 512)[1]
    assert decoded * 7.5e9 * 4.0 / 8.0 < (accelerators.by_id(chip).bandwidth_bytes_per_s or 0.0)


@pytest.mark.parametrize(
    ("model", "weights", "chip", "decode"),
    [
        # raullenchai/Rapid-MLX, community-benchmarks: 512 tokens in, 128 out; none was in sight of the M4's records
        ("gpt-oss-20b", "mxfp4", "m2-max", 86.0),
        ("qwen3.5-9b", "int4", "m2-max", 63.5),
        ("qwen3.6-35b-a3b", "int4", "m2-max", 84.2),
        ("llama-3.1-8b", "int4", "m3-ultra", 119.4),
        ("qwen3-0.6b", "int4", "m3-ultra", 387.6),
        ("qwen2.5-14b", "int4", "m3-ultra", 66.4),
        ("gemma-3-1b", "int4", "m3-ultra", 261.0),
        ("gemma-3-27b", "int4", "m3-ultra", 35.2),
    ],
)
def test_mlx_starts_its_kernels_at_the_clock_of_the_chip(
    model: str, weights: str, chip: str, decode: float
) -> None:
    """Small models and many norms decode far slower than memory allows; by the M4's time per layer these eight are up
    to 81 % too fast."""
    assert rates(model, weights, chip, "mlx", 512)[1] == pytest.approx(decode, rel=0.14)
