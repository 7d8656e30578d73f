"""The checkpoint that `recommend` prints, named as the model, is the deployment that was priced."""

from collections.abc import Callable
from typing import Any

import pytest

from advisor.ask.deployment import deployment_of
from advisor.ask.options import LayoutOptions
from advisor.simulator.memory import weight_bytes

Cli = Callable[[str], Any]


def ask(cli: Cli, command: str) -> dict[str, Any]:
    return cli(f"advisor {command} --json").document()


@pytest.mark.parametrize(
    "options",
    [
        "--model 70b --gpu h100-sxm --rate 2 --engine vllm",
        "--model llama-3.3-70b --gpu h100-sxm --rate 2 --engine tensorrt-llm",
        "--model Qwen/Qwen3-32B-AWQ --gpu rtx-4090 --rate 0.2 --engine vllm",
        "--model gemma-4-31b --gpu b200-sxm --rate 2 --precision nvfp4 --engine vllm",
        "--model 8b --gpu rtx-4090 --rate 0.05 --engine llama.cpp --precision q4_k_m",
    ],
)
def test_a_printed_checkpoint_pasted_back_is_the_same_deployment(cli: Cli, options: str) -> None:
    option = ask(cli, f"recommend {options} --fast --top 1")["options"][0]
    layout = option["layout"]
    checkpoint = option["launch"]["checkpoint"]
    if checkpoint["origin"] == "quantised on loading":
        pytest.skip("the checkpoint is of another format than the deployment")
    name = checkpoint["repository"]
    if layout["weight_dtype"] == "q4_k_m":
        name = f"{name}:Q4_K_M"
    assert name in option["launch"]["command"]
    pasted = ask(
        cli,
        f"memory --model {name} --gpu {option['machine']['accelerator']} --engine {layout['engine']} "
        f"--tp {layout['tensor_parallel']} --context 2048",
    )["inputs"]
    assert pasted["weight_dtype"] == layout["weight_dtype"]
    assert pasted["kv_dtype"] == layout["kv_dtype"]
    arguments = option["launch"]["simulate_args"]
    typed = dict(zip(arguments[::2], arguments[1::2], strict=False))
    assert typed["--precision"] == layout["weight_dtype"]
    assert typed["--kv-precision"] == layout["kv_dtype"]


@pytest.mark.parametrize(
    ("model", "precision", "checkpoint"),
    [
        ("qwen3.6-35b-a3b", "nvfp4", "nvidia/Qwen3.6-35B-A3B-NVFP4"),
        ("llama-4-scout", "fp8", "nvidia/Llama-4-Scout-17B-16E-Instruct-FP8"),
        ("deepseek-r1", "nvfp4", "nvidia/DeepSeek-R1-FP4"),
        ("qwen2.5-vl-7b", "nvfp4", "nvidia/Qwen2.5-VL-7B-Instruct-NVFP4"),
        ("qwen3-8b", "fp8", "Qwen/Qwen3-8B-FP8"),
    ],
)
def test_a_typed_format_is_that_of_the_checkpoint_that_is_served(
    model: str, precision: str, checkpoint: str
) -> None:
    by_format, _ = deployment_of(model, "b200-sxm", LayoutOptions(engine="vllm", precision=precision))
    by_name, _ = deployment_of(checkpoint, "b200-sxm", LayoutOptions(engine="vllm"))
    assert by_format.weight_dtype == by_name.weight_dtype
    assert weight_bytes(by_format) == pytest.approx(weight_bytes(by_name))


def test_a_named_quantised_checkpoint_is_the_one_that_is_started(cli: Cli) -> None:
    option = ask(cli, "recommend --model Qwen/Qwen3-32B-AWQ --gpu rtx-4090 --rate 0.2 --fast --top 1")[
        "options"
    ][0]
    assert "Qwen/Qwen3-32B-AWQ" in option["launch"]["command"]
    assert option["machine"]["num_accelerators"] >= 1
    assert option["layout"]["weight_dtype"] == "int4"


def test_the_cache_format_is_said_where_it_is_not_the_checkpoints_own(cli: Cli) -> None:
    option = ask(
        cli,
        "recommend --model llama-3.3-70b --gpu h100-sxm --rate 2 --engine tensorrt-llm --precision fp8 --fast --top 1",
    )["options"][0]
    assert option["launch"]["checkpoint"]["repository"].startswith("nvidia/")
    assert option["layout"]["kv_dtype"] == "fp8"
