"""Names of models as people type and paste them: addresses, spaces, words in another order, forms of what is known."""

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.errors import AdvisorError
from advisor.catalog.named_formats import format_of_name
from advisor.catalog.published import context_limits, served_checkpoint

ADDRESSES = (
    "https://huggingface.co/{}",
    "https://huggingface.co/{}/tree/main",
    "https://huggingface.co/{}?library=vllm",
    "hf.co/{}",
    "https://hf-mirror.com/{}",
    "hf:{}",
    "hf://{}",
    "huggingface://{}",
    "modelscope.cn/models/{}",
    "https://www.modelscope.cn/models/{}/summary",
    "https://www.modelscope.cn/models/{}/files",
    "ms://{}",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-32B-AWQ", "moonshotai/Kimi-K2-Thinking", "unsloth/gpt-oss-20b-GGUF"]
)
def test_an_address_is_the_repository(address: str, name: str) -> None:
    assert models.get(address.format(name)).record == models.get(name).record


@pytest.mark.parametrize(
    "store", ["s3://a-bucket/models", "gs://a", "oci://ghcr.io/a", "pvc://claim", "file:///mnt"]
)
def test_a_folder_of_a_store_is_what_its_name_says(store: str) -> None:
    found = models.get(f"{store}/Qwen3-32B-FP8/").record
    assert (found.id, found.weights) == ("qwen3-32b", "fp8")


def test_a_file_that_a_page_shows_is_the_file() -> None:
    shown = models.get(
        "https://huggingface.co/bartowski/Qwen_Qwen3-14B-GGUF?show_file_info=Qwen_Qwen3-14B-Q6_K.gguf"
    )
    assert shown.record.weights == "q6_k"


def test_words_of_a_name_may_have_spaces_between_them() -> None:
    """A name of people stands for the model of the id, for a newer one of its family or, where several share it, for
    none."""
    for model_id in models.all_ids():
        spaced = model_id.replace("-", " ").title()
        found = models.find(spaced)
        assert found is None or found.id == model_id or found.released > models.by_id(model_id).released


@pytest.mark.parametrize(
    ("typed", "model_id", "weights"),
    [
        ("granite4:small-h", "granite-4.0-h-small", "q4_k_m"),
        ("qwen3-coder:30b", "qwen3-coder-30b-a3b", "q4_k_m"),
        ("deepseek-r1:14b-qwen-distill-q8_0", "qwen2.5-14b", "q8_0"),
        ("ai/qwen3:8B-Q4_K_M", "qwen3-8b", "q4_k_m"),
        ("qwen2.5vl:7b", "qwen2.5-vl-7b", "q4_k_m"),
        ("gpt-oss:20b-cloud", "gpt-oss-20b", "mxfp4"),
        ("Llama 3.3 70B Instruct", "llama-3.3-70b", "bf16"),
        ("Qwen3 32B (AWQ)", "qwen3-32b", "int4"),
        ("mistralai/Magistral-Small-2509", "mistral-small-3.1-24b", "bf16"),
        (
            "mistralai/Devstral-Small-2507_gguf:Devstral-Small-2507-Q4_K_M.gguf",
            "devstral-small-24b",
            "q4_k_m",
        ),
    ],
)
def test_a_name_is_understood_as_typed(typed: str, model_id: str, weights: str) -> None:
    found = models.get(typed).record
    assert (found.id, found.weights) == (model_id, weights)


@pytest.mark.parametrize(
    "form",
    ["{}-AWQ", "{}-FP8-dynamic", "{}-GGUF:Q4_K_M", "{}-quantized.w4a16", "{}-MLX-6bit", "{}-exl3:4.0bpw"],
)
@pytest.mark.parametrize(
    "base",
    ["Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen/Qwen2.5-14B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"],
)
def test_a_form_has_the_window_of_what_was_quantised(form: str, base: str) -> None:
    name = f"someone/{form.format(base.rpartition('/')[2])}"
    of_base = context_limits(models.get(base).record, base)
    repository = name.partition(":")[0]
    assert context_limits(models.get(name).record, repository).native == of_base.native


IK_BLOCK_BYTES = {
    "iq1_kt": 56,
    "iq2_kt": 68,
    "iq2_ks": 70,
    "iq2_k": 76,
    "iq2_kl": 86,
    "iq3_kt": 100,
    "iq3_ks": 102,
    "iq3_k": 110,
    "iq4_kss": 128,
    "iq4_kt": 128,
    "iq4_ks": 136,
    "iq4_k": 144,
    "iq5_ks": 168,
    "iq5_k": 176,
    "iq6_k": 212,
}
"""Bytes of 256 weights. Source: ikawrakow/ik_llama.cpp, ggml/src/ggml-common.h."""


@pytest.mark.parametrize("kind", IK_BLOCK_BYTES)
def test_a_file_of_ik_llama_is_as_wide_as_its_blocks_and_little_more(kind: str) -> None:
    """Files mix in wider types: 2 to 20 % over the blocks, 30 % below 3 bits."""
    from advisor.catalog.dtypes import bytes_per_element

    for name in (kind, f"{kind}_r4", f"smol-{kind}"):
        said = format_of_name(f"ubergarm/Qwen3-30B-A3B-GGUF:{name.upper()}")
        assert said is not None
        ratio = 8 * bytes_per_element(said.dtype) / (IK_BLOCK_BYTES[kind] * 8 / 256)
        assert 0.98 < ratio < 1.35


def test_a_mix_of_two_widths_lies_between_them() -> None:
    def bits(name: str) -> float:
        record = models.get(f"mlx-community/Qwen3-8B-{name}").record
        return sum(part.bits_per_weight for part in record.part_formats) / len(record.part_formats)

    for low, high in ((2, 6), (3, 4), (3, 6), (4, 6)):
        assert bits(f"{low}bit") < bits(f"mixed-{low}-{high}bit") < bits(f"{high}bit")


@pytest.mark.parametrize(
    "file", ["config.json", "README.md", "model-00001-of-00017.safetensors", "tokenizer.json"]
)
def test_the_address_of_a_file_without_weights_names_its_repository(file: str) -> None:
    for repository in ("Qwen/Qwen3-32B-FP8", "unsloth/Qwen3-32B-GGUF"):
        for step in ("blob", "resolve"):
            found = models.get(f"https://huggingface.co/{repository}/{step}/main/{file}").record
            assert (found.id, found.weights) == ("qwen3-32b", models.get(repository).record.weights)


@pytest.mark.parametrize("quant", ["Q8_0", "q5_k_m", "IQ4_XS"])
def test_the_type_behind_a_colon_counts_with_and_without_an_organisation(quant: str) -> None:
    for name in ("Qwen3-VL-8B-Instruct-GGUF", "unsloth/Qwen3-VL-8B-Instruct-GGUF"):
        assert models.get(f"{name}:{quant}").record.weights == quant.lower()


@pytest.mark.parametrize(
    "path",
    [
        r"C:\models\{}",
        r"D:\lm-studio\models\bartowski\{}",
        "C:/models/{}",
        "~/.cache/huggingface/hub/models--a--{}/snapshots/0a1b",
        "/root/.cache/huggingface/hub/models--a--{}",
    ],
)
def test_a_path_of_another_machine_is_the_model_that_it_names(path: str) -> None:
    for name in ("Qwen3-32B-AWQ", "gpt-oss-20b", "Qwen3-14B-Q6_K.gguf"):
        if "models--" in path and name.endswith(".gguf"):
            continue
        found = models.get(path.format(name))
        alone = models.get(name).record
        assert (found.record.id, found.record.weights) == (alone.id, alone.weights)
        assert "not on this machine" in found.note


def test_a_recurrent_model_has_gguf_files_like_any_other() -> None:
    for model in models.all_models():
        kinds = {group.mixer.kind for group in model.layers if group.mixer}
        if model.workload != "decoder" or not kinds or kinds & {"gqa", "mla"}:
            continue
        for kind in ("Q4_K_M", "Q8_0"):
            found = models.get(f"{model.id}-{kind}.gguf").record
            assert (found.id, found.weights) == (model.id, kind.lower())


@pytest.mark.parametrize(
    ("typed", "model_id", "weights"),
    [
        ("rwkv7-g1-2.9b-20250519-ctx4096-Q4_K_M.gguf", "rwkv7-2.9b", "q4_k_m"),
        ("rwkv7-g1a-0.4b-Q8_0.gguf", "rwkv7-0.4b", "q8_0"),
        ("mamba-1.4b-hf-Q6_K.gguf", "mamba-1.4b", "q6_k"),
        ("OpenGVLab/InternVL3_5-38B-AWQ", "internvl3.5-38b", "int4"),
        ("OpenGVLab/InternVL3-78B-Instruct", "internvl3-78b", "bf16"),
    ],
)
def test_names_of_recurrent_vision_and_ternary_models(typed: str, model_id: str, weights: str) -> None:
    found = models.get(typed).record
    assert (found.id, found.weights) == (model_id, weights)
    assert weights == "int4" or not any(part.bits_per_weight == 2.0 for part in found.part_formats)


@pytest.mark.parametrize("model_id", ["kimi-k2.5", "kimi-k2-thinking"])
def test_a_name_that_states_another_format_keeps_no_part_of_the_published_one(model_id: str) -> None:
    assert models.by_id(model_id).part_formats
    assert not models.get(f"a/{model_id}-BF16").record.part_formats


def started_repository(name: str) -> str:
    record = models.get(name).record
    found = served_checkpoint(record, engines.by_id("vllm"), record.weights, accelerators.by_id("b200-sxm"))
    return found.repository


def test_the_name_of_a_repository_starts_it_without_its_organisation() -> None:
    """The id of a record alone leaves the choice of a tuning."""
    for model in models.all_models():
        if model.workload != "decoder":
            continue
        for repository in model.hf_ids:
            tail = repository.rpartition("/")[2].casefold()
            try:
                is_model = models.get(tail).record.id == model.id and tail != model.id
            except AdvisorError:
                continue
            started = started_repository(tail).partition(":")[0]
            assert "/" in started
            if is_model and format_of_name(tail) is None:
                assert started.rpartition("/")[2].casefold() == tail


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("mistral-small-3.2-24b", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
        ("qwen3-4b-thinking-2507", "Qwen/Qwen3-4B-Thinking-2507"),
        ("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1"),
        ("deepseek-r1-32b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
        ("kimi-k2.6", "moonshotai/Kimi-K2.6"),
        ("qwen3-8b-awq", "Qwen/Qwen3-8B-AWQ"),
        ("llama-3.1-8b-instruct-awq", "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"),
        ("mixtral-8x7b-gptq", "TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ"),
        ("llama-3.3-70b-nvfp4", "nvidia/Llama-3.3-70B-Instruct-FP4"),
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        ("70b", "meta-llama/Llama-3.1-70B-Instruct"),
    ],
)
def test_a_name_without_organisation_starts_what_it_names(name: str, repository: str) -> None:
    assert started_repository(name) == repository


@pytest.mark.parametrize("form", ["awq", "gptq", "fp8", "nvfp4", "w4a16", "q4_k_m"])
def test_no_start_names_a_repository_without_organisation(form: str) -> None:
    for name in ("qwen3-14b", "llama-3.1-70b-instruct", "phi-4", "gemma-3-27b-it", "olmo-2-13b"):
        record = models.get(f"{name}-{form}").record
        for engine in ("vllm", "llama.cpp"):
            served = served_checkpoint(
                record, engines.by_id(engine), record.weights, accelerators.by_id("h100-sxm")
            )
            assert "/" in served.repository
