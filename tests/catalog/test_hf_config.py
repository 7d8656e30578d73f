"""Local config.json files of every shape become models, and bad ones are refused by file and field."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.schema import Model
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count

CONFIGS = Path(__file__).parent / "configs"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def read(tmp_path: Path, values: object) -> Model:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    return model_from_hf_config(file)


def refusal(tmp_path: Path, values: object) -> InputFileError:
    with pytest.raises(InputFileError) as raised:
        read(tmp_path, values)
    assert "config.json" in raised.value.what
    assert raised.value.fix
    return raised.value


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("qwen3-30b-a3b-fp8", "qwen3-30b-a3b"),
        ("deepseek-v3.2", "deepseek-v3.2"),
        ("deepseek-v4-flash", "deepseek-v4-flash"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("gemma-4-26b-a4b", "gemma-4-26b-a4b"),
        ("qwen3.5-397b-a17b", "qwen3.5-397b-a17b"),
        ("nemotron-3-super", "nemotron-3-super-120b-a12b"),
        ("llama-4-maverick", "llama-4-maverick"),
        ("kimi-k2.5", "kimi-k2.5"),
        ("kimi-k3", "kimi-k3"),
        ("mimo-v2-flash", "mimo-v2-flash"),
        ("glm-5.2-nvfp4", "glm-5.2"),
    ],
)
def test_published_configs_give_the_shape_of_the_record(name: str, model_id: str) -> None:
    model = model_from_hf_config(CONFIGS / f"{name}.json")
    record = models.get(model_id).record
    assert model.layers == record.layers
    assert model.id == name
    for field in ("hidden_size", "vocab_size", "tied_embeddings", "max_context_tokens", "mtp_layers"):
        assert getattr(model, field) == getattr(record, field), field


@pytest.mark.parametrize(
    ("name", "weights", "parts", "elsewhere", "scaling"),
    [
        ("llama-3.1-8b", "bf16", "linear", "bf16", "tensor"),
        ("qwen3-30b-a3b-fp8", "fp8", "linear", "bf16", "block"),
        ("gpt-oss-120b", "mxfp4", "experts", "bf16", "tensor"),
        ("kimi-k2.5", "int4", "experts", "bf16", "tensor"),
        ("kimi-k3", "mxfp4", "experts", "bf16", "tensor"),
        ("deepseek-v4-flash", "mxfp4", "experts", "fp8", "block"),
    ],
)
def test_weight_format_comes_from_the_quantization_config(
    name: str, weights: str, parts: str, elsewhere: str, scaling: str
) -> None:
    model = model_from_hf_config(CONFIGS / f"{name}.json")
    found = (model.weights, model.quantized_parts, model.weights_elsewhere, model.fp8_scaling)
    assert found == (weights, parts, elsewhere, scaling)


@pytest.mark.parametrize(
    ("quantization", "weights"),
    [
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            "int8",
        ),
    ],
)
def test_quantisation_methods(tmp_path: Path, quantization: dict[str, Any], weights: str) -> None:
    assert read(tmp_path, {**LLAMA, "quantization_config": quantization}).weights == weights


def test_modelopt_writes_its_format_beside_the_config(tmp_path: Path) -> None:
    beside = {"quantization": {"quant_algo": "NVFP4"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    assert read(tmp_path, LLAMA).weights == "nvfp4"


OLD_FORMATS: dict[str, tuple[dict[str, Any], float]] = {
    "gpt2-xl": (
        {
            "model_type": "gpt2",
            "n_layer": 48,
            "n_embd": 1600,
            "n_head": 25,
            "vocab_size": 50257,
            "n_positions": 1024,
        },
        1.558e9,
    ),
    "opt-6.7b": (
        {
            "model_type": "opt",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "ffn_dim": 16384,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
            "activation_function": "relu",
        },
        6.66e9,
    ),
    "bloom-7b1": (
        {"model_type": "bloom", "n_layer": 30, "hidden_size": 4096, "n_head": 32, "vocab_size": 250880},
        7.07e9,
    ),
    "falcon-7b": (
        {
            "model_type": "falcon",
            "num_hidden_layers": 32,
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "multi_query": True,
            "new_decoder_architecture": False,
            "vocab_size": 65024,
        },
        6.92e9,
    ),
    "gpt-j-6b": (
        {
            "model_type": "gptj",
            "n_layer": 28,
            "n_embd": 4096,
            "n_head": 16,
            "vocab_size": 50400,
            "tie_word_embeddings": False,
        },
        6.05e9,
    ),
    "phi-2": (
        {
            "model_type": "phi",
            "num_hidden_layers": 32,
            "hidden_size": 2560,
            "num_attention_heads": 32,
            "intermediate_size": 10240,
            "vocab_size": 51200,
            "hidden_act": "gelu_new",
            "tie_word_embeddings": False,
        },
        2.78e9,
    ),
    "chatglm3-6b": (
        {
            "model_type": "chatglm",
            "num_layers": 28,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "ffn_hidden_size": 13696,
            "padded_vocab_size": 65024,
        },
        6.24e9,
    ),
    "nemotron-4-15b": (
        {
            **LLAMA,
            "hidden_size": 6144,
            "num_attention_heads": 48,
            "intermediate_size": 24576,
            "vocab_size": 256000,
            "hidden_act": "relu2",
        },
        15.6e9,
    ),
    "granite-4.0-h-tiny": (
        {
            "model_type": "granitemoehybrid",
            "num_hidden_layers": 40,
            "hidden_size": 1536,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "layer_types": (["mamba"] * 9 + ["attention"]) * 4,
            "num_local_experts": 64,
            "num_experts_per_tok": 6,
            "intermediate_size": 512,
            "shared_intermediate_size": 1024,
            "mamba_n_heads": 48,
            "mamba_d_head": 64,
            "mamba_d_state": 128,
            "mamba_n_groups": 1,
            "mamba_d_conv": 4,
            "vocab_size": 100352,
            "tie_word_embeddings": True,
            "hidden_act": "silu",
        },
        6.9e9,
    ),
    "mamba-2.8b": (
        {
            "model_type": "mamba",
            "num_hidden_layers": 64,
            "hidden_size": 2560,
            "intermediate_size": 5120,
            "state_size": 16,
            "vocab_size": 50280,
            "tie_word_embeddings": True,
        },
        2.768e9,
    ),
}


@pytest.mark.parametrize("name", OLD_FORMATS)
def test_other_field_names_give_the_published_size(tmp_path: Path, name: str) -> None:
    values, published = OLD_FORMATS[name]
    assert parameter_count(read(tmp_path, values)).total == pytest.approx(published, rel=0.02)


def test_alternating_and_five_to_one_windows(tmp_path: Path) -> None:
    gemma2 = read(tmp_path, {**LLAMA, "model_type": "gemma2", "sliding_window": 4096})
    assert [(g.count, g.mixer.window_tokens) for g in gemma2.layers] == [(16, 4096), (16, None)]  # type: ignore[union-attr]
    gemma3 = read(
        tmp_path, {**LLAMA, "model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 26}
    )
    assert [(g.count, g.mixer.window_tokens) for g in gemma3.layers] == [(22, 1024), (4, None)]  # type: ignore[union-attr]


def test_a_window_switched_off_or_as_long_as_the_context_is_no_window(tmp_path: Path) -> None:
    off = read(tmp_path, {**LLAMA, "sliding_window": 4096, "use_sliding_window": False})
    long = read(tmp_path, {**LLAMA, "sliding_window": 32768, "max_position_embeddings": 32768})
    assert kv_bytes_per_token(off).windowed == ()
    assert kv_bytes_per_token(long).windowed == ()


def test_every_second_layer_has_experts_in_jamba(tmp_path: Path) -> None:
    values = {
        **LLAMA,
        "model_type": "jamba",
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_d_state": 16,
        "mamba_expand": 2,
    }
    model = read(tmp_path, values)
    experts = sum(g.count for g in model.layers if g.feed_forward and g.feed_forward.kind == "moe")
    attention = sum(g.count for g in model.layers if g.mixer and g.mixer.kind == "gqa")
    assert (experts, attention) == (16, 4)


def test_attention_and_state_space_side_by_side(tmp_path: Path) -> None:
    values = {
        **LLAMA,
        "model_type": "falcon_h1",
        "mamba_d_ssm": 8192,
        "mamba_n_heads": 128,
        "mamba_d_state": 256,
    }
    model = read(tmp_path, values)
    assert [g.mixer.kind for g in model.layers if g.mixer] == ["mamba2", "gqa"]
    assert [g.count for g in model.layers] == [32, 32]


def test_vision_language_files_give_the_text_tower_and_the_size_of_the_vision_tower() -> None:
    model = model_from_hf_config(CONFIGS / "qwen3.5-397b-a17b.json")
    assert model.vision is not None
    assert model.vision.parameters == pytest.approx(0.45e9, rel=0.1)


def test_diffusion_and_speech_models(tmp_path: Path) -> None:
    flux = {
        "_class_name": "FluxTransformer2DModel",
        "num_layers": 19,
        "num_single_layers": 38,
        "num_attention_heads": 24,
        "attention_head_dim": 128,
        "joint_attention_dim": 4096,
    }
    model = read(tmp_path, flux)
    assert model.workload == "diffusion"
    assert parameter_count(model).total == pytest.approx(11.9e9, rel=0.015)
    assert kv_bytes_per_token(model).full_bytes_per_token == 0.0


def test_a_name_in_the_file_wins_over_the_folder(tmp_path: Path) -> None:
    assert read(tmp_path, {**LLAMA, "_name_or_path": "org/My-Model"}).id == "my-model"


@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"]
)
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    error = refusal(tmp_path, {key: value for key, value in LLAMA.items() if key != field})
    assert field in error.what
    assert "missing" in error.what
    assert error.hint


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"hidden_size": -4096}, "hidden_size"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"vocab_size": 1e12}, "vocab_size"),
        ({"hidden_size": 4096.5}, "hidden_size"),
        ({"intermediate_size": True}, "intermediate_size"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"hidden_size": 4100}, "num_attention_heads"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"layer_types": ["telepathy"] * 32}, "layer_types"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"num_experts": 8}, "num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim"),
        ({"hybrid_override_pattern": "M*E"}, "hybrid_override_pattern"),
        ({"hybrid_override_pattern": "X" * 32}, "hybrid_override_pattern"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config.quant_method"),
    ],
)
def test_absurd_and_contradictory_fields_are_named(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    assert named in refusal(tmp_path, {**LLAMA, **change}).what


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"llama"', "null", "\x00\x01"])
def test_files_that_are_no_config_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError) as raised:
        model_from_hf_config(file)
    assert "config.json" in raised.value.what


def test_missing_files_folders_without_config_and_binary_files_are_refused(tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    weights.write_bytes(b"\xff\xfe\x00\x80")
    for path in (tmp_path / "absent.json", tmp_path, weights):
        with pytest.raises(InputFileError) as raised:
            model_from_hf_config(path)
        assert raised.value.fix


def test_a_nested_field_is_named_with_its_path(tmp_path: Path) -> None:
    text = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    error = refusal(tmp_path, {"model_type": "x_vl", "text_config": text})
    assert "text_config.hidden_size" in error.what
