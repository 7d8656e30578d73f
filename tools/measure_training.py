"""Measure training steps of Llama-shaped models in plain PyTorch: time of each part, tokens/s, peaks of memory.

    python tools/measure_training.py --out steps.jsonl --cases one     (one GPU)
    python tools/measure_training.py --out steps.jsonl --cases many    (two and four GPUs)

Every case runs in fresh processes; the step time is the median of five steps after three that warm up. Weights and
tokens are random; nothing is loaded. Needs torch >= 2.6 and CUDA devices.
"""

import argparse
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measured_cases import append_result, measure_each
from torch import Tensor, nn
from torch.nn import functional

NUM_WARM_UP = 3
NUM_STEPS = 5


@dataclass(frozen=True)
class StepCase:
    """One step: shape of the model, batch, and how it is trained."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int
    micro_batch: int
    num_gpus: int = 1
    sharding: str = "none"
    """none (fp32 weights, bf16 autocast), bf16 (all in bf16), ddp, fsdp (FSDP2, fp32 weights, bf16 gathered)."""
    recompute: str = "none"
    compile: int = 0
    grad_accum: int = 1
    optimizer: str = "adamw"
    loss: str = "plain"
    """plain: fp32 logits and cross entropy; chunked: logits and loss of 1/8 of the tokens at a time."""


L8 = {"hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256}
L1 = {"layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192, "vocab": 128256}
GPT = {"layers": 12, "hidden": 768, "heads": 12, "kv_heads": 12, "ffn": 2048, "vocab": 50304, "seq_len": 1024}
CASES = {
    "one": [
        StepCase(**L1, seq_len=8192, micro_batch=1, sharding="fsdp"),
        StepCase(**L1, seq_len=8192, micro_batch=2, sharding="fsdp"),
        StepCase(**L1, seq_len=8192, micro_batch=4, sharding="fsdp", recompute="full"),
        StepCase(**L1, seq_len=2048, micro_batch=4, sharding="none"),
        StepCase(**L1, seq_len=2048, micro_batch=4, sharding="bf16"),
        StepCase(**L1, seq_len=2048, micro_batch=4, sharding="bf16", loss="chunked"),
        StepCase(**L1, seq_len=2048, micro_batch=1, sharding="bf16", grad_accum=4),
        StepCase(**L8, layers=8, seq_len=8192, micro_batch=1, sharding="fsdp"),
        StepCase(**L8, layers=8, seq_len=8192, micro_batch=1, sharding="fsdp", recompute="full"),
        StepCase(**L8, layers=8, seq_len=2048, micro_batch=4, sharding="fsdp"),
        StepCase(**L8, layers=8, seq_len=32768, micro_batch=1, sharding="fsdp", recompute="full"),
        StepCase(**L8, layers=32, seq_len=4096, micro_batch=1, sharding="bf16", recompute="full"),
        StepCase(**L8, layers=32, seq_len=2048, micro_batch=1, sharding="bf16", optimizer="sgd"),
        StepCase(**GPT, micro_batch=4, sharding="none"),
        StepCase(**GPT, micro_batch=16, sharding="none"),
        StepCase(**GPT, micro_batch=64, sharding="none"),
        StepCase(**GPT, micro_batch=16, sharding="none", compile=1),
        StepCase(**L1, seq_len=2048, micro_batch=4, sharding="none", compile=1),
        StepCase(**L8, layers=8, seq_len=8192, micro_batch=1, sharding="fsdp", compile=1),
    ],
    "many": [
        StepCase(**L8, layers=32, seq_len=8192, micro_batch=1, num_gpus=4, sharding="fsdp", recompute="full"),
        StepCase(**L8, layers=32, seq_len=8192, micro_batch=1, num_gpus=4, sharding="fsdp"),
        StepCase(**L8, layers=32, seq_len=8192, micro_batch=2, num_gpus=4, sharding="fsdp", recompute="full"),
        StepCase(
            **L8,
            layers=32,
            seq_len=8192,
            micro_batch=1,
            num_gpus=4,
            sharding="fsdp",
            recompute="full",
            grad_accum=4,
        ),
        StepCase(
            **L8,
            layers=32,
            seq_len=8192,
            micro_batch=1,
            num_gpus=4,
            sharding="fsdp",
            recompute="full",
            compile=1,
        ),
        StepCase(**L8, layers=32, seq_len=2048, micro_batch=2, num_gpus=4, sharding="fsdp"),
        StepCase(**L1, seq_len=8192, micro_batch=1, num_gpus=4, sharding="fsdp"),
        StepCase(**L1, seq_len=2048, micro_batch=4, num_gpus=4, sharding="ddp"),
        StepCase(**GPT, micro_batch=16, num_gpus=4, sharding="ddp"),
        StepCase(**L1, seq_len=2048, micro_batch=4, num_gpus=2, sharding="fsdp"),
        StepCase(**L1, seq_len=2048, micro_batch=4, num_gpus=2, sharding="ddp"),
    ],
}


class TorchAttention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, c: StepCase) -> None:
        super().__init__()
        self.heads = c.heads
        self.kv_heads = c.kv_heads
        self.dim = c.hidden // c.heads
        self.wq = nn.Linear(c.hidden, c.hidden, bias=False)
        self.wk = nn.Linear(c.hidden, c.kv_heads * self.dim, bias=False)
        self.wv = nn.Linear(c.hidden, c.kv_heads * self.dim, bias=False)
        self.wo = nn.Linear(c.hidden, c.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, s, h = x.shape
        q = self.wq(x).view(b, s, self.heads, self.dim).transpose(1, 2)
        k = self.wk(x).view(b, s, self.kv_heads, self.dim).transpose(1, 2)
        v = self.wv(x).view(b, s, self.kv_heads, self.dim).transpose(1, 2)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads
        )
        return self.wo(out.transpose(1, 2).reshape(b, s, h))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class TorchLayer(nn.Module):
    """Attention and gated feed-forward with RMS norms before them."""

    def __init__(self, c: StepCase) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(c.hidden)
        self.norm2 = nn.RMSNorm(c.hidden)
        self.attention = TorchAttention(c)
        self.w1 = nn.Linear(c.hidden, c.ffn, bias=False)
        self.w3 = nn.Linear(c.hidden, c.ffn, bias=False)
        self.w2 = nn.Linear(c.ffn, c.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))


class Decoder(nn.Module):
    """Embedding, layers, norm and head; returns the loss."""

    def __init__(self, c: StepCase) -> None:
        super().__init__()
        self.case = c
        self.embed = nn.Embedding(c.vocab, c.hidden)
        self.layers = nn.ModuleList(TorchLayer(c) for _ in range(c.layers))
        self.norm = nn.RMSNorm(c.hidden)
        self.head = nn.Linear(c.hidden, c.vocab, bias=False)

    def forward(self, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = self.norm(x)
        if self.case.loss == "chunked":
            parts = zip(x.flatten(0, 1).chunk(8), tokens.flatten().chunk(8), strict=True)
            return sum(functional.cross_entropy(self.head(part).float(), label) for part, label in parts) / 8
        return functional.cross_entropy(self.head(x).float().flatten(0, 1), tokens.flatten())


def build(c: StepCase, device: torch.device) -> nn.Module:
    """The model on its device, sharded and wrapped."""
    with torch.device("meta"):
        model = Decoder(c)
    if c.sharding == "bf16":
        model = model.to(torch.bfloat16)
    if c.recompute == "full":
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer)
    if c.compile:
        for layer in model.layers:
            layer.compile(fullgraph=False)
    if c.sharding == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    if c.sharding == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model


def run(c: StepCase) -> dict[str, object]:
    """Measure one case in this process."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    model = build(c, device)
    if c.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = make_inputs(c, device)
    steps = [step(c, model, optimizer, inputs) for _ in range(NUM_WARM_UP + NUM_STEPS)][NUM_WARM_UP:]
    wall_s, forward_s, passes_s, optimizer_s = (statistics.median(part) for part in zip(*steps, strict=True))
    free, total = torch.cuda.mem_get_info()
    result = {
        **asdict(c),
        "step_time_s": wall_s,
        "forward_s": forward_s,
        "backward_s": passes_s - forward_s if c.grad_accum == 1 else 0.0,
        "optimizer_s": optimizer_s,
        "all_step_times_s": [round(parts[0], 5) for parts in steps],
        "tokens_per_s_per_gpu": c.micro_batch * c.seq_len * c.grad_accum / wall_s,
        "peak_allocated_gb": torch.cuda.max_memory_allocated() / 1e9,
        "peak_reserved_gb": torch.cuda.max_memory_reserved() / 1e9,
        "device_used_gb": (total - free) / 1e9,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
    }
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return result if int(os.environ["RANK"]) == 0 else {}


def make_inputs(c: StepCase, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Random tokens and the rotary tables of their positions."""
    dim = c.hidden // c.heads
    rates = 1e4 ** (-torch.arange(0, dim, 2) / dim)
    angles = torch.outer(torch.arange(c.seq_len), rates).repeat(1, 2).to(device)
    dtype = torch.float32 if c.sharding in ("none", "ddp") else torch.bfloat16
    tokens = torch.randint(c.vocab, (c.micro_batch, c.seq_len), device=device)
    return tokens, angles.cos().to(dtype), angles.sin().to(dtype)


def step(
    c: StepCase, model: nn.Module, optimizer: torch.optim.Optimizer, inputs: tuple[Tensor, Tensor, Tensor]
) -> tuple[float, float, float, float]:
    """One optimizer step: wall time, first forward pass, all passes, optimizer [s]."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
    torch.cuda.synchronize()
    torch.distributed.barrier()
    start = time.perf_counter()
    marks[0].record()
    for i in range(c.grad_accum):
        with torch.autocast("cuda", torch.bfloat16, enabled=c.sharding in ("none", "ddp")):
            loss = model(*inputs)
        if i == 0:
            marks[1].record()
        (loss / c.grad_accum).backward()
    marks[2].record()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    marks[3].record()
    torch.cuda.synchronize()
    wall_s = time.perf_counter() - start
    forward_ms = marks[0].elapsed_time(marks[1])
    passes_ms = marks[0].elapsed_time(marks[2])
    return wall_s, forward_ms / 1e3, passes_ms / 1e3, marks[2].elapsed_time(marks[3]) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", default="one")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", type=int)
    parser.add_argument("--seconds", type=float, default=540.0)
    options = parser.parse_args()
    cases = CASES[options.cases]
    if options.only is not None:
        result = run(cases[options.only])
        if result:
            append_result(options.out, result)
        return
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    own = [__file__, "--cases", options.cases, "--out", str(options.out), "--only"]
    measure_each(
        (
            (
                i,
                [
                    *launcher,
                    *f"--nproc-per-node {case.num_gpus} --master-port {29500 + i}".split(),
                    *own,
                    str(i),
                ],
            )
            for i, case in enumerate(cases)
        ),
        options.seconds,
    )


if __name__ == "__main__":
    main()
