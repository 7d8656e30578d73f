"""One long sequence of latent attention: over how many SMs an engine's release splits it."""

import pytest

from advisor.catalog import accelerators
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import decode_iteration_s

LONG = 131_072


def step_ms(chip: str, engine: str, version: str, context: float, sequences: int = 1) -> float:
    deployment = named_deployment("kimi-k2.5", chip, engine, tensor_parallel=8, kv_dtype="fp8")
    found = model_replica(
        deployment,
        mean_input_tokens=context,
        mean_output_tokens=256,
        settings=EngineSettings(version=version, max_num_seqs=16, max_num_batched_tokens=8192),
    )
    return 1e3 * decode_iteration_s(found.surface, sequences, context)


@pytest.mark.parametrize(
    ("engine", "old", "new"), [("vllm", "0.16.0", "0.17.0"), ("sglang", "0.5.9", "0.5.12")]
)
def test_a_release_that_splits_a_sequence_over_all_sms_reads_it_at_the_bandwidth(
    engine: str, old: str, new: str
) -> None:
    """17.6 ms were measured of Kimi-K2.5 under vLLM on eight RTX PRO 6000 at 131k tokens, 10.9 at 500."""
    chip = "rtx-pro-6000-server"
    before, after = (step_ms(chip, engine, version, LONG) for version in (old, new))
    assert before > 10.0 * after
    assert after == pytest.approx(17.6, rel=0.25)
    assert step_ms(chip, engine, new, 500) > 0.9 * step_ms(chip, engine, old, 500) - 3.0
    # Where many sequences fill the chip, it matters little how each is split.
    crowded = [step_ms(chip, engine, version, 4096, 16) for version in (old, new)]
    assert crowded[1] == pytest.approx(crowded[0], rel=0.5)


@pytest.mark.parametrize("chip", ["h200-sxm", "b200-sxm"])
def test_kernels_that_split_already_stay_as_they_were_measured(chip: str) -> None:
    assert step_ms(chip, "vllm", "0.16.0", LONG) == pytest.approx(
        step_ms(chip, "vllm", "0.17.0", LONG), rel=0.02
    )


@pytest.mark.parametrize("chip", ["rtx-pro-6000-server", "h200-sxm", "b200-sxm"])
def test_a_stream_reads_no_faster_than_its_memory(chip: str) -> None:
    bandwidth = accelerators.by_id(chip).bandwidth_bytes_per_s or 0.0
    short, long = (step_ms(chip, "vllm", "0.30.0", context) for context in (LONG / 2, LONG))
    read_ms = 1e3 * 61 * (LONG / 2) * 576 / bandwidth
    assert long - short > 0.9 * read_ms
