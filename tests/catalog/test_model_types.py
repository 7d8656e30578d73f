"""Every listed model type is counted against a published size within 2 %, or it is not listed and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.errors import InputFileError
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.schema import Model
from advisor.simulator.graph.model import kv_bytes_per_token, parameter_count

FOLDER = Path(__file__).parent
TYPES = FOLDER.parents[1] / "catalog" / "data" / "model_types.txt"
ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (FOLDER / "configs" / "model_types.jsonl").read_text(encoding="utf-8").splitlines()
]
BY_TYPE = {row["type"]: row for row in ROWS}
"""A config of each type, its size and where that is published. `counts` says what the size counts: all, the language
model alone ("text"), or the prediction layers too ("mtp"). Rows of repositories have the fields of their files."""
ACTIVATIONS = ("hidden_act", "activation_function", "activation", "activation_type", "hidden_activation")


def read(folder: Path, config: dict[str, Any]) -> Model:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return model_from_hf_config(folder)


def test_every_listed_type_has_a_published_size() -> None:
    listed = set(TYPES.read_text(encoding="utf-8").split("\n", 1)[1].split())
    assert listed == BY_TYPE.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["type"])
def test_each_type_has_its_published_size(row: dict[str, Any], tmp_path: Path) -> None:
    count = parameter_count(read(tmp_path, row["config"]))
    total = count.total
    total += 0.0 if row["counts"] == "text" else count.vision
    total += count.mtp if row["counts"] == "mtp" else 0.0
    assert total == pytest.approx(row["parameters"], rel=0.02)


@pytest.mark.parametrize("row", [row for row in ROWS if "silu" not in str(row)], ids=lambda row: row["type"])
def test_the_activation_does_not_decide_what_the_class_of_a_type_fixes(
    row: dict[str, Any], tmp_path: Path
) -> None:
    config = {name: value for name, value in row["config"].items() if name not in ACTIVATIONS}
    assert read(tmp_path, config).layers == read(tmp_path, row["config"]).layers


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("bloom", {"intermediate_size": 4 * 64}),  # as a reader who is asked for the width types it
        ("mpt", {"ffn_config": {"ffn_type": "mptmlp"}}),
        ("falcon", {"multi_query": None}),
        ("gpt_bigcode", {"multi_query": None, "num_key_value_heads": None}),
        ("starcoder2", {"tie_word_embeddings": None}),
        ("mamba", {"tie_word_embeddings": None}),
        ("gemma3_text", {"head_dim": None}),
        ("qwen3", {"head_dim": None}),
        ("gpt_neox", {"hidden_act": None}),
    ],
)
def test_a_field_that_repeats_the_default_of_its_class_changes_nothing(
    name: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    before = read(tmp_path, BY_TYPE[name]["config"])
    after = read(tmp_path, {**BY_TYPE[name]["config"], **fields})
    assert (after.layers, after.tied_embeddings) == (before.layers, before.tied_embeddings)


@pytest.mark.parametrize(
    ("name", "fields", "share"),
    [
        ("mpt", {"attn_config": {"attn_type": "multiquery_attention"}}, 0.84),
        ("mpt", {"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 8}}, 0.88),
        ("mpt", {"expansion_ratio": 2}, 0.68),
        ("mpt", {"ffn_config": {"ffn_type": "mptglu"}}, 1.32),
        ("gpt2", {"attention_head_type": "multiquery"}, 0.90),
    ],
)
def test_what_a_section_of_a_file_states_counts(
    name: str, fields: dict[str, Any], share: float, tmp_path: Path
) -> None:
    before = parameter_count(read(tmp_path, BY_TYPE[name]["config"])).total
    after = parameter_count(read(tmp_path, {**BY_TYPE[name]["config"], **fields})).total
    assert after / before == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model_type": "opt", "word_embed_proj_dim": 512, "ffn_dim": 4096}, "word_embed_proj_dim"),
        ({"intermediate_size": 4096}, "model_type"),
    ],
)
def test_what_would_be_guessed_is_refused_by_its_field(
    fields: dict[str, Any], field: str, tmp_path: Path
) -> None:
    shape = {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 50272}
    with pytest.raises(InputFileError, match=field):
        read(tmp_path, {**shape, **fields})


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("longcat_flash", 27e9),  # arXiv:2509.01322: 18.6 to 31.3 billion, 27 on average
        ("arctic", 17e9),  # Snowflake's model card
        ("hunyuan", 52e9),  # arXiv:2411.02265
    ],
)
def test_active_parameters_are_the_published_ones(name: str, active: float, tmp_path: Path) -> None:
    count = parameter_count(read(tmp_path, BY_TYPE[name]["config"]))
    # Publishers count the input table or not.
    assert count.active * 0.96 - count.embedding <= active <= count.active * 1.02


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("longcat_flash", 2 * 28 * 576 * 2),  # two latent attentions in each of 28 layers
        ("hunyuan", 32 * 2 * 8 * 128 * 2),  # one cache for two of 64 layers
        ("zamba2", 13 * 2 * 32 * 224 * 2),  # each call of a shared block has its own cache
        ("mllama_text_model", 32 * 2 * 8 * 128 * 2),  # layers that attend to images keep none of the text
    ],
)
def test_caches_are_those_of_the_layers_that_keep_one(
    name: str, bytes_per_token: int, tmp_path: Path
) -> None:
    model = read(tmp_path, BY_TYPE[name]["config"])
    assert kv_bytes_per_token(model).full_bytes_per_token == bytes_per_token


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("longcat_flash", "ffn_hidden_size", 1),
        ("longcat_flash", "zero_expert_num", 0),
        ("arctic", "use_residual", False),
        ("hunyuan", "use_cla", False),
        ("zamba2", "num_mem_blocks", 1),
        ("zamba2", "adapter_rank", 8),
        ("falcon_mamba", "time_step_rank", 8),
        ("qwen", "intermediate_size", 11008),
    ],
)
def test_fields_that_say_something_count(name: str, field: str, value: object, tmp_path: Path) -> None:
    config = BY_TYPE[name]["config"]
    before = read(tmp_path, config)
    assert read(tmp_path, {**config, field: value}).layers != before.layers or (
        read(tmp_path, {**config, field: value}).extra_parameters != before.extra_parameters
    )


@pytest.mark.parametrize(
    "name",
    [
        "lfm2",
        "lfm2_moe",
        "recurrent_gemma",
        "minimax_text_01",
        "phi4mm",
        "qwen3_omni_moe",
        "xlstm",
    ],
)
def test_types_whose_layers_are_not_described_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError) as raised:
        read(tmp_path, {**BY_TYPE["llama"]["config"], "model_type": name})
    assert name in raised.value.what
    assert raised.value.fix


@pytest.mark.parametrize("types", [[[["global", "local"], 12]], [["global"]], [[["global", "local"], 1e9]]])
def test_kinds_of_layers_that_do_not_add_up_are_refused(types: list[Any], tmp_path: Path) -> None:
    config = {**BY_TYPE["gpt_neo"]["config"], "attention_types": types}
    with pytest.raises(InputFileError, match="attention_types"):
        read(tmp_path, config)
