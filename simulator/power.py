"""Power that boards draw: by state, by utilisation of their units, and on average while they serve.

A board draws its waiting power, plus a share of its power limit for each unit of memory traffic
and of matrix work, and never more than the limit:

    P = min(limit, waiting + limit · (memory_draw · read bytes/s over bandwidth + compute_draw · FLOP/s over peak))

The two shares were fitted on one H100 (catalog/data/measured/h100-sxm-draw-2026-11-26.json: 27 points, within 6 %).
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from advisor.catalog import accelerators
from advisor.catalog.schema import Accelerator
from advisor.simulator.device import DECODE_LOAD, device_of, power_limit
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.operator_library import matmul_peak_flop_per_s
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.serving.metrics import ServingResult
from advisor.simulator.terms import TermCase, find, value

BoardState = Literal["unloaded", "waiting", "decode", "prefill"]
"""State of a board. Unloaded: rented, no process on it. Waiting: a model in memory, no work. Otherwise: working without
a pause."""
_USUAL_LOADS: Final[dict[BoardState, tuple[float, float]]] = {"decode": DECODE_LOAD, "prefill": (0.1, 0.6)}
"""Fractions of bandwidth and of peak rate if they were not counted: H100, Llama-3.1-8B, 32 to 64 sequences; and any
prompt of 512 tokens or more. Own choice among measured points."""
_MEASURED_RANGE: Final = (0.94, 1.06)
"""Range of measured over predicted draw on the board on which the shares were fitted: all of its 27 points."""
_SERVING_RANGE: Final = (0.85, 1.12)
"""Range of real over predicted mean draw of a run on the fitted board. Own assumption: the measured range, widened by
the error of the predicted rates."""
_LENT_RANGE: Final[dict[BoardState, tuple[float, float]]] = {
    "unloaded": (0.4, 1.7),
    "waiting": (0.6, 1.6),
    "decode": (0.45, 1.2),
    "prefill": (0.7, 1.02),
}
"""80 % range of measured over predicted draw on other boards. Working: 2,258 matrix products on an H200, a B200 and a
GB200 (NVIDIA AIConfigurator, systems data with power; 1 to 64 rows: 0.44 to 1.18, from 1,024 rows on: 0.68 to 0.99),
which no fit has seen. Idle: the spread of the boards in catalog/data/terms.csv over the assumed fraction."""
_SUSTAINED_FRACTION: Final = 0.65
"""Rate of prompts without a pause over the peak rate if no board of the architecture was measured. Own assumption, from
the H100 (0.67 in bf16, 0.64 in fp8)."""


_USUAL_RANGE: Final[dict[BoardState, tuple[float, float]]] = {"decode": (0.6, 1.23), "prefill": (0.95, 1.02)}
"""Range of measured over predicted draw of the fitted board if its load was not counted: decode steps of 1 to 256
sequences drew 472 to 691 W; engines that leave gaps between kernels draw less (137 to 300 W on an H200,
arXiv:2605.11999)."""
_BOARD_RANGE: Final = (0.85, 1.2)
"""Range of the idle draw of one board over that of another of its kind: 15 to 24 W among ten A40, most at 23."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """Fractions of the power limit at which one board draws, and how well they are known."""

    limit_w: float
    waiting: float
    memory: float
    compute: float
    basis: Basis
    is_fitted: bool
    """Whether the shares of memory and compute were fitted on this kind of board."""

    def working_w(self, memory_fraction: float, compute_fraction: float) -> float:
        share = self.waiting + self.memory * memory_fraction + self.compute * compute_fraction
        return self.limit_w * min(1.0, share)

    def quantity(self, watts: float, state: BoardState) -> Quantity:
        return self.within(watts, _MEASURED_RANGE if self.is_fitted else _LENT_RANGE[state])

    def within(self, watts: float, factors: tuple[float, float]) -> Quantity:
        high_w = max(watts, min(self.limit_w, watts * factors[1]))
        return Quantity(watts, watts * factors[0], high_w, self.basis)


def board_power_w(
    accelerator: Accelerator, state: BoardState, power_limit_w: float | None = None
) -> Quantity | None:
    """Draw of one board in the given state [W]; None if its rated power has no source.

    Assumes: a lower power limit leaves idle draws as they are and cuts what work draws beyond it; usual loads of decode
    and prefill (`working_power_w` takes counted ones).
    Error: the module's ranges.
    Source: catalog/data/terms.csv, terms unloaded_fraction, waiting_fraction, memory_draw and compute_draw.
    """
    draw = _draw_of(accelerator, power_limit_w)
    if draw is None:
        return None
    if state in ("unloaded", "waiting"):
        return _idle_w(accelerator, state, draw)
    watts = draw.working_w(*_USUAL_LOADS[state])
    return draw.within(watts, _USUAL_RANGE[state] if draw.is_fitted else _LENT_RANGE[state])


def working_power_w(
    accelerator: Accelerator,
    memory_fraction: float,
    compute_fraction: float,
    power_limit_w: float | None = None,
) -> Quantity | None:
    """Draw of one board that works at fractions of its bandwidth and peak rate [W]; None if its rated power has no
    source.

    Assumes: the draw of both adds up, as it did on the board that was measured, until the limit cuts it.
    Error: the module's ranges, those of prefill where matrix work draws more than memory traffic.
    Source: catalog/data/terms.csv.
    """
    draw = _draw_of(accelerator, power_limit_w)
    if draw is None:
        return None
    state: BoardState = (
        "prefill" if draw.compute * compute_fraction > draw.memory * memory_fraction else "decode"
    )
    return draw.quantity(draw.working_w(memory_fraction, compute_fraction), state)


def serving_power_w(result: ServingResult, replica: ReplicaModel) -> Quantity | None:
    """Mean draw of one board over a run [W]; None if its rated power has no source.

    The board draws its limit while it prefills, a draw by its traffic while it decodes, and the waiting draw for the
    rest.

    Assumes: prompts are computed at the rate that the limit leaves; an iteration reads the weights of a board once, of
    a mixture the experts that its sequences reach if each token chooses at random; attention's own products and the
    exchange between boards draw nothing of their own.
    Error: the module's ranges; the mean while decoding takes turns with rests of 2 to 50 ms came 2 to 8 % too low.
    Source: own derivation from counts of the run.
    """
    deployment = replica.deployment
    accelerator = replica.deployment.accelerator
    draw = _draw_of(accelerator, None)
    if draw is None or not result.duration_s:
        return None
    device = device_of(accelerator)
    counted = parameter_count(deployment.model)
    peak = matmul_peak_flop_per_s(deployment.weight_dtype, deployment.activation_dtype, device)
    flop_per_token = 2.0 * counted.active / deployment.accelerators_per_replica
    seconds = result.duration_s * deployment.num_replicas
    computed = result.input_tokens * (1.0 - (result.prefix_hit_fraction or 0.0))
    limit = power_limit(accelerator)
    rates = limit.flop_per_s if limit is not None else {}
    sustained = rates.get(deployment.weight_dtype, _SUSTAINED_FRACTION * peak)
    prefilling = min(result.busy_fraction, computed * flop_per_token / seconds / sustained)
    reached = 1.0 - (1.0 - min(1.0, counted.active / counted.total)) ** max(1.0, result.mean_batch)
    read = replica.memory.weight_bytes * reached + _cache_bytes(result, replica)
    memory = result.num_iterations * read / seconds / device.bandwidth_bytes_per_s
    compute = result.output_tokens * flop_per_token / seconds / peak
    decoding = min(
        (1.0 - draw.waiting) * (result.busy_fraction - prefilling),
        draw.memory * memory + draw.compute * compute,
    )
    prompts = (1.0 - draw.waiting) * prefilling
    watts = draw.limit_w * (draw.waiting + prompts + decoding)
    lent = _LENT_RANGE["prefill" if prompts > decoding else "decode"]
    return draw.within(watts, _SERVING_RANGE if draw.is_fitted else lent)


def _cache_bytes(result: ServingResult, replica: ReplicaModel) -> float:
    """Cache bytes that one board reads in a mean iteration [bytes]."""
    return result.mean_kv_tokens / replica.deployment.data_parallel * replica.memory.kv_bytes_per_token


def _idle_w(accelerator: Accelerator, state: BoardState, draw: _Draw) -> Quantity:
    row = find("device", f"{state}_fraction", _case(accelerator))
    if row is None:
        raise KeyError(f"no {state}_fraction of {accelerator.id}")
    watts = min(draw.limit_w, row.value * (_rated_w(accelerator) or draw.limit_w))
    measured = row.kind == "measured"
    factors = _BOARD_RANGE if accelerator.id in row.fitted_on.split() else _LENT_RANGE[state]
    return replace(draw, basis="modelled" if measured else "assumed").within(watts, factors)


def _draw_of(accelerator: Accelerator, power_limit_w: float | None) -> _Draw | None:
    rated_w = _rated_w(accelerator)
    if not rated_w:
        return None
    limit_w = min(rated_w, accelerator.tdp_w or rated_w, power_limit_w or rated_w)
    waiting, memory, compute = (
        value("device", name, _case(accelerator)) * rated_w / limit_w
        for name in ("waiting_fraction", "memory_draw", "compute_draw")
    )
    row = find("device", "memory_draw", _case(accelerator))
    fitted_on = row.fitted_on.split() if row is not None else []
    related = any(accelerators.by_id(each).architecture == accelerator.architecture for each in fitted_on)
    basis: Basis = "modelled" if related else "assumed"
    return _Draw(limit_w, min(1.0, waiting), memory, compute, basis, accelerator.id in fitted_on)


def _rated_w(accelerator: Accelerator) -> float | None:
    """Rated power of the accelerator's kind [W]; None if it has no source. A power-capped record has its cap in that
    field."""
    if accelerator.id in accelerators.all_ids():
        return accelerators.by_id(accelerator.id).tdp_w
    return accelerator.tdp_w


def _case(accelerator: Accelerator) -> TermCase:
    return TermCase(accelerator.id, architecture=accelerator.architecture)
