"""Checkpoints whose files one program alone loads: MLX, EXL2 and EXL3."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog import engines, models
from advisor.catalog.architectures import class_support

Cli = Callable[[str], Any]
SHAPE: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
FILES: Final = {
    "mlx": [
        {"quantization": {"group_size": 64, "bits": 4}},
        {"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}},
        {"quantization": {"group_size": 64, "bits": 8}, "quantization_config": {"group_size": 64, "bits": 8}},
        {"quantization_config": {"quant_method": "mlx", "bits": 6, "group_size": 64}},
    ],
    "exl2": [{"quantization_config": {"quant_method": "exl2", "bits": 4.0, "head_bits": 6}}],
    "exl3": [{"quantization_config": {"quant_method": "exl3", "bits": 3.5}}],
    "": [
        {},
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
        {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}},
    ],
}
LOADERS: Final = {"mlx": {"mlx"}, "exl2": set(), "exl3": {"exllamav3"}}
NAMES: Final = {
    "mlx-community/Qwen3-8B-4bit": "mlx",
    "mlx-community/Qwen3-8B-bf16": "",
    "turboderp/Llama-3.1-8B-Instruct-exl2:4.0bpw": "exl2",
    "turboderp/Llama-3.1-8B-Instruct-exl3:4.0bpw": "exl3",
    "Qwen/Qwen3-8B-AWQ": "",
    "Qwen/Qwen3-8B": "",
}


def write(folder: Path, more: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(SHAPE | more))
    return path


@pytest.mark.parametrize(
    ("files", "more"), [(name, more) for name, all_of in FILES.items() for more in all_of]
)
def test_only_engines_of_a_format_load_its_files(tmp_path: Path, files: str, more: dict[str, Any]) -> None:
    model = models.get(str(write(tmp_path, more))).record
    assert model.file_format == files
    loads = {one.id for one in engines.all_engines() if not class_support(one, model).file_format}
    assert loads == LOADERS.get(files, {one.id for one in engines.all_engines()})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_states_whose_files_it_names(name: str) -> None:
    assert models.get(name).record.file_format == NAMES[name]


@pytest.mark.parametrize(
    "command", ["memory", "recommend --rate 1", "cost --rate 1", "simulate serve --rate 1"]
)
@pytest.mark.parametrize("files", ["mlx", "exl2"])
def test_other_hardware_is_refused_with_the_reason(
    cli: Cli, tmp_path: Path, command: str, files: str
) -> None:
    path = write(tmp_path, FILES[files][0])
    run = cli(f"advisor {command} --model {path} --gpu h100-sxm")
    assert run.code != 0
    assert f"its files are in the format {files}, which" in run.err
    assert "checkpoint of the model in another format" in run.err


def test_the_program_of_the_format_is_taken_where_it_runs(cli: Cli, tmp_path: Path) -> None:
    mlx = cli(f"advisor memory --model {write(tmp_path, FILES['mlx'][0])} --gpu m3-ultra")
    assert "under MLX" in mlx.out
    exl = cli(f"advisor memory --model {write(tmp_path, FILES['exl3'][0])} --gpu rtx-3090")
    assert "under ExLlamaV3" in exl.out
    assert "is unknown" not in exl.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}},
            "int4 weights of 3.1 bits",
        ),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 2, "group_size": 64}},
            "int4 weights of 2.3 bits",
        ),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "(int4 weights)"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}, "(int4 weights)"),
        ({"quantization": {"bits": 6, "group_size": 64}}, "int8 weights of 6.5 bits"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 128}}, "(int8 weights)"),
    ],
)
def test_the_width_of_files_is_told_where_the_format_is_that_of_kernels(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    assert words in models.get(str(write(tmp_path, more))).note


def test_the_count_of_a_model_and_its_bytes_are_of_the_same_weights(cli: Cli, tmp_path: Path) -> None:
    vision = {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "out_hidden_size": 4096,
        "patch_size": 14,
    }
    seeing = SHAPE | {"model_type": "qwen2_5_vl", "vision_config": vision}
    (tmp_path / "config.json").write_text(json.dumps(seeing))
    out = cli(f"advisor memory --model {tmp_path}/config.json --gpu h100-sxm").out
    assert "billion of its image and audio towers" in " ".join(out.split())
