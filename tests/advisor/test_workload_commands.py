"""The commands beyond text chat: what they print, what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[[str], Any]


def document_of(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"{command} --json").document()


def test_images_by_batch_and_as_a_fleet(cli: Cli) -> None:
    answer = document_of(
        cli,
        "advisor simulate diffusion --model dit-xl-2 --gpu h100 --steps 10 --rate 256 --latency-p99 100ms",
    )
    assert answer["unit"] == "image"
    assert answer["fleet"]["latency_p99_s"]["value"] <= 0.1
    assert answer["fleet"]["num_accelerators"] >= 5
    sizes = [row["batch"] for row in answer["batches"]]
    assert sizes[:4] == [1, 2, 4, 8]
    assert answer["inputs"]["job"]["image"]["steps"] == 10
    flux = document_of(
        cli, "advisor simulate diffusion --model flux.1-dev --gpu h100 --parallel 4 --precision fp8"
    )
    assert flux["accelerators_per_replica"] == 4
    assert flux["inputs"]["job"]["image"] == {
        "width": 1024,
        "height": 1024,
        "steps": 28,
        "guided": False,
        "frames": 1,
        "skipped_fraction": 0.0,
        "offload": "none",
    }


def test_splits_caches_and_offloading_of_images(cli: Cli) -> None:
    base = "advisor simulate diffusion --model flux.1-dev --gpu h100 --max-batch 1"

    def one_s(options: str = "") -> float:
        return float(document_of(cli, f"{base} {options}")["single_latency_s"]["value"])

    alone = one_s()
    assert one_s("--skip-steps 0.5") < 0.65 * alone
    assert one_s("--offload components") > alone
    assert one_s("--tp 2") < alone
    assert one_s("--parallel 2 --split pipefusion") < alone
    video = document_of(cli, "advisor simulate diffusion --model wan2.1-t2v-1.3b --gpu h100 --max-batch 1")
    assert video["unit"] == "video"
    assert "a U-Net is not divided" in cli("advisor simulate diffusion --model sdxl --gpu h100 --tp 2").err
    assert "cannot be skipped" not in cli(f"{base} --skip-steps 0").err


def test_embeddings_rerankers_and_speech(cli: Cli) -> None:
    embed = document_of(cli, "advisor simulate embed --model bge-m3 --gpu l4 --tokens 256")
    rerank = document_of(cli, "advisor simulate embed --model bge-m3 --gpu l4 --tokens 256 --query-tokens 64")
    assert rerank["single_latency_s"]["value"] > embed["single_latency_s"]["value"]
    assert rerank["unit"] == "pair"
    speech = document_of(cli, "advisor simulate speech --gpu h100")
    assert speech["times_real_time"] > 100
    assert speech["single_latency_s"]["high"] > 2 * speech["single_latency_s"]["value"]  # said to be unsure


def test_images_in_prompts(cli: Cli) -> None:
    command = "advisor simulate vision --gpu a100 --concurrency 16 --requests 64 --output-tokens 64 --length-dist fixed"
    answer = document_of(cli, f"{command} --model llama-2-7b --image-scheme llava-1.5 --image-size 336x336")
    assert answer["vision"]["image_tokens"] == 576
    assert answer["vision"]["prompt_tokens"] == 640
    assert 16 * answer["vision"]["kv_bytes_per_request"] == pytest.approx(5.4e9, rel=0.01)
    larger = document_of(cli, f"{command} --model qwen3-vl-8b --image-size 2048x2048 --images 2")
    assert larger["vision"]["prompt_tokens"] == 64 + 2 * (64 * 64 + 2)


def test_adapters_slow_tokens_down(cli: Cli) -> None:
    answer = document_of(
        cli, "advisor simulate adapters --model 8b --gpu h100 --rate 5 --requests 300 --rank 64"
    )
    facts = answer["adapters"]
    assert facts["mean_tpot_increase_fraction"]["value"] > 0
    assert 0 < facts["hit_fraction"] < 1
    assert answer["metrics"]["tpot_s"]["mean"]["value"] > facts["plain_tpot_mean_s"]


def test_a_long_context_by_degree_policy_and_tier(cli: Cli) -> None:
    answer = document_of(cli, "advisor simulate long-context --model 70b --gpu h100 --tp 8 --context 128k")
    assert [row["context_parallel"] for row in answer["prefill"]] == [1, 2, 4, 8, 16]
    spread = [row["prefill_s"]["high"] / row["prefill_s"]["value"] for row in answer["prefill"]]
    assert min(spread[1:]) >= 2.0  # published prefills over many groups took up to twice as long
    assert [row["name"] for row in answer["cache_policies"]][:2] == ["full", "fp8"]
    assert all(row["quality"] for row in answer["cache_policies"])
    assert [row["tier"] for row in answer["tiers"]] == ["host", "nvme", "remote"]
    table = cli("advisor simulate long-context --model 70b --gpu h100 --tp 8").out
    assert "keys need" in table


def test_experts_in_host_memory(cli: Cli) -> None:
    answer = document_of(cli, "advisor simulate offload --model r1 --gpu rtx-4090 --precision q4_k_m")
    assert answer["offload"]["best_s"] == answer["offload"]["step_host_s"]
    assert answer["offload"]["best_s"]["basis"] == "assumed"
    run = cli("advisor simulate offload --model r1 --gpu rtx-4090 --precision q4_k_m --host-memory 64GB")
    assert run.code == 2
    assert "host's memory is too small" in run.err


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("simulate diffusion --model 8b --gpu h100", 2, "no model for --workload diffusion"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --guidance", 2, "no unguided half"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --image-size big", 2, "not a size"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --image-size 1000x1000", 2, "does not divide"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --steps 0", 2, "steps"),
        ("simulate diffusion --model flux.1-dev --gpu rtx-4090", 3, "does not fit"),
        ("simulate diffusion --model flux.1-dev --gpu tpu-v5e", 3, "does not run on"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --runtime onnx", 2, "is not known"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --rate 1 --latency-p99 1ms", 3, "cannot be kept"),
        ("simulate diffusion --model flux.1-dev --gpu h100 --rate -1", 2, "--rate"),
        ("simulate diffusion --model flux.1-def --gpu h100", 2, "flux.1-dev"),
        ("simulate embed --model bge-m3 --gpu h100 --tokens 100000", 2, "cannot read"),
        ("simulate embed --model bge-m3 --gpu h100 --precision fp9", 2, "unknown precision"),
        ("simulate speech --model 8b --gpu h100", 2, "no model for --workload speech"),
        ("simulate vision --model 8b --gpu h100 --rate 1", 2, "not recorded"),
        (
            "simulate vision --model qwen3-vl-8b --gpu h100 --rate 1 --image-size 1x5000",
            2,
            "cannot be encoded",
        ),
        ("simulate adapters --model 8b --gpu h100 --rate 1 --slots 2000 --rank 256", 3, "no room"),
        ("simulate long-context --model 8b --gpu h100 --context many", 2, "--context"),
        ("simulate offload --model 8b --gpu rtx-4090", 2, "no experts"),
        ("recommend --workload batch --model 8b --rate 5", 2, "a batch has no rate"),
        ("recommend --workload batch --model 8b --items 1M --deadline 1s", 3, "nothing finishes"),
        ("recommend --workload embed --model flux.1-dev", 2, "no model for"),
        ("recommend --workload embed --model bge-m3 --engine vllm", 2, "--engine means nothing"),
        ("recommend --workload diffusion --model dit-xl-2 --concurrency 5", 2, "--concurrency means nothing"),
        ("recommend --workload batch --model 8b --plan p.json", 2, "--plan means nothing"),
        (
            "recommend --workload diffusion --model flux.1-dev --gpu h100 --latency-p99 1ms",
            3,
            "nothing serves",
        ),
    ],
)
def test_mistakes_are_told(cli: Cli, command: str, code: int, words: str) -> None:
    run = cli(f"advisor {command}")
    assert run.code == code, run.err
    assert words in run.err
    assert "Traceback" not in run.err
    assert run.out == ""


def test_recommendations_for_other_work(cli: Cli) -> None:
    fleet = document_of(
        cli,
        "advisor recommend --workload diffusion --model dit-xl-2 --gpu h100,l40s --rate 64 --steps 10 "
        "--latency-p99 150ms",
    )
    assert {option["machine"]["accelerator"] for option in fleet["options"]} == {"h100-sxm", "l40s"}
    batch = document_of(
        cli, "advisor recommend --workload batch --model 8b --gpu h100,l40s --items 1M --deadline 12h"
    )
    assert batch["options"][0]["performance"]["duration_s"]["value"] < 12 * 3600
    seeing = document_of(
        cli,
        "advisor recommend --workload vision --model qwen3-vl-8b --gpu l40s --rate 2 --image-size 512x512 "
        "--ttft-p99 500ms",
    )
    assert seeing["inputs"]["traffic"]["mean_input_tokens"] > 64 + 256
    assert seeing["inputs"]["objectives"]["ttft_p99_s"] == 0.5
    speech = cli(
        "advisor recommend --workload speech --model whisper-large-v3 --gpu l4,h100 --rate 5 --latency-p99 10s"
    )
    assert speech.code == 0
    assert "segments" in speech.out


@pytest.mark.parametrize(
    ("model", "layout"),
    [("llama-3.1-70b", "--tp 8"), ("deepseek-v3", "--tp 8"), ("qwen3-8b", "--tp 8"), ("qwen3-32b", "--tp 2")],
)
def test_long_contexts_fit_as_often_as_memory_says(cli: Cli, model: str, layout: str) -> None:
    """Latent caches lie on every accelerator of tensor parallelism: 87 sequences were said to fit where 10 do."""
    options = f"--model {model} --gpu h200-sxm {layout} --context 65536 --json"
    rows = json.loads(cli(f"advisor simulate long-context {options}").out)["cache_policies"]
    account = json.loads(cli(f"advisor memory {options}").out)
    assert rows[0]["num_sequences"] == pytest.approx(account["num_sequences_that_fit"], rel=0.1, abs=1)


@pytest.mark.parametrize("work", ["--fast", "--workload embed"])
def test_a_folder_with_a_config_alone_needs_its_weights_first(cli: Cli, tmp_path: Path, work: str) -> None:
    values = {"num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8}
    values |= {"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 128_256}
    named = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 8192}
    (tmp_path / "config.json").write_text(json.dumps(values | named))
    out = cli(f"advisor recommend {work} --model {tmp_path} --rate 5 --gpu l40s").out
    assert " ".join(out.split()).count("Put the weights beside the config.json of") == 1


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("embed --model bge-m3", ["BAAI/bge-m3", "--runner", "pooling", "--max-model-len", "1024"]),
        ("embed --model qwen3-8b", ["Qwen/Qwen3-8B", "--runner", "pooling"]),
        ("rerank --model bge-m3", ["BAAI/bge-reranker-v2-m3", "--runner", "pooling"]),
        ("rerank --model qwen3-reranker-8b", ["Qwen/Qwen3-Reranker-8B", "--hf-overrides"]),
        (
            "speech --model whisper-large-v3-turbo",
            ["openai/whisper-large-v3-turbo", "--max-num-batched-tokens"],
        ),
    ],
)
def test_what_makes_vectors_scores_and_transcripts_is_started_as_priced(
    cli: Cli, question: str, words: list[str]
) -> None:
    option = document_of(cli, f"advisor recommend --workload {question} --rate 5 --gpu l40s")["options"][0]
    argv = option["launch"]["argv"]
    assert set(words) <= set(argv)
    batch = int(argv[argv.index("--max-num-seqs") + 1])
    assert batch >= option["layout"]["max_num_seqs"]
    assert batch > 1, (
        "each iteration of an engine has host time that no run of the priced program was held against"
    )
    assert option["layout"]["engine"] != "vllm"
    assert option["performance"]["holds"] != "sure"
    tokens = int(argv[argv.index("--max-num-batched-tokens") + 1])
    length = int(argv[argv.index("--max-model-len") + 1]) if "--max-model-len" in argv else 1500
    assert tokens >= max(length, batch * (1500 if question.startswith("speech") else 512))


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (
            "diffusion --model flux.1-dev --gpu h100",
            "no engine of the catalog has a start command for images",
        ),
        ("rerank --model bge-large-en --input-tokens 128 --gpu l40s", "makes scores"),
        (
            "rerank --model Qwen/Qwen3-Embedding-8B --gpu l40s",
            "does not make what --workload rerank asks for",
        ),
    ],
)
def test_what_no_engine_starts_says_why(cli: Cli, question: str, why: str) -> None:
    answer = document_of(cli, f"advisor recommend --workload {question} --rate 0.1")
    assert answer["options"][0]["launch"]["code"] == "no_start_command"
    assert why in answer["options"][0]["launch"]["text"]


def test_an_accelerator_that_no_engine_runs_on_is_refused_by_name(cli: Cli) -> None:
    run = cli("advisor recommend --workload embed --model bge-m3 --gpu v100 --rate 0.1")
    assert run.code == 3
    assert "v100-sxm2-16gb: vLLM" in run.err
    assert "--gpu" in run.err
