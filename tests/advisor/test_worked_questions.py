"""Worked questions of courses: each number comes out of a command."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
TRAIN = "simulate train --framework fsdp --micro-batch 1 --global-batch 8 --sequence 512 --recompute full"
PIPELINE = (
    "simulate train --model gpt-3-175b --gpu a100-sxm-80gb --tp 8 --pp 8 --gpus 64 "
    "--global-batch 32 --micro-batch 1"
)
SEVENTY = "memory --model llama-3.1-70b --tp 4 --precision bf16 --context 8192"
MIXTRAL = "memory --model mixtral-8x7b --gpu h100-sxm --dp 8 --ep 8 --precision bf16 --context 4096"
LLAVA = (
    "simulate vision --model llama-2-7b --image-scheme llava-1.5 --image-size 336x336 --gpu a100-sxm-80gb "
    "--concurrency 16 --output-tokens 64 --requests 32"
)


def value_of(document: dict[str, Any], path: str) -> float:
    found: Any = document
    for name in path.split("."):
        found = found[int(name)] if name.isdigit() else found[name]
    return float(found["value"] if isinstance(found, dict) else found)


@pytest.mark.parametrize(
    ("command", "path", "expected", "tolerance"),
    [
        (
            "memory --model llama-2-7b --gpu a100-sxm-80gb --context 2048",
            "model.num_parameters",
            6.738e9,
            1e-3,
        ),
        (
            f"{TRAIN} --model llama-2-7b --gpu h200-sxm --gpus 1",
            "first_principles.bytes_per_parameter",
            16,
            1e-4,
        ),
        (f"{TRAIN} --model llama-2-7b --gpu h200-sxm --gpus 1", "first_principles.states_bytes", 108e9, 0.01),
        (
            f"{TRAIN} --model llama-2-13b --gpu a100-sxm-80gb --gpus 8",
            "first_principles.share_bytes",
            26e9,
            0.01,
        ),
        (
            f"{TRAIN} --model llama-2-13b --gpu a100-sxm-80gb --gpus 8",
            "first_principles.exchange_factor",
            1.5,
            0,
        ),
        (MIXTRAL, "model.num_parameters", 46.7e9, 0.002),
        (MIXTRAL, "model.num_active_parameters", 12.9e9, 0.003),
        (MIXTRAL, "per_accelerator.weight_bytes", 14.5e9, 0.01),
        (MIXTRAL, "expert_exchange_bytes_per_token_and_layer", 32 * 1024, 0),
        (LLAVA, "vision.prompt_tokens", 640, 0),
        (LLAVA, "vision.kv_bytes_per_request", 5.37e9 / 16, 0.002),
        (LLAVA, "vision.text_bytes_per_request", 0.537e9 / 16, 0.002),
        (f"{SEVENTY} --gpu h100-sxm --link 50GB/s,nvlink", "cache_links.0.transfer_s", 54e-3, 0.01),
        (f"{SEVENTY} --gpu h100-sxm --link 50GB/s,nvlink", "cache_links.1.transfer_s", 6e-3, 0.01),
        (f"{SEVENTY} --gpu a100-sxm-80gb --link pcie", "cache_links.0.transfer_s", 103e-3, 0.01),
        (f"{SEVENTY} --gpu h100-sxm --link 400Gb/s", "cache_links.0.transfer_s", 54e-3, 0.01),
        (PIPELINE, "first_principles.even_bubbles.1f1b", 0.179, 0.003),
        (
            f"{PIPELINE} --vpp 4 --schedule interleaved",
            "first_principles.even_bubbles.interleaved",
            0.052,
            0.003,
        ),
    ],
)
def test_a_command_prints_the_number_of_the_question(
    cli: Cli, command: str, path: str, expected: float, tolerance: float
) -> None:
    run = cli(f"advisor {command} --json")
    assert run.code == 0, run.err
    assert value_of(json.loads(run.out), path) == pytest.approx(expected, rel=tolerance)


def test_blocks_waste_half_of_the_last_one(cli: Cli) -> None:
    for block in (16, 128):
        run = cli(f"advisor {SEVENTY} --gpu h100-sxm --block-size {block} --json")
        pool = json.loads(run.out)["block_pool"]
        assert pool["blocks_per_sequence"] == 8192 // block
        assert pool["unused_fraction"] == pytest.approx((block - 1) / 2 / 8192)


@pytest.mark.parametrize(("link", "told"), [("fast", "not a link"), ("nvlink", "none that is recorded")])
def test_a_link_that_is_none_is_refused(cli: Cli, link: str, told: str) -> None:
    run = cli(f"advisor memory --model llama-3.1-8b --gpu rtx-4090 --link {link}")
    assert run.code == 2
    assert told in run.err


def test_adapters_exchange_no_gradients_of_the_whole_model(cli: Cli) -> None:
    run = cli(f"advisor {TRAIN} --model llama-2-7b --gpu h100-sxm --gpus 8 --method lora --json")
    assert json.loads(run.out)["first_principles"]["exchanged_bytes"] == 0.0


def test_a_cache_in_a_tier_is_worth_as_much_as_it_is_found(cli: Cli) -> None:
    def means(hit_rate: str) -> list[float]:
        base = "advisor simulate long-context --model llama-3.1-8b --gpu h100-sxm --context 32768 --json"
        return [tier["mean_s"] for tier in json.loads(cli(f"{base} --hit-rate {hit_rate}").out)["tiers"]]

    never, half, always = (means(rate) for rate in ("0", "0.5", "1"))
    for none, some, every in zip(never, half, always, strict=True):
        assert some == pytest.approx((none + every) / 2)
        assert every <= none


def test_swapping_moves_the_cache_twice(cli: Cli) -> None:
    run = cli("advisor simulate long-context --model llama-3.1-8b --gpu h100-sxm --context 8192 --json")
    found = json.loads(run.out)
    assert found["preemption"]["swap_s"] == pytest.approx(2 * found["tiers"][0]["fetch_s"]["value"])
    # 8,192 tokens of 131 kB are 1.07 GB; PCIe 5 x16 moves 52 GB/s.
    assert found["preemption"]["swap_s"] == pytest.approx(2 * 1.074e9 / 52.3e9, rel=0.02)


@pytest.mark.parametrize(
    ("options", "told"),
    [("--keep 2", "cannot be kept"), ("--keep many", "not a fraction"), ("--window x", "--window")],
)
def test_a_budget_that_is_none_is_refused(cli: Cli, options: str, told: str) -> None:
    run = cli(f"advisor simulate long-context --model llama-3.1-8b --gpu h100-sxm {options}")
    assert run.code == 2
    assert told in run.err


DATA = "advisor simulate train --model llama-3.1-8b --gpus 8 --global-batch 64 --tp 2"


def test_data_binds_only_where_it_is_slower_than_the_step(cli: Cli) -> None:
    def step_s(options: str) -> float:
        return value_of(json.loads(cli(f"{DATA} {options} --json").out), "step_time_s")

    plain = step_s("")
    assert step_s("--data tokens --storage 1GB/s") == plain
    assert step_s("--data text") == plain  # 50 MB/s of a server's processors are enough
    # 64 sequences of 8,192 tokens of 4 bytes at 10 kB/s.
    assert step_s("--data tokens --storage 10KB/s") == pytest.approx(64 * 8192 * 4 / 10e3)
    assert step_s("--data text --tokenizer 20KB/s --storage 1GB/s") == pytest.approx(64 * 8192 * 4 / 20e3)
    waiting = json.loads(cli(f"{DATA} --data tokens --storage 10KB/s --json").out)
    assert waiting["breakdown"]["data_loading"] == pytest.approx(64 * 8192 * 4 / 10e3 - plain)
    assert "data_loading" not in json.loads(cli(f"{DATA} --json").out)["breakdown"]


@pytest.mark.parametrize(
    ("options", "told"), [("--tokenizer 1MB/s", "needs"), ("--data text --storage fast", "not an amount")]
)
def test_data_that_is_not_understood_is_refused(cli: Cli, options: str, told: str) -> None:
    run = cli(f"{DATA} {options}")
    assert run.code == 2
    assert told in run.err


def test_copies_of_popular_experts_take_memory_and_give_time(cli: Cli) -> None:
    base = "advisor simulate experts --model deepseek-v3 --gpu h200-sxm --ep 32 --skew 0.8 --json"
    none, some = (json.loads(cli(f"{base} --redundant {copies}").out) for copies in (0, 32))
    assert some["times"]["with_copies_s"] < none["times"]["as_numbered_s"]
    assert some["times"]["even_s"] == none["times"]["even_s"]
    # One more expert on each of 58 layers: 3 · 7168 · 2048 weights of one byte.
    assert some["times"]["copies_bytes"] == pytest.approx(58 * 3 * 7168 * 2048)
    assert cli("advisor simulate experts --model llama-3.1-8b --gpu h200-sxm").code == 2


MIXTURE: Final = (
    "advisor simulate train --model qwen3-30b-a3b --gpu h200-sxm --gpus 64 --dp 64 --micro-batch 1"
)


def exchanged_bytes(cli: Cli, options: str) -> float:
    found = json.loads(cli(f"{MIXTURE} {options} --json").out)["first_principles"]["exchanged_bytes"]
    return float(found)


def test_ranks_that_share_out_experts_exchange_no_gradients_of_those_they_do_not_hold(cli: Cli) -> None:
    """With 64 ranks for one copy of the experts only 1.6 billion dense parameters are summed in 4 bytes and gathered in
    2."""
    sent = [exchanged_bytes(cli, f"--sharding zero1 --global-batch 64 --ep {ep}") for ep in (8, 16, 64)]
    assert sent == sorted(sent, reverse=True)
    assert sent[0] < 3 * 10.4e9 * 63 / 64
    assert sent[-1] == pytest.approx(6 * 1.6e9, rel=0.1)


def test_gradients_are_summed_once_a_step_unless_they_are_divided(cli: Cli) -> None:
    one, four = (exchanged_bytes(cli, f"--sharding zero1 --ep 8 --global-batch {each}") for each in (64, 256))
    assert four == one
    one, four = (exchanged_bytes(cli, f"--sharding zero3 --ep 8 --global-batch {each}") for each in (64, 256))
    assert four == pytest.approx(4 * one)


@pytest.mark.parametrize(
    ("options", "bits", "words"),
    [
        ("--framework megatron --sharding zero1", 4 + 2, "gradients in 32 bits and weights in 16"),
        ("--framework megatron --sharding none", 2 * 4, "gradients in 32 bits."),
        ("--framework deepspeed --sharding zero1", 2 + 2, "gradients in 16 bits and weights in 16"),
    ],
)
def test_traffic_is_counted_in_the_formats_that_frameworks_send(
    cli: Cli, options: str, bits: int, words: str
) -> None:
    """Megatron sums gradients in fp32, DeepSpeed in the format of the weights."""
    command = "advisor simulate train --model llama-3.2-3b --gpu h100-sxm --gpus 64 --dp 64 --micro-batch 1"
    command += f" --global-batch 64 --sequence 4096 {options}"
    sent = json.loads(cli(f"{command} --json").out)["first_principles"]["exchanged_bytes"]
    assert sent == pytest.approx(3.21e9 * bits * 63 / 64, rel=0.01)
    assert words in " ".join(cli(command).out.split())
