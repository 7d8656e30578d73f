"""Headers of GGUF files: shape and storage are those of the tensors, whatever the file is called."""

import struct
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.gguf import read_header
from advisor.catalog.schema import Model

Q4_K = 12
Q6_K = 14
Q8_0 = 8
F32 = 0
SHAPE = {
    "embedding_length": 2048,
    "block_count": 4,
    "feed_forward_length": 8192,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
    "attention.key_length": 64,
    "context_length": 32768,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def pair(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(name) + struct.pack("<II", 4, value)


def header(metadata: dict[str, Any], tensors: list[tuple[str, tuple[int, ...], int]]) -> bytes:
    found = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    found += b"".join(pair(name, value) for name, value in metadata.items())
    for name, shape, kind in tensors:
        found += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    return found


def file_of(
    architecture: str, shape: dict[str, int], *, tied: bool = False, body: int = Q4_K, **general: Any
) -> bytes:
    metadata = {
        "general.architecture": architecture,
        **{f"general.{key}": value for key, value in general.items()},
    }
    metadata |= {f"{architecture}.{key}": value for key, value in shape.items()}
    metadata["tokenizer.ggml.tokens"] = ["a", "b"]
    hidden = shape["embedding_length"]
    tensors: list[tuple[str, tuple[int, ...], int]] = [("token_embd.weight", (hidden, 32000), Q4_K)]
    tensors += [] if tied else [("output.weight", (hidden, 32000), Q6_K)]
    for layer in range(shape["block_count"]):
        tensors += [
            (f"blk.{layer}.attn_q.weight", (hidden, hidden), body),
            (f"blk.{layer}.attn_norm.weight", (hidden,), F32),
            (f"blk.{layer}.ffn_down.weight", (shape["feed_forward_length"], hidden), Q6_K),
            (f"blk.{layer}.ffn_up.weight", (hidden, shape["feed_forward_length"]), body),
        ]
    return header(metadata, tensors)


MIXTURE = (
    "expert_count expert_used_count expert_feed_forward_length expert_shared_count leading_dense_block_count"
)
LATENT = "attention.kv_lora_rank rope.dimension_count attention.key_length attention.value_length"


def keys(names: str, *values: int) -> dict[str, int]:
    return dict(zip(names.split(), values, strict=True))


def shapes_of(model: Model) -> list[str]:
    return sorted(map(str, model.layers))


@pytest.mark.parametrize(
    ("model", "architecture", "shape", "more"),
    [
        ("gemma-2-9b", "gemma2", (3584, 42, 14336, 16, 8, 256), keys("attention.sliding_window", 4096)),
        ("gemma-3-27b", "gemma3", (5376, 62, 21504, 32, 16, 128), keys("attention.sliding_window", 1024)),
        (
            "gpt-oss-20b",
            "gpt-oss",
            (2880, 24, 2880, 64, 8, 64),
            keys("attention.sliding_window", 128) | keys(MIXTURE, 32, 4, 2880, 0, 0),
        ),
        (
            "glm-4.5-air",
            "glm4moe",
            (4096, 47, 10944, 96, 8, 128),
            keys(MIXTURE, 128, 8, 1408, 1, 1) | keys("nextn_predict_layers", 1),
        ),
        (
            "deepseek-v3",
            "deepseek2",
            (7168, 61, 18432, 128, 1, 576),
            keys(MIXTURE, 256, 8, 2048, 1, 3)
            | keys("expert_group_count expert_group_used_count", 8, 4)
            | keys(LATENT, 512, 64, 576, 512)
            | keys(
                "attention.q_lora_rank attention.key_length_mla attention.value_length_mla", 1536, 192, 128
            ),
        ),
        (
            "deepseek-v2-lite",
            "deepseek2",
            (2048, 27, 10944, 16, 16, 192),
            keys(MIXTURE, 64, 6, 1408, 2, 1) | keys(LATENT, 512, 64, 192, 128),
        ),
    ],
)
def test_windows_latent_attention_and_dense_layers_are_those_of_the_model(
    model: str, architecture: str, shape: tuple[int, ...], more: dict[str, int], tmp_path: Path
) -> None:
    file = tmp_path / "mine.gguf"
    stated = dict(zip(SHAPE, (*shape, 32768), strict=True)) | more
    file.write_bytes(file_of(architecture, stated, name="A model of my own"))
    known = models.get(model).record
    found = models.get(str(file)).record
    assert shapes_of(found) == shapes_of(known)
    assert (
        found.mtp_layers == known.mtp_layers or architecture == "deepseek2"
    )  # converters leave that module out


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "phi3"])
def test_a_file_of_any_name_has_the_shape_and_widths_of_its_header(architecture: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(file_of(architecture, SHAPE, file_type=15))
    record = models.get(str(file)).record
    assert (record.hidden_size, record.vocab_size, record.weights) == (2048, 32000, "q4_k_m")
    assert sum(group.count for group in record.layers) == 4
    widths = {part.part: part.bits_per_weight for part in record.part_formats}
    assert widths == {
        "embedding": 4.5,
        "head": 6.5625,
        "mixer": 4.5,
        "feed_forward": pytest.approx((4.5 + 6.5625) / 2),
    }
    assert not record.tied_embeddings


def test_tensors_count_before_what_the_file_calls_its_mix(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(file_of("llama", SHAPE, tied=True, body=Q8_0))
    record = models.get(str(file)).record
    assert record.tied_embeddings
    assert {part.part: part.bits_per_weight for part in record.part_formats}["mixer"] == 8.5


def test_a_file_that_names_a_known_model_of_its_shape_is_that_model(tmp_path: Path) -> None:
    known = models.by_id("qwen3-8b")
    shape = SHAPE | {"embedding_length": known.hidden_size, "block_count": 36}
    file = tmp_path / ("sha256-" + "0" * 64)
    file.write_bytes(file_of("qwen3", shape, name="Qwen3 8B", file_type=15))
    assert models.get(str(file)).record.id == "qwen3-8b"
    file.write_bytes(file_of("qwen3", SHAPE, name="Qwen3 8B", file_type=15))
    assert models.get(str(file)).record.id != "qwen3-8b"


def test_the_name_counts_where_the_header_does_not_say_all(tmp_path: Path) -> None:
    file = tmp_path / "Qwen3-8B-Q4_K_M.gguf"
    for content in (b"", b"text", file_of("anything", SHAPE)):
        file.write_bytes(content)
        assert models.get(str(file)).record.id == "qwen3-8b"


@pytest.mark.parametrize("end", [10, 24, 60, 200, 400])
def test_a_cut_header_is_refused(end: int, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(file_of("llama", SHAPE)[:end])
    with pytest.raises(InputFileError, match="damaged"):
        read_header(file)


def test_absurd_counts_are_refused_without_work(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    for content in (
        struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 1),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q", 2**62),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 2**40),
        struct.pack("<4sIQQ", b"GGUF", 1, 0, 0),
    ):
        file.write_bytes(content)
        with pytest.raises(InputFileError):
            read_header(file)
