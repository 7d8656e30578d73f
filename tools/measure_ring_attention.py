"""Time that PyTorch's context parallelism adds to the attention of a ring's parts, on one CUDA accelerator.

Collectives are faked (torch.testing._internal.distributed.fake_pg), so that what is left is the merging of parts and
the adding of their gradients.

python tools/measure_ring_attention.py PARTS RANK > ring.csv
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.distributed.fake_pg import FakeStore

HEADS = 32
HEAD_DIM = 128
TOKENS = (8192, 16384, 32768)
"""Numbers of tokens of one rank."""
REPEATS = 5
WARM_UPS = 2


def attention_ms(tensors: list[torch.Tensor]) -> tuple[float, float]:
    """Time of forward and backward pass of causal attention [ms], each the median of the repeats."""
    rounds = []
    for _ in range(WARM_UPS + REPEATS):
        for tensor in tensors:
            tensor.requires_grad_()
            tensor.grad = None
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        events[0].record()
        queries, keys, values = tensors
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        events[1].record()
        out.backward(torch.ones_like(out))
        events[2].record()
        torch.cuda.synchronize()
        rounds.append((events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])))
    for tensor in tensors:
        tensor.requires_grad_(False)
    forward, backward = (sorted(times)[REPEATS // 2] for times in zip(*rounds[WARM_UPS:], strict=True))
    return forward, backward


def make_tensors(tokens: int) -> list[torch.Tensor]:
    """Return queries, keys and values of a sequence."""
    return [torch.randn(1, HEADS, tokens, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def main() -> None:
    """Print the time per value of the queries that a ring adds to its parts."""
    parts = int(sys.argv[1])
    dist.init_process_group("fake", rank=int(sys.argv[2]), world_size=parts, store=FakeStore())
    mesh = init_device_mesh("cuda", (parts,))
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("kernel,parts,tokens,forward_ps,backward_ps")
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        for tokens in TOKENS:
            with sdpa_kernel(backend):
                # The first part is causal and the others are halves, so that each takes what the first takes.
                alone = attention_ms(make_tensors(tokens))
                tensors = make_tensors(tokens * parts)
                with context_parallel(mesh, buffers=tensors, buffer_seq_dims=[2] * 3):
                    together = attention_ms(tensors)
            values = tokens * HEADS * HEAD_DIM
            added = [1e9 * (ring - parts * one) / values for ring, one in zip(together, alone, strict=True)]
            print(f"{backend.name},{parts},{tokens},{added[0]:.0f},{added[1]:.0f}", flush=True)


if __name__ == "__main__":
    main()
