"""Config files of models without softmax attention and with an encoder; unknown architectures are refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InputFileError
from advisor.catalog.hf import config as hf_config
from advisor.catalog.hf.config import model_from_hf_config
from advisor.catalog.schema import Model
from advisor.catalog.schema.model import GatedLinearAttention
from advisor.simulator.graph.model import parameter_count

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "vocab_size": 128256,
    "intermediate_size": 14336,
    "hidden_act": "silu",
}
RWKV7: dict[str, Any] = {
    "model_type": "rwkv7",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "head_dim": 64,
    "decay_low_rank_dim": 96,
    "a_low_rank_dim": 96,
    "v_low_rank_dim": 64,
    "gate_low_rank_dim": 320,
    "hidden_ratio": 4,
    "vocab_size": 65536,
    "tie_word_embeddings": False,
    "hidden_act": "sqrelu",
}
GLA: dict[str, Any] = {
    "model_type": "gla",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_heads": 4,
    "expand_k": 0.5,
    "expand_v": 1,
    "hidden_ratio": 4,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "hidden_act": "swish",
}
FLAN_T5: dict[str, Any] = {
    "model_type": "t5",
    "d_model": 2048,
    "d_ff": 5120,
    "d_kv": 64,
    "num_heads": 32,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "feed_forward_proj": "gated-gelu",
    "vocab_size": 32128,
    "tie_word_embeddings": False,
    "n_positions": 512,
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
    ("values", "model_id"),
    [(RWKV7, "rwkv7-2.9b"), (GLA, "gla-1.3b"), (FLAN_T5, "flan-t5-xl")],
    ids=lambda v: str(v)[:12],
)
def test_models_without_softmax_attention_and_with_an_encoder_are_read(
    tmp_path: Path, values: dict[str, Any], model_id: str
) -> None:
    model = read(tmp_path, values)
    record = models.by_id(model_id)
    assert model.layers == record.layers
    assert model.tied_embeddings == record.tied_embeddings
    assert parameter_count(model).total == parameter_count(record).total


def test_retention_decays_by_the_head_alone(tmp_path: Path) -> None:
    values = {
        **GLA,
        "model_type": "retnet",
        "num_heads": 8,
        "expand_k": 1.0,
        "expand_v": 2.0,
        "hidden_ratio": 2,
    }
    mixer = read(tmp_path, values).layers[0].mixer
    assert isinstance(mixer, GatedLinearAttention)
    assert (mixer.key_head_dim, mixer.value_head_dim, mixer.decay_rank) == (256, 512, None)


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"decay_low_rank_dim": None}, "decay_low_rank_dim"), ({"head_dim": 100}, "head_dim")],
)
def test_a_broken_rwkv_is_refused_by_its_field(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    assert named in refusal(tmp_path, RWKV7 | changed).what


def test_a_factor_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "expand_k" in refusal(tmp_path, GLA | {"expand_k": "half"}).what
    assert "num_heads" in refusal(tmp_path, GLA | {"num_heads": 3}).what


def test_an_architecture_that_is_not_known_is_refused_with_its_name(tmp_path: Path) -> None:
    error = refusal(tmp_path, LLAMA | {"model_type": "lamma5", "architectures": ["Lamma5ForCausalLM"]})
    assert "lamma5" in error.what
    assert "Lamma5ForCausalLM" in error.what
    assert "llama" in error.hint
    nested = {"model_type": "some_vl", "text_config": LLAMA | {"model_type": "recurrent_gemma"}}
    assert "recurrent_gemma" in refusal(tmp_path, nested).what


def test_every_family_of_the_catalog_is_known() -> None:
    families = {model.family for model in models.all_models() if model.workload in ("decoder", "encoder")}
    # MaxText and GPT-3 have no config files; those of Phi-3 small and Qwen's omni models are refused with their names,
    # their records follow the reports.
    refused = {"phi3small", "qwen2_5_omni", "qwen3_omni_moe"}
    assert families - hf_config.known_types() - {"maxtext", "gpt3"} == refused
