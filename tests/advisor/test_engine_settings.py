"""Settings with which servers are started: memory, windows, blocks, formats, and the engines' own words for them."""

from collections.abc import Callable
from typing import Any, Final

import pytest

Cli = Callable[[str], Any]
SERVE: Final = "advisor simulate serve --length-dist fixed --concurrency 1 --requests 3"
LLAMA: Final = "--model llama-3.1-8b --gpu h100-sxm --input-tokens 1000 --output-tokens 100"


def simulate(cli: Cli, options: str) -> dict[str, Any]:
    return cli(f"{SERVE} {options} --json").document()


def capacity(cli: Cli, options: str) -> int:
    return int(simulate(cli, options)["metrics"]["kv_tokens"]["capacity"])


def test_a_larger_fraction_of_memory_holds_more(cli: Cli) -> None:
    found = [capacity(cli, f"{LLAMA} --gpu-memory-utilization {part}") for part in (0.5, 0.7, 0.9, 0.92)]
    assert found == sorted(set(found))
    assert found[-1] == capacity(cli, LLAMA)  # the default of the release


@pytest.mark.parametrize(
    ("typed", "own"),
    [
        ("--mem-fraction-static 0.8", "--gpu-memory-utilization 0.8"),
        ("--free-gpu-memory-fraction=0.8", "--gpu-memory-utilization 0.8"),
        ("--tensor-parallel-size 2", "--tp 2"),
        ("--tp-size 2 --max-running-requests 16", "--tp 2 --max-num-seqs 16"),
        ("--context-length 8192 --page-size 64", "--max-model-len 8192 --block-size 64"),
        ("--kv-cache-dtype fp8_e4m3", "--kv-precision fp8"),
        ("--quantization fp8", "--precision fp8"),
        ("--quantization fp8_per_tensor", "--precision fp8"),
        ("--quantization fp8_per_block", "--precision fp8"),
        ("--chunked-prefill-size 4096", "--max-num-batched-tokens 4096"),
        ("--disable-radix-cache --disable-cuda-graph", "--no-prefix-caching --enforce-eager"),
        ("--no-enable-prefix-caching", "--no-prefix-caching"),
    ],
)
def test_the_words_of_engines_mean_the_own_options(cli: Cli, typed: str, own: str) -> None:
    one, other = (simulate(cli, f"{LLAMA} {options}") for options in (typed, own))
    assert one["metrics"] == other["metrics"]
    assert one["memory_bytes"] == other["memory_bytes"]


MIXTURE = (
    "--model gpt-oss-20b --gpu rx-7900-xtx --engine llama.cpp --precision mxfp4 "
    "--input-tokens 4096 --output-tokens 16"
)


def test_a_larger_micro_batch_reads_experts_less_often_and_takes_more_memory(cli: Cli) -> None:
    found = [simulate(cli, f"{MIXTURE} -ub {tokens}") for tokens in (256, 512, 1024, 2048)]
    assert found[1]["metrics"] == simulate(cli, MIXTURE)["metrics"]  # llama.cpp's default
    waits = [one["metrics"]["ttft_s"]["mean"]["value"] for one in found]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] < waits[0]
    held = [one["memory_bytes"]["activations"] for one in found]
    assert held == sorted(held)
    assert held[-1] > held[0]


def test_micro_batches_belong_to_llama_cpp(cli: Cli) -> None:
    run = cli(f"{SERVE} {LLAMA} --ubatch-size 2048")
    assert run.code == 3
    assert "--ubatch-size means nothing for vLLM" in run.err


def test_a_word_of_an_engine_given_beside_the_own_one_is_refused(cli: Cli) -> None:
    run = cli(f"{SERVE} {LLAMA} --tp 2 --tensor-parallel-size 4")
    assert run.code == 2
    assert "twice" in run.err


def test_the_size_of_the_cache_may_be_said(cli: Cli) -> None:
    found = simulate(cli, f"{LLAMA} --kv-cache-bytes 20GiB")
    assert found["memory_bytes"]["kv_cache"] == 20 * 2**30
    assert found["metrics"]["kv_tokens"]["capacity"] == 163840  # 128 KiB a token
    assert cli(f"{SERVE} {LLAMA} --kv-cache-bytes 90GiB").code == 3


def test_without_graphs_decoding_is_slower_and_the_cache_larger(cli: Cli) -> None:
    plain, eager = (simulate(cli, f"{LLAMA} {flag}") for flag in ("", "--enforce-eager"))
    assert eager["metrics"]["tpot_s"]["mean"]["value"] > 1.1 * plain["metrics"]["tpot_s"]["mean"]["value"]
    assert eager["memory_bytes"]["kv_cache"] > plain["memory_bytes"]["kv_cache"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("--model llama-3.1-8b --gpu h100-sxm --input-tokens 140000 --output-tokens 100", "131,072"),
        (f"{LLAMA} --max-model-len 1024", "1,024"),
        (
            "--model llama-3.1-8b --gpu rtx-3090 --input-tokens 1000 --output-tokens 100 --max-model-len 60000",
            "60,000",
        ),
    ],
)
def test_no_request_is_longer_than_the_window(cli: Cli, options: str, what: str) -> None:
    run = cli(f"{SERVE} {options}")
    assert run.code == 3
    assert what in run.err


def test_drawn_lengths_are_cut_to_the_window_and_that_is_said(cli: Cli) -> None:
    run = cli(
        "advisor simulate serve --model llama-3.1-8b --gpu h100-sxm --rate 1 --requests 50 --input-tokens 30000"
    )
    assert run.code == 0
    assert "cut to the 131,072 tokens" in run.err


def test_sglang_counts_attention_ranks_within_tp(cli: Cli) -> None:
    """DeepSeek-V3.2 on eight B200: 975,424 tokens a rank in 43.67 GiB (sgl-project/sglang, log with DP attention)."""
    options = "--model deepseek-v3.2 --engine sglang --gpu b200-sxm --input-tokens 1000 --output-tokens 100"
    found = simulate(cli, f"{options} --tp 8 --dp 8 --enable-dp-attention --ep-size 8")
    assert found["metrics"]["kv_tokens"]["capacity"] / 8 == pytest.approx(975_424, rel=0.08)
    assert found["memory_bytes"]["kv_cache"] == pytest.approx(43.67 * 2**30, rel=0.08)
    run = cli(f"{SERVE} {options} --tp 8 --dp 8")
    assert "64 accelerators" in run.err
    assert "--enable-dp-attention" in run.err
    assert cli(f"{SERVE} {options} --tp 8 --dp 3 --enable-dp-attention").code == 2


def test_the_order_of_two_engines_is_that_of_their_logs(cli: Cli) -> None:
    """Qwen3-235B-A22B-FP8, four H100: vLLM at 0.9 has 178,880 tokens, SGLang at 0.93 has 367,404."""
    options = "--model qwen3-235b-a22b --precision fp8 --gpu h100-sxm --tp 4 --input-tokens 1000 --output-tokens 100"
    vllm = capacity(cli, f"{options} --gpu-memory-utilization 0.9")
    sglang = capacity(cli, f"{options} --engine sglang --mem-fraction-static 0.93")
    assert sglang > 1.2 * vllm
    assert sglang == pytest.approx(367_404, rel=0.12)


def test_caches_of_several_rates_take_pages_of_one_size_in_vllm(cli: Cli) -> None:
    """DeepSeek-V4-Flash: vLLM wants 1.34 GiB for a request of 131,072 tokens (vllm#53243)."""
    options = "--model deepseek-v4-flash --gpu h100-sxm --tp 4 --input-tokens 131000 --output-tokens 10"
    found = simulate(cli, options)
    per_request = found["memory_bytes"]["kv_cache"] / found["metrics"]["kv_tokens"]["capacity"] * 131_072
    assert per_request == pytest.approx(1.34 * 2**30, rel=0.2)


MEMORY: Final = "advisor memory --model llama-3.1-8b --gpu h100-sxm"


def account(cli: Cli, options: str) -> str:
    run = cli(f"{MEMORY} {options} --json")
    assert run.code == 0, run.err
    return str(run.out)


@pytest.mark.parametrize(
    "options",
    [
        "--gpu-memory-utilization 0.7",
        "--mem-fraction-static 0.7",
        "--kv-cache-bytes 20GiB",
        "--enforce-eager",
    ],
)
def test_settings_of_a_server_act_in_memory(cli: Cli, options: str) -> None:
    assert account(cli, options) != account(cli, "")


@pytest.mark.parametrize("command", ["recommend", "cost"])
@pytest.mark.parametrize(
    "setting", ["--gpu-memory-utilization 0.8", "--mem-fraction-static 0.8", "--enforce-eager"]
)
def test_settings_of_one_server_are_refused_where_many_are_compared(
    cli: Cli, command: str, setting: str
) -> None:
    run = cli(f"advisor {command} --model llama-3.1-8b {setting}")
    assert run.code == 2
    assert "simulate serve" in run.err


@pytest.mark.parametrize("name", ["cpu", "CPU only", "none"])
def test_a_machine_without_a_card_is_not_taken_for_another_one(cli: Cli, name: str) -> None:
    run = cli(f'advisor memory --model llama-3.1-8b --gpu "{name}"')
    assert run.code == 2
    assert "lpu" not in run.err
    assert "offload" in run.err


@pytest.mark.parametrize("model", ["gemma-4-12b", "gemma-4-26b-a4b"])
def test_a_recipe_shortens_no_window(cli: Cli, model: str) -> None:
    run = cli(f"advisor memory --model {model} --gpu h200-sxm --context 262144")
    assert run.code == 0, run.err


LOCAL: Final = "--engine llama.cpp --precision q4_k_m --gpu rtx-4090"


def parts_of(cli: Cli, options: str) -> dict[str, float]:
    found: dict[str, float] = cli(f"advisor memory --json --context 8192 {options}").document()[
        "per_accelerator"
    ]
    return found


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "qwen3-14b"])
def test_layers_in_main_memory_leave_the_accelerator_and_cost_time(cli: Cli, model: str) -> None:
    """Weights and cache follow the number of layers; as many as there are, and one for the output, are all of them."""
    base = f"--model {model} {LOCAL}"
    layers = 48 if model == "qwen3-30b-a3b" else 40
    whole = parts_of(cli, base)
    found = [parts_of(cli, f"{base} -ngl {count}") for count in (1, 9, 17, layers + 1, 999)]
    assert found[-1] == found[-2] == whole
    weights = [one["weight_bytes"] for one in found[:3]]
    assert weights[2] - weights[1] == pytest.approx(weights[1] - weights[0])
    assert found[2]["kv_cache_bytes"] == pytest.approx(16 / layers * whole["kv_cache_bytes"])
    load = f"{base} --input-tokens 500 --output-tokens 50"
    times = [
        simulate(cli, f"{load} {split}")["metrics"]["tpot_s"]["mean"]["value"]
        for split in ("-ngl 9", "-ngl 25", "")
    ]
    assert times == sorted(times, reverse=True)
    slow = simulate(cli, f"{load} -ngl 9 --host-bandwidth 45GB/s")["metrics"]["tpot_s"]["mean"]["value"]
    assert times[0] < slow < 2.01 * times[0]


def test_experts_in_main_memory_may_be_said_in_any_words_of_the_engine(cli: Cli) -> None:
    base = f"--model qwen3-30b-a3b {LOCAL}"
    some = parts_of(cli, f"{base} --host-experts 20")
    assert some["weight_bytes"] < parts_of(cli, base)["weight_bytes"]
    assert some["kv_cache_bytes"] == parts_of(cli, base)["kv_cache_bytes"]
    start = "llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -ngl 99 -c 8192"
    for words in ("-ncmoe 20", "--n-cpu-moe 20", r"-ot 'blk\.(\d|1\d)\.ffn_.*_exps\.=CPU'"):
        assert parts_of(cli, f"--gpu rtx-4090 {start} {words}")["weight_bytes"] == some["weight_bytes"]
    # The first rule that names a tensor decides about it, in one option or several.
    kept = r"blk\.([2-3]\d|4[0-7])\.ffn_.*=CUDA0"
    for words in (f"-ot '{kept},exps=CPU'", f"-ot '{kept}' -ot exps=CPU"):
        assert parts_of(cli, f"--gpu rtx-4090 {start} {words}")["weight_bytes"] == some["weight_bytes"]
    every = parts_of(cli, f"{base} --host-experts 48")
    for words in ("--cpu-moe", "-ncmoe 99", "-ot exps=CPU"):
        assert parts_of(cli, f"--gpu rtx-4090 {start} {words}") == every


def test_an_uneven_split_fills_the_card_that_gets_most(cli: Cli) -> None:
    base = f"--model llama-3.1-8b {LOCAL} --pp 2"
    even, uneven = (parts_of(cli, f"{base} --tensor-split {split}") for split in ("1,1", "3,1"))
    assert even == parts_of(cli, base)
    assert uneven["kv_cache_bytes"] == pytest.approx(1.5 * even["kv_cache_bytes"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--engine vllm --gpu-layers 5", "means nothing for vLLM"),
        ("--engine llama.cpp --gpu-layers 0", "puts no layer on the accelerator"),
        ("--engine llama.cpp --gpu-layers many", "not a number of layers"),
        ("--engine llama.cpp --host-experts 3", "no routed experts"),
        ("--engine llama.cpp --pp 2 --tensor-split 1,1,1", "not a proportion for each of 2 stages"),
    ],
)
def test_a_split_that_cannot_be_is_refused(cli: Cli, options: str, words: str) -> None:
    assert words in cli(f"advisor memory --model llama-3.1-8b --gpu rtx-4090 {options}").err


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_offloaded_weights_leave_the_accelerator_and_are_read_in_every_iteration(
    cli: Cli, engine: str
) -> None:
    """A pass takes as long as before, and as the link needs for the weights in main memory."""
    server = f"--model qwen2.5-32b --gpu rtx-a6000 --precision int8 --engine {engine}"
    offload = f"{server} --cpu-offload-gb 10"
    held, less = (parts_of(cli, words)["weight_bytes"] for words in (server, offload))
    assert held - less == pytest.approx(10 * 2**30)
    load = "--input-tokens 500 --output-tokens 100"
    before, after = (
        simulate(cli, f"{words} {load}")["metrics"]["tpot_s"]["mean"] for words in (server, offload)
    )
    assert after["value"] - before["value"] == pytest.approx(10 * 2**30 / (16 * 2e9 * 0.8), rel=0.05)
    assert after["basis"] == "assumed"


def test_no_more_than_the_layers_is_offloaded(cli: Cli) -> None:
    pasted = "advisor memory --gpu rtx-4090 --json vllm serve Qwen/Qwen3-0.6B --cpu-offload-gb 500"
    held = cli(pasted).document()["per_accelerator"]["weight_bytes"]
    assert held == pytest.approx(2.0 * 151_936 * 1024, rel=0.01)


def test_an_engine_that_reads_no_weights_from_main_memory_says_so(cli: Cli) -> None:
    run = cli("advisor memory --gpu h100-sxm --model qwen3-8b --engine tensorrt-llm --cpu-offload-gb 4")
    assert run.code == 3
    assert "--cpu-offload-gb" in run.err


def test_the_network_between_nodes_is_said_or_told(cli: Cli) -> None:
    wide = "--model llama-3.1-70b --gpu h100-sxm --tp 8 --input-tokens 512 --output-tokens 16"
    assert "network between nodes" not in cli(f"{SERVE} {wide}").err
    usual = cli(f"{SERVE} {wide} --nodes 2")
    assert "network between nodes: 400 Gb/s for each accelerator, that of its usual node" in usual.err
    assert "--network says another" in usual.err
    typed = cli(f"{SERVE} {wide} --nodes 2 --network 'TCP 25Gb'")
    assert "2.81 Gb/s for each accelerator, over sockets" in typed.err
    assert "do not divide" in cli(f"{SERVE} {wide} --nodes 3").err
    assert "no network is called" in cli(f"{SERVE} {wide} --nodes 2 --network foo").err
    assert "says nothing about it" in cli(f"{SERVE} {wide} --network 'TCP 25Gb'").err


def test_a_network_that_nobody_named_widens_what_nodes_sum_over(cli: Cli) -> None:
    """DeepSeek-R1 over two nodes of eight H100s: 30 tokens/s under vLLM, and 31.2 ms a token with 812 ms to the first
    one (tt-inference-server issue 356), where no network is named; InfiniBand is named by 23.1 ms."""
    asked = f"{SERVE} --model deepseek-r1 --gpu h100-sxm --tp 16"
    asked += " --input-tokens 1024 --output-tokens 128 --json"
    unnamed = cli(asked).document()["metrics"]
    for name, measured_s in (("tpot_s", 1 / 30), ("tpot_s", 0.0312), ("ttft_s", 0.812)):
        mean = unnamed[name]["mean"]
        assert mean["low"] <= measured_s <= mean["high"], name
    named = cli(f"{asked} --network 'NDR 8x400'").document()["metrics"]
    assert named["tpot_s"]["mean"]["value"] == pytest.approx(unnamed["tpot_s"]["mean"]["value"], rel=0.02)
    assert named["tpot_s"]["mean"]["high"] < 0.0333
    in_one = f"{SERVE} --model llama-3.1-8b --gpu h100-sxm --tp 8"
    assert "TCP" not in cli(in_one).err
