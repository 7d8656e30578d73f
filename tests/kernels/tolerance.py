"""How far a kernel may be from its reference: by number format, relative to the size of the result."""

from dataclasses import dataclass
from typing import Final

import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Limits for |actual − expected|."""

    relative: float
    """Tolerance relative to the element itself: a few units in the last place of the output format."""
    of_rms: float
    """Tolerance relative to the root mean square of the expected result: cancellation leaves absolute errors of this
    size."""
    norm: float
    """‖actual − expected‖ / ‖expected‖ over the whole tensor."""


TOLERANCES: Final[dict[torch.dtype, Tolerance]] = {
    torch.float32: Tolerance(relative=1e-4, of_rms=1e-4, norm=2e-5),
    torch.float16: Tolerance(relative=4e-3, of_rms=4e-3, norm=1.5e-3),
    # Twice the unit in the last place: the interpreter truncates where a GPU rounds to nearest.
    torch.bfloat16: Tolerance(relative=1.6e-2, of_rms=1.6e-2, norm=6e-3),
    torch.float8_e4m3fn: Tolerance(relative=0.13, of_rms=0.07, norm=5e-2),
}


@dataclass(frozen=True, slots=True)
class Deviation:
    """Distance of a result from its reference, and whether it is allowed."""

    norm: float
    worst: float
    """Largest |error| as a multiple of what its element is allowed; above 1 the result is wrong."""
    is_allowed: bool


def deviation(
    actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype | None = None, slack: float = 1.0
) -> Deviation:
    """How far `actual` is from `expected` [ratio], judged by the format in which it was computed.

    allowed_i = relative · |expected_i| + of_rms · rms(expected), and ‖error‖ / ‖expected‖ ≤ norm

    Assumes: `expected` was computed in fp32 or better from the same (already rounded) inputs. `slack` widens
    the limits for chains that round more than once. NaN and infinity are never allowed unless expected.
    """
    limit = TOLERANCES[dtype or actual.dtype]
    a = actual.double()
    e = expected.double()
    if a.shape != e.shape or not bool(torch.isfinite(a).all()):
        return Deviation(norm=float("inf"), worst=float("inf"), is_allowed=False)
    error = (a - e).abs()
    rms = float(e.square().mean().sqrt())
    floor = torch.finfo(torch.float32).tiny
    allowed = slack * (limit.relative * e.abs() + limit.of_rms * rms) + floor
    norm = float(error.norm() / (e.norm() + floor))
    worst = float((error / allowed).max())
    return Deviation(norm=norm, worst=worst, is_allowed=worst <= 1.0 and norm <= slack * limit.norm)
