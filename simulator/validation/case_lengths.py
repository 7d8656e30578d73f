"""Which lengths the requests of a published run had: stated ones, or those of the client that the row points to."""

from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.simulator.serving import FixedLengths, LognormalLengths, UniformLengths
from advisor.simulator.validation.serving_case import ServingCase

_UNIFORM_LOW: Final = 0.8
"""Least part of the nominal length that the usual benchmark client draws, where it is not stated."""
_CONVERSATION_SIGMA: Final = 1.0
"""Spread of the logarithm of conversation lengths where only means were published: 0.7 to 1.1 in the ShareGPT,
Open-Orca and Azure traces."""
_CONVERSATION_TAIL: Final = 4.6
"""Longest over mean length of sampled conversations. Clients drop prompts above 1 024 and pairs above 2 048 tokens, and
samples of MLPerf's Llama-2-70B set end at 1 024: 4.6 times their means of some 220 tokens."""
_CONVERSATION_MOST_TOKENS: Final = 400
"""Mean length up to which a published mean can be that of sampled conversations: their filters allow no more."""
_CONVERSATION_LEAST_OUTPUT: Final = 16
_JITTER_SIGMA: Final = 0.05
"""Spread that keeps equal requests of a closed loop out of step, small against any length effect."""

CaseLengths = FixedLengths | UniformLengths | LognormalLengths


def lengths_of(case: ServingCase) -> CaseLengths:
    """Lengths of a case's requests.

    `mean` says that only means were published. They are those of sampled conversations where they are short. Longer
    ones come from random prompts: SGLang's client draws them from 1 to the nominal length, others send equal ones of
    which some end early.

    Raises: AdvisorError: no tokens in or out.
    Source: sglang bench_serving.py (random-range-ratio 0 by default), vllm bench (range ratio 0; ShareGPT filters).
    """
    isl, osl = case.isl, case.osl
    if isl < 1 or osl < 1:
        raise AdvisorError("isl and osl must be at least 1 token")
    if case.length_dist == "uniform":
        return UniformLengths(isl, osl, case.length_spread or _UNIFORM_LOW)
    if case.length_dist == "lognormal" or (case.length_dist == "mean" and case.length_spread):
        return LognormalLengths(isl, osl, case.length_spread or _CONVERSATION_SIGMA)
    if case.length_dist == "mean":
        return _published_means(case)
    if case.num_requests is None and case.load == "closed":
        # A client whose protocol is not stated sits behind HTTP: answers jitter, and slots do not stay in step.
        return LognormalLengths(isl, osl, _JITTER_SIGMA)
    return FixedLengths(isl, osl)


def mean_share(case: ServingCase) -> float:
    """Mean over nominal length of a case's requests: (1 + low) / 2 where lengths are uniform, else 1.

    Source: definition.
    """
    return (1.0 + (case.length_spread or _UNIFORM_LOW)) / 2.0 if case.length_dist == "uniform" else 1.0


def _published_means(case: ServingCase) -> CaseLengths:
    isl, osl = case.isl, case.osl
    if max(isl, osl) <= _CONVERSATION_MOST_TOKENS and osl >= _CONVERSATION_LEAST_OUTPUT:
        return LognormalLengths(
            isl,
            osl,
            _CONVERSATION_SIGMA,
            max_input_tokens=_longest(isl),
            max_output_tokens=_longest(osl),
        )
    if case.engine == "sglang":
        return UniformLengths(2 * isl, 2 * osl, low_fraction=0.0)
    return LognormalLengths(isl, osl, _JITTER_SIGMA)


def _longest(mean_tokens: int) -> int:
    return max(mean_tokens + 1, round(_CONVERSATION_TAIL * mean_tokens))
