"""Which lengths the requests of a published run had: stated ones, or those of the client that the row points to."""

from typing import Final

from advisor.catalog.errors import AdvisorError
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.gpustack import profile_of
from advisor.simulator.serving import FixedLengths, LognormalLengths, UniformLengths

_UNIFORM_LOW: Final = 0.8
"""Least part of the nominal length that the usual benchmark client draws, where it is not stated."""
_CONVERSATION_SIGMA: Final = 1.0
"""Spread of the logarithm of conversation lengths where only means were published: 0.7 to 1.1 for the prompts of the
ShareGPT, Open-Orca and Azure traces."""
_ANSWER_SIGMA: Final = 1.5
"""Spread of the logarithm of ShareGPT's answers and, below, their longest: fitted to offline runs of groups whose runs
with other lengths are predicted within some percent. The spread sets the mean time per token of requests, short ones
of which see the prompts of the others; the longest answer sets how long the end of a run takes."""
_CONVERSATION_MOST_ANSWER: Final = 1500
_CONVERSATION_MOST_PROMPT: Final = 1024
"""The usual client drops longer prompts, and pairs of prompt and answer above 2 048 tokens."""
_CONVERSATION_MOST_MEAN_ANSWER: Final = 260
"""Mean answer up to which none is longer than those: ShareGPT's have 190 to 220 tokens, whether or not a client drops
long prompts. Five runs of 100 clients of SGLang's, which drops none (302 tokens in, 188 out), keep 85 to 93 of them
busy until the end; with answers of up to 4 096 tokens it would be 60."""
_LONG_MOST_ANSWER: Final = 4096
"""Longest answer of conversations with a longer mean, from the end of published runs."""
_SHORT_MEAN: Final = 400
"""Mean length up to which a published mean can be that of sampled conversations."""
_CONVERSATION_LEAST_OUTPUT: Final = 16
_ROUND_TOKENS: Final = 1000
"""A mean prompt of whole thousands is a nominal length that was met to the token, not the mean of drawn ones."""
JITTER_SIGMA: Final = 0.05
"""Spread that keeps equal requests of a closed loop out of step, small against any length effect."""

CaseLengths = FixedLengths | UniformLengths | LognormalLengths


def lengths_of(case: ServingCase) -> CaseLengths:
    """Lengths of a case's requests.

    `mean` says that only means were published. They are those of sampled conversations where they are short. Longer
    ones come from random prompts: SGLang's client draws them from 1 to the nominal length, others send equal ones of
    which some end early. Those of a GPUStack preset are equal, and so are their answers.

    Raises: AdvisorError: no tokens in or out.
    Source: sglang bench_serving.py (random-range-ratio 0 by default), vllm bench (range ratio 0; ShareGPT filters).
    """
    isl, osl = case.isl, case.osl
    if isl < 1 or osl < 1:
        raise AdvisorError("isl and osl must be at least 1 token")
    if case.length_dist == "uniform":
        return UniformLengths(isl, osl, case.length_spread or _UNIFORM_LOW)
    if case.length_dist == "lognormal" or (case.length_dist == "mean" and case.length_spread):
        return LognormalLengths(isl, osl, case.length_spread or _CONVERSATION_SIGMA, *(case.longest or ()))
    if profile_of(case) is not None:
        return FixedLengths(isl, osl)
    if case.length_dist == "mean":
        return _published_means(case)
    if case.num_requests is None and case.load == "closed":
        # A client whose protocol is not stated sits behind HTTP: answers jitter, and slots do not stay in step.
        return LognormalLengths(isl, osl, JITTER_SIGMA)
    return FixedLengths(isl, osl)


def mean_share(case: ServingCase) -> float:
    """Mean over nominal length of a case's requests: (1 + low) / 2 where lengths are uniform, else 1.

    Source: definition.
    """
    return (1.0 + (case.length_spread or _UNIFORM_LOW)) / 2.0 if case.length_dist == "uniform" else 1.0


def _published_means(case: ServingCase) -> CaseLengths:
    isl, osl = case.isl, case.osl
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
