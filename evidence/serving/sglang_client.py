"""Requests of SGLang's benchmark client: every run draws the same ones, and runs before left their prompts cached."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.evidence.serving.case import ServingCase
from advisor.simulator.serving import EmpiricalLengths
from advisor.simulator.serving.content import ROOT, Contents, ContentTree

_SEED: Final = 1
_NOMINAL_TOKENS: Final = tuple(unit * size for unit in (1000, 1024) for size in (1, 2, 4, 8, 16, 32))
_TOLERANCE_TOKENS: Final = 2.0
"""What published means may be off: rounding, and a special token or two that the server adds to a prompt."""
_WARM_UP_REQUESTS: Final = 1
"""The first request is sent once before the clock starts."""
_SERIES: Final = {1: 10, 16: 80, 64: 320, 100: 500}
"""Requests by clients of the series that SGLang's cookbook runs on one server: short prompts and answers first, then
long answers, then long prompts, each from few clients to many."""
_MOST_CLIENTS: Final = (64, 100)
"""Those of one series end with 64 clients, of another with 100."""
_MOST_REQUESTS: Final = max(_SERIES.values())

_Lengths = NDArray[np.int64]


def replayed_requests(case: ServingCase) -> tuple[EmpiricalLengths, Contents] | None:
    """The very requests behind a case, and what of their prompts was cached; None where its means are no such draw.

    The client draws lengths from 1 to the nominal ones with a fixed seed. So published means give the nominal lengths
    away, and with them each request. Its prompts are the same texts too, cut at these lengths: a server that has
    answered fewer clients has the first ones cached.

    Assumes: the client ran on its defaults, and nobody flushed the cache between the runs of a series; of runs with
    long prompts, what they share with short ones is left out.
    Source: SGLang 0.5.3 to 0.5.9, sglang/bench_serving.py: sample_random_requests, --seed, --warmup-requests,
    --flush-cache.
    """
    drawn = _drawn(case)
    if drawn is None:
        return None
    inputs, outputs, has_long_answers = drawn
    tree = ContentTree()
    prompts = [tree.add(ROOT, int(tokens)) for tokens in inputs]
    num_kept = _num_kept(case, len(prompts), has_long_answers)
    lengths = EmpiricalLengths(list(zip(inputs.tolist(), outputs.tolist(), strict=True)), in_order=True)
    return lengths, Contents(tree, prompts, kept=prompts[:num_kept])


def _drawn(case: ServingCase) -> tuple[_Lengths, _Lengths, bool] | None:
    """Input and output lengths whose means a case has, and whether nominal answers are longer than prompts."""
    if case.engine != "sglang" or case.length_dist != "mean" or not case.num_requests:
        return None
    for nominal_input in _NOMINAL_TOKENS:
        for nominal_output in _NOMINAL_TOKENS:
            client = np.random.RandomState(_SEED)
            inputs, outputs = (
                client.randint(1, nominal + 1, case.num_requests)
                for nominal in (nominal_input, nominal_output)
            )
            off = max(abs(float(inputs.mean()) - case.isl), abs(float(outputs.mean()) - case.osl))
            if off <= _TOLERANCE_TOKENS:
                return inputs, outputs, nominal_output > nominal_input
    return None


def _num_kept(case: ServingCase, num_requests: int, has_long_answers: bool) -> int:
    """Requests of a run, from the first on, whose prompts the server has seen before."""
    clients = case.concurrency or 1
    if _SERIES.get(clients) != num_requests:
        return _WARM_UP_REQUESTS
    if has_long_answers:
        return min(num_requests, _MOST_REQUESTS)
    before = [requests for fewer, requests in _SERIES.items() if fewer < min(clients, _MOST_CLIENTS[0])]
    return max(before, default=_WARM_UP_REQUESTS)
