"""Other libraries that `advisor kernel --against` can call, and for which kernels: readable without torch."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PeerLibrary:
    """One library that computes what some kernels of this project compute."""

    package: str
    """Distribution that holds it, as pip installs it."""
    kernels: frozenset[str]
    """Names of the kernels that it has; empty for every kernel that torch has an operation for."""

    def has(self, kernel: str) -> bool:
        """Whether the library computes what this kernel computes."""
        return not self.kernels or kernel in self.kernels


PEERS: Final[dict[str, PeerLibrary]] = {
    "torch": PeerLibrary("torch", frozenset()),
    "cudnn": PeerLibrary("torch", frozenset({"attention", "attention_backward"})),
    "fa3": PeerLibrary("vllm", frozenset({"attention", "attention_packed", "decode_attention"})),
    "marlin": PeerLibrary("vllm", frozenset({"w4a16"})),
    "deep-gemm": PeerLibrary("vllm", frozenset({"fp8_block_gemm"})),
    "liger": PeerLibrary(
        "liger-kernel",
        frozenset(
            {
                "rms_norm",
                "rms_norm_backward",
                "layer_norm",
                "layer_norm_backward",
                "softmax",
                "swiglu",
                "swiglu_backward",
                "rope",
            }
        ),
    ),
    "fla": PeerLibrary("flash-linear-attention", frozenset({"gated_delta"})),
    "mamba-ssm": PeerLibrary("mamba-ssm", frozenset({"ssd"})),
}
"""Peers by their name on the command line. FlashAttention 3, Marlin and DeepGEMM come with vLLM's wheel, which holds
them built for Hopper; FlashAttention 3 has no wheel of its own on PyPI."""


def package_of(name: str) -> str:
    """Return the distribution that holds a peer."""
    return PEERS[name].package if name in PEERS else name


def peers_of(kernel: str) -> tuple[str, ...]:
    """Return the names of the peers that a kernel can be measured against."""
    return tuple(name for name, peer in PEERS.items() if peer.has(kernel))
