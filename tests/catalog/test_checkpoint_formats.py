"""A checkpoint is what its name and its config say: formats by kind of weights, activations and cache."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.dtypes import gguf_bits, gguf_row_bits
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.files import DATA_DIR, read_csv
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.named_formats import is_quantised
from advisor.catalog.published import served_checkpoint, served_model
from advisor.catalog.schema import Model
from advisor.catalog.units import GIB
from advisor.simulator.deployment import named_deployment
from advisor.simulator.graph.model import (
    dense_dtype,
    dense_weight_bytes,
    expert_weight_bytes,
    layers_of,
    stored_element_bytes,
)
from advisor.simulator.memory import weight_bytes

HIDDEN = 8192
LAYERS = 80
INNER = 28672
VOCAB = 128256
LLAMA_70B: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": INNER,
    "vocab_size": VOCAB,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
ATTENTION = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * 1024)
MLP = LAYERS * 3 * HIDDEN * INNER
TABLE = VOCAB * HIDDEN


def read(folder: Path, quantization: object, **more: object) -> Model:
    file = folder / "config.json"
    file.write_text(json.dumps({**LLAMA_70B, "quantization_config": quantization, **more}), encoding="utf-8")
    return model_from_hf_config(folder)


def stored_bytes(model: Model) -> float:
    """Size of all tensors of a checkpoint without norms, as a safetensors index sums them."""
    layers = sum(
        layer.count
        * (
            dense_weight_bytes(model, layer, model.weights, 1)
            + expert_weight_bytes(model, layer, model.weights)
        )
        for layer in layers_of(model)
    )
    table = model.vocab_size * model.hidden_size
    head = 0.0 if model.tied_embeddings else stored_element_bytes(model, model.weights, "head")
    return layers + table * (stored_element_bytes(model, model.weights, "embedding") + head)


def group(bits: int, kind: str, **more: object) -> dict[str, object]:
    weights = {"num_bits": bits, "type": kind, **more}
    return {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
QUARK_FP8: dict[str, object] = {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {"dtype": "fp8_e4m3"}}
QUARK: dict[str, object] = {"quant_method": "quark", "global_quant_config": QUARK_FP8}
COMPRESSED = {"quant_method": "compressed-tensors", "ignore": ["lm_head"]}
INTS = {"weight_dtype": {"_data": "int4"}, "weight_granularity": {"_data": {"group_size": 32}}}
TORCHAO_MODULES: dict[str, object] = {
    "_default": {"_type": "Int8DynamicActivationIntxWeightConfig", "_data": INTS},
    "model.embed_tokens": {"_type": "IntxWeightOnlyConfig", "_data": {"weight_dtype": {"_data": "int8"}}},
}
# Method, bits of attention, of the MLP, of embedding and of head: from the layout of each format.
METHODS: list[tuple[dict[str, object], float, float, float, float]] = [
    (AWQ, 4 + 20 / 128, 4 + 20 / 128, 16, 16),
    ({**AWQ, "group_size": 32}, 4 + 20 / 32, 4 + 20 / 32, 16, 16),
    ({**AWQ, "modules_to_not_convert": ["self_attn"]}, 16, 4 + 20 / 128, 16, 16),
    ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 8 + 24 / 128, 8 + 24 / 128, 16, 16),
    ({"quant_method": "gptq", "bits": 3, "group_size": 128}, 3 + 19 / 128, 3 + 19 / 128, 16, 16),
    (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*attn.*": {}}},
        16,
        4 + 20 / 128,
        16,
        16,
    ),
    (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True},
        *(4 + 20 / 128,) * 2,
        16,
        4 + 20 / 128,
    ),
    (
        {"quant_method": "auto-round", "bits": 4, "group_size": 128}
        | {
            "extra_config": {
                f"model.layers.{i}.self_attn.{p}_proj": {"bits": 16} for i in range(LAYERS) for p in "qkvo"
            }
        },
        16,
        4 + 20 / 128,
        16,
        16,
    ),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8, 8, 16, 16),
    ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head", "self_attn"]}, 16, 8, 16, 16),
    ({**COMPRESSED, "config_groups": group(8, "float", strategy="channel")}, 8, 8, 16, 16),
    ({**COMPRESSED, "config_groups": group(4, "int", group_size=128, symmetric=True)}, 4.125, 4.125, 16, 16),
    (
        {**COMPRESSED, "format": "nvfp4-pack-quantized", "config_groups": group(4, "float", group_size=16)},
        4.5,
        4.5,
        16,
        16,
    ),
    (
        {**COMPRESSED, "ignore": ["lm_head", "re:.*self_attn.*"], "config_groups": group(8, "float")},
        16,
        8,
        16,
        16,
    ),
    (MODELOPT, 4.5, 4.5, 16, 16),
    ({**MODELOPT, "exclude_modules": ["lm_head", "*self_attn*"]}, 16, 4.5, 16, 16),
    ({**MODELOPT, "ignore": ["lm_head", "model.layers.*.self_attn*"]}, 16, 4.5, 16, 16),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, 8, 16, 16),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, 4.5, 4.5, 16, 16),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5, 4.5, 16, 16),
    (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
        4.127,
        4.127,
        16,
        16,
    ),
    (
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["self_attn"]},
        16,
        8,
        16,
        16,
    ),
    (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}},
        8,
        8,
        16,
        16,
    ),
    (
        {
            "quant_method": "quark",
            "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {}},
        }
        | {"exclude": ["re:.*self_attn.*"]},
        16,
        8,
        16,
        16,
    ),
    (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
        4.5,
        4.5,
        16,
        16,
    ),
    ({"quant_method": "exl3", "bits": 4.0, "head_bits": 6}, 4, 4, 16, 6),
    ({"quant_method": "exl2", "bits": 4.65, "head_bits": 8}, 4.65, 4.65, 16, 8),
    ({"quant_method": "higgs", "bits": 4, "group_size": 256}, 4 + 16 / 256, 4 + 16 / 256, 16, 16),
    ({"quant_method": "quanto", "weights": "int4"}, 4.25, 4.25, 16, 16),
    ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, 4.25, 4.25, 16, 16),
    ({"quant_method": "bitnet"}, 2, 2, 16, 16),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp"}, 4.25, 4.25, 16, 16),
    (
        {
            "quant_method": "torchao",
            "quant_type": "int4_weight_only",
            "quant_type_kwargs": {"group_size": 32},
        },
        *(5, 5, 16, 16),
    ),
    (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "ModuleFqnToConfig", "_data": {}}}}
        | {"quant_type": {"default": {"_data": {"module_fqn_to_config": TORCHAO_MODULES}}}},
        *(5, 5, 8, 16),
    ),
    # A pattern of values or gates means neither queries nor ups, which engines keep in the same matrix.
    (
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "dynamic": {"-:.*v_proj": {}, "-:.*gate.*": {}},
        },
        4 + 20 / 128 + (16 - 4 - 20 / 128) * LAYERS * HIDDEN * 1024 / ATTENTION,
        4 + 20 / 128 + (16 - 4 - 20 / 128) / 3,
        *(16, 16),
    ),
    ({"group_size": 64, "bits": 4, "mode": "affine"}, 4.5, 4.5, 4.5, 4.5),
    ({"group_size": 64, "bits": 6}, 6.5, 6.5, 6.5, 6.5),
]


@pytest.mark.parametrize(("quantization", "attention", "mlp", "table", "head"), METHODS)
def test_any_known_method_gives_the_bytes_of_its_tensors(
    tmp_path: Path, quantization: dict[str, object], attention: float, mlp: float, table: float, head: float
) -> None:
    expected = (ATTENTION * attention + MLP * mlp + TABLE * (table + head)) / 8
    assert stored_bytes(read(tmp_path, quantization)) == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize("vector", [8, 16])
def test_codebooks_count_with_the_indices_of_the_weights(tmp_path: Path, vector: int) -> None:
    aqlm = {"quant_method": "aqlm", "nbits_per_codebook": 16, "num_codebooks": 1, "in_group_size": vector}
    matrices = LAYERS * 7
    books = matrices * 2**16 * vector * 2
    expected = (ATTENTION + MLP) * 16 / vector / 8 + books + 2 * TABLE * 2
    assert stored_bytes(read(tmp_path, aqlm)) == pytest.approx(expected, rel=1e-6)
    own = {"vector_lens": [-1, vector], "num_centroids": [-1, 65536], "num_res_centroids": [-1, 256]}
    layers = {
        f"model.layers.{i}.{module}": own
        for i in range(LAYERS)
        for module in (
            *(f"self_attn.{p}_proj" for p in "qkvo"),
            *(f"mlp.{p}_proj" for p in ("up", "gate", "down")),
        )
    }
    vptq = read(tmp_path, {"quant_method": "vptq", "config_for_layers": layers})
    expected += (ATTENTION + MLP) * 8 / vector / 8 + matrices * 256 * vector * 2
    assert stored_bytes(vptq) == pytest.approx(expected, rel=1e-6)


def test_first_and_last_layer_may_stay_as_they_are(tmp_path: Path) -> None:
    left = [f"model.layers.{layer}.mlp.{name}_proj" for layer in (0, 79) for name in ("gate", "up", "down")]
    whole = read(tmp_path, {"quant_method": "fbgemm_fp8"})
    partly = read(tmp_path, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": left})
    assert stored_bytes(partly) - stored_bytes(whole) == pytest.approx(2 * 3 * HIDDEN * INNER)


@pytest.mark.parametrize(
    ("quantization", "field"),
    [
        ({"quant_method": "spqr"}, "quant_method"),
        ({"quant_method": "aqlm"}, "nbits_per_codebook"),
        (
            {"quant_method": "aqlm", "nbits_per_codebook": 60, "num_codebooks": 1, "in_group_size": 8},
            "nbits_per_codebook",
        ),
        ({"quant_method": "vptq"}, "config_for_layers"),
        (
            {"quant_method": "vptq", "config_for_layers": {"model.layers.0.mlp.up_proj": 1}},
            "config_for_layers",
        ),
        ({"quant_method": "quanto", "weights": "int5"}, "weights"),
        ({"quant_method": "awq", "bits": 40, "group_size": 128}, "bits"),
        ({"quant_method": "modelopt", "quant_algo": "SECRET"}, "quant_algo"),
        ({"quant_method": "modelopt"}, "quant_algo"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers"),
        ({"quant_method": "compressed-tensors", "config_groups": group(5, "float")}, "num_bits"),
        ({"quant_method": "exl3", "bits": 99}, "bits"),
        ({"quant_method": "torchao", "quant_type": "uintx"}, "quant_type"),
    ],
)
def test_what_is_not_known_is_refused_by_its_field(
    tmp_path: Path, quantization: dict[str, object], field: str
) -> None:
    with pytest.raises(InputFileError) as raised:
        read(tmp_path, quantization)
    assert field in raised.value.what


@pytest.mark.parametrize(
    "expression", ["re:(", "re:" + "a" * 5000, "re:(.*)*x", "[", "re:" + ".*" * 40 + "x"]
)
def test_a_broken_pattern_neither_stops_nor_stalls_the_reader(tmp_path: Path, expression: str) -> None:
    assert (
        read(tmp_path, {**COMPRESSED, "ignore": [expression], "config_groups": group(8, "float")}).weights
        == "fp8"
    )


@pytest.mark.parametrize(
    ("quantization", "cache"),
    [
        ({**MODELOPT, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({**MODELOPT, "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                **COMPRESSED,
                "config_groups": group(8, "float"),
                "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            },
            "fp8",
        ),
        ({"quant_method": "modelopt", "quantization": MODELOPT | {"kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({**QUARK, "kv_cache_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}}}, "fp8"),
        (
            QUARK
            | {
                "export": {"kv_cache_group": ["*k_proj", "*v_proj"]},
                "layer_quant_config": {
                    "*k_proj": QUARK_FP8 | {"output_tensors": {"dtype": "fp8_e4m3"}},
                    "*o_proj": QUARK_FP8,
                },
            },
            "fp8",
        ),
        (QUARK, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, None),
        (AWQ, None),
    ],
)
def test_a_declared_cache_format_is_the_format_that_is_priced(
    tmp_path: Path, quantization: dict[str, object], cache: str | None
) -> None:
    model = read(tmp_path, quantization)
    assert model.kv_dtype == cache
    served = named_deployment(str(tmp_path), "h100-sxm", "tensorrt-llm").kv_dtype
    assert served == (cache or "bf16")
    assert named_deployment(str(tmp_path), "h100-sxm", "vllm", kv_dtype="bf16").kv_dtype == "bf16"


def test_the_file_of_modelopt_counts_where_config_json_is_silent(tmp_path: Path) -> None:
    beside = {
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B), encoding="utf-8")
    model = model_from_hf_config(tmp_path)
    assert (model.weights, model.kv_dtype) == ("fp8", "fp8")


def test_only_engines_that_read_the_second_file_follow_its_cache_format(tmp_path: Path) -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    model = read(tmp_path, MODELOPT)
    assert (model.kv_dtype, model.kv_dtype_beside) == (None, "fp8")
    served = {
        engine: named_deployment(str(tmp_path), "b200-sxm", engine).kv_dtype for engine in ("vllm", "sglang")
    }
    assert served == {"vllm": "bf16", "sglang": "fp8"}


def test_weight_only_formats_keep_activations_in_16_bits(tmp_path: Path) -> None:
    read(tmp_path, {**COMPRESSED, "config_groups": group(8, "float")})
    assert named_deployment(str(tmp_path), "h100-sxm").activation_dtype == "bf16"
    inputs = {"num_bits": 8, "type": "float", "dynamic": True}
    read(
        tmp_path,
        {**COMPRESSED, "config_groups": {"g": {**group(8, "float")["group_0"], "input_activations": inputs}}},
    )  # type: ignore[dict-item]
    assert named_deployment(str(tmp_path), "h100-sxm").activation_dtype == "fp8"


@pytest.mark.parametrize(
    ("name", "weights", "cache", "gigabytes"),
    [
        # Sizes by arithmetic on the published shapes and layouts.
        ("Qwen/Qwen3-32B-AWQ", "int4", None, 19.3),
        ("Qwen/Qwen3-32B-FP8", "fp8", None, 34.3),
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8", None, 236.4),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", "int4", None, 16.8),
        ("nvidia/Llama-3.1-405B-Instruct-FP4", "nvfp4", "fp8", 234.3),
        ("nvidia/Gemma-4-31B-IT-NVFP4", "nvfp4", "fp8", 31.5),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "int8", None, 72.7),
        ("cyankiwi/gemma-4-31B-it-AWQ-4bit", "int4", None, 18.1),
        ("unsloth/gemma-4-31B-it-GGUF", "q4_k_m", None, 18.8),
        ("nvidia/DeepSeek-R1-FP4", "nvfp4", "fp8", 396.6),
        ("amd/DeepSeek-R1-0528-MXFP4-Preview", "mxfp4", None, 376.0),
        ("nvidia/Kimi-K2.5-NVFP4", "nvfp4", "fp8", 589.8),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "fp8", None, 72.7),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "fp8", None, 487.2),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "nf4", None, 5.7),
        ("mlx-community/Qwen3-8B-4bit", "int4", None, 4.6),
        ("turboderp/Llama-3.1-70B-Instruct-exl2:4.5bpw", "exl3-4.5bpw", None, 41.4),
        ("bartowski/Meta-Llama-3.1-8B-Instruct-exl2:6_5", "exl3-6.0bpw", None, 7.12),
        # Published with the repositories: 4.1 and 21.9 GB.
        ("ISTA-DASLab/Meta-Llama-3.1-8B-Instruct-AQLM-PV-2Bit-1x16-hf", "int4", None, 4.1),
        ("ISTA-DASLab/Meta-Llama-3-70B-Instruct-AQLM-2Bit-1x16", "int4", None, 21.9),
        ("VPTQ-community/Meta-Llama-3.1-70B-Instruct-v8-k65536-0-woft", "int4", None, 21.9),
        ("mobiuslabsgmbh/Llama-3.1-8b-instruct_4bitgs64_hqq_calib", "int4", None, 6.03),
        ("TheBloke/Llama-2-70B-Chat-GPTQ:gptq-3bit--1g-actorder_True", "int4", None, 26.7),
        ("bartowski/Llama-3.3-70B-Instruct-GGUF:Q6_K_L", "q6_k", None, 58.4),
        ("mradermacher/Qwen3-32B-i1-GGUF:i1-Q4_K_M", "q4_k_m", None, 19.8),
        ("DevQuasar/deepseek-ai.DeepSeek-R1-GGUF:Q4_K_M", "q4_k_m", None, 404.0),
        ("bartowski/Qwen_Qwen3-32B-GGUF:Q4_K_M", "q4_k_m", None, 19.8),
        ("OPEA/Llama-3.3-70B-Instruct-int4-sym-inc", "int4", None, 39.8),
        ("Intel/DeepSeek-R1-0528-int4-asym-AutoRound-awq-inc", "int4", None, 351.5),
        ("ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g", "int4", None, 16.12),
        ("ModelCloud/Llama-3.2-1B-Instruct-gptqmodel-4bit-vortex-v2.5", "int4", None, 1.03),
        ("relaxml/Llama-2-70b-chat-E8P-2Bit", "quip-2bit", None, 18.2),
        ("nm-testing/Llama-3.1-8B-Instruct-KV-FP8-Tensor", "bf16", "fp8", 16.06),
        # Rows of 29,568, 1,152 and 2,880 weights are no whole blocks: wider types take their place (file sizes).
        ("Qwen/Qwen2.5-72B-Instruct-GGUF:q4_k_m", "q4_k_m", None, 47.42),
        ("bartowski/Qwen2.5-72B-Instruct-GGUF:Q6_K", "q6_k", None, 64.3),
        ("ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "q4_k_m", None, 0.806),
        ("bartowski/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M", "q4_k_m", None, 0.398),
        # Experts that are published in mxfp4 stay so in every file.
        ("unsloth/gpt-oss-20b-GGUF:Q4_K_M", "q4_k_m", None, 11.6),
        ("unsloth/gpt-oss-20b-GGUF:Q8_0", "q8_0", None, 12.1),
        ("ggml-org/gpt-oss-20b-GGUF", "mxfp4", None, 12.1),
        ("ggml-org/gpt-oss-120b-GGUF:MXFP4", "mxfp4", None, 63.4),
        # Tables in 16 bits.
        ("google/gemma-3-27b-it-qat-q4_0-gguf", "q4_0", None, 17.2),
        # Dynamic files of 2025 and later.
        ("unsloth/DeepSeek-R1-0528-GGUF:UD-TQ1_0", "iq1_s", None, 162.0),
        ("unsloth/Kimi-K2-Instruct-GGUF:UD-Q2_K_XL", "q2_k", None, 381.0),
        ("unsloth/Qwen3-30B-A3B-GGUF:UD-Q4_K_XL", "q4_k_xl", None, 17.7),
        ("unsloth/DeepSeek-V4-Flash-GGUF:UD-IQ3_XXS", "iq3_xxs", None, 104.2),
        ("Qwen3.6-35B-A3B-UD-IQ3_XXS.gguf", "iq3_xxs", None, 13.2),
        ("unsloth/Qwen3-Coder-Next-GGUF:UD-Q2_K_XL", "q2_k", None, 26.7),
    ],
)
def test_a_quantised_id_is_not_taken_in_the_base_format(
    name: str, weights: str, cache: str | None, gigabytes: float
) -> None:
    found = models.get(name)
    assert (found.record.weights, found.record.kv_dtype, found.record.checkpoint) == (weights, cache, name)
    assert "weights" in found.note
    assert stored_bytes(found.record) / 1e9 == pytest.approx(gigabytes, rel=0.02)


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("x/Qwen3-32B-GGUF:Qwen3-32B-Q8_0-00001-of-00002.gguf", "x/Qwen3-32B-GGUF:Qwen3-32B-Q8_0.gguf"),
        ("https://huggingface.co/Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-AWQ"),
        ("https://hf.co/Qwen/Qwen3-32B-AWQ/tree/main", "Qwen/Qwen3-32B-AWQ"),
        ("huggingface.co/turboderp/Qwen3-32B-exl3/tree/4.0bpw", "turboderp/Qwen3-32B-exl3:4.0bpw"),
        ("turboderp/Qwen3-32B-exl3@4.0bpw", "turboderp/Qwen3-32B-exl3:4.0bpw"),
        (
            "https://huggingface.co/unsloth/Qwen3-32B-GGUF/blob/main/Qwen3-32B-Q5_K_M.gguf?download=true",
            "unsloth/Qwen3-32B-GGUF:Qwen3-32B-Q5_K_M.gguf",
        ),
    ],
)
def test_an_address_of_the_hub_is_the_repository_and_branch_behind_it(typed: str, means: str) -> None:
    assert models.get(typed).record == models.get(means).record
    assert typed in models.get(typed).note


@pytest.mark.parametrize(
    ("tag", "model", "weights"),
    [
        ("llama3.3:70b-instruct-q4_K_M", "llama-3.3-70b", "q4_k_m"),
        ("qwen3:32b", "qwen3-32b", "q4_k_m"),
        ("qwen3:8b-q8_0", "qwen3-8b", "q8_0"),
        ("llama3.1:8b-instruct-fp16", "llama-3.1-8b", "bf16"),
        ("gemma3:27b-it-qat", "gemma-3-27b", "q4_0"),
        ("gpt-oss:120b", "gpt-oss-120b", "mxfp4"),
        ("ollama/llama3.1:8b", "llama-3.1-8b", "q4_k_m"),
        ("ollama.com/library/qwen3:14b", "qwen3-14b", "q4_k_m"),
        ("deepseek-r1:671b", "deepseek-r1", "q4_k_m"),
        ("deepseek-r1:70b", "llama-3.1-70b", "q4_k_m"),
        ("qwen3-coder:480b", "qwen3-coder-480b-a35b", "q4_k_m"),
        ("phi4:14b-q8_0", "phi-4", "q8_0"),
        ("llama3:latest", "llama-3-8b", "q4_0"),
        ("llama3:instruct", "llama-3-8b", "q4_0"),
        ("llama3:70b-text-q5_K_M", "llama-3-70b", "q5_k_m"),
        ("mistral:7b", "mistral-7b-v0.3", "q4_k_m"),
        ("ollama/gemma3", "gemma-3-4b", "q4_k_m"),
        ("https://ollama.com/library/gpt-oss", "gpt-oss-20b", "mxfp4"),
        ("ai/smollm2", "smollm2-1.7b", "q8_0"),
        ("phi4:latest", "phi-4", "q4_k_m"),
    ],
)
def test_a_tag_of_ollama_is_the_file_that_it_loads(tag: str, model: str, weights: str) -> None:
    found = models.get(tag).record
    assert (found.id, found.weights) == (model, weights)
    assert models.get(models.reference(tag, found)).record.weights == weights


def test_every_default_of_ollamas_library_names_one_model() -> None:
    columns = ("name", "tag", "type", "source")
    rows = [row for _, row in read_csv(DATA_DIR / "support" / "ollama_tags.csv", columns)]
    for row in rows:
        assert models.get(f"{row['name']}:latest").record.id in models.all_ids()


@pytest.mark.parametrize("quantised", ["{}-FP8", "x/{}-GGUF:Q4_K_M", "mlx-community/{}-4bit", "x/{}-AWQ"])
@pytest.mark.parametrize("name", ["Kimi-K2-Instruct-0905", "Kimi-K2-Thinking", "Qwen3-30B-A3B-Instruct-2507"])
def test_a_form_of_a_checkpoint_has_the_record_of_that_checkpoint(name: str, quantised: str) -> None:
    """Records whose names differ by their tuning alone, as Kimi K2's, are told apart in every form of their files."""
    publisher = "Qwen" if name.startswith("Qwen") else "moonshotai"
    assert models.get(quantised.format(name)).record.id == models.get(f"{publisher}/{name}").record.id


def test_a_gguf_file_in_16_bits_of_experts_in_mxfp4_is_the_published_checkpoint() -> None:
    file = models.get("unsloth/gpt-oss-20b-GGUF:F16").record
    assert stored_bytes(file) == stored_bytes(models.by_id("gpt-oss-20b"))


def test_layers_that_a_regular_expression_names_have_their_own_width(tmp_path: Path) -> None:
    quantization = {"quant_method": "auto-round", "bits": 4, "group_size": 128}
    for name in (r".*self_attn.*", r"model\.layers\.\d+\.self_attn\..*_proj"):
        model = read(tmp_path, {**quantization, "extra_config": {name: {"bits": 8}}})
        parts = {entry.part: entry.dtype for entry in model.part_formats}
        assert (parts["mixer"], parts["feed_forward"]) == ("int8", "int4")


def test_weights_that_are_quantised_twice_have_the_last_format(tmp_path: Path) -> None:
    twice = {"weight": [{"dtype": "fp8_e4m3"}, {"dtype": "int4", "group_size": -1}], "input_tensors": {}}
    assert read(tmp_path, {"quant_method": "quark", "global_quant_config": twice}).weights == "int4"


def test_a_cache_may_be_quantised_alone(tmp_path: Path) -> None:
    scheme = {"num_bits": 8, "type": "float"}
    model = read(
        tmp_path, {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": scheme}
    )
    assert (model.weights, model.kv_dtype) == ("bf16", "fp8")


@pytest.mark.parametrize("value", ["awq", 4, ["awq"]])
def test_a_quantisation_that_is_no_object_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputFileError, match="quantization_config"):
        read(tmp_path, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["q2_k", "q4_k_m", "q5_k_s", "q6_k", "iq4_xs", "q4_0", "q8_0"])
def test_rows_of_whole_blocks_alone_have_the_width_of_the_mix(dtype: str) -> None:
    shape = models.by_id("llama-3.1-8b")
    for hidden in (4096, 4096 - 32):
        model = shape.model_copy(update={"hidden_size": hidden, "weights": dtype})
        is_wider = gguf_row_bits(dtype, "layers") > 0 and hidden % 256 > 0
        per_weight = stored_element_bytes(model, dtype, "mixer")
        assert (per_weight > gguf_bits(dtype, "layers") / 8) == is_wider


def test_a_checkpoint_that_was_trained_for_four_bits_but_is_not_stored_so_has_16() -> None:
    name = "google/gemma-3-27b-it-qat-int4-unquantized"
    found = models.get(name).record
    plain = models.by_id("gemma-3-27b")
    assert (found.weights, stored_bytes(found)) == ("bf16", stored_bytes(plain))


def test_the_published_405b_in_fp8_has_the_weights_of_its_server_log() -> None:
    run = named_deployment("meta-llama/Llama-3.1-405B-Instruct-FP8", "h100-sxm", tensor_parallel=8)
    assert weight_bytes(run) / GIB == pytest.approx(57.75, rel=0.02)


@pytest.mark.parametrize(
    ("file", "size_gib"),
    # Unsloth, "Run DeepSeek R1 dynamic 1.58-bit" (2025-01-27); 404 GB of Q4_K_M: the tag of ollama's library.
    [("UD-IQ1_S", 131), ("UD-IQ1_M", 158), ("UD-IQ2_XXS", 183), ("UD-Q2_K_XL", 212), ("Q4_K_M", 376.5)],
)
def test_gguf_mixes_have_their_published_sizes(file: str, size_gib: float) -> None:
    model = models.get(f"unsloth/DeepSeek-R1-GGUF:{file}").record
    assert stored_bytes(model) / GIB == pytest.approx(size_gib, rel=0.02)


def test_a_mix_without_a_published_size_follows_the_layers_of_the_measured_model() -> None:
    plain = models.get("deepseek-r1").record.model_copy(update={"weights": "iq1_s"})
    assert stored_bytes(plain) / GIB == pytest.approx(131, rel=0.02)
    llama = models.get("llama-3.1-8b").record.model_copy(update={"weights": "q4_k_m"})
    assert stored_bytes(llama) == pytest.approx(8.03e9 * 4.89 / 8, rel=0.005)
    assert gguf_bits("q8_0", "layers") == gguf_bits("q8_0", "head") == 8.5


@pytest.mark.parametrize(
    "name", ["x/Llama-3.1-8B-Instruct-AQLM-2Bit", "turboderp/Qwen3-8B-exl3", "x/Llama-3.1-8B-HQQ"]
)
def test_a_format_without_a_known_size_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        models.get(name)
    assert name in raised.value.what
    assert raised.value.fix


def test_the_name_of_a_plain_checkpoint_changes_nothing() -> None:
    for name in (
        "meta-llama/Llama-3.1-70B-Instruct",
        "openai/gpt-oss-120b",
        "deepseek-ai/DeepSeek-R1",
        "unsloth/Llama-3.1-8B-BF16",
    ):
        found = models.get(name).record
        record = models.by_id(found.id)
        assert found.model_copy(update={"repository": "", "hf_ids": record.hf_ids}) == record


@pytest.mark.parametrize("name", ["a\x00b/c", "x\x1b[31my", "llama-3.1-8b\n", "\u202eabc"])
def test_names_that_cannot_be_printed_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        models.get(name)
    assert raised.value.what.isprintable()


@pytest.mark.parametrize(
    ("named", "dtype", "served"),
    [
        ("deepseek-ai/DeepSeek-V3.1", "fp8", "deepseek-ai/DeepSeek-V3.1"),
        ("meta-llama/Llama-3.1-8B", "bf16", "meta-llama/Llama-3.1-8B"),
        ("qwen/qwen3-8b-base", "bf16", "Qwen/Qwen3-8B-Base"),
        ("Qwen/Qwen3-8B-Base", "fp8", "Qwen/Qwen3-8B-Base"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "fp8", "Qwen/Qwen3-30B-A3B-Thinking-2507-FP8"),
        (
            "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
            "bf16",
            "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        ),
        ("unsloth/Llama-3.1-8B-BF16", "bf16", "unsloth/Llama-3.1-8B-BF16"),
        ("zai-org/glm-4.5-air-fp8", "fp8", "zai-org/GLM-4.5-Air-FP8"),
    ],
)
def test_the_repository_that_is_named_is_served(named: str, dtype: str, served: str) -> None:
    vllm = engines.by_id("vllm")
    card = accelerators.by_id("h100-sxm")
    assert served_checkpoint(models.get(named).record, vllm, dtype, card).repository == served


def test_every_listed_repository_of_sixteen_bits_serves_itself() -> None:
    vllm = engines.by_id("vllm")
    card = accelerators.by_id("h100-sxm")
    for record in models.all_models():
        for name in record.hf_ids if record.workload == "decoder" and record.weights == "bf16" else ():
            if not is_quantised(name):
                found = models.get(name).record
                assert served_checkpoint(found, vllm, "bf16", card).repository == name


@pytest.mark.parametrize(
    ("name", "model", "gigabytes"),
    [
        # Experts in 4.25 bits, all else in 8.5: the repository's files are 12.1 GB.
        ("mlx-community/gpt-oss-20b-MXFP4-Q8", "gpt-oss-20b", 12.1),
        ("turboderp/Mistral-Large-Instruct-2407-123B-exl2:4.0bpw", "mistral-large-2", 62.1),
        ("kaitchup/QwQ-32B-AutoRoundGPTQ-4bit", "qwq-32b", 19.3),
        ("./models/mixtral-8x7b-instruct-v0.1.Q5_K_M.gguf", "mixtral-8x7b", 32.2),
    ],
)
def test_names_with_sizes_and_two_widths_are_read(name: str, model: str, gigabytes: float) -> None:
    record = models.get(name).record
    assert record.id == model
    assert stored_bytes(record) / 1e9 == pytest.approx(gigabytes, rel=0.03)
    with pytest.raises(UnknownNameError):
        models.get("turboderp/Mistral-Large-Instruct-2407-70B-exl2:4.0bpw")


def test_an_adapter_is_read_as_its_base_and_formats_with_their_shape(tmp_path: Path) -> None:
    adapter = {"base_model_name_or_path": "meta-llama/Llama-3.1-8B-Instruct", "peft_type": "LORA", "r": 16}
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps(adapter), encoding="utf-8")
    for name in (str(tmp_path), str(file)):
        chosen = models.get(name)
        assert chosen.record.id == "llama-3.1-8b"
        assert "own weights are not counted" in chosen.note
    file.write_text(json.dumps({"peft_type": "LORA"}), encoding="utf-8")
    with pytest.raises(InputFileError, match="no base model"):
        models.get(str(tmp_path))
    file.unlink()
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B), encoding="utf-8")
    beside = tmp_path / "hf_quant_config.json"
    beside.write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}), encoding="utf-8")
    assert models.get(str(beside)).record.weights == "fp8"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/models/Qwen3-32B-AWQ", "Qwen3-32B-AWQ"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-32B-AWQ/snapshots/0a1b", "Qwen/Qwen3-32B-AWQ"),
        ("./models/Qwen3-32B-AWQ/", "Qwen3-32B-AWQ"),
        ("/models/Qwen3-32B-AWQ/config.json", "Qwen3-32B-AWQ"),
        ("C:\\models\\Qwen3-32B-AWQ", "Qwen3-32B-AWQ"),
        ("D:\\my models\\Qwen3-32B-AWQ\\config.json", "Qwen3-32B-AWQ"),
        ("Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-AWQ"),
    ],
)
def test_a_path_of_another_machine_names_its_model(path: str, name: str) -> None:
    assert models.name_in_path(path) == name
    assert models.get(name).record.weights == "int4"


@pytest.mark.parametrize("file", ["config.json", "hf_quant_config.json", "params.json"])
@pytest.mark.parametrize("folder", ["C:\\models\\nobody-7x", "\\\\server\\share\\nobody-7x", "C:"])
def test_a_file_of_windows_is_never_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(json.dumps(LLAMA_70B), encoding="utf-8")
    typed = f"{folder}\\{file}"
    with pytest.raises(UnknownNameError, match="no such file") as raised:
        models.get(typed)
    assert typed in raised.value.what


@pytest.mark.parametrize(
    ("model", "accelerator", "dtype"),
    [("deepseek-r1", "mi355x", "mxfp4"), ("deepseek-r1", "b200-sxm", "nvfp4")],
)
def test_a_servers_4_bit_checkpoint_decides_which_parts_have_4_bits(
    model: str, accelerator: str, dtype: str
) -> None:
    served = served_model(
        models.by_id(model), engines.by_id("sglang"), dtype, accelerators.by_id(accelerator)
    )
    assert [dense_dtype(served, dtype, part) for part in ("mixer", "feed_forward", "shared_experts")] == [
        "bf16",
        dtype,
        dtype,
    ]
