"""The division of a machine's cost among prompt tokens, cached prompt tokens and output tokens, by the time each uses.

A request uses a replica in four ways, all of them read off its step-cost surface at the batch that the simulated run
had on average:

- prefill: the time that its new prompt tokens add to the iterations that carry them, attention among them included;
- cached read: attention of the new prompt tokens to the cached ones;
- decoding: its share of what an iteration costs whatever the contexts are (weights, host, links), per answer token;
- KV residency: reading its cache in every decode iteration, once for the prompt's part and once for the answer's.

Prompt tokens pay prefill and the residency of the prompt; cached ones pay the cached read and the same residency;
answer tokens pay decoding and the residency of the answer. Idle time and what the sum leaves out are shared in
proportion, so that the three prices times their tokens are the bill.
"""

from dataclasses import dataclass

from advisor.catalog.units import MILLION, PICOSECONDS_PER_S
from advisor.simulator.step_cost import StepSurface, steadily_s


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """Mean tokens of a request, and the means of the squares that attention grows with."""

    new_input: float
    cached_input: float
    output: float
    new_input_squared: float
    output_squared: float

    @property
    def input(self) -> float:
        return self.new_input + self.cached_input


def request_tokens(
    input_tokens: float,
    output_tokens: float,
    *,
    input_variation: float = 0.0,
    output_variation: float = 0.0,
    cached_fraction: float = 0.0,
) -> RequestTokens:
    """Mean tokens of a kind of request; variations are squared coefficients of variation of its lengths.

    Assumes: lengths of prompts and answers are independent; the cached part is the same of every prompt.
    Source: E[n²] = E[n]² (1 + cv²).
    """
    new = input_tokens * (1.0 - cached_fraction)
    return RequestTokens(
        new_input=new,
        cached_input=input_tokens * cached_fraction,
        output=output_tokens,
        new_input_squared=new**2 * (1.0 + input_variation),
        output_squared=output_tokens**2 * (1.0 + output_variation),
    )


@dataclass(frozen=True, slots=True)
class UsedSeconds:
    """Time of one replica that one mean request uses [s], by what it is used for."""

    prefill_s: float
    cached_read_s: float
    cached_read_per_token_s: float
    """Time of attention to one cached token [s], also if the request has none."""
    decode_s: float
    input_residency_s: float
    output_residency_s: float

    @property
    def total_s(self) -> float:
        return (
            self.prefill_s
            + self.cached_read_s
            + self.decode_s
            + self.input_residency_s
            + self.output_residency_s
        )


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """The prices of each class of token [USD per million], and the division of the bill by use."""

    usd_per_million_input: float
    usd_per_million_cached: float
    usd_per_million_output: float
    share: dict[str, float]
    """Fractions of the bill: prefill, cached read, decoding, KV residency of prompts, KV residency of outputs."""


def used_seconds(
    surface: StepSurface,
    tokens: RequestTokens,
    batch: float,
    *,
    rides_along: bool,
    max_batched_tokens: int,
    cache_is_full: bool = False,
) -> UsedSeconds:
    """Time of a replica that a mean request uses at a mean batch [s].

    `rides_along`: prompt chunks share iterations with decoding, so a chunk costs what it adds to one. With a full
    cache the next request waits for cache, not for a slot: what decoding shares is then divided by cache used.

    Assumes: the means of batch and lengths stand for their distributions.
    Error: total times the rate of a simulated run is within 12 % of its busy fraction, tests/advisor/economics.
    Source: own derivation from StepSurface.
    """
    num_seqs = max(1, min(round(batch), len(surface.decode_base_ps) - 1))
    steps = max(0.0, tokens.output - 1.0)
    window = surface.window_tokens
    reads = surface.decode_context_ps[num_seqs] / PICOSECONDS_PER_S
    answer_reads = tokens.output_squared / 2.0
    input_residency = steps * tokens.input * reads
    output_residency = answer_reads * reads
    if window is not None:
        mean_context = tokens.input + tokens.output / 2.0
        in_window = min(mean_context, float(window)) / mean_context
        windowed = surface.decode_window_ps[num_seqs] / PICOSECONDS_PER_S * in_window
        input_residency += steps * tokens.input * windowed
        output_residency += answer_reads * windowed
    decode = steps * surface.decode_base_ps[num_seqs] / num_seqs / PICOSECONDS_PER_S
    if cache_is_full:
        prompt_part = steps * tokens.input / (steps * tokens.input + answer_reads)
        input_residency += decode * prompt_part
        output_residency += decode * (1.0 - prompt_part)
        decode = 0.0
    cached_per_token = _cached_read_s(surface, tokens.new_input)
    at_full_clock_s = _prefill_s(surface, tokens, num_seqs, rides_along, max_batched_tokens)
    return UsedSeconds(
        prefill_s=steadily_s(surface, at_full_clock_s, decode + input_residency + output_residency),
        cached_read_s=cached_per_token * tokens.cached_input,
        cached_read_per_token_s=cached_per_token,
        decode_s=decode,
        input_residency_s=input_residency,
        output_residency_s=output_residency,
    )


def token_prices(usd_per_request: float, used: UsedSeconds, tokens: RequestTokens) -> TokenPrices:
    """Prices of the three classes of tokens whose sum over a request is what the request costs [USD per million].

    Source: own definition; shares of the time used.
    """
    usd_per_s = usd_per_request / used.total_s
    residency = used.input_residency_s / tokens.input
    new_s = (
        used.prefill_s / tokens.new_input + residency
        if tokens.new_input
        else used.cached_read_per_token_s + residency
    )
    output_s = (used.decode_s + used.output_residency_s) / tokens.output
    return TokenPrices(
        usd_per_million_input=usd_per_s * new_s * MILLION,
        usd_per_million_cached=usd_per_s * (used.cached_read_per_token_s + residency) * MILLION,
        usd_per_million_output=usd_per_s * output_s * MILLION,
        share={
            "prefill": used.prefill_s / used.total_s,
            "cached_read": used.cached_read_s / used.total_s,
            "decode": used.decode_s / used.total_s,
            "prompt_kv_residency": used.input_residency_s / used.total_s,
            "answer_kv_residency": used.output_residency_s / used.total_s,
        },
    )


def _prefill_s(
    surface: StepSurface, tokens: RequestTokens, num_seqs: int, rides_along: bool, budget: int
) -> float:
    """Time that the new prompt tokens add: iterations that carry them less what decoding would take anyway."""
    if tokens.new_input <= 0:
        return 0.0
    beside = num_seqs if rides_along else 0
    budget = min(budget, len(surface.mixed_base_ps) - 1)
    # As many prompt tokens go into an iteration as answers leave it, in proportion; at least a prompt, if it fits.
    together = max(tokens.new_input, num_seqs * tokens.new_input / max(1.0, tokens.output))
    chunk = max(1, min(round(together), budget - beside))
    added_ps: float = surface.mixed_base_ps[min(chunk + beside, budget)]
    if rides_along:
        added_ps = max(0.0, added_ps - surface.decode_base_ps[num_seqs])
    whole = tokens.new_input / chunk * added_ps + surface.prefill_sequence_ps
    pairs = tokens.new_input_squared / 2.0
    whole += surface.prefill_pair_ps * pairs
    if surface.window_tokens is not None:
        whole += surface.prefill_window_pair_ps * _windowed_pairs(
            tokens.new_input, 0.0, surface.window_tokens
        )
    return whole / PICOSECONDS_PER_S


def _cached_read_s(surface: StepSurface, new_tokens: float) -> float:
    """Attention of the new prompt tokens to one cached token [s]."""
    whole = surface.prefill_pair_ps * new_tokens
    if surface.window_tokens is not None:
        more = _windowed_pairs(new_tokens, 1.0, surface.window_tokens)
        whole += surface.prefill_window_pair_ps * (
            more - _windowed_pairs(new_tokens, 0.0, surface.window_tokens)
        )
    return max(0.0, whole) / PICOSECONDS_PER_S


def _windowed_pairs(new_tokens: float, cached: float, window: int) -> float:
    growing = min(new_tokens, max(0.0, window - cached))
    return growing * (cached + growing / 2.0) + (new_tokens - growing) * window
