"""Tensors that a layer keeps, against tensors counted in the frameworks themselves
(torch.autograd.graph.saved_tensors_hooks).

Counted with torch 2.13 on layers of hidden size 512, feed-forward size 1024, 8 heads: transformers 4.56 with peft 0.17,
litgpt 0.5 with its LoRA dropout (whose mask of two bytes on processors is one byte on accelerators)."""

from dataclasses import replace
from typing import Any

import pytest

from advisor.catalog import models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import DenseFeedForward, GroupedQueryAttention, LayerGroup, Model
from advisor.simulator.graph.mixers import rwkv7
from advisor.simulator.graph.model import layers_of
from advisor.simulator.training.job import TrainingJob
from advisor.simulator.training.memory.account import (
    kept_layer_bytes,
    quantized_input_bytes,
    style_of,
)
from advisor.simulator.training.memory.formats import formats_of

HIDDEN = 512


def model(kv_heads: int, gated: bool = True) -> Model:
    mixer = GroupedQueryAttention(num_heads=8, num_kv_heads=kv_heads, head_dim=64)
    feed_forward = DenseFeedForward(intermediate_size=2 * HIDDEN, gated=gated)
    layer = LayerGroup(count=2, mixer=mixer, feed_forward=feed_forward)
    return Model(id="m", name="m", hidden_size=HIDDEN, vocab_size=128, tied_embeddings=False, layers=(layer,))


def kept_bytes(kv_heads: int, gated: bool = True, **job: Any) -> float:
    """Bytes per token, layer and hidden value."""
    question = TrainingJob(model(kv_heads, gated), 64, 1, **job)
    formats = formats_of(question)
    found = kept_layer_bytes(layers_of(question.model)[0], question, formats, style_of(question, formats))
    return (found.residual + found.sharded + found.key_value) / HIDDEN


PEFT: dict[str, Any] = {"framework": "peft", "software": "transformers+peft"}
LITGPT: dict[str, Any] = {"framework": "fsdp", "software": "litgpt"}
LORA: dict[str, Any] = {"method": "lora", "lora_rank": 8}


@pytest.mark.parametrize(
    ("kv_heads", "job", "counted"),
    [
        (2, PEFT, 37.1),
        (2, PEFT | LORA, 33.2),
        (2, PEFT | LORA | {"features": frozenset({"adapters_all_linear"})}, 57.5),
        (2, LITGPT, 46.2 - 2.0),  # on processors attention's output is copied once more
        (8, LITGPT, 50.2 - 2.0),
        (2, LITGPT | LORA, 34.9 - 1.0),
        (8, LITGPT | LORA, 40.5 - 1.0),
    ],
)
def test_kept_bytes_are_those_counted_in_the_framework(
    kv_heads: int, job: dict[str, Any], counted: float
) -> None:
    assert kept_bytes(kv_heads, **job) == pytest.approx(counted, rel=0.02)


def test_layer_norm_keeps_its_sixteen_bit_input() -> None:
    """litgpt with LayerNorm and no gate: 28.1 counted, less a copy of attention's output on processors; 2 more where
    both norms of a layer read different tensors."""
    assert kept_bytes(8, gated=False, **LITGPT) == pytest.approx(28.1 - 2.0 + 2.0, rel=0.03)


def test_quantized_inputs_live_with_bitsandbytes_0_42_only() -> None:
    job = TrainingJob(model(8), 64, 1, **(LITGPT | LORA | {"method": "qlora"}))
    held = quantized_input_bytes(layers_of(job.model)[0], job, formats_of(job)) / HIDDEN
    assert held == pytest.approx(2 * (1 + 1 + 2) + 2 * (1 + 1 + 1 + 2))
    other = replace(job, framework="peft", software="transformers+peft")
    assert quantized_input_bytes(layers_of(job.model)[0], other, formats_of(other)) == 0.0


def test_kinds_of_which_nobody_said_what_they_keep_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(rwkv7.Operators, "kept_tensors")
    job = TrainingJob(models.get("rwkv7-2.9b").record, 64, 1)
    with pytest.raises(InfeasibleError, match="rwkv7"):
        kept_layer_bytes(layers_of(job.model)[0], job, formats_of(job), style_of(job, formats_of(job)))
