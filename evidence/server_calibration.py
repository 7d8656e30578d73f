"""Calibration by benchmarks of one server: factors on its step times, and the errors that they leave."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from advisor.catalog.errors import InputFileError
from advisor.catalog.schema import Calibration, ServerCalibration
from advisor.evidence.own_server import ServerComparison, ServerFigure, compare_server
from advisor.evidence.serving.case import as_published, parse_case
from advisor.evidence.serving.deployment import deployment_of
from advisor.evidence.serving.prediction import RATES

_DECODE: Final = ("tpot_ms_mean", "tpot_ms_p50", "decode_tok_s")
_PREFILL: Final = ("ttft_ms_mean", "ttft_ms_p50", "prefill_tok_s")
"""Columns that a factor is fitted on, in the order of how directly they show it."""
_MOST_ROUNDS: Final = 6
_CLOSE: Final = 0.01
"""Stop fitting once no factor moves by more than 1 %."""
_DAMPING: Final = 0.7
"""Part of a remaining difference by which a factor moves: first tokens wait in a queue, so that their time falls faster
than the steps that it consists of."""
_PLAUSIBLE: Final = (0.25, 4.0)
"""Plausible factors; beyond them the settings or units of the benchmark differ from what was stated."""
_MOST_APART: Final = 2.0
"""Largest ratio of the factors of prefill and of decode steps. Own choice: on one server both come from the same host,
clock and kernels; a larger ratio is a queue before the first token, which no factor on steps describes."""
_LEAST_SIGMA: Final[Mapping[str, float]] = {"ttft": 0.25, "tpot": 0.09}
"""Least standard deviation of what a calibration leaves, by metric: that of 89 loads of 30 published servers which were
calibrated on two other loads of theirs (2026-11-27). Fewer loads than ten cannot show less."""
_SIGMA_OF_ONE: Final[Mapping[str, float]] = {"ttft": 0.35, "tpot": 0.12}
"""Standard deviation after a single load, whose error it cannot show. Own choice: a third wider."""


@dataclass(frozen=True, slots=True)
class FittedServer:
    """Calibration of a server, with the comparison before and after."""

    calibration: Calibration
    before: tuple[ServerComparison, ...]
    after: tuple[ServerComparison, ...]

    @property
    def error_before(self) -> float:
        """Mean absolute logarithm of measured over predicted without the calibration."""
        return statistics.fmean(one.error for one in self.before)

    @property
    def error_after(self) -> float:
        """Mean absolute logarithm of measured over predicted with it."""
        return statistics.fmean(one.error for one in self.after)


def fit_server(
    rows: Sequence[tuple[Mapping[str, str], tuple[str, ...]]], *, measured_on: str = "", seed: int = 0
) -> FittedServer:
    """Return the calibration of one server from its measured loads.

    Raises: InputFileError: no load could be predicted, loads are of several deployments, or a factor is implausible.
    """
    before = tuple(compare_server(row, assumed, seed=seed) for row, assumed in rows)
    usable = [number for number, one in enumerate(before) if one.figures]
    if not usable:
        reasons = "; ".join(dict.fromkeys(one.prediction.reason for one in before if one.prediction.reason))
        raise InputFileError(
            "no load of the benchmark can be predicted", why=reasons, fix="check --model and --gpu"
        )
    calibration = _blank([rows[number][0] for number in usable], measured_on)
    chosen = [rows[number] for number in usable]
    after = [before[number] for number in usable]
    for _ in range(_MOST_ROUNDS):
        assert calibration.server is not None
        decode = _ratio(after, _DECODE) or _ratio(after, RATES) or 0.0
        prefill = _ratio(after, _PREFILL)
        steps = (decode, decode if prefill is None else _DAMPING * prefill)
        if max(map(abs, steps)) < _CLOSE:
            break
        scales = (
            calibration.server.decode_scale * math.exp(steps[0]),
            calibration.server.prefill_scale * math.exp(steps[1]),
        )
        calibration = _with_scales(calibration, scales)
        after = [
            compare_server(row, assumed, calibration=calibration, seed=seed, with_causes=False)
            for row, assumed in chosen
        ]
    return FittedServer(_with_errors(calibration, after), before, tuple(after))


def _blank(rows: Sequence[Mapping[str, str]], measured_on: str) -> Calibration:
    """Return a calibration without factors of the deployment that all rows share."""
    found = {}
    for row in rows:
        case = as_published(parse_case(row, 1, "stranger"))
        deployment = deployment_of(case)
        server = ServerCalibration(
            engine=deployment.engine.id,
            model=deployment.model.id,
            weight_dtype=deployment.weight_dtype,
            tensor_parallel=deployment.tensor_parallel,
            pipeline_parallel=deployment.pipeline_parallel,
            data_parallel=deployment.data_parallel,
            ttft_sigma=_SIGMA_OF_ONE["ttft"],
            tpot_sigma=_SIGMA_OF_ONE["tpot"],
            num_loads=len(rows),
        )
        found[(deployment.accelerator.id, server)] = deployment.accelerators_per_replica
    if len(found) > 1:
        raise InputFileError(
            "the results are of several servers",
            why="a calibration is of one model in one layout on one kind of accelerator",
            fix="give the results of one server",
        )
    ((accelerator, server), count) = next(iter(found.items()))
    return Calibration(
        accelerator=accelerator, num_accelerators=count, measured_on=measured_on, server=server
    )


def _ratio(compared: Sequence[ServerComparison], metrics: Sequence[str]) -> float | None:
    """Median logarithm of how many times slower the server is in these columns; None without any."""
    found = [figure.log_ratio for one in compared for figure in one.figures if figure.metric in metrics]
    return statistics.median(found) if found else None


def _with_scales(calibration: Calibration, scales: tuple[float, float]) -> Calibration:
    assert calibration.server is not None
    decode, prefill = scales
    if not _PLAUSIBLE[0] <= decode <= _PLAUSIBLE[1]:
        raise InputFileError(
            f"the server's decode steps are {decode:.2g} times as long as predicted",
            why="so large a factor is another setting, another board or another unit",
            fix="advisor validate file FILE shows what would explain it; state that setting",
        )
    prefill = min(max(prefill, decode / _MOST_APART), decode * _MOST_APART)
    server = calibration.server.model_copy(update={"decode_scale": decode, "prefill_scale": prefill})
    return calibration.model_copy(update={"server": server})


def _with_errors(calibration: Calibration, after: Sequence[ServerComparison]) -> Calibration:
    """Return the calibration with the spread of the errors that it leaves between loads."""
    assert calibration.server is not None
    if len(after) < 2:
        return calibration
    first = [figure for one in after for figure in one.figures if figure.metric.startswith("ttft")]
    others = [figure for one in after for figure in one.figures if not figure.metric.startswith("ttft")]
    sigmas = {"ttft_sigma": _sigma(first, "ttft"), "tpot_sigma": _sigma(others, "tpot")}
    server = calibration.server.model_copy(update=sigmas)
    return calibration.model_copy(update={"server": server})


def _sigma(figures: Sequence[ServerFigure], metric: str) -> float:
    if not figures:
        return _SIGMA_OF_ONE[metric]
    squares = math.fsum(figure.log_ratio**2 for figure in figures) / len(figures)
    return min(1.0, max(_LEAST_SIGMA[metric], math.sqrt(squares)))
