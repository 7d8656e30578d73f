"""Laws of numbers: no part of a step beats its roof, and better hardware is never slower."""

from dataclasses import replace

import pytest

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.schema import Accelerator
from advisor.simulator.deployment import Deployment, activation_dtype_for, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import decode_iteration_s, prefill_iteration_s
from advisor.simulator.step_roofline import roofline_passes

CHIPS = (
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "a100-sxm-80gb",
    "mi300x",
    "l40s",
    "rtx-4090",
    "rtx-pro-6000-server",
    "gaudi3",
    "tpu-v6e",
    "gb10",
)
MODELS = (
    "llama-3.1-8b",
    "deepseek-v3",
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "mixtral-8x7b",
    "qwen3-next-80b-a3b",
)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weights", ["bf16", "fp8", "int4"])
def test_no_operator_and_no_pass_beats_its_roof(chip: str, model: str, weights: str) -> None:
    for batch, context in ((1, 500), (8, 8192), (64, 500), (256, 2048)):
        for each in roofline_passes(named_deployment(model, chip, weight_dtype=weights), batch, context):
            assert each.floor_s <= 1.001 * each.predicted_s.value
            assert all(one.roof_fraction <= 1.001 for one in each.operators if one.work)


@pytest.mark.parametrize(
    "chip", ["m1", "m3-max-30-core", "m4", "rtx-3080", "rtx-4070", "l40", "strix-halo-8060s", "lpu-v1"]
)
@pytest.mark.parametrize("model", [*MODELS, "qwen2-7b", "qwen3-coder-next", "glm-4.5-air", "gemma-3-1b"])
def test_no_local_pass_beats_its_roof(chip: str, model: str) -> None:
    """Roof and prediction count the weights of the same files, in which head and attention are converted too."""
    formats = {"llama.cpp": ("q2_k", "q4_k_m", "q8_0", "mxfp4", "bf16")}
    if accelerators.by_id(chip).vendor == "apple":
        formats["mlx"] = ("int4", "int8", "bf16")
    for engine, names in formats.items():
        for weights in names:
            for each in roofline_passes(named_deployment(model, chip, engine, weight_dtype=weights), 1, 500):
                assert each.floor_s <= 1.001 * each.predicted_s.value
                assert all(one.roof_fraction <= 1.001 for one in each.operators if one.work)


def better(chip: Accelerator, *, bandwidth: float = 1.0, peak: float = 1.0, link: float = 1.0) -> Accelerator:
    """The chip with its memory bandwidth, its rates and those of its scale-up fabric multiplied by these factors."""
    rate = (chip.bandwidth_bytes_per_s or 0.0) * bandwidth
    peaks = {name: value * peak for name, value in chip.peak_flop_per_s.items()}
    changes: dict[str, object] = {"bandwidth_bytes_per_s": rate, "peak_flop_per_s": peaks}
    if chip.scale_up is not None:
        rate = chip.scale_up.bytes_per_s * link
        changes["scale_up"] = chip.scale_up.model_copy(update={"bytes_per_s": rate})
    return chip.model_copy(update=changes)


def times_s(model: str, chip: Accelerator, engine: str, weights: str) -> list[float]:
    named = named_deployment(model, chip.id, engine, weight_dtype=weights)
    deployment = Deployment(
        named.model,
        chip,
        named.engine,
        weight_dtype=weights,
        activation_dtype=activation_dtype_for(weights, chip),
    )
    settings = EngineSettings(max_num_seqs=64, max_num_batched_tokens=4096)
    surface = model_replica(
        deployment, mean_input_tokens=1024, mean_output_tokens=256, settings=settings
    ).surface
    decodes = [decode_iteration_s(surface, batch, 2048) for batch in (1, 8, 64)]
    return decodes + [prefill_iteration_s(surface, tokens) for tokens in (64, 1024, 4096)]


@pytest.mark.parametrize("change", [{"bandwidth": 1.25}, {"peak": 1.25}, {"bandwidth": 2.0, "peak": 2.0}])
@pytest.mark.parametrize(
    ("chip", "engine", "weights"),
    [
        ("h100-sxm", "vllm", "bf16"),
        ("h100-sxm", "sglang", "fp8"),
        ("a100-sxm-80gb", "vllm", "int4"),
        ("mi300x", "sglang", "fp8"),
        ("mi355x", "vllm", "int4"),
        ("h20", "sglang", "bf16"),
        ("rtx-pro-6000-server", "vllm", "fp8"),
        ("b200-sxm", "tensorrt-llm", "fp8"),
        ("rtx-4090", "llama.cpp", "q4_k_m"),
        ("m4-max-40-core", "mlx", "int4"),
        ("ascend-910b", "vllm", "bf16"),
    ],
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "minimax-m2"])
def test_more_bandwidth_and_more_flop_are_never_slower(
    model: str, chip: str, engine: str, weights: str, change: dict[str, float]
) -> None:
    record = accelerators.by_id(chip)
    try:
        before = times_s(model, record, engine, weights)
    except AdvisorError:
        pytest.skip("does not fit")
    after = times_s(model, better(record, **change), engine, weights)
    assert all(new <= 1.001 * old for new, old in zip(after, before, strict=True))
    assert sum(after) < sum(before)


@pytest.mark.parametrize("change", [{"bandwidth": 1.25}, {"peak": 1.25}, {"link": 1.5}])
@pytest.mark.parametrize(
    ("model", "chip", "engine", "layout"),
    [
        ("deepseek-v3", "h200-sxm", "sglang", {"data_parallel": 32, "expert_parallel": 32}),
        ("deepseek-v3", "h800-sxm", "vllm", {"data_parallel": 64, "expert_parallel": 64}),
        ("deepseek-v3", "gb200", "tensorrt-llm", {"data_parallel": 16, "expert_parallel": 16}),
        ("kimi-k2", "mi355x", "sglang", {"tensor_parallel": 8}),
        ("qwen3-235b-a22b", "h200-sxm", "vllm", {"data_parallel": 8, "expert_parallel": 8}),
        ("llama-3.1-70b", "a100-sxm-80gb", "sglang", {"tensor_parallel": 4, "pipeline_parallel": 2}),
        ("qwen3-next-80b-a3b", "mi355x", "vllm", {"tensor_parallel": 2, "expert_parallel": 2}),
    ],
)
def test_better_hardware_is_never_slower_under_any_layout(
    model: str, chip: str, engine: str, layout: dict[str, int], change: dict[str, float]
) -> None:
    deployment = named_deployment(model, chip, engine, **layout)
    settings = EngineSettings(max_num_seqs=2048, max_num_batched_tokens=16384)
    usual, improved = (
        model_replica(
            replace(deployment, accelerator=accelerator),
            mean_input_tokens=1024,
            mean_output_tokens=256,
            settings=settings,
        ).surface
        for accelerator in (deployment.accelerator, better(deployment.accelerator, **change))
    )
    for batch in (1, 64, 2048):
        assert decode_iteration_s(improved, batch, 2048) <= 1.001 * decode_iteration_s(usual, batch, 2048)
    for tokens in (64, 1024, 16384):
        assert prefill_iteration_s(improved, tokens) <= 1.001 * prefill_iteration_s(usual, tokens)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_a_board_without_codes_between_its_data_reads_more_of_its_bandwidth(engine: str) -> None:
    """An RTX 6000 Ada is an L40S whose error correction is off: the driver shows 48 of 48 GiB, not 45."""
    coded = accelerators.by_id("l40s")
    plain = accelerators.by_id("rtx-6000-ada")
    assert (coded.data_fraction, plain.data_fraction) == (15 / 16, 1.0)
    weights = "q4_k_m" if engine == "llama.cpp" else "bf16"
    steps_s = [
        decode_iteration_s(
            model_replica(
                replace(
                    named_deployment("llama-3.1-8b", "l40s", engine, weight_dtype=weights),
                    accelerator=coded.model_copy(update={"data_fraction": fraction}),
                ),
                mean_input_tokens=256,
                mean_output_tokens=128,
            ).surface,
            1,
            256,
        )
        for fraction in (15 / 16, 1.0)
    ]
    assert 0.93 < steps_s[1] / steps_s[0] < 0.97


def test_only_gddr_memory_holds_codes_between_its_data() -> None:
    coded = {each.id for each in accelerators.all_accelerators() if each.data_fraction < 1.0}
    assert coded == {"a10", "a10g", "a40", "l4", "l40", "l40s", "t4"}


def test_a_record_that_lacks_facts_takes_those_of_its_architecture() -> None:
    """An H20 has an H100's die, not a mid-size chip's clock; what is taken is still called assumed."""
    h20, h100 = (device_of(accelerators.by_id(name)) for name in ("h20", "h100-sxm"))
    assert (h20.clock_hz, h20.l2_bytes) == (h100.clock_hz, h100.l2_bytes)
    assert h20.assumed == ("clock_hz", "l2_bytes")
