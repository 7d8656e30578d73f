"""Measure one layer of Transformers under PEFT on one GPU, by the difference of two depths: time, host time, memory.

    python tools/measure_tuned_layers.py > layers.jsonl

The passes are a trainer's, without loss and optimizer. With 64 tokens the host decides: each line says how long a plain
operator takes in that process. Weights and tokens are random. Needs peft, transformers and a GPU.
"""

import contextlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import peft
import torch
from measure_tuning import SHAPES
from transformers import AutoConfig, AutoModel

NUM_WARM_UP = 3
NUM_STEPS = 5
NUM_SHORT_STEPS = 30
SHORT_SEQUENCE = 64
MORE_SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-32b": {
        **SHAPES["qwen3-8b"],
        "hidden_size": 5120,
        "num_attention_heads": 64,
        "intermediate_size": 25600,
    },
    "llama-3.1-70b": {
        **SHAPES["llama-3.1-8b"],
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "intermediate_size": 28672,
    },
    "mistral-small-24b": {**SHAPES["mistral-nemo-12b"], "intermediate_size": 32768},
    "olmo-2-7b": {
        **SHAPES["llama-3.1-8b"],
        "model_type": "olmo2",
        "num_key_value_heads": 32,
        "intermediate_size": 11008,
    },
    "qwen3-0.6b": {**SHAPES["qwen3-1.7b"], "hidden_size": 1024, "intermediate_size": 3072},
    "qwen2.5-1.5b": {
        **SHAPES["qwen2.5-0.5b"],
        "hidden_size": 1536,
        "num_attention_heads": 12,
        "intermediate_size": 8960,
    },
}
CASES = (
    ("qwen3-32b", "lora", 16, 2048, 2, False, True),
    ("llama-3.1-70b", "lora", 16, 4096, 1, True, True),
    ("mistral-small-24b", "lora", 32, 2048, 2, False, True),
    ("olmo-2-7b", "lora", 16, 4096, 2, False, True),
    ("qwen3-0.6b", "full", 0, 4096, 8, False, True),
    ("qwen2.5-1.5b", "full", 0, 2048, 8, False, True),
    ("llama-3.1-8b", "lora", 16, 2048, 4, False, False),
    ("olmoe-1b-7b", "lora", 16, 2048, 4, True, True),
    ("llama-3.1-8b", "lora", 16, 4096, 2, False, True),
    ("llama-3.1-8b", "lora", 16, 4096, 2, True, True),
    ("qwen3-0.6b", "lora", 16, SHORT_SEQUENCE, 1, False, True),
    ("llama-3.2-1b", "lora", 16, SHORT_SEQUENCE, 1, False, True),
    ("llama-3.2-1b", "full", 0, SHORT_SEQUENCE, 1, False, True),
)
"""Model, method, rank, sequence, micro-batch, whether layers are recomputed, and whether autocast is on."""


def build(model: str, method: str, rank: int, depth: int, *, recompute: bool) -> Any:
    """Return a model of `depth` layers on the GPU, with adapters where the method has them."""
    shape = {**SHAPES, **MORE_SHAPES}[model] | {"num_hidden_layers": depth, "vocab_size": 1024}
    config = AutoConfig.for_model(shape.pop("model_type"), **shape)
    with torch.device("cuda"):
        net = AutoModel.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    net.config.use_cache = False
    if method != "full":
        net = peft.get_peft_model(
            net, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        )
    if recompute:
        net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        net.enable_input_require_grads()
    return net.train()


def passes(net: Any, tokens: torch.Tensor, *, autocast: bool) -> None:
    """Run a forward and a backward pass."""
    casts = torch.autocast("cuda", dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    with casts:
        out = net(input_ids=tokens).last_hidden_state
    out.backward(torch.ones_like(out))
    net.zero_grad(set_to_none=True)


def measure(case: tuple[Any, ...], depth: int) -> tuple[float, float]:
    """Return the time of both passes through `depth` layers [s] and the peak of allocated memory [GB]."""
    model, method, rank, sequence, micro_batch, recompute, autocast = case
    net = build(model, method, rank, depth, recompute=recompute)
    tokens = torch.randint(0, 1000, (micro_batch, sequence), device="cuda")
    for _ in range(NUM_WARM_UP):
        passes(net, tokens, autocast=autocast)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    found = []
    for _ in range(NUM_SHORT_STEPS if sequence == SHORT_SEQUENCE else NUM_STEPS):
        torch.cuda.synchronize()
        begun_s = time.perf_counter()
        passes(net, tokens, autocast=autocast)
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begun_s)
    return statistics.median(found), torch.cuda.max_memory_allocated() / 1e9


def plain_operator_us(count: int = 5000) -> float:
    """Return the time of a sum of two small tensors on this host [µs]."""
    x = torch.ones(8, device="cuda")
    add: Callable[[], torch.Tensor] = lambda: x + x  # noqa: E731
    for _ in range(200):
        add()
    torch.cuda.synchronize()
    begun_s = time.perf_counter()
    for _ in range(count):
        add()
    found = time.perf_counter() - begun_s
    torch.cuda.synchronize()
    return found / count * 1e6


def main() -> None:
    for case in CASES:
        few, many = (4, 12) if case[3] == SHORT_SEQUENCE or case[1] == "full" else (2, 6)
        short = measure(case, few)
        long = measure(case, many)
        torch.cuda.empty_cache()
        layer_s, layer_gb = ((b - a) / (many - few) for a, b in zip(short, long, strict=True))
        operator_us = plain_operator_us()
        print(
            json.dumps({"case": case, "layer_s": layer_s, "layer_gb": layer_gb, "operator_us": operator_us})
        )


if __name__ == "__main__":
    main()
