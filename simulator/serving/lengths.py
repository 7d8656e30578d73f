"""Lengths of prompts and outputs: fixed, uniform, lognormal or drawn from observed pairs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.errors import AdvisorError, whole

LengthChunk = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Input and output tokens of consecutive requests."""
CHUNK = 4096
"""Number of requests drawn at once: bounds memory, and fixes the order in which the generator is used."""
LONGEST_TOKENS = 100_000_000
"""Longest prompt or output that is accepted [tokens]. Own choice, far beyond every context."""


@dataclass(frozen=True, slots=True)
class FixedLengths:
    """Fixed lengths, equal for every request. In a closed loop they lock the clients in step: prefer some spread."""

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        _check_tokens(self.input_tokens, self.output_tokens)

    def chunks(self, inputs: np.random.Generator, outputs: np.random.Generator) -> Iterator[LengthChunk]:
        """Yield lengths of consecutive requests, in chunks, without end."""
        while True:
            yield np.full(CHUNK, self.input_tokens, np.int64), np.full(CHUNK, self.output_tokens, np.int64)


@dataclass(frozen=True, slots=True)
class UniformLengths:
    """Uniform lengths: whole numbers from low_fraction × nominal up to nominal, as the usual benchmark client draws
    them.

    The mean is (1 + low_fraction) / 2 of the nominal length.
    Source: own definition; the random-dataset client of vLLM and SGLang.
    """

    input_tokens: int
    output_tokens: int
    low_fraction: float = 0.8

    def __post_init__(self) -> None:
        _check_tokens(self.input_tokens, self.output_tokens)
        if not (math.isfinite(self.low_fraction) and 0.0 <= self.low_fraction <= 1.0):
            raise AdvisorError(f"low_fraction must lie in 0 to 1, not {self.low_fraction}")

    def chunks(self, inputs: np.random.Generator, outputs: np.random.Generator) -> Iterator[LengthChunk]:
        """Yield lengths of consecutive requests, in chunks, without end."""
        low_input = max(1, int(self.low_fraction * self.input_tokens))
        low_output = max(1, int(self.low_fraction * self.output_tokens))
        while True:
            yield (
                inputs.integers(low_input, self.input_tokens, CHUNK, endpoint=True),
                outputs.integers(low_output, self.output_tokens, CHUNK, endpoint=True),
            )


@dataclass(frozen=True, slots=True)
class LognormalLengths:
    """Lognormal lengths with the given means and log-standard-deviation sigma, clipped to [1, max].

    The means hold after clipping: the location is solved for.
    Source: own definition; mean of a clipped lognormal in closed form.
    """

    input_tokens: int
    output_tokens: int
    sigma: float
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    output_sigma: float | None = None
    """Log-standard-deviation of the output lengths; None: equal to that of the inputs."""

    def __post_init__(self) -> None:
        _check_tokens(self.input_tokens, self.output_tokens)
        for sigma in (self.sigma, self.sigma if self.output_sigma is None else self.output_sigma):
            if not (math.isfinite(sigma) and 0.0 < sigma <= 5.0):
                raise AdvisorError(
                    f"sigma of lognormal lengths must lie above 0 and at most at 5, not {sigma}"
                )
        for mean, largest in (
            (self.input_tokens, self.max_input_tokens),
            (self.output_tokens, self.max_output_tokens),
        ):
            if largest is not None and not mean < largest <= LONGEST_TOKENS:
                raise AdvisorError(f"a largest length of {largest} does not allow a mean of {mean} tokens")

    def chunks(self, inputs: np.random.Generator, outputs: np.random.Generator) -> Iterator[LengthChunk]:
        """Yield lengths of consecutive requests, in chunks, without end."""
        max_input = self.max_input_tokens or LONGEST_TOKENS
        max_output = self.max_output_tokens or LONGEST_TOKENS
        output_sigma = self.output_sigma or self.sigma
        input_location = lognormal_location(self.input_tokens, self.sigma, max_input)
        output_location = lognormal_location(self.output_tokens, output_sigma, max_output)
        while True:
            yield (
                _lognormal(inputs, input_location, self.sigma, max_input),
                _lognormal(outputs, output_location, output_sigma, max_output),
            )


@dataclass(frozen=True, slots=True)
class EmpiricalLengths:
    """Observed (input, output) pairs, drawn with replacement, or replayed in order if in_order is set."""

    pairs: Sequence[tuple[int, int]]
    in_order: bool = False
    _table: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """Pairs as rows: thousands of simulations of one answer draw from them."""

    def __post_init__(self) -> None:
        if len(self.pairs) == 0:
            raise AdvisorError("the list of observed lengths is empty")
        table = np.asarray(self.pairs) if len(set(map(len, self.pairs))) == 1 else np.empty(0)
        if table.ndim == 2 and table.shape[1] == 2 and bool(np.all(_are_lengths(table))):
            object.__setattr__(self, "_table", table.astype(np.int64))
            return
        for number, pair in enumerate(self.pairs, start=1):
            if len(pair) != 2 or not np.all(_are_lengths(np.asarray(pair))):
                raise AdvisorError(
                    f"observed lengths, pair {number}: {pair} are not two whole, positive token counts"
                )

    def table_bytes(self) -> bytes:
        """Return the pairs as bytes, by which equal lists are known."""
        return self._table.tobytes()

    def chunks(self, inputs: np.random.Generator, outputs: np.random.Generator) -> Iterator[LengthChunk]:
        """Yield lengths of consecutive requests, in chunks; without end unless replayed in order."""
        table = self._table
        if self.in_order:
            for start in range(0, len(table), CHUNK):
                part = table[start : start + CHUNK]
                yield part[:, 0], part[:, 1]
            return
        while True:
            part = table[inputs.integers(0, len(table), CHUNK)]
            yield part[:, 0], part[:, 1]


Lengths = FixedLengths | UniformLengths | LognormalLengths | EmpiricalLengths


def context_spread(lengths: Lengths, beginning_tokens: float = 0.0) -> float:
    """Standard deviation over mean of the contexts of requests that decode together.

    A request counts for as long as it decodes, and is anywhere in its output; all have `beginning_tokens` in addition.

    Source: moments of the first lengths that a run would draw.
    """
    inputs = np.random.default_rng([0, 0])
    outputs = np.random.default_rng([0, 1])
    prompts, answers = next(lengths.chunks(inputs, outputs))
    return spread_while_decoding(prompts + beginning_tokens, answers)


def spread_while_decoding(prompts: NDArray[Any], answers: NDArray[Any]) -> float:
    """Standard deviation over mean of the contexts of requests with these lengths that decode together.

    Source: own derivation, moments over requests and places in their answers.
    """
    prompt = prompts.astype(np.float64)
    answer = answers.astype(np.float64)
    mean = np.average(prompt + answer / 2.0, weights=answer)
    square = np.average(prompt**2 + prompt * answer + answer**2 / 3.0, weights=answer)
    return math.sqrt(max(0.0, float(square / mean**2) - 1.0))


@lru_cache(maxsize=64)
def lognormal_location(mean: float, sigma: float, largest: float) -> float:
    """Mean of the logarithm for which a lognormal clipped to [1, largest] has the given mean [log tokens].

    E[clip(X)] = P(X < 1) + ∫ x f over [1, largest] + largest P(X > largest), increasing in the location: bisection.
    Source: own derivation from the normal distribution function.
    """

    def clipped_mean(location: float) -> float:
        low = (0.0 - location) / sigma
        high = (math.log(largest) - location) / sigma
        inside = math.exp(location + sigma**2 / 2.0) * (_normal_cdf(high - sigma) - _normal_cdf(low - sigma))
        return _normal_cdf(low) + inside + largest * _normal_cdf(-high)

    low = math.log(mean) - sigma**2 / 2.0 - 20.0 * sigma
    high = math.log(largest) + 20.0 * sigma
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if clipped_mean(middle) < mean else (low, middle)
    return (low + high) / 2.0


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _lognormal(rng: np.random.Generator, location: float, sigma: float, largest: int) -> NDArray[np.int64]:
    drawn = np.exp(location + sigma * rng.standard_normal(CHUNK))
    tokens: NDArray[np.int64] = np.rint(np.clip(drawn, 1.0, largest)).astype(np.int64)
    return tokens


def _are_lengths(tokens: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers can be lengths."""
    if not np.issubdtype(tokens.dtype, np.integer):
        return np.zeros(tokens.shape, dtype=np.bool_)
    return np.asarray((tokens > 0) & (tokens <= LONGEST_TOKENS))


def _check_tokens(input_tokens: int, output_tokens: int) -> None:
    whole("input_tokens", input_tokens, most=LONGEST_TOKENS)
    whole("output_tokens", output_tokens, most=LONGEST_TOKENS)
