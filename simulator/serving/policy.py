"""Scheduler policies: how an engine composes its iterations, independent of hardware."""

import math
from dataclasses import dataclass
from typing import Literal

from advisor.catalog.errors import AdvisorError, whole

SchedulerKind = Literal["mixed", "prefill_first", "static", "single_stream"]
UNLIMITED = 1 << 62
"""Value larger than any number of tokens or blocks."""
_KINDS = ("mixed", "prefill_first", "static", "single_stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPolicy:
    """Rules of continuous (or static) batching of one engine.

    mixed: each iteration decodes every running sequence and fills the rest of its token budget with prompt chunks,
    first come first served (vLLM V1, TensorRT-LLM with chunked context, SGLang with mixed chunks).
    prefill_first: a waiting prompt stops decoding for a pure prefill batch (SGLang's default).
    static: a batch is taken when the engine is empty and runs until its longest member ends, padding the others.
    single_stream: one sequence at a time (llama.cpp without parallel slots).

    Assumes: requests are served in order of arrival, or of their rank where the workload has one; a preempted sequence
    drops its cache, goes back to the head of the queue and recomputes prompt and generated tokens, unless host memory
    keeps its cache. prefix_caching changes nothing where a workload does not say what its prompts have in common.
    Source: scheduler sources of vLLM 0.11 to 0.20, SGLang 0.5 and the TensorRT-LLM documentation; own formulation.
    """

    kind: SchedulerKind = "mixed"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    """Token limit. mixed: tokens of one iteration, decodes included; otherwise: tokens of one prefill batch."""
    chunked_prefill: bool = True
    kv_capacity_blocks: int | None = None
    """Blocks of the cache; None: the cache never runs out."""
    block_tokens: int = 16
    watermark_blocks: int = 0
    """Number of blocks that admission leaves free, unless the engine is empty."""
    reserve_output_fraction: float = 0.0
    """Fraction of each request's output whose blocks must be free when it is admitted: 0 vLLM, 1 TensorRT-LLM's
    guaranteed-no-evict (then nothing is ever preempted)."""
    max_context_tokens: int | None = None
    """Longest request, prompt and output together [tokens]; longer ones are refused. None: no limit."""
    max_sequences_by_state: int | None = None
    """Slots for recurrent state (state-space and linear-attention layers), which limit sequences as max_num_seqs does;
    None: no limit."""
    prefix_caching: bool = False
    overlap_scheduling: bool = False
    """Whether the batch of an iteration is composed while the previous one runs: a request that arrives, or a slot that
    is freed, in the meantime counts one iteration later."""
    api_overhead_ps: int = 0
    """Time per request between the client and the scheduler [ps]: HTTP, tokenizer, detokenizer. Part of TTFT and
    E2E."""
    intake_ps: int = 0
    """Time per request of the one process that takes requests in (HTTP, tokenizer), one after the other [ps]; the part
    of api_overhead_ps for which a request of a closed loop waits if others come at the same time."""
    delivery_ps: int = 0
    """Time per token of the one process that turns tokens into text (detokenizer, HTTP) and serves all sequences one
    after the other [ps]: more tokens per second do not reach the clients. The engine itself does not wait for it."""
    admission_ps: int = 0
    """Host time that each newly admitted request adds to its first iteration [ps]."""
    host_blocks: int = 0
    """Blocks of host memory that keep the cache of preempted sequences, which then continue where they stopped; 0:
    preempted sequences are computed again, and so is one whose cache does not fit any more."""
    copy_out_ps: int = 0
    """Time per block that the iteration after a preemption waits for the copy to host memory [ps]; 0 if blocks are
    copied in the background as they are filled."""
    copy_in_ps: int = 0
    """Time per block that the iteration in which a sequence returns waits for its cache [ps]."""
    preempts_to_admit: bool = False
    """Whether running sequences of a higher rank are preempted to admit a request of a lower one; if not, the rank
    only orders the queue and picks whom a full cache preempts."""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise AdvisorError(
                f"scheduler kind {self.kind!r} is not known", fix=f"one of {', '.join(_KINDS)}"
            )
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_tokens"):
            whole(name, getattr(self, name))
        for name in (
            "watermark_blocks",
            "api_overhead_ps",
            "intake_ps",
            "delivery_ps",
            "admission_ps",
            "host_blocks",
            "copy_out_ps",
            "copy_in_ps",
        ):
            whole(name, getattr(self, name), 0)
        for name in ("kv_capacity_blocks", "max_context_tokens", "max_sequences_by_state"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if not (math.isfinite(self.reserve_output_fraction) and 0.0 <= self.reserve_output_fraction <= 1.0):
            raise AdvisorError(
                f"reserve_output_fraction must lie in 0 to 1, not {self.reserve_output_fraction}"
            )
        if self.kind == "mixed" and self.max_num_batched_tokens < self.num_slots:
            raise AdvisorError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} is below the {self.num_slots} sequences that "
                "may decode in one iteration",
                why="every running sequence takes one token of the budget",
                fix=f"max_num_batched_tokens of at least {self.num_slots}",
            )

    @property
    def num_slots(self) -> int:
        """Number of sequences that may run at once."""
        limit = 1 if self.kind == "single_stream" else self.max_num_seqs
        return limit if self.max_sequences_by_state is None else min(limit, self.max_sequences_by_state)

    @property
    def largest_request_tokens(self) -> int | None:
        """Prompt and output tokens of the largest request that can ever be served; None: no limit.

        The last token that a request generates is never cached, hence the one beyond the cache.
        Assumes: without chunked prefill a preempted request must fit into one iteration when it is recomputed; if
        the whole output is reserved, nothing is preempted.
        """
        limits = [] if self.max_context_tokens is None else [self.max_context_tokens]
        if self.kv_capacity_blocks is not None:
            limits.append(self.kv_capacity_blocks * self.block_tokens + 1)
        if not self.chunked_prefill and self.reserve_output_fraction < 1.0:
            limits.append(self.max_num_batched_tokens + 1)
        return min(limits, default=None)

    @property
    def largest_prompt_tokens(self) -> int | None:
        """Tokens of the largest prompt that one iteration can compute whole, if it must; None: no limit.

        Source: TensorRT-LLM documentation, max_num_tokens without chunked context.
        """
        return None if self.chunked_prefill else self.max_num_batched_tokens


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits that one request must meet to count as good; None: no limit.

    Source: own definition; goodput as in Zhong et al. 2024 (DistServe), arXiv:2401.09670.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def __post_init__(self) -> None:
        limits = (("ttft_s", self.ttft_s), ("tpot_s", self.tpot_s), ("e2e_s", self.e2e_s))
        for name, limit in limits:
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise AdvisorError(f"the objective {name} must be a positive time, not {limit}")
        if all(limit is None for _, limit in limits):
            raise AdvisorError("an objective needs at least one of ttft_s, tpot_s, e2e_s")
