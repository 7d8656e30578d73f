"""Whether results are right under load: products by random vectors (Freivalds), sums and copies by patterns.

Rates say how fast a GPU is. A GPU with a faulty multiprocessor is as fast as its neighbours and returns other numbers.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from advisor.catalog.units import GIB, MIB
from advisor.kernels.timing import Call, synchronize
from advisor.probes.bench import Bench
from advisor.probes.compute import size_of, vendor_product
from advisor.probes.record import Measurement
from advisor.probes.telemetry import Sampler

_BLOCK: Final = 32
"""Number of entries of a row that one sum covers. A product of 8192² is checked by 256 random vectors of 32 weights,
so that a wrong entry stands out of the rounding of 31 others and its place is known to 32 entries."""
_NUM_SETS: Final = 2
"""Number of sets of random vectors: with one, equal errors in two neighbouring columns might cancel."""
_FALSE_ALARM: Final = 1e-9
"""Probability that a product without any fault is called wrong."""
_NO_NUMBER: Final = 1e30
"""Deviation of a sum that is no number, over the allowed one: JSON has neither infinity nor NaN."""
_QUICK_LOAD_S: Final = 0.12
_FULL_LOAD_S: Final = 1.0
"""Time of products back to back by number format [s], before the last of them are checked."""
_NUM_KEPT: Final = 3
"""Number of products at the end of the load that are checked, beside the first one."""
_PATTERN_WORDS: Final = int(16 * MIB) // 4
_PATTERN_BYTES: Final = GIB
_NUM_COPIES: Final = 8


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Number format of a product, and the roundings that the format allows."""

    inputs: torch.dtype
    output_roundoff: float
    """Largest relative error of rounding an entry to the output's format: 2^-8 for bf16 with its 8 significant bits."""
    sum_roundoff: float
    """Largest relative error of one addition of the matrix unit; 0 if sums are exact."""
    terms_per_sum: int
    """Number of products that the unit adds in one step."""


ARITHMETIC: Final[dict[str, Arithmetic]] = {
    "bf16": Arithmetic(torch.bfloat16, 2.0**-8, 2.0**-23, 4),
    "fp16": Arithmetic(torch.float16, 2.0**-11, 2.0**-23, 4),
    "tf32": Arithmetic(torch.float32, 2.0**-24, 2.0**-23, 4),
    "fp32": Arithmetic(torch.float32, 2.0**-24, 2.0**-24, 1),
    "fp8": Arithmetic(torch.float8_e4m3fn, 2.0**-8, 2.0**-13, 32),
    "int8": Arithmetic(torch.int8, 0.0, 0.0, 1),
}
"""Matrix units cut sums off instead of rounding them, hence 2^-23 for fp32 sums (Fasi et al. 2021, PeerJ Comput. Sci.
7:e330); Hopper keeps about 14 bits of a sum of fp8 products (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2)."""


@dataclass(frozen=True, slots=True)
class ProductCheck:
    """Result of checking one product by random vectors."""

    worst: float
    """Largest deviation of a sum over the deviation that rounding allows; above 1 the product is wrong."""
    num_wrong: int
    num_sums: int
    place: str = ""
    """Row and columns of the worst sum, with its deviation and the one that rounding allows."""


@dataclass(frozen=True, slots=True)
class _SignedSums:
    """Sums of blocks of a product's rows with one set of random weights."""

    weights: torch.Tensor
    """Random signs times magnitudes between a half and one, by block of columns."""
    expected: torch.Tensor
    """Sums that follow from the operands."""
    sum_errors: torch.Tensor
    """Deviations by the additions of the matrix unit, before the factor of the probability."""


class ProductOracle:
    """Sums of a product a · bᵀ over blocks of its rows with random weights, computed in fp64 from the operands.

    A sum of errors e with independent random signs and weights w exceeds t · √(Σ w² e²) with a probability of at most
    2 exp(−t² / 2), whatever the errors are (Hoeffding 1963). An entry's error is at most its output rounding, u · |c|,
    and the errors of its K / terms additions, each of a partial sum that is ‖a‖ ‖b‖ / √K for random numbers around
    zero. Two sets of weights are used, since equal errors in a few columns may cancel in one.

    Source: Freivalds 1979, "Fast probabilistic algorithms", MFCS, LNCS 74.
    """

    def __init__(self, arithmetic: Arithmetic, a: torch.Tensor, b: torch.Tensor, seed: int) -> None:
        self._arithmetic = arithmetic
        num_columns, depth = b.shape
        generator = torch.Generator().manual_seed(seed)
        wide_a = a.double()
        wide_b = b.double().reshape(-1, _BLOCK, depth)
        lengths_a = wide_a.norm(dim=1)[:, None]
        steps = math.ceil(depth / arithmetic.terms_per_sum)
        per_length = arithmetic.sum_roundoff * steps / math.sqrt(depth)
        self._sets = []
        for _ in range(_NUM_SETS):
            signs = 2.0 * torch.randint(0, 2, (num_columns,), generator=generator).double() - 1.0
            magnitudes = 0.5 + 0.5 * torch.rand(num_columns, generator=generator, dtype=torch.float64)
            weights = (signs * magnitudes).to(a.device).reshape(-1, 1, _BLOCK)
            expected = wide_a @ torch.bmm(weights, wide_b).squeeze(1).T
            lengths_b = torch.bmm(weights.square(), wide_b.square()).sum((1, 2)).sqrt()[None, :]
            self._sets.append(_SignedSums(weights, expected, per_length * lengths_a * lengths_b))
        num_sums = _NUM_SETS * self._sets[0].expected.numel()
        self._factor = math.sqrt(2.0 * math.log(2.0 * num_sums / _FALSE_ALARM))

    def check(self, product: torch.Tensor) -> ProductCheck:
        """Compare a product with the sums that it must have."""
        blocks = product.double().reshape(product.shape[0], -1, _BLOCK)
        return max((self._check_set(blocks, one) for one in self._sets), key=lambda check: check.worst)

    def _check_set(self, blocks: torch.Tensor, sums: _SignedSums) -> ProductCheck:
        weights = sums.weights.reshape(1, -1, _BLOCK)
        weighted = blocks * weights
        deviations = weighted.sum(-1) - sums.expected
        rounding = self._arithmetic.output_roundoff * weighted.square().sum(-1).sqrt()
        # Exact integers differ by one or not at all, which weighs a half or more.
        least = 0.25 if self._arithmetic.output_roundoff == 0.0 else 0.0
        allowed = (self._factor * (rounding + sums.sum_errors)).clamp_(min=least)
        ratio = (deviations.abs() / allowed).nan_to_num(_NO_NUMBER, _NO_NUMBER)
        worst = int(ratio.argmax())
        row, block = divmod(worst, ratio.shape[1])
        place = (
            f"row {row}, columns {block * _BLOCK} to {(block + 1) * _BLOCK - 1} off by "
            f"{float(deviations.flatten()[worst]):.3g}, rounding allows {float(allowed.flatten()[worst]):.3g}"
        )
        num_wrong = int((ratio > 1.0).sum())
        return ProductCheck(float(ratio.flatten()[worst]), num_wrong, ratio.numel(), place)


def truth(bench: Bench) -> list[Measurement]:
    """Check products of every number format, sums and copies for right values while the GPU is under load."""
    if bench.device.type not in ("cuda", "cpu"):
        return [bench.skip("truth.product", "the device computes nothing in fp64 to compare with")]
    found = []
    for name in ARITHMETIC:
        try:
            found += _check_format(bench, name)
        except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
            # A broken context is no missing format: the step ends, and the session starts the rest in a new process.
            if "CUDA error" in str(error):
                raise
            reason = str(error).partition("\n")[0] or type(error).__name__
            found.append(bench.skip(f"truth.product.{name}", reason))
    return found + _check_patterns(bench)


def _check_format(bench: Bench, name: str) -> list[Measurement]:
    """Multiply in one format without a pause, then check the first product and the last ones."""
    arithmetic = ARITHMETIC[name]
    if name in ("tf32", "fp8", "int8") and bench.device.type != "cuda":
        return [bench.skip(f"truth.product.{name}", "the device has no such unit in torch")]
    size = size_of(bench.device)
    a, b = (_random_matrix(bench, size, name, place) for place in range(2))
    oracle = ProductOracle(arithmetic, a, b, bench.seed)
    with _RoundingSettings(name), Sampler(bench.gpu) as sampler:
        kept, num_products = _load(bench, vendor_product(name, a, b))
    checks = {number: oracle.check(product) for number, product in kept.items()}
    pattern = f"{size} x {size} x {size}, {len(kept)} of {num_products} products"
    how: dict[str, Any] = {"gpu": bench.gpu, "instrument": "torch", "pattern": pattern}
    how |= {"operator": "<=", "source": "rule"}
    wrong = [_fault(f"{name} product {n} of {num_products}", check) for n, check in checks.items()]
    note = "; ".join(filter(None, wrong))
    worst = Measurement(
        id=f"truth.product.{name}",
        value=max(check.worst for check in checks.values()),
        unit="of the error that rounding allows",
        expected=1.0,
        required=1.0,
        note=note,
        status="fail" if note else "pass",
        conditions=sampler.conditions(),
        **how,
    )
    is_repeatable = bench.device.type == "cuda" and torch.version.hip is None
    return [worst, _compare_repeats(name, kept, how)] if is_repeatable else [worst]


def _fault(product: str, check: ProductCheck) -> str:
    """Return a sentence about a wrong product; empty for a right one."""
    if not check.num_wrong:
        return ""
    return f"{product}: {check.num_wrong} of {check.num_sums} sums are wrong, {check.place}"


def _load(bench: Bench, multiply: Call) -> tuple[dict[int, torch.Tensor], int]:
    """Return the first product and the last ones of a load by their number, and the number of all products."""
    limit_s = _QUICK_LOAD_S if bench.quick else _FULL_LOAD_S
    kept: dict[int, Any] = {1: multiply()}
    synchronize(bench.device)
    number = 1
    started_at_s = time.perf_counter()
    while number <= _NUM_KEPT or time.perf_counter() - started_at_s < limit_s:
        for _ in range(_NUM_KEPT):
            number += 1
            kept[number] = multiply()
            if len(kept) > _NUM_KEPT + 1:
                del kept[number - _NUM_KEPT]
        synchronize(bench.device)
    return kept, number


def _compare_repeats(name: str, kept: dict[int, torch.Tensor], how: dict[str, Any]) -> Measurement:
    """Compare equal products bit by bit: the vendor's library gives equal bits on equal operands.

    Source: NVIDIA cuBLAS documentation, section "Results Reproducibility".
    """
    first = kept[1].view(torch.uint8)
    differ = {number: int((product.view(torch.uint8) != first).sum()) for number, product in kept.items()}
    worst = max(differ, key=differ.__getitem__)
    note = f"{name} product {worst} differs from product 1 on equal operands" if differ[worst] else ""
    status: Any = "fail" if differ[worst] else "pass"
    how = {**how, "expected": 0.0, "required": 0.0, "note": note, "status": status}
    return Measurement(id=f"truth.repeat.{name}", value=float(differ[worst]), unit="bytes", **how)


def _random_matrix(bench: Bench, size: int, name: str, place: int) -> torch.Tensor:
    generator = torch.Generator(device=bench.device).manual_seed(bench.seed + 2 * size + place)
    if name == "int8":
        shape = (size, size)
        return torch.randint(-127, 128, shape, generator=generator, device=bench.device, dtype=torch.int8)
    exact = torch.randn((size, size), generator=generator, device=bench.device)
    if name == "tf32":
        # The unit ignores the lowest 13 bits of its operands, so they are zero here and nothing is lost.
        return (exact.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return exact.to(ARITHMETIC[name].inputs)


class _RoundingSettings:
    """Settings of the vendor's library under which a product has the roundings of its format."""

    def __init__(self, name: str) -> None:
        self._wanted = {
            "allow_tf32": name == "tf32",
            "allow_bf16_reduced_precision_reduction": False,
            "allow_fp16_reduced_precision_reduction": False,
        }
        self._before: dict[str, bool] = {}

    def __enter__(self) -> None:
        library = torch.backends.cuda.matmul
        self._before = {key: getattr(library, key) for key in self._wanted}
        for key, value in self._wanted.items():
            setattr(library, key, value)

    def __exit__(self, *error: object) -> None:
        for key, value in self._before.items():
            setattr(torch.backends.cuda.matmul, key, value)


def _check_patterns(bench: Bench) -> list[Measurement]:
    """Check sums over a pattern whose sum the processor computed, and copies of it word by word."""
    generator = torch.Generator().manual_seed(bench.seed)
    words = torch.randint(-(2**31), 2**31 - 1, (_PATTERN_WORDS,), generator=generator, dtype=torch.int32)
    is_large = bench.device.type == "cuda"
    num_bytes = min(_PATTERN_BYTES, bench.free_bytes() / 8) if is_large else 4.0 * _PATTERN_WORDS
    repeats = max(1, int(num_bytes // (4 * _PATTERN_WORDS)))
    whole = words.to(bench.device).repeat(repeats)
    expected = repeats * int(words.sum(dtype=torch.int64))
    sums = {
        "int64": int(whole.sum(dtype=torch.int64)),
        "fp64": int(whole.sum(dtype=torch.float64).item()),
    }
    wrong = [name for name, total in sums.items() if total != expected]
    how: dict[str, Any] = {"gpu": bench.gpu, "instrument": "torch"}
    how["pattern"] = f"{whole.numel() * 4 / GIB:.3g} GiB of random words"
    note = f"the sum in {' and '.join(wrong)} is wrong" if wrong else ""
    found = [
        Measurement.ruled("truth.sum", "wrong" if wrong else "right", "right", not wrong, note=note, **how)
    ]
    altered = next(_altered_copies(whole), "")
    came_back = torch.equal(whole[-_PATTERN_WORDS:].cpu(), words)
    note = altered or ("" if came_back else "the words that came back to the host are others")
    words_of = "altered" if note else "intact"
    return [*found, Measurement.ruled("truth.copy", words_of, "intact", not note, note=note, **how)]


def _altered_copies(whole: torch.Tensor) -> Iterator[str]:
    """Yield a sentence for each copy within the memory that differs from its source; each is copied from the last."""
    source = whole
    for number in range(1, _NUM_COPIES + 1):
        source = source.clone()
        if num_wrong := int((source != whole).sum()):
            yield f"copy {number} of {_NUM_COPIES} has {num_wrong} wrong words"
