"""llama.cpp-like engines: what a stored format, an accelerator in turn, a back end and a power limit change."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import accelerators, engines, models
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import decode_draw_fraction, device_of, power_limit, with_power_cap
from advisor.simulator.local_surface import (
    back_end,
    format_family,
    kernel_level,
    local_weights,
    micro_batch_tokens,
)
from advisor.simulator.operators.local import (
    LocalDecodeEfficiency,
    LocalPrefillEfficiency,
    attend_pair_s,
    half_peak_flop_per_s,
    host_sum_s,
    integer_peak_flop_per_s,
    piped_s,
    read_cache_s,
    stream_weights_s,
    weight_peak_flop_per_s,
)
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import StepSurface, decode_iteration_s, prefill_iteration_s
from advisor.simulator.step_roofline import roofline_passes

IDEAL = LocalDecodeEfficiency(
    memory_fraction=1.0, element_flop=0.0, layer_s=0.0, cache_fraction=1.0, cache_repeat=0.0, sync_s=0.0
)


def surface_of(
    model: str, accelerator: str, weights: str, tokens: int = 512, version: str = "", **layout: int
) -> StepSurface:
    deployment = named_deployment(model, accelerator, "llama.cpp", weight_dtype=weights, **layout)
    settings = EngineSettings(max_num_batched_tokens=tokens, version=version)
    return model_replica(
        deployment, mean_input_tokens=tokens, mean_output_tokens=128, settings=settings
    ).surface


def decode_rate(surface: StepSurface, context: float = 512) -> float:
    return 1.0 / decode_iteration_s(surface, 1, context)


@pytest.mark.parametrize(
    ("model", "accelerator", "weights", "version", "measured"),
    [
        # XiongjieDai/GPU-Benchmarks-on-LLM-Inference, text generation of 1 024 tokens
        ("llama-3.1-8b", "rtx-4090", "q4_k_m", "", 127.7),
        ("llama-3.1-8b", "rtx-4090", "fp16", "", 54.3),
        ("llama-3.1-70b", "rtx-a6000", "q4_k_m", "", 14.6),
        ("llama-3.1-8b", "m2-ultra", "q4_k_m", "", 76.3),
        ("llama-3.1-70b", "m3-max-40-core", "q4_k_m", "", 7.5),
        # kyuz0/amd-strix-halo-toolboxes, tg128
        ("gpt-oss-120b", "strix-halo-8060s", "mxfp4", "b9187 vulkan_radv", 56.6),
        ("qwen3.5-122b-a10b", "strix-halo-8060s", "q5_k_xl", "b9193 rocm-7_2_3", 20.1),
    ],
)
def test_published_decode_rates(
    model: str, accelerator: str, weights: str, version: str, measured: float
) -> None:
    context = 64 if accelerator.startswith("strix") else 512
    found = decode_rate(surface_of(model, accelerator, weights, version=version), context)
    assert found == pytest.approx(measured, rel=0.15)


def test_reading_at_full_bandwidth_is_bytes_over_bandwidth_and_unpacking_may_take_longer() -> None:
    device = device_of(accelerators.by_id("m1-max"))
    read_s = 40e9 / device.bandwidth_bytes_per_s
    assert stream_weights_s(40e9, 70e9, device, IDEAL) == pytest.approx(read_s)
    slow = stream_weights_s(40e9, 70e9, device, replace(IDEAL, element_flop=30.0))
    assert slow == pytest.approx(70e9 * 30.0 / device.peak_flop_per_s["fp32"], rel=0.1)
    assert slow > 1.9 * read_s


def test_heads_that_share_a_cache_read_it_again_without_fused_attention() -> None:
    device = device_of(accelerators.by_id("rtx-3090"))
    once = read_cache_s(1e9, 8, device, IDEAL)
    assert read_cache_s(1e9, 8, device, replace(IDEAL, cache_repeat=1.0)) == pytest.approx(8 * once)


def test_accelerators_in_turn_decode_no_faster_but_hand_parts_of_a_prompt_on() -> None:
    one, four = (
        {
            tokens: surface_of("llama-3.1-8b", "rtx-4090", "q4_k_m", tokens, pipeline_parallel=n)
            for tokens in (512, 4096)
        }
        for n in (1, 4)
    )
    assert 0.8 * decode_rate(one[512]) < decode_rate(four[512]) < decode_rate(one[512])
    speed_up = prefill_iteration_s(one[4096], 4096) / prefill_iteration_s(four[4096], 4096)
    assert 2.0 < speed_up < 3.0  # eight micro-batches through four stages: at most 8 · 4 / (8 + 3)
    # One micro-batch has nobody to follow.
    assert prefill_iteration_s(four[512], 512) > prefill_iteration_s(one[512], 512)


@pytest.mark.parametrize(
    ("accelerators_in_turn", "micro_batches", "times"), [(1, 8, 8), (2, 8, 4.5), (8, 9, 3)]
)
def test_at_most_four_micro_batches_are_under_way(
    accelerators_in_turn: int, micro_batches: int, times: float
) -> None:
    assert piped_s(1.0, micro_batches, accelerators_in_turn) == pytest.approx(times)


def test_only_chosen_experts_are_read_and_more_tokens_choose_more() -> None:
    weights = local_weights(models.by_id("gpt-oss-120b"), "mxfp4")
    one, many = (float(weights.read(tokens)[0]) for tokens in (1.0, 1000.0))
    assert 3e9 < one < 4.5e9
    assert 58e9 < many < 66e9  # the published file has 63 GB


def test_formats_back_ends_and_micro_batches_go_by_their_names() -> None:
    assert [format_family(name) for name in ("fp16", "q8_k_xl", "q4_0", "mxfp4")] == [
        "bf16",
        "q8_0",
        "q4_k_m",
        "mxfp4",
    ]
    assert back_end("b9187 rocm-7_2_3", "amd") == "rocm"
    assert back_end("b9187 vulkan_amdvlk", "amd") == "vulkan-amdvlk"
    assert back_end("b6918", "nvidia") == "cuda"
    assert back_end("", "apple") == "metal"
    llama = engines.by_id("llama.cpp")
    exllama = engines.by_id("exllamav3")
    assert [micro_batch_tokens(llama, name, 32768) for name in ("rocm", "vulkan")] == [2048, 512]
    assert micro_batch_tokens(exllama, "cuda") == exllama.max_num_batched_tokens == 2048
    assert format_family("exl3-5.0bpw") == "exl3"


def test_kernels_go_by_back_end_or_by_era() -> None:
    llama = engines.by_id("llama.cpp")
    exllama = engines.by_id("exllamav3")
    radeon, card, old = (accelerators.by_id(name) for name in ("rx-7900-xtx", "rtx-3090", "p40"))
    assert kernel_level(llama, radeon, version="b9187 vulkan_radv") == "llama.cpp-vulkan"
    assert kernel_level(exllama, card, version="0.0.43+cu128.torch2.8.0") == "exllamav3-v0"
    assert kernel_level(exllama, card, date="2026-08-01") == kernel_level(exllama, card)
    assert kernel_level(exllama, card) == "exllamav3-v1"
    assert kernel_level(llama, card) == "llama.cpp-cuda-fused"
    assert kernel_level(llama, card, date="2025-06-01") == "llama.cpp-cuda-graphs"
    assert kernel_level(llama, card, date="2024-05-01") == kernel_level(llama, old) == "llama.cpp-cuda"


@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-4090", "a100-sxm-80gb", "l40s", "rtx-5090"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "gemma-4-26b-a4b"])
def test_graphs_are_never_slower_than_single_launches(gpu: str, model: str) -> None:
    def rate(date: str) -> float:
        settings = EngineSettings(date=date, max_num_seqs=1)
        deployment = named_deployment(model, gpu, "llama.cpp", weight_dtype="q4_k_m")
        found = model_replica(deployment, mean_input_tokens=512, mean_output_tokens=64, settings=settings)
        return decode_rate(found.surface, 512)

    assert rate("2024-05-01") <= rate("2026-05-01") <= 2.0 * rate("2024-05-01")


def prompt_s(
    model: str, gpu: str, tokens: int, date: str = "", weights: str = "q4_k_m", micro_batch: int | None = None
) -> float:
    settings = EngineSettings(
        date=date, max_num_seqs=1, max_num_batched_tokens=tokens, micro_batch_tokens=micro_batch
    )
    deployment = named_deployment(model, gpu, "llama.cpp", weight_dtype=weights)
    found = model_replica(deployment, mean_input_tokens=tokens, mean_output_tokens=64, settings=settings)
    return prefill_iteration_s(found.surface, tokens)


@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-4090", "a100-sxm-80gb", "l40s", "rtx-5090"])
@pytest.mark.parametrize("tokens", [64, 512, 8192])
def test_a_later_release_answers_no_prompt_later(gpu: str, tokens: int) -> None:
    dates = ("2024-05-01", "2025-06-01", "2026-05-01")
    sold = dates[1:] if gpu == "rtx-5090" else dates
    dense = [prompt_s("llama-3.1-8b", gpu, tokens, date) for date in sold]
    # Runs of routed experts were published of captured releases alone.
    routed = [prompt_s("qwen3-30b-a3b", gpu, tokens, date) for date in dates[1:]]
    assert dense == sorted(dense, reverse=True)
    assert routed == sorted(routed, reverse=True)


@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-4090", "a100-sxm-80gb", "h100-sxm", "rtx-5090", "gb10"])
@pytest.mark.parametrize(
    ("model", "formats"),
    [("llama-3.1-8b", ("q4_0", "q8_0", "bf16")), ("deepseek-v2-lite", ("q4_0", "q8_0"))],
)
def test_a_format_with_more_bits_decodes_no_faster_and_none_beats_the_memory(
    gpu: str, model: str, formats: tuple[str, ...]
) -> None:
    bandwidth = accelerators.by_id(gpu).bandwidth_bytes_per_s or 0.0
    times = [1.0 / decode_rate(surface_of(model, gpu, weights)) for weights in formats]
    assert times == sorted(times)
    for weights, seconds in zip(formats, times, strict=True):
        num_bytes, _ = local_weights(models.by_id(model), weights).read(np.array([1.0]))
        assert seconds > num_bytes[0] / bandwidth


@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-4090", "a100-sxm-80gb", "h100-sxm", "rtx-5090"])
def test_an_8_bit_file_is_unpacked_like_a_4_bit_one_under_cuda(gpu: str) -> None:
    eight, four = (decode_rate(surface_of("llama-3.1-8b", gpu, weights)) for weights in ("q8_0", "q4_0"))
    assert eight > 0.5 * four


def test_tiles_of_experts_are_never_less_work_than_their_rows_and_grow_with_tokens() -> None:
    tokens = np.arange(0.0, 4097.0)
    for model in ("qwen3-30b-a3b", "gpt-oss-20b", "qwen3.6-35b-a3b"):
        weights = local_weights(models.by_id(model), "q4_k_m")
        rows, no_empty = weights.expert_flop(tokens)
        same_rows, empty = weights.expert_flop(tokens, 128.0)
        assert (rows == same_rows).all()
        assert (empty >= no_empty).all()
        assert (np.diff(rows + empty) >= 0.0).all()
        assert rows[0] == empty[0] == no_empty[0] == 0.0
    tiles = (rows[512] + empty[512]) / rows[512]
    assert tiles == pytest.approx(8.0, rel=0.01)  # 16 rows of 128, 8 of 256 experts a token


def test_sums_in_32_bits_halve_the_rate_of_geforce_boards_alone() -> None:
    narrow = LocalPrefillEfficiency(0.3, 0.3, 0.5, 512.0)
    wide = replace(narrow, wide_sum_fraction=1.0)
    for gpu, slower in (("rtx-4090", 2.0), ("a100-sxm-80gb", 1.0)):
        device = device_of(accelerators.by_id(gpu))
        times = [attend_pair_s(1e9, 0.0, 128.0, device, each) for each in (narrow, wide)]
        assert times[1] / times[0] == pytest.approx(slower, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "model", "weights", "tokens", "date", "measured"),
    [
        # ggml-org/llama.cpp pull requests 15525 and 27341: none was seen when the tiles were chosen
        ("rtx-3090", "deepseek-v2-lite", "q4_0", 512, "2025-08-23", 4261.0),
        ("rtx-5090", "llama-3.1-8b", "q4_k_m", 8192, "2026-08-18", 10307.7),
        ("rtx-5090", "gemma-4-12b", "q4_k_m", 8192, "2026-08-18", 6661.7),
    ],
)
def test_published_prompts(
    gpu: str, model: str, weights: str, tokens: int, date: str, measured: float
) -> None:
    assert tokens / prompt_s(model, gpu, tokens, date, weights) == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(
    ("gpu", "model", "weights", "micro_batch", "tokens", "date", "measured"),
    [
        # ggml-org/llama.cpp, benches/dgx-spark.md and pull request 17906
        ("gb10", "gpt-oss-120b", "mxfp4", 2048, 2048, "2025-11-02", 1937.5),
        ("gb10", "gpt-oss-120b", "mxfp4", 512, 2048, "2025-12-18", 1397.1),
        ("gb10", "gpt-oss-20b", "mxfp4", 2048, 2048, "2025-11-02", 3782.8),
        ("gb10", "qwen3-coder-30b-a3b", "q8_0", 2048, 2048, "2025-11-02", 3175.6),
        ("gb10", "qwen2.5-7b", "q8_0", 512, 512, "2025-11-02", 2379.8),
        # pull request 20586
        ("rtx-3090", "gpt-oss-20b", "mxfp4", 512, 512, "2026-03-15", 4739.2),
        # pull request 22298: micro-batches of 128 and 2,048 tokens differ by three times
        ("rtx-4090", "qwen3.6-35b-a3b", "q4_0", 128, 2048, "2026-05-01", 3694.6),
        ("rtx-4090", "qwen3.6-35b-a3b", "q4_0", 2048, 2048, "2026-05-01", 10026.0),
        ("rtx-3090", "gemma-4-26b-a4b", "q4_k_m", 128, 2048, "2026-05-01", 1785.2),
        ("rtx-3090", "gemma-4-26b-a4b", "q4_k_m", 2048, 2048, "2026-05-01", 5212.4),
        # lhl/strix-halo-testing issue 33
        ("strix-halo-8060s", "gpt-oss-120b", "mxfp4", 2048, 2048, "2025-10-18", 998.2),
        # pull request 13388 and issue 21494
        ("m2-ultra", "qwen3-30b-a3b", "q4_0", 512, 512, "2025-05-08", 1359.5),
        ("m2-ultra", "mixtral-8x7b", "q4_0", 512, 512, "2025-05-08", 651.4),
        ("m3-ultra", "qwen3-30b-a3b", "q8_0", 512, 512, "2026-04-01", 1807.0),
    ],
)
def test_published_prompts_by_micro_batch(
    gpu: str, model: str, weights: str, micro_batch: int, tokens: int, date: str, measured: float
) -> None:
    rate = tokens / prompt_s(model, gpu, tokens, date, weights, micro_batch)
    assert measured / 1.5 < rate < 1.5 * measured


@pytest.mark.parametrize("gpu", ["gb10", "rtx-4090", "a100-sxm-80gb", "m2-ultra", "strix-halo-8060s"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_a_wider_micro_batch_never_slows_a_prompt_and_none_beats_the_units(gpu: str, model: str) -> None:
    times = [prompt_s(model, gpu, 4096, micro_batch=size) for size in (64, 128, 256, 512, 1024, 2048)]
    assert times == sorted(times, reverse=True)
    weights = local_weights(models.by_id(model), "q4_k_m")
    active = weights.read(np.array([1.0]))[1][0]
    device = device_of(accelerators.by_id(gpu))
    assert times[-1] > 0.8 * 2.0 * 4096 * active / integer_peak_flop_per_s(device)


def test_fewer_bits_and_a_newer_era_decode_exl3_faster() -> None:
    def rate(weights: str, version: str, tensor_parallel: int = 1) -> float:
        deployment = named_deployment(
            "qwen3.6-27b", "rtx-3090", "exllamav3", weight_dtype=weights, tensor_parallel=tensor_parallel
        )
        settings = EngineSettings(version=version, max_num_seqs=1)
        found = model_replica(deployment, mean_input_tokens=2048, mean_output_tokens=256, settings=settings)
        return decode_rate(found.surface, 2048)

    assert 1.2 < rate("exl3-4.0bpw", "1.0.0") / rate("exl3-6.0bpw", "1.0.0") < 1.6
    # Previews waited longer for sums, which only several cards form.
    assert rate("exl3-4.0bpw", "1.0.0", 4) / rate("exl3-4.0bpw", "0.0.43", 4) > 1.5
    assert rate("exl3-4.0bpw", "1.0.0") / rate("exl3-4.0bpw", "0.0.43") < 1.4


def test_sums_of_one_host_process_grow_with_ranks_so_that_cards_hardly_speed_up_a_prompt() -> None:
    assert host_sum_s(1e9, 4, 5e9) == pytest.approx(0.8)
    assert host_sum_s(1e9, 8, 5e9) == pytest.approx(2 * host_sum_s(1e9, 4, 5e9))

    def prompt_s(tensor_parallel: int) -> float:
        deployment = named_deployment(
            "qwen3.6-27b",
            "rtx-3090",
            "exllamav3",
            weight_dtype="exl3-4.0bpw",
            tensor_parallel=tensor_parallel,
        )
        found = model_replica(deployment, mean_input_tokens=2048, mean_output_tokens=256)
        return prefill_iteration_s(found.surface, 2048)

    assert 0.9 < prompt_s(1) / prompt_s(4) < 1.5


@pytest.mark.parametrize(("num_ranks", "bytes_per_s"), [(0, 1e9), (4, 0.0), (4, -1.0), (4, float("nan"))])
def test_sums_without_ranks_or_rate_are_refused(num_ranks: int, bytes_per_s: float) -> None:
    with pytest.raises(ValueError, match="num_ranks must be at least 1"):
        host_sum_s(1e9, num_ranks, bytes_per_s)


def test_workstation_boards_have_no_second_rate_for_16_bit_sums() -> None:
    geforce, workstation, apple = (
        device_of(accelerators.by_id(name)) for name in ("rtx-3090", "a40", "m2-ultra")
    )
    assert half_peak_flop_per_s(geforce) == pytest.approx(2 * geforce.peak_flop_per_s["bf16"], rel=0.01)
    assert half_peak_flop_per_s(workstation) == pytest.approx(workstation.peak_flop_per_s["bf16"], rel=0.01)
    assert half_peak_flop_per_s(apple) == apple.peak_flop_per_s["bf16"]


def test_a_power_limit_slows_computing_by_its_cube_root_and_reading_by_what_decoding_draws() -> None:
    card = accelerators.by_id("rtx-3090")
    capped = with_power_cap(card, card.tdp_w / 2.0 if card.tdp_w else None)
    assert capped.peak_flop_per_s["bf16"] == pytest.approx(card.peak_flop_per_s["bf16"] / 2 ** (1 / 3))
    read = (capped.bandwidth_bytes_per_s or 0.0) / (card.bandwidth_bytes_per_s or 0.0)
    assert read == pytest.approx((0.5 / decode_draw_fraction(card)) ** (1 / 3))
    assert with_power_cap(card, 10_000.0).peak_flop_per_s == card.peak_flop_per_s
    assert with_power_cap(card, None) is card


@pytest.mark.parametrize(
    "gpu", ["rtx-3090", "rtx-4090", "rtx-5090", "a100-sxm-80gb", "h100-sxm", "gb10", "mi300x"]
)
def test_a_lower_power_limit_is_never_faster_and_reading_never_loses_more_than_computing(gpu: str) -> None:
    card = accelerators.by_id(gpu)
    rated = card.tdp_w or 0.0
    held = [with_power_cap(card, share * rated) for share in (0.4, 0.6, 0.8, 0.85, 0.9, 1.0)]
    reading = [each.bandwidth_bytes_per_s or 0.0 for each in held]
    computing = [each.peak_flop_per_s["bf16"] for each in held]
    assert reading == sorted(reading)
    assert computing == sorted(computing)
    for read, compute in zip(reading, computing, strict=True):
        assert read / reading[-1] >= compute / computing[-1]


@pytest.mark.parametrize(
    ("gpu", "limit_w", "kept"),
    [
        # jeanfbrito.github.io, rtx-3090-power-limit-sweet-spot; a guide by Thorsten Meyer; inventivehq.com,
        # gpu-power-limit-tokens-per-watt: decoding under llama.cpp, over that without a limit
        ("rtx-3090", 280.0, 0.99),
        ("rtx-4090", 300.0, 0.934),
        ("rtx-4090", 260.0, 0.915),
        ("rtx-5060-ti-16gb", 150.0, 0.99),
    ],
)
def test_published_decoding_under_a_power_limit(gpu: str, limit_w: float, kept: float) -> None:
    full = named_deployment("llama-3.1-8b", gpu, "llama.cpp", weight_dtype="q4_k_m")
    held = replace(full, accelerator=with_power_cap(full.accelerator, limit_w))
    rates = [
        decode_rate(model_replica(each, mean_input_tokens=512, mean_output_tokens=128).surface)
        for each in (full, held)
    ]
    assert rates[1] / rates[0] == pytest.approx(kept, abs=0.025)


def test_a_capped_board_keeps_less_without_a_pause_too() -> None:
    board = accelerators.by_id("h100-sxm")
    usual = power_limit(board)
    capped = power_limit(with_power_cap(board, 350.0))
    assert usual is not None
    assert capped is not None
    assert capped.flop_per_s == pytest.approx(
        {name: 0.5 ** (1 / 3) * rate for name, rate in usual.flop_per_s.items()}
    )
    assert power_limit(with_power_cap(accelerators.by_id("b200-sxm"), 500.0)) is None


@pytest.mark.parametrize("engine", ["llama.cpp", "mlx"])
def test_categories_of_a_pass_add_up_to_the_surface(engine: str) -> None:
    weights = "q4_k_m" if engine == "llama.cpp" else "int4"
    deployment = named_deployment("llama-3.1-8b", "m4-max-40-core", engine, weight_dtype=weights)
    decode, prompt = roofline_passes(deployment, 1, 512)
    settings = EngineSettings(max_num_batched_tokens=512)
    surface = model_replica(
        deployment, mean_input_tokens=512, mean_output_tokens=16, settings=settings
    ).surface
    assert decode.predicted_s.value == pytest.approx(decode_iteration_s(surface, 1, 512), rel=0.01)
    assert prompt.predicted_s.value == pytest.approx(prefill_iteration_s(surface, 512), rel=0.02)
    assert decode.floor_s < decode.predicted_s.value


def test_small_operators_take_as_long_as_their_kernels_and_the_clock_say() -> None:
    timed = replace(IDEAL, layer_s=5e-5, layer_kernels=19.0, core_flop_per_s=4.5e11)
    base = device_of(accelerators.by_id("m4-max-40-core"))
    slower = device_of(accelerators.by_id("m2-max"))
    same = timed.layer_ratio(19, base)
    assert timed.layer_ratio(38, base) == pytest.approx(2 * same)
    assert timed.layer_ratio(None, base) == pytest.approx(same)
    assert timed.layer_ratio(19, slower) > 1.2 * same
    unknown = replace(base, peak_flop_per_s={"bf16": base.peak_flop_per_s["bf16"]})
    assert timed.layer_ratio(19, unknown) == 1.0
    assert IDEAL.layer_ratio(38, slower) == 1.0


def test_only_chips_without_bfloat16_pay_for_emulating_it() -> None:
    found = LocalPrefillEfficiency(0.8, 0.5, 0.4, 32.0, emulated_fraction=0.75)
    emulating, native = (device_of(accelerators.by_id(chip)) for chip in ("m2-max", "m3-max-40-core"))
    assert found.on(native) == found
    assert found.on(emulating).compute_fraction == pytest.approx(0.6)
    assert found.on(emulating).attention_rows == found.attention_rows
    other_engine = replace(found, emulated_fraction=1.0)
    assert other_engine.on(emulating) == other_engine


@pytest.mark.parametrize("gpu", ["p40", "gtx-1080-ti", "gtx-1660"])
def test_prompts_of_quantised_weights_run_at_the_rate_of_integer_dot_products(gpu: str) -> None:
    """Boards of compute capability 6.1 and 7.5 without matrix units multiply integers four times as fast as fp32."""
    device = device_of(accelerators.by_id(gpu))
    rate = weight_peak_flop_per_s(device, is_quantised=True)
    assert rate == pytest.approx(4 * device.peak_flop_per_s["fp32"], rel=0.02)
    assert weight_peak_flop_per_s(device, is_quantised=False) == half_peak_flop_per_s(device)


@pytest.mark.parametrize("gpu", ["p100-pcie-16gb", "m40-24gb", "rtx-3090", "m2-ultra"])
def test_boards_without_integer_dot_products_or_with_matrix_units_have_one_rate(gpu: str) -> None:
    device = device_of(accelerators.by_id(gpu))
    assert weight_peak_flop_per_s(device, is_quantised=True) == half_peak_flop_per_s(device)
