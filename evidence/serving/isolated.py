"""Loads that run in isolation: one static batch, one stream, the two kinds of iteration on their own."""

from dataclasses import replace

from advisor.catalog.errors import AdvisorError
from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.columns import Factors, Measured, columns_of
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving import ClosedLoop, FixedLengths, ServingResult, Workload, simulate
from advisor.simulator.step_cost import decode_iteration_s, prefill_s

_NOTHING_DRAWN: dict[str, Factors] = {}
"""Empty sampling error: lengths and arrivals are given."""
_BENCH_PROMPT_TOKENS = 512
_BENCH_OUTPUT_TOKENS = 128


def static_batch(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    """Return the columns of a batch of equal requests that an idle engine gets at once and runs to its end.

    Token rates are those of the whole batch: of its prompts, then of what is generated after them. The engine's
    library is called, so nothing is spent on HTTP. What does not fit into the cache waits or is
    preempted, as under any other load.

    Raises: AdvisorError: no batch size, or no tokens.
    Source: own composition; LLM-Inference-Bench (arXiv:2411.00136) measures so.
    """
    if not case.concurrency:
        raise AdvisorError("a static batch needs a concurrency, its size, of at least 1")
    result, prompts = (_burst(case, replica, tokens, seed) for tokens in (case.osl, 1))
    columns = columns_of(result) | {"prefill_tok_s": prompts.input_tokens / prompts.duration_s}
    if case.osl > 1:
        decode_s = result.duration_s - prompts.duration_s
        columns["decode_tok_s"] = (result.output_tokens - prompts.output_tokens) / decode_s
    return columns, _NOTHING_DRAWN


def with_lengths(case: ServingCase) -> ServingCase:
    """Return a case of one client that states no lengths with those of llama-bench's default tests, for which its
    server must have room.

    Source: llama.cpp, tools/llama-bench.
    """
    if case.load != "batch1" or max(case.isl, case.osl):
        return case
    return replace(case, isl=_BENCH_PROMPT_TOKENS, osl=_BENCH_OUTPUT_TOKENS)


def single_stream(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    """Return the columns of one client that waits for its output, with both token rates [tokens/s].

    Rates are those of the engine, latencies those that a client of its server sees. Tokens that are in the cache before
    the test (context_depth) count as a prompt whose time is not measured; a prompt of just that length repeats them.

    Source: own composition.
    """
    if case.isl and case.context_depth and case.isl != case.context_depth:
        seconds = prefill_s(
            replica.surface, case.isl, replica.policy.max_num_batched_tokens, case.context_depth
        )
        return {"prefill_tok_s": case.isl / seconds}, _NOTHING_DRAWN
    alone = replace(case, concurrency=1, isl=max(case.isl, case.context_depth, 1), osl=max(case.osl, 1))
    result = _burst(alone, replica, alone.osl, seed)
    rates = {"decode_tok_s": 1.0 / result.tpot.mean_s} if case.osl > 1 else {}
    if not case.isl:
        return rates, _NOTHING_DRAWN
    rates["prefill_tok_s"] = case.isl / result.ttft.mean_s
    return columns_of(_burst(alone, replica, alone.osl, seed, online=True)) | rates, _NOTHING_DRAWN


def step(case: ServingCase, replica: ReplicaModel, seed: int) -> Measured:
    """TTFT and TPOT of isolated iterations [ms]: the prompts of a whole batch, then one decode step of that batch.

    Raises: AdvisorError: no batch size, or no tokens.
    Source: Patel et al. 2024 (Splitwise), arXiv:2311.18677: so its characterisation measures.
    """
    if not case.concurrency:
        raise AdvisorError("a step needs a concurrency, its batch, of at least 1")
    prompts = _burst(case, replica, 1, seed)
    context_tokens = case.isl + case.osl / 2.0
    seconds = {
        "ttft": prompts.duration_s,
        "tpot": decode_iteration_s(replica.surface, case.concurrency, context_tokens),
    }
    columns = {
        f"{name}_ms_{kind}": value / MILLISECOND_S
        for name, value in seconds.items()
        for kind in ("mean", "p50")
    }
    return columns, _NOTHING_DRAWN


def _burst(
    case: ServingCase, replica: ReplicaModel, output_tokens: int, seed: int, *, online: bool = False
) -> ServingResult:
    """Simulate equal requests that an idle engine gets all at once; `online` adds the costs of its server."""
    if case.isl < 1 or output_tokens < 1:
        raise AdvisorError("isl and osl must be at least 1 token")
    batch = case.concurrency or 1
    workload = Workload(ClosedLoop(batch), FixedLengths(case.isl, output_tokens), batch)
    policy = replica.policy if online else replace(replica.policy, api_overhead_ps=0, intake_ps=0)
    return simulate(replica.surface, policy, workload, seed=seed)
