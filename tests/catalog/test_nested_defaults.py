"""Sections of a config.json that leave out what their class has: gemma-3, LLaVA, PaliGemma, Mistral 3 and others."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.hf.nested import _table, with_class_defaults
from advisor.catalog.vision import scheme_of
from advisor.simulator.graph.model import parameter_count

SIGLIP: Final = {
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
CLIP: Final = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "model_type": "clip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
LLAMA: Final = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}


def gemma3(**text: Any) -> dict[str, Any]:
    return {
        "model_type": "gemma3",
        "mm_tokens_per_image": 256,
        "text_config": {"model_type": "gemma3_text", "sliding_window": 1024, **text},
        "vision_config": SIGLIP,
    }


PUBLISHED: Final = {
    "gemma-3-4b-it": (gemma3(hidden_size=2560, intermediate_size=10240, num_hidden_layers=34), 4.30),
    "gemma-3-12b-it": (
        gemma3(
            hidden_size=3840,
            intermediate_size=15360,
            num_attention_heads=16,
            num_hidden_layers=48,
            num_key_value_heads=8,
        ),
        12.2,
    ),
    "gemma-3-27b-it": (
        gemma3(
            head_dim=128,
            hidden_size=5376,
            intermediate_size=21504,
            num_attention_heads=32,
            num_hidden_layers=62,
            num_key_value_heads=16,
        ),
        27.4,
    ),
    "llava-1.5-7b-hf": ({"model_type": "llava", "text_config": LLAMA, "vision_config": CLIP}, 7.06),
    "llava-1.5-13b-hf": (
        {
            "model_type": "llava",
            "text_config": {
                **LLAMA,
                "hidden_size": 5120,
                "intermediate_size": 13824,
                "num_attention_heads": 40,
                "num_hidden_layers": 40,
                "num_key_value_heads": 40,
            },
            "vision_config": CLIP,
        },
        13.35,
    ),
    "llava-v1.6-mistral-7b-hf": (
        {
            "model_type": "llava_next",
            "text_config": {
                "model_type": "mistral",
                "intermediate_size": 14336,
                "max_position_embeddings": 32768,
                "num_key_value_heads": 8,
                "sliding_window": None,
                "vocab_size": 32064,
            },
            "vision_config": CLIP,
        },
        7.57,
    ),
    "paligemma-3b-mix-224": (
        {
            "model_type": "paligemma",
            "hidden_size": 2048,
            "text_config": {
                "hidden_size": 2048,
                "intermediate_size": 16384,
                "model_type": "gemma",
                "num_attention_heads": 8,
                "num_hidden_layers": 18,
                "num_key_value_heads": 1,
                "vocab_size": 257216,
            },
            "vision_config": {name: value for name, value in SIGLIP.items() if name != "image_size"},
        },
        2.92,
    ),
    "pixtral-12b": (
        {
            "model_type": "llava",
            "text_config": {
                "head_dim": 128,
                "hidden_size": 5120,
                "intermediate_size": 14336,
                "model_type": "mistral",
                "num_hidden_layers": 40,
                "num_key_value_heads": 8,
                "sliding_window": None,
                "vocab_size": 131072,
            },
            "vision_config": {"hidden_act": "silu", "model_type": "pixtral", "patch_size": 16},
        },
        12.68,
    ),
    "Mistral-Small-3.1-24B": (
        {
            "model_type": "mistral3",
            "spatial_merge_size": 2,
            "text_config": {
                "head_dim": 128,
                "hidden_size": 5120,
                "intermediate_size": 32768,
                "model_type": "mistral",
                "num_hidden_layers": 40,
                "sliding_window": None,
                "vocab_size": 131072,
            },
            "vision_config": {
                "hidden_act": "silu",
                "image_size": 1540,
                "model_type": "pixtral",
                "patch_size": 14,
            },
        },
        24.01,
    ),
}
"""Fields of published files, as transformers wrote them, and the parameters of their weights [1e9], both from
memory and unverified."""


def read(folder: Path, values: dict[str, Any]) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return model_from_hf_config(path)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_that_leave_out_class_defaults_are_read(tmp_path: Path, name: str) -> None:
    values, billions = PUBLISHED[name]
    model = read(tmp_path, values)
    count = parameter_count(model)
    assert (count.total + count.vision) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_file_with_and_without_the_defaults_is_one_model(tmp_path: Path, name: str) -> None:
    values, _ = PUBLISHED[name]
    whole, _ = with_class_defaults(values)
    bare = {
        section: {
            field: value
            for field, value in entry.items()
            if field == "model_type" or _table("class")[entry["model_type"]].get(field) != value
        }
        if isinstance(entry, dict)
        else entry
        for section, entry in whole.items()
    }
    first = read(tmp_path, whole)
    second = read(tmp_path, bare)
    assert second.model_copy(update={"notes": ""}) == first.model_copy(update={"notes": ""})
    assert not first.notes


SCHEMES: Final = {
    "gemma-3-4b-it": "gemma-3",
    "gemma-3-27b-it": "gemma-3",
    "llava-1.5-7b-hf": "llava-1.5",
    "llava-v1.6-mistral-7b-hf": "llava-next",
    "pixtral-12b": "pixtral",
    "Mistral-Small-3.1-24B": "mistral-small-3.1",
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_file_reads_images_as_its_class_does(tmp_path: Path, name: str) -> None:
    assert scheme_of(read(tmp_path, PUBLISHED[name][0])).id == SCHEMES[name]


@pytest.mark.parametrize(
    ("model_type", "vision", "scheme"),
    [
        ("qwen2_vl", {"embed_dim": 1280, "depth": 32, "hidden_size": 3584}, "qwen2-vl"),
        ("qwen2_5_vl", {"hidden_size": 1280, "depth": 32}, "qwen2.5-vl"),
        ("qwen3_vl", {"hidden_size": 1024, "depth": 24}, "qwen3-vl"),
        ("qwen3_vl", {"hidden_size": 1152, "depth": 27}, "qwen3-vl"),
        ("internvl", {"hidden_size": 1024, "num_hidden_layers": 24}, "internvl"),
        (
            "internvl_chat",
            {"hidden_size": 3200, "num_hidden_layers": 45, "model_type": "intern_vit_6b"},
            "internvl-6b",
        ),
    ],
)
def test_the_class_and_the_width_of_the_tower_say_the_scheme(
    tmp_path: Path, model_type: str, vision: dict[str, Any], scheme: str
) -> None:
    text = {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
    }
    values = {"model_type": model_type, "text_config": text, "vision_config": vision}
    assert scheme_of(read(tmp_path, values)).id == scheme


def test_a_class_without_a_known_scheme_has_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="reads images"):
        scheme_of(read(tmp_path, PUBLISHED["paligemma-3b-mix-224"][0]))


def test_the_note_names_what_the_class_decides_and_nothing_else(tmp_path: Path) -> None:
    values, _ = PUBLISHED["gemma-3-27b-it"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    note = models.get(str(path)).note
    assert "text_config leaves out vocab_size 262208" in note
    assert "gemma3_text" in note
    assert "head_dim" not in note


def test_a_field_that_is_null_in_the_file_is_not_the_default(tmp_path: Path) -> None:
    values, _ = PUBLISHED["pixtral-12b"]
    assert all(group.mixer.window_tokens is None for group in read(tmp_path, values).layers)
    text = {name: value for name, value in values["text_config"].items() if name != "sliding_window"}
    windowed = read(tmp_path, {**values, "text_config": text})
    assert {group.mixer.window_tokens for group in windowed.layers} == {4096}


@pytest.mark.parametrize("change", [{"auto_map": {"AutoConfig": "x.Y"}}, {"model_type": "my_vl"}])
def test_classes_that_are_not_of_the_library_have_no_known_defaults(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    values, _ = PUBLISHED["gemma-3-4b-it"]
    with pytest.raises(InputFileError, match="num_attention_heads"):
        read(tmp_path, {**values, **change})


def test_a_language_model_that_stands_alone_keeps_its_missing_fields_missing(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="hidden_size"):
        read(tmp_path, {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32})
