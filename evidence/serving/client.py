"""Client of a published run: number, lengths and prompts of its requests."""

from typing import Final

import numpy as np

from advisor.catalog import engines
from advisor.catalog.errors import AdvisorError
from advisor.evidence.serving.case import BATCHES, ServingCase
from advisor.evidence.serving.scripts import BenchmarkRecipe
from advisor.simulator.serving import (
    ClosedLoop,
    FixedLengths,
    LognormalLengths,
    UniformLengths,
    Workload,
)
from advisor.simulator.serving.content import ROOT, Contents, ContentTree, SharedPrefixes
from advisor.simulator.serving.lengths import context_spread

_UNIFORM_LOW: Final = 0.8
"""Shortest length over the nominal one that the usual benchmark client draws, if the row does not state it."""
_CONVERSATION_SIGMA: Final = 1.0
"""Spread of the logarithm of conversation lengths if only means were published: 0.7 to 1.1 for the prompts of the
ShareGPT, Open-Orca and Azure traces."""
_ANSWER_SIGMA: Final = 1.5
"""Spread of the logarithm of ShareGPT's outputs; the constant below is their greatest length. Both are fitted to
offline runs of groups whose runs with other lengths are predicted within some percent. The spread sets the mean time
per token of requests, as short requests wait for the prompts of others; the longest output sets how long the end of a
run takes."""
_CONVERSATION_MOST_ANSWER: Final = 1500
_CONVERSATION_MOST_PROMPT: Final = 1024
"""Longest prompt that the usual client keeps [tokens]; it also drops pairs of prompt and output above 2 048 tokens."""
_CONVERSATION_MOST_MEAN_ANSWER: Final = 260
"""Mean output up to which no output exceeds those limits [tokens]: ShareGPT's have a mean of 190 to 220, whether or
not a client drops long prompts. Five runs of 100 clients with SGLang's client, which drops none (302 tokens in, 188
out), keep 85 to 93 clients busy until the end; with outputs of up to 4 096 tokens it would be 60."""
_LONG_MOST_ANSWER: Final = 4096
"""Longest output of conversations with a longer mean [tokens], from the end of published runs."""
_SHORT_MEAN: Final = 400
"""Mean length up to which a published mean can be that of sampled conversations [tokens]."""
_CONVERSATION_LEAST_OUTPUT: Final = 16
_ROUND_TOKENS: Final = 1000
"""Granularity of nominal lengths [tokens]: a mean prompt of whole thousands is a nominal length that was met to the
token, not the mean of drawn ones."""
JITTER_SIGMA: Final = 0.05
"""Spread that keeps equal requests of a closed loop out of step, small against any length effect."""

_NO_SPREAD: Final = 1e-9
REQUESTS_PER_CLIENT: Final = 10
"""Number of requests per concurrent client that the usual benchmark client sends."""

CaseLengths = FixedLengths | UniformLengths | LognormalLengths


def lengths_of(case: ServingCase) -> CaseLengths:
    """Return the lengths of a case's requests.

    Beginnings that prompts share come on top, see shared_prefixes.

    `mean` says that only means were published. They are those of sampled conversations where they are short. Longer
    ones come from random prompts: SGLang's client draws them from 1 to the nominal length, others send equal ones of
    which some end early.

    Raises: AdvisorError: no tokens in or out.
    Source: sglang bench_serving.py (random-range-ratio 0 by default), vllm bench (range ratio 0; ShareGPT filters).
    """
    isl = case.isl - case.shared_prefix_tokens
    osl = case.osl
    if isl < 1 or osl < 1:
        raise AdvisorError("isl and osl must be at least 1 token")
    if case.length_dist == "uniform":
        return UniformLengths(isl, osl, case.length_spread or _UNIFORM_LOW)
    if case.length_dist == "lognormal" or (case.length_dist == "mean" and case.length_spread):
        return LognormalLengths(isl, osl, case.length_spread or _CONVERSATION_SIGMA, *(case.longest or ()))
    if case.length_dist == "mean":
        return _published_means(case)
    if case.num_requests is None and case.load == "closed" and not _stays_in_step(case):
        # A client whose protocol is not stated uses HTTP: outputs jitter, and slots do not stay in step.
        return LognormalLengths(isl, osl, JITTER_SIGMA)
    return FixedLengths(isl, osl)


def spread_of_contexts(case: ServingCase) -> float:
    """Standard deviation over mean of the contexts that decode together; 0 if all are in step.

    Raises: AdvisorError: no tokens in or out.
    """
    if case.load in BATCHES:
        return 0.0
    return context_spread(lengths_of(case), case.shared_prefix_tokens)


def _stays_in_step(case: ServingCase) -> bool:
    """Whether streams of equal outputs that began together end together, although clients pause between two requests.
    If decoding waits until all prompts are computed, a request that comes in the meantime joins the others. 5 to 50 ms
    between two requests change a mean TTFT of SGLang by a percent."""
    return case.lengths_stated and engines.get(case.engine).record.scheduler == "prefill_first"


def mean_share(case: ServingCase) -> float:
    """Mean over nominal length of a case's requests: (1 + low) / 2 if lengths are uniform, else 1."""
    return (1.0 + (case.length_spread or _UNIFORM_LOW)) / 2.0 if case.length_dist == "uniform" else 1.0


def shared_prefixes(case: ServingCase) -> SharedPrefixes | None:
    """Return the prefixes that a case's prompts share; None if all prompts differ.

    Assumes: each is as likely as the others, as the usual clients draw them.
    Source: vllm bench serve (prefix_repetition), sglang bench_serving.py (generated-shared-prefix).
    """
    if not case.shared_prefix_tokens:
        return None
    return SharedPrefixes(case.shared_prefix_tokens, case.num_prefixes)


def _published_means(case: ServingCase) -> CaseLengths:
    isl = case.isl
    osl = case.osl
    if max(isl, osl) <= _SHORT_MEAN and osl >= _CONVERSATION_LEAST_OUTPUT:
        usual = osl <= _CONVERSATION_MOST_MEAN_ANSWER
        return LognormalLengths(
            isl,
            osl,
            _CONVERSATION_SIGMA,
            max_input_tokens=_CONVERSATION_MOST_PROMPT,
            max_output_tokens=_CONVERSATION_MOST_ANSWER if usual else _LONG_MOST_ANSWER,
            output_sigma=_ANSWER_SIGMA,
        )
    if case.engine == "sglang" and isl % _ROUND_TOKENS:
        return UniformLengths(2 * isl, 2 * osl, low_fraction=0.0)
    return LognormalLengths(isl, osl, JITTER_SIGMA)


def closed_workload(case: ServingCase, recipe: BenchmarkRecipe | None, seed: int) -> Workload:
    """Return the workload of a closed loop, as the client of a known script sends it or as the usual client does.

    Raises: AdvisorError: no tokens in or out.
    Source: the benchmarks' own clients, see evidence/data/recipes.toml.
    """
    num_requests = _num_requests(case, recipe)
    clients = ClosedLoop(case.concurrency or 1)
    chosen = client_lengths(case, recipe) or closed_loop_lengths(case)
    if recipe is None or not recipe.distinct_prompts or case.shared_prefix_tokens:
        return Workload(clients, chosen, num_requests, shared_prefixes(case))
    prompts = repeated_prompts(case, recipe.distinct_prompts, num_requests, seed)
    return Workload(clients, chosen, num_requests, prompts)


def _num_requests(case: ServingCase, recipe: BenchmarkRecipe | None) -> int:
    """Number of requests of a closed loop: as stated, as its benchmark sends, or else a usual number per client."""
    if case.num_requests is None and recipe is not None and recipe.num_requests:
        return recipe.num_requests
    per_client = recipe.requests_per_client if recipe is not None else None
    clients = case.concurrency or 1
    return max(case.num_requests or (per_client or REQUESTS_PER_CLIENT) * clients, clients)


def client_lengths(case: ServingCase, recipe: BenchmarkRecipe | None) -> CaseLengths | None:
    """Return the lengths for a client that asks for equal ones and whose step with others is known; None if it is not.

    Assumes: what puts clients out of step (HTTP, tokenizer, the client's own processes) happens once per request, so
    that it is a number of decode steps, not a share of the answer; no more than the usual jitter of short answers.
    Source: evidence/data/recipes.toml, jitter_tokens, chosen on mean TTFT of runs with answers of 100 to 2 000 tokens
    under vLLM and SGLang.
    """
    if case.shared_prefix_tokens:
        return None
    if recipe is not None and recipe.equal_lengths:
        return FixedLengths(case.isl, case.osl)
    if recipe is None or recipe.jitter_tokens is None or case.length_dist != "fixed":
        return None
    sigma = min(JITTER_SIGMA, recipe.jitter_tokens / max(1, case.osl))
    return LognormalLengths(case.isl, case.osl, _NO_SPREAD, output_sigma=sigma)


def repeated_prompts(case: ServingCase, distinct_prompts: int, num_requests: int, seed: int) -> Contents:
    """Return the contents of a client that sends a few prompts repeatedly, each pass in another order.

    Source: aiperf, whose clients shuffle the prompts that they have made.
    """
    tree = ContentTree()
    prompts = [tree.add(ROOT, case.isl) for _ in range(distinct_prompts)]
    rng = np.random.default_rng(seed)
    order: list[int] = []
    while len(order) < num_requests:
        order += rng.permutation(prompts).tolist()
    return Contents(tree, order[:num_requests])


def closed_loop_lengths(case: ServingCase) -> CaseLengths:
    """Return the lengths of a closed loop's requests; a client on the owner's machine keeps its slots in step.

    Equal prompts that were sent together end together, and the next ones wait for each other: no network and no
    other user puts them out of step.

    Raises: AdvisorError: no tokens in or out.
    Source: own assumption; the median TTFT that an owner measured grows with the clients as bursts make it.
    """
    found = lengths_of(case)
    if case.power_cap_w is None or case.length_dist != "fixed":
        return found
    return FixedLengths(case.isl - case.shared_prefix_tokens, case.osl)
