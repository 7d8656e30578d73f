"""Training jobs, whatever the layout: model, sequences, number formats, optimizer, method."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from advisor.catalog.schema import Model

Optimizer = Literal["adamw", "adamw_bf16", "adamw_8bit", "adafactor", "lion", "muon", "sgd", "lora_fa"]
"""Optimizer of a job. adamw_bf16 keeps its moments in 16 bits (Megatron's precision-aware optimizer, DeepSeek-V3); lion
has one moment."""
OPTIMIZERS: Final[tuple[Optimizer, ...]] = get_args(Optimizer)

Method = Literal["full", "lora", "qlora", "dora", "ia3"]
"""Parameters that learn: all (pre-training and full fine-tuning), or adapters on frozen weights; of IA3, factors of
keys, values and activations."""
METHODS: Final[tuple[Method, ...]] = get_args(Method)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Training job: one optimizer step to be computed by any plan."""

    model: Model
    sequence_tokens: int
    """Number of tokens of one packed (or padded) sequence."""
    global_batch: int
    """Number of sequences of one optimizer step."""
    compute_dtype: str = "bf16"
    """Format of the matrix multiplications: bf16, fp16, fp8, mxfp8, nvfp4."""
    framework: str = "megatron"
    """Family that sets buffers, launch costs and overlap: megatron, fsdp, deepspeed, torchtitan, maxtext, peft."""
    software: str = ""
    """Name of the framework itself, if known (litgpt, torchtune, InternEvo): it decides the memory habits; empty:
    unknown."""
    framework_version: str = ""
    date: str = ""
    """Date of the software, if its version does not tell: 2024-04, or 2024-04-22."""
    method: Method = "full"
    lora_rank: int = 0
    trainable_parameters: float = 0.0
    """Number of parameters of the adapters, if stated; 0 computes it from the rank."""
    optimizer: Optimizer = "adamw"
    virtual_tokens: int = 0
    """Number of learned tokens in front of every sequence, in addition to its own (prompt tuning)."""
    mean_sequence_tokens: float = 0.0
    """Mean number of real tokens of a padded sequence; 0 if sequences are packed full."""
    features: frozenset[str] = field(default_factory=frozenset)
    """Stated switches: fp32_grad_reduce, fp32_params, unfused_ce, chunked_ce, optim_in_backward, compile, ..."""

    @property
    def computed_tokens(self) -> int:
        """Number of tokens of one packed (or padded) sequence, learned ones included."""
        return self.sequence_tokens + self.virtual_tokens

    @property
    def exchanges_heads(self) -> bool:
        """Whether context-parallel ranks exchange heads for parts of the sequence (Ulysses), as DeepSpeed's do, instead
        of passing keys and values around."""
        return "ulysses_sp" in self.features or self.framework == "deepspeed"

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.sequence_tokens

    @property
    def real_tokens_per_step(self) -> float:
        """Number of tokens of one step, without padding."""
        mean = self.mean_sequence_tokens or self.sequence_tokens
        return self.global_batch * min(mean, self.sequence_tokens)
