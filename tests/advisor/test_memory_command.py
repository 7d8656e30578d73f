"""`advisor memory`: sizes by arithmetic on published configs, laws of the account, and bad input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]

# Weights and cache with states of one sequence of 8,192 tokens, by arithmetic on the published configs [GB].
PUBLISHED = [
    ("llama-3.1-8b", 16.06, 1.074),
    ("llama-3.1-70b", 141.1, 2.684),
    ("qwen3-32b", 65.5, 2.147),
    ("qwen3-30b-a3b", 61.1, 0.805),
    ("gpt-oss-20b", 13.76, 0.204),
    ("gpt-oss-120b", 65.2, 0.307),
    ("mixtral-8x7b", 93.4, 1.074),
    ("gemma-3-27b", 54.86, 1.107),
    ("deepseek-r1", 676.0, 0.576),
    ("qwen3-235b-a22b", 470.2, 1.577),
    ("qwen3-next-80b-a3b", 159.3, 0.279),
    ("granite-4.0-h-small", 64.4, 0.287),
    ("llama-4-scout", 217.3, 1.611),
    ("qwen3.5-27b", 55.6, 0.691),
    ("qwen2.5-72b", 145.41, 2.684),
    ("mistral-nemo-12b", 24.49, 1.342),
    ("mistral-large-2", 245.22, 2.953),
    ("phi-4", 29.32, 1.678),
    ("phi-4-mini", 7.67, 1.074),
    ("llama-3.2-3b", 6.43, 0.940),
    ("command-r", 69.96, 10.737),
    ("seed-oss-36b", 72.30, 2.147),
    ("glm-4.5-air", 213.70, 1.544),
    ("glm-4.6", 705.59, 3.087),
    ("minimax-m2", 228.69, 2.080),
    ("dbrx", 263.19, 1.342),
    ("mixtral-8x22b", 281.26, 1.879),
    ("qwen3-coder-480b-a35b", 960.31, 2.080),
    ("ernie-4.5-21b-a3b", 43.65, 0.470),
    ("smollm3-3b", 6.15, 0.604),
    ("gemma-2-27b", 54.45, 2.315),
    ("gemma-3-12b", 24.37, 0.872),
    ("qwen3-4b-2507", 8.04, 1.208),
    ("internlm2.5-7b", 15.47, 1.074),
]


def ask(cli: Cli, options: str) -> dict[str, Any]:
    return cli(f"advisor memory {options} --json").document()


@pytest.mark.parametrize(("model", "weights", "sequence"), PUBLISHED)
def test_sizes_are_those_of_the_published_configs(
    cli: Cli, model: str, weights: float, sequence: float
) -> None:
    found = ask(cli, f"--model {model} --gpu b300-sxm --context 8192")["model"]
    assert found["weight_bytes"] / 1e9 == pytest.approx(weights, rel=0.03)
    assert found["sequence_bytes"] / 1e9 == pytest.approx(sequence, rel=0.03)


@pytest.mark.parametrize(
    "options",
    [
        "--model 8b --gpu rtx-4090 --concurrency 3",
        "--model qwen3-next-80b --gpu h100-sxm --tp 4 --concurrency 50",
        "--model gemma-3-27b --gpu h100-sxm --context 32k --concurrency 4",
        "--model deepseek-v3.2 --gpu b200-sxm --dp 8 --ep 8 --engine sglang --concurrency 64",
        "--model 8b --gpu rtx-4090 --engine llama.cpp --precision q4_k_m --concurrency 2",
    ],
)
def test_the_parts_add_up_to_the_memory(cli: Cli, options: str) -> None:
    found = ask(cli, options)
    parts = dict(found["per_accelerator"])
    total = parts.pop("total_bytes")
    parts.pop("vision_bytes")
    parts.pop("kv_reading_bytes")
    parts.pop("kv_padding_bytes")
    assert sum(parts.values()) == pytest.approx(total, rel=1e-9)
    assert found["fits"] is True
    assert parts["free_bytes"] >= 0


def test_one_more_sequence_than_fit_does_not_fit(cli: Cli) -> None:
    most = ask(cli, "--model 8b --gpu rtx-4090 --context 4096")["num_sequences_that_fit"]
    assert ask(cli, f"--model 8b --gpu rtx-4090 --context 4096 --concurrency {most}")["fits"] is True
    more = ask(cli, f"--model 8b --gpu rtx-4090 --context 4096 --concurrency {most + 1}")
    assert more["fits"] is False


WINDOWED = ("gemma-3-27b", "gpt-oss-20b", "gemma-2-27b", "mistral-7b")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
@pytest.mark.parametrize("model", WINDOWED)
def test_what_is_free_for_more_sequences_holds_none_where_no_more_fit(
    cli: Cli, model: str, engine: str
) -> None:
    options = f"--model {model} --gpu b200-sxm --engine {engine} --context 8192"
    one = ask(cli, options)
    most = one["num_sequences_that_fit"]
    full = ask(cli, f"{options} --concurrency {most}")["per_accelerator"]
    more = ask(cli, f"{options} --concurrency {most + 1}")
    each = one["per_accelerator"]["kv_cache_bytes"] - one["per_accelerator"]["kv_reading_bytes"]
    assert 0.0 <= full["free_bytes"] <= 1.01 * each
    assert not more["fits"]
    assert more["per_accelerator"]["free_bytes"] < 0.01 * each


@pytest.mark.parametrize(
    ("context", "slots", "cells"), [(16_384, 1, 1536), (8_192, 4, 1536), (1_024, 2, 1024)]
)
def test_windows_of_llama_cpp_hold_a_micro_batch_of_each_slot(
    cli: Cli, context: int, slots: int, cells: int
) -> None:
    """Gemma 3 27B: 10 layers keep all tokens and 52 a window of 1,024; a micro-batch has 512 tokens. A log of 16,384
    tokens has 1,280 and 624 MiB (src/llama-kv-cache-iswa.cpp)."""
    options = f"--model gemma-3-27b --precision q4_k_m --gpu b200-sxm --engine llama.cpp --context {context}"
    parts = ask(cli, f"{options} --concurrency {slots}")["per_accelerator"]
    assert parts["kv_cache_bytes"] == pytest.approx(slots * 8192 * (10 * context + 52 * cells))
    assert ask(cli, options)["model"]["sequence_bytes"] == 8192 * (10 * context + 52 * min(context, 1024))


@pytest.mark.parametrize("model", WINDOWED)
def test_one_sequence_has_one_size(cli: Cli, model: str) -> None:
    found = ask(cli, f"--model {model} --gpu b200-sxm --engine vllm --context 8192")
    parts = found["per_accelerator"]
    held = parts["kv_cache_bytes"] - parts["kv_reading_bytes"]
    assert held == pytest.approx(found["model"]["sequence_bytes"], rel=1e-9)


@pytest.mark.parametrize(
    ("model", "is_counted"),
    [("llama-3.1-8b", True), ("deepseek-v3.1", True), ("gpt-oss-20b", False), ("qwen3-next-80b", False)],
)
def test_blocks_are_counted_where_every_layer_keeps_every_token(
    cli: Cli, model: str, is_counted: bool
) -> None:
    found = ask(cli, f"--model {model} --gpu b300-sxm --tp 8")
    pool = found["block_pool"]
    assert (pool is not None) == is_counted
    if pool is not None:
        taken = pool["num_blocks"] * pool["block_tokens"] * found["model"]["kv_bytes_per_token"] / 8
        assert taken < found["per_accelerator"]["total_bytes"]


def test_a_smaller_cache_is_a_way_to_hold_more(cli: Cli) -> None:
    options = "--model RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic --gpu h100-sxm --tp 2 --context 32k"
    found = ask(cli, f"{options} --concurrency 8")
    assert (found["fits"], found["kv_precision_that_fits"]) == (False, "fp8")
    assert ask(cli, f"{options} --concurrency 8 --kv-precision fp8")["fits"] is True


def test_the_tokens_of_a_prompt_and_of_an_output_are_kept_by_different_attention(cli: Cli) -> None:
    """flan-t5-xl: 24 layers of 32 heads of 64 values, keys and values, in the encoder's output and the decoder."""
    run = cli("advisor memory --model flan-t5-xl --gpu l4 --context 512")
    assert "prompts as keys and values of cross-attention" in " ".join(run.out.split())
    assert ask(cli, "--model flan-t5-xl --gpu l4")["model"]["kv_bytes_per_token"] == 2 * 24 * 32 * 64 * 2


def test_longer_contexts_and_wider_caches_hold_fewer_sequences(cli: Cli) -> None:
    def most(options: str) -> int:
        return int(ask(cli, f"--model 8b --gpu h100-sxm {options}")["num_sequences_that_fit"])

    assert most("--context 4096") > most("--context 8192") > most("--context 64k") > 0
    assert most("--kv-precision fp8") > most("--kv-precision bf16")
    assert most("--tp 2") > most("")


def test_a_checkpoint_that_declares_an_fp8_cache_holds_twice_the_tokens(cli: Cli) -> None:
    base = "--gpu h100-sxm --tp 2 --engine tensorrt-llm"
    own = ask(cli, f"--model nvidia/Llama-3.3-70B-Instruct-FP8 {base}")
    wide = ask(cli, f"--model nvidia/Llama-3.3-70B-Instruct-FP8 --kv-precision bf16 {base}")
    assert own["inputs"]["kv_dtype"] == "fp8"
    assert own["kv_capacity_tokens"] == pytest.approx(2 * wide["kv_capacity_tokens"], rel=0.01)


def test_the_capacity_is_the_one_that_a_simulation_has(cli: Cli) -> None:
    simulated = cli(
        "advisor simulate serve --model 8b --gpu rtx-4090 --concurrency 1 --input-tokens 2000 --output-tokens 100 "
        "--length-dist fixed --requests 20 --json"
    )
    shown = json.loads(simulated.out)["memory_bytes"]
    found = ask(cli, "--model 8b --gpu rtx-4090 --context 2100")["per_accelerator"]
    assert found["weight_bytes"] == shown["weights"]
    assert found["activation_bytes"] == shown["activations"]


@pytest.mark.parametrize(
    ("question", "engine"),
    [
        ("--model 8b --gpu h100-sxm", "vllm"),
        ("--model unsloth/Llama-3.3-70B-Instruct-GGUF:Q4_K_M --gpu rtx-4090 --tp 2", "llama.cpp"),
        ("--model bartowski/Qwen2.5-32B-Instruct-GGUF:Q5_K_M --gpu rtx-4090", "llama.cpp"),
        ("--model mlx-community/Qwen3-32B-8bit --gpu m3-ultra", "mlx"),
        ("--model 8b --precision q8_0 --gpu h100-sxm", "llama.cpp"),
    ],
)
def test_without_an_engine_one_that_serves_the_weights_is_taken(cli: Cli, question: str, engine: str) -> None:
    run = cli(f"advisor memory {question} --context 8192 --json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["inputs"]["engine"] == engine
    assert (f"engine {engine}, as vLLM does not serve" in run.err) == (engine != "vllm")


def test_what_does_not_fit_says_by_how_much_and_which_degree_does(cli: Cli) -> None:
    run = cli("advisor memory --model 70b --gpu rtx-4090")
    assert run.code == 0
    assert "does not fit: weights 141.1 GB" in run.out
    assert "With --tp 8 they fit." in run.out
    assert ask(cli, "--model 70b --gpu rtx-4090")["tensor_parallel_that_fits"] == 8


def test_what_does_not_fit_is_told_the_most_bits_that_do(cli: Cli) -> None:
    assert (
        "With --tp 4 or --precision int4 they fit."
        in cli("advisor memory --model qwen3-32b --gpu rtx-4090").out
    )
    assert ask(cli, "--model qwen3-32b --gpu rtx-4090")["precision_that_fits"] == "int4"
    assert ask(cli, "--model qwen3-32b --gpu rtx-4090 --precision fp8")["precision_that_fits"] == "int4"


def test_the_python_function_gives_the_same_numbers(cli: Cli) -> None:
    import advisor

    found = advisor.memory(model="8b", gpu="h100-sxm", context=8192)
    shown = ask(cli, "--model 8b --gpu h100-sxm --context 8192")
    assert found.to_dict()["per_accelerator"] == shown["per_accelerator"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--model 8b", 2, "--gpu"),
        ("--gpu h100", 2, "--model"),
        ("--model no-such-model --gpu h100", 2, "no-such-model"),
        ("--model 8b --gpu h100 --context many", 2, "--context"),
        ("--model 8b --gpu h100 --context 200k", 3, "131,072"),
        ("--model 8b --gpu h100 --tp 7", 3, "--tp"),
        ("--model 8b --gpu h100 --concurrency 0", 2, "concurrency"),
        ("--model 8b --gpu h100 --precision fp99", 2, "fp99"),
        ("--model sd3-medium --gpu h100", 2, "no text"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(cli: Cli, options: str, code: int, said: str) -> None:
    run = cli(f"advisor memory {options}")
    assert run.code == code, run.out + run.err
    assert said in run.err
    assert "Traceback" not in run.err


def test_a_context_beyond_the_window_is_one_refusal_everywhere(cli: Cli) -> None:
    typed = "--model qwen2.5-7b --gpu h100-sxm --context 1M"
    runs = [cli(f"advisor {command} {typed}") for command in ("memory", "simulate long-context")]
    assert {run.code for run in runs} == {3}
    assert runs[0].err == runs[1].err


def test_a_context_that_is_not_typed_is_no_longer_than_the_window(cli: Cli, tmp_path: Path) -> None:
    fields = {"model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25, "n_layer": 48}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**fields, "n_positions": 1024, "vocab_size": 50257}))
    assert ask(cli, f"--model {config} --gpu t4")["inputs"]["context_tokens"] == 1024
    assert ask(cli, "--model 8b --gpu h100-sxm")["inputs"]["context_tokens"] == 8192


def test_an_engine_with_pages_of_one_size_pads_layers_of_other_kinds(cli: Cli) -> None:
    """vLLM asked for 1.34 GiB for a request of 131,072 tokens of DeepSeek-V4-Flash, iterations of 8,192 tokens included
    (field report of four RTX 4090); the values alone are 0.47 GiB."""
    options = "--model deepseek-v4-flash --gpu h100-sxm --tp 4 --context 131072 --kv-precision fp8"
    padded = ask(cli, f"{options} --engine vllm")
    values = padded["per_accelerator"]["kv_cache_bytes"] - padded["per_accelerator"]["kv_padding_bytes"]
    assert 1.0 < values / padded["model"]["sequence_bytes"] < 1.5  # the new tokens of one iteration
    assert 1.0 * 2**30 < padded["per_accelerator"]["kv_cache_bytes"] < 1.34 * 2**30
    assert (
        padded["per_accelerator"]["total_bytes"] // padded["per_accelerator"]["kv_cache_bytes"]
        >= padded["num_sequences_that_fit"]
    )


@pytest.mark.parametrize(
    ("model", "engine", "tokens"),
    [("deepseek-v3.2", "vllm", 64), ("deepseek-v3.2", "sglang", 64), ("deepseek-v3.1", "vllm", 16)],
)
def test_latent_attention_with_an_indexer_has_the_blocks_of_its_kernels(
    cli: Cli, model: str, engine: str, tokens: int
) -> None:
    run = cli(f"advisor memory --model {model} --gpu h200-sxm --tp 8 --engine {engine} --context 64k --json")
    assert json.loads(run.out)["block_pool"]["block_tokens"] == tokens
